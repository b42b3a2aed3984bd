"""Numbers with their Monte Carlo errors, and the claims that they decide.

A decision is True, False, or None. None means that a limit is within a confidence interval of the number, so that there
are too few replicates to decide. The interval has three standard errors, and more if few groups of replicates
determine the standard error: Student's t with the same tail probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

SURE = 3.0  # standard errors
GROUPS = 20  # largest number of groups of replicates


@dataclass(frozen=True)
class Estimate:
    """A number computed from replicates, with its Monte Carlo standard error.

    Attributes
    ----------
    value : float
    error : float
        Standard error: 0 if the number is exact, inf if one replicate gives no error.
    parts : ndarray
        The same number in groups of replicates. Differences and ratios of numbers from the same replicates are
        computed group by group, so that their errors are those of paired replicates.

    Examples
    --------
    >>> share = Estimate(0.94, 0.004)
    >>> share.within(0.92, 0.98), share.above(0.95), Estimate(0.94, 0.1).above(0.95)
    (True, None, None)
    >>> f"{share:.3f}"
    '0.940 ± 0.004'
    """

    value: float
    error: float = 0.0
    parts: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    @classmethod
    def of(cls, statistic: Callable[..., float], *arrays: ArrayLike, axis: int = 0) -> Estimate:
        """Compute a statistic of all replicates along `axis`, and its error from groups of replicates."""
        full = [np.asarray(array) for array in arrays]
        number = full[0].shape[axis]
        groups = np.array_split(np.arange(number), min(number, GROUPS))
        parts = np.array([statistic(*(np.take(array, group, axis) for array in full)) for group in groups], dtype=float)
        error = parts.std(ddof=1) / np.sqrt(parts.size) if number > 1 else np.inf
        return cls(float(statistic(*full)), float(error), parts)

    @classmethod
    def share(cls, hits: ArrayLike, axis: int = 0) -> Estimate:
        """Compute a share of True, with at least the error of independent draws, also where all or none are True."""
        true = np.asarray(hits, dtype=bool)
        if not true.size:
            return cls(np.nan, np.inf)
        found, middle = cls.of(np.mean, true, axis=axis), (true.sum() + 2) / (true.size + 4)
        least = float(np.sqrt(middle * (1 - middle) / true.size))
        return cls(found.value, max(least, found.error if np.isfinite(found.error) else 0.0), found.parts)

    def above(self, limit: float) -> bool | None:
        """Decide whether the number exceeds a limit."""
        if np.isnan(self.value) or self.parts.size == 1:
            return None
        if self.error == 0 and not self.parts.size:
            return bool(self.value > limit)
        slack = self.error * (stdtrit(self.parts.size - 1, ndtr(SURE)) if self.parts.size else SURE)
        return True if self.value - slack > limit else False if self.value + slack < limit else None

    def below(self, limit: float) -> bool | None:
        """Decide whether the number is below a limit."""
        return (-self).above(-limit)

    def within(self, low: float, high: float) -> bool | None:
        """Decide whether the number is between two limits."""
        return every(self.above(low), self.below(high))

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, self.error, -self.parts)

    def __sub__(self, other: Estimate) -> Estimate:
        return self._with(other, np.subtract, 1.0, 1.0)

    def __truediv__(self, other: Estimate) -> Estimate:
        return self._with(
            other, np.divide, 1 / abs(other.value or np.nan), abs(self.value) / (other.value or np.nan) ** 2
        )

    def _with(self, other: Estimate, operation: np.ufunc, own: float, others: float) -> Estimate:
        """Combine two numbers: paired in groups, otherwise as independent numbers with the given derivatives."""
        value = float(operation(self.value, other.value)) if np.isfinite(own) else np.nan
        if self.parts.size > 1 and self.parts.size == other.parts.size:
            with np.errstate(divide="ignore", invalid="ignore"):
                parts = operation(self.parts, other.parts)
            return Estimate(value, float(parts.std(ddof=1) / np.sqrt(parts.size)), parts)
        return Estimate(value, float(np.hypot(own * self.error, others * other.error)))

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, form: str) -> str:
        if not np.isfinite(self.error):
            return f"{self.value:{form}} (one replicate)"
        return f"{self.value:{form}}" + ("" if self.error == 0 else f" ± {self.error:{form.lstrip('+')}}")


def every(*decisions: bool | None) -> bool | None:
    """Return False if any decision is False, otherwise None if any is None, otherwise True."""
    return False if False in decisions else None if None in decisions else True


def if_enough(enough: bool, holds: bool) -> bool | None:
    """Return None instead of False if few replicates or short chains alone can make a statement fail."""
    return bool(holds) or (False if enough else None)


def opposite(decision: bool | None) -> bool | None:
    """Return the decision about the opposite statement."""
    return None if decision is None else not decision
