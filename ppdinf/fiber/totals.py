r"""Sums of independent windowed integers, given their totals.

Cell ``i`` holds an integer ``x_i`` with weight ``w_i(x_i)`` on a finite window; a block is a set of cells
whose sum ``s`` is public.  Here are, per block, the coefficient ``log sum_{x: sum x = s} prod_i w_i(x_i)``,
its gradient (the posterior marginals of the cells, by Fisher's identity) and exact draws of ``x``.

Coefficient.  Tilt every cell by the same ``exp(t x)`` until the mean of the sum is within two sd of ``s``
[1]_; then ``log coefficient = sum_i log Z_i(t) - t s + log P_t(S = s)`` for any ``t``, without cancellation.
``P_t(S = s)`` is the mean of the characteristic function over ``N`` equispaced frequencies [2]_, and three
bounds say how little of it has to be computed:

* ``N`` frequencies count ``S`` modulo ``N``: Chernoff's inequality on both sides of ``s`` bounds what is
  counted too much, and about ``9 sd(S)`` frequencies are enough;
* ``|phi_i(u)| <= V_i / |2 sin(u/2)|^m`` with ``V_i`` the sum of absolute m-th differences of the cell's
  probabilities, m = 1, 2 (summation by parts), so high frequencies are dropped unseen;
* any other frequency is dropped as soon as the product of the cells taken so far, without its smallest
  factor (a gradient lacks one factor), is negligible.

Some 15 to 30 frequencies are left whatever the number of cells and the width of the windows; weights on a
sublattice or far-apart modes leave more.  Where many cells share a sum, these frequencies are so low that a
dozen moments give a cell's characteristic function and its slope (for posterior means), with a remainder that
Taylor's formula bounds.  Where ``P_t(S = s)`` is too small for its error bound the sum is
done over by convolution of logarithms: slow, and right to rounding.

Draws.  All cells but the widest are drawn from their tilted probabilities; the widest completes the total
and is accepted in proportion to its probability there, after about ``sd(S) / sd(widest)`` attempts.  Should
these run out (far-apart modes), backward sampling through the convolution replaces them.  Both are exact
up to double precision.

One long file on purpose: numba's cache looks for changes in the caller's file alone, so kernels that call
each other across files would run as they were before an edit.

References
----------
.. [1] H. E. Daniels, "Saddlepoint approximations in statistics", Ann. Math. Statist. 25 (1954).
.. [2] L. N. Trefethen, J. A. C. Weideman, "The exponentially convergent trapezoidal rule", SIAM Review
   56 (2014).
"""

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf._compiled import jit
from ppdinf.errors import InvariantError, ModelError

__all__ = ["draw", "log_coefficient", "marginals"]

_jit = jit(error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
_in_order = jit(error_model="numpy")  # where rounding is arranged by hand

CHUNK = 16  # neighbouring entries of a row under one line, its lid
NODES = 16  # frequencies handled together, so that their cosines stay in cache
ORDER = 12  # of the moments that stand for a cell with a small share in the sum; even
FEW = 40  # cells, among which none has a small share


class _Weights(NamedTuple):
    """Cell i has log weight ``logw[row[i], k] + slope[i] k`` at offset k; ``lid`` is ``lids(logw)``."""

    logw: NDArray
    lid: NDArray
    row: NDArray
    slope: NDArray


class _Rows(NamedTuple):
    """Windows of some cells: entries ``p[start[i] : start[i + 1]]`` belong to offsets from ``first[i]``."""

    first: NDArray
    start: NDArray
    p: NDArray


@_jit
def _row(rows: _Rows, i: int) -> NDArray:
    return rows.p[rows.start[i] : rows.start[i + 1]]


@_jit
def _room(rows: _Rows, target: int) -> int:
    room = target
    for i in range(rows.first.size):
        room -= rows.first[i]
    return room


# -- windows: the entries that matter -------------------------------------------------------------------


@_jit
def lids(logw: NDArray) -> NDArray:
    """Lay a line over every ``CHUNK`` neighbours of a row: heights at their first entry, then slopes (d, 2 chunks).

    Height -inf where they have no weight, nan where one is nan or +inf.
    """
    d, width = logw.shape
    chunks = (width + CHUNK - 1) // CHUNK
    lid = np.zeros((d, 2 * chunks))
    for i in range(d):
        for chunk in range(chunks):
            start, stop = chunk * CHUNK, min((chunk + 1) * CHUNK, width)
            first, last, height = stop, start, -np.inf
            for k in range(start, stop):
                if logw[i, k] > -np.inf:
                    first, last = min(first, k), k
            if last > first:
                lid[i, chunks + chunk] = (logw[i, last] - logw[i, first]) / (last - first)
            for k in range(start, stop):
                value = logw[i, k] - lid[i, chunks + chunk] * (k - start)
                height = value if value > height else height
                if not logw[i, k] < np.inf:
                    height = np.nan
                    break
            lid[i, chunk] = height
    return lid


@_jit
def _window(row: NDArray, lid: NDArray, slope: float, cut: float, bound: NDArray) -> tuple[int, int]:
    """First and last k with ``row[k] + slope k`` within ``cut`` of the maximum, or slightly more.

    (0, -1) where no entry has weight, the whole row (and so a nan later) where one is nan or +inf.
    """
    width, chunks = row.size, bound.size
    for chunk in range(chunks):
        bound[chunk] = lid[chunk] + slope * (chunk * CHUNK) + max((lid[chunks + chunk] + slope) * (CHUNK - 1), 0.0)
    best, highest, finite, top = 0, -np.inf, True, -np.inf
    for chunk in range(chunks):
        finite &= bound[chunk] < np.inf
        if bound[chunk] > highest:
            best, highest = chunk, bound[chunk]
    if not finite:
        return 0, width - 1
    if highest == -np.inf:
        return 0, -1
    for k in range(best * CHUNK, min((best + 1) * CHUNK, width)):  # the maximum is here, or not much higher
        top = max(top, row[k] + slope * k)
    floor = max(top - cut, -1.7e308)  # an infinite cut keeps every positive weight
    first, last = 0, chunks - 1
    while bound[first] < floor:
        first += 1
    while bound[last] < floor:
        last -= 1
    first, last = first * CHUNK, min((last + 1) * CHUNK, width) - 1
    while row[first] + slope * first < floor:
        first += 1
    while row[last] + slope * last < floor:
        last -= 1
    return first, last


@_jit
def _log_rows(w: _Weights, cells: NDArray, tilt: float, cut: float) -> _Rows:
    """Windows of the tilted cells, filled with their log weights."""
    d = cells.size
    first, start, bound = np.empty(d, np.int64), np.zeros(d + 1, np.int64), np.empty(w.lid.shape[1] // 2)
    for i in range(d):
        cell = cells[i]
        first[i], last = _window(w.logw[w.row[cell]], w.lid[w.row[cell]], w.slope[cell] + tilt, cut, bound)
        start[i + 1] = start[i] + last - first[i] + 1
    rows = _Rows(first, start, np.empty(start[d]))
    for i in range(d):
        out, row, rate = _row(rows, i), w.logw[w.row[cells[i]]], w.slope[cells[i]] + tilt
        for k in range(out.size):
            out[k] = row[first[i] + k] + rate * (first[i] + k)
    return rows


@_in_order
def _exp(x: float) -> float:
    """exp(x) for x <= 0 to one rounding, 0 below -700, in operations that vectorise (np.exp does not)."""
    y = max(x, -700.0)
    n = np.floor(y * 1.4426950408889634 + 0.5)
    r = (y - n * 6.93147180369123816490e-1) - n * 1.90821492927058770002e-10  # ln 2 in two parts
    s = 1.0 / 39916800 + r * (1.0 / 479001600 + r / 6227020800.0)
    s = 1.0 / 40320 + r * (1.0 / 362880 + r * (1.0 / 3628800 + r * s))
    s = 1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040 + r * s))
    s = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * s))))
    power = np.int64((np.int64(n) + 1023) << 52).view(np.float64)
    return 0.0 if x < -700.0 else s * power


@_jit
def _normalise(entry: NDArray) -> float:
    """Log weights of one cell to probabilities, in place; the logarithm of their sum."""
    top, mass = -np.inf, 0.0
    for k in range(entry.size):
        top = max(top, entry[k])
    for k in range(entry.size):
        entry[k] = _exp(entry[k] - top)
        mass += entry[k]
    for k in range(entry.size):
        entry[k] /= mass
    return top + np.log(mass) if entry.size else -np.inf


@_jit
def _probabilities(w: _Weights, cells: NDArray, tilt: float) -> tuple[_Rows, float]:
    """Probabilities of the tilted cells and the sum of their log normalisers (nan with a nan weight)."""
    cut = 34.0 + np.log(1.0 * cells.size * w.logw.shape[1])  # all that is cut off: < exp(-34)
    rows, log_z = _log_rows(w, cells, tilt, cut), 0.0
    for i in range(cells.size):
        log_z += _normalise(_row(rows, i))
    return rows, log_z


# -- tilting --------------------------------------------------------------------------------------------


@_jit
def _powers(log_ratio: float, size: int) -> NDArray:
    power, ratio = np.empty(size), np.exp(log_ratio)
    power[0] = 1.0
    for k in range(1, size):
        power[k] = power[k - 1] * ratio
    return power


@_jit
def _moments(p: NDArray) -> tuple[float, float]:
    mean = square = 0.0
    for k in range(p.size):
        mean += k * p[k]
        square += k * k * p[k]
    return mean, max(square - mean * mean, 0.0)


@_jit
def _edge(w: _Weights, cells: NDArray, side: int) -> tuple[NDArray, int, float]:
    """First (side 1) or last (side -1) possible offset of every cell, their sum and their log weight."""
    edge, reach, log_z = np.empty(cells.size, np.int64), 0, 0.0
    for i in range(cells.size):
        row, lid = w.logw[w.row[cells[i]]], w.lid[w.row[cells[i]]]
        chunks = lid.size // 2
        chunk = 0 if side > 0 else chunks - 1
        while 0 <= chunk < chunks and lid[chunk] == -np.inf:
            chunk += side
        if not 0 <= chunk < chunks:
            return edge, side * 2**62, -np.inf  # a cell without any weight: no total is within reach
        k = chunk * CHUNK if side > 0 else min((chunk + 1) * CHUNK, row.size) - 1
        while row[k] == -np.inf:
            k += side
        edge[i] = k
        reach += k
        log_z += row[k] + w.slope[cells[i]] * k
    return edge, reach, log_z


@_jit
def _tilted(w: _Weights, cells: NDArray, target: int) -> tuple[_Rows, NDArray, NDArray, float, float]:
    """Cells tilted until their sum has a mean within two sd of the target: rows, means, variances, tilt, log_z.

    Safeguarded Newton iteration; any tilt is right, a near one is fast.  ``log_z`` is the sum of the log
    normalisers: -inf for a total out of reach, nan for weights that are nan or +inf.
    """
    d = cells.size
    mean, var, tilt, low, high = np.zeros(d), np.zeros(d), 0.0, -np.inf, np.inf
    rows, log_z = _probabilities(w, cells, tilt)
    room = _room(rows, target)
    if not 0 < room < rows.p.size - d or log_z == -np.inf:  # entries that were cut off may reach the target
        for side in (1, -1):
            edge, reach, log_edge = _edge(w, cells, side)
            if side * (target - reach) < 0:
                return _Rows(edge, np.zeros(d + 1, np.int64), np.empty(0)), mean, var, tilt, -np.inf
            if target == reach:
                return _Rows(edge, np.arange(d + 1), np.ones(d)), mean, var, tilt, log_edge
    for _ in range(200):
        gap, spread = 1.0 * _room(rows, target), 0.0
        for i in range(d):
            mean[i], var[i] = _moments(_row(rows, i))
            gap -= mean[i]
            spread += var[i]
        if not abs(gap) > 2.0 * np.sqrt(spread) + 1e-9 or np.isnan(log_z):
            break
        low, high = (tilt, high) if gap > 0 else (low, tilt)
        step = min(max(gap / spread, -2.0 - abs(tilt)), 2.0 + abs(tilt))
        if not low < tilt + step < high:
            step = 0.5 * (low + high) - tilt
        tilt += step
        rows, log_z = _probabilities(w, cells, tilt)
    return rows, mean, var, tilt, log_z


# -- the characteristic function ------------------------------------------------------------------------


@_jit
def _modulus(rows: _Rows, room: int, sd: float) -> int:
    """N such that S counted modulo N is at ``room`` only when it is ``room`` (Chernoff, both sides)."""
    d, widest = rows.first.size, 0
    for i in range(d):
        widest = max(widest, _row(rows, i).size)
    span = rows.p.size - d
    rate, need = 9.0 / sd, 0.0
    for sign in (-1.0, 1.0):
        power, log_mgf = _powers(sign * rate, widest), -sign * rate * room
        for i in range(d):
            row, mgf = _row(rows, i), 0.0
            for k in range(row.size):
                mgf += row[k] * power[k]
            log_mgf += np.log(mgf)
        reach = (log_mgf + 30.0 + np.log1p(sd)) / rate
        if not reach < span:  # also where a power overflows
            return span + 1
        need = max(need, reach)
    return int(need) + 1


@_jit
def _frequencies(rows: _Rows, modulus: int, drop: float) -> int:
    """J such that total variation rules out all frequencies j = J+1 .. N/2."""
    d = rows.first.size
    log_v, log_w = np.empty(d), np.empty(d)
    for i in range(d):
        row = _row(rows, i)
        n = row.size
        slopes, bends = row[0] + row[n - 1], row[0] + row[n - 1]
        bends += abs(row[min(1, n - 1)] - 2.0 * row[0]) + abs(row[max(n - 2, 0)] - 2.0 * row[n - 1])
        for k in range(n - 1):
            slopes += abs(row[k + 1] - row[k])
        for k in range(n - 2):
            bends += abs(row[k + 2] - 2.0 * row[k + 1] + row[k])
        log_v[i], log_w[i] = np.log(slopes), np.log(bends)
    below, above = 0, modulus // 2 + 1  # the bound falls with j: bisect
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


@_jit
def _turn(cosine: NDArray, sine: NDArray, size: int, c: float, s: float) -> None:
    """Entries ``size`` to ``2 size`` of exp(iuk) from those before, by one rotation."""
    n = min(size, cosine.size - size)
    cos_in, sin_in, cos_out, sin_out = cosine[:n], sine[:n], cosine[size : size + n], sine[size : size + n]
    for k in range(n):
        cos_out[k] = cos_in[k] * c - sin_in[k] * s
        sin_out[k] = cos_in[k] * s + sin_in[k] * c


@_jit
def _project(row: NDArray, cosine: NDArray, sine: NDArray) -> complex:
    real = imaginary = 0.0
    for k in range(row.size):
        real += row[k] * cosine[k]
        imaginary += row[k] * sine[k]
    return complex(real, imaginary)


@_jit
def _slope(row: NDArray, cosine: NDArray, sine: NDArray, real: float, imaginary: float) -> float:
    mean = 0.0
    for k in range(row.size):
        mean += k * row[k] * (real * cosine[k] - imaginary * sine[k])
    return mean


@_jit
def _spread(row: NDArray, cosine: NDArray, sine: NDArray, real: float, imaginary: float) -> None:
    for k in range(row.size):
        row[k] += real * cosine[k] - imaginary * sine[k]


class _Small(NamedTuple):
    """Moments ``moment[i, r] = E (k_i - center[i])^r / r!``, and whether they serve as E exp(iuk).

    Taylor's formula leaves out at most ``moment[i, ORDER] u^ORDER``.
    """

    center: NDArray
    moment: NDArray
    serve: NDArray


@_jit
def _small(rows: _Rows, mean: NDArray, var: NDArray, spread: float, widest: int) -> _Small:
    d = var.size
    small = _Small(np.zeros(d, np.int64), np.ones((d, ORDER + 1)), np.zeros(d, np.bool_))
    # weighted by the product over all cells, about exp(-spread u^2 / 2), all that is left out is negligible
    enough = 1e-10 / d * (math.e * spread / ORDER) ** (ORDER // 2)
    power = np.ones((ORDER + 1, 2 * widest + 1))  # k^r / r! for k = -widest..widest
    for r in range(1, ORDER + 1):
        part, before, out = 1.0 / r, power[r - 1], power[r]
        for k in range(out.size):
            out[k] = part * (k - widest) * before[k]
    for i in range(d):
        row, center, moment = _row(rows, i), int(mean[i] + 0.5), small.moment[i]
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


@_jit
def _series(c: NDArray, u: NDArray, real: NDArray, imaginary: NDArray) -> None:
    """Sum of ``c[r] (iu)^r`` over r below ORDER, at all frequencies u; written out so that it vectorises."""
    c0, c2, c4, c6, c8, c10 = c[0], c[2], c[4], c[6], c[8], c[10]
    c1, c3, c5, c7, c9, c11 = c[1], c[3], c[5], c[7], c[9], c[11]
    for j in range(NODES):
        s = u[j] * u[j]
        real[j] = c0 - s * (c2 - s * (c4 - s * (c6 - s * (c8 - s * c10))))
        imaginary[j] = u[j] * (c1 - s * (c3 - s * (c5 - s * (c7 - s * (c9 - s * c11)))))


@_jit
def _multiply(
    real: NDArray, imaginary: NDArray, more: float, beyond: NDArray, product: NDArray, smallest: NDArray, least: NDArray
) -> None:
    """Multiply squared sizes of a small cell's series, enlarged by what it leaves out, into the products."""
    for j in range(NODES):
        square = real[j] * real[j] + imaginary[j] * imaginary[j]
        least[j] = min(least[j], square)
        square += more * beyond[j]
        product[j] *= max(square, smallest[j])
        smallest[j] = min(square, smallest[j])


@_jit
def _wide_first(var: NDArray, spread: float) -> NDArray:
    """Cells in an order that leaves the fewest frequencies to most of them."""
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


@_jit
def _characteristic(
    rows: _Rows, mean: NDArray, var: NDArray, room: int, as_means: bool
) -> tuple[float, float, _Rows, NDArray]:
    """P(S = room), its relative error bound, and what Fisher's identity needs.

    That is E[k_i; S = room] (``as_means``), or else P(S - k_i = room - k) in the place of every p_i(k).
    """
    d, spread, widest = var.size, 0.0, 0
    if not 0 <= room <= rows.p.size - d:  # within reach only of entries that were cut off
        return 0.0, np.inf, rows, mean
    for i in range(d):
        spread += var[i]
        widest = max(widest, _row(rows, i).size)
    sd = np.sqrt(spread)
    drop = 1e-13 / (1.0 + sd)
    modulus = _modulus(rows, room, sd)
    count = _frequencies(rows, modulus, drop)
    order = _wide_first(var, spread)
    root_cosine, root_sine = np.ones(modulus), np.zeros(modulus)
    size = 1
    while size < modulus:
        angle = 2.0 * np.pi * size / modulus
        _turn(root_cosine, root_sine, size, np.cos(angle), np.sin(angle))
        size *= 2
    cosine, sine = np.ones((NODES, widest)), np.zeros((NODES, widest))
    real, imaginary = np.zeros((d, NODES)), np.zeros((d, NODES))  # of the characteristic functions of cells
    after_real, after_imaginary = np.ones((d + 1, NODES)), np.zeros((d + 1, NODES))  # of products over cells i..d
    small = _Small(order, real, np.zeros(d, np.bool_))
    if as_means and d > FEW:
        small = _small(rows, mean, var, spread, widest)
    alive, product, smallest, least = np.empty(NODES, np.int64), np.ones(NODES), np.ones(NODES), np.ones(NODES)
    u, beyond, g, h = np.empty(NODES), np.empty(NODES), np.empty(NODES), np.empty(NODES)
    slope, slope_real, slope_imaginary = np.empty(ORDER), np.empty(NODES), np.empty(NODES)
    rest = _Rows(rows.first, rows.start, np.full(0 if as_means else rows.p.size, 1.0 / modulus))
    means = mean / modulus
    probability = kept = 1.0 / modulus
    lost = 2e-13 / (1.0 + sd) + 2e-15  # frequencies dropped, sums counted too much, windows cut
    for base in range(1, count + 1, NODES):
        left, shift, remainder = min(NODES, count + 1 - base), 0, 0.0
        for j in range(NODES):
            u[j] = 2.0 * np.pi * (base + j) / modulus
            alive[j], product[j], smallest[j], least[j], beyond[j] = j, 1.0, 1.0, 1.0, u[j] ** ORDER
        highest = beyond[left - 1]
        for j in range(left):
            size = 1
            while size < widest:
                m = ((base + j) * size) % modulus
                _turn(cosine[j], sine[j], size, root_cosine[m], root_sine[m])
                size *= 2
        for cell in order:
            if left == 0:
                break
            if small.serve[cell] and highest * small.moment[cell, ORDER] < 0.05:
                moment = small.moment[cell]
                _series(moment, u, real[cell], imaginary[cell])
                _multiply(real[cell], imaginary[cell], 3.0 * moment[ORDER], beyond, product, smallest, least)
                shift += small.center[cell]
                remainder += moment[ORDER]
            else:
                for a in range(left):
                    j = alive[a]
                    phi = _project(_row(rows, cell), cosine[j], sine[j])
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
        for i in range(d - 1, -1, -1):
            for j in range(NODES):
                x, y = after_real[i + 1, j], after_imaginary[i + 1, j]
                after_real[i, j] = x * real[i, j] - y * imaginary[i, j]
                after_imaginary[i, j] = x * imaginary[i, j] + y * real[i, j]
        before_real, before_imaginary, part = np.zeros(NODES), np.zeros(NODES), 0.0
        for a in range(left):
            j = alive[a]
            m = ((base + j) * (room - shift)) % modulus
            weight = (1.0 if 2 * (base + j) == modulus else 2.0) / modulus
            before_real[j], before_imaginary[j] = weight * root_cosine[m], -weight * root_sine[m]
            part += before_real[j] * after_real[0, j] - before_imaginary[j] * after_imaginary[0, j]
            kept += weight
            share = weight * np.sqrt(after_real[0, j] ** 2 + after_imaginary[0, j] ** 2)
            lost += share * np.expm1(remainder * beyond[j] / np.sqrt(least[j]))
        probability += part
        for i in range(d):
            for j in range(NODES):  # all but cell i
                x, y = after_real[i + 1, j], after_imaginary[i + 1, j]
                g[j] = before_real[j] * x - before_imaginary[j] * y
                h[j] = before_real[j] * y + before_imaginary[j] * x
            if small.serve[i] and highest * small.moment[i, ORDER] < 0.05:
                moment, tail = small.moment[i], small.center[i] * part
                for r in range(ORDER):
                    slope[r] = (r + 1) * moment[r + 1]
                _series(slope, u, slope_real, slope_imaginary)
                for j in range(NODES):
                    tail += g[j] * slope_real[j] - h[j] * slope_imaginary[j]
                means[i] += tail
            elif as_means:
                for a in range(left):
                    j = alive[a]
                    means[i] += _slope(_row(rows, i), cosine[j], sine[j], g[j], h[j])
            else:
                for a in range(left):
                    j = alive[a]
                    _spread(_row(rest, i), cosine[j], sine[j], g[j], h[j])
            for j in range(NODES):
                x, y = before_real[j], before_imaginary[j]
                before_real[j] = x * real[i, j] - y * imaginary[i, j]
                before_imaginary[j] = x * imaginary[i, j] + y * real[i, j]
    error = lost + 1e-15 * np.sqrt(d) * kept  # and rounding
    return probability, error / abs(probability), rest, means


# -- convolution of logarithms, and both together -------------------------------------------------------


@_jit
def _convolved(rows: _Rows, room: int, backward: bool) -> NDArray:
    """Log weights of sums 0..room over the first (backward: last) i cells, i = 0..d; (d+1, room+1)."""
    d = rows.first.size
    partial = np.full((d + 1, room + 1), -np.inf)
    partial[0, 0] = 0.0
    for i in range(d):
        row = _row(rows, d - 1 - i if backward else i)
        for a in range(room + 1):
            top, mass = -np.inf, 0.0
            for k in range(min(row.size, a + 1)):
                top = max(top, partial[i, a - k] + row[k])
            if top > -np.inf:
                for k in range(min(row.size, a + 1)):
                    mass += np.exp(partial[i, a - k] + row[k] - top)
                partial[i + 1, a] = top + np.log(mass)
    return partial


@_jit
def _exact(w: _Weights, cells: NDArray, target: int, tilt: float, log_z: float) -> tuple[float, _Rows, NDArray]:
    """Tilted log coefficient, log weights and forward partial sums, whatever the weights."""
    for cut in (200.0, np.inf):
        rows = _log_rows(w, cells, tilt, cut)
        room = _room(rows, target)
        partial = _convolved(rows, max(room, 0), False)
        value = partial[cells.size, room] if room >= 0 else -np.inf
        if value > log_z + 60.0 - cut:  # what was cut off is negligible
            break
    return value, rows, partial


@_jit
def _block(w: _Weights, cells: NDArray, target: int, as_means: bool) -> tuple[float, _Rows, NDArray]:
    """Log coefficient of one block, and the posterior probabilities of its cells or their means (``as_means``)."""
    d = cells.size
    rows, mean, var, tilt, log_z = _tilted(w, cells, target)
    if not log_z > -np.inf:
        return log_z, _Rows(rows.first, np.zeros(d + 1, np.int64), rows.p), mean
    probability, error, rest, mean = _characteristic(rows, mean, var, _room(rows, target), as_means)
    value = log_z + np.log(probability)
    if probability > 0 and error < 1e-9:
        if as_means:
            return value - tilt * target, rows, mean / probability
        for k in range(rows.p.size):
            rows.p[k] = max(rows.p[k] * rest.p[k], 0.0)
    else:
        value, rows, partial = _exact(w, cells, target, tilt, log_z)
        if value == -np.inf:
            return value, _Rows(rows.first, np.zeros(d + 1, np.int64), rows.p), mean
        room = _room(rows, target)
        after = _convolved(rows, room, True)
        for i in range(d):
            row = _row(rows, i)
            for k in range(row.size):
                mass = 0.0
                for a in range(room - k + 1):
                    mass += np.exp(partial[i, a] + after[d - 1 - i, room - k - a] + row[k] - value)
                row[k] = mass
    for i in range(d):
        row, mass, mean[i] = _row(rows, i), 0.0, 0.0
        for k in range(row.size):
            mass += row[k]
        for k in range(row.size):
            row[k] /= mass
            mean[i] += k * row[k]
    return value - tilt * target, rows, mean


@_jit
def _grouped(block: NDArray, totals: int, eta: NDArray) -> tuple[NDArray, NDArray]:
    """Cells in the order of their blocks, and where each block starts; free cells come last, empty ones are left out.

    A natural parameter of -inf leaves a cell nothing but 0.
    """
    start, order = np.zeros(totals + 3, np.int64), np.empty(block.size, np.int64)
    for i in range(block.size):
        if not -1 <= block[i] < totals:
            raise InvariantError("a block is neither the number of a total nor -1")
        start[(block[i] if block[i] >= 0 else totals) + 2] += 0 if eta[i] == -np.inf else 1
    for b in range(totals + 1):
        start[b + 2] += start[b + 1]
    for i in range(block.size):
        if eta[i] != -np.inf:
            b = (block[i] if block[i] >= 0 else totals) + 1
            order[start[b]] = i
            start[b] += 1
    return order[: start[totals + 1]], start


@_jit
def _at_zero(logw: NDArray, lo: int) -> float:
    """Log weight of 0 in a window that starts at `lo`."""
    return logw[-lo] if 0 <= -lo < logw.size else -np.inf


@_jit
def evaluate(
    logw: NDArray,
    eta: NDArray,
    lid: NDArray,
    row: NDArray,
    lo: NDArray,
    block: NDArray,
    total: NDArray,
    as_means: bool,
    value: NDArray,
    out: NDArray,
) -> None:
    """Add log coefficients to ``value`` (one per total, then all free cells), posteriors to ``out``.

    Cell i reads row ``row[i]`` of ``logw``. ``out`` takes posterior means (d, 1) or marginals (d, W); ``lid``
    is ``lids(logw)``, or without entries and found here.
    """
    if not row.size == eta.size == lo.size == block.size:
        raise ModelError("weights, natural parameters, lower ends and blocks differ in their number of cells")
    w = _Weights(logw, lid if lid.size else lids(logw), row, eta)
    order, bounds = _grouped(block, total.size, eta)
    for i in range(eta.size):
        if eta[i] == -np.inf:
            part = _at_zero(logw[row[i]], lo[i])
            value[block[i]] += part  # block -1 is the last entry, that of the free cells
            if not as_means and part > -np.inf:
                out[i, -lo[i]] = 1.0
    b, at = 0, 0
    while b < total.size or at < order.size:
        free = b == total.size
        cells = order[at : at + 1] if free else order[bounds[b] : bounds[b + 1]]
        if free:
            rows, part = _probabilities(w, cells, 0.0)
            mean = np.array([_moments(rows.p)[0]])
        else:
            target = total[b]
            for i in cells:
                target -= lo[i]
            part, rows, mean = _block(w, cells, target, as_means)
        possible = part > -np.inf
        for n in range(cells.size):
            i, p = cells[n], _row(rows, n)
            part += w.slope[i] * lo[i]
            if as_means and possible:
                out[i, 0] = lo[i] + rows.first[n] + mean[n]
            elif not as_means:
                out[i, rows.first[n] : rows.first[n] + p.size] = p
        value[b] += part
        at = at + 1 if free else bounds[b + 1]
        b += 0 if free else 1


def through_pointers(  # type: ignore[no-untyped-def]
    logw, eta, lid, row, lo, block, total, cells, different, width, chunks, n, as_means, value, out
) -> int:
    """:func:`evaluate` for callers in C; in this file, so that numba's cache sees changes of the kernels.

    0, and nothing is done, where a cell's block or row does not exist; else 1.
    """
    rows, blocks = numba.carray(row, (cells,)), numba.carray(block, (cells,))
    for i in range(cells):
        if not (0 <= rows[i] < different and -1 <= blocks[i] < n):
            return 0
    evaluate(
        numba.carray(logw, (different, width)),
        numba.carray(eta, (cells,)),
        numba.carray(lid, (different, chunks)),
        rows,
        numba.carray(lo, (cells,)),
        blocks,
        numba.carray(total, (n,)),
        as_means,
        numba.carray(value, (n + 1,)),
        numba.carray(out, (cells, 1 if as_means else width)),
    )
    return 1


# -- draws ----------------------------------------------------------------------------------------------


@_jit
def _invert(cdf: NDArray, u: float) -> int:
    low, high = 0, cdf.size - 1
    while low < high:
        middle = (low + high) // 2
        if u < cdf[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@_jit
def _cumulate(row: NDArray) -> None:
    for k in range(1, row.size):
        row[k] += row[k - 1]


@_jit
def _draw_block(w: _Weights, cells: NDArray, target: int, rng: np.random.Generator, out: NDArray) -> bool:
    """Offsets of the block's cells into ``out[:, cells]``; False if no table has this total."""
    d = cells.size
    rows, _, var, tilt, log_z = _tilted(w, cells, target)
    if not log_z > -np.inf:
        return False
    room, widest, top = _room(rows, target), 0, 0.0
    for i in range(d):
        widest = i if var[i] > var[widest] else widest
    own = _row(rows, widest).copy() if d else rows.p
    for k in range(own.size):
        top = max(top, own[k])
    for i in range(d):
        _cumulate(_row(rows, i))
    n, attempts = 0, 1000 + 10 * d
    while n < out.shape[0] and attempts > 0:
        rest = room
        for i in range(d):
            if i != widest:
                k = _invert(_row(rows, i), rng.random())
                out[n, cells[i]] = rows.first[i] + k
                rest -= k
        attempts -= 1
        if 0 <= rest < own.size and rng.random() * top < own[rest]:
            out[n, cells[widest]] = rows.first[widest] + rest
            n, attempts = n + 1, 1000 + 10 * d
    if n == out.shape[0]:
        return True
    value, rows, partial = _exact(w, cells, target, tilt, log_z)
    while n < out.shape[0] and value > -np.inf:
        rest = _room(rows, target)
        for i in range(d - 1, -1, -1):
            row, u, chosen = _row(rows, i), rng.random(), 0
            for k in range(min(row.size, rest + 1)):
                share = np.exp(partial[i, rest - k] + row[k] - partial[i + 1, rest])
                if share > 0.0 and u >= 0.0:
                    chosen = k
                u -= share
            out[n, cells[i]] = rows.first[i] + chosen
            rest -= chosen
        n += 1
    return value > -np.inf


@_jit
def _draw(
    logw: NDArray,
    eta: NDArray,
    lid: NDArray,
    lo: NDArray,
    block: NDArray,
    total: NDArray,
    rng: np.random.Generator,
    out: NDArray,
) -> int:
    """Tables into the rows of ``out``; -1, or the first block out of reach (the last for free cells)."""
    w = _Weights(logw, lid, np.arange(eta.size), eta)
    order, bounds = _grouped(block, total.size, eta)
    for i in range(eta.size):
        if eta[i] == -np.inf:
            out[:, i] = -lo[i]
            if not _at_zero(logw[i], lo[i]) > -np.inf:
                return block[i] if block[i] >= 0 else total.size
    for b in range(total.size):
        cells = order[bounds[b] : bounds[b + 1]]
        target = total[b]
        for i in cells:
            target -= lo[i]
        if not _draw_block(w, cells, target, rng, out):
            return b
    for at in range(bounds[total.size], order.size):
        rows, log_z = _probabilities(w, order[at : at + 1], 0.0)
        if not log_z > -np.inf:
            return total.size
        _cumulate(rows.p)
        for n in range(out.shape[0]):
            out[n, order[at]] = rows.first[0] + _invert(rows.p, rng.random())
    for n in range(out.shape[0]):
        for i in range(lo.size):
            out[n, i] += lo[i]
    return -1


# -- public ---------------------------------------------------------------------------------------------


def _integers(values: ArrayLike, name: str, size: int | None = None) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InvariantError(f"{name} must hold integers, not {array.dtype}; convert it without rounding")
    if array.dtype.kind == "u" and array.size and array.max() > 2**62:
        raise InvariantError(f"{name} holds integers beyond 2**62")
    array = np.atleast_1d(array)
    if size is not None and array.size == 1:
        array = np.repeat(array.ravel(), size)
    if array.ndim != 1 or size not in (None, array.size):
        raise InvariantError(f"{name} has shape {array.shape}; one entry per {'cell' if size else 'total'}")
    return np.ascontiguousarray(array, dtype=np.int64)


def _checked(
    logw: ArrayLike, lo: ArrayLike, total: ArrayLike, block: ArrayLike, eta: ArrayLike | None
) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    """Table (..., d, W), natural parameters (..., d), lower ends, blocks and totals, or a refusal."""
    table = np.ascontiguousarray(logw, dtype=np.float64)
    if table.ndim < 2 or table.shape[-1] == 0:
        raise ModelError(f"log weights have shape {table.shape}; (cells, window width) is needed")
    d = table.shape[-2]
    slope = np.ascontiguousarray(np.zeros(d) if eta is None else eta, dtype=np.float64)
    if slope.shape[-1:] != (d,):
        raise ModelError(f"eta has shape {slope.shape}; its last axis must have one entry per cell ({d})")
    ends, blocks, totals = _integers(lo, "lo", d), _integers(block, "block", d), _integers(total, "total")
    if blocks.size and not -1 <= blocks.min() <= blocks.max() < totals.size:
        raise InvariantError(f"block must name one of {totals.size} totals (from 0) or be -1 for a free cell")
    for name, bad in (("log weights", ~(table < np.inf).all(-1)), ("eta", ~(slope < np.inf))):
        if bad.any():
            raise ModelError(f"{name} of cell {np.argwhere(bad)[0][-1]} hold nan or +inf")
    return table, slope, ends, blocks, totals


def _evaluated(
    table: NDArray, slope: NDArray, ends: NDArray, blocks: NDArray, goal: NDArray, as_means: bool
) -> tuple[NDArray, NDArray]:
    if table.ndim != 2 or slope.ndim != 1:
        raise ModelError(f"weights of shape {table.shape} and eta of shape {slope.shape}: one table at a time")
    value, out = np.zeros(goal.size + 1), np.zeros((ends.size, 1 if as_means else table.shape[1]))
    evaluate(table, slope, np.empty((0, 0)), np.arange(ends.size), ends, blocks, goal, as_means, value, out)
    return value, out


def log_coefficient(
    logw: ArrayLike, *, lo: ArrayLike, total: ArrayLike, block: ArrayLike = 0, eta: ArrayLike | None = None
) -> NDArray[np.float64]:
    r"""Log of the total weight of all tables that have the given totals.

    For block ``b`` this is :math:`\log \sum_{x:\, \sum_{i \in b} x_i = s_b} \prod_{i \in b} w_i(x_i)` with
    ``w_i(x) = exp(logw[i, x - lo[i]] + eta[i] * x)``.

    Parameters
    ----------
    logw : array_like, shape (d, W)
        Log weights, -inf where a value is impossible (and as padding of shorter windows).
    lo : array_like of int, shape (d,) or ()
        The integer that column 0 of each row stands for.
    total : array_like of int, shape (n_totals,) or ()
        Public totals.
    block : array_like of int, shape (d,) or ()
        Which total a cell counts towards; -1 for none (a free cell).
    eta : array_like, shape (d,), optional
        Natural parameters, such as log rates of Poisson cells whose ``logw`` holds all but the rate.
        -inf stands for a rate of zero.

    Returns
    -------
    ndarray, shape (n_totals + 1,)
        One entry per total (-inf if no table has it), and last the sum over free cells of
        :math:`\log \sum_x w_i(x)`.

    Raises
    ------
    ModelError
        Weights or natural parameters of the wrong shape, nan or +inf.
    InvariantError
        Lower ends, totals or blocks that are not integers or do not fit the cells.

    Notes
    -----
    Relative error of the coefficient: about 1e-13, at most 1e-9 by the error bound of the method (a bound
    on what is left out, an estimate for rounding).  Time proportional to cells times effective window times
    some 15 to 30 frequencies: 25 us for 20 cells of 100 values, gradient included.  In blocks of hundreds of
    cells the gradient in ``eta`` takes half a microsecond a cell.  Far-apart modes cost
    more, and a total that hardly any table has costs cells times window times total (some 20 ms).

    Examples
    --------
    Three dice with a total of 10: 27 of 216 ways.

    >>> import numpy as np
    >>> from ppdinf.fiber import totals
    >>> dice = np.full((3, 6), -np.log(6))
    >>> round(float(216 * np.exp(totals.log_coefficient(dice, lo=1, total=10)[0])), 9)
    27.0
    """
    return _evaluated(*_checked(logw, lo, total, block, eta), as_means=True)[0]


def marginals(
    logw: ArrayLike, *, lo: ArrayLike, total: ArrayLike, block: ArrayLike = 0, eta: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Posterior probabilities of every cell given the totals, P(x_i = lo[i] + k | totals).

    They are also the gradient of :func:`log_coefficient` (summed over its entries) with respect to
    ``logw``, and their means the gradient with respect to ``eta``.

    Parameters
    ----------
    logw, lo, total, block, eta
        As for :func:`log_coefficient`, which also states errors raised, accuracy and cost.

    Returns
    -------
    ndarray, shape (d, W)
        Rows add up to 1; zeros in the rows of a block whose total is out of reach.

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.fiber import totals
    >>> coins = np.log([[0.5, 0.5], [0.9, 0.1]])
    >>> totals.marginals(coins, lo=0, total=1).round(3)  # one head: whose?
    array([[0.1, 0.9],
           [0.9, 0.1]])
    """
    return _evaluated(*_checked(logw, lo, total, block, eta), as_means=False)[1]


def draw(
    logw: ArrayLike,
    *,
    lo: ArrayLike,
    total: ArrayLike,
    block: ArrayLike = 0,
    eta: ArrayLike | None = None,
    draws: int = 1,
    rng: int | np.random.Generator | None = None,
) -> NDArray[np.int64]:
    """Exact independent draws of the cells given their totals.

    Parameters
    ----------
    logw : array_like, shape (d, W) or (n, d, W)
        Log weights as for :func:`log_coefficient`; with a leading axis, one table of weights per entry.
    lo, total, block
        As for :func:`log_coefficient`.
    eta : array_like, shape (d,) or (n, d), optional
        Natural parameters; with a leading axis, one set per entry (posterior draws of a rate, say).
    draws : int
        Draws per set of weights.
    rng : int or numpy.random.Generator, optional
        Research randomness (SPEC 7), not for releases.

    Returns
    -------
    ndarray of int64, shape (draws, d) or (n, draws, d)
        Every row has the given totals.

    Raises
    ------
    ModelError, InvariantError
        As for :func:`log_coefficient`; also when no table has a total.

    Notes
    -----
    Some 20 us to set up 20 cells of 100 values, then about ``sd(sum) / sd(widest cell)`` attempts of 15 ns
    per cell for each draw: 1.5 to 8 us for 20 cells.

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.fiber import totals
    >>> x = totals.draw(np.zeros((3, 6)), lo=1, total=10, draws=1000, rng=1)
    >>> x.shape, set(x.sum(axis=1).tolist())
    ((1000, 3), {10})
    """
    table, slope, ends, blocks, goal = _checked(logw, lo, total, block, eta)
    generator = np.random.default_rng(rng)
    lead = np.broadcast_shapes(table.shape[:-2], slope.shape[:-1])
    if len(lead) > 1:
        raise ModelError(f"weights of shape {table.shape} and eta of shape {slope.shape} have too many axes")
    out = np.empty((*lead, draws, ends.size), np.int64)
    repeats = lead[0] if lead else 1
    for n in range(repeats):
        if n == 0 or table.ndim == 3:
            rows = table[n % len(table)] if table.ndim == 3 else table
            lid = lids(rows)
        rates = slope[n % len(slope)] if slope.ndim == 2 else slope
        into = out[n] if lead else out
        missed = _draw(rows, rates, lid, ends, blocks, goal, generator, into)
        if missed == goal.size:
            raise ModelError("a cell outside every total has no value of positive weight: widen its window")
        if missed >= 0:
            raise InvariantError(
                f"no table has the total of block {missed}: widen the windows of its cells or check the total"
            )
    return out
