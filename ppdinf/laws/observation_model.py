"""Base classes of laws of published numbers: log weights of counts, supports, and simulated publication.

`as_observation_model` converts a law of noise. The file of a base class of laws registers the conversion.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf._internal.values import Flags, Integers, Json, NamedInFiles, Reals, Symbolic, as_texts, of_texts
from ppdinf.errors import CountError, PrivacyError
from ppdinf.laws.law import IntegerLaw
from ppdinf.tables.frame import LARGEST


@dataclass(frozen=True, eq=False)
class Column:
    """Log weights of the values of a sum, shared up to a shift by several published numbers."""

    log_weights: Reals
    entries: Integers
    begins: Integers
    left: tuple[float, float] = (np.inf, 0.0)
    right: tuple[float, float] = (np.inf, 0.0)


class ObservationModel(NamedInFiles, ABC, by="name"):
    """Law of published numbers given counts or sums of counts.

    A subclass in its own file is supported everywhere in measurements: truncation, Gibbs updates, draws and files.
    An `IndependentLaw` is also supported by marginalization over nested sums.

    Attributes
    ----------
    name : str
        Name in files.
    is_independent : bool
        Whether a number is independent of all other numbers given its sum; False if the density of several numbers is
        joint, which requires all of them.
    absent : int or None
        The number that represents an unpublished number; None if an unpublished number contains no information.
    dtype : type
        Type of published numbers: np.int64 or np.float64.
    """

    name: ClassVar[str]
    is_independent: ClassVar[bool] = False
    absent: ClassVar[int | None] = None
    dtype: ClassVar[type[np.int64] | type[np.float64]] = np.int64

    @property
    def is_partial(self) -> bool:
        """Whether labels may be missing, because the law states what an unpublished number means."""
        return self.absent is not None

    def shown(self, values: NDArray[np.object_]) -> NDArray[np.object_]:
        """Return published values with texts of ranges for the marks of a suppression rule; unchanged without a rule.

        Raises
        ------
        CountError
            The rule does not state what empty values mean.
        """
        return values

    def read(self, values: NDArray[np.object_]) -> tuple[ObservationModel, NDArray[Any]]:
        """Return the law of published values, and the numbers y that represent the values in its other methods.

        Parameters
        ----------
        values : array of object, shape (k,)
            Numbers or texts, none of them missing.

        Raises
        ------
        CountError
            A value is not a number of this law.
        """
        numbers = pd.to_numeric(pd.Series(values), errors="coerce").to_numpy(np.float64)
        kind, fits = ("an integer", numbers == np.rint(numbers)) if self.dtype is np.int64 else ("a number", True)
        if not (fits & (np.abs(numbers) <= LARGEST)).all():
            raise CountError(f"must be {kind} of at most 2**53 in absolute value")
        return self, numbers.astype(self.dtype)

    def written(self, y: NDArray[Any]) -> NDArray[np.object_]:
        """Return the published values that numbers y represent, for files and messages; `read` is the inverse."""
        return y.astype(self.dtype).astype(object)

    @property
    def log_quadratic(self) -> tuple[float, float] | None:
        """Rate r and curvature b if the log weight of the noise k is ``-(r |k| + b k^2 / 2)``; None otherwise."""
        return None

    @property
    def mixture_rate(self) -> float | None:
        """Rate epsilon if the density is ``exp(-epsilon |y - x|_2)``, a scale mixture of Gaussians; None otherwise."""
        return None

    def to_dict(self) -> Json:
        """Return the name and parameters: numbers as text, matrices as arrays; the default is for dataclasses."""
        return {"name": self.name} | as_texts(self)

    @staticmethod
    def from_dict(data: Json) -> ObservationModel:
        """Rebuild a law from `to_dict`; additive laws are named by the law of their noise (`IntegerLaw`).

        Raises
        ------
        PrivacyError
            This version does not support the law, or the parameters are not parameters of the law.

        Examples
        --------
        >>> from ppdinf.laws.observation_model import ObservationModel
        >>> ObservationModel.from_dict({"name": "random-rounding", "base": "3"})
        RandomRounding(base=3)
        >>> ObservationModel.from_dict({"name": "double-geometric", "epsilon": "1/4"}).law
        DoubleGeometric(epsilon=Fraction(1, 4))
        """
        return as_observation_model(law_in_file(data))

    @classmethod
    def _of_texts(cls, parameters: Json) -> ObservationModel:
        """Construct a law from the output of `to_dict` without its name."""
        return of_texts(cls, parameters, f"the law {cls.name!r}")

    @property
    @abstractmethod
    def gives(self) -> str:
        """Description of a published number, for messages."""

    @abstractmethod
    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log weight of each published y given the count x, elementwise; ``-inf`` if it is impossible."""

    def log_total(self, numbers: int) -> float:
        """Return the log of the total weight of several published numbers given their counts, which must be constant.

        It is 0, because weights are probabilities or densities, unless overridden.
        """
        return 0.0

    def noise_moments(self, numbers: int) -> tuple[float, float]:
        """Return mean and variance of the noise of each of several numbers, which is uncorrelated between them.

        Raises
        ------
        PrivacyError
            The mean or the variance of the noise depends on the count.
        """
        raise PrivacyError(f"mean and variance of the noise of {self.name!r} numbers depend on the count")

    @abstractmethod
    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count given each y, except with probability `tail_probability`.

        The probability 0 gives bounds that hold with certainty. Given any count, its published number has bounds
        that exclude the count with a probability of at most ``outside * tail_probability``.
        """

    @property
    def outside(self) -> float:
        """Factor of the tail probability: given a count, how often `support_bounds` exclude it, for both ends."""
        return 2.0

    @abstractmethod
    def publish(self, x: Integers, rng: np.random.Generator) -> Integers:
        """Simulate the publication of counts in double precision; such draws are not private releases."""

    def is_possible(self, y: Integers) -> Flags:
        """Return whether each number has positive probability for some count; always true unless overridden."""
        return np.ones(np.shape(y), dtype=bool)

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return log weights of all values of the published sums, as factors of the likelihood.

        A number without a column has weight 1 within `support_bounds` of tail probability 0.

        Raises
        ------
        PrivacyError
            The law is not an `IndependentLaw`.
        """
        raise PrivacyError(f"{self.name} noise has a joint density over all published numbers")


class IndependentLaw(ObservationModel):
    """Law of a published number given its count or sum of counts, independent of all other published numbers."""

    is_independent: ClassVar[bool] = True

    @abstractmethod
    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return log weights of all values of the published sums, as factors of the likelihood."""

    def column_below(self, threshold: int) -> Column:
        """Return the log probability of ``Y < threshold`` for all counts, as a column with one entry.

        Raises
        ------
        PrivacyError
            Numbers of this law cannot be thresholded or clipped.
        """
        raise PrivacyError(f"numbers of the law {self.name!r} cannot be thresholded or clipped")


@singledispatch
def as_observation_model(law: object) -> ObservationModel:
    """Return the observation model of a law of noise or of a mechanism of single counts."""
    raise PrivacyError(
        "the law must be one of ppdinf.laws, such as DiscreteGaussian, DoubleGeometric, Rounded or Interval, or a "
        f"mechanism of single counts, found {type(law).__name__}"
    )


@as_observation_model.register
def _(law: ObservationModel) -> ObservationModel:
    return law


def law_in_file(data: Json) -> IntegerLaw | ObservationModel:
    """Rebuild a law as users state it: of additive noise, the law of the noise."""
    kind = ObservationModel._named_in(data)
    if kind is None:
        return IntegerLaw.from_dict(data)
    return kind._of_texts({key: value for key, value in data.items() if key != "name"})
