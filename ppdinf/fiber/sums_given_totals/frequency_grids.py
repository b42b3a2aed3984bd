"""The choice of frequency grids for groups of cells, with the pieces of their cells.

The weight of all tables with a total is a mean over N frequencies, of which the first n are used. N is as small as the
spread of a group's sum allows, and n depends on the decay of its characteristic function. Both are chosen from likely
natural parameters before any parameter is known. Every evaluation checks whether they are sufficient
(:mod:`ppdinf.fiber.sums_given_totals.fixed_frequencies`).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import Weights, row_of, slack_for, tilted, upper_envelope, vectorised
from ppdinf.fiber.sums_given_totals.fourier import project
from ppdinf.fiber.sums_given_totals.frequency_polynomials import DROP, RATE, fill, law_at, parts_of, waves, width
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import CENTER, Pieces

FEWEST, FEW = 6, 200  # numbers of cells; smaller groups use their rows, larger ones their cumulants
FREQUENCIES = 32, 48  # numbers of frequencies, including 0
WIDER = 1.1  # factor for the spread of a sum relative to the spread at the choice of grids
SLOWER = 1.25  # factor for bounds on characteristic functions relative to the functions at the choice of grids
FAR = 0.2  # largest distance of posterior means from their expected values, relative to the width of a window


class Grids(NamedTuple):
    """The modulus of each group, and the pieces on its grid."""

    group: NDArray
    place: NDArray
    table: NDArray


NO_GRIDS = Grids(np.zeros((0, 3), np.int64), np.zeros((0, 0), np.int64), np.zeros(0))


@vectorised
def _slope_at(w: Weights, row: int, near: float) -> float:
    """Return a natural parameter under which the mean of a row is near an offset."""
    low, high = -30.0, 30.0
    for _ in range(20):
        eta = (low + high) / 2.0
        if law_at(w, row, eta)[3] < near:
            low = eta
        else:
            high = eta
    return (low + high) / 2.0


@vectorised
def _wanted(w: Weights, cells: NDArray, target: int) -> tuple[float, float]:
    """Return the modulus for a group, nan for none, and the frequency from which on frequencies may be omitted."""
    rows, _, var, _, log_z = tilted(w, cells, target)
    spread, widest, steps, reach = np.sum(var), 0, 256, np.inf
    if not (log_z > -np.inf and spread > 0.0):
        return np.nan, np.pi
    for i in range(cells.size):
        widest = max(widest, row_of(rows, i).size)
    sd, powers, room = math.sqrt(spread), np.empty(widest), 1.0 * slack_for(rows, target)
    modulus = 8.0 + RATE * widest / 600.0  # powers do not overflow
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
        cosine, sine = waves(u, widest)
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
    """Return the largest modulus with which this many frequencies cover the given one or all distinct frequencies."""
    return max(2.0 * np.pi * (frequencies - 1) / beyond, 2.0 * frequencies - 1.0)


def _shared(wanted: dict[int, tuple[float, float]]) -> Iterator[tuple[int, int, list[int]]]:
    """Return modulus, number of frequencies and groups of few grids that serve all groups, most frequencies last."""
    for frequencies in FREQUENCIES:
        left = {b: (low, _highest(frequencies, beyond)) for b, (low, beyond) in wanted.items()}
        left = {b: ends for b, ends in left.items() if math.ceil(ends[0]) <= ends[1]}
        wanted = {b: ends for b, ends in wanted.items() if b not in left}
        while left:
            high = min(high for _, high in left.values())
            served = [b for b, (low, _) in left.items() if math.ceil(low) <= high]
            low = max(left[b][0] for b in served)
            # a larger modulus than necessary allows wider sums, as long as the frequencies are sufficient
            yield math.ceil(min(low**0.75 * high**0.25, high - 1.0)), frequencies, served
            left = {b: ends for b, ends in left.items() if b not in served}


def _middles(logw: NDArray, row: NDArray, near: NDArray | None) -> NDArray:
    """Return a likely offset of each row; nan if it is not known."""
    middle = np.full(len(logw), np.nan)
    middle[(logw[:, [0, -1]] > -np.inf).all(axis=1)] = (logw.shape[1] - 1) / 2.0
    if near is not None:
        middle[row] = near
    return middle


@vectorised
def _cut(w: Weights, pieces: Pieces, numbers: NDArray, of_row: NDArray, half: NDArray, middle: NDArray) -> NDArray:
    """Return the number of parts of each piece on a grid; 0 for pieces that almost no posterior uses."""
    parts, far = np.zeros(of_row.size, np.int64), FAR * (w.logw.shape[1] - 1)
    for n in numbers:
        piece, row = pieces.table[n], of_row[n]
        if not abs(piece[1] - middle[row]) > far:
            parts[n] = parts_of(w, row, piece[CENTER], half[n])
    return parts


def _fit(pieces: Pieces, of_row: NDArray, parts: NDArray, middle: NDArray) -> NDArray:
    """Return which rows have parts at their likely offset; groups with other rows would rarely use a grid."""
    fit, numbers = np.ones(middle.size, dtype=bool), np.flatnonzero(of_row >= 0)
    numbers = numbers[np.argsort(-np.abs(pieces.table[numbers, 1] - middle[of_row[numbers]]), kind="stable")]
    fit[of_row[numbers]] = parts[numbers] > 0  # the last assignment to a row is that of its nearest piece
    return fit | np.isnan(middle)


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
            fill(w, of_row[n], center, own, modulus, frequencies, table[at : at + size])
            at += size
    return table


def grids_of(
    logw: NDArray, row: NDArray, block: NDArray, target: NDArray, pieces: Pieces, most: int, near: NDArray | None = None
) -> Grids:
    """Return pieces on frequency grids for the groups of `FEWEST` to `FEW` cells."""
    lid, every = upper_envelope(logw), np.arange(len(logw))
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
    of_row, half = np.full(len(pieces.table), -1), np.ones(len(pieces.table))  # row and half-width of each piece
    for r, (_, units, start, scale) in enumerate(pieces.first):
        for begin, count in pieces.unit[start : start + units]:
            of_row[begin : begin + count], half[begin : begin + count] = r, 0.5 / (scale * max(count, 1))
    rows = np.unique(row[np.isin(block, list(wanted))])
    parts = _cut(by_row, pieces, np.flatnonzero(np.isin(of_row, rows)), of_row, half, middle)
    fit = _fit(pieces, of_row, parts, middle)
    wanted = {b: ends for b, ends in wanted.items() if fit[row[block == b]].all()}
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
