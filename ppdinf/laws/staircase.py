"""Staircase noise on the integers.

References
----------
Q. Geng, P. Viswanath, "The optimal noise-adding mechanism in differential privacy", IEEE Transactions on Information
Theory 62(2), 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from flint import arb

from ppdinf._internal.rationals import Parameter, as_fraction, ball
from ppdinf._internal.values import Symbolic, assign
from ppdinf.errors import PrivacyError
from ppdinf.laws.law import IntegerLaw


@dataclass(frozen=True)
class Staircase(IntegerLaw):
    """Staircase noise: the weight is constant on stairs and falls from stair to stair.

    Weight ``exp(-epsilon j)`` on stairs j of width `sensitivity`, where the top stair has `step` values from 0 on.
    The privacy loss between counts that differ by at most `sensitivity` is at most epsilon.

    Parameters
    ----------
    epsilon : int, float, str or Fraction
    sensitivity : int
        Width of a stair, at least 1; with 1 the law is double geometric.
    step : int
        Number of values on the top stair, from 1 to `sensitivity`.

    Raises
    ------
    PrivacyError
        A parameter is out of range.

    See Also
    --------
    ppdinf.laws.DoubleGeometric

    Examples
    --------
    >>> from ppdinf.laws import Staircase
    >>> [Staircase(1, sensitivity=2, step=1).log_weight(k) for k in range(4)]
    [-0.0, -1.0, -1.0, -2.0]
    """

    name: ClassVar[str] = "staircase"
    title: ClassVar[str] = "staircase"
    epsilon: Fraction
    sensitivity: int
    step: int

    def __init__(self, epsilon: Parameter, sensitivity: int = 2, step: int = 1) -> None:
        integers = all(isinstance(value, int) and not isinstance(value, bool) for value in (sensitivity, step))
        if not integers or not 1 <= step <= sensitivity <= 10**6:
            raise PrivacyError(
                "sensitivity and step must be integers with 1 <= step <= sensitivity <= 10**6, "
                f"found {sensitivity!r}, {step!r}"
            )
        assign(self, epsilon=as_fraction(epsilon, "epsilon"), sensitivity=sensitivity, step=step)

    def _stair(self, size: Symbolic) -> Symbolic:
        return (size + self.sensitivity - self.step) // self.sensitivity

    def log_weight(self, z: Symbolic) -> Symbolic:
        """Return ``-epsilon j`` for the stair j of each integer."""
        return -float(self.epsilon) * self._stair(abs(z))

    def weight(self, size: int) -> arb:
        """Enclose ``exp(-epsilon j)``."""
        return (-ball(self.epsilon) * self._stair(size)).exp()

    @property
    def period(self) -> int:
        """Width of a stair."""
        return self.sensitivity

    def largest_ratio(self, size: int) -> arb:
        """Enclose ``exp(-epsilon)``, the ratio of one stair to the next."""
        return (-ball(self.epsilon)).exp()

    @property
    def epsilon_per_unit(self) -> Fraction:
        """Change of the log weight from one stair to the next, epsilon."""
        return self.epsilon
