r"""Characteristic functions of cells at fixed frequencies, as polynomials in their natural parameters, with bounds.

With cell i a sum over k of ``exp(logw[k] + eta k)``, about the centre of a piece (:mod:`ppdinf.fiber.pieces`),

    T_j(x) = E exp((x + i u_j)(k - m)),    u_j = 2 pi j / N,   j = 0, ..., n - 1,

is an entire function of the distance x from the centre, whatever the cell: a polynomial of degree `TERMS` - 1 is right
to 1e-12, and Taylor's formula bounds what it leaves out. N is as small as the spread of a group's sum allows, n as its
characteristic function falls; groups that are alike in both share a grid (:func:`grids_of`).

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

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ppdinf._compiled import jit
from ppdinf.fiber.cell_windows import Weights, lids, log_rows, normalise, room_for, row_of, vectorised
from ppdinf.fiber.fourier import project, turn
from ppdinf.fiber.pieces import CENTER, Pieces
from ppdinf.fiber.saddlepoint import tilted

__all__ = [
    "BASE", "DECAY", "DROP", "EXCESS", "FEW", "FEWEST", "HALF", "LEFT_OUT", "LOG_Z", "MIDDLE", "NO_GRIDS", "RATE",
    "TERMS", "WAVES", "Grids", "grids_of", "width",
]  # fmt: skip

FEWEST, FEW = 6, 200  # cells; smaller groups are as fast by their rows, larger ones are left to their cumulants
WIDEST = 512  # values of a cell that matter, whose pieces are made in a fraction of a millisecond
FREQUENCIES = 32, 48  # with 0; more where fewer do not serve
TERMS = 12  # of a polynomial
SERIES = 24  # terms of Taylor's formula from which it is made
DROP = 30.0  # frequencies are left out where the characteristic function is below exp(-DROP)
LITTLE = 3e-13  # of a characteristic function, left out
HALVINGS = 4  # of a piece, at most
WIDER = 1.1  # than where grids are chosen may a sum spread
SLOWER = 1.25  # fall bounds of characteristic functions than the functions themselves where grids are chosen
FAR = 0.2  # of the width of a window are posterior means from where they are expected
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


class Grids(NamedTuple):
    """Which modulus serves each group, and the pieces on its grid.

    Group b is served on grid ``group[b, 0]``, -1 for none, of modulus ``group[b, 1]`` and ``group[b, 2]`` frequencies;
    piece p is cut into ``place[grid, 2p + 1]`` equal ones there, the first at ``table[place[grid, 2p]]``, -1 for none,
    the others after it, each `width` long: the integer m, where the piece starts, half its width, K in its middle, what
    its polynomials leave out, a bound of ``-log |phi|`` at frequencies beyond the grid, bounds of ``K(eta + s) - K(eta)
    - s K'(eta)`` for s of both signs, and coefficients in ``x / half-width``: (TERMS, 2, frequencies).
    """

    group: NDArray
    place: NDArray
    table: NDArray


NO_GRIDS = Grids(np.zeros((0, 3), np.int64), np.zeros((0, 0), np.int64), np.zeros(0))


@jit
def width(frequencies: int) -> int:
    """Numbers of a piece on a grid."""
    return WAVES + 2 * TERMS * frequencies


@vectorised
def _waves(u: float, n: int) -> tuple[NDArray, NDArray]:
    """Cosines and sines of ``u k``."""
    cosine, sine, size = np.ones(n), np.zeros(n), 1
    while size < n:
        turn(cosine, sine, size, np.cos(u * size), np.sin(u * size))
        size *= 2
    return cosine, sine


@vectorised
def _law(w: Weights, row: int, eta: float) -> tuple[NDArray, int, float, float]:
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
def _parts(w: Weights, row: int, center: float, half: float) -> int:
    """Into how many equal parts a piece has to be cut; 0 where that is too many."""
    p, first, _, mean = _law(w, row, center)
    middle, parts = int(np.floor(mean + 0.5)), 1 if p.size <= WIDEST else 2**HALVINGS + 1
    while parts <= 2**HALVINGS and _series(p, first, middle, half / parts)[1] > LITTLE:
        parts *= 2
    return parts if parts <= 2**HALVINGS else 0


@vectorised
def _fill(w: Weights, row: int, center: float, half: float, modulus: int, frequencies: int, out: NDArray) -> None:
    """Fill in a piece on a grid."""
    p, first, log_z, mean = _law(w, row, center)
    middle, n = int(np.floor(mean + 0.5)), p.size
    series, left_out = _series(p, first, middle, half)
    out[MIDDLE], out[BASE], out[HALF] = middle, center - half, half
    out[LOG_Z], out[LEFT_OUT] = log_z, left_out
    out[WAVES:] = 0.0
    for j in range(min(frequencies, modulus // 2 + 1)):
        u = 2.0 * np.pi * j / modulus
        cosine, sine = _waves(u, n)
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
        p, first, log_z[at], mean[at] = _law(w, row, eta)
        var[at] = size[at] = 0.0
        for k in range(p.size):
            var[at] += (first + k - mean[at]) ** 2 * p[k]
        for j in range(frequencies, modulus // 2 + 1):
            cosine, sine = _waves(2.0 * np.pi * j / modulus, p.size)
            size[at] = max(size[at], abs(project(p, cosine, sine)))
        for s in range(2):
            rate = (2.0 * s - 1.0) * RATE / modulus
            f[at, s] = _law(w, row, eta + rate)[2] - log_z[at] - rate * mean[at]
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


@vectorised
def _slope_at(w: Weights, row: int, near: float) -> float:
    """Natural parameter under which the mean of a row is near an offset."""
    low, high = -30.0, 30.0
    for _ in range(20):
        eta = (low + high) / 2.0
        if _law(w, row, eta)[3] < near:
            low = eta
        else:
            high = eta
    return (low + high) / 2.0


@vectorised
def _wanted(w: Weights, cells: NDArray, target: int) -> tuple[float, float]:
    """Modulus that a group wants, nan for none, and the frequency from which on its others may be left out.

    By the rows themselves, tilted to where their sum is near its total.
    """
    rows, _, var, _, log_z = tilted(w, cells, target)
    spread, widest, steps, reach = np.sum(var), 0, 256, np.inf
    if not (log_z > -np.inf and spread > 0.0):
        return np.nan, np.pi
    for i in range(cells.size):
        widest = max(widest, row_of(rows, i).size)
    sd, powers, room = math.sqrt(spread), np.empty(widest), 1.0 * room_for(rows, target)
    modulus = 8.0 + RATE * widest / 600.0  # no power overflows
    while reach > RATE:
        modulus *= 1.05
        rate, reach = RATE / modulus, 0.0
        for sign in (-1.0, 1.0):
            for k in range(widest):
                powers[k] = math.exp(sign * rate * k)
            excess = -sign * rate * room
            for i in range(cells.size):
                row, mgf = row_of(rows, i), 0.0
                for k in range(row.size):
                    mgf += row[k] * powers[k]
                excess += math.log(mgf)
            reach = max(reach, excess + DROP + math.log1p(sd) + 0.5 * sd * rate)
    highest = np.pi
    for j in range(steps, 0, -1):
        u = np.pi * j / steps
        cosine, sine = _waves(u, widest)
        fall = most = 0.0
        for i in range(cells.size):
            row = row_of(rows, i)
            part = -np.log(max(abs(project(row, cosine[: row.size], sine[: row.size])), 1e-300))
            fall += part
            most = max(most, part)
        if fall - most < DROP:
            break
        highest = u
    return modulus, highest


def _highest(frequencies: int, beyond: float) -> float:
    """Largest modulus with which so many frequencies reach up to one, or to the last that differs from others."""
    return max(2.0 * np.pi * (frequencies - 1) / beyond, 2.0 * frequencies - 1.0)


def _shared(wanted: dict[int, tuple[float, float]]) -> Iterator[tuple[int, int, list[int]]]:
    """Modulus, number of frequencies and groups of as few grids as serve all groups; those with most frequencies last.

    A group wants a modulus that is large enough, and frequencies up to one beyond which they may be left out.
    """
    for frequencies in FREQUENCIES:
        left = {b: (low, _highest(frequencies, beyond)) for b, (low, beyond) in wanted.items()}
        left = {b: ends for b, ends in left.items() if math.ceil(ends[0]) <= ends[1]}
        wanted = {b: ends for b, ends in wanted.items() if b not in left}
        while left:
            high = min(high for _, high in left.values())
            served = [b for b, (low, _) in left.items() if math.ceil(low) <= high]
            low = max(left[b][0] for b in served)
            # one that is larger than it need be serves sums that spread more, as long as frequencies reach
            yield math.ceil(min(low**0.75 * high**0.25, high - 1.0)), frequencies, served
            left = {b: ends for b, ends in left.items() if b not in served}


def _middles(logw: NDArray, row: NDArray, near: NDArray | None) -> NDArray:
    """Offset that each row is likely near; nan where that is not known."""
    middle = np.full(len(logw), np.nan)
    middle[(logw[:, [0, -1]] > -np.inf).all(axis=1)] = (logw.shape[1] - 1) / 2.0
    if near is not None:
        middle[row] = near
    return middle


@vectorised
def _cut(w: Weights, pieces: Pieces, numbers: NDArray, of_row: NDArray, half: NDArray, middle: NDArray) -> NDArray:
    """Into how many parts pieces are cut on grids; 0 for those that are left out, as nearly no posterior has them."""
    parts, far = np.zeros(of_row.size, np.int64), FAR * (w.logw.shape[1] - 1)
    for n in numbers:
        piece, row = pieces.table[n], of_row[n]
        if not abs(piece[1] - middle[row]) > far:
            parts[n] = _parts(w, row, piece[CENTER], half[n])
    return parts


@vectorised
def _filled(
    w: Weights, pieces: Pieces, numbers: NDArray, of_row: NDArray, half: NDArray, parts: NDArray,
    modulus: int, frequencies: int,
) -> NDArray:  # fmt: skip
    size, at = width(frequencies), 0
    table = np.empty(np.sum(parts[numbers]) * size)
    for n in numbers:
        for part in range(parts[n]):
            own = half[n] / parts[n]
            center = pieces.table[n, CENTER] - half[n] + (2.0 * part + 1.0) * own
            _fill(w, of_row[n], center, own, modulus, frequencies, table[at : at + size])
            at += size
    return table


def grids_of(
    logw: NDArray, row: NDArray, block: NDArray, target: NDArray, pieces: Pieces, most: int, near: NDArray | None = None
) -> Grids:
    """Put pieces on grids of frequencies that serve the groups of `FEWEST` to `FEW` cells.

    Parameters
    ----------
    logw : array, shape (rows, width)
        Log weights at offsets 0, 1, ...; -inf where impossible.
    row, block : array of int, shape (cells,)
        Row of each cell, and its group, -1 for none.
    target : array of int, shape (groups,)
        Totals of offsets.
    pieces : Pieces
        Of all rows.
    most : int
        Numbers on grids, at most; groups after that are served on none.
    near : array of int, shape (cells,), optional
        Offsets that cells are likely near. Grids suit sums of such cells, or of cells that have one natural parameter
        in common, whichever spread less.

    Returns
    -------
    Grids
    """
    lid, every = lids(logw), np.arange(len(logw))
    by_row, alike = Weights(logw, lid, every, np.zeros(len(logw))), Weights(logw, lid, row, np.zeros(row.size))
    middle, ways = _middles(logw, row, near), [alike]
    if near is not None:
        slopes = np.zeros(len(logw))
        for r in np.unique(row):
            possible = np.flatnonzero(logw[r] > -np.inf)
            if possible.size > 1:
                slopes[r] = _slope_at(by_row, r, min(max(middle[r], possible[0] + 0.5), possible[-1] - 0.5))
        ways.append(Weights(logw, lid, row, slopes[row]))
    wanted = {}
    for b in range(target.size):
        cells = np.flatnonzero(block == b)
        if FEWEST <= cells.size <= FEW:
            moduli, beyond = zip(*(_wanted(way, cells, int(target[b])) for way in ways), strict=True)
            if not np.isnan(moduli).any():
                wanted[b] = WIDER * min(moduli), min(SLOWER * max(beyond), math.pi)
    group, made = np.full((target.size, 3), -1), 0
    place: list[NDArray] = []
    tables: list[NDArray] = []
    of_row, half = _where(pieces)
    rows = np.unique(row[np.isin(block, list(wanted))])
    parts = _cut(by_row, pieces, np.flatnonzero(np.isin(of_row, rows)), of_row, half, middle)
    for modulus, frequencies, served in _shared(wanted):
        rows = np.unique(row[np.isin(block, served)])
        numbers = np.flatnonzero(np.isin(of_row, rows) & (parts > 0))
        sizes = parts[numbers] * width(frequencies)
        if made + sizes.sum() > most:
            continue
        group[served] = len(place), modulus, frequencies
        here = np.zeros((len(pieces.table), 2), np.int64)
        here[:, 0] = -1
        here[numbers, 0], here[numbers, 1] = made + np.cumsum(sizes) - sizes, parts[numbers]
        place.append(here.ravel())
        tables.append(_filled(by_row, pieces, numbers, of_row, half, parts, modulus, frequencies))
        made += sizes.sum()
    if not tables:
        return Grids(group, *NO_GRIDS[1:])
    return Grids(group, np.array(place), np.concatenate(tables))


def _where(pieces: Pieces) -> tuple[NDArray, NDArray]:
    """Row and half-width of every piece."""
    of_row, half = np.full(len(pieces.table), -1), np.ones(len(pieces.table))
    for r, (_, units, start, scale) in enumerate(pieces.first):
        for begin, count in pieces.unit[start : start + units]:
            of_row[begin : begin + count], half[begin : begin + count] = r, 0.5 / (scale * max(count, 1))
    return of_row, half
