"""Integer systems ``A x = a`` as sparse int64 arrays, checked once at the door.

Everything behind this module may assume a canonical ``csc_array`` of int64 with
entries of at most 2^53, so that a table read through floating point (CSV, JSON,
R, a float array) cannot have been rounded on its way in.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ppdinf._internal.types import Array
from ppdinf.errors import InvariantError

__all__ = ["LARGEST", "IntVector", "exact_product", "integer_matrix", "integer_vector", "row_label"]

type MatrixLike = ArrayLike | sparse.sparray | sparse.spmatrix
"""Rows of whole numbers, dense or sparse."""

IntVector = NDArray[np.int64]

LARGEST = 2**53
"""Largest absolute value accepted in a matrix or a vector: beyond it floats skip integers."""


def row_label(row: int, row_names: Sequence[str] | None = None, unit: str = "row") -> str:
    """Name a row for an error message.

    Parameters
    ----------
    row : int
        Index of the row.
    row_names : sequence of str, optional
        Labels of all rows.
    unit : str
        What a row stands for.

    Returns
    -------
    str

    Examples
    --------
    >>> row_label(2), row_label(0, ["Ohio total"])
    ('row 2', "row 0 ('Ohio total')")
    """
    return f"{unit} {row}" if row_names is None else f"{unit} {row} ({row_names[row]!r})"


def integer_matrix(A: MatrixLike, row_names: Sequence[str] | None = None, *, name: str = "A") -> sparse.csc_array:
    """Check a matrix of whole numbers and bring it to canonical sparse form.

    Parameters
    ----------
    A : array_like or scipy sparse, shape (k, d)
        Whole numbers of at most 2^53 in absolute value, in an integer dtype, a float
        dtype or Python integers. Booleans are refused: say whether they mean 0/1 sums.
    row_names : sequence of str, optional
        Labels for error messages.
    name : str
        What to call the matrix in error messages.

    Returns
    -------
    scipy.sparse.csc_array of int64, shape (k, d)
        Sorted indices, no duplicates, no explicit zeros. Never shares memory with
        `A` unless `A` already is exactly that.

    Raises
    ------
    InvariantError
        Not a matrix; or an entry that is fractional, NaN, infinite or too large
        (the first such row is named).

    Notes
    -----
    O(nnz) per call.

    Examples
    --------
    >>> integer_matrix([[1, 0, 2.0]]).toarray()
    array([[1, 0, 2]])
    >>> integer_matrix([[1, 0, 0.5]], ["half"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ppdinf.errors.InvariantError: A, row 0 ('half'), column 2: 0.5 is not a whole number of at most 2^53; ...
    """
    try:
        given: sparse.sparray = A if sparse.issparse(A) else np.asanyarray(A)
    except ValueError:
        raise InvariantError(f"{name} has rows of different lengths, or entries that are no numbers.") from None
    if given.ndim != 2:
        raise InvariantError(f"{name} has {given.ndim} dimension(s); a system needs a matrix, rows by cells.")
    if row_names is not None and len(row_names) != given.shape[0]:
        raise InvariantError(f"{name} has {given.shape[0]} rows but {len(row_names)} row names.")
    if not sparse.issparse(given):
        refused = np.argwhere(_refused(given))
        if refused.size:
            row, column = refused[0].tolist()
            raise InvariantError(_complaint(name, row_label(row, row_names), column, given[row, column]))
        given = np.asarray(given).astype(np.int64)
    matrix = sparse.csc_array(given)
    found = np.flatnonzero(_refused(matrix.data))
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


def _refused(values: Array) -> NDArray[np.bool_]:
    """Mark what is masked or not a whole number of at most 2^53 in absolute value."""
    if np.ma.isMaskedArray(values):
        return np.ma.getmaskarray(values) | _refused(values.data)
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
        f"{name}, {row}, column {column}: {value} is not a whole number of at most 2^53; "
        "scale or split the row (and write 0/1 for booleans)."
    )


def integer_vector(
    a: ArrayLike, length: int, row_names: Sequence[str] | None = None, *, name: str = "a", unit: str = "row"
) -> IntVector:
    """Check a vector of whole numbers of known length.

    Parameters
    ----------
    a : array_like, shape (length,)
        Whole numbers of at most 2^53 in absolute value.
    length : int
        Required length.
    row_names : sequence of str, optional
        Labels of the entries for error messages.
    name, unit : str
        What to call the vector and its entries in error messages.

    Returns
    -------
    ndarray of int64, shape (length,)

    Raises
    ------
    InvariantError
        Wrong length; or an entry that is not a whole number of at most 2^53. The value
        itself is not printed: it may be confidential.

    Examples
    --------
    >>> integer_vector([3.0, 4], 2)
    array([3, 4])
    >>> integer_vector([1, 2, 3], 2)
    Traceback (most recent call last):
    ...
    ppdinf.errors.InvariantError: a has shape (3,); it needs one entry for each of 2 rows.
    """
    values = np.asanyarray(a)
    if values.shape != (length,):
        raise InvariantError(f"{name} has shape {values.shape}; it needs one entry for each of {length} {unit}s.")
    refused = _refused(values)
    if refused.any():
        entry = row_label(int(np.flatnonzero(refused)[0]), row_names, unit)
        raise InvariantError(f"{name}, {entry}: the entry is not a whole number of at most 2^53.")
    return np.asarray(values).astype(np.int64)


def exact_product(A: sparse.csc_array, x: Array) -> Array:
    """Multiply a sparse integer matrix with integer vectors without overflow.

    Parameters
    ----------
    A : scipy.sparse array of int64, shape (k, d)
    x : ndarray of int64 or Python integers, shape (d,) or (d, n)

    Returns
    -------
    ndarray, shape (k,) or (k, n)
        int64 when a bound on every partial sum fits, Python integers (dtype object) otherwise.

    Examples
    --------
    >>> exact_product(integer_matrix([[2**40, 2**40]]), np.array([2**40, 1]))
    array([1208925819615728686333952], dtype=object)
    """
    if not A.nnz or not x.size:
        return np.zeros((A.shape[0], *x.shape[1:]), dtype=np.int64)
    if x.dtype != object:
        largest_x, largest_A = (max(int(v.max()), -int(v.min())) for v in (x, A.data))
        if largest_x * largest_A * min(A.nnz, A.shape[1]) < 2**63:
            found: Array = A @ x
            return found
    coordinates = A.tocoo()
    product = np.zeros((A.shape[0], *x.shape[1:]), dtype=object)
    np.add.at(product, coordinates.row, (coordinates.data.astype(object) * x[coordinates.col].astype(object).T).T)
    return product
