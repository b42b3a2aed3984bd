"""Distributions of counts: how large a share of the cells holds each count."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf.errors import CountError, PrivacyError

__all__ = ["as_distribution", "histogram", "require_counts", "require_size"]

ROUNDING = 1e-9  # error of a total of probabilities that is taken for rounding


def as_distribution(z: ArrayLike) -> NDArray[np.float64]:
    """Read a distribution over the counts 0 to n - 1, or refuse it.

    Parameters
    ----------
    z : array_like of float, shape (n,)

    Returns
    -------
    ndarray of float64, shape (n,)
        Divided by its sum, which must be 1 up to 1e-9.

    Raises
    ------
    PrivacyError
        Not one row of at least two numbers; a negative one, or one that is not finite; another sum than 1.

    Examples
    --------
    >>> as_distribution([0.25, 0.75])
    array([0.25, 0.75])
    """
    try:
        found = np.array(z, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise PrivacyError(
            "a distribution of counts is a row of probabilities, one for each count from 0 on"
        ) from error
    if found.ndim != 1 or found.size < 2:
        raise PrivacyError(f"a distribution of counts is one row of at least two probabilities, found {found.shape}")
    if not np.isfinite(found).all() or (found < 0).any():
        raise PrivacyError("a distribution of counts holds finite probabilities from 0 on")
    if abs(found.sum() - 1) > ROUNDING:
        raise PrivacyError("the probabilities of a distribution must add up to 1: divide them by their sum")
    return found / found.sum()


def histogram(counts: ArrayLike, n: int) -> NDArray[np.int64]:
    """Count the cells that hold 0, 1, ..., n - 1.

    Parameters
    ----------
    counts : array_like of int
        The cells of a table, none above ``n - 1`` (`numpy.minimum` top-codes them).
    n : int
        At least 2.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    CountError
        Not whole numbers, or outside 0 to n - 1.

    Examples
    --------
    >>> histogram([0, 2, 2, 1], 4)
    array([1, 1, 2, 0])
    """
    return np.bincount(require_counts(counts, n).ravel(), minlength=n)


def require_counts(counts: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return whole numbers from 0 to n - 1 as int64, in their shape, or refuse them without showing one."""
    require_size(n)
    found = np.asarray(counts)
    if found.dtype.kind not in "iu":
        raise CountError(f"counts must be whole numbers, found an array of {found.dtype}")
    if ((found < 0) | (found >= n)).any():
        raise CountError(
            f"some counts lie outside 0 to {n - 1}: the largest count is public, so choose n without looking at the "
            "table, and top-code what lies above with numpy.minimum(counts, n - 1)"
        )
    return found.astype(np.int64)


def require_size(n: object) -> None:
    """Refuse a number of possible counts that is none."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2:
        raise PrivacyError(f"n, the number of possible counts, must be a whole number from 2 on, found {n!r}")
