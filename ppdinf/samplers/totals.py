r"""Sums of independent windowed integers, given their totals.

Cell ``i`` holds an integer ``x_i`` with weight ``w_i(x_i)`` on a finite window; a block is a set of cells
whose sum ``s`` is public.  Here are, per block, the coefficient ``log sum_{x: sum x = s} prod_i w_i(x_i)``,
its gradient (the posterior marginals of the cells, by Fisher's identity) and exact draws of ``x``.

Coefficient.  Tilt every cell by the same ``exp(t x)`` until the mean of the sum is near ``s`` [1]_; then
``log coefficient = sum_i log Z_i(t) - t s + log P_t(S = s)`` for whatever ``t``, without cancellation.
``P_t(S = s)`` is the mean of the characteristic function over ``N`` equispaced frequencies [2]_, and three
bounds say how little of it has to be computed:

* ``N`` frequencies count ``S`` modulo ``N``: Chernoff's inequality on both sides of ``s`` bounds what is
  counted too much, and about ``9 sd(S)`` frequencies are enough;
* ``|phi_i(u)| <= V_i / |2 sin(u/2)|`` with ``V_i`` the total variation of the cell's probabilities (sum by
  parts), so high frequencies are dropped unseen;
* any other frequency is dropped as soon as the product of the cells taken so far, without its smallest
  factor (a gradient lacks one factor), is negligible.

Some 13 frequencies are left whatever the number of cells and the width of the windows; weights on a
sublattice or far-apart modes leave more.  Where ``P_t(S = s)`` is too small for its error bound the sum is
done over by convolution of logarithms: slow, and right to rounding.

Draws.  All cells but the widest are drawn from their tilted probabilities; the widest completes the total
and is accepted in proportion to its probability there, after about ``sd(S) / sd(widest)`` attempts.  Should
these run out (far-apart modes), backward sampling through the convolution replaces them.  Both are exact.

References
----------
.. [1] H. E. Daniels, "Saddlepoint approximations in statistics", Ann. Math. Statist. 25 (1954).
.. [2] L. N. Trefethen, J. A. C. Weideman, "The exponentially convergent trapezoidal rule", SIAM Review
   56 (2014).
"""

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf.errors import InvariantError, ModelError

__all__ = ["draw", "log_coefficient", "marginals"]

_jit = numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"}
)

CHUNK = 32  # neighbouring entries of a row that share one peak
NODES = 16  # frequencies handled together, so that their cosines stay in cache
SLACK = 12.0  # tilt, in logarithms across a window, after which windows are cut anew
NO_RATE = -1e100  # stands for a natural parameter of -inf: only x = 0 has weight

# -- windows: the entries that matter -------------------------------------------------------------------


@_jit
def peaks(logw: NDArray) -> NDArray:
    """Largest entry of every ``CHUNK`` neighbours in a row; nan where one is nan or +inf."""
    d, width = logw.shape
    peak = np.full((d, (width + CHUNK - 1) // CHUNK), -np.inf)
    for i in range(d):
        for k in range(width):
            value = logw[i, k]
            if not value < np.inf:
                peak[i, k // CHUNK] = np.nan
            elif value > peak[i, k // CHUNK]:
                peak[i, k // CHUNK] = value
    return peak


@_jit
def _bound(peak: NDArray, slope: float, chunk: int, width: int) -> float:
    last = min((chunk + 1) * CHUNK, width) - 1
    return peak[chunk] + max(slope * (chunk * CHUNK), slope * last)


@_jit
def _window(row: NDArray, peak: NDArray, slope: float, cut: float) -> tuple[int, int]:
    """First and last k with ``row[k] + slope k`` within ``cut`` of the maximum; (0, -1) with a nan."""
    width, chunks = row.size, peak.size
    best, highest, top = 0, -np.inf, -np.inf
    for chunk in range(chunks):
        bound = _bound(peak, slope, chunk, width)
        if not bound < np.inf:
            return 0, -1
        if bound > highest:
            best, highest = chunk, bound
    for turn in range(-1, chunks):  # the most promising chunk first; it settles most others
        chunk = best if turn < 0 else turn
        if _bound(peak, slope, chunk, width) > top:
            for k in range(chunk * CHUNK, min((chunk + 1) * CHUNK, width)):
                top = max(top, row[k] + slope * k)
    floor = max(top - cut, -1.7e308)  # an infinite cut keeps every positive weight
    first, last = 0, width - 1
    while _bound(peak, slope, first // CHUNK, width) < floor:
        first += CHUNK
    while row[first] + slope * first < floor:
        first += 1
    while _bound(peak, slope, last // CHUNK, width) < floor:
        last -= last % CHUNK + 1
    while row[last] + slope * last < floor:
        last -= 1
    return first, last


@_jit
def _entries(
    logw: NDArray, peak: NDArray, slope: NDArray, cells: NDArray, tilt: float, cut: float
) -> tuple[NDArray, NDArray, NDArray]:
    """Windows of the tilted cells and their log weights, rows joined end to end from ``start[i]``."""
    d = cells.size
    first, start = np.empty(d, np.int64), np.zeros(d + 1, np.int64)
    for i in range(d):
        cell = cells[i]
        first[i], last = _window(logw[cell], peak[cell], slope[cell] + tilt, cut)
        start[i + 1] = start[i] + last - first[i] + 1
    entry = np.empty(start[d])
    for i in range(d):
        out, row, rate = entry[start[i] : start[i + 1]], logw[cells[i]], slope[cells[i]] + tilt
        for k in range(out.size):
            out[k] = row[first[i] + k] + rate * (first[i] + k)
    return first, start, entry


@_jit
def _normalise(entry: NDArray) -> float:
    """Log weights of one cell to probabilities, in place; the logarithm of their sum."""
    top, mass = -np.inf, 0.0
    for k in range(entry.size):
        top = max(top, entry[k])
    for k in range(entry.size):
        entry[k] = np.exp(entry[k] - top)
        mass += entry[k]
    for k in range(entry.size):
        entry[k] /= mass
    return top + np.log(mass) if entry.size else np.nan


@_jit
def _probabilities(
    logw: NDArray, peak: NDArray, slope: NDArray, cells: NDArray, tilt: float
) -> tuple[NDArray, NDArray, NDArray, float]:
    """Windows, probabilities and the sum of log normalisers of the tilted cells (nan with a nan weight)."""
    cut = 40.0 + np.log(1.0 * cells.size * logw.shape[1]) + SLACK  # all that is cut off: < exp(-40)
    first, start, p = _entries(logw, peak, slope, cells, tilt, cut)
    log_z = 0.0
    for i in range(cells.size):
        log_z += _normalise(p[start[i] : start[i + 1]])
    return first, start, p, log_z


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
def _edge(logw: NDArray, slope: NDArray, cells: NDArray, side: int) -> tuple[NDArray, int, float]:
    """First (side 1) or last (side -1) possible offset of every cell, their sum and their log weight."""
    edge, reach, log_z = np.empty(cells.size, np.int64), 0, 0.0
    for i in range(cells.size):
        row = logw[cells[i]]
        k = 0 if side > 0 else row.size - 1
        while 0 <= k < row.size and row[k] == -np.inf:
            k += side
        if not 0 <= k < row.size:
            return edge, side * 2**62, -np.inf  # a cell without any weight: no total is within reach
        edge[i] = k
        reach += k
        log_z += row[k] + slope[cells[i]] * k
    return edge, reach, log_z


@_jit
def _tilted(
    logw: NDArray, peak: NDArray, slope: NDArray, cells: NDArray, target: int
) -> tuple[NDArray, NDArray, NDArray, NDArray, float, float]:
    """Probabilities of the cells, tilted until their sum has a mean within sd/4 of the target.

    Safeguarded Newton iteration; any tilt is right, a near one is fast.  ``log_z`` is the sum of the log
    normalisers: -inf for a total out of reach, nan for weights that are nan or +inf.
    """
    d = cells.size
    var, tilt, low, high = np.zeros(d), 0.0, -np.inf, np.inf
    for side in (1, -1):
        edge, reach, log_z = _edge(logw, slope, cells, side)
        if side * (target - reach) < 0:
            return edge, np.zeros(d + 1, np.int64), np.empty(0), var, tilt, -np.inf
        if target == reach:
            return edge, np.arange(d + 1), np.ones(d), var, tilt, log_z
    first, start, p, log_z = _probabilities(logw, peak, slope, cells, tilt)
    cut_at = tilt
    for _ in range(200):
        gap, spread, widest = 1.0 * target, 0.0, 0
        for i in range(d):
            row = p[start[i] : start[i + 1]]
            mean, var[i] = _moments(row)
            gap -= first[i] + mean
            spread += var[i]
            widest = max(widest, row.size)
        if not abs(gap) > 0.25 * np.sqrt(spread) + 1e-9 or np.isnan(log_z):
            break
        low, high = (tilt, high) if gap > 0 else (low, tilt)
        step = min(max(gap / spread, -2.0 - abs(tilt)), 2.0 + abs(tilt))
        if not low < tilt + step < high:
            step = 0.5 * (low + high) - tilt
        tilt += step
        if abs(tilt - cut_at) * widest > SLACK:
            first, start, p, log_z = _probabilities(logw, peak, slope, cells, tilt)
            cut_at = tilt
        else:
            power = _powers(step, widest)
            for i in range(d):
                row, mass = p[start[i] : start[i + 1]], 0.0
                for k in range(row.size):
                    row[k] *= power[k]
                    mass += row[k]
                for k in range(row.size):
                    row[k] /= mass
                log_z += step * first[i] + np.log(mass)
    return first, start, p, var, tilt, log_z


# -- the characteristic function ------------------------------------------------------------------------


@_jit
def _modulus(p: NDArray, start: NDArray, room: int, sd: float) -> int:
    """N such that S counted modulo N is at ``room`` only when it is ``room`` (Chernoff, both sides)."""
    d = start.size - 1
    span, widest = p.size - d, 0
    for i in range(d):
        widest = max(widest, start[i + 1] - start[i])
    rate, need = 9.0 / sd, 0.0
    for sign in (-1.0, 1.0):
        power, log_mgf = _powers(sign * rate, widest), -sign * rate * room
        for i in range(d):
            row, mgf = p[start[i] : start[i + 1]], 0.0
            for k in range(row.size):
                mgf += row[k] * power[k]
            log_mgf += np.log(mgf)
        need = max(need, (log_mgf + 40.0 + np.log1p(sd)) / rate)
        if not need < span:  # also where a power overflows
            return span + 1
    return int(need) + 1


@_jit
def _frequencies(p: NDArray, start: NDArray, modulus: int, drop: float) -> int:
    """J such that total variation rules out all frequencies j = J+1 .. N/2."""
    d = start.size - 1
    log_v = np.empty(d)
    for i in range(d):
        row = p[start[i] : start[i + 1]]
        variation = row[0] + row[row.size - 1]
        for k in range(row.size - 1):
            variation += abs(row[k + 1] - row[k])
        log_v[i] = np.log(variation)
    below, above = 0, modulus // 2 + 1  # the bound falls with j: bisect
    while above - below > 1:
        j = (below + above) // 2
        chord = np.log(2.0 * np.sin(np.pi * j / modulus))
        least = bound = 0.0
        for i in range(d):
            log_phi = min(0.0, log_v[i] - chord)
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
def _spread(row: NDArray, cosine: NDArray, sine: NDArray, z: complex) -> None:
    real, imaginary = z.real, z.imag
    for k in range(row.size):
        row[k] += real * cosine[k] - imaginary * sine[k]


@_jit
def _characteristic(
    p: NDArray, start: NDArray, var: NDArray, room: int
) -> tuple[float, float, NDArray]:
    """P(S = room), its relative error bound, and P(S - k_i = room - k) next to every entry p_i(k)."""
    d = start.size - 1
    spread, widest = 0.0, 0
    for i in range(d):
        spread += var[i]
        widest = max(widest, start[i + 1] - start[i])
    sd = np.sqrt(spread)
    drop = 1e-17 / (1.0 + sd)
    modulus = _modulus(p, start, room, sd)
    count = _frequencies(p, start, modulus, drop)
    order = np.argsort(var)[::-1]  # wide cells leave the fewest frequencies to the others
    root_cosine, root_sine = np.ones(modulus), np.zeros(modulus)
    size = 1
    while size < modulus:
        angle = 2.0 * np.pi * size / modulus
        _turn(root_cosine, root_sine, size, np.cos(angle), np.sin(angle))
        size *= 2
    cosine, sine = np.ones((NODES, widest)), np.zeros((NODES, widest))
    phi, suffix = np.empty((d, NODES), np.complex128), np.ones(d + 1, np.complex128)
    alive, product, smallest = np.empty(NODES, np.int64), np.empty(NODES), np.empty(NODES)
    rest = np.full(p.size, 1.0 / modulus)
    probability = kept = 1.0 / modulus
    for base in range(1, count + 1, NODES):
        left = min(NODES, count + 1 - base)
        for j in range(left):
            alive[j], product[j], smallest[j] = j, 1.0, 1.0
            size = 1
            while size < widest:
                m = ((base + j) * size) % modulus
                _turn(cosine[j], sine[j], size, root_cosine[m], root_sine[m])
                size *= 2
        for i in order:
            row, n, left = p[start[i] : start[i + 1]], left, 0
            for a in range(n):
                j = alive[a]
                phi[i, j] = _project(row, cosine[j], sine[j])
                length = abs(phi[i, j])
                product[j] *= max(length, smallest[j])
                smallest[j] = min(length, smallest[j])
                if product[j] > drop:
                    alive[left] = j
                    left += 1
        for a in range(left):
            j = alive[a]
            m = ((base + j) * room) % modulus
            weight = (1.0 if 2 * (base + j) == modulus else 2.0) / modulus
            kept += weight
            for i in range(d - 1, -1, -1):
                suffix[i] = phi[i, j] * suffix[i + 1]
            prefix = weight * complex(root_cosine[m], -root_sine[m])
            probability += (prefix * suffix[0]).real
            for i in range(d):
                _spread(rest[start[i] : start[i + 1]], cosine[j], sine[j], prefix * suffix[i + 1])
                prefix *= phi[i, j]
    error = 1e-16 / (1.0 + sd) + 1e-15 * np.sqrt(d) * kept  # dropped and counted too much; rounding
    return probability, error / abs(probability), rest


# -- convolution of logarithms, and both together -------------------------------------------------------


@_jit
def _convolved(entry: NDArray, start: NDArray, room: int, backward: bool) -> NDArray:
    """Log weights of sums 0..room over the first (backward: last) i cells, i = 0..d; (d+1, room+1)."""
    d = start.size - 1
    partial = np.full((d + 1, room + 1), -np.inf)
    partial[0, 0] = 0.0
    for i in range(d):
        cell = d - 1 - i if backward else i
        row = entry[start[cell] : start[cell + 1]]
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
def _exact(
    logw: NDArray, peak: NDArray, slope: NDArray, cells: NDArray, target: int, tilt: float, log_z: float
) -> tuple[float, NDArray, NDArray, NDArray, NDArray]:
    """Tilted log coefficient, windows, entries and partial sums, whatever the weights."""
    for cut in (200.0, np.inf):
        first, start, entry = _entries(logw, peak, slope, cells, tilt, cut)
        room = target
        for i in range(cells.size):
            room -= first[i]
        partial = _convolved(entry, start, max(room, 0), False)
        value = partial[cells.size, room] if room >= 0 else -np.inf
        if value > log_z + 60.0 - cut:  # what was cut off is negligible
            break
    return value, first, start, entry, partial


@_jit
def _block(
    logw: NDArray, peak: NDArray, slope: NDArray, cells: NDArray, target: int
) -> tuple[float, NDArray, NDArray, NDArray]:
    """Log coefficient of one block, and the cells' windows with their posterior probabilities."""
    d = cells.size
    first, start, p, var, tilt, log_z = _tilted(logw, peak, slope, cells, target)
    if not log_z > -np.inf:
        return log_z, first, np.zeros(d + 1, np.int64), p
    room = target
    for i in range(d):
        room -= first[i]
    probability, error, rest = _characteristic(p, start, var, room)
    value = log_z + np.log(probability)
    if probability > 0 and error < 1e-10:
        for k in range(p.size):
            p[k] = max(p[k] * rest[k], 0.0)
    else:
        value, first, start, p, partial = _exact(logw, peak, slope, cells, target, tilt, log_z)
        if value == -np.inf:
            return value, first, np.zeros(d + 1, np.int64), p
        room = partial.shape[1] - 1
        after = _convolved(p, start, room, True)
        for i in range(d):
            for k in range(start[i + 1] - start[i]):
                mass = 0.0
                for a in range(room - k + 1):
                    both = partial[i, a] + after[d - 1 - i, room - k - a]
                    mass += np.exp(both + p[start[i] + k] - value)
                p[start[i] + k] = mass
    for i in range(d):
        row, mass = p[start[i] : start[i + 1]], 0.0
        for k in range(row.size):
            mass += row[k]
        for k in range(row.size):
            row[k] /= mass
    return value - tilt * target, first, start, p


@_jit
def _grouped(block: NDArray, totals: int) -> tuple[NDArray, NDArray]:
    """Cells in the order of their blocks, and where each block starts; free cells (-1) come last."""
    start, order = np.zeros(totals + 3, np.int64), np.empty(block.size, np.int64)
    for i in range(block.size):
        start[(block[i] if block[i] >= 0 else totals) + 2] += 1
    for b in range(totals + 1):
        start[b + 2] += start[b + 1]
    for i in range(block.size):
        b = (block[i] if block[i] >= 0 else totals) + 1
        order[start[b]] = i
        start[b] += 1
    return order, start


@_jit
def evaluate(
    logw: NDArray, eta: NDArray, peak: NDArray, lo: NDArray, block: NDArray, total: NDArray, as_means: bool
) -> tuple[NDArray, NDArray]:
    """Log coefficients (one per total, then all free cells); posterior means (d, 1) or marginals (d, W)."""
    order, bounds = _grouped(block, total.size)
    value, slope = np.zeros(total.size + 1), np.empty(eta.size)
    out = np.zeros((eta.size, 1 if as_means else logw.shape[1]))
    for i in range(eta.size):
        slope[i] = NO_RATE if eta[i] < NO_RATE else eta[i]
    b, at = 0, 0
    while b < total.size or at < order.size:
        is_free = b == total.size
        cells = order[at : at + 1] if is_free else order[bounds[b] : bounds[b + 1]]
        if is_free:
            first, start, p, part = _probabilities(logw, peak, slope, cells, 0.0)
        else:
            target = total[b]
            for i in cells:
                target -= lo[i]
            part, first, start, p = _block(logw, peak, slope, cells, target)
        for n in range(cells.size):
            i = cells[n]
            part += slope[i] * lo[i]
            for k in range(start[n + 1] - start[n]):
                if as_means:
                    out[i, 0] += p[start[n] + k] * (lo[i] + first[n] + k)
                else:
                    out[i, first[n] + k] = p[start[n] + k]
        value[b] += -np.inf if abs(part) > -0.5 * NO_RATE else part
        at = at + 1 if is_free else bounds[b + 1]
        b = b if is_free else b + 1
    return value, out
