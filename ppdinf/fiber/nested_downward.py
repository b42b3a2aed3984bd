"""Posteriors of all sums and cells of a forest, from the roots down: the gradient, by Fisher's identity.

The outside weight ``o_v(s)`` is that of everything but what is below sum v, given that v is s; ``u_v(s) o_v(s)`` is its
posterior. Below a join of a and b, ``o_a(s) = sum_k u_b(k) o(s + k)``. Joins are in postorder, so that from the last to the
first the outside weights in hand are those on a stack.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.cell_windows import exp_of, vectorised
from ppdinf.fiber.nested_tree import NONE, Tree
from ppdinf.fiber.nested_upward import CellWeights, Rows, factor_row, part_row
from ppdinf.fiber.short_sums import convolve, convolve_logs
from ppdinf.fiber.sum_factors import Factors

__all__ = ["downward"]


@vectorised
def _posterior(row: NDArray, outside: NDArray, logs: bool, out: NDArray) -> tuple[float, float]:
    """Posterior probabilities of a row into ``out``, and their first two moments; the outside weights are scaled."""
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
def _height(tree: Tree, rows: Rows, at: int, stop: int) -> int:
    """How many entries the stack of outside weights takes."""
    height = highest = rows.size[stop - 1]
    for join in range(stop - 1, at - 1, -1):
        height -= rows.size[join]
        for part in (tree.left[join], tree.right[join]):
            height += rows.size[part] if part >= 0 else 0
        highest = max(highest, height)
    return highest


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
    logs, widest = rows.logs[stop - 1], max(tree.widest, rows.size[at:stop].max())
    rooms, out, turned, factor = np.empty((2, widest)), np.empty((2, widest)), np.empty(widest), np.empty(widest)
    posterior, stack, height = np.empty(widest), np.empty(_height(tree, rows, at, stop)), rows.size[stop - 1]
    stack[:height] = 0.0 if logs else 1.0 / rows.mass[stop - 1]
    for join in range(stop - 1, at - 1, -1):
        size, first, v = rows.size[join], rows.first[join], tree.node[join]
        height -= size
        outside = stack[height : height + size]
        if v >= 0:
            entries = rows.entries[rows.begin[join] :][:size]
            mean, variance = _posterior(entries, outside, logs, posterior)
            moments[v, 0], moments[v, 1] = first + mean, variance
            factor_row(tree, w, f, v, first, factor[:size])
            top = -np.inf
            for k in range(size):
                top = max(top, factor[k])
            for k in range(size):
                if logs:
                    outside[k] += factor[k] - top
                else:
                    outside[k] *= exp_of(factor[k] - top)
        a, b = tree.left[join], tree.right[join]
        left, first_a, _, _, _ = part_row(tree, w, rows, a, share, logs, rooms[0])
        right, first_b, _, _, _ = part_row(tree, w, rows, b, share, logs, rooms[1])
        for side in range(2):
            part, row, other, low = (a, left, right, first_a) if side == 0 else (b, right, left, first_b)
            if part == NONE:
                continue
            mirror, into = turned[: other.size], out[side, : row.size]
            mirror[:] = other[::-1]
            skip = other.size - 1 + first_a + first_b - first
            if logs:
                convolve_logs(mirror, outside, skip, into)
            else:
                convolve(mirror, outside, skip, into)
            if part < 0:
                mean, variance = _posterior(row, into, logs, posterior)
                cell_moments[~part, 0], cell_moments[~part, 1] = low + mean, variance
                into = gradient[tree.start[~part] + low - tree.low[~part] :]
                for k in range(row.size):
                    into[k] += posterior[k]
        for side in range(2):
            part = a if side == 0 else b
            if part >= 0:
                stack[height : height + rows.size[part]] = out[side, : rows.size[part]]
                height += rows.size[part]


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
    """Add posteriors to the entries of ``gradient`` that weights came from; write means and variances.

    Trees without any weight are left out.
    """
    at = 0
    for n in range(tree.root.size):
        stop = tree.root[n] + 1
        if rows.size[stop - 1] > 0:
            _tree_downward(tree, w, f, share[n], at, stop, rows, gradient, cell_moments, moments)
        at = stop
