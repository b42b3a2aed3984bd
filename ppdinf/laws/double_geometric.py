"""Double geometric noise: exp(-epsilon |z|) on the integers, or l1 Laplace noise on a lattice.

References
----------
A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally utility-maximizing privacy mechanisms", SIAM Journal on
Computing 41(6), 2012. P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023,
Definition 9 (the law on lattices).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from flint import arb

from ppdinf._internal.rationals import Parameter, as_fraction, ball
from ppdinf._internal.values import Symbolic, assign
from ppdinf.laws.additive_law import L1
from ppdinf.laws.law import IntegerLaw


@dataclass(frozen=True)
class DoubleGeometric(IntegerLaw):
    """Double geometric noise, the integer form of Laplace noise.

    Weight ``exp(-epsilon |k|)``: epsilon-differential privacy per unit of l1 distance.

    Parameters
    ----------
    epsilon : int, float, str or Fraction, or a variable of a PyMC model
        A variable is an unknown scale (docs/inference.md).

    Raises
    ------
    PrivacyError
        epsilon is not a positive finite number.

    See Also
    --------
    ppdinf.laws.Laplace, ppdinf.laws.L2Laplace, ppdinf.laws.Staircase, ppdinf.GeneralizedLaplace

    Examples
    --------
    >>> from ppdinf.laws import DoubleGeometric
    >>> DoubleGeometric("1/2").log_weight(-3)
    -1.5
    """

    name: ClassVar[str] = "double-geometric"
    title: ClassVar[str] = "l1 Laplace"
    epsilon: Fraction

    def __init__(self, epsilon: Parameter) -> None:
        assign(self, epsilon=as_fraction(epsilon, "epsilon"))

    @property
    def kernel_id(self) -> tuple[int, float]:
        """Identifier and scale of the law in `ppdinf.laws.additive_law`."""
        return L1, float(self.epsilon)

    def log_weight(self, z: Symbolic) -> Symbolic:
        """Return ``-epsilon |z|``."""
        return -float(self.epsilon) * abs(z)

    def weight(self, size: int) -> arb:
        """Enclose ``exp(-epsilon k)``."""
        return (-ball(self.epsilon) * size).exp()

    def largest_ratio(self, size: int) -> arb:
        """Enclose ``exp(-epsilon)``."""
        return (-ball(self.epsilon)).exp()

    @property
    def log_quadratic(self) -> tuple[float, float]:
        """Rate epsilon and curvature 0."""
        return float(self.epsilon), 0.0

    @property
    def log_total(self) -> float:
        """Log of ``coth(epsilon / 2)``."""
        return -math.log(math.tanh(float(self.epsilon) / 2))

    @property
    def epsilon_per_unit(self) -> Fraction:
        """Privacy loss epsilon per unit of distance."""
        return self.epsilon

    def support_radius(self, cells: int, tail_probability: float) -> int:
        """Return a bound on ``|z|`` over `cells` cells of a lattice, with tail probability `tail_probability`.

        Given the law of the other cells, a cell has mass at most ``exp(-epsilon |k|)`` relative to its mass at 0. The
        law of the other cells has a positive Fourier transform. Their mass at ``-k`` is therefore largest for k = 0.
        """
        rate = float(self.epsilon)
        return math.ceil(math.log(2 * cells / -math.expm1(-rate) / tail_probability) / rate)
