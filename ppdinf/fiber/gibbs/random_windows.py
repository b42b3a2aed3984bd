"""Windows cut at random, so that a walk weighs only counts near where its table is.

Noise reaches far beyond where a count moves in one draw: further than 35 standard deviations where its scale is not
known (l2). So each draw cuts the windows into pieces of equal size, with cuts that do not look at the table, and walks
within the pieces that hold it. Given the cuts that keeps the law of the table within them, so it keeps the law. Now and
then a draw has whole windows: what connects the tables then still does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cuts", "cuts"]

WHOLE = 1 / 16  # of the draws have whole windows
SPREADS = 4  # standard deviations of noise to a piece
LARGE = 2**16  # entries of a table of log weights that are worth cutting

type Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cuts:
    """Pieces of windows.

    Attributes
    ----------
    lower : array of int64, shape (d,)
        Smallest count of each window.
    width, size : int
        Counts of a window, and of a piece of one; as many where windows are not cut.
    variances : array of float64, shape (d,)
        Of the counts by what was published of each alone.
    """

    lower: Whole
    width: int
    size: int
    variances: NDArray[np.float64]

    @property
    def are_none(self) -> bool:
        """Whether windows are never cut, the table being so small."""
        return self.size == self.width and self.lower.size * self.width < LARGE

    def draw(self, rng: np.random.Generator) -> Whole | None:
        """Draw where the windows are cut, counts of each cell's first piece beyond its window; None for nowhere."""
        if self.size == self.width or rng.random() < WHOLE:
            return None
        return rng.integers(self.size, size=self.lower.size)

    def around(self, table: Whole, at: Whole | None) -> tuple[Whole, int]:
        """Smallest counts of the pieces that hold a table, shape (d,), and how many counts they have.

        Pieces at the ends of a window go beyond it.

        Examples
        --------
        >>> Cuts(np.zeros(2, dtype=np.int64), 100, 10, np.ones(2)).around(np.array([4, 45]), np.array([3, 0]))
        (array([-3, 40]), 10)
        """
        if at is None:
            return self.lower, self.width
        return self.lower - at + (table - self.lower + at) // self.size * self.size, self.size

    def piece(self, weights: NDArray[np.float64], lower: Whole, width: int) -> NDArray[np.float64]:
        """Read log weights of pieces off those of the windows; -inf beyond these."""
        column = (lower - self.lower)[:, None] + np.arange(width)
        inside = (column >= 0) & (column < self.width)
        found = np.take_along_axis(weights, np.clip(column, 0, self.width - 1), axis=1)
        return np.where(inside, found, -np.inf)


def cuts(lower: Whole, log_noise: NDArray[np.float64]) -> Cuts:
    """Choose the size of pieces by how far noise spreads within the windows.

    Parameters
    ----------
    lower : array of int64, shape (d,)
    log_noise : array of float64, shape (d, width)
        Log weights of counts by what was published of each alone.

    Examples
    --------
    >>> cuts(np.zeros(900, dtype=np.int64), -0.5 * (np.arange(-99, 100.0) / 5)[None].repeat(900, 0) ** 2).size
    20
    """
    width = log_noise.shape[1]
    weights, counts = np.exp(log_noise - log_noise.max(axis=1, keepdims=True)), np.arange(width)
    weights /= weights.sum(axis=1, keepdims=True)
    variances = (weights * (counts - (weights @ counts)[:, None]) ** 2).sum(axis=1)
    size = int(SPREADS * np.sqrt(max(variances.max(initial=0.0), 1.0)))
    return Cuts(lower, width, size if log_noise.size >= LARGE and 2 * size <= width else width, variances)
