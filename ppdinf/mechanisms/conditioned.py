"""Congenial mechanisms: independent noise, conditioned on all public statements.

R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, Theorem 2.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ppdinf._internal.values import Json, assign
from ppdinf.errors import PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.laws import IntegerLaw
from ppdinf.mechanism import Mechanism
from ppdinf.mechanisms.input_checks import require_public
from ppdinf.mechanisms.weighted import Weighted, is_bounded
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.conditioning import conditioning_cost
from ppdinf.privacy.guarantee import Guarantee

GRAIN = 10**6  # gamma is rounded up to a multiple of 1 / GRAIN


@dataclass(frozen=True)
class Conditioned(Weighted):
    """Independent noise in every cell, conditioned on a table that satisfies all public sums and bounds.

    Parameters
    ----------
    public : Public
        Sums that the release shares with the table, and bounds that both satisfy.
    noise : DoubleGeometric, DiscreteGaussian, Staircase or another `ppdinf.laws.IntegerLaw`
        Noise of each cell before conditioning.

    Raises
    ------
    PrivacyError
        `noise` is not a noise distribution, is the first argument, or has no known guarantee
        under bounds (the discrete Gaussian) or at all.

    See Also
    --------
    ppdinf.GeneralizedLaplace, ppdinf.WassersteinExponential, ppdinf.privacy.conditioning_cost

    Notes
    -----
    With bounds, the probability C(x) that noise around x satisfies them differs between tables. It enters the guarantee
    as gamma (`ppdinf.privacy.conditioning_cost`) and the likelihood as a normalizer. Draws are exact, by elimination,
    or by rejection for many cells with lower bounds and disjoint public sums. Inference computes C(x) by elimination
    and is refused where that would take too long.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> mechanism = ppd.Conditioned(public, noise=ppd.mechanisms.DoubleGeometric("1/2"))
    >>> release = mechanism.release(np.array([3, 0, 2]))
    >>> int(release.table.sum()), bool((release.table >= 0).all())
    (5, True)
    """

    kind: ClassVar[str] = "conditioned"
    public: Public
    noise: IntegerLaw

    def __init__(self, public: Public, noise: IntegerLaw) -> None:
        if isinstance(public, IntegerLaw):
            raise PrivacyError("public must be the first argument: Conditioned(public, noise=DoubleGeometric('1/2'))")
        require_public(public)
        if not isinstance(noise, IntegerLaw):
            raise PrivacyError(
                "noise must be a distribution of single cells such as ppdinf.mechanisms.DoubleGeometric('1/2'), found "
                f"{noise!r:.60}"
            )
        if noise.epsilon_per_unit is None and noise.rho_per_square is None:
            raise PrivacyError(
                f"{noise.title} noise has no known privacy guarantee: it has no epsilon_per_unit and no rho_per_square"
            )
        if noise.epsilon_per_unit is None and is_bounded(public):
            raise PrivacyError(
                f"{noise.title} noise conditioned on bounds has no known guarantee: use DoubleGeometric or no bounds"
            )
        assign(self, public=public, noise=noise)

    def on_part(self, public: Public) -> Mechanism:
        """Return the same noise under the public sums of a part; bounds would need a normalizer of the part.

        Raises
        ------
        ModelError
            The noise is conditioned on bounds.
        """
        return super().on_part(public) if is_bounded(self.public) else Conditioned(public, self.noise)

    @property
    def law(self) -> IntegerLaw:
        """Return the noise before conditioning."""
        return self.noise

    @property
    def guarantee(self) -> Guarantee:
        """Return congenial privacy with the general bound gamma = 1; gamma = 0 without bounds (their Theorem 2.1)."""
        return self._guarantee(1.0 if is_bounded(self.public) else 0.0)

    @property
    def title(self) -> str:  # type: ignore[override]
        """Return a short description of the law."""
        return f"{self.noise.name} conditioned on public information"

    def _guarantee_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        """Compute gamma where it can be computed."""
        gamma = conditioning_cost(self, system, search=0).gamma if system.limits.size else 0.0
        # gamma is rounded up to few digits, so that release files are the same on every machine
        return self._guarantee(min(1.0, math.ceil(gamma * GRAIN + 1e-3) / GRAIN) if gamma else 0.0)

    def _guarantee(self, gamma: float) -> Guarantee:
        open_ = self.public.open
        if self.noise.epsilon_per_unit is None:
            return Guarantee("zcdp", rho=self.noise.rho_per_square, metric="l2", **open_)
        return Guarantee("congenial", self.noise.epsilon_per_unit, metric="l1", gamma=gamma, **open_)

    def to_dict(self) -> Json:
        """Kind and noise, rationals as text."""
        return {"kind": self.kind, "base": self.noise.to_dict()}

    @classmethod
    def _of_file(cls, public: Public, parameters: Json) -> Mechanism:
        noise = {"noise": IntegerLaw.from_dict(parameters.get("base"))}
        return super()._of_file(public, {name: v for name, v in parameters.items() if name != "base"} | noise)
