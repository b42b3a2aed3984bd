"""Saturated kernel bases, which contain all integer solutions of A z = 0, and the proof that a basis is saturated."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import fmpz_mat
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ppdinf._internal.values import Integers
from ppdinf.errors import InvariantError
from ppdinf.lattice.integer_rows import SparseRow, dense_integers, eliminate_units, rank, sparse_rows
from ppdinf.lattice.systems import MatrixLike, equal_columns, exact_product, integer_matrix


def certify(A: MatrixLike, B: MatrixLike) -> str:
    """Prove that the columns of B are a saturated basis of the kernel of A.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d)
    B : array_like or scipy sparse of int, shape (d, m)

    Returns
    -------
    str
        ``"A B = 0; identity block"`` or ``"A B = 0; unit Smith form"``.

    Raises
    ------
    InvariantError
        If A B is not zero, m differs from d - rank A, or B is not saturated.

    See Also
    --------
    ppdinf.lattice.kernel, ppdinf.lattice.structure

    Examples
    --------
    >>> from ppdinf.lattice import certify
    >>> certify([[1, 1, 1]], [[1, 0], [0, 1], [-1, -1]])
    'A B = 0; identity block'
    """
    matrix, basis = integer_matrix(A), integer_matrix(B, name="B")
    if matrix.shape[1] != basis.shape[0]:
        raise InvariantError(
            f"A must have one column and B one row per cell, found {matrix.shape[1]} and {basis.shape[0]}."
        )
    return prove(matrix, basis)


def prove(matrix: sparse.csc_array, basis: sparse.csc_array) -> str:
    """Certify canonical matrices like `certify`; the basis may have entries up to 2^63."""
    d, m = basis.shape
    if not _annihilates(matrix, basis):
        raise InvariantError("A B is not zero: the basis leaves the kernel of A.")
    if _has_identity_block(basis):
        proof = "identity block"
    elif _generates(basis):
        proof = "unit Smith form"
    else:
        raise InvariantError("The basis is not saturated: it does not generate all integer solutions.")
    nullity = d - rank(matrix)
    if m != nullity:
        raise InvariantError(f"The basis has {m} vectors, but the kernel of A has rank {nullity}.")
    return f"A B = 0; {proof}"


def is_saturated(B: MatrixLike) -> bool:
    """Return whether the columns of B generate every integer point of their rational span.

    Parameters
    ----------
    B : array_like or scipy sparse of int, shape (d, m)

    Returns
    -------
    bool
        False also if the columns are linearly dependent.

    Raises
    ------
    InvariantError
        If B is not a matrix of integers of at most 2^53.

    See Also
    --------
    ppdinf.lattice.kernel

    Examples
    --------
    >>> from ppdinf.lattice import is_saturated
    >>> is_saturated([[1, 1], [-1, 1]]), is_saturated([[2, 3], [1, 1]])
    (False, True)
    """
    return _generates(integer_matrix(B, name="B"))


def _generates(basis: sparse.csc_array) -> bool:
    steps = eliminate_units(sparse_rows(basis.T))
    left = basis.shape[1] - len(steps.rows)
    if left == 0:
        return True
    if len(steps.remainder) < left:
        return False  # a zero row remains: dependent columns
    cells = sorted(set().union(*steps.remainder.values()))
    hermite = fmpz_mat(dense_integers(list(steps.remainder.values()), cells)).transpose().hnf()
    return len(cells) >= left and all(int(hermite[i, i]) == 1 for i in range(left))


def _annihilates(A: sparse.csc_array, B: sparse.csc_array) -> bool:
    if not A.nnz or not B.nnz:
        return True
    longest = int(np.diff(B.indptr).max())
    if int(abs(A).max()) * int(abs(B).max()) * longest < 2**63:
        return bool((A @ B).count_nonzero() == 0)
    return not any(exact_product(A, B[:, [k]].toarray().ravel()).any() for k in range(B.shape[1]))


def _has_identity_block(B: sparse.csc_array) -> bool:
    by_row = sparse.csr_array(B)
    single = np.flatnonzero(np.diff(by_row.indptr) == 1)
    at = by_row.indptr[single]
    return bool(np.unique(by_row.indices[at][np.abs(by_row.data[at]) == 1]).size == B.shape[1])


LARGEST_REDUCTION = 1000
"""Largest rank of a component for LLL reduction, which would otherwise take minutes."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """The lattice {z : A z = 0}, stored as classes of equal cells and a kernel of class sums.

    Attributes
    ----------
    classes : ndarray of int64, shape (d,)
        Class of each cell: cells of one class have equal columns in A. A cell in no constraint is a separate class.
    representatives : ndarray of int64, shape (n_classes,)
        First cell of each class.
    class_basis : scipy.sparse.csc_array of int64, shape (n_classes, r)
        Saturated basis of the lattice of class sums.
    certificate : str
        The proof that the basis is saturated, and the steps that computed it.

    See Also
    --------
    ppdinf.lattice.kernel, ppdinf.lattice.Moves

    Examples
    --------
    >>> from ppdinf.lattice import kernel
    >>> lattice = kernel([[1, 1, 1, 0], [0, 0, 0, 1]])
    >>> lattice.classes, lattice.representatives, lattice.rank
    (array([0, 0, 0, 1]), array([0, 3]), 2)
    """

    classes: Integers
    representatives: Integers
    class_basis: sparse.csc_array
    certificate: str

    @property
    def rank(self) -> int:
        """Number m of basis vectors, d - rank A."""
        return int(self.classes.size - self.representatives.size + self.class_basis.shape[1])

    @cached_property
    def basis(self) -> sparse.csc_array:
        """Saturated basis, int64, shape (d, m), computed at first use (two entries per cell).

        The first vectors are e_j - e_r for every cell j that does not represent its class r, in the order of cells. The
        other vectors are those of `class_basis`, with class sums assigned to the representatives.
        """
        d = self.classes.size
        others = np.delete(np.arange(d), self.representatives)
        ends = np.arange(others.size + 1) * 2
        indices = np.column_stack([self.representatives[self.classes[others]], others]).ravel()
        values = np.tile(np.array([-1, 1], dtype=np.int64), others.size)
        differences = sparse.csc_array((values, indices, ends), shape=(d, others.size))
        lifted = self.class_basis
        carried = sparse.csc_array(
            (lifted.data, self.representatives[lifted.indices], lifted.indptr), shape=(d, lifted.shape[1])
        )
        return sparse.hstack([differences, carried], format="csc", dtype=np.int64)

    def __str__(self) -> str:
        return f"Lattice of rank {self.rank} over {self.classes.size} cells ({self.certificate})"


def kernel(A: MatrixLike, *, row_names: Sequence[str] | None = None) -> Lattice:
    """Compute a saturated basis of {z in Z^d : A z = 0}, with a certificate.

    All arithmetic is exact. Components of rank above 1,000 are not LLL-reduced, which the certificate states.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d)
        Any rank.
    row_names : sequence of str, optional
        Labels for error messages.

    Raises
    ------
    InvariantError
        If A is invalid, or a basis entry exceeds int64.

    See Also
    --------
    ppdinf.lattice.margin_kernel, ppdinf.lattice.structure

    Examples
    --------
    >>> from ppdinf.lattice import kernel
    >>> lattice = kernel([[1, 1, 0, 0, 0], [0, 0, 2, 3, 5]])
    >>> lattice.rank
    3
    >>> print(lattice.certificate)
    A B = 0; unit Smith form (equal columns, unit pivots, Hermite form, LLL)
    >>> int(abs(lattice.basis).max())
    3
    """
    matrix = integer_matrix(A, row_names)
    # equal columns, with a separate class for every zero column
    classes, representatives = equal_columns(matrix)
    free = np.flatnonzero(np.diff(matrix.indptr) == 0)
    if free.size > 1:
        classes = classes.copy()
        classes[free[1:]] = representatives.size + np.arange(free.size - 1)
        representatives = np.concatenate([representatives, free[1:]])
    reduced = matrix[:, representatives]
    routes = ["equal columns"] if representatives.size < matrix.shape[1] else []
    basis = _class_kernel(reduced, routes)
    proof = prove(reduced, basis)
    return Lattice(classes, representatives, basis, f"{proof} ({', '.join(routes) or 'no constraint'})")


def support_components(basis: sparse.csc_array) -> Integers:
    """Label the connected components of rows, linked by columns with entries in both."""
    n, m = basis.shape
    entries = basis.tocoo()
    graph = sparse.coo_array((np.ones(entries.nnz, np.int8), (entries.row, n + entries.col)), (n + m, n + m))
    return connected_components(graph, directed=False)[1][:n].astype(np.int64)


def _class_kernel(matrix: sparse.csc_array, routes: list[str]) -> sparse.csc_array:
    n = matrix.shape[1]
    constrained = np.flatnonzero(np.diff(matrix.indptr)).tolist()
    free = np.flatnonzero(np.diff(matrix.indptr) == 0)
    vectors = _solve(sparse_rows(matrix), constrained, routes)
    vectors = _reduce(vectors, n, routes)
    entries = [value for vector in vectors for value in vector.values()]
    if entries and max(max(entries), -min(entries)) >= 2**63:
        raise InvariantError(
            "A basis of this system requires entries beyond 64-bit integers; use smaller weights in its rows."
        )
    ends = np.concatenate([[0], np.cumsum([len(vector) for vector in vectors])]).astype(np.int64)
    cells = np.array([cell for vector in vectors for cell in vector], dtype=np.int64)
    found = sparse.csc_array((np.array(entries, dtype=np.int64), cells, ends), shape=(n, len(vectors)))
    found.sort_indices()
    units = sparse.csc_array((np.ones(free.size, np.int64), free, np.arange(free.size + 1)), shape=(n, free.size))
    return sparse.hstack([found, units], format="csc", dtype=np.int64)


def _solve(rows: list[SparseRow], cells: list[int], routes: list[str]) -> list[SparseRow]:
    """Return a saturated kernel basis of sparse rows over the given cells."""
    if not any(rows):
        return [{cell: 1} for cell in cells]
    steps = eliminate_units([_primitive(row) for row in rows])
    if not steps.rows:
        _note(routes, "Hermite form")
        return _hermite_kernel(list(steps.remainder.values()), cells)
    _note(routes, "unit pivots")
    pivots = set(steps.columns)
    rest = [cell for cell in cells if cell not in pivots]
    vectors = _solve(list(steps.remainder.values()), rest, routes)
    values: dict[int, SparseRow] = {}  # by cell: the coefficients of the basis vectors
    for index, vector in enumerate(vectors):
        for cell, value in vector.items():
            values.setdefault(cell, {})[index] = value
    for column, row in zip(reversed(steps.columns), reversed(steps.upper), strict=True):
        solved: SparseRow = {}
        for cell, factor in row.items():
            if cell != column:
                for index, value in values.get(cell, {}).items():
                    solved[index] = solved.get(index, 0) - row[column] * factor * value
        values[column] = {index: value for index, value in solved.items() if value}
        for index, value in values[column].items():
            vectors[index][column] = value
    return vectors


def _hermite_kernel(rows: list[SparseRow], cells: list[int]) -> list[SparseRow]:
    """Return the kernel: the rows of T for zero rows of H in a Hermite form T Mᵀ = H with T unimodular."""
    used = sorted(set().union(*rows))
    vectors: list[SparseRow] = [{cell: 1} for cell in sorted(set(cells).difference(used))]
    echelon, _, size = fmpz_mat(dense_integers(rows, used)).rref()
    supports = np.array([[v != 0 for v in row] for row in echelon.tolist()[:size]], dtype=np.int64)
    component = support_components(sparse.csc_array(supports.T))
    for label in range(component.max() + 1):
        members = [cell for cell, c in zip(used, component, strict=True) if c == label]
        hermite, transform = fmpz_mat(dense_integers(rows, members)).transpose().hnf(transform=True)
        for row, combination in zip(hermite.tolist(), transform.tolist(), strict=True):
            if not any(row):
                vectors.append({cell: int(v) for cell, v in zip(members, combination, strict=True) if v})
    return vectors


def _reduce(vectors: list[SparseRow], n: int, routes: list[str]) -> list[SparseRow]:
    """LLL-reduce every connected component with an entry larger than 1."""
    if all(abs(value) <= 1 for vector in vectors for value in vector.values()):
        return vectors
    reduced: list[SparseRow] = []
    for group in _connected(vectors, n):
        wide = any(abs(value) > 1 for vector in group for value in vector.values())
        if not wide or len(group) > LARGEST_REDUCTION:
            reduced += group
            if wide:
                _note(routes, f"unreduced beyond rank {LARGEST_REDUCTION:,}")
            continue
        _note(routes, "LLL")
        cells = sorted(set().union(*group))
        short = fmpz_mat(dense_integers(group, cells)).lll()
        reduced += [{cell: int(v) for cell, v in zip(cells, row, strict=True) if v} for row in short.tolist()]
    return reduced


def _connected(vectors: list[SparseRow], n: int) -> Iterable[list[SparseRow]]:
    ends = np.concatenate([[0], np.cumsum([len(vector) for vector in vectors])])
    cells = np.array([cell for vector in vectors for cell in vector], dtype=np.int64)
    support = sparse.csc_array((np.ones(cells.size, np.int8), cells, ends), shape=(n, len(vectors)))
    component = support_components(support)
    groups: dict[int, list[SparseRow]] = {}
    for vector in vectors:
        groups.setdefault(int(component[next(iter(vector))]), []).append(vector)
    return groups.values()


def _primitive(row: SparseRow) -> SparseRow:
    content = math.gcd(*row.values())
    return row if content <= 1 else {cell: value // content for cell, value in row.items()}


def _note(routes: list[str], route: str) -> None:
    if route not in routes:
        routes.append(route)
