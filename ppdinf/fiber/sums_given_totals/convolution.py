"""Sums of integers by convolution of logarithms: slow, and right to rounding whatever the weights.

Where a total is so rare that the error bound of Fourier inversion hides it, this does the sum over.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import Rows, Weights, log_rows, row_of, slack_for, vectorised

__all__ = ["by_convolution", "convolved"]


@vectorised
def convolved(rows: Rows, room: int, backward: bool) -> NDArray:
    """Log weights of sums 0..room over the first (backward: last) i cells, i = 0..d; (d+1, room+1)."""
    d = rows.first.size
    partial = np.full((d + 1, room + 1), -np.inf)
    partial[0, 0] = 0.0
    for i in range(d):
        row = row_of(rows, d - 1 - i if backward else i)
        for a in range(room + 1):
            top, mass = -np.inf, 0.0
            for k in range(min(row.size, a + 1)):
                top = max(top, partial[i, a - k] + row[k])
            if top > -np.inf:
                for k in range(min(row.size, a + 1)):
                    mass += np.exp(partial[i, a - k] + row[k] - top)
                partial[i + 1, a] = top + np.log(mass)
    return partial


@vectorised
def by_convolution(w: Weights, cells: NDArray, target: int, tilt: float, log_z: float) -> tuple[float, Rows, NDArray]:
    """Tilted log coefficient, log weights and forward partial sums, whatever the weights."""
    for cut in (200.0, np.inf):
        rows = log_rows(w, cells, tilt, cut)
        room = slack_for(rows, target)
        partial = convolved(rows, max(room, 0), False)
        value = partial[cells.size, room] if room >= 0 else -np.inf
        if value > log_z + 60.0 - cut:  # what was cut off is negligible
            break
    return value, rows, partial
