"""Gaussian noise on the null space of public sums, projected or extended.

Projected: spherical noise for the sensitivity of the answers W, projected onto N (Corollary 3.5). Extended:
spherical noise within N for the sensitivity of Q'W, the projected answers, which is never larger (Corollary 3.6). Both
are N(0, sigma^2 P) with P the projection onto N, which is also spherical noise conditioned on keeping every public sum
(Theorem 4.2). The mean squared error over all cells is m sigma^2 with m = dim N.

On a grid, the noise is discrete Gaussian on the multiples with ``A z = 0``, wide enough for the guarantee of real
numbers (`ppdinf.mechanisms.real_noise`): tables at distance k differ by at most k Delta_2, of W or of Q'W.

J. Gao, R. Gong, F.-Y. Yu, "Subspace differential privacy", AAAI 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy import sparse

from ppdinf._internal.rationals import Parameter
from ppdinf._internal.values import Reals, assign, require_choice
from ppdinf.invariants import Public, System
from ppdinf.lattice.null_space import NullSpace, null_space
from ppdinf.laws import DiscreteGaussian
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.mechanisms.counting_queries import Query
from ppdinf.mechanisms.real_noise import NARROWEST, SubspaceNoise, gaussian_on_grid, gaussian_reach, in_steps
from ppdinf.mechanisms.subspace import SubspaceMechanism
from ppdinf.noise.primitives.stream import BitStream, normals
from ppdinf.noise.sampler_plan import exact_noise
from ppdinf.privacy.gaussian_calibration import concentrated, gaussian_sigma
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.sensitivity import Neighbours, sensitivity


@dataclass(frozen=True)
class SubspaceGaussian(SubspaceMechanism):
    """Real-valued Gaussian noise that keeps all public sums exact.

    The noise z is spherical Gaussian among all real z with ``A z = 0``, where the rows of A are the public sums.

    Parameters
    ----------
    public : Public
        Statements that are published exactly: sums of the cells, or of the answers if a query is given (then
        `answer` is the only dimension).
    epsilon, delta : int, float, str or Fraction
        Privacy loss between neighbours, and the probability of exceeding it.
    method : {"projected", "extended"}
        Whether the noise is calibrated to the answers or to their projection onto the null space. The second is never
        wider, and is narrower where sums cross in small tables.
    calibration : {"analytic", "printed"}
        See `ppdinf.privacy.gaussian_sigma`.
    query : matrix of non-negative integers, shape (q, d), optional
        One row per answer, one column per cell in the order of the table. By default the cells themselves.
    neighbours : {"replaced", "added"}
        One record replaced by another, or one added or removed.
    grid : power of two up to 1 as int, float, str or Fraction, "auto" or None
        The noise is a multiple of the grid. By default the scale of the noise has at least 65,000 steps, if a sampler
        for the lattice of the public sums is known. Otherwise, and for None, real numbers are drawn in double
        precision, as stated by plan and guarantee.

    Raises
    ------
    InvariantError, PrivacyError
        `public` is not public information; a parameter is out of range or unknown; an unusable grid.

    See Also
    --------
    ppdinf.CorrelatedGaussian, ppdinf.GeneralizedGaussian, ppdinf.SubspaceLaplace

    Notes
    -----
    Draws on a grid are exact: no floating-point number decides an outcome, and every public sum of the doubles equals
    the sum of the counts. Without a grid, sums are kept up to rounding, and the guarantee is about real numbers, whose
    low-order bits an attacker may use (Mironov 2012). A draw is O(d) where public sums split the cells into groups.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> mechanism = ppd.SubspaceGaussian(ppd.invariants.total(), epsilon="1/2", delta="1e-6")
    >>> noisy = mechanism.simulate([30, 4, 12], draws=2, rng=1)
    >>> noisy.sum("dim_0").values
    array([46., 46.])
    """

    kind: ClassVar[str] = "subspace-gaussian"
    method: str
    calibration: str

    def __init__(
        self,
        public: Public,
        epsilon: Parameter,
        delta: Parameter,
        method: str = "projected",
        calibration: str = "analytic",
        *,
        query: object = None,
        neighbours: Neighbours = "replaced",
        grid: Parameter | None = "auto",
    ) -> None:
        self._set(public, epsilon, delta, query, neighbours, grid)
        require_choice("method", method, ["projected", "extended"])
        assign(self, method=method, calibration=calibration)
        self._width(1.0)  # raises for values that cannot be calibrated

    def _width(self, moved: float) -> float:
        if not moved:
            return 0.0
        return gaussian_sigma(self.epsilon, self.delta, sensitivity=moved, calibration=self.calibration)  # type: ignore[arg-type]

    @property
    def guarantee(self) -> Guarantee:
        """Return induced subspace differential privacy; zCDP follows from the noise width and the sensitivity."""
        return concentrated(super().guarantee, self._width(1.0))

    def sigma(self, system: System) -> float:
        """Return the standard deviation of the noise in every direction of the null space."""
        space = null_space(system.structure)
        sigma = self._sigma(space)
        if self.grid is None or not sigma or not space.dimension:
            return sigma
        grid, steps = self._in_steps(sigma, system)
        return float(grid * steps)

    def _in_steps(self, sigma: float, system: System) -> tuple[Fraction, Fraction]:
        """Return the grid, and the standard deviation in its steps."""
        structure = system.structure
        sums = structure.lattice.class_basis
        across = (sums.multiply(sums) / structure.class_sizes[:, np.newaxis]).sum(axis=0)
        return gaussian_on_grid(sigma, max(2.0, float(np.max(across, initial=0.0))), self.grid)

    def _sigma(self, space: NullSpace) -> float:
        if self.method == "extended":
            return self._width(_sensitivity_within(space, self.query, self.neighbours))
        query = sparse.eye_array(space.fixed.shape[0]) if self.query is None else self.query
        return self._width(sensitivity(query, p=2, neighbours=self.neighbours))

    def law(self, system: System) -> SubspaceNoise:
        """Return the spherical Gaussian on the null space."""
        space = null_space(system.structure)
        sigma, d = self._sigma(space), space.fixed.shape[0]
        reason = f"Gaussian noise of {d} answers on the {space.dimension} dimensions that public sums leave free"

        def draw(draws: int, stream: BitStream) -> Reals:
            return sigma * space.project(normals(stream, draws, d))

        def on_lattice() -> SubspaceNoise:
            """Return the discrete Gaussian on the multiples of the grid with public sums 0."""
            grid, steps = self._in_steps(sigma, system)
            noise = exact_noise(system.structure, DiscreteGaussian(steps))
            law = _spherical(
                lambda draws, stream: in_steps(noise.draw(draws, stream), grid),
                "Klein",
                f"{reason}, on a lattice",
                float(steps * grid),
                space,
            )
            return replace(law, grid=grid, exact=True)

        law = _spherical(draw, "projection", reason, max(sigma, NARROWEST), space)
        return self._in_multiples(law, on_lattice, sigma)


def _spherical(
    draw: Callable[[int, BitStream], Reals], sampler: str, reason: str, width: float, space: NullSpace
) -> SubspaceNoise:
    d = space.fixed.shape[0]
    norm = NoiseNorm(sparse.eye_array(d, format="csc") / width, 2)
    return SubspaceNoise(draw, norm.log_density, sampler, reason, gaussian_reach(width, d), space.dimension, norm)


def _sensitivity_within(space: NullSpace, query: Query | None, neighbours: Neighbours) -> float:
    """Return the l2 sensitivity of Q'W, computed from P W, whose columns have the same lengths and distances."""
    if query is not None:
        return sensitivity(space.project(np.array(query, dtype=float).T).T, p=2, neighbours=neighbours)
    fixed = space.fixed
    if neighbours == "added":
        return math.sqrt(max(0.0, 1 - np.asarray((fixed**2).sum(axis=1)).min()))
    if space.structure.class_sizes.max() > 1:  # moving a record within a class is not affected by the projection
        return math.sqrt(2)
    return sensitivity(sparse.eye_array(fixed.shape[0]) - fixed @ fixed.T, p=2, neighbours=neighbours)
