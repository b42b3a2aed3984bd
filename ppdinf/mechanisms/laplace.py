"""The generalized Laplace mechanism: noise with mass proportional to exp(-epsilon |z|) on the lattice.

Dharangutte, Gao, Gong and Yu, "Integer subspace differential privacy", Definition 9 and Theorem 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.mechanisms.base import Mechanism
from ppdinf.privacy.guarantee import Guarantee, ReleaseGuarantee
from ppdinf.privacy.parameters import as_fraction
from ppdinf.samplers.plan import Plan, plan

if TYPE_CHECKING:
    from ppdinf.samplers.noise_law import NoiseLaw
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
    Equal in law to independent double geometric noise conditioned on ``A z = 0``. Draws are exact: in O(d)
    where every cell lies under at most one public sum once redundant sums are set aside, by elimination or
    rejection where sums cross (`ppdinf.samplers.exact`; 4 x 4 margins take 50 microseconds, 10 x 10 some
    twenty seconds, larger ones are refused).

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
    epsilon: Fraction
    norm: str

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

        Given the other cells' law, a cell has mass at most ``exp(-epsilon |k|)`` relative to that of 0: the
        mass that the others leave to ``-k`` is largest at 0, their law having a positive Fourier
        transform. The bound sums these tails.
        """
        epsilon = float(self.epsilon)
        return math.ceil((12 * math.log(10) + math.log(2 * cells / -math.expm1(-epsilon))) / epsilon)

    def plan_on(self, system: System) -> Plan:
        """Choose an exact sampler by the structure of the public sums.

        Raises
        ------
        InvariantError
            The public sums cross too much for every exact sampler, as both margins of a large table do.
        """
        return plan(system, self._law)

    def noise(self, system: System, draws: int, tape: Tape) -> NDArray[np.int64]:
        """Draw the noise of `draws` releases; int64 of shape (draws, d)."""
        from ppdinf.samplers.exact import exact_noise

        return exact_noise(system.structure, self._law).draw(draws, tape)

    @property
    def _law(self) -> NoiseLaw:
        from ppdinf.samplers.noise_law import NoiseLaw

        return NoiseLaw("l1", self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        """Pure integer subspace differential privacy (their Theorem 10)."""
        return Guarantee(self.epsilon, self.norm, self.public.exact, self.public.known)

    def guarantee_on(self, system: System, plan: Plan | None) -> ReleaseGuarantee:
        """State the guarantee for the tables with the public sums of `system`."""
        from ppdinf.lattice.shortest import shortest_distance

        structure = system.structure
        return ReleaseGuarantee(
            self.epsilon,
            self.norm,
            self.public.exact,
            self.public.known,
            nearest=shortest_distance(structure),
            fixed=int(structure.fixed.sum()),
            cells=system.frame.size,
            sampler=f"generalized Laplace on the lattice, {plan or 'drawn in a way that is not stated'}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Kind and parameters, rationals as text."""
        return {"kind": self.kind, "epsilon": str(self.epsilon), "norm": self.norm}
