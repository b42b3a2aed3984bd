"""Powers of exp(epsilon), the scales that are built from them, and matrices of probabilities as sums of scales."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import ctx
from numpy.typing import ArrayLike

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import Parameter, as_fraction, ball
from ppdinf._internal.values import Flags, Integers, Reals, members
from ppdinf.errors import PrivacyError

SMALLEST = 650  # exp(-650) is far above the smallest double, so that products are accurate
LONGEST = 2**15  # largest number of entries of a table
LEAST, MOST = Fraction(1, 10**6), Fraction(100)  # range of losses whose powers are in the range of doubles
MANY = 20  # largest n for which all 2^(n-1) scales are listed


@lru_cache(maxsize=32)
def falls(epsilon: Fraction) -> Reals:
    """Tabulate exp(-epsilon k) for k = 0, 1, ... down to about exp(-650), within one unit in the last place."""
    size = max(2, min(int(SMALLEST / epsilon), LONGEST))
    with ctx.workprec(128):
        table = np.array([float((-k * ball(epsilon)).exp()) for k in range(size)])
    table.setflags(write=False)
    return table


@jit
def times(x: float, k: int, table: Reals) -> float:
    """Return ``x * exp(epsilon k)``, for integers k of either sign."""
    longest = table.size - 1
    while k > longest:
        x /= table[longest]
        k -= longest
    while -k > longest:
        x *= table[longest]
        k += longest
    return x / table[k] if k >= 0 else x * table[-k]


def as_epsilon(epsilon: Parameter) -> Fraction:
    """Validate the privacy loss between a count and the next one, from 1e-6 to 100."""
    exact = as_fraction(epsilon, "epsilon")
    if not LEAST <= exact <= MOST:
        raise PrivacyError(f"epsilon must be between 1e-6 and 100 for mechanisms of single counts, found {epsilon!r}")
    return exact


def depths(patterns: Flags) -> Integers:
    """Return the number of steps below the highest entry of each scale."""
    patterns = np.asarray(patterns, dtype=bool)
    heights = np.zeros((*patterns.shape[:-1], patterns.shape[-1] + 1), dtype=np.int64)
    np.cumsum(np.where(patterns, 1, -1), axis=-1, out=heights[..., 1:])
    return heights.max(axis=-1, keepdims=True) - heights


def scale(pattern: ArrayLike, epsilon: Parameter) -> Reals:
    """Return the scale of a pattern.

    Parameters
    ----------
    pattern : array_like of bool or of +1 and -1, shape (n - 1,)
        Where the scale increases.
    epsilon : int, float, str or Fraction

    Returns
    -------
    ndarray of float64, shape (n,)
        The scale, positive (except for underflow) with sum 1.

    See Also
    --------
    ppdinf.counts.scales, ppdinf.counts.heuristic

    Examples
    --------
    >>> from ppdinf.counts import scale
    >>> import math
    >>> scale([+1, -1], math.log(2)).round(4)  # a quarter, a half, a quarter
    array([0.25, 0.5 , 0.25])
    """
    rising = np.asarray(pattern)
    if rising.ndim != 1 or not np.isin(rising, (-1, 0, 1)).all():
        raise PrivacyError(
            "pattern must be an array of +1 or True (the scale increases) and -1 or False (it decreases)"
        )
    return _scales((rising > 0)[np.newaxis], as_epsilon(epsilon))[:, 0]


def single_peaked(j: int, n: int) -> Flags:
    """Return the pattern that increases up to row j and then decreases.

    See Also
    --------
    ppdinf.counts.optimal, ppdinf.counts.heuristic

    Examples
    --------
    >>> from ppdinf.counts import single_peaked
    >>> single_peaked(1, 4)
    array([ True, False, False])
    """
    if not 0 <= j < n:
        raise PrivacyError(f"the peak must be from 0 to {n - 1}, found {j}")
    return np.arange(n - 1) < j


def scales(n: int, epsilon: Parameter) -> Reals:
    """List all scales of length n as columns.

    Parameters
    ----------
    n : int
        From 1 to 20.
    epsilon : int, float, str or Fraction

    Returns
    -------
    ndarray of float64, shape (n, 2^(n - 1))
        Scales from the decreasing pattern to the increasing pattern; the last step changes fastest.

    See Also
    --------
    ppdinf.counts.scale, ppdinf.counts.representation

    Examples
    --------
    >>> from ppdinf.counts import scales
    >>> import math
    >>> scales(3, math.log(2)).round(3)
    array([[0.571, 0.4  , 0.25 , 0.143],
           [0.286, 0.2  , 0.5  , 0.286],
           [0.143, 0.4  , 0.25 , 0.571]])
    """
    return _scales(patterns(n), as_epsilon(epsilon))


def patterns(n: int) -> Flags:
    """List all patterns of scales of length n, shape (2^(n - 1), n - 1)."""
    if not 1 <= n <= MANY:
        raise PrivacyError(f"n must be from 1 to {MANY}, because there are 2^(n - 1) scales of length n, found {n}")
    return (np.arange(2 ** (n - 1))[:, np.newaxis] >> np.arange(n - 2, -1, -1) & 1).astype(bool)


def _scales(rising: Flags, epsilon: Fraction) -> Reals:
    unscaled = falling(depths(rising), epsilon)
    return (unscaled / unscaled.sum(axis=1, keepdims=True)).T


def falling(depth: Integers, epsilon: Fraction) -> Reals:
    """Return exp(-epsilon depth) from the table; 0 below the smallest doubles."""
    table = falls(epsilon)
    below = np.exp(-float(epsilon) * np.maximum(depth, table.size)) if depth.max(initial=0) >= table.size else 0.0
    return np.where(depth < table.size, table[np.minimum(depth, table.size - 1)], below)


@dataclass(frozen=True, eq=False)
class Scales:
    """Columns as sums of scales."""

    column: Integers
    peak: Reals
    rising: Flags


@jit
def add_scales(column, peak, rising, table, matrix):  # type: ignore[no-untyped-def]
    """Add scales to a matrix: ``peak * table[depth]``."""
    n = matrix.shape[0]
    depth = np.empty(n, np.int64)
    for k in range(column.size):
        depth[0] = 0
        lowest = 0
        for i in range(n - 1):
            depth[i + 1] = depth[i] + (-1 if rising[k, i] else 1)
            lowest = min(lowest, depth[i + 1])
        for i in range(n):
            matrix[i, column[k]] += peak[k] * table[depth[i] - lowest]


def scales_ratio(scales: Scales, epsilon: float) -> float:
    """Return the largest log ratio of neighbouring entries: exactly epsilon if all scales of a column agree."""
    worst = 0.0
    for group in members(scales.column):
        rising = scales.rising[group]
        if (rising.all(axis=0) | ~rising.any(axis=0)).any():
            return epsilon
        log_entry = np.log(scales.peak[group])[:, np.newaxis] - epsilon * depths(rising)[:, :-1]
        share = np.exp(log_entry - log_entry.max(axis=0))
        up = (share * rising).sum(axis=0) / share.sum(axis=0)
        ratios = math.exp(-epsilon) + up * (math.exp(epsilon) - math.exp(-epsilon))
        worst = max(worst, float(np.abs(np.log(ratios)).max(initial=0.0)))
    return min(worst, epsilon)
