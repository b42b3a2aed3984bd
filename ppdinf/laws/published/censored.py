"""Base class of laws that do not publish numbers below a limit, but one mark for all of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.types import Json, Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.law_array import PerEntry
from ppdinf.laws.observation_model import Column, IndependentLaw, ObservationModel, as_observation_model


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

    def to_dict(self) -> Json:
        """Return the name, the name of the other law as ``of``, and all parameters."""
        stated = self._law.to_dict()
        return {"name": self.name, "of": stated.pop("name"), **stated}

    @staticmethod
    def _other_law(data: Json, *own: str) -> Any:
        """Rebuild the other law from the output of `to_dict`; an additive law is stated by its noise."""
        stated = {key: value for key, value in data.items() if key not in ("name", "of", *own)}
        law = ObservationModel.from_dict({"name": data.get("of"), **stated})
        return law.law if law.name == "differences" else law  # type: ignore[attr-defined]

    @cached_property
    def _below(self) -> Column:
        return self._law.column_below(self.limit)

    def read(self, values: NDArray[np.object_]) -> tuple[Censored, NDArray[Any]]:
        """Return the law, and the numbers as the other law reads them."""
        return self, self._law.read(values)[1]

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log weight of each y (possibly the mark) given the count x, elementwise."""
        y, x = np.broadcast_arrays(np.asarray(y), np.asarray(x))
        found, marked = np.empty(x.shape), y == self.mark
        found[~marked] = self._law.log_weight(y[~marked], x[~marked]) - self._law.log_total(1)
        weights, place = self._below.log_weights, x[marked].astype(np.int64) - self._below.begins[0]
        left = weights[0] if self._below.left[0] == 0 else -np.inf
        inside = weights[np.clip(place, 0, weights.size - 1)]
        found[marked] = np.select([place < 0, place >= weights.size], [left, -np.inf], inside)
        return found

    def is_possible(self, y: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether each number has positive probability for some count."""
        published = (y >= self.limit) & self._law.is_possible(np.where(y == self.mark, self.limit, y))
        possible: NDArray[np.bool_] = published | ((y == self.mark) & bool((self._below.log_weights > -np.inf).any()))
        return possible

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
        found = [
            replace(column, log_weights=column.log_weights - self._law.log_total(1), entries=there[column.entries])
            for column in self._law.columns(y[there])
        ]
        if marked.size:
            begins = np.repeat(self._below.begins, marked.size)
            found.append(replace(self._below, entries=marked, begins=begins))
        return found

    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        """Publish by the other law, and replace numbers below the limit by the mark."""
        y = self._law.publish(x, rng)
        return np.where(y >= self.limit, y, self.mark)
