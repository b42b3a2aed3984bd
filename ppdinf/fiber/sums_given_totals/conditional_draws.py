"""Exact draws of cells given their totals.

All cells except the widest are drawn from their tilted probabilities. The widest cell completes the total and is
accepted with probability proportional to its weight, after about ``sd(S) / sd(widest)`` attempts. If attempts run out
(distant modes), backward sampling through the convolution is used. Both methods are exact up to double precision.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import Weights, probabilities, row_of, slack_for, vectorised
from ppdinf.fiber.sums_given_totals.convolution import by_convolution
from ppdinf.fiber.sums_given_totals.saddlepoint import tilted
from ppdinf.fiber.sums_given_totals.value_and_gradient import grouped, log_weight_of_zero

__all__ = ["draw_tables"]


@vectorised
def _invert(cdf: NDArray, u: float) -> int:
    low, high = 0, cdf.size - 1
    while low < high:
        middle = (low + high) // 2
        if u < cdf[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@vectorised
def _cumulate(row: NDArray) -> None:
    for k in range(1, row.size):
        row[k] += row[k - 1]


@vectorised
def _draw_block(w: Weights, cells: NDArray, target: int, rng: np.random.Generator, out: NDArray) -> bool:
    """Write offsets of the cells of a block into ``out[:, cells]``; return False if no table has this total."""
    d = cells.size
    rows, _, var, tilt, log_z = tilted(w, cells, target)
    if not log_z > -np.inf:
        return False
    room, widest, top = slack_for(rows, target), 0, 0.0
    for i in range(d):
        widest = i if var[i] > var[widest] else widest
    own = row_of(rows, widest).copy() if d else rows.p
    for k in range(own.size):
        top = max(top, own[k])
    for i in range(d):
        _cumulate(row_of(rows, i))
    n, attempts = 0, 1000 + 10 * d
    while n < out.shape[0] and attempts > 0:
        rest = room
        for i in range(d):
            if i != widest:
                k = _invert(row_of(rows, i), rng.random())
                out[n, cells[i]] = rows.first[i] + k
                rest -= k
        attempts -= 1
        if 0 <= rest < own.size and rng.random() * top < own[rest]:
            out[n, cells[widest]] = rows.first[widest] + rest
            n, attempts = n + 1, 1000 + 10 * d
    if n == out.shape[0]:
        return True
    value, rows, partial = by_convolution(w, cells, target, tilt, log_z)
    while n < out.shape[0] and value > -np.inf:
        rest = slack_for(rows, target)
        for i in range(d - 1, -1, -1):
            row, u, chosen = row_of(rows, i), rng.random(), 0
            for k in range(min(row.size, rest + 1)):
                share = np.exp(partial[i, rest - k] + row[k] - partial[i + 1, rest])
                if share > 0.0 and u >= 0.0:
                    chosen = k
                u -= share
            out[n, cells[i]] = rows.first[i] + chosen
            rest -= chosen
        n += 1
    return value > -np.inf


@vectorised
def draw_tables(
    logw: NDArray,
    eta: NDArray,
    lid: NDArray,
    lo: NDArray,
    block: NDArray,
    total: NDArray,
    rng: np.random.Generator,
    out: NDArray,
) -> int:
    """Write tables into the rows of ``out``; return -1, or the first block with an impossible total."""
    w = Weights(logw, lid, np.arange(eta.size), eta)
    order, bounds = grouped(block, total.size, eta)
    for i in range(eta.size):
        if eta[i] == -np.inf:
            out[:, i] = -lo[i]
            if not log_weight_of_zero(logw[i], lo[i]) > -np.inf:
                return block[i] if block[i] >= 0 else total.size
    for b in range(total.size):
        cells = order[bounds[b] : bounds[b + 1]]
        target = total[b]
        for i in cells:
            target -= lo[i]
        if not _draw_block(w, cells, target, rng, out):
            return b
    for at in range(bounds[total.size], order.size):
        rows, log_z = probabilities(w, order[at : at + 1], 0.0)
        if not log_z > -np.inf:
            return total.size
        _cumulate(rows.p)
        for n in range(out.shape[0]):
            out[n, order[at]] = rows.first[0] + _invert(rows.p, rng.random())
    for n in range(out.shape[0]):
        for i in range(lo.size):
            out[n, i] += lo[i]
    return -1
