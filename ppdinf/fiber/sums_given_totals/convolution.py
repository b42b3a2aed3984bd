"""Sums of integers by convolution of logarithms: slow, and accurate to rounding for all weights.

This method is used if a total is so improbable that the error bound of Fourier inversion is too large.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import Weights, WindowRows, log_rows, row_of, slack_for, vectorised

__all__ = ["by_convolution", "convolved"]


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
    for cut in (200.0, np.inf):
        rows = log_rows(w, cells, tilt, cut)
        slack = slack_for(rows, target)
        partial = convolved(rows, max(slack, 0), False)
        value = partial[cells.size, slack] if slack >= 0 else -np.inf
        if value > log_z + 60.0 - cut:  # the truncated mass is negligible
            break
    return value, rows, partial
