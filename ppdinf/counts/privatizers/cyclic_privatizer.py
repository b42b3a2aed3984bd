"""Noise around a cycle of counts: ``h_i + L_i - L_(i+1)``.

A person who moves a cell from the count i - 1 to i changes two neighbouring bins in the same way as one unit of L_i.
The noise L, double geometric with rate epsilon, therefore hides this step. Every partial sum contains only two noise
values.

N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms", Theorem 1; here
on the integers.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.counts.privatizers.base import Privatizer
from ppdinf.laws.histogram_noise import HistogramNoise
from ppdinf.noise.primitives.integers import draw_discrete_gaussian, draw_discrete_laplace
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.privacy.discrete_gaussian_scale import discrete_gaussian_sigma


class CyclicLaplace(Privatizer):
    """Double geometric noise around a cycle; the noisy histogram is published."""

    def sums(self, n: int) -> sparse.csc_array:
        """Return the identity matrix: the bins are published."""
        return sparse.csc_array(sparse.eye_array(n, dtype=np.int64))

    def rate(self, n: int, epsilon: Fraction) -> Fraction:
        """Return the rate of the noise: a step of one person is a unit of one value."""
        return epsilon

    def estimate(self, measured: NDArray[np.int64], n: int) -> NDArray[np.float64]:
        """Return the noisy bins."""
        return measured.astype(np.float64)

    def measure(self, histogram: NDArray[np.int64], epsilon: Fraction, stream: BitStream) -> NDArray[np.int64]:
        """Draw a noisy histogram with the same total."""
        return _around(histogram, draw_discrete_laplace(epsilon, histogram.size, stream))

    def cells(self, measured: NDArray[np.int64]) -> int | None:
        """Return the number of cells, the sum of the bins, which noise around a cycle preserves."""
        return int(measured.sum())

    def noise(self, measured: NDArray[np.int64], n: int, epsilon: Fraction) -> HistogramNoise:
        """Return the law of the noisy numbers of cells below each count, with noise ``L_0 - L_i``."""
        below = np.cumsum(measured) - measured
        lowest = (np.arange(n) > 0).astype(np.int64)
        steps = -sparse.eye_array(n, n - 1, k=-1, dtype=np.int64)  # a cell that reaches i is no longer below i
        return HistogramNoise(below, lowest, sparse.csc_array(steps), float(epsilon), shifted=True)


def cyclic_gaussian(
    histogram: NDArray[np.int64], epsilon: Fraction, delta: Fraction, stream: BitStream
) -> NDArray[np.int64]:
    """Draw a histogram with discrete Gaussian noise around a cycle, (epsilon, delta) for a shift by one."""
    sigma = Fraction(discrete_gaussian_sigma(epsilon, delta)).limit_denominator(10**6)
    return _around(histogram, draw_discrete_gaussian((sigma + Fraction(1, 10**6)) ** 2, histogram.size, stream))


def _around(histogram: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.int64]:
    return histogram + noise - np.roll(noise, -1)
