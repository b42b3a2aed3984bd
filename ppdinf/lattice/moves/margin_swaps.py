"""Swaps that preserve margins of an n-way table, for any set of margins.

Take disjoint groups of dimensions D_1, ..., D_k such that every public margin contains no dimension of at least one
group. Fix the levels of all other dimensions, take two levels a_j, b_j of each group, and form the product of the
differences e(a_j) - e(b_j): 2^k cells change by +1 or -1. The sum of a difference over D_j is 0, so every margin is
preserved. Two groups on the two sides of a separator give the swaps that connect decomposable models (Dobra 2003,
Bernoulli 9). Three single dimensions give the cubes of tables without three-way interaction (Diaconis and Sturmfels
1998, section 4).

The two differences of two groups can be replaced by any alternating cycle over their levels, whose sums over either
group are also 0. With cycles over three levels, a 3 x 3 x 3 table with all two-way margins has its complete Markov
basis (Diaconis and Sturmfels: 27 cubes and 54 moves of 12 cells). For larger models these are only the short moves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ppdinf.lattice.algebra.kernel import Lattice
from ppdinf.lattice.algebra.margins import margin_matrix, maximal_generators
from ppdinf.lattice.algebra.systems import IntVector

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
    free = [S for S in _subsets(len(shape)) if not any(kept >= S for kept in largest)]
    rank = sum(math.prod(shape[s] - 1 for s in S) for S in free)
    return largest if rank == lattice.rank else None


def margin_swaps(shape: Sequence[int], generators: Generators) -> MarginSwaps | None:
    """Return the groups of dimensions whose swaps preserve margins."""
    wide = [s for s, n in enumerate(shape) if n > 1]
    found: dict[tuple[int, ...], None] = {}
    for k in range(2, len(wide) + 1):
        single = (tuple(c.index(s) + 1 if s in c else 0 for s in wide) for c in itertools.combinations(wide, k))
        for labels in itertools.product(range(k + 1), repeat=len(wide)) if _all_enumerated(k, shape) else single:
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
    groups: IntVector

    @property
    def holds_all_pairs(self) -> bool:
        """Whether all pairs of groups that preserve the margins are included."""
        return _all_enumerated(2, self.shape)

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

    def _levels(self, groups: IntVector, rng: np.random.Generator) -> IntVector:
        """Draw three levels of every dimension, shape (3, n, dimensions), different if there are enough levels."""
        shape = np.array(self.shape)
        first = rng.integers(shape, size=groups.shape)
        second = (first + 1 + rng.integers(np.maximum(shape - 1, 1), size=groups.shape)) % shape
        low, high = np.minimum(first, second), np.maximum(first, second)
        third = rng.integers(np.where(shape > 2, shape - 2, shape), size=groups.shape)
        third += (shape > 2) & (third >= low)
        third += (shape > 2) & (third >= high)
        return np.stack([first, second, third])


def _all_enumerated(k: int, shape: Sequence[int]) -> bool:
    return bool((k + 1) ** sum(n > 1 for n in shape) <= ASSIGNMENTS)


def _corners(length: int, k: int) -> list[tuple[IntVector, int]]:
    """Return the level of groups 0..k in every cell of a move, and the sign; groups 1 and 2 form the cycle."""
    cycle = [((i, (i + step) % length), 1 - 2 * step) for i in range(length) for step in (0, 1)]
    rest = list(itertools.product((0, 1), repeat=k - 2))
    return [(np.array([0, *two, *bits]), sign * (-1) ** sum(bits)) for two, sign in cycle for bits in rest]


def _subsets(n: int) -> list[frozenset[int]]:
    return [frozenset(S) for size in range(n + 1) for S in itertools.combinations(range(n), size)]
