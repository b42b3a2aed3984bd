r"""Log normalisers of natural families as piecewise polynomials.

A cell whose integers have log weights ``logw[k] + eta k`` has one smooth function of one number,

    K(eta) = log sum_k exp(logw[k] + eta k),

whose derivatives are the cumulants of the cell, and ``K(eta + iu) - K(eta)`` is the logarithm of its characteristic
function. So Taylor's polynomial of K about a centre, in complex numbers, tells all that sums of cells need
(:mod:`ppdinf.fiber.cumulants`), without a look at the row of weights. Centres lie on a grid that depends on the row
alone: what a polynomial says never depends on which others were asked.

Coefficients are the cumulants at the centre, from moments of order up to 31 by the recursion between the two, which
loses no digits within the disc where it is used. Those beyond the order kept bound what is left out: with ``A`` so that
they add up to at most ``A x^ORDER`` at distance ``x`` up to a radius, what is left out at ``eta + iu``,
``|eta - centre| <= h``, is at most ``A 2^(ORDER/2 - 1) (h^ORDER + u^ORDER)``, which is how it is kept. A piece is too
wide, and halved, where that exceeds `TOLERANCE` at ``u = 0``, or where polynomial and row differ at its ends.

References
----------
P. J. Smith, "A recursive formulation of the old problem of obtaining moments from cumulants and vice versa", Amer.
Statist. 49 (1995), 217-218.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.cell_windows import Weights, lids, log_rows, normalise, row_of, vectorised

__all__ = ["BEND", "BEYOND", "CENTER", "NO_PIECES", "ORDER", "REACH", "WIDTH", "Pieces", "pieces_of", "placed"]

ORDER = 16  # coefficients of a polynomial; even
BEYOND, REACH, BEND, CENTER = ORDER, ORDER + 1, ORDER + 2, ORDER + 3  # entries of a piece after its coefficients
WIDTH = ORDER + 4  # of a piece
MOMENTS = 32  # of which the later half bounds what is left out
TOLERANCE = 1e-13  # of K within a piece
HALVINGS = 6  # of a unit of eta, at most
FAR = 64.0  # from 0 in eta
DEGENERATE = 1e-6  # variance of a cell that hardly varies, where its pieces end
CUT = 60.0  # log weights so far below the top are left out
CUT_OFF = 12.0  # so much is missing where an end of a row cuts a cell off


class Pieces(NamedTuple):
    """Pieces of rows of weights: row r has the units ``first[r, 0] + 0, 1, ...``, ``first[r, 1]`` of them.

    Units have the width ``1 / first[r, 3]`` in eta; the first is ``unit[first[r, 2]]``. A unit is the number of its
    first piece and how many equal ones it is cut into, 0 where the row itself has to be looked at. A piece is
    coefficients, then what bounds the rest (`BEYOND`), the frequencies up to which it serves (`REACH`), b so that
    ``log |phi(u)| <= -b min(u, reach)^2 / 2`` (`BEND`), and its centre.
    """

    first: NDArray
    unit: NDArray
    table: NDArray


NO_PIECES = Pieces(np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64), np.zeros((0, WIDTH)))


@vectorised
def placed(pieces: Pieces, w: Weights, cells: NDArray, tilt: float, number: NDArray, by: NDArray) -> int:
    """Find the piece of every cell, -1 where there is none, and its distance from the centre; how many have none."""
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
def _law(w: Weights, row: int, eta: float) -> tuple[NDArray, float, float, float]:
    """Probabilities of a row under a natural parameter; log normaliser, mean and variance."""
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
    """Coefficients of ``log E exp(z (k - mean) / scale)``; mean relative to the first entry."""
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
    """One over the distance of the nearest singularity, by the size of the last coefficients."""
    nearest = 1e-3
    for r in range(MOMENTS - 12, MOMENTS):
        nearest = max(nearest, (r * abs(a[r])) ** (1.0 / r))
    return nearest


@vectorised
def _left_out(a: NDArray, nearest: float, radius: float) -> float:
    """Return A so that coefficients from ORDER on add up to at most ``A x^ORDER`` for x up to a radius, or inf."""
    ratio = radius * nearest
    if not ratio < 0.9:
        return np.inf
    part, power = 0.0, 1.0
    for r in range(ORDER, MOMENTS):
        part += abs(a[r]) * power
        power *= radius
    return part + power * nearest**MOMENTS / MOMENTS / (1.0 - ratio)


@vectorised
def _decay(p: NDArray, var: float, reach: float, most: float) -> float:
    """b, at most `most`, so that ``log |phi(u)| <= -b reach^2 / 2`` for all u from reach to pi.

    By summation by parts where that tells, else at points so close that the variance bounds what lies between.
    """
    if reach >= np.pi:
        return most
    slopes, bends, n = p[0] + p[-1], p[0] + p[-1], p.size
    bends += abs(p[min(1, n - 1)] - 2.0 * p[0]) + abs(p[max(n - 2, 0)] - 2.0 * p[n - 1])
    for k in range(n - 1):
        slopes += abs(p[k + 1] - p[k])
    for k in range(n - 2):
        bends += abs(p[k + 2] - 2.0 * p[k + 1] + p[k])
    least = np.exp(-0.5 * most * reach**2)
    chord = min(slopes / least, np.sqrt(bends / least))
    far = 2.0 * np.arcsin(0.5 * chord) if chord < 2.0 else np.pi  # summation by parts tells from here on
    if far <= reach:
        return most
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
    return min(most, -np.log(square) / reach**2) if square < 1.0 else 0.0


@vectorised
def _shifted(a: NDArray, by: float) -> NDArray:
    out = a[:ORDER].copy()
    for r in range(ORDER - 1):
        for k in range(ORDER - 2, r - 1, -1):
            out[k] += by * out[k + 1]
    return out


@vectorised
def _bent(a: NDArray, beyond: float, half: float, reach: float) -> float:
    """By how much ``-log |phi(u)| / u^2`` falls short of ``a[2]``, at most, for u up to a reach."""
    rest = 0.0
    for j in range(1, 9):
        square, part = (0.125 * j * reach) ** 2, 0.0
        for r in range(ORDER - 2, 2, -2):
            part = a[r] - square * part
        rest = max(rest, square * part)
    return 1.02 * rest + 0.01 * a[2] + beyond * (half**ORDER / reach**2 + reach ** (ORDER - 2))


@vectorised
def _fill(w: Weights, row: int, center: float, half: float, out: NDArray) -> bool:
    """Fill in the piece about a centre; whether it is good within ``half`` of it."""
    p, log_z, mean, var = _law(w, row, center)
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
        law, exact, _, spread = _law(w, row, center + side * half)
        # off the centre, polynomial and sum must agree
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


@vectorised
def _unit(w: Weights, row: int, start: float, width: float, count: int, table: NDArray) -> int:
    """Cut a unit into equal pieces that are good, `count` or more, in the first rows of a table; 0 where none are."""
    while count <= 2**HALVINGS:
        good = True
        for k in range(count):
            if not _fill(w, row, start + (k + 0.5) * width / count, 0.5 * width / count, table[k]):
                good = False
                break
        if good:
            return count
        count *= 2
    return 0


@vectorised
def _grown(old: NDArray, size: int) -> NDArray:
    new = np.empty((max(size, 2 * old.shape[0]), old.shape[1]), old.dtype)
    new[: old.shape[0]] = old
    return new


@vectorised
def _held(w: Weights, row: int, eta: float) -> tuple[bool, bool]:
    """Whether a row has no weight at its lower end, and none at its upper end, beyond which it may go on."""
    entries, top = w.logw[row], -np.inf
    last = entries.size - 1
    for k in range(last + 1):
        top = max(top, entries[k] + eta * k)
    return not entries[0] > top - CUT_OFF, not entries[last] + eta * last > top - CUT_OFF


@vectorised
def _serves(w: Weights, row: int, eta: float) -> bool:
    below, above = _held(w, row, eta)
    return below and above and _law(w, row, eta)[3] > DEGENERATE


@vectorised
def _middle(w: Weights, row: int) -> float:
    """Return a natural parameter under which the row holds the cell; nan where none does, or the cell cannot vary."""
    low, high = -FAR, FAR
    for _ in range(50):
        middle = 0.5 * (low + high)
        below, above = _held(w, row, middle)
        if below and above:
            return middle if _law(w, row, middle)[3] > DEGENERATE else np.nan
        if below == above:
            return np.nan
        low, high = (low, middle) if below else (middle, high)
    return np.nan


@vectorised
def _end(w: Weights, row: int, middle: float, side: float) -> float:
    """How far from the middle natural parameters go under which a row holds a cell that varies, to an eighth of it."""
    near, far = 0.0, 2.0**-10
    while far < FAR and _serves(w, row, middle + side * far):
        near, far = far, 2.0 * far
    for _ in range(3):
        between = 0.5 * (near + far)
        if _serves(w, row, middle + side * between):
            near = between
        else:
            far = between
    return middle + side * far


@vectorised
def pieces_of(logw: NDArray, wanted: NDArray, most: int) -> Pieces:
    """Cut the log normalisers of rows of log weights into pieces: all natural parameters under which a cell varies.

    Parameters
    ----------
    logw : array, shape (rows, width)
        Log weights at offsets 0, 1, ...; -inf where impossible.
    wanted : array of bool, shape (rows,)
        Rows to cut; others have no pieces.
    most : int
        Pieces to make; rows after that have none.

    Returns
    -------
    Pieces
    """
    rows = logw.shape[0]
    w = Weights(logw, lids(logw), np.arange(rows), np.zeros(rows))
    first, unit, table = np.zeros((rows, 4), np.int64), np.zeros((16, 2), np.int64), np.zeros((64, WIDTH))
    units = pieces = 0
    room = 2**HALVINGS
    for r in range(rows):
        first[r, 2] = units
        middle = _middle(w, r) if wanted[r] and pieces < most else np.nan
        if np.isnan(middle):
            continue
        left, right = _end(w, r, middle, -1.0), _end(w, r, middle, 1.0)
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
