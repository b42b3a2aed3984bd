"""Interval propagation: the possible counts of each cell, given public sums, bounds and supports.

Intervals are propagated from row to row (bound propagation), and each end moves to the next possible count of its cell,
until nothing changes. A cell with one possible count is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.lattice.algebra.systems import IntVector
from ppdinf.lattice.points.fiber_tables import cell_intervals

PASSES = 20

type Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Support:
    """Possible counts of cells."""

    lower: IntVector
    possible: Mask

    @cached_property
    def low(self) -> IntVector:
        """Smallest possible count of each cell."""
        found: IntVector = self.lower + self.possible.argmax(axis=1)
        return found

    @cached_property
    def high(self) -> IntVector:
        """Largest possible count of each cell."""
        found: IntVector = self.lower + self.possible.shape[1] - 1 - self.possible[:, ::-1].argmax(axis=1)
        return found

    @property
    def is_empty(self) -> bool:
        """Whether some cell has no possible count."""
        return not bool(self.possible.any(axis=1).all())

    @property
    def fixed(self) -> Mask:
        """Cells with one possible count."""
        found: Mask = self.low == self.high
        return found

    @property
    def holes(self) -> Mask:
        """Cells with an impossible count between two possible counts."""
        found: Mask = self.possible.sum(axis=1) < self.high - self.low + 1
        return found

    def around(self, table: IntVector, cells: IntVector) -> Support:
        """Return the support with all other cells fixed at their counts in a table."""
        possible = np.zeros_like(self.possible)
        possible[np.arange(table.size), table - self.lower] = True
        possible[cells] = self.possible[cells]
        return Support(self.lower, possible)

    def counts(self, cell: int) -> IntVector:
        """Return the possible counts of a cell."""
        found: IntVector = self.lower[cell] + np.flatnonzero(self.possible[cell])
        return found


def presolve(
    A: sparse.csr_array, values: IntVector, B: sparse.csr_array, limits: IntVector, support: Support
) -> Support:
    """Remove counts that interval propagation proves impossible under ``A x = values`` and ``B x >= limits``."""
    d, width = support.possible.shape
    units = sparse.eye_array(d, dtype=np.int64, format="csr")
    rows = sparse.csr_array(sparse.vstack([B, units, -units], format="csr"))
    for _ in range(PASSES):
        if support.is_empty:
            break
        low, high = cell_intervals(A, values, rows, np.concatenate([limits, support.low, -support.high]))
        counts = support.lower[:, None] + np.arange(width)
        inside = (counts >= low[:, None]) & (counts <= high[:, None])
        narrower = Support(support.lower, support.possible & inside)
        if (narrower.possible == support.possible).all():
            break
        support = narrower
    return support
