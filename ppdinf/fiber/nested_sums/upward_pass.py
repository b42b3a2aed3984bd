r"""Weights of all sums of a forest, from the cells up, trimmed with an error bound.

Let ``u_v(s)`` be the total weight of all cells below sum ``v`` that sum to ``s``, times the factors of the sums up to
``v``. A join of two parts is a convolution, and a factor multiplies. Rows are stored as ``u(s) exp(t (s - r) -
scale)``. The tilt ``t`` of a part and its centre ``r`` make the values that matter further up the largest ones, and
cancel at the end.

Rows are trimmed at both ends. The omitted mass is bounded rigorously. Let ``m`` be the mass of a row and ``e`` a bound
on its missing mass. A join has the bound ``m_a e_b + m_b e_a + e_a e_b``. A factor multiplies ``e`` by its supremum
over all values that the sum can have. At the root ``e / m`` bounds the relative error of the total weight, hence the
total variation distance between exact and computed posterior. The ratio never decreases on the way up, so that a tree
is stopped as soon as it is too large. Numbers that underflow count as trimmed. As the last resort, untrimmed logarithms
of all weights are used (``logs``).
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.nested_sums.join_tree import LEAST, LEFT, MOST, NODE, PARENT, RIGHT, Tree
from ppdinf.fiber.nested_sums.short_sums import convolve, convolve_logs, copied
from ppdinf.fiber.nested_sums.sum_factors import Factors, log_factor, log_factor_bound
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
    load_parts,
    parts_of,
)
from ppdinf.fiber.sums_given_totals.cell_windows import exp_of, vectorised

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
