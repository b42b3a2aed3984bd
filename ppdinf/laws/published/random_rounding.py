"""Unbiased random rounding of counts to a multiple of a base, as statistical offices publish counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.frozen import construct
from ppdinf._internal.types import Json, Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.law_array import PerEntry
from ppdinf.laws.observation_model import Column, IndependentLaw


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
        if isinstance(self.base, bool) or not isinstance(self.base, int | np.integer) or self.base < 2:
            raise PrivacyError(f"base must be an integer >= 2, found {self.base!r}")

    def to_dict(self) -> Json:
        """Return the name and the base."""
        return {"name": self.name, "base": str(self.base)}

    @classmethod
    def _of_texts(cls, data: Json) -> RandomRounding:
        return construct(cls, {key: int(value) for key, value in data.items() if key != "name"}, "random rounding")

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log probability of each published y given the count x, elementwise; ``-inf`` if it is 0."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(1 - abs(y - x) / self.base, 0) * (np.mod(y, self.base) == 0))

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return f"which is rounded to a multiple of {self.base}"

    def is_possible(self, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each number has positive probability for some count."""
        possible: NDArray[np.bool_] = y % self.base == 0
        return possible

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

    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Round the counts at random."""
        above = x % self.base
        return x - above + self.base * (rng.random(x.shape) < above / self.base)
