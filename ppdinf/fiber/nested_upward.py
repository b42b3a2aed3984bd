r"""Weights of all sums of a forest, from the cells up.

With ``u_v(s)`` the weight of all cells below sum ``v`` that add up to ``s``, times what is known of sums up to ``v``, a
join of two parts is a convolution, and a factor multiplies. Rows are kept as ``u(s) exp(t (s - r) - scale)``: the tilt
``t`` of a part and its centre ``r`` bring to the top what matters further up, and cancel in the end.

Rows are trimmed at both ends. What is left out is bounded rigorously all the way up: with ``m`` the mass of a row and
``e`` a bound on the mass that it should have besides, a join has ``m_a e_b + m_b e_a + e_a e_b``, a factor
multiplies ``e`` by its supremum over all values that the sum can have, and at the root ``e / m`` bounds the relative error
of the total weight, hence the total variation between exact and computed posterior. Numbers that underflow count as
trimmed. Where the bound is too large, logarithms of all weights, untrimmed, stand in (``logs``).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._compiled import jit
from ppdinf.fiber.cell_windows import exp_of, vectorised
from ppdinf.fiber.nested_tree import NONE, Tree
from ppdinf.fiber.short_sums import convolve, convolve_logs
from ppdinf.fiber.sum_factors import Factors, log_factor, log_factor_bound

inlined = jit(error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"}, forceinline=True)
__all__ = ["DEAREST", "CellWeights", "Rows", "cell_row", "factor_row", "inlined", "part_row", "tilt_of", "upward"]

TINY = 1e-300  # a product that is lost to underflow is smaller
DEAREST = 2e9  # products of logarithms, a minute


class CellWeights(NamedTuple):
    """Cell i has log weight ``log_weight[start[i] + x - low[i]] + slope[i] x``; sums below v are tilted by ``tilt[v]``."""

    log_weight: NDArray
    slope: NDArray
    tilt: NDArray
    cell_center: NDArray
    center: NDArray


class Rows(NamedTuple):
    """Of each join, the weights ``entries[begin : begin + size]`` of values from ``first`` on, scaled to a top of 1."""

    first: NDArray
    begin: NDArray
    size: NDArray
    scale: NDArray
    mass: NDArray
    lost: NDArray
    logs: NDArray  # whether the entries are logarithms
    entries: NDArray


@inlined
def tilt_of(w: CellWeights, node: int) -> float:
    """Tilt of the parts of a sum; of roots themselves none."""
    return w.tilt[node] if node >= 0 else 0.0


@inlined
def cell_row(
    tree: Tree, w: CellWeights, i: int, cut: float, logs: bool, out: NDArray
) -> tuple[NDArray, int, float, float, float]:
    """Weights of a cell into ``out``: those within ``exp(-cut)`` of the top, first value, scale, mass, mass lost."""
    low, width, slope, tilt = tree.low[i], tree.width[i], w.slope[i], tilt_of(w, tree.cell_node[i])
    entries, shift, row = w.log_weight[tree.start[i] :][:width], tilt * (low - w.cell_center[i]), out[:width]
    if slope == -np.inf:  # nothing but 0
        zero = -low
        if not 0 <= zero < width or entries[zero] == -np.inf:
            return out[:0], low, 0.0, 0.0, 0.0
        out[0] = 0.0 if logs else 1.0
        return out[:1], 0, entries[zero] + shift + tilt * zero, 1.0, 0.0
    shift += slope * low
    top, first, last = -np.inf, 0, width - 1
    for k in range(width):
        row[k] = entries[k] + (slope + tilt) * k + shift
        top = max(top, row[k])
    if top == -np.inf:
        return out[:0], low, 0.0, 0.0, 0.0
    floor = max(top - cut, -1.7e308)
    while row[first] < floor:
        first += 1
    while row[last] < floor:
        last -= 1
    row, mass, lost = row[first : last + 1], 0.0, 0.0
    if logs:
        for k in range(row.size):
            row[k] -= top
            mass += np.exp(row[k])
    else:
        for k in range(row.size):
            row[k] = exp_of(row[k] - top)
            mass += row[k]
        lost = (width - row.size) * np.exp(-cut) + TINY * row.size
    return row, low + first, top, mass, lost


@vectorised
def factor_row(tree: Tree, w: CellWeights, f: Factors, v: int, first: int, row: NDArray) -> None:
    """Log weights that factors, and the change of tilt, give to values of a sum from ``first`` on."""
    tilt = tilt_of(w, tree.parent[v]) - w.tilt[v]
    for k in range(row.size):
        row[k] = log_factor(f, v, first + k) + tilt * (first + k - w.center[v])


@vectorised
def _multiplied(
    tree: Tree, w: CellWeights, f: Factors, v: int, first: int, row: NDArray, lost: float, logs: bool
) -> tuple[float, float]:
    """Multiply a row by what is known of sum v, in place: log of the scale taken out, and what is lost now."""
    tilt = tilt_of(w, tree.parent[v]) - w.tilt[v]
    if f.begin[v] == f.begin[v + 1] and tilt == 0.0:
        return 0.0, lost
    factor, top = np.empty(row.size), -np.inf
    factor_row(tree, w, f, v, first, factor)
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
        lost *= np.exp(log_factor_bound(f, v, tree.least[v], tree.most[v], tilt, w.center[v]) - top)
    return top, lost + (0.0 if logs else TINY * row.size)


@vectorised
def _trimmed(row: NDArray, share: float, logs: bool) -> tuple[int, int, float, float, float]:
    """Scale a row to a top of 1, in place: what to keep of it, log of its top, mass kept, and mass left out."""
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
    for k in range(row.size):
        row[k] /= top
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


@inlined
def part_row(
    tree: Tree, w: CellWeights, rows: Rows, part: int, share: float, logs: bool, room: NDArray
) -> tuple[NDArray, int, float, float, float]:
    """Row of one part of a join: entries, first value, scale, mass, and mass lost."""
    if part >= 0:
        entries = rows.entries[rows.begin[part] :][: rows.size[part]]
        return entries, rows.first[part], rows.scale[part], rows.mass[part], rows.lost[part]
    if part == NONE:
        room[0] = 0.0 if logs else 1.0
        return room[:1], 0, 0.0, 1.0, 0.0
    cut = np.inf if logs else np.log(tree.width[~part] / share)
    return cell_row(tree, w, ~part, cut, logs, room)


@vectorised
def upward(
    tree: Tree,
    w: CellWeights,
    f: Factors,
    share: float,
    logs: bool,
    at: int,
    stop: int,
    rows: Rows,
    used: int,
    products: float,
) -> tuple[int, int, float]:
    """Fill the rows of joins from ``at`` to ``stop``: where it stopped, entries used, and products taken (``logs``).

    It stops early where the entries do not fit, or products are too many. ``share`` is the part of its mass that a
    row may lose at either end.
    """
    one, two, room = np.empty(tree.widest), np.empty(tree.widest), np.empty(4 * tree.widest)
    for join in range(at, stop):
        v = tree.node[join]
        left, first_a, scale_a, mass_a, lost_a = part_row(tree, w, rows, tree.left[join], share, logs, one)
        right, first_b, scale_b, mass_b, lost_b = part_row(tree, w, rows, tree.right[join], share, logs, two)
        first, last = first_a + first_b, first_a + first_b + left.size + right.size - 2
        low, high = first, last
        if v >= 0:
            low, high = max(first, tree.least[v]), min(last, tree.most[v])
        size = max(high - low + 1, 0) if left.size and right.size else 0
        if room.size < size:
            room = np.empty(2 * size)
        row, lost = room[:size], mass_a * lost_b + mass_b * lost_a + lost_a * lost_b
        if size > 0:
            if logs:
                products += 1.0 * left.size * right.size
                if products > DEAREST:
                    return join, used, products
                convolve_logs(left, right, low - first, row)
            else:
                convolve(left, right, low - first, row)
                lost += TINY * left.size * right.size
        scale = scale_a + scale_b
        if v >= 0:
            more, lost = _multiplied(tree, w, f, v, low, row, lost, logs)
            scale += more
        begin, end, top, mass, out = _trimmed(row, share, logs)
        if used + end - begin > rows.entries.size:
            return join, used, products
        rows.first[join], rows.begin[join], rows.size[join] = low + begin, used, end - begin
        rows.scale[join], rows.mass[join], rows.logs[join] = scale + top, mass, logs
        rows.lost[join] = (lost / np.exp(top) if lost > 0.0 else 0.0) + out
        rows.entries[used : used + end - begin] = row[begin:end]
        used += end - begin
    return stop, used, products
