"""Proposals of importance sampling: modes of a posterior, and mixtures of multivariate t distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_normal

from ppdinf._internal.values import Reals

BOUND_DRAWS = 50  # draws that estimate an evidence lower bound
STEPS = (1e-4, 0.03, 0.3, 1.0)  # of second differences: wide steps pass over kinks, used if the first finds no peak
LOG_ZERO = -1e6  # finite log density that replaces -inf in averages
PATH_POINTS = 20  # maximum number of points of a path that are approximated
BETWEEN = np.linspace(0, 1, 17)[1:-1]  # fractions of the distance of two points at which the density is evaluated
DIP = 1.0  # decrease of the log density between two points that separates two modes
MODES = 8  # maximum number
BEST, RANDOM = 60, 20  # draws of the prior that are compared: of highest density, and at random
RANDOM_STARTS = 3  # random draws of the prior that are always starts

Density = Callable[[Reals], Reals]
Gradient = Callable[[Reals], tuple[float, Reals]]


class Mode(NamedTuple):
    """Gaussian approximation of a mode, and its evidence lower bound."""

    mean: Reals
    covariance: Reals
    bound: float


def dispersed(points: Reals, log_p: Density, rng: np.random.Generator) -> Reals:
    """Choose starts among points: one on each peak of the density, and some at random."""
    height = log_p(points)
    held = np.flatnonzero(np.isfinite(height))
    order = held[np.argsort(-height[held])]
    randoms = rng.permutation(order[BEST:])[:RANDOM]
    chosen: list[int] = []
    for k in (*order[:BEST], *randoms):
        if len(chosen) < MODES and not any(_connected(points[k], points[j], log_p) for j in chosen):
            chosen.append(k)
    return points[[*chosen, *rng.permutation(held)[:RANDOM_STARTS]]]


def find_modes(
    starts: Sequence[Reals] | Reals, log_p: Density, value_and_gradient: Gradient, rng: np.random.Generator
) -> list[Mode]:
    """Approximate every mode that an optimizer reaches from the starts."""
    modes: list[Mode] = []
    for start in starts:
        path = _path(start, value_and_gradient)
        candidate = _best_along(path, log_p, value_and_gradient, rng)
        if candidate is None:
            continue
        same = [k for k, mode in enumerate(modes) if _connected(candidate.mean, mode.mean, log_p)]
        candidates = [modes[k] for k in same] + [candidate]
        modes = [mode for k, mode in enumerate(modes) if k not in same] + [max(candidates, key=lambda mode: mode.bound)]
    return sorted(modes, key=lambda mode: -mode.bound)[:MODES]


def _path(start: Reals, value_and_gradient: Gradient) -> Reals:
    """Return points along the path of an optimizer, including both ends."""
    path = [start]

    def descend(u: Reals) -> tuple[float, Reals]:
        value, gradient = value_and_gradient(u)
        return (-float(value), -gradient) if np.isfinite(value) else (1e300, np.zeros_like(u))

    with np.errstate(all="ignore"):  # line searches may overstep
        minimize(descend, start, jac=True, method="L-BFGS-B", callback=lambda u: path.append(u.copy()))
    return np.array(path)[np.unique(np.linspace(0, len(path) - 1, PATH_POINTS).round().astype(int))]


def _best_along(path: Reals, log_p: Density, value_and_gradient: Gradient, rng: np.random.Generator) -> Mode | None:
    """Return the Gaussian approximation with the largest evidence lower bound along a path, or None."""
    for step in STEPS:
        best = None
        for u in path:
            covariance = _curvature(value_and_gradient, u, step)
            if covariance is None:
                continue
            normal = multivariate_normal(u, covariance, allow_singular=True)
            points = normal.rvs(BOUND_DRAWS, random_state=rng).reshape(-1, u.size)
            bound = float(np.mean(np.maximum(log_p(points), LOG_ZERO) - normal.logpdf(points)))
            if bound > (best.bound if best is not None else LOG_ZERO / 2):
                best = Mode(u, covariance, bound)
        if best is not None:
            return best
    return None


def _curvature(value_and_gradient: Gradient, u: Reals, step: float) -> Reals | None:
    """Return the inverse of the negative Hessian by differences of the gradient, or None if it is not definite."""
    rows = [
        (value_and_gradient(u - step * e)[1] - value_and_gradient(u + step * e)[1]) / (2 * step) for e in np.eye(u.size)
    ]
    precision = (np.array(rows) + np.array(rows).T) / 2
    if not np.isfinite(precision).all():
        return None
    value, vector = np.linalg.eigh(precision)
    if value[0] <= max(1e-8, 1e-12 * value[-1]):  # near a spike the Hessian is numerically singular
        return None
    return (vector / value) @ vector.T


def _connected(first: Reals, second: Reals, log_p: Density) -> bool:
    """Return whether the density does not dip on the straight line between two points."""
    points = np.concatenate([[first, second], first + BETWEEN[:, None] * (second - first)])
    height = log_p(points)
    return bool(height[2:].min() >= height[:2].min() - DIP)


DEGREES = 5  # degrees of freedom of each component
COMPONENTS = 4  # maximum number
DRAWS_PER_COMPONENT = 20  # effective draws per component and dimension required for a further component
SCALE_PRIOR = 10  # weight of the average scale matrix, in draws per dimension
ITERATIONS = 20


class TMixture(NamedTuple):
    """A mixture of multivariate t distributions."""

    weight: Reals
    mean: Reals
    root: Reals

    @classmethod
    def single(cls, mean: Reals, covariance: Reals) -> TMixture:
        """Return one t distribution with the given mean and covariance."""
        return cls(np.ones(1), mean[None], np.linalg.cholesky(covariance[None] * (DEGREES - 2) / DEGREES))

    def draw(self, size: int, rng: np.random.Generator) -> Reals:
        """Return independent draws, shape (size, d)."""
        component = rng.choice(self.weight.size, size, p=self.weight)
        scale = np.sqrt(DEGREES / rng.chisquare(DEGREES, size))
        draws = rng.standard_normal((size, self.mean.shape[1])) * scale[:, None]
        for k in range(self.weight.size):
            held = component == k
            draws[held] = self.mean[k] + draws[held] @ self.root[k].T
        return draws

    def log_density(self, points: Reals) -> Reals:
        """Return the log density, shape (n,)."""
        return logsumexp(self._parts(points)[0], axis=1)

    def _parts(self, points: Reals) -> tuple[Reals, Reals]:
        """Return log weight plus log density, and squared distance, of every point and component."""
        d = points.shape[1]
        inverse = np.linalg.inv(self.root)
        distance = np.stack(
            [(((points - m) @ i.T) ** 2).sum(axis=1) for m, i in zip(self.mean, inverse, strict=True)], axis=1
        )
        log_size = np.log(np.diagonal(self.root, axis1=1, axis2=2)).sum(axis=1)
        log_peak = gammaln((DEGREES + d) / 2) - gammaln(DEGREES / 2) - d / 2 * np.log(DEGREES * np.pi) - log_size
        log_p = np.log(self.weight) + log_peak - (DEGREES + d) / 2 * np.log1p(distance / DEGREES)
        return log_p, distance


class Distribution(Protocol):
    """A distribution with draws and a known density."""

    def draw(self, size: int, rng: np.random.Generator) -> Reals:
        """Return independent draws, shape (size, d)."""

    def log_density(self, points: Reals) -> Reals:
        """Return the log density, shape (n,)."""


class DefensiveMixture(NamedTuple):
    """A mixture of distributions."""

    parts: Sequence[Distribution]
    shares: Sequence[float]

    def draw(self, size: int, rng: np.random.Generator) -> Reals:
        """Return independent draws, shape (size, d), in the order of the parts."""
        counts = rng.multinomial(size, self.shares).tolist()
        return np.concatenate([part.draw(n, rng) for part, n in zip(self.parts, counts, strict=True)])

    def log_density(self, points: Reals) -> Reals:
        """Return the log density, shape (n,)."""
        logs = np.stack([part.log_density(points) for part in self.parts])
        return logsumexp(logs + np.log(self.shares)[:, None], axis=0)


def fit(points: Reals, effective: float, rng: np.random.Generator) -> TMixture:
    """Fit a proposal to draws from a posterior."""
    n, d = points.shape
    size = int(np.clip(effective / (DRAWS_PER_COMPONENT * d), 1, COMPONENTS))
    total = np.cov(points.T, bias=True).reshape(d, d)
    floor = 1e-9 * np.diag(np.diag(total)) + 1e-300 * np.eye(d)
    start = points[rng.choice(n, size, replace=False)]
    root = np.linalg.cholesky(total + floor)
    mixture = TMixture(np.full(size, 1 / size), start, np.repeat(root[None], size, axis=0))
    for _ in range(ITERATIONS):
        log_p, distance = mixture._parts(points)
        member = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
        trust = member * (DEGREES + d) / (DEGREES + distance)  # distant draws have less weight in the t distribution
        count, mean = member.sum(axis=0), trust.T @ points / trust.sum(axis=0)[:, None]
        scatter = np.stack([(t[:, None] * (points - m)).T @ (points - m) for t, m in zip(trust.T, mean, strict=True)])
        average = scatter.sum(axis=0) / n
        scale = (scatter + SCALE_PRIOR * d * average) / (count + SCALE_PRIOR * d)[:, None, None]
        mixture = TMixture((count + 1) / (n + size), mean, np.linalg.cholesky(scale + floor))
    return mixture
