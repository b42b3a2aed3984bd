"""Published numbers whose noise ``y - x`` alone decides what they weigh."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.types import Json, Symbolic
from ppdinf.laws.law import IntegerLaw
from ppdinf.laws.observation_model import Column, IndependentLaw

__all__ = ["AdditiveLaw"]

NEGLIGIBLE = -700.0
"""Log weight at which the table of a law without a formula for its tails ends."""

DRAWN = -60.0
"""Log weight beyond which noise is not drawn."""


@dataclass(frozen=True, eq=False)
class AdditiveLaw(IndependentLaw):
    """Weights of single cells that follow from the noise ``y - x`` alone.

    Attributes
    ----------
    law : object
        With a method ``log_weight(z, *scale)``, elementwise; NumPy or PyTensor. What is published about sums asks an
        `IntegerLaw` for more.
    """

    name: ClassVar[str] = "differences"
    law: Any

    def to_dict(self) -> Json:
        """Those of the law of the noise."""
        found: Json = self.law.to_dict()
        return found

    @classmethod
    def _of_texts(cls, data: Json) -> AdditiveLaw:
        return cls(IntegerLaw.from_dict(data))

    @property
    def gives(self) -> str:
        """What is published, in words."""
        return "a count with noise"

    def log_weight(self, y: Symbolic, x: Symbolic, *scale: Symbolic) -> Symbolic:
        """Log weight of releasing each y when the count is x, elementwise; NumPy or PyTensor."""
        return self.law.log_weight(y - x, *scale)

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Smallest and largest count that each y comes from, but with the probability `rare` of the weights."""
        far = float(self.law.widest_half_width(1, tail_probability)) if tail_probability > 0 else math.inf
        return y - far, y + far

    def columns(self, y: NDArray[np.int64]) -> list[Column]:
        """One column: a formula at any distance where the law has one, else a table."""
        every = np.arange(y.size)
        if self.law.log_quadratic is not None:
            return [Column(np.zeros(1), every, y, left=self.law.log_quadratic, right=self.law.log_quadratic)]
        far = self.law.tail_start(NEGLIGIBLE)
        return [Column(self.law.log_weight(np.arange(-far, far + 1.0)), every, y - far)]

    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Add noise, by inversion."""
        far = self.law.tail_start(DRAWN)
        below = np.cumsum(np.exp(self.law.log_weight(np.arange(-far, far + 1.0))))
        place = np.searchsorted(below, rng.random(x.shape) * below[-1], side="right")
        y: NDArray[np.int64] = x + np.minimum(place, 2 * far) - far
        return y
