"""Averages over several years: a count divided by a known number, rounded to the printed decimals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.values import Integers, Symbolic, require_number
from ppdinf.laws.interval import IndicatorLaw
from ppdinf.tables.count_ranges import missing_values, range_text
from ppdinf.tables.percentages import Share


@dataclass(frozen=True)
class Averaged(IndicatorLaw):
    """Numbers that are a count divided by the number of years, rounded to the printed decimals by any rule of ties.

    Parameters
    ----------
    over : int
        Number of years of the sum.

    Raises
    ------
    PrivacyError
        The number of years is not an integer of at least 1.

    See Also
    --------
    ppdinf.rules.averaged, ppdinf.percentages

    Examples
    --------
    >>> import ppdinf as ppd
    >>> inv = ppd.invariants
    >>> seen = ppd.Measurements({"p": ["A"]}, ppd.measured(inv.margin("p"), ["2.4"], ppd.laws.Averaged(5)))
    >>> ppd.identified_bounds(seen)[["lower", "upper"]].values.tolist()
    [[12, 12]]
    """

    name: ClassVar[str] = "averaged"
    over: int

    def __post_init__(self) -> None:
        require_number(self.over, "the number of averaged years must be an integer >= 1", 1, kinds=int)

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return f"the count divided by {self.over}, rounded to the printed decimals"

    def shown(self, values: NDArray[np.object_]) -> NDArray[np.object_]:
        """Return the ranges of counts of all averages that are not missing."""
        shown, there = values.copy(), ~missing_values(values)
        ends = [Share.of(str(value)).counts(Fraction(self.over)) for value in values[there]]
        # an average without an integer count in its range remains, and is refused as a fraction
        shown[there] = [range_text(*pair) if pair[0] < pair[1] else f"{pair[0]:.0f}-{pair[1]:.0f}" for pair in ends]
        return shown

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count of each average, an integer."""
        return np.ceil((y - 0.5) * self.over), np.floor((y + 0.5) * self.over)

    def publish(self, x: Integers, rng: np.random.Generator) -> NDArray[Any]:
        """Return averages that are rounded to integers, ties up."""
        return (2 * x + self.over) // (2 * self.over)
