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


@dataclass(frozen=True, eq=False)
class PreparedRelease:
    """A validated and planned release without noise. It holds the confidential table: never publish it."""

    mechanism: Mechanism
    public: System
    plan: Plan | None
    draw: Callable[[], Any]

    @cached_property
    def guarantee(self) -> ReleaseGuarantee:
        """The guarantee of the complete release."""
        return self.mechanism.guarantee_on(self.public, self.plan)
