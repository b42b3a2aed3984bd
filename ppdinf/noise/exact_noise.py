"""Exact noise for all cells of a system: samplers are asked in order, and what one leaves the next ones serve.

Where none serves some cells together, each of their blocks is asked for, for laws under which blocks are independent.
"""

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import InvariantError
from ppdinf.lattice.structure.blocks import Structure
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact import independent as free
from ppdinf.noise.exact import single_sums as classes
from ppdinf.noise.exact.elimination import class_sums
from ppdinf.noise.exact.elimination import rejection as core
from ppdinf.noise.exact.gaussian import l2_laplace_mixture as mixture
from ppdinf.noise.exact.gaussian import lattice_gaussian as gaussian
from ppdinf.noise.exact.scale_mixture import lattice_laplace as crossing_lattice
from ppdinf.noise.exact.scale_mixture import two_way_laplace as crossing
from ppdinf.noise.primitives.sampler_offer import Declined, Offer, Sampler, is_one_block
from ppdinf.noise.primitives.stream import BitStream

__all__ = ["OFFERS", "ExactNoise", "exact_noise", "exact_or_refusal"]

OFFERS: tuple[Sampler, ...] = (
    free.offer,  # cells in no public sum
    classes.offer,  # cells in classes with a public sum
    class_sums.quick_offer,  # blocks of crossing sums by elimination, where that is quicker than to look further
    core.quick_offer,  # by rejection, where that is quicker than to look further
    crossing.offer,  # two-way tables under both margins, by a mixture over the scales of their cells
    crossing_lattice.offer,  # other blocks likewise, where that is quicker than rejection
    core.offer,  # by rejection, where little is left to decide
    class_sums.offer,  # by elimination, where it takes seconds
    gaussian.offer,  # Gaussian noise on any lattice, by Klein's sampler with rejection
    mixture.offer,  # l2 Laplace noise likewise, as a mixture of Gaussians
)


@dataclass(frozen=True, eq=False)
class ExactNoise:
    """Independent parts that cover all cells.

    Attributes
    ----------
    d : int
        Number of cells.
    parts : list of Offer
        What serves them, each with its sampler set up.
    """

    d: int
    parts: list[Offer]

    @property
    def sampler(self) -> str:
        """Names of the samplers."""
        return " and ".join(sorted({part.sampler for part in self.parts} - {"free"}) or ["class"])

    @property
    def acceptance(self) -> float | None:
        """Smallest share of attempts that a part keeps; None where no attempt can fail."""
        return min((part.acceptance for part in self.parts if part.acceptance is not None), default=None)

    def draw(self, size: int, stream: BitStream) -> NDArray[np.int64]:
        """Return `size` independent draws of the noise, int64 of shape (size, d)."""
        if len(self.parts) == 1 and np.array_equal(self.parts[0].cells, np.arange(self.d)):
            return self.parts[0].draw(size, stream)  # saves a copy
        noise = np.zeros((size, self.d), dtype=np.int64)
        for part in self.parts:
            noise[:, part.cells] = part.draw(size, stream)
        return noise


def exact_noise(structure: Structure, law: Law) -> ExactNoise:
    """Choose exact samplers for a law on the lattice of a system.

    Parameters
    ----------
    structure : Structure
    law : Law

    Returns
    -------
    ExactNoise

    Raises
    ------
    InvariantError
        If the lattice is beyond all exact samplers; the message says why each declined.
    PrivacyError
        If the noise is so wide that it might not fit the integers used.

    Notes
    -----
    Set-up estimates acceptances from seeded pilot runs; the last eight results are remembered.

    Examples
    --------
    >>> from ppdinf.lattice import structure
    >>> from ppdinf.noise.primitives.stream import seeded_stream
    >>> noise = exact_noise(structure([[1, 1, 1, 0, 0]]), DoubleGeometric("1/2"))
    >>> [part.sampler for part in noise.parts], noise.draw(2, seeded_stream(1))[:, :3].sum(axis=1)
    (['free', 'class'], array([0, 0]))
    """
    found = exact_or_refusal(structure, law)
    if isinstance(found, str):
        raise InvariantError(found)
    return found


@lru_cache(maxsize=8)
def exact_or_refusal(structure: Structure, law: Law) -> ExactNoise | str:
    """Choose exact samplers as `exact_noise` does, or say why there are none."""
    d = structure.blocks.size
    parts, unserved = _served(structure, law, np.arange(d))
    return _refusal(law, unserved) if unserved else ExactNoise(d, parts)


type Unserved = list[tuple[NDArray[np.int64], list[Declined]]]
"""Cells, and why each sampler that knows their kind declined them."""


def _served(structure: Structure, law: Law, cells: NDArray[np.int64]) -> tuple[list[Offer], Unserved]:
    declined = []
    for sampler in OFFERS:
        answer = sampler(structure, law, cells)
        found = _set_up(answer) if isinstance(answer, Offer) else answer
        if isinstance(found, Offer):
            if found.cells.size == cells.size:
                return [found], []
            parts, unserved = _served(structure, law, np.setdiff1d(cells, found.cells, assume_unique=True))
            return [found, *parts], unserved
        if found is not None:
            declined.append(found)
    blocks = structure.blocks[cells]
    if law.is_mixture or is_one_block(structure, cells):
        return [], [(cells, declined)]
    groups = np.split(
        cells[np.argsort(blocks, kind="stable")], np.cumsum(np.unique(blocks, return_counts=True)[1])[:-1]
    )
    answers = [_served(structure, law, group) for group in groups]
    return [part for parts, _ in answers for part in parts], [one for _, unserved in answers for one in unserved]


def _set_up(offer: Offer) -> Offer | Declined:
    """Build an offered sampler; what that refuses is declined."""
    try:
        offer.draw  # noqa: B018  (kept in the offer)
    except InvariantError as error:
        return Declined(partial(str, error))
    return offer


def _refusal(law: Law, unserved: Unserved) -> str:
    """Quote those that declined the hardest cells."""
    cells, declined = min(unserved, key=lambda one: max((answer.near for answer in one[1]), default=0.0))
    if not declined:
        return f"no exact sampler for lattices knows {law.name} noise"
    instead = "choose l2 or Gaussian noise, publish fewer crossing sums, or allow a Markov chain with allow_mcmc=True"
    return (
        f"{cells.size:,} cells lie under public sums that cross each other (as row and column sums do) too much for "
        f"exact {law.title} noise: "
        + "; ".join([answer.reason() for answer in declined] + [instead] * isinstance(law, DoubleGeometric))
    )
