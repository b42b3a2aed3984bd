r"""Sums of many cells from their cumulants, for exponential families in which no cell has a large share in the sum.

The log characteristic function of the sum is a power series in the frequency (docs/mathematics/marginal_likelihood.md).
16 sums over the cells are therefore sufficient for any number of frequencies. One short sum gives the posterior mean of
a cell. The coefficients come from :mod:`ppdinf.fiber.sums_given_totals.piecewise_polynomials`.

Cells with a large share in the sum (their pieces do not cover the relevant frequencies) keep separate characteristic
functions. If the error bounds are too large, the result is nan, and the caller uses the full rows of all cells.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import Weights, probabilities, row_of, vectorised
from ppdinf.fiber.sums_given_totals.fourier import project, slope_of, turn
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import BEND, BEYOND, ORDER, REACH, Pieces, placed

MANY = 24  # smallest number of cells
DROP = 36.0  # frequencies are omitted if the characteristic function is below exp(-DROP)
FREQUENCIES = 64  # largest number of frequencies
ENOUGH = 1e-10  # accepted relative error of the coefficient
SLOPES = np.arange(1.0, ORDER + 1.0)


@vectorised
def values_and_means(pieces: Pieces, number: NDArray, by: NDArray, value: NDArray, mean: NDArray) -> None:
    """Compute K and its derivative for every cell with a piece."""
    table = pieces.table
    for i in range(number.size):
        at, x = number[i], by[i]
        if at >= 0:
            k, slope = table[at, ORDER - 1], 0.0
            for r in range(ORDER - 2, -1, -1):
                slope = slope * x + k
                k = k * x + table[at, r]
            value[i], mean[i] = k, slope


@vectorised
def _moved(pieces: Pieces, number: NDArray, by: NDArray, c: NDArray) -> None:
    """Compute the Taylor coefficients of all cells at their natural parameters."""
    table = pieces.table
    for i in range(number.size):
        piece, out, x = table[number[i]], c[i], by[i]
        for r in range(ORDER):
            out[r] = piece[r]
        for r in range(ORDER - 1):
            value = out[ORDER - 1]
            for k in range(ORDER - 2, r - 1, -1):
                value = out[k] + x * value
                out[k] = value


@vectorised
def _highest(pieces: Pieces, number: NDArray) -> float:
    """Return the frequency above which the product over all cells except one is negligible."""
    d, total = number.size, 0.0
    bend, reach = np.empty(d), np.empty(d)
    for i in range(d):
        bend[i], reach[i] = pieces.table[number[i], BEND], pieces.table[number[i], REACH]
        total += bend[i]
    u = math.sqrt(2.0 * DROP / total) if total > 0.0 else np.pi
    for _ in range(60):
        fall = most = 0.0
        for i in range(d):
            part = 0.5 * bend[i] * min(u, reach[i]) ** 2
            fall += part
            most = max(most, part)
        if fall - most >= DROP:
            return u
        u *= 1.1
        if u >= np.pi:
            break
    return np.pi


@vectorised
def _short(pieces: Pieces, number: NDArray, highest: float) -> int:
    """Count the cells whose pieces do not cover a frequency."""
    short = 0
    for i in range(number.size):
        short += pieces.table[number[i], REACH] < highest
    return short


@vectorised
def _log_mgf(total: NDArray, rate: float) -> float:
    value = 0.0
    for r in range(ORDER - 1, 1, -1):
        value = value * rate + total[r]
    return value * rate * rate


@vectorised
def by_cumulants(w: Weights, pieces: Pieces, cells: NDArray, target: int, mean: NDArray) -> float:
    """Return the log coefficient of one block and write the posterior means of its cells, or return nan."""
    d, tilt, near = cells.size, 0.0, False
    number, by, c = np.empty(d, np.int64), np.empty(d), np.empty((d, ORDER))
    gap = spread = highest = 0.0
    for _ in range(12):
        if placed(pieces, w, cells, tilt, number, by) > 0:
            return np.nan
        highest = _highest(pieces, number)
        if 4 * _short(pieces, number, highest) > d:
            return np.nan
        _moved(pieces, number, by, c)
        gap, spread = 1.0 * target, 0.0
        for i in range(d):
            gap -= c[i, 1]
            spread += 2.0 * c[i, 2]
        near = abs(gap) <= 2.0 * math.sqrt(spread)
        if near:
            break
        tilt += gap / spread
    if not near:
        return np.nan
    sd = math.sqrt(spread)
    # remainders of small cells are weighted by the product over all cells; large cells have separate functions
    enough = 0.1 * ENOUGH / d * (math.e * spread / ORDER) ** (ORDER // 2)
    total, beyond, value, large, apart = np.zeros(ORDER), 0.0, 0.0, np.empty(d, np.int64), 0
    for i in range(d):
        piece = pieces.table[number[i]]
        if piece[REACH] < highest or piece[BEYOND] > enough:
            large[apart] = i
            apart += 1
        else:
            beyond += piece[BEYOND]
            for r in range(ORDER):
                total[r] += c[i, r]
    if 4 * apart > d:
        return np.nan
    wide = np.empty(apart, np.int64)
    for a in range(apart):
        wide[a] = cells[large[a]]
    rows, value = probabilities(w, wide, tilt)
    room, widest = target, 0
    for a in range(apart):
        room -= rows.first[a]
        widest = max(widest, row_of(rows, a).size)
    gap = room - total[1]
    rate = min(9.0 / sd, highest)
    if beyond * rate**ORDER > 0.1:
        return np.nan
    need = 0.0
    for sign in (-1.0, 1.0):  # the sum is counted modulo N: Chernoff bounds on both sides
        log_mgf = _log_mgf(total, sign * rate) - sign * rate * gap
        for a in range(apart):
            row, mgf = row_of(rows, a), 0.0
            for k in range(row.size):
                mgf += row[k] * math.exp(sign * rate * k)
            log_mgf += math.log(mgf)
        need = max(need, (log_mgf + DROP + math.log1p(sd)) / rate)
    if not need < 1e9:
        return np.nan
    modulus = int(need) + 1
    count = min(int(highest * modulus / (2.0 * np.pi)), modulus // 2)
    if count > FREQUENCIES:
        return np.nan
    real, imaginary = np.empty((apart, count)), np.empty((apart, count))  # characteristic functions of large cells
    here_real, here_imaginary = np.empty(count), np.empty(count)  # characteristic function of the sum at the total
    moment = np.zeros(ORDER)
    moment[0] = probability = 1.0 / modulus
    lost = 4.0 * math.exp(-DROP)
    cosine, sine = np.ones((count, widest)), np.zeros((count, widest))
    for j in range(count):
        u = 2.0 * np.pi * (j + 1) / modulus
        size = 1
        while size < widest:
            turn(cosine[j], sine[j], size, math.cos(u * size), math.sin(u * size))
            size *= 2
        square, log_size, phase = u * u, 0.0, 0.0
        for r in range(ORDER - 2, 0, -2):  # (iu)^r is real for even r
            log_size = total[r] - square * log_size
            phase = total[r + 1] - square * phase
        log_size, phase = -square * log_size, -square * u * phase - u * gap
        weight = (1.0 if 2 * (j + 1) == modulus else 2.0) / modulus * math.exp(log_size)
        x, y = weight * math.cos(phase), weight * math.sin(phase)
        here_real[j], here_imaginary[j] = x, y
        for a in range(apart):
            phi = project(row_of(rows, a), cosine[j], sine[j])
            real[a, j], imaginary[a, j] = phi.real, phi.imag
            x, y = x * phi.real - y * phi.imag, x * phi.imag + y * phi.real
        probability += x
        lost += math.sqrt(x * x + y * y) * math.expm1(beyond * square ** (ORDER // 2))
        for r in range(0, ORDER, 2):
            moment[r] += x
            moment[r + 1] -= u * y
            x, y = -square * x, -square * y
    error = lost + 1e-15 * math.sqrt(d) * (count + 1.0) / modulus
    if not probability * ENOUGH > error:
        return np.nan
    for r in range(ORDER):
        moment[r] *= (r + 1.0) / probability
    for i in range(d):
        part = 0.0
        for r in range(ORDER - 1):
            part += c[i, r + 1] * moment[r]
        mean[i] = part
    if apart:
        _of_large(rows, large, real, imaginary, here_real, here_imaginary, cosine, sine, modulus, probability, mean)
    return value + total[0] + math.log(probability) - tilt * target


@vectorised
def _of_large(  # type: ignore[no-untyped-def]
    rows, large, real, imaginary, here_real, here_imaginary, cosine, sine, modulus, probability, mean
) -> None:
    """Write the posterior means of cells with separate characteristic functions, from the product of the others."""
    apart, count = real.shape[0], here_real.size
    if apart == 0:
        return
    after_real, after_imaginary = np.ones((apart + 1, count)), np.zeros((apart + 1, count))
    for a in range(apart - 1, -1, -1):
        for j in range(count):
            x, y = after_real[a + 1, j], after_imaginary[a + 1, j]
            after_real[a, j] = x * real[a, j] - y * imaginary[a, j]
            after_imaginary[a, j] = x * imaginary[a, j] + y * real[a, j]
    for a in range(apart):
        row, part = row_of(rows, a), 0.0
        for k in range(row.size):
            part += k * row[k]
        part /= modulus
        for j in range(count):
            before, b = here_real[j], here_imaginary[j]
            x, y = after_real[a + 1, j], after_imaginary[a + 1, j]
            part += slope_of(row, cosine[j], sine[j], before * x - b * y, before * y + b * x)
            here_real[j] = before * real[a, j] - b * imaginary[a, j]
            here_imaginary[j] = before * imaginary[a, j] + b * real[a, j]
        mean[large[a]] = rows.first[a] + part / probability
