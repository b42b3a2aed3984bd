"""The choice of samplers for a system of public sums: exact samplers in a fixed order, then a Markov chain."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from ppdinf._internal.values import Integers, Json, as_html, members
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice.blocks import Structure
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact import (
    cell_elimination,
    class_sums,
    l2_laplace_mixture,
    lattice_gaussian,
    rejection,
    single_sums,
)
from ppdinf.noise.exact.sampler_offer import Declined, Offer, Sampler, is_one_block
from ppdinf.noise.exact.scale_mixture import lattice_laplace, two_way_laplace
from ppdinf.noise.mcmc.coupled_noise import ChainNoise, chain_noise
from ppdinf.noise.primitives.stream import BitStream

if TYPE_CHECKING:
    from ppdinf.invariants import System


WIDEST = 2**36  # one sixteenth of the limit of Klein's sampler

OFFERS: tuple[Sampler, ...] = (
    single_sums.offer_free,  # cells outside all public sums
    single_sums.offer,  # cells in classes with a public sum
    class_sums.quick_offer,  # blocks of crossing sums by elimination, if it is faster than a search for other samplers
    rejection.quick_offer,  # by rejection, if it is faster than a search for other samplers
    two_way_laplace.offer,  # two-way tables with both margins public, by a mixture over the scales of their cells
    lattice_laplace.offer,  # other blocks by the same mixture, if it is faster than rejection
    rejection.offer,  # by rejection, if few cells decide the acceptance
    class_sums.offer,  # by elimination, if it takes seconds
    lattice_gaussian.offer,  # Gaussian noise on any lattice, by Klein's sampler with rejection
    l2_laplace_mixture.offer,  # l2 Laplace noise by the same sampler, as a mixture of Gaussians
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

    def draw(self, size: int, stream: BitStream) -> Integers:
        """Return `size` independent draws of the noise, int64 of shape (size, d)."""
        if len(self.parts) == 1 and np.array_equal(self.parts[0].cells, np.arange(self.d)):
            return self.parts[0].draw(size, stream)  # avoids a copy
        noise = np.zeros((size, self.d), np.int64)
        for part in self.parts:
            noise[:, part.cells] = part.draw(size, stream)
        return noise


def exact_noise(structure: Structure, law: Law) -> ExactNoise:
    """Choose exact samplers for a law on the lattice of a system."""
    noise = exact_or_refusal(structure, law)
    if isinstance(noise, str):
        raise InvariantError(noise)
    return noise


@lru_cache(maxsize=8)
def exact_or_refusal(structure: Structure, law: Law) -> ExactNoise | str:
    """Choose exact samplers like `exact_noise`, or return the reason why none is available."""
    d = structure.blocks.size
    parts, unsampled = _sampled_parts(structure, law, np.arange(d))
    return _refusal(law, unsampled) if unsampled else ExactNoise(d, parts)


type Unsampled = list[tuple[Integers, list[Declined]]]
"""Cells without a sampler, and the reasons of the samplers for this kind of cells."""


def _sampled_parts(structure: Structure, law: Law, cells: Integers) -> tuple[list[Offer], Unsampled]:
    declined = []
    for sampler in OFFERS:
        answer = sampler(structure, law, cells)
        if isinstance(answer, Offer):
            try:
                answer.draw  # noqa: B018  (set up, and kept in the offer)
            except InvariantError as error:
                answer = Declined(partial(str, error))
        if isinstance(answer, Offer):
            if answer.cells.size == cells.size:
                return [answer], []
            parts, unsampled = _sampled_parts(structure, law, np.setdiff1d(cells, answer.cells, assume_unique=True))
            return [answer, *parts], unsampled
        if answer is not None:
            declined.append(answer)
    if law.is_mixture or is_one_block(structure, cells):
        return [], [(cells, declined)]
    answers = [_sampled_parts(structure, law, cells[group]) for group in members(structure.blocks[cells])]
    return [part for parts, _ in answers for part in parts], [one for _, unsampled in answers for one in unsampled]


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


@dataclass(frozen=True)
class Plan:
    """The choice of a sampler for the noise of one release."""

    sampler: str
    exact: bool
    reason: str
    acceptance: float | None = None
    distance: float | None = None
    built: tuple[Structure, Law, ExactNoise | ChainNoise] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        share = "" if self.acceptance is None else f"; {100 * self.acceptance:.3g} % of attempts are kept"
        how = "exact" if self.exact else "in double precision" if self.distance is None else "Markov chain"
        return f"{self.sampler} sampler ({how}): {self.reason}{share}"

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def to_dict(self) -> Json:
        """Return plain data for the release file."""
        return {name: value for name, value in zip(_WRITTEN, self._written, strict=True) if value is not None}

    @property
    def _written(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in _WRITTEN)

    def __reduce__(self) -> tuple[type[Plan], tuple[object, ...]]:
        return Plan, self._written

    def noise_on(self, structure: Structure, law: Law) -> ExactNoise | ChainNoise:
        """Return the sampler that was set up with the plan, or set it up if the plan was read from a file."""
        if self.built is not None and self.built[:2] == (structure, law):
            return self.built[2]
        return exact_noise(structure, law) if self.exact else chain_noise(structure, law)


_WRITTEN = ("sampler", "exact", "reason", "acceptance", "distance")


def plan_sampler(system: System, law: Law, *, allow_mcmc: bool = False) -> Plan:
    """Choose the sampler for a law of noise on the lattice of a system."""
    if not isinstance(law, DoubleGeometric) and law.support_radius(system.frame.size, 1e-12) > WIDEST:
        # checked before drawing: drawing again after a failure would change the law of the noise
        raise PrivacyError(f"the noise may exceed {WIDEST:,}, the limit of exact integers: choose a larger epsilon")
    exact = exact_or_refusal(system.structure, law)
    if isinstance(exact, ExactNoise):
        acceptance = None if exact.acceptance is None else float(f"{exact.acceptance:.2g}")
        built = system.structure, law, exact
        return Plan(exact.sampler, True, _reason(system, law, exact.parts), acceptance, built=built)
    if not allow_mcmc or not isinstance(law, DoubleGeometric):
        raise InvariantError(exact)
    chain = chain_noise(system.structure, law)
    reason = f"no exact sampler supports public sums that cross this much; {chain.bound}"
    return Plan(chain.sampler, False, reason, distance=chain.distance, built=(system.structure, law, chain))


def _reason(system: System, law: Law, parts: list[Offer]) -> str:
    if not isinstance(law, DoubleGeometric):
        split = f", in {len(parts)} independent blocks" if len(parts) > 1 else ""
        rank, cells = system.lattice.rank, system.frame.size
        return f"{law.title} noise on a lattice of rank {rank} over {cells} cells{split}{_tables(system)}"
    clauses = []
    for kind in sorted({part.block for part in parts} - {""}):
        sizes = [part.cells.size for part in parts if part.block == kind]
        clauses.append(f"{sum(sizes)} cells lie in {len(sizes)} block{'s' * (len(sizes) > 1)} {kind}")
    if all(part.block for part in parts):
        return "; ".join(clauses)
    return "; ".join([*clauses, f"the others: {_classes(system)}"]) if clauses else _classes(system)


def _tables(system: System) -> str:
    """Return a clause on the crossing sums that are orthogonalised in closed form."""
    tables = sorted(system.structure.tables, key=lambda table: -table.classes.size)
    if not tables:
        return ""
    others = f" and {len(tables) - 1} more" if len(tables) > 1 else ""
    return f"; its sums form a {tables[0]}{others}, in closed form"


def _classes(system: System) -> str:
    structure = system.structure
    fixed = int(structure.fixed.sum())
    alone = int(np.sum((structure.sum_ranks == 1) & (np.bincount(structure.blocks) == 1)))
    groups = int(structure.partition.sum()) - fixed
    shares = [
        f"{groups} group{'s' * (groups != 1)} with noise that sums to zero",
        f"{alone} cell{'s' * (alone != 1)} with noise of their own",
        f"{fixed} cell{'s' * (fixed != 1)} without noise",
    ]
    split = ", ".join(share for share, n in zip(shares, (groups, alone, fixed), strict=True) if n)
    return f"the public sums split {system.frame.size} cells into {split}"
