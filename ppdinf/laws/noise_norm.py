"""Noise whose log density is minus a norm of a linear image: -|G z|_1, -|G z|_2^2 / 2 or -|G z|_inf.

Laplace noise in a basis (l1), Gaussian noise of any covariance (l2) and K-norm noise (linf, the rows of G being the
faces of K) are of this kind. Where G is no multiple of the identity matrix, cells are not independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from ppdinf._internal.frozen import assign
from ppdinf._internal.types import Symbolic

__all__ = ["NoiseNorm"]


@dataclass(frozen=True, eq=False)
class NoiseNorm:
    """The log density of noise z, normaliser dropped, as minus a norm of ``matrix @ z``.

    Attributes
    ----------
    matrix : scipy.sparse.csc_array of float64, shape (k, d)
        Of at least one row: none is read as a row of zeros.
    order : {1, 2, inf}
        Of the norm; 2 stands for half its square.

    Examples
    --------
    >>> NoiseNorm(sparse.csc_array([[1.0, 1.0], [1.0, -1.0]]), np.inf).log_density(np.array([3.0, -2.0]))
    -5.0
    """

    matrix: sparse.csc_array
    order: float

    def __post_init__(self) -> None:
        if not self.matrix.shape[0]:  # no noise: a row of zeros has the norm 0, the maximum of no rows is none
            assign(self, matrix=sparse.csc_array((1, self.matrix.shape[1])))

    def log_density(self, z: Symbolic) -> float:
        """Log density at one vector, shape (d,)."""
        return float(self.of(self.matrix @ z))

    def of(self, image: Symbolic) -> Symbolic:
        """Log density given ``matrix @ z``, shape (k,); NumPy or PyTensor."""
        if self.order == 2:
            return -0.5 * (image**2).sum()
        return -abs(image).sum() if self.order == 1 else -abs(image).max()

    def image(self, z: Symbolic) -> Symbolic:
        """``matrix @ z`` of a vector, shape (d,); NumPy or PyTensor."""
        return self.matrix.toarray() @ z

    @cached_property
    def factor(self) -> float | None:
        """The number of which times the identity matrix G is; None where it is no multiple."""
        k, d = self.matrix.shape
        diagonal = k == d == self.matrix.nnz and bool(np.all(self.matrix.indices == np.arange(d)))
        return float(self.matrix.data[0]) if diagonal and d and not np.ptp(self.matrix.data) else None

    def log_weight(self, z: Symbolic) -> Symbolic:
        """Log density of every cell, where G is a multiple of the identity matrix; NumPy or PyTensor."""
        return -abs(self.factor * z) if self.order == 1 else -0.5 * (self.factor * z) ** 2
