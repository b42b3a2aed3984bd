"""Exponential tilting of cells by a common factor ``exp(t x)`` such that their sum is near its total.

The law of the tilted sum is then nearly normal at the total, without cancellation. For any ``t``,
``log coefficient = sum_i log Z_i(t) - t s + log P_t(S = s)``.

References
----------
H. E. Daniels, "Saddlepoint approximations in statistics", Ann. Math. Statist. 25 (1954).
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import (
    CHUNK,
    Weights,
    WindowRows,
    probabilities,
    row_of,
    slack_for,
    vectorised,
)


@vectorised
def moments(p: NDArray) -> tuple[float, float]:
    """Return mean and variance of the index of a row of probabilities."""
    mean = square = at = 0.0
    for k in range(p.size):
        mean += at * p[k]
        square += at * at * p[k]
        at += 1.0
    return mean, max(square - mean * mean, 0.0)


@vectorised
def _edge(w: Weights, cells: NDArray, side: int) -> tuple[NDArray, int, float]:
    """Return the first (side 1) or last (side -1) possible offset of every cell, their sum and their log weight."""
    edge, reach, log_z = np.empty(cells.size, np.int64), 0, 0.0
    for i in range(cells.size):
        row, lid = w.logw[w.row[cells[i]]], w.lid[w.row[cells[i]]]
        chunks = lid.size // 2
        chunk = 0 if side > 0 else chunks - 1
        while 0 <= chunk < chunks and lid[chunk] == -np.inf:
            chunk += side
        if not 0 <= chunk < chunks:
            return edge, side * 2**62, -np.inf  # a cell with total weight 0: no total is possible
        k = chunk * CHUNK if side > 0 else min((chunk + 1) * CHUNK, row.size) - 1
        while row[k] == -np.inf:
            k += side
        edge[i] = k
        reach += k
        log_z += row[k] + w.slope[cells[i]] * k
    return edge, reach, log_z


@vectorised
def tilted(w: Weights, cells: NDArray, target: int) -> tuple[WindowRows, NDArray, NDArray, float, float]:
    """Tilt cells until the mean of their sum is within two sd of the target: rows, means, variances, tilt, log_z."""
    d = cells.size
    mean, var, tilt, low, high = np.zeros(d), np.zeros(d), 0.0, -np.inf, np.inf
    rows, log_z = probabilities(w, cells, tilt)
    room = slack_for(rows, target)
    if not 0 < room < rows.p.size - d or log_z == -np.inf:  # truncated entries may reach the target
        for side in (1, -1):
            edge, reach, log_edge = _edge(w, cells, side)
            if side * (target - reach) < 0:
                return WindowRows(edge, np.zeros(d + 1, np.int64), np.empty(0)), mean, var, tilt, -np.inf
            if target == reach:
                return WindowRows(edge, np.arange(d + 1), np.ones(d)), mean, var, tilt, log_edge
    for _ in range(200):
        gap, spread = 1.0 * slack_for(rows, target), 0.0
        for i in range(d):
            mean[i], var[i] = moments(row_of(rows, i))
            gap -= mean[i]
            spread += var[i]
        if not abs(gap) > 2.0 * np.sqrt(spread) + 1e-9 or np.isnan(log_z):
            break
        low, high = (tilt, high) if gap > 0 else (low, tilt)
        step = min(max(gap / spread, -2.0 - abs(tilt)), 2.0 + abs(tilt))
        if not low < tilt + step < high:
            step = 0.5 * (low + high) - tilt
        tilt += step
        rows, log_z = probabilities(w, cells, tilt)
    return rows, mean, var, tilt, log_z
