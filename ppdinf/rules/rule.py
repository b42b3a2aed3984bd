"""The vocabulary of publishers' rules and their composition: what each printed text means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ppdinf.errors import CountError, PrivacyError
from ppdinf.laws import Interval, RandomRounding, Rounded, Suppressed, Thresholded
from ppdinf.laws.averaged import Averaged
from ppdinf.laws.censored import Censored
from ppdinf.laws.observation_model import ObservationModel, as_observation_model
from ppdinf.tables.count_ranges import MARKS, HiddenCounts, Range, are_ranges, comparable, count_range, is_missing

EXACT = Rounded(1)
ENUMERATED = 10**6  # counts; sets of more counts are intervals


@dataclass(frozen=True, eq=False)
class CountSet:
    """A set of counts: disjoint intervals in increasing order, of which the last can be infinite."""

    intervals: tuple[Range, ...]

    def __contains__(self, count: object) -> bool:
        return any(low <= count <= high for low, high in self.intervals)  # type: ignore[operator]

    def __iter__(self) -> Iterator[int]:
        for low, high in self.intervals:
            yield from range(int(low), int(high) + 1)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CountSet):
            return self.intervals == other.intervals
        is_finite = not self.intervals or math.isfinite(self.intervals[-1][1])
        return is_finite and set(self) == other

    def __str__(self) -> str:
        def words(low: float, high: float) -> str:
            if math.isinf(high):
                return f"{low:.0f} or more"
            return f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"

        return ", ".join(words(*ends) for ends in self.intervals) or "no count"


@dataclass(frozen=True)
class Rule:
    """A rule that maps a count to a printed text, as a value.

    Rules are made by the functions of `ppdinf.rules` and composed by `then`. A rule is a law: `ppdinf.measured` and
    everything that is computed from it accept rules. ``str(rule)`` is a description in sentences.

    Attributes
    ----------
    law : law of `ppdinf.laws`
        Law of the numbers; ``Rounded(1)`` for exact numbers.
    least, most : int or None
        Suppressed counts, None if no count is. Suppression always refers to the confidential count, before rounding
        and noise. An infinite range has `most` None.
    marks : mapping of text or number to text
        The counts behind each mark as the text of a range. None: the suppressed counts.
    empty : {"suppressed", "missing", "zero"} or None
        Meaning of empty values and absent rows; None if it is unknown.
    secondary : bool
        Whether marks can also hide any other count.

    See Also
    --------
    ppdinf.rules.rounded, ppdinf.rules.suppressed, ppdinf.rules.publisher, ppdinf.laws.Suppressed

    Examples
    --------
    >>> from ppdinf.rules import rounded, suppressed
    >>> nhs = rounded(5).then(suppressed(1, 7))
    >>> print(nhs.meaning("0"), nhs.meaning("*"), nhs.meaning("10"), sep="; ")
    0; 1 to 7; 8 to 12
    """

    law: Any = EXACT
    least: int | None = None
    most: int | None = None
    marks: Mapping[Any, str | None] = field(default_factory=dict)
    empty: str | None = None
    secondary: bool = False

    def __post_init__(self) -> None:
        _ = self.observation_model, self._hidden

    @property
    def _arguments(self) -> tuple[int | None, int, Mapping[Any, str | None], str | None, bool]:
        """The suppression, as `Suppressed` and `HiddenCounts` take it."""
        return None if self.most is None else self.most + 1, self.least or 0, self.marks, self.empty, self.secondary

    @cached_property
    def _hidden(self) -> HiddenCounts:
        return HiddenCounts.of(*self._arguments)

    @cached_property
    def observation_model(self) -> Any:
        """The law of published values, for one law or each law of a `LawArray`."""
        if self.least is None and not self.marks and self.empty is None:
            return self.law
        return Suppressed(self.law, *self._arguments)

    def then(self, other: Rule) -> Rule:
        """Return the composition of two rules.

        Suppressed counts are confidential counts under either order. `hidden_below` and clipping of the second rule
        apply to the numbers that the first rule prints.

        Raises
        ------
        PrivacyError
            Both rules state a law of numbers, different suppressed counts, or different meanings of empty values.
        CountError
            A mark has two meanings.
        """
        law = self.law if other.law == EXACT else other.law
        if other.law != EXACT and self.law != EXACT:
            if not isinstance(other.law, Censored) or other.law.law != EXACT:
                raise PrivacyError(f"{self.law} and {other.law} are two laws of numbers: state one")
            censored: Any = other.law
            law = replace(censored, law=self.law)
        chosen: dict[str, Any] = {}
        for name, pair in {
            "suppressed counts": ((self.least, self.most), (other.least, other.most)),
            "meanings of empty values": ((self.empty,), (other.empty,)),
        }.items():
            stated = [values for values in pair if set(values) != {None}]
            if len(set(stated)) > 1:
                raise PrivacyError(f"the rules have different {name}, {stated[0]} and {stated[1]}: state one")
            chosen[name] = (stated or pair)[0]
        (least, most), (empty,) = chosen.values()
        known = {comparable(mark): text for mark, text in self.marks.items()}
        for mark, text in other.marks.items():
            if known.get(comparable(mark), text) != text:
                raise CountError(f"the mark {mark!r} has two meanings: state one")
        return Rule(law, least, most, {**self.marks, **other.marks}, empty, self.secondary or other.secondary)

    def meaning(self, text: object) -> CountSet:
        """Return the counts that the rule prints as a text with positive probability.

        Raises
        ------
        CountError
            No count is printed as this text, or the meaning of an empty text is not stated.
        """
        law, y = self._read(text)
        low, high = self.bounds(text)
        if high - low <= ENUMERATED:
            x = np.arange(low, high + 1)
            inside = np.concatenate([[False], law.log_weight(y, x) > -np.inf, [False]]).astype(int)
            starts, stops = (np.flatnonzero(np.diff(inside) == sign) for sign in (1, -1))
            found = list(zip(x[starts].tolist(), x[stops - 1].tolist(), strict=True))
        else:
            first, last = self._hidden.excluded if isinstance(law, Suppressed) else (math.inf, -math.inf)
            found = [(low, min(high, first - 1)), (max(low, last + 1), high)] if first <= last else [(low, high)]
        meaning = tuple((a, b) for a, b in found if a <= b)
        if not meaning:
            raise CountError(f"{text!r} is impossible for every count, {law.gives}")
        return CountSet(meaning)

    def bounds(self, text: object, tail_probability: float = 0.0) -> Range:
        """Return the smallest and largest count of a text; with noise, except with a probability.

        Raises
        ------
        CountError
            As for `meaning`.
        """
        law, y = self._read(text)
        low, high = (float(end[0]) for end in law.support_bounds(y, tail_probability))
        return max(low, 0.0), high

    def _read(self, text: object) -> tuple[Any, Any]:
        """Return the law of a text, `Interval` for marks and ranges, and its number."""
        model: Any = as_observation_model(self)
        shown = model.shown(np.array([text], object))
        if is_missing(shown[0]) and model.absent is not None:
            return model, np.array([model.absent])
        shown[0] = ">=0" if is_missing(shown[0]) else shown[0]
        if self.law == EXACT:
            count_range(shown[0])  # messages on decimals and percentages
        law, y = (Interval() if are_ranges(shown)[0] else model).read(shown)
        y = y.astype(law.dtype)
        if not law.is_possible(y)[0]:
            raise CountError(f"{text!r} is impossible for every count, {law.gives}")
        return law, y

    def public_sums(self, text: object) -> CountSet:
        """Return the counts of a text in a file of exact sums: numbers can be small, marks are suppressed counts."""
        return Rule().meaning(text if self.observation_model is self.law else self._hidden.shown(text, exact=False))

    def __str__(self) -> str:
        sentences = []
        if self.least is not None:
            counts = "Any count can be" if self.most is None else f"Counts from {self.least} to {self.most} are"
            sentences.append(f"{counts} suppressed.")
        by_range: dict[str, list[str]] = {}
        for mark, text in self.marks.items():
            meaning = {None: "a suppressed count", ">=0": "any count"}.get(text, f"a count {text}")
            by_range.setdefault(meaning, []).append(str(mark))
        sentences += [f"{', '.join(marks)}: {text}." for text, marks in by_range.items()]
        if self.secondary:
            sentences.append("Marks can also hide any other count.")
        which = "Other counts are" if self.most is not None else "Each count is"
        gives = as_observation_model(self.law).gives if self.law != EXACT else "exactly"
        words = {"which": f"as a number {gives}", "whose": f"with noise of {type(self.law).__name__}"}
        how = words.get(gives.split()[0], gives if gives == "exactly" else f"as {gives}")
        sentences.append(f"{which} printed {how}.")
        if self.empty is not None:
            sentences.append(f"Empty values and absent rows are {self.empty}.")
        return " ".join(sentences)


@as_observation_model.register
def _(rule: Rule) -> ObservationModel:
    return as_observation_model(rule.observation_model)


def rounded(base: int, direction: str = "nearest", ties: str | None = None) -> Rule:
    """Return the rule that rounds a count to a multiple of the base.

    Parameters
    ----------
    base, direction, ties
        As for `ppdinf.laws.Rounded`. Ties of an even base are rounded up unless stated.

    See Also
    --------
    ppdinf.laws.Rounded, ppdinf.rules.midpoint_rounded

    Examples
    --------
    >>> import ppdinf as ppd
    >>> print(ppd.rules.rounded(10).meaning("20"))
    15 to 24
    """
    is_even = direction == "nearest" and isinstance(base, int) and base % 2 == 0
    return Rule(Rounded(base, direction, ties or ("up" if is_even else None)))


def midpoint_rounded(base: int) -> Rule:
    """Return the rule that replaces positive counts by the middle of their interval of `base` counts, as OpenSAFELY.

    See Also
    --------
    ppdinf.rules.rounded

    Examples
    --------
    >>> import ppdinf as ppd
    >>> rule = ppd.rules.midpoint_rounded(6)
    >>> print(rule.meaning("0"), rule.meaning("3"), rule.meaning("9"), sep="; ")
    0; 1 to 6; 7 to 12
    """
    return Rule(Rounded(base, "up", offset=base // 2), marks={0: "0"})


def random_rounded(base: int) -> Rule:
    """Return the rule that rounds a count to a multiple of the base at random, without bias.

    See Also
    --------
    ppdinf.laws.RandomRounding

    Examples
    --------
    >>> import ppdinf as ppd
    >>> print(ppd.rules.random_rounded(3).meaning("6"))
    4 to 8
    """
    return Rule(RandomRounding(base))


def noisy(law: Any) -> Rule:
    """Return the rule that prints numbers of a law of noise, of samples, or of cell keys.

    See Also
    --------
    ppdinf.laws.DiscreteGaussian, ppdinf.laws.Sampled, ppdinf.laws.read_ptable

    Examples
    --------
    >>> import ppdinf as ppd
    >>> print(ppd.rules.noisy(ppd.laws.AdditiveNoise({-1: 0.2, 0: 0.6, 1: 0.2})).meaning("5"))
    4 to 6
    """
    return Rule(law)


def averaged(over: int) -> Rule:
    """Return the rule that prints an average: a count divided by the number of years, rounded to printed decimals.

    See Also
    --------
    ppdinf.percentages

    Examples
    --------
    >>> import ppdinf as ppd
    >>> print(ppd.rules.averaged(5).meaning("3"), ppd.rules.averaged(5).meaning("2.4"), sep="; ")
    13 to 17; 12
    """
    return Rule(Averaged(over))


def suppressed(least: int | str, most: int | None = None, marks: Any = MARKS, secondary: bool = False) -> Rule:
    """Return the rule that prints a mark for counts from `least` to `most`; numbers exclude these counts.

    Parameters
    ----------
    least, most : int
        None as largest count states that any count can be hidden, and that numbers exclude no count. The text of a
        range, ``"1-9"``, states both.
    marks : str, number, or collection of them
        As for `ppdinf.suppressed`.
    secondary : bool, default False
        Whether a mark can also hide any other count (secondary suppression).

    See Also
    --------
    ppdinf.suppressed, ppdinf.rules.hidden_below

    Examples
    --------
    >>> import ppdinf as ppd
    >>> print(ppd.rules.suppressed(1, 9).meaning("Suppressed"))
    1 to 9
    """
    if isinstance(least, str):
        low, high = count_range(least)
        least, most = int(max(low, 0)), None if math.isinf(high) else int(high)
    several = (marks,) if isinstance(marks, str) or not np.iterable(marks) else marks
    return Rule(least=least, most=most, marks=dict.fromkeys(several), secondary=secondary)


def marked(meanings: Mapping[Any, str]) -> Rule:
    """Return the rule that prints a mark for each range of counts; numbers exclude no count.

    See Also
    --------
    ppdinf.rules.suppressed

    Examples
    --------
    >>> import ppdinf as ppd
    >>> print(ppd.rules.marked({"A": "0-19", "B": "20-99"}).meaning("B"))
    20 to 99
    """
    return Rule(marks=dict(meanings))


def hidden_below(threshold: int) -> Rule:
    """Return the rule that omits printed numbers, after rounding or noise, below a threshold.

    See Also
    --------
    ppdinf.laws.Thresholded, ppdinf.rules.suppressed

    Examples
    --------
    >>> import ppdinf as ppd
    >>> rule = ppd.rules.rounded(5).then(ppd.rules.hidden_below(10))
    >>> print(rule.meaning("10"))
    8 to 12
    """
    return Rule(Thresholded(EXACT, threshold))


def empty_cells(meaning: str) -> Rule:
    """Return the rule that states what empty values and absent rows mean: suppressed, missing or zero.

    See Also
    --------
    ppdinf.suppressed

    Examples
    --------
    >>> import ppdinf as ppd
    >>> print(ppd.rules.empty_cells("zero").meaning(""))
    0
    """
    return Rule(empty=meaning)
