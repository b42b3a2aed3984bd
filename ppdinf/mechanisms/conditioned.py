"""Congenial mechanisms: independent noise, conditioned on everything public.

R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, Theorem 2.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from ppdinf.errors import PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.mechanisms.base import require_public
from ppdinf.mechanisms.integer_noise import DiscreteGaussian, DoubleGeometric, IntegerNoise, Staircase
from ppdinf.mechanisms.weighted import Weighted, is_bounded
from ppdinf.noise.plan import Plan
from ppdinf.privacy.guarantee import Guarantee

__all__ = ["Conditioned"]

GRAIN = 10**6  # gamma is rounded up to a multiple of 1 / GRAIN
_NOISES = {cls.name: cls for cls in (DoubleGeometric, DiscreteGaussian, Staircase)}


@dataclass(frozen=True)
class Conditioned(Weighted):
    """Independent noise in every cell, given that the noisy table agrees with everything public, bounds included.

    Parameters
    ----------
    base : DoubleGeometric, DiscreteGaussian or Staircase
        Noise of each cell before conditioning, from `ppdinf.mechanisms`.
    public : Public
        Sums that the release shares with the table, and bounds that both obey.

    Raises
    ------
    PrivacyError
        `base` is no noise, or has no guarantee under bounds (the discrete Gaussian).

    Notes
    -----
    With bounds, the probability C(x) that noise around x meets them differs between tables: it enters the
    guarantee as gamma (`ppdinf.privacy.conditioning_cost`) and the likelihood as a normaliser. Draws
    are exact, by elimination: seconds of set-up for tables with tens of cells under crossing sums.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> mechanism = ppd.Conditioned(ppd.mechanisms.DoubleGeometric("1/2"), public)
    >>> release = mechanism.release(np.array([3, 0, 2]))
    >>> int(release.table.sum()), bool((release.table >= 0).all())
    (5, True)
    """

    kind: ClassVar[str] = "conditioned"
    base: IntegerNoise
    public: Public

    def __init__(self, base: IntegerNoise | dict[str, Any], public: Public) -> None:
        require_public(public)
        base = base if isinstance(base, IntegerNoise) else _noise(base)
        if isinstance(base, DiscreteGaussian) and is_bounded(public):
            raise PrivacyError(
                "Gaussian noise conditioned on bounds has no known guarantee: use DoubleGeometric or no bounds"
            )
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "public", public)

    @property
    def noise(self) -> IntegerNoise:
        """The noise before conditioning."""
        return self.base

    @property
    def guarantee(self) -> Guarantee:
        """Congenial privacy with the gamma that always holds, 1; 0 where no bounds are imposed (their Theorem 2.1)."""
        return self._guarantee(1.0 if is_bounded(self.public) else 0.0)

    @property
    def title(self) -> str:  # type: ignore[override]
        """The law in a few words."""
        return f"{self.base.name} conditioned on what is public"

    def _promise_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        """Work gamma out where it can be."""
        from ppdinf.privacy.conditioning import conditioning_cost

        gamma = conditioning_cost(self, system, search=0).gamma if system.limits.size else 0.0
        # a bound in few digits: the same on every machine, as release files need
        return self._guarantee(min(1.0, math.ceil(gamma * GRAIN + 1e-3) / GRAIN) if gamma else 0.0)

    def _guarantee(self, gamma: float) -> Guarantee:
        open_ = self.public.open
        if isinstance(self.base, DiscreteGaussian):
            return Guarantee("zcdp", rho=1 / (2 * self.base.sigma**2), metric="l2", **open_)
        epsilon: Fraction = self.base.epsilon  # type: ignore[attr-defined]
        return Guarantee("congenial", epsilon, metric="l1", gamma=gamma, **open_)

    def to_dict(self) -> dict[str, Any]:
        """Kind and noise, rationals as text."""
        return {"kind": self.kind, "base": self.base.to_dict()}


def _noise(data: Any) -> IntegerNoise:
    if not isinstance(data, dict) or data.get("name") not in _NOISES:
        raise PrivacyError(
            f"the first argument is noise such as ppdinf.mechanisms.DoubleGeometric('1/2'), found {data!r:.60}"
        )
    parameters = {key: int(value) if key in ("sensitivity", "step") else value for key, value in data.items()}
    return _NOISES[str(parameters.pop("name"))](**parameters)
