"""Exact draws of cells given their totals.

The windows of cells without a tilt contain the relevant counts for all natural parameters of a call. Where a tilt is
needed, windows are found again (`saddlepoint`). All cells except the widest are drawn from their tilted probabilities.
The widest cell completes the total and is accepted with probability proportional to its weight, after about
``sd(S) / sd(widest)`` attempts. If attempts run out (distant modes), backward sampling through the convolution is used.
Both methods are exact up to double precision.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import (
    Weights,
    WindowRows,
    exp_of,
    probabilities,
    relevant_cut,
    row_of,
    rows_within,
    slack_for,
    vectorised,
    windows_of,
)
from ppdinf.fiber.sums_given_totals.convolution import by_convolution
from ppdinf.fiber.sums_given_totals.saddlepoint import tilted
from ppdinf.fiber.sums_given_totals.value_and_gradient import grouped, log_weight_of_zero


@vectorised
def _invert(cdf: NDArray, u: float) -> int:
    """Return the first entry above a share u of the last entry; no branch depends on the entries."""
    low, size = 0, cdf.size
    u *= cdf[size - 1]
    while size > 1:
        half = size // 2
        low += half * (cdf[low + half - 1] <= u)
        size -= half
    return low


@vectorised
def _cumulate(row: NDArray) -> None:
    for k in range(1, row.size):
        row[k] += row[k - 1]


@vectorised
def _untilted(
    w: Weights, cells: NDArray, target: int, first: NDArray, last: NDArray
) -> tuple[WindowRows, NDArray, float, bool]:
    """Return weights within windows, variances, log_z, and whether the mean sum is within two sd of the target."""
    rows, var = rows_within(w, cells, 0.0, first[cells], last[cells]), np.empty(cells.size)
    log_z = spread = 0.0
    room = slack_for(rows, target)
    gap = 1.0 * room
    for i in range(cells.size):
        row = row_of(rows, i)
        if not row.size:
            return rows, var, -np.inf, False
        top = row[0]
        for k in range(row.size):
            top = row[k] if row[k] > top else top
        for k in range(row.size):
            row[k] -= top
        log_z += top
    for k in range(rows.p.size):  # all cells in one loop, which is vectorized
        rows.p[k] = exp_of(rows.p[k])
    for i in range(cells.size):
        mass = mean = square = at = 0.0
        for p in row_of(rows, i):
            mass += p
            mean += at * p
            square += at * at * p
            at += 1.0
        mean /= mass
        var[i] = max(square / mass - mean * mean, 0.0)
        log_z += np.log(mass)
        gap -= mean
        spread += var[i]
    inside = 0 < room < rows.p.size - cells.size
    return rows, var, log_z, inside and log_z > -np.inf and abs(gap) <= 2.0 * np.sqrt(spread)


@vectorised
def _draw_block(
    w: Weights,
    cells: NDArray,
    target: int,
    first: NDArray,
    last: NDArray,
    rng: np.random.Generator,
    out: NDArray,
) -> bool:
    """Write offsets of the cells of a block into ``out[:, cells]``; return False if no table has this total."""
    d, tilt = cells.size, 0.0
    rows, var, log_z, near = _untilted(w, cells, target, first, last)
    if not near:
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
    """Write a table into ``out[n]`` for row n of ``eta``; return -1, or the first block with an impossible total."""
    n, d = eta.shape
    # cells whose natural parameter is -inf are 0; windows of the others, from the smallest and largest parameter
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    for k in range(n):
        for i in range(d):
            if eta[k, i] > -np.inf:
                low[i], high[i] = min(low[i], eta[k, i]), max(high[i], eta[k, i])
            else:
                out[k, :, i] = -lo[i]
                if not log_weight_of_zero(logw[i], lo[i]) > -np.inf:
                    return block[i] if block[i] >= 0 else total.size
    for i in range(d):
        if not low[i] < np.inf:
            low[i] = high[i] = 0.0
    row, cut = np.arange(d), relevant_cut(d, logw.shape[1])
    first, _ = windows_of(Weights(logw, lid, row, low), row, 0.0, cut)
    _, last = windows_of(Weights(logw, lid, row, high), row, 0.0, cut)
    # all draws of a block before the next block, whose weights then remain in the cache of the processor
    order, bounds = grouped(block, total.size, np.zeros(d))
    for b in range(total.size):
        members = order[bounds[b] : bounds[b + 1]]
        for k in range(n):
            cells = members[eta[k][members] > -np.inf]
            target = total[b]
            for i in cells:
                target -= lo[i]
            if not _draw_block(Weights(logw, lid, row, eta[k]), cells, target, first, last, rng, out[k]):
                return b
    for at in range(bounds[total.size], d):
        i = order[at]
        for k in range(n):
            if eta[k, i] > -np.inf:
                rows, log_z = probabilities(Weights(logw, lid, row, eta[k]), order[at : at + 1], 0.0)
                if not log_z > -np.inf:
                    return total.size
                _cumulate(rows.p)
                for j in range(out.shape[1]):
                    out[k, j, i] = rows.first[0] + _invert(rows.p, rng.random())
    for k in range(n):
        for j in range(out.shape[1]):
            for i in range(d):
                out[k, j, i] += lo[i]
    return -1
