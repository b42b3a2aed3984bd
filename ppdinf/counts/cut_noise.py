"""Symmetric noise on a count, clipped at both ends: values below 0 or above n - 1 are set to the nearest end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def cut_noise(log_p: NDArray[np.float64], log_tail: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log probabilities of clipped symmetric noise."""
    n = log_p.size
    rows = np.arange(n)
    found = log_p[np.abs(rows[:, np.newaxis] - rows)]
    found[:, 0], found[:, -1] = log_tail[rows], log_tail[rows[::-1]]
    return found
