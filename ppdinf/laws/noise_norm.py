"""Noise whose log density is minus a norm of a linear image: -|G z|_1, -|G z|_2^2 / 2 or -|G z|_inf.

Examples are Laplace noise in a basis (l1), Gaussian noise of any covariance (l2) and K-norm noise (linf, where the
rows of G are the facets of K). Cells are not independent unless G is a multiple of the identity matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Symbolic, assign


@dataclass(frozen=True, eq=False)
class NoiseNorm:
    """A log density of noise that is minus a norm of the noise.

    The log density of noise z, without its normaliser, is minus a norm of ``matrix @ z``.

    Attributes
    ----------
    matrix : scipy.sparse.csc_array of float64, shape (k, d)
        A matrix without rows is replaced by one row of zeros.
    order : {1, 2, inf}
        Order of the norm; 2 stands for half of the squared norm.

    See Also
    --------
    ppdinf.KNorm

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from ppdinf.laws import NoiseNorm
    >>> NoiseNorm(sparse.csc_array([[1.0, 1.0], [1.0, -1.0]]), np.inf).log_density(np.array([3.0, -2.0]))
    -5.0
    """

    matrix: sparse.csc_array
    order: float

    def __post_init__(self) -> None:
        # without noise: the norm of a row of zeros is 0, but an empty maximum is undefined
        if not self.matrix.shape[0]:
            assign(self, matrix=sparse.csc_array((1, self.matrix.shape[1])))

    def log_density(self, z: Symbolic) -> float:
        """Return the log density of one vector, shape (d,)."""
        return float(self.of(self.matrix @ z))

    def of(self, image: Symbolic) -> Symbolic:
        """Return the log density given ``matrix @ z``, shape (k,); NumPy or PyTensor."""
        if self.order == 2:
            return -0.5 * (image**2).sum()
        return -abs(image).sum() if self.order == 1 else -abs(image).max()

    def image(self, z: Symbolic) -> Symbolic:
        """Return ``matrix @ z`` for a vector, shape (d,); NumPy or PyTensor."""
        return self.matrix.toarray() @ z

    @cached_property
    def factor(self) -> float | None:
        """The scalar c if G is c times the identity matrix, otherwise None."""
        k, d = self.matrix.shape
        diagonal = k == d == self.matrix.nnz and bool(np.all(self.matrix.indices == np.arange(d)))
        return float(self.matrix.data[0]) if diagonal and d and not np.ptp(self.matrix.data) else None

    @property
    def log_total(self) -> float:
        """Log of the integral of the weight of one cell, if G is a multiple of the identity matrix."""
        assert self.factor is not None, "cells have weights"
        return math.log((2 if self.order == 1 else math.sqrt(2 * math.pi)) / self.factor)

    def log_total_of_sum(self, cells: int) -> float:
        """Return the log of the integral of the weight of Gaussian noise of several cells with the sum 0."""
        return (cells - 1) * self.log_total

    def log_weight(self, z: Symbolic) -> Symbolic:
        """Return the log density of every cell if G is a multiple of the identity matrix; NumPy or PyTensor."""
        return -abs(self.factor * z) if self.order == 1 else -0.5 * (self.factor * z) ** 2
