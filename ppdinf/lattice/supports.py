"""Supports of counts, possibly with holes: possible counts by interval propagation, and tables within them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.lattice.fiber_tables import cell_intervals
from ppdinf.lattice.programme import Programme
from ppdinf.lattice.rows import Rows
from ppdinf.lattice.systems import exact_product

PASSES = 20


@dataclass(frozen=True, eq=False)
class Support:
    """Possible counts of cells."""

    lower: Integers
    rows: Rows[np.bool_]

    @property
    def possible(self) -> Flags:
        """The rows of all cells, shape (d, width)."""
        return self.rows.whole

    @cached_property
    def low(self) -> Integers:
        """Smallest possible count of each cell."""
        return self.lower + self.rows.values.argmax(axis=1)[self.rows.of]

    @cached_property
    def high(self) -> Integers:
        """Largest possible count of each cell."""
        last = self.rows.values.shape[1] - 1 - self.rows.values[:, ::-1].argmax(axis=1)
        return self.lower + last[self.rows.of]

    @property
    def is_empty(self) -> bool:
        """Whether some cell has no possible count."""
        return not bool(self.rows.values.any(axis=1).all())

    @property
    def fixed(self) -> Flags:
        """Cells with one possible count."""
        return self.low == self.high

    @property
    def holes(self) -> Flags:
        """Cells with an impossible count between two possible counts."""
        return self.rows.values.sum(axis=1)[self.rows.of] < self.high - self.low + 1

    def around(self, table: Integers, cells: Integers) -> Support:
        """Return the support with all other cells fixed at their counts in a table."""
        possible = np.zeros_like(self.possible)
        possible[np.arange(table.size), table - self.lower] = True
        possible[cells] = self.possible[cells]
        return Support(self.lower, Rows.each(possible))

    def counts(self, cell: int) -> Integers:
        """Return the possible counts of a cell."""
        return self.lower[cell] + np.flatnonzero(self.rows.values[self.rows.of[cell]])


def presolve(A: sparse.csr_array, values: Integers, B: sparse.csr_array, limits: Integers, support: Support) -> Support:
    """Remove counts that interval propagation proves impossible under ``A x = values`` and ``B x >= limits``."""
    d, width = support.low.size, support.rows.values.shape[1]
    units = sparse.eye_array(d, dtype=np.int64, format="csr")
    rows = sparse.csr_array(sparse.vstack([B, units, -units], format="csr"))
    for _ in range(PASSES):
        if support.is_empty:
            break
        low, high = cell_intervals(A, values, rows, np.concatenate([limits, support.low, -support.high]))
        counts = support.lower[:, None] + np.arange(width)
        inside = (counts >= low[:, None]) & (counts <= high[:, None])
        narrower = Support(support.lower, Rows.each(support.possible & inside))
        if (narrower.possible == support.possible).all():
            break
        support = narrower
    return support


SECONDS = 20.0


def nearest_table(
    A: sparse.csr_array, values: Integers, B: sparse.csr_array, limits: Integers, support: Support, near: Integers
) -> Integers | None:
    """Return a table near a given one with ``A x = values``, ``B x >= limits`` and counts in their supports."""
    return _solve(A, values, B, limits, support, near, None)


def random_vertex(
    A: sparse.csr_array, values: Integers, B: sparse.csr_array, limits: Integers, support: Support,
    rng: np.random.Generator,
) -> Integers | None:  # fmt: skip
    """Return a table that maximises a random objective; see `nearest_table`."""
    return _solve(A, values, B, limits, support, None, rng.standard_normal(support.low.size))


def _solve(
    A: sparse.csr_array, values: Integers, B: sparse.csr_array, limits: Integers, support: Support,
    near: Integers | None, objective: Reals | None,
) -> Integers | None:  # fmt: skip
    """Solve for x - base, with the distance from `near` or an objective as cost."""
    if support.is_empty:
        return None
    d, base = support.low.size, support.low if near is None else near
    programme = Programme()
    ends = support.low - base, support.high - base
    x = programme.signed(d, 1.0, *ends) if objective is None else programme.variables(d, -objective, *ends)
    missing = values - exact_product(A, base)
    programme.rows(missing, missing, (A, x))
    programme.rows(limits - exact_product(B, base), np.inf, (B, x))
    # a cell with holes is in one of its segments, which a binary variable for each segment chooses
    rows = np.flatnonzero(support.holes)
    padded = np.pad(support.possible[rows].astype(np.int8), ((0, 0), (1, 1)))
    change = np.diff(padded, axis=1)
    row, begin = np.nonzero(change == 1)
    _, end = np.nonzero(change == -1)
    cell = rows[row]
    first, last = support.lower[cell] + begin, support.lower[cell] + end - 1
    chosen = programme.variables(cell.size, 0.0, 0.0, 1.0)
    with_holes, row = np.unique(cell, return_inverse=True)
    at, shape = (row, np.arange(cell.size)), (with_holes.size, cell.size)
    cells = sparse.eye_array(d, format="csr")[with_holes]
    programme.rows(1.0, 1.0, (sparse.coo_array((np.ones(cell.size), at), shape=shape), chosen))
    programme.rows(0.0, np.inf, (cells, x), (sparse.coo_array((base[cell] - first, at), shape=shape), chosen))
    programme.rows(-np.inf, 0.0, (cells, x), (sparse.coo_array((base[cell] - last, at), shape=shape), chosen))
    solution = programme.solve(time_limit=SECONDS)
    if solution.values is None:
        return None
    table: Integers = base + solution.values[x].astype(np.int64)
    inside = (table >= support.low) & (table <= support.high)
    agrees = (exact_product(A, table) == values).all() and (exact_product(B, table) >= limits).all()
    if not (agrees and inside.all() and support.rows.values[support.rows.of, table - support.lower].all()):
        return None
    return table
