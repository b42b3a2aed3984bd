"""Laws that only exclude counts, and ranges of counts that are known with certainty, such as "1-9" or "<5"."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf._internal.values import Integers, Reals, Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.observation_model import Column, IndependentLaw
from ppdinf.tables.count_ranges import count_range, range_text


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


@dataclass(frozen=True, eq=False)
class Interval(IndicatorLaw):
    """A range that contains the count or sum with certainty; all counts in the range have the same weight.

    The published values are integers, or texts of ranges: ``"1-9"``, ``"<5"``, ``">=100"``, ``"≤4"``
    (`ppdinf.tables.count_ranges.count_range` has the grammar). nan, None and empty texts state nothing. A suppression
    mark such as ``"(D)"`` is refused: `ppdinf.suppressed` replaces it by a range. `ppdinf.ranges` makes texts from
    arrays of lower and upper ends.

    Attributes
    ----------
    ends : array of float64, shape (n, 2)
        The different ranges of the values that the law was read from. Users leave it empty.

    See Also
    --------
    ppdinf.ranges, ppdinf.suppressed, ppdinf.laws.Rounded

    Examples
    --------
    >>> from ppdinf.laws import Interval
    >>> import ppdinf as ppd
    >>> inv = ppd.invariants
    >>> shown = ppd.measured(inv.margin("area"), {"A": "1-9", "B": "17", "C": "<5"}, Interval())
    >>> seen = ppd.Measurements({"area": ["A", "B", "C"]}, shown, public={inv.total(): 25})
    >>> sorted(set(ppd.denoise(seen, draws=200, rng=1, progressbar=False).draws.sel(area="C").values.ravel().tolist()))
    [0, 1, 2, 3, 4]
    """

    name: ClassVar[str] = "interval"
    gives: ClassVar[str] = "because the range is empty"
    ends: Reals = field(default_factory=lambda: np.zeros((0, 2)), repr=False, compare=False)

    def read(self, values: NDArray[np.object_]) -> tuple[Interval, Integers]:
        """Return the law with the ranges of the values, and the index of the range of each value.

        Raises
        ------
        CountError
            A value is not an integer or a range.
        """
        codes, different = pd.factorize(values)
        ranges = [count_range(value) for value in different]
        return Interval(np.array(ranges, dtype=np.float64).reshape(-1, 2)), codes.astype(np.int64)

    def written(self, y: NDArray[Any]) -> NDArray[np.object_]:
        """Return the texts of ranges."""
        texts = np.array([range_text(*ends) for ends in self.ends.tolist()], dtype=object)
        return texts[y.astype(np.int64)]

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the ends of each range."""
        return self.ends[y, 0], self.ends[y, 1]

    def publish(self, x: Integers, rng: np.random.Generator) -> Integers:
        """Refuse: a range does not state which range another count would have had.

        Raises
        ------
        PrivacyError
            Always.
        """
        raise PrivacyError(
            "ranges cannot be simulated, because their rule is unknown: state the rule as a law "
            "(ppd.laws.Rounded, or ppd.laws.Thresholded for suppressed counts)"
        )
