"""The generalized Laplace mechanism: noise with mass proportional to exp(-epsilon |z|) on the lattice.

Dharangutte, Gao, Gong and Yu, "Integer subspace differential privacy", Definition 9 and Theorem 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.mechanisms.base import Mechanism
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.parameters import as_fraction
from ppdinf.samplers.plan import Plan

if TYPE_CHECKING:
    from ppdinf.samplers.tape import Tape

__all__ = ["GeneralizedLaplace"]


@dataclass(frozen=True)
class GeneralizedLaplace(Mechanism):
    """Integer noise with mass proportional to ``exp(-epsilon * |z|_1)`` among all z with ``A z = 0``.

    Parameters
    ----------
    public : Public
        What is published exactly.
    epsilon : int, float, str or Fraction
        Privacy loss per unit of l1 distance between tables with the same public information. Moving
        one person between two cells is a distance of 2, hence a loss of ``2 * epsilon``.
    norm : {"l1"}
        The norm of the noise.

    Raises
    ------
    PrivacyError
        epsilon is not a positive finite number, or the norm is unknown.

    Notes
    -----
    Equal in law to independent double geometric noise conditioned on ``A z = 0``. Draws are exact and
    cost O(d + |z|_1) each where every cell lies under at most one public sum once redundant sums are
    set aside (`ppdinf.samplers.classes`).

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
    >>> release = mechanism.release(np.array([30, 4, 12]))
    >>> int(release.table.sum())
    46
    """

    kind: ClassVar[str] = "generalized-laplace"
    public: Public
    epsilon: Fraction = field()
    norm: str = "l1"

    def __init__(self, public: Public, epsilon: int | float | str | Fraction, norm: str = "l1") -> None:
        if not isinstance(public, Public):
            raise InvariantError("the first argument says what is public, for example ppdinf.invariants.total()")
        if norm != "l1":
            raise PrivacyError(f"norm must be 'l1', found {norm!r}")
        object.__setattr__(self, "public", public)
        object.__setattr__(self, "epsilon", as_fraction(epsilon, "epsilon"))
        object.__setattr__(self, "norm", norm)

    def potential(self, z: Any) -> Any:
        """Return ``-epsilon |z|``, elementwise."""
        return -float(self.epsilon) * abs(z)

    def half_width(self, cells: int) -> int:
        """Bound on ``|z|`` over `cells` cells, exceeded with probability at most 1e-12.

        A cell given the rest of its class has mass at most ``exp(-epsilon |k|)`` relative to its
        mode, since the sum of the others is symmetric and unimodal; the bound sums these tails.
        """
        a = math.exp(-float(self.epsilon))
        return math.ceil((12 * math.log(10) + math.log(2 * cells / (1 - a))) / float(self.epsilon))

    def plan_on(self, system: System) -> Plan:
        """Exact class sampler for partitions.

        Raises
        ------
        InvariantError
            Some cells lie under several public sums that do not nest.
        """
        structure = system.structure
        if np.any(~structure.partition & (np.bincount(structure.blocks) > 1)):
            raise InvariantError(
                "some cells lie under several public sums that cross each other (as row and column sums do); "
                "this version draws noise where the public sums split the cells into groups"
            )
        groups = int(structure.partition.sum())
        return Plan(
            "class",
            True,
            f"the public sums split {system.frame.size} cells into {groups} group{'s' * (groups != 1)} "
            f"with noise that sums to zero and {int(np.sum(~structure.partition))} cells with noise of their own",
        )

    def noise(self, system: System, draws: int, tape: Tape) -> np.ndarray:
        """Draw the noise of `draws` releases; int64 of shape (draws, d)."""
        from ppdinf.samplers.classes import draw_partition
        from ppdinf.samplers.integers import discrete_laplace

        structure = system.structure
        grouped = structure.partition[structure.blocks]
        noise = np.empty((draws, system.frame.size), dtype=np.int64)
        alone = int(np.sum(~grouped))
        noise[:, ~grouped] = discrete_laplace(self.epsilon, draws * alone, tape).reshape(draws, alone)
        _, labels = np.unique(structure.classes[grouped], return_inverse=True)
        noise[:, grouped] = draw_partition(labels, int(labels.max(initial=-1)) + 1, self.epsilon, tape, draws)
        return noise

    def guarantee_on(self, system: System, plan: Plan | None) -> Guarantee:
        """Pure integer subspace differential privacy (their Theorem 10)."""
        structure = system.structure
        nearest = None if structure.fixed.all() else 2 if structure.is_partition else 1
        return Guarantee(
            epsilon=self.epsilon,
            metric=self.norm,
            nearest=nearest,
            unprotected=self.public.exact,
            sampler=f"generalized Laplace on the lattice, {plan or 'by a sampler that is not stated'}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Kind and parameters, rationals as text."""
        return {"kind": self.kind, "epsilon": str(self.epsilon), "norm": self.norm}
