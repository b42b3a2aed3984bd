"""Double geometric noise, cut at both ends: a mechanism whose columns are the single-peaked scales.

What falls below 0 or above n - 1 is returned to the nearest end, which no privacy is lost by.

A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally utility-maximizing privacy mechanisms", SICOMP 41, 2012.
"""

from __future__ import annotations

import math

import numpy as np

from ppdinf._internal.rationals import Parameter
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.distribution import require_size
from ppdinf.counts.scales import as_epsilon

__all__ = ["truncated_geometric"]


def truncated_geometric(n: int, epsilon: Parameter) -> CountMechanism:
    """Build the mechanism that adds double geometric noise and cuts at 0 and n - 1.

    Parameters
    ----------
    n : int
        Number of possible counts, from 2 on.
    epsilon : int, float, str or Fraction
        Privacy loss between a count and the next.

    Returns
    -------
    CountMechanism

    Raises
    ------
    PrivacyError
        n or epsilon out of range.

    Examples
    --------
    >>> truncated_geometric(3, epsilon=1).matrix.round(3)
    array([[0.731, 0.17 , 0.099],
           [0.269, 0.462, 0.269],
           [0.099, 0.17 , 0.731]])
    """
    require_size(n)
    exact = as_epsilon(epsilon)
    fall, rows = math.exp(-exact), np.arange(n)
    peaks = np.full(n, -math.expm1(-exact) / (1 + fall))
    peaks[[0, -1]] = 1 / (1 + fall)
    return CountMechanism.of_scales(rows, peaks, rows[:-1] < rows[:, np.newaxis], exact, name="truncated geometric")
