"""What a law of published numbers states: how they weigh counts, and how counts are published."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.frozen import NamedInFiles
from ppdinf._internal.types import Json, Symbolic

__all__ = ["Column", "IndependentLaw", "ObservationModel"]


@dataclass(frozen=True, eq=False)
class Column:
    """Log weights of the values of a sum, the same for several published numbers but for where they begin.

    Attributes
    ----------
    log_weights : array of float64
        Of consecutive values.
    entries : array of int64
        Which of the published numbers have them.
    begins : array of int64
        The value that the first is of, for each of these.
    left, right : tuple of float
        Beyond either end weights fall further: k values on by ``rate k + bend k^2 / 2``; ``inf`` where they end.
    """

    log_weights: NDArray[np.float64]
    entries: NDArray[np.int64]
    begins: NDArray[np.int64]
    left: tuple[float, float] = (np.inf, 0.0)
    right: tuple[float, float] = (np.inf, 0.0)


class ObservationModel(NamedInFiles, ABC, by="name"):
    """Law of published numbers given the counts, or sums of counts, that they are of.

    A subclass in a file of its own serves measurements everywhere: windows, walks, draws, files, and where it is an
    `IndependentLaw`, forests.

    Attributes
    ----------
    name : str
        In files.
    """

    name: ClassVar[str]

    @abstractmethod
    def to_dict(self) -> Json:
        """Name and parameters: rationals as text, matrices as arrays."""

    @staticmethod
    def from_dict(data: Json) -> ObservationModel:
        """Rebuild a law from `to_dict`; laws of noise alone (`IntegerLaw`) by their own names.

        Raises
        ------
        PrivacyError
            A law that this version does not know, or other parameters than it has.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> ObservationModel.from_dict({"name": "random-rounding", "base": "3"})
        RandomRounding(base=3)
        >>> ObservationModel.from_dict({"name": "double-geometric", "epsilon": "1/4"}).law
        DoubleGeometric(epsilon=Fraction(1, 4))
        """
        found: type[ObservationModel] = ObservationModel._named_in(data) or ObservationModel._family["differences"]
        return found._of_texts(data)

    @classmethod
    @abstractmethod
    def _of_texts(cls, data: Json) -> ObservationModel:
        """Make a law of what `to_dict` has said."""

    @property
    @abstractmethod
    def gives(self) -> str:
        """What is published, in words."""

    @abstractmethod
    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Log weight of publishing each y when the count is x, elementwise; ``-inf`` where it cannot be."""

    @abstractmethod
    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Smallest and largest count that each y comes from, but with probability `rare`; 0 for what is certain."""

    @abstractmethod
    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Publish counts: a model's own draws in double precision, no release."""

    def is_possible(self, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell numbers that some count gives: all, unless a subclass knows better."""
        return np.ones(np.shape(y), dtype=bool)


class IndependentLaw(ObservationModel):
    """Law of a published number given the count, or sum of counts, that it is of, whatever else is published."""

    @abstractmethod
    def columns(self, y: NDArray[np.int64]) -> list[Column]:
        """State the log weights of all values of the sums that numbers are of; each number in one column."""
