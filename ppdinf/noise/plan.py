"""Which sampler a system of public sums allows, and why."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.laws import DoubleGeometric

if TYPE_CHECKING:
    from ppdinf.invariants import System
    from ppdinf.laws import Law

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

    def __str__(self) -> str:
        kept = "" if self.acceptance is None else f"; {_share(self.acceptance)} of attempts are kept"
        how = "exact" if self.exact else "in double precision" if self.distance is None else "Markov chain"
        return f"{self.sampler} sampler ({how}): {self.reason}{kept}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the release file."""
        return {key: value for key, value in asdict(self).items() if value is not None}


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
        In the order class, elimination, rejection, chain for l1 noise; Klein's sampler for Gaussian and a
        mixture of it for l2 noise.

    Raises
    ------
    PrivacyError
        Noise wider than 2**36.
    InvariantError
        If no sampler suits; the message says why and what to change.

    Notes
    -----
    Costs a set-up of the samplers, which `ppdinf.noise.exact_noise` remembers for the draws.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> from ppdinf.laws import DiscreteGaussian
    >>> margins = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    >>> print(plan(margins.on(np.ones((4, 4), dtype=int)), DiscreteGaussian(1)))
    Klein sampler (exact): discrete Gaussian on a lattice of rank 9 over 16 cells; its sums form a 4 x 4 table with 2 \
margins, in closed form; 98 % of attempts are kept
    """
    from ppdinf.noise.chain_noise import chain_noise
    from ppdinf.noise.exact_noise import exact_noise

    if not isinstance(law, DoubleGeometric) and law.half_width(system.frame.size, 1e-12) > WIDEST:
        # not once a draw shows it: whoever then draws again has noise of another law
        raise PrivacyError("the noise would be wider than whole numbers are kept exactly: choose a larger epsilon")
    try:
        exact_noise(system.structure, law)
    except InvariantError:
        if not allow_mcmc or not isinstance(law, DoubleGeometric):
            raise
        chain = chain_noise(system.structure, law)
        reason = f"no exact sampler suits public sums that cross this much; {chain.bound}"
        return Plan(chain.sampler, False, reason, distance=_two_digits_up(chain.distance))
    parts = exact_noise(system.structure, law).parts
    hardest = min(parts, key=lambda part: 2.0 if part.acceptance is None else part.acceptance)
    acceptance = None if hardest.acceptance is None else float(f"{hardest.acceptance:.2g}")
    if not isinstance(law, DoubleGeometric):
        name = "l2 Laplace law" if law.is_mixture else "discrete Gaussian"
        split = f", in {len(parts)} independent blocks" if len(parts) > 1 else ""
        reason = (
            f"{name} on a lattice of rank {system.lattice.rank} over {system.frame.size} cells{split}{_tables(system)}"
        )
        return Plan(parts[0].sampler, True, reason, acceptance)
    names = [name for name in ("class", "elimination", "rejection") if any(part.sampler == name for part in parts)]
    crossing = [part for part in parts if part.sampler in ("elimination", "rejection")]
    reason = _classes(system)
    if crossing:
        cells, blocks = sum(part.cells.size for part in crossing), len(crossing)
        block = f"{cells} cells lie in {blocks} block{'s' * (blocks != 1)} of public sums that cross"
        reason = block if len(parts) == len(crossing) else f"{block}; the others: {reason}"
    return Plan(" and ".join(names or ["class"]), True, reason, acceptance)


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
