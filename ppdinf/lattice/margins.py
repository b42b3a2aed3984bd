"""Margins of tables: matrices, kernels in closed form, and tables with public margins that are found in rows."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Flags, Integers
from ppdinf.errors import InvariantError
from ppdinf.lattice.kernel import Lattice, support_components


def margin_kernel(shape: Sequence[int], generators: Iterable[Iterable[int]]) -> Lattice:
    """Return a saturated kernel basis of margins of an n-way table in closed form.

    The derivation is in the docstring of the module. The model family is that of hierarchical log-linear models
    (Lauritzen 1996, chapter 4). No elimination is necessary: the cost is the number of entries of the basis.

    Parameters
    ----------
    shape : sequence of int
        Size of each dimension; cells are in C order.
    generators : iterable of iterables of int
        Dimensions of each margin: ``[(0, 1), (1, 2)]`` for two two-way margins, ``[()]`` for the grand total.

    Returns
    -------
    Lattice
        A lattice with entries 0, 1 and -1; a vector for dimensions S has 2^len(S) nonzero entries.

    Raises
    ------
    InvariantError
        If a generator names a dimension that does not exist, or a size is not positive.

    See Also
    --------
    ppdinf.lattice.kernel, ppdinf.lattice.margin_matrix

    Examples
    --------
    >>> from ppdinf.lattice import margin_kernel
    >>> lattice = margin_kernel((2, 3), [(0,), (1,)])
    >>> lattice.basis.T.toarray()
    array([[ 1,  0, -1, -1,  0,  1],
           [ 0,  1, -1,  0, -1,  1]])
    """
    kept = maximal_generators(shape, generators)
    parts = []
    for size in range(len(shape) + 1):
        for S in itertools.combinations(range(len(shape)), size):
            if not any(set(S) <= generator for generator in kept):
                parts.append(reduce(_kron, [_factor(n, s in S) for s, n in enumerate(shape)]))
    d = int(np.prod(shape, dtype=np.int64))
    empty = sparse.csc_array((d, 0), dtype=np.int64)
    cells = np.arange(d)
    basis = sparse.csc_array(sparse.hstack([empty, *parts], format="csc", dtype=np.int64))
    return Lattice(cells, cells, basis, "A B = 0; part of a unimodular tensor basis (closed form for margins)")


def margin_matrix(shape: Sequence[int], generators: Iterable[Iterable[int]]) -> sparse.csc_array:
    """Return margins of an n-way table as a 0/1 system.

    Parameters
    ----------
    shape : sequence of int
        Size of each dimension; cells are in C order.
    generators : iterable of iterables of int
        Dimensions of each margin; margins that follow from others are omitted.

    Returns
    -------
    scipy.sparse.csc_array of int64, shape (k, d)

    Raises
    ------
    InvariantError
        If a generator names a dimension that does not exist, or a size is not positive.

    See Also
    --------
    ppdinf.lattice.margin_kernel, ppdinf.lattice.margin_moves

    Examples
    --------
    >>> from ppdinf.lattice import margin_matrix
    >>> margin_matrix((2, 2), [(0,), (1,), ()]).toarray()
    array([[1, 1, 0, 0],
           [0, 0, 1, 1],
           [1, 0, 1, 0],
           [0, 1, 0, 1]])
    """
    kept = maximal_generators(shape, generators)
    ones = [sparse.csc_array(np.ones((1, n), dtype=np.int64)) for n in shape]
    blocks = [reduce(_kron, [_identity(n) if s in G else ones[s] for s, n in enumerate(shape)]) for G in kept]
    d = int(np.prod(shape, dtype=np.int64))
    return sparse.csc_array(sparse.vstack([sparse.csc_array((0, d), dtype=np.int64), *blocks], dtype=np.int64))


def maximal_generators(shape: Sequence[int], generators: Iterable[Iterable[int]]) -> list[frozenset[int]]:
    """Remove generators that are contained in others, and validate the remaining ones."""
    if any(n < 1 for n in shape):
        raise InvariantError(f"Every size of a table must be positive, found shape {tuple(shape)}.")
    sets = list(dict.fromkeys(frozenset(generator) for generator in generators))
    for generator in sets:
        unknown = sorted(generator.difference(range(len(shape))))
        if unknown:
            raise InvariantError(
                f"Generator {sorted(generator)} must contain dimensions from 0 to {len(shape) - 1}, found {unknown[0]}."
            )
    return [generator for generator in sets if not any(generator < other for other in sets)]


def _kron(left: sparse.csc_array, right: sparse.csc_array) -> sparse.csc_array:
    return sparse.kron(left, right, format="csc")  # without a format, explicit zeros may be stored


def _factor(n: int, within: bool) -> sparse.csc_array:
    """Return the columns e_i - e_last, or the column e_last."""
    last = np.zeros((n, 1), dtype=np.int64)
    last[-1] = 1
    if not within:
        return sparse.csc_array(last)
    return sparse.csc_array(_identity(n)[:, : n - 1] - sparse.csc_array(last @ np.ones((1, n - 1), np.int64)))


def _identity(n: int) -> sparse.csc_array:
    return sparse.eye_array(n, dtype=np.int64, format="csc")


def two_way_table(system: sparse.csc_array) -> Integers | None:
    """Return columns as the cells of a complete two-way table, if the rows are its two margins."""
    table = hierarchical(system, np.ones(system.shape[1], dtype=np.int64))
    if table is None or sorted(map(sorted, table.generators)) != [[0], [1]]:
        return None
    return table.classes.reshape(table.shape)


MOST_PARTITIONS = 12


@dataclass(frozen=True, eq=False)
class HierarchicalTable:
    """A complete table of class sums with margins."""

    classes: Integers
    shape: tuple[int, ...]
    generators: list[frozenset[int]]
    weights: list[Integers]

    @property
    def cells(self) -> int:
        """Total number of cells of all classes."""
        return int(self.weights[0].sum())

    @property
    def moving(self) -> Flags:
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


def hierarchical(system: sparse.csc_array, sizes: Integers) -> HierarchicalTable | None:
    """Return classes as the cells of a complete table, if the rows of a system are its margins."""
    partitions = _partitions(system)
    if not partitions:
        return None
    levels: list[Integers] = []  # level of each dimension, by class
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


def _partitions(system: sparse.csc_array) -> list[Integers] | None:
    """Return rows as non-redundant partitions, each a label for every column, or None if this is impossible."""
    rows = sparse.csr_array(system)
    lengths = np.diff(rows.indptr)
    found: dict[int, list[Integers]] = {}  # by the length of the rows
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


def _common_coarsenings(partitions: Sequence[Integers]) -> list[Integers]:
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


def _join(first: Integers, second: Integers) -> Integers:
    """Return the finest partition that both partitions refine."""
    n, m = int(first.max()) + 1, int(second.max()) + 1
    links = sparse.csc_array(sparse.coo_array((np.ones(first.size, np.int64), (first, second)), shape=(n, m)))
    return _in_order(support_components(links)[first])


def _refines(fine: Integers, coarse: Integers) -> bool:
    """Return whether each level of one partition is contained in a level of the other."""
    lead = np.zeros(int(fine.max()) + 1, np.int64)
    lead[fine] = coarse
    return bool((lead[fine] == coarse).all())


def _split(labels: Integers, coordinates: Sequence[Integers], sizes: Integers) -> Integers | None:
    """Count the levels of a partition within each combination of coarser coordinates; None if the counts differ."""
    shape = tuple(int(level.max()) + 1 for level in coordinates)
    base = np.ravel_multi_index(tuple(coordinates), shape) if coordinates else np.zeros(labels.size, dtype=np.int64)
    _, first, level_of = np.unique(labels, return_index=True, return_inverse=True)
    mass = np.bincount(level_of, weights=sizes)
    order = np.lexsort((first, mass, base[first]))  # levels of equal weight have the same number
    counts = np.bincount(base[first][order], minlength=math.prod(shape))
    if counts.min() != counts.max():
        return None
    number = np.empty(order.size, dtype=np.int64)
    number[order] = np.arange(order.size) % counts[0]
    return number[level_of]


def _is_product(sizes: Integers, weights: Sequence[Integers], levels: Sequence[Integers]) -> bool:
    """Return whether each class size is the product of the weights of its levels, over powers of their sum."""
    cells = int(sizes.sum())
    shares = [weight[level] / cells for weight, level in zip(weights, levels, strict=True)]
    return bool(np.allclose(cells * np.prod(shares, axis=0), sizes, rtol=1e-9, atol=0))


def _in_order(labels: Integers) -> Integers:
    """Label levels in order of first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.int64)[inverse]
