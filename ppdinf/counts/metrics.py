"""Distances between distributions of counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ppdinf.counts.distribution import as_distribution
from ppdinf.errors import PrivacyError


def wasserstein(p: ArrayLike, q: ArrayLike) -> float:
    """Return the Wasserstein-1 distance of two distributions over 0 to n - 1, in persons: the area between their CDFs.

    See Also
    --------
    ppdinf.counts.total_variation, ppdinf.counts.kolmogorov_smirnov

    Examples
    --------
    >>> from ppdinf.counts import wasserstein
    >>> wasserstein([0.5, 0.5, 0], [0.5, 0, 0.5])
    0.5
    """
    return float(np.abs(np.cumsum(_difference(p, q))).sum())


def kolmogorov_smirnov(p: ArrayLike, q: ArrayLike) -> float:
    """Return the largest distance of two distribution functions.

    See Also
    --------
    ppdinf.counts.total_variation, ppdinf.counts.wasserstein

    Examples
    --------
    >>> from ppdinf.counts import kolmogorov_smirnov
    >>> kolmogorov_smirnov([0.5, 0.5, 0], [0.25, 0.25, 0.5])
    0.5
    """
    return float(np.abs(np.cumsum(_difference(p, q))).max())


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """Return half of the sum of absolute differences of probabilities.

    See Also
    --------
    ppdinf.counts.kolmogorov_smirnov, ppdinf.counts.wasserstein

    Examples
    --------
    >>> from ppdinf.counts import total_variation
    >>> total_variation([0.5, 0.5, 0], [0.5, 0, 0.5])
    0.5
    """
    return float(np.abs(_difference(p, q)).sum() / 2)


def _difference(p: ArrayLike, q: ArrayLike) -> np.ndarray:
    first, second = as_distribution(p), as_distribution(q)
    if first.size != second.size:
        raise PrivacyError(
            f"the distributions must have the same number of counts, found {first.size} and {second.size}: pad with 0"
        )
    return first - second
