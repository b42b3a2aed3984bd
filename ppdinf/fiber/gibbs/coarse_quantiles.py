"""Counts of one cell with a wide window that follow the parameters of their prior; no sum over all counts.

The weights ``w(x) = exp(noise(x) + log_h(x) + slope x)`` are replaced by weights g(x) that are equal at a few dozen
counts, the knots, and geometric between two knots. Sums and quantiles of g have closed forms. A uniform number within
the step of x in the distribution function of g gives x' as its quantile under new parameters, and the ratio

    w'(x') / (g'(x') / G')  over  w(x) / (g(x) / G),    with G the sum of g,

corrects the approximation exactly (Metropolis and Hastings; `ppdinf.fiber.gibbs.joint_move`). With g = w that is the
ratio of the sums of the weights.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.fiber.gibbs.cell_quantiles import log_prior

NEAR, UNIFORM = 24, 32
"""Knots at geometric distances from the ends and from the largest weight of a window; at equal distances."""

NEGLIGIBLE = -46.0
"""Log weight, relative to the largest at a knot or to the sum, below which weights at knots are replaced by 0."""

SMALL = 1e-4
"""Rise of the log weight between two knots below which a geometric sum is expanded (relative error 1e-13)."""

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]


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
    return math.exp(log_weight) if log_weight > NEGLIGIBLE else 0.0


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
