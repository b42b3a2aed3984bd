"""Total weight, cumulative shares and quantiles of the count of one cell given its measurement and a prior.

Count c has the weight ``w(c) = exp(noise(c) + log_h(c) + slope c)``. Weights are summed by recursion if they are in the
range of double precision, otherwise in logarithms. Rows start at the count `lower`. The weight of counts below 0 is 0,
and the noise weights decrease from the count `falls` on.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

LEAST, MOST = 1e-250, 1e250
"""Weights outside of this range are summed in logarithms."""

NEGLIGIBLE = 1e-20
"""Relative weight below which decreasing tails are omitted, per count."""

type Reals = NDArray[np.float64]


@jit
def log_prior(x: int, log_h: Reals) -> float:
    """Return the log weight of a count under the shape of the prior alone."""
    if x < log_h.size:
        return log_h[x]
    a = math.exp(log_h[1])
    return math.lgamma(x + a) - math.lgamma(x + 1.0) - math.lgamma(a)


@jit(inline="always")
def log_total(row: Reals, log_row: Reals, lower: int, falls: int, log_h: Reals, h: Reals, slope: float) -> float:
    """Return the log of the total weight of a cell."""
    start, end = max(lower, 0), lower + row.size
    middle, ratio = min(max(falls, start), end), np.exp(slope)
    power, total = 1.0, 0.0
    for c in range(start, middle):
        total += row[c - lower] * h[c] * power
        power *= ratio
    for c in range(middle, end):
        weight = row[c - lower] * h[c] * power
        power *= ratio
        total += weight
        if weight < NEGLIGIBLE * total and c > start and h[c] * ratio < h[c - 1]:
            break
    if LEAST < total < MOST:
        return np.log(total) + slope * start
    top, total = -np.inf, 0.0
    for c in range(start, end):
        top = max(top, log_row[c - lower] + log_h[c] + slope * c)
    for c in range(start, end):
        total += np.exp(log_row[c - lower] + log_h[c] + slope * c - top)
    return np.log(total) + top


@jit(inline="always")
def _plain(scale: float, last: float) -> bool:
    """Return whether weights can be summed without logarithms, given their scale and the prior of the largest count."""
    return LEAST < scale < MOST and last < MOST


@jit(inline="always")
def shares(
    row: Reals, log_row: Reals, lower: int, x: int, log_h: Reals, h: Reals, slope: float, log_all: float
) -> tuple[float, float]:
    """Return the shares of the counts below x and of x in the total weight, given its logarithm."""
    start, below = max(lower, 0), 0.0
    power, ratio = np.exp(slope * start - log_all), np.exp(slope) if x > start else 1.0
    if _plain(power, h[lower + row.size - 1]):
        for c in range(start, x):
            below += row[c - lower] * h[c] * power
            power *= ratio
        at = row[x - lower] * h[x] * power
        if at > LEAST:
            return below, at
        below = 0.0
    for c in range(start, x):
        below += np.exp(log_row[c - lower] + log_h[c] + slope * c - log_all)
    return below, np.exp(log_row[x - lower] + log_h[x] + slope * x - log_all)


@jit(inline="always")
def quantile(
    row: Reals, log_row: Reals, lower: int, u: float, log_h: Reals, h: Reals, slope: float, log_all: float
) -> int:
    """Return the smallest count whose cumulative share of the total weight exceeds u, given the log total."""
    start, last = max(lower, 0), -1
    power, ratio = np.exp(slope * start - log_all), 0.0
    plain = _plain(power, h[lower + row.size - 1])
    for c in range(start, lower + row.size):
        if plain:
            if c == start + 1:  # usually the first count
                ratio = np.exp(slope)
            power = power if c == start else power * ratio
            weight = row[c - lower] * h[c] * power
        else:
            weight = np.exp(log_row[c - lower] + log_h[c] + slope * c - log_all)
        if weight > 0.0:
            last = c
            u -= weight
            if u < 0.0:
                return c
    return last
