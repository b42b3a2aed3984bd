"""Log normalisers of exponential families as piecewise polynomials with error bounds."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import Weights, log_rows, normalise, row_of, upper_envelope, vectorised

ORDER = 16  # number of coefficients of a polynomial; even
BEYOND, REACH, BEND, CENTER = range(ORDER, ORDER + 4)  # positions of the entries of a piece after its coefficients
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


HALVINGS = 6  # largest number of pieces of a unit of eta
FAR = 64.0  # largest distance from 0 in eta
DEGENERATE = 1e-6  # smallest variance of a cell within the pieces
CUT_OFF = 12.0  # tolerance for probability at the ends of a row


class Pieces(NamedTuple):
    """Pieces of rows of weights: row r has the units ``first[r, 0] + 0, 1, ...``, ``first[r, 1]`` of them."""

    first: NDArray
    unit: NDArray
    table: NDArray


NO_PIECES = Pieces(np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64), np.zeros((0, WIDTH)))


@vectorised
def placed(pieces: Pieces, w: Weights, cells: NDArray, tilt: float, number: NDArray, by: NDArray) -> int:
    """Find the piece of every cell (-1 for none) and the distance from its centre; return the number without one."""
    first, unit, table, row, slope = pieces.first, pieces.unit, pieces.table, w.row, w.slope
    none = 0
    for i in range(cells.size):
        eta, r = slope[cells[i]] + tilt, row[cells[i]]
        scaled = eta * first[r, 3]
        whole = math.floor(scaled) if abs(scaled) < 1e15 else 2**62
        at, count = whole - first[r, 0], 0
        if 0 <= at < first[r, 1]:
            at += first[r, 2]
            count = unit[at, 1]
        if count > 0:
            number[i] = unit[at, 0] + int((scaled - whole) * count)
            by[i] = eta - table[number[i], CENTER]
        else:
            number[i] = -1
            none += 1
    return none


@vectorised
def _unit(w: Weights, row: int, start: float, width: float, count: int, table: NDArray) -> int:
    """Divide a unit into at least `count` accurate equal pieces in a table; return their number, or 0."""
    while count <= 2**HALVINGS:
        good = True
        for k in range(count):
            if not fill(w, row, start + (k + 0.5) * width / count, 0.5 * width / count, table[k]):
                good = False
                break
        if good:
            return count
        count *= 2
    return 0


@vectorised
def _grown(old: NDArray, size: int) -> NDArray:
    new = np.empty((max(size, 2 * old.shape[0]), old.shape[1]), old.dtype)
    for i in range(old.shape[0]):
        for j in range(old.shape[1]):
            new[i, j] = old[i, j]
    return new


@vectorised
def _is_contained(w: Weights, row: int, eta: float) -> tuple[bool, bool]:
    """Return whether the row has negligible weight at its lower and at its upper end, where it may be truncated."""
    entries, top = w.logw[row], -np.inf
    last = entries.size - 1
    for k in range(last + 1):
        top = max(top, entries[k] + eta * k)
    return not entries[0] > top - CUT_OFF, not entries[last] + eta * last > top - CUT_OFF


@vectorised
def _is_usable(w: Weights, row: int, eta: float, smallest: float) -> bool:
    below, above = _is_contained(w, row, eta)
    return (below or smallest > DEGENERATE) and above and law_of(w, row, eta)[3] > smallest


@vectorised
def middle_of(w: Weights, row: int, smallest: float = DEGENERATE) -> float:
    """Return a natural parameter under which the row contains the cell; nan if none exists or the cell is constant."""
    low, high, first, last = -FAR, FAR, 0, w.logw.shape[1] - 1
    while first < last and w.logw[row, first] == -np.inf:
        first += 1
    while first < last and w.logw[row, last] == -np.inf:
        last -= 1
    for _ in range(50):
        middle = 0.5 * (low + high)
        below, above = _is_contained(w, row, middle)
        if below and above:
            _, _, mean, var = law_of(w, row, middle)
            if var > smallest:
                return middle
            below = mean > 0.5 * (first + last)  # nearly all weight at an end of the possible counts
        elif below == above:
            return np.nan
        low, high = (low, middle) if below else (middle, high)
    return np.nan


@vectorised
def end_of(w: Weights, row: int, middle: float, side: float, smallest: float = DEGENERATE) -> float:
    """Return the natural parameter up to which a row contains a varying cell, to a relative accuracy of 1/8."""
    # with a larger smallest variance, the cell may have weight at the lower end, which is not truncated at count 0
    near, far = 0.0, 2.0**-10
    while far < FAR and _is_usable(w, row, middle + side * far, smallest):
        near, far = far, 2.0 * far
    for _ in range(3):
        between = 0.5 * (near + far)
        if _is_usable(w, row, middle + side * between, smallest):
            near = between
        else:
            far = between
    return middle + side * far


@vectorised
def pieces_of(logw: NDArray, wanted: NDArray, most: int) -> Pieces:
    """Divide the log normalisers of rows of log weights into pieces for all natural parameters with variation."""
    rows = logw.shape[0]
    w = Weights(logw, upper_envelope(logw), np.arange(rows), np.zeros(rows))
    first, unit, table = np.zeros((rows, 4), np.int64), np.zeros((16, 2), np.int64), np.zeros((64, WIDTH))
    units = pieces = 0
    room = 2**HALVINGS
    for r in range(rows):
        first[r, 2] = units
        middle = middle_of(w, r) if wanted[r] and pieces < most else np.nan
        if np.isnan(middle):
            continue
        left, right = end_of(w, r, middle, -1.0), end_of(w, r, middle, 1.0)
        halvings = 0
        while right - left < 8.0 / 2**halvings:
            halvings += 1
        width, count = 2.0**-halvings, 1
        low, high = int(np.floor(left / width)), int(np.floor(right / width))
        first[r, 0], first[r, 1], first[r, 3] = low, high - low + 1, 2**halvings
        for whole in range(low, high + 1):
            if units == unit.shape[0]:
                unit = _grown(unit, units + 1)
            if pieces + room > table.shape[0]:
                table = _grown(table, pieces + room)
            count = _unit(w, r, whole * width, width, max(count // 4, 1), table[pieces:])
            unit[units, 0], unit[units, 1] = pieces, count
            units, pieces = units + 1, pieces + count
    return Pieces(first, unit[:units].copy(), table[:pieces].copy())
