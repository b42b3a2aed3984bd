"""Exact row algebra of an integer system by elimination: rank, redundant rows, contradictions."""

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpz_mat
from numpy.typing import ArrayLike
from scipy import sparse

from ppdinf._internal.values import Array, Integers
from ppdinf.errors import InvariantError
from ppdinf.lattice.systems import (
    LARGEST,
    MatrixLike,
    equal_columns,
    exact_product,
    integer_matrix,
    integer_vector,
    row_label,
)

SparseRow = dict[int, int]
"""Nonzero entries of an integer row (or of a combination of rows) by index."""


@dataclass(frozen=True, eq=False)
class UnitElimination:
    """Result of `eliminate_units`."""

    rows: list[int]
    columns: list[int]
    upper: list[SparseRow]
    lower: list[SparseRow]
    remainder: dict[int, SparseRow]


def sparse_rows(A: sparse.sparray) -> list[SparseRow]:
    """Return the rows of a sparse integer matrix as dictionaries of Python integers."""
    csr = sparse.csr_array(A)
    columns, values, ends = csr.indices.tolist(), csr.data.tolist(), csr.indptr.tolist()
    return [dict(zip(columns[start:end], values[start:end], strict=True)) for start, end in itertools.pairwise(ends)]


def eliminate_units(rows: list[SparseRow]) -> UnitElimination:
    """Eliminate with unit pivots until no unit entry remains."""
    active = [dict(row) for row in rows]
    holders: dict[int, set[int]] = {}  # active rows with an entry in the column
    for i, row in enumerate(active):
        for j in row:
            holders.setdefault(j, set()).add(i)
    queue = [(len(row), i) for i, row in enumerate(active) if row]
    heapq.heapify(queue)
    done = UnitElimination([], [], [], [{} for _ in rows], {})
    pivoted = [False] * len(rows)
    while queue:
        length, i = heapq.heappop(queue)
        row = active[i]
        if pivoted[i] or length != len(row):
            continue  # an outdated entry of the queue
        units = [(len(holders[j]), j) for j, value in row.items() if value in (1, -1)]
        if not units:
            continue  # the row is queued again if it changes
        _, column = min(units)
        stage, sign = len(done.rows), row[column]
        done.rows.append(i)
        done.columns.append(column)
        done.upper.append(row)
        pivoted[i] = True
        for j in row:
            holders[j].discard(i)
        for other in sorted(holders[column]):
            target = active[other]
            factor = target[column] * sign
            done.lower[other][stage] = factor
            for j, value in row.items():
                entry = target.get(j, 0) - factor * value
                if entry:
                    if j not in target:
                        holders[j].add(other)
                    target[j] = entry
                else:
                    del target[j]
                    holders[j].discard(other)
            if target:
                heapq.heappush(queue, (len(target), other))
    done.remainder.update({i: row for i, row in enumerate(active) if row and not pivoted[i]})
    return done


def dense_integers(rows: list[SparseRow], columns: list[int]) -> list[list[int]]:
    """Return dense rows over the given columns."""
    return [[row.get(j, 0) for j in columns] for row in rows]


@dataclass(frozen=True, eq=False)
class RowAlgebra:
    """Independent rows of a system, and the other rows as combinations of them.

    Attributes
    ----------
    independent : ndarray of int64
        Rows that form a basis of the row space, in increasing order.
    redundant : dict of int to dict of int to Fraction
        Every other row as a rational combination of independent rows.

    See Also
    --------
    ppdinf.lattice.row_algebra

    Examples
    --------
    >>> from ppdinf.lattice import row_algebra
    >>> found = row_algebra([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]])
    >>> found.independent, found.redundant
    (array([0, 1]), {2: {0: Fraction(1, 1), 1: Fraction(1, 1)}})
    """

    independent: Integers
    redundant: dict[int, dict[int, Fraction]]

    @property
    def rank(self) -> int:
        """Number of independent rows."""
        return self.independent.size


def row_algebra(A: MatrixLike, *, row_names: Sequence[str] | None = None) -> RowAlgebra:
    """Split the rows of A into independent rows and rational combinations of them exactly.

    Equal columns are merged first. The time is then linear for groups and hierarchies; 740 margin rows over 6,720 cells
    take about 0.2 s. Remaining rows without unit entries require one dense exact row reduction.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d)
    row_names : sequence of str, optional
        Labels for error messages.

    Raises
    ------
    InvariantError
        If A is not a matrix of integers of at most 2^53.

    See Also
    --------
    ppdinf.lattice.RowAlgebra, ppdinf.lattice.rank

    Examples
    --------
    >>> from ppdinf.lattice import row_algebra
    >>> algebra = row_algebra([[1, 1, 0, 0], [0, 0, 1, 1], [2, 2, 2, 2]])
    >>> algebra.rank, algebra.redundant
    (2, {2: {0: Fraction(2, 1), 1: Fraction(2, 1)}})
    """
    matrix = integer_matrix(A, row_names)
    _, representatives = equal_columns(matrix)
    rows = sparse_rows(matrix[:, representatives])
    contents = [math.gcd(*row.values()) or 1 for row in rows]
    steps = eliminate_units([{j: v // g for j, v in row.items()} for row, g in zip(rows, contents, strict=True)])
    kept, leftover = _reduce_remainder(steps.remainder)
    independent = sorted(steps.rows + kept)
    redundant = {}
    for i in sorted(set(range(len(rows))).difference(independent)):
        combination = _in_original_rows(steps, i, leftover.get(i, {}))
        redundant[i] = {p: Fraction(contents[i], contents[p]) * c for p, c in sorted(combination.items())}
    return RowAlgebra(np.array(independent, dtype=np.int64), redundant)


def rank(A: MatrixLike) -> int:
    """Return the exact rank of an integer matrix.

    The cost is that of `row_algebra`.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d)

    Raises
    ------
    InvariantError
        If A is not a matrix of integers of at most 2^53.

    See Also
    --------
    ppdinf.lattice.row_algebra

    Examples
    --------
    >>> from ppdinf.lattice import rank
    >>> rank([[2**52, 1], [2**52 + 1, 1], [1, 0]])
    2
    """
    return row_algebra(A).rank


def contradiction(A: MatrixLike, a: ArrayLike, *, algebra: RowAlgebra | None = None) -> dict[int, int] | None:
    """Return integers y with yᵀA = 0 and yᵀa ≠ 0, or None if they do not exist.

    By the Fredholm alternative such a y exists exactly if A x = a has no rational solution. (A system with rational
    solutions may have no integer solutions.)

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d)
    a : array_like of int, shape (k,)
    algebra : RowAlgebra, optional
        ``row_algebra(A)``, if it is already computed.

    Returns
    -------
    dict of int to int, or None
        Nonzero entries of the first such y by row; None if the rows are consistent.

    Raises
    ------
    InvariantError
        If A or a is malformed.

    See Also
    --------
    ppdinf.lattice.check_consistent

    Examples
    --------
    >>> from ppdinf.lattice import contradiction
    >>> contradiction([[1, 0], [0, 1], [1, 1]], [2, 3, 6])
    {0: -1, 1: -1, 2: 1}
    """
    matrix = integer_matrix(A)
    values = integer_vector(a, matrix.shape[0])
    if algebra is None:
        rest, remaining = _substituted(sparse.csr_array(matrix), values)
        is_smaller = rest.shape[0] < values.size and np.all(np.abs(remaining) <= LARGEST)
        if is_smaller and contradiction(rest, remaining) is None:
            return None
    totals = values.tolist()
    for i, combination in (algebra or row_algebra(matrix)).redundant.items():
        if sum(c * totals[p] for p, c in combination.items()) != totals[i]:
            scale = math.lcm(*(c.denominator for c in combination.values()))
            y = {p: -int(c * scale) for p, c in combination.items()}
            return dict(sorted({**y, i: scale}.items()))
    return None


def _substituted(matrix: sparse.csr_array, values: Integers) -> tuple[sparse.csr_array, Array]:
    """Return the rows that remain if the cells are substituted that rows with one unit entry state."""
    first = matrix.indptr[:-1]
    single = np.flatnonzero(np.diff(matrix.indptr) == 1)
    single = single[np.abs(matrix.data[first[single]]) == 1]
    columns, chosen = np.unique(matrix.indices[first[single]], return_index=True)
    rows = single[chosen]
    cells = np.zeros(matrix.shape[1], dtype=np.int64)
    cells[columns] = values[rows] * matrix.data[first[rows]]
    others = np.delete(np.arange(values.size), rows)
    rest = sparse.csr_array(matrix[others])
    free = np.delete(np.arange(matrix.shape[1]), columns)
    return sparse.csr_array(rest[:, free]), values[others] - exact_product(rest, cells)


def check_consistent(
    A: MatrixLike, a: ArrayLike, *, row_names: Sequence[str] | None = None, algebra: RowAlgebra | None = None
) -> None:
    """Raise an error if the right-hand side contradicts itself.

    The cost is that of `row_algebra`.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d)
    a : array_like of int, shape (k,)
    row_names : sequence of str, optional
        Labels for error messages.
    algebra : RowAlgebra, optional
        ``row_algebra(A)``, if it is already computed.

    Raises
    ------
    InvariantError
        If some combination of rows is zero on the left and not on the right; the message names the rows.

    See Also
    --------
    ppdinf.lattice.contradiction, ppdinf.lattice.integer_solution

    Examples
    --------
    >>> from ppdinf.lattice import check_consistent
    >>> check_consistent([[1, 0], [0, 1], [1, 1]], [2, 3, 6], row_names=["a", "b", "all"])
    Traceback (most recent call last):
    ...
    ppdinf.errors.InvariantError: The rows contradict each other: row 0 ('a') + row 1 ('b') is 5, but row 2 ('all')
    is 6. Correct one of them.
    """
    y = contradiction(A, a, algebra=algebra)
    if y is None:
        return
    if len(y) == 1:
        (row,) = y
        off = y[row] * int(np.asarray(a)[row])
        raise InvariantError(
            f"The total of {row_label(row, row_names)} must be 0 because it contains no cell, found {off}."
        )
    sides = [{row: sign * weight for row, weight in y.items() if sign * weight > 0} for sign in (1, -1)]
    left, right = sorted(sides, key=len, reverse=True)
    sums = [sum(weight * int(np.asarray(a)[row]) for row, weight in side.items()) for side in (left, right)]
    must = f"{_sum_of(right, row_names)} is {sums[1]}" if right else "covers no cell"
    raise InvariantError(
        f"The rows contradict each other: {_sum_of(left, row_names)} is {sums[0]}, but {must}. Correct one of them."
    )


def _sum_of(side: dict[int, int], row_names: Sequence[str] | None, shown: int = 8) -> str:
    terms = [f"{weight} × " * (weight > 1) + row_label(row, row_names) for row, weight in side.items()]
    hidden = len(terms) - shown
    return " + ".join(terms[:shown]) + (f" + ... ({hidden} more rows)" if hidden > 0 else "")


def _reduce_remainder(remainder: dict[int, SparseRow]) -> tuple[list[int], dict[int, dict[int, Fraction]]]:
    """Return independent rows of the remainder, and the other rows in terms of them."""
    if not remainder:
        return [], {}
    names = list(remainder)
    columns = sorted(set().union(*remainder.values()))
    transposed = fmpz_mat(dense_integers(list(remainder.values()), columns)).transpose()
    reduced, divisor, size = transposed.rref()
    divisor = int(divisor)
    table = [[int(v) for v in row] for row in reduced.tolist()[:size]]
    pivots = [next(j for j, v in enumerate(row) if v) for row in table]
    kept = [names[j] for j in pivots]
    others = {
        names[j]: {p: Fraction(row[j], divisor) for p, row in zip(kept, table, strict=True) if row[j]}
        for j in set(range(len(names))).difference(pivots)
    }
    return kept, others


def _in_original_rows(steps: UnitElimination, i: int, leftover: dict[int, Fraction]) -> dict[int, Fraction]:
    """Return row i as a combination of original independent rows, from the last stage to the first."""
    combination: dict[int, Fraction] = dict(leftover)
    weights: dict[int, Fraction] = {}
    pending: list[int] = []

    def add(row: int, factor: Fraction) -> None:
        for stage, multiplier in steps.lower[row].items():
            if stage not in weights:
                weights[stage] = Fraction(0)
                heapq.heappush(pending, -stage)
            weights[stage] += factor * multiplier

    add(i, Fraction(1))
    for row, factor in leftover.items():
        add(row, -factor)
    while pending:
        stage = -heapq.heappop(pending)
        weight = weights[stage]
        if weight:
            combination[steps.rows[stage]] = weight
            add(steps.rows[stage], -weight)
    return combination
