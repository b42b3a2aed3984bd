"""Random rounding to a multiple of a base, without bias, whatever the count: as statistical offices publish counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.frozen import made
from ppdinf._internal.types import Json, Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.observation_model import Column, IndependentLaw

__all__ = ["RandomRounding"]


@dataclass(frozen=True)
class RandomRounding(IndependentLaw):
    """A count x goes to the multiple of the base above with probability ``(x mod base) / base``, else to that below.

    So a multiple y is published with the probability ``1 - |y - x| / base`` where that is positive.

    Parameters
    ----------
    base : int
        At least 2; Stats NZ and Statistics Canada publish with 3, 5 and 10.

    Raises
    ------
    PrivacyError
        The base is no whole number from 2 on.

    Examples
    --------
    >>> float(np.exp(RandomRounding(3).log_weight(6, np.array(5))).round(3))
    0.667
    """

    name: ClassVar[str] = "random-rounding"
    base: int

    def __post_init__(self) -> None:
        if isinstance(self.base, bool) or not isinstance(self.base, int | np.integer) or self.base < 2:
            raise PrivacyError(f"counts are rounded to multiples of a whole number from 2 on, found {self.base!r}")

    def to_dict(self) -> Json:
        """Name and base."""
        return {"name": self.name, "base": str(self.base)}

    @classmethod
    def _of_texts(cls, data: Json) -> RandomRounding:
        return made(cls, {key: int(value) for key, value in data.items() if key != "name"}, "random rounding")

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Log probability of publishing each y when the count is x, elementwise; ``-inf`` where it is 0."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(1 - abs(y - x) / self.base, 0) * (np.mod(y, self.base) == 0))

    @property
    def gives(self) -> str:
        """What is published, in words."""
        return f"which is rounded to a multiple of {self.base}"

    def is_possible(self, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell numbers that some count gives."""
        possible: NDArray[np.bool_] = y % self.base == 0
        return possible

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Smallest and largest count that each y can come from."""
        return y - self.base + 1, y + self.base - 1

    def columns(self, y: NDArray[np.int64]) -> list[Column]:
        """One column: the nearer to its number, the likelier a count."""
        away = np.arange(-self.base + 1, self.base)
        return [Column(self.log_weight(0, away), np.arange(y.size), y - self.base + 1)]

    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Round counts."""
        above = x % self.base
        return x - above + self.base * (rng.random(x.shape) < above / self.base)
