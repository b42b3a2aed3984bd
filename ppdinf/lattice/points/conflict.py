"""Contradictory rows of a system: a certificate with few rows, by linear programming.

By Farkas' lemma no x satisfies A x = a, B x >= b exactly if there are multipliers y, w with w >= 0, A' y + B' w = 0 and
a y + b w > 0. The multipliers with the smallest sum of absolute values are nonzero for few rows.
"""

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from ppdinf._internal.types import Array
from ppdinf.lattice.algebra.systems import IntVector

LARGEST = 20_000  # largest number of rows and columns of the linear program
ZERO = 1e-7


def conflicting_rows(A: sparse.csc_array, a: Array, B: sparse.csc_array, b: Array) -> tuple[IntVector, IntVector]:
    """Return rows of A x = a and of B x >= b that no real x satisfies together."""
    k, n = A.shape[0], B.shape[0]
    nothing = np.empty(0, dtype=np.int64)
    if k + n + A.shape[1] > LARGEST:
        return nothing, nothing
    gain = np.concatenate([a, -np.asarray(a), b]).astype(float)
    balance = sparse.vstack([sparse.hstack([A.T, -A.T, B.T]), sparse.csr_array(gain[np.newaxis])])
    right = np.append(np.zeros(A.shape[1]), 1.0)
    found = linprog(np.ones(2 * k + n), A_eq=balance.tocsc().astype(float), b_eq=right)
    if found.x is None:
        return nothing, nothing
    used = found.x > ZERO * found.x.max()
    return np.flatnonzero(used[:k] | used[k : 2 * k]), np.flatnonzero(used[2 * k :])
