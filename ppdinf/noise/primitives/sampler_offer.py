"""What samplers answer when they are asked for noise: an offer to draw it, or why they decline.

An exact sampler's file exports ``offer(structure, law, cells)``: asked for noise of a law on some cells, whole blocks
of the structure that nobody serves yet, it answers

- an `Offer`, for all of these cells or for some;
- `Declined`, where it serves such noise in principle: the refusal of a system quotes it;
- None, where this is not its kind of noise or of cells.

`ppdinf.noise.exact_noise` lists those that are asked, in order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ppdinf.lattice.structure.blocks import Structure
from ppdinf.laws import Law
from ppdinf.noise.primitives.stream import BitStream

__all__ = ["Answer", "Declined", "Draw", "Offer", "Sampler", "is_one_block"]

type Draw = Callable[[int, BitStream], NDArray[np.int64]]
"""``draw(size, stream)`` returns noise of shape (size, n) for n cells, exactly of its law."""


@dataclass(frozen=True, eq=False)
class Offer:
    """To draw the noise of some cells, exactly.

    Attributes
    ----------
    sampler : str
        Short name of the algorithm.
    cells : ndarray of int64, shape (n,)
        In the order in which noise is drawn.
    build : callable
        Sets the sampler up and returns its `Draw`; an InvariantError there counts as declined. `draw` calls it once.
    acceptance : float, optional
        Expected share of attempts that are kept, where attempts can fail.
    block : str
        Where a single block is served, what is special about it, to be read after "cells lie in 1 block".
    """

    sampler: str
    cells: NDArray[np.int64]
    build: Callable[[], Draw]
    acceptance: float | None = None
    block: str = ""

    @cached_property
    def draw(self) -> Draw:
        """What draws the noise, set up when it is first asked for."""
        return self.build()


@dataclass(frozen=True, eq=False)
class Declined:
    """Why a sampler does not serve some cells.

    Attributes
    ----------
    reason : callable
        Says it, in a clause that may take a search for what would help.
    near : float
        How near the cells come to the sampler's limit, 1 at the limit, 0 where it knows no measure.
    """

    reason: Callable[[], str]
    near: float = 0.0


type Answer = Offer | Declined | None
type Sampler = Callable[[Structure, Law, NDArray[np.int64]], Answer]


def is_one_block(structure: Structure, cells: NDArray[np.int64]) -> bool:
    """Whether cells are a single block of the structure."""
    return bool((structure.blocks[cells] == structure.blocks[cells[0]]).all())
