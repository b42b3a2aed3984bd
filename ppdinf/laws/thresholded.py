"""Noisy counts that are published only at or above a threshold; an absent count was below the threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.types import Array, Json, Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.law import IntegerLaw
from ppdinf.laws.observation_model import Column, IndependentLaw

__all__ = ["ABSENT", "Thresholded"]

ABSENT = -(2**62)
"""Marks a noisy count that was not published. PyMC treats the smallest integer as a missing value."""

EXACT = 10**7  # largest number of noise values summed for the weight of an absent count


@dataclass(frozen=True)
class Thresholded(IndependentLaw):
    """Additive noise; a noisy count is published if it reaches the threshold, and absent otherwise.

    An absent count (nan, or a label that is missing) is censored. It is not zero. The weight of a count x is then
    the probability that ``x + noise < threshold``.

    Parameters
    ----------
    law : IntegerLaw
    threshold : int
        Smallest noisy count that is published.

    Raises
    ------
    PrivacyError
        `law` is not a law of integers, or the threshold is not an integer.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> cut = Thresholded(ppd.laws.DoubleGeometric(1), threshold=5)
    >>> np.exp(cut.log_weight(np.full(3, ABSENT), np.array([0, 4, 8]))).round(3)
    array([0.995, 0.731, 0.013])
    """

    name: ClassVar[str] = "thresholded"
    absent: ClassVar[int] = ABSENT
    law: IntegerLaw
    threshold: int

    def __post_init__(self) -> None:
        if not isinstance(self.law, IntegerLaw):
            raise PrivacyError(f"law must be a law of integers (IntegerLaw), found {type(self.law).__name__}")
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int | np.integer):
            raise PrivacyError(f"threshold must be an integer, found {self.threshold!r}")

    def to_dict(self) -> Json:
        """Return the name, the threshold, and the law of the noise."""
        noise = self.law.to_dict()
        return {"name": self.name, "of": noise.pop("name"), **noise, "threshold": str(self.threshold)}

    @classmethod
    def _of_texts(cls, data: Json) -> Thresholded:
        noise = {key: value for key, value in data.items() if key not in ("name", "of", "threshold")}
        return cls(IntegerLaw.from_dict({"name": data.get("of"), **noise}), int(data["threshold"]))

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log weight of each y (possibly `ABSENT`) given the count x, elementwise.

        Log weights of published and of absent counts are each stated up to a separate constant.
        """
        y, x = np.broadcast_arrays(np.asarray(y), np.asarray(x))
        found, absent = np.empty(x.shape), y == ABSENT
        found[~absent] = self.law.log_weight(y[~absent] - x[~absent])
        found[absent] = self._log_below(self.threshold - 1 - x[absent])
        return found

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return f"which is published from {self.threshold} on"

    def is_possible(self, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each number has positive probability for some count."""
        possible: NDArray[np.bool_] = (y == ABSENT) | (y >= self.threshold)
        return possible

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count given each y; absent numbers have no lower bound."""
        far = float(self.law.widest_half_width(1, tail_probability)) if tail_probability > 0 else math.inf
        absent = np.asarray(y) == ABSENT
        low = np.where(absent, -np.inf, np.where(absent, 0, y) - far)
        return low, np.where(absent, self.threshold - 1, y) + far

    def columns(self, y: NDArray[np.int64]) -> list[Column]:
        """Return one column for absent numbers, constant towards smaller counts, and the law's columns for the rest."""
        (absent,), (there,) = np.nonzero(y == ABSENT), np.nonzero(y != ABSENT)
        found = [replace(column, entries=there[column.entries]) for column in AdditiveLaw(self.law).columns(y[there])]
        if absent.size:
            far, _ = self._log_sums
            counts = self.threshold - 1 + np.arange(-far, far + 1)
            weights = self._log_below(self.threshold - 1 - counts)
            found.append(Column(weights, absent, np.full(absent.size, counts[0]), left=(0.0, 0.0)))
        return found

    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Add noise and remove the noisy counts below the threshold."""
        noisy = AdditiveLaw(self.law).publish(x, rng)
        return np.where(noisy >= self.threshold, noisy, ABSENT)

    def _log_below(self, z: Array) -> NDArray[np.float64]:
        """Return the log probability that the noise is at most z."""
        far, log_sums = self._log_sums
        at = np.clip(np.asarray(z, dtype=np.int64) + far, 0, 2 * far)
        found: NDArray[np.float64] = log_sums[at]
        return found

    @cached_property
    def _log_sums(self) -> tuple[int, NDArray[np.float64]]:
        """Radius of the noise (tail probability about 1e-300), and its log distribution function at -far, ..., far."""
        far = self.law.tail_start(-math.log(2) * 1000)
        if far > EXACT:
            raise PrivacyError(f"{self.law.name} noise of this scale covers more than {EXACT:,} counts; use less noise")
        weights = self.law.log_weight(np.arange(-far, far + 1).astype(np.float64))
        sums = np.logaddexp.accumulate(weights)
        return far, sums - sums[-1]
