"""The choice of a sampler for a system of public sums, with the reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ppdinf._internal.types import Json
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice.structure.blocks import Structure
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact_noise import ExactNoise, exact_noise, exact_or_refusal
from ppdinf.noise.mcmc.coupled_noise import ChainNoise, chain_noise
from ppdinf.noise.primitives.sampler_offer import Offer

if TYPE_CHECKING:
    from ppdinf.invariants import System

WIDEST = 2**36  # one sixteenth of the limit of Klein's sampler


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
        share = "" if self.acceptance is None else f"; {_share(self.acceptance)} of attempts are kept"
        how = "exact" if self.exact else "in double precision" if self.distance is None else "Markov chain"
        return f"{self.sampler} sampler ({how}): {self.reason}{share}"

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
    found = exact_or_refusal(system.structure, law)
    if isinstance(found, ExactNoise):
        acceptance = None if found.acceptance is None else float(f"{found.acceptance:.2g}")
        built = system.structure, law, found
        return Plan(found.sampler, True, _reason(system, law, found.parts), acceptance, built=built)
    if not allow_mcmc or not isinstance(law, DoubleGeometric):
        raise InvariantError(found)
    chain = chain_noise(system.structure, law)
    reason = f"no exact sampler supports public sums that cross this much; {chain.bound}"
    return Plan(
        chain.sampler, False, reason, distance=two_digits_up(chain.distance), built=(system.structure, law, chain)
    )


def _reason(system: System, law: Law, parts: list[Offer]) -> str:
    if not isinstance(law, DoubleGeometric):
        split = f", in {len(parts)} independent blocks" if len(parts) > 1 else ""
        rank, cells = system.lattice.rank, system.frame.size
        return f"{law.title} noise on a lattice of rank {rank} over {cells} cells{split}{_tables(system)}"
    found = []
    for kind in sorted({part.block for part in parts} - {""}):
        sizes = [part.cells.size for part in parts if part.block == kind]
        found.append(f"{sum(sizes)} cells lie in {len(sizes)} block{'s' * (len(sizes) > 1)} {kind}")
    if all(part.block for part in parts):
        return "; ".join(found)
    return "; ".join([*found, f"the others: {_classes(system)}"]) if found else _classes(system)


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


def two_digits_up(limit: float) -> float:
    """Round a positive upper limit up to two digits."""
    near = float(f"{limit:.2g}")
    return near if near >= limit else float(f"{near + 10.0 ** (math.floor(math.log10(near)) - 1):.2g}")


def _share(acceptance: float) -> str:
    return f"{100 * acceptance:.3g} %"
