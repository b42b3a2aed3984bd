"""From a noisy histogram, with negative numbers and a wrong total, to a distribution of counts."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf._internal.arrays import numbers
from ppdinf.errors import PrivacyError
from ppdinf.mechanisms.postprocessing.simplex import onto_simplices

POSTPROCESSING = ("simplex", "clip")

type Postprocessing = Literal["simplex", "clip"]


def to_distribution(noisy: ArrayLike, postprocessing: Postprocessing = "simplex") -> NDArray[np.float64]:
    """Convert a noisy histogram to a distribution: the nearest one, or clipped at 0 and divided by the sum.

    Parameters
    ----------
    noisy : array_like of float, shape (n,)
    postprocessing : {"simplex", "clip"}
        Euclidean projection of ``noisy / sum``, or the clipping of the paper's authors.

    Returns
    -------
    ndarray of float64, shape (n,)
        The distribution; it is uniform if all clipped entries are 0.

    See Also
    --------
    ppdinf.counts.histogram, ppdinf.counts.total_variation

    Examples
    --------
    >>> from ppdinf.counts import to_distribution
    >>> to_distribution([6, 5, -1]), to_distribution([6, 5, -1], "clip").round(3)
    (array([0.55, 0.45, 0.  ]), array([0.545, 0.455, 0.   ]))
    """
    found = numbers(noisy, "noisy")
    if postprocessing == "clip":
        clipped = np.maximum(found, 0)
        return clipped / clipped.sum() if clipped.sum() > 0 else np.full(found.size, 1 / found.size)
    if postprocessing != "simplex":
        raise PrivacyError(f"postprocessing must be one of {list(POSTPROCESSING)}, found {postprocessing!r}")
    total = max(found.sum(), 1.0)
    nearest = np.maximum(onto_simplices(found / total, np.zeros(found.size, dtype=np.int64), [1.0]), 0)  # rounding
    out: NDArray[np.float64] = nearest / nearest.sum()
    return out
