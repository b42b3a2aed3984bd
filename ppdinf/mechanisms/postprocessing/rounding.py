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
    """Round every number down or up by at most one so that sums and bounds hold exactly."""
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
    """Round down, then up where the fractions are largest, so that each group of cells has its sum."""
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
    """Round down, except for numbers just below an integer, such as 2.9999999, which is rounded to 3."""
    near = np.rint(real)
    rounded: NDArray[np.int64] = np.where(np.abs(real - near) < WHOLE, near, np.floor(real)).astype(np.int64)
    return rounded
