r"""From zero-concentrated to approximate differential privacy, and back.

rho-zCDP bounds every Renyi divergence, D_alpha <= alpha rho, and each of them bounds delta:

    delta(epsilon) = min over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1).

C. L. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Corollary 13.
M. Bun, T. Steinke, "Concentrated differential privacy", TCC 2016.
"""

from __future__ import annotations

import math
from fractions import Fraction

from scipy.optimize import brentq, minimize_scalar

from ppdinf._internal.rationals import NUMBER, Parameter, as_fraction
from ppdinf.errors import PrivacyError

LEAST_DELTA = Fraction(1, 10**300)  # limit of logarithms of floats
MOST = 10**100


def zcdp_delta(rho: Parameter, epsilon: Parameter) -> float:
    """Return the smallest delta that rho-zCDP is known to give at an epsilon.

    Parameters
    ----------
    rho, epsilon : int, float, str or Fraction

    Returns
    -------
    float
        Between 0 and 1.

    See Also
    --------
    ppdinf.privacy.zcdp_epsilon, ppdinf.privacy.zcdp_rho

    Examples
    --------
    >>> from ppdinf.privacy import zcdp_delta
    >>> f"{zcdp_delta(0.5, 5):.1e}"
    '2.9e-06'
    """
    return math.exp(_log_delta(_loss(rho), float(as_fraction(epsilon, "epsilon"))))


def zcdp_epsilon(rho: Parameter, delta: Parameter) -> float:
    """Return the smallest epsilon that rho-zCDP is known to give at a delta.

    Parameters
    ----------
    rho : int, float, str or Fraction
    delta : int, float, str or Fraction
        Above 0 and below 1.

    Raises
    ------
    PrivacyError
        A parameter is out of range.

    See Also
    --------
    ppdinf.privacy.zcdp_delta, ppdinf.privacy.zcdp_rho

    Examples
    --------
    The person tables of the 2020 census redistricting data were released with rho = 2.55623.

    >>> from ppdinf.privacy import zcdp_epsilon
    >>> round(zcdp_epsilon(2.55623, "1e-10"), 2)
    17.14
    """
    size, goal = _loss(rho), math.log(as_delta(delta))
    highest = size + 2 * math.sqrt(-size * goal)  # the simpler conversion by Bun and Steinke
    if _log_delta(size, 0.0) <= goal:
        return 0.0
    return float(brentq(lambda epsilon: _log_delta(size, epsilon) - goal, 0.0, highest, xtol=1e-12 * highest))


def zcdp_rho(epsilon: Parameter, delta: Parameter) -> float:
    """Return the largest rho whose zCDP is known to give (epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon, delta : int, float, str or Fraction

    Raises
    ------
    PrivacyError
        A parameter is out of range.

    See Also
    --------
    ppdinf.privacy.zcdp_epsilon, ppdinf.privacy.gaussian_sigma

    Examples
    --------
    >>> from ppdinf.privacy import zcdp_rho
    >>> round(zcdp_rho(17.14357, "1e-10"), 5)
    2.55623
    """
    target, goal = float(as_fraction(epsilon, "epsilon")), math.log(as_delta(delta))
    lowest = (math.sqrt(target - goal) - math.sqrt(-goal)) ** 2  # from Bun and Steinke's conversion, a lower bound
    highest = lowest
    while _log_delta(highest, target) <= goal:
        highest *= 2
    return float(brentq(lambda rho: _log_delta(rho, target) - goal, lowest / 2, highest, xtol=1e-14 * highest))


def as_delta(delta: Parameter) -> Fraction:
    """Validate a delta of at least 1e-300 and below 1."""
    if isinstance(delta, bool) or not isinstance(delta, int | float | str | Fraction):
        raise PrivacyError(f"delta must be a number or text such as '1e-10', found {type(delta).__name__}")
    if isinstance(delta, Fraction):
        exact = delta
    elif NUMBER.fullmatch(text := str(delta).strip()):
        exact = Fraction(text)
    else:
        raise PrivacyError(f"delta must be a number such as 1e-10, found {delta!r:.60}")
    if not LEAST_DELTA <= exact < 1:
        raise PrivacyError(f"delta must be at least 1e-300 and below 1, found {delta!r:.60}")
    return exact


def _loss(rho: Parameter) -> float:
    """Convert rho; a value at a distance can exceed the range of parameters."""
    return float(rho if isinstance(rho, Fraction) and 0 < rho < MOST else as_fraction(rho, "rho"))


def _log_delta(rho: float, epsilon: float) -> float:
    def log_bound(log_order: float) -> float:
        order = math.exp(log_order)  # alpha - 1
        alpha = 1 + order
        return order * (alpha * rho - epsilon) - log_order + alpha * math.log1p(-1 / alpha)

    optimum = minimize_scalar(log_bound, bounds=(-15.0, 35.0), method="bounded", options={"xatol": 1e-10})
    return min(0.0, float(optimum.fun))
