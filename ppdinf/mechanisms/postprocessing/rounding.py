"""Whole counts from a real table with public sums: the floor of each, plus a 0/1 table that restores the sums.

The second stage of the post-processing of Seeman et al.: with f the fractional parts of the real table r,

    minimise  sum_i |u_i - f_i|  over u in {0, 1}^d  subject to  A (floor(r) + u) = a,  B (floor(r) + u) >= b.

The paper prints ``sum u = s - floor(r)``; what is left to distribute is the sum less the *sum of floors*. It also
prints ``u_c + floor(c) >= u_d floor(d)`` for counts c that must not fall below d, which lets d be rounded up past c;
the right bound is on the rounded counts. For u in {0, 1} the objective is linear, and for public sums
that nest or cross in two ways the relaxed programme has whole solutions, so HiGHS ends at its first node.

With one sum for each group of cells, the cells with the largest fractions are rounded up: no solver is needed.
The same with sums of cells in place of cells (`groups`) rounds one level of a hierarchy.

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

__all__ = ["largest_fractions", "round_to_sums", "whole_floor"]

WHOLE = 1e-6  # a solver's number this near to a whole one is taken for it


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
        Satisfies A x = a and B x >= b, but for a solver's rounding.
    A, B : scipy sparse of int64, shapes (k, d) and (l, d)
    a, b : array_like of int, shapes (k,) and (l,)
    groups : scipy sparse of int64, shape (m, d), optional
        Sums of cells that `real` gives; the cells themselves when omitted.

    Returns
    -------
    ndarray of int64, shape (d,)
        A x = a and B x >= b, verified in integers; ``groups @ x - floor(real)`` is 0 or 1 if any such table exists.
        It does for one sum, sums that nest and two-way margins; otherwise the nearest whole table in l1 is found.

    Raises
    ------
    InvariantError
        No whole table satisfies everything.

    Notes
    -----
    10,000 cells with both margins of a square take about a second.

    Examples
    --------
    >>> one = sparse.csr_array([[1, 1, 1]])
    >>> round_to_sums([0.4, 1.9, 3.7], one, [6], sparse.eye_array(3), [0, 0, 0])
    array([0, 2, 4])
    """
    G = sparse.csc_array(sparse.eye_array(A.shape[1], dtype=np.int64)) if groups is None else sparse.csc_array(groups)
    # Cells count from their floor, which keeps the numbers that HiGHS sees small.
    start = whole_floor(real) if groups is None else np.zeros(A.shape[1], dtype=np.int64)
    floor = whole_floor(real) - exact_product(G, start)
    fraction = np.asarray(real) - whole_floor(real)
    rows = [(A, a - exact_product(A, start), a - exact_product(A, start)), (B, b - exact_product(B, start), np.inf)]
    step = _solve(G.T @ (1 - 2 * fraction), [*rows, (G, floor, floor + 1)])
    if step is None:
        # No 0/1 table: the nearest sums at any distance e, with e >= |G x - real|.
        m, eye = floor.size, sparse.eye_array(floor.size)
        wide = [(sparse.hstack([rows_of, sparse.csc_array((rows_of.shape[0], m))]), *ends) for rows_of, *ends in rows]
        wide += [
            (sparse.hstack([G, eye]), floor + fraction, np.inf),
            (sparse.hstack([-G, eye]), -floor - fraction, np.inf),
        ]
        step = _solve(np.repeat([0.0, 1.0], [start.size, m]), wide, whole=start.size)
    if step is None:
        raise InvariantError("no whole table has all public sums and bounds: HiGHS finds none near the real one")
    found = start + step[: start.size]
    if (exact_product(A, found) != a).any() or (exact_product(B, found) < b).any():
        raise InvariantError("HiGHS lost the last digit of a public sum: the sums are too large for it")
    return found


def _solve(
    cost: Array, rows: Sequence[tuple[sparse.csc_array, ArrayLike, ArrayLike]], whole: int | None = None
) -> NDArray[np.int64] | None:
    """Minimise over whole numbers (the first `whole` of them) with ``low <= M x <= high`` for each of `rows`."""
    stated = [LinearConstraint(sparse.csc_array(M), low, high) for M, low, high in rows if M.shape[0]]
    integral = np.arange(cost.size) < (cost.size if whole is None else whole)
    answer = milp(cost, integrality=integral.astype(int), bounds=(-np.inf, np.inf), constraints=stated)
    return None if answer.x is None else np.rint(answer.x).astype(np.int64)


def largest_fractions(real: ArrayLike, groups: ArrayLike, sums: ArrayLike) -> NDArray[np.int64]:
    """Round down, then up where the fractions are largest, so that each group of cells has its sum.

    Parameters
    ----------
    real : array_like of float, shape (d,)
        The cells of each group have its sum, but for a solver's rounding.
    groups : array_like of int, shape (d,)
        Group of each cell, from 0; -1 for cells without a sum, which go to the nearest whole number.
    sums : array_like of int, shape (n_groups,)

    Returns
    -------
    ndarray of int64, shape (d,)
        The same optimum as `round_to_sums`; the first of equal fractions go up.

    Notes
    -----
    O(d log d).

    Examples
    --------
    >>> largest_fractions([0.4, 1.9, 3.7, 2.6], [0, 0, 0, -1], [6])
    array([0, 2, 4, 3])
    """
    real, groups, sums = np.asarray(real, dtype=np.float64), np.asarray(groups), np.asarray(sums, dtype=np.int64)
    found = np.where(groups < 0, np.rint(real), whole_floor(real)).astype(np.int64)
    order = np.lexsort((found - real, groups))[np.count_nonzero(groups < 0) :]
    group = groups[order]
    sizes = np.bincount(group, minlength=sums.size)
    left = sums.copy()
    np.subtract.at(left, group, found[order])
    place = np.arange(order.size) - (np.cumsum(sizes) - sizes)[group]
    found[order] += place < left[group]
    if ((left < 0) | (left > sizes)).any():
        raise InvariantError("the real table does not have the sums that its rounding should have")
    return found


def whole_floor(real: ArrayLike) -> NDArray[np.int64]:
    """Round down, but 2.9999999 to 3.

    Examples
    --------
    >>> whole_floor([2.9999999, 2.9, -0.5])
    array([ 3,  2, -1])
    """
    near = np.rint(real)
    found: NDArray[np.int64] = np.where(np.abs(real - near) < WHOLE, near, np.floor(real)).astype(np.int64)
    return found
