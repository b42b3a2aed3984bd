"""One integer solution of A x = a, or the reason why it does not exist.

Every step is unimodular, as for kernels: unit pivots first, then the transform T of a Hermite form, T Mᵀ = H. With
x = Tᵀ v the system becomes the triangular system Hᵀ v = a. Its divisions must have integer results.
"""

import math
from collections.abc import Sequence

from flint import fmpz_mat
from numpy.typing import ArrayLike

from ppdinf.errors import InvariantError
from ppdinf.lattice.integer_rows import SparseRow, check_consistent, dense_integers, eliminate_units, sparse_rows
from ppdinf.lattice.systems import MatrixLike, equal_columns, integer_matrix, integer_vector, row_label


class _FractionalError(Exception):
    """Rows whose solutions are not integers."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows


def integer_solution(A: MatrixLike, a: ArrayLike, *, row_names: Sequence[str] | None = None) -> SparseRow:
    """Solve A x = a in integers of any sign and size.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d)
    a : array_like of int, shape (k,)
    row_names : sequence of str, optional
        Labels for error messages.

    Returns
    -------
    dict of int to int
        Nonzero entries of one solution by cell, as integers of any size. Only the first cell of each class of equal
        columns is used. For a solution near a given table, or within bounds, see
        `ppdinf.lattice.feasible.nearest_feasible`.

    Raises
    ------
    InvariantError
        If rows are invalid or contradictory, or if only fractions satisfy them; the message names the rows.

    See Also
    --------
    ppdinf.lattice.nearest_feasible, ppdinf.lattice.check_consistent

    Examples
    --------
    >>> from ppdinf.lattice import integer_solution
    >>> integer_solution([[1, 1, 1, 0], [0, 0, 2, 3]], [4, 7])
    {0: -10, 2: 14, 3: -7}
    """
    matrix = integer_matrix(A, row_names)
    totals = integer_vector(a, matrix.shape[0], row_names)
    check_consistent(matrix, totals, row_names=row_names)
    _, representatives = equal_columns(matrix)
    rows = dict(enumerate(sparse_rows(matrix[:, representatives])))
    try:
        solved = _solve(rows, dict(enumerate(totals.tolist())))
    except _FractionalError as fractional:
        names = ", ".join(row_label(row, row_names) for row in fractional.rows[:8])
        raise InvariantError(
            f"No integer table has the totals of {names}"
            f"{' and others' if len(fractional.rows) > 8 else ''}: the solutions are fractions."
        ) from None
    return {int(representatives[j]): value for j, value in sorted(solved.items()) if value}


def _solve(rows: dict[int, SparseRow], totals: dict[int, int]) -> SparseRow:
    """Return an integer solution of consistent rows by cell, without zero cells."""
    names = [i for i, row in rows.items() if row]
    if not names:
        return {}
    primitive, values = [], []
    for i in names:
        content = math.gcd(*rows[i].values())
        if totals[i] % content:
            raise _FractionalError([i])
        primitive.append({j: value // content for j, value in rows[i].items()})
        values.append(totals[i] // content)
    steps = eliminate_units(primitive)
    if not steps.rows:
        cells = sorted(set().union(*primitive))
        hermite, transform = fmpz_mat(dense_integers(primitive, cells)).transpose().hnf(transform=True)
        v: list[int] = []
        for row in hermite.tolist():
            pivot = next((p for p, entry in enumerate(row) if entry), None)
            if pivot is None:
                break
            rest = values[pivot] - sum(int(hermite[i, pivot]) * v[i] for i in range(len(v)))
            if rest % int(row[pivot]):
                raise _FractionalError(names[: pivot + 1])
            v.append(rest // int(row[pivot]))
        return {j: sum(int(transform[i, at]) * v[i] for i in range(len(v))) for at, j in enumerate(cells)}
    staged: list[int] = []
    for i in steps.rows:
        staged.append(values[i] - sum(f * staged[t] for t, f in steps.lower[i].items()))
    left = {i: values[i] - sum(f * staged[t] for t, f in steps.lower[i].items()) for i in steps.remainder}
    try:
        x = _solve(steps.remainder, left)
    except _FractionalError as fractional:
        raise _FractionalError([names[i] for i in fractional.rows]) from None
    for column, row, value in zip(reversed(steps.columns), reversed(steps.upper), reversed(staged), strict=True):
        rest = sum(factor * x.get(j, 0) for j, factor in row.items() if j != column)
        x[column] = row[column] * (value - rest)
    return x
