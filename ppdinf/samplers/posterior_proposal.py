"""Proposals of importance sampling: mixtures of multivariate t distributions fitted to draws.

A t distribution has heavier tails than most posteriors. A mixture adapts to skewed posteriors and to scales that vary,
such as those of effects with their spread. The fit is by expectation maximization. Each component's scale matrix is
shrunk towards the average within components: separate scale matrices need more effective draws than adaptation has, and
a scale matrix that is too small gives weights with heavy tails.

References
----------
O. Cappe, R. Douc, A. Guillin, J.-M. Marin and C. P. Robert, "Adaptive importance sampling in general mixture classes",
Statistics and Computing 18 (2008), section 4, for the updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

DEGREES = 5  # degrees of freedom of each component
COMPONENTS = 4  # maximum number
DRAWS_PER_COMPONENT = 20  # effective draws per component and dimension required for a further component
SCALE_PRIOR = 10  # weight of the average scale matrix, in draws per dimension
ITERATIONS = 20

Matrix = NDArray[np.float64]


class TMixture(NamedTuple):
    """A mixture of multivariate t distributions."""

    weight: NDArray[np.float64]
    mean: Matrix
    root: NDArray[np.float64]

    @classmethod
    def single(cls, mean: NDArray[np.float64], covariance: Matrix) -> TMixture:
        """Return one t distribution with the given mean and covariance."""
        return cls(np.ones(1), mean[None], _root(covariance[None] * (DEGREES - 2) / DEGREES))

    def draw(self, size: int, rng: np.random.Generator) -> Matrix:
        """Return independent draws, shape (size, d)."""
        component = rng.choice(self.weight.size, size, p=self.weight)
        scale = np.sqrt(DEGREES / rng.chisquare(DEGREES, size))
        draws = rng.standard_normal((size, self.mean.shape[1])) * scale[:, None]
        for k in range(self.weight.size):
            held = component == k
            draws[held] = self.mean[k] + draws[held] @ self.root[k].T
        return draws

    def log_density(self, points: Matrix) -> NDArray[np.float64]:
        """Return the log density, shape (n,)."""
        return logsumexp(self._parts(points)[0], axis=1)

    def _parts(self, points: Matrix) -> tuple[Matrix, Matrix]:
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

    def draw(self, size: int, rng: np.random.Generator) -> Matrix:
        """Return independent draws, shape (size, d)."""

    def log_density(self, points: Matrix) -> NDArray[np.float64]:
        """Return the log density, shape (n,)."""


class DefensiveMixture(NamedTuple):
    """A mixture of distributions."""

    parts: Sequence[Distribution]
    shares: Sequence[float]

    def draw(self, size: int, rng: np.random.Generator) -> Matrix:
        """Return independent draws, shape (size, d), in the order of the parts."""
        counts = rng.multinomial(size, self.shares).tolist()
        return np.concatenate([part.draw(n, rng) for part, n in zip(self.parts, counts, strict=True)])

    def log_density(self, points: Matrix) -> NDArray[np.float64]:
        """Return the log density, shape (n,)."""
        logs = np.stack([part.log_density(points) for part in self.parts])
        return logsumexp(logs + np.log(self.shares)[:, None], axis=0)


def fit(points: Matrix, effective: float, rng: np.random.Generator) -> TMixture:
    """Fit a proposal to draws from a posterior."""
    n, d = points.shape
    size = int(np.clip(effective / (DRAWS_PER_COMPONENT * d), 1, COMPONENTS))
    total = np.cov(points.T, bias=True).reshape(d, d)
    floor = 1e-9 * np.diag(np.diag(total)) + 1e-300 * np.eye(d)
    start = points[rng.choice(n, size, replace=False)]
    mixture = TMixture(np.full(size, 1 / size), start, np.repeat(_root(total + floor)[None], size, axis=0))
    for _ in range(ITERATIONS):
        log_p, distance = mixture._parts(points)
        member = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
        trust = member * (DEGREES + d) / (DEGREES + distance)  # distant draws have less weight in the t distribution
        count, mean = member.sum(axis=0), trust.T @ points / trust.sum(axis=0)[:, None]
        scatter = np.stack([(t[:, None] * (points - m)).T @ (points - m) for t, m in zip(trust.T, mean, strict=True)])
        average = scatter.sum(axis=0) / n
        scale = (scatter + SCALE_PRIOR * d * average) / (count + SCALE_PRIOR * d)[:, None, None]
        mixture = TMixture((count + 1) / (n + size), mean, _root(scale + floor))
    return mixture


def _root(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.linalg.cholesky(scale)
