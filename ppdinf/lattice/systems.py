"""Validation and canonical form of integer systems ``A x = a``; equal columns and rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ppdinf._internal.values import Array, Flags, Integers, unmasked
from ppdinf.errors import InvariantError

type MatrixLike = ArrayLike | sparse.sparray | sparse.spmatrix
"""Rows of integers, dense or sparse."""


LARGEST = 2**53
"""Largest absolute value in a matrix or a vector. Floats do not represent all larger integers."""


def row_label(row: int, row_names: Sequence[str] | None = None, unit: str = "row") -> str:
    """Return the name of a row for an error message."""
    return f"{unit} {row}" if row_names is None else f"{unit} {row} ({row_names[row]!r})"


def integer_matrix(A: MatrixLike, row_names: Sequence[str] | None = None, *, name: str = "A") -> sparse.csc_array:
    """Validate an integer matrix and convert it to canonical sparse form."""
    is_array = sparse.issparse(A) or isinstance(A, np.ndarray)
    given: sparse.sparray = A if is_array else unmasked(A, name, InvariantError)
    if given.ndim != 2:
        raise InvariantError(f"{name} must be a matrix, rows by cells, found {given.ndim} dimension(s).")
    if row_names is not None and len(row_names) != given.shape[0]:
        raise InvariantError(
            f"row_names must have one name for each of the {given.shape[0]} rows of {name}, found {len(row_names)}."
        )
    if not sparse.issparse(given):
        refused = np.argwhere(_is_invalid(given))
        if refused.size:
            row, column = refused[0].tolist()
            raise InvariantError(_complaint(name, row_label(row, row_names), column, given[row, column]))
        given = np.asarray(given).astype(np.int64)
    matrix = sparse.csc_array(given)
    found = np.flatnonzero(_is_invalid(matrix.data))
    if found.size:
        at = int(found[0])
        row, column = int(matrix.indices[at]), int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        raise InvariantError(_complaint(name, row_label(row, row_names), column, matrix.data[at]))
    if matrix.dtype != np.int64:
        matrix = matrix.astype(np.int64)
    if not matrix.has_canonical_format or (matrix.data == 0).any():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return matrix


def _is_invalid(values: Array) -> Flags:
    """Return which entries are masked or not integers of at most 2^53 in absolute value."""
    if np.ma.isMaskedArray(values):
        return np.ma.getmaskarray(values) | _is_invalid(values.data)
    if values.dtype == object:
        whole = (isinstance(v, int | np.integer) and not isinstance(v, bool) for v in values.flat)
        fits = [ok and abs(int(v)) <= LARGEST for ok, v in zip(whole, values.flat, strict=True)]
        return ~np.array(fits, dtype=bool).reshape(values.shape)
    if values.dtype.kind not in "iuf":
        return np.ones(values.shape, dtype=bool)
    accepted = (values >= -LARGEST) & (values <= LARGEST)  # false for NaN
    if values.dtype.kind == "f":
        accepted &= values == np.floor(values)
    return ~accepted


def _complaint(name: str, row: str, column: int, value: object) -> str:
    return (
        f"{name}, {row}, column {column}: {value} is not an integer of at most 2^53; "
        "scale or split the row (and write 0/1 for booleans)."
    )


def integer_vector(
    a: ArrayLike, length: int, row_names: Sequence[str] | None = None, *, name: str = "a", unit: str = "row"
) -> Integers:
    """Validate an integer vector of known length."""
    values = np.asanyarray(a)
    if values.shape != (length,):
        raise InvariantError(f"{name} must have one entry for each of {length} {unit}s, found shape {values.shape}.")
    refused = _is_invalid(values)
    if refused.any():
        entry = row_label(int(np.flatnonzero(refused)[0]), row_names, unit)
        raise InvariantError(f"{name}, {entry}: the entry is not an integer of at most 2^53.")
    return np.asarray(values).astype(np.int64)


def exact_product(A: sparse.csc_array, x: Array) -> Array:
    """Multiply a sparse integer matrix by integer vectors without overflow."""
    if not A.nnz or not x.size:
        return np.zeros((A.shape[0], *x.shape[1:]), dtype=np.int64)
    if x.dtype != object:
        largest_x, largest_A = (max(int(v.max()), -int(v.min())) for v in (x, A.data))
        if largest_x * largest_A * min(A.nnz, A.shape[1]) < 2**63:
            return A @ x
    coordinates = A.tocoo()
    product = np.zeros((A.shape[0], *x.shape[1:]), dtype=object)
    np.add.at(product, coordinates.row, (coordinates.data.astype(object) * x[coordinates.col].astype(object).T).T)
    return product


def compressed(matrix: sparse.sparray) -> tuple[Integers, Integers, Integers]:
    """Return starts, indices and entries of a compressed matrix, for compiled code."""
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data.astype(np.int64)


def equal_columns(A: sparse.csc_array) -> tuple[Integers, Integers]:
    """Group equal columns."""
    rng = np.random.default_rng(0)  # any generator is valid, because the comparison below is exact
    lengths = np.diff(A.indptr)
    keys = lengths.astype(np.uint64)
    while True:
        weights = rng.integers(2**64, size=A.shape[0], dtype=np.uint64)
        keys = keys * np.uint64(0x9E3779B97F4A7C15) + _column_hash(A, weights)
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        if _all_equal_to(A, lengths, first[group]):
            break
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank[group].astype(np.int64), first[order].astype(np.int64)


def _column_hash(A: sparse.csc_array, weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    terms = A.data.astype(np.uint64) * weights[A.indices]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])  # wraps modulo 2^64
    return sums[A.indptr[1:]] - sums[A.indptr[:-1]]


def _all_equal_to(A: sparse.csc_array, lengths: NDArray[np.integer], representative: NDArray[np.integer]) -> bool:
    """Return whether every column equals its representative, entry by entry."""
    if (lengths != lengths[representative]).any():
        return False
    offsets = np.repeat(A.indptr[representative] - A.indptr[:-1], lengths)
    partner = np.arange(A.nnz) + offsets
    return bool((A.indices == A.indices[partner]).all() and (A.data == A.data[partner]).all())


def distinct_rows(system: sparse.csc_array) -> sparse.csc_array:
    """Drop empty and repeated rows."""
    rows = sparse.csc_array(system.T)
    _, first = equal_columns(rows)
    return sparse.csc_array(rows[:, first[np.diff(rows.indptr)[first] > 0]].T)
