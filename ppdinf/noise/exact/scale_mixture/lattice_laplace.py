r"""Exact l1 noise on any lattice {A z = 0} with small rank of A.

The noise is a mixture over scales of the cells (`ppdinf.noise.exact.scale_mixture.mixture`). Scales are independent,
with exponents from the leverages of the cells (`ppdinf.noise.exact.scale_mixture.lattice_scales`). Noise is drawn on a
basis of short vectors that wide cells support (`ppdinf.noise.exact.scale_mixture.short_vectors`). The acceptance rate
decreases exponentially with the rank of A and only slightly with the number of cells. Examples are margins of three-way
tables, two-way tables with structural zeros, and weighted sums.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, fmpz_mat
from numpy.typing import NDArray

from ppdinf._internal.rationals import ball
from ppdinf.lattice.structure.blocks import Structure
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact.elimination import rejection
from ppdinf.noise.exact.scale_mixture.excess import END
from ppdinf.noise.exact.scale_mixture.klein_given_scales import Drawn, draw_on
from ppdinf.noise.exact.scale_mixture.lattice_scales import LeverageScales
from ppdinf.noise.exact.scale_mixture.leverages import Leverages, disjoint, independent_rows
from ppdinf.noise.exact.scale_mixture.mixture import ScaleMixture
from ppdinf.noise.exact.scale_mixture.short_vectors import ShortMoves
from ppdinf.noise.exact.scale_mixture.two_way_laplace import as_two_way_table
from ppdinf.noise.primitives.sampler_offer import Answer, Declined, Offer, is_one_block
from ppdinf.noise.primitives.stream import BitStream

LONGEST = 20.0  # longest time of a draw in seconds
PER_CELL = 2e-7  # seconds per attempt
PER_STEP = 1e-9  # seconds per multiplication
REJECTION = 5e-8  # seconds per cell and attempt of `ppdinf.noise.exact.elimination.rejection`
QUICK = 5e-3  # seconds per draw by rejection, fast enough to use it
PER_ROW = 0.2  # smallest decrease of the log acceptance rate per row of A
LARGEST_RANK = 300  # largest rank of the lattice
HIGHEST = Fraction(15, 16)  # largest leverage of a cell


def offer(structure: Structure, law: Law, cells: NDArray[np.int64]) -> Answer:
    """Offer to draw a block that is not a two-way table, if the acceptance rate is high and rejection is slower."""
    if not isinstance(law, DoubleGeometric) or not is_one_block(structure, cells):
        return None
    block = int(structure.blocks[cells[0]])
    if structure.partition[block] or as_two_way_table(structure, block) is not None:
        return None
    n = int(cells.size - structure.block_ranks[block])
    if structure.block_ranks[block] > LARGEST_RANK or PER_ROW * n > math.log(LONGEST / (PER_CELL * cells.size)):
        return None
    other = rejection.offer(structure, law, cells)
    seconds_of_rejection = REJECTION * cells.size / (other.acceptance or 1.0) if isinstance(other, Offer) else math.inf
    if seconds_of_rejection < QUICK:
        return None
    found = _prepared(structure, block, law.epsilon)
    seconds = found.seconds
    if seconds > LONGEST:
        reason = f"the acceptance rate of a mixture over scales would be about {found.mixture.acceptance:.0e}"
        return Declined(lambda: reason, LONGEST / seconds)
    if seconds_of_rejection < seconds:
        return None
    said = f"of crossing public sums, drawn in about {max(seconds, 1e-3):.1g} s"
    return Offer("scale mixture", cells, lambda: found.mixture.draw, found.mixture.acceptance, said)


class LatticeSystem:
    """A lattice in the form of the mixture over scales: one row of cells."""

    def __init__(self, A: NDArray[np.int64], basis: NDArray[np.int64]) -> None:
        self.leverages = Leverages(A[independent_rows(A)])
        rows = np.unique(A[A.any(axis=1)], axis=0)
        found = [one for row in rows if (one := self.leverages.integrated(row)) is not None]
        self.sums = disjoint(found, A.shape[1])
        self.moves = ShortMoves(basis)
        self.shape, self.m = (1, A.shape[1]), basis.shape[1]
        self.paths = [Fraction(length - 1) for length in self.moves.lengths]
        integers = fmpz_mat(basis.tolist())
        # det(B' T^-1 B) = det(A T A') / det T times a constant
        self._constant = Fraction(int((integers.transpose() * integers).det()), self.leverages.determinant)

    def scales(self, epsilon: Fraction, width: Fraction, path: Fraction) -> LeverageScales:
        """Return the law of the proposed scales."""
        return LeverageScales(self.leverages, self.sums, epsilon, min(END, width), path / width)

    def support(self, wide: NDArray[np.bool_], path: Fraction) -> int | None:
        """Return the path length if wide cells support the lattice, otherwise None."""
        return int(path) if self.moves.supports(wide[0], int(path)) else None

    def noise(self, t: NDArray[np.float64], wide: NDArray[np.bool_], support: int, stream: BitStream) -> Drawn:
        """Draw noise given scales."""
        basis = self.moves.basis_on(t[0], wide[0], support)
        drawn = draw_on(basis, t[0], stream)
        return Drawn(drawn.z[np.newaxis], drawn.x, drawn.centers, drawn.squares)

    def enclose_log_determinant(self, t: list[list[arb]]) -> arb:
        """Enclose log det(B' T^-1 B)."""
        logs = sum((x.log() for x in t[0]), start=arb(0))
        return self.leverages.enclose_log_determinant(t[0]) - logs + ball(self._constant).log()


class Prepared:
    """A mixture that is set up for a block, and the time of a draw."""

    def __init__(self, structure: Structure, block: int, epsilon: Fraction) -> None:
        cells = np.flatnonzero(structure.blocks == block)
        basis = structure.restricted(cells)[0].basis.toarray()
        A = structure.class_system[:, structure.classes[cells]].toarray()
        system = LatticeSystem(A, basis)
        self.mixture = ScaleMixture(system, epsilon)
        if max(system.leverages.exact) > HIGHEST:
            self.mixture.acceptance = 0.0
        n, d = system.leverages.A.shape
        attempt = PER_CELL * d + PER_STEP * (n**3 + d * n)
        check = PER_STEP * (1e5 + len(system.moves.vectors) * d + d**3 / 10)
        self.seconds = attempt / max(self.mixture.acceptance, 1e-300) + check * self.mixture.checks


@lru_cache(maxsize=8)
def _prepared(structure: Structure, block: int, epsilon: Fraction) -> Prepared:
    return Prepared(structure, block, epsilon)
