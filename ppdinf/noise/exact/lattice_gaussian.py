"""Exact discrete Gaussian noise on any lattice, and on the image of the integers under a matrix.

References
----------
C. Peikert, "An efficient and parallel Gaussian sampler for lattices", CRYPTO 2010.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Flags, Integers
from ppdinf.errors import InvariantError
from ppdinf.lattice.blocks import Structure
from ppdinf.lattice.systems import MatrixLike
from ppdinf.laws import DiscreteGaussian, Law
from ppdinf.noise.exact.klein import UNIT, Klein
from ppdinf.noise.exact.klein import klein as klein_of
from ppdinf.noise.exact.sampler_offer import Answer, Declined, Offer, is_one_block
from ppdinf.noise.primitives.enclosures import BATCH, draw_accepted, draw_bernoulli
from ppdinf.noise.primitives.integers import positive_fraction
from ppdinf.noise.primitives.stream import BitStream, seeded_stream

PILOT = 2**8  # proposals of the pilot run that estimates the acceptance rate
LEAST = 0.1  # joint acceptance rate below which blocks are drawn one by one
HOPELESS = 1e-5  # acceptance rate below which a block is declined
LARGEST_LOSS = 0.01  # largest loss of acceptance by rounding


def offer(structure: Structure, law: Law, cells: Integers) -> Answer:
    """Offer to draw cells together if the acceptance rate is high enough."""
    if not isinstance(law, DiscreteGaussian):
        return None
    try:
        basis = klein_of(*structure.restricted(cells))
    except InvariantError as error:
        return Declined(partial(str, error))
    smallest = HOPELESS if is_one_block(structure, cells) else LEAST
    acceptance = gaussian_acceptance(basis, law.variance)
    if acceptance < smallest:

        def narrow() -> str:
            workable = widened(
                float(law.sigma), lambda sigma: gaussian_acceptance(basis, Fraction(sigma) ** 2) / smallest
            )
            return too_narrow(acceptance, f"sigma = {workable:.2g}")

        return Declined(narrow, acceptance / smallest)

    def draw(size: int, stream: BitStream) -> Integers:
        return draw_gaussian(basis, law.variance, stream, size=size)

    return Offer("Klein", cells, lambda: draw, acceptance)


def widened(scale: float, near: Callable[[float], float]) -> float:
    """Return the factor, at least 1, by which the noise must be widened to be accepted; accurate to a few percent."""
    low = high = scale
    while near(high) < 1:
        low, high = high, 2 * high
    for _ in range(4):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if near(middle) < 1 else (low, middle)
    return 1.05 * high  # robust to rounding to two digits


def too_narrow(acceptance: float, workable: str) -> str:
    """Return a clause with the acceptance rate and the smallest noise that can be drawn."""
    return (
        "the noise is narrow compared with the vectors of this lattice: the acceptance rate is about "
        f"{acceptance:.0e}; noise from about {workable} can be drawn"
    )


def draw_gaussian(klein: Klein, sigma_squared: Fraction, stream: BitStream, *, size: int = 1) -> Integers:
    """Draw from the discrete Gaussian on a lattice exactly."""
    sigma_squared = positive_fraction("sigma_squared", sigma_squared)
    d, m = klein.basis.shape

    def attempt(rows: int) -> tuple[Integers, Flags]:
        proposals = klein.propose([sigma_squared] * rows, stream)
        return proposals.z, draw_bernoulli(*proposals.log_keep(), proposals.enclose_keep, stream)

    return draw_accepted((size, d), m, attempt)


def gaussian_acceptance(klein: Klein, sigma_squared: Fraction) -> float:
    """Estimate the acceptance rate of `draw_gaussian` from a few hundred seeded proposals."""
    size = max(8, min(PILOT, BATCH // max(klein.squares.size, 1)))
    proposals = klein.propose([positive_fraction("sigma_squared", sigma_squared)] * size, seeded_stream(0))
    return float(np.exp(proposals.log_keep()[0]).mean())


class ImageLattice:
    """A lattice with the norm |M z|."""

    def __init__(self, basis: MatrixLike, matrix: Integers) -> None:
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

    def draw(self, variance: Fraction, size: int, stream: BitStream) -> Integers:
        """Draw vectors of the lattice, int64 of shape (size, d)."""
        images = draw_gaussian(self.klein, variance, stream, size=size)
        solved = np.rint(np.linalg.lstsq(self.image.astype(float), images.T.astype(float), rcond=None)[0])
        x = solved.astype(np.int64)
        assert np.array_equal(self.image @ x, images.T), "coordinates are lost to rounding"
        return (self.basis @ x).T
