"""Survey estimates: the number of sampled units times their weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import special, stats

from ppdinf._internal.values import Flags, Integers, Reals, Symbolic, assign, members, require_number
from ppdinf.errors import CountError, LabelError, PrivacyError
from ppdinf.laws.law_array import PerEntry
from ppdinf.laws.observation_model import Column, IndependentLaw
from ppdinf.laws.real_noise import normal_quantile
from ppdinf.tables.frame import LARGEST

ROUNDING = 0.5, 1e-6
"""Distances of an estimate that is an integer or not from the multiple of the weight that it states."""
TAIL = 1e-44  # tail probability beyond which log weights of columns are quadratic


@dataclass(frozen=True)
class Sampled(PerEntry, IndependentLaw):
    """Estimate of a count from a sample: ``weight * Binomial(count, 1 / weight)``.

    Every unit of the population is in the sample with probability ``1 / weight``, independently of the others, and the
    estimate is the number of sampled units times the weight. The same law holds for the estimate of a sum of cells.

    Parameters
    ----------
    weight : float or array of float
        Number of units that a sampled unit represents, at least 1. An array states one weight per entry.

    Raises
    ------
    PrivacyError
        The weight is not a number of at least 1; the message names the position or label in an array.

    See Also
    --------
    ppdinf.laws.Gaussian, ppdinf.measured

    Notes
    -----
    State estimates of disjoint sums only: a total of the same sample contains the sampled units of its cells again.

    The law does not model unequal weights, clusters, strata, nonresponse, and calibrated totals. An effective weight,
    `of_margin_of_error`, accounts for their effect on the variance. Estimates are then not multiples of the weight, and
    factorials of ``estimate / weight`` are gamma functions [1]_. The probability is exact for multiples of the weight,
    also if they were rounded to integers. Do not state margins of error as scales of Gaussian noise: small estimates
    have small margins, so sums are biased towards 0.

    References
    ----------
    .. [1] C. Chen, J. Wakefield and T. Lumley, "The use of sampling weights in Bayesian hierarchical models for small
       area estimation", Spatial and Spatio-temporal Epidemiology 11 (2014).

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import Sampled
    >>> float(np.exp(Sampled(13).log_weight(26, 30)).round(3))
    0.274
    >>> Sampled(13).support_bounds(np.array([0, 26]), 0.05)
    (array([0., 5.]), array([37., 79.]))
    """

    name: ClassVar[str] = "sampled"
    dtype: ClassVar[type[np.float64]] = np.float64
    weight: float

    def __post_init__(self) -> None:
        stated = "the weight must be a number from 1 to 2**53"
        require_number(self.weight, stated, 1, LARGEST, kinds=int | float | np.number)
        assign(self, weight=float(self.weight))

    @classmethod
    def of_margin_of_error(cls, estimates: Any, margin: Any, confidence: float) -> Sampled:
        """Return the law whose effective weight is that of published estimates and their margins of error.

        The weight is 1 plus the ratio of the sum of variances to the sum of estimates, since the variance of an
        estimate is ``(weight - 1) * count``. Estimates of 0 are omitted: their margins are conventions.

        Parameters
        ----------
        estimates, margin : array_like
            Labels of pandas and xarray objects must agree. nan is a missing entry.
        confidence : float
            Between 0 and 1; 0.90 for the American Community Survey (ACS).

        Returns
        -------
        Sampled
            One weight for all estimates. If weights differ between groups, such as areas, call this for each group.

        Raises
        ------
        LabelError
            The labels or shapes differ.
        PrivacyError
            No positive estimate has a margin, a margin is negative, or the confidence is not between 0 and 1.

        Examples
        --------
        >>> from ppdinf.laws import Sampled
        >>> round(Sampled.of_margin_of_error([0, 26, 13], [12, 29.05, 20.55], 0.90).weight, 2)
        13.0
        """
        quantile = normal_quantile(confidence)
        try:
            aligned = xr.align(xr.DataArray(estimates), xr.DataArray(margin), join="exact")
        except ValueError:
            aligned = xr.DataArray(0), xr.DataArray([0])
        if aligned[0].dims != aligned[1].dims:
            raise LabelError("estimates and margins must have the same labels in the same order, and the same shape")
        y, half = (values.values.astype(np.float64).ravel() for values in aligned)
        used = (y > 0) & ~np.isnan(half)
        if (half < 0).any():
            raise PrivacyError(f"margins of error must be at least 0, found {half[half < 0][0]:g}: write nan for codes")
        if not used.any():
            raise PrivacyError("a weight cannot be computed without positive estimates that have margins: state it")
        return cls(1 + float(((half[used] / quantile) ** 2).sum() / y[used].sum()))

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return f"a number of sampled units times the weight {self.weight:g}"

    def read(self, values: NDArray[np.object_]) -> tuple[Sampled, Reals]:
        """Return the law and the published estimates.

        Raises
        ------
        CountError
            A value is not a number from 0 to 2**53.
        """
        numbers = pd.to_numeric(pd.Series(values), errors="coerce").to_numpy(np.float64)
        if not ((numbers >= 0) & (numbers <= LARGEST)).all():
            raise CountError("must be a number from 0 to 2**53")
        return self, numbers

    def _sampled(self, y: Symbolic) -> Reals:
        """Return sampled numbers: integers if the estimates are rounded multiples of the weight."""
        n = np.asarray(y, np.float64) / self.weight
        whole = np.rint(n)
        rounded = np.where(y == np.rint(y), *ROUNDING)
        return np.where(np.abs(whole * self.weight - y) <= rounded, whole, n)

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log probability of each y given the count x, elementwise; ``-inf`` for impossible counts."""
        n, x, p = self._sampled(y), np.asarray(x, dtype=np.float64), 1 / self.weight
        rest = np.maximum(x - n, 0)
        log_ways = -special.betaln(n + 1, rest + 1) - np.log(n + rest + 1)
        return np.where(x >= n, log_ways + special.xlogy(n, p) + special.xlog1py(rest, -p), -np.inf)

    def is_possible(self, y: NDArray[Any]) -> Flags:
        """Return whether each number has positive probability for some count."""
        n = self._sampled(y)
        return (n >= 0) & ((self.weight > 1) | (n == np.rint(n)))

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count that tests of `tail_probability` do not reject given each y.

        The probability of at most n sampled units is that of at least ``x - n`` failures before success n + 1.
        """
        n, p = self._sampled(y), 1 / self.weight
        smallest = np.ceil(n)
        if self.weight == 1 or tail_probability <= 0:
            return smallest, smallest if self.weight == 1 else np.full(n.shape, np.inf)
        above = stats.nbinom.isf(tail_probability, n + 1, p)
        below = stats.nbinom.ppf(tail_probability, np.where(n > 0, n, 1.0), p)
        return np.where(n > 0, np.maximum(np.floor(n + below), smallest), 0.0), np.ceil(n + above)

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return one column for each different sampled number, with quadratic tails where weights are negligible."""
        different, number = np.unique(self._sampled(y), return_inverse=True)
        ends = (bounds.tolist() for bounds in self.support_bounds(different * self.weight, TAIL))
        columns = []
        for n, low, high, entries in zip(different.tolist(), *ends, members(number), strict=True):
            log_p = self.log_weight(n * self.weight, np.arange(low, high + 1))
            left = (np.inf, 0.0) if low == np.ceil(n) else (log_p[1] - log_p[0], 2 * log_p[1] - log_p[0] - log_p[2])
            right = (np.inf, 0.0) if self.weight == 1 else (log_p[-2] - log_p[-1], 0.0)
            columns.append(Column(log_p, entries, np.full(entries.size, int(low)), left=left, right=right))
        return columns

    def publish(self, x: Integers, rng: np.random.Generator) -> Reals:  # type: ignore[override]
        """Draw samples, and return their estimates."""
        return np.asarray(self.weight * rng.binomial(x, 1 / self.weight), dtype=np.float64)
