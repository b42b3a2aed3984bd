"""Total weight, shares and quantiles of one count given its measurement and a prior, over all counts or knots."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Reals

type Ints = NDArray[np.int64]

LEAST, MOST = 1e-250, 1e250
"""Weights outside of this range are summed in logarithms."""

NEGLIGIBLE = 1e-20
"""Relative weight below which decreasing tails are omitted, per count."""


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


NEAR, UNIFORM = 24, 32
"""Knots at geometric distances from the ends and from the largest weight of a window; at equal distances."""

LOG_NEGLIGIBLE = -46.0
"""Log weight, relative to the largest at a knot or to the sum, below which weights at knots are replaced by 0."""

SMALL = 1e-4
"""Rise of the log weight between two knots below which a geometric sum is expanded (relative error 1e-13)."""


def knots_of(log_noise: Reals) -> Ints:
    """Choose knots of windows, columns of `log_noise` from the first to the last finite one, shape (d, m)."""
    rows = []
    for row in log_noise:
        possible = np.flatnonzero(np.isfinite(row))
        first, last, peak = int(possible[0]), int(possible[-1]), int(row.argmax())
        near = np.rint(np.geomspace(1, max(last - first, 1), NEAR))
        uniform, ends = np.linspace(first, last, UNIFORM), np.array([first, peak, last])
        knots = np.rint(np.concatenate([uniform, ends, first + near, peak - near, peak + near]))
        rows.append(np.unique(np.clip(knots, first, last).astype(np.int64)))
    most = max(map(len, rows))
    return np.array([np.pad(own, (0, most - own.size), mode="edge") for own in rows])


@jit
def log_weights_at(noise: Reals, lower: Ints, knots: Ints, log_h: Reals, out: Reals) -> None:
    """Write the log weights of the counts at the knots without their slopes, shape (d, m)."""
    a = math.exp(log_h[1])
    log_gamma = math.lgamma(a)
    for i in range(knots.shape[0]):
        for j in range(knots.shape[1]):
            count = lower[i] + knots[i, j]
            if count < log_h.size:
                out[i, j] = noise[i, j] + log_h[count]
            else:  # `log_prior`, with the constant computed once
                out[i, j] = noise[i, j] + math.lgamma(count + a) - math.lgamma(count + 1.0) - log_gamma


@jit
def _sum_between(here: float, there: float, s: float, n: int) -> float:
    """Return the sum of ``here exp(s t)`` over t from 0 to n - 1, where ``there = here exp(s n)``."""
    if n <= 1:
        return n * here
    if abs(s) * n < SMALL:
        return here * n * (1.0 + 0.5 * s * (n - 1) * (1.0 + s * (2 * n - 1) / 6.0))
    return (there - here) / math.expm1(s)


@jit(inline="always")
def _exp(log_weight: float) -> float:
    """Return the exponential, 0 for negligible weights."""
    return math.exp(log_weight) if log_weight > LOG_NEGLIGIBLE else 0.0


@jit
def _sums(at_knots: Reals, slope: float, lower: int, knots: Ints, log_unit: float, number: int, sums: Reals) -> float:
    """Write the sums of g from each of the first knots to the next, in a unit given by its log; return their sum."""
    total, log_here = 0.0, at_knots[0] + slope * (lower + knots[0]) - log_unit
    here = _exp(log_here)
    for j in range(number):
        n, sums[j] = knots[j + 1] - knots[j], 0.0
        if n > 0:
            log_there = at_knots[j + 1] + slope * (lower + knots[j + 1]) - log_unit
            there = _exp(log_there)
            if here > 0.0 or there > 0.0:
                sums[j] = _sum_between(here, there, (log_there - log_here) / n, n)
                total += sums[j]
            log_here, here = log_there, there
    return total


@jit
def coarse_total(at_knots: Reals, slope: float, lower: int, knots: Ints, shares: Reals) -> float:
    """Return the log of the sum G of the weights g."""
    last, top = knots.size - 1, -np.inf
    for j in range(knots.size):
        top = max(top, at_knots[j] + slope * (lower + knots[j]))
    shares[last] = _exp(at_knots[last] + slope * (lower + knots[last]) - top)
    total = _sums(at_knots, slope, lower, knots, top, last, shares) + shares[last]
    for j in range(knots.size):
        shares[j] /= total
    return top + math.log(total)


@jit
def _rise(at_knots: Reals, slope: float, knots: Ints, j: int) -> float:
    """Return the rise of the log weight per count from knot j to the next."""
    n = knots[j + 1] - knots[j] if j + 1 < knots.size else 0
    return (at_knots[j + 1] - at_knots[j]) / n + slope if n > 0 else 0.0


@jit
def _within(s: float, n: int, share: float) -> int:
    """Return the quantile of the weights ``exp(s t)``, t from 0 to n - 1, at a share of their sum."""
    if n == 1:
        return 0
    if s == 0.0:
        t = int(share * n)
    elif s < 0.0:
        t = int(math.log1p(share * math.expm1(n * s)) / s)
    else:
        t = n - 1 - int(math.log1p((1.0 - share) * math.expm1(-n * s)) / -s)
    return min(max(t, 0), n - 1)


@jit
def coarse_step(
    log_row: Reals,
    lower: int,
    knots: Ints,
    x: int,
    before: tuple[Reals, Reals, float],
    after: tuple[Reals, Reals, float],
    log_before: float,
    shares: Reals,
    uniform: float,
    anew: bool,
) -> tuple[int, float, float]:
    """Return the count x' for the new parameters, the log of the ratio above, and the log of G'."""
    # x in the distribution function of g
    (log_h, at_knots, slope), column, j = before, x - lower, 0
    while j + 1 < knots.size and knots[j + 1] <= column:
        j += 1
    rise, log_first = _rise(at_knots, slope, knots, j), at_knots[j] + slope * (lower + knots[j]) - log_before
    log_share = log_first + rise * (column - knots[j])
    log_ratio = log_share - (log_row[column] + log_prior(x, log_h) + slope * x)
    if not anew:
        below = _sums(at_knots, slope, lower, knots, log_before, j, shares)
        below += _sum_between(math.exp(log_first), math.exp(log_share), rise, column - knots[j])
        uniform = below + uniform * math.exp(log_share)
    # x' is the same quantile of g'
    log_h, at_knots, slope = after
    log_after, j = coarse_total(at_knots, slope, lower, knots, shares), 0
    while j + 1 < knots.size and uniform >= shares[j]:
        uniform -= shares[j]
        j += 1
    rise, column = _rise(at_knots, slope, knots, j), knots[j]
    if j + 1 < knots.size:
        column += _within(rise, knots[j + 1] - knots[j], uniform / shares[j])
    count = lower + column
    log_ratio -= at_knots[j] + slope * (lower + knots[j]) - log_after + rise * (column - knots[j])
    return count, log_ratio + log_row[column] + log_prior(count, log_h) + slope * count, log_after
