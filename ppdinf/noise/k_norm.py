"""K-norm noise: radii and directions, integer vectors, polytopes in few dimensions, and bodies of independent moves.

References
----------
M. Hardt, K. Talwar, "On the geometry of differential privacy", STOC 2010. C. B. Barber, D. P. Dobkin, H. Huhdanpaa,
"The Quickhull algorithm for convex hulls", ACM Transactions on Mathematical Software 22(4), 1996.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from flint import arb
from scipy.spatial import ConvexHull
from scipy.special import gammainccinv, gammaln

from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Integers, Reals
from ppdinf.lattice import structure
from ppdinf.laws import L2Laplace
from ppdinf.noise.exact.variable_elimination import Elimination
from ppdinf.noise.primitives.enclosures import precision
from ppdinf.noise.primitives.integers import Inversion, draw_discrete_laplace, uniform_integers
from ppdinf.noise.primitives.stream import exponentials, laplaces, normals
from ppdinf.noise.sampler_plan import exact_noise

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream


K_NORMS = {"l1": 1, "l2": 2, "linf": np.inf}
"""Names of norms and their order in `numpy.linalg.norm`."""


def uniforms(stream: BitStream, *shape: int) -> Reals:
    """Draw uniform numbers with 52 bits in the open interval (0, 1)."""
    return ((stream(prod(shape)) >> np.uint64(12)).astype(float).reshape(shape) + 0.5) * 2.0**-52


def k_norm(dimension: int, norm: str, draws: int, stream: BitStream) -> Reals:
    """Draw from the density proportional to ``exp(-|z|)``, exactly up to double precision."""
    if norm == "l1":
        return laplaces(stream, draws, dimension)
    if norm == "l2":
        direction = normals(stream, draws, dimension)
        size = gammainccinv(dimension, uniforms(stream, draws, 1))
        unit = direction / np.linalg.norm(direction, axis=1, keepdims=True)
    else:
        size = gammainccinv(dimension + 1, uniforms(stream, draws, 1))
        unit = 2 * uniforms(stream, draws, dimension) - 1
    return size * unit


def draw_integer_k_norm(dimension: int, norm: str, rate: Fraction, draws: int, stream: BitStream) -> Integers:
    """Draw integer vectors with mass proportional to ``exp(-rate |z|)``."""
    if norm == "l1":
        return draw_discrete_laplace(rate, draws * dimension, stream).reshape(draws, dimension)
    if norm == "l2":
        free = structure(np.zeros((1, dimension), dtype=np.int64))
        return exact_noise(free, L2Laplace(rate)).draw(draws, stream)
    radius = _radius(dimension, rate).draw(draws, stream)
    return uniform_integers(np.repeat(2 * radius + 1, dimension), stream).reshape(draws, -1) - radius[:, None]


@lru_cache(maxsize=16)
def _radius(dimension: int, rate: Fraction) -> Inversion:
    mode = max(0, math.floor(dimension / float(rate)) - 2)
    with precision(64):
        while (arb(2 * mode + 3) / (2 * mode + 1)).log() * dimension > ball(rate):  # the weights still increase
            mode += 1
    return Inversion(lambda k: (-ball(rate) * k).exp() * arb(2 * k + 1) ** dimension, mode, first=0)


def one_of(sizes: Integers, log_weights: Sequence[Fraction]) -> Elimination:
    """Return a sampler of k with mass proportional to ``sizes[k] exp(log_weights[k])``."""

    def weights(bits: int) -> tuple[int, list[arb], arb]:
        each = zip(sizes.tolist(), log_weights, strict=True)
        return 0, [arb(size) * ball(log).exp() if size else arb(0) for size, log in each], arb(0)

    return Elimination(np.empty((0, 1), dtype=np.int64), [], [weights])


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
        return np.einsum("im,imk->ik", shares, self.corners[which])

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
