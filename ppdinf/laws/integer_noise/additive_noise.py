"""Independent integer noise with any distribution of finite support, which need not be symmetric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf._internal.frozen import assign, construct
from ppdinf._internal.types import Json, Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.observation_model import Column, IndependentLaw
from ppdinf.tables.labels import LARGEST

ROUNDING = 1e-6  # tolerance for the sum of probabilities
WIDEST = 10**7  # largest number of noise values, with gaps


@dataclass(frozen=True, eq=False)
class AdditiveNoise(IndependentLaw):
    """Published number ``x + noise`` with the stated probabilities of the noise; other noise is impossible.

    The density is normalized. Memory and time depend on the number of noise values, not on the counts.

    Parameters
    ----------
    pmf : mapping of int to float, pandas.Series indexed by noise, or array of shape (n, 2)
        Probability of each noise value; the rows of an array are noise values and probabilities.

    Raises
    ------
    PrivacyError
        Noise values are not different integers, or probabilities are negative or do not sum to 1.

    See Also
    --------
    ppdinf.laws.BandedNoise, ppdinf.laws.DoubleGeometric

    Examples
    --------
    The sum of two independent discrete Laplace variables is a convolution.

    >>> import numpy as np
    >>> from ppdinf.laws import AdditiveNoise
    >>> import pandas as pd
    >>> z = np.arange(-60, 61)
    >>> one = np.exp(-0.5 * abs(z)) / np.exp(-0.5 * abs(z)).sum()
    >>> noise = AdditiveNoise(pd.Series(np.convolve(one, one), index=np.arange(-120, 121)))
    >>> np.exp(noise.log_weight(7, np.array([5, 7]))).round(4)
    array([0.0919, 0.1298])
    """

    name: ClassVar[str] = "additive-noise"
    pmf: Any = field(repr=False)
    first: int = field(init=False)
    probabilities: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        first, probabilities = noise_distribution(self.pmf, "the noise")
        assign(self, first=first, probabilities=probabilities)

    def to_dict(self) -> Json:
        """Return the name, and the noise values with their probabilities as a matrix of two columns."""
        used = np.flatnonzero(self.probabilities)
        return {"name": self.name, "pmf": np.column_stack([self.first + used, self.probabilities[used]])}

    @classmethod
    def _of_texts(cls, data: Json) -> AdditiveNoise:
        return construct(cls, {key: value for key, value in data.items() if key != "name"}, "additive noise")

    @property
    def last(self) -> int:
        """Largest noise value."""
        return self.first + self.probabilities.size - 1

    @cached_property
    def _log_p(self) -> NDArray[np.float64]:
        """Log probabilities, padded on both sides by ``-inf``."""
        with np.errstate(divide="ignore"):
            return np.pad(np.log(self.probabilities), 1, constant_values=-np.inf)

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return "a count with noise"

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log probability of each y given the count x, elementwise."""
        place = np.asarray(y - x, dtype=np.int64) - self.first + 1
        return self._log_p[np.clip(place, 0, self._log_p.size - 1)]

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count given each y, except with probability `tail_probability` per end."""
        below = np.searchsorted(np.cumsum(self.probabilities), tail_probability, side="right")
        above = np.searchsorted(np.cumsum(self.probabilities[::-1]), tail_probability, side="right")
        return y - (self.last - int(above)), y - (self.first + int(below))

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return one column: the log probabilities in reverse order."""
        return [Column(self._log_p[-2:0:-1], np.arange(y.size), y - self.last)]

    def column_below(self, threshold: int) -> Column:
        """Return the log probability that ``x + noise < threshold``, the distribution function in reverse order."""
        log_below = np.log(np.minimum(np.cumsum(self.probabilities), 1.0))[::-1]
        begin = np.array([threshold - 1 - self.last])
        return Column(log_below, np.zeros(1, dtype=np.int64), begin, left=(0.0, 0.0))

    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Add noise drawn by inversion."""
        below = np.cumsum(self.probabilities)
        y: NDArray[np.int64] = x + self.first + np.searchsorted(below, rng.random(x.shape) * below[-1], side="right")
        return y


def noise_distribution(pmf: object, what: str) -> tuple[int, NDArray[np.float64]]:
    """Return the smallest noise value of positive probability, and the probabilities of consecutive values."""
    if isinstance(pmf, pd.Series):
        noise, p = np.asarray(pmf.index), np.asarray(pmf, dtype=np.float64)
    elif isinstance(pmf, Mapping):
        noise, p = np.array(list(pmf)), np.array(list(pmf.values()), dtype=np.float64)
    else:
        rows = np.asarray(pmf, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != 2:
            raise PrivacyError(f"{what} must be a mapping of noise to probability, a Series or an array (n, 2)")
        noise, p = rows.T
    numbers = pd.to_numeric(pd.Series(noise), errors="coerce").to_numpy(np.float64)
    if not numbers.size or not ((numbers == np.rint(numbers)) & (np.abs(numbers) <= LARGEST)).all():
        raise PrivacyError(f"{what} must have noise values that are integers of at most 2**53 in absolute value")
    if not (p >= 0).all() or not abs(math.fsum(p) - 1) < ROUNDING:
        raise PrivacyError(f"{what} must have probabilities that are non-negative and sum to 1, found {p.sum():.6g}")
    used = numbers[p > 0].astype(np.int64)
    if np.unique(used).size < used.size:
        raise PrivacyError(f"{what} must have different noise values")
    if used.max() - used.min() >= WIDEST:
        raise PrivacyError(f"{what} must cover at most {WIDEST:,} values, from the smallest to the largest")
    probabilities = np.zeros(int(used.max() - used.min()) + 1)
    probabilities[used - used.min()] = p[p > 0]
    return int(used.min()), probabilities
