"""Sums of integers by convolution, of probabilities or of logarithms: slow, and accurate to rounding.

These methods are used if a total is so improbable that the error bound of Fourier inversion is too large, or if that
would take longer. Sums of probabilities have no cancellation, but the smallest numbers are lost. Logarithms serve all
weights, and take 30 times as long.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import (
    Weights,
    WindowRows,
    log_rows,
    normalise,
    row_of,
    slack_for,
    vectorised,
)

CUT = 200.0  # log weights this far below the maximum of a cell are omitted
TINY = 1e-200  # smaller probabilities of sums are omitted: their products would be subnormal numbers, which are slow


@vectorised
def _products(rows: WindowRows, slack: int, backward: bool) -> NDArray:
    """Return probabilities of sums 0..slack over the first (backward: last) i cells, i = 0..d; shape (d+1, slack+1)."""
    d = rows.first.size
    partial = np.zeros((d + 1, slack + 1))
    partial[0, 0] = 1.0
    for i in range(d):
        row, before, after = row_of(rows, d - 1 - i if backward else i), partial[i], partial[i + 1]
        for k in range(min(row.size, slack + 1)):
            for a in range(slack + 1 - k):
                after[a + k] += row[k] * before[a]
        for a in range(slack + 1):
            after[a] = after[a] if after[a] > TINY else 0.0
    return partial


@vectorised
def by_probabilities(
    w: Weights, cells: NDArray, target: int, tilt: float
) -> tuple[bool, float, WindowRows, WindowRows]:
    """Convolve the tilted cells forward and backward."""
    rows, log_z, d = log_rows(w, cells, tilt, CUT), 0.0, cells.size
    for i in range(d):
        log_z += normalise(row_of(rows, i))
    slack, rest = slack_for(rows, target), WindowRows(rows.first, rows.start, np.zeros(rows.p.size))
    if slack < 0:
        return False, -np.inf, rows, rest
    partial, after = _products(rows, slack, False), _products(rows, slack, True)
    after = after[:, ::-1].copy()  # entry a belongs to the sum slack - a
    for i in range(d):
        out, before, beyond = row_of(rest, i), partial[i], after[d - 1 - i]
        for k in range(min(out.size, slack + 1)):
            for a in range(slack + 1 - k):
                out[k] += before[a] * beyond[a + k]
    log_p = np.log(partial[d, slack])
    return log_p > 60.0 - CUT, log_z + log_p, rows, rest


@vectorised
def convolved(rows: WindowRows, slack: int, backward: bool) -> NDArray:
    """Return log weights of sums 0..slack over the first (backward: last) i cells, i = 0..d; shape (d+1, slack+1)."""
    d = rows.first.size
    partial = np.full((d + 1, slack + 1), -np.inf)
    partial[0, 0] = 0.0
    for i in range(d):
        row = row_of(rows, d - 1 - i if backward else i)
        for a in range(slack + 1):
            top, mass = -np.inf, 0.0
            for k in range(min(row.size, a + 1)):
                top = max(top, partial[i, a - k] + row[k])
            if top > -np.inf:
                for k in range(min(row.size, a + 1)):
                    mass += np.exp(partial[i, a - k] + row[k] - top)
                partial[i + 1, a] = top + np.log(mass)
    return partial


@vectorised
def by_convolution(
    w: Weights, cells: NDArray, target: int, tilt: float, log_z: float
) -> tuple[float, WindowRows, NDArray]:
    """Return the tilted log coefficient, log weights and forward partial sums, for all weights."""
    for cut in (CUT, np.inf):
        rows = log_rows(w, cells, tilt, cut)
        slack = slack_for(rows, target)
        partial = convolved(rows, max(slack, 0), False)
        value = partial[cells.size, slack] if slack >= 0 else -np.inf
        if value > log_z + 60.0 - cut:  # the truncated mass is negligible
            break
    return value, rows, partial
