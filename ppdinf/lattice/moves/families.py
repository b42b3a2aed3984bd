"""Families of moves that are drawn at random without a list of all moves.

A family draws directions of class sums (classes x size, integer, sparse) or, for pair transfers, of cells. `lift` maps
a direction of class sums to cells.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from ppdinf.lattice.algebra.systems import IntVector


class Family(Protocol):
    """Random directions; every member of the family has positive probability."""

    def draw(self, size: int, rng: np.random.Generator) -> sparse.csc_array:
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

    members: IntVector
    sizes: IntVector

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

    table: IntVector
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
    """Directions of a table whose cells are a subset of the class sums."""

    family: Family
    classes: IntVector
    n: int

    def draw(self, size: int, rng: np.random.Generator) -> sparse.csc_array:
        """Draw `size` directions, one per column."""
        drawn = self.family.draw(size, rng)
        return sparse.csc_array((drawn.data, self.classes[drawn.indices], drawn.indptr), shape=(self.n, size))


def lift(vectors: sparse.csc_array, members: IntVector, sizes: IntVector, rng: np.random.Generator) -> sparse.csc_array:
    """Map directions of class sums to cells, each unit to a random cell of its class."""
    starts = np.cumsum(sizes) - sizes
    repeats = np.where(sizes[vectors.indices] == 1, 1, np.abs(vectors.data))
    classes = np.repeat(vectors.indices, repeats)
    units = np.repeat(np.where(sizes[vectors.indices] == 1, vectors.data, np.sign(vectors.data)), repeats)
    columns = np.repeat(np.repeat(np.arange(vectors.shape[1]), np.diff(vectors.indptr)), repeats)
    cells = members[starts[classes] + rng.integers(sizes[classes])]
    return sparse.csc_array(sparse.coo_array((units, (cells, columns)), shape=(members.size, vectors.shape[1])))


def _distinct_pairs(sizes: IntVector, rng: np.random.Generator) -> IntVector:
    """Draw two different positions below each size, shape (n, 2)."""
    first = rng.integers(sizes)
    second = rng.integers(sizes - 1)
    return np.column_stack([first, second + (second >= first)])


def _distinct(count: int, n: int, length: int, rng: np.random.Generator) -> IntVector:
    """Draw rows of different positions below n in random order, shape (count, length)."""
    if length == 2:
        return _distinct_pairs(np.full(count, n), rng)
    return np.argsort(rng.random((count, n)), axis=1)[:, :length]
