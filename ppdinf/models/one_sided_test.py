"""Uniformly most powerful one-sided tests from a noisy count, with exact p-values.

A count T with a monotone likelihood ratio in theta (binomial, Poisson, negative binomial) is released as Y = T + Z with
double geometric noise, P(Z = z) proportional to exp(-rate |z|). The noise is log-concave, so Y also has a monotone
likelihood ratio. Rejecting theta <= theta_0 for large Y is therefore uniformly most powerful.

Post-processing of Y cannot increase the power, and does not always reduce it (Theorem 15 in docs/errata.md).

J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", Theorem 15.
J. Awan, A. Slavkovic, "Differentially private uniformly most powerful tests for binomial data", NeurIPS 2018.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf._internal.rationals import as_fraction
from ppdinf._internal.values import assign
from ppdinf.errors import ModelError

NEGLIGIBLE = 1e-30  # mass of the count that may be omitted in its upper tail
NOISE_RADIUS = 80.0  # noise above NOISE_RADIUS / rate in absolute value has mass below exp(-80)


class _Discrete(Protocol):
    """A frozen discrete distribution of SciPy."""

    def support(self) -> tuple[float, float]: ...
    def pmf(self, k: NDArray[np.int64]) -> NDArray[np.float64]: ...
    def sf(self, k: float) -> float: ...
    def isf(self, q: float) -> float: ...


@dataclass(frozen=True, eq=False)
class OneSidedTest:
    """Test of ``theta <= theta_0`` against ``theta > theta_0``, or of the reverse, from a noisy count.

    Parameters
    ----------
    null : frozen scipy.stats distribution
        Distribution of the confidential count at theta_0: discrete, on integers with a smallest element.
    rate : int, float, str or Fraction
        The noise has mass proportional to ``exp(-rate |z|)``: epsilon for generalized Laplace noise on a count
        without public sums, epsilon / (2 Delta_z) for the Wasserstein exponential mechanism.
    alternative : {"greater", "less"}
        Side of theta_0 on which the alternative lies.

    Raises
    ------
    ModelError
        `null` is not such a distribution, or the alternative is unknown.
    PrivacyError
        `rate` is not a positive finite number.

    See Also
    --------
    ppdinf.PartiallyPrivate

    Examples
    --------
    >>> from ppdinf.models import OneSidedTest
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
        assign(self, null=_counts(null), rate=as_fraction(rate, "rate"), alternative=alternative)

    def p_value(self, y: ArrayLike) -> float | NDArray[np.float64]:
        """Return the probability at theta_0 of a release at least as extreme as `y`.

        Parameters
        ----------
        y : int or array_like of int
            Noisy counts as released, including negative ones. Do not clamp them to the range of the count.

        Returns
        -------
        float, or ndarray of float64 of the shape of `y`
            Valid for every theta of the hypothesis, largest at theta_0.
        """
        counts = np.asarray(y)
        if counts.dtype.kind not in "iu":
            raise ModelError(f"noisy counts must be integers, found {counts.dtype}")
        distinct, index = np.unique(counts, return_inverse=True)
        beyond = np.array([self._beyond(self.null, int(v)) for v in distinct])[index].reshape(counts.shape)
        return beyond if counts.ndim else float(beyond)

    def critical(self, level: float) -> tuple[int, float]:
        """Return the critical value of the test and the probability of rejecting at it.

        Returns
        -------
        (int, float)
            Reject beyond the integer, and reject at the integer with the probability. The size is then exactly
            `level`. A test that never rejects at the integer has a smaller size.
        """
        if not 0 < level < 1:
            raise ModelError(f"level must be between 0 and 1, found {level!r}")
        sign = 1 if self.alternative == "greater" else -1
        ends = self._values(self.null)[0][[0, -1]] + np.array([-1, 1]) * int(2 * NOISE_RADIUS / float(self.rate) + 2)
        low, high = sorted(sign * int(v) for v in ends)
        values = range(low + 1, high)  # P(more extreme than low) > level >= P(more extreme than high)
        c = low + 1 + bisect_left(values, True, key=lambda v: self._beyond(self.null, sign * (v + 1)) <= level)
        beyond = self._beyond(self.null, sign * (c + 1))
        probability = self._beyond(self.null, sign * c) - beyond
        return sign * c, float((level - beyond) / probability)

    def power(self, law: _Discrete, level: float) -> float:
        """Return the probability that the test rejects when the count has distribution `law`.

        Parameters
        ----------
        law : frozen scipy.stats distribution
            Distribution of the count, as for `null`.
        level : float
            Size of the test at theta_0.
        """
        _counts(law)
        c, share = self.critical(level)
        beyond = self._beyond(law, c + (1 if self.alternative == "greater" else -1))
        return float(beyond + share * (self._beyond(law, c) - beyond))

    def _values(self, law: _Discrete) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        low, high = law.support()
        last = law.isf(1e-9) + 1  # SciPy's quantiles are limited to about 1e-16, its tail probabilities are not
        while last < high and law.sf(last) > NEGLIGIBLE:
            last = 2 * last - low
        values = np.arange(int(low), int(min(high, last)) + 1)
        return values, law.pmf(values)

    def _beyond(self, law: _Discrete, y: int) -> float:
        """Return P(Y >= y), or P(Y <= y) if the alternative is "less"."""
        values, weights = self._values(law)
        noise = y - values if self.alternative == "greater" else values - y
        rate = float(self.rate)
        tail = np.exp(-rate * np.where(noise > 0, noise, 1 - noise)) / (1 + np.exp(-rate))
        return float(weights @ np.where(noise > 0, tail, 1 - tail))


def _counts(law: _Discrete) -> _Discrete:
    if not (hasattr(law, "support") and hasattr(law, "pmf")) or not hasattr(getattr(law, "dist", None), "pmf"):
        raise ModelError(
            "the law of a count must be a frozen discrete distribution, such as scipy.stats.binom(30, 0.5)"
        )
    low = law.support()[0]
    if not np.isfinite(low) or low != int(low):
        raise ModelError(f"the law of a count must have a smallest integer, found {low}")
    return law
