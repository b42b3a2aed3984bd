"""The interface of weights on released counts, which do not depend on the confidential table."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Protocol, runtime_checkable

import numpy as np
from flint import arb
from numpy.typing import NDArray


@runtime_checkable
class BaseMeasure(Hashable, Protocol):
    """Weights of released counts, independent of the confidential counts: any hashable object with these methods."""

    def weight(self, cell: int, count: int) -> arb:
        """Enclose the weight of a count in a cell; cells are numbered in the order of the table."""

    def largest(self, cell: int, low: float, high: float) -> arb:
        """Enclose the largest weight of the counts from `low` to `high`."""


def log_base_measure(base: BaseMeasure | None, cells: NDArray[np.int64]) -> float:
    """Return the log weight of a release, for every table; 0 without a base measure."""
    weights = [] if base is None else [base.weight(i, count) for i, count in enumerate(cells.tolist())]
    return sum((float(weight.log()) if weight > 0 else -math.inf for weight in weights), start=0.0)
