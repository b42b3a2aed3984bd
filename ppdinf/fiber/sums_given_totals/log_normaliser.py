r"""The log normaliser of an exponential family about a centre, as a polynomial with an error bound.

A cell whose integers have log weights ``logw[k] + eta k`` has one smooth function of one number,

    K(eta) = log sum_k exp(logw[k] + eta k).

Its derivatives are the cumulants of the cell, and ``K(eta + iu) - K(eta)`` is the log characteristic function. Taylor's
polynomial of K about a centre, in complex numbers, is therefore sufficient for sums of cells
(:mod:`ppdinf.fiber.sums_given_totals.cumulants`), and the row of weights is not used again.

Coefficients are the cumulants at the centre. They follow from moments of order up to 31 by the recursion between
moments and cumulants, which loses no digits within the disc of use. The coefficients above the order of the polynomial
bound the remainder. Let ``A`` be such that these coefficients sum to at most ``A x^ORDER`` at distance ``x`` up to a
radius. The remainder at ``eta + iu``, ``|eta - centre| <= h``, is then at most ``A 2^(ORDER/2 - 1) (h^ORDER +
u^ORDER)``, which is the stored form. A piece is too wide if this exceeds `TOLERANCE` at ``u = 0``, or if polynomial and
row differ at its ends.

References
----------
P. J. Smith, "A recursive formulation of the old problem of obtaining moments from cumulants and vice versa", Amer.
Statist. 49 (1995), 217-218.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import Weights, log_rows, normalise, row_of, vectorised

ORDER = 16  # number of coefficients of a polynomial; even
BEYOND, REACH, BEND, CENTER = (
    ORDER,
    ORDER + 1,
    ORDER + 2,
    ORDER + 3,
)  # positions of the entries of a piece after its coefficients
WIDTH = ORDER + 4  # number of entries of a piece
MOMENTS = 32  # number of computed coefficients; the later half bounds the remainder
TOLERANCE = 1e-13  # accepted error of K within a piece
CUT = 60.0  # log weights this far below the maximum are omitted


@vectorised
def law_of(w: Weights, row: int, eta: float) -> tuple[NDArray, float, float, float]:
    """Return the probabilities of a row under a natural parameter, log normaliser, mean and variance."""
    rows = log_rows(w, np.array([row]), eta, CUT)
    p = row_of(rows, 0)
    log_z, mean, var = normalise(p), 0.0, 0.0
    for k in range(p.size):
        mean += k * p[k]
    for k in range(p.size):
        var += (k - mean) ** 2 * p[k]
    return p, log_z, rows.first[0] + mean, var


@vectorised
def _cumulants(p: NDArray, mean: float, scale: float) -> NDArray:
    """Return the coefficients of ``log E exp(z (k - mean) / scale)``; the mean is relative to the first entry."""
    moment, out, term, step = np.zeros(MOMENTS), np.zeros(MOMENTS), p.copy(), np.empty(p.size)
    for k in range(p.size):
        step[k] = (k - mean) / scale
    for r in range(1, MOMENTS):
        part, each = 0.0, 1.0 / r
        for k in range(p.size):
            term[k] *= step[k] * each
            part += term[k]
        moment[r] = part
    moment[1] = 0.0
    for r in range(2, MOMENTS):
        less = 0.0
        for j in range(1, r):
            less += j * out[j] * moment[r - j]
        out[r] = moment[r] - less / r
    return out


@vectorised
def _nearest(a: NDArray) -> float:
    """Return the reciprocal distance of the nearest singularity, estimated from the last coefficients."""
    nearest = 1e-3
    for r in range(MOMENTS - 12, MOMENTS):
        nearest = max(nearest, (r * abs(a[r])) ** (1.0 / r))
    return nearest


@vectorised
def _left_out(a: NDArray, nearest: float, radius: float) -> float:
    """Return A such that coefficients from ORDER on sum to at most ``A x^ORDER`` for x up to a radius, or inf."""
    ratio = radius * nearest
    if not ratio < 0.9:
        return np.inf
    part, power = 0.0, 1.0
    for r in range(ORDER, MOMENTS):
        part += abs(a[r]) * power
        power *= radius
    return part + power * nearest**MOMENTS / MOMENTS / (1.0 - ratio)


@vectorised
def _decay(p: NDArray, var: float, reach: float, upper: float) -> float:
    """Return b, at most `upper`, such that ``log |phi(u)| <= -b reach^2 / 2`` for all u from reach to pi."""
    if reach >= np.pi:
        return upper
    slopes, bends, n = p[0] + p[-1], p[0] + p[-1], p.size
    bends += abs(p[min(1, n - 1)] - 2.0 * p[0]) + abs(p[max(n - 2, 0)] - 2.0 * p[n - 1])
    for k in range(n - 1):
        slopes += abs(p[k + 1] - p[k])
    for k in range(n - 2):
        bends += abs(p[k + 2] - 2.0 * p[k + 1] + p[k])
    least = np.exp(-0.5 * upper * reach**2)
    chord = min(slopes / least, np.sqrt(bends / least))
    far = 2.0 * np.arcsin(0.5 * chord) if chord < 2.0 else np.pi  # summation by parts is sharp from here on
    if far <= reach:
        return upper
    steps = int((far - reach) / min(0.3, 0.15 / np.sqrt(var))) + 1
    if steps > 60:
        return 0.0
    step, square = (far - reach) / steps, least**2
    for j in range(steps + 1):
        turn, phase, phi = np.exp(1j * (reach + j * step)), 1.0 + 0.0j, 0.0 + 0.0j
        for k in range(n):
            phi += p[k] * phase
            phase *= turn
        square = max(square, phi.real**2 + phi.imag**2)
    square += 0.25 * var * step**2
    return min(upper, -np.log(square) / reach**2) if square < 1.0 else 0.0


@vectorised
def _shifted(a: NDArray, by: float) -> NDArray:
    out = a[:ORDER].copy()
    for r in range(ORDER - 1):
        for k in range(ORDER - 2, r - 1, -1):
            out[k] += by * out[k + 1]
    return out


@vectorised
def _bent(a: NDArray, beyond: float, half: float, reach: float) -> float:
    """Return an upper bound on ``a[2]`` minus ``-log |phi(u)| / u^2`` for u up to `reach`."""
    rest = 0.0
    for j in range(1, 9):
        square, part = (0.125 * j * reach) ** 2, 0.0
        for r in range(ORDER - 2, 2, -2):
            part = a[r] - square * part
        rest = max(rest, square * part)
    return 1.02 * rest + 0.01 * a[2] + beyond * (half**ORDER / reach**2 + reach ** (ORDER - 2))


@vectorised
def fill(w: Weights, row: int, center: float, half: float, out: NDArray) -> bool:
    """Compute the piece about a centre; return whether it is accurate within ``half`` of the centre."""
    p, log_z, mean, var = law_of(w, row, center)
    if not var > 0.0 or not np.isfinite(log_z):
        return False
    first = 0.0
    for k in range(p.size):
        first += k * p[k]
    scale = max(np.sqrt(var), 1.0)
    a = _cumulants(p, first, scale)
    nearest = _nearest(a)
    radius, beyond, h = min(4.0, 0.9 / nearest), np.inf, half * scale
    while radius > 1.5 * h:
        beyond = _left_out(a, nearest, radius)
        if beyond * radius**ORDER < 1e-4:
            break
        radius *= 0.9
    beyond *= 2.0 ** (ORDER // 2 - 1)
    if not (radius > 1.5 * h and beyond * h**ORDER < TOLERANCE):
        return False
    reach, bend = np.sqrt(radius**2 - h**2), np.inf
    for side in (-1.0, 0.0, 1.0):
        moved = _shifted(a, side * h)
        law, exact, _, spread = law_of(w, row, center + side * half)
        # away from the centre, polynomial and sum must agree
        if abs(log_z + side * half * mean + moved[0] - exact) > TOLERANCE * (10.0 + abs(log_z) + abs(mean)):
            return False
        rest = _bent(moved, beyond, h, reach)
        while rest > 0.4 * moved[2]:
            reach *= 0.85
            if reach < 0.2:
                return False
            rest = _bent(moved, beyond, h, reach)
        bend = min(bend, _decay(law, spread, min(reach / scale, np.pi), 2.0 * (moved[2] - rest) * scale**2))
    out[0], out[1] = log_z, mean
    for r in range(2, ORDER):
        out[r] = a[r] * scale**r
    out[BEYOND], out[REACH], out[BEND], out[CENTER] = beyond * scale**ORDER, min(reach / scale, np.pi), bend, center
    return True
