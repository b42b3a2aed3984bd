"""Class sums that form a complete table with public margins, detected from the rows of a system.

Rows with disjoint supports that cover all cells form one *partition*. In a table with margins over sets of dimensions
(generators), the finest common coarsening of the partitions of two generators is the partition of their intersection.
Dimensions are therefore detected from the coarsest partition to the finest. A partition that splits each level of all
coarser ones, taken together, into equally many parts adds a dimension with this number of levels. Two dimensions that
no partition distinguishes are treated as one.

The result does not rely on the detection of the dimensions. The final checks prove that the system is one of margins:
each class has unique coordinates, every combination of levels occurs, and the levels of each partition are the
combinations of levels of its dimensions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.lattice.algebra.kernel import support_components
from ppdinf.lattice.algebra.margins import maximal_generators
from ppdinf.lattice.algebra.systems import IntVector

MOST_PARTITIONS = 12


@dataclass(frozen=True, eq=False)
class HierarchicalTable:
    """A complete table of class sums with margins."""

    classes: IntVector
    shape: tuple[int, ...]
    generators: list[frozenset[int]]
    weights: list[IntVector]

    @property
    def cells(self) -> int:
        """Total number of cells of all classes."""
        return int(self.weights[0].sum())

    @property
    def moving(self) -> NDArray[np.bool_]:
        """Positions whose dimensions with a level before the last are in no common generator, as many as the rank."""
        position = np.indices(self.shape, sparse=True)
        inner = [index < size - 1 for index, size in zip(position, self.shape, strict=True)]
        free = np.ones(self.shape, dtype=bool)
        for generator in self.generators:
            beyond = np.zeros((1,) * len(self.shape), dtype=bool)
            for dimension in set(range(len(self.shape))) - generator:
                beyond = beyond | inner[dimension]
            free = free & beyond
        return free.ravel()

    def __str__(self) -> str:
        size = " x ".join(f"{n:,}" for n in self.shape)
        return f"{size} table with {len(self.generators)} margins"


def hierarchical(system: sparse.csc_array, sizes: IntVector) -> HierarchicalTable | None:
    """Return classes as the cells of a complete table, if the rows of a system are its margins."""
    partitions = _partitions(system)
    if not partitions:
        return None
    levels: list[IntVector] = []  # level of each dimension, by class
    dimensions: dict[bytes, frozenset[int]] = {}
    closed = _common_coarsenings(partitions)
    for labels in sorted(closed, key=lambda labels: int(labels.max())):
        coarser = [other for other in closed if other is not labels and _refines(labels, other)]
        kept = frozenset[int]().union(*(dimensions[other.tobytes()] for other in coarser))
        level = _split(labels, [levels[s] for s in sorted(kept)], sizes)
        if level is None:
            return None
        if level.any():
            kept |= {len(levels)}
            levels.append(level)
        dimensions[labels.tobytes()] = kept
        if int(labels.max()) + 1 != math.prod(int(levels[s].max()) + 1 for s in kept):
            return None
    shape = tuple(int(level.max()) + 1 for level in levels)
    if math.prod(shape) != sizes.size:
        return None
    place = np.ravel_multi_index(tuple(levels), shape)
    weights = [np.bincount(level, weights=sizes).astype(np.int64) for level in levels]
    if np.bincount(place).max() > 1 or not _is_product(sizes, weights, levels):
        return None
    generators = maximal_generators(shape, [dimensions[labels.tobytes()] for labels in partitions])
    return HierarchicalTable(np.argsort(place), shape, generators, weights)


def _partitions(system: sparse.csc_array) -> list[IntVector] | None:
    """Return rows as non-redundant partitions, each a label for every column, or None if this is impossible."""
    rows = sparse.csr_array(system)
    lengths = np.diff(rows.indptr)
    found: dict[int, list[IntVector]] = {}  # by the length of the rows
    for row in np.flatnonzero(lengths).tolist():
        members = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
        if (rows.data[rows.indptr[row] : rows.indptr[row + 1]] != rows.data[rows.indptr[row]]).any():
            return None
        alike = found.setdefault(int(lengths[row]), [])
        for labels in alike:
            if (labels[members] < 0).all():
                labels[members] = row
                break
            if (labels[members] == labels[members[0]]).all():
                break  # as many columns as the level: the row is repeated
        else:
            if len(alike) == MOST_PARTITIONS:
                return None
            alike.append(np.full(system.shape[1], -1))
            alike[-1][members] = row
    partitions = [labels for alike in found.values() for labels in alike]
    whole = [_in_order(labels) for labels in partitions if labels.min() >= 0]
    whole = list({labels.tobytes(): labels for labels in whole}.values())
    for labels in partitions:
        # sums that follow from other sums, such as a state from its counties
        if labels.min() < 0 and not any(_refines(other, labels) for other in whole):
            return None
    return [
        labels for labels in whole if labels.any() and not any(_refines(o, labels) for o in whole if o is not labels)
    ]


def _common_coarsenings(partitions: Sequence[IntVector]) -> list[IntVector]:
    """Close partitions under finest common coarsenings, without the trivial partition."""
    closed = {labels.tobytes(): labels for labels in partitions}
    waiting = list(closed.values())
    while waiting:
        first = waiting.pop()
        for second in list(closed.values()):
            joined = _join(first, second)
            if joined.any() and joined.tobytes() not in closed:
                closed[joined.tobytes()] = joined
                waiting.append(joined)
    return list(closed.values())


def _join(first: IntVector, second: IntVector) -> IntVector:
    """Return the finest partition that both partitions refine."""
    n, m = int(first.max()) + 1, int(second.max()) + 1
    links = sparse.csc_array(sparse.coo_array((np.ones(first.size, np.int64), (first, second)), shape=(n, m)))
    return _in_order(support_components(links)[first])


def _refines(fine: IntVector, coarse: IntVector) -> bool:
    """Return whether each level of one partition is contained in a level of the other."""
    lead = np.zeros(int(fine.max()) + 1, dtype=np.int64)
    lead[fine] = coarse
    return bool((lead[fine] == coarse).all())


def _split(labels: IntVector, coordinates: Sequence[IntVector], sizes: IntVector) -> IntVector | None:
    """Count the levels of a partition within each combination of coarser coordinates; None if the counts differ."""
    shape = tuple(int(level.max()) + 1 for level in coordinates)
    base = np.ravel_multi_index(tuple(coordinates), shape) if coordinates else np.zeros(labels.size, dtype=np.int64)
    _, first, level_of = np.unique(labels, return_index=True, return_inverse=True)
    mass = np.bincount(level_of, weights=sizes)
    order = np.lexsort((first, mass, base[first]))  # levels of equal weight have the same number
    owner = base[first][order]
    counts = np.bincount(owner, minlength=math.prod(shape))
    if counts.min() != counts.max():
        return None
    number = np.empty(order.size, dtype=np.int64)
    number[order] = np.arange(order.size) % counts[0]
    return number[level_of]


def _is_product(sizes: IntVector, weights: Sequence[IntVector], levels: Sequence[IntVector]) -> bool:
    """Return whether each class size is the product of the weights of its levels, over powers of their sum."""
    cells = int(sizes.sum())
    shares = [weight[level] / cells for weight, level in zip(weights, levels, strict=True)]
    return bool(np.allclose(cells * np.prod(shares, axis=0), sizes, rtol=1e-9, atol=0))


def _in_order(labels: IntVector) -> IntVector:
    """Label levels in order of first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.int64)[inverse]
