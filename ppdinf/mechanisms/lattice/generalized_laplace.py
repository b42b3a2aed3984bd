"""The generalized Laplace mechanism: noise with mass proportional to exp(-epsilon |z|) on the lattice.

Dharangutte, Gao, Gong and Yu, "Integer subspace differential privacy", Definition 9 and Theorem 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ppdinf._internal.frozen import assign
from ppdinf._internal.rationals import as_fraction
from ppdinf._internal.types import Json
from ppdinf.errors import PrivacyError
from ppdinf.invariants import Public
from ppdinf.laws import LAPLACE, DoubleGeometric, L2Laplace
from ppdinf.mechanisms.input_checks import require_public
from ppdinf.mechanisms.lattice.lattice_noise import LatticeNoise
from ppdinf.privacy.guarantees.guarantee import Guarantee


@dataclass(frozen=True)
class GeneralizedLaplace(LatticeNoise):
    """Integer Laplace noise that keeps all public sums exact.

    The noise z has mass proportional to ``exp(-epsilon * |z|)`` among all integer z with ``A z = 0``, where the
    rows of A are the public sums.

    Parameters
    ----------
    public : Public
        Statements that are published exactly.
    epsilon : int, float, str or Fraction
        Privacy loss per unit of distance between tables with the same public information. With ``norm="l1"``, moving
        one person to another cell is a distance of 2, hence a loss of ``2 * epsilon``. With ``norm="l2"`` it is a
        distance of ``sqrt(2)``, hence a loss of ``sqrt(2) * epsilon``.
    norm : {"l1", "l2"}
        Norm of the noise, and of the distances between tables.

    Raises
    ------
    PrivacyError
        epsilon is not a positive finite number, or the norm is unknown.

    See Also
    --------
    ppdinf.GeneralizedGaussian, ppdinf.Conditioned, ppdinf.SubspaceLaplace, ppdinf.plan

    Notes
    -----
    l1 noise has the distribution of independent double geometric noise conditioned on ``A z = 0``. Draws are exact. If
    every cell is in at most one public sum after redundant sums are removed, a draw takes O(d) operations. Crossing
    sums in small systems use elimination or rejection. Both margins of a two-way table use a scale mixture
    (`ppdinf.noise.exact.scale_mixture.two_way_laplace`; at epsilon 1/4, 10 x 10 take 1 ms, 30 x 30 take 0.2 s). A scale
    mixture also draws about 30 other crossing sums over up to 300 cells
    (`ppdinf.noise.exact.scale_mixture.lattice_laplace`). Larger systems need a Markov chain, ``release(...,
    allow_mcmc=True)``. l2 noise is exact on every lattice (`ppdinf.noise.exact.gaussian.l2_laplace_mixture`; 30 x 30
    margins take 1 ms).

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
        require_public(public)
        if norm not in ("l1", "l2"):
            raise PrivacyError(f"norm must be 'l1' or 'l2', found {norm!r}")
        assign(self, public=public, epsilon=as_fraction(epsilon, "epsilon"), norm=norm)

    @property
    def law(self) -> DoubleGeometric | L2Laplace:
        """Return the Laplace distribution in the chosen norm."""
        return LAPLACE[self.norm](self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        """Return pure integer subspace differential privacy (their Theorem 10)."""
        return Guarantee(
            "integer-subspace",
            self.epsilon,
            metric=self.norm,
            **self.public.open,
        )

    def to_dict(self) -> Json:
        """Return the kind and parameters, with rational numbers as text."""
        return {"kind": self.kind, "epsilon": str(self.epsilon), "norm": self.norm}
