"""Rounding of a real table to integers with public sums: each cell rounded down, plus a 0/1 table.

The second stage of the post-processing of Seeman et al.: with f the fractional parts of the real table r and v = r - f,

    minimize  sum_i |u_i - f_i|  over u in {0, 1}^d  subject to  A (v + u) = a,  B (v + u) >= b.

The paper prints ``sum u = s - floor(r)``; the correct remainder is s minus the *sum of the cells rounded down*. It also
prints ``u_c + floor(c) >= u_d floor(d)`` for counts c that must be at least d, which allows d to be rounded up above c;
the correct bound is on the rounded counts. For u in {0, 1} the objective is linear. For public sums that nest or cross
in two ways the linear relaxation has integer solutions, so HiGHS stops at its first node.

With one sum for each group of cells, the cells with the largest fractions are rounded up, without a solver. The
argument `groups` rounds sums of cells, one level of a hierarchy, in the same way.

References
----------
J. Seeman, M. Reimherr, A. Slavković, "Formal privacy for partially private data", section 4.2.
Q. Huangfu, J. Hall, "Parallelizing the dual revised simplex method", Mathematical Programming Computation 10, 2018.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import LinearConstraint, milp

from ppdinf._internal.types import Array
from ppdinf.errors import InvariantError
from ppdinf.lattice.algebra.systems import exact_product

__all__ = ["integer_floor", "largest_fractions", "round_to_sums"]

WHOLE = 1e-6  # distance within which a solver's number counts as an integer


def round_to_sums(
    real: ArrayLike,
    A: sparse.sparray,
    a: ArrayLike,
    B: sparse.sparray,
    b: ArrayLike,
    *,
    groups: sparse.sparray | None = None,
) -> NDArray[np.int64]:
    """Round every number down or up by at most one so that sums and bounds hold exactly.

    Parameters
    ----------
    real : array_like of float, shape (d,), or (m,) with `groups`
        Satisfies A x = a and B x >= b up to the rounding error of a solver.
    A, B : scipy sparse of int64, shapes (k, d) and (l, d)
    a, b : array_like of int, shapes (k,) and (l,)
    groups : scipy sparse of int64, shape (m, d), optional
        Groups of cells whose sums are `real`; single cells by default.

    Returns
    -------
    ndarray of int64, shape (d,)
        A x = a and B x >= b, verified in integers. ``groups @ x - floor(real)`` is 0 or 1 if any such table exists, as
        it does for one sum, nested sums and two-way margins; otherwise the nearest integer table in l1 is returned.

    Raises
    ------
    InvariantError
        No integer table satisfies all sums and bounds.

    Notes
    -----
    10,000 cells with both margins of a square table take about 1 s.

    Examples
    --------
    >>> one = sparse.csr_array([[1, 1, 1]])
    >>> round_to_sums([0.4, 1.9, 3.7], one, [6], sparse.eye_array(3), [0, 0, 0])
    array([0, 2, 4])
    """
    G = sparse.csc_array(sparse.eye_array(A.shape[1], dtype=np.int64)) if groups is None else sparse.csc_array(groups)
    # Variables are differences from the floor, which keeps the numbers in HiGHS small.
    start = integer_floor(real) if groups is None else np.zeros(A.shape[1], dtype=np.int64)
    floor = integer_floor(real) - exact_product(G, start)
    fraction = np.asarray(real) - integer_floor(real)
    rows = [(A, a - exact_product(A, start), a - exact_product(A, start)), (B, b - exact_product(B, start), np.inf)]
    step = _solve(G.T @ (1 - 2 * fraction), [*rows, (G, floor, floor + 1)])
    if step is None:
        # No 0/1 table exists: minimize the distances e of the sums, with e >= |G x - real|.
        m, eye = floor.size, sparse.eye_array(floor.size)
        wide = [(sparse.hstack([rows_of, sparse.csc_array((rows_of.shape[0], m))]), *ends) for rows_of, *ends in rows]
        wide += [
            (sparse.hstack([G, eye]), floor + fraction, np.inf),
            (sparse.hstack([-G, eye]), -floor - fraction, np.inf),
        ]
        step = _solve(np.repeat([0.0, 1.0], [start.size, m]), wide, integers=start.size)
    if step is None:
        raise InvariantError("no integer table near the real table satisfies all public sums and bounds")
    rounded = start + step[: start.size]
    if (exact_product(A, rounded) != a).any() or (exact_product(B, rounded) < b).any():
        raise InvariantError("a public sum is too large for HiGHS: its last digit is lost")
    return rounded


def _solve(
    cost: Array, rows: Sequence[tuple[sparse.csc_array, ArrayLike, ArrayLike]], integers: int | None = None
) -> NDArray[np.int64] | None:
    """Minimize over integers (the first `integers` variables) with ``low <= M x <= high`` for each of `rows`."""
    stated = [LinearConstraint(sparse.csc_array(M), low, high) for M, low, high in rows if M.shape[0]]
    integral = np.arange(cost.size) < (cost.size if integers is None else integers)
    answer = milp(cost, integrality=integral.astype(int), bounds=(-np.inf, np.inf), constraints=stated)
    return None if answer.x is None else np.rint(answer.x).astype(np.int64)


def largest_fractions(real: ArrayLike, groups: ArrayLike, sums: ArrayLike) -> NDArray[np.int64]:
    """Round down, then up where the fractions are largest, so that each group of cells has its sum.

    Parameters
    ----------
    real : array_like of float, shape (d,)
        The cells of each group have its sum, up to the rounding error of a solver.
    groups : array_like of int, shape (d,)
        Group of each cell, starting at 0; -1 for cells without a sum, which are rounded to the nearest integer.
    sums : array_like of int, shape (n_groups,)

    Returns
    -------
    ndarray of int64, shape (d,)
        The same optimum as `round_to_sums`; among equal fractions, the first are rounded up.

    Notes
    -----
    The cost is O(d log d).

    Examples
    --------
    >>> largest_fractions([0.4, 1.9, 3.7, 2.6], [0, 0, 0, -1], [6])
    array([0, 2, 4, 3])
    """
    real, groups, sums = np.asarray(real, dtype=np.float64), np.asarray(groups), np.asarray(sums, dtype=np.int64)
    rounded = np.where(groups < 0, np.rint(real), integer_floor(real)).astype(np.int64)
    order = np.lexsort((rounded - real, groups))[np.count_nonzero(groups < 0) :]
    group = groups[order]
    sizes = np.bincount(group, minlength=sums.size)
    left = sums.copy()
    np.subtract.at(left, group, rounded[order])
    place = np.arange(order.size) - (np.cumsum(sizes) - sizes)[group]
    rounded[order] += place < left[group]
    if ((left < 0) | (left > sizes)).any():
        raise InvariantError("the real table does not have the sums that the rounded table must have")
    return rounded


def integer_floor(real: ArrayLike) -> NDArray[np.int64]:
    """Round down, except for numbers just below an integer, such as 2.9999999, which is rounded to 3.

    Examples
    --------
    >>> integer_floor([2.9999999, 2.9, -0.5])
    array([ 3,  2, -1])
    """
    near = np.rint(real)
    rounded: NDArray[np.int64] = np.where(np.abs(real - near) < WHOLE, near, np.floor(real)).astype(np.int64)
    return rounded
