"""Exact joint draws of all cells of a forest: a total from the root's row, then every sum split into two parts."""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.nested_sums.join_tree import LEFT, NONE, RIGHT, Tree
from ppdinf.fiber.nested_sums.weight_rows import BEGIN, FIRST, SIZE, CellWeights, Rows, load_parts, parts_of
from ppdinf.fiber.sums_given_totals.cell_windows import vectorised


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
    tree: Tree,
    w: CellWeights,
    share: NDArray,
    rows: Rows,
    totals: NDArray,
    rng: np.random.Generator,
    out: NDArray,
) -> None:
    """Write draws of all cells into the rows of ``out``; of a single tree given its totals, unless they are empty."""
    at = 0
    for n in range(tree.root.size):
        _tree_draws(tree, w, share[n], at, tree.root[n] + 1, rows, totals, rng, out)
        at = tree.root[n] + 1
