"""Windows of cells, the integers with relevant weights, as probabilities, and their exponential tilting."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

vectorised = jit(error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})  # allows sums in any order
# for code that relies on the order of rounding: otherwise callers with fastmath would reorder it
_in_order = jit(error_model="numpy", forceinline=True, fastmath={"contract"})

CHUNK = 16  # neighbouring entries of a row below one line of the envelope


class Weights(NamedTuple):
    """Cell i has log weight ``logw[row[i], k] + slope[i] k`` at offset k; ``lid`` is ``upper_envelope(logw)``."""

    logw: NDArray
    lid: NDArray
    row: NDArray
    slope: NDArray


class WindowRows(NamedTuple):
    """Windows of cells: entries ``p[start[i] : start[i + 1]]`` belong to offsets from ``first[i]``."""

    first: NDArray
    start: NDArray
    p: NDArray


@vectorised
def row_of(rows: WindowRows, i: int) -> NDArray:
    """Return the entries of one cell as a view."""
    return rows.p[rows.start[i] : rows.start[i + 1]]


@vectorised
def slack_for(rows: WindowRows, target: int) -> int:
    """Return the total minus the first offsets of the windows of all cells."""
    room = target
    for i in range(rows.first.size):
        room -= rows.first[i]
    return room


@vectorised
def upper_envelope(logw: NDArray) -> NDArray:
    """Return a line above every ``CHUNK`` neighbours of a row: heights at the first, then slopes (d, 2 chunks)."""
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


@vectorised
def _window(row: NDArray, lid: NDArray, slope: float, cut: float, bound: NDArray) -> tuple[int, int]:
    """Return the first and last k with ``row[k] + slope k`` within ``cut`` of the maximum, or slightly more."""
    width, chunks = row.size, bound.size
    for chunk in range(chunks):
        steps = min(CHUNK, width - chunk * CHUNK) - 1
        bound[chunk] = lid[chunk] + slope * (chunk * CHUNK) + max((lid[chunks + chunk] + slope) * steps, 0.0)
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


@vectorised
def windows_of(w: Weights, cells: NDArray, tilt: float, cut: float) -> tuple[NDArray, NDArray]:
    """Return the first and last relevant offset of the tilted cells; neither decreases with slope or tilt."""
    first, last = np.empty(cells.size, np.int64), np.empty(cells.size, np.int64)
    bound = np.empty(w.lid.shape[1] // 2)
    for i in range(cells.size):
        row = w.row[cells[i]]
        first[i], last[i] = _window(w.logw[row], w.lid[row], w.slope[cells[i]] + tilt, cut, bound)
    return first, last


@vectorised
def rows_within(w: Weights, cells: NDArray, tilt: float, first: NDArray, last: NDArray) -> WindowRows:
    """Return the log weights of the tilted cells from a first to a last offset."""
    start = np.zeros(cells.size + 1, np.int64)
    for i in range(cells.size):
        start[i + 1] = start[i] + last[i] - first[i] + 1
    rows = WindowRows(first, start, np.empty(start[cells.size]))
    for i in range(cells.size):
        out, row, rate = row_of(rows, i), w.logw[w.row[cells[i]]], w.slope[cells[i]] + tilt
        at = 1.0 * first[i]
        for k in range(out.size):
            out[k] = row[first[i] + k] + rate * at
            at += 1.0
    return rows


@vectorised
def log_rows(w: Weights, cells: NDArray, tilt: float, cut: float) -> WindowRows:
    """Return windows of the tilted cells with their log weights."""
    first, last = windows_of(w, cells, tilt, cut)
    return rows_within(w, cells, tilt, first, last)


@vectorised
def relevant_cut(cells: int, width: int) -> float:
    """Return the distance from the largest log weight at which the truncated mass of all cells is below exp(-34)."""
    return 34.0 + np.log(1.0 * cells * width)


@_in_order
def exp_of(x: float) -> float:
    """Return exp(x) for x <= 0 within one rounding, 0 below -700, by vectorisable operations (unlike np.exp)."""
    y = max(x, -700.0)
    whole = y * 1.4426950408889634 + 6755399441055744.0  # 1.5 * 2^52: rounds, with the integer in the last bits
    n = whole - 6755399441055744.0
    r = (y - n * 6.93147180369123816490e-1) - n * 1.90821492927058770002e-10  # ln 2 in two parts
    s = 1.0 / 39916800 + r * (1.0 / 479001600 + r / 6227020800.0)
    s = 1.0 / 40320 + r * (1.0 / 362880 + r * (1.0 / 3628800 + r * s))
    s = 1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040 + r * s))
    s = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * s))))
    power = np.int64((np.float64(whole).view(np.int64) + 1023) << 52).view(np.float64)
    return 0.0 if x < -700.0 else s * power


@vectorised
def normalise(entry: NDArray) -> float:
    """Convert log weights of one cell to probabilities in place; return the logarithm of their sum."""
    top, mass = -np.inf, 0.0
    for k in range(entry.size):
        top = max(top, entry[k])
    if top == -np.inf:  # no count is possible, or a weight is nan
        for k in range(entry.size):
            top += entry[k]
        entry[:] = 0.0
        return top
    for k in range(entry.size):
        entry[k] = exp_of(entry[k] - top)
        mass += entry[k]
    for k in range(entry.size):
        entry[k] /= mass
    return top + np.log(mass)


@vectorised
def probabilities(w: Weights, cells: NDArray, tilt: float) -> tuple[WindowRows, float]:
    """Return probabilities of the tilted cells and the sum of their log normalisers (nan with a nan weight)."""
    rows, log_z = log_rows(w, cells, tilt, relevant_cut(cells.size, w.logw.shape[1])), 0.0
    for i in range(cells.size):
        log_z += normalise(row_of(rows, i))
    return rows, log_z


@vectorised
def moments(p: NDArray) -> tuple[float, float]:
    """Return mean and variance of the index of a row of probabilities."""
    mean = square = at = 0.0
    for k in range(p.size):
        mean += at * p[k]
        square += at * at * p[k]
        at += 1.0
    return mean, max(square - mean * mean, 0.0)


@vectorised
def _edge(w: Weights, cells: NDArray, side: int) -> tuple[NDArray, int, float]:
    """Return the first (side 1) or last (side -1) possible offset of every cell, their sum and their log weight."""
    edge, reach, log_z = np.empty(cells.size, np.int64), 0, 0.0
    for i in range(cells.size):
        row, lid = w.logw[w.row[cells[i]]], w.lid[w.row[cells[i]]]
        chunks = lid.size // 2
        chunk = 0 if side > 0 else chunks - 1
        while 0 <= chunk < chunks and lid[chunk] == -np.inf:
            chunk += side
        if not 0 <= chunk < chunks:
            return edge, side * 2**62, -np.inf  # a cell with total weight 0: no total is possible
        k = chunk * CHUNK if side > 0 else min((chunk + 1) * CHUNK, row.size) - 1
        while row[k] == -np.inf:
            k += side
        edge[i] = k
        reach += k
        log_z += row[k] + w.slope[cells[i]] * k
    return edge, reach, log_z


@vectorised
def tilted(w: Weights, cells: NDArray, target: int) -> tuple[WindowRows, NDArray, NDArray, float, float]:
    """Tilt cells until the mean of their sum is within two sd of the target: rows, means, variances, tilt, log_z."""
    d = cells.size
    mean, var, tilt, low, high = np.zeros(d), np.zeros(d), 0.0, -np.inf, np.inf
    rows, log_z = probabilities(w, cells, tilt)
    room = slack_for(rows, target)
    if not 0 < room < rows.p.size - d or log_z == -np.inf:  # truncated entries may reach the target
        for side in (1, -1):
            edge, reach, log_edge = _edge(w, cells, side)
            if side * (target - reach) < 0:
                return WindowRows(edge, np.zeros(d + 1, np.int64), np.empty(0)), mean, var, tilt, -np.inf
            if target == reach:
                return WindowRows(edge, np.arange(d + 1), np.ones(d)), mean, var, tilt, log_edge
    for _ in range(200):
        gap, spread = 1.0 * slack_for(rows, target), 0.0
        for i in range(d):
            mean[i], var[i] = moments(row_of(rows, i))
            gap -= mean[i]
            spread += var[i]
        if not abs(gap) > 2.0 * np.sqrt(spread) + 1e-9 or np.isnan(log_z):
            break
        low, high = (tilt, high) if gap > 0 else (low, tilt)
        step = min(max(gap / spread, -2.0 - abs(tilt)), 2.0 + abs(tilt))
        if not low < tilt + step < high:
            step = 0.5 * (low + high) - tilt
        tilt += step
        rows, log_z = probabilities(w, cells, tilt)
    return rows, mean, var, tilt, log_z
