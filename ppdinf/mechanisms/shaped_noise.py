"""Noise whose shape is adapted to the changes by one person, projected onto the null space of the public sums.

K-norm noise: K is the convex hull of the changes, and |z|_K is the smallest factor by which K must be scaled to contain
z. The density is proportional to exp(-epsilon |z|_K). A draw is a uniform point of K times a Gamma(k + 1, 1 / epsilon)
radius, where k is the dimension of K. On a grid, a draw of real numbers is rounded to multiples and accepted with a
probability that gives the stated mass; changes that are independent and keep the public sums have an l1 law that is
drawn exactly.

Correlated Gaussian noise: the changes have a smallest enclosing ellipsoid. Its shorter half-axes receive noise of one
width, the longest change along them. The remaining directions are treated recursively with a new ellipsoid, down to the
last axis. All parts are calibrated jointly, by the longest change in the norm of the noise.

Derivation and references: docs/mathematics/real_noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import gammainccinv

from ppdinf._internal.rationals import Parameter
from ppdinf._internal.values import Reals
from ppdinf.errors import PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.lattice import structure
from ppdinf.lattice.null_space import NullSpace, null_space
from ppdinf.laws import DoubleGeometric
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.mechanisms.counting_queries import inside, moved_structure, sensitivity_directions
from ppdinf.mechanisms.real_noise import (
    RARE,
    Draw,
    SubspaceNoise,
    gaussian_on_grid,
    gaussian_reach,
    grid_below,
    in_steps,
    unless_noisy,
)
from ppdinf.mechanisms.subspace import SubspaceMechanism
from ppdinf.noise.exact.lattice_gaussian import ImageLattice
from ppdinf.noise.k_norm import IndependentMoves, Polytope, independent_moves, polytope
from ppdinf.noise.mcmc.tv_bound import TVBound, tv_bound
from ppdinf.noise.primitives.stream import BitStream, exponentials, normals
from ppdinf.noise.random_lines import hit_and_run, hit_and_run_meeting, hull_chord
from ppdinf.noise.sampler_plan import exact_noise
from ppdinf.privacy.gaussian_calibration import concentrated, gaussian_sigma
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.sensitivity import Neighbours, enclosing_ellipsoid

COARSE = 3.0  # largest rounding error in log densities: at least exp(-6) of all draws are accepted
EXACT = 8  # largest dimension in which the faces of K are enumerated
PAIRS = 50  # pairs of coupled chains
LIMIT = 5000  # largest number of steps until two chains meet


@dataclass(frozen=True)
class KNorm(SubspaceMechanism):
    """Real-valued noise that is shaped by the sensitivity of the answers and keeps all public sums exact.

    The noise z has density proportional to ``exp(-epsilon |z|_K)`` among all real z with ``A z = 0``, where the
    rows of A are the public sums.

    Parameters
    ----------
    public : Public
        Statements that are published exactly: sums of the cells, or of the answers if a query is given.
    epsilon : int, float, str or Fraction
        Privacy loss between neighbours.
    query, grid
        As for `SubspaceGaussian`.
    neighbours : {"replaced", "added", "swapped"}
        "swapped": two records are replaced such that all public sums of the cells are kept (semi-adjacency). Under two
        margins no record can be replaced alone, and noise for two replaced records is wider than noise for a swap.

    Raises
    ------
    InvariantError, PrivacyError
        `public` is not public information, or a parameter is out of range or unknown. Draws raise an error if
        coupled chains did not meet. Swaps do not connect all tables with the same public sums, or a query is given
        for swaps.

    See Also
    --------
    ppdinf.SubspaceLaplace, ppdinf.CorrelatedGaussian, ppdinf.KNormGradient

    Notes
    -----
    The guarantee is pure. The squared error is near the optimum if K has similar extent in all directions. Draws follow
    the law exactly if no change by a record is a combination of other changes and no change violates a public sum
    (cells under one total or none, as many independent queries as cells). Otherwise, in up to 8 free dimensions, they
    follow it up to double precision, as guarantee and plan state. In higher dimensions, hit-and-run chains
    (``allow_mcmc=True``) add the upper limit of their distance from the law to the guarantee, at least 0.06: use them
    for research only (docs/guarantees.md).

    Examples
    --------
    >>> import ppdinf as ppd
    >>> mechanism = ppd.KNorm(ppd.invariants.total(), epsilon="1/2")
    >>> noisy = mechanism.simulate([30, 4, 12], draws=2, rng=1)
    >>> noisy.sum("dim_0").values
    array([46., 46.])
    """

    kind: ClassVar[str] = "k-norm"
    relations: ClassVar[tuple[str, ...]] = ("replaced", "added", "swapped")

    def __init__(
        self,
        public: Public,
        epsilon: Parameter,
        *,
        query: object = None,
        neighbours: Neighbours = "replaced",
        grid: Parameter | None = "auto",
    ) -> None:
        self._set(public, epsilon, None, query, neighbours, grid)
        if neighbours == "swapped" and query is not None:
            raise PrivacyError("swaps are changes of the cells: give no query")

    def law(self, system: System) -> SubspaceNoise:
        """Return the law of K-norm noise; if it needs a chain, the chain is measured on first use."""
        space = null_space(system.structure)
        directions, moves = sensitivity_directions(space, self.query, self.neighbours)
        epsilon, (d, k) = float(self.epsilon), directions.shape
        # Without directions, the noise is zero.
        if not k:
            norm = NoiseNorm(sparse.csc_array((0, d)), 1)
            no_noise = (lambda draws, stream: np.zeros((draws, d)), lambda z: 0.0, "none", "no changes", 0, 0, norm)
            return unless_noisy(SubspaceNoise(*no_noise), self.grid)
        reach = float(np.abs(directions @ moves).max() * gammainccinv(k + 1, RARE)) / epsilon
        columns = directions.T if self.query is None else directions.T @ np.array(self.query)
        # Minimal sets of changes and small dimensions have an explicit body K, which is sampled directly.
        body: IndependentMoves | Polytope | None
        swapped = self.neighbours == "swapped"
        body = None if swapped else independent_moves(columns, differences=self.neighbours == "replaced")
        if body is not None:
            order, sampler, how = 1.0, "independent moves", "where no change by a record is a combination of others"
        elif k <= EXACT:
            body = polytope(moves)
            order, sampler, how = np.inf, "polytope", f"from the {len(body.corners):,} simplices of K"
        if body is not None:
            norm = NoiseNorm(sparse.csc_array(epsilon * body.forms @ directions.T), order)
            stated: tuple[Any, ...] = (
                lambda z: norm.log_density(z) if inside(directions, z) else -np.inf,
                sampler,
                f"K-norm noise in {k} dimensions, {how}",
                reach,
                k,
                norm,
            )
            counts = None if sampler == "polytope" else self._records_moved(system, columns)
            if counts is not None and self.grid is not None:
                return replace(SubspaceNoise(counts[0], *stated), grid=counts[1], exact=True)
            return self._rounded(
                SubspaceNoise(lambda draws, stream: body.noise(draws, stream) @ directions.T / epsilon, *stated),
                space,
                lambda z: np.linalg.norm(norm.matrix @ z.T, ord=order, axis=0),
            )
        # Otherwise sample K by hit-and-run, with an independent Gamma radius.
        chord = hull_chord(moves)

        def draw(draws: int, stream: BitStream) -> Reals:
            root, bound = _chain(moves.tobytes(), moves.shape)
            radius = exponentials(stream, draws, k + 1).sum(axis=1, keepdims=True) / epsilon
            return radius * hit_and_run(chord, root, _steps(bound), draws, stream) @ directions.T

        def log_density(z: Reals) -> float:
            if not inside(directions, z) or not np.any(z):
                return -np.inf if np.any(z) else 0.0
            return -epsilon / chord(np.zeros(k), directions.T @ z)[1]

        def distance() -> float:
            bound = _chain(moves.tobytes(), moves.shape)[1]
            return float(bound.upper(_steps(bound)))

        reason = f"K-norm noise in {k} dimensions needs a hit-and-run chain"
        law = SubspaceNoise(draw, log_density, "hit-and-run", reason, reach, k, distance=distance)
        return self._rounded(law, space, lambda z: -np.array([log_density(row) for row in z]))

    def _step(self) -> Fraction:
        """Return a grid that divides the scale of one record into at least 65,000 steps."""
        return self.grid if isinstance(self.grid, Fraction) else min(Fraction(1), grid_below(1 / float(self.epsilon)))

    def _records_moved(self, system: System, columns: Reals) -> tuple[Draw, Fraction] | None:
        """Return a sampler of the numbers of changed records by kind; None if a change violates a public sum."""
        distinct = np.unique(columns.round(9), axis=1, return_index=True)[1]
        if self.neighbours == "added":
            distinct = distinct[np.abs(columns[:, distinct]).max(axis=0) > 1e-9]
        answers = sparse.eye_array(system.frame.size, dtype=np.int64, format="csc")
        kinds = (answers if self.query is None else sparse.csc_array(np.array(self.query)))[:, distinct]
        replaced = self.neighbours == "replaced"
        moves = kinds - kinds[:, [0] * distinct.size] if replaced else kinds
        if (system.A @ moves).count_nonzero():
            return None
        grid, ones = self._step(), np.full((1, distinct.size), int(replaced))
        rate = self.epsilon * grid / (2 if replaced else 1)  # replacement removes one record and adds one
        noise = exact_noise(structure(ones), DoubleGeometric(rate))
        return lambda draws, stream: in_steps((kinds @ noise.draw(draws, stream).T).T, grid), grid

    def _rounded(self, law: SubspaceNoise, space: NullSpace, size: Callable[[Reals], Reals]) -> SubspaceNoise:
        """Round draws to multiples of the grid with public sums 0; `size` is minus the log density of each row."""
        if self.grid is None:
            return law
        basis = moved_structure(space, self.query, self.neighbours).lattice.basis.toarray()
        inverse, grid = np.linalg.pinv(basis.astype(float)), self._step()
        step, k = float(grid), basis.shape[1]
        # the largest size of a rounding error: at a corner of the cell, at most the sum over its edges
        edges = basis.T * step / 2
        corners = np.array(list(product((-1, 1), repeat=k))) @ edges if k <= EXACT else edges
        largest = float(size(corners).max() if k <= EXACT else size(corners).sum())
        if largest > COARSE:
            raise PrivacyError(
                f"a grid of {grid} is too coarse for K-norm noise in {k} dimensions with epsilon = {self.epsilon}: "
                "choose a finer grid"
            )

        def draw(draws: int, stream: BitStream) -> Reals:
            found = np.zeros((0, basis.shape[0]))
            while len(found) < draws:
                drawn = law.draw(draws - len(found), stream)
                rounded = in_steps(np.rint(drawn @ inverse.T / step).astype(np.int64) @ basis.T, grid)
                accepted = exponentials(stream, len(drawn)) > largest + size(rounded) - size(drawn)
                found = np.vstack([found, rounded[accepted]])
            return found

        def distance() -> float:  # of accepted draws, which are at least exp(-2 largest) of all
            return min(1.0, math.exp(2 * largest) * law.distance()) if law.distance is not None else 0.0

        return replace(law, draw=draw, grid=grid, distance=law.distance and distance)


@lru_cache(maxsize=4)
def _chain(data: bytes, shape: tuple[int, int]) -> tuple[Reals, TVBound]:
    """Return the directions of the chain, and the meeting times of its coupled pairs."""
    moves = np.frombuffer(data).reshape(shape)
    root = np.linalg.cholesky(enclosing_ellipsoid(moves))
    bound = tv_bound(hit_and_run_meeting(hull_chord(moves), root), pairs=PAIRS, limit=LIMIT, rng=0)
    if bound.unmet:
        raise PrivacyError(f"no chain converges fast enough for K-norm noise in {shape[0]} dimensions: {bound}")
    return root, bound


def _steps(bound: TVBound) -> int:
    return int(bound.meetings.max()) - bound.lag


WHITE = 24  # bits of the integer entries of the whitening matrix


@dataclass(frozen=True)
class CorrelatedGaussian(SubspaceMechanism):
    """Real-valued Gaussian noise that keeps all public sums exact, wider in directions of larger sensitivity.

    The noise z satisfies ``A z = 0``, where the rows of A are the public sums.

    Parameters
    ----------
    public : Public
        Statements that are published exactly: sums of the cells, or of the answers if a query is given.
    epsilon, delta : int, float, str or Fraction
        Privacy loss between neighbours, and the probability of exceeding it.
    query, neighbours, grid
        As for `SubspaceGaussian`.

    Raises
    ------
    InvariantError, PrivacyError
        `public` is not public information; a parameter is out of range or unknown; when drawing, too many cells.

    See Also
    --------
    ppdinf.SubspaceGaussian, ppdinf.KNorm, ppdinf.GeneralizedGaussian

    Notes
    -----
    The mean squared error is within a factor O(log^2 m log(1/delta)) of the optimum, for small epsilon and delta. The
    mechanism is useful for overlapping queries, such as cumulative counts; for single cells `SubspaceGaussian` has a
    smaller error. All changes by one person are enumerated, d^2 / 2 for replaced records, so tables can have several
    hundred cells. Draws on a grid are exact.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> cumulative = np.tril(np.ones((12, 12), dtype=int))
    >>> whole = ppd.invariants.cells({"answer": 11})
    >>> mechanism = ppd.CorrelatedGaussian(whole, epsilon=1, delta="1e-6", query=cumulative)
    >>> noisy = mechanism.simulate(np.arange(12), draws=2, rng=1)
    >>> noisy[:, 11].values
    array([66., 66.])
    """

    kind: ClassVar[str] = "correlated-gaussian"

    def __init__(
        self,
        public: Public,
        epsilon: Parameter,
        delta: Parameter,
        *,
        query: object = None,
        neighbours: Neighbours = "replaced",
        grid: Parameter | None = "auto",
    ) -> None:
        self._set(public, epsilon, delta, query, neighbours, grid)
        gaussian_sigma(self.epsilon, self.delta)  # raises for values that cannot be calibrated

    @property
    def guarantee(self) -> Guarantee:
        """Return induced subspace differential privacy; zCDP follows from the noise width and the sensitivity."""
        return concentrated(super().guarantee, gaussian_sigma(self.epsilon, self.delta))

    def factor(self, system: System) -> Reals:
        """Return F, shape (d, k), such that the noise is F e with e standard normal, before any grid."""
        directions, moves = sensitivity_directions(null_space(system.structure), self.query, self.neighbours)
        if not moves.size:
            return directions
        shape = base_decomposition(moves)
        longest = float(np.linalg.norm(np.linalg.solve(shape, moves), axis=0).max())
        return gaussian_sigma(self.epsilon, self.delta, sensitivity=longest) * (directions @ shape)

    def law(self, system: System) -> SubspaceNoise:
        """Return the Gaussian with covariance F F'."""
        factor = self.factor(system)
        widths = np.linalg.norm(factor, axis=0)
        axes = factor / widths  # orthogonal

        def draw(draws: int, stream: BitStream) -> Reals:
            return normals(stream, draws, widths.size) @ factor.T if widths.size else np.zeros((draws, factor.shape[0]))

        parts = np.unique(widths.round(12)).size
        reason = f"Gaussian noise of {parts} width{'s' * (parts != 1)} along {widths.size} orthogonal axes"
        white = axes.T / widths[:, np.newaxis]
        law = _stated(factor, white, draw, "axes", reason)
        return self._in_multiples(law, lambda: self._on_lattice(system, factor, white, reason))

    def _on_lattice(self, system: System, factor: Reals, white: Reals, reason: str) -> SubspaceNoise:
        """Return the discrete Gaussian on the multiples of the grid that the changes span."""
        space = null_space(system.structure)
        directions, moves = sensitivity_directions(space, self.query, self.neighbours)
        unit = 2.0 ** (WHITE - math.ceil(math.log2(np.abs(white).max())))
        integers = np.rint(white * unit).astype(np.int64)
        # the ratio of the longest change in these integers and in the calibrated real numbers
        longest = [np.linalg.norm(matrix @ (directions @ moves), axis=0).max() for matrix in (integers, white)]
        lattice = ImageLattice(moved_structure(space, self.query, self.neighbours).lattice.basis, integers)
        grid, steps = gaussian_on_grid(float(longest[0] / longest[1]), lattice.longest**2, self.grid)
        lattice.klein  # noqa: B018  (raises if the noise cannot be drawn, before a guarantee is stated)
        width = float(grid * steps)  # of M z

        def draw(draws: int, stream: BitStream) -> Reals:
            return in_steps(lattice.draw(steps**2, draws, stream), grid)

        law = _stated(factor * (width / unit), integers / width, draw, "Klein", f"{reason}, on a lattice")
        return replace(law, grid=grid, exact=True)


def _stated(factor: Reals, white: Reals, draw: Draw, sampler: str, reason: str) -> SubspaceNoise:
    """Return Gaussian noise F e, given F, its whitening matrix and its sampler."""
    norm = NoiseNorm(sparse.csc_array(white), 2)
    axes = factor / np.linalg.norm(factor, axis=0)

    def log_density(z: Reals) -> float:
        return norm.log_density(z) if inside(axes, z) else -np.inf

    reach = gaussian_reach(float(np.linalg.norm(factor, axis=1).max(initial=0.0)), len(factor))
    return SubspaceNoise(draw, log_density, sampler, reason, reach, factor.shape[1], norm)


def base_decomposition(moves: Reals) -> Reals:
    """Return orthogonal axes, each as long as the longest change along its part."""
    left, axes = np.eye(len(moves)), []
    while left.shape[1]:
        _, directions = np.linalg.eigh(enclosing_ellipsoid(left.T @ moves))  # increasing order
        half = (left.shape[1] + 1) // 2
        part = left @ directions[:, :half]
        axes.append(part * np.linalg.norm(part.T @ moves, axis=0).max())
        left = left @ directions[:, half:]
    basis = np.hstack(axes)
    return basis * np.sign(basis[np.argmax(np.abs(basis), axis=0), np.arange(len(moves))])
