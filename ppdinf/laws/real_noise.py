"""Real noise on counts, Gaussian or Laplace: published numbers are reals, and log weights are quadratic."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ppdinf._internal.values import Integers, Reals, Symbolic, assign, members
from ppdinf.errors import PrivacyError
from ppdinf.laws.law_array import PerEntry, law_of_each
from ppdinf.laws.observation_model import Column, IndependentLaw

EXACT = 10**7  # largest number of counts whose probabilities of a clipped number are tabulated


class RealNoise(PerEntry, IndependentLaw):
    """Symmetric real noise with the log weight ``-(rate |z| + curvature z^2 / 2)``, without the normalizer.

    The weight is the density of the published number. It is exact for numbers with all their digits. For numbers that
    were rounded afterwards, it is accurate if the rounding is much finer than the noise.
    """

    dtype: ClassVar[type[np.float64]] = np.float64
    gives: ClassVar[str] = "a count with noise"

    @property
    @abstractmethod
    def log_quadratic(self) -> tuple[float, float]:
        """Rate and curvature of the log weight."""

    @abstractmethod
    def log_distribution(self, z: Reals) -> Reals:
        """Return the log probability of noise of at most z."""

    @abstractmethod
    def draw(self, size: tuple[int, ...], rng: np.random.Generator) -> Reals:
        """Draw noise in double precision."""

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log weight of each y given the count x, elementwise."""
        rate, curvature = self.log_quadratic
        z = abs(y - x)
        return -z * (rate + 0.5 * curvature * z)

    def log_total(self, numbers: int) -> float:
        """Return the log of the integral of the weight, for noise with either a rate or a curvature."""
        rate, curvature = self.log_quadratic
        return numbers * (math.log(2 / rate) if rate else 0.5 * math.log(2 * math.pi / curvature))

    def noise_moments(self, numbers: int) -> tuple[float, float]:
        """Return the moments of noise with either a rate or a curvature."""
        rate, curvature = self.log_quadratic
        return 0.0, 2 / rate**2 if rate else 1 / curvature

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return bounds on the count given each y; counts outside weigh at most `tail_probability` of the nearest one.

        The weights beyond a distance f sum to at most ``2 w(f) / (1 - exp(-(rate + curvature f)))``, and the nearest
        count is at a distance of at most 1/2.
        """
        if tail_probability <= 0:
            return y - math.inf, y + math.inf
        rate, curvature = self.log_quadratic
        far, fall = 0.5, math.log(2 / tail_probability) + rate / 2 + curvature / 8
        for further in (0, 1):  # the second distance exceeds the first, for which the series is larger
            series = -math.log(-math.expm1(-(rate + curvature * far))) if further else 0.0
            drop = fall + series
            far = max(
                drop / rate if curvature == 0 else (math.sqrt(rate**2 + 2 * curvature * drop) - rate) / curvature, 0.5
            )
        return np.ceil(y - far), np.floor(y + far)

    def columns(self, y: Reals) -> list[Column]:
        """Return one column for each different fraction of y: the counts below and above y, and quadratic tails."""
        rate, curvature = self.log_quadratic
        below = np.floor(y)
        fractions, number = np.unique(y - below, return_inverse=True)
        return [
            Column(
                self.log_weight(fraction, np.array([0, 1])), entries, below[entries].astype(np.int64),
                left=(rate + curvature * fraction, curvature), right=(rate + curvature * (1 - fraction), curvature),
            )
            for fraction, entries in zip(fractions.tolist(), members(number), strict=True)
        ]  # fmt: skip

    def column_below(self, threshold: float) -> Column:
        """Return the log probability that ``x + noise < threshold``, up to counts where it is negligible."""
        low, high = (float(end) for end in self.support_bounds(np.float64(threshold), 1e-300))
        if high - low > EXACT:
            raise PrivacyError(f"{self.name} noise of this scale covers more than {EXACT:,} counts; use less noise")
        log_below = self.log_distribution(threshold - np.arange(low, high + 1))
        return Column(log_below, np.zeros(1, dtype=np.int64), np.array([int(low)]), left=(0.0, 0.0))

    def publish(self, x: Integers, rng: np.random.Generator) -> NDArray[Any]:
        """Add noise in double precision; such draws are not private releases."""
        return x + self.draw(x.shape, rng)


def positive(value: object, what: str) -> float:
    """Require a positive finite number."""
    number = float(value) if isinstance(value, int | float | np.number) and not isinstance(value, bool) else math.nan
    if not 0 < number < math.inf:
        raise PrivacyError(f"{what} must be a positive number, found {value!r}")
    return number


def scale_of_noise(value: object, what: str) -> float:
    """Require a positive finite number, and say of 0 that numbers without noise are exact."""
    if isinstance(value, int | float | np.number) and not isinstance(value, bool) and value == 0:
        raise PrivacyError(
            f"{what} is 0, so the published number is exact: state it in public= of ppdinf.Measurements, and write nan "
            "for the number and its noise in ppdinf.measured"
        )
    return positive(value, what)


@dataclass(frozen=True)
class Gaussian(RealNoise):
    """Real noise with density proportional to ``exp(-z^2 / (2 sd^2))``; the published numbers are reals.

    For integers with discrete Gaussian noise, use `DiscreteGaussian`.

    Parameters
    ----------
    sd : float, array of float, or a variable of a PyMC model
        Standard deviation. An array states one per entry. A variable is an unknown scale (docs/inference.md).

    Raises
    ------
    PrivacyError
        The standard deviation is not positive; the message names the position or label in an array.

    See Also
    --------
    ppdinf.laws.Laplace, ppdinf.laws.DiscreteGaussian, ppdinf.laws.Sampled

    Examples
    --------
    >>> from ppdinf.laws import Gaussian
    >>> import ppdinf as ppd
    >>> inv = ppd.invariants
    >>> noisy = ppd.measured(inv.margin("area"), {"A": 11.38, "B": 3.02}, Gaussian.of_margin_of_error(2.5, 0.90))
    >>> seen = ppd.Measurements({"area": ["A", "B"]}, noisy, public={inv.total(): 15})
    >>> bool((ppd.denoise(seen, draws=50, rng=1, progressbar=False).sums(inv.total()) == 15).all())
    True
    """

    name: ClassVar[str] = "gaussian"
    sd: float

    def __post_init__(self) -> None:
        assign(self, sd=scale_of_noise(self.sd, "the standard deviation"))

    @classmethod
    def of_margin_of_error(cls, margin: Any, confidence: float) -> Any:
        """Return the law whose noise is within plus or minus `margin` with probability `confidence`.

        The noise must not depend on the count. Margins of error of surveys depend on the sampled number: small
        estimates have small margins, and sums would be biased towards 0. State survey estimates by `Sampled`.

        Parameters
        ----------
        margin : float or array of float
            nan for numbers without noise; a margin of 0 means that the number is exact, which ``public=`` states.
        confidence : float
            Between 0 and 1.

        Raises
        ------
        PrivacyError
            The margin is not positive, or the confidence is not between 0 and 1. In an array, the message names the
            position or label.

        Examples
        --------
        >>> from ppdinf.laws import Gaussian
        >>> round(Gaussian.of_margin_of_error(1.645, 0.90).sd, 3)
        1.0
        """
        quantile = normal_quantile(confidence)
        return law_of_each(lambda each: cls(scale_of_noise(each, "the margin of error") / quantile), margin)

    @property
    def log_quadratic(self) -> tuple[float, float]:
        """Rate 0, and the reciprocal variance."""
        return 0.0, self.sd**-2

    def log_distribution(self, z: Reals) -> Reals:
        """Return the log probability of noise of at most z."""
        return special.log_ndtr(z / self.sd)

    def draw(self, size: tuple[int, ...], rng: np.random.Generator) -> Reals:
        """Draw noise in double precision."""
        return rng.normal(0, self.sd, size)


def normal_quantile(confidence: float) -> float:
    """Return the half-width, in standard deviations, of the central interval of a normal distribution."""
    if not 0 < confidence < 1:
        raise PrivacyError(f"confidence must be between 0 and 1, found {confidence!r}")
    return float(special.ndtri((1 + confidence) / 2))


@dataclass(frozen=True)
class Laplace(RealNoise):
    """Real noise with density proportional to ``exp(-|z| / scale)``; the published numbers are reals.

    For integers with discrete Laplace noise, use `DoubleGeometric`.

    Parameters
    ----------
    scale : float, array of float, or a variable of a PyMC model
        The sensitivity divided by epsilon. An array states one scale per entry. A variable is an unknown scale.

    Raises
    ------
    PrivacyError
        The scale is not positive; the message names the position or label in an array.

    See Also
    --------
    ppdinf.laws.DoubleGeometric, ppdinf.laws.Gaussian

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import Laplace
    >>> Laplace.of_epsilon(0.5, sensitivity=2)
    Laplace(scale=4.0)
    >>> np.exp(Laplace(1).log_weight(2.5, np.array([2, 3, 5]))).round(3)
    array([0.607, 0.607, 0.082])
    """

    name: ClassVar[str] = "laplace"
    scale: float

    def __post_init__(self) -> None:
        assign(self, scale=scale_of_noise(self.scale, "the scale"))

    @classmethod
    def of_epsilon(cls, epsilon: Any, sensitivity: float = 1.0) -> Any:
        """Return the law of a mechanism with a privacy loss `epsilon`, for counts with a sensitivity.

        Parameters
        ----------
        epsilon : float or array of float
        sensitivity : float
            Largest change of the published counts together, in l1, by one person.

        Raises
        ------
        PrivacyError
            A parameter is not positive; the message names the position or label in an array.
        """
        numerator = positive(sensitivity, "the sensitivity")
        return law_of_each(lambda each: cls(numerator / positive(each, "epsilon")), epsilon)

    @classmethod
    def of_sd(cls, sd: Any) -> Any:
        """Return the law with a standard deviation or an array of them, ``scale = sd / sqrt(2)``."""
        return law_of_each(lambda each: cls(scale_of_noise(each, "the standard deviation") / math.sqrt(2)), sd)

    @classmethod
    def of_margin_of_error(cls, margin: Any, confidence: float) -> Any:
        """Return the law whose noise is within plus or minus `margin` with probability `confidence`.

        Raises
        ------
        PrivacyError
            The margin is not positive, or the confidence is not between 0 and 1. In an array, the message names the
            position or label.
        """
        if not 0 < confidence < 1:
            raise PrivacyError(f"confidence must be between 0 and 1, found {confidence!r}")
        quantile = -math.log1p(-confidence)
        return law_of_each(lambda each: cls(scale_of_noise(each, "the margin of error") / quantile), margin)

    @property
    def log_quadratic(self) -> tuple[float, float]:
        """The reciprocal scale, and curvature 0."""
        return 1 / self.scale, 0.0

    def log_distribution(self, z: Reals) -> Reals:
        """Return the log probability of noise of at most z."""
        z = np.asarray(z, np.float64) / self.scale
        return np.where(z < 0, np.minimum(z, 0) - math.log(2), np.log1p(-0.5 * np.exp(-np.maximum(z, 0))))

    def draw(self, size: tuple[int, ...], rng: np.random.Generator) -> Reals:
        """Draw noise in double precision."""
        return rng.laplace(0, self.scale, size)
