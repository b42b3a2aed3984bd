"""Exact noise for all cells of a system: samplers are tried in order, each on the cells that remain.

If no sampler supports some cells together, their blocks are tried one by one, for laws with independent blocks.
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
from ppdinf.noise.exact.elimination import cell_elimination, class_sums, rejection
from ppdinf.noise.exact.gaussian import l2_laplace_mixture as mixture
from ppdinf.noise.exact.gaussian import lattice_gaussian as gaussian
from ppdinf.noise.exact.scale_mixture import lattice_laplace as crossing_lattice
from ppdinf.noise.exact.scale_mixture import two_way_laplace as crossing
from ppdinf.noise.primitives.sampler_offer import Declined, Offer, Sampler, is_one_block
from ppdinf.noise.primitives.stream import BitStream

OFFERS: tuple[Sampler, ...] = (
    free.offer,  # cells outside all public sums
    classes.offer,  # cells in classes with a public sum
    class_sums.quick_offer,  # blocks of crossing sums by elimination, if it is faster than a search for other samplers
    rejection.quick_offer,  # by rejection, if it is faster than a search for other samplers
    crossing.offer,  # two-way tables with both margins public, by a mixture over the scales of their cells
    crossing_lattice.offer,  # other blocks by the same mixture, if it is faster than rejection
    rejection.offer,  # by rejection, if few cells decide the acceptance
    class_sums.offer,  # by elimination, if it takes seconds
    gaussian.offer,  # Gaussian noise on any lattice, by Klein's sampler with rejection
    mixture.offer,  # l2 Laplace noise by the same sampler, as a mixture of Gaussians
    cell_elimination.offer,  # any other law of independent integers, by elimination, if it takes seconds
)


@dataclass(frozen=True, eq=False)
class ExactNoise:
    """Exact samplers of independent parts that together cover all cells."""

    d: int
    parts: list[Offer]

    @property
    def sampler(self) -> str:
        """Names of the samplers."""
        return " and ".join(sorted({part.sampler for part in self.parts} - {"free"}) or ["class"])

    @property
    def acceptance(self) -> float | None:
        """Smallest acceptance rate of the parts; None if no attempt can fail."""
        return min((part.acceptance for part in self.parts if part.acceptance is not None), default=None)

    def draw(self, size: int, stream: BitStream) -> NDArray[np.int64]:
        """Return `size` independent draws of the noise, int64 of shape (size, d)."""
        if len(self.parts) == 1 and np.array_equal(self.parts[0].cells, np.arange(self.d)):
            return self.parts[0].draw(size, stream)  # avoids a copy
        noise = np.zeros((size, self.d), dtype=np.int64)
        for part in self.parts:
            noise[:, part.cells] = part.draw(size, stream)
        return noise


def exact_noise(structure: Structure, law: Law) -> ExactNoise:
    """Choose exact samplers for a law on the lattice of a system."""
    found = exact_or_refusal(structure, law)
    if isinstance(found, str):
        raise InvariantError(found)
    return found


@lru_cache(maxsize=8)
def exact_or_refusal(structure: Structure, law: Law) -> ExactNoise | str:
    """Choose exact samplers like `exact_noise`, or return the reason why none is available."""
    d = structure.blocks.size
    parts, unsampled = _sampled_parts(structure, law, np.arange(d))
    return _refusal(law, unsampled) if unsampled else ExactNoise(d, parts)


type Unsampled = list[tuple[NDArray[np.int64], list[Declined]]]
"""Cells without a sampler, and the reasons of the samplers for this kind of cells."""


def _sampled_parts(structure: Structure, law: Law, cells: NDArray[np.int64]) -> tuple[list[Offer], Unsampled]:
    declined = []
    for sampler in OFFERS:
        answer = sampler(structure, law, cells)
        found = _set_up(answer) if isinstance(answer, Offer) else answer
        if isinstance(found, Offer):
            if found.cells.size == cells.size:
                return [found], []
            parts, unsampled = _sampled_parts(structure, law, np.setdiff1d(cells, found.cells, assume_unique=True))
            return [found, *parts], unsampled
        if found is not None:
            declined.append(found)
    blocks = structure.blocks[cells]
    if law.is_mixture or is_one_block(structure, cells):
        return [], [(cells, declined)]
    groups = np.split(
        cells[np.argsort(blocks, kind="stable")], np.cumsum(np.unique(blocks, return_counts=True)[1])[:-1]
    )
    answers = [_sampled_parts(structure, law, group) for group in groups]
    return [part for parts, _ in answers for part in parts], [one for _, unsampled in answers for one in unsampled]


def _set_up(offer: Offer) -> Offer | Declined:
    """Set up an offered sampler; an InvariantError counts as declined."""
    try:
        offer.draw  # noqa: B018  (kept in the offer)
    except InvariantError as error:
        return Declined(partial(str, error))
    return offer


def _refusal(law: Law, unsampled: Unsampled) -> str:
    """Return a message with the reasons for the cells that are hardest to sample."""
    cells, declined = min(unsampled, key=lambda one: max((answer.near for answer in one[1]), default=0.0))
    if not declined:
        return f"no exact sampler on lattices supports {law.name} noise"
    alternatives = (
        "choose l2 or Gaussian noise, publish fewer crossing sums, or allow a Markov chain with allow_mcmc=True"
    )
    return (
        f"{cells.size:,} cells lie under public sums that cross each other (like row and column sums) "
        f"too much for exact {law.title} noise: "
        + "; ".join([answer.reason() for answer in declined] + [alternatives] * isinstance(law, DoubleGeometric))
    )
