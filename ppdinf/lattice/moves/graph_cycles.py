"""Systems whose columns are the edges of a graph, and random cycles of this graph as moves.

A two-way table with both margins public is such a system, also if some of its cells are known and removed: every cell
is an edge between its row and its column. A cell in a single sum, or the slack of a sum that is known within bounds, is
an edge to one further vertex. After a change of the signs of some rows, the system is the incidence matrix of a
directed graph, which is totally unimodular. The cycles of the graph are its circuits and its Graver basis (B.
Sturmfels, Gröbner Bases and Convex Polytopes, 1996, chapter 8). The Graver basis connects every fiber with lower and
upper bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ppdinf._internal.numba_jit import jit
from ppdinf.lattice.algebra.systems import IntVector

EARLY = 0.5  # probability of closing a path that can be closed: short cycles are drawn more often

type Ends = tuple[IntVector, IntVector]


@dataclass(frozen=True, eq=False)
class GraphCycles:
    """Cycles of a graph whose edges are all on cycles: +1 for edges along the cycle, -1 for edges against it."""

    tails: IntVector
    heads: IntVector
    edges: IntVector
    n: int

    def draw(self, size: int, rng: np.random.Generator) -> sparse.csc_array:
        """Draw `size` directions, one per column."""
        m = self.edges.size
        ends = np.concatenate([self.tails, self.heads])
        order = np.argsort(ends, kind="stable")
        first = np.searchsorted(ends[order], np.arange(ends.max() + 2)).astype(np.int64)
        # an edge is listed twice: as k at its tail, and as k + m at its head
        to = np.concatenate([self.heads, self.tails])
        lengths, cycles = _cycles(first, order.astype(np.int64), to, m, size, rng)
        signs = np.where(cycles < m, 1, -1)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return sparse.csc_array((signs, self.edges[cycles % m], starts), shape=(self.n, size))


def graph_of(system: sparse.csc_array) -> Ends | None:
    """Return tails and heads of the columns as edges, or None if the columns are not the edges of a graph."""
    by_row = sparse.csr_array(system)
    lengths = np.diff(by_row.indptr)
    whole = (lengths == system.shape[1]) & (by_row.max(axis=1).toarray() == by_row.min(axis=1).toarray()).ravel()
    if not whole.all():
        system = sparse.csc_array(by_row[~whole])
    degrees = np.diff(system.indptr)
    if np.any(np.abs(system.data) != 1) or np.any((degrees < 1) | (degrees > 2)):
        return None
    hub = system.shape[0]
    turned = _signs_of_rows(system, degrees)
    if turned is None:
        return None
    signs = system.data * turned[system.indices]
    tails, heads = np.full(system.shape[1], hub), np.full(system.shape[1], hub)
    column = np.repeat(np.arange(system.shape[1]), degrees)
    tails[column[signs > 0]] = system.indices[signs > 0]
    heads[column[signs < 0]] = system.indices[signs < 0]
    return tails.astype(np.int64), heads.astype(np.int64)


def _signs_of_rows(system: sparse.csc_array, degrees: IntVector) -> IntVector | None:
    """Return signs of the rows that give every column entries of opposite signs, or None if they do not exist."""
    pairs = np.flatnonzero(degrees == 2)
    at = system.indptr[pairs]
    one, other = system.indices[at], system.indices[at + 1]
    product = system.data[at] * system.data[at + 1]  # 1: the rows need opposite signs
    k = system.shape[0]
    near: list[list[tuple[int, int]]] = [[] for _ in range(k)]
    for a, b, sign in zip(one.tolist(), other.tolist(), (-product).tolist(), strict=True):
        near[a].append((b, sign))
        near[b].append((a, sign))
    turned = [0] * k
    for root in range(k):
        if turned[root]:
            continue
        turned[root], waiting = 1, [root]
        while waiting:
            a = waiting.pop()
            for b, sign in near[a]:
                if not turned[b]:
                    turned[b] = turned[a] * sign
                    waiting.append(b)
                elif turned[b] != turned[a] * sign:
                    return None
    return np.array(turned, dtype=np.int64)


@jit
def _cycles(
    first: IntVector, leaving: IntVector, to: IntVector, m: int, size: int, rng: np.random.Generator
) -> tuple[IntVector, IntVector]:
    """Draw cycles: the number of edges of each, and all of their edges in the direction of the cycle."""
    vertices = first.size - 1
    place, path = (
        np.full(vertices, -1),
        np.empty(vertices + 1, dtype=np.int64),
    )  # step at which the path visited each vertex
    lengths, cycles, total = np.zeros(size, dtype=np.int64), np.empty(8 * size, dtype=np.int64), 0
    for r in range(size):
        edge = leaving[int(rng.random() * leaving.size)]
        here = to[edge - m if edge >= m else edge + m]
        place[here] = 0
        path[0], n = edge, 1
        here = to[edge]
        while place[here] < 0:
            place[here] = n
            chosen, ways = -1, 0
            if rng.random() < EARLY:
                for e in leaving[first[here] : first[here + 1]]:
                    if place[to[e]] >= 0 and e % m != edge % m:
                        ways += 1
                        if rng.random() * ways < 1.0:
                            chosen = e
            if chosen < 0:
                ways = 0
                for e in leaving[first[here] : first[here + 1]]:
                    if e % m != edge % m:
                        ways += 1
                        if rng.random() * ways < 1.0:
                            chosen = e
            edge = chosen
            path[n] = edge
            n += 1
            here = to[edge]
        begin = place[here]
        if total + n - begin > cycles.size:
            cycles = np.concatenate((cycles, np.empty(max(cycles.size, vertices), dtype=np.int64)))
        cycles[total : total + n - begin] = path[begin:n]
        lengths[r] = n - begin
        total += n - begin
        for e in path[:n]:
            place[to[e]] = -1
            place[to[e - m if e >= m else e + m]] = -1
    return lengths, cycles[:total]
