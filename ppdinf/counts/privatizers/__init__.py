"""Privatized histograms of counts: integer noise on sums of a histogram that a person shifts by one step.

One person more or less in a table moves one cell from one count to the next: the histogram loses one there and gains
one here, and its total, the number N of cells, is public. What becomes of the noisy sums is post-processing.

- `cyclic`: noise around a cycle of counts, double geometric or discrete Gaussian
- `independent`: noise on every bin
- `privelet`: noise on differences between halves of intervals (Haar wavelets)
- `hierarchical`: noise on the sums of a tree of intervals
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ppdinf.counts.privatizers.base import Privatizer
from ppdinf.counts.privatizers.cyclic import CyclicLaplace, cyclic_gaussian
from ppdinf.counts.privatizers.hierarchical import Hierarchical
from ppdinf.counts.privatizers.independent import Independent
from ppdinf.counts.privatizers.privelet import Privelet
from ppdinf.errors import PrivacyError
from ppdinf.noise.bits.tape import Tape
from ppdinf.rationals import as_fraction

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
    histogram: Any, epsilon: Any, tape: Tape, privatizer: Name = "cyclic-laplace", *, delta: Any = None
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
        return cyclic_gaussian(counts, exact, as_fraction(delta, "delta"), tape).astype(np.float64)
    found = PURE[privatizer]
    return found.estimate(found.measure(counts, exact, tape), counts.size)
