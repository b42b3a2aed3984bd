"""Products of Gaussian masses over orthogonal vectors: approximate, bounded or enclosed.

For squared lengths g_i and a variance v the mass is prod_i rho_{v / g_i}(Z), where rho_v(Z) is the sum of
exp(-k^2 / 2v) over the integers (`ppdinf.noise.exact.gaussian.theta`). Equal lengths are combined. For large v / g the
mass is sqrt(2 pi v / g) up to a negligible part, so that products for large v / g do not require sums.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from ppdinf._internal.rationals import ball
from ppdinf.noise.exact.gaussian.theta import FLAT, enclose_mass, log_gaussian_mass

BINS = 64  # number of bins of lengths for bounds on masses


class GaussianMasses:
    """Products of Gaussian masses rho_{v / g}(Z) over many squared lengths g."""

    def __init__(self, squares: NDArray[np.float64]) -> None:
        self._lengths, self._counts = np.unique(squares, return_counts=True)  # large v / g first
        self._products = lru_cache(maxsize=4)(self._product)

    def log(self, variance: float) -> tuple[float, float]:
        """Return the logarithm of the product, and the sum of the absolute values of its terms."""
        wide = int(np.searchsorted(self._lengths, variance / FLAT, side="right"))
        number, log_lengths = self._products(wide)
        narrow = log_gaussian_mass(variance / self._lengths[wide:]) * self._counts[wide:]
        even = number * math.log(2 * math.pi * variance)
        total = math.fsum(narrow.tolist()) + 0.5 * (even - log_lengths)
        return total, float(np.abs(narrow).sum()) + 0.5 * (abs(even) + abs(log_lengths)) + number

    def bounds(self, variances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bound the logarithm of the product from above, with lengths in bins."""
        bins = [part for part in np.array_split(np.arange(self._lengths.size), BINS) if part.size]
        out = np.zeros(variances.size)
        for part in bins:
            lengths, counts = self._lengths[part], self._counts[part]
            number = counts.sum()
            by_shortest = number * log_gaussian_mass(variances / lengths[0])
            by_ratio = number * (log_gaussian_mass(variances / lengths[-1]) + 0.5 * np.log(lengths[-1]))
            out += np.minimum(by_shortest, by_ratio - 0.5 * float(counts @ np.log(lengths)))
        return out

    def encloser(self) -> Callable[[Fraction], arb]:
        """Return a function that encloses the logarithm of the product at the current working precision."""
        wide = FLAT + (ctx.prec + math.log2(1 + self._counts.sum())) / 28  # 2 pi^2 / ln 2 > 28
        powers = [arb(0)]
        for length, count in zip(self._lengths.tolist(), self._counts.tolist(), strict=True):
            powers.append(powers[-1] + count * ball(Fraction(length)).log())
        numbers = np.append(0, np.cumsum(self._counts)).tolist()

        def enclose(variance: Fraction) -> arb:
            flat = int(np.searchsorted(self._lengths, float(variance) / wide, side="right"))
            doubt = arb(2) ** -ctx.prec  # total error of the flat masses
            total = (numbers[flat] * (2 * arb.pi() * ball(variance)).log() - powers[flat]) / 2 + arb(0).union(doubt)
            for length, count in zip(self._lengths[flat:].tolist(), self._counts[flat:].tolist(), strict=True):
                total += count * enclose_mass(arb(0), ball(variance / Fraction(length))).log()
            return total

        return enclose

    def _product(self, first: int) -> tuple[int, float]:
        """Return the number of the first lengths and the logarithm of their product."""
        logs = np.log(self._lengths[:first]) * self._counts[:first]
        return int(self._counts[:first].sum()), math.fsum(logs.tolist())
