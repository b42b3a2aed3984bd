"""An elimination order of the constraints, and the number of constraints that are open at a time.

Two constraints are neighbours if they share a variable. They are closed one by one, the one with the fewest neighbours
first (greedy minimum degree; Rose 1972). The neighbours of a closed constraint become neighbours of each other. When a
constraint is closed, the laws of all its variables are convolved into one joint law of the constraint and its open
neighbours, and the constraint is set to its total. The *width*, the largest number of open neighbours, is the dimension
of the remaining law.
"""

import heapq
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from ppdinf.lattice.algebra.systems import IntVector


@dataclass(frozen=True, eq=False)
class EliminationOrder:
    """Order of constraints, with the variables that first occur in each constraint."""

    rows: IntVector
    open_rows: list[IntVector]
    variables: list[IntVector]
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
    open_rows: list[IntVector] = []
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
