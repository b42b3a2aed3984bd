"""The law of noisy sums of a table's histogram of counts, as a function of the table.

A table of N cells with counts 0 to n - 1 has the histogram h. Sums S h were published with independent double geometric
noise of one rate. The log probability of noisy sums m is ``-rate |m - S h|_1`` minus a constant. A cell that changes
from the count a to a + 1 changes the sums by a column of *steps*. This column usually has one or two nonzero entries,
and Gibbs updates of the table use only these columns.

Noise around a cycle, ``h_i + L_i - L_(i+1)``, determines the noise L up to a common shift of all values. The partial
sums of the noisy histogram equal the partial sums of h plus L_0 - L_i. The shift is marginalized.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True, eq=False)
class HistogramNoise:
    """Law of noisy sums of a histogram as a function of the table."""

    measured: NDArray[np.int64]
    lowest: NDArray[np.int64]
    steps: sparse.csc_array
    rate: float
    shifted: bool = False

    @staticmethod
    def of_sums(sums: object, measured: object, rate: float) -> HistogramNoise:
        """Construct the law from a matrix of sums of the histogram, shape (k, n)."""
        matrix = sparse.csc_array(sums).astype(np.int64)
        steps = sparse.csc_array(matrix[:, 1:] - matrix[:, :-1])
        steps.eliminate_zeros()
        return HistogramNoise(np.asarray(measured, dtype=np.int64), matrix[:, [0]].toarray().ravel(), steps, rate)

    @property
    def n(self) -> int:
        """Number of possible counts."""
        return int(self.steps.shape[1]) + 1

    def left(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the residual noise given a table, shape (k,): measured sums minus the sums of the table."""
        above = (
            cells.size - np.cumsum(np.bincount(cells.ravel(), minlength=self.n))[:-1]
        )  # number of cells above each count
        left: NDArray[np.int64] = self.measured - cells.size * self.lowest - self.steps @ above
        return left

    def log_density(self, cells: NDArray[np.int64]) -> float:
        """Return the log probability of the noisy sums given a table."""
        if ((cells < 0) | (cells >= self.n)).any():
            return -math.inf
        left = self.left(cells)
        log_weight = _log_shifted(left, self.rate) if self.shifted else -self.rate * float(np.abs(left).sum())
        return log_weight + left.size * math.log(math.tanh(self.rate / 2))


def _log_shifted(left: NDArray[np.int64], rate: float) -> float:
    """Return the log of the sum over integers c of ``exp(-rate |left + c|_1)``; both tails are geometric series."""
    low, high = -int(left.max()), -int(left.min())  # the signs of left + c change between these values
    ordered = np.sort(left)
    sums = np.append(0, np.cumsum(ordered))
    c = np.arange(low, high + 1)
    below = np.searchsorted(ordered, -c)  # number of entries with left + c < 0
    norm = sums[-1] - 2 * sums[below] + c * (left.size - 2 * below)
    tails = -rate * norm[[0, -1]] - math.log(math.expm1(rate * left.size))
    return float(np.logaddexp.reduce(np.concatenate([-rate * norm, tails])))
