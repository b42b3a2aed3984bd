"""Noise for a histogram of counts, one method per file.

Rule: sums are measured with integer noise from secure words; post-processing is named in the output.

base                     The base class of privatizers: sums of a histogram, their noise, and its law.
cyclic_privatizer        Noise around a cycle of counts: ``h_i + L_i - L_(i+1)``.
hierarchical_privatizer  Noise on the sums of all intervals of a tree with 16 branches.
independent_privatizer   Independent noise on every bin of a histogram.
privelet_privatizer      Privelet: noise on differences of halves of dyadic intervals (Haar wavelets).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf._internal.arrays import numbers
from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf.counts.privatizers.base import Privatizer
from ppdinf.counts.privatizers.cyclic_privatizer import CyclicLaplace, cyclic_gaussian
from ppdinf.counts.privatizers.hierarchical_privatizer import Hierarchical
from ppdinf.counts.privatizers.independent_privatizer import Independent
from ppdinf.counts.privatizers.privelet_privatizer import Privelet
from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives.stream import BitStream

__all__ = ["PRIVATIZERS", "PURE", "noisy_histogram"]

PURE: dict[str, Privatizer] = {
    "cyclic-laplace": CyclicLaplace(),
    "laplace": Independent(),
    "privelet": Privelet(),
    "hierarchical": Hierarchical(),
}
PRIVATIZERS = (*PURE, "cyclic-gaussian")

type Name = Literal["cyclic-laplace", "cyclic-gaussian", "laplace", "privelet", "hierarchical"]


def noisy_histogram(
    histogram: ArrayLike,
    epsilon: Parameter,
    stream: BitStream,
    privatizer: Name = "cyclic-laplace",
    *,
    delta: Parameter | None = None,
) -> NDArray[np.float64]:
    """Draw a noisy histogram.

    Parameters
    ----------
    histogram : array_like of int, shape (n,)
        Number of cells with each count.
    epsilon : int, float, str or Fraction
        Privacy loss between tables that differ by one person, present or absent.
    stream : BitStream
        `ppdinf.noise.primitives.stream.secure_stream` for releases, `seeded_stream` for research.
    privatizer : {"cyclic-laplace", "cyclic-gaussian", "laplace", "privelet", "hierarchical"}
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
    if privatizer not in PRIVATIZERS:
        raise PrivacyError(f"privatizer must be one of {list(PRIVATIZERS)}, found {privatizer!r}")
    if (privatizer == "cyclic-gaussian") != (delta is not None):
        raise PrivacyError("delta is required for the privatizer 'cyclic-gaussian' and not allowed for others")
    exact = as_fraction(epsilon, "epsilon")
    counts = numbers(histogram, "histogram", integer=True)
    if delta is not None:
        return cyclic_gaussian(counts, exact, as_fraction(delta, "delta"), stream).astype(np.float64)
    found = PURE[privatizer]
    return found.estimate(found.measure(counts, exact, stream), counts.size)
