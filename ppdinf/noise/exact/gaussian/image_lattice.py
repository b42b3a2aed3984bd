"""Discrete Gaussian noise with mass proportional to exp(-|M z|^2 / 2 v) on a lattice, M an integer matrix.

The images M z are the points of another lattice, on which the noise is a spherical Gaussian. Klein's sampler draws it
exactly there (`ppdinf.noise.exact.gaussian.lattice_gaussian`). Coordinates in the basis are computed from an image by
solving, rounding and checking.

References
----------
C. Peikert, "An efficient and parallel Gaussian sampler for lattices", CRYPTO 2010. N. Higham, Accuracy and Stability of
Numerical Algorithms (SIAM, 2002), chapter 19.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice.algebra.systems import MatrixLike
from ppdinf.noise.exact.gaussian.klein import UNIT, Klein
from ppdinf.noise.exact.gaussian.lattice_gaussian import draw_gaussian

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream

LARGEST_LOSS = 0.01  # largest loss of acceptance by rounding


class ImageLattice:
    """A lattice with the norm |M z|."""

    def __init__(self, basis: MatrixLike, matrix: NDArray[np.int64]) -> None:
        self.basis = sparse.csc_array(basis)
        self.image = (sparse.csr_array(matrix) @ self.basis).toarray()
        triangle = np.linalg.qr(self.image.astype(float), mode="r")
        self.lengths = np.abs(np.diag(triangle))
        self._triangle = triangle * np.sign(np.diag(triangle))[:, np.newaxis]
        if not self.lengths.all():
            raise InvariantError("the variance of the noise is 0 in some direction of the lattice")

    @property
    def longest(self) -> float:
        """Length of the longest orthogonal part of the basis."""
        return float(self.lengths.max()) * (1 + 1e-9)

    @cached_property
    def klein(self) -> Klein:
        """The lattice of images with its orthogonal parts, like the result of `gram_schmidt.klein`."""
        inverse = np.linalg.inv(self._triangle)
        condition = self.image.size * np.linalg.norm(self._triangle) * np.linalg.norm(inverse)
        rounding = 16 * UNIT * (1 + condition)
        if rounding * self.lengths.size > LARGEST_LOSS:
            raise InvariantError("the basis of this system is too ill-conditioned for the sequential sampler")
        mu = sparse.csr_array(np.triu(self._triangle, k=1) / self.lengths[:, np.newaxis])
        starts, columns = mu.indptr.astype(np.int64), mu.indices.astype(np.int64)
        squares = self.lengths**2 * (1 - rounding)
        return Klein(sparse.csr_array(self.image), squares, starts, columns, mu.data, rounding)

    def draw(self, variance: Fraction, size: int, stream: BitStream) -> NDArray[np.int64]:
        """Draw vectors of the lattice, int64 of shape (size, d)."""
        images = draw_gaussian(self.klein, variance, stream, size=size)
        solved = np.rint(np.linalg.lstsq(self.image.astype(float), images.T.astype(float), rcond=None)[0])
        x = solved.astype(np.int64)
        assert np.array_equal(self.image @ x, images.T), "coordinates are lost to rounding"
        z: NDArray[np.int64] = (self.basis @ x).T
        return z
