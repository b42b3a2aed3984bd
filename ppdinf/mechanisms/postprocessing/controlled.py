"""Controlled rounding: a real table and all its sums, each rounded to a neighbouring integer.

Given a real table r and sums A r (for example margins), find integers x with ``|x - r| < 1`` for each cell and
``|A x - A r| < 1`` for each sum, nearest to r in l1. Integer entries, zeros in particular, do not change. For two-way
tables a solution always exists; for three-way margins there may be no solution.

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
from ppdinf.mechanisms.postprocessing.rounding import WHOLE, integer_floor


def controlled_rounding(real: ArrayLike, A: MatrixLike) -> NDArray[np.int64]:
    """Round a table and its sums together, each to a neighbouring integer."""
    r, rows = np.asarray(real, dtype=np.float64), sparse.csc_array(A, dtype=np.int64)
    floor = integer_floor(r)
    fraction = np.maximum(r - floor, 0.0)
    fraction[fraction < WHOLE] = 0.0
    left = rows @ fraction
    low = integer_floor(left)
    high = low + (left - low > WHOLE)
    answer = milp(
        1 - 2 * fraction,
        integrality=np.ones(r.size),
        bounds=(0, np.ceil(fraction)),
        constraints=LinearConstraint(rows, low, high) if low.size else (),
    )
    if answer.x is None:
        raise InvariantError(f"no rounding changes every cell and every sum by less than 1 ({answer.message})")
    up = np.rint(answer.x).astype(np.int64)
    sums = exact_product(rows, up)
    if (sums < low).any() or (sums > high).any():
        raise InvariantError("a sum is too large for HiGHS: its last digit is lost")
    rounded: NDArray[np.int64] = floor + up
    return rounded
