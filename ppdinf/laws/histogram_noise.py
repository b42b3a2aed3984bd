"""What noisy sums of a table's histogram of counts tell of the table.

A table of N cells with counts 0 to n - 1 has the histogram h. Sums S h were published with independent double geometric
noise of one rate: for noisy sums m, the log probability of a table is ``-rate |m - S h|_1`` up to a constant. A cell
that goes from the count a to a + 1 changes the sums by a column of *steps*, which mostly has one or two entries: that
is all that walks of the table need.

Noise around a cycle, ``h_i + L_i - L_(i+1)``, tells the noise L but for a shift that all of its values have in common:
the partial sums of the noisy histogram are those of h, plus L_0 - L_i. The shift is summed out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["HistogramNoise"]


@dataclass(frozen=True, eq=False)
class HistogramNoise:
    """Law of noisy sums of a histogram, as a function of the table that it is of.

    Attributes
    ----------
    measured : array of int64, shape (k,)
        The noisy sums.
    lowest : array of int64, shape (k,)
        What a cell with the count 0 adds to each sum.
    steps : scipy.sparse.csc_array of int64, shape (k, n - 1)
        What it adds further on the way from each count to the next.
    rate : float
        Of the noise, per cell.
    shifted : bool
        Whether the noise is known but for a whole number that is added to all of it.

    Examples
    --------
    >>> noise = HistogramNoise.of_sums(np.eye(3, dtype=np.int64), [2, 0, 1], rate=0.5)
    >>> noise.left(np.array([0, 1, 2])), noise.log_density(np.array([0, 1, 2]))
    (array([ 1, -1,  0]), -1.0)
    """

    measured: NDArray[np.int64]
    lowest: NDArray[np.int64]
    steps: sparse.csc_array
    rate: float
    shifted: bool = False

    @staticmethod
    def of_sums(sums: object, measured: object, rate: float) -> HistogramNoise:
        """State the law by a matrix of sums of the histogram, shape (k, n)."""
        found = sparse.csc_array(sums).astype(np.int64)
        steps = sparse.csc_array(found[:, 1:] - found[:, :-1])
        steps.eliminate_zeros()
        return HistogramNoise(np.asarray(measured, dtype=np.int64), found[:, [0]].toarray().ravel(), steps, rate)

    @property
    def n(self) -> int:
        """Number of possible counts."""
        return int(self.steps.shape[1]) + 1

    def left(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the noise that a table leaves, shape (k,): measured sums minus its own."""
        above = cells.size - np.cumsum(np.bincount(cells.ravel(), minlength=self.n))[:-1]  # cells above each count
        left: NDArray[np.int64] = self.measured - cells.size * self.lowest - self.steps @ above
        return left

    def log_density(self, cells: NDArray[np.int64]) -> float:
        """Log probability of the noisy sums given a table, up to a constant; ``-inf`` outside 0 to n - 1."""
        if ((cells < 0) | (cells >= self.n)).any():
            return -math.inf
        left = self.left(cells)
        return _log_shifted(left, self.rate) if self.shifted else -self.rate * float(np.abs(left).sum())


def _log_shifted(left: NDArray[np.int64], rate: float) -> float:
    """Log of the sum over whole c of ``exp(-rate |left + c|_1)``; the two tails are geometric series."""
    low, high = -int(left.max()), -int(left.min())  # between them signs of left + c change
    ordered = np.sort(left)
    sums = np.append(0, np.cumsum(ordered))
    c = np.arange(low, high + 1)
    below = np.searchsorted(ordered, -c)  # entries with left + c < 0
    norm = sums[-1] - 2 * sums[below] + c * (left.size - 2 * below)
    tails = -rate * norm[[0, -1]] - math.log(math.expm1(rate * left.size))
    return float(np.logaddexp.reduce(np.concatenate([-rate * norm, tails])))
