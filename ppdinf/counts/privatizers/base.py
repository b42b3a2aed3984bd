"""The base class of privatizers: sums of a histogram, their noise, and its law given a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.laws.histogram_noise import HistogramNoise
from ppdinf.noise.primitives.integers import draw_discrete_laplace
from ppdinf.noise.primitives.stream import BitStream


class Privatizer(ABC):
    """Integer sums of a histogram, measured with double geometric noise of one rate."""

    includes_total: ClassVar[bool] = False

    @abstractmethod
    def sums(self, n: int) -> sparse.csc_array:
        """Return the matrix of sums of a histogram of n counts, int64 of shape (k, n)."""

    @abstractmethod
    def rate(self, n: int, epsilon: Fraction) -> Fraction:
        """Return the rate of the noise at which a step of one person has privacy loss at most epsilon."""

    @abstractmethod
    def estimate(self, measured: NDArray[np.int64], n: int) -> NDArray[np.float64]:
        """Estimate the histogram from its noisy sums, shape (n,)."""

    def measure(self, histogram: NDArray[np.int64], epsilon: Fraction, stream: BitStream) -> NDArray[np.int64]:
        """Draw the noisy sums of a histogram, which are published."""
        measured = _sums(self, histogram.size) @ histogram
        noisy = measured[self.includes_total :]
        noisy += draw_discrete_laplace(self.rate(histogram.size, epsilon), noisy.size, stream)
        found: NDArray[np.int64] = measured
        return found

    def size(self, n: int) -> int:
        """Return the number of noisy sums of a histogram of n counts."""
        return int(_sums(self, n).shape[0])

    def cells(self, measured: NDArray[np.int64]) -> int | None:
        """Return the number of cells if the noisy sums include it, otherwise None."""
        return int(measured[0]) if self.includes_total else None

    def noise(self, measured: NDArray[np.int64], n: int, epsilon: Fraction) -> HistogramNoise:
        """Return the law of the noisy sums given a table."""
        return HistogramNoise.of_sums(_sums(self, n), measured, float(self.rate(n, epsilon)))


@lru_cache(maxsize=8)
def _sums(privatizer: Privatizer, n: int) -> sparse.csc_array:
    return privatizer.sums(n)
