r"""Tilts that bring every sum to where its posterior is: the saddlepoint of a tree.

Where what is known of a sum lies far out in the tail of what its cells weigh, cells are tilted by ``exp(t x)`` until
their means agree with it. For every sum v, ``t_v = t_parent + d log(factor of v) / ds`` at ``s_v``, the sum of
the tilted means; or, at an exact value or a bound, t_v such that s_v is there. Any tilt is right, so a safeguarded
Newton iteration on means and variances is enough; a step solves the linearised tree by one pass up and one down.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.cell_windows import vectorised
from ppdinf.fiber.nested_tree import NONE, Tree
from ppdinf.fiber.nested_upward import CellWeights, cell_row, inlined, tilt_of
from ppdinf.fiber.sum_factors import Factors, log_factor

__all__ = ["set_tilts"]

STEPS = 100


@inlined
def _cell(tree: Tree, w: CellWeights, i: int, room: NDArray) -> tuple[float, float]:
    """Mean and variance of a tilted cell."""
    row, first, _, mass, _ = cell_row(tree, w, i, 50.0, False, room)
    mean = square = 0.0
    for k in range(row.size):
        mean += k * row[k]
    mean = mean / mass if mass > 0.0 else 0.0
    for k in range(row.size):
        square += (k - mean) ** 2 * row[k]
    return first + mean, square / mass if mass > 0.0 else 0.0


@vectorised
def _slope(f: Factors, tree: Tree, v: int, s: float, step: int) -> tuple[float, float]:
    """Slope and (negative) curvature of the log factors of a sum around a real value, over the scale of ``step``."""
    low, high = tree.least[v], tree.most[v]
    middle = min(max(np.int64(np.round(s)), low), high)
    a, b = max(middle - step, low), min(middle + step, high)
    if a == b:
        return 0.0, 0.0
    left, right = max(log_factor(f, v, a), -1e15), max(log_factor(f, v, b), -1e15)
    slope, bend = (right - left) / (b - a), 0.0
    if a < middle < b:
        at = max(log_factor(f, v, middle), -1e15)
        bend = 2.0 * ((at - left) / (middle - a) - (right - at) / (b - middle)) / (b - a)
    bend = max(bend, 0.0)
    return slope - bend * (s - middle), bend


@vectorised
def set_tilts(tree: Tree, w: CellWeights, f: Factors, at: int, stop: int) -> None:
    """Set ``tilt``, ``center`` and ``cell_center`` of the sums and cells under joins ``at`` to ``stop``, in place."""
    size, m, room = stop - at, tree.parent.size, np.empty(tree.widest)
    # below a join, the sum is fixed + response t for a tilt t of its parts, and now is at mean, with variance
    fixed, response, mean, variance = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    slope, bend, pinned = np.zeros(m), np.zeros(m), np.zeros(m, np.bool_)
    inner_fixed, inner_response = np.zeros(m), np.zeros(m)
    for step in range(STEPS):
        for join in range(at, stop):
            n = join - at
            fixed[n] = response[n] = mean[n] = variance[n] = 0.0
            for part in (tree.left[join], tree.right[join]):
                if part >= 0:
                    fixed[n] += fixed[part - at]
                    response[n] += response[part - at]
                    mean[n] += mean[part - at]
                    variance[n] += variance[part - at]
                elif part != NONE:
                    center, spread = _cell(tree, w, ~part, room)
                    w.cell_center[~part] = np.int64(np.round(center))
                    mean[n] += center
                    variance[n] += spread
                    response[n] += spread
                    fixed[n] += center - spread * tilt_of(w, tree.cell_node[~part])
            v = tree.node[join]
            if v < 0:
                continue
            inner_fixed[v], inner_response[v] = fixed[n], response[n]
            spread = max(1, np.int64(np.sqrt(variance[n])))
            slope[v], bend[v] = _slope(f, tree, v, mean[n], spread)
            if pinned[v]:
                fixed[n], response[n] = min(max(mean[n], tree.least[v]), tree.most[v]), 0.0
            else:
                give = 1.0 + response[n] * bend[v]
                fixed[n] = (fixed[n] + response[n] * (slope[v] + bend[v] * mean[n])) / give
                response[n] /= give
        change = 0.0
        for join in range(stop - 1, at - 1, -1):
            n, v = join - at, tree.node[join]
            if v < 0:
                continue
            goal = tilt_of(w, tree.parent[v])
            if inner_response[v] > 0.0:
                s = inner_fixed[v] + inner_response[v] * (goal + slope[v] + bend[v] * mean[n])
                s /= 1.0 + inner_response[v] * bend[v]
                pinned[v] = tree.least[v] == tree.most[v] or not tree.least[v] <= s <= tree.most[v]
                s = min(max(s, tree.least[v]), tree.most[v])
                goal = (s - inner_fixed[v]) / inner_response[v]
            limit = (2.0 + abs(w.tilt[v])) / (1.0 + max(step - 20, 0))  # should it go to and fro
            move = min(max(goal - w.tilt[v], -limit), limit)
            change = max(change, abs(move) * np.sqrt(variance[n]))
            w.tilt[v] += move
        if change < 0.3:
            break
    middle = np.zeros(size, np.int64)
    for join in range(at, stop):
        for part in (tree.left[join], tree.right[join]):
            if part != NONE:
                middle[join - at] += middle[part - at] if part >= 0 else w.cell_center[~part]
        if tree.node[join] >= 0:
            w.center[tree.node[join]] = middle[join - at]
