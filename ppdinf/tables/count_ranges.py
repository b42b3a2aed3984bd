"""Counts as published tables write them: ranges such as ``1-9`` and ``<5``, suppression marks, empty values."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.values import Array, Flags
from ppdinf.errors import CountError
from ppdinf.tables.frame import LARGEST

_EXACT = re.compile(r"[+-]?[0-9]+(\.0*)?")
_BETWEEN = re.compile(r"([+-]?[0-9]+)\s*(?:-|–|to)\s*([+-]?[0-9]+)", re.IGNORECASE)
_WORDS = {
    "<": "<|(?:fewer|less) than|under|below",
    "<=": "<=|≤|at most|up to",
    ">": ">|(?:more|greater) than|over|above",
    ">=": ">=|≥|at least",
}
_ONE_SIDED = {sign: re.compile(rf"(?:{words})\s*([+-]?[0-9]+)", re.IGNORECASE) for sign, words in _WORDS.items()}
_OR_LESS = re.compile(r"([+-]?[0-9]+)\s*or (?:fewer|less|under)", re.IGNORECASE)
_OR_MORE = re.compile(r"([+-]?[0-9]+)\s*(?:\+|or (?:more|over|greater))", re.IGNORECASE)
_PERCENTAGE = re.compile(r"(GE|GT|LE|LT)\s*[0-9.]+|.*%", re.IGNORECASE)

type Range = tuple[float, float]


def is_missing(value: object) -> bool:
    """Return whether a value is nan, None, `pandas.NA`, or a text without characters."""
    return not value.strip() if isinstance(value, str) else value is None or bool(np.all(pd.isna(value)))  # type: ignore[call-overload]


def missing_values(values: NDArray[np.object_]) -> Flags:
    """Return a mask of missing values, shape (k,), as `is_missing` for each."""
    missing: Flags = np.asarray(pd.isna(values))
    texts = np.flatnonzero([isinstance(value, str) for value in values])
    codes, different = pd.factorize(values[texts])
    missing[texts] = np.array([is_missing(text) for text in different], dtype=bool)[codes]
    return missing


def are_ranges(values: NDArray[np.object_]) -> Flags:
    """Return whether values are texts that are not numbers."""
    texts = np.array([isinstance(value, str) for value in values], dtype=bool)
    return texts & pd.to_numeric(pd.Series(values), errors="coerce").isna().to_numpy()


def count_range(value: object) -> Range:
    """Return the smallest and largest count that a published value allows; infinite if a side is open."""
    low, high = _text_range(value.strip()) if isinstance(value, str) else (exact_number(value),) * 2
    if low > high:
        raise CountError(f"the range {value!r} is empty: its smallest count exceeds its largest count")
    return low, high


def exact_number(value: Any) -> float:
    """Return a number, or the number of a text; an error if it is not an integer of at most 2**53."""
    try:
        is_number = bool(_EXACT.fullmatch(value)) if isinstance(value, str) else not isinstance(value, bool | np.bool_)
        number = float(value) if is_number else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not number.is_integer() or abs(number) > LARGEST:
        raise CountError(f"{value!r} is neither an integer of at most 2**53 nor a range such as '1-9' or '<5'")
    return number


def _text_range(text: str) -> Range:
    if _EXACT.fullmatch(text):
        return (exact_number(text),) * 2
    if between := _BETWEEN.fullmatch(text):
        return exact_number(between[1]), exact_number(between[2])
    if or_more := _OR_MORE.fullmatch(text):
        return exact_number(or_more[1]), math.inf
    if or_less := _OR_LESS.fullmatch(text):
        return -math.inf, exact_number(or_less[1])
    for sign, pattern in _ONE_SIDED.items():
        if one_sided := pattern.fullmatch(text):
            limit = exact_number(one_sided[1])
            return (-math.inf, limit - (sign == "<")) if "<" in sign else (limit + (sign == ">"), math.inf)
    if _PERCENTAGE.fullmatch(text):
        raise CountError(f"{text!r:.40} is a percentage: state the range of counts that it allows, such as '39-41'")
    hint = "write thousands without separators; decimals (medians, means, rates, averages) are not counts"
    if text[:1] in "$€£¥":
        hint = "amounts of money and other magnitudes are out of scope"
    elif not text[:1].isdigit():
        hint = (
            f"state the rule of a suppression mark by ppd.suppressed(values, below=5, marks={{{text[:40]!r}}}), or by "
            f"--suppressed 1-4 --marks {shlex.quote(text[:40])}, or the rule of a publisher by --rule, for commands"
        )
    raise CountError(f"{text!r:.40} is not an integer or a range such as '1-9', '<5', '>=100': {hint}")


def range_text(low: float, high: float) -> str:
    """Return the text of a range; `count_range` is the inverse function."""
    if low == high:
        return f"{low:.0f}"
    if math.isinf(low) and math.isinf(high):
        return ""
    return f"<={high:.0f}" if math.isinf(low) else f">={low:.0f}" if math.isinf(high) else f"{low:.0f}-{high:.0f}"


def ranges(lower: Any, upper: Any) -> Any:
    """Return the texts of ranges from their smallest and largest counts; nan and None are open ends.

    Parameters
    ----------
    lower, upper : array_like, mapping, xarray.DataArray, pandas.Series or pandas.DataFrame
        Of equal type, shape and labels.

    Raises
    ------
    CountError
        A limit is not an integer, a range is empty, or shapes or labels differ.

    See Also
    --------
    ppdinf.suppressed, ppdinf.laws.Interval, ppdinf.measured

    Examples
    --------
    >>> import ppdinf as ppd
    >>> ppd.ranges([1, None, 7], [9, 4, 7]).tolist()
    ['1-9', '<=4', '7']
    """
    if type(lower) is not type(upper) or labels_of(lower) != labels_of(upper):
        raise CountError("lower and upper must have equal types, shapes and labels, in the same order")
    highs = iter(flat(upper))

    def text(low: Any) -> str:
        high = next(highs)
        smallest = -math.inf if is_missing(low) else exact_number(low)
        largest = math.inf if is_missing(high) else exact_number(high)
        if smallest > largest:
            raise CountError(f"the range from {low!r} to {high!r} is empty")
        return range_text(smallest, largest)

    return each(lower, text)


def labels_of(values: Any) -> object:
    """Return the labels and the shape of a container, in order."""
    if isinstance(values, Mapping):
        return list(values)
    if isinstance(values, pd.Series | pd.DataFrame):
        return [axis.to_list() for axis in values.axes]
    if isinstance(values, xr.DataArray):
        return values.dims, values.shape, {name: index.to_list() for name, index in values.indexes.items()}
    return np.shape(values)


def flat(values: Any) -> list[Any]:
    """Return the elements of a container in order."""
    if isinstance(values, Mapping):
        return list(values.values())
    return list(np.asarray(values, dtype=object).ravel())


def each(values: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to each element in order, with the labels of the container."""
    if isinstance(values, Mapping):
        return {key: function(value) for key, value in values.items()}
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(object), np.nan)
    elements = np.asarray(values, dtype=object)
    mapped = np.empty(elements.shape, object)
    for k in np.ndindex(elements.shape):
        mapped[k] = function(elements[k])
    return with_labels_of(values, mapped)


def with_labels_of(like: Any, values: Array) -> Any:
    """Return an array in a container like another, with its labels."""
    if isinstance(like, xr.DataArray):
        return like.copy(data=values)
    if isinstance(like, pd.Series):
        return pd.Series(values, index=like.index, name=like.name, dtype=values.dtype)
    return pd.DataFrame(values, index=like.index, columns=like.columns) if isinstance(like, pd.DataFrame) else values


MARKS = ("S", "(S)", "D", "(D)", "*", "X", "(X)", "C", "(C)", "[C]", "PS", "Suppressed", "[Redacted]")
"""Texts that are suppressed counts by default, in upper or lower case."""

EMPTY = ("suppressed", "missing", "zero")


@dataclass(frozen=True)
class HiddenCounts:
    """Counts from `low` to `high` are hidden behind marks; an infinite `high` means that any count can be hidden."""

    # the range of each mark is a text; with secondary suppression, a mark can also hide any other count

    low: float = 0.0
    high: float = math.inf
    meanings: Mapping[object, str] = field(default_factory=dict)
    empty: str | None = None
    secondary: bool = False

    @classmethod
    def of(cls, below: object, least: object, marks: object, empty: object, secondary: bool = False) -> HiddenCounts:
        """Return the rule of the arguments of `suppressed`."""
        low, high = exact_number(least), math.inf if below is None else exact_number(below) - 1
        if low > high:
            raise CountError(f"the range of suppressed counts is empty: least = {least} must be less than {below}")
        if empty is not None and empty not in EMPTY:
            raise CountError(f"empty must be 'suppressed', 'missing' or 'zero', found {empty!r}")
        several = marks if isinstance(marks, Collection) and not isinstance(marks, str) else (marks,)
        ranges = marks if isinstance(marks, Mapping) else dict.fromkeys(several)
        hidden = range_text(*((0, math.inf) if secondary else (low, high)))
        return cls(low, high, _by_mark({mark: ranges[mark] or hidden for mark in ranges}), empty, secondary)

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
            hidden = range_text(*((0, math.inf) if self.secondary else (self.low, self.high)))
            return as_range("0" if self.empty == "zero" else hidden, exact)
        key = comparable(value)
        if key in self.meanings:
            return as_range(self.meanings[key], exact)
        first, last = self.excluded
        if exact and isinstance(key, float) and first <= key <= last:
            raise CountError(
                f"{value!r} is published, but counts from {self.low:.0f} to {self.high:.0f} are suppressed: correct "
                "the smallest and largest suppressed count, least= and below= (--suppressed 1-9 for commands)"
            )
        return value

    def shown_values(self, values: NDArray[np.object_]) -> NDArray[np.object_]:
        """Return published values of a law, shape (k,), with ranges instead of marks and empty values."""
        found = values.copy()
        empty = missing_values(values)
        if empty.any():
            found[empty] = self.shown(None, exact=False)
        for k in np.flatnonzero(~empty):
            found[k] = self.shown(values[k], exact=False)
        return found


def as_range(text: str, exact: bool) -> str:
    """Return the text of a range; for a law, one count is a range too, because it is not a number."""
    low, high = count_range(text)
    return text if exact or low < high else f"{low:.0f}-{low:.0f}"


def _by_mark(ranges: Mapping[object, str]) -> dict[object, str]:
    """Return the range of each mark; a mark with two ranges is refused."""
    meanings: dict[object, str] = {}
    for mark, text in ranges.items():
        count_range(text)
        if meanings.setdefault(comparable(mark), text) != text:
            raise CountError(f"the mark {mark!r} has two meanings, {meanings[comparable(mark)]} and {text}: state one")
    return meanings


def comparable(value: object) -> object:
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
    values: Any, below: int | None = None, *, least: int = 0, marks: object = MARKS, empty: str | None = None
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
    >>> import ppdinf as ppd, pandas as pd
    >>> shown = pd.Series({"A": "17", "B": "S", "C": None}, dtype=object)
    >>> ppd.suppressed(shown, below=5, least=1, empty="missing").tolist()
    ['17', '1-4', None]
    """
    return each(values, HiddenCounts.of(below, least, marks, empty).shown)
