"""Suppression: what is public is published, and nothing of the table beyond it.

R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, Definition 1.4: the
0-differentially private procedure, after which everybody knows what they knew before. Double geometric noise has no
limit law as its epsilon falls to 0; the limit of its likelihood is a constant, which is that of suppression.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.types import Json, Symbolic
from ppdinf.errors import ModelError
from ppdinf.invariants import Public, System
from ppdinf.lattice.points.feasible import nearest_feasible
from ppdinf.lattice.points.fiber_tables import cell_intervals
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.likelihood import Likelihood
from ppdinf.mechanisms.input_checks import require_public
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantees.guarantee import Guarantee

__all__ = ["Suppression"]

LARGEST = 2**27  # counts in all windows together: a gigabyte of weights


class _Alike:
    """Weights of 1, whatever the noise is."""

    def log_weight(self, z: Symbolic) -> Symbolic:
        return 0.0 * z


@dataclass(frozen=True)
class Suppression(TableMechanism):
    """Publish what is public, and a table that is worked out from this alone.

    Parameters
    ----------
    public : Public
        What is published exactly, and bounds that every table obeys.

    Notes
    -----
    The table of such a release is the one nearest to zero that agrees with everything public: a stand-in, which
    somebody who knows the public sums could have written down. Inference by `ppdinf.PartiallyPrivate` is from the
    public sums alone. It looks at every count that they allow, so they must limit every cell: declare
    ``nonnegative()`` beside a total.

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
        """Nothing is learned about which table it is, among those with the same public sums: epsilon is 0."""
        return Guarantee("integer-subspace", Fraction(0), metric="l1", **self.public.open)

    def _sampled(self, plan: Plan | None) -> str:
        return "none is drawn, the table is worked out from what is public"

    def to_dict(self) -> Json:
        """Kind; there are no parameters."""
        return {"kind": self.kind}

    def likelihood(self, system: System) -> Likelihood:
        """State that no table makes the release more probable than another.

        Raises
        ------
        ModelError
            What is public does not limit every cell, or leaves too many counts.
        """
        low, high = cell_intervals(system.A, system.values, system.B, system.limits)
        reach, cells = float(np.max(high - low, initial=0.0)), system.frame.size
        if math.isinf(reach):
            raise ModelError(
                "what is public does not limit every cell, and nothing else was released: declare nonnegative() beside "
                "a public total, or between(0, most)"
            )
        if cells * reach > LARGEST:
            raise ModelError(
                f"what is public leaves up to {reach:,.0f} counts in each of {cells:,} cells, too many: "
                "model the public sums themselves, which are all that was released"
            )
        # no possible count lies at the edge of a window
        return Likelihood(AdditiveLaw(_Alike()), int(reach) + 1)

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Say that nothing is drawn."""
        return Plan("deterministic", True, "the table is worked out from what is public; there is no noise")

    def draw(
        self, system: System, cells: NDArray[np.int64], draws: int, stream: BitStream, plan: Plan | None = None
    ) -> NDArray[np.int64]:
        """Repeat the stand-in; int64 of shape (draws, d)."""
        return np.tile(_stand_in(system), (draws, 1))

    def log_weight(self, system: System, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Return 0 for the stand-in, whatever the table; ``-inf`` for any other release, or a table out of bounds."""
        possible = np.array_equal(y, _stand_in(system)) and not np.any(system.B @ x < system.limits)
        return 0.0 if possible else -np.inf


def _stand_in(system: System) -> NDArray[np.int64]:
    return nearest_feasible(
        system.A, system.values, system.B, system.limits,
        structure=system.structure, row_names=system.names, bound_names=system.bound_names,
    )  # fmt: skip
