"""Objectives whose minimizer is published: gradients and their sensitivity to one record; means and quantiles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ppdinf._internal.values import Integers, Reals, require_number, unmasked
from ppdinf.errors import PrivacyError
from ppdinf.laws.real_noise import positive
from ppdinf.mechanisms.real_noise import FINE, Draw, grid_below
from ppdinf.noise.k_norm import K_NORMS, draw_integer_k_norm, k_norm, one_of, uniforms
from ppdinf.noise.primitives.integers import uniform_integers
from ppdinf.noise.primitives.stream import BitStream

NARROW = Fraction(1, 400)  # half of the interval of bounded means, in units of the noise
ROUNDING = 1e-12  # relative excess of a record over a stated bound that is attributed to rounding

type Exact = tuple[str, Draw]


class Objective(ABC):
    """A function of records x and an answer y; good answers make it small.

    Attributes
    ----------
    always_exact : bool
        Whether `exact` applies to all records on the whole space. Otherwise a plan reveals whether it applied.
    """

    always_exact: ClassVar[bool] = False

    def ball(self) -> float:
        """Return the Euclidean radius of the ball that contains the answers: a stated radius, or infinite."""
        return getattr(self, "radius", math.inf)

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
    def gradient(self, records: Any, y: Reals) -> Reals:
        """Return the gradient of L_x at each answer, shape (m, d) from (m, d)."""

    @abstractmethod
    def sensitivity(self, y: Reals, norm: str) -> Reals:
        """Return the largest K-norm of the change of the gradient when one record is replaced, shape (m,)."""

    def grid(self, records: Any, norm: str, rate: Fraction) -> Fraction | None:
        """Propose a grid for answers on the whole space, from the number and length of records only.

        None, the default, if no sampler on a grid is known: answers are then drawn in double precision.
        """
        return None

    def on_grid(self, records: Any, grid: Fraction | None) -> Any:
        """Round records to the grid where the answer requires it; each record separately, so neighbours remain so."""
        return records

    def exact(self, records: Any, basis: Reals, norm: str, rate: Fraction, grid: Fraction | None) -> Exact | None:
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

    function: Callable[[Any, Reals], Reals]
    sensitivity_bound: float | Callable[[Reals], Reals]
    answers: int
    radius: float

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise PrivacyError("function must be a gradient, function(data, y)")
        if not callable(self.sensitivity_bound):
            positive(self.sensitivity_bound, "sensitivity_bound")
        require_number(self.answers, "answers must be a positive integer", 1)
        positive(self.radius, "radius")

    def records(self, data: object, norm: str) -> Any:
        """Return the data unchanged."""
        return data

    def assumed(self, norm: str) -> str:
        """Return the unchecked assumption as a phrase."""
        return "replacing one record moves the gradient by no more than the curator states"

    def dimension(self, records: Any) -> int:
        """Return the stated length."""
        return self.answers

    def gradient(self, records: Any, y: Reals) -> Reals:
        """Return the gradient computed by the user's function."""
        values = np.asarray(self.function(records, y), dtype=float)
        if values.shape != y.shape:
            raise PrivacyError(f"the gradient must have the shape of y, {y.shape}, found {values.shape}")
        return values

    def sensitivity(self, y: Reals, norm: str) -> Reals:
        """Return the stated sensitivity."""
        bound = self.sensitivity_bound
        return np.asarray(bound(y), dtype=float) if callable(bound) else np.full(len(y), float(bound))


def record_rows(data: object, what: str) -> Reals:
    """Read data as a finite matrix, one row per record."""
    rows = unmasked(data, what, PrivacyError)
    if rows.dtype.kind not in "iuf" or rows.ndim not in (1, 2) or rows.size == 0:
        raise PrivacyError(f"{what} must be numbers, one row per record, found {rows.dtype} of shape {rows.shape}")
    rows = rows.reshape(len(rows), -1).astype(float)
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if broken.size:
        raise PrivacyError(f"{what} {broken[0]} is not finite")
    return rows


def require_within(sizes: Reals, bound: float, what: str) -> None:
    """Refuse sizes above a bound, except for rounding errors in the last digits."""
    outside = np.flatnonzero(sizes > bound * (1 + ROUNDING))
    if outside.size:
        raise PrivacyError(
            f"the {what} exceeds {bound:g}, first in row {outside[0]}: raise the stated bound, or clip the records"
        )


@dataclass(frozen=True)
class Mean(Objective):
    """The mean of records in a ball: ``L = sum |x_i - y|_2^2 / 2``.

    Records are rounded towards 0 to multiples of the grid, and so is the noise of their sum: answers are these sums
    divided by the number of records. Rounding moves the mean by less than the grid in every coordinate.

    Parameters
    ----------
    bound : float
        Upper bound on the K-norm of every record: subtract the midpoint of the possible values first.
    bounded : bool, default False
        Whether answers are restricted to the interval of the records, by rejection; for records of one number each.
        The normalizer then depends on the records, and the loss can exceed epsilon / 2, but not epsilon.

    See Also
    --------
    ppdinf.mechanisms.Quantile, ppdinf.KNormGradient

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.mechanisms import Mean
    >>> Mean(1.0).gradient(np.array([[0.5], [0.1]]), np.array([[1.0]]))
    array([[1.4]])
    """

    always_exact: ClassVar[bool] = True
    bound: float
    bounded: bool = False

    def __post_init__(self) -> None:
        positive(self.bound, "bound")

    def ball(self) -> float:
        """Return the bound if answers have it, too."""
        return self.bound if self.bounded else math.inf

    def records(self, data: object, norm: str) -> Reals:
        """Return one row per record; a vector holds one number per record."""
        rows = record_rows(data, "records")
        require_within(np.linalg.norm(rows, K_NORMS[norm], axis=1), self.bound, f"{norm} norm of a record")
        if self.bounded and rows.shape[1] > 1:
            raise PrivacyError("bounded answers require records of one number each")
        return rows

    def assumed(self, norm: str) -> str:
        """Return the bound as a phrase."""
        return f"no record has an {norm} norm above {self.bound:g}"

    def dimension(self, records: Reals) -> int:
        """Return the length of a record."""
        return int(records.shape[1])

    def gradient(self, records: Reals, y: Reals) -> Reals:
        """Return ``n (y - mean)``."""
        return len(records) * (y - records.mean(axis=0))

    def sensitivity(self, y: Reals, norm: str) -> Reals:
        """Return the diameter of the ball."""
        return np.full(len(y), 2 * self.bound)

    def grid(self, records: Reals, norm: str, rate: Fraction) -> Fraction:
        """Return a grid whose rounding of the records is small compared with the noise of their mean."""
        return grid_below(2 * self.bound / float(rate), steps=min(FINE * len(records), 2**32))

    def on_grid(self, records: Reals, grid: Fraction | None) -> Reals:
        """Round every number towards 0, so that no norm increases."""
        return records if grid is None else np.trunc(records / float(grid)) * float(grid)

    def exact(self, records: Reals, basis: Reals, norm: str, rate: Fraction, grid: Fraction | None) -> Exact | None:
        """Draw around the mean, on the whole space or in l2 on a subspace that contains the mean."""
        n, (d, m) = len(records), basis.shape
        if grid is not None:
            units = (records / float(grid)).astype(np.int64).sum(axis=0)
            step = rate * grid / (2 * Fraction(float(self.bound)))
            noise = partial(draw_integer_k_norm, d, norm, step)
            radius = math.floor(n * Fraction(float(self.bound)) / grid) if self.bounded else None
            if radius is not None and radius * step < NARROW:
                raise PrivacyError("bounded means are drawn by rejection: records times epsilon must be at least 0.01")
            return (
                f"a {norm} law around the mean",
                # integers times a power of two, rounded once: a function of the exact number
                lambda draws, stream: _within(units, noise, radius, draws, stream) * float(grid) / n,
            )
        if self.bounded:
            return None
        mean = records.mean(axis=0)
        within = basis.T @ mean  # the component outside the subspace, which is rounding error, is not published
        if m < d and (norm != "l2" or np.linalg.norm(mean - basis @ within) > 1e-9 * self.bound):
            return None
        scale = 2 * self.bound / (n * float(rate))
        return (
            f"a {norm} law around the mean",
            lambda draws, stream: (within + scale * k_norm(m, norm, draws, stream)) @ basis.T,
        )


def _within(
    center: Integers, noise: Callable[[int, BitStream], Integers], radius: int | None, draws: int, stream: BitStream
) -> Integers:
    """Add noise to integers, again where the absolute value of the sum exceeds the radius."""
    drawn = center + noise(draws, stream)
    while radius is not None:
        (outside,) = np.nonzero(np.abs(drawn[:, 0]) > radius)
        if not outside.size:
            break
        drawn[outside] = center + noise(outside.size, stream)
    return drawn


CANDIDATES = 2**20  # smallest number of answers among which a quantile is drawn


@dataclass(frozen=True)
class Quantile(Objective):
    """A quantile of numbers in an interval: the check loss, with gradient ``#{x_i <= y} - n probability``.

    The answer is one of the multiples of the grid in the interval, drawn exactly.

    Parameters
    ----------
    probability : float
        Probability of the quantile: 0.5 is the median.
    lower, upper : float
        Ends of the interval that contains records and answers.

    See Also
    --------
    ppdinf.mechanisms.Mean, ppdinf.KNormGradient

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.mechanisms import Quantile
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
            number, most = getattr(self, name), np.finfo(float).max
            require_number(number, f"{name} must be a finite number", -most, most, kinds=int | float | np.number)
        if not 0 < self.probability < 1:
            raise PrivacyError(f"probability must lie between 0 and 1, found {self.probability!r}")
        if not self.lower < self.upper:
            raise PrivacyError(f"lower must be below upper, found {self.lower!r} and {self.upper!r}")
        if not 1e-9 <= float(self.upper) - float(self.lower) <= 1e300:
            raise PrivacyError(
                f"upper - lower must be between 1e-9 and 1e300, found {self.lower!r} and {self.upper!r}: use another "
                "unit of measurement"
            )

    def ball(self) -> float:
        """Return the radius of a ball around 0 that contains the interval."""
        return max(abs(self.lower), abs(self.upper))

    def records(self, data: object, norm: str) -> Reals:
        """Return the numbers in increasing order."""
        rows = record_rows(data, "records")
        if rows.shape[1] != 1:
            raise PrivacyError(f"a quantile requires one number per record, found {rows.shape[1]}")
        require_within(
            np.maximum(self.lower - rows[:, 0], rows[:, 0] - self.upper), 0, "distance of a record to the interval"
        )
        return np.sort(rows[:, 0])

    def assumed(self, norm: str) -> str:
        """Return the interval as a phrase."""
        return f"every record lies between {self.lower:g} and {self.upper:g}"

    def dimension(self, records: Reals) -> int:
        """One."""
        return 1

    def gradient(self, records: Reals, y: Reals) -> Reals:
        """Return ``#{x_i <= y} - n probability``; inf outside the interval."""
        steps = np.searchsorted(records, y, side="right") - len(records) * self.probability
        return np.where((y < self.lower) | (y > self.upper), np.inf, steps)

    def sensitivity(self, y: Reals, norm: str) -> Reals:
        """One."""
        return np.ones(len(y))

    def grid(self, records: Reals, norm: str, rate: Fraction) -> Fraction:
        """Return a grid with about a million multiples in the interval."""
        return grid_below(self.upper - self.lower, steps=CANDIDATES)

    def exact(self, records: Reals, basis: Reals, norm: str, rate: Fraction, grid: Fraction | None) -> Exact:
        """Draw the number of records below the answer from the total mass of such answers, then the answer."""
        n, p = len(records), Fraction(str(float(self.probability)))
        if grid is None:
            edges = np.concatenate([[self.lower], records, [self.upper]])
            off = np.abs(np.arange(n + 1) - n * self.probability)
            mass = np.cumsum(np.diff(edges) * np.exp(-float(rate) * (off - off.min())))

            def in_doubles(draws: int, stream: BitStream) -> Reals:
                chosen = np.searchsorted(mass, uniforms(stream, draws) * mass[-1], side="right")
                return (edges[chosen] + uniforms(stream, draws) * np.diff(edges)[chosen])[:, None]

            return "a density that is constant between neighbouring records", in_doubles
        # answers are indexed by multiples of the grid; a record counts from the first multiple at or above it
        first = math.ceil(Fraction(self.lower) / grid)
        last = math.floor(Fraction(self.upper) / grid)
        if last < first:
            raise PrivacyError(f"no multiple of the grid, {grid}, lies between {self.lower:g} and {self.upper:g}")
        from_record = [math.ceil(Fraction(x) / grid) for x in records.tolist()]
        starts = np.array([first, *from_record, last + 1])
        sizes = np.diff(starts)
        smallest_distance = min(abs(k - n * p) for k in range(n + 1))
        log_weights = [-rate * (abs(k - n * p) - smallest_distance) for k in range(n + 1)]
        count = one_of(sizes, log_weights)

        def draw(draws: int, stream: BitStream) -> Reals:
            chosen = count.draw(draws, stream)[:, 0]
            steps = starts[chosen] + uniform_integers(sizes[chosen], stream)
            return (steps.astype(np.float64) * float(grid))[:, np.newaxis]

        return f"one of {last - first + 1:,} answers", draw
