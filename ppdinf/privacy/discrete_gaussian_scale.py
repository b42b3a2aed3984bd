"""Scale of discrete Gaussian noise on one count for a given epsilon and delta.

C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", J. Priv. Confid. 12, 2022.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from ppdinf.errors import PrivacyError


@lru_cache(maxsize=32)
def discrete_gaussian_sigma(epsilon: Fraction, delta: Fraction) -> float:
    """Return the least sigma for which discrete Gaussian noise is (epsilon, delta) private for neighbouring counts."""
    if delta >= 1:
        raise PrivacyError(f"delta must lie below 1, found {delta}")
    rate, tail_probability = float(epsilon), float(delta)

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        k = np.arange(-math.ceil(40 * sigma + rate * sigma**2) - 2, math.ceil(40 * sigma) + 2, dtype=np.float64)
        weight = np.exp(-((k / sigma) ** 2) / 2)
        beyond = np.maximum(0, weight - np.exp(rate - (((k + 1) / sigma) ** 2) / 2))
        return math.log(float(beyond.sum() / weight.sum()) + 1e-300) - math.log(tail_probability)

    low, high = math.log(0.05), math.log(0.1)
    while excess(high) > 0:
        high += math.log(2)
    if excess(low) <= 0:
        return math.exp(low)
    return math.exp(brentq(excess, low, high, xtol=1e-10)) * (1 + 1e-9)
