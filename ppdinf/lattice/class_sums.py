"""Entangled class sums under independent constraints, and an order in which the constraints are eliminated."""

import heapq
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Flags, Integers
from ppdinf.errors import InvariantError
from ppdinf.lattice.integer_rows import row_algebra
from ppdinf.lattice.systems import equal_columns


@dataclass(frozen=True, eq=False)
class EliminationOrder:
    """Order of constraints, with the variables that first occur in each constraint."""

    rows: Integers
    open_rows: list[Integers]
    variables: list[Integers]
    width: int


def elimination_order(A: sparse.csc_array) -> EliminationOrder:
    """Order the rows of a system by greedy minimum degree."""
    k = A.shape[0]
    pattern = sparse.csr_array((np.ones(A.nnz, dtype=np.int64), A.indices, A.indptr), shape=A.shape[::-1])
    linked = sparse.csr_array(pattern.T @ pattern)
    spans = enumerate(pairwise(linked.indptr.tolist()))
    neighbours = [set(linked.indices[start:end].tolist()) - {row} for row, (start, end) in spans]
    queue = [(len(near), row) for row, near in enumerate(neighbours)]
    heapq.heapify(queue)
    position = np.full(k, -1, dtype=np.int64)
    open_rows: list[Integers] = []
    clique: set[int] = set()  # the last neighbours that became neighbours of each other
    while queue:
        degree, row = heapq.heappop(queue)
        near = neighbours[row]
        if position[row] >= 0 or degree != len(near):
            continue  # an outdated entry of the queue
        position[row] = len(open_rows)
        open_rows.append(np.array(sorted(near), dtype=np.int64))
        if not near <= clique:
            clique = near
            for other in near:
                neighbours[other] |= near
                neighbours[other].discard(other)
        for other in near:
            neighbours[other].discard(row)
            heapq.heappush(queue, (len(neighbours[other]), other))
    filled = np.flatnonzero(np.diff(A.indptr))
    first = np.full(A.shape[1], -1)
    first[filled] = np.minimum.reduceat(position[A.indices], A.indptr[filled]) if filled.size else -1
    by_stage, ends = np.argsort(first, kind="stable"), np.searchsorted(np.sort(first), np.arange(k + 1))
    return EliminationOrder(
        rows=np.argsort(position),
        open_rows=open_rows,
        variables=[by_stage[start:end] for start, end in pairwise(ends.tolist())],
        width=max((near.size for near in open_rows), default=0),
    )


@dataclass(frozen=True, eq=False)
class CoreSums:
    """Class sums with two or more dimensions, as variables under independent constraints."""

    variables: Integers
    heights: Integers
    system: sparse.csc_array
    order: EliminationOrder

    def __str__(self) -> str:
        constraints, n = self.system.shape
        return f"variables {n:,}, independent constraints {constraints:,}, elimination width {self.order.width}"


def core_sums(class_system: sparse.csc_array, class_basis: sparse.csc_array, in_core: Flags) -> CoreSums:
    """Merge proportional class sums of the core and order their constraints."""
    group, height = proportional_rows(sparse.csr_array(class_basis))
    members = np.flatnonzero(in_core & (height != 0))
    _, variable = np.unique(group[members], return_inverse=True)
    n = int(variable.max(initial=-1)) + 1
    merge = sparse.csc_array((height[members], (members, variable)), shape=(in_core.size, n))
    if members.size and int(abs(class_system).max()) * int(np.abs(height).max()) * members.size >= 2**63:
        raise InvariantError("The weights of this system are too large to merge its proportional sums.")
    system = sparse.csr_array(class_system @ merge)
    system.eliminate_zeros()
    system = sparse.csc_array(system[row_algebra(system).independent])
    variables, heights = np.full(in_core.size, -1), np.zeros(in_core.size, dtype=np.int64)
    variables[members], heights[members] = variable, height[members]
    return CoreSums(variables, heights, system, elimination_order(system))


def proportional_rows(K: sparse.csr_array) -> tuple[Integers, Integers]:
    """Group rows that are multiples of each other."""
    filled = np.flatnonzero(np.diff(K.indptr))
    heights = np.zeros(K.shape[0], dtype=np.int64)
    starts = K.indptr[filled]
    if filled.size:
        heights[filled] = np.gcd.reduceat(np.abs(K.data), starts) * np.sign(K.data[starts])
    primitive = K.data // np.repeat(heights, np.diff(K.indptr))
    groups, _ = equal_columns(sparse.csc_array((primitive, K.indices, K.indptr), shape=K.shape[::-1]))
    return groups, heights
