"""The probability of a sum of integers, as a mean over frequencies or by convolution.

If many cells share a sum, only low frequencies are relevant. Taylor's formula then gives the characteristic function of
a cell and its slope (for posterior means) from a dozen moments, with a bound on its remainder.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import (
    Weights,
    WindowRows,
    log_rows,
    normalise,
    row_of,
    slack_for,
    vectorised,
)

NODES = 16  # frequencies per batch, so that their cosines fit in the cache
ORDER = 12  # order of the moments of a cell with a small share in the sum; even


class Small(NamedTuple):
    """Moments ``moment[i, r] = E (k_i - center[i])^r / r!``, and whether they replace E exp(iuk)."""

    center: NDArray
    moment: NDArray
    serve: NDArray


@vectorised
def small_cells(rows: WindowRows, mean: NDArray, var: NDArray, spread: float, widest: int) -> Small:
    """Return the moments of all cells; ``widest`` is the longest row and ``spread`` the variance of the sum."""
    d = var.size
    small = Small(np.zeros(d, np.int64), np.ones((d, ORDER + 1)), np.zeros(d, np.bool_))
    # weighted by the product over all cells, about exp(-spread u^2 / 2), the remainders are negligible
    enough = 1e-10 / d * (math.e * spread / ORDER) ** (ORDER // 2)
    power = np.ones((ORDER + 1, 2 * widest + 1))  # k^r / r! for k = -widest..widest
    for r in range(1, ORDER + 1):
        part, before, out, at = 1.0 / r, power[r - 1], power[r], -1.0 * widest
        for k in range(out.size):
            out[k] = part * at * before[k]
            at += 1.0
    for i in range(d):
        row, center, moment = row_of(rows, i), int(mean[i] + 0.5), small.moment[i]
        moment[1] = mean[i] - center
        moment[2] = 0.5 * (var[i] + moment[1] ** 2)
        for r in range(3, ORDER, 2):
            one, two = power[r, widest - center :], power[r + 1, widest - center :]
            sum_one = sum_two = 0.0
            for k in range(row.size):
                sum_one += row[k] * one[k]
                sum_two += row[k] * two[k]
            moment[r], moment[r + 1] = sum_one, sum_two
        small.center[i] = center
        small.serve[i] = moment[ORDER] < enough
    return small


@vectorised
def by_series(small: Small, i: int, highest: float) -> bool:
    """Return whether moments replace a cell at frequencies with ``u^ORDER`` up to `highest`."""
    return small.serve[i] and highest * small.moment[i, ORDER] < 0.05


@vectorised
def series(c: NDArray, u: NDArray, real: NDArray, imaginary: NDArray) -> None:
    """Sum ``c[r] (iu)^r`` over r below ORDER at all frequencies u, in a vectorisable form."""
    c0, c2, c4, c6, c8, c10 = c[0], c[2], c[4], c[6], c[8], c[10]
    c1, c3, c5, c7, c9, c11 = c[1], c[3], c[5], c[7], c[9], c[11]
    for j in range(NODES):
        s = u[j] * u[j]
        real[j] = c0 - s * (c2 - s * (c4 - s * (c6 - s * (c8 - s * c10))))
        imaginary[j] = u[j] * (c1 - s * (c3 - s * (c5 - s * (c7 - s * (c9 - s * c11)))))


@vectorised
def multiply(
    real: NDArray, imaginary: NDArray, more: float, beyond: NDArray, product: NDArray, smallest: NDArray, least: NDArray
) -> None:
    """Multiply the squared sizes of a small cell's series, plus its remainder, into the products."""
    for j in range(NODES):
        square = real[j] * real[j] + imaginary[j] * imaginary[j]
        least[j] = min(least[j], square)
        square += more * beyond[j]
        product[j] *= max(square, smallest[j])
        smallest[j] = min(square, smallest[j])


FEW = 40  # number of cells up to which no cell has a small share


@vectorised
def _powers(log_ratio: float, size: int) -> NDArray:
    power, ratio = np.empty(size), np.exp(log_ratio)
    power[0] = 1.0
    for k in range(1, size):
        power[k] = power[k - 1] * ratio
    return power


@vectorised
def _modulus(rows: WindowRows, slack: int, sd: float) -> int:
    """Return N such that S modulo N equals ``slack`` only if S does, up to a negligible error (Chernoff bounds)."""
    d, widest = rows.first.size, 0
    for i in range(d):
        widest = max(widest, row_of(rows, i).size)
    span = rows.p.size - d
    rate, need = 9.0 / sd, 0.0
    for sign in (-1.0, 1.0):
        power, log_mgf = _powers(sign * rate, widest), -sign * rate * slack
        for i in range(d):
            row, mgf = row_of(rows, i), 0.0
            for k in range(row.size):
                mgf += row[k] * power[k]
            log_mgf += np.log(mgf)
        reach = (log_mgf + 30.0 + np.log1p(sd)) / rate
        if not reach < span:  # also if a power overflows
            return span + 1
        need = max(need, reach)
    return int(need) + 1


@vectorised
def _frequencies(rows: WindowRows, modulus: int, drop: float) -> int:
    """Return J such that summation by parts excludes all frequencies j = J+1 .. N/2."""
    d = rows.first.size
    log_v, log_w = np.empty(d), np.empty(d)
    for i in range(d):
        row = row_of(rows, i)
        n = row.size
        slopes, bends = row[0] + row[n - 1], row[0] + row[n - 1]
        bends += abs(row[min(1, n - 1)] - 2.0 * row[0]) + abs(row[max(n - 2, 0)] - 2.0 * row[n - 1])
        for k in range(n - 1):
            slopes += abs(row[k + 1] - row[k])
        for k in range(n - 2):
            bends += abs(row[k + 2] - 2.0 * row[k + 1] + row[k])
        log_v[i], log_w[i] = np.log(slopes), np.log(bends)
    below, above = 0, modulus // 2 + 1  # the bound decreases in j: bisection
    while above - below > 1:
        j = (below + above) // 2
        chord = np.log(2.0 * np.sin(np.pi * j / modulus))
        least = bound = 0.0
        for i in range(d):
            log_phi = min(0.0, log_v[i] - chord, log_w[i] - 2.0 * chord)
            bound += log_phi
            least = min(least, log_phi)
        if bound - least < np.log(drop):
            above = j
        else:
            below = j
    return below


@vectorised
def turn(cosine: NDArray, sine: NDArray, size: int, c: float, s: float) -> None:
    """Compute entries ``size`` to ``2 size`` of exp(iuk) from the previous entries by one rotation."""
    n = min(size, cosine.size - size)
    cos_in, sin_in, cos_out, sin_out = cosine[:n], sine[:n], cosine[size : size + n], sine[size : size + n]
    for k in range(n):
        cos_out[k] = cos_in[k] * c - sin_in[k] * s
        sin_out[k] = cos_in[k] * s + sin_in[k] * c


@vectorised
def _roots(modulus: int) -> tuple[NDArray, NDArray]:
    """Return cosines and sines of all N frequencies."""
    cosine, sine, size = np.ones(modulus), np.zeros(modulus), 1
    while size < modulus:
        angle = 2.0 * np.pi * size / modulus
        turn(cosine, sine, size, np.cos(angle), np.sin(angle))
        size *= 2
    return cosine, sine


@vectorised
def project(row: NDArray, cosine: NDArray, sine: NDArray) -> complex:
    """Return E exp(iuk) of a row from the cosines and sines of uk."""
    real = imaginary = 0.0
    for k in range(row.size):
        real += row[k] * cosine[k]
        imaginary += row[k] * sine[k]
    return complex(real, imaginary)


@vectorised
def slope_of(row: NDArray, cosine: NDArray, sine: NDArray, real: float, imaginary: float) -> float:
    """Return the real part of ``(real + i imaginary) E k exp(iuk)``."""
    mean = at = 0.0
    for k in range(row.size):
        mean += at * row[k] * (real * cosine[k] - imaginary * sine[k])
        at += 1.0
    return mean


@vectorised
def _spread(row: NDArray, cosine: NDArray, sine: NDArray, real: float, imaginary: float) -> None:
    for k in range(row.size):
        row[k] += real * cosine[k] - imaginary * sine[k]


@vectorised
def _wide_first(var: NDArray, spread: float) -> NDArray:
    """Return an order of the cells in which wide cells are first, so that frequencies are dropped early."""
    d = var.size
    order, wide, narrow = np.empty(d, np.int64), 0, d
    for i in range(d):
        if var[i] * d > spread:
            order[wide] = i
            wide += 1
        else:
            narrow -= 1
            order[narrow] = i
    return order


@vectorised
def inverted(
    rows: WindowRows, mean: NDArray, var: NDArray, slack: int, as_means: bool, by_moments: bool
) -> tuple[float, float, WindowRows, NDArray]:
    """Return P(S = slack), its relative error bound, and the terms of Fisher's identity."""
    d, spread, widest = var.size, 0.0, 0
    if not 0 <= slack <= rows.p.size - d:  # only truncated entries could give this total
        return 0.0, np.inf, rows, mean
    for i in range(d):
        spread += var[i]
        widest = max(widest, row_of(rows, i).size)
    # number of frequencies N, and the highest one that is needed
    sd = np.sqrt(spread)
    drop = 1e-13 / (1.0 + sd)
    modulus = _modulus(rows, slack, sd)
    count = _frequencies(rows, modulus, drop)
    if count > slack // 2:  # convolution takes less time
        return 0.0, np.inf, rows, mean
    order = _wide_first(var, spread)
    root_cosine, root_sine = _roots(modulus)
    cosine, sine = np.ones((NODES, widest)), np.zeros((NODES, widest))
    real, imaginary = np.zeros((d, NODES)), np.zeros((d, NODES))  # characteristic functions of cells
    after_real, after_imaginary = np.ones((d + 1, NODES)), np.zeros((d + 1, NODES))  # products over cells i..d
    small = Small(order, real, np.zeros(d, np.bool_))
    if by_moments and d > FEW:
        small = small_cells(rows, mean, var, spread, widest)
    alive, product, smallest, least = np.empty(NODES, np.int64), np.ones(NODES), np.ones(NODES), np.ones(NODES)
    u, beyond, g, h = np.empty(NODES), np.empty(NODES), np.empty(NODES), np.empty(NODES)
    slope, slope_real, slope_imaginary = np.empty(ORDER), np.empty(NODES), np.empty(NODES)
    rest = WindowRows(rows.first, rows.start, np.full(0 if as_means else rows.p.size, 1.0 / modulus))
    means = mean / modulus
    probability = kept = 1.0 / modulus
    lost = 2e-13 / (1.0 + sd) + 2e-15  # dropped frequencies, aliasing, truncated windows
    for base in range(1, count + 1, NODES):
        # a batch of frequencies: cosines and sines by doubling
        left, shift, remainder = min(NODES, count + 1 - base), 0, 0.0
        for j in range(NODES):
            u[j] = 2.0 * np.pi * (base + j) / modulus
            alive[j], product[j], smallest[j], least[j], beyond[j] = j, 1.0, 1.0, 1.0, u[j] ** ORDER
        highest = beyond[left - 1]
        for j in range(left):
            size = 1
            while size < widest:
                m = ((base + j) * size) % modulus
                turn(cosine[j], sine[j], size, root_cosine[m], root_sine[m])
                size *= 2
        # characteristic functions, wide cells first; frequencies with a negligible product are dropped
        for cell in order:
            if left == 0:
                break
            if by_series(small, cell, highest):
                moment = small.moment[cell]
                series(moment, u, real[cell], imaginary[cell])
                multiply(real[cell], imaginary[cell], 3.0 * moment[ORDER], beyond, product, smallest, least)
                shift += small.center[cell]
                remainder += moment[ORDER]
            else:
                for a in range(left):
                    j = alive[a]
                    phi = project(row_of(rows, cell), cosine[j], sine[j])
                    real[cell, j], imaginary[cell, j] = phi.real, phi.imag
                    square = phi.real**2 + phi.imag**2
                    product[j] *= max(square, smallest[j])
                    smallest[j] = min(square, smallest[j])
            lowest = 1.0
            for a in range(left):
                lowest = min(lowest, product[alive[a]])
            if lowest <= drop * drop:
                n, left = left, 0
                for a in range(n):
                    alive[left] = alive[a]
                    left += product[alive[a]] > drop * drop
        if left == 0:
            continue
        # products from the last cell backwards
        for i in range(d - 1, -1, -1):
            for j in range(NODES):
                x, y = after_real[i + 1, j], after_imaginary[i + 1, j]
                after_real[i, j] = x * real[i, j] - y * imaginary[i, j]
                after_imaginary[i, j] = x * imaginary[i, j] + y * real[i, j]
        before_real, before_imaginary, part = np.zeros(NODES), np.zeros(NODES), 0.0
        for a in range(left):
            j = alive[a]
            m = ((base + j) * (slack - shift)) % modulus
            weight = (1.0 if 2 * (base + j) == modulus else 2.0) / modulus
            before_real[j], before_imaginary[j] = weight * root_cosine[m], -weight * root_sine[m]
            part += before_real[j] * after_real[0, j] - before_imaginary[j] * after_imaginary[0, j]
            kept += weight
            share = weight * np.sqrt(after_real[0, j] ** 2 + after_imaginary[0, j] ** 2)
            lost += share * np.expm1(remainder * beyond[j] / np.sqrt(least[j]))
        probability += part
        for i in range(d):
            for j in range(NODES):  # product over all cells except i
                x, y = after_real[i + 1, j], after_imaginary[i + 1, j]
                g[j] = before_real[j] * x - before_imaginary[j] * y
                h[j] = before_real[j] * y + before_imaginary[j] * x
            if by_series(small, i, highest):
                moment, tail = small.moment[i], small.center[i] * part
                for r in range(ORDER):
                    slope[r] = (r + 1) * moment[r + 1]
                series(slope, u, slope_real, slope_imaginary)
                for j in range(NODES):
                    tail += g[j] * slope_real[j] - h[j] * slope_imaginary[j]
                means[i] += tail
            elif as_means:
                for a in range(left):
                    j = alive[a]
                    means[i] += slope_of(row_of(rows, i), cosine[j], sine[j], g[j], h[j])
            else:
                for a in range(left):
                    j = alive[a]
                    _spread(row_of(rest, i), cosine[j], sine[j], g[j], h[j])
            for j in range(NODES):
                x, y = before_real[j], before_imaginary[j]
                before_real[j] = x * real[i, j] - y * imaginary[i, j]
                before_imaginary[j] = x * imaginary[i, j] + y * real[i, j]
    error = lost + 1e-15 * np.sqrt(d) * kept  # and rounding
    return probability, error / abs(probability), rest, means


CUT = 200.0  # log weights this far below the maximum of a cell are omitted
TINY = 1e-200  # smaller probabilities of sums are omitted: their products would be subnormal numbers, which are slow


@vectorised
def _products(rows: WindowRows, slack: int, backward: bool) -> NDArray:
    """Return probabilities of sums 0..slack over the first (backward: last) i cells, i = 0..d; shape (d+1, slack+1)."""
    d = rows.first.size
    partial = np.zeros((d + 1, slack + 1))
    partial[0, 0] = 1.0
    for i in range(d):
        row, before, after = row_of(rows, d - 1 - i if backward else i), partial[i], partial[i + 1]
        for k in range(min(row.size, slack + 1)):
            for a in range(slack + 1 - k):
                after[a + k] += row[k] * before[a]
        for a in range(slack + 1):
            after[a] = after[a] if after[a] > TINY else 0.0
    return partial


@vectorised
def by_probabilities(
    w: Weights, cells: NDArray, target: int, tilt: float
) -> tuple[bool, float, WindowRows, WindowRows]:
    """Convolve the tilted cells forward and backward."""
    rows, log_z, d = log_rows(w, cells, tilt, CUT), 0.0, cells.size
    for i in range(d):
        log_z += normalise(row_of(rows, i))
    slack, rest = slack_for(rows, target), WindowRows(rows.first, rows.start, np.zeros(rows.p.size))
    if slack < 0:
        return False, -np.inf, rows, rest
    partial, after = _products(rows, slack, False), _products(rows, slack, True)
    after = after[:, ::-1].copy()  # entry a belongs to the sum slack - a
    for i in range(d):
        out, before, beyond = row_of(rest, i), partial[i], after[d - 1 - i]
        for k in range(min(out.size, slack + 1)):
            for a in range(slack + 1 - k):
                out[k] += before[a] * beyond[a + k]
    log_p = np.log(partial[d, slack])
    return log_p > 60.0 - CUT, log_z + log_p, rows, rest


@vectorised
def convolved(rows: WindowRows, slack: int, backward: bool) -> NDArray:
    """Return log weights of sums 0..slack over the first (backward: last) i cells, i = 0..d; shape (d+1, slack+1)."""
    d = rows.first.size
    partial = np.full((d + 1, slack + 1), -np.inf)
    partial[0, 0] = 0.0
    for i in range(d):
        row = row_of(rows, d - 1 - i if backward else i)
        for a in range(slack + 1):
            top, mass = -np.inf, 0.0
            for k in range(min(row.size, a + 1)):
                top = max(top, partial[i, a - k] + row[k])
            if top > -np.inf:
                for k in range(min(row.size, a + 1)):
                    mass += np.exp(partial[i, a - k] + row[k] - top)
                partial[i + 1, a] = top + np.log(mass)
    return partial


@vectorised
def by_convolution(
    w: Weights, cells: NDArray, target: int, tilt: float, log_z: float
) -> tuple[float, WindowRows, NDArray]:
    """Return the tilted log coefficient, log weights and forward partial sums, for all weights."""
    for cut in (CUT, np.inf):
        rows = log_rows(w, cells, tilt, cut)
        slack = slack_for(rows, target)
        partial = convolved(rows, max(slack, 0), False)
        value = partial[cells.size, slack] if slack >= 0 else -np.inf
        if value > log_z + 60.0 - cut:  # the truncated mass is negligible
            break
    return value, rows, partial
