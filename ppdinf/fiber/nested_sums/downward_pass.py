"""Posteriors of all sums and cells of a forest, from the roots down, and exact joint draws."""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.nested_sums.join_tree import LEFT, LOW, NODE, NONE, RIGHT, START, Factors, Tree
from ppdinf.fiber.nested_sums.upward_pass import factor_row
from ppdinf.fiber.nested_sums.weight_rows import (
    BEGIN,
    FIRST,
    MASS,
    SIZE,
    CellWeights,
    Rows,
    convolve,
    convolve_logs,
    copied,
    load_parts,
    parts_of,
)
from ppdinf.fiber.sums_given_totals.cell_windows import exp_of, vectorised


@vectorised
def _posterior(row: NDArray, outside: NDArray, logs: bool, out: NDArray) -> tuple[float, float]:
    """Write the posterior probabilities of a row into ``out`` and return two moments; scale the outside weights."""
    mass, mean, square = 0.0, 0.0, 0.0
    if logs:
        top = -np.inf
        for k in range(row.size):
            out[k] = row[k] + outside[k]
            top = max(top, out[k])
        for k in range(row.size):
            out[k] = np.exp(out[k] - top)
            outside[k] -= top
    else:
        for k in range(row.size):
            out[k] = row[k] * outside[k]
    for k in range(row.size):
        mass += out[k]
    scale = 1.0 / mass
    for k in range(row.size):
        out[k] *= scale
        mean += k * out[k]
        if not logs:
            outside[k] *= scale
    for k in range(row.size):
        square += (k - mean) ** 2 * out[k]
    return mean, square


@vectorised
def _height(joins: NDArray, place: NDArray, at: int, stop: int) -> int:
    """Return the number of entries of the stack of outside weights."""
    height = highest = place[stop - 1, SIZE]
    for join in range(stop - 1, at - 1, -1):
        height -= place[join, SIZE]
        for part in joins[join, :NODE]:
            height += place[part, SIZE] if part >= 0 else 0
        highest = max(highest, height)
    return highest


@vectorised
def _weigh(outside: NDArray, log_factor: NDArray, logs: bool) -> None:
    """Multiply outside weights by the factors of their sum, relative to the largest one."""
    top = -np.inf
    for k in range(outside.size):
        top = max(top, log_factor[k])
    for k in range(outside.size):
        if logs:
            outside[k] += log_factor[k] - top
        else:
            outside[k] *= exp_of(log_factor[k] - top)


@vectorised
def _tree_downward(
    tree: Tree,
    w: CellWeights,
    f: Factors,
    share: float,
    at: int,
    stop: int,
    rows: Rows,
    gradient: NDArray,
    cell_moments: NDArray,
    moments: NDArray,
) -> None:
    joins, sums, cells = tree.joins, tree.sums, tree.cells
    place, amount, entries = rows.place, rows.amount, rows.entries
    logs, widest = rows.logs[stop - 1], max(tree.widest, place[at:stop, SIZE].max())
    parts, turned, factor = parts_of(tree, share, logs, widest), np.empty(widest), np.empty(widest)
    pair, sizes, firsts = parts.pair, parts.size, parts.first
    out, posterior, stack = np.empty((2, widest)), np.empty(widest), np.empty(_height(joins, place, at, stop))
    height = place[stop - 1, SIZE]
    stack[:height] = 0.0 if logs else 1.0 / amount[stop - 1, MASS]
    for join in range(stop - 1, at - 1, -1):
        first, begin, size = place[join, FIRST], place[join, BEGIN], place[join, SIZE]
        height -= size
        # the outside weights of this join are on top of the stack
        outside, v = stack[height : height + size], joins[join, NODE]
        if v >= 0:
            mean, variance = _posterior(entries[begin : begin + size], outside, logs, posterior)
            moments[v, 0], moments[v, 1] = first + mean, variance
            factor_row(sums, w.tilt, w.center[v], f, v, first, factor[:size])
            _weigh(outside, factor[:size], logs)
        # outside weights of both parts, by correlation with the other part
        load_parts(join, tree, w, rows, parts)
        for side in range(2):
            part, low = joins[join, side], firsts[side]
            if part == NONE:
                continue
            row, other = pair[side, : sizes[side]], pair[1 - side, : sizes[1 - side]]
            mirror, into = turned[: other.size], out[side, : row.size]
            copied(other[::-1], mirror)
            skip = other.size - 1 + firsts[0] + firsts[1] - first
            if logs:
                convolve_logs(mirror, outside, skip, into)
            else:
                convolve(mirror, outside, skip, into)
            if part < 0:
                i = ~part
                cell_moments[i, 0], cell_moments[i, 1] = _posterior(row, into, logs, posterior)
                cell_moments[i, 0] += low
                begin = cells[i, START] + low - cells[i, LOW]
                share_of = gradient[begin : begin + row.size]
                for k in range(row.size):
                    share_of[k] += posterior[k]
        # push the outside weights of parts that are joins
        for side in range(2):
            part = joins[join, side]
            if part >= 0:
                size = place[part, SIZE]
                copied(out[side, :size], stack[height : height + size])
                height += size


@vectorised
def downward(
    tree: Tree,
    w: CellWeights,
    f: Factors,
    share: NDArray,
    rows: Rows,
    gradient: NDArray,
    cell_moments: NDArray,
    moments: NDArray,
) -> None:
    """Add posteriors to the entries of ``gradient`` of the weights; write means and variances."""
    at = 0
    for n in range(tree.root.size):
        stop = tree.root[n] + 1
        if rows.place[stop - 1, SIZE] > 0:
            _tree_downward(tree, w, f, share[n], at, stop, rows, gradient, cell_moments, moments)
        at = stop


@vectorised
def _chosen(weights: NDArray, total: float, u: float) -> int:
    """Return the first entry at which the cumulative weight exceeds the share ``u`` of the total."""
    goal, mass, last = u * total, 0.0, 0
    for k in range(weights.size):
        mass += weights[k]
        if weights[k] > 0.0:
            last = k
            if mass > goal:
                break
    return last


@vectorised
def _split(left: NDArray, right: NDArray, rest: int, logs: bool, u: float, room: NDArray) -> int:
    """Draw the index of the left part, given that both indices sum to ``rest``."""
    first, last, total = max(0, rest - right.size + 1), min(left.size, rest + 1), 0.0
    row = room[: last - first]
    a, b = left[first:last], right[rest - last + 1 : rest - first + 1][::-1]
    if logs:
        top = -np.inf
        for k in range(row.size):
            row[k] = a[k] + b[k]
            top = max(top, row[k])
        for k in range(row.size):
            row[k] = np.exp(row[k] - top)
            total += row[k]
    else:
        for k in range(row.size):
            row[k] = a[k] * b[k]
            total += row[k]
    return first + _chosen(row, total, u)


@vectorised
def _tree_draws(
    tree: Tree,
    w: CellWeights,
    share: float,
    at: int,
    stop: int,
    rows: Rows,
    totals: NDArray,
    rng: np.random.Generator,
    out: NDArray,
) -> None:
    joins, draws, logs = tree.joins, out.shape[0], rows.logs[stop - 1]
    place, entries = rows.place, rows.entries
    height, highest, widest = 1, 1, max(tree.widest, place[at:stop, SIZE].max())
    for join in range(stop - 1, at - 1, -1):
        height += (1 if joins[join, LEFT] >= 0 else 0) + (1 if joins[join, RIGHT] >= 0 else 0) - 1
        highest = max(highest, height)
    parts, room, stack = parts_of(tree, share, logs, widest), np.empty(widest), np.empty((highest, draws), np.int64)
    pair, sizes, firsts = parts.pair, parts.size, parts.first
    begin, size = place[stop - 1, BEGIN], place[stop - 1, SIZE]
    pair[1, :size] = 0.0 if logs else 1.0
    if totals.size > 0:
        stack[0, :] = totals
    else:
        for n in range(draws):
            drawn = _split(entries[begin : begin + size], pair[1, :size], size - 1, logs, rng.random(), room)
            stack[0, n] = place[stop - 1, FIRST] + drawn
    height = 1
    for join in range(stop - 1, at - 1, -1):
        height -= 1
        a, b = joins[join, LEFT], joins[join, RIGHT]
        load_parts(join, tree, w, rows, parts)
        left, right, above = pair[0, : sizes[0]], pair[1, : sizes[1]], height + (1 if a >= 0 else 0)
        for n in range(draws):
            rest = stack[height, n]
            if b != NONE:
                x = firsts[0] + _split(left, right, rest - firsts[0] - firsts[1], logs, rng.random(), room)
                if b >= 0:
                    stack[above, n] = rest - x
                else:
                    out[n, ~b] = rest - x
                rest = x
            if a >= 0:
                stack[height, n] = rest
            else:
                out[n, ~a] = rest
        height = above + (1 if b >= 0 else 0)


@vectorised
def split_draws(
    tree: Tree, w: CellWeights, share: NDArray, rows: Rows, totals: NDArray, rng: np.random.Generator, out: NDArray
) -> None:
    """Write draws of all cells into the rows of ``out``; of a single tree given its totals, unless they are empty."""
    at = 0
    for n in range(tree.root.size):
        _tree_draws(tree, w, share[n], at, tree.root[n] + 1, rows, totals, rng, out)
        at = tree.root[n] + 1
