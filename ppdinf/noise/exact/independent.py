"""l1 Laplace noise of cells outside all public sums: independent double geometric integers."""

import numpy as np

from ppdinf._internal.values import Integers
from ppdinf.lattice.blocks import Structure
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact.sampler_offer import Answer, Offer
from ppdinf.noise.primitives.integers import draw_discrete_laplace
from ppdinf.noise.primitives.stream import BitStream


def offer(structure: Structure, law: Law, cells: Integers) -> Answer:
    """Offer to draw the cells that form single-cell blocks and may have any value."""
    if not isinstance(law, DoubleGeometric):
        return None
    sizes = np.bincount(structure.blocks, minlength=structure.sum_ranks.size)
    free = cells[((sizes == 1) & (structure.sum_ranks == 1))[structure.blocks[cells]]]

    def draw(size: int, stream: BitStream) -> Integers:
        return draw_discrete_laplace(law.epsilon, size * free.size, stream).reshape(size, -1)

    return Offer("free", free, lambda: draw) if free.size else None
