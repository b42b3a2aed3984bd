"""Base class of mechanisms that add noise with a law of `ppdinf.laws` that does not depend on the table."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import ModelError
from ppdinf.invariants import Public, System
from ppdinf.laws import IntegerLaw, L2Laplace
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.likelihood import Likelihood, MixingScale
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.noise.log_total import log_total
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan, plan_sampler

RARE = 1e-12  # probability that any cell is outside the truncated support


class LatticeNoise(TableMechanism):
    """Integer noise on the lattice ``{z : A z = 0}``, with a law that does not depend on the table.

    The density of a release y is ``q(y - x)``. Its normalizer does not depend on x (translation invariance); inference
    uses this property.
    """

    is_translation_invariant: ClassVar[bool] = True

    @property
    @abstractmethod
    def law(self) -> IntegerLaw | L2Laplace:
        """Return the law of the noise."""

    def likelihood(self, system: System) -> Likelihood:
        """Return the likelihood given by the law of the noise ``y - x``."""
        cells = system.frame.size
        scale = MixingScale(cells) if self.law.is_mixture else None
        constant = partial(log_total, system.structure, self.law)
        return Likelihood(AdditiveLaw(self.law), self.law.support_radius(cells, RARE), scale, constant=constant)

    def on_part(self, public: Public) -> LatticeNoise:
        """Return the same noise under the public statements of a part, if its weights factor over the cells.

        Raises
        ------
        ModelError
            The noise is a scale mixture: all cells have a common scale.
        """
        if self.law.is_mixture:
            raise ModelError(
                "a part of a release with l2 noise is not a release: the noise of all cells has one common scale. Use "
                "release.table.sel(...) for the numbers"
            )
        return self._with_public(public)

    def _with_public(self, public: Public) -> LatticeNoise:
        """Return the mechanism with the same law and other public statements."""
        return replace(self, public=public)  # type: ignore[type-var]

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Choose a sampler from the structure of the public sums.

        Raises
        ------
        InvariantError
            The public sums cross too much for every exact sampler, for example both margins of a large table with l1
            noise.
        """
        return plan_sampler(system, self.law, allow_mcmc=allow_mcmc)

    def draw(
        self, system: System, cells: NDArray[np.int64], draws: int, stream: BitStream, plan: Plan | None = None
    ) -> NDArray[np.int64]:
        """Draw releases of a table; int64 of shape (draws, d)."""
        plan = plan or self.plan_on(system)
        return cells + plan.noise_on(system.structure, self.law).draw(draws, stream)

    def log_weight(self, system: System, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Return the log density of the noise ``y - x`` without its normalizer, which is the same for every x."""
        return self.law.log_mass(y - x)

    @property
    def title(self) -> str:  # type: ignore[override]
        """Return a short description of the law."""
        return f"{self.law.title} on the lattice"
