"""Ranges of counts from percentages, rates and averages: a printed number is a count divided by a known number."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ppdinf.errors import CountError
from ppdinf.tables.count_ranges import Range, count_range, each, flat, is_missing, labels_of, range_text

_SIGNS = {"GE": ">=", "GT": ">", "LE": "<=", "LT": "<", "≥": ">=", "≤": "<="}
_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_ONE_SIDED = re.compile(rf"(>=|<=|>|<|≥|≤|GE|GT|LE|LT)\s*{_NUMBER}", re.IGNORECASE)
_OR = re.compile(rf"{_NUMBER}\s*or (fewer|less|more|over)", re.IGNORECASE)
_BETWEEN = re.compile(rf"{_NUMBER}\s*(?:-|–|to)\s*{_NUMBER}", re.IGNORECASE)


@dataclass(frozen=True)
class Share:
    """Limits of a printed number that is a count divided by a known or unknown number of persons."""

    low: Fraction | None = None
    high: Fraction | None = None
    is_strict: bool = False  # the limit itself is excluded

    @classmethod
    def of(cls, text: str) -> Share:
        """Return the limits of a text."""
        # signs are exact limits; a number of d decimals, also as an end of a range, is rounded by any rule of ties
        plain = text.strip().removesuffix("%").strip()
        if sided := _ONE_SIDED.fullmatch(plain) or _OR.fullmatch(plain):
            first, second = sided.groups()
            sign = {"fewer": "<=", "less": "<=", "more": ">=", "over": ">="}.get(second.casefold())
            sign, number = (sign, first) if sign else (_SIGNS.get(first.upper(), first), second)
            limit, is_strict = Fraction(number), len(sign) == 1
            return cls(limit, None, is_strict) if sign[0] == ">" else cls(None, limit, is_strict)
        between = _BETWEEN.fullmatch(plain)
        ends = between.groups() if between else (plain, plain)
        if not all(re.fullmatch(_NUMBER, end) for end in ends):
            raise CountError(f"{text!r:.40} is neither a number nor a range such as '60-64', '>95%', 'GE95', 'LT50'")
        low, high = map(Fraction, ends)
        half = [Fraction(1, 2 * 10 ** len(end.partition(".")[2])) for end in ends]
        return cls(low - half[0], high + half[1])

    def counts(self, unit: Fraction) -> Range:
        """Return the counts within the limits after division by `unit`."""
        low, high = -math.inf, math.inf
        if self.low is not None:
            low = math.floor(self.low * unit) + 1 if self.is_strict else math.ceil(self.low * unit)
        if self.high is not None:
            high = math.ceil(self.high * unit) - 1 if self.is_strict else math.floor(self.high * unit)
        return low, high


def percentages(values: Any, of: Any, *, per: int = 100) -> Any:
    """Return the ranges of counts that printed percentages or rates of known numbers of persons allow.

    Parameters
    ----------
    values : array_like, mapping, xarray.DataArray, pandas.Series or pandas.DataFrame
        Texts: ``"87.5%"``, ``"60-64"``, ``">95%"``, ``"GE95"``, ``"LT50"``. The decimals of a number are its precision;
        any rule of ties is allowed. Signs are limits of the percentage itself. Missing values remain missing.
    of : int, or of the type of `values`
        Denominators: persons of each entry, with equal labels. A text such as ``"<10"`` or ``"10-19"`` is a range.
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
    ppdinf.invariants.shares : Percentages of unknown denominators, which are sums of the table.
    ppdinf.ranges, ppdinf.suppressed, ppdinf.laws.Interval

    Notes
    -----
    Medians, means of magnitudes and decimals of persons are not functions of one count, and are out of scope. Marks
    such as PS are suppressed counts: replace them first by `ppdinf.suppressed`.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> ppd.percentages(["87.5%", "GE95", "LT50", "60-64"], of=[8, 41, 8, "50-60"]).tolist()
    ['7', '39-41', '0-3', '30-38']
    """
    sizes = iter(flat(of) if not isinstance(of, int) else [of] * len(flat(values)))
    if not isinstance(of, int) and (type(of) is not type(values) or labels_of(of) != labels_of(values)):
        raise CountError("values and denominators must have equal types, shapes and labels, in the same order")

    def counts(value: Any) -> Any:
        size = next(sizes)
        return value if is_missing(value) else range_text(*_counts_of_range(value, size, per))

    return each(values, counts)


def persons(size: Any) -> Range:
    """Return the smallest and largest number of persons of a denominator, such as 12, "10-19" or "N<10"."""
    return count_range(size.strip().lstrip("nN") if isinstance(size, str) else size)


def _counts_of_range(value: Any, size: Any, per: int) -> Range:
    """Return the smallest and largest count with a printed share of a number of persons, known or a range."""
    first, last = persons(size)
    first, share = max(first, float(first != last)), Share.of(str(value))

    def counts(persons: float) -> Range:
        if math.isinf(persons):
            return 0.0, math.inf
        low, high = share.counts(Fraction(int(persons), per))
        return max(low, 0), min(high, persons if per == 100 else math.inf)

    # both ends increase with the number of persons; every sufficiently large number has a count
    while first <= last and counts(first)[0] > counts(first)[1]:
        first += 1
    while first < last < math.inf and counts(last)[0] > counts(last)[1]:
        last -= 1
    if first > last:
        raise CountError(f"no count of {size} is printed as {value!r}: correct the number or its denominator")
    return counts(first)[0], counts(last)[1]
