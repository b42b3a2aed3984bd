"""Numbers of another law, of which those below a limit are replaced: clipped, or not published below a threshold."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.values import Flags, Integers, Json, Symbolic, as_texts, of_texts, require_number
from ppdinf.errors import PrivacyError
from ppdinf.laws.law_array import PerEntry
from ppdinf.laws.observation_model import Column, IndependentLaw, as_observation_model, law_in_file


class Censored(PerEntry, IndependentLaw):
    """Law of numbers of another law, of which those below a limit are replaced by a mark.

    The weight of the mark given the count x is ``P(Y < limit | x)``, from `column_below` of the other law. The weights
    of other numbers are the probabilities or densities of the other law.

    Attributes
    ----------
    law : IntegerLaw or IndependentLaw
    """

    law: Any

    @property
    @abstractmethod
    def limit(self) -> Any:
        """Smallest number that is not replaced."""

    @property
    @abstractmethod
    def mark(self) -> Any:
        """Number that replaces smaller numbers."""

    @cached_property
    def _law(self) -> IndependentLaw:
        law = as_observation_model(self.law)
        if isinstance(law, Censored) or not isinstance(law, IndependentLaw):
            raise PrivacyError(
                f"law must be a law of independent integers (IntegerLaw) or numbers, found {type(self.law).__name__}"
            )
        law.column_below(0)
        return law

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        """Type of published numbers, that of the other law."""
        return self._law.dtype

    def to_dict(self) -> Json:
        """Return the name, the name of the other law as ``of``, and all parameters."""
        stated = self._law.to_dict()
        return {"name": self.name, "of": stated.pop("name")} | stated | as_texts(self, "law")

    @classmethod
    def _of_texts(cls, parameters: Json) -> Censored:
        fields = cls.__dataclass_fields__.keys() & parameters.keys()  # type: ignore[attr-defined]
        other = {"name" if key == "of" else key: value for key, value in parameters.items() if key not in fields}
        stated = {"law": law_in_file(other)} | {key: parameters[key] for key in fields}
        return of_texts(cls, stated, f"the law {cls.name!r}")

    @cached_property
    def _below(self) -> Column:
        return self._law.column_below(self.limit)

    def read(self, values: NDArray[np.object_]) -> tuple[Censored, NDArray[Any]]:
        """Return the law, and the numbers as the other law reads them."""
        return self, self._law.read(values)[1]

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log weight of each y (possibly the mark) given the count x, elementwise."""
        y, x = np.broadcast_arrays(np.asarray(y), np.asarray(x))
        weights, marked = np.empty(x.shape), y == self.mark
        weights[~marked] = self._law.log_weight(y[~marked], x[~marked]) - self._law.log_total(1)
        below, place = self._below.log_weights, x[marked].astype(np.int64) - self._below.begins[0]
        left = below[0] if self._below.left[0] == 0 else -np.inf
        inside = below[np.clip(place, 0, below.size - 1)]
        weights[marked] = np.select([place < 0, place >= below.size], [left, -np.inf], inside)
        return weights

    def is_possible(self, y: NDArray[Any]) -> Flags:
        """Return whether each number has positive probability for some count."""
        published = (y >= self.limit) & self._law.is_possible(np.where(y == self.mark, self.limit, y))
        return published | ((y == self.mark) & bool((self._below.log_weights > -np.inf).any()))

    @property
    def outside(self) -> float:
        """The factor of the other law, and 1 for the mark."""
        return self._law.outside + 1.0

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count given each y; marks usually have no lower bound."""
        y = np.asarray(y)
        marked = y == self.mark
        low, high = self._law.support_bounds(np.where(marked, self.limit, y), tail_probability)
        # the counts whose probability of the mark exceeds the tail probability
        weights, first = self._below.log_weights, float(self._below.begins[0])
        likely = np.flatnonzero(weights > (math.log(tail_probability) if tail_probability > 0 else -math.inf))
        ends = (first + likely[0], first + likely[-1]) if likely.size else (first, first)
        if tail_probability == 0 and np.isinf(self._law.support_bounds(np.array([self.limit]), 0.0)[1]).all():
            ends = (ends[0], math.inf)  # the column ends at a negligible weight
        if self._below.left[0] == 0:
            ends = (-math.inf, ends[1])
        return np.where(marked, ends[0], low), np.where(marked, ends[1], high)

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return one column for marks, and the columns of the other law for the rest."""
        (marked,), (there,) = np.nonzero(y == self.mark), np.nonzero(y != self.mark)
        columns = [
            replace(column, log_weights=column.log_weights - self._law.log_total(1), entries=there[column.entries])
            for column in self._law.columns(y[there])
        ]
        if marked.size:
            begins = np.repeat(self._below.begins, marked.size)
            columns.append(replace(self._below, entries=marked, begins=begins))
        return columns

    def publish(self, x: Integers, rng: np.random.Generator) -> NDArray[Any]:
        """Publish by the other law, and replace numbers below the limit by the mark."""
        y = self._law.publish(x, rng)
        return np.where(y >= self.limit, y, self.mark)


@dataclass(frozen=True)
class Clipped(Censored):
    """Numbers of another law, of which those below `at` are published as `at`.

    The weight of the published number `at` given a count x is ``P(Y <= at | x)``, the mass at and below the clip point.
    Counting mechanisms of OpenDP and many dashboards clip noisy counts at 0.

    Parameters
    ----------
    law : IntegerLaw, LawArray, or a law of independent published numbers
    at : int, default 0
        Smallest published number. An array states one number per entry.

    Raises
    ------
    PrivacyError
        `law` is another object, or `at` is not an integer.

    See Also
    --------
    ppdinf.laws.Thresholded, ppdinf.laws.Rounded

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import Clipped
    >>> import ppdinf as ppd
    >>> clipped = Clipped(ppd.laws.DoubleGeometric(1))
    >>> np.exp(clipped.log_weight(0, np.array([0, 1, 2]))).round(3)
    array([0.731, 0.269, 0.099])
    """

    name: ClassVar[str] = "clipped"
    law: Any
    at: int = 0

    def __post_init__(self) -> None:
        require_number(self.at, "the clip point must be an integer")
        _ = self._law

    @property
    def limit(self) -> Any:
        """The next number above the clip point; the clip point if numbers are real."""
        return self.at + 1 if self.dtype is np.int64 else np.nextafter(float(self.at), np.inf)

    @property
    def mark(self) -> int:
        """The clip point."""
        return self.at

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return f"which is clipped at {self.at}"


ABSENT = -(2**62)
"""Marks a number that was not published. PyMC treats the smallest integer as a missing value."""


@dataclass(frozen=True)
class Thresholded(Censored):
    """Numbers of another law; a number is published if it reaches the threshold, and absent otherwise.

    An absent number (nan, None, or a label that is missing) is censored. It is not zero. The weight of a count x is
    then the probability that the number given x is below the threshold. With `Rounded` or `RandomRounding` as the
    other law, counts are rounded first and suppressed afterwards.

    Parameters
    ----------
    law : IntegerLaw, LawArray, or a law of independent published numbers
        `Interval` is not included: its rule for other counts is unknown. With a `LawArray`, the result is one law for
        each entry.
    threshold : int
        Smallest number that is published. An array states one threshold per entry.

    Raises
    ------
    PrivacyError
        `law` is another object, or the threshold is not an integer.

    See Also
    --------
    ppdinf.laws.Clipped, ppdinf.laws.Interval

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import Thresholded
    >>> import ppdinf as ppd
    >>> cut = Thresholded(ppd.laws.DoubleGeometric(1), threshold=5)
    >>> np.exp(cut.log_weight(np.full(3, cut.absent), np.array([0, 4, 8]))).round(3)
    array([0.995, 0.731, 0.013])
    """

    name: ClassVar[str] = "thresholded"
    absent: ClassVar[int] = ABSENT
    law: Any
    threshold: int

    def __post_init__(self) -> None:
        require_number(self.threshold, "threshold must be an integer")
        _ = self._law

    @property
    def limit(self) -> int:
        """The threshold."""
        return self.threshold

    @property
    def mark(self) -> int:
        """`ABSENT`."""
        return ABSENT

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return f"which is published from {self.threshold} on"

    def written(self, y: NDArray[Any]) -> NDArray[np.object_]:
        """Return published numbers, and an empty text for absent numbers."""
        values = np.full(y.shape, "", dtype=object)
        values[y != ABSENT] = self._law.written(y[y != ABSENT])
        return values
