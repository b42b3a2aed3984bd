r"""Exponential tilting of the noise, for public sums in the tail of the law of the unconditioned sum.

Where most counts are 0 and must not decrease, independent noise increases their sum by many standard deviations above
the public value, and truncation around the counts would drop more weight than this sum has. Multiply the weight of the
noise z of every cell of a public sum by ``exp(theta z)``. The product over the cells is ``exp(theta 0) = 1`` for every
release that keeps the sum. The law, its normalizer and each draw from given random bits do not depend on theta, while
the mean of the unconditioned sum moves to the public value. So theta can be computed in floating point: it is used as
an exact rational number, and its accuracy affects only the speed.

Beyond r, on the increasing side, double geometric noise tilted by theta has weight ``q^(r + 1) / (1 - q)`` with
``q = exp(|theta| - epsilon)``. Truncation is where such a bound is small, or at the public bounds.

Reference
---------
F. Esscher, "On the probability function in the collective theory of risk", Skandinavisk Aktuarietidskrift 15, 1932.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from scipy.optimize import brentq

from ppdinf.laws import IntegerLaw

DEVIATIONS = 3.0  # standard deviations of a sum within which it needs no tilt
WIDEST = 2**17  # values of one cell, up to which the tilted support extends where no bound ends it
FASTEST = 40.0  # rate above which tilted noise is 0
NEAR = 64  # noise values that are treated individually
GROWTH = 1.02  # growth of the steps between larger noise values
BITS = 80  # precision of the initial truncation

type Sides = Callable[[int], tuple[list[arb], list[arb], arb]]
"""``sides(bits)``: weights of 0, 1, ... and of 0, -1, ..., and a bound on the sum of all other weights."""


def sides(noise: IntegerLaw, tilt: Fraction, below: float, above: float) -> Sides:
    """Tabulate ``weight(z) exp(tilt z)`` for z from ``-below`` to `above`, once for all cells of a group."""

    @lru_cache(maxsize=2)
    def tabulated(bits: int, precision: int) -> tuple[list[arb], list[arb], arb]:
        up, beyond = noise.window(bits, precision, above, tilt)
        down, beneath = noise.window(bits, precision, below, -tilt)
        return up, down, ((beyond + beneath) / 2).upper()

    return lambda bits: tabulated(bits, ctx.prec)


def tilts(
    noise: IntegerLaw, below: NDArray[np.float64], above: NDArray[np.float64], groups: NDArray[np.int64]
) -> dict[int, Fraction]:
    """Tilt every group of cells so that noise between ``-below`` and `above` has a sum with mean 0."""
    if not np.any(groups >= 0) or np.any(below < 0) or np.any(above < 0):
        return {}
    widest = float(max(below.max(), above.max()))
    reach = float(min(noise.tail_start(-BITS * math.log(2)), widest))
    law = _approximate_moments(noise, int(min(widest, max(reach, WIDEST))))
    pairs, like = np.unique(np.column_stack([law.within(below), law.within(above)]), axis=0, return_inverse=True)
    mean, variance = law.moments(pairs, 0.0)
    inside = groups >= 0
    sums, spreads = (np.bincount(groups[inside], weights=part[like][inside]) for part in (mean, variance))
    tilt_of_group = {}
    for group in np.flatnonzero(np.abs(sums) > DEVIATIONS * np.sqrt(spreads)).tolist():
        cells = np.flatnonzero(groups == group)
        kinds, counts = np.unique(like[cells], return_counts=True)
        ends = below[cells] if sums[group] > 0 else above[cells]
        rate = -float(noise.largest_ratio(0).log()) / noise.period
        limit = rate + FASTEST if ends.max() <= reach else rate * max(0.5, 1 - reach / WIDEST)
        tilt = law.balanced(pairs[kinds], counts, -limit if sums[group] > 0 else limit)
        if tilt:
            tilt_of_group[group] = Fraction(tilt)
    return tilt_of_group


class _ApproximateMoments:
    """Approximate moments of tilted noise between bounds, to a few percent: one value for each interval."""

    def __init__(self, noise: IntegerLaw, reach: int) -> None:
        starts = list(range(min(NEAR, reach) + 1))
        while starts[-1] < reach:
            starts.append(min(reach, max(starts[-1] + 1, int(starts[-1] * GROWTH))))
        lengths = np.diff([*starts, starts[-1] + 1])
        middles = np.array(starts) + (lengths - 1) // 2
        self._z = np.concatenate([-middles[:0:-1], middles])
        logs = np.log(lengths) + np.array([float(noise.log_weight(int(size))) for size in middles])
        self._logs = np.concatenate([logs[:0:-1], logs])

    def within(self, ends: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the largest represented value up to each end, so that few different ends remain."""
        sizes = self._z[self._z >= 0]
        return sizes[np.searchsorted(sizes, ends, side="right") - 1]

    def moments(self, pairs: NDArray[np.int64], tilt: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean and variance of noise from ``-pairs[:, 0]`` to ``pairs[:, 1]``."""
        possible = (self._z >= -pairs[:, :1]) & (self._z <= pairs[:, 1:])
        logs = np.where(possible, self._logs + tilt * self._z, -np.inf)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        total = weights.sum(axis=1)
        mean = weights @ self._z / total
        return mean, weights @ self._z.astype(np.float64) ** 2 / total - mean**2

    def balanced(self, pairs: NDArray[np.int64], counts: NDArray[np.int64], limit: float) -> float:
        """Return the tilt between 0 and `limit` for which the sum of all noise has the mean nearest to 0."""

        def mean(tilt: float) -> float:
            return float(counts @ self.moments(pairs, tilt)[0])

        if mean(0.0) * mean(limit) >= 0:
            return limit
        return float(brentq(mean, 0.0, limit, rtol=1e-6, xtol=1e-9 * abs(limit)))


_approximate_moments = lru_cache(maxsize=16)(_ApproximateMoments)
