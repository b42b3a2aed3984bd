"""The law of the Wasserstein exponential mechanism with a user-defined loss, by enumeration of all tables.

The sensitivity sigma(Delta_z) of a loss is its largest change between tables that a secret pair moves by Delta_z. For a
norm it equals Delta_z. For any other loss it is computed here among all tables that satisfy the public statements.

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

MOST = 1000  # tables; losses are computed for all pairs


@dataclass(frozen=True, eq=False)
class ListedLaw:
    """Tables, and log weights ``log_w[x, y]`` of every release y given every table x."""

    system: System
    tables: NDArray[np.int64]
    log_w: NDArray[np.float64]
    sigma: float

    def place(self, cells: NDArray[np.int64]) -> int | None:
        """Return the index of a table in the list, or None."""
        places = np.flatnonzero((self.tables == cells).all(axis=1))
        return int(places[0]) if places.size else None

    def draw(self, cells: NDArray[np.int64], draws: int, stream: BitStream) -> NDArray[np.int64]:
        """Draw releases of a table; int64 of shape (draws, d), exact for the weights in double precision."""
        one_of = Elimination(np.empty((0, 1), dtype=np.int64), [], [table(0, self.log_w[self.place(cells)])])
        return self.tables[one_of.draw(draws, stream)[:, 0]]

    def log_normaliser(self, cells: NDArray[np.int64]) -> float:
        """Return the logarithm of C(x)."""
        return float(np.logaddexp.reduce(self.log_w[self.place(cells)]))

    def log_probability(self, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Return the log probability of releasing y given the table x; ``-inf`` where one of them is not listed."""
        released, confidential = self.place(y), self.place(x)
        if released is None or confidential is None:
            return -np.inf
        return float(self.log_w[confidential, released]) - self.log_normaliser(x)

    def is_of(self, system: System) -> bool:
        """Return whether a system has the same tables; its statements must be the same."""
        same = self.system
        return (
            same.frame.shape == system.frame.shape
            and np.array_equal(same.values, system.values)
            and np.array_equal(same.limits, system.limits)
            and np.array_equal(same.A.toarray(), system.A.toarray())
            and np.array_equal(same.B.toarray(), system.B.toarray())
        )


def listed_law(
    system: System,
    loss: Callable[[Array, Array], float],
    rate: float,
    sensitivity: float,
    base: BaseMeasure | None = None,
) -> ListedLaw:
    """Compute the loss for every pair of tables, and the weights ``exp(-rate loss / sigma)`` times the base measure."""
    tables = fiber_tables(system.A, system.values, system.B, system.limits, most=MOST)
    if tables is None:
        raise InvariantError(
            f"a user-defined loss is computed for all tables, and more than {MOST:,} satisfy the public statements: "
            "use the loss 'l1' or 'l2', or make more public"
        )
    losses = _losses(loss, tables, system.frame.shape)
    sigma = _sensitivity(losses, tables, sensitivity)
    if not sigma and len(tables) > 1:
        raise PrivacyError(
            f"the loss is constant between tables within distance {sensitivity:g} of each other: give a loss that "
            "distinguishes these tables, or a larger sensitivity"
        )
    log_w = -rate / (sigma or 1.0) * losses
    log_w += [log_base_measure(base, y) for y in tables]
    return ListedLaw(system, tables, log_w, sigma)


def _losses(
    loss: Callable[[Array, Array], float], tables: NDArray[np.int64], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Compute ``loss(y, x)`` for all pairs, indexed ``[x, y]``."""
    shaped = tables.reshape(-1, *shape)
    shaped.flags.writeable = False
    try:
        losses = np.array([[loss(y, x) for y in shaped] for x in shaped], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise PrivacyError("the loss of two tables must be one number: loss(y, x) of two arrays") from error
    if losses.shape != (len(tables), len(tables)) or not np.isfinite(losses).all() or (losses < 0).any():
        raise PrivacyError("the loss of two tables must be finite and non-negative")
    return losses


def _sensitivity(losses: NDArray[np.float64], tables: NDArray[np.int64], reach: float) -> float:
    """Return the largest ``|loss(y, x) - loss(y, x')|`` over all y and all x, x' within l1 distance `reach`."""
    near = (np.abs(tables - x).sum(axis=1) <= reach for x in tables)
    return max(
        float(np.abs(losses[close] - losses_of_x).max()) for losses_of_x, close in zip(losses, near, strict=True)
    )
