"""Priors of counts whose parameters are given: independent cells, with exact log weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ppdinf.errors import ModelError
from ppdinf.tables.frame import Frame


@dataclass(frozen=True)
class BinomialPrior:
    """Independent binomial counts: cell i has the prior ``Binomial(n[i], p)``.

    Parameters
    ----------
    trials : str
        Coordinate of the table with the known n of every cell, such as the housing units of a block.
    p : float
        Probability, 0 < p < 1. It is given, not learned: see Notes of `ppdinf.denoise_parts`.

    Raises
    ------
    ModelError
        p is not between 0 and 1.

    See Also
    --------
    ppdinf.denoise_parts, ppdinf.census.read_occupied

    Examples
    --------
    >>> import ppdinf as ppd
    >>> ppd.denoising.BinomialPrior("units", 0.9)
    BinomialPrior(trials='units', p=0.9)
    """

    trials: str
    p: float

    def __post_init__(self) -> None:
        if not 0 < self.p < 1:
            raise ModelError(f"p must be between 0 and 1, found {self.p}")

    def largest(self, frame: Frame) -> NDArray[np.int64]:
        """Return the largest count of every cell, its number of trials.

        Raises
        ------
        ModelError
            The coordinate contains a value that is not a count; the message names the cell.
        """
        trials = frame.broadcast(self.trials)
        good = trials >= 0 if trials.dtype.kind in "iu" else np.zeros(frame.size, dtype=bool)
        if not good.all():
            raise ModelError(
                f"the coordinate {self.trials!r} must contain integers >= 0, the trials of every cell; "
                f"{frame.cell(int(np.argmin(good)))} does not have one"
            )
        return trials.astype(np.int64)

    def log_weights(self, trials: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log probability of counts from 0 to the number of their trials, elementwise."""
        log_factorial = gammaln(np.arange(1.0, trials.max(initial=0) + 2))
        failures = trials - counts
        weights = log_factorial[trials] - log_factorial[counts] - log_factorial[failures]
        return weights + counts * np.log(self.p) + failures * np.log1p(-self.p)
