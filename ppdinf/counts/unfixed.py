"""Mechanisms without a fixed point, which are compared with: truncated geometric, its best relabelling, and two more.

Each adds noise to the count and returns what falls below 0 or above n - 1 to the nearest end, which no privacy is lost
by. The least error of all mechanisms that satisfy epsilon is reached by relabelling what the truncated geometric one
returns (Ghosh et al.): its columns are the single-peaked scales, each of which goes where it costs least, from left to
right (Algorithm 2).

A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally utility-maximizing privacy mechanisms", SICOMP 41, 2012.
Q. Geng, P. Viswanath, "The optimal noise-adding mechanism in differential privacy", IEEE Trans. Inf. Theory 62, 2016.
C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", J. Priv. Confid. 12, 2022.
N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms", Section 5.3.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp

from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.distribution import as_distribution
from ppdinf.counts.scales import as_epsilon, falling
from ppdinf.errors import PrivacyError
from ppdinf.rationals import as_fraction

__all__ = ["discrete_gaussian", "staircase", "truncated_geometric", "unfixed"]


def truncated_geometric(n: int, epsilon: Any) -> CountMechanism:
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
    _require_size(n)
    exact = as_epsilon(epsilon)
    return CountMechanism.of_scales(
        np.arange(n), _peaks(n, exact), _single_peaked(n), exact, name="truncated geometric"
    )


def unfixed(z: Any, epsilon: Any, *, power: int = 1) -> CountMechanism:
    """Build the mechanism of least error for counts with distribution z, whatever becomes of that (Algorithm 2).

    Parameters
    ----------
    z : array_like of float, shape (n,)
        Distribution of the true counts.
    epsilon : int, float, str or Fraction
    power : int
        Of the error ``|released - count|^power``, from 1 on.

    Returns
    -------
    CountMechanism

    Notes
    -----
    O(n^2).

    Examples
    --------
    >>> unfixed([0.8, 0.1, 0.1], epsilon=1).matrix.round(3)  # 2 is never worth releasing
    array([[0.901, 0.099, 0.   ],
           [0.731, 0.269, 0.   ],
           [0.269, 0.731, 0.   ]])
    """
    z = as_distribution(z)
    exact = as_epsilon(epsilon)
    n = z.size
    table = falling(np.arange(n), exact)
    columns, j, rows = np.empty(n, dtype=np.int64), 0, np.arange(n)
    for peak in range(n):
        mass = z * table[np.abs(rows - peak)]
        cost = float(mass @ np.abs(rows - j) ** power)
        while j < n - 1 and (ahead := float(mass @ np.abs(rows - j - 1) ** power)) <= cost:
            j, cost = j + 1, ahead
        columns[peak] = j
    return CountMechanism.of_scales(columns, _peaks(n, exact), _single_peaked(n), exact, name="unfixed optimum")


def staircase(n: int, epsilon: Any) -> CountMechanism:
    """Build the mechanism that adds staircase noise, rounds and cuts at 0 and n - 1.

    Parameters
    ----------
    n : int
        Number of possible counts, from 2 on.
    epsilon : int, float, str or Fraction
        The width of the first stair is ``1 / (1 + exp(epsilon / 2))``, best for the absolute error of real numbers.

    Returns
    -------
    CountMechanism

    Examples
    --------
    >>> staircase(3, epsilon=1).matrix.round(3)
    array([[0.72 , 0.177, 0.103],
           [0.28 , 0.44 , 0.28 ],
           [0.103, 0.177, 0.72 ]])
    """
    _require_size(n)
    exact = as_epsilon(epsilon)
    rate = float(exact)
    step, fall = 1 / (1 + math.exp(rate / 2)), math.exp(-rate)
    height = -math.expm1(-rate) / (2 * (step + fall * (1 - step)))  # of the density at 0
    log_p = math.log(height * (0.5 + step + (0.5 - step) * fall)) - rate * np.arange(n + 1.0)
    log_p[0] = math.log(2 * height * (step + (0.5 - step) * fall))
    log_tail = log_p - math.log(-math.expm1(-rate))
    log_tail[0] = np.logaddexp(log_p[0], log_tail[1])
    return CountMechanism.of_logarithms(_cut(log_p[:n], log_tail), exact, name="staircase")


def discrete_gaussian(n: int, epsilon: Any, delta: Any) -> CountMechanism:
    """Build the mechanism that adds discrete Gaussian noise and cuts at 0 and n - 1.

    Parameters
    ----------
    n : int
        Number of possible counts, from 2 on.
    epsilon, delta : int, float, str or Fraction
        The noise is the narrowest that satisfies (epsilon, delta) between a count and the next, before it is cut.

    Returns
    -------
    CountMechanism

    Examples
    --------
    >>> mechanism = discrete_gaussian(5, epsilon=1, delta="1/100")
    >>> bool(mechanism.audit().delta <= 0.01), mechanism.matrix[2].round(3)
    (True, array([0.206, 0.186, 0.215, 0.186, 0.206]))
    """
    _require_size(n)
    exact, rare = as_epsilon(epsilon), as_fraction(delta, "delta")
    sigma = gaussian_sigma(exact, rare)
    k = np.arange(max(n + 1, math.ceil(40 * sigma) + 2), dtype=np.float64)
    log_p = -((k / sigma) ** 2) / 2
    log_p -= logsumexp(np.concatenate([log_p, log_p[1:]]))
    log_tail = np.logaddexp.accumulate(log_p[::-1])[::-1]
    return CountMechanism.of_logarithms(_cut(log_p[:n], log_tail[: n + 1]), exact, name="discrete Gaussian", delta=rare)


@lru_cache(maxsize=32)
def gaussian_sigma(epsilon: Fraction, delta: Fraction) -> float:
    """Least sigma whose discrete Gaussian and its shift by one are (epsilon, delta) indistinguishable, rounded up."""
    if delta >= 1:
        raise PrivacyError(f"delta must lie below 1, found {delta}")
    rate, rare = float(epsilon), float(delta)

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        k = np.arange(-math.ceil(40 * sigma + rate * sigma**2) - 2, math.ceil(40 * sigma) + 2, dtype=np.float64)
        weight = np.exp(-((k / sigma) ** 2) / 2)
        beyond = np.maximum(0, weight - np.exp(rate - (((k + 1) / sigma) ** 2) / 2))
        return math.log(float(beyond.sum() / weight.sum()) + 1e-300) - math.log(rare)

    low, high = math.log(0.05), math.log(0.1)
    while excess(high) > 0:
        high += math.log(2)
    if excess(low) <= 0:
        return math.exp(low)
    return math.exp(brentq(excess, low, high, xtol=1e-10)) * (1 + 1e-9)


def _cut(log_p: NDArray[np.float64], log_tail: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of the matrix of symmetric noise, cut: ``log_p[k]`` of the value k, ``log_tail[k]`` of k and more."""
    n = log_p.size
    rows = np.arange(n)
    found = log_p[np.abs(rows[:, np.newaxis] - rows)]
    found[:, 0], found[:, -1] = log_tail[rows], log_tail[rows[::-1]]
    return found


def _peaks(n: int, epsilon: Fraction) -> NDArray[np.float64]:
    fall = math.exp(-epsilon)
    peaks = np.full(n, -math.expm1(-epsilon) / (1 + fall))
    peaks[[0, -1]] = 1 / (1 + fall)
    return peaks


def _single_peaked(n: int) -> NDArray[np.bool_]:
    return np.arange(n - 1) < np.arange(n)[:, np.newaxis]


def _require_size(n: Any) -> None:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2:
        raise PrivacyError(f"n, the number of possible counts, must be a whole number from 2 on, found {n!r}")
