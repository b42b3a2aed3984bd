r"""Sums of a few cells from polynomial characteristic functions at fixed frequencies.

The weight of all tables with a total is the mean over all N frequencies of the product over cells
(:mod:`ppdinf.fiber.sums_given_totals.frequency_polynomials` computes the polynomials). Its derivatives, the posterior
means, use the derivatives of the same polynomials. Chernoff's inequality shows whether N is large enough for a sum. The
size of characteristic functions shows whether high frequencies may be omitted. Every piece stores bounds for both. If
these bounds are too large, the result is nan.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import Weights, vectorised
from ppdinf.fiber.sums_given_totals.frequency_grids import Grids
from ppdinf.fiber.sums_given_totals.frequency_polynomials import (
    BASE,
    DECAY,
    DROP,
    EXCESS,
    HALF,
    LEFT_OUT,
    LOG_Z,
    MIDDLE,
    RATE,
    WAVES,
    width,
)
from ppdinf.fiber.sums_given_totals.node_sums import products, times
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import Pieces, placed

ENOUGH = 1e-10  # accepted relative error of the coefficient


@vectorised
def _evaluated(entry: NDArray, y: float, value: NDArray, slope: NDArray) -> None:
    """Evaluate T and its derivative in y at all frequencies, real then imaginary parts; four terms at once."""
    n, c = value.size, entry[WAVES:]
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
def by_frequencies(
    w: Weights, pieces: Pieces, grids: Grids, group: int, cells: NDArray, target: int, mean: NDArray
) -> float:
    """Return the log coefficient of one group and write the posterior means of its cells, or return nan."""
    d, tilt, near, table = cells.size, 0.0, False, grids.table
    grid, modulus, n = grids.group[group]
    size = width(n)
    number, by, gap, spread = np.empty(d, np.int64), np.empty(d), 0.0, 0.0
    # tilt the cells until the mean of their sum is near the total
    for _ in range(12):
        if placed(pieces, w, cells, tilt, number, by) > 0:
            return np.nan
        gap, spread = 1.0 * target, 0.0
        for i in range(d):
            piece, x = pieces.table[number[i]], by[i]
            gap -= piece[1] + x * (2.0 * piece[2] + x * (3.0 * piece[3] + x * 4.0 * piece[4]))  # approximately
            spread += 2.0 * piece[2] + x * (6.0 * piece[3] + x * 12.0 * piece[4])
        near = abs(gap) <= 0.7 * math.sqrt(spread)
        if near:
            break
        tilt += gap / spread
    if not near:
        return np.nan
    sd, fall, largest, left_out, log_z = math.sqrt(spread), 0.0, 0.0, 0.0, 0.0
    # polynomial pieces of all cells, and the sums of their bounds
    excess, room = np.zeros(2), target
    for i in range(d):
        at, parts = grids.place[grid, 2 * number[i]], grids.place[grid, 2 * number[i] + 1]
        if at < 0:
            return np.nan
        eta = w.slope[cells[i]] + tilt
        at += size * min(max(int((eta - table[at + BASE]) / (2.0 * table[at + HALF])), 0), parts - 1)
        entry = table[at : at + WAVES]
        fall += entry[DECAY]
        largest = max(largest, entry[DECAY])
        left_out += entry[LEFT_OUT]
        room -= int(entry[MIDDLE])
        x = eta - entry[BASE] - entry[HALF]
        log_z += entry[LOG_Z] + entry[MIDDLE] * x
        for s in range(2):
            excess[s] += entry[EXCESS + s]
        number[i], by[i] = at, x / entry[HALF]
    reach = (max(excess[0], excess[1]) + DROP + math.log1p(sd)) * modulus / RATE + abs(gap) + 0.2 * sd
    if not reach < modulus or (modulus >= 2 * n and fall - largest < DROP):
        return np.nan
    # characteristic functions and products over the cells from i on
    value, slope = np.empty((d, 2 * n)), np.empty((d, 2 * n))
    before, others, smallest = np.empty(2 * n), np.empty(2 * n), np.full(n, np.inf)
    for i in range(d):
        _evaluated(table[number[i] : number[i] + size], by[i], value[i], slope[i])
        for j in range(n):
            smallest[j] = min(smallest[j], value[i, j] ** 2 + value[i, n + j] ** 2)
    after = products(value)
    # inverse Fourier transform at the total, with its error bound
    total = lost = kept = 0.0
    for j in range(n):
        weight = (1.0 if j == 0 or 2 * j == modulus else 2.0 if 2 * j < modulus else 0.0) / modulus
        angle = 2.0 * np.pi * ((j * room) % modulus) / modulus
        x, y = weight * math.cos(angle), -weight * math.sin(angle)
        before[j], before[n + j] = x, y
        total += x * after[0, j] - y * after[0, n + j]
        part = weight * math.sqrt(after[0, j] ** 2 + after[0, n + j] ** 2)
        kept += part
        lost += part / math.sqrt(smallest[j]) if weight > 0.0 else 0.0
    error = left_out * lost + 4.0 * math.exp(-DROP) * after[0, 0] + 1e-15 * math.sqrt(1.0 * d) * kept
    if not total * ENOUGH > error:
        return np.nan
    for i in range(d):
        times(before, after[i + 1], others)
        part = 0.0
        for j in range(n):
            part += others[j] * slope[i, j] - others[n + j] * slope[i, n + j]
        entry = table[number[i] : number[i] + WAVES]
        mean[i] = entry[MIDDLE] + part / (entry[HALF] * total)
        times(before, value[i], others)
        before, others = others, before
    return log_z + math.log(total) - tilt * target
