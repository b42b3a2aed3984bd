"""Objectives whose minimiser is published: their gradients, and how far one record can move them.

Each states L_x(y) for records x by its gradient in y, and a bound sigma(y) on the change of that gradient, in the
K-norm, when one record is replaced by any other that the bounds allow. Records outside the bounds are refused:
clipping them is a decision of the curator, who does it before. J. Seeman, M. Reimherr, A. Slavkovic, "Formal
privacy for partially private data", Theorem 10; M. Reimherr, J. Awan, "KNG: the K-norm gradient mechanism", 2019.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives.stream import BitStream

__all__ = ["Gradient", "Objective", "finite", "positive", "require_within", "rows_of"]

ROUNDING = 1e-12  # relative excess of a record over a stated bound that is put down to rounding

type Points = NDArray[np.float64]
type Draw = Callable[[int, BitStream], Points]


class Objective(ABC):
    """A function of records x and an answer y that the answer should make small.

    Attributes
    ----------
    always_exact : bool
        Whether `exact` serves whatever the records are, on the whole space. Elsewhere a plan tells whether it served.
    """

    always_exact: ClassVar[bool] = False

    def ball(self) -> float:
        """Return the Euclidean radius of the ball that answers lie in."""
        return math.inf

    @abstractmethod
    def records(self, data: object, norm: str) -> Any:
        """Check data against the stated bounds and return them as the gradient takes them."""

    @abstractmethod
    def assumed(self, norm: str) -> str:
        """Say as a phrase what is taken to be known of every record."""

    @abstractmethod
    def dimension(self, records: Any) -> int:
        """Length of an answer."""

    @abstractmethod
    def gradient(self, records: Any, y: Points) -> Points:
        """Gradient of L_x at each answer, shape (m, d) from (m, d)."""

    @abstractmethod
    def sensitivity(self, y: Points, norm: str) -> Points:
        """Largest K-norm by which replacing one record changes the gradient at each answer, shape (m,)."""

    def grid(self, records: Any, norm: str, rate: Fraction) -> Fraction | None:
        """Propose a grid for answers on the whole space, from nothing but the number and length of records.

        None, as by default, where no sampler of multiples is known: answers are then drawn in double precision.
        """
        return None

    def on_grid(self, records: Any, grid: Fraction | None) -> Any:
        """Round records to the grid where the answer needs it; each by itself, so that neighbours stay neighbours."""
        return records

    def exact(
        self, records: Any, basis: Points, norm: str, rate: Fraction, grid: Fraction | None
    ) -> tuple[str, Draw] | None:
        """Say how to draw from ``exp(-rate |gradient|_K / sensitivity)`` without a chain, if there is a way.

        `basis` has orthonormal columns, and is the identity matrix for the whole space. With a `grid`, which is for the
        whole space, draws follow the law on its multiples exactly; without one, that of real numbers in doubles.
        """
        return None


@dataclass(frozen=True)
class Gradient(Objective):
    """Any other objective, by its gradient. Nothing checks the stated sensitivity, nor that records are in bounds.

    Parameters
    ----------
    function : callable
        ``function(data, y)`` gives the gradient at each row of y, shape (m, d) from (m, d).
    sensitivity_bound : float or callable
        K-norm by which replacing one record can change the gradient, or a function of y, shape (m,) from (m, d).
    answers : int
        Length d of an answer.
    radius : float
        Euclidean radius of the ball that answers lie in: without one many densities have no finite mass.

    Examples
    --------
    >>> ridge = Gradient(lambda x, y: y * (len(x) + 1) - sum(x), 2.0, answers=1, radius=10.0)
    >>> ridge.gradient([1.0, 0.5], np.array([[0.5]]))
    array([[0.]])
    """

    function: Callable[[Any, Points], Points]
    sensitivity_bound: float | Callable[[Points], Points]
    answers: int
    radius: float

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise PrivacyError("function must be a gradient function(data, y)")
        if not callable(self.sensitivity_bound):
            positive(self.sensitivity_bound, "sensitivity_bound")
        if isinstance(self.answers, bool) or not isinstance(self.answers, int | np.integer) or self.answers < 1:
            raise PrivacyError(f"answers must be a positive whole number, found {self.answers!r}")
        positive(self.radius, "radius")

    def ball(self) -> float:
        """Return the stated radius."""
        return self.radius

    def records(self, data: object, norm: str) -> Any:
        """Return data as they are."""
        return data

    def assumed(self, norm: str) -> str:
        """Name what is not checked."""
        return "replacing one record moves the gradient by no more than the curator states"

    def dimension(self, records: Any) -> int:
        """As stated."""
        return self.answers

    def gradient(self, records: Any, y: Points) -> Points:
        """As the user's function gives it."""
        values = np.asarray(self.function(records, y), dtype=float)
        if values.shape != y.shape:
            raise PrivacyError(f"the gradient must have the shape of y, {y.shape}, found {values.shape}")
        return values

    def sensitivity(self, y: Points, norm: str) -> Points:
        """As stated."""
        bound = self.sensitivity_bound
        return np.asarray(bound(y), dtype=float) if callable(bound) else np.full(len(y), float(bound))


def finite(value: object, name: str) -> None:
    """Refuse anything but a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise PrivacyError(f"{name} must be a finite number, found {value!r}")


def positive(value: object, name: str) -> None:
    """Refuse all but positive finite numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < math.inf:
        raise PrivacyError(f"{name} must be positive and finite, found {value!r:.60}")


def rows_of(data: object, what: str) -> Points:
    """Read data as a finite matrix, one row per record."""
    try:
        rows = np.asarray(data)
    except ValueError:
        raise PrivacyError(f"{what} must be numbers, one row per record, all of one length") from None
    if rows.dtype.kind not in "iuf" or rows.ndim not in (1, 2) or rows.size == 0:
        raise PrivacyError(f"{what} must be numbers, one row per record, found {rows.dtype} of shape {rows.shape}")
    rows = rows.reshape(len(rows), -1).astype(float)
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if broken.size:
        raise PrivacyError(f"{what} {broken[0]} is not finite")
    return rows


def require_within(sizes: Points, bound: float, what: str) -> None:
    """Refuse sizes above a bound; rounding in the last digits is not held against a record.

    Such records are allowed for in the sensitivity (`SLACK` of `ppdinf.mechanisms.records.k_norm_gradient`).
    """
    outside = np.flatnonzero(sizes > bound * (1 + ROUNDING))
    if outside.size:
        raise PrivacyError(
            f"the {what} exceeds {bound:g}, the first in row {outside[0]}: widen the stated bound, or clip before"
        )
