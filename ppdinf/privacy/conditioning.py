"""Gamma, the additional privacy loss of noise conditioned on public bounds.

Conditioning multiplies the ratio of two densities by C(x') / C(x), where C(x) is the probability that noise around x
satisfies the public statements. If only sums are public, C is constant, and conditioning does not change the loss.
The bounds by blocks are derived in ``docs/mathematics/conditioning.md``.

References
----------
R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, Theorems 1.3 and 2.1,
section 5.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from ppdinf._internal.values import Integers, Reals, members
from ppdinf.invariants import System
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.fiber_tables import cell_intervals, fiber_tables
from ppdinf.lattice.margins import two_way_table
from ppdinf.lattice.moves import connected_moves
from ppdinf.lattice.shortest import shortest_distance
from ppdinf.lattice.systems import distinct_rows
from ppdinf.laws import DoubleGeometric, IntegerLaw

MOST = 1000  # tables up to which all probabilities are computed
SEARCH = 60  # tables that are searched otherwise
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
    sums: dict[tuple[tuple[tuple[float, float], ...], int], BlockCost] = {}
    crossing = []
    for cells in members(structure.blocks):
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


def _crossing(noise: IntegerLaw, system: System, cells: Integers) -> float:
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


def _one_sum(noise: IntegerLaw, ends: Reals, total: int) -> BlockCost:
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


def _listed(noise: IntegerLaw, ends: Reals, total: int) -> BlockCost | None:
    """Return gamma from an enumeration of all tables of one sum; None if they are too many."""
    d = len(ends)
    sum_row, cells = np.ones((1, d), dtype=np.int64), sp.eye_array(d, dtype=np.int64, format="csr")
    # Bounds of the cells as one system, and the interval of each cell given the total.
    bounded = np.isfinite(ends)
    B = sp.vstack([cells[bounded[:, 0]], -cells[bounded[:, 1]]], format="csr")
    limits = np.concatenate([ends[bounded[:, 0], 0], -ends[bounded[:, 1], 1]]).astype(np.int64)
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


def _number(ranges: Integers, persons: int, equal_bounds: list[Integers]) -> int:
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


def _normalisers(noise: IntegerLaw, tables: Integers, low: Integers, high: Integers) -> Reals:
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


@dataclass(frozen=True)
class ConditioningCost:
    """The additional privacy loss by conditioning: the loss is at most ``(1 + gamma) epsilon`` per unit of distance.

    Attributes
    ----------
    gamma : float
        Holds for all tables: exact to 1e-9 if `exact`, otherwise a bound (`ppdinf.privacy.conditioning`).
    lower : float
        Largest ``log(C(x') / C(x)) / (epsilon |x - x'|)`` among the visited tables; a lower bound on the exact gamma.
    effective : float or None
        Largest privacy loss per unit of distance divided by epsilon, minus 1: gamma including the reduction of the loss
        by conditioning, which can be negative. It equals gamma for double geometric noise. None for other noise, unless
        all releases are enumerated, and if gamma is not `exact`.
    exact : bool
    tables : int
        Number of visited tables.

    See Also
    --------
    ppdinf.privacy.conditioning_cost

    Examples
    --------
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> noise = ppd.Conditioned(public, noise=ppd.mechanisms.DoubleGeometric(1))
    >>> cost = ppd.privacy.conditioning_cost(noise, public.on([2, 1, 0]))
    >>> cost.tables, cost.lower <= cost.gamma
    (10, True)
    """

    gamma: float
    lower: float
    effective: float | None
    exact: bool
    tables: int


@dataclass(frozen=True)
class Erosion:
    """How public sums reduce the set of tables that the guarantee protects.

    Attributes
    ----------
    nearest : int or None
        l1 distance of the nearest table with the same public sums; 1 if neighbours remain, None
        if no other table exists.
    fixed : int
        Cells that the public sums and bounds determine.

    See Also
    --------
    ppdinf.privacy.erosion

    Examples
    --------
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.margin("county") & ppd.invariants.margin("sex")
    >>> ppd.privacy.erosion(public.on(ppd.as_table([[3, 0], [1, 2]], dims=("county", "sex"))))
    Erosion(nearest=4, fixed=0)
    """

    nearest: int | None
    fixed: int

    def __str__(self) -> str:
        if self.nearest is None:
            return "no other table has these public sums: every guarantee of privacy holds, but protects nothing"
        if self.nearest == 1:
            return "tables that differ by one person share these public sums: the guarantee covers neighbours"
        return (
            f"no two tables with these public sums differ by one person only: the nearest are {self.nearest} apart, so "
            f"the loss between alternatives is at least {self.nearest} times epsilon; {self.fixed} cells are fixed"
        )


def conditioning_cost(
    mechanism: Any, system: System, *, search: int = SEARCH, rng: int | np.random.Generator = 0
) -> ConditioningCost:
    """Compute gamma for all public statements of a system: by enumeration, by blocks, or as a bound.

    Parameters
    ----------
    mechanism : Conditioned
        Its noise has an epsilon per unit of l1 distance.
    system : System
        Public information with its values. No confidential data enter.
    search : int
        Number of tables in the search for a lower bound, if gamma is only bounded from above.
    rng : int or numpy.random.Generator
        Generator of the search.

    See Also
    --------
    ppdinf.privacy.ConditioningCost, ppdinf.Conditioned

    Notes
    -----
    Up to 1,000 tables are enumerated together with their releases, in about 1 s. For more tables, gamma is exact if the
    blocks have one public sum each and are small (25 persons, or 100 in 4 cells) or have many persons. It is below 1 in
    two-way tables. It is 1 if bounds concern several cells or sums cross in other ways. A search takes one elimination
    for each table.

    Examples
    --------
    >>> from ppdinf.privacy import conditioning_cost
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> mechanism = ppd.Conditioned(public, noise=ppd.mechanisms.DoubleGeometric(1))
    >>> cost = conditioning_cost(mechanism, public.on([2, 1, 0]))
    >>> cost.exact, cost.tables, 0 < cost.gamma < 1
    (True, 10, True)
    """
    epsilon = float(mechanism.law.epsilon_per_unit)
    tables = fiber_tables(system.A, system.values, system.B, system.limits, most=MOST)
    if tables is None:
        known = cost_by_blocks(mechanism.law, system)
        if known.upper - known.lower <= SAME:
            # by the triangle inequality, the release y = x has the largest loss of double geometric noise
            effective = known.lower if isinstance(mechanism.law, DoubleGeometric) else None
            return ConditioningCost(min(1.0, known.upper), known.lower, effective, True, known.tables)
        return _searched(mechanism, system, epsilon, known, search, np.random.default_rng(rng))
    distance = np.array([np.abs(tables - x).sum(axis=1) for x in tables])
    distinct = distance > 0
    if not distinct.any():
        return ConditioningCost(0.0, 0.0, -1.0, True, len(tables))
    steps = epsilon * distance[distinct]
    noise = np.array([mechanism.law.log_weight(tables - x).sum(axis=1) for x in tables])
    log_c = np.logaddexp.reduce(noise, axis=1)
    gamma = float(np.max((log_c - log_c[:, np.newaxis])[distinct] / steps))
    log_p = noise - log_c[:, np.newaxis]  # [x, y]: the releases are the same tables
    loss = np.array([np.max(log_p[i] - log_p, axis=1) for i in range(len(tables))])
    effective = float(np.max(loss[distinct] / steps)) - 1
    return ConditioningCost(min(1.0, gamma), gamma, effective, True, len(tables))


def _searched(
    mechanism: Any, system: System, epsilon: float, known: BlockCost, search: int, rng: np.random.Generator
) -> ConditioningCost:
    """Search by hill climbing along moves of the fiber for tables that rarely satisfy their bounds."""
    gamma = min(1.0, known.upper)
    if not search:
        return ConditioningCost(gamma, known.lower, None, False, known.tables)
    moves, none = connected_moves(system.structure, bounds="any"), np.zeros(system.frame.size, dtype=np.int64)
    x = nearest_feasible(system.A, system.values, system.B, system.limits, near=none, row_names=system.names)
    log_c, best = mechanism.log_normaliser(system, x), known.lower
    for v in moves.draw(search, rng=rng).toarray().T:
        if not v.any():
            continue
        left, used = system.B @ x - system.limits, -(system.B @ v)
        if not (used > 0).any():
            continue  # the line has no end
        steps = int((left[used > 0] // used[used > 0]).min())
        if not steps:
            continue
        other = x + v * steps
        log_other = mechanism.log_normaliser(system, other)
        best = max(best, abs(log_other - log_c) / (epsilon * float(np.abs(other - x).sum())))
        if log_other < log_c:
            x, log_c = other, log_other
    return ConditioningCost(gamma, best, None, False, known.tables + search + 1)


def erosion(system: System) -> Erosion:
    """Return whether tables that differ by one person share the public sums.

    Parameters
    ----------
    system : System

    See Also
    --------
    ppdinf.privacy.Erosion, ppdinf.privacy.posterior_range

    Examples
    --------
    >>> from ppdinf.privacy import erosion
    >>> import ppdinf as ppd
    >>> erosion(ppd.invariants.total().on([3, 0, 2])).nearest
    2
    """
    distance = None if system.fixed.all() else shortest_distance(system.free)
    return Erosion(None if distance is None else int(distance), int(system.fixed.sum()))
