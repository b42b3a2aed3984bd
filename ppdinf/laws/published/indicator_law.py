"""Base class of laws that only exclude counts: the weight is 1 on a range of counts, and 0 outside."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.types import Symbolic
from ppdinf.laws.observation_model import Column, IndependentLaw


class IndicatorLaw(IndependentLaw):
    """Law of a published value that is a function of the count, and that a range of counts has in common.

    `support_bounds` is exact for every tail probability. The weight is normalized: it is the probability 0 or 1.
    """

    @abstractmethod
    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count of each y; infinite if a side is open."""

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return 0 for counts within the range of each y, and ``-inf`` for other counts, elementwise."""
        low, high = self.support_bounds(np.asarray(y), 0.0)
        x = np.asarray(x)
        return np.where((x >= low) & (x <= high), 0.0, -np.inf)

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return no columns: weights are constant within `support_bounds`."""
        return []
