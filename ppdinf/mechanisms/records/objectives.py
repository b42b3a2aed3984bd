"""The interface of objectives whose minimizer is published: gradients, and their sensitivity to one record.

Each objective states L_x(y) for records x by its gradient in y, and a bound sigma(y) on the change of this gradient, in
the K-norm, when one record is replaced by any other record within the bounds. Records outside the bounds are refused:
the curator decides about clipping and clips before. J. Seeman, M. Reimherr, A. Slavkovic, "Formal
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

from ppdinf._internal.arrays import unmasked
from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives.stream import BitStream

ROUNDING = 1e-12  # relative excess of a record over a stated bound that is attributed to rounding

type Points = NDArray[np.float64]
type Draw = Callable[[int, BitStream], Points]


class Objective(ABC):
    """A function of records x and an answer y; good answers make it small.

    Attributes
    ----------
    always_exact : bool
        Whether `exact` applies to all records on the whole space. Otherwise a plan reveals whether it applied.
    """

    always_exact: ClassVar[bool] = False

    def ball(self) -> float:
        """Return the Euclidean radius of the ball that contains the answers."""
        return math.inf

    @abstractmethod
    def records(self, data: object, norm: str) -> Any:
        """Validate data against the stated bounds and return them in the form that the gradient requires."""

    @abstractmethod
    def assumed(self, norm: str) -> str:
        """Return a phrase that states the assumptions about every record."""

    @abstractmethod
    def dimension(self, records: Any) -> int:
        """Return the length of an answer."""

    @abstractmethod
    def gradient(self, records: Any, y: Points) -> Points:
        """Return the gradient of L_x at each answer, shape (m, d) from (m, d)."""

    @abstractmethod
    def sensitivity(self, y: Points, norm: str) -> Points:
        """Return the largest K-norm of the change of the gradient when one record is replaced, shape (m,)."""

    def grid(self, records: Any, norm: str, rate: Fraction) -> Fraction | None:
        """Propose a grid for answers on the whole space, from the number and length of records only.

        None, the default, if no sampler on a grid is known: answers are then drawn in double precision.
        """
        return None

    def on_grid(self, records: Any, grid: Fraction | None) -> Any:
        """Round records to the grid where the answer requires it; each record separately, so neighbours remain so."""
        return records

    def exact(
        self, records: Any, basis: Points, norm: str, rate: Fraction, grid: Fraction | None
    ) -> tuple[str, Draw] | None:
        """Return a sampler of ``exp(-rate |gradient|_K / sensitivity)`` without a Markov chain, or None.

        `basis` has orthonormal columns, and is the identity matrix for the whole space. With a `grid`, only for the
        whole space, draws follow the law on its multiples exactly; without a grid, the law of real numbers in doubles.
        """
        return None


@dataclass(frozen=True)
class Gradient(Objective):
    """An objective that is defined by its gradient.

    The stated sensitivity and the bounds of the records are not checked.

    Parameters
    ----------
    function : callable
        ``function(data, y)`` returns the gradient at each row of y, shape (m, d) from (m, d).
    sensitivity_bound : float or callable
        Largest K-norm of the change of the gradient when one record is replaced, or a function of y, shape (m,) from
        (m, d).
    answers : int
        Length d of an answer.
    radius : float
        Euclidean radius of the ball that contains the answers: without it, many densities have infinite mass.

    See Also
    --------
    ppdinf.KNormGradient, ppdinf.mechanisms.Mean

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.mechanisms import Gradient
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
            raise PrivacyError("function must be a gradient, function(data, y)")
        if not callable(self.sensitivity_bound):
            require_positive(self.sensitivity_bound, "sensitivity_bound")
        if isinstance(self.answers, bool) or not isinstance(self.answers, int | np.integer) or self.answers < 1:
            raise PrivacyError(f"answers must be a positive integer, found {self.answers!r}")
        require_positive(self.radius, "radius")

    def ball(self) -> float:
        """Return the stated radius."""
        return self.radius

    def records(self, data: object, norm: str) -> Any:
        """Return the data unchanged."""
        return data

    def assumed(self, norm: str) -> str:
        """Return the unchecked assumption as a phrase."""
        return "replacing one record moves the gradient by no more than the curator states"

    def dimension(self, records: Any) -> int:
        """Return the stated length."""
        return self.answers

    def gradient(self, records: Any, y: Points) -> Points:
        """Return the gradient computed by the user's function."""
        values = np.asarray(self.function(records, y), dtype=float)
        if values.shape != y.shape:
            raise PrivacyError(f"the gradient must have the shape of y, {y.shape}, found {values.shape}")
        return values

    def sensitivity(self, y: Points, norm: str) -> Points:
        """Return the stated sensitivity."""
        bound = self.sensitivity_bound
        return np.asarray(bound(y), dtype=float) if callable(bound) else np.full(len(y), float(bound))


def require_finite(value: object, name: str) -> None:
    """Require a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise PrivacyError(f"{name} must be a finite number, found {value!r}")


def require_positive(value: object, name: str) -> None:
    """Require a positive finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < math.inf:
        raise PrivacyError(f"{name} must be positive and finite, found {value!r:.60}")


def record_rows(data: object, what: str) -> Points:
    """Read data as a finite matrix, one row per record."""
    rows = unmasked(data, what, PrivacyError)
    if rows.dtype.kind not in "iuf" or rows.ndim not in (1, 2) or rows.size == 0:
        raise PrivacyError(f"{what} must be numbers, one row per record, found {rows.dtype} of shape {rows.shape}")
    rows = rows.reshape(len(rows), -1).astype(float)
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if broken.size:
        raise PrivacyError(f"{what} {broken[0]} is not finite")
    return rows


def require_within(sizes: Points, bound: float, what: str) -> None:
    """Refuse sizes above a bound, except for rounding errors in the last digits."""
    outside = np.flatnonzero(sizes > bound * (1 + ROUNDING))
    if outside.size:
        raise PrivacyError(
            f"the {what} exceeds {bound:g}, first in row {outside[0]}: raise the stated bound, or clip the records"
        )
