"""Privelet: noise on differences between the halves of dyadic intervals (Haar wavelets).

A person changes the difference of the smallest interval with both counts by 2, and one difference of each smaller
length in either half by 1. The sensitivity is therefore at most 2 log2(n); the total is public.

X. Xiao, G. Wang, J. Gehrke, "Differential privacy via wavelet transforms", IEEE TKDE 23, 2011.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.counts.privatizers.base import Privatizer


class Privelet(Privatizer):
    """Double geometric noise on the total and on the differences between the halves of dyadic intervals."""

    includes_total = True

    def sums(self, n: int) -> sparse.csc_array:
        """Return the total, then left half minus right half for intervals of every length, longest first."""
        levels, leaf = _levels(n), np.arange(n)
        parts = [np.ones((1, n), dtype=np.int64)]
        for level in range(levels):
            length = 2 ** (levels - level)
            sign = np.where(leaf % length < length // 2, 1, -1)
            parts.append(sparse.csc_array((sign, (leaf // length, leaf)), shape=(2**level, n)))
        return sparse.csc_array(sparse.vstack(parts))

    def rate(self, n: int, epsilon: Fraction) -> Fraction:
        """Return the rate of the noise: a person changes the differences by 2 log2(n) in total."""
        return epsilon / (2 * _levels(n))

    def estimate(self, measured: NDArray[np.int64], n: int) -> NDArray[np.float64]:
        """Compute each half from the interval's sum and difference, from the total down."""
        found = measured[:1].astype(np.float64)
        for level in range(_levels(n)):
            difference = measured[2**level : 2 ** (level + 1)]
            found = np.stack([found + difference, found - difference], axis=1).ravel() / 2
        return found[:n]


def _levels(n: int) -> int:
    return max(1, (n - 1).bit_length())
