"""Suppression: only the public statements are published, and nothing else about the table.

R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, Definition 1.4: the
0-differentially private procedure, which leaves everybody's knowledge unchanged. Double geometric noise has no limit
distribution as its epsilon goes to 0; its likelihood goes to a constant, the likelihood of suppression.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from ppdinf._internal.values import Array, Integers, Symbolic
from ppdinf.errors import ModelError
from ppdinf.invariants import Public, System
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.fiber_tables import cell_intervals
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.likelihood import Likelihood
from ppdinf.mechanisms.input_checks import require_public
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantee import Guarantee

LARGEST = 2**27  # counts in the supports of all cells together: 1 GB of weights


class _Constant:
    """Weight 1 for every noise value, because the release is a function of the public statements."""

    log_total: ClassVar[float] = 0.0

    def log_total_of_sum(self, cells: int) -> float:
        return 0.0

    def log_weight(self, z: Symbolic) -> Symbolic:
        return 0.0 * z


@dataclass(frozen=True)
class Suppression(TableMechanism):
    """Publish the public statements, and a table that is computed from them alone.

    Parameters
    ----------
    public : Public
        Statements that are published exactly, and bounds that every table satisfies.

    See Also
    --------
    ppdinf.suppressed, ppdinf.identified_bounds, ppdinf.privacy.audit

    Notes
    -----
    The table of such a release is the table nearest to zero that satisfies all public statements: a placeholder that
    anybody who knows the public sums can compute. Inference by `ppdinf.PartiallyPrivate` uses the public sums alone. It
    enumerates every count that they allow, so they must bound every cell: declare ``nonnegative()`` in addition to a
    total.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> public = ppd.invariants.margin("dim_0") & ppd.invariants.nonnegative()
    >>> release = ppd.Suppression(public).release(np.array([[9, 0], [1, 5]]))
    >>> release.public.values, release.guarantee.epsilon
    (array([9, 6]), Fraction(0, 1))
    """

    kind: ClassVar[str] = "suppression"
    keeps_bounds: ClassVar[bool] = True
    public: Public

    def __post_init__(self) -> None:
        require_public(self.public)

    @property
    def guarantee(self) -> Guarantee:
        """Return epsilon = 0: a release does not distinguish tables with the same public sums."""
        return Guarantee("integer-subspace", Fraction(0), metric="l1", **self.public.open)

    def _sampled(self, plan: Plan | None) -> str:
        return "not sampled: the table is computed from the public statements"

    def likelihood(self, system: System) -> Likelihood:
        """Return a constant likelihood.

        Raises
        ------
        ModelError
            The public statements do not bound every cell, or leave too many counts.
        """
        low, high = cell_intervals(system.A, system.values, system.B, system.limits)
        reach, cells = float(np.max(high - low, initial=0.0)), system.frame.size
        if math.isinf(reach):
            raise ModelError(
                "the public statements do not bound every cell, and nothing else was released: declare nonnegative() "
                "in addition to a public total, or between(0, upper)"
            )
        if cells * reach > LARGEST:
            raise ModelError(
                f"the public statements leave up to {reach:,.0f} counts in each of {cells:,} cells, too many to "
                "enumerate: model the public sums themselves, because nothing else was released"
            )
        # One more than the largest distance: no possible count is at the end of the support.
        return Likelihood(AdditiveLaw(_Constant()), int(reach) + 1)

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Return a plan without a sampler."""
        return Plan("deterministic", True, "the table is computed from the public statements, without noise")

    def draw(self, system: System, cells: Integers, draws: int, stream: BitStream, plan: Plan | None = None) -> Array:
        """Repeat the placeholder; int64 of shape (draws, d)."""
        return np.tile(_placeholder(system), (draws, 1))

    def log_weight(self, system: System, y: Integers, x: Integers) -> float:
        """Return 0 for the placeholder, ``-inf`` for any other release and for tables that violate a bound."""
        possible = np.array_equal(y, _placeholder(system)) and not np.any(system.B @ x < system.limits)
        return 0.0 if possible else -np.inf


def _placeholder(system: System) -> Integers:
    return nearest_feasible(
        system.A, system.values, system.B, system.limits,
        structure=system.structure, row_names=system.names, bound_names=system.bound_names,
    )  # fmt: skip
