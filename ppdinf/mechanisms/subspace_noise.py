"""Gaussian and Laplace noise on the null space N of public sums, projected or extended.

W are the answers, Q is an orthonormal basis of N with the projection P, and m = dim N.

Gaussian     Spherical for the sensitivity of W, projected onto N (Corollary 3.5), or spherical within N for the
             sensitivity of Q'W, which is never larger (Corollary 3.6). Both are N(0, sigma^2 P), spherical noise
             conditioned on keeping every public sum (Theorem 4.2). The mean squared error over all cells is m sigma^2.
             On a grid it is discrete Gaussian on the multiples with ``A z = 0``, wide enough for the guarantee of real
             numbers (`ppdinf.mechanisms.real_noise`): tables at distance k differ by at most k Delta_2, of W or of Q'W.
Laplace      P e with independent Laplace noise e of scale Delta_1(W) / epsilon (Corollary 3.8), or Q w with independent
             Laplace coordinates w of scale Delta_1(Q'W) / epsilon (Corollary 3.9), where Q is computed by
             `ppdinf.lattice.null_space`. The mean squared error over all cells is 2 m scale^2.

J. Gao, R. Gong, F.-Y. Yu, "Subspace differential privacy", AAAI 2022. Noise on a grid: docs/mathematics/real_noise.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy import sparse
from scipy.special import exprel, logsumexp

from ppdinf._internal.rationals import Parameter
from ppdinf._internal.values import Reals, assign, require_choice
from ppdinf.errors import ModelError
from ppdinf.invariants import Public, System
from ppdinf.lattice.null_space import NullSpace, null_space
from ppdinf.laws import DiscreteGaussian
from ppdinf.laws.likelihood import Likelihood
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.mechanisms.counting_queries import Query
from ppdinf.mechanisms.real_noise import (
    NARROWEST,
    Draw,
    SubspaceNoise,
    gaussian_on_grid,
    gaussian_reach,
    grid_below,
    in_steps,
    laplace_reach,
    unless_noisy,
)
from ppdinf.mechanisms.subspace import SubspaceMechanism
from ppdinf.noise.primitives.integers import draw_discrete_laplace
from ppdinf.noise.primitives.stream import BitStream, laplaces, normals
from ppdinf.noise.sampler_plan import exact_noise
from ppdinf.noise.triangular_laplace import triangular_laplace
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


def _spherical(draw: Draw, sampler: str, reason: str, width: float, space: NullSpace) -> SubspaceNoise:
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


COARSE = 0.05  # relative error of an integral over the removed component


@dataclass(frozen=True)
class SubspaceLaplace(SubspaceMechanism):
    """Real-valued Laplace noise that keeps all public sums exact, with a pure guarantee.

    The noise z satisfies ``A z = 0``, where the rows of A are the public sums.

    Parameters
    ----------
    public : Public
        Statements that are published exactly: sums of the cells, or of the answers if a query is given.
    epsilon : int, float, str or Fraction
        Privacy loss between neighbours.
    method : {"projected", "extended"}
        Laplace noise of all answers, projected; or Laplace coordinates in a basis of the null space. Unlike for
        Gaussian noise, the second can be wider: for cells under one total, by a factor of about 2.4.
        The basis depends on the order of the cells, and so does the law of the second method.
    query, neighbours, grid
        As for `SubspaceGaussian`; the component that a projection removes is not a multiple of the grid.

    Raises
    ------
    InvariantError, PrivacyError
        `public` is not public information; a parameter is out of range or unknown; an unusable grid.

    See Also
    --------
    ppdinf.SubspaceGaussian, ppdinf.GeneralizedLaplace, ppdinf.KNorm

    Notes
    -----
    Draws on a grid are exact, as for `SubspaceGaussian`. Extended noise keeps every public sum of the doubles;
    projected noise keeps sums up to rounding and reveals nothing more. Its density has a closed form if public sums
    split the cells into groups; otherwise `logp` raises an error. Inference needs no closed form: it samples the
    removed component.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> mechanism = ppd.SubspaceLaplace(ppd.invariants.total(), epsilon="0.192")
    >>> noisy = mechanism.simulate([30, 4, 12], draws=2, rng=1)
    >>> noisy.sum("dim_0").values.round(9)
    array([46., 46.])
    """

    kind: ClassVar[str] = "subspace-laplace"
    method: str

    def __init__(
        self,
        public: Public,
        epsilon: Parameter,
        method: str = "projected",
        *,
        query: object = None,
        neighbours: Neighbours = "replaced",
        grid: Parameter | None = "auto",
    ) -> None:
        self._set(public, epsilon, None, query, neighbours, grid)
        require_choice("method", method, ["projected", "extended"])
        assign(self, method=method)

    def scale(self, system: System) -> float:
        """Return the scale of the Laplace coordinates, of all answers or of the basis."""
        return self._moved(null_space(system.structure)) / float(self.epsilon)

    def _moved(self, space: NullSpace) -> float:
        d = space.fixed.shape[0]
        query = sparse.csc_array(sparse.eye_array(d) if self.query is None else np.array(self.query, dtype=float))
        if self.method == "extended":
            if not space.dimension:
                return 0.0
            query = space.basis.T @ query
        return sensitivity(query, p=1, neighbours=self.neighbours)

    def law(self, system: System) -> SubspaceNoise:
        """Return Laplace noise, projected onto the null space or within it."""
        space = null_space(system.structure)
        moved, d, m = self._moved(space), space.fixed.shape[0], space.dimension
        scale = moved / float(self.epsilon)
        width = max(scale, NARROWEST)
        reach = laplace_reach(width, d)
        reason = f"Laplace noise of {d} answers on the {m} dimensions that public sums leave free"
        # Extended noise: Laplace coordinates in a basis of the null space, on the lattice if possible.
        if self.method == "extended":
            norm = NoiseNorm(sparse.csc_array(space.basis.T / width), 1)

            def extended(draws: int, stream: BitStream) -> Reals:
                return scale * (laplaces(stream, draws, m) @ space.basis.T) if m else np.zeros((draws, d))

            law = SubspaceNoise(extended, norm.log_density, "basis", reason, reach, m, norm)
            return self._in_multiples(law, lambda: self._on_lattice(space, scale, law), scale)

        # Projected noise: its density is an integral over the removed shifts t, or a sum on a grid.
        grid = None if not scale else self.grid if self.grid != "auto" else min(Fraction(1), grid_below(width))
        step = 0.0 if grid is None else float(grid) / scale

        def projected_density(z: Reals) -> float:
            return _projected_log_density(space, z / scale, step) if scale else 0.0

        # t is scaled such that exp(-|t|_1) falls no faster than exp(-|z + shifts @ t|_1 / scale)
        shifts = space.fixed * (width * math.sqrt(d - m)) if m < d else None
        norm = NoiseNorm(sparse.eye_array(d, format="csc") / width, 1)
        stated = (projected_density, "projection", reason, reach, m, norm, shifts)
        if not isinstance(grid, Fraction):
            law = SubspaceNoise(lambda draws, stream: scale * space.project(laplaces(stream, draws, d)), *stated)
            return unless_noisy(law, self.grid, scale=scale)
        rate = grid * self.epsilon / Fraction(moved)

        # On a grid, double geometric noise of all answers is drawn, and `removed` is its projection.
        def unprojected(draws: int, stream: BitStream) -> Reals:
            return in_steps(draw_discrete_laplace(rate, draws * d, stream).reshape(draws, d), grid)

        def removed(noise: Reals) -> Reals:
            broken = space.sums @ np.rint(noise.T / float(grid)).astype(np.int64)  # exact integers
            return float(grid) * (space.fixed @ (space.weights @ broken)).T

        return SubspaceNoise(unprojected, *stated, grid=grid, exact=True, removed=removed if m < d else None)

    def _on_lattice(self, space: NullSpace, scale: float, real: SubspaceNoise) -> SubspaceNoise:
        """Return the law with independent Laplace coordinates in the basis, on the multiples of the grid."""
        d, lattice = space.fixed.shape[0], space.lattice_basis
        grid = self.grid if isinstance(self.grid, Fraction) else min(Fraction(1), grid_below(scale))
        law, widening = triangular_laplace(space.basis.T @ lattice, scale, grid)
        width = max(scale * widening, NARROWEST)
        norm = NoiseNorm(sparse.csc_array(space.basis.T / width), 1)
        return replace(
            real,
            draw=lambda draws, stream: in_steps((lattice @ law.draw(draws, stream).T).T, grid),
            log_density=norm.log_density,
            sampler="triangular",
            reason=f"{real.reason}, on a lattice",
            reach=laplace_reach(width, d) + float(grid) * d,
            norm=norm,
            grid=grid,
            exact=True,
        )

    def likelihood(self, system: System) -> Likelihood | None:
        """Return the law of the noise before its projection, if its grid is fine enough for an integral."""
        law, scale = self._law(system), self.scale(system)
        if law.shifts is not None and law.grid is not None and system.frame.size * law.grid**2 > COARSE * scale**2:
            raise ModelError(
                f"a grid of {law.grid} is too coarse for inference from projected noise of scale {scale:.4g} in "
                f"{system.frame.size} cells: choose a finer grid, or method='extended'"
            )
        return super().likelihood(system)


def _projected_log_density(space: NullSpace, z: Reals, step: float) -> float:
    """Return the log density of projected noise of scale 1: exp(-|z + t|_1), summed over removed shifts t."""
    structure = space.structure
    free = ~structure.determined
    crossing = (structure.sum_ranks > 1).any() or (np.diff(structure.lattice.class_basis.indptr) > 1).any()
    if crossing or (free & (structure.class_sizes > 1)).any():
        raise ModelError(
            "projected Laplace noise under crossing sums has no density in closed form: use SubspaceGaussian or "
            "method='extended', or infer with PartiallyPrivate, which needs no closed form"
        )
    alone = free[structure.classes]
    order = np.argsort(structure.classes[~alone], kind="stable")
    groups = np.split(z[~alone][order], np.cumsum(structure.class_sizes[structure.determined])[:-1])
    return -float(np.abs(z[alone]).sum()) + sum(_log_shift_sum(group, step) for group in groups)


def _log_shift_sum(z: Reals, step: float) -> float:
    """Return the log of step times the sum of exp(-sum_i |z_i + t|) over t in -z_1 + step Z; step 0: the integral."""
    n = z.size
    if not n:
        return 0.0
    points = np.sort(-z)
    slopes = 2.0 * np.arange(n + 1) - n
    widths = np.diff(points)
    total = np.abs(points[0] - points).sum()
    heights = total + np.concatenate([[0.0], np.cumsum(slopes[1:-1] * widths)])
    # a piece contains its left end, so that a falling exponent begins one step after its smaller end
    low = np.where(slopes[1:-1] >= 0, heights[:-1], heights[1:] - slopes[1:-1] * step)
    with np.errstate(divide="ignore"):
        pieces = np.log(widths) - low + np.log(exprel(-np.abs(np.diff(heights))) / exprel(-np.abs(slopes[1:-1]) * step))
    ends = -heights[[0, -1]] - np.log(n) - np.log(exprel(-n * step)) - [n * step, 0.0]
    return float(logsumexp(np.concatenate([pieces, ends])))
