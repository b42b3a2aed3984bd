r"""Characteristic functions of cells at fixed frequencies, as polynomials in their natural parameters, with bounds.

With cell i a sum over k of ``exp(logw[k] + eta k)``, about the centre of a piece (:mod:`ppdinf.fiber.pieces`),

    T_j(x) = E exp((x + i u_j)(k - m)),    u_j = 2 pi j / N,   j = 0, ..., FREQUENCIES - 1,

is an entire function of the distance x from the centre, whatever the cell: a polynomial of degree `TERMS` - 1 is right
to 1e-12, and Taylor's formula bounds what it leaves out. Groups share a modulus N where they can (:func:`grids_of`).

Two bounds go with every piece: of ``|phi(u_j)|`` at all frequencies beyond the grid, and of
``f = K(eta + s) - K(eta) - s K'(eta)`` for a few s. Both are found at points, and hold between them (:func:`_between`).
Let a be the slope of K between two points at distance delta, g = T exp(-a x) and Z = exp(K - a x). Then

- Z is convex and equal at both, so at least exp(-drop) of that between them, where its tangents there meet;
- ``|g''| <= E_0 (k - a)^2 exp((k - a) x)``, which is convex: as large as at one of the points, at most; and a function
  exceeds its chord by at most delta^2 / 8 times that. So
  ``|phi| <= (largest at the two + M delta^2 / 8) exp(drop)``, M the larger second moment of k about a;
- as ``K'' <= E (k - a)^2 <= V = M exp(drop)``, K lies at most ``V delta^2 / 8`` below its chord, and K', whose slope is
  between 0 and V and c on average, at most ``delta c (1 - c / V)`` off its own. ``K(eta + s)`` is below its chord.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ppdinf.fiber.cell_windows import Weights, lids, log_rows, normalise, row_of, vectorised
from ppdinf.fiber.fourier import project, turn
from ppdinf.fiber.pieces import CENTER, Pieces
from ppdinf.fiber.saddlepoint import tilted

__all__ = [
    "BASE", "DECAY", "DROP", "EXCESS", "FEW", "FEWEST", "FREQUENCIES", "HALF", "LEFT_OUT", "LOG_Z", "MIDDLE",
    "NO_GRIDS", "RATES", "TERMS", "WAVES", "WIDTH", "Grids", "grids_of",
]  # fmt: skip

FEWEST, FEW = 6, 200  # cells; smaller groups are as fast by their rows, larger ones are left to their cumulants
WIDEST = 512  # values of a cell that matter, whose pieces are made in a fraction of a millisecond
FREQUENCIES = 32  # with 0
TERMS = 12  # of a polynomial
SERIES = 24  # terms of Taylor's formula from which it is made
DROP = 30.0  # frequencies are left out where the characteristic function is below exp(-DROP)
LITTLE = 3e-13  # of a characteristic function, left out
HALVINGS = 4  # of a piece, at most
SHARED = 1.4  # times as large as it need be is a modulus that groups share
NEAR_END = 0.3  # of the window of a cell whose counts end nowhere in it
CUT = 60.0  # log weights so far below the top are left out
RATES = (30.0, 60.0)  # of Chernoff's inequality, times 1 / N
PARTS = 4  # of a piece, between whose ends its bounds are found
MIDDLE, BASE, HALF, LOG_Z, LEFT_OUT, DECAY, EXCESS, WAVES = 0, 1, 2, 3, 4, 5, 6, 10  # entries of a piece on a grid
WIDTH = WAVES + 2 * TERMS * FREQUENCIES


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

    Group b is served on grid ``group[b, 0]``, -1 for none, of modulus ``group[b, 1]``; piece n is cut into
    ``place[grid, 2n + 1]`` equal ones there, whose rows of the table start at ``place[grid, 2n]``, -1 for none. A row
    is the integer m, where its piece starts, half its width, K in its middle, what its
    polynomials leave out, a bound of ``-log |phi|`` at frequencies beyond the grid, bounds of ``K(eta + s) - K(eta) - s
    K'(eta)`` for s of both signs and `RATES`, and coefficients in ``x / half-width``: (TERMS, 2, FREQUENCIES).
    """

    group: NDArray
    place: NDArray
    table: NDArray


NO_GRIDS = Grids(np.zeros((0, 2), np.int64), np.zeros((0, 0), np.int64), np.zeros((0, WIDTH)))


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
def _fill(w: Weights, row: int, center: float, half: float, modulus: int, out: NDArray) -> None:
    """Fill in a piece on a grid."""
    p, first, log_z, mean = _law(w, row, center)
    middle, n = int(np.floor(mean + 0.5)), p.size
    series, left_out = _series(p, first, middle, half)
    out[MIDDLE], out[BASE], out[HALF] = middle, center - half, half
    out[LOG_Z], out[LEFT_OUT] = log_z, left_out
    out[WAVES:] = 0.0
    for j in range(min(FREQUENCIES, modulus // 2 + 1)):
        u = 2.0 * np.pi * j / modulus
        cosine, sine = _waves(u, n)
        there = complex(np.cos(u * (first - middle)), np.sin(u * (first - middle)))
        for r in range(SERIES):
            value = project(series[r], cosine, sine) * there
            for q in range(TERMS):
                at = WAVES + 2 * FREQUENCIES * q + j
                out[at] += SHORT[r, q] * value.real
                out[at + FREQUENCIES] += SHORT[r, q] * value.imag
    _between(w, row, center, half, modulus, out)


@vectorised
def _between(w: Weights, row: int, center: float, half: float, modulus: int, out: NDArray) -> None:
    """Bound characteristic functions beyond the grid, and log moment generating functions, all along a piece."""
    delta, largest, excess = 2.0 * half / PARTS, 0.0, np.zeros(4)
    size, log_z, mean, var, f = np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros((2, 4))
    for n in range(PARTS + 1):
        eta, at = center + (2.0 * n / PARTS - 1.0) * half, n % 2
        p, first, log_z[at], mean[at] = _law(w, row, eta)
        var[at] = size[at] = 0.0
        for k in range(p.size):
            var[at] += (first + k - mean[at]) ** 2 * p[k]
        for j in range(FREQUENCIES, modulus // 2 + 1):
            cosine, sine = _waves(2.0 * np.pi * j / modulus, p.size)
            size[at] = max(size[at], abs(project(p, cosine, sine)))
        for s in range(4):
            rate = RATES[s // 2] / modulus * (1.0 if s % 2 else -1.0)
            f[at, s] = _law(w, row, eta + rate)[2] - log_z[at] - rate * mean[at]
        if n == 0:
            continue
        slope = (log_z[at] - log_z[1 - at]) / delta
        below, above = max(slope - mean[1 - at], 0.0), max(mean[at] - slope, 0.0)
        drop = delta * below * above / (below + above) if below + above > 0.0 else 0.0
        second = max(var[0] + (mean[0] - slope) ** 2, var[1] + (mean[1] - slope) ** 2)
        steepest, steep = second * np.exp(drop), (mean[at] - mean[1 - at]) / delta
        largest = max(largest, (max(size[0], size[1]) + second * delta**2 / 8.0) * np.exp(drop))
        for s in range(4):
            off = steepest * delta**2 / 8.0 + 1e-12
            if steep > 0.0:
                off += RATES[s // 2] / modulus * delta * steep * max(1.0 - steep / steepest, 0.0)
            excess[s] = max(excess[s], max(f[0, s], f[1, s]) + off)
    for s in range(4):
        out[EXCESS + s] = excess[s]
    out[DECAY] = -np.log(largest) if modulus // 2 >= FREQUENCIES else 700.0


@vectorised
def _wanted(w: Weights, cells: NDArray, target: int) -> tuple[float, float]:
    """Between which moduli a grid should have its own to serve a group, near tilts where its sum is the total."""
    rows, _, var, _, log_z = tilted(w, cells, target)
    spread, widest, steps = np.sum(var), 0, 256
    if not (log_z > -np.inf and spread > 0.0):
        return 1.0, 0.0
    for i in range(cells.size):
        widest = max(widest, row_of(rows, i).size)
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
    most = 2.0 * np.pi * (FREQUENCIES - 1.0) / highest
    return 10.0 * np.sqrt(spread) + 8.0, 2.0 * (FREQUENCIES - 1.0) if highest == np.pi else 0.9 * most


@vectorised
def _likely(row: NDArray, mean: float) -> bool:
    """Whether a posterior mean is one that is met with: not near an end of all that noise reaches."""
    end = NEAR_END * (row.size - 1)
    return not (row[0] > -np.inf and row[-1] > -np.inf) or end < mean < row.size - 1 - end


@vectorised
def _cut(w: Weights, pieces: Pieces, numbers: NDArray, of_row: NDArray, half: NDArray) -> NDArray:
    """Into how many parts pieces are cut on grids; 0 for those that are left out."""
    parts = np.zeros(of_row.size, np.int64)
    for n in numbers:
        piece = pieces.table[n]
        if _likely(w.logw[of_row[n]], piece[1]):
            parts[n] = _parts(w, of_row[n], piece[CENTER], half[n])
    return parts


@vectorised
def _filled(
    w: Weights, pieces: Pieces, numbers: NDArray, of_row: NDArray, half: NDArray, parts: NDArray, modulus: int
) -> NDArray:
    table, at = np.empty((np.sum(parts[numbers]), WIDTH)), 0
    for n in numbers:
        for part in range(parts[n]):
            own = half[n] / parts[n]
            _fill(w, of_row[n], pieces.table[n, CENTER] - half[n] + (2.0 * part + 1.0) * own, own, modulus, table[at])
            at += 1
    return table


def grids_of(logw: NDArray, row: NDArray, block: NDArray, target: NDArray, pieces: Pieces, most: int) -> Grids:
    """Put pieces on grids of frequencies, as few as serve all groups of `FEWEST` to `FEW` cells.

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
        Pieces on grids to make; groups after that are served on none.

    Returns
    -------
    Grids
    """
    w = Weights(logw, lids(logw), row, np.zeros(row.size))
    wanted = []
    for b in range(target.size):
        cells = np.flatnonzero(block == b)
        if FEWEST <= cells.size <= FEW:
            low, high = _wanted(w, cells, int(target[b]))
            if low <= high:
                wanted.append((low, high, b))
    group, made = np.full((target.size, 2), -1), 0
    place: list[NDArray] = []
    tables: list[NDArray] = []
    by_row = Weights(logw, w.lid, np.arange(len(logw)), np.zeros(len(logw)))
    of_row, half = _where(pieces)
    rows = np.unique(row[np.isin(block, [b for *_, b in wanted])])
    parts = _cut(by_row, pieces, np.flatnonzero(np.isin(of_row, rows)), of_row, half)
    while wanted:
        least = min(wanted)[0]
        shared = [one for one in wanted if one[0] <= SHARED * least]
        modulus = min(math.ceil(max(shared)[0]), *(int(high) for _, high, _ in shared))
        served = [b for *_, b in shared]
        wanted = [one for one in wanted if one[2] not in served]
        rows = np.unique(row[np.isin(block, served)])
        numbers = np.flatnonzero(np.isin(of_row, rows) & (parts > 0))
        size = parts[numbers].sum()
        if made + size > most:
            continue
        group[served] = len(place), modulus
        here = np.zeros((len(pieces.table), 2), np.int64)
        here[:, 0] = -1
        here[numbers, 0], here[numbers, 1] = made + np.cumsum(parts[numbers]) - parts[numbers], parts[numbers]
        place.append(here.ravel())
        tables.append(_filled(by_row, pieces, numbers, of_row, half, parts, modulus))
        made += size
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
