"""A validated and planned release, before its noise is drawn and any privacy is spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ppdinf.invariants import System
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantees.release_guarantee import ReleaseGuarantee
from ppdinf.releases.mechanism import Mechanism

__all__ = ["PreparedRelease"]


@dataclass(frozen=True, eq=False)
class PreparedRelease:
    """A validated and planned release without noise. It holds the confidential table: never publish it.

    Attributes
    ----------
    mechanism : Mechanism
        Bound to the public sums of the table.
    public : System
        Public statements about the table.
    plan : Plan or None
        How the noise will be drawn.
    draw : callable
        Draws the noise, which spends `guarantee`, and returns the release; every call is a separate release.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> draft = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4").draft([3, 1, 2])
    >>> draft.guarantee.loss(1)
    Fraction(1, 4)
    >>> int(draft.draw().table.sum())
    6
    """

    mechanism: Mechanism
    public: System
    plan: Plan | None
    draw: Callable[[], Any]

    @cached_property
    def guarantee(self) -> ReleaseGuarantee:
        """The guarantee of the complete release."""
        return self.mechanism.guarantee_on(self.public, self.plan)
