r"""Total weight of all releases with l2 noise, by quadrature over the scale of a mixture of Gaussians.

    exp(-epsilon r) = integral over v > 0 of sqrt(2 / pi) exp(-v^2 / 2 - (epsilon r)^2 / (2 v^2)),

so the total weight is the mean, over a half-normal v, of the total weight Z(v) of releases with Gaussian noise of
standard deviation v / epsilon, which elimination computes. The release that equals the table has the same weight for
every v. It is subtracted from the integrand, which then decreases fast at both ends. In log v the integrand is
analytic in a strip of half-width pi / 4, and the trapezoidal rule with steps of 1/8 has a relative error below 1e-12.

References
----------
L. Trefethen, J. Weideman, "The exponentially convergent trapezoidal rule", SIAM Review 56(3), 2014.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import count

import numpy as np

STEP = 1 / 8
DEVIATIONS = 9.0  # standard deviations beyond which a normal density is negligible
NEGLIGIBLE = -40.0  # log of a negligible share of the total


def log_l2_total(
    log_gaussian_total: Callable[[Fraction], float], epsilon: Fraction, log_identity: float, dimension: int
) -> float:
    """Compute the logarithm of the total weight of all releases with l2 noise."""

    def term(k: int) -> float:
        v = math.exp(STEP * k)
        log_total = log_gaussian_total((Fraction(v) / epsilon) ** 2)
        other_weight = (
            log_total + math.log(-math.expm1(log_identity - log_total)) if log_total > log_identity else -math.inf
        )
        return math.log(STEP * math.sqrt(2 / math.pi)) + STEP * k - v**2 / 2 + other_weight

    first = math.floor(math.log(float(epsilon) / DEVIATIONS) / STEP)
    last = math.ceil(math.log(math.sqrt(dimension + 1) + DEVIATIONS) / STEP)
    terms = [log_identity, *map(term, range(min(first, last), last + 1))]
    # Extend both ends where bounds or base measures move releases far from the table.
    for outward in (count(last + 1), count(min(first, last) - 1, -1)):
        terms += _until_negligible(map(term, outward), float(np.logaddexp.reduce(terms)))
    return float(np.logaddexp.reduce(terms))


def _until_negligible(terms: Iterator[float], log_total: float) -> list[float]:
    summed = []
    for log_term in terms:
        summed.append(log_term)
        log_total = float(np.logaddexp(log_total, log_term))
        if log_term < log_total + NEGLIGIBLE:
            return summed
    return summed
