"""Symmetric polytopes in few dimensions: gauge, uniform points and K-norm noise.

K is the convex hull of points and their opposites. Qhull triangulates its facets, which splits K into cones from 0. A
simplex with probability proportional to its volume and a uniform point of this simplex give a uniform point of K
without rejection. The gauge |w|_K is the smallest factor by which K must be scaled to contain w. It is the maximum of
the linear forms of the facets.

References
----------
M. Hardt, K. Talwar, "On the geometry of differential privacy", STOC 2010. C. B. Barber, D. P. Dobkin, H. Huhdanpaa,
"The Quickhull algorithm for convex hulls", ACM Transactions on Mathematical Software 22(4), 1996.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from ppdinf.noise.primitives.continuous import exponentials

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream

type Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Polytope:
    """A polytope that is symmetric about the interior point 0."""

    forms: Reals
    corners: Reals
    cumulative: Reals

    def gauge(self, w: Reals) -> Reals:
        """Return the norm |w|_K of vectors, shape (..., m)."""
        return np.max(w @ self.forms.T, axis=-1)

    def chord(self, w: Reals, direction: Reals) -> tuple[float, float]:
        """Return the ends (t0, t1) of the line w + t direction within K, for w in K."""
        room, speed = 1 - self.forms @ w, self.forms @ direction
        with np.errstate(divide="ignore", invalid="ignore"):
            t = room / speed
        return float(np.max(t[speed < 0])), float(np.min(t[speed > 0]))

    def uniform(self, draws: int, stream: BitStream) -> Reals:
        """Draw uniform points of K, shape (draws, m); each reads m + 2 words."""
        m = self.forms.shape[1]
        e = exponentials(stream, draws, m + 2)
        which = np.searchsorted(self.cumulative, np.exp(-e[:, 0]), side="right").clip(max=self.cumulative.size - 1)
        shares = e[:, 2:] / e[:, 1:].sum(axis=1, keepdims=True)
        points: Reals = np.einsum("im,imk->ik", shares, self.corners[which])
        return points

    def noise(self, draws: int, stream: BitStream) -> Reals:
        """Draw from the density proportional to exp(-|w|_K): uniform points times Gamma(m + 1) radii."""
        radius = exponentials(stream, draws, self.forms.shape[1] + 1).sum(axis=1, keepdims=True)
        return radius * self.uniform(draws, stream)


def polytope(points: Reals) -> Polytope:
    """Compute the facets of the convex hull of points and their opposites."""
    both = np.hstack([points, -points]).T
    if both.shape[1] == 1:
        end = np.abs(both).max()
        ends = np.array([[end], [-end]])
        return Polytope(1 / ends, ends[:, np.newaxis, :], np.array([0.5, 1.0]))
    left, extent, _ = np.linalg.svd(points, full_matrices=False)
    white = left / extent  # the hull is computed in coordinates where its extent is similar in all directions
    hull = ConvexHull(both @ white)
    forms = hull.equations[:, :-1] / -hull.equations[:, -1:]
    forms = forms[np.unique(forms.round(9), axis=0, return_index=True)[1]] @ white.T
    corners = both[hull.simplices]
    volumes = np.abs(np.linalg.det(corners @ white))
    solid = volumes > 1e-12 * volumes.max()  # degenerate pieces of facets with more than m vertices
    return Polytope(forms, corners[solid], np.cumsum(volumes[solid]) / volumes[solid].sum())
