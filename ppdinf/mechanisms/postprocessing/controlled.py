"""Controlled rounding: a real table and all its sums, each rounded to a neighbouring whole number.

Given a real table r and sums A r (margins, whole or not), find whole x with ``|x - r| < 1`` cell by cell and
``|A x - A r| < 1`` sum by sum, nearest to r in l1. What is whole stays as it is, zeros in particular. For two-way
tables there always is one; for three-way margins there may be none.

References
----------
L. Cox, L. Ernst, "Controlled rounding", INFOR 20, 1982.
B. Causey, L. Cox, L. Ernst, "Applications of transportation theory to statistical problems", Journal of the American
Statistical Association 80, 1985: the counterexample in three ways.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import LinearConstraint, milp

from ppdinf.errors import InvariantError
from ppdinf.lattice.algebra.systems import MatrixLike, exact_product
from ppdinf.mechanisms.postprocessing.rounding import WHOLE, whole_floor

__all__ = ["controlled_rounding"]


def controlled_rounding(real: ArrayLike, A: MatrixLike) -> NDArray[np.int64]:
    """Round a table and its sums together, each to a neighbouring whole number.

    Parameters
    ----------
    real : array_like of float, shape (d,)
        Numbers within 1e-6 of a whole one count as whole.
    A : array_like or scipy sparse of int, shape (k, d)
        Sums to control; those of `real` that are whole are kept exactly.

    Returns
    -------
    ndarray of int64, shape (d,)

    Raises
    ------
    InvariantError
        There is none, which can happen where sums cross in more than two ways.

    Notes
    -----
    100 x 100 cells with both margins take about a second.

    Examples
    --------
    >>> controlled_rounding([0.3, 0.4, 1.3, 2.0], [[1, 1, 1, 1]])
    array([0, 1, 1, 2])
    """
    r, rows = np.asarray(real, dtype=np.float64), sparse.csc_array(A, dtype=np.int64)
    floor = whole_floor(r)
    fraction = np.maximum(r - floor, 0.0)
    fraction[fraction < WHOLE] = 0.0
    left = rows @ fraction
    low = whole_floor(left)
    high = low + (left - low > WHOLE)
    answer = milp(
        1 - 2 * fraction,
        integrality=np.ones(r.size),
        bounds=(0, np.ceil(fraction)),
        constraints=LinearConstraint(rows, low, high) if low.size else (),
    )
    if answer.x is None:
        raise InvariantError(f"no table within one of every cell has sums within one of every sum ({answer.message})")
    up = np.rint(answer.x).astype(np.int64)
    sums = exact_product(rows, up)
    if (sums < low).any() or (sums > high).any():
        raise InvariantError("HiGHS lost the last digit of a sum: the sums are too large for it")
    found: NDArray[np.int64] = floor + up
    return found
