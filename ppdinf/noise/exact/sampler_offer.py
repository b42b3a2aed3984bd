"""The interface of exact samplers: an offer to draw noise, or the reason for declining."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ppdinf._internal.values import Integers
from ppdinf.lattice.blocks import Structure
from ppdinf.laws import Law
from ppdinf.noise.primitives.stream import BitStream

type Draw = Callable[[int, BitStream], Integers]
"""``draw(size, stream)`` returns exact draws of the noise, shape (size, n) for n cells."""


@dataclass(frozen=True, eq=False)
class Offer:
    """An exact sampler for the noise of some cells."""

    sampler: str
    cells: Integers
    build: Callable[[], Draw]
    acceptance: float | None = None
    block: str = ""

    @cached_property
    def draw(self) -> Draw:
        """The function that draws the noise, set up at first use."""
        return self.build()


@dataclass(frozen=True, eq=False)
class Declined:
    """The reason why a sampler does not support some cells."""

    reason: Callable[[], str]
    near: float = 0.0


type Answer = Offer | Declined | None
type Sampler = Callable[[Structure, Law, Integers], Answer]


def is_one_block(structure: Structure, cells: Integers) -> bool:
    """Return whether the cells are a single block of the structure."""
    return bool((structure.blocks[cells] == structure.blocks[cells[0]]).all())
