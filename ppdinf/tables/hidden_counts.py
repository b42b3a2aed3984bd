"""The rule by which a publisher hides counts: suppression marks, the counts behind them, and empty values."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import CountError
from ppdinf.tables.count_ranges import Range, each, exact_number, is_missing, missing_values, range_text

MARKS = ("S", "(S)", "D", "(D)", "*", "X", "(X)", "C", "(C)", "[C]", "PS", "Suppressed", "[Redacted]")
"""Texts that are suppressed counts by default, in upper or lower case."""

EMPTY = ("suppressed", "missing", "zero")


@dataclass(frozen=True)
class HiddenCounts:
    """Counts from `low` to `high` are hidden behind marks; an infinite `high` means that any count can be hidden."""

    low: float = 0.0
    high: float = math.inf
    marks: frozenset[object] = frozenset()
    empty: str | None = None

    @classmethod
    def of(cls, below: object, least: object, marks: object, empty: object) -> HiddenCounts:
        """Return the rule of the arguments of `suppressed`."""
        low, high = exact_number(least), math.inf if below is None else exact_number(below) - 1
        if low > high:
            raise CountError(f"the range of suppressed counts is empty: least = {least} must be less than {below}")
        if empty is not None and empty not in EMPTY:
            raise CountError(f"empty must be 'suppressed', 'missing' or 'zero', found {empty!r}")
        several = marks if isinstance(marks, Collection) and not isinstance(marks, str) else (marks,)
        return cls(low, high, frozenset(map(_comparable, several)), empty)

    @property
    def excluded(self) -> Range:
        """The counts that are not published, as an interval of integers; the interval is empty if any can be hidden."""
        if math.isinf(self.high):
            return math.inf, -math.inf
        return (-math.inf if self.low <= 0 else self.low), self.high

    def shown(self, value: Any, exact: bool = True) -> Any:
        """Return the text of a range for a mark and for an empty value, and other values unchanged."""
        if is_missing(value):
            if self.empty is None:
                raise CountError(
                    "the value is empty: state what empty values and absent rows mean by empty='suppressed', "
                    "'missing' or 'zero' (--empty for commands)"
                )
            if self.empty == "missing":
                return value
            return self._range(exact) if self.empty == "suppressed" else "0" if exact else "0-0"
        key = _comparable(value)
        if key in self.marks:
            return self._range(exact)
        first, last = self.excluded
        if exact and isinstance(key, float) and first <= key <= last:
            raise CountError(
                f"{value!r} is published, but counts from {self.low:.0f} to {self.high:.0f} are suppressed: correct "
                "the smallest and largest suppressed count, least= and below= (--suppressed 1-9 for commands)"
            )
        return value

    def _range(self, exact: bool) -> str:
        """Return the text of the suppressed counts: for a law, one count is a range too, because it is not a number."""
        return range_text(self.low, self.high) if exact or self.low < self.high else f"{self.low:.0f}-{self.low:.0f}"

    def shown_values(self, values: NDArray[np.object_]) -> NDArray[np.object_]:
        """Return published values of a law, shape (k,), with ranges instead of marks and empty values."""
        found = values.copy()
        empty = missing_values(values)
        if empty.any():
            found[empty] = self.shown(None, exact=False)
        for k in np.flatnonzero(~empty):
            found[k] = self.shown(values[k], exact=False)
        return found


def _comparable(value: object) -> object:
    """Return a number for numbers and their texts, and other texts without blanks and case."""
    if isinstance(value, str):
        try:
            return exact_number(value.strip())
        except CountError:
            return value.strip().casefold()
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return value


def suppressed(
    values: Any,
    below: int | None = None,
    *,
    least: int = 0,
    marks: object = MARKS,
    empty: str | None = None,
) -> Any:
    """Replace suppressed counts by the range of counts that the suppression rule allows; other counts are exact.

    Parameters
    ----------
    values : array_like, mapping, xarray.DataArray, pandas.Series or pandas.DataFrame
        Published counts, ranges of counts, and marks.
    below : int, optional
        Suppressed counts are less than `below`. None states no upper limit, as for secondary suppression, where any
        count can be hidden.
    least : int, default 0
        Suppressed counts are at least `least`: 1 if zeros are published.
    marks : str, number, or collection of str and numbers
        Values that are suppressed counts, by default `MARKS`: S, (S), D, (D), `*`, X, (X), C, (C), [C], PS,
        Suppressed, [Redacted], in upper or lower case. Numbers such as -999999 can be marks. Marks with several
        meanings require one call for each meaning. Marks with several uses, such as N, NA and ``".."`` (often "not
        available"), are not included.
    empty : {"suppressed", "missing", "zero"}, optional
        Meaning of empty values (nan, None, empty texts, masked elements). Missing counts are unknown, and remain empty.
        Required if there are empty values.

    Returns
    -------
    object of the same type
        Suppressed counts are texts such as ``"1-4"``; other values are unchanged. `ppdinf.measured` with the law
        `ppdinf.laws.Interval`, and ``public=``, accept it.

    Raises
    ------
    CountError
        `below` or `least` is not an integer, or no count is between them; a value is empty, and `empty` is not stated;
        or a published count is between them.

    See Also
    --------
    ppdinf.laws.Suppressed : The rule for numbers that are also rounded or noisy.
    ppdinf.ranges, ppdinf.laws.Interval, ppdinf.Suppression

    Examples
    --------
    >>> import ppdinf as ppd
    >>> import pandas as pd
    >>> shown = pd.Series({"A": "17", "B": "S", "C": None}, dtype=object)
    >>> ppd.suppressed(shown, below=5, least=1, empty="missing").tolist()
    ['17', '1-4', None]
    """
    return each(values, HiddenCounts.of(below, least, marks, empty).shown)
