r"""Log weights of counts that are ratios of gamma functions, at real numbers, with derivatives and bounds.

The log weight of a count x of a cell is

    eta x + log (alpha)_x - log Gamma(x + a) + log (beta)_-x - log Gamma(c - x) + noise(x) + zero [x = 0],

where ``(c)_x = Gamma(c + x) / Gamma(c)``, alpha, beta and c are optional, and the noise is a quadratic polynomial on
each of a few segments. The ratios ``(c)_x`` are computed without cancellation, however large c is. Examples:
Poisson (a = 1), negative binomial (alpha, a = 1), binomial with n trials (a = 1, c = n + 1), beta-binomial (also alpha
and beta), each also with a binomial number v of the x persons observed (a = 1 - v), or with more or fewer zeros.

Bounds off the real line are derived in docs/mathematics/gauss_nodes.md. Asymptotic series: M. Abramowitz,
I. A. Stegun, "Handbook of Mathematical Functions" (1964), 6.1.40, 6.3.18 and 6.4.12.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import vectorised

ETA, ALPHA, BETA, LOW, HIGH, ZERO = 0, 1, 2, 3, 4, 5  # columns of parameters; LOW and HIGH are a and c
PARAMETERS = 6
BEGIN, END, ORIGIN, CONSTANT, LINEAR, SQUARE = 0, 1, 2, 3, 4, 5  # columns of a segment of noise
SEGMENT = 6
LARGE = 10  # smallest argument of the asymptotic series
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class GammaRatios(NamedTuple):
    """Cells with parameters (d, 6); ``has`` contains whether they have alpha, beta and c."""

    parameter: NDArray
    has: NDArray
    span: NDArray  # first and end segment of each cell, (d, 2); cells can share segments
    segment: NDArray


@vectorised
def stirling(z: float) -> float:
    """Return ``log Gamma(z) - (z - 1/2) log z + z - log(2 pi) / 2`` for z >= LARGE."""
    r = 1.0 / z
    t = r * r
    s = 1.0 / 1188 - t * (691.0 / 360360 - t / 156)
    return r * (1.0 / 12 - t * (1.0 / 360 - t * (1.0 / 1260 - t * (1.0 / 1680 - t * s))))


@vectorised
def log_to_digamma(z: float) -> float:
    """Return ``digamma(z) - log z`` for z >= LARGE."""
    r = 1.0 / z
    t = r * r
    return -0.5 * r - t * (
        1.0 / 12 - t * (1.0 / 120 - t * (1.0 / 252 - t * (1.0 / 240 - t * (1.0 / 132 - t * 0.0210928))))
    )


@vectorised
def log_of_ratio(s: float) -> float:
    """Return ``log((1 + s) / (1 - s))`` for |s| < 0.18, by operations that can be vectorized."""
    t = s * s
    w = 1.0 / 13 + t * (1.0 / 15 + t * (1.0 / 17 + t * (1.0 / 19 + t / 21)))
    w = 1.0 / 5 + t * (1.0 / 7 + t * (1.0 / 9 + t * (1.0 / 11 + t * w)))
    return 2.0 * s * (1.0 + t * (1.0 / 3 + t * w))


@vectorised
def _log_gamma(z: float) -> tuple[float, float]:
    """Return the log gamma function and its derivative."""
    product, terms = 1.0, 0.0
    while z < LARGE:
        product *= z
        terms += 1.0 / z
        z += 1.0
    log_z = math.log(z)
    value = (z - 0.5) * log_z - z + HALF_LOG_2PI + stirling(z)
    return value - (math.log(product) if product != 1.0 else 0.0), log_z + log_to_digamma(z) - terms


@vectorised
def domain(cells: GammaRatios, i: int) -> tuple[int, int]:
    """Return the first and last possible count of a cell; the first is larger if no count is possible."""
    p, segment = cells.parameter[i], cells.segment[cells.span[i, 0] : cells.span[i, 1]]
    if segment.shape[0] == 0:
        return 0, -1
    low, high = max(segment[0, BEGIN], 1.0 - p[LOW]), segment[-1, END]
    if cells.has[2]:
        high = min(high, p[HIGH] - 1.0)
    if low > high or (cells.has[0] and not low + p[ALPHA] > 0.0) or (cells.has[1] and not p[BETA] - high > 0.0):
        return 0, -1
    return int(low), int(high)


@vectorised
def bend(has: bool, positive: float, negative: float) -> tuple[float, float]:
    """Return bounds for ``Gamma(positive + z) / Gamma(negative + z)``, Re z >= 0; see `bends`."""
    r = 1.0 / negative
    if not has:
        return r + r * r, 0.0
    if positive >= negative:
        return r * r + r - 1.0 / max(negative, np.ceil(positive) - 1.0), 0.0
    q = 1.0 / positive
    return 0.0, q + q * q - r - 0.5 * r * r


@vectorised
def _add_ratio_of_large(
    z: NDArray, has: bool, positive: float, negative: float, least: float, value: NDArray, psi: NDArray
) -> None:
    """Add the terms of `_add_ratio` if all arguments are at least ``least >= LARGE``."""
    if not has:
        for j in range(z.size):
            b = z[j] + negative
            value[j] -= (b - 0.5) * math.log(b) - b + HALF_LOG_2PI + stirling(b)
        return
    gap, c = positive - negative, max(positive, 1.0 * LARGE)
    of_c, slope_of_c = _log_gamma(c)
    of_positive, slope = _log_gamma(positive)
    log_c, move = math.log(c), positive - c
    rest = of_c - of_positive if positive < LARGE else 0.0  # rounding differs between calls
    slope_of_c = (slope_of_c - slope if positive < LARGE else 0.0) - log_to_digamma(c)
    near = abs(gap) < 0.2 * least  # then log(a / b) is computed without cancellation
    for j in range(z.size):
        a, b, x = z[j] + positive, z[j] + negative, z[j] + move
        more = math.log1p(x / c)
        log_a = log_c + more
        psi[j] += more + log_to_digamma(a) + slope_of_c
        value[j] += stirling(a) - stirling(b)
        if near:
            value[j] += gap * log_a - gap - of_positive + (b - 0.5) * log_of_ratio(gap / (a + b))
        else:
            value[j] += (c - 0.5) * more + x * (log_a - 1.0) - stirling(c) + rest
            value[j] -= (b - 0.5) * math.log(b) - b + HALF_LOG_2PI


@vectorised
def _add_ratio(z: NDArray, has: bool, positive: float, negative: float, value: NDArray, psi: NDArray) -> None:
    """Add ``log (positive)_z - log Gamma(z + negative)``, and write ``digamma(z + positive) - digamma(positive)``."""
    least = z[0]
    for j in range(z.size):
        least = min(least, z[j])
    least += min(positive, negative) if has else negative
    if least < LARGE:  # by recurrence from larger arguments
        for j in range(z.size):
            above, below, terms = 1.0, 1.0, 0.0
            for k in range(LARGE):
                below *= z[j] + negative + k
            if has:
                for k in range(LARGE):
                    above *= (z[j] + positive + k) / (positive + k)
                    terms += 1.0 / (z[j] + positive + k) - 1.0 / (positive + k)
            value[j] += math.log(below / above)
            psi[j] = -terms
        _add_ratio_of_large(z, has, positive + LARGE, negative + LARGE, least + LARGE, value, psi)
    else:
        for j in range(z.size):
            psi[j] = 0.0
        _add_ratio_of_large(z, has, positive, negative, least, value, psi)


@vectorised
def log_weights(
    cells: GammaRatios, i: int, segment: NDArray, tilt: float, x: NDArray, out: NDArray, up: NDArray, down: NDArray
) -> None:
    """Add log weights plus ``tilt x`` at ascending real numbers x, and compute derivatives by alpha and beta."""
    p = cells.parameter[i]
    for j in range(x.size):
        off = x[j] - segment[ORIGIN]
        out[j] += (p[ETA] + tilt) * x[j] + segment[CONSTANT] + off * (segment[LINEAR] + off * segment[SQUARE])
    if x[0] == 0.0:  # numbers ascend
        out[0] += p[ZERO]
    _add_ratio(x, cells.has[0], p[ALPHA], p[LOW], out, up)
    if cells.has[2]:
        _add_ratio(-x, cells.has[1], p[BETA], p[HIGH], out, down)
