"""Tilts that move every sum to its posterior, and weights of all sums of a forest, from the cells up."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.nested_sums.join_tree import (
    ABOVE,
    LEAST,
    LEFT,
    LOW,
    MOST,
    NODE,
    NONE,
    PARENT,
    RIGHT,
    START,
    WIDTH,
    Factors,
    Tree,
    log_factor,
    log_factor_bound,
)
from ppdinf.fiber.nested_sums.weight_rows import (
    BEGIN,
    FIRST,
    LOST,
    MASS,
    SCALE,
    SIZE,
    TINY,
    CellWeights,
    Rows,
    cell_row,
    convolve,
    convolve_logs,
    copied,
    load_parts,
    parts_of,
)
from ppdinf.fiber.sums_given_totals.cell_windows import exp_of, vectorised

STEPS = 50
NEAR = 0.5  # tolerance in standard deviations
DEEP = 30.0  # log of weights that are negligible for a mean
NEVER = -1e15


@vectorised
def _mean_and_variance(row: NDArray, mass: float) -> tuple[float, float]:
    mean = square = 0.0
    for k in range(row.size):
        mean += k * row[k]
        square += k * (k * row[k])
    mean /= mass
    return mean, max(square / mass - mean * mean, 0.0)


@vectorised
def _slope(f: Factors, v: int, low: int, high: int, s: float, step: int) -> tuple[float, float]:
    """Return the slope of the log factors of a sum at a real value and its decrease per unit, on the scale ``step``."""
    middle = max(low, min(high, int(np.round(s))))
    a, b = max(middle - step, low), min(middle + step, high)
    if a == b or f.begin[v] == f.begin[v + 1]:
        return 0.0, 0.0
    left, right = max(log_factor(f, v, a), NEVER), max(log_factor(f, v, b), NEVER)
    slope, bend = (right - left) / (b - a), 0.0
    if a < middle < b:
        at = max(log_factor(f, v, middle), NEVER)
        bend = 2.0 * ((at - left) / (middle - a) - (right - at) / (b - middle)) / (b - a)
    bend = max(bend, 0.0)
    return slope - bend * (s - 0.5 * (a + b)), bend


class Tilts(NamedTuple):
    """The tilt of the parts of every sum, (m,), and integers near the tilted means of cells, (d,), and sums, (m,)."""

    tilt: NDArray
    cell_center: NDArray
    center: NDArray


class _Linear(NamedTuple):
    """The tree, linearised at the current tilts: with a tilt t of its parts, a sum is ``fixed + response t``."""

    fixed: NDArray  # of every join, including the factors of its sum
    response: NDArray
    mean: NDArray  # current tilt of its parts
    variance: NDArray
    middle: NDArray
    below: NDArray  # fixed and response of all parts of a sum
    slope: NDArray  # slopes of the log factors of every sum
    bend: NDArray
    pinned: NDArray  # sums at an end of their range


@vectorised
def set_tilts(tree: Tree, w: CellWeights, f: Factors, at: int, stop: int) -> None:
    """Set ``tilt``, ``center`` and ``cell_center`` of the sums and cells under joins ``at`` to ``stop`` in place."""
    size, m, room = stop - at, tree.sums.shape[0], np.empty(tree.widest)
    line = _Linear(
        np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64), np.zeros((m, 2)),
        np.zeros(m), np.zeros(m), np.zeros(m, np.bool_),
    )  # fmt: skip
    for step in range(STEPS):
        _linearise(tree, w, f, at, stop, line, room)
        if _move(tree, w, at, stop, line, step) < NEAR:
            break


@vectorised
def _linearise(tree: Tree, w: CellWeights, f: Factors, at: int, stop: int, line: _Linear, room: NDArray) -> None:
    """Linearise cells by their tilted means and variances, and factors of sums over their standard deviations."""
    joins, sums, cells, tilt = tree.joins, tree.sums, tree.cells, w.tilt
    log_weight, slopes, cell_center, center = w.log_weight, w.slope, w.cell_center, w.center
    fixed, response, mean, variance, middle, below, slope, bend, pinned = line
    for join in range(at, stop):
        n = join - at
        fixed[n] = response[n] = mean[n] = variance[n] = 0.0
        middle[n] = 0
        for side in range(2):
            part = joins[join, LEFT if side == 0 else RIGHT]
            if part >= 0:
                k = part - at
                fixed[n] += fixed[k]
                response[n] += response[k]
                mean[n] += mean[k]
                variance[n] += variance[k]
                middle[n] += middle[k]
            elif part != NONE:
                i = ~part
                above, start = cells[i, ABOVE], cells[i, START]
                t = tilt[above] if above >= 0 else 0.0
                entries = log_weight[start : start + cells[i, WIDTH]]
                width, first, _, mass, _ = cell_row(
                    entries, cells[i, LOW], slopes[i], t, cell_center[i], 0.0, DEEP, False, room
                )
                moment, spread = _mean_and_variance(room[:width], mass)
                moment += first
                cell_center[i] = np.int64(np.round(moment)) if width > 0 else cells[i, LOW]
                mean[n] += moment
                variance[n] += spread
                response[n] += spread
                fixed[n] += moment - spread * t
                middle[n] += cell_center[i]
        v = joins[join, NODE]
        if v < 0:
            continue
        below[v, 0], below[v, 1], center[v] = fixed[n], response[n], middle[n]
        scale = max(1, int(np.sqrt(variance[n])))
        slope[v], bend[v] = _slope(f, v, sums[v, LEAST], sums[v, MOST], mean[n], scale)
        if pinned[v]:
            fixed[n], response[n] = min(max(mean[n], sums[v, LEAST]), sums[v, MOST]), 0.0
        else:
            give = 1.0 + response[n] * bend[v]
            fixed[n] = (fixed[n] + response[n] * (slope[v] + bend[v] * mean[n])) / give
            response[n] /= give


@vectorised
def _move(tree: Tree, w: CellWeights, at: int, stop: int, line: _Linear, step: int) -> float:
    """Move the tilts of all sums to the solution of the linearised tree; return the largest standardised move."""
    sums, tilt, below = tree.sums, w.tilt, line.below
    farthest = 0.0
    for join in range(stop - 1, at - 1, -1):
        n, v = join - at, tree.joins[join, NODE]
        if v < 0:
            continue
        goal = tilt[sums[v, PARENT]] if sums[v, PARENT] >= 0 else 0.0
        if below[v, 1] > 0.0:
            least, most = sums[v, LEAST], sums[v, MOST]
            s = below[v, 0] + below[v, 1] * (goal + line.slope[v] + line.bend[v] * line.mean[n])
            s /= 1.0 + below[v, 1] * line.bend[v]
            line.pinned[v] = least == most or not least <= s <= most
            goal = (min(max(s, least), most) - below[v, 0]) / below[v, 1]
        limit = (2.0 + abs(tilt[v])) / (1.0 + max(step - 20, 0))
        move = min(max(goal - tilt[v], -limit), limit)
        farthest = max(farthest, abs(move) * np.sqrt(line.variance[n]))
        tilt[v] += move
    return farthest


DEAREST = 2e9  # largest number of products of logarithms: one minute


@vectorised
def factor_row(sums: NDArray, tilts: NDArray, center: int, f: Factors, v: int, first: int, row: NDArray) -> None:
    """Write the log weights of factors and of the change of tilt for values of a sum from ``first`` on."""
    tilt = (tilts[sums[v, PARENT]] if sums[v, PARENT] >= 0 else 0.0) - tilts[v]
    for k in range(row.size):
        row[k] = log_factor(f, v, first + k) + tilt * (first + k - center)


@vectorised
def _multiplied(
    sums: NDArray, tilts: NDArray, center: int, f: Factors, v: int, first: int, row: NDArray, lost: float, logs: bool
) -> tuple[float, float]:
    """Multiply a row by the factors of sum v in place; return the log of the extracted scale and the missing mass."""
    tilt = (tilts[sums[v, PARENT]] if sums[v, PARENT] >= 0 else 0.0) - tilts[v]
    if f.begin[v] == f.begin[v + 1] and tilt == 0.0:
        return 0.0, lost
    factor, top = np.empty(row.size), -np.inf
    factor_row(sums, tilts, center, f, v, first, factor)
    for k in range(row.size):
        if row[k] > (-np.inf if logs else 0.0):
            top = max(top, factor[k])
    if top == -np.inf:
        row[:] = -np.inf if logs else 0.0
        return 0.0, lost
    for k in range(row.size):
        if logs:
            row[k] += factor[k] - top
        else:
            row[k] *= exp_of(min(factor[k] - top, 0.0))
    if lost > 0.0:
        lost *= np.exp(log_factor_bound(f, v, sums[v, LEAST], sums[v, MOST], tilt, center) - top)
    return top, lost + (0.0 if logs else TINY * row.size)


@vectorised
def _trimmed(row: NDArray, share: float, logs: bool) -> tuple[int, int, float, float, float]:
    """Scale a row to maximum 1 in place; return the range, the log maximum, the mass kept and the mass omitted."""
    top, mass, out, first, last = (-np.inf if logs else 0.0), 0.0, 0.0, 0, row.size - 1
    for k in range(row.size):
        top = max(top, row[k])
    if not top > (-np.inf if logs else 0.0):
        return 0, 0, 0.0, 0.0, 0.0
    if logs:
        for k in range(row.size):
            row[k] -= top
            mass += np.exp(row[k])
        while row[first] == -np.inf:
            first += 1
        while row[last] == -np.inf:
            last -= 1
        return first, last + 1, top, mass, 0.0
    scale = 1.0 / top
    for k in range(row.size):
        row[k] *= scale
        mass += row[k]
    share *= mass
    while out + row[first] <= share:
        out += row[first]
        first += 1
    low, out = out, 0.0
    while out + row[last] <= share:
        out += row[last]
        last -= 1
    return first, last + 1, np.log(top), mass - low - out, low + out


@vectorised
def upward(
    tree: Tree,
    w: CellWeights,
    f: Factors,
    share: float,
    logs: bool,
    largest: float,
    at: int,
    stop: int,
    rows: Rows,
    used: int,
    products: float,
) -> tuple[int, int, float]:
    """Fill the rows of joins from ``at`` to ``stop``; return the last join, the entries used, and the products."""
    joins, root, sums = tree.joins, tree.root, tree.sums
    place, amount, entries = rows.place, rows.amount, rows.entries
    parts, room = parts_of(tree, share, logs, tree.widest), np.empty(4 * tree.widest)
    sizes, firsts, known = parts.size, parts.first, parts.known
    join, mark, n = at, used, np.searchsorted(root, at)
    while join < stop:
        v, a, b = joins[join, NODE], joins[join, LEFT], joins[join, RIGHT]
        longest = max(place[a, SIZE] if a >= 0 else 0, place[b, SIZE] if b >= 0 else 0)
        if longest > parts.pair.shape[1]:
            parts = parts_of(tree, share, logs, 2 * longest)
            sizes, firsts, known = parts.size, parts.first, parts.known
        load_parts(join, tree, w, rows, parts)
        # the range of the sum within its bounds
        left, right = parts.pair[0, : sizes[0]], parts.pair[1, : sizes[1]]
        first, last = firsts[0] + firsts[1], firsts[0] + firsts[1] + sizes[0] + sizes[1] - 2
        low, high = first, last
        if v >= 0:
            low, high = max(first, sums[v, LEAST]), min(last, sums[v, MOST])
        size = max(high - low + 1, 0) if sizes[0] > 0 and sizes[1] > 0 else 0
        if room.size < size:
            room = np.empty(2 * size)
        # convolution of both parts, and the bound on the missing mass
        row, lost = room[:size], known[0, MASS] * known[1, LOST] + known[1, MASS] * known[0, LOST]
        lost += known[0, LOST] * known[1, LOST]
        if logs:
            products += 1.0 * sizes[0] * sizes[1]
            if products > DEAREST:
                return join, used, products
            convolve_logs(left, right, low - first, row)
        else:
            convolve(left, right, low - first, row)
            lost += TINY * sizes[0] * sizes[1]
        # factors of the sum, then trimming
        scale = known[0, SCALE] + known[1, SCALE]
        if v >= 0:
            more, lost = _multiplied(sums, w.tilt, w.center[v], f, v, low, row, lost, logs)
            scale += more
        begin, end, top, mass, out = _trimmed(row, share, logs)
        size = end - begin
        if used + size > entries.size:
            return join, used, products
        place[join, FIRST], place[join, BEGIN], place[join, SIZE] = low + begin, used, size
        lost = (lost / np.exp(top) if lost > 0.0 else 0.0) + out
        amount[join, SCALE], amount[join, MASS], amount[join, LOST] = scale + top, mass, lost
        rows.logs[join] = logs
        copied(row[begin:end], entries[used : used + size])
        used += size
        if not lost <= largest * mass:  # stopped: continue with the next tree
            join, used = root[n], mark
            place[join, SIZE], amount[join, MASS], amount[join, LOST] = 0, 0.0, np.inf
        if join == root[n]:
            n, mark = n + 1, used
        join += 1
    return join, used, products
