"""Discrete Gaussian noise on a count, clipped at both ends, for comparison.

C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", J. Priv. Confid. 12, 2022.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.cut_noise import cut_noise
from ppdinf.counts.distribution import require_size
from ppdinf.counts.scales import as_epsilon
from ppdinf.privacy.discrete_gaussian_scale import discrete_gaussian_sigma


def discrete_gaussian(n: int, epsilon: Parameter, delta: Parameter) -> CountMechanism:
    """Construct the mechanism that adds discrete Gaussian noise and clips at 0 and n - 1.

    Parameters
    ----------
    n : int
        Number of possible counts, at least 2.
    epsilon, delta : int, float, str or Fraction
        The noise is the narrowest that satisfies (epsilon, delta) between a count and the next one, before
        clipping.

    Returns
    -------
    CountMechanism

    See Also
    --------
    ppdinf.counts.truncated_geometric, ppdinf.counts.staircase

    Examples
    --------
    >>> from ppdinf.counts import discrete_gaussian
    >>> mechanism = discrete_gaussian(5, epsilon=1, delta="1/100")
    >>> bool(mechanism.audit().delta <= 0.01), mechanism.matrix[2].round(3)
    (True, array([0.206, 0.186, 0.215, 0.186, 0.206]))
    """
    require_size(n)
    exact, tail_probability = as_epsilon(epsilon), as_fraction(delta, "delta")
    sigma = discrete_gaussian_sigma(exact, tail_probability)
    k = np.arange(max(n + 1, math.ceil(40 * sigma) + 2), dtype=np.float64)
    log_p = -((k / sigma) ** 2) / 2
    log_p -= logsumexp(np.concatenate([log_p, log_p[1:]]))
    log_tail = np.logaddexp.accumulate(log_p[::-1])[::-1]
    return CountMechanism.of_logarithms(
        cut_noise(log_p[:n], log_tail[: n + 1]), exact, name="discrete Gaussian", delta=tail_probability
    )
