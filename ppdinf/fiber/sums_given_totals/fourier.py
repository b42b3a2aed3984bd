"""The probability of a sum of integers, as a mean over frequencies or by convolution."""

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
    rows: WindowRows, mean: NDArray, var: NDArray, slack: int, as_means: bool
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
    alive, product, smallest = np.empty(NODES, np.int64), np.ones(NODES), np.ones(NODES)
    g, h = np.empty(NODES), np.empty(NODES)
    rest = WindowRows(rows.first, rows.start, np.full(0 if as_means else rows.p.size, 1.0 / modulus))
    means = mean / modulus
    probability = kept = 1.0 / modulus
    lost = 2e-13 / (1.0 + sd) + 2e-15  # dropped frequencies, aliasing, truncated windows
    for base in range(1, count + 1, NODES):
        # a batch of frequencies: cosines and sines by doubling
        left = min(NODES, count + 1 - base)
        for j in range(NODES):
            alive[j], product[j], smallest[j] = j, 1.0, 1.0
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
        before_real, before_imaginary = np.zeros(NODES), np.zeros(NODES)
        for a in range(left):
            j = alive[a]
            m = ((base + j) * slack) % modulus
            weight = (1.0 if 2 * (base + j) == modulus else 2.0) / modulus
            before_real[j], before_imaginary[j] = weight * root_cosine[m], -weight * root_sine[m]
            probability += before_real[j] * after_real[0, j] - before_imaginary[j] * after_imaginary[0, j]
            kept += weight
        for i in range(d):
            for j in range(NODES):  # product over all cells except i
                x, y = after_real[i + 1, j], after_imaginary[i + 1, j]
                g[j] = before_real[j] * x - before_imaginary[j] * y
                h[j] = before_real[j] * y + before_imaginary[j] * x
            if as_means:
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
