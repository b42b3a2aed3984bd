"""Noise for a histogram of counts: privatizers measure sums of a histogram, and estimate the histogram from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Integers, Reals, numbers, require_choice
from ppdinf.errors import PrivacyError
from ppdinf.laws.likelihood import HistogramNoise
from ppdinf.noise.primitives.integers import draw_discrete_gaussian, draw_discrete_laplace
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.privacy.gaussian_calibration import discrete_gaussian_sigma

type Changes = tuple[Integers, sparse.csc_array]


class Privatizer(ABC):
    """Integer sums of a histogram, measured with double geometric noise of one rate."""

    includes_total: ClassVar[bool] = False

    @abstractmethod
    def changes(self, n: int) -> Changes:
        """Return the sums of a cell with count 0, shape (k,), and their changes by one person, shape (k, n - 1)."""

    @abstractmethod
    def rate(self, n: int, epsilon: Fraction) -> Fraction:
        """Return the rate of the noise at which a step of one person has privacy loss at most epsilon."""

    def estimate(self, measured: Integers, n: int) -> Reals:
        """Estimate the histogram from its noisy sums, shape (n,); by default, these are the noisy bins."""
        return measured.astype(np.float64)

    def measure(self, histogram: Integers, epsilon: Fraction, stream: BitStream) -> Integers:
        """Draw the noisy sums of a histogram, which are published."""
        lowest, steps = _changes(self, histogram.size)
        measured = lowest * histogram.sum() + steps @ np.cumsum(histogram[:0:-1])[::-1]
        noisy = measured[self.includes_total :]
        noisy += draw_discrete_laplace(self.rate(histogram.size, epsilon), noisy.size, stream)
        return measured

    def size(self, n: int) -> int:
        """Return the number of noisy sums of a histogram of n counts."""
        return int(_changes(self, n)[0].size)

    def cells(self, measured: Integers) -> int | None:
        """Return the number of cells if the noisy sums include it, otherwise None."""
        return int(measured[0]) if self.includes_total else None

    def noise(self, measured: Integers, n: int, epsilon: Fraction) -> HistogramNoise:
        """Return the law of the noisy sums given a table."""
        return HistogramNoise(measured, *_changes(self, n), float(self.rate(n, epsilon)))


@lru_cache(maxsize=8)
def _changes(privatizer: Privatizer, n: int) -> Changes:
    return privatizer.changes(n)


def _of_sums(matrix: sparse.sparray) -> Changes:
    """Return the changes of the sums of a histogram with this matrix, shape (k, n)."""
    sums = sparse.csc_array(matrix, dtype=np.int64)
    steps = sparse.csc_array(sums[:, 1:] - sums[:, :-1])
    steps.eliminate_zeros()
    return sums[:, [0]].toarray().ravel(), steps


class Cumulative(Privatizer):
    """Double geometric noise on the numbers of cells below 1, 2, ..., n - 1; the number of all cells is first."""

    includes_total = True

    def changes(self, n: int) -> Changes:
        """Return that a cell that reaches i is no longer below i; the other numbers do not change."""
        return np.ones(n, dtype=np.int64), -sparse.csc_array(sparse.eye_array(n, n - 1, k=-1, dtype=np.int64))

    def rate(self, n: int, epsilon: Fraction) -> Fraction:
        """Return the rate of the noise: a person changes one of the numbers by one."""
        return epsilon

    def estimate(self, measured: Integers, n: int) -> Reals:
        """Return the differences of the noisy numbers of cells, from 0 to all cells."""
        return np.diff(np.append(measured[1:], measured[0]), prepend=0).astype(np.float64)


class CyclicLaplace(Cumulative):
    """Double geometric noise around a cycle; the noisy histogram is published."""

    includes_total = False
    estimate = Privatizer.estimate

    def measure(self, histogram: Integers, epsilon: Fraction, stream: BitStream) -> Integers:
        """Draw a noisy histogram with the same total."""
        return _around(histogram, draw_discrete_laplace(epsilon, histogram.size, stream))

    def cells(self, measured: Integers) -> int | None:
        """Return the number of cells, the sum of the bins, which noise around a cycle preserves."""
        return int(measured.sum())

    def noise(self, measured: Integers, n: int, epsilon: Fraction) -> HistogramNoise:
        """Return the law of the noisy numbers of cells below each count, with noise ``L_0 - L_i``."""
        lowest, steps = _changes(self, n)
        lowest = np.append(0, lowest[1:])  # no cell is below 0
        return HistogramNoise(np.cumsum(measured) - measured, lowest, steps, float(epsilon), shifted=True)


def _around(histogram: Integers, noise: Integers) -> Integers:
    return histogram + noise - np.roll(noise, -1)


BRANCHES = 16


class Hierarchical(Privatizer):
    """Double geometric noise on the sums of the intervals of a tree; the total is first."""

    includes_total = True

    def changes(self, n: int) -> Changes:
        """Return the changes of the sums over the tree's intervals, level by level from the root."""
        levels, leaf = _levels_of_tree(n), np.arange(n)
        parts = [
            sparse.csc_array(
                (np.ones(n, dtype=np.int64), (leaf // BRANCHES ** (levels - level), leaf)), shape=(BRANCHES**level, n)
            )
            for level in range(levels + 1)
        ]
        return _of_sums(sparse.vstack(parts))

    def rate(self, n: int, epsilon: Fraction) -> Fraction:
        """Return the rate of the noise: a person changes two sums on each level by one."""
        return epsilon / (2 * _levels_of_tree(n))

    def estimate(self, measured: Integers, n: int) -> Reals:
        """Average upwards, then make the sums consistent downwards."""
        sizes = BRANCHES ** np.arange(_levels_of_tree(n) + 1)
        levels = np.split(measured.astype(np.float64), np.cumsum(sizes)[:-1])
        averaged = [levels[-1]]
        for height, sums in enumerate(levels[-2:0:-1], start=2):
            b, a = float(BRANCHES**height), float(BRANCHES ** (height - 1))
            children = averaged[0].reshape(sums.size, BRANCHES).sum(axis=1)
            averaged.insert(0, (b - a) / (b - 1) * sums + (a - 1) / (b - 1) * children)
        parent = levels[0]
        for sums in averaged:
            missing = parent - sums.reshape(parent.size, BRANCHES).sum(axis=1)
            parent = sums + np.repeat(missing / BRANCHES, BRANCHES)
        return parent[:n]


def _levels_of_tree(n: int) -> int:
    levels = 1
    while BRANCHES**levels < n:
        levels += 1
    return levels


class Independent(Privatizer):
    """Double geometric noise with rate epsilon / 2 on every bin."""

    def changes(self, n: int) -> Changes:
        """Return the changes of all bins."""
        return _of_sums(sparse.eye_array(n))

    def rate(self, n: int, epsilon: Fraction) -> Fraction:
        """Return the rate of the noise: a person changes two bins by one each."""
        return epsilon / 2


class Privelet(Privatizer):
    """Double geometric noise on the total and on the differences between the halves of dyadic intervals."""

    includes_total = True

    def changes(self, n: int) -> Changes:
        """Return the changes of the total, then of left half minus right half of intervals, longest first."""
        levels, leaf = _halvings(n), np.arange(n)
        parts = [np.ones((1, n), dtype=np.int64)]
        for level in range(levels):
            length = 2 ** (levels - level)
            sign = np.where(leaf % length < length // 2, 1, -1)
            parts.append(sparse.csc_array((sign, (leaf // length, leaf)), shape=(2**level, n)))
        return _of_sums(sparse.vstack(parts))

    def rate(self, n: int, epsilon: Fraction) -> Fraction:
        """Return the rate of the noise: a person changes the differences by 2 log2(n) in total."""
        return epsilon / (2 * _halvings(n))

    def estimate(self, measured: Integers, n: int) -> Reals:
        """Compute each half from the interval's sum and difference, from the total down."""
        bins = measured[:1].astype(np.float64)
        for level in range(_halvings(n)):
            difference = measured[2**level : 2 ** (level + 1)]
            bins = np.stack([bins + difference, bins - difference], axis=1).ravel() / 2
        return bins[:n]


def _halvings(n: int) -> int:
    return max(1, (n - 1).bit_length())


PURE: dict[str, Privatizer] = {
    "cumulative": Cumulative(),
    "cyclic-laplace": CyclicLaplace(),
    "laplace": Independent(),
    "privelet": Privelet(),
    "hierarchical": Hierarchical(),
}
PRIVATIZERS = (*PURE, "cyclic-gaussian")

type Name = Literal["cumulative", "cyclic-laplace", "cyclic-gaussian", "laplace", "privelet", "hierarchical"]


def noisy_histogram(
    histogram: ArrayLike,
    epsilon: Parameter,
    stream: BitStream,
    privatizer: Name = "cyclic-laplace",
    *,
    delta: Parameter | None = None,
) -> Reals:
    """Draw a noisy histogram.

    Parameters
    ----------
    histogram : array_like of int, shape (n,)
        Number of cells with each count.
    epsilon : int, float, str or Fraction
        Privacy loss between tables that differ by one person, present or absent.
    stream : BitStream
        `ppdinf.noise.primitives.stream.secure_stream` for releases, `seeded_stream` for research.
    privatizer : {"cumulative", "cyclic-laplace", "cyclic-gaussian", "laplace", "privelet", "hierarchical"}
        "cumulative" adds noise to the numbers of cells with at most 0, 1, 2, ... persons. One person changes one of
        them by one, so the noise does not depend on n. The number of cells is public.
    delta : int, float, str or Fraction, optional
        Required for "cyclic-gaussian", not allowed for others.

    Returns
    -------
    ndarray of float64, shape (n,)
        Integers, except for "privelet" and "hierarchical", which estimate the histogram from noisy sums. Entries may be
        negative.

    Raises
    ------
    PrivacyError
        The privatizer is unknown, or delta is missing or not allowed.

    See Also
    --------
    ppdinf.counts.histogram, ppdinf.counts.TwoStage

    Examples
    --------
    >>> from ppdinf.counts import noisy_histogram
    >>> from ppdinf.noise.primitives.stream import seeded_stream
    >>> noisy_histogram([50, 30, 20, 0], epsilon=1, stream=seeded_stream(1))
    array([48., 33., 17.,  2.])
    """
    require_choice("privatizer", privatizer, PRIVATIZERS)
    if (privatizer == "cyclic-gaussian") != (delta is not None):
        raise PrivacyError("delta is required for the privatizer 'cyclic-gaussian' and not allowed for others")
    exact = as_fraction(epsilon, "epsilon")
    counts = numbers(histogram, "histogram", integer=True)
    if delta is not None:
        # discrete Gaussian noise around a cycle, (epsilon, delta) for a shift by one
        sigma = Fraction(discrete_gaussian_sigma(exact, as_fraction(delta, "delta"))).limit_denominator(10**6)
        noise = draw_discrete_gaussian((sigma + Fraction(1, 10**6)) ** 2, counts.size, stream)
        return _around(counts, noise).astype(np.float64)
    method = PURE[privatizer]
    return method.estimate(method.measure(counts, exact, stream), counts.size)
