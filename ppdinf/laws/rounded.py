"""Rounding of counts to a multiple of a base: to the nearest with a stated tie rule, down, up, or at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.values import Flags, Integers, Symbolic, logarithms, require_choice, require_number
from ppdinf.errors import PrivacyError
from ppdinf.laws.interval import IndicatorLaw
from ppdinf.laws.law_array import PerEntry
from ppdinf.laws.observation_model import Column, IndependentLaw

DIRECTIONS, TIES = ("nearest", "down", "up"), ("up", "down", "even")


@dataclass(frozen=True)
class Rounded(PerEntry, IndicatorLaw):
    """Rounding of a count to a multiple of the base. An array as base states one base per entry.

    Parameters
    ----------
    base : int or array of int
        At least 1.
    direction : {"nearest", "down", "up"}
    ties : {"up", "down", "even"}, optional
        Required for an even base and the nearest multiple, where ``base / 2`` above a multiple is a tie: the larger
        multiple, the smaller multiple, or the even multiple (``0, 2 base, 4 base, ...``), as Python, NumPy and R round.
        Excel and most statistical offices round counts up.
    offset : int, optional
        This number is subtracted from the multiple. Midpoint rounding with base 6 has the direction up and offset 3.

    Raises
    ------
    PrivacyError
        The base is not an integer of at least 1, the direction or tie rule is unknown, or the tie rule is missing.

    See Also
    --------
    ppdinf.laws.RandomRounding, ppdinf.laws.Interval

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import Rounded
    >>> Rounded(10, ties="up").support_bounds(np.array([0, 10]), 0.0)
    (array([-5,  5]), array([ 4, 14]))
    >>> Rounded(5).publish(np.array([2, 3, 12]), np.random.default_rng()).tolist()
    [0, 5, 10]
    """

    name: ClassVar[str] = "rounded"
    base: int
    direction: str = "nearest"
    ties: str | None = None
    offset: int | None = None

    def __post_init__(self) -> None:
        require_number(self.base, "base must be an integer >= 1", 1)
        require_choice("direction", self.direction, DIRECTIONS)
        if self.offset is not None:
            require_number(self.offset, "offset must be an integer")
        require_choice("ties", self.ties, TIES, default=None)
        if self.ties is None and self.direction == "nearest" and self.base % 2 == 0:
            raise PrivacyError(f"ties of the even base {self.base} need a rule: ties='up', 'down' or 'even'")

    @property
    def _shift(self) -> int:
        return self.offset or 0

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        if self.base == 1:
            return "which is exact"
        ties = "" if self.ties is None else f" (ties: {self.ties})"
        where = "" if self.direction == "nearest" else f" {self.direction}"
        minus = f" minus {self.offset}" if self.offset else ""
        return f"which is rounded{where} to a multiple of {self.base}{minus}{ties}"

    def is_possible(self, y: Integers) -> Flags:
        """Return whether each number is a multiple of the base, minus the offset."""
        return (y + self._shift) % self.base == 0

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count that is rounded to each y, a multiple of the base minus the offset."""
        y = y + self._shift
        if self.direction == "down":
            return y, y + self.base - 1
        if self.direction == "up":
            return y - self.base + 1, y
        half = self.base // 2
        if self.base % 2:
            return y - half, y + half
        # a tie is rounded to y from below (y - half) and from above (y + half)
        is_even = y // self.base % 2 == 0
        from_below = (self.ties == "up") | ((self.ties == "even") & is_even)
        from_above = (self.ties == "down") | ((self.ties == "even") & is_even)
        return y - half + 1 - from_below, y + half - 1 + from_above

    def column_below(self, threshold: int) -> Column:
        """Return the log weights of ``Y < threshold``: 0 up to the last count that is rounded below it."""
        last = (threshold - 1 + self._shift) // self.base * self.base
        high = self.support_bounds(np.array([last - self._shift]), 0.0)[1]
        return Column(np.zeros(1), np.zeros(1, dtype=np.int64), high, left=(0.0, 0.0))

    def publish(self, x: Integers, rng: np.random.Generator) -> Integers:
        """Round the counts."""
        below = x // self.base * self.base
        above = np.where(x == below, below, below + self.base)
        if self.direction != "nearest":
            return (below if self.direction == "down" else above) - self._shift
        is_odd = below // self.base % 2 == 1
        tie_up = (self.ties == "up") | ((self.ties == "even") & is_odd)
        excess = 2 * (x - below) - self.base
        return np.where((excess > 0) | ((excess == 0) & tie_up), above, below) - self._shift


@dataclass(frozen=True)
class RandomRounding(PerEntry, IndependentLaw):
    """Rounding of a count x up to a multiple of the base with probability ``(x mod base) / base``, otherwise down.

    A multiple y is published with probability ``1 - |y - x| / base`` where this is positive.

    Parameters
    ----------
    base : int or array of int
        At least 2; Stats NZ and Statistics Canada use 3, 5 and 10. An array states one base per entry.

    Raises
    ------
    PrivacyError
        The base is not an integer of at least 2.

    See Also
    --------
    ppdinf.laws.Rounded, ppdinf.mechanisms.random_rounding

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import RandomRounding
    >>> float(np.exp(RandomRounding(3).log_weight(6, np.array(5))).round(3))
    0.667
    """

    name: ClassVar[str] = "random-rounding"
    base: int

    def __post_init__(self) -> None:
        require_number(self.base, "base must be an integer >= 2", 2)

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log probability of each published y given the count x, elementwise; ``-inf`` if it is 0."""
        return logarithms(np.maximum(1 - abs(y - x) / self.base, 0) * (np.mod(y, self.base) == 0))

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return f"which is rounded at random to a multiple of {self.base}"

    def is_possible(self, y: Integers) -> Flags:
        """Return whether each number has positive probability for some count."""
        return y % self.base == 0

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest possible count given each y."""
        return y - self.base + 1, y + self.base - 1

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return one column of triangular weights around each published number."""
        away = np.arange(-self.base + 1, self.base)
        return [Column(self.log_weight(0, away), np.arange(y.size), y - self.base + 1)]

    def column_below(self, threshold: int) -> Column:
        """Return the log probability of rounding below the threshold, to the last multiple below it or less."""
        last = (threshold - 1) // self.base * self.base
        weights = np.log1p(-np.arange(self.base) / self.base)
        return Column(weights, np.zeros(1, dtype=np.int64), np.array([last]), left=(0.0, 0.0))

    def publish(self, x: Integers, rng: np.random.Generator) -> Integers:
        """Round the counts at random."""
        above = x % self.base
        return x - above + self.base * (rng.random(x.shape) < above / self.base)
