r"""Gauss quadrature rules of weighted integers: a few real nodes instead of thousands of counts.

The rule with M nodes of a measure on integers is exact for polynomials of degree 2 M - 1. Sums of smooth functions,
such as ``sum_k p_k exp(z k)``, then require M terms. Weights are positive, so no digits are lost.

References
----------
G. H. Golub, J. H. Welsch, "Calculation of Gauss quadrature rules", Math. Comp. 23 (1969), 221-230. W. Gautschi,
"Orthogonal Polynomials: Computation and Approximation" (2004), section 2.2, for the recurrence on discrete measures.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import vectorised

__all__ = ["gauss_rule"]


@vectorised
def gauss_rule(p: NDArray, first: float, node: NDArray, weight: NDArray) -> None:
    """Compute the Gauss rule of a measure on consecutive integers, with the number of nodes of the arrays.

    Parameters
    ----------
    p : array, shape (n,)
        Probabilities of ``first, first + 1, ...``.
    first : float
    node, weight : arrays, shape (M,)
        Output arrays. If there are at most M integers, they are the nodes; unused nodes have weight 0.
    """
    most, n = node.size, p.size
    node[:], weight[:] = 0.0, 0.0
    if n <= most:
        for k in range(n):
            node[k], weight[k] = first + k, p[k]
        return
    mean = var = 0.0
    for k in range(n):
        mean += k * p[k]
    for k in range(n):
        var += (k - mean) ** 2 * p[k]
    scale = np.sqrt(var)
    at, basis = (np.arange(n) - mean) / scale, np.zeros((most, n))
    matrix, before = np.zeros((most, most)), 0.0
    for k in range(n):
        basis[0, k] = np.sqrt(p[k])
    # Lanczos recurrence: orthonormal polynomials times square roots of the probabilities
    for r in range(most):
        now = basis[r] * at
        matrix[r, r] = np.sum(now * basis[r])
        now -= matrix[r, r] * basis[r]
        if r > 0:
            now -= before * basis[r - 1]
        if r + 1 < most:
            before = np.sqrt(np.sum(now * now))
            matrix[r + 1, r] = before
            basis[r + 1] = now / before
    values, vectors = np.linalg.eigh(matrix)  # reads the lower triangle
    for j in range(most):
        node[j], weight[j] = first + mean + scale * values[j], vectors[0, j] ** 2
