"""Independent noise on every bin of a histogram: a person changes two of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.counts.privatizers.base import Privatizer


class Independent(Privatizer):
    """Double geometric noise with rate epsilon / 2 on every bin."""

    def sums(self, n: int) -> sparse.csc_array:
        """Return the identity matrix: every bin is published."""
        return sparse.csc_array(sparse.eye_array(n, dtype=np.int64))

    def rate(self, n: int, epsilon: Fraction) -> Fraction:
        """Return the rate of the noise: a person changes two bins by one each."""
        return epsilon / 2

    def estimate(self, measured: NDArray[np.int64], n: int) -> NDArray[np.float64]:
        """Return the noisy bins."""
        return measured.astype(np.float64)
