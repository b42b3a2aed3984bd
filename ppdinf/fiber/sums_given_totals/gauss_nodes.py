r"""Gauss quadrature rules of weighted integers: a few real nodes instead of thousands of counts.

The rule with M nodes of a measure on integers is exact for polynomials of degree 2 M - 1. Sums of smooth functions,
such as ``sum_k p_k exp(z k)``, then require M terms. Weights are positive, so no digits are lost.

References
----------
G. H. Golub, J. H. Welsch, "Calculation of Gauss quadrature rules", Math. Comp. 23 (1969), 221-230. W. Gautschi,
"Orthogonal Polynomials: Computation and Approximation" (2004), section 2.2, for the recurrence on discrete measures.
A. Dubrulle, R. S. Martin, J. H. Wilkinson, "The implicit QL algorithm", Numer. Math. 12 (1968), 377-383.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import vectorised

STEPS = 60  # of which two or three are needed for each eigenvalue
EPSILON = 2.0**-52


@vectorised
def gauss_rule(p: NDArray, first: float, node: NDArray, weight: NDArray) -> None:
    """Compute the Gauss rule of a measure on consecutive integers, with the number of nodes of the arrays."""
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
    diagonal, below = np.zeros(most), np.zeros(most)
    for k in range(n):
        basis[0, k] = np.sqrt(p[k])
    # Lanczos recurrence: orthonormal polynomials times square roots of the probabilities
    for r in range(most):
        now = basis[r] * at
        diagonal[r] = np.sum(now * basis[r])
        now -= diagonal[r] * basis[r]
        if r > 0:
            now -= below[r - 1] * basis[r - 1]
        if r + 1 < most:
            below[r] = np.sqrt(np.sum(now * now))
            basis[r + 1] = now / below[r]
    weight[0] = 1.0
    _diagonalise(diagonal, below, weight)
    for j in range(most):
        node[j], weight[j] = first + mean + scale * diagonal[j], weight[j] ** 2


@vectorised
def _diagonalise(diagonal: NDArray, below: NDArray, top: NDArray) -> None:
    """Replace the diagonal of a symmetric tridiagonal matrix by its eigenvalues; rotate the row `top` with them."""
    n = diagonal.size
    for k in range(n):
        for _ in range(STEPS):
            m = k
            while m < n - 1 and abs(below[m]) > EPSILON * (abs(diagonal[m]) + abs(diagonal[m + 1])):
                m += 1
            if m == k:
                break
            # shift by the eigenvalue of the leading 2 x 2 block that is nearer to its corner
            g = (diagonal[k + 1] - diagonal[k]) / (2.0 * below[k])
            g = diagonal[m] - diagonal[k] + below[k] / (g + np.copysign(np.hypot(g, 1.0), g))
            sine = cosine = 1.0
            moved = 0.0
            for i in range(m - 1, k - 1, -1):
                f, b = sine * below[i], cosine * below[i]
                below[i + 1] = np.hypot(f, g)
                if below[i + 1] == 0.0:  # the matrix has split
                    diagonal[i + 1] -= moved
                    below[m] = 0.0
                    break
                sine, cosine = f / below[i + 1], g / below[i + 1]
                g = diagonal[i + 1] - moved
                r = (diagonal[i] - g) * sine + 2.0 * cosine * b
                moved = sine * r
                diagonal[i + 1] = g + moved
                g = cosine * r - b
                top[i], top[i + 1] = cosine * top[i] - sine * top[i + 1], sine * top[i] + cosine * top[i + 1]
            else:
                diagonal[k] -= moved
                below[k], below[m] = g, 0.0
