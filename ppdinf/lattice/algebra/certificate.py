"""Proof that a matrix is a saturated kernel basis: A B = 0 and unit invariant factors.

B (d x m) generates every integer point of its rational span exactly if its Smith form is all ones, equivalently if its
Hermite form is an identity. An identity block is sufficient. Otherwise B is eliminated on unit pivots, which contribute
ones, and the Hermite form of the remainder decides.
"""

import numpy as np
from flint import fmpz_mat
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice.algebra.integer_elimination import dense_integers, eliminate_units, sparse_rows
from ppdinf.lattice.algebra.integer_rows import rank
from ppdinf.lattice.algebra.systems import MatrixLike, integer_matrix


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

    Notes
    -----
    The test is exact. It uses sparse products and eliminations, and one dense Hermite form for the part of B without
    unit entries.

    Examples
    --------
    >>> from ppdinf.lattice import certify
    >>> certify([[1, 1, 1]], [[1, 0], [0, 1], [-1, -1]])
    'A B = 0; identity block'
    >>> certify([[1, 1, 1]], [[1, 1], [-1, 1], [0, -2]])
    Traceback (most recent call last):
    ...
    ppdinf.errors.InvariantError: The basis is not saturated: it does not generate all integer solutions.
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
    rows = sparse_rows(A)
    return all(
        sum(value * column.get(cell, 0) for cell, value in row.items()) == 0
        for column in sparse_rows(B.T)
        for row in rows
    )


def _has_identity_block(B: sparse.csc_array) -> bool:
    by_row = sparse.csr_array(B)
    single = np.flatnonzero(np.diff(by_row.indptr) == 1)
    at = by_row.indptr[single]
    return bool(np.unique(by_row.indices[at][np.abs(by_row.data[at]) == 1]).size == B.shape[1])
