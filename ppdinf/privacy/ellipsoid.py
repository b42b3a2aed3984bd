r"""The smallest ellipsoid around a set of points and their negatives, with a certificate.

With weights u on the points a_j and M = sum_j u_j a_j a_j', let g_j = a_j' M^-1 a_j. The weights that maximize det M
have g_j <= m for all j, and {z : z' M^-1 z <= m} is then the smallest ellipsoid (John). For all weights,
{z : z' M^-1 z <= max g} contains all points, and its volume exceeds the smallest by a factor of at most
(max g / m)^(m/2): this is the certificate. Each step moves weight to the point with the largest g_j or away from the
point with the smallest g_j, whichever is further from m, by an exact line search.

References
----------
M. J. Todd, E. A. Yildirim, "On Khachiyan's algorithm for the computation of minimum-volume enclosing ellipsoids",
Discrete Applied Mathematics 155(13), 2007.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import PrivacyError

REFRESH = 100  # steps between new inverses, which limit rounding errors
STEPS = 10**6


def enclosing_ellipsoid(points: NDArray[np.float64], *, tolerance: float = 1e-3) -> NDArray[np.float64]:
    """Return an ellipsoid around points and their negatives whose volume is near the minimum."""
    m, n = points.shape
    if m == 1:
        return np.array([[float((points**2).max())]])
    left, extent, white = np.linalg.svd(points, full_matrices=False)
    if n < m or extent[-1] <= 1e-12 * extent[0]:
        raise _flat()
    root = left * extent
    return root @ _around(white, tolerance) @ root.T


def _around(points: NDArray[np.float64], tolerance: float) -> NDArray[np.float64]:
    """Return the ellipsoid around points whose moment matrix is a multiple of the identity."""
    m, n = points.shape
    weights = np.full(n, 1 / n)
    for step in range(STEPS):
        if step % REFRESH == 0:
            moment = (points * weights) @ points.T
            inverse = np.linalg.inv(moment)
            g = np.einsum("ij,ij->j", points, inverse @ points)
        far, near = int(np.argmax(g)), int(np.argmin(np.where(weights > 0, g, np.inf)))
        if g[far] <= m * (1 + tolerance):
            # the certificate uses a newly computed inverse
            moment = (points * weights) @ points.T
            g = np.einsum("ij,ij->j", points, np.linalg.solve(moment, points))
            if m <= g.max() * (1 + 1e-9) and g.max() <= m * (1 + 2 * tolerance):
                shape_matrix: NDArray[np.float64] = moment * g.max()
                return shape_matrix
            break
        j = far if g[far] - m >= m - g[near] else near
        shift = (g[j] - m) / (m * (g[j] - 1)) if g[j] > 1 else -np.inf
        shift = max(shift, -weights[j] / (1 - weights[j]))
        weights *= 1 - shift
        weights[j] = max(0.0, weights[j] + shift)
        direction = inverse @ points[:, j]
        factor = shift / (1 - shift + shift * g[j])
        inverse = (inverse - factor * np.outer(direction, direction)) / (1 - shift)
        g = (g - factor * (direction @ points) ** 2) / (1 - shift)
    raise _flat()


def _flat() -> PrivacyError:
    return PrivacyError("the points nearly lie in fewer dimensions: no ellipsoid around them could be certified")
