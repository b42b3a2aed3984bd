"""Counting queries, weighted numbers of records, and the changes of their answers by one person."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import sparse

from ppdinf._internal.values import Array, numbers
from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.kernel import kernel
from ppdinf.lattice.null_space import NullSpace
from ppdinf.privacy.sensitivity import Neighbours, sensitivity_polytope, swaps
from ppdinf.tables.frame import LARGEST
from ppdinf.tables.table import TableLike, labelled_cells

LARGEST_WEIGHT = 10**6

type Query = tuple[tuple[int, ...], ...]


def counting_query(query: object) -> Query | None:
    """Validate a query matrix, one row per answer and one column per cell; None means the cells themselves."""
    if query is None:
        return None
    matrix = numbers(query.toarray() if hasattr(query, "toarray") else query, "a query", integer=True)
    if matrix.ndim != 2 or not matrix.size or matrix.min() < 0:
        raise PrivacyError("a query must be a matrix of non-negative integers: one row per answer, one column per cell")
    if matrix.max() > LARGEST_WEIGHT:
        raise PrivacyError("a weight of the query exceeds 1,000,000: state it in a larger unit")
    return tuple(tuple(row) for row in matrix.tolist())


def answer(query: Query | None, table: TableLike, *, nonnegative: bool = True) -> TableLike:
    """Compute the answers to a query: a vector with the dimension ``answer``, or the table itself without a query."""
    if query is None:
        return table
    frame, cells = labelled_cells(table, nonnegative=nonnegative)
    if len(query[0]) != frame.size:
        raise InvariantError(f"the query has {len(query[0])} columns, the table has {frame.size} cells")
    answers = [sum(weight * cell for weight, cell in zip(row, cells.tolist(), strict=True)) for row in query]
    if max(map(abs, answers)) > LARGEST:
        raise CountError("an answer exceeds 2**53: use smaller weights")
    numbers = np.array(answers, dtype=np.int64)
    return xr.DataArray(numbers, dims="answer", attrs={"not_totals": range(len(answers))})  # answers may be sums


SMALLEST = 1e-6  # smallest extent of the changes along any direction, relative to the largest


def sensitivity_directions(space: NullSpace, query: Query | None, neighbours: Neighbours) -> tuple[Array, Array]:
    """Enumerate the changes of Q'W by one person, in coordinates of the directions that they span."""
    d = space.fixed.shape[0]
    if neighbours == "swapped":
        return space.basis.toarray(), space.basis.T @ swaps(_swappable(space))
    answers = sparse.eye_array(d, dtype=np.int64) if query is None else np.array(query)
    k = _seen(space, sparse.csc_array(answers), neighbours)[0]
    if not k:
        return np.zeros((d, 0)), np.zeros((0, 0))
    moves = sensitivity_polytope(space.basis.T @ answers, neighbours=neighbours)
    left, extent, _ = np.linalg.svd(moves, full_matrices=False)
    if extent[k - 1] < SMALLEST * extent[0]:
        raise PrivacyError(
            "the extents of the answers differ by a factor above 1,000,000, too much for double precision: use smaller "
            "weights, or SubspaceGaussian"
        )
    return space.basis @ left[:, :k], left[:, :k].T @ moves


def _swappable(space: NullSpace) -> sparse.csc_array:
    """Return the public sums, or refuse them if swaps of two records do not connect all tables that have them."""
    # two margins of a complete table have swaps as Markov basis, and m - 1 swaps rearrange m records
    structure = space.structure
    crossing = np.count_nonzero(structure.sum_ranks)
    if len(structure.tables) < crossing or any(len(table.generators) > 2 for table in structure.tables):
        raise PrivacyError(
            "swaps of two records do not connect all tables with these public sums: state the total, disjoint sums or "
            "two margins of a table, or neighbours='replaced'"
        )
    return sparse.csc_array(structure.class_system[:, structure.classes])


def moved_structure(space: NullSpace, query: Query | None, neighbours: Neighbours) -> Structure:
    """Return the structure of the integer vectors that changes span in the null space."""
    if neighbours == "swapped":
        return space.structure
    d = space.fixed.shape[0]
    answers = sparse.eye_array(d, dtype=np.int64) if query is None else sparse.csc_array(np.array(query))
    k, both = _seen(space, sparse.csc_array(answers), neighbours)
    if k == space.dimension:
        return space.structure
    system = space.structure.class_system[:, space.structure.classes]
    return structure(sparse.vstack([system, kernel(both.T).basis.T], format="csr", dtype=np.int64))


def _seen(space: NullSpace, answers: sparse.csc_array, neighbours: Neighbours) -> tuple[int, sparse.csc_array]:
    """Return the dimension of the span of the changes in the null space, the changes and the public sums."""
    if neighbours == "replaced":
        d = answers.shape[1]
        first = sparse.coo_array((np.ones(d - 1, np.int64), (np.zeros(d - 1, int), np.arange(d - 1))), shape=(d, d - 1))
        answers = answers @ (sparse.eye_array(d, dtype=np.int64, format="csc")[:, 1:] - first)
    structure = space.structure
    both = sparse.hstack([answers, structure.class_system[:, structure.classes].T], format="csc", dtype=np.int64)
    return both.shape[1] - kernel(both).rank - space.fixed.shape[1], both


def inside(directions: Array, z: Array) -> bool:
    """Return whether z lies in the span of orthonormal directions, up to rounding of large counts."""
    away = z - directions @ (directions.T @ z)
    return bool(np.linalg.norm(away) <= 1e-6 * max(1.0, float(np.linalg.norm(z))))
