"""Which sampler a system of public sums allows, and why."""

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

__all__ = ["Plan", "plan"]

WIDEST = 2**36  # sixteen times below what Klein's sampler can hold


@dataclass(frozen=True)
class Plan:
    """The choice of a sampler for the noise of one release.

    Attributes
    ----------
    sampler : str
        Short name of the algorithm.
    exact : bool
        Whether its draws follow the stated law exactly (no Markov chain, no rounding). Where they do not and there is
        no `distance`, floating-point numbers stand for real ones.
    reason : str
        One sentence on the structure that allows it.
    acceptance : float, optional
        Predicted share of attempts that are kept, where attempts can fail; two digits.
    distance : float, optional
        Of a Markov chain: upper confidence limit of the total variation between its draws and the law.
    built : tuple of Structure, Law and ExactNoise or ChainNoise, optional
        Of lattice noise: the sampler as it was set up for this choice, and for what. Not written to files nor pickled.

    Examples
    --------
    >>> print(Plan("class", True, "one public total over 3 cells"))
    class sampler (exact): one public total over 3 cells
    """

    sampler: str
    exact: bool
    reason: str
    acceptance: float | None = None
    distance: float | None = None
    built: tuple[Structure, Law, ExactNoise | ChainNoise] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        kept = "" if self.acceptance is None else f"; {_share(self.acceptance)} of attempts are kept"
        how = "exact" if self.exact else "in double precision" if self.distance is None else "Markov chain"
        return f"{self.sampler} sampler ({how}): {self.reason}{kept}"

    def to_dict(self) -> Json:
        """Plain data for the release file."""
        return {name: value for name, value in zip(_WRITTEN, self._written, strict=True) if value is not None}

    @property
    def _written(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in _WRITTEN)

    def __reduce__(self) -> tuple[type[Plan], tuple[object, ...]]:
        return Plan, self._written

    def noise_on(self, structure: Structure, law: Law) -> ExactNoise | ChainNoise:
        """Return what draws the noise: as it was set up with the plan, or anew where that was read from a file."""
        if self.built is not None and self.built[:2] == (structure, law):
            return self.built[2]
        return exact_noise(structure, law) if self.exact else chain_noise(structure, law)


_WRITTEN = ("sampler", "exact", "reason", "acceptance", "distance")


def plan(system: System, law: Law, *, allow_mcmc: bool = False) -> Plan:
    """Choose the sampler for a law of noise on the lattice of a system.

    Parameters
    ----------
    system : System
        Public statements bound to a table.
    law : Law
    allow_mcmc : bool
        Fall back to a Markov chain with a measured distance from the law where no exact sampler suits.

    Returns
    -------
    Plan
        The first samplers that offer themselves (`ppdinf.noise.exact_noise.OFFERS`), and then a chain, for l1 noise.

    Raises
    ------
    PrivacyError
        Noise wider than 2**36.
    InvariantError
        If no sampler suits; the message says why and what to change.

    Notes
    -----
    Costs a set-up of the samplers, which the plan keeps for the draws.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> from ppdinf.laws import DiscreteGaussian
    >>> margins = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    >>> print(plan(margins.on(np.ones((4, 4), dtype=int)), DiscreteGaussian(1)))
    Klein sampler (exact): discrete Gaussian on a lattice of rank 9 over 16 cells; its sums form a 4 x 4 table with 2 \
margins, in closed form; 98 % of attempts are kept
    """
    if not isinstance(law, DoubleGeometric) and law.support_radius(system.frame.size, 1e-12) > WIDEST:
        # not once a draw shows it: whoever then draws again has noise of another law
        raise PrivacyError("the noise would be wider than whole numbers are kept exactly: choose a larger epsilon")
    found = exact_or_refusal(system.structure, law)
    if isinstance(found, ExactNoise):
        acceptance = None if found.acceptance is None else float(f"{found.acceptance:.2g}")
        built = system.structure, law, found
        return Plan(found.sampler, True, _reason(system, law, found.parts), acceptance, built=built)
    if not allow_mcmc or not isinstance(law, DoubleGeometric):
        raise InvariantError(found)
    chain = chain_noise(system.structure, law)
    reason = f"no exact sampler suits public sums that cross this much; {chain.bound}"
    return Plan(
        chain.sampler, False, reason, distance=_two_digits_up(chain.distance), built=(system.structure, law, chain)
    )


def _reason(system: System, law: Law, parts: list[Offer]) -> str:
    if not isinstance(law, DoubleGeometric):
        name = "l2 Laplace law" if law.is_mixture else "discrete Gaussian"
        split = f", in {len(parts)} independent blocks" if len(parts) > 1 else ""
        return (
            f"{name} on a lattice of rank {system.lattice.rank} over {system.frame.size} cells{split}{_tables(system)}"
        )
    found = []
    for kind in sorted({part.block for part in parts} - {""}):
        sizes = [part.cells.size for part in parts if part.block == kind]
        found.append(f"{sum(sizes)} cells lie in {len(sizes)} block{'s' * (len(sizes) > 1)} {kind}")
    if all(part.block for part in parts):
        return "; ".join(found)
    return "; ".join([*found, f"the others: {_classes(system)}"]) if found else _classes(system)


def _tables(system: System) -> str:
    """Name the sums that cross and are orthogonalised in closed form."""
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


def _two_digits_up(limit: float) -> float:
    """Round a positive limit up to two digits: it stays a limit."""
    near = float(f"{limit:.2g}")
    return near if near >= limit else float(f"{near + 10.0 ** (math.floor(math.log10(near)) - 1):.2g}")


def _share(acceptance: float) -> str:
    return f"{100 * acceptance:.3g} %"
