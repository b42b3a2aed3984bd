"""Families of moves: transfers, cycles of tables and graphs, swaps that preserve margins, integer combinations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Integers
from ppdinf.lattice.kernel import Lattice
from ppdinf.lattice.margins import margin_matrix, maximal_generators


class Family(Protocol):
    """Random directions; every member of the family has positive probability."""

    def draw(self, size: int, *, rng: np.random.Generator) -> sparse.csc_array:
        """Draw `size` directions, one per column."""
        ...


@dataclass(frozen=True, eq=False)
class Listed:
    """Columns of a matrix, drawn uniformly."""

    vectors: sparse.csc_array

    def draw(self, size: int, rng: np.random.Generator) -> sparse.csc_array:
        """Draw `size` directions, one per column."""
        return self.vectors[:, rng.integers(self.vectors.shape[1], size=size)]


@dataclass(frozen=True, eq=False)
class Combinations:
    """Integer combinations of a lattice basis: every nonzero vector of the lattice."""

    basis: sparse.csc_array

    def draw(self, size: int, rng: np.random.Generator) -> sparse.csc_array:
        """Draw `size` directions, one per column."""
        terms = rng.geometric(0.5, size)
        which = rng.integers(self.basis.shape[1], size=terms.sum())
        factors = rng.geometric(0.5, terms.sum()) * rng.choice([-1, 1], terms.sum())
        ends = np.concatenate([[0], np.cumsum(terms)])
        coefficients = sparse.csc_array((factors, which, ends), shape=(self.basis.shape[1], size))
        coefficients.sum_duplicates()
        coefficients.eliminate_zeros()
        zero = np.flatnonzero(np.diff(coefficients.indptr) == 0)
        if zero.size:
            kept = np.flatnonzero(np.diff(coefficients.indptr))
            again = Listed(self.basis).draw(zero.size, rng)
            drawn = sparse.hstack([self.basis @ coefficients[:, kept], again], format="csc")
            return drawn[:, np.argsort(np.concatenate([kept, zero]))]
        return self.basis @ coefficients


@dataclass(frozen=True, eq=False)
class Transfers:
    """Transfers of one unit between two cells of a class: e_j - e_k for all pairs."""

    members: Integers
    sizes: Integers

    def draw(self, size: int, rng: np.random.Generator) -> sparse.csc_array:
        """Draw `size` directions, one per column; the probability of a class is proportional to its rank."""
        ranks = np.cumsum(self.sizes - 1)
        chosen = np.searchsorted(ranks, rng.integers(ranks[-1], size=size), "right")
        starts = np.cumsum(self.sizes) - self.sizes
        pairs = self.members[starts[chosen][:, None] + _distinct_pairs(self.sizes[chosen], rng)]
        signs = np.tile(np.array([1, -1]), size)
        return sparse.csc_array((signs, pairs.ravel(), 2 * np.arange(size + 1)), shape=(self.members.size, size))


@dataclass(frozen=True, eq=False)
class Cycles:
    """Alternating cycles of a two-way table: +1 and -1 in turn along rows and columns."""

    table: Integers
    n: int
    longest: int

    def draw(self, size: int, rng: np.random.Generator) -> sparse.csc_array:
        """Draw `size` directions, one per column."""
        lengths, counts = np.unique(np.minimum(1 + rng.geometric(0.5, size), self.longest), return_counts=True)
        drawn = [sparse.csc_array((self.n, 0), dtype=np.int64)]
        for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
            rows, columns = (_distinct(count, n, length, rng) for n in self.table.shape)
            corners = np.stack([self.table[rows, columns], self.table[rows, np.roll(columns, 1, axis=1)]], axis=2)
            signs = np.tile(np.array([1, -1]), count * length)
            ends = 2 * length * np.arange(count + 1)
            drawn.append(sparse.csc_array((signs, corners.ravel(), ends), shape=(self.n, count)))
        return sparse.csc_array(sparse.hstack(drawn, format="csc"))


@dataclass(frozen=True, eq=False)
class Placed:
    """Directions of a subset of the cells, and possibly of further variables, which are removed."""

    family: Family
    cells: Integers
    d: int

    def draw(self, size: int, rng: np.random.Generator) -> sparse.csc_array:
        """Draw `size` directions, one per column."""
        drawn = self.family.draw(size, rng=rng)
        if drawn.shape[0] > self.cells.size:
            drawn = sparse.csc_array(sparse.csr_array(drawn)[: self.cells.size])
        return sparse.csc_array((drawn.data, self.cells[drawn.indices], drawn.indptr), shape=(self.d, size))


def lift(vectors: sparse.csc_array, members: Integers, sizes: Integers, rng: np.random.Generator) -> sparse.csc_array:
    """Map directions of class sums to cells, each unit to a random cell of its class."""
    starts = np.cumsum(sizes) - sizes
    repeats = np.where(sizes[vectors.indices] == 1, 1, np.abs(vectors.data))
    classes = np.repeat(vectors.indices, repeats)
    units = np.repeat(np.where(sizes[vectors.indices] == 1, vectors.data, np.sign(vectors.data)), repeats)
    columns = np.repeat(np.repeat(np.arange(vectors.shape[1]), np.diff(vectors.indptr)), repeats)
    cells = members[starts[classes] + rng.integers(sizes[classes])]
    return sparse.csc_array(sparse.coo_array((units, (cells, columns)), shape=(members.size, vectors.shape[1])))


def _distinct_pairs(sizes: Integers, rng: np.random.Generator) -> Integers:
    """Draw two different positions below each size, shape (n, 2)."""
    first = rng.integers(sizes)
    second = rng.integers(sizes - 1)
    return np.column_stack([first, second + (second >= first)])


def _distinct(count: int, n: int, length: int, rng: np.random.Generator) -> Integers:
    """Draw rows of different positions below n in random order, shape (count, length)."""
    if length == 2:
        return _distinct_pairs(np.full(count, n), rng)
    return np.argsort(rng.random((count, n)), axis=1)[:, :length]


EARLY = 0.5  # probability of closing a path that can be closed: short cycles are drawn more often

type Ends = tuple[Integers, Integers]


@dataclass(frozen=True, eq=False)
class GraphCycles:
    """Cycles of a graph whose edges are all on cycles: +1 for edges along the cycle, -1 for edges against it."""

    tails: Integers
    heads: Integers
    edges: Integers
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


def _signs_of_rows(system: sparse.csc_array, degrees: Integers) -> Integers | None:
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
    first: Integers, leaving: Integers, to: Integers, m: int, size: int, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Draw cycles: the number of edges of each, and all of their edges in the direction of the cycle."""
    vertices = first.size - 1
    place = np.full(vertices, -1)  # step at which the path visited each vertex
    path = np.empty(vertices + 1, dtype=np.int64)
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
            while chosen < 0 or chosen % m == edge % m:
                chosen = leaving[first[here] + int(rng.random() * (first[here + 1] - first[here]))]
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


Tree = list[tuple[int, int]]


def junction_tree(generators: Sequence[frozenset[int]]) -> Tree | None:
    """Return a junction tree of generators, or None if the model is not decomposable."""
    joined, edges = {0}, []
    while len(joined) < len(generators):
        edge = max(
            ((i, j) for i in sorted(joined) for j in range(len(generators)) if j not in joined),
            key=lambda pair: len(generators[pair[0]] & generators[pair[1]]),
        )
        edges.append(edge)
        joined.add(edge[1])
    overlap = sum(len(generators[i] & generators[j]) for i, j in edges)
    return edges if overlap == sum(map(len, generators)) - len(set().union(*generators)) else None


ASSIGNMENTS = 2**18  # largest number of assignments of dimensions to groups that are enumerated
DIMENSIONS = 12

Generators = list[frozenset[int]]


def margins_of(lattice: Lattice, shape: Sequence[int]) -> Generators | None:
    """Return the margins that a system makes public, if the system is equivalent to a set of margins."""
    if len(shape) > DIMENSIONS:
        return None
    public: Generators = []
    basis = lattice.basis
    for size in range(len(shape) + 1):
        for kept in map(frozenset, itertools.combinations(range(len(shape)), size)):
            # a margin is public only if all of its sub-margins are
            if all(kept - {s} in public for s in kept) and not (margin_matrix(shape, [kept]) @ basis).count_nonzero():
                public.append(kept)
    largest = maximal_generators(shape, public)
    subsets = (frozenset(S) for n in range(len(shape) + 1) for S in itertools.combinations(range(len(shape)), n))
    free = [S for S in subsets if not any(kept >= S for kept in largest)]
    rank = sum(math.prod(shape[s] - 1 for s in S) for S in free)
    return largest if rank == lattice.rank else None


def margin_swaps(shape: Sequence[int], generators: Generators) -> MarginSwaps | None:
    """Return the groups of dimensions whose swaps preserve margins."""
    wide = [s for s, n in enumerate(shape) if n > 1]
    found: dict[tuple[int, ...], None] = {}
    for k in range(2, len(wide) + 1):
        single = (tuple(c.index(s) + 1 if s in c else 0 for s in wide) for c in itertools.combinations(wide, k))
        for labels in itertools.product(range(k + 1), repeat=len(wide)) if all_enumerated(k, shape) else single:
            firsts = [labels.index(j) for j in range(1, k + 1) if j in labels]
            if len(firsts) == k and firsts == sorted(firsts):
                groups = [{s for s, label in zip(wide, labels, strict=True) if label == j} for j in range(1, k + 1)]
                missed = [[not (group & kept) for group in groups] for kept in generators]
                # only minimal sets of groups: other products are sums of products without a redundant group
                needed = [any(row[j] and sum(row) == 1 for row in missed) for j in range(k)]
                if all(map(any, missed)) and all(needed):
                    found[labels] = None
    if not found:
        return None
    groups_of = np.zeros((len(found), len(shape)), dtype=np.int64)
    groups_of[:, wide] = list(found)
    return MarginSwaps(tuple(shape), groups_of)


@dataclass(frozen=True, eq=False)
class MarginSwaps:
    """Products of differences, or of an alternating cycle and differences, over groups of dimensions."""

    shape: tuple[int, ...]
    groups: Integers

    def draw(self, size: int, rng: np.random.Generator) -> sparse.csc_array:
        """Draw `size` directions, one per column."""
        numbers = self.groups.max(axis=1)
        rarity = 0.5 ** ((self.groups > 0).sum(axis=1) - numbers)
        chosen = rng.choice(len(self.groups), size=size, p=rarity / rarity.sum())
        cells, signs, columns = [], [], []
        for k in np.unique(numbers[chosen]).tolist():
            mine = np.flatnonzero(numbers[chosen] == k)
            order = np.argsort(rng.random((mine.size, k)), axis=1) + 1  # the two groups of the cycle
            order = np.column_stack([np.zeros(mine.size, dtype=np.int64), order])
            groups = np.take_along_axis(order, self.groups[chosen[mine]], axis=1)
            levels = self._levels(groups, rng)
            third = [((levels[2] != other) & (groups == j)).any(axis=1) for other in levels[:2] for j in (1, 2)]
            long = np.all(third, axis=0) & (rng.random(mine.size) < 0.5)
            for length, part in ((2, np.flatnonzero(~long)), (3, np.flatnonzero(long))):
                for corner, sign in _corners(length, k):
                    at = np.take_along_axis(levels[:, part], corner[groups[part]][None], axis=0)[0]
                    cells.append(np.ravel_multi_index(tuple(at.T), self.shape))
                    signs.append(np.full(part.size, sign))
                    columns.append(mine[part])
        place = (np.concatenate(cells), np.concatenate(columns)) if cells else (np.empty(0, int), np.empty(0, int))
        values = np.concatenate(signs) if signs else np.empty(0, int)
        return sparse.csc_array(sparse.coo_array((values, place), shape=(math.prod(self.shape), size)))

    def _levels(self, groups: Integers, rng: np.random.Generator) -> Integers:
        """Draw three levels of every dimension, shape (3, n, dimensions), different if there are enough levels."""
        shape = np.array(self.shape)
        first = rng.integers(shape, size=groups.shape)
        second = (first + 1 + rng.integers(np.maximum(shape - 1, 1), size=groups.shape)) % shape
        low, high = np.minimum(first, second), np.maximum(first, second)
        third = rng.integers(np.where(shape > 2, shape - 2, shape), size=groups.shape)
        third += (shape > 2) & (third >= low)
        third += (shape > 2) & (third >= high)
        return np.stack([first, second, third])


def all_enumerated(k: int, shape: Sequence[int]) -> bool:
    """Return whether all sets of k groups that preserve the margins are listed."""
    return bool((k + 1) ** sum(n > 1 for n in shape) <= ASSIGNMENTS)


def _corners(length: int, k: int) -> list[tuple[Integers, int]]:
    """Return the level of groups 0..k in every cell of a move, and the sign; groups 1 and 2 form the cycle."""
    cycle = [((i, (i + step) % length), 1 - 2 * step) for i in range(length) for step in (0, 1)]
    rest = list(itertools.product((0, 1), repeat=k - 2))
    return [(np.array([0, *two, *bits]), sign * (-1) ** sum(bits)) for two, sign in cycle for bits in rest]
