"""The shortest vectors of the lattice in l1 or l2: the smallest distance of two tables with the same public sums.

Distance 1 requires a cell in no constraint. Distance 2 requires (up to sign) two proportional columns of weight one, as
within a class. For larger distances a short basis vector gives an upper bound and parity a lower bound (if the total is
public, l1 norms are even). If the bounds differ, integer programmes over each class sum decide. A square is the sum of
the first odd numbers, |z|^2 = 1 + 3 + ... + (2|z| - 1). Squares are therefore linear, like absolute values, if each
unit of a cell is a variable with its own cost.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Integers, members
from ppdinf.errors import InvariantError
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.lattice.programme import Programme, Variables
from ppdinf.lattice.systems import equal_columns


def shortest_distance(found: Structure, metric: str = "l1") -> float | None:
    """Return the smallest norm of a non-zero integer vector z with ``A z = 0``."""
    step = shortest_step(found, metric)
    if step is None:
        return None
    return int(np.abs(step).sum()) if metric == "l1" else math.sqrt(int(step @ step))


def shortest_step(found: Structure, metric: str = "l1") -> Integers | None:
    """Return a non-zero integer vector z with ``A z = 0`` of smallest norm."""
    power = 1 if metric == "l1" else 2
    step = np.zeros(found.classes.size, np.int64)
    basis = sparse.csc_array(found.lattice.class_basis)  # one cell per class: distances do not change
    norms = np.asarray((abs(basis) ** power).sum(axis=0)).ravel()
    best = int(norms.min()) if norms.size else None
    pair = np.flatnonzero(found.classes == found.class_sizes.argmax())[:2]
    if pair.size == 2 and (best is None or best > 1):
        step[pair] = 1, -1
        return step
    if best is None:
        return None
    shortest = basis[:, [int(norms.argmin())]].toarray().ravel()
    if best > 2:
        even = not np.any(np.asarray(basis.sum(axis=0)).ravel() % 2)
        floor = 4 if even else 3 if not _opposite_columns(found) else 2
        for cell in range(basis.shape[0]):
            if best <= floor:
                break
            costs = [1] * best if power == 1 else list(range(1, best + 1, 2))
            better = _cheapest_step(found.class_system, cell, best, costs)
            if better is not None:
                shortest, best = better, int((np.abs(better) ** power).sum())
    step[found.lattice.representatives] = shortest
    return step if shortest[np.flatnonzero(shortest)[0]] > 0 else -step


@lru_cache(maxsize=8)
def nearest_steps(found: Structure) -> list[tuple[Structure, Integers]]:
    """List the vectors of smallest l2 norm, one of each kind, with the structure of the block of each vector."""
    shortest = shortest_step(found, "l2")
    if shortest is None:
        return []
    square = int(shortest @ shortest)
    system = sparse.csc_array(found.class_system)[:, found.classes]
    kinds = {}
    for cells in members(found.blocks):
        rows = sparse.csr_array(system[:, cells])
        rows = rows[np.flatnonzero(np.diff(rows.indptr))]
        kinds[(rows.shape, rows.indptr.tobytes(), rows.indices.tobytes(), rows.data.tobytes())] = rows
    blocks = [structure(rows) for rows in kinds.values()]
    return [(block, step) for block in blocks for step in _of_square(block, square)]


def _of_square(block: Structure, square: int) -> list[Integers]:
    """Return the vectors of one block with the smallest squared norm of all blocks, one of each kind, up to sign."""
    if square <= 2 and not _opposite_columns(block):
        step = shortest_step(block, "l2")
        if square == 1:
            return [] if step is None or np.abs(step).sum() > 1 else [step]
        pairs = [np.flatnonzero(block.classes == c)[-2:] for c in _kinds_of_class(block)]
        return [
            (np.arange(block.classes.size) == i).astype(np.int64) - (np.arange(block.classes.size) == j)
            for i, j in pairs
        ]
    if not block.lattice.rank:
        return []
    if square == 4 and block.tables and len(block.tables[0].shape) == len(block.tables[0].generators) == 2:
        step = np.zeros(block.classes.size, np.int64)
        corner = block.tables[0].classes.reshape(block.tables[0].shape)[:2, :2]
        step[block.lattice.representatives[corner]] = [[1, -1], [-1, 1]]
        return [step if step[np.flatnonzero(step)[0]] > 0 else -step]
    d, most = block.classes.size, math.isqrt(square)
    eye = np.eye(d, dtype=np.int64)
    A = sparse.csc_array(block.class_system)[:, block.classes]
    zero, ends = np.zeros(A.shape[0], dtype=np.int64), np.full(2 * d, -most)
    near = fiber_tables(A, zero, np.vstack([eye, -eye]), ends, most=10**6)
    if near is None:
        raise InvariantError(f"this calibration lists neighbouring tables, too many to list for {d} cells: use zcdp=")
    near = near[(near**2).sum(axis=1) == square]
    return [z for z in near if z[np.flatnonzero(z)[0]] > 0]


def _kinds_of_class(block: Structure) -> list[int]:
    """Return the classes with at least two cells; for a table, one for each combination of weights of the levels."""
    several = np.flatnonzero(block.class_sizes > 1)
    if not block.tables:
        return several.tolist()
    table = block.tables[0]
    levels = np.unravel_index(np.argsort(table.classes), table.shape)
    weights = np.stack([weight[level] for weight, level in zip(table.weights, levels, strict=True)])
    places = np.argsort(table.classes)
    order = several[np.argsort(places[several])]  # the first in the order of the table
    _, first = np.unique(weights[:, order], axis=1, return_index=True)
    return order[first].tolist()


def _opposite_columns(found: Structure) -> bool:
    """Return whether two columns are opposite, which is possible with weights of both signs."""
    system = found.class_system
    if not (system.data < 0).any():
        return False
    classes, _ = equal_columns(sparse.csc_array(sparse.hstack([system, -system])))
    return np.intersect1d(classes[: system.shape[1]], classes[system.shape[1] :]).size > 0


def _cheapest_step(system: sparse.csc_array, cell: int, best: int, costs: Sequence[int]) -> Integers | None:
    """Return the cheapest vector with cost below `best` and at least one unit in `cell`, or None."""
    # the k-th unit of a cell, up or down, costs costs[k], which must not decrease in k
    programme = Programme()
    parts: list[Variables] = []
    for cost, units in zip(*np.unique(costs, return_counts=True), strict=True):
        low = np.full(system.shape[1], -units)
        low[cell] = 0 if parts else 1  # a unit up, which no unit down cancels
        parts.append(programme.signed(low.size, cost, low, units))
    programme.rows(0.0, 0.0, *((system, part) for part in parts))
    solution = programme.solve(largest_cost=best - 1)
    if solution.values is None:
        return None
    return np.sum([solution.values[part] for part in parts], axis=0).astype(np.int64)
