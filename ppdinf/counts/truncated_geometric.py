"""Double geometric noise on a count, clipped at both ends: a mechanism whose columns are the single-peaked scales.

Values below 0 or above n - 1 are set to the nearest end, which does not affect privacy.

A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally utility-maximizing privacy mechanisms", SICOMP 41, 2012.
"""

from __future__ import annotations

import math

import numpy as np

from ppdinf._internal.rationals import Parameter
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.distribution import require_size
from ppdinf.counts.scales import as_epsilon


def truncated_geometric(n: int, epsilon: Parameter) -> CountMechanism:
    """Construct the mechanism that adds double geometric noise and clips at 0 and n - 1.

    Parameters
    ----------
    n : int
        Number of possible counts, at least 2.
    epsilon : int, float, str or Fraction
        Privacy loss between a count and the next one.

    Returns
    -------
    CountMechanism

    Raises
    ------
    PrivacyError
        n or epsilon is out of range.

    See Also
    --------
    ppdinf.counts.staircase, ppdinf.counts.discrete_gaussian

    Examples
    --------
    >>> from ppdinf.counts import truncated_geometric
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
