"""Windows of counts from 0 on, by what was published alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppdinf.distributions.observation.observed_measurements import ObservedMeasurements
from ppdinf.distributions.observation.truncation_bounds import possible_counts
from ppdinf.errors import ModelError

__all__ = ["CountWindows", "count_windows"]

LARGEST = 2**26  # log weights of counts, cells by counts: 512 MB
FURTHER = 2.0  # how far windows go below what noise reaches, in its own reach: a prior of sparse tables pulls down


@dataclass(frozen=True, eq=False)
class CountWindows:
    """Counts that cells can have.

    Attributes
    ----------
    lower : array of int64, shape (d,)
    counts : array of int64, shape (d, width)
        ``lower[i], lower[i] + 1, ...``, with 0 in place of what is negative.
    log_noise : array of float64, shape (d, width)
        Log weights by what was measured of each cell alone; ``-inf`` for what public bounds exclude.
    """

    lower: NDArray[np.int64]
    counts: NDArray[np.int64]
    log_noise: NDArray[np.float64]

    @property
    def most(self) -> int:
        """Largest count of any."""
        return int(self.counts.max())


def count_windows(observed: ObservedMeasurements) -> CountWindows:
    """Find the counts of every cell.

    Raises
    ------
    ModelError
        Naming a cell that nothing published bounds; windows that do not fit into memory.
    """
    system, d = observed.system, observed.frame.size
    nonnegative = np.ones(d, dtype=bool)
    low, high = possible_counts(system, nonnegative, observed.tail_inequalities())
    below, upper = observed.truncation(low, high)
    below = np.maximum(below - FURTHER * (upper - below) / 2, low - 1)
    bounded = np.isfinite(upper)
    if not bounded.all():
        cell = system.frame.cell(int(np.argmin(bounded)))
        raise ModelError(
            f"nothing published bounds the count at {cell}: without a model of your own (ppd.PartiallyPrivate) "
            "every cell needs a measurement, or a noisy or exact sum of counts that holds it"
        )
    width = int((upper - below).max()) + 1
    if width * d > LARGEST:
        raise ModelError(f"noise leaves {width:,} counts to a cell, of which {d:,} cells can have {LARGEST // d:,}")
    lower = below.astype(np.int64)
    counts = lower[:, None] + np.arange(width)
    least, most = system.cell_limits
    allowed = (counts >= np.maximum(least, 0)[:, None]) & (counts <= most[:, None])
    log_noise = np.where(allowed, observed.log_counts(counts), -np.inf)
    return CountWindows(lower, np.maximum(counts, 0), log_noise)
