"""Ranges of counts as published tables write them: ``17``, ``1-9``, ``<5``, ``>=100``; and suppression marks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from ppdinf.errors import CountError
from ppdinf.tables.labels import LARGEST

__all__ = ["MARKS", "count_range", "is_missing", "missing_values", "ranges", "suppressed"]

MARKS = ("S", "(S)", "s", "D", "(D)", "*", "X", "(X)")
"""Texts that `suppressed` reads as suppressed counts by default, besides empty texts, nan and None."""

_EXACT = re.compile(r"[+-]?[0-9]+(\.0*)?")
_BETWEEN = re.compile(r"([+-]?[0-9]+)\s*(?:-|–|to)\s*([+-]?[0-9]+)")
_ONE_SIDED = re.compile(r"(<=|>=|≤|≥|<|>)\s*([+-]?[0-9]+)")
_OR_MORE = re.compile(r"([+-]?[0-9]+)\s*(?:\+|or more)")

type Range = tuple[float, float]


def is_missing(value: object) -> bool:
    """Return whether a value is nan, None, `pandas.NA`, or a text without characters."""
    return not value.strip() if isinstance(value, str) else value is None or bool(np.all(pd.isna(value)))  # type: ignore[call-overload]


def missing_values(values: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Return a mask of missing values, shape (k,), as `is_missing` for each."""
    missing: NDArray[np.bool_] = np.asarray(pd.isna(values))
    texts = np.flatnonzero([isinstance(value, str) for value in values])
    codes, different = pd.factorize(values[texts])
    missing[texts] = np.array([is_missing(text) for text in different], dtype=bool)[codes]
    return missing


def count_range(value: object) -> Range:
    """Return the smallest and largest count that a published value allows; infinite if a side is open.

    The only parser of ranges in the package. Blanks around a text and around its operator are ignored.

    ========================  ==========================
    value                     counts
    ========================  ==========================
    ``17``, ``"17"``, 17.0    17
    ``"1-9"``, ``"1–9"``      1, ..., 9 (also ``"1 to 9"``)
    ``"<5"``                  at most 4
    ``"<=4"``, ``"≤4"``       at most 4
    ``">99"``                 at least 100
    ``">=100"``, ``"≥100"``   at least 100
    ``"100+"``                at least 100 (also ``"100 or more"``)
    ========================  ==========================

    Parameters
    ----------
    value : int, float or str

    Returns
    -------
    tuple of float

    Raises
    ------
    CountError
        The value is missing, a mark such as ``"(D)"``, a fraction, or a text outside the grammar. Thousands separators
        are refused, because ``"1,234"`` and ``"1.234"`` have two meanings.

    Examples
    --------
    >>> count_range("1-9"), count_range("<5"), count_range(17.0)
    ((1.0, 9.0), (-inf, 4.0), (17.0, 17.0))
    """
    low, high = _text_range(value.strip()) if isinstance(value, str) else _number_range(value)
    if low > high:
        raise CountError(f"the range {value!r} is empty: its smallest count exceeds its largest count")
    return low, high


def _number_range(value: Any) -> Range:
    try:
        number = math.nan if isinstance(value, bool | np.bool_) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not number.is_integer() or abs(number) > LARGEST:
        raise CountError(f"{value!r} is neither an integer of at most 2**53 nor a range such as '1-9' or '<5'")
    return number, number


def _text_range(text: str) -> Range:
    if _EXACT.fullmatch(text):
        return _number_range(text)
    if between := _BETWEEN.fullmatch(text):
        return _number_range(between[1])[0], _number_range(between[2])[0]
    if or_more := _OR_MORE.fullmatch(text):
        return _number_range(or_more[1])[0], math.inf
    if one_sided := _ONE_SIDED.fullmatch(text):
        sign, (limit, _) = one_sided[1], _number_range(one_sided[2])
        if sign.startswith(("<", "≤")):
            return -math.inf, limit - (sign == "<")
        return limit + (sign == ">"), math.inf
    raise CountError(
        f"{text!r:.40} is not an integer or a range such as '1-9', '<5', '>=100': write thousands without separators. "
        "Replace a suppression mark by its range, such as '1-4': by --suppressed 1-4 (suppressed=) for a CSV file, or "
        "by ppd.suppressed(values, below=5)"
    )


def range_text(low: float, high: float) -> str:
    """Return the text of a range; `count_range` is the inverse function."""
    if low == high:
        return f"{low:.0f}"
    if math.isinf(low) and math.isinf(high):
        return ""
    return f"<={high:.0f}" if math.isinf(low) else f">={low:.0f}" if math.isinf(high) else f"{low:.0f}-{high:.0f}"


def suppressed(values: Any, below: int | None = None, *, least: int = 0, marks: Collection[str] = MARKS) -> Any:
    """Replace suppressed counts by the range of counts that the suppression rule allows.

    Parameters
    ----------
    values : array_like, mapping, xarray.DataArray, pandas.Series or pandas.DataFrame
        Published counts. Missing values (nan, None, empty texts) and `marks` are suppressed.
    below : int, optional
        Suppressed counts are less than `below`. None states no upper limit, as for secondary suppression, where any
        count can be hidden.
    least : int, default 0
        Suppressed counts are at least `least`: 1 if zeros are published.
    marks : collection of str
        Texts that are suppressed counts, by default `MARKS`: S, (S), s, D, (D), * , X, (X). Marks with several
        meanings require one call for each meaning. Texts such as ``".."`` (often "not available") are not included.

    Returns
    -------
    object of the same type
        Suppressed counts are texts such as ``"1-4"``; other values are unchanged. `ppdinf.measured` with the law
        `ppdinf.laws.Interval`, and ``public=``, accept it.

    Raises
    ------
    CountError
        `below` or `least` is not an integer, or no count is between them.

    See Also
    --------
    ppdinf.ranges, ppdinf.laws.Interval, ppdinf.Suppression

    Examples
    --------
    >>> import ppdinf as ppd
    >>> import pandas as pd
    >>> ppd.suppressed(pd.Series({"A": "17", "B": "S", "C": None}), below=5, least=1).tolist()
    ['17', '1-4', '1-4']
    """
    low = _number_range(least)[0]
    text = range_text(low, math.inf if below is None else _number_range(below)[0] - 1)
    count_range(text)
    hidden = {mark.strip() for mark in marks}

    def shown(value: Any) -> Any:
        return text if is_missing(value) or (isinstance(value, str) and value.strip() in hidden) else value

    return _each(values, shown)


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
    if type(lower) is not type(upper) or _labels(lower) != _labels(upper):
        raise CountError("lower and upper must have equal types, shapes and labels, in the same order")
    highs = iter(_flat(upper))

    def text(low: Any) -> str:
        high = next(highs)
        ends = (
            -math.inf if is_missing(low) else _number_range(low)[0],
            math.inf if is_missing(high) else _number_range(high)[0],
        )
        if ends[0] > ends[1]:
            raise CountError(f"the range from {low!r} to {high!r} is empty")
        return range_text(*ends)

    return _each(lower, text)


def _labels(values: Any) -> object:
    """Return the labels and the shape of a container, in order."""
    if isinstance(values, Mapping):
        return list(values)
    if isinstance(values, pd.Series | pd.DataFrame):
        return [axis.to_list() for axis in values.axes]
    if isinstance(values, xr.DataArray):
        return values.dims, values.shape, {name: index.to_list() for name, index in values.indexes.items()}
    return np.shape(values)


def _flat(values: Any) -> list[Any]:
    if isinstance(values, Mapping):
        return list(values.values())
    return list(np.asarray(values, dtype=object).ravel())


def _each(values: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to each element in order, with the labels of the container."""
    if isinstance(values, Mapping):
        return {key: function(value) for key, value in values.items()}
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(object), np.nan)
    elements = np.asarray(values, dtype=object)
    mapped = np.empty(elements.shape, dtype=object)
    for k in np.ndindex(elements.shape):
        mapped[k] = function(elements[k])
    if isinstance(values, xr.DataArray):
        return values.copy(data=mapped)
    if isinstance(values, pd.Series):
        return pd.Series(mapped, index=values.index, name=values.name, dtype=object)
    return (
        pd.DataFrame(mapped, index=values.index, columns=values.columns) if isinstance(values, pd.DataFrame) else mapped
    )
