"""All tables with given sums and bounds: intervals of cells, enumeration, cells with one value."""

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.errors import InvariantError
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.programme import Programme
from ppdinf.lattice.systems import MatrixLike, exact_product

PARTIAL = 4 * 10**6  # largest number of partial tables
ENTRIES = 2**24  # largest number of entries of dense rows
PASSES = 100
EXACT = 2.0**53  # doubles represent all integers up to here
NEAR, ROUNDING = 1e-9, 1e-15


def fiber_tables(
    A: MatrixLike, values: Integers, B: MatrixLike, limits: Integers, *, most: int = 10_000
) -> Integers | None:
    """List ``{x : A x = values, B x >= limits}``."""
    low, high = cell_intervals(A, values, B, limits)
    if not np.all(np.isfinite(low) & np.isfinite(high)):
        return None
    if np.any(low > high):
        return np.empty((0, low.size), dtype=np.int64)
    if low.size * (2 * np.shape(A)[0] + np.shape(B)[0]) > ENTRIES:
        return None
    A, B = (sp.csr_array(M).toarray() for M in (A, B))
    rows = np.vstack([A, -A, B]).astype(np.float64)  # all constraints as rows @ x >= least
    least = np.concatenate([values, -np.asarray(values), limits]).astype(np.float64)
    most_left = np.where(rows > 0, rows * high, rows * low)[:, ::-1].cumsum(axis=1)[:, ::-1]
    # bounds on the contribution of the cells from j on to each row
    most_left = np.column_stack([most_left, np.zeros(len(rows))])
    tables, sums = np.empty((1, 0), dtype=np.int64), np.zeros((1, len(rows)))
    for j in range(rows.shape[1]):
        if len(tables) * (high[j] - low[j] + 1) > PARTIAL:  # checked before arrays of this size are allocated
            return None
        counts = np.arange(int(low[j]), int(high[j]) + 1)
        further = (sums[:, np.newaxis] + counts[:, np.newaxis] * rows[:, j]).reshape(-1, len(rows))
        kept = np.all(further + most_left[:, j + 1] >= least - 0.5, axis=1)
        tables = np.column_stack([np.repeat(tables, counts.size, axis=0), np.tile(counts, len(tables))])[kept]
        sums = further[kept]
    return tables if len(tables) <= most else None


def cell_intervals(A: MatrixLike, values: Integers, B: MatrixLike, limits: Integers) -> tuple[Reals, Reals]:
    """Bound every cell by interval propagation over single rows until nothing changes."""
    rows = sp.vstack([sp.csr_array(A), -sp.csr_array(A), sp.csr_array(B)], format="csr")
    least = np.concatenate([values, -np.asarray(values), limits]).astype(np.float64)
    cells, weights = rows.indices, rows.data
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    up = weights > 0
    low, high = np.full(rows.shape[1], -np.inf), np.full(rows.shape[1], np.inf)
    for _ in range(PASSES):
        before = low.copy(), high.copy()
        most = weights * np.where(up, high[cells], low[cells])
        endless = np.isinf(most)
        most[endless] = 0.0
        total, size, open_ends = (
            np.bincount(row, weights=part, minlength=least.size) for part in (most, np.abs(most), endless)
        )
        # a row does not bound a cell while another cell is unbounded
        says = open_ends[row] == endless
        size = (size + np.abs(least))[row]
        slack = np.where(size < EXACT, 0.0, NEAR + ROUNDING * size)  # sums of larger integers lose digits
        ends = np.ceil((least[row] - (total[row] - most) - slack) / np.abs(weights))
        np.maximum.at(low, cells[up & says], ends[up & says])
        np.minimum.at(high, cells[~up & says], -ends[~up & says])
        if np.array_equal(before[0], low) and np.array_equal(before[1], high):
            break
        if np.any(low > high):
            break
    return low + 0.0, high + 0.0  # removes negative zeros


SMALL = 100
"""Largest number of undecided cells for which the result is exact."""

SECONDS = 1.0  # time limit in seconds per integer programme; a cell that is then undecided is not marked as fixed


def fixed_cells(found: Structure, A: sp.csr_array, values: Integers, B: sp.csr_array, limits: Integers) -> Flags:
    """Return which cells have one value in all integer x with ``A x = values, B x >= limits``."""
    if not B.nnz:
        return found.fixed.copy()
    low, high = cell_intervals(A, values, B, limits)
    if np.any(low > high):
        return found.fixed.copy()
    fixed: Flags = found.fixed | (low == high)
    if fixed.any() and not fixed.all():  # these cells may determine further cells
        fixed = structure(sp.vstack([A, sp.eye_array(fixed.size, dtype=np.int64, format="csr")[fixed]])).fixed
    if 0 < np.sum(~fixed) <= SMALL:
        fixed = _decided(found, A, values, B, limits, fixed)
    return fixed


def _decided(
    found: Structure, A: sp.csr_array, values: Integers, B: sp.csr_array, limits: Integers, fixed: Flags
) -> Flags:
    """Decide every remaining cell by a search for tables that differ from a given table in this cell."""
    try:
        x = nearest_feasible(A, values, B, limits, structure=found)
    except InvariantError:
        return fixed
    left = (exact_product(B, x) - limits).astype(np.int64)  # slack of every bound
    free = np.zeros(fixed.size, dtype=bool)
    for step in sp.csc_array(found.lattice.basis).T.toarray():
        for z in (step, -step):
            if np.all(B @ z >= -left):
                free |= z != 0
    fixed = fixed.copy()
    for cell in np.flatnonzero(~fixed & ~free):
        certain = True
        for sign in (1, -1):
            if free[cell]:
                break
            found_step, proved = _step_through(A, B, left, int(cell), sign)
            certain &= proved
            if found_step is not None:
                free |= found_step != 0
        fixed[cell] = certain and not free[cell]
    return fixed


def _step_through(
    A: sp.csr_array, B: sp.csr_array, left: Integers, cell: int, sign: int
) -> tuple[Integers | None, bool]:
    """Return z with ``A z = 0``, ``B z >= -left`` and a unit up or down in a cell, and whether the result is proved."""
    low, high = np.full(A.shape[1], -np.inf), np.full(A.shape[1], np.inf)
    (low if sign > 0 else high)[cell] = sign
    programme = Programme()
    step = programme.signed(low.size, 1.0, low, high)
    programme.rows(0.0, 0.0, (A, step))
    programme.rows(-left, np.inf, (B, step))
    solution = programme.solve(time_limit=SECONDS, mip_rel_gap=1e9)
    if solution.values is None:
        return None, solution.infeasible
    z = solution.values[step].astype(np.int64)
    agrees = not np.any(exact_product(A, z)) and np.all(exact_product(B, z) >= -left)
    return (z, True) if agrees and z[cell] * sign >= 1 else (None, False)
