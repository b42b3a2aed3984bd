"""The Wasserstein exponential mechanism with any loss, over tables that are few enough to list.

How much a loss can change between tables that a secret moves is its sensitivity sigma(Delta_z). Of a norm that is
Delta_z itself; of any other loss it is found here among all tables that agree with what is public.

J. Seeman, M. Reimherr, A. Slavković, "Formal privacy for partially private data", Theorem 9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppdinf._frozen import assign
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import System
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.laws.likelihood import Likelihood
from ppdinf.mechanisms.wasserstein import WassersteinExponential
from ppdinf.mechanisms.weighted import log_base_measure
from ppdinf.noise.bits.tape import Tape
from ppdinf.noise.exact.elimination import Elimination
from ppdinf.noise.exact.potentials import table
from ppdinf.noise.plan import Plan

__all__ = ["StatedLoss"]

MOST = 1000  # tables, whose losses are worked out for all pairs


@dataclass(frozen=True, eq=False)
class _Law:
    """Tables, and log weights ``log_w[x, y]`` of every release y given every table x."""

    system: System
    tables: NDArray[np.int64]
    log_w: NDArray[np.float64]
    sigma: float

    def place(self, cells: NDArray[np.int64]) -> int | None:
        """Find a table in the list."""
        found = np.flatnonzero((self.tables == cells).all(axis=1))
        return int(found[0]) if found.size else None

    def is_of(self, system: System) -> bool:
        """Whether a system has the same tables, given that its statements are the same."""
        own = self.system
        return (
            own.frame.shape == system.frame.shape
            and np.array_equal(own.values, system.values)
            and np.array_equal(own.limits, system.limits)
            and np.array_equal(own.A.toarray(), system.A.toarray())
            and np.array_equal(own.B.toarray(), system.B.toarray())
        )


class StatedLoss(WassersteinExponential):
    """A Wasserstein exponential mechanism with a loss of one's own, settled on everything public of a table.

    `WassersteinExponential` with a callable for `loss` becomes one when it meets public sums.

    Parameters
    ----------
    stated : WassersteinExponential
    system : System
        Public sums and bounds that leave at most 1,000 tables.

    Raises
    ------
    InvariantError
        There are too many tables.
    PrivacyError
        The loss is no finite number from 0 on, or the same for all tables within `sensitivity` of each other.

    Notes
    -----
    The loss is worked out for every pair of tables: a million calls for 1,000 of them.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> largest = lambda y, x: np.abs(y - x).max()
    >>> mechanism = ppd.WassersteinExponential(public, 1, sensitivity=2, secrets="x", loss=largest)
    >>> mechanism.on(public.on([3, 0, 2])).sigma  # one person in another cell moves it by 1
    1.0
    """

    _law: _Law

    def __init__(self, stated: WassersteinExponential, system: System) -> None:
        super().__init__(stated.public, stated.epsilon, stated.sensitivity, stated.secrets, stated.base, stated.loss)
        assign(self, _law=self._listed(system))

    def _listed(self, system: System) -> _Law:
        base = self.base_measure(system)
        tables = fiber_tables(system.A, system.values, system.B, system.limits, most=MOST)
        if tables is None:
            raise InvariantError(
                f"a loss of one's own is worked out for all tables, and more than {MOST:,} agree with what is public: "
                "use the loss 'l1' or 'l2', or make more public"
            )
        losses = _losses(self.loss, tables, system.frame.shape)  # type: ignore[arg-type]
        sigma = _sensitivity(losses, tables, float(self.sensitivity))
        if not sigma and len(tables) > 1:
            raise PrivacyError(
                f"the loss is the same for all tables within a distance of {self.sensitivity} of each other: give a "
                "loss that tells tables apart, or a larger sensitivity"
            )
        log_w = -float(self.epsilon) / (2 * sigma or 1.0) * losses
        log_w += [log_base_measure(base, y) for y in tables]
        return _Law(system, tables, log_w, sigma)

    @property
    def sigma(self) -> float:
        """Most by which the loss of any release changes between tables at l1 distance `sensitivity` or less."""
        return self._law.sigma

    def on(self, system: System) -> WassersteinExponential:
        """Settle again where what is public has other values."""
        return self if self._law.is_of(system) else StatedLoss(self, system)

    def likelihood(self, system: System) -> Likelihood | None:
        """Return None: walks go cell by cell, and this loss does not."""
        return None

    def intractable(self, system: System | None = None) -> str:
        """Say what to do instead."""
        return (
            "a loss of one's own is no sum over the cells, which inference by chains needs: the tables are few, so add "
            "release.mechanism.logp(release.table, x) to the log prior of each, or release by the loss 'l1' or 'l2'"
        )

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Say that all tables are listed; refuse too small a sensitivity."""
        self._require_sensitivity(system)
        return Plan("listed", True, f"{len(self._law.tables)} tables agree with what is public")

    def draw(
        self, system: System, cells: NDArray[np.int64], draws: int, tape: Tape, plan: Plan | None = None
    ) -> NDArray[np.int64]:
        """Draw releases of a table; int64 of shape (draws, d), exact for the weights in double precision."""
        one_of = Elimination(np.empty((0, 1), dtype=np.int64), [], [table(0, self._law.log_w[self._law.place(cells)])])
        return self._law.tables[one_of.draw(draws, tape)[:, 0]]

    def log_normaliser(self, system: System, cells: NDArray[np.int64]) -> float:
        """Logarithm of C(x)."""
        return float(np.logaddexp.reduce(self._law.log_w[self._law.place(cells)]))

    def log_weight(self, system: System, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Log probability of releasing y when the table is x; ``-inf`` where either breaks a public bound."""
        released, table = self._law.place(y), self._law.place(x)
        if released is None or table is None:
            return -np.inf
        return float(self._law.log_w[table, released]) - self.log_normaliser(system, x)


def _losses(
    loss: Callable[[Any, Any], float], tables: NDArray[np.int64], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Work out ``loss(y, x)`` for all pairs, ``[x, y]``."""
    shaped = tables.reshape(-1, *shape)
    shaped.flags.writeable = False
    try:
        found = np.array([[loss(y, x) for y in shaped] for x in shaped], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise PrivacyError("the loss of two tables must be one number: loss(y, x) of whole arrays") from error
    if found.shape != (len(tables), len(tables)) or not np.isfinite(found).all() or (found < 0).any():
        raise PrivacyError("the loss of two tables must be one finite number from 0 on")
    return found


def _sensitivity(losses: NDArray[np.float64], tables: NDArray[np.int64], reach: float) -> float:
    """Find the largest ``|loss(y, x) - loss(y, x')|`` over all y and tables x, x' at l1 distance `reach` or less."""
    near = (np.abs(tables - x).sum(axis=1) <= reach for x in tables)
    return max(float(np.abs(losses[close] - own).max()) for own, close in zip(losses, near, strict=True))
