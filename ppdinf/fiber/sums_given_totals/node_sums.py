r"""Sums of cells of exponential families given their total, from the Gauss nodes of every cell.

As in :mod:`ppdinf.fiber.sums_given_totals.fourier`, the coefficient is a mean of products of characteristic functions
over N frequencies. The characteristic function of a cell is a sum over its nodes
(:mod:`ppdinf.fiber.sums_given_totals.gauss_nodes`). The cost of an evaluation is cells times nodes times about 15
frequencies, for every noise scale. Steps:

1. tilt all cells until the mean of their sum is near its total;
2. choose N by Chernoff's inequality; a convex function is below its interpolation, which bounds log normalizers;
3. choose the frequencies by the bounds of all pieces on higher frequencies;
4. sum products and their derivatives, which give the posterior means;
5. sum the bounds on all errors; if these are too large, return nan.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import Weights, exp_of, vectorised
from ppdinf.fiber.sums_given_totals.gauss_nodes import (
    CENTER,
    DECAY,
    ERROR,
    GRID,
    LEVEL,
    LEVELS,
    LOG_NORMALISER,
    LOG_Z,
    MARGIN,
    MIDDLE,
    NODE,
    NODES,
    STEP,
    STEPS,
    WEIGHT,
    NodePieces,
)

DROP = 32.0  # omitted frequencies and aliasing are below exp(-DROP) relative to the density at the mean
FREQUENCIES = 64  # largest number of frequencies
ENOUGH = 1e-11  # accepted relative error of the coefficient
RATES = 12  # largest number of rates of Chernoff's inequality
NEAR = 1.0  # largest distance of mean and total, in standard deviations of the sum


@vectorised
def waves(x: NDArray, u: float, largest: float, cosine: NDArray, sine: NDArray) -> None:
    """Compute cosines and sines of ``u x`` at nodes; ``|x|`` is at most `largest`."""
    # series of a halved angle, then repeated doubling
    halvings, angle = 0, u * largest
    while angle > 0.5:
        angle *= 0.5
        halvings += 1
    scale = u * 0.5**halvings
    for j in range(x.size):
        a = scale * x[j]
        t = a * a
        c = 1.0 - t / 132.0 * (1.0 - t / 182.0)
        c = 1.0 - t / 30.0 * (1.0 - t / 56.0 * (1.0 - t / 90.0 * c))
        cosine[j] = 0.5 * t * (1.0 - t / 12.0 * c)  # 1 - cos, which is accurate under doubling
        s = 1.0 - t / 110.0 * (1.0 - t / 156.0)
        sine[j] = a * (1.0 - t / 6.0 * (1.0 - t / 20.0 * (1.0 - t / 42.0 * (1.0 - t / 72.0 * s))))
    for _ in range(halvings):
        for j in range(x.size):
            c, s = cosine[j], sine[j]
            cosine[j] = 2.0 * s * s
            sine[j] = 2.0 * s * (1.0 - c)
    for j in range(x.size):
        cosine[j] = 1.0 - cosine[j]


@vectorised
def times(a: NDArray, b: NDArray, out: NDArray) -> None:
    """Multiply two rows of complex numbers."""
    n = a.size // 2
    for j in range(n):
        x, y, u, v = a[j], a[n + j], b[j], b[n + j]
        out[j] = x * u - y * v
        out[n + j] = x * v + y * u


@vectorised
def products(phi: NDArray) -> NDArray:
    """Return the products over the cells from each one on, shape (d + 1, 2 frequencies)."""
    d, n = phi.shape[0], phi.shape[1] // 2
    after = np.ones((d + 1, 2 * n))
    after[d, n:] = 0.0
    for i in range(d - 1, -1, -1):
        times(phi[i], after[i + 1], after[i])
    return after


@vectorised
def inverse(
    whole: NDArray, error: NDArray, modulus: int, room: int, count: int, before: NDArray
) -> tuple[float, float]:
    """Return the probability of a total and its error bound, from the product over cells and its relative errors."""
    # `before` receives the factors of the first `count` frequencies
    n, unit, total, lost = whole.size // 2, 2.0 * np.pi / modulus, 1.0 / modulus, 0.0
    before[:] = 0.0
    for k in range(count):
        weight = (1.0 if 2 * (k + 1) == modulus else 2.0) / modulus
        angle = unit * (((k + 1) * room) % modulus)
        before[k], before[n + k] = weight * math.cos(angle), -weight * math.sin(angle)
        total += before[k] * whole[k] - before[n + k] * whole[n + k]
        lost += weight * math.sqrt(whole[k] ** 2 + whole[n + k] ** 2) * error[k]
    return total, lost


@vectorised
def _placed(pieces: NodePieces, w: Weights, cells: NDArray, tilt: float, number: NDArray) -> bool:
    """Find the piece of every cell; return whether all cells have one."""
    start = pieces.start
    for i in range(cells.size):
        r, eta = w.row[cells[i]], w.slope[cells[i]] + tilt
        low, high = pieces.first[r], pieces.first[r + 1] - 1
        if not (low < high and start[low] <= eta < start[high]):
            return False
        while high - low > 1:
            middle = (low + high) // 2
            if start[middle] <= eta:
                low = middle
            else:
                high = middle
        if pieces.table[low, GRID] == 0.0:
            return False
        number[i] = low
    return True


@vectorised
def _weighed(piece: NDArray, s: float, p: NDArray) -> tuple[float, float, float]:
    """Compute node probabilities at distance s from the centre; return log normalizer, mean and second moment."""
    top, mass, mean, square = abs(s) * max(-piece[NODE], piece[NODE + NODES - 1]), 0.0, 0.0, 0.0
    for j in range(NODES):
        x = piece[NODE + j]
        part = piece[WEIGHT + j] * exp_of(s * x - top)
        p[j] = part
        mass += part
        mean += part * x
        square += part * x * x
    for j in range(NODES):
        p[j] /= mass
    return top + math.log(mass), mean / mass, square / mass


@vectorised
def _transformed(x: NDArray, p: NDArray, cosine: NDArray, sine: NDArray, phi: NDArray, slope: NDArray) -> None:
    """Compute ``E exp(iux)`` and ``E x exp(iux)`` at the multiples of a frequency, real parts first."""
    n, real, imaginary = phi.size // 2, p.copy(), np.zeros(NODES)
    for k in range(n):
        a = b = c = d = 0.0
        for j in range(NODES):
            re = real[j] * cosine[j] - imaginary[j] * sine[j]
            im = real[j] * sine[j] + imaginary[j] * cosine[j]
            real[j], imaginary[j] = re, im
            a += re
            b += im
            c += re * x[j]
            d += im * x[j]
        phi[k] = a
        phi[n + k] = b
        slope[k] = c
        slope[n + k] = d


@vectorised
def _modulus(table: NDArray, number: NDArray, s: NDArray, log_mass: NDArray, own: NDArray, small: float) -> float:
    """Return N such that sums that are N or more from their mean have a probability below ``exp(-small)``."""
    rate, least = np.inf, np.inf
    for n in number:
        rate = min(rate, MARGIN / (STEP * table[n, GRID]))
    for _ in range(RATES):
        log_mgf = np.zeros(2)
        for i in range(number.size):
            piece = table[number[i]]
            for side in range(2):
                signed = rate if side else -rate
                at = LEVELS + (s[i] + signed) * piece[LEVEL]
                g = min(max(int(at), 0), 2 * LEVELS - 1)
                low, high = piece[LOG_NORMALISER + g], piece[LOG_NORMALISER + g + 1]
                log_mgf[side] += low + (at - g) * (high - low) - log_mass[i] - signed * own[i]
        need = (small + max(log_mgf[0], log_mgf[1])) / rate
        if need > least:
            break
        least = need
        rate *= 0.75
    return least


@vectorised
def _highest(table: NDArray, number: NDArray, sd: float) -> float:
    """Return the frequency above which the product over all cells except one is below exp(-DROP); nan if unknown."""
    u = math.sqrt(2.0 * DROP) / sd
    while u < np.pi:
        fall = most = 0.0
        for i in range(number.size):
            grid = table[number[i], GRID]
            g = int(u * grid)
            part = table[number[i], DECAY + min(g, STEPS)]
            if g > STEPS and part > 0.0:  # a bound below 1 is a multiple of 1 / sin(u / 2) from there on
                part += math.log(math.sin(0.5 * u) / math.sin(0.5 * STEPS / grid))
            fall += part
            most = max(most, part)
        if fall - most >= DROP:
            return u
        u *= 1.05
    return np.pi


@vectorised
def by_nodes(w: Weights, pieces: NodePieces, cells: NDArray, target: int, mean: NDArray) -> float:
    """Return the log coefficient of one block and write the posterior means of its cells, or return nan."""
    d, table, tilt, near = cells.size, pieces.table, 0.0, False
    number, p, own, s, log_mass = np.empty(d, np.int64), np.empty((d, NODES)), np.empty(d), np.empty(d), np.empty(d)
    gap = spread = log_z = 0.0
    # 1. tilt the cells
    for _ in range(12):
        if not _placed(pieces, w, cells, tilt, number):
            return np.nan
        gap, spread, log_z = 1.0 * target, 0.0, 0.0
        for i in range(d):
            piece = table[number[i]]
            s[i] = w.slope[cells[i]] + tilt - piece[CENTER]
            log_mass[i], own[i], square = _weighed(piece, s[i], p[i])
            log_z += piece[LOG_Z] + s[i] * piece[MIDDLE] + log_mass[i]
            gap -= piece[MIDDLE] + own[i]
            spread += square - own[i] * own[i]
        near = abs(gap) <= NEAR * math.sqrt(spread)
        if near:
            break
        tilt += gap / spread
    if not near:
        return np.nan
    # 2. the number N of frequencies
    sd, room = math.sqrt(spread), target
    for n in number:
        room -= int(table[n, MIDDLE])
    small = DROP + math.log1p(sd)
    modulus = int(_modulus(table, number, s, log_mass, own, small) + abs(gap)) + 1
    # 3. the highest frequency
    highest = _highest(table, number, sd)
    count = min(int(highest * modulus / (2.0 * np.pi)), modulus // 2)
    if count > FREQUENCIES:
        return np.nan
    # 4. characteristic functions of all cells, and products over the cells from i on
    unit = 2.0 * np.pi / modulus
    phi, slope, smallest, error = np.empty((d, 2 * count)), np.empty((d, 2 * count)), np.ones(count), np.zeros(count)
    cosine, sine = np.empty(NODES), np.empty(NODES)
    for i in range(d):
        piece = table[number[i]]
        x = piece[NODE : NODE + NODES]
        waves(x, unit, max(-x[0], x[NODES - 1]), cosine, sine)
        _transformed(x, p[i], cosine, sine, phi[i], slope[i])
        for k in range(count):
            smallest[k] = min(smallest[k], phi[i, k] ** 2 + phi[i, count + k] ** 2)
            g = int(unit * (k + 1) * piece[GRID]) + 1
            error[k] += piece[ERROR + g] if g <= STEPS else 1.0
    after, before, others = products(phi), np.empty(2 * count), np.empty(2 * count)
    # inverse Fourier transform at the total, and 5. the error bound
    for k in range(count):
        error[k] = error[k] / math.sqrt(smallest[k]) + 1e-15 * math.sqrt(1.0 * d)
    total, lost = inverse(after[0], error, modulus, room, count, before)
    lost += 2.0 * math.exp(-small)
    if not total * ENOUGH > lost:
        return np.nan
    # posterior means from the products over all other cells
    for i in range(d):
        times(before, after[i + 1], others)
        part = own[i] / modulus
        for k in range(count):
            part += others[k] * slope[i, k] - others[count + k] * slope[i, count + k]
        mean[i] = table[number[i], MIDDLE] + part / total
        times(before, phi[i], others)
        before, others = others, before
    return log_z + math.log(total) - tilt * target
