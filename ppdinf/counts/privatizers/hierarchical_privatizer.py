"""Noise on the sums of all intervals of a tree with 16 branches; a person changes two sums on each level.

The estimate uses the tree: weighted averages of a node's noisy sum and the sums of its children upwards, then mean
consistency downwards from the total, which is public.

M. Hay, V. Rastogi, G. Miklau, D. Suciu, "Boosting the accuracy of differentially private histograms", VLDB 2010.
W. Qardaji, W. Yang, N. Li, "Understanding hierarchical methods for differentially private histograms", VLDB 2013.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.counts.privatizers.base import Privatizer

BRANCHES = 16


class Hierarchical(Privatizer):
    """Double geometric noise on the sums of the intervals of a tree; the total is first."""

    includes_total = True

    def sums(self, n: int) -> sparse.csc_array:
        """Return the sums over the tree's intervals, level by level from the root."""
        levels, leaf = _levels(n), np.arange(n)
        parts = [
            sparse.csc_array(
                (np.ones(n, dtype=np.int64), (leaf // BRANCHES ** (levels - level), leaf)), shape=(BRANCHES**level, n)
            )
            for level in range(levels + 1)
        ]
        return sparse.csc_array(sparse.vstack(parts))

    def rate(self, n: int, epsilon: Fraction) -> Fraction:
        """Return the rate of the noise: a person changes two sums on each level by one."""
        return epsilon / (2 * _levels(n))

    def estimate(self, measured: NDArray[np.int64], n: int) -> NDArray[np.float64]:
        """Average upwards, then make the sums consistent downwards."""
        sizes = BRANCHES ** np.arange(_levels(n) + 1)
        levels = np.split(measured.astype(np.float64), np.cumsum(sizes)[:-1])
        averaged = [levels[-1]]
        for height, own in enumerate(levels[-2:0:-1], start=2):
            b, a = float(BRANCHES**height), float(BRANCHES ** (height - 1))
            children = averaged[0].reshape(own.size, BRANCHES).sum(axis=1)
            averaged.insert(0, (b - a) / (b - 1) * own + (a - 1) / (b - 1) * children)
        parent = levels[0]
        for own in averaged:
            missing = parent - own.reshape(parent.size, BRANCHES).sum(axis=1)
            parent = own + np.repeat(missing / BRANCHES, BRANCHES)
        return parent[:n]


def _levels(n: int) -> int:
    levels = 1
    while BRANCHES**levels < n:
        levels += 1
    return levels
