"""Ranges of counts from percentages, rates and averages: a printed number is a count divided by a known number."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from ppdinf.errors import CountError
from ppdinf.tables.count_ranges import Range, each, exact_number, flat, is_missing, labels_of, range_text

_SIGNS = {"GE": ">=", "GT": ">", "LE": "<=", "LT": "<", "≥": ">=", "≤": "<="}
_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_ONE_SIDED = re.compile(rf"(>=|<=|>|<|≥|≤|GE|GT|LE|LT)\s*{_NUMBER}", re.IGNORECASE)
_OR = re.compile(rf"{_NUMBER}\s*or (fewer|less|more|over)", re.IGNORECASE)
_BETWEEN = re.compile(rf"{_NUMBER}\s*(?:-|–|to)\s*{_NUMBER}", re.IGNORECASE)


def scaled_range(text: str, unit: Fraction) -> Range:
    """Return the counts that are printed as a text after division by `unit`."""
    # signs are exact limits; a number of d decimals, also as an end of a range, is rounded by any rule of ties
    plain = text.strip().removesuffix("%").strip()
    if sided := _ONE_SIDED.fullmatch(plain) or _OR.fullmatch(plain):
        first, second = sided.groups()
        sign = {"fewer": "<=", "less": "<=", "more": ">=", "over": ">="}.get(second.casefold())
        sign, number = (sign, first) if sign else (_SIGNS.get(first.upper(), first), second)
        limit = Fraction(number) * unit
        if sign in (">", ">="):
            return math.floor(limit) + 1 if sign == ">" else math.ceil(limit), math.inf
        return -math.inf, math.ceil(limit) - 1 if sign == "<" else math.floor(limit)
    between = _BETWEEN.fullmatch(plain)
    ends = between.groups() if between else (plain, plain)
    if not all(re.fullmatch(_NUMBER, end) for end in ends):
        raise CountError(f"{text!r:.40} is neither a number nor a range such as '60-64', '>95%', 'GE95', 'LT50'")
    low, high = map(Fraction, ends)
    half = [Fraction(1, 2 * 10 ** len(end.partition(".")[2])) for end in ends]
    return math.ceil((low - half[0]) * unit), math.floor((high + half[1]) * unit)


def percentages(values: Any, of: Any, *, per: int = 100) -> Any:
    """Return the ranges of counts that printed percentages or rates of known numbers of persons allow.

    Parameters
    ----------
    values : array_like, mapping, xarray.DataArray, pandas.Series or pandas.DataFrame
        Texts: ``"87.5%"``, ``"60-64"``, ``">95%"``, ``"GE95"``, ``"LT50"``. The decimals of a number are its precision;
        any rule of ties is allowed. Signs are limits of the percentage itself. Missing values remain missing.
    of : int, or of the type of `values`
        Denominators: persons of each entry, with equal labels.
    per : int, default 100
        100 for percentages, 100,000 for rates per 100,000 persons.

    Returns
    -------
    object of the type of `values`
        Texts of ranges for `ppdinf.laws.Interval` and ``public=``.

    Raises
    ------
    CountError
        A value is not a percentage, labels differ, or no count has the percentage: 33 % of 8 persons.

    See Also
    --------
    ppdinf.ranges, ppdinf.suppressed, ppdinf.laws.Interval

    Notes
    -----
    Medians, means of magnitudes and decimals of persons are not functions of one count, and are out of scope. Marks
    such as PS are suppressed counts: replace them first by `ppdinf.suppressed`.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> ppd.percentages(["87.5%", "GE95", "LT50", "60-64"], of=[8, 41, 8, 60]).tolist()
    ['7', '39-41', '0-3', '36-38']
    """
    sizes = iter(flat(of) if not isinstance(of, int) else [of] * len(flat(values)))
    if not isinstance(of, int) and (type(of) is not type(values) or labels_of(of) != labels_of(values)):
        raise CountError("values and denominators must have equal types, shapes and labels, in the same order")

    def counts(value: Any) -> Any:
        size = next(sizes)
        if is_missing(value):
            return value
        low, high = scaled_range(str(value), Fraction(int(exact_number(size)), per))
        low, high = max(low, 0), min(high, int(exact_number(size)) if per == 100 else math.inf)
        if low > high:
            raise CountError(f"no count of {size} is printed as {value!r}: correct the number or its denominator")
        return range_text(low, high)

    return each(values, counts)
