"""Noise on one count, clipped at both ends, and the mechanism of smallest error without a fixed point."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Reals
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.distribution import as_distribution, costs, require_size
from ppdinf.counts.scales import as_epsilon, falling
from ppdinf.errors import PrivacyError
from ppdinf.privacy.gaussian_calibration import discrete_gaussian_sigma

ROUNDING = 1e-12  # margin of the logarithm that determines the bound of the noise


def cut_noise(log_p: Reals, log_tail: Reals) -> Reals:
    """Return the log probabilities of clipped symmetric noise."""
    rows = np.arange(log_p.size)
    log_matrix = log_p[np.abs(rows[:, np.newaxis] - rows)]
    log_matrix[:, 0], log_matrix[:, -1] = log_tail[rows], log_tail[rows[::-1]]
    return log_matrix


def _with_delta(n: int, log_weights: Reals, epsilon: Fraction, delta: Fraction, name: str) -> CountMechanism:
    """Return the mechanism of symmetric noise with these log weights at 0, 1, and so on."""
    log_p = log_weights - logsumexp(np.concatenate([log_weights, log_weights[1:]]))
    log_tail = np.logaddexp.accumulate(log_p[::-1])[::-1]
    return CountMechanism.of_logarithms(cut_noise(log_p[:n], log_tail), epsilon, name=name, delta=delta)


def truncated_geometric(n: int, epsilon: Parameter) -> CountMechanism:
    """Construct the mechanism that adds double geometric noise and clips at 0 and n - 1.

    Parameters
    ----------
    n : int
        Number of possible counts, at least 2.
    epsilon : int, float, str or Fraction
        Privacy loss between a count and the next one.

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


def bounded_geometric(n: int, epsilon: Parameter, delta: Parameter) -> CountMechanism:
    """Construct the mechanism that adds double geometric noise within -m to m and clips at 0 and n - 1.

    No released count is further than m from its count. m is the smallest integer for which the noise is m with
    probability at most delta, and is about ``log(epsilon / (2 delta)) / epsilon``. `ppdinf.Transition` with the same
    epsilon releases tables with the matrix.

    Parameters
    ----------
    n : int
        Number of possible counts, at least 2.
    epsilon, delta : int, float, str or Fraction
        Guarantee between a count and the next one. All of delta is at the two ends of the noise.

    See Also
    --------
    ppdinf.counts.truncated_geometric, ppdinf.counts.discrete_gaussian, ppdinf.Transition

    Examples
    --------
    >>> import ppdinf as ppd
    >>> mechanism = ppd.counts.bounded_geometric(9, epsilon=1, delta="1/20")
    >>> mechanism.matrix[4].round(3)  # m = 3
    array([0.   , 0.024, 0.064, 0.175, 0.475, 0.175, 0.064, 0.024, 0.   ])
    >>> float(ppd.Transition(mechanism.matrix, epsilon=1).guarantee.delta) <= 0.05
    True
    """
    require_size(n)
    exact, tail_probability = as_epsilon(epsilon), as_fraction(delta, "delta")
    if tail_probability >= 1:
        raise PrivacyError(f"delta must be below 1, found {delta!r}")
    rate, at_end, q = float(exact), float(tail_probability), math.exp(-exact)
    m = math.ceil(math.log((-math.expm1(-rate) + 2 * at_end * q) / (at_end * (1 + q))) / rate + ROUNDING)
    k = np.arange(max(n, m + 1) + 1.0)
    return _with_delta(n, np.where(k <= m, -rate * k, -np.inf), exact, tail_probability, "bounded geometric")


def staircase(n: int, epsilon: Parameter) -> CountMechanism:
    """Construct the mechanism that adds staircase noise, rounds and clips at 0 and n - 1.

    Parameters
    ----------
    n : int
        Number of possible counts, at least 2.
    epsilon : int, float, str or Fraction
        The width of the first stair is ``1 / (1 + exp(epsilon / 2))``, which minimises the absolute error for real
        numbers.

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


def discrete_gaussian(n: int, epsilon: Parameter, delta: Parameter) -> CountMechanism:
    """Construct the mechanism that adds discrete Gaussian noise and clips at 0 and n - 1.

    Parameters
    ----------
    n : int
        Number of possible counts, at least 2.
    epsilon, delta : int, float, str or Fraction
        The noise is the narrowest that satisfies (epsilon, delta) between a count and the next one, before clipping.

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
    return _with_delta(n, -((k / sigma) ** 2) / 2, exact, tail_probability, "discrete Gaussian")


def unfixed(z: ArrayLike, epsilon: Parameter, *, power: int = 1, weights: ArrayLike | None = None) -> CountMechanism:
    """Construct the mechanism of smallest error for counts with distribution z, without a fixed point (Algorithm 2).

    The cost is O(n^2).

    Parameters
    ----------
    z : array_like of float, shape (n,)
        Distribution of the true counts.
    epsilon : int, float, str or Fraction
    power : int
        Exponent of the error ``|released - count|^power``, at least 1.
    weights : array_like of float, shape (n, n), optional
        Cost of releasing j when the count is i, instead of ``z_i |i - j|^power``. Each row must be non-decreasing in
        ``|i - j|`` and convex in j (Definitions 11 and 12).

    Raises
    ------
    PrivacyError
        z is not a distribution, or `weights` does not satisfy the definitions.

    See Also
    --------
    ppdinf.counts.optimal, ppdinf.counts.heuristic

    Examples
    --------
    >>> from ppdinf.counts import unfixed
    >>> unfixed([0.8, 0.1, 0.1], epsilon=1).matrix.round(3)  # 2 is never released
    array([[0.901, 0.099, 0.   ],
           [0.731, 0.269, 0.   ],
           [0.269, 0.731, 0.   ]])
    """
    z = as_distribution(z)
    exact = as_epsilon(epsilon)
    n, weight = z.size, np.asfortranarray(costs(z, weights, power))
    if weights is not None:
        _require_convex(weight)
    table = falling(np.arange(n), exact)
    columns, j, rows = np.empty(n, dtype=np.int64), 0, np.arange(n)
    for peak in range(n):
        mass = table[np.abs(rows - peak)]
        cost = float(mass @ weight[:, j])
        while j < n - 1 and (ahead := float(mass @ weight[:, j + 1])) <= cost:
            j, cost = j + 1, ahead
        columns[peak] = j
    scales = truncated_geometric(n, exact).scales
    assert scales is not None
    return CountMechanism.of_scales(columns, scales.peak, scales.rising, exact, name="unfixed optimum")


def _require_convex(weight: Reals) -> None:
    """Refuse weights that are not row-wise concentrating and convex; without both, the scan from the left can fail."""
    spare = ROUNDING * np.abs(weight).max(axis=1, keepdims=True)
    away = np.abs(np.subtract.outer(np.arange(len(weight)), np.arange(len(weight))))
    order = np.argsort(away, axis=1, kind="stable")
    steps = np.diff(np.take_along_axis(weight, order, axis=1))
    tied = np.diff(np.take_along_axis(away, order, axis=1)) == 0
    grows = (steps >= -spare) & ~(tied & (steps > spare))
    is_convex = np.diff(weight, 2, axis=1) >= -spare
    for i in np.flatnonzero(~(grows.all(axis=1) & is_convex.all(axis=1)))[:1]:
        raise PrivacyError(
            f"row {i} of weights must be a non-decreasing function of |i - j| and convex in j: use ppd.counts.optimal "
            "for other weights, which preserves z"
        )
