"""Random truncation of windows, so that an update evaluates only counts near the table.

Windows are much wider than the change of a count in one draw: beyond 35 standard deviations if the noise scale is
unknown (l2). Each draw therefore divides the windows into intervals of equal size at random positions that do not
depend on the table, and updates the table within the intervals that contain it. Conditional on the random truncation,
the kernel leaves the target invariant, hence also marginally. A share of the draws uses complete windows, so that all
moves stay possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WHOLE = 1 / 16  # share of the draws with complete windows
SPREADS = 4  # size of an interval in standard deviations of the noise
LARGE = 2**16  # smallest number of log weights for truncation
BLOCK = 2**20  # log weights whose variances are computed together

type Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RandomTruncation:
    """Division of windows into intervals of equal size at random positions."""

    lower: Whole
    width: int
    size: int
    variances: NDArray[np.float64]

    @property
    def is_complete(self) -> bool:
        """Whether windows are never truncated because the table is small."""
        return self.size == self.width and self.lower.size * self.width < LARGE

    def draw(self, rng: np.random.Generator) -> Whole | None:
        """Draw the part of each first interval that is before its window; None for no truncation."""
        if self.size == self.width or rng.random() < WHOLE:
            return None
        return rng.integers(self.size, size=self.lower.size)

    def around(self, table: Whole, at: Whole | None) -> tuple[Whole, int]:
        """Return the smallest counts of the intervals that contain a table, shape (d,), and their number of counts."""
        if at is None:
            return self.lower, self.width
        return self.lower - at + (table - self.lower + at) // self.size * self.size, self.size

    def restricted(self, weights: NDArray[np.float64], lower: Whole, width: int) -> NDArray[np.float64]:
        """Return the log weights of intervals from those of the windows; -inf outside of the windows."""
        column = (lower - self.lower)[:, None] + np.arange(width)
        inside = (column >= 0) & (column < self.width)
        found = np.take_along_axis(weights, np.clip(column, 0, self.width - 1), axis=1)
        return np.where(inside, found, -np.inf)


def random_truncation(lower: Whole, log_noise: NDArray[np.float64]) -> RandomTruncation:
    """Choose the size of intervals by the spread of the noise within the windows."""
    (d, width), rows = log_noise.shape, max(1, BLOCK // log_noise.shape[1])
    variances = np.concatenate([np.zeros(0), *(variance(log_noise[i : i + rows]) for i in range(0, d, rows))])
    size = int(SPREADS * np.sqrt(max(variances.max(initial=0.0), 1.0)))
    return RandomTruncation(lower, width, size if log_noise.size >= LARGE and 2 * size <= width else width, variances)


def variance(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variance of a count whose log weights are given, for each row."""
    weights, counts = np.exp(log_weights - log_weights.max(axis=1, keepdims=True)), np.arange(log_weights.shape[1])
    weights /= weights.sum(axis=1, keepdims=True)
    return (weights * (counts - (weights @ counts)[:, None]) ** 2).sum(axis=1)
