"""Quantiles as an objective: an answer is drawn among the multiples of a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from ppdinf.errors import PrivacyError
from ppdinf.mechanisms.real.real_noise import grid_below
from ppdinf.mechanisms.records.objectives import Draw, Objective, Points, record_rows, require_finite, require_within
from ppdinf.noise.primitives.integers import uniform_integers
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.real.integer_k_norm import one_of
from ppdinf.noise.real.k_norm_draws import uniforms

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
            require_finite(getattr(self, name), name)
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

    def records(self, data: object, norm: str) -> Points:
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

    def dimension(self, records: Points) -> int:
        """One."""
        return 1

    def gradient(self, records: Points, y: Points) -> Points:
        """Return ``#{x_i <= y} - n probability``; inf outside the interval."""
        steps = np.searchsorted(records, y, side="right") - len(records) * self.probability
        return np.where((y < self.lower) | (y > self.upper), np.inf, steps)

    def sensitivity(self, y: Points, norm: str) -> Points:
        """One."""
        return np.ones(len(y))

    def grid(self, records: Points, norm: str, rate: Fraction) -> Fraction:
        """Return a grid with about a million multiples in the interval."""
        return grid_below(self.upper - self.lower, steps=CANDIDATES)

    def exact(
        self, records: Points, basis: Points, norm: str, rate: Fraction, grid: Fraction | None
    ) -> tuple[str, Draw]:
        """Draw the number of records below the answer from the total mass of such answers, then the answer."""
        n, p = len(records), Fraction(str(float(self.probability)))
        if grid is None:
            edges = np.concatenate([[self.lower], records, [self.upper]])
            off = np.abs(np.arange(n + 1) - n * self.probability)
            mass = np.cumsum(np.diff(edges) * np.exp(-float(rate) * (off - off.min())))

            def in_doubles(draws: int, stream: BitStream) -> Points:
                chosen = np.searchsorted(mass, uniforms(stream, draws) * mass[-1], side="right")
                answers: Points = (edges[chosen] + uniforms(stream, draws) * np.diff(edges)[chosen])[:, None]
                return answers

            return "a density that is constant between neighbouring records", in_doubles
        # answers are indexed by multiples of the grid; a record counts from the first multiple at or above it
        first, last = math.ceil(Fraction(self.lower) / grid), math.floor(Fraction(self.upper) / grid)
        if last < first:
            raise PrivacyError(f"no multiple of the grid, {grid}, lies between {self.lower:g} and {self.upper:g}")
        from_record = [math.ceil(Fraction(x) / grid) for x in records.tolist()]
        starts = np.array([first, *from_record, last + 1])
        sizes = np.diff(starts)
        smallest_distance = min(abs(k - n * p) for k in range(n + 1))
        log_weights = [-rate * (abs(k - n * p) - smallest_distance) for k in range(n + 1)]
        count = one_of(sizes, log_weights)

        def draw(draws: int, stream: BitStream) -> Points:
            chosen = count.draw(draws, stream)[:, 0]
            steps = starts[chosen] + uniform_integers(sizes[chosen], stream)
            return (steps.astype(np.float64) * float(grid))[:, np.newaxis]

        return f"one of {last - first + 1:,} answers", draw
