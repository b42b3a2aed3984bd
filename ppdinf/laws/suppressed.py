"""Numbers of another law, if the count is not suppressed: the rule of a publisher who suppresses, then rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.values import Flags, Integers, Json, Reals, Symbolic, as_texts, of_texts
from ppdinf.errors import CountError, PrivacyError
from ppdinf.laws.interval import Interval
from ppdinf.laws.law_array import LawArray
from ppdinf.laws.observation_model import Column, IndependentLaw, as_observation_model, law_in_file
from ppdinf.tables.count_ranges import MARKS, HiddenCounts, as_range, count_range, range_text


@dataclass(frozen=True)
class Suppressed(IndependentLaw):
    """Numbers of another law for counts that are not suppressed, and marks for suppressed counts.

    The rule is applied to the count itself, before it is rounded or noise is added. A number therefore excludes the
    suppressed counts: if 1 to 7 are suppressed and other counts are rounded to the nearest 5, the number 0 is the count
    0, and 10 is a count from 8 to 12. A mark is a count from `least` to ``below - 1``. Texts of ranges are ranges, as
    for every law. Numbers that are suppressed after rounding or noise are `Thresholded`.

    Parameters
    ----------
    law : IntegerLaw, LawArray, or a law of independent published numbers
        Law of the numbers. `Rounded` of base 1 is exact numbers.
    below : int, optional
        Suppressed counts are less than `below`. None: any count can be suppressed, and numbers exclude no count.
    least : int, default 0
        Suppressed counts are at least `least`: 1 if zeros are published.
    marks : str, number, or collection of str and numbers
        As for `ppdinf.suppressed`. A mapping states the range of each mark, such as ``{"A": "0-19", "S": None}``;
        None is the range of suppressed counts.
    empty : {"suppressed", "missing", "zero"}, optional
        Meaning of empty values and missing labels; required if there are any. Zero is the exact count.
    secondary : bool, default False
        Whether a mark can also hide any other count (secondary suppression). Numbers still exclude suppressed counts.

    Raises
    ------
    PrivacyError
        `law` is another object, or no count is from `least` to ``below - 1``.

    See Also
    --------
    ppdinf.suppressed, ppdinf.laws.Thresholded, ppdinf.laws.Rounded

    Examples
    --------
    >>> import ppdinf as ppd
    >>> inv = ppd.invariants
    >>> rule = ppd.laws.Suppressed(ppd.laws.Rounded(5), below=8, least=1)
    >>> seen = ppd.Measurements({"p": ["A", "B", "C"]}, ppd.measured(inv.margin("p"), [0, "*", 10], rule))
    >>> ppd.identified_bounds(seen)[["lower", "upper"]].values.tolist()
    [[0, 0], [1, 7], [8, 12]]
    """

    name: ClassVar[str] = "suppressed"
    law: Any
    below: int | None = None
    least: int = 0
    marks: Any = field(default=MARKS, repr=False, compare=False)
    empty: str | None = field(default=None, repr=False, compare=False)
    secondary: bool = field(default=False, repr=False, compare=False)

    def __new__(cls, law: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a law, or one law for each entry of a `LawArray`."""
        if isinstance(law, LawArray):
            return LawArray(tuple(cls(one, *args, **kwargs) for one in law.laws), law.number)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        _ = self._law, self._hidden

    @cached_property
    def _law(self) -> IndependentLaw:
        law = as_observation_model(self.law)
        if isinstance(law, Interval | Suppressed) or not isinstance(law, IndependentLaw) or law.absent is not None:
            raise PrivacyError(
                "law must be a law of independent numbers without suppression or threshold, such as Rounded(5), or "
                f"Rounded(1) for exact numbers, found {type(self.law).__name__}"
            )
        return law

    @cached_property
    def _hidden(self) -> HiddenCounts:
        try:
            return HiddenCounts.of(self.below, self.least, self.marks, self.empty, self.secondary)
        except CountError as error:
            raise PrivacyError(str(error)) from None

    def to_dict(self) -> Json:
        """Return the name, the suppressed counts, and the other law; marks are not part of a file."""
        other = {f"of-{key}": value for key, value in self._law.to_dict().items()}
        return {"name": self.name} | as_texts(self, "law") | other

    @classmethod
    def _of_texts(cls, parameters: Json) -> Suppressed:
        other = {key.removeprefix("of-"): value for key, value in parameters.items() if key.startswith("of-")}
        own = {key: value for key, value in parameters.items() if not key.startswith("of-")}
        stated = {"law": law_in_file(other)} | own | {"marks": (), "empty": "missing"}
        return of_texts(cls, stated, "suppression")

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        """Type of published numbers, that of the other law."""
        return self._law.dtype

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        if self.below is None:
            return self._law.gives
        return f"{self._law.gives} unless it is suppressed (from {self.least} to {self.below - 1})"

    @property
    def is_partial(self) -> bool:
        """Whether the meaning of missing labels is stated."""
        return self.empty is not None

    def shown(self, values: NDArray[np.object_]) -> NDArray[np.object_]:
        """Return ranges for marks and empty values, and other values unchanged."""
        shown = self._hidden.shown_values(values)
        numbers = np.array([new is old for new, old in zip(shown, values, strict=True)], dtype=bool)
        shown[numbers] = self._law.shown(shown[numbers])
        first, last = self._hidden.excluded
        for k in np.flatnonzero(numbers & [new is not old for new, old in zip(shown, values, strict=True)]):
            low, high = count_range(shown[k])  # a law that prints averages: ranges without suppressed counts
            low, high = (last + 1 if first <= low <= last else low), (first - 1 if first <= high <= last else high)
            shown[k] = as_range(range_text(low, high), exact=False)
        return shown

    def read(self, values: NDArray[np.object_]) -> tuple[Suppressed, NDArray[Any]]:
        """Return the law, and the numbers as the other law reads them."""
        return self, self._law.read(values)[1]

    def written(self, y: NDArray[Any]) -> NDArray[np.object_]:
        """Return the published numbers."""
        return self._law.written(y)

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log weight of each y given the count x, elementwise; ``-inf`` for suppressed counts."""
        first, last = self._hidden.excluded
        x = np.asarray(x)
        return np.where((x >= first) & (x <= last), -np.inf, self._law.log_weight(np.asarray(y), x))

    def log_total(self, numbers: int) -> float:
        """Return the log of the total weight of the other law."""
        return self._law.log_total(numbers)

    def _allowed(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the bounds of the other law without suppressed counts; they cross if no count is left."""
        first, last = self._hidden.excluded
        low, high = self._law.support_bounds(np.asarray(y), tail_probability)
        moved_low = np.where((low >= first) & (low <= last), last + 1, low)
        return moved_low, np.where((high >= first) & (high <= last), first - 1, high)

    def is_possible(self, y: NDArray[Any]) -> Flags:
        """Return whether each number has positive probability for some count that is not suppressed."""
        low, high = self._allowed(y, 0.0)
        return self._law.is_possible(y) & (low <= high)

    @property
    def outside(self) -> float:
        """The factor of the other law."""
        return self._law.outside

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count of each y that is not suppressed."""
        low, high = self._allowed(y, tail_probability)
        first, last = self._hidden.excluded
        # noise that is narrow, and suppressed counts on both sides of the number: the nearest other counts
        none = low > high
        below = first - 1 if math.isfinite(first) else last + 1
        return np.where(none, below, low), np.where(none, last + 1, high)

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return the columns of the other law, and weight 0 for the suppressed counts between the bounds of y."""
        first, last = self._hidden.excluded
        if first > last:
            return self._law.columns(y)
        low, high = self._law.support_bounds(y, 0.0)
        (around,) = np.nonzero((low <= last) & (high >= first))
        if math.isinf(first):
            return [*self._law.columns(y), _hole(around, last, np.zeros(1), left=np.inf)]
        weights = np.zeros(int(last - first) + 3)
        weights[1:-1] = -np.inf
        return [*self._law.columns(y), _hole(around, first - 2, weights, left=0.0)]

    def publish(self, x: Integers, rng: np.random.Generator) -> Integers:
        """Refuse: other counts would be suppressed, and a mark is not a number.

        Raises
        ------
        PrivacyError
            Always.
        """
        raise PrivacyError("publication by a rule of suppression cannot be simulated: state a law without suppression")


def _hole(entries: Integers, before: float, weights: Reals, left: float) -> Column:
    """Return weights that begin after a count, and are constant to the right."""
    return Column(weights, entries, np.full(entries.size, int(before) + 1), left=(left, 0.0), right=(0.0, 0.0))
