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
from ppdinf.mechanisms.real_noise import FINE, grid_below
from ppdinf.noise.bits.integers import uniform_integers
from ppdinf.noise.bits.tape import Tape
from ppdinf.noise.exact.whole_k_norm import one_of, whole_k_norm
from ppdinf.noise.real.k_norm import K_NORMS, k_norm, uniforms

__all__ = ["Gradient", "Mean", "Objective", "Quantile", "positive", "require_within", "rows_of"]

ROUNDING = 1e-12  # relative excess of a record over a stated bound that is put down to rounding
CANDIDATES = 2**20  # answers among which a quantile is chosen, at least

type Points = NDArray[np.float64]
type Draw = Callable[[int, Tape], Points]


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
    def records(self, data: Any, norm: str) -> Any:
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
class Mean(Objective):
    """The mean of records in a ball: ``L = sum |x_i - y|_2^2 / 2``.

    Records are rounded towards 0 to multiples of the grid, and so is the noise of their sum: answers are such sums
    over the number of records. Rounding moves the mean by less than the grid in every coordinate.

    Parameters
    ----------
    bound : float
        K-norm that no record exceeds: subtract the middle of the possible values first.

    Examples
    --------
    >>> Mean(1.0).gradient(np.array([[0.5], [0.1]]), np.array([[1.0]]))
    array([[1.4]])
    """

    always_exact: ClassVar[bool] = True
    bound: float

    def __post_init__(self) -> None:
        positive(self.bound, "bound")

    def records(self, data: Any, norm: str) -> Points:
        """Rows are records; a vector is one number per record."""
        rows = rows_of(data, "records")
        require_within(np.linalg.norm(rows, K_NORMS[norm], axis=1), self.bound, f"{norm} norm of a record")
        return rows

    def assumed(self, norm: str) -> str:
        """Name the bound."""
        return f"no record has an {norm} norm above {self.bound:g}"

    def dimension(self, records: Points) -> int:
        """Length of a record."""
        return records.shape[1]

    def gradient(self, records: Points, y: Points) -> Points:
        """``n (y - mean)``."""
        return len(records) * (y - records.mean(axis=0))

    def sensitivity(self, y: Points, norm: str) -> Points:
        """Diameter of the ball."""
        return np.full(len(y), 2 * self.bound)

    def grid(self, records: Points, norm: str, rate: Fraction) -> Fraction:
        """Find a grid whose rounding of the records is small beside the noise of their mean."""
        return grid_below(2 * self.bound / float(rate), steps=min(FINE * len(records), 2**32))

    def on_grid(self, records: Points, grid: Fraction | None) -> Points:
        """Round every number towards 0, so that no norm grows."""
        return records if grid is None else np.trunc(records / float(grid)) * float(grid)

    def exact(
        self, records: Points, basis: Points, norm: str, rate: Fraction, grid: Fraction | None
    ) -> tuple[str, Draw] | None:
        """Draw around the mean: on the whole space, or in l2 on a subspace that holds the mean."""
        n, (d, m) = len(records), basis.shape
        if grid is not None:
            whole = (records / float(grid)).astype(np.int64).sum(axis=0)
            step = rate * grid / (2 * Fraction(float(self.bound)))
            return (
                f"a {norm} law around the mean",
                # whole numbers times a power of two, rounded once: a function of the number that is meant
                lambda draws, tape: (whole + whole_k_norm(d, norm, step, draws, tape)) * float(grid) / n,
            )
        mean = records.mean(axis=0)
        within = basis.T @ mean  # what lies off the subspace, no more than rounding, is not published
        if m < d and (norm != "l2" or np.linalg.norm(mean - basis @ within) > 1e-9 * self.bound):
            return None
        scale = 2 * self.bound / (n * float(rate))
        return (
            f"a {norm} law around the mean",
            lambda draws, tape: (within + scale * k_norm(m, norm, draws, tape)) @ basis.T,
        )


@dataclass(frozen=True)
class Quantile(Objective):
    """A quantile of numbers in an interval: the check loss, with gradient ``#{x_i <= y} - n probability``.

    The answer is one of the multiples of the grid in the interval, chosen exactly.

    Parameters
    ----------
    probability : float
        Of the quantile: 0.5 is the median.
    lower, upper : float
        Ends of the interval that records and answers lie in.

    Examples
    --------
    >>> Quantile(0.5, 0, 10).gradient(np.array([1.0, 2.0, 7.0]), np.array([[0.5], [3.0]]))
    array([[-1.5],
           [ 0.5]])
    """

    always_exact: ClassVar[bool] = True
    probability: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        for name in ("probability", "lower", "upper"):
            finite(getattr(self, name), name)
        if not 0 < self.probability < 1:
            raise PrivacyError(f"probability must lie between 0 and 1, found {self.probability!r}")
        if not self.lower < self.upper:
            raise PrivacyError(f"lower must be below upper, found {self.lower!r} and {self.upper!r}")

    def ball(self) -> float:
        """Return the radius of a ball around 0 that holds the interval."""
        return max(abs(self.lower), abs(self.upper))

    def records(self, data: Any, norm: str) -> Points:
        """Return the numbers in order."""
        rows = rows_of(data, "records")
        if rows.shape[1] != 1:
            raise PrivacyError(f"a quantile is taken of one number per record, found {rows.shape[1]}")
        require_within(
            np.maximum(self.lower - rows[:, 0], rows[:, 0] - self.upper), 0, "distance of a record to the interval"
        )
        return np.sort(rows[:, 0])

    def assumed(self, norm: str) -> str:
        """Name the interval."""
        return f"every record lies between {self.lower:g} and {self.upper:g}"

    def dimension(self, records: Points) -> int:
        """One."""
        return 1

    def gradient(self, records: Points, y: Points) -> Points:
        """``#{x_i <= y} - n probability``; inf outside the interval."""
        steps = np.searchsorted(records, y, side="right") - len(records) * self.probability
        return np.where((y < self.lower) | (y > self.upper), np.inf, steps)

    def sensitivity(self, y: Points, norm: str) -> Points:
        """One."""
        return np.ones(len(y))

    def grid(self, records: Points, norm: str, rate: Fraction) -> Fraction:
        """Find a grid with a million multiples in the interval."""
        return grid_below(self.upper - self.lower, steps=CANDIDATES)

    def exact(
        self, records: Points, basis: Points, norm: str, rate: Fraction, grid: Fraction | None
    ) -> tuple[str, Draw]:
        """Choose how many records lie below by the mass of such answers, then one of these answers."""
        n, p = len(records), Fraction(str(float(self.probability)))
        if grid is None:
            edges = np.concatenate([[self.lower], records, [self.upper]])
            off = np.abs(np.arange(n + 1) - n * self.probability)
            mass = np.cumsum(np.diff(edges) * np.exp(-float(rate) * (off - off.min())))

            def in_doubles(draws: int, tape: Tape) -> Points:
                chosen = np.searchsorted(mass, uniforms(tape, draws) * mass[-1], side="right")
                return (edges[chosen] + uniforms(tape, draws) * np.diff(edges)[chosen])[:, None]

            return "a density that is constant between neighbouring records", in_doubles
        # multiples of the grid, by their number: from the first at or above a record on, that record is counted
        first, last = math.ceil(Fraction(self.lower) / grid), math.floor(Fraction(self.upper) / grid)
        if last < first:
            raise PrivacyError(f"no multiple of the grid, {grid}, lies between {self.lower:g} and {self.upper:g}")
        from_record = [math.ceil(Fraction(x) / grid) for x in records.tolist()]
        starts = np.array([first, *from_record, last + 1])
        sizes = np.diff(starts)
        least = min(abs(k - n * p) for k in range(n + 1))
        log_weights = [-rate * (abs(k - n * p) - least) for k in range(n + 1)]
        count = one_of(sizes, log_weights)

        def draw(draws: int, tape: Tape) -> Points:
            chosen = count.draw(draws, tape)[:, 0]
            steps = starts[chosen] + uniform_integers(sizes[chosen], tape)
            return (steps.astype(np.float64) * float(grid))[:, np.newaxis]

        return f"one of {last - first + 1:,} answers", draw


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

    def records(self, data: Any, norm: str) -> Any:
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


def finite(value: Any, name: str) -> None:
    """Refuse anything but a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise PrivacyError(f"{name} must be a finite number, found {value!r}")


def positive(value: Any, name: str) -> None:
    """Refuse all but positive finite numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < math.inf:
        raise PrivacyError(f"{name} must be positive and finite, found {value!r:.60}")


def rows_of(data: Any, what: str) -> Points:
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

    Such records are allowed for in the sensitivity (`SLACK` of `ppdinf.mechanisms.k_norm_gradient`).
    """
    outside = np.flatnonzero(sizes > bound * (1 + ROUNDING))
    if outside.size:
        raise PrivacyError(
            f"the {what} exceeds {bound:g}, the first in row {outside[0]}: widen the stated bound, or clip before"
        )
