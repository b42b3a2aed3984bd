r"""Characteristic functions of cells at fixed frequencies, as polynomials in their natural parameters, with bounds.

With cell i a sum over k of ``exp(logw[k] + eta k)``, about the centre of a piece
(:mod:`ppdinf.fiber.sums_given_totals.piecewise_polynomials`),

    T_j(x) = E exp((x + i u_j)(k - m)),    u_j = 2 pi j / N,   j = 0, ..., n - 1,

is an entire function of the distance x from the centre, whatever the cell: a polynomial of degree `TERMS` - 1 is right
to 1e-12, and Taylor's formula bounds what it leaves out.

Two bounds go with every piece: of ``|phi(u_j)|`` at all frequencies beyond the grid, and of
``f = K(eta + s) - K(eta) - s K'(eta)`` for s of both signs. Both are found at points, and hold between them
(:func:`_between`).
Let a be the slope of K between two points at distance delta, g = T exp(-a x) and Z = exp(K - a x). Then

- Z is convex and equal at both, so at least exp(-drop) of that between them, where its tangents there meet;
- ``|g''| <= E_0 (k - a)^2 exp((k - a) x)``, which is convex: as large as at one of the points, at most; and a function
  exceeds its chord by at most delta^2 / 8 times that. So
  ``|phi| <= (largest at the two + M delta^2 / 8) exp(drop)``, M the larger second moment of k about a;
- as ``K'' <= E (k - a)^2 <= V = M exp(drop)``, K lies at most ``V delta^2 / 8`` below its chord, and K', whose slope is
  between 0 and V and c on average, at most ``delta c (1 - c / V)`` off its own. ``K(eta + s)`` is below its chord.
"""

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.fiber.sums_given_totals.cell_windows import Weights, log_rows, normalise, row_of, vectorised
from ppdinf.fiber.sums_given_totals.fourier import project, turn

__all__ = [
    "BASE", "DECAY", "DROP", "EXCESS", "HALF", "LEFT_OUT", "LOG_Z", "MIDDLE", "RATE", "TERMS", "WAVES", "fill",
    "law_at", "parts_of", "waves", "width",
]  # fmt: skip

WIDEST = 512  # values of a cell that matter, whose pieces are made in a fraction of a millisecond
TERMS = 12  # of a polynomial
SERIES = 24  # terms of Taylor's formula from which it is made
DROP = 30.0  # frequencies are left out where the characteristic function is below exp(-DROP)
LITTLE = 3e-13  # of a characteristic function, left out
HALVINGS = 4  # of a piece, at most
CUT = 60.0  # log weights so far below the top are left out
RATE = 55.0  # of Chernoff's inequality, times 1 / N
PARTS = 4  # of a piece, between whose ends its bounds are found
MIDDLE, BASE, HALF, LOG_Z, LEFT_OUT, DECAY, EXCESS, WAVES = 0, 1, 2, 3, 4, 5, 6, 8  # entries of a piece on a grid


def _economised() -> tuple[NDArray, NDArray]:
    """Powers of y as polynomials of degree TERMS - 1 (SERIES, TERMS), and by how much they differ within [-1, 1]."""
    short, off = np.zeros((SERIES, TERMS)), np.zeros(SERIES)
    for r in range(SERIES):
        c = chebyshev.poly2cheb(np.eye(SERIES)[r][: r + 1])
        kept = chebyshev.cheb2poly(c[:TERMS])
        short[r, : kept.size], off[r] = kept, np.abs(c[TERMS:]).sum()
    return short, off


SHORT, OFF = _economised()


@jit
def width(frequencies: int) -> int:
    """Numbers of a piece on a grid.

    The integer m, where the piece starts, half its width, K in its middle, what its polynomials leave out, a bound of
    ``-log |phi|`` at frequencies beyond the grid, bounds of ``K(eta + s) - K(eta) - s K'(eta)`` for s of both signs,
    and coefficients in ``x / half-width``: (TERMS, 2, frequencies).
    """
    return WAVES + 2 * TERMS * frequencies


@vectorised
def waves(u: float, n: int) -> tuple[NDArray, NDArray]:
    """Cosines and sines of ``u k``."""
    cosine, sine, size = np.ones(n), np.zeros(n), 1
    while size < n:
        turn(cosine, sine, size, np.cos(u * size), np.sin(u * size))
        size *= 2
    return cosine, sine


@vectorised
def law_at(w: Weights, row: int, eta: float) -> tuple[NDArray, int, float, float]:
    """Probabilities of a row under a natural parameter, from which offset; log normaliser and mean."""
    rows = log_rows(w, np.array([row]), eta, CUT)
    p = row_of(rows, 0)
    log_z, mean = normalise(p), 1.0 * rows.first[0]
    for k in range(p.size):
        mean += k * p[k]
    return p, rows.first[0], log_z, mean


@vectorised
def _series(p: NDArray, first: int, middle: int, half: float) -> tuple[NDArray, float]:
    """Terms of ``exp(x (k - middle))`` at the half-width, weighted (SERIES, k), and what polynomials leave out."""
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
    """Into how many equal parts a piece has to be cut; 0 where that is too many."""
    p, first, _, mean = law_at(w, row, center)
    middle, parts = int(np.floor(mean + 0.5)), 1 if p.size <= WIDEST else 2**HALVINGS + 1
    while parts <= 2**HALVINGS and _series(p, first, middle, half / parts)[1] > LITTLE:
        parts *= 2
    return parts if parts <= 2**HALVINGS else 0


@vectorised
def fill(w: Weights, row: int, center: float, half: float, modulus: int, frequencies: int, out: NDArray) -> None:
    """Fill in a piece on a grid."""
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
    """Bound characteristic functions beyond the grid, and log moment generating functions, all along a piece."""
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
