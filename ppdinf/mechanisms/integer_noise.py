"""Noise on the integers that other mechanisms start from: double geometric, discrete Gaussian, staircase."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from flint import arb, ctx

from ppdinf.errors import PrivacyError
from ppdinf.laws.noise_law import NoiseLaw
from ppdinf.noise.bits.integers import ball
from ppdinf.rationals import as_fraction

NEAR = 2**10  # weights that are summed one by one
LARGEST = 2**20  # weights that are tabulated for one cell: some seconds

__all__ = ["DiscreteGaussian", "DoubleGeometric", "IntegerNoise", "Staircase"]


class IntegerNoise(ABC):
    """A symmetric law on the integers whose mass falls with the absolute value, stated up to its normaliser.

    Attributes
    ----------
    name : str
        In release files.
    """

    name: ClassVar[str]

    @abstractmethod
    def log_weight(self, z: Any) -> Any:
        """Logarithm of the weight of each integer, 0 at 0, elementwise; NumPy or PyTensor."""

    @abstractmethod
    def weight(self, size: int) -> arb:
        """Enclose the weight of an absolute value."""

    @abstractmethod
    def fall(self, size: int) -> arb:
        """Enclose the largest ratio ``weight(k + period) / weight(k)`` over all k from `size` on."""

    @property
    def period(self) -> int:
        """Steps over which the weight surely falls."""
        return 1

    @property
    @abstractmethod
    def law(self) -> NoiseLaw | None:
        """The same noise as a law on lattices, where samplers know one."""

    @abstractmethod
    def to_dict(self) -> dict[str, str]:
        """Name and parameters, rationals as text."""

    @lru_cache(maxsize=16)  # noqa: B019  (laws are values: equal ones share an entry)
    def window(
        self, bits: int, precision: int, farthest: float = math.inf, tilt: Fraction = Fraction(0)
    ) -> tuple[list[arb], arb]:
        """Tabulate weights of 0, 1, ..., up to `farthest`, and bound the sum of what is left out by 2^-bits or less.

        Weights of k are multiplied by ``exp(tilt k)``; they must fall nevertheless, or end at `farthest`. What is left
        out is counted twice, for a law that has the same weights below 0.

        Raises
        ------
        PrivacyError
            They would be more than a million.
        """
        assert ctx.prec == precision, "weights are enclosed at Arb's working precision"
        if min(farthest, self.half_width(-bits * math.log(2))) > LARGEST:
            raise PrivacyError(
                f"{self.name} noise this wide reaches over more than {LARGEST:,} counts of a cell, too many to list: "
                "use more epsilon, tighter bounds, or GeneralizedLaplace, whose releases need not obey bounds"
            )
        rise = ball(tilt)
        weights, negligible = [self.weight(0)], arb(2) ** -bits
        while True:
            size = len(weights)
            if size > farthest:
                return weights, arb(0)
            ahead = [self.weight(size + k) * (rise * (size + k)).exp() for k in range(self.period)]
            fall = self.fall(size) * (rise * self.period).exp()
            if fall < 1 and (tail := 2 * sum(ahead, start=arb(0)) / (1 - fall)) < negligible:
                return weights, tail.upper()
            weights.append(ahead[0])

    def half_width(self, log_rare: float) -> int:
        """Bound on the absolute value beyond which weights add up to ``exp(log_rare)`` at most, 0 having weight 1."""
        k = 1
        while self._log_beyond(k) > log_rare:
            k = k + 1 + k // 16
        return k

    @property
    def log_total(self) -> float:
        """Bound on the logarithm of the sum of all weights, that of 0 being 1."""
        near = sum(math.exp(float(self.log_weight(k))) for k in range(1, NEAR))
        return math.log1p(2 * near + math.exp(self._log_beyond(NEAR - 1)))

    def _log_beyond(self, size: int) -> float:
        """Bound on the logarithm of the sum of all weights of absolute values above a size."""
        most = float(self.log_weight(size + 1)) + math.log(2 * self.period)
        return most - math.log(-math.expm1(float(self.fall(size + 1).log().upper())))


@dataclass(frozen=True)
class DoubleGeometric(IntegerNoise):
    """Weight ``exp(-epsilon |k|)``: epsilon-differential privacy per unit of l1 distance.

    Parameters
    ----------
    epsilon : int, float, str or Fraction

    Examples
    --------
    >>> DoubleGeometric("1/2").log_weight(-3)
    -1.5
    """

    name: ClassVar[str] = "double-geometric"
    epsilon: Fraction

    def __init__(self, epsilon: int | float | str | Fraction) -> None:
        object.__setattr__(self, "epsilon", as_fraction(epsilon, "epsilon"))

    def log_weight(self, z: Any) -> Any:
        """Return ``-epsilon |z|``."""
        return -float(self.epsilon) * abs(z)

    def weight(self, size: int) -> arb:
        """Enclose ``exp(-epsilon k)``."""
        return (-ball(self.epsilon) * size).exp()

    def fall(self, size: int) -> arb:
        """Enclose ``exp(-epsilon)``."""
        return (-ball(self.epsilon)).exp()

    @property
    def law(self) -> NoiseLaw:
        """The l1 Laplace law."""
        return NoiseLaw("l1", self.epsilon)

    def to_dict(self) -> dict[str, str]:
        """Name and epsilon."""
        return {"name": self.name, "epsilon": str(self.epsilon)}


@dataclass(frozen=True)
class DiscreteGaussian(IntegerNoise):
    """Weight ``exp(-k**2 / (2 sigma**2))``: zCDP with ``1 / (2 sigma**2)`` per unit of squared l2 distance.

    Parameters
    ----------
    sigma : int, float, str or Fraction

    Examples
    --------
    >>> DiscreteGaussian(2).log_weight(-4)
    -2.0
    """

    name: ClassVar[str] = "discrete-gaussian"
    sigma: Fraction

    def __init__(self, sigma: int | float | str | Fraction) -> None:
        object.__setattr__(self, "sigma", as_fraction(sigma, "sigma"))

    def log_weight(self, z: Any) -> Any:
        """Return ``-z**2 / (2 sigma**2)``."""
        return -0.5 * (z / float(self.sigma)) ** 2

    def weight(self, size: int) -> arb:
        """Enclose ``exp(-k**2 / (2 sigma**2))``."""
        return (-ball(Fraction(size**2) / (2 * self.sigma**2))).exp()

    def fall(self, size: int) -> arb:
        """Enclose ``exp(-(2 k + 1) / (2 sigma**2))``, which falls with k."""
        return (-ball(Fraction(2 * size + 1) / (2 * self.sigma**2))).exp()

    @property
    def law(self) -> NoiseLaw:
        """The lattice Gaussian."""
        return NoiseLaw("gaussian", self.sigma)

    def to_dict(self) -> dict[str, str]:
        """Name and sigma."""
        return {"name": self.name, "sigma": str(self.sigma)}


@dataclass(frozen=True)
class Staircase(IntegerNoise):
    """Weight ``exp(-epsilon j)`` on stairs of width `sensitivity`, the first `step` values on the top one.

    Geng and Viswanath, "The optimal noise-adding mechanism in differential privacy" (2016), on the integers.
    Counts that differ by at most `sensitivity` differ in loss by at most epsilon.

    Parameters
    ----------
    epsilon : int, float, str or Fraction
    sensitivity : int
        At least 1; with 1 the law is double geometric.
    step : int
        From 1 to `sensitivity`.

    Raises
    ------
    PrivacyError
        A parameter is out of range.

    Examples
    --------
    >>> [Staircase(1, sensitivity=2, step=1).log_weight(k) for k in range(4)]
    [-0.0, -1.0, -1.0, -2.0]
    """

    name: ClassVar[str] = "staircase"
    epsilon: Fraction
    sensitivity: int
    step: int

    def __init__(self, epsilon: int | float | str | Fraction, sensitivity: int = 2, step: int = 1) -> None:
        whole = all(isinstance(value, int) and not isinstance(value, bool) for value in (sensitivity, step))
        if not whole or not 1 <= step <= sensitivity <= 10**6:
            raise PrivacyError(
                f"sensitivity and step must be whole numbers, 1 <= step <= sensitivity, found {sensitivity!r}, {step!r}"
            )
        object.__setattr__(self, "epsilon", as_fraction(epsilon, "epsilon"))
        object.__setattr__(self, "sensitivity", sensitivity)
        object.__setattr__(self, "step", step)

    def _stair(self, size: Any) -> Any:
        return (size + self.sensitivity - self.step) // self.sensitivity

    def log_weight(self, z: Any) -> Any:
        """Return ``-epsilon`` times the number of the stair."""
        return -float(self.epsilon) * self._stair(abs(z))

    def weight(self, size: int) -> arb:
        """Enclose ``exp(-epsilon j)``."""
        return (-ball(self.epsilon) * self._stair(size)).exp()

    @property
    def period(self) -> int:
        """The width of a stair."""
        return self.sensitivity

    def fall(self, size: int) -> arb:
        """Enclose ``exp(-epsilon)``, from one stair to the next."""
        return (-ball(self.epsilon)).exp()

    @property
    def law(self) -> NoiseLaw | None:
        """None: lattices of stairs have no sampler of their own."""
        return None

    def to_dict(self) -> dict[str, str]:
        """Name and parameters."""
        return {
            "name": self.name,
            "epsilon": str(self.epsilon),
            "sensitivity": str(self.sensitivity),
            "step": str(self.step),
        }
