"""l1 Laplace noise of a block with crossing class sums: first the sums, then the cells of each class.

The weight of a class sum is the total weight of its cells' noise (`potentials.class_sum`). If few partial sums are open
at a time, variable elimination draws the class sums under the crossing public sums
(`ppdinf.noise.exact.variable_elimination`). The cells of each class are then drawn given its sum
(`ppdinf.noise.exact.single_sums`).
"""

import math
from functools import lru_cache

import numpy as np

from ppdinf._internal.values import Integers
from ppdinf.lattice.blocks import Structure
from ppdinf.lattice.class_sums import CoreSums, core_sums
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact.potentials import class_sum, product
from ppdinf.noise.exact.sampler_offer import Answer, Declined, Draw, Offer, is_one_block
from ppdinf.noise.exact.single_sums import draw_class
from ppdinf.noise.exact.variable_elimination import LARGEST_WORK, Elimination, steps
from ppdinf.noise.primitives.stream import BitStream

QUICK = 2 * 10**8  # multiplications of an elimination that is cheap enough to use at once
NARROW = 100.0  # rate above which the noise does not affect the estimate; its variance would overflow


def offer(structure: Structure, law: Law, cells: Integers, *, largest: float = LARGEST_WORK) -> Answer:
    """Offer to draw a block if elimination takes at most about 10 s, by an estimate of its multiplications."""
    if not isinstance(law, DoubleGeometric) or not is_one_block(structure, cells):
        return None
    block = int(structure.blocks[cells[0]])
    if structure.partition[block]:
        return None
    sums = _sums(structure, block)
    # estimate the multiplications from the spread of the class sums
    rate = float(law.epsilon)
    variance = structure.class_sizes / (2 * np.sinh(min(rate, NARROW) / 2) ** 2)
    height = np.maximum(np.abs(sums.heights), 1)
    half = np.full(sums.system.shape[1], np.inf)
    inside = sums.variables >= 0
    np.minimum.at(half, sums.variables[inside], ((60 / rate + 9 * np.sqrt(variance)) / height)[inside])
    reach = 9 * np.sqrt(abs(sums.system) ** 2 @ (half / 9) ** 2) + 60 / rate
    work = 0.0
    for row, near, variables in zip(sums.order.rows, sums.order.open_rows, sums.order.variables, strict=True):
        if variables.size:  # otherwise an infinite product would be multiplied by 0
            work += float(np.sum(2 * half[variables])) * math.prod((2 * reach[[row, *near]]).tolist())
    if work > largest:
        return Declined(lambda: f"elimination would take {steps(work)}", largest / work)
    return Offer("elimination", cells, lambda: _build(structure, sums, cells, law), block="of public sums that cross")


def quick_offer(structure: Structure, law: Law, cells: Integers) -> Answer:
    """Offer to draw a block if elimination takes almost no time; return None otherwise."""
    answer = offer(structure, law, cells, largest=QUICK)
    return answer if isinstance(answer, Offer) else None


@lru_cache(maxsize=64)
def _sums(structure: Structure, block: int) -> CoreSums:
    block_of_class = structure.blocks[structure.lattice.representatives]
    return core_sums(structure.class_system, structure.lattice.class_basis, block_of_class == block)


def _build(structure: Structure, sums: CoreSums, cells: Integers, law: DoubleGeometric) -> Draw:
    members = [np.flatnonzero(sums.variables == v) for v in range(sums.system.shape[1])]
    potentials = [
        product([(class_sum(int(structure.class_sizes[c]), law.epsilon), int(sums.heights[c])) for c in group])
        for group in members
    ]
    elimination = Elimination(sums.system, [0] * sums.system.shape[0], potentials)
    place = np.full(structure.blocks.size, -1)
    place[cells] = np.arange(cells.size)
    of_class = [place[np.flatnonzero(structure.classes == c)] for c in range(structure.class_sizes.size)]

    def draw(size: int, stream: BitStream) -> Integers:
        noise = np.empty((size, cells.size), np.int64)
        w = elimination.draw(size, stream)
        for v, group in enumerate(members):
            for c in group:
                totals = sums.heights[c] * w[:, v]
                for total in np.unique(totals):
                    rows = np.flatnonzero(totals == total)
                    drawn = draw_class(of_class[c].size, int(total), law.epsilon, stream, size=rows.size)
                    noise[rows[:, np.newaxis], of_class[c]] = drawn
        return noise

    return draw
