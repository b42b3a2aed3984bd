"""Exact ranges of sums of cells over all integer tables that satisfy linear statements.

Steps:

1. interval propagation over single rows;
2. if any two rows are nested or disjoint, propagation along the tree of their sums, which is exact: each sum is one
   more variable, and in a tree the range of a variable is the set of values that its neighbours permit;
3. otherwise integer programmes (HiGHS), one independent block of undecided cells at a time. A table that reaches an end
   of a range by propagation proves this end, so programmes with random goals for all undecided sums of a block come
   first, and each remaining end has its own programme. An infinite end is proved by a table and integers that can be
   added to it any number of times.

References
----------
L. H. Cox, "Suppression methodology and statistical disclosure control", J. Amer. Statist. Assoc. 75 (1980), for the
audit of suppressed tables by linear programmes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.progress import progress
from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.errors import InvariantError
from ppdinf.fiber.nested_sums.join_tree import Forest, forest_of
from ppdinf.lattice.fiber_tables import EXACT, PASSES, cell_intervals
from ppdinf.lattice.programme import Programme

GOALS = 40  # largest number of programmes with random goals per block
GAP = 0.02  # accepted relative distance of a random goal from its optimum
GAIN = 0.02  # share of the undecided ends that such a programme must decide for the next one to be worthwhile

STEP = 2.0**20  # largest change of a cell by the integers that prove an infinite end

type Ends = tuple[Reals, Reals]


@dataclass(frozen=True, eq=False)
class Rows:
    """Statements ``low <= matrix @ x <= high``; the ends are integers or infinite."""

    matrix: sp.csr_array
    low: Reals
    high: Reals


def identified_sums(
    rows: Rows, cells: Ends, wanted: sp.csr_array, seconds: float = 300.0, progressbar: bool = False
) -> tuple[Reals, Reals, Flags]:
    """Return the smallest and largest value of each wanted sum over all integer tables that satisfy the rows."""
    forest = _tree_of(rows, wanted)
    if forest is not None:
        low, high, exact = _in_tree(forest, rows, cells)
        return low, high, np.full(low.size, exact)
    return _by_programmes(rows, cells, wanted, monotonic() + seconds, progressbar)


def bounds_of_sums(rows: Rows, cells: Ends, wanted: sp.csr_array) -> Ends:
    """Return bounds on sums by propagation, without integer programmes."""
    forest = _tree_of(rows, wanted)
    return _range_of(wanted, cells) if forest is None else _in_tree(forest, rows, cells)[:2]


def _tree_of(rows: Rows, wanted: sp.csr_array) -> Forest | None:
    """Return the tree of all sums; None if two sums overlap, or if it is too deep for propagation."""
    forest = forest_of(sp.csr_array(sp.vstack([rows.matrix, wanted], format="csr")))
    return forest if forest is not None and _depth(forest) < PASSES // 2 - 1 else None


def _depth(forest: Forest) -> int:
    deepest, at = 0, forest.parent[forest.parent >= 0]
    while at.size:
        deepest, at = deepest + 1, forest.parent[at]
        at = at[at >= 0]
    return deepest


def _in_tree(forest: Forest, rows: Rows, cells: Ends) -> tuple[Reals, Reals, bool]:
    """Return ranges of the sums after the rows, by propagation with a variable for each sum: ``sum - parts = 0``."""
    d, m = forest.node.size, forest.parent.size
    inside, below = np.flatnonzero(forest.node >= 0), np.flatnonzero(forest.parent >= 0)
    sums = np.concatenate([forest.node[inside], forest.parent[below], np.arange(m)])
    parts = np.concatenate([inside, d + below, d + np.arange(m)])
    weights = np.repeat([-1, 1], [sums.size - m, m])
    balance = sp.csr_array((weights, (sums, parts)), shape=(m, d + m))
    low, high = (np.append(end, np.full(m, side)) for end, side in zip(cells, (-np.inf, np.inf), strict=True))
    stated, wanted = d + forest.of_row[: rows.low.size], d + forest.of_row[rows.low.size :]
    np.maximum.at(low, stated, rows.low)
    np.minimum.at(high, stated, rows.high)
    low, high = _propagated(Rows(balance, np.zeros(m), np.zeros(m)), (low, high))
    ends = np.abs(np.concatenate([low, high]))
    return low[wanted], high[wanted], bool(ends[np.isfinite(ends)].sum() < EXACT)


def _propagated(rows: Rows, cells: Ends) -> Ends:
    """Return ranges of cells by interval propagation over single rows."""
    unit = sp.csr_array(sp.eye_array(rows.matrix.shape[1], dtype=np.int64, format="csr"))
    stated = (rows.matrix, rows.low, 1), (rows.matrix, rows.high, -1), (unit, cells[0], 1), (unit, cells[1], -1)
    matrices, limits = [], []
    for matrix, ends, sign in stated:
        finite = np.flatnonzero(np.isfinite(ends))
        matrices.append(sign * matrix[finite])
        limits.append(sign * ends[finite])
    none = sp.csr_array((0, rows.matrix.shape[1]), dtype=np.int64)
    least = np.concatenate(limits).astype(np.int64)
    low, high = cell_intervals(none, np.zeros(0, np.int64), sp.vstack(matrices, format="csr"), least)
    if np.any(low > high):
        raise InvariantError("no table satisfies all statements")
    return low, high


def _by_programmes(
    rows: Rows, cells: Ends, wanted: sp.csr_array, end: float, progressbar: bool
) -> tuple[Reals, Reals, Flags]:
    """Decide each wanted sum block by block: its range is the sum of its ranges in independent blocks."""
    low, high = _propagated(rows, cells)
    free = np.flatnonzero(low < high)
    block = _blocks(rows.matrix, free)
    columns, of_cell = sp.csc_array(rows.matrix), sp.csc_array(wanted)
    held = np.where(low < high, 0.0, low)
    fixed, first = rows.matrix @ held, wanted @ held
    last, exact = first.copy(), np.ones(first.size, dtype=bool)
    closed = np.diff(sp.csr_array(columns[:, free]).indptr) == 0
    if np.any(closed & ((fixed < rows.low) | (fixed > rows.high))):
        raise InvariantError("no table satisfies all statements")
    order = np.argsort(block, kind="stable")
    with progress("Finding ranges", 2 * of_cell[:, free].nnz, disable=not progressbar) as advance:
        for members in np.split(free[order], np.flatnonzero(np.diff(block[order])) + 1):
            inside, sums = sp.csr_array(columns[:, members]), sp.csr_array(of_cell[:, members])
            binding, some = (np.flatnonzero(np.diff(part.indptr)) for part in (inside, sums))
            part = Rows(inside[binding], rows.low[binding] - fixed[binding], rows.high[binding] - fixed[binding])
            a, b, proved = _decided(part, (low[members], high[members]), sums[some], end, advance)
            first[some] += a
            last[some] += b
            exact[some] &= proved
    return first, last, exact


def _blocks(matrix: sp.csr_array, free: Integers) -> Integers:
    """Return the independent block of each free cell: cells that rows connect."""
    inside = sp.csr_array(sp.csc_array(matrix)[:, free]).astype(float)
    bipartite = sp.block_array([[None, inside], [inside.T, None]], format="csr")
    return np.asarray(sp.csgraph.connected_components(bipartite, directed=False)[1][matrix.shape[0] :])


def _range_of(sums: sp.csr_array, cells: Ends) -> Ends:
    """Return bounds on sums from bounds on their cells."""
    low, high = np.zeros(sums.shape[0]), np.zeros(sums.shape[0])
    row = np.repeat(np.arange(sums.shape[0]), np.diff(sums.indptr))
    one, other = sums.data * cells[0][sums.indices], sums.data * cells[1][sums.indices]
    np.add.at(low, row, np.minimum(one, other))
    np.add.at(high, row, np.maximum(one, other))
    return low, high


def _decided(
    rows: Rows, cells: Ends, sums: sp.csr_array, end: float, advance: Callable[[int], object]
) -> tuple[Reals, Reals, Flags]:
    """Return the ranges of sums of one block, and whether they are proved."""
    low, high = _range_of(sums, cells)
    if not rows.low.size:
        return low, high, np.ones(low.size, bool)
    rng = np.random.default_rng(0)
    bound, reached = np.stack([low, -high]), np.full((2, low.size), np.inf)  # the sum, and minus the sum, from below

    def keep(x: Reals | None) -> int:
        """Compare a table with the bounds; return the number of ends that it reaches for the first time."""
        before = int(np.sum(reached == bound))
        if x is not None:
            values = sums @ x
            np.minimum(reached, np.stack([values, -values]), out=reached)
        advance(gained := int(np.sum(reached == bound)) - before)
        return gained

    # 1. a table, infinite ends, then goals for all undecided sums, each in the direction of an undecided end
    keep(_solved(rows, cells, np.zeros(cells[0].size), end)[0])
    if np.isfinite(reached).all():
        unlimited = _unlimited(rows, cells, sums, np.isneginf(bound), end)
        reached[unlimited] = -np.inf
        advance(int(unlimited.sum()))
    for _ in range(GOALS):
        left = reached > bound
        open_ends = np.flatnonzero(left.any(axis=0))
        direction = np.where(left[0] & (~left[1] | (rng.random(low.size) < 0.5)), 1.0, -1.0)
        if open_ends.size < 3:
            break
        goal = np.asarray(sums[open_ends].T @ direction[open_ends])
        if keep(_solved(rows, cells, goal, end, GAP)[0]) < GAIN * open_ends.size:
            break
    # 2. each end that no table has reached
    for side, sign in ((0, 1.0), (1, -1.0)):
        for i in np.flatnonzero(reached[side] > bound[side]).tolist():
            if reached[side, i] > bound[side, i]:
                x, least = _solved(rows, cells, sign * sums[[i]].toarray().ravel(), end)
                bound[side, i] = max(bound[side, i], least)
                keep(x)
    return bound[0], -bound[1], np.all(reached == bound, axis=0)


def _unlimited(rows: Rows, cells: Ends, sums: sp.csr_array, doubtful: Flags, end: float) -> Flags:
    """Return which doubtful ends are infinite, shape (2, n), if a table satisfies the rows."""
    found = np.zeros(doubtful.shape, dtype=bool)
    low, high = (np.where(np.isfinite(limit), 0.0, side) for limit, side in ((rows.low, -np.inf), (rows.high, np.inf)))
    changes = np.where(np.isfinite(cells[0]), 0.0, -STEP), np.where(np.isfinite(cells[1]), 0.0, STEP)
    for side, sign in ((0, 1), (1, -1)):
        for i in np.flatnonzero(doubtful[side]).tolist():
            if found[side, i]:
                continue
            with_sum = sp.csr_array(sp.vstack([rows.matrix, sign * sums[[i]]], format="csr"))
            steps = Rows(with_sum, np.append(low, -np.inf), np.append(high, -1.0))
            left = doubtful & ~found
            try:
                step = _solved(steps, changes, np.asarray(sums.T @ (left[0].astype(float) - left[1])), end, GAP)[0]
            except InvariantError:
                continue  # there is no such step
            if step is not None:
                values = sums @ step
                found |= doubtful & np.stack([values < 0, values > 0])
    return found


def _solved(rows: Rows, cells: Ends, goal: Reals, end: float, gap: float = 0.0) -> tuple[Reals | None, float]:
    """Minimise a goal; return a table that is verified in integers, or None, and a lower bound on the goal."""
    left = end - monotonic()
    if left <= 0:
        return None, np.nan
    programme = Programme()
    table = programme.variables(goal.size, goal, *cells)
    programme.rows(rows.low, rows.high, (rows.matrix, table))
    solution = programme.solve(time_limit=left, mip_rel_gap=gap)
    if solution.infeasible:
        raise InvariantError("no table satisfies all statements")
    least = float(np.ceil(solution.bound - 1e-6 * (1.0 + abs(solution.bound))))
    if solution.values is None:
        return None, least if np.isfinite(least) else np.nan
    x = solution.values[table]
    sums = rows.matrix @ x
    holds = np.all((rows.low <= sums) & (sums <= rows.high)) and np.all((cells[0] <= x) & (x <= cells[1]))
    return x if holds else None, least
