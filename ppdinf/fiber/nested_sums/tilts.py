r"""Tilts that move every sum to its posterior: the saddlepoint of a tree.

If the factors of a sum are far in the tail of the law of its cells, cells are tilted by ``exp(t x)`` until their means
agree with it. For every sum v, ``t_v = t_parent + d log(factor of v) / ds`` at ``s_v``, the sum of the tilted means. At
an exact value or a bound, t_v is such that s_v equals this value. Every tilt is valid, so a safeguarded Newton
iteration on means and variances is sufficient. A step solves the linearised tree by one pass up and one pass down.
"""

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
    Tree,
)
from ppdinf.fiber.nested_sums.sum_factors import Factors, log_factor
from ppdinf.fiber.nested_sums.weight_rows import CellWeights, cell_row
from ppdinf.fiber.sums_given_totals.cell_windows import vectorised

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
