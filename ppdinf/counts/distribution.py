"""Distributions of counts, from exact or noisy histograms, and their distances."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from ppdinf._internal.values import Integers, Reals, numbers, require_choice, require_number
from ppdinf.errors import CountError, PrivacyError
from ppdinf.mechanisms.postprocessing.projection import onto_simplices
from ppdinf.noise.primitives.stream import BitStream

ROUNDING = 1e-9  # tolerance for the sum of probabilities


def as_distribution(z: ArrayLike) -> Reals:
    """Validate a distribution over the counts 0 to n - 1."""
    weights = numbers(z, "a distribution of counts")
    if weights.ndim != 1 or weights.size < 2:
        raise PrivacyError(
            f"a distribution of counts must be one-dimensional with at least two entries, found shape {weights.shape}"
        )
    if (weights < 0).any():
        raise PrivacyError("a distribution of counts must have non-negative probabilities")
    if abs(weights.sum() - 1) > ROUNDING:
        raise PrivacyError("the probabilities of a distribution must sum to 1: divide them by their sum")
    return weights / weights.sum()


def costs(z: Reals, weights: ArrayLike | None, power: int = 1) -> Reals:
    """Return the cost of releasing j when the count is i, shape (n, n): `weights`, or ``z_i |i - j|^power``."""
    if weights is None:
        away = np.abs(np.arange(z.size)[:, np.newaxis] - np.arange(z.size))
        return z[:, np.newaxis] * away**power
    stated = numbers(weights, "weights")
    if stated.shape != (z.size, z.size):
        raise PrivacyError(f"weights must be a matrix of shape {(z.size, z.size)}, found {stated.shape}")
    return stated


def histogram(counts: ArrayLike, n: int) -> Integers:
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


def require_counts(counts: ArrayLike, n: int) -> Integers:
    """Return counts from 0 to n - 1 as int64 in their shape; errors do not show counts."""
    require_size(n)
    cells = numbers(counts, "counts", CountError, integer=True)
    if ((cells < 0) | (cells >= n)).any():
        raise CountError(
            f"counts must be from 0 to n - 1 = {n - 1}; n is public, so choose n without reference to the table, "
            "and top-code larger counts with numpy.minimum(counts, n - 1)"
        )
    return cells


def require_size(n: object) -> None:
    """Raise an error unless n is an integer of at least 2."""
    require_number(n, "n, the number of possible counts, must be an integer >= 2", 2)


POSTPROCESSING = ("isotonic", "simplex", "clip")

type Postprocessing = Literal["isotonic", "simplex", "clip"]


def to_distribution(noisy: ArrayLike, postprocessing: Postprocessing = "simplex") -> Reals:
    """Convert a noisy histogram to a distribution.

    Parameters
    ----------
    noisy : array_like of float, shape (n,)
    postprocessing : {"isotonic", "simplex", "clip"}
        "isotonic": the distribution whose cumulative counts are nearest to those of `noisy` in squares, for noise on
        cumulative counts; "simplex": the distribution nearest to ``noisy / sum``; "clip": negative entries set to 0.

    Returns
    -------
    ndarray of float64, shape (n,)
        The distribution; it is uniform if all clipped entries are 0.

    See Also
    --------
    ppdinf.counts.histogram, ppdinf.counts.total_variation

    Examples
    --------
    >>> from ppdinf.counts import to_distribution
    >>> to_distribution([6, 5, -1]), to_distribution([6, 5, -1], "clip").round(3)
    (array([0.55, 0.45, 0.  ]), array([0.545, 0.455, 0.   ]))
    """
    bins = numbers(noisy, "noisy")
    if postprocessing == "clip":
        clipped = np.maximum(bins, 0)
        return clipped / clipped.sum() if clipped.sum() > 0 else np.full(bins.size, 1 / bins.size)
    require_choice("postprocessing", postprocessing, POSTPROCESSING)
    total = max(bins.sum(), 1.0)
    if postprocessing == "isotonic":
        below = isotonic_regression(np.cumsum(bins)[:-1]).x.clip(0, total)
        return np.diff(below, prepend=0, append=total) / total
    nearest = np.maximum(onto_simplices(bins / total, np.zeros(bins.size, dtype=np.int64), [1.0]), 0)  # rounding
    return nearest / nearest.sum()


def rerank(cells: ArrayLike, z: ArrayLike, stream: BitStream) -> Integers:
    """Change noisy cells so that their histogram is a given one: the smallest cells get the smallest counts.

    Of all tables with this histogram, the result is nearest to the noisy cells in absolute differences.

    Parameters
    ----------
    cells : array_like of int
        Noisy cells.
    z : array_like of float, shape (n,)
        Distribution of counts. Its cumulative counts are rounded to integers.
    stream : BitStream
        Breaks ties at random.

    Returns
    -------
    ndarray of int64, in the shape of `cells`

    See Also
    --------
    ppdinf.counts.to_distribution, ppdinf.counts.TwoStage

    Examples
    --------
    >>> from ppdinf.counts import rerank
    >>> from ppdinf.noise.primitives.stream import seeded_stream
    >>> rerank([5, -2, 1, 3], [0.5, 0.25, 0.25], seeded_stream(1))
    array([2, 0, 0, 1])
    """
    noisy = numbers(cells, "cells", CountError, integer=True)
    below = np.rint(np.cumsum(as_distribution(z))[:-1] * noisy.size)
    order = np.lexsort((stream(noisy.size), noisy.ravel()))
    ranked = np.empty(noisy.size, dtype=np.int64)
    ranked[order] = np.searchsorted(below, np.arange(noisy.size), side="right")
    return ranked.reshape(noisy.shape)


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
