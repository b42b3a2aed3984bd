r"""Characteristic functions of cells at fixed frequencies, as polynomials in their natural parameters, with bounds.

About the centre of a piece (:mod:`ppdinf.fiber.sums_given_totals.piecewise_polynomials`), the characteristic function
of a cell at a frequency 2 pi j / N is an entire function of the distance from the centre. A polynomial of degree
`TERMS` - 1 is accurate to 1e-12, and Taylor's formula bounds its remainder.

Every piece has two bounds: on ``|phi(u)|`` at all frequencies above the grid, and on
``K(eta + s) - K(eta) - s K'(eta)`` for s of both signs. Both are computed at points and hold between them
(:func:`_between`; proof in docs/mathematics/marginal_likelihood.md).
"""

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.fiber.sums_given_totals.cell_windows import Weights, log_rows, normalise, row_of, vectorised
from ppdinf.fiber.sums_given_totals.fourier import project, turn

WIDEST = 512  # largest number of relevant values of a cell, so that its pieces take less than a millisecond
TERMS = 12  # number of terms of a polynomial
SERIES = 24  # number of terms of the underlying Taylor series
DROP = 30.0  # frequencies are omitted if the characteristic function is below exp(-DROP)
LITTLE = 3e-13  # accepted error of a characteristic function
HALVINGS = 4  # largest number of parts of a piece
CUT = 60.0  # log weights this far below the maximum are omitted
RATE = 55.0  # rate of Chernoff's inequality, times 1 / N
PARTS = 4  # number of intervals of a piece on which bounds are computed
MIDDLE, BASE, HALF, LOG_Z, LEFT_OUT, DECAY, EXCESS = range(7)  # positions of the entries of a piece on a grid
WAVES = EXCESS + 2


def _economised() -> tuple[NDArray, NDArray]:
    """Return powers of y as polynomials of degree TERMS - 1 (SERIES, TERMS), and their errors on [-1, 1]."""
    short, off = np.zeros((SERIES, TERMS)), np.zeros(SERIES)
    for r in range(SERIES):
        c = chebyshev.poly2cheb(np.eye(SERIES)[r][: r + 1])
        kept = chebyshev.cheb2poly(c[:TERMS])
        short[r, : kept.size], off[r] = kept, np.abs(c[TERMS:]).sum()
    return short, off


SHORT, OFF = _economised()


@jit
def width(frequencies: int) -> int:
    """Return the number of entries of a piece on a grid."""
    return WAVES + 2 * TERMS * frequencies


@vectorised
def waves(u: float, n: int) -> tuple[NDArray, NDArray]:
    """Return cosines and sines of ``u k``."""
    cosine, sine, size = np.ones(n), np.zeros(n), 1
    while size < n:
        turn(cosine, sine, size, np.cos(u * size), np.sin(u * size))
        size *= 2
    return cosine, sine


@vectorised
def law_at(w: Weights, row: int, eta: float) -> tuple[NDArray, int, float, float]:
    """Return the probabilities of a row under a natural parameter, their first offset, log normaliser and mean."""
    rows = log_rows(w, np.array([row]), eta, CUT)
    p = row_of(rows, 0)
    log_z, mean = normalise(p), 1.0 * rows.first[0]
    for k in range(p.size):
        mean += k * p[k]
    return p, rows.first[0], log_z, mean


@vectorised
def _series(p: NDArray, first: int, middle: int, half: float) -> tuple[NDArray, float]:
    """Return weighted terms of ``exp(x (k - middle))`` at the half-width (SERIES, k), and the polynomial error."""
    n = p.size
    step, power, series, left_out = np.empty(n), p.copy(), np.empty((SERIES, n)), 1e-15
    for k in range(n):
        step[k] = half * (first + k - middle)
    for r in range(SERIES):
        size = 0.0
        for k in range(n):
            series[r, k] = power[k]
            size += abs(power[k])
            power[k] *= step[k] / (r + 1.0)
        left_out += OFF[r] * size
    for k in range(n):
        left_out += abs(power[k]) * np.exp(abs(step[k]))
    return series, left_out


@vectorised
def parts_of(w: Weights, row: int, center: float, half: float) -> int:
    """Return the number of equal parts of a piece; 0 if it would be too large."""
    p, first, _, mean = law_at(w, row, center)
    middle, parts = int(np.floor(mean + 0.5)), 1 if p.size <= WIDEST else 2**HALVINGS + 1
    while parts <= 2**HALVINGS and _series(p, first, middle, half / parts)[1] > LITTLE:
        parts *= 2
    return parts if parts <= 2**HALVINGS else 0


@vectorised
def fill(w: Weights, row: int, center: float, half: float, modulus: int, frequencies: int, out: NDArray) -> None:
    """Compute the entries of a piece on a grid."""
    p, first, log_z, mean = law_at(w, row, center)
    middle, n = int(np.floor(mean + 0.5)), p.size
    series, left_out = _series(p, first, middle, half)
    out[MIDDLE], out[BASE], out[HALF] = middle, center - half, half
    out[LOG_Z], out[LEFT_OUT] = log_z, left_out
    out[WAVES:] = 0.0
    for j in range(min(frequencies, modulus // 2 + 1)):
        u = 2.0 * np.pi * j / modulus
        cosine, sine = waves(u, n)
        there = complex(np.cos(u * (first - middle)), np.sin(u * (first - middle)))
        for r in range(SERIES):
            value = project(series[r], cosine, sine) * there
            for q in range(TERMS):
                at = WAVES + 2 * frequencies * q + j
                out[at] += SHORT[r, q] * value.real
                out[at + frequencies] += SHORT[r, q] * value.imag
    _between(w, row, center, half, modulus, frequencies, out)


@vectorised
def _between(w: Weights, row: int, center: float, half: float, modulus: int, frequencies: int, out: NDArray) -> None:
    """Bound characteristic functions above the grid and log moment generating functions on the whole piece."""
    delta, largest, excess = 2.0 * half / PARTS, 0.0, np.zeros(2)
    size, log_z, mean, var, f = np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros((2, 2))
    for n in range(PARTS + 1):
        eta, at = center + (2.0 * n / PARTS - 1.0) * half, n % 2
        p, first, log_z[at], mean[at] = law_at(w, row, eta)
        var[at] = size[at] = 0.0
        for k in range(p.size):
            var[at] += (first + k - mean[at]) ** 2 * p[k]
        for j in range(frequencies, modulus // 2 + 1):
            cosine, sine = waves(2.0 * np.pi * j / modulus, p.size)
            size[at] = max(size[at], abs(project(p, cosine, sine)))
        for s in range(2):
            rate = (2.0 * s - 1.0) * RATE / modulus
            f[at, s] = law_at(w, row, eta + rate)[2] - log_z[at] - rate * mean[at]
        if n == 0:
            continue
        slope = (log_z[at] - log_z[1 - at]) / delta
        below, above = max(slope - mean[1 - at], 0.0), max(mean[at] - slope, 0.0)
        drop = delta * below * above / (below + above) if below + above > 0.0 else 0.0
        second = max(var[0] + (mean[0] - slope) ** 2, var[1] + (mean[1] - slope) ** 2)
        steepest, steep = second * np.exp(drop), (mean[at] - mean[1 - at]) / delta
        largest = max(largest, (max(size[0], size[1]) + second * delta**2 / 8.0) * np.exp(drop))
        for s in range(2):
            off = steepest * delta**2 / 8.0 + 1e-12
            if steep > 0.0:
                off += RATE / modulus * delta * steep * max(1.0 - steep / steepest, 0.0)
            excess[s] = max(excess[s], max(f[0, s], f[1, s]) + off)
    for s in range(2):
        out[EXCESS + s] = excess[s]
    out[DECAY] = -np.log(largest) if modulus // 2 >= frequencies else 700.0
