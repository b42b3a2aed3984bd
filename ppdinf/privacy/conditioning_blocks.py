r"""Gamma, the cost of conditioning noise on bounds, by blocks and without enumeration of all tables.

Two tables with the same public sums differ by steps of the Graver basis whose l1 lengths add up, and every intermediate
table satisfies the bounds on cells. Hence gamma is the largest ``log(C(x + g) / C(x)) / (epsilon |g|)`` over single
steps g, and the gamma of a system is the largest gamma of its blocks.

*General steps.* Sum the releases along lines in the direction g, which has n entries, 1 or -1. Around x + g the weights
w of a line are those around x shifted by one place, so that the sum over its places L..U increases by
``w(L - 1) - w(U)``. Place L - 1 violates the bound of a cell, which x satisfies: in this cell x is at place L or above,
and w decreases from L to L - 1. Hence ``w(L - 1) <= exp((n - 2) epsilon) w(L)``. Between adjacent places w decreases by
at most ``exp(-n epsilon)``. So

    C(x + g) / C(x)  <=  1 + exp((n - 2) epsilon) - exp(-2 epsilon).

With n = 1 a cell at its only bound attains this ratio.

*One public sum over d cells with lower bounds only.* Here n = 2. Let ``b = exp(-2 epsilon)``, and let cell i increase
and cell j decrease. C is log-concave along e_i - e_j (a product of denormalized Lorentzian polynomials), so the maximum
has x_i at its bound. Consider the probability that the other d - 2 cells gain k persons. Its likelihood ratio to the
case x_i = x_k = 0, ``(k + d - 3 choose k) b^k``, decreases in k. The gain of the line is b (1 - b) for k = 0 and 1 - b
for larger k:

    C(x + e_i - e_j) / C(x)  <=  2 - b - (1 - b)^d,

the limit for a table with all persons in one cell as their number grows.

References
----------
P. Brändén, J. Huh, "Lorentzian polynomials", Annals of Mathematics 192 (2020), Theorem 3.14, Corollary 3.8 and
Proposition 4.4. R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", Theorem 2.1.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from ppdinf.invariants import System
from ppdinf.lattice.algebra.columns import distinct_rows
from ppdinf.lattice.points.feasible import nearest_feasible
from ppdinf.lattice.points.fiber_tables import cell_intervals, fiber_tables
from ppdinf.lattice.structure.two_way import two_way_table
from ppdinf.laws import DoubleGeometric, IntegerLaw

LISTED = 5000  # enumerated tables of a block, up to the order of cells with equal bounds
WORK = 3 * 10**8  # multiplications for their normalizers, about 1 s
BLOCKS = 8  # number of blocks whose tables are enumerated
SAME = 1e-9  # bounds that differ by less are equal
CROWD = 1000  # persons in a block above which its tables are not enumerated
LONGEST = 10**6  # persons in one cell, up to which its normalizer is summed


class BlockCost(NamedTuple):
    """Bounds on gamma: at least `lower`, at most `upper`; `tables` were enumerated."""

    lower: float
    upper: float
    tables: int


def cost_by_blocks(noise: IntegerLaw, system: System) -> BlockCost:
    """Bound gamma for noise conditioned on all public statements of a system."""
    if np.any(np.diff(system.B.indptr) > 1):  # a bound on several cells can end lines where no single cell does
        return BlockCost(0.0, 1.0, 0)
    low, high = system.cell_limits
    structure, table = system.structure, np.zeros(0, dtype=np.int64)
    if structure.partition.any():
        table = nearest_feasible(system.A, system.values, system.B, system.limits, row_names=system.names)
    order = np.argsort(structure.blocks, kind="stable")
    sums: dict[tuple[tuple[tuple[float, float], ...], int], BlockCost] = {}
    crossing = []
    for cells in np.split(order, np.cumsum(np.bincount(structure.blocks))[:-1]):
        block, free = structure.blocks[cells[0]], low[cells] == -np.inf
        if structure.fixed[cells[0]] or (free & (high[cells] == np.inf)).all():
            continue
        if structure.partition[block]:
            key = tuple(sorted(zip(low[cells], high[cells], strict=True))), int(table[cells].sum())
            sums[key] = sums.get(key) or _one_sum(noise, np.array(key[0]), key[1])
        else:
            crossing.append(BlockCost(0.0, _crossing(noise, system, cells), 0))
    # enumerate blocks in decreasing order of their upper bounds
    for key in sorted(sums, key=lambda key: (-sums[key].upper, -sums[key].lower))[:BLOCKS]:
        if sums[key].upper > max(cost.lower for cost in sums.values()) + SAME:
            sums[key] = _listed(noise, np.array(key[0]), key[1]) or sums[key]
    costs = [*sums.values(), *crossing]
    return BlockCost(
        max((cost.lower for cost in costs), default=0.0),
        max((cost.upper for cost in costs), default=0.0),
        sum(cost.tables for cost in costs),
    )


def _steps_bound(epsilon: float, cells: int) -> float:
    """Bound ``log(C(x + g) / C(x)) / (epsilon n)`` for steps that move n cells by one."""
    steep, stay = (cells - 2) * epsilon, -math.expm1(-cells * epsilon)
    if steep < 100:
        return math.log1p(stay * math.exp(steep)) / (cells * epsilon)
    return (steep + math.log(stay + math.exp(-steep))) / (cells * epsilon)


def _crossing(noise: IntegerLaw, system: System, cells: NDArray[np.int64]) -> float:
    """Bound gamma of a single cell, or of a two-way table, whose steps are cycles of alternating signs."""
    if not isinstance(noise, DoubleGeometric):
        return 1.0
    epsilon = float(noise.epsilon)
    if cells.size == 1:
        return _steps_bound(epsilon, 1)
    table = two_way_table(distinct_rows(system.structure.class_system[:, np.unique(system.structure.classes[cells])]))
    if table is None:
        return 1.0
    return max(_steps_bound(epsilon, n) for n in range(2, 2 * min(table.shape) + 1, 2))


def _one_sum(noise: IntegerLaw, ends: NDArray[np.float64], total: int) -> BlockCost:
    """Bound gamma of cells that only share their sum; `ends` are their bounds, shape (d, 2)."""
    bounded = BlockCost(0.0, 1.0, 0)
    if isinstance(noise, DoubleGeometric):
        epsilon, d = float(noise.epsilon), len(ends)
        bounded = BlockCost(0.0, _steps_bound(epsilon, 2), 0)
        if np.isfinite(ends[:, 0]).all() and np.isinf(ends[:, 1]).all():
            stay = -math.expm1(-2 * epsilon)  # 1 - b without cancellation for small epsilon
            limit = math.log1p(stay - stay**d) / (2 * epsilon)
            bounded = BlockCost(min(limit, _all_in_one(epsilon, d, total - int(ends[:, 0].sum()))), limit, 1)
    return bounded


def _all_in_one(epsilon: float, d: int, persons: int) -> float:
    """Return ``log(C(x') / C(x)) / (2 epsilon)``: x has all persons in one of d cells, x' has one person in another."""
    # terms above this k are below exp(-50) of the sum
    persons = min(persons, math.ceil((50 + d * math.log(persons + d)) / (2 * epsilon)))
    if not 0 < persons <= LONGEST:
        return 0.0
    k = np.arange(persons + 1)
    log_m = -2 * epsilon * k + gammaln(k + d) - gammaln(k + 1) - gammaln(d)
    m = np.exp(log_m - log_m.max())  # a common factor of both normalizers, to avoid overflow for thousands of cells
    stay = -math.expm1(-2 * epsilon)
    before = stay * m[:-1].sum() + m[-1]
    rest = np.append(np.full(persons - 1, stay), 1.0)
    after = stay * (rest @ m[:-1]) + rest @ m[1:]
    return math.log(after / before) / (2 * epsilon)


def _listed(noise: IntegerLaw, ends: NDArray[np.float64], total: int) -> BlockCost | None:
    """Return gamma from an enumeration of all tables of one sum; None if they are too many."""
    d = len(ends)
    sum_row, cells = np.ones((1, d), dtype=np.int64), sp.eye_array(d, dtype=np.int64, format="csr")
    # Bounds of the cells as one system, and the interval of each cell given the total.
    given = np.isfinite(ends)
    B = sp.vstack([cells[given[:, 0]], -cells[given[:, 1]]], format="csr")
    limits = np.concatenate([ends[given[:, 0], 0], -ends[given[:, 1], 1]]).astype(np.int64)
    first, last = cell_intervals(sum_row, np.array([total]), B, limits)
    equal_bounds = [np.flatnonzero((ends == pair).all(axis=1)) for pair in np.unique(ends, axis=0)]
    if np.isinf(last - first).any() or total - first.sum() > CROWD:
        return None
    low, high, persons = first.astype(np.int64), last.astype(np.int64), int(total - first.sum())
    # Count the tables up to the order of cells with equal bounds, and stop if enumeration is too expensive.
    number = _number(high - low, persons, equal_bounds)
    if number > LISTED or number * max(100 * d * d, (persons + 1) * int((high - low + 1).sum())) > WORK:
        return None
    # Enumerate one table for each order: counts decrease within cells of equal bounds.
    eye = np.eye(d, dtype=np.int64)
    falling = [eye[i] - eye[i + 1] for same in equal_bounds for i in same[:-1]]
    # the remaining total must fit into the cells after i: this drops partial tables without completion, and no others
    fits = [np.tri(d, dtype=np.int64)[i] + eye[i] * (same > i).sum() for same in equal_bounds for i in same]
    beyond = [high[i + 1 :].sum() - high[same[same > i]].sum() for same in equal_bounds for i in same]
    B = np.vstack([eye, -eye, *falling, *fits])
    limits = np.concatenate([low, -high, np.zeros(len(falling), dtype=np.int64), total - np.array(beyond)])
    tables = fiber_tables(sum_row, np.array([total]), B, limits, most=number)
    if tables is None:
        return None
    # Compare each table with the tables that move one person from cell j to cell i.
    log_c = np.log(_normalisers(noise, tables, low, high))
    place, worst = {x.tobytes(): k for k, x in enumerate(tables)}, 0.0
    for i, j in permutations(range(d), 2):
        here = np.flatnonzero((tables[:, i] < high[i]) & (tables[:, j] > low[j]))
        moved = tables[here] + eye[i] - eye[j]
        for same in equal_bounds:
            moved[:, same] = -np.sort(-moved[:, same], axis=1)
        there = np.array([place[x.tobytes()] for x in moved], dtype=np.int64)
        worst = max(worst, float(np.max(log_c[there] - log_c[here], initial=0.0)))
    assert noise.epsilon_per_unit is not None, "gamma is relative to it"
    gamma = worst / (2 * float(noise.epsilon_per_unit))
    return BlockCost(gamma, gamma, len(tables))


def _number(ranges: NDArray[np.int64], persons: int, equal_bounds: list[NDArray[np.int64]]) -> int:
    """Count tables up to the order of cells with equal bounds, in floating point."""
    ways = np.zeros(persons + 1)
    ways[0] = 1
    for same in equal_bounds:
        chosen = np.zeros((same.size + 1, persons + 1))  # by the number of cells that hold at least the current count
        chosen[0] = ways
        for count in range(1, int(ranges[same[0]]) + 1):
            for k in range(1, same.size + 1):
                chosen[k, count:] += chosen[k - 1, : persons + 1 - count]
        ways = chosen.sum(axis=0)
    return int(min(ways[persons], 1e9))


def _normalisers(
    noise: IntegerLaw, tables: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Total weight of the releases of each table, at least 1: the table itself has weight 1."""
    persons = int(tables[0].sum() - low.sum())
    mass = np.zeros((len(tables), persons + 1))
    mass[:, 0] = 1
    for i in range(low.size):
        weights = np.exp(noise.log_weight(np.arange(low[i], high[i] + 1) - tables[:, [i]]))
        before, mass = mass, np.zeros_like(mass)
        for k in range(weights.shape[1]):
            mass[:, k:] += weights[:, [k]] * before[:, : persons + 1 - k]
    return mass[:, persons]
