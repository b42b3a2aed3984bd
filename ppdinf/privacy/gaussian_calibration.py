r"""The scale of normal and of discrete Gaussian noise for (epsilon, delta) differential privacy.

For two tables whose answers differ by s and a = s / sigma, the smallest delta is

    delta(a, epsilon) = Phi(a/2 - epsilon/a) - exp(epsilon) Phi(-a/2 - epsilon/a) = phi(h) (m(h) - m(t))

with h = epsilon/a - a/2, t = epsilon/a + a/2 and Mills' ratio m(u) = Phi(-u) / phi(u): no tail overflows.

B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8. J. Gao,
R. Gong, F.-Y. Yu, "Subspace differential privacy", AAAI 2022, Lemma 3.4. C. Canonne, G. Kamath, T. Steinke, "The
discrete Gaussian for differential privacy", J. Priv. Confid. 12, 2022.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Reals
from ppdinf.errors import PrivacyError
from ppdinf.privacy.guarantee import Guarantee

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)

type Calibration = Literal["analytic", "printed"]


def gaussian_delta(epsilon: Parameter, sigma: float, *, sensitivity: float = 1.0) -> float:
    """Return the smallest delta for which Gaussian noise is (epsilon, delta) differentially private.

    Parameters
    ----------
    epsilon : int, float, str or Fraction
        Privacy loss between neighbours.
    sigma : float
        Standard deviation of the noise in each answer.
    sensitivity : float
        l2 sensitivity of the answers, in the same unit.

    Returns
    -------
    float
        Relative error below 1e-10 down to the smallest normal numbers.

    Raises
    ------
    PrivacyError
        A parameter is not positive and finite.

    See Also
    --------
    ppdinf.privacy.gaussian_sigma, ppdinf.privacy.zcdp_delta

    Examples
    --------
    >>> from ppdinf.privacy import gaussian_delta
    >>> round(gaussian_delta(1, 3.7306), 7)
    1e-05
    """
    ratio = _positive(sensitivity, "sensitivity") / _positive(sigma, "sigma")
    return math.exp(_log_delta(_positive(epsilon, "epsilon"), ratio))


def gaussian_sigma(
    epsilon: Parameter, delta: Parameter, *, sensitivity: float = 1.0, calibration: Calibration = "analytic"
) -> float:
    """Return the standard deviation of Gaussian noise for (epsilon, delta) differential privacy.

    Parameters
    ----------
    epsilon, delta : int, float, str or Fraction
        Between neighbours; delta below 1, as small as 1e-300.
    sensitivity : float
        l2 sensitivity of the answers.
    calibration : {"analytic", "printed"}
        The smallest possible sigma (Balle and Wang), or ``(1 + sqrt(1 + ln(1/delta))) / epsilon`` times the
        sensitivity, as printed by Gao et al.

    Raises
    ------
    PrivacyError
        A parameter is out of range, or the calibration unknown; or the printed width does not give the required
        delta. The printed width grows as sqrt(ln(1/delta)) although sqrt(2 ln(1/delta)) is necessary. It fails from
        about delta = 1e-13 at epsilon = 0.2, 1e-11 at 0.9, 1e-6 at 5.

    See Also
    --------
    ppdinf.privacy.gaussian_delta, ppdinf.privacy.zcdp_rho

    Examples
    --------
    >>> from ppdinf.privacy import gaussian_sigma
    >>> round(gaussian_sigma(1, 1e-5), 4), round(gaussian_sigma(1, 1e-5, calibration="printed"), 4)
    (3.7306, 4.5374)
    """
    epsilon, delta = _positive(epsilon, "epsilon"), _positive(delta, "delta")
    sensitivity = _positive(sensitivity, "sensitivity")
    if delta >= 1:
        raise PrivacyError(f"delta must be between 0 and 1, found {delta:g}")
    if calibration == "analytic":
        return sensitivity / _largest_ratio(epsilon, math.log(delta))
    if calibration != "printed":
        raise PrivacyError(f"calibration must be 'analytic' or 'printed', found {calibration!r}")
    width = (1 + math.sqrt(1 - math.log(delta))) / epsilon
    if _log_delta(epsilon, 1 / width) > math.log(delta):
        raise PrivacyError(
            f"the printed calibration does not reach delta = {delta:g} at epsilon = {epsilon:g}: "
            "use calibration='analytic'"
        )
    return float(sensitivity * width)


def concentrated(guarantee: Guarantee, ratio: float) -> Guarantee:
    """Add the zCDP guarantee of Gaussian noise with sigma / sensitivity = `ratio` to a guarantee between neighbours."""
    rho = Fraction(1 + 1e-9) / (2 * Fraction(ratio) ** 2)  # 1e-9 exceeds the rounding error of the width
    return replace(guarantee, concentrated=Guarantee("zcdp", rho=rho, neighbours=guarantee.neighbours))


def _largest_ratio(epsilon: float, log_delta: float) -> float:
    """Return the largest a with delta(a, epsilon) <= delta, by bisection on log a down to adjacent floats."""
    low = high = min(1.0, epsilon)
    while _log_delta(epsilon, low) > log_delta:
        low /= 2
    while _log_delta(epsilon, high) <= log_delta:
        high *= 2
    while (middle := math.sqrt(low) * math.sqrt(high)) not in (low, high) and high - low > 1e-15 * high:
        low, high = (middle, high) if _log_delta(epsilon, middle) <= log_delta else (low, middle)
    return low


def _log_delta(epsilon: float, a: float) -> float:
    near, far = epsilon / a - a / 2, epsilon / a + a / 2
    log_density = -0.5 * near**2 - 0.5 * math.log(2 * math.pi)
    if near < -5:  # delta is close to 1, and Mills' ratio may overflow
        return math.log1p(-float(ndtr(near)) - math.exp(log_density) * float(_mills(far)))
    if a < 0.5:  # the ratios nearly cancel: integrate -m'(u) = 1 - u m(u) between them
        u = near + a * (_NODES + 1) / 2
        return log_density + math.log(a / 2 * float(_WEIGHTS @ (1 - u * _mills(u))))
    return log_density + math.log(float(_mills(near) - _mills(far)))


def _mills(u: float | Reals) -> Reals:
    return math.sqrt(math.pi / 2) * erfcx(u / math.sqrt(2))


def _positive(value: Parameter, name: str) -> float:
    """Validate a positive finite number; deltas may be smaller than `as_fraction` allows."""
    number = (
        float(value) if isinstance(value, Real) and not isinstance(value, bool) else float(as_fraction(value, name))
    )
    if not 0 < number < math.inf:
        raise PrivacyError(f"{name} must be positive and finite, found {value!r}")
    return number


@lru_cache(maxsize=32)
def discrete_gaussian_sigma(epsilon: Fraction, delta: Fraction) -> float:
    """Return the least sigma for which discrete Gaussian noise is (epsilon, delta) private for neighbouring counts."""
    if delta >= 1:
        raise PrivacyError(f"delta must lie below 1, found {delta}")
    rate, tail_probability = float(epsilon), float(delta)

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        k = np.arange(-math.ceil(40 * sigma + rate * sigma**2) - 2, math.ceil(40 * sigma) + 2, dtype=np.float64)
        weight = np.exp(-((k / sigma) ** 2) / 2)
        beyond = np.maximum(0, weight - np.exp(rate - (((k + 1) / sigma) ** 2) / 2))
        return math.log(float(beyond.sum() / weight.sum()) + 1e-300) - math.log(tail_probability)

    low, high = math.log(0.05), math.log(0.1)
    while excess(high) > 0:
        high += math.log(2)
    if excess(low) <= 0:
        return math.exp(low)
    return math.exp(brentq(excess, low, high, xtol=1e-10)) * (1 + 1e-9)
