"""The noisy tables that post-processing maps to one published table, as a likelihood of the confidential cells.

The published table t is a projection of noisy counts y onto sums of disjoint groups of cells, possibly rounded. Given
one integer k for each group, the preimage of t is a product over the cells (docs/mathematics/postprocessing.md):

    y_i = b_i + (k + q_i) // n   if cell i is exact,    y_i <= b_i + (k + q_i) // n   if it is censored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from ppdinf._internal.values import Array, Flags, Integers, Symbolic

SPREAD = 2654435769  # odd multiplier near 2**32 / golden ratio (Knuth)
ZERO = 1e-7  # distance within which a real number counts as an integer


def rounding_order(cells: int) -> Integers:
    """Return distinct numbers that state the order in which equal fractions are rounded up, unrelated to positions."""
    return np.arange(cells) * SPREAD % 2**32


class Auxiliary:
    """A variable given which the weights of a release are a product over the cells."""

    name: ClassVar[str]
    is_scalar: ClassVar[bool] = False
    is_bounded: ClassVar[bool] = False

    def shifted(self, y: Symbolic, *values: Symbolic) -> Symbolic:
        """Return the table that has the weights, shape (d,), NumPy or PyTensor: by default the released one."""
        return y

    def of_weights(self, *values: Symbolic) -> tuple[Symbolic, ...]:
        """Return the further arguments of the weights of single cells: none by default."""
        return ()

    def log_prior_in_weights(self, *values: Symbolic) -> Symbolic:
        """Return the log density of the prior that the weights contain, for subtraction."""
        return 0.0


@dataclass(frozen=True, eq=False)
class CensoredNoise:
    """Probabilities of noisy counts of rate `rate` that are exact, at most a limit (censored), or unknown."""

    rate: float
    is_exact: Flags
    is_censored: Flags

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log probability of each noisy count y, or of counts up to y if the cell is censored."""
        z, a = y - x, np.exp(-self.rate)
        exact, censored = (mask.reshape(-1, *[1] * (z.ndim - 1)) for mask in (self.is_exact, self.is_censored))
        known = np.log(np.tanh(self.rate / 2)) - self.rate * abs(z)
        # the probability of the tail beyond z: below for negative z, above otherwise
        log_tail = -self.rate * (abs(z + 0.5) + 0.5) - np.log1p(a)
        below = 1.0 * (z < 0)
        return exact * known + censored * (below * log_tail + (1 - below) * np.log1p(-np.exp(log_tail)))


@dataclass(frozen=True, eq=False)
class PreimageShift(Auxiliary):
    """The integers k of the groups of cells (-1: no group), with a uniform prior that the weights remove."""

    groups: Integers
    base: Integers
    offset: Integers
    sizes: Integers
    radius: int
    name: ClassVar[str] = "noise_shift"

    @staticmethod
    def of_table(y: Array, groups: Integers, is_exact: Flags, radius: int, *, is_rounded: bool) -> PreimageShift:
        """Return the preimage of a published table."""
        used = np.unique(groups[is_exact & (groups >= 0)])
        index = np.where(np.isin(groups, used), np.searchsorted(used, groups), -1)
        base = np.where(is_exact, np.ceil(y - ZERO), 0).astype(np.int64)
        offset = np.zeros(y.size, dtype=np.int64)
        sizes = np.ones(used.size, dtype=np.int64)
        if is_rounded:
            order = np.argsort(rounding_order(y.size))
            for group in range(used.size):
                cells = order[index[order] == group]
                offset[cells] = np.cumsum(is_exact[cells]) - is_exact[cells]
                sizes[group] = is_exact[cells].sum()
        return PreimageShift(index, base, offset, sizes, radius)

    @property
    def largest(self) -> Integers:
        """Largest absolute value of the integer of each group, except with the tail probability of the noise."""
        return self.sizes * (self.radius + 2)

    def shifted(self, y: Symbolic, shift: Symbolic) -> Symbolic:
        """Return the noisy count of each cell, or its upper limit, shape (d,); NumPy or PyTensor."""
        group = np.maximum(self.groups, 0)
        return self.base + (self.groups >= 0) * ((shift[group] + self.offset) // self.sizes[group])

    def log_prior_in_weights(self, shift: Symbolic) -> Symbolic:
        """Return a constant: weights are summed over the integers."""
        return -float(np.log(2.0 * self.largest + 1).sum())

    def log_sum(self, form: CensoredNoise, x: Integers) -> float:
        """Return the log of the sum over all integers: the log probability of the published table given a table."""
        log_p = float(form.log_weight(self.base, x)[self.groups < 0].sum())
        for group, largest in enumerate(self.largest):
            (cells,) = np.nonzero(self.groups == group)
            steps = (np.arange(-largest, largest + 1) + self.offset[cells, None]) // self.sizes[group]
            of_group = CensoredNoise(form.rate, form.is_exact[cells], form.is_censored[cells])
            log_p += logsumexp(of_group.log_weight(self.base[cells, None] + steps, x[cells, None]).sum(axis=0))
        return float(log_p)
