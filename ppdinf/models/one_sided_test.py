"""One-sided tests from a noisy count: exact p-values, and no test of the same release is more powerful.

A count T with a monotone likelihood ratio in theta (binomial, Poisson, negative binomial) is released as Y = T + Z with
double geometric noise, P(Z = z) proportional to exp(-rate |z|). The noise is log-concave, so Y too has a monotone
likelihood ratio, and rejecting theta <= theta_0 for large Y is uniformly most powerful. Post-processing Y can only lose
power: it does at levels whose cut falls among merged values of different likelihood ratio, as with rounding.
Theorem 15 calls the loss strict whenever post-processing changes Y. But beyond the range of T this noise leaves
the ratio flat, so that pushing Y into that range costs nothing, unless the test does not randomise.

References
----------
J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", Theorem 15.
J. Awan, A. Slavkovic, "Differentially private uniformly most powerful tests for binomial data", NeurIPS 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf._internal.rationals import as_fraction
from ppdinf.errors import ModelError

__all__ = ["OneSidedTest"]

NEGLIGIBLE = 1e-30  # mass of the count that may be left out in its upper tail
REACH = 80.0  # noise beyond reach / rate has mass below exp(-80)


class _Discrete(Protocol):
    """A frozen discrete distribution of SciPy."""

    def support(self) -> tuple[float, float]: ...
    def pmf(self, k: NDArray[np.int64]) -> NDArray[np.float64]: ...
    def sf(self, k: float) -> float: ...
    def isf(self, q: float) -> float: ...


@dataclass(frozen=True, eq=False)
class OneSidedTest:
    """Test of ``theta <= theta_0`` against ``theta > theta_0``, or the other way round, from a noisy count.

    Parameters
    ----------
    null : frozen scipy.stats distribution
        Law of the confidential count at theta_0: discrete, on whole numbers with a smallest one.
    rate : int, float, str or Fraction
        The noise has mass proportional to ``exp(-rate |z|)``: epsilon for generalized Laplace noise on a count
        without public sums, epsilon / (2 Delta_z) for the Wasserstein exponential mechanism.
    alternative : {"greater", "less"}
        On which side of theta_0 the alternative lies.

    Raises
    ------
    ModelError
        `null` is no such distribution, or the alternative unknown.
    PrivacyError
        `rate` is not a positive finite number.

    Notes
    -----
    Sums over the count cost O(number of its likely values) per p-value; nothing is simulated.

    Examples
    --------
    >>> from scipy import stats
    >>> test = OneSidedTest(stats.binom(30, 0.5), rate=1)
    >>> test.p_value([15, 21, 25]).round(3).tolist()
    [0.566, 0.035, 0.001]
    >>> round(test.power(stats.binom(30, 0.7), level=0.05), 3)
    0.635
    """

    null: _Discrete
    rate: Fraction
    alternative: str

    def __init__(self, null: _Discrete, rate: int | float | str | Fraction, alternative: str = "greater") -> None:
        if alternative not in ("greater", "less"):
            raise ModelError(f"alternative must be 'greater' or 'less', found {alternative!r}")
        object.__setattr__(self, "null", _counts(null))
        object.__setattr__(self, "rate", as_fraction(rate, "rate"))
        object.__setattr__(self, "alternative", alternative)

    def p_value(self, y: ArrayLike) -> float | NDArray[np.float64]:
        """Probability at theta_0 of a release as extreme as `y` or more.

        Parameters
        ----------
        y : int or array_like of int
            Noisy counts as released, negative ones too; never rounded into the range of the count.

        Returns
        -------
        float, or ndarray of float64 of the shape of `y`
            Valid for every theta of the hypothesis, largest at theta_0.
        """
        found = np.asarray(y)
        if found.dtype.kind not in "iu":
            raise ModelError(f"noisy counts are whole numbers, found {found.dtype}")
        distinct, index = np.unique(found, return_inverse=True)
        beyond = np.array([self._beyond(self.null, int(v)) for v in distinct])[index].reshape(found.shape)
        return beyond if found.ndim else float(beyond)

    def critical(self, level: float) -> tuple[int, float]:
        """Return where the test rejects.

        Returns
        -------
        (int, float)
            Reject beyond the number, and at it with the probability: the size is then `level` exactly. Leaving the
            second part out rejects less often.
        """
        if not 0 < level < 1:
            raise ModelError(f"level must lie between 0 and 1, found {level!r}")
        sign = 1 if self.alternative == "greater" else -1
        ends = self._values(self.null)[0][[0, -1]] + np.array([-1, 1]) * int(2 * REACH / float(self.rate) + 2)
        low, high = sorted(sign * int(v) for v in ends)
        while high - low > 1:  # P(more extreme than low) > level >= P(more extreme than high)
            middle = (low + high) // 2
            if self._beyond(self.null, sign * (middle + 1)) > level:
                low = middle
            else:
                high = middle
        more = self._beyond(self.null, sign * (high + 1))
        at = self._beyond(self.null, sign * high) - more
        return sign * high, float((level - more) / at)

    def power(self, law: _Discrete, level: float) -> float:
        """Return the probability that the test rejects when the count follows `law`.

        Parameters
        ----------
        law : frozen scipy.stats distribution
            As `null`.
        level : float
            Size of the test at theta_0.
        """
        _counts(law)
        c, share = self.critical(level)
        more = self._beyond(law, c + (1 if self.alternative == "greater" else -1))
        return float(more + share * (self._beyond(law, c) - more))

    def _values(self, law: _Discrete) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        low, high = law.support()
        last = law.isf(1e-9) + 1  # SciPy's quantiles end near 1e-16, its tails do not
        while last < high and law.sf(last) > NEGLIGIBLE:
            last = 2 * last - low
        values = np.arange(int(low), int(min(high, last)) + 1)
        return values, law.pmf(values)

    def _beyond(self, law: _Discrete, y: int) -> float:
        """P(Y >= y), or P(Y <= y) where the alternative is less."""
        values, weights = self._values(law)
        needed = y - values if self.alternative == "greater" else values - y
        rate = float(self.rate)
        tail = np.exp(-rate * np.where(needed > 0, needed, 1 - needed)) / (1 + np.exp(-rate))
        return float(weights @ np.where(needed > 0, tail, 1 - tail))


def _counts(law: _Discrete) -> _Discrete:
    if not (hasattr(law, "support") and hasattr(law, "pmf")) or not hasattr(getattr(law, "dist", None), "pmf"):
        raise ModelError("the law of a count is a frozen discrete distribution, for example scipy.stats.binom(30, 0.5)")
    low = law.support()[0]
    if not np.isfinite(low) or low != int(low):
        raise ModelError(f"the law of a count needs a smallest whole number, found {low}")
    return law
