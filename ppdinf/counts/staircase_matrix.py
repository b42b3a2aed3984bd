"""Staircase noise on a count, rounded and clipped at both ends, for comparison.

Q. Geng, P. Viswanath, "The optimal noise-adding mechanism in differential privacy", IEEE Trans. Inf. Theory 62, 2016.
"""

from __future__ import annotations

import math

import numpy as np

from ppdinf._internal.rationals import Parameter
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.cut_noise import cut_noise
from ppdinf.counts.distribution import require_size
from ppdinf.counts.scales import as_epsilon


def staircase(n: int, epsilon: Parameter) -> CountMechanism:
    """Construct the mechanism that adds staircase noise, rounds and clips at 0 and n - 1.

    Parameters
    ----------
    n : int
        Number of possible counts, at least 2.
    epsilon : int, float, str or Fraction
        The width of the first stair is ``1 / (1 + exp(epsilon / 2))``, which minimises the absolute error for real
        numbers.

    Returns
    -------
    CountMechanism

    See Also
    --------
    ppdinf.counts.truncated_geometric, ppdinf.counts.discrete_gaussian

    Examples
    --------
    >>> from ppdinf.counts import staircase
    >>> staircase(3, epsilon=1).matrix.round(3)
    array([[0.72 , 0.177, 0.103],
           [0.28 , 0.44 , 0.28 ],
           [0.103, 0.177, 0.72 ]])
    """
    require_size(n)
    exact = as_epsilon(epsilon)
    rate = float(exact)
    step, fall = 1 / (1 + math.exp(rate / 2)), math.exp(-rate)
    height = -math.expm1(-rate) / (2 * (step + fall * (1 - step)))  # the density at 0
    log_p = math.log(height * (0.5 + step + (0.5 - step) * fall)) - rate * np.arange(n + 1.0)
    log_p[0] = math.log(2 * height * (step + (0.5 - step) * fall))
    log_tail = log_p - math.log(-math.expm1(-rate))
    log_tail[0] = np.logaddexp(log_p[0], log_tail[1])
    return CountMechanism.of_logarithms(cut_noise(log_p[:n], log_tail), exact, name="staircase")
