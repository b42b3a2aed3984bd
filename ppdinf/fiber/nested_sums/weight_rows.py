"""Rows of weights of cells and of joins, and their convolution."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.fiber.nested_sums.join_tree import ABOVE, LOW, NONE, START, WIDTH, Tree
from ppdinf.fiber.sums_given_totals.cell_windows import exp_of, vectorised


@vectorised
def copied(source: NDArray, out: NDArray) -> None:
    """Copy a row, in a tenth of the time of an assignment."""
    for k in range(out.size):
        out[k] = source[k]


@vectorised
def convolve(a: NDArray, b: NDArray, skip: int, out: NDArray) -> None:
    """Compute entries ``skip, skip + 1, ...`` of a convolution, ``out[j] = sum_k a[k] b[skip + j - k]``."""
    if a.size > b.size:
        a, b = b, a
    size, padded = b.size, np.zeros(b.size + 14)
    copied(b, padded[7 : 7 + size])
    out[:] = 0.0
    for k in range(0, a.size - 7, 8):  # eight rows at a time, for eight products per load
        first, last = max(0, k - skip), min(out.size, k + 7 - skip + size)
        n = last - first
        if n > 0:
            row, at = out[first:last], skip + first - k + 7
            a0, a1, a2, a3, a4, a5, a6, a7 = a[k], a[k + 1], a[k + 2], a[k + 3], a[k + 4], a[k + 5], a[k + 6], a[k + 7]
            b0, b1, b2, b3 = padded[at:][:n], padded[at - 1 :][:n], padded[at - 2 :][:n], padded[at - 3 :][:n]
            b4, b5, b6, b7 = padded[at - 4 :][:n], padded[at - 5 :][:n], padded[at - 6 :][:n], padded[at - 7 :][:n]
            for j in range(n):
                half = a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j]
                row[j] += half + (a4 * b4[j] + a5 * b5[j] + a6 * b6[j] + a7 * b7[j])
    for k in range(a.size - a.size % 8, a.size):
        first, last = max(0, k - skip), min(out.size, k - skip + size)
        if last > first:
            row, entries = out[first:last], b[skip + first - k :][: last - first]
            for j in range(last - first):
                row[j] += a[k] * entries[j]


@vectorised
def convolve_logs(a: NDArray, b: NDArray, skip: int, out: NDArray) -> None:
    """Compute the same entries in logarithms: slow, and accurate to rounding for all weights."""
    for j in range(out.size):
        first, last, top, mass = max(0, skip + j - b.size + 1), min(a.size, skip + j + 1), -np.inf, 0.0
        for k in range(first, last):
            top = max(top, a[k] + b[skip + j - k])
        if top > -np.inf:
            for k in range(first, last):
                mass += np.exp(a[k] + b[skip + j - k] - top)
        out[j] = top + np.log(mass) if top > -np.inf else -np.inf


inlined = jit(error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"}, forceinline=True)

TINY = 1e-300  # bound on a product that underflows

FIRST, BEGIN, SIZE = 0, 1, 2
SCALE, MASS, LOST = 0, 1, 2


class CellWeights(NamedTuple):
    """Cell i has log weight ``log_weight[START + x - LOW] + slope[i] x``; children of v have ``tilt[v]``."""

    log_weight: NDArray
    slope: NDArray
    tilt: NDArray  # (m,): tilted means of sums
    cell_center: NDArray
    center: NDArray
    log_missing: NDArray  # (d,): log of the tilted mass of each cell outside of its window; or (0,)


class Rows(NamedTuple):
    """For each join, the weights ``entries[BEGIN : BEGIN + SIZE]`` of values from FIRST on, scaled to maximum 1."""

    place: NDArray  # (n, 3): FIRST, BEGIN, SIZE
    amount: NDArray  # (n, 3): SCALE, MASS, LOST
    logs: NDArray  # whether the entries are logarithms
    entries: NDArray


class Parts(NamedTuple):
    """Rows of both parts of a join: values from ``first`` on, ``size`` of them, in ``pair[side, :size[side]]``."""

    pair: NDArray  # (2, widest)
    size: NDArray  # (2,)
    first: NDArray  # (2,)
    known: NDArray  # (2, 3): SCALE, MASS, LOST
    tail_probability: float  # cells are trimmed at this weight relative to their maximum,
    cut: float  # and minus its logarithm
    logs: bool


@vectorised
def cell_row(
    entries: NDArray,
    low: int,
    slope: float,
    tilt: float,
    center: int,
    tail_probability: float,
    cut: float,
    logs: bool,
    out: NDArray,
) -> tuple[int, int, float, float, float]:
    """Write the weights of a cell down to a tail weight; return size, first value, scale, mass, mass lost."""
    width, shift = entries.size, tilt * (low - center)
    if slope == -np.inf:  # only the value 0
        zero = -low
        if not 0 <= zero < width or entries[zero] == -np.inf:
            return 0, low, 0.0, 0.0, 0.0
        out[0] = 0.0 if logs else 1.0
        return 1, 0, entries[zero] + shift + tilt * zero, 1.0, 0.0
    row, rate, top, first, last = out[:width], slope + tilt, -np.inf, 0, width - 1
    shift += slope * low
    for k in range(width):
        row[k] = entries[k] + rate * k + shift
        top = max(top, row[k])
    if top == -np.inf:
        return 0, low, 0.0, 0.0, 0.0
    floor = max(top - cut, -1.7e308)
    while row[first] < floor:
        first += 1
    while row[last] < floor:
        last -= 1
    size, mass = last + 1 - first, 0.0
    if first > 0:
        copied(row[first:], row[:size])
    row = out[:size]
    if logs:
        for k in range(size):
            row[k] -= top
            mass += np.exp(row[k])
        return size, low + first, top, mass, 0.0
    for k in range(size):
        row[k] = exp_of(row[k] - top)
        mass += row[k]
    return size, low + first, top, mass, (width - size) * tail_probability + TINY * size


@vectorised
def parts_of(tree: Tree, share: float, logs: bool, widest: int) -> Parts:
    """Return buffers for the rows of both parts of a join; each cell loses at most ``share`` of its mass."""
    tail_probability = 0.0 if logs else share / tree.widest
    cut = np.inf if logs else np.log(tree.widest / share)
    size, first = np.empty(2, np.int64), np.empty(2, np.int64)
    return Parts(np.empty((2, widest)), size, first, np.empty((2, 3)), tail_probability, cut, logs)


@inlined
def load_parts(join: int, tree: Tree, w: CellWeights, rows: Rows, parts: Parts) -> None:
    """Load the rows of both parts of a join."""
    joins, cells, place, amount, entries = tree.joins, tree.cells, rows.place, rows.amount, rows.entries
    log_weight, slope, tilt, cell_center = w.log_weight, w.slope, w.tilt, w.cell_center
    pair, size, first, known, tail_probability, cut, logs = parts
    for side in range(2):
        part = joins[join, side]
        if part >= 0:
            begin, first[side], size[side] = place[part, BEGIN], place[part, FIRST], place[part, SIZE]
            for k in range(3):
                known[side, k] = amount[part, k]
            copied(entries[begin : begin + size[side]], pair[side, : size[side]])
        elif part == NONE:
            pair[side, 0], first[side], size[side] = 0.0 if logs else 1.0, 0, 1
            known[side, SCALE], known[side, MASS], known[side, LOST] = 0.0, 1.0, 0.0
        else:
            i = ~part
            above, start, width = cells[i, ABOVE], cells[i, START], cells[i, WIDTH]
            own, t = log_weight[start : start + width], tilt[above] if above >= 0 else 0.0
            size[side], first[side], known[side, SCALE], known[side, MASS], known[side, LOST] = cell_row(
                own, cells[i, LOW], slope[i], t, cell_center[i], tail_probability, cut, logs, pair[side]
            )
            if w.log_missing.size > 0:
                known[side, LOST] += np.exp(w.log_missing[i] - known[side, SCALE])
