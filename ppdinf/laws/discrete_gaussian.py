"""Discrete Gaussian noise: exp(-z^2 / (2 sigma^2)) on the integers, and on lattices.

References
----------
C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", Journal of Privacy and
Confidentiality 12(1), 2022. P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI
2023, Definition 12 (the law on lattices).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb

from ppdinf._internal.rationals import Parameter, as_fraction, ball
from ppdinf._internal.values import Symbolic, assign
from ppdinf.errors import PrivacyError
from ppdinf.laws.additive_law import GAUSSIAN
from ppdinf.laws.law import IntegerLaw

WIDE = 4  # variance from which sums over lattices {sum z = 0} are integrals in double precision


@dataclass(frozen=True)
class DiscreteGaussian(IntegerLaw):
    """Discrete Gaussian noise.

    Weight ``exp(-k**2 / (2 sigma**2))``: zCDP with rho = ``1 / (2 sigma**2)`` per unit of squared l2 distance. An array
    as the parameter gives one law for each entry (`ppdinf.laws.LawArray`).

    Parameters
    ----------
    sigma : int, float, str or Fraction, or a variable of a PyMC model
        A variable is an unknown scale (docs/inference.md).
    variance : int, float, str or Fraction, optional
        ``sigma**2``, instead of sigma. For values below 1, the variance of the noise is slightly smaller.

    Raises
    ------
    PrivacyError
        Neither or both parameters are given, or the parameter is not a positive finite number.

    See Also
    --------
    ppdinf.laws.Gaussian, ppdinf.laws.DoubleGeometric, ppdinf.GeneralizedGaussian

    Examples
    --------
    >>> from ppdinf.laws import DiscreteGaussian
    >>> DiscreteGaussian(2).log_weight(-4)
    -2.0
    >>> DiscreteGaussian(2) == DiscreteGaussian(variance=4)
    True
    """

    name: ClassVar[str] = "discrete-gaussian"
    title: ClassVar[str] = "Gaussian"
    variance: Fraction

    def __init__(self, sigma: Parameter | None = None, *, variance: Parameter | None = None) -> None:
        if sigma is not None and variance is None:
            assign(self, variance=as_fraction(sigma, "sigma") ** 2)
        elif variance is not None and sigma is None:
            assign(self, variance=as_fraction(variance, "variance", power=2))
        else:
            raise PrivacyError("discrete Gaussian noise requires exactly one of sigma and variance")

    @property
    def sigma(self) -> Fraction | float:
        """Square root of `variance`; a Fraction if it is rational."""
        exact = Fraction(math.isqrt(self.variance.numerator), math.isqrt(self.variance.denominator))
        return exact if exact**2 == self.variance else math.sqrt(self.variance)

    @property
    def kernel_id(self) -> tuple[int, float]:
        """Identifier and scale of the law in `ppdinf.laws.additive_law`."""
        return GAUSSIAN, float(self.sigma)

    def log_weight(self, z: Symbolic) -> Symbolic:
        """Return ``-z**2 / (2 sigma**2)``."""
        return -0.5 * (z / math.sqrt(self.variance)) ** 2

    def weight(self, size: int) -> arb:
        """Enclose ``exp(-k**2 / (2 sigma**2))``."""
        return (-ball(Fraction(size**2) / (2 * self.variance))).exp()

    def largest_ratio(self, size: int) -> arb:
        """Enclose ``exp(-(2 k + 1) / (2 sigma**2))``, which decreases in k."""
        return (-ball(Fraction(2 * size + 1) / (2 * self.variance))).exp()

    @property
    def log_quadratic(self) -> tuple[float, float]:
        """Rate 0 and curvature ``1 / sigma**2``."""
        return 0.0, 1 / float(self.variance)

    @property
    def log_total(self) -> float:
        """Log of the sum of all weights, by the series that converges faster (Poisson summation)."""
        v, k = float(self.variance), np.arange(1, 10)
        if v < 1:
            return math.log1p(2 * np.exp(-(k**2) / (2 * v)).sum())
        return 0.5 * math.log(2 * math.pi * v) + math.log1p(2 * np.exp(-2 * v * (math.pi * k) ** 2).sum())

    def log_total_of_sum(self, cells: int) -> float | None:
        """Return the log of the total weight of noise with the sum 0; wide noise has the weight of an integral."""
        if self.variance < WIDE:
            return super().log_total_of_sum(cells)
        return 0.5 * ((cells - 1) * math.log(2 * math.pi * self.variance) - math.log(cells))

    @property
    def rho_per_square(self) -> Fraction:
        """ZCDP loss ``1 / (2 sigma**2)`` per unit of squared distance."""
        return 1 / (2 * self.variance)

    def support_radius(self, cells: int, tail_probability: float) -> int:
        """Return a bound on ``|z|`` over `cells` cells of a lattice, with tail probability `tail_probability`.

        A lattice Gaussian satisfies ``E exp(u z) <= exp(sigma**2 u**2 / 2)``, because its mass is largest when it is
        centred on a lattice point.
        """
        return math.ceil(float(self.sigma) * math.sqrt(2 * math.log(2 * cells / tail_probability)))

    def to_dict(self) -> dict[str, str]:
        """Return the name and sigma, or the variance if sigma is not rational."""
        sigma = self.sigma
        parameters = {"sigma": str(sigma)} if isinstance(sigma, Fraction) else {"variance": str(self.variance)}
        return {"name": self.name, **parameters}
