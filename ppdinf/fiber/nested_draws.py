"""Exact joint draws of all cells of a forest: totals from the roots' rows, then every sum split in two, down to the cells."""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.cell_windows import vectorised
from ppdinf.fiber.nested_tree import NONE, Tree
from ppdinf.fiber.nested_upward import CellWeights, Rows, part_row

__all__ = ["split_draws"]


@vectorised
def _chosen(weights: NDArray, total: float, u: float) -> int:
    """First entry at which weights add up to more than ``u`` of their total."""
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
    """Index of the left part, given that indices add up to ``rest``."""
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
    tree: Tree, w: CellWeights, share: float, at: int, stop: int, rows: Rows, rng: np.random.Generator, out: NDArray
) -> None:
    draws, logs, widest = out.shape[0], rows.logs[stop - 1], max(tree.widest, rows.size[at:stop].max())
    height, highest = 1, 1
    for join in range(stop - 1, at - 1, -1):
        height += (1 if tree.left[join] >= 0 else 0) + (1 if tree.right[join] >= 0 else 0) - 1
        highest = max(highest, height)
    one, two, room, stack = np.empty(widest), np.empty(widest), np.empty(widest), np.empty((highest, draws), np.int64)
    root = rows.entries[rows.begin[stop - 1] :][: rows.size[stop - 1]]
    level = np.full(root.size, 0.0 if logs else 1.0)
    for n in range(draws):
        stack[0, n] = rows.first[stop - 1] + _split(root, level, root.size - 1, logs, rng.random(), room)
    height = 1
    for join in range(stop - 1, at - 1, -1):
        height -= 1
        a, b = tree.left[join], tree.right[join]
        left, first_a, _, _, _ = part_row(tree, w, rows, a, share, logs, one)
        right, first_b, _, _, _ = part_row(tree, w, rows, b, share, logs, two)
        above = height + (1 if a >= 0 else 0)
        for n in range(draws):
            rest = stack[height, n]
            if b != NONE:
                x = first_a + _split(left, right, rest - first_a - first_b, logs, rng.random(), room)
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
def split_draws(tree: Tree, w: CellWeights, share: NDArray, rows: Rows, rng: np.random.Generator, out: NDArray) -> None:
    """Draws of all cells into the rows of ``out``."""
    at = 0
    for n in range(tree.root.size):
        _tree_draws(tree, w, share[n], at, tree.root[n] + 1, rows, rng, out)
        at = tree.root[n] + 1
