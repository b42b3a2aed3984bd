"""Independent noise on every bin of a histogram: a person changes two of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.counts.privatizers.base import Privatizer

__all__ = ["Independent"]


class Independent(Privatizer):
    """Double geometric noise with rate epsilon / 2 on every bin."""

    def sums(self, n: int) -> sparse.csc_array:
        """Publish every bin."""
        return sparse.csc_array(sparse.eye_array(n, dtype=np.int64))

    def rate(self, n: int, epsilon: Fraction) -> Fraction:
        """Rate of the noise: a person changes two bins by one each."""
        return epsilon / 2

    def estimate(self, measured: NDArray[np.int64], n: int) -> NDArray[np.float64]:
        """Take the noisy bins as they are."""
        return measured.astype(np.float64)
