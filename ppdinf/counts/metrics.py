"""Distances between distributions of counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ppdinf.counts.distribution import as_distribution
from ppdinf.errors import PrivacyError

__all__ = ["kolmogorov_smirnov", "total_variation", "wasserstein"]


def wasserstein(p: Any, q: Any) -> float:
    """Wasserstein-1 distance of two distributions over 0 to n - 1, in persons: area between their CDFs.

    Examples
    --------
    >>> wasserstein([0.5, 0.5, 0], [0.5, 0, 0.5])
    0.5
    """
    return float(np.abs(np.cumsum(_difference(p, q))).sum())


def kolmogorov_smirnov(p: Any, q: Any) -> float:
    """Largest distance of two distribution functions.

    Examples
    --------
    >>> kolmogorov_smirnov([0.5, 0.5, 0], [0.25, 0.25, 0.5])
    0.5
    """
    return float(np.abs(np.cumsum(_difference(p, q))).max())


def total_variation(p: Any, q: Any) -> float:
    """Half of the sum of all differences of probabilities.

    Examples
    --------
    >>> total_variation([0.5, 0.5, 0], [0.5, 0, 0.5])
    0.5
    """
    return float(np.abs(_difference(p, q)).sum() / 2)


def _difference(p: Any, q: Any) -> np.ndarray:
    first, second = as_distribution(p), as_distribution(q)
    if first.size != second.size:
        raise PrivacyError(f"distributions over {first.size} and {second.size} counts cannot be compared: pad with 0")
    return first - second
