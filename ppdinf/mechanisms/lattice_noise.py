"""Mechanisms that add noise with one of the laws of `ppdinf.samplers.noise_law`, whatever the table is."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppdinf.invariants import System
from ppdinf.mechanisms.base import Mechanism
from ppdinf.privacy.guarantee import Guarantee, ReleaseGuarantee
from ppdinf.samplers.plan import Plan, plan

if TYPE_CHECKING:
    from ppdinf.samplers.noise_law import NoiseLaw
    from ppdinf.samplers.tape import Tape

__all__ = ["LatticeNoise"]

RARE = 1e-12  # probability with which any cell leaves its window


class LatticeNoise(Mechanism):
    """Integer noise on the lattice ``{z : A z = 0}``, with a law that does not depend on the table.

    The density of a release y is ``q(y - x)`` with a normaliser free of x (translation invariance), which
    inference uses.
    """

    @property
    @abstractmethod
    def law(self) -> NoiseLaw:
        """The law of the noise."""

    @property
    def is_mixture(self) -> bool:
        """Whether the law is that of l2 Laplace noise, a mixture of Gaussians of one common scale."""
        return self.law.kind == "l2"

    def potential(self, z: Any, scale: Any = None) -> Any:
        """Log weight of each noise value, elementwise, normaliser dropped; NumPy or PyTensor.

        Parameters
        ----------
        z : array or tensor of integers
        scale : scalar, optional
            For the l2 law, a value v of the mixing scale with density ``exp(-v**2 / 2)``: given v, the noise is
            Gaussian with standard deviation ``v / epsilon``, and integrating v out leaves ``exp(-epsilon |z|_2)``
            (`ppdinf.samplers.mixture`).
        """
        size = float(self.law.scale)
        if self.law.kind == "l1":
            return -size * abs(z)
        sigma = size if self.law.kind == "gaussian" else scale / size
        return -0.5 * z**2 / sigma**2

    def half_width(self, cells: int) -> int:
        """Bound on ``|z|`` over `cells` cells, exceeded with probability at most 1e-12.

        Laplace: given the other cells' law, a cell has mass at most ``exp(-epsilon |k|)`` relative to that of 0, since
        the mass that the others leave to ``-k`` is largest at 0, their law having a positive Fourier transform.
        Gaussian: a lattice Gaussian has ``E exp(u z) <= exp(sigma**2 u**2 / 2)``, its mass being largest when it is
        centred on the lattice. l2: given the mixing scale v it is Gaussian, and v is stochastically smaller than
        a chi variable with one degree of freedom more than the lattice has dimensions.
        """
        from scipy import stats

        size = float(self.law.scale)
        if self.law.kind == "l1":
            return math.ceil(math.log(2 * cells / -math.expm1(-size) / RARE) / size)
        if self.law.kind == "gaussian":
            return math.ceil(size * math.sqrt(2 * math.log(2 * cells / RARE)))
        widest = float(stats.chi.isf(RARE / 2, cells + 1)) / size
        return math.ceil(widest * math.sqrt(2 * math.log(4 * cells / RARE)))

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Choose a sampler by the structure of the public sums.

        Raises
        ------
        InvariantError
            The public sums cross too much for every exact sampler, as both margins of a large table do for l1 noise.
        """
        return plan(system, self.law, allow_mcmc=allow_mcmc)

    def noise(self, system: System, draws: int, tape: Tape, plan: Plan | None = None) -> NDArray[np.int64]:
        """Draw the noise of `draws` releases; int64 of shape (draws, d)."""
        from ppdinf.samplers.chain_noise import chain_noise
        from ppdinf.samplers.exact import exact_noise

        sampler = chain_noise if plan is not None and not plan.exact else exact_noise
        return sampler(system.structure, self.law).draw(draws, tape)

    def draw(
        self, system: System, cells: NDArray[np.int64], draws: int, tape: Tape, plan: Plan | None = None
    ) -> NDArray[np.int64]:
        """Draw releases of a table; int64 of shape (draws, d)."""
        return cells + self.noise(system, draws, tape, plan)

    def log_weight(self, system: System, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Log density of the noise ``y - x``, normaliser dropped; it is the same for every x."""
        return self.law.log_mass(y - x)

    def _guarantee_on(self, promise: Guarantee, system: System, plan: Plan | None) -> ReleaseGuarantee:
        """Say how near the nearest alternative is, and how the noise was drawn."""
        from ppdinf.lattice.shortest import shortest_distance

        nearest = shortest_distance(system.structure, promise.metric or "l2")
        if promise.metric is None and nearest is not None:
            nearest = 1  # steps between neighbours
        title = {"l1": "l1 Laplace", "l2": "l2 Laplace", "gaussian": "Gaussian"}[self.law.kind]
        return ReleaseGuarantee(
            **vars(promise),
            nearest=nearest,
            fixed=int(system.structure.fixed.sum()),
            cells=system.frame.size,
            sampler=f"{title} on the lattice, {plan or 'drawn in a way that is not stated'}",
            sampler_distance=(plan and plan.distance) or 0.0,
        )
