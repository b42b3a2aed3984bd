r"""Exact l1 noise on a two-way table with public row and column sums.

The noise is a mixture over scales of the cells (`ppdinf.noise.exact.scale_mixture.mixture`). Scales are drawn from a
product law over rows (`ppdinf.noise.exact.scale_mixture.two_way_scales`). Noise is drawn on a spanning tree of wide
cells (`ppdinf.noise.exact.scale_mixture.two_way_noise`), if the wide cells contain a tree with short paths
(`ppdinf.noise.exact.scale_mixture.spanning_tree`).
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ppdinf.lattice.structure.blocks import Structure
from ppdinf.lattice.structure.tables_in_rows import HierarchicalTable
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact.scale_mixture.excess import END
from ppdinf.noise.exact.scale_mixture.klein_given_scales import Drawn
from ppdinf.noise.exact.scale_mixture.mixture import ScaleMixture
from ppdinf.noise.exact.scale_mixture.spanning_tree import PATHS, root_of
from ppdinf.noise.exact.scale_mixture.two_way_noise import draw_given_scales
from ppdinf.noise.exact.scale_mixture.two_way_scales import RowScales, enclose_column_determinant
from ppdinf.noise.primitives.sampler_offer import Answer, Declined, Offer, is_one_block
from ppdinf.noise.primitives.stream import BitStream

LONGEST = 20.0  # longest time of a draw in seconds
PER_CELL = 4e-7  # seconds per attempt and cell drawn first


def offer(structure: Structure, law: Law, cells: NDArray[np.int64]) -> Answer:
    """Offer to draw a block that is a two-way table with both margins public and one cell per position."""
    if not isinstance(law, DoubleGeometric) or not is_one_block(structure, cells):
        return None
    table = as_two_way_table(structure, int(structure.blocks[cells[0]]))
    if table is None:
        return None
    mixture = _prepared(table.shape, law.epsilon)
    seconds = PER_CELL * mixture.scales.first / mixture.acceptance if mixture.acceptance else math.inf
    if seconds > LONGEST:
        kept = f"the acceptance rate of a mixture over scales would be about {mixture.acceptance:.0e}"
        return Declined(lambda: kept, LONGEST / seconds)
    size = "a {} x {} table".format(*table.shape)
    return Offer(
        "scale mixture",
        structure.lattice.representatives[table.classes],
        lambda: mixture.draw,
        mixture.acceptance,
        f"of public sums that cross, {size} drawn in about {max(seconds, 1e-3):.1g} s",
    )


def as_two_way_table(structure: Structure, block: int) -> HierarchicalTable | None:
    """Return a block as a table if it is two-way with both margins public and one cell per position."""
    for table in structure.tables:
        if structure.blocks[structure.lattice.representatives[table.classes[0]]] == block:
            return table if len(table.shape) == 2 and table.cells == table.classes.size else None
    return None


class TwoWayTable:
    """A two-way table with both margins public, at least 2 x 2."""

    paths = PATHS

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.m = (shape[0] - 1) * (shape[1] - 1)

    def scales(self, epsilon: Fraction, width: Fraction, path: Fraction) -> RowScales:
        """Return the law of the proposed scales."""
        # in the rows that are drawn last, wide cells always have paths of 3 cells
        end = min(END, width / max(Fraction(1), 4 - path))
        return RowScales(self.shape, epsilon, end, path / width)

    def support(self, wide: NDArray[np.bool_], path: Fraction) -> int | None:
        """Return the root of a spanning tree of wide cells with paths of this length, or None."""
        return root_of(wide, path)

    def noise(self, t: NDArray[np.float64], wide: NDArray[np.bool_], support: int, stream: BitStream) -> Drawn:
        """Draw noise given scales."""
        return draw_given_scales(t, wide, support, stream)

    def enclose_log_determinant(self, t: list[list[arb]]) -> arb:
        """Enclose log det(B' T^-1 B) = log det(A T A') - log det T."""
        found = enclose_column_determinant(t).log()
        for row in t:
            found += sum(row, start=arb(0)).log() - sum((x.log() for x in row), start=arb(0))
        return found


class TwoWayLaplace(ScaleMixture):
    """Exact sampler of the l1 Laplace law on r x c tables with zero row and column sums."""

    def __init__(self, shape: tuple[int, int], epsilon: Fraction) -> None:
        super().__init__(TwoWayTable((max(shape), min(shape))), epsilon)
        self.shape = shape

    def draw(self, size: int, stream: BitStream) -> NDArray[np.int64]:
        """Return `size` independent draws, int64 of shape (size, r * c), in C order."""
        noise = super().draw(size, stream)
        if self.shape != self.system.shape:
            noise = noise.reshape(size, *self.system.shape).transpose(0, 2, 1).reshape(size, -1)
        return noise


@lru_cache(maxsize=8)
def _prepared(shape: tuple[int, int], epsilon: Fraction) -> TwoWayLaplace:
    return TwoWayLaplace(shape, epsilon)
