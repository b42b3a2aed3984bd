"""Distributions of counts: the share of the cells with each count."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf._internal.arrays import numbers
from ppdinf.errors import CountError, PrivacyError

ROUNDING = 1e-9  # tolerance for the sum of probabilities


def as_distribution(z: ArrayLike) -> NDArray[np.float64]:
    """Validate a distribution over the counts 0 to n - 1."""
    found = numbers(z, "a distribution of counts")
    if found.ndim != 1 or found.size < 2:
        raise PrivacyError(
            f"a distribution of counts must be one-dimensional with at least two entries, found shape {found.shape}"
        )
    if (found < 0).any():
        raise PrivacyError("a distribution of counts must have non-negative probabilities")
    if abs(found.sum() - 1) > ROUNDING:
        raise PrivacyError("the probabilities of a distribution must sum to 1: divide them by their sum")
    distribution: NDArray[np.float64] = found / found.sum()
    return distribution


def histogram(counts: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return the number of cells with each count 0, 1, ..., n - 1.

    Parameters
    ----------
    counts : array_like of int
        The cells of a table, at most ``n - 1`` (`numpy.minimum` top-codes them).
    n : int
        At least 2.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    CountError
        The counts are not integers from 0 to n - 1.

    See Also
    --------
    ppdinf.counts.to_distribution, ppdinf.counts.noisy_histogram

    Examples
    --------
    >>> from ppdinf.counts import histogram
    >>> histogram([0, 2, 2, 1], 4)
    array([1, 1, 2, 0])
    """
    return np.bincount(require_counts(counts, n).ravel(), minlength=n)


def require_counts(counts: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return counts from 0 to n - 1 as int64 in their shape; errors do not show counts."""
    require_size(n)
    found = numbers(counts, "counts", CountError, integer=True)
    if ((found < 0) | (found >= n)).any():
        raise CountError(
            f"counts must be from 0 to n - 1 = {n - 1}; n is public, so choose n without reference to the table, "
            "and top-code larger counts with numpy.minimum(counts, n - 1)"
        )
    return found


def require_size(n: object) -> None:
    """Raise an error unless n is an integer of at least 2."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2:
        raise PrivacyError(f"n, the number of possible counts, must be an integer >= 2, found {n!r}")
