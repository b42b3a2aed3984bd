"""K-norm noise in any dimension for bodies spanned by independent moves or by differences of points.

If K is the hull of k independent moves of R^k and their opposites, |w|_K is the l1 norm of w in the basis of the moves.
The noise has independent Laplace coordinates in this basis.

If K is the hull of all differences of k + 1 points that do not lie in a hyperplane, w has one representation as a
sum of points with weights u that sum to 0. A difference moves weight from one point to another. |w|_K is therefore the
total weight that moves, half the l1 norm of u. For noise with density proportional to exp(-|w|_K), the total weight S
is Gamma(k). The number j of points that gain weight has probability proportional to C(k + 1, j) / ((j - 1)! (k - j)!),
because the volume of the compositions of S into j parts is proportional to S^(j - 1) / (j - 1)!. The set of points that
gain is uniform, and so are the shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ppdinf.noise.primitives.continuous import exponentials, laplaces
from ppdinf.noise.real.k_norm_draws import uniforms

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream

type Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class IndependentMoves:
    """The body K as the hull of independent moves, or of all differences of independent points."""

    points: Reals
    forms: Reals

    def noise(self, draws: int, stream: BitStream) -> Reals:
        """Draw from the density proportional to exp(-|w|_K), shape (draws, k)."""
        k, n = self.points.shape
        if n == k:
            return laplaces(stream, draws, k) @ self.points.T
        j = np.arange(1, n)
        log_weights = -gammaln(j + 1) - gammaln(n - j + 1) - gammaln(j) - gammaln(n - j)
        cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
        gaining = 1 + np.searchsorted(cumulative, uniforms(stream, draws) * cumulative[-1])
        order = np.argsort(exponentials(stream, draws, n), axis=1)
        gains = np.argsort(order, axis=1) < gaining[:, np.newaxis]
        spread = exponentials(stream, draws, n)
        up, down = np.where(gains, spread, 0.0), np.where(gains, 0.0, spread)
        weights = up / up.sum(axis=1, keepdims=True) - down / down.sum(axis=1, keepdims=True)
        return exponentials(stream, draws, k).sum(axis=1, keepdims=True) * weights @ self.points.T


def independent_moves(columns: Reals, *, differences: bool) -> IndependentMoves | None:
    """Return K as `IndependentMoves`; None if the points are too many."""
    points = columns[:, np.unique(columns.round(9), axis=1, return_index=True)[1]]
    k = len(points)
    if differences:
        if points.shape[1] != k + 1:
            return None
        return IndependentMoves(points, np.linalg.inv(np.vstack([points, np.ones(k + 1)]))[:, :k] / 2)
    points = points[:, np.abs(points).max(axis=0) > 1e-9]
    return IndependentMoves(points, np.linalg.inv(points)) if points.shape[1] == k else None
