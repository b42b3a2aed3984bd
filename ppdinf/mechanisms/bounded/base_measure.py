"""Weights of released counts, whatever the confidential table is."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Protocol, runtime_checkable

import numpy as np
from flint import arb
from numpy.typing import NDArray

__all__ = ["BaseMeasure", "log_base_measure"]


@runtime_checkable
class BaseMeasure(Hashable, Protocol):
    """Weights of the released counts, whatever the confidential ones. Anything hashable with these methods will do.

    A method ``around(center, groups)``, where there is one, returns the same weights times one for each cell that
    cancel in every table whose groups have the sums of `center`, so that weights grow less with the counts.
    """

    def weight(self, cell: int, count: int) -> arb:
        """Enclose the weight of a count in a cell, counted along the table."""

    def largest(self, cell: int, low: float, high: float) -> arb:
        """Enclose the largest weight of counts from `low` to `high`."""


def log_base_measure(base: BaseMeasure | None, cells: NDArray[np.int64]) -> float:
    """Log weight of a release, whatever the table; 0 without a base measure."""
    weights = [] if base is None else [base.weight(i, count) for i, count in enumerate(cells.tolist())]
    return sum((float(weight.log()) if weight > 0 else -math.inf for weight in weights), start=0.0)
