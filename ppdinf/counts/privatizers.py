"""Privatized distributions of counts: integer noise on a histogram that a person shifts by one step.

One person more or less in a table moves one cell from one count to the next: the histogram loses one there and gains
one here, and its total, the number N of cells, is public. Each privatizer adds integer noise from exact samplers to
integer sums of the histogram; what becomes of the noisy numbers afterwards is post-processing.

- *cyclic Laplace*: ``h_i + L_i - L_(i+1)`` around a cycle, L double geometric with rate epsilon. A person's step is one
  unit of one L (Kohli and Laskowski, Theorem 1, on the integers).
- *cyclic Gaussian*: the same with discrete Gaussian L, sigma from the exact (epsilon, delta) of a shift by one.
- *independent Laplace*: rate epsilon / 2 on every bin.
- *Privelet*: noise on the differences between the left and the right half of every dyadic interval (Haar wavelets). A
  person changes the difference of the smallest interval that holds both counts by 2, and one of each length below in
  either half by 1: 2 log2(n) in all at most, the total being public.
- *hierarchical*: noise on the sums of all intervals of a tree with 16 branches, of which a person changes two on each
  level; then weighted averaging upwards and mean consistency downwards.

X. Xiao, G. Wang, J. Gehrke, "Differential privacy via wavelet transforms", IEEE TKDE 23, 2011.
M. Hay, V. Rastogi, G. Miklau, D. Suciu, "Boosting the accuracy of differentially private histograms", VLDB 2010.
W. Qardaji, W. Yang, N. Li, "Understanding hierarchical methods for differentially private histograms", VLDB 2013.
N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms", Section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ppdinf.counts.unfixed import gaussian_sigma
from ppdinf.errors import PrivacyError
from ppdinf.mechanisms.postprocessing.simplex import onto_simplices
from ppdinf.noise.bits.integers import discrete_gaussian, discrete_laplace
from ppdinf.noise.bits.tape import Tape
from ppdinf.rationals import as_fraction

__all__ = ["POSTPROCESSING", "PRIVATIZERS", "noisy_histogram", "to_distribution"]

BRANCHES = 16

type Privatizer = Literal["cyclic-laplace", "cyclic-gaussian", "laplace", "privelet", "hierarchical"]
type Postprocessing = Literal["simplex", "clip"]


def noisy_histogram(
    histogram: Any, epsilon: Any, tape: Tape, privatizer: Privatizer = "cyclic-laplace", *, delta: Any = None
) -> NDArray[np.float64]:
    """Draw a noisy histogram.

    Parameters
    ----------
    histogram : array_like of int, shape (n,)
        Number of cells that hold each count.
    epsilon : int, float, str or Fraction
        Privacy loss between tables that differ by one person, present or absent.
    tape : Tape
        `ppdinf.noise.bits.tape.secure_tape` for releases, `seeded_tape` for research.
    privatizer : {"cyclic-laplace", "cyclic-gaussian", "laplace", "privelet", "hierarchical"}
    delta : int, float, str or Fraction, optional
        For "cyclic-gaussian", which needs it, and no other.

    Returns
    -------
    ndarray of float64, shape (n,)
        Whole numbers but for the last two, which estimate the histogram from noisy sums; they may be negative.

    Raises
    ------
    PrivacyError
        An unknown privatizer; a delta where none belongs.

    Examples
    --------
    >>> from ppdinf.noise.bits.tape import seeded_tape
    >>> noisy_histogram([50, 30, 20, 0], epsilon=1, tape=seeded_tape(1))
    array([48., 33., 17.,  2.])
    """
    if privatizer not in PRIVATIZERS:
        raise PrivacyError(f"privatizer must be one of {list(PRIVATIZERS)}, found {privatizer!r}")
    if (privatizer == "cyclic-gaussian") != (delta is not None):
        raise PrivacyError("delta belongs to the cyclic Gaussian privatizer, which needs it, and to no other")
    exact = as_fraction(epsilon, "epsilon")
    counts = np.asarray(histogram, dtype=np.int64)
    if delta is not None:
        sigma = Fraction(gaussian_sigma(exact, as_fraction(delta, "delta"))).limit_denominator(10**6)
        return _cyclic(counts, discrete_gaussian((sigma + Fraction(1, 10**6)) ** 2, counts.size, tape))
    return _PURE[privatizer](counts, exact, tape)


def to_distribution(noisy: Any, postprocessing: Postprocessing = "simplex") -> NDArray[np.float64]:
    """Turn a noisy histogram into a distribution: the nearest one, or clipped at 0 and divided by the sum.

    Parameters
    ----------
    noisy : array_like of float, shape (n,)
    postprocessing : {"simplex", "clip"}
        Euclidean projection of ``noisy / sum``, or what the paper's authors do.

    Returns
    -------
    ndarray of float64, shape (n,)
        The uniform distribution where clipping leaves nothing.

    Examples
    --------
    >>> to_distribution([6, 5, -1]), to_distribution([6, 5, -1], "clip").round(3)
    (array([0.55, 0.45, 0.  ]), array([0.545, 0.455, 0.   ]))
    """
    found = np.asarray(noisy, dtype=np.float64)
    if postprocessing == "clip":
        clipped = np.maximum(found, 0)
        return clipped / clipped.sum() if clipped.sum() > 0 else np.full(found.size, 1 / found.size)
    if postprocessing != "simplex":
        raise PrivacyError(f"postprocessing must be one of {list(POSTPROCESSING)}, found {postprocessing!r}")
    total = max(found.sum(), 1.0)
    nearest = np.maximum(onto_simplices(found / total, np.zeros(found.size, dtype=np.int64), [1.0]), 0)  # rounding
    return nearest / nearest.sum()


def _cyclic(counts: NDArray[np.int64], around: NDArray[np.int64]) -> NDArray[np.float64]:
    return (counts + around - np.roll(around, -1)).astype(np.float64)


def _cyclic_laplace(counts: NDArray[np.int64], epsilon: Fraction, tape: Tape) -> NDArray[np.float64]:
    return _cyclic(counts, discrete_laplace(epsilon, counts.size, tape))


def _independent(counts: NDArray[np.int64], epsilon: Fraction, tape: Tape) -> NDArray[np.float64]:
    return (counts + discrete_laplace(epsilon / 2, counts.size, tape)).astype(np.float64)


def _privelet(counts: NDArray[np.int64], epsilon: Fraction, tape: Tape) -> NDArray[np.float64]:
    levels = max(1, (counts.size - 1).bit_length())
    leaves = np.zeros(2**levels, dtype=np.int64)
    leaves[: counts.size] = counts
    sums = np.array([float(leaves.sum())])
    for level in range(levels):
        halves = leaves.reshape(2 ** (level + 1), -1).sum(axis=1)
        difference = halves[::2] - halves[1::2] + discrete_laplace(epsilon / (2 * levels), 2**level, tape)
        sums = np.stack([sums + difference, sums - difference], axis=1).ravel() / 2
    return sums[: counts.size]


def _hierarchical(counts: NDArray[np.int64], epsilon: Fraction, tape: Tape) -> NDArray[np.float64]:
    levels = 1
    while BRANCHES**levels < counts.size:
        levels += 1
    leaves = np.zeros(BRANCHES**levels, dtype=np.int64)
    leaves[: counts.size] = counts
    noisy = [np.array([float(leaves.sum())])]
    for level in range(1, levels + 1):
        exact = leaves.reshape(BRANCHES**level, -1).sum(axis=1)
        noisy.append(exact + discrete_laplace(epsilon / (2 * levels), exact.size, tape).astype(np.float64))
    # Weighted averaging upwards: a node's own noisy sum against its children's.
    averaged = [noisy[-1]]
    for height, own in enumerate(noisy[-2:0:-1], start=2):
        b, a = float(BRANCHES**height), float(BRANCHES ** (height - 1))
        children = averaged[0].reshape(own.size, BRANCHES).sum(axis=1)
        averaged.insert(0, (b - a) / (b - 1) * own + (a - 1) / (b - 1) * children)
    # Mean consistency downwards, from the total, which is public.
    parent = noisy[0]
    for own in averaged:
        missing = parent - own.reshape(parent.size, BRANCHES).sum(axis=1)
        parent = own + np.repeat(missing / BRANCHES, BRANCHES)
    return parent[: counts.size]


_PURE: dict[str, Callable[[NDArray[np.int64], Fraction, Tape], NDArray[np.float64]]] = {
    "cyclic-laplace": _cyclic_laplace,
    "laplace": _independent,
    "privelet": _privelet,
    "hierarchical": _hierarchical,
}

PRIVATIZERS = (*_PURE, "cyclic-gaussian")
POSTPROCESSING = ("simplex", "clip")
