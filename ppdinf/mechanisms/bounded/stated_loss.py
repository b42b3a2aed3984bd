"""The law of the Wasserstein exponential mechanism with any loss, over tables that are few enough to list.

How much a loss can change between tables that a secret moves is its sensitivity sigma(Delta_z). Of a norm that is
Delta_z itself; of any other loss it is found here among all tables that agree with what is public.

J. Seeman, M. Reimherr, A. Slavković, "Formal privacy for partially private data", Theorem 9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.types import Array
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import System
from ppdinf.lattice.points.fiber_tables import fiber_tables
from ppdinf.mechanisms.bounded.base_measure import BaseMeasure, log_base_measure
from ppdinf.noise.exact.elimination.potentials import table
from ppdinf.noise.exact.elimination.variable_elimination import Elimination
from ppdinf.noise.primitives.stream import BitStream

__all__ = ["ListedLaw", "listed_law"]

MOST = 1000  # tables, whose losses are worked out for all pairs


@dataclass(frozen=True, eq=False)
class ListedLaw:
    """Tables, and log weights ``log_w[x, y]`` of every release y given every table x."""

    system: System
    tables: NDArray[np.int64]
    log_w: NDArray[np.float64]
    sigma: float

    def place(self, cells: NDArray[np.int64]) -> int | None:
        """Find a table in the list."""
        found = np.flatnonzero((self.tables == cells).all(axis=1))
        return int(found[0]) if found.size else None

    def draw(self, cells: NDArray[np.int64], draws: int, stream: BitStream) -> NDArray[np.int64]:
        """Draw releases of a table; int64 of shape (draws, d), exact for the weights in double precision."""
        one_of = Elimination(np.empty((0, 1), dtype=np.int64), [], [table(0, self.log_w[self.place(cells)])])
        return self.tables[one_of.draw(draws, stream)[:, 0]]

    def log_normaliser(self, cells: NDArray[np.int64]) -> float:
        """Logarithm of C(x)."""
        return float(np.logaddexp.reduce(self.log_w[self.place(cells)]))

    def log_probability(self, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Log probability of releasing y when the table is x; ``-inf`` where either is not in the list."""
        released, own = self.place(y), self.place(x)
        if released is None or own is None:
            return -np.inf
        return float(self.log_w[own, released]) - self.log_normaliser(x)

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


def listed_law(
    system: System,
    loss: Callable[[Array, Array], float],
    rate: float,
    sensitivity: float,
    base: BaseMeasure | None = None,
) -> ListedLaw:
    """Work out the loss for every pair of tables, and weights ``exp(-rate loss / sigma)`` times the base measure.

    Raises
    ------
    InvariantError
        More than 1,000 tables agree with what is public.
    PrivacyError
        The loss is no finite number from 0 on, or the same for all tables within `sensitivity` of each other.
    """
    tables = fiber_tables(system.A, system.values, system.B, system.limits, most=MOST)
    if tables is None:
        raise InvariantError(
            f"a loss of one's own is worked out for all tables, and more than {MOST:,} agree with what is public: "
            "use the loss 'l1' or 'l2', or make more public"
        )
    losses = _losses(loss, tables, system.frame.shape)
    sigma = _sensitivity(losses, tables, sensitivity)
    if not sigma and len(tables) > 1:
        raise PrivacyError(
            f"the loss is the same for all tables within a distance of {sensitivity:g} of each other: give a "
            "loss that tells tables apart, or a larger sensitivity"
        )
    log_w = -rate / (sigma or 1.0) * losses
    log_w += [log_base_measure(base, y) for y in tables]
    return ListedLaw(system, tables, log_w, sigma)


def _losses(
    loss: Callable[[Array, Array], float], tables: NDArray[np.int64], shape: tuple[int, ...]
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
