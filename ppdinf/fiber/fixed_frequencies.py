r"""Sums of a few cells from their characteristic functions at fixed frequencies, as polynomials in what varies.

With cell i a sum over k of ``exp(logw[k] + eta k)``, about the centre of a piece (:mod:`ppdinf.fiber.pieces`),

    T_j(x) = E exp((x + i u_j)(k - m)),    u_j = 2 pi j / N,   j = 0, ..., FREQUENCIES - 1,

is an entire function of the distance x from the centre, whatever the cell: a polynomial of degree `TERMS` - 1 is right
to 1e-12, and Taylor's formula bounds what it leaves out. The weight of all tables with a total is the mean over all N
frequencies of the product over cells, and its derivatives, the posterior means, need those of the same polynomials.

Groups share a modulus N where they can (:func:`grids_of`). Whether N is large enough for a sum is told by Chernoff's
inequality, and whether frequencies from `FREQUENCIES` on may be left out by the size of characteristic functions there:
every piece keeps both. Where the bounds do not hold, nothing is returned.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ppdinf.fiber.cell_windows import Weights, lids, log_rows, normalise, row_of, vectorised
from ppdinf.fiber.fourier import project, turn
from ppdinf.fiber.pieces import CENTER, Pieces, placed
from ppdinf.fiber.saddlepoint import tilted

__all__ = ["FEW", "FEWEST", "NO_GRIDS", "Grids", "by_frequencies", "grids_of"]

FEWEST, FEW = 6, 200  # cells; smaller groups are as fast by their rows, larger ones are left to their cumulants
WIDEST = 512  # values of a cell that matter, whose pieces are made in a fraction of a millisecond
FREQUENCIES = 32  # with 0
TERMS = 12  # of a polynomial
SERIES = 24  # terms of Taylor's formula from which it is made
DROP = 30.0  # frequencies are left out where the characteristic function is below exp(-DROP)
ENOUGH = 1e-10  # relative error of the coefficient
LITTLE = 3e-13  # of a characteristic function, left out
HALVINGS = 4  # of a piece, at most
SHARED = 1.4  # times as large as it need be is a modulus that groups share
NEAR_END = 0.3  # of the window of a cell whose counts end nowhere in it
CUT = 60.0  # log weights so far below the top are left out
RATES = (30.0, 60.0)  # of Chernoff's inequality, times 1 / N
SLACK = 0.98  # of bounds between the ends and the middle of a piece, where they are found
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
    largest = 0.0
    for s in range(4):
        out[EXCESS + s] = 0.0
    for side in (-1.0, 0.0, 1.0):
        eta = center + side * half
        p, _, log_z, mean = _law(w, row, eta)
        for j in range(FREQUENCIES, modulus // 2 + 1):
            cosine, sine = _waves(2.0 * np.pi * j / modulus, p.size)
            largest = max(largest, abs(project(p, cosine, sine)))
        for s in range(4):
            rate = RATES[s // 2] / modulus * (1.0 if s % 2 else -1.0)
            out[EXCESS + s] = max(out[EXCESS + s], (_law(w, row, eta + rate)[2] - log_z - rate * mean) / SLACK)
    out[DECAY] = -SLACK * np.log(largest) if largest > 0.0 else 700.0


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


@vectorised
def _evaluated(entry: NDArray, y: float, value: NDArray, slope: NDArray) -> None:
    """T and its derivative in y at all frequencies, real parts, then imaginary ones; four terms in one go."""
    n = 2 * FREQUENCIES
    c = entry[WAVES:]
    for j in range(n):
        v = c[11 * n + j]
        u = c[10 * n + j] + y * v
        s = v
        s, u = u + y * s, c[9 * n + j] + y * u
        s, u = u + y * s, c[8 * n + j] + y * u
        s, u = u + y * s, c[7 * n + j] + y * u
        s, u = u + y * s, c[6 * n + j] + y * u
        s, u = u + y * s, c[5 * n + j] + y * u
        s, u = u + y * s, c[4 * n + j] + y * u
        s, u = u + y * s, c[3 * n + j] + y * u
        s, u = u + y * s, c[2 * n + j] + y * u
        s, u = u + y * s, c[n + j] + y * u
        s, u = u + y * s, c[j] + y * u
        value[j], slope[j] = u, s


@vectorised
def _times(a: NDArray, b: NDArray, c: NDArray) -> None:
    """Products of two rows of complex numbers, real parts first."""
    n = FREQUENCIES
    for j in range(n):
        x, y, u, v = a[j], a[n + j], b[j], b[n + j]
        c[j] = x * u - y * v
        c[n + j] = x * v + y * u


@vectorised
def _lower(a: NDArray, smallest: NDArray) -> None:
    """Squared sizes of complex numbers, where they are the smallest so far."""
    for j in range(FREQUENCIES):
        square = a[j] * a[j] + a[FREQUENCIES + j] * a[FREQUENCIES + j]
        smallest[j] = min(smallest[j], square)


@vectorised
def by_frequencies(
    w: Weights, pieces: Pieces, grids: Grids, grid: int, modulus: int, cells: NDArray, target: int, mean: NDArray
) -> float:
    """Log coefficient of one block, and the posterior means of its cells; nan, and nothing, where this does not serve.

    Means are offsets from the first column of the table of weights.
    """
    d, tilt, near, table = cells.size, 0.0, False, grids.table
    number, by, gap, spread = np.empty(d, np.int64), np.empty(d), 0.0, 0.0
    for _ in range(12):
        if placed(pieces, w, cells, tilt, number, by) > 0:
            return np.nan
        gap, spread = 1.0 * target, 0.0
        for i in range(d):
            piece, x = pieces.table[number[i]], by[i]
            gap -= piece[1] + x * (2.0 * piece[2] + x * (3.0 * piece[3] + x * 4.0 * piece[4]))  # nearly
            spread += 2.0 * piece[2] + x * (6.0 * piece[3] + x * 12.0 * piece[4])
        near = abs(gap) <= 0.7 * math.sqrt(spread)
        if near:
            break
        tilt += gap / spread
    if not near:
        return np.nan
    sd, fall, most, left_out, log_z = math.sqrt(spread), 0.0, 0.0, 0.0, 0.0
    excess, room = np.zeros(4), target
    for i in range(d):
        at, parts = grids.place[grid, 2 * number[i]], grids.place[grid, 2 * number[i] + 1]
        if at < 0:
            return np.nan
        eta = w.slope[cells[i]] + tilt
        at += min(max(int((eta - table[at, BASE]) / (2.0 * table[at, HALF])), 0), parts - 1)
        entry = table[at]
        fall += entry[DECAY]
        most = max(most, entry[DECAY])
        left_out += entry[LEFT_OUT]
        room -= int(entry[MIDDLE])
        x = eta - entry[BASE] - entry[HALF]
        log_z += entry[LOG_Z] + entry[MIDDLE] * x
        for s in range(4):
            excess[s] += entry[EXCESS + s]
        number[i], by[i] = at, x / entry[HALF]
    need = np.inf
    for s in range(2):
        rate = RATES[s] / modulus
        reach = (max(excess[2 * s], excess[2 * s + 1]) + DROP + math.log1p(sd)) / rate + abs(gap) + 0.2 * sd
        need = min(need, reach)
    if not need < modulus or (modulus >= 2 * FREQUENCIES and fall - most < DROP):
        return np.nan
    n = FREQUENCIES
    value, slope = np.empty((d, 2 * n)), np.empty((d, 2 * n))
    after, before, others, smallest = np.ones((d + 1, 2 * n)), np.empty(2 * n), np.empty(2 * n), np.full(n, np.inf)
    for j in range(n):
        after[d, n + j] = 0.0
    for i in range(d - 1, -1, -1):
        _evaluated(table[number[i]], by[i], value[i], slope[i])
        _times(value[i], after[i + 1], after[i])
        _lower(value[i], smallest)
    total = lost = kept = 0.0
    for j in range(n):
        weight = (1.0 if j == 0 or 2 * j == modulus else 2.0 if 2 * j < modulus else 0.0) / modulus
        angle = 2.0 * np.pi * ((j * room) % modulus) / modulus
        x, y = weight * math.cos(angle), -weight * math.sin(angle)
        before[j], before[n + j] = x, y
        total += x * after[0, j] - y * after[0, n + j]
        size = weight * math.sqrt(after[0, j] ** 2 + after[0, n + j] ** 2)
        kept += size
        lost += size / math.sqrt(smallest[j]) if weight > 0.0 else 0.0
    error = left_out * lost + 4.0 * math.exp(-DROP) * after[0, 0] + 1e-15 * math.sqrt(1.0 * d) * kept
    if not total * ENOUGH > error:
        return np.nan
    for i in range(d):
        _times(before, after[i + 1], others)
        part = 0.0
        for j in range(n):
            part += others[j] * slope[i, j] - others[n + j] * slope[i, n + j]
        entry = table[number[i]]
        mean[i] = entry[MIDDLE] + part / (entry[HALF] * total)
        _times(before, value[i], others)
        before, others = others, before
    return log_z + math.log(total) - tilt * target
