"""Regressions for the K-norm gradient mechanism: coefficients in a ball, records within stated bounds.

On all of R^d these densities have infinite mass: far from 0 the gradient of a logistic regression is bounded, and the
gradient of least squares grows no faster than its sensitivity. Therefore the coefficients are restricted to a ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import expit

from ppdinf._internal.values import Reals
from ppdinf.errors import PrivacyError
from ppdinf.laws.real_noise import positive
from ppdinf.mechanisms.objectives import Exact, Objective, record_rows, require_within
from ppdinf.noise.k_norm import K_NORMS, k_norm, uniforms
from ppdinf.noise.primitives.stream import BitStream, seeded_stream

type Records = tuple[Reals, Reals]
"""Features, one row per record, and responses."""


class Regression(Objective):
    """An objective on pairs of features and response, with bounds on the coefficients and the features."""

    radius: float
    features: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            positive(value, name)

    def records(self, data: object, norm: str) -> Records:
        """Return features and response."""
        if not isinstance(data, tuple) or len(data) != 2:
            raise PrivacyError("data must be a pair (features, response)")
        x = record_rows(data[0], "features")
        response = record_rows(data[1], "response")
        if response.shape != (len(x), 1):
            raise PrivacyError(f"one response per row of features: found {len(x)} rows and responses {response.shape}")
        require_within(np.linalg.norm(x, axis=1), self.features, "Euclidean length of the features")
        return x, response[:, 0]

    def dimension(self, records: Records) -> int:
        """Return the number of features."""
        return int(records[0].shape[1])


@dataclass(frozen=True)
class LinearRegression(Regression):
    """Least squares, ``L = sum (response_i - features_i @ y)^2 / 2``, over coefficients in a ball.

    Data are a pair ``(features, response)``.

    Parameters
    ----------
    radius : float
        Upper bound on the Euclidean length of the coefficients.
    features, response : float
        Bounds on the Euclidean length of a record's features and on the absolute value of its response.

    See Also
    --------
    ppdinf.mechanisms.LogisticRegression, ppdinf.KNormGradient

    Notes
    -----
    The gradient of one record is ``x x' y - response x``. Two matrices x x' differ by at most features**2 in operator
    norm, because both are positive semidefinite. Hence ``sigma(y) = c (features**2 |y| + 2 features response)`` with
    c = 1 for l2 and linf and c = sqrt(d) for l1, the largest ratio of the norm to the Euclidean norm.

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.mechanisms import LinearRegression
    >>> LinearRegression(2.0, features=1, response=3).sensitivity(np.array([[0.0, 2.0]]), "l2")
    array([8.])
    """

    radius: float
    features: float = 1.0
    response: float = 1.0

    def records(self, data: object, norm: str) -> Records:
        """Return features and response."""
        x, response = super().records(data, norm)
        require_within(np.abs(response), self.response, "absolute response of a record")
        return x, response

    def assumed(self, norm: str) -> str:
        """Return the bounds as a phrase."""
        return f"no record has features longer than {self.features:g} or a response beyond {self.response:g}"

    def gradient(self, records: Records, y: Reals) -> Reals:
        """Return ``X' (X y - response)``."""
        x, response = records
        return y @ (x.T @ x) - x.T @ response

    def sensitivity(self, y: Reals, norm: str) -> Reals:
        """Return the sensitivity; see the notes of the class."""
        size = self.features * np.linalg.norm(y, axis=1) + 2 * self.response
        return _stretch(y.shape[1], norm) * self.features * size

    def exact(self, records: Records, basis: Reals, norm: str, rate: Fraction, grid: Fraction | None) -> Exact | None:
        """Propose from the law with the sensitivity at the sphere, a linearly mapped K-norm law, and reject.

        The map depends on the records and does not preserve a grid. None if a pilot of 2,000 proposals accepts fewer
        than 20, as for noise as wide as the ball.
        """
        gram, moments = records[0].T @ records[0], records[0].T @ records[1]
        d = len(gram)
        if basis.shape[1] < d or np.linalg.cond(gram) > 1e10:
            return None
        center, inverse = np.linalg.solve(gram, moments), np.linalg.inv(gram)
        widest = _stretch(d, norm) * self.features * (self.features * self.radius + 2 * self.response)

        def accepted(proposals: int, stream: BitStream) -> Reals:
            z = k_norm(d, norm, proposals, stream)
            y = center + z @ inverse * (widest / float(rate))
            excess = np.linalg.norm(z, K_NORMS[norm], axis=1) * (widest / self.sensitivity(y, norm) - 1)
            return y[(np.linalg.norm(y, axis=1) <= self.radius) & (np.log(uniforms(stream, proposals)) < -excess)]

        share = len(accepted(2000, seeded_stream(1))) / 2000
        if share < 0.01:
            return None

        def draw(draws: int, stream: BitStream) -> Reals:
            parts, missing = [np.empty((0, d))], draws
            while missing > 0:
                parts.append(accepted(min(int(1.1 * missing / share) + 10, 2**16), stream))
                missing -= len(parts[-1])
            return np.concatenate(parts)[:draws]

        return f"rejection from a {norm} law around the coefficients of least squares", draw


@dataclass(frozen=True)
class LogisticRegression(Regression):
    """Logistic regression of a response of 0 or 1, over coefficients in a ball.

    Data are a pair ``(features, response)``. The gradient of one record is ``x (p - response)`` with ``|p - response|
    <= 1 / (1 + exp(-features |y|))``.

    Parameters
    ----------
    radius : float
        Upper bound on the Euclidean length of the coefficients.
    features : float
        Bound on the Euclidean length of a record's features.

    See Also
    --------
    ppdinf.mechanisms.LinearRegression, ppdinf.KNormGradient

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.mechanisms import LogisticRegression
    >>> LogisticRegression(5.0, features=2).sensitivity(np.zeros((1, 3)), "l2")
    array([2.])
    """

    radius: float
    features: float = 1.0

    def records(self, data: object, norm: str) -> Records:
        """Return features and response."""
        x, response = super().records(data, norm)
        wrong = np.flatnonzero((response != 0) & (response != 1))
        if wrong.size:
            raise PrivacyError(f"the response of record {wrong[0]} must be 0 or 1")
        return x, response

    def assumed(self, norm: str) -> str:
        """Return the bound as a phrase."""
        return f"no record has features longer than {self.features:g}"

    def gradient(self, records: Records, y: Reals) -> Reals:
        """Return ``X' (p - response)``."""
        x, response = records
        return (expit(y @ x.T) - response) @ x

    def sensitivity(self, y: Reals, norm: str) -> Reals:
        """Return the sensitivity; see the notes of the class."""
        worst = expit(self.features * np.linalg.norm(y, axis=1))
        return 2 * _stretch(y.shape[1], norm) * self.features * worst


def _stretch(dimension: int, norm: str) -> float:
    return math.sqrt(dimension) if norm == "l1" else 1.0
