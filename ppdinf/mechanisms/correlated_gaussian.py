"""Gaussian noise with a covariance adapted to the sensitivity directions.

The changes by one person, projected onto the null space, have a smallest enclosing ellipsoid. Its shorter half-axes
receive noise of one width, the longest change along them. The remaining directions are treated recursively with a new
ellipsoid, down to the last axis. All parts are calibrated jointly, by the longest change in the norm of the noise.

Derivation and references: docs/mathematics/real_noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from ppdinf._internal.rationals import Parameter
from ppdinf._internal.values import Reals
from ppdinf.invariants import Public, System
from ppdinf.lattice.null_space import null_space
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.mechanisms.counting_queries import inside, moved_structure, sensitivity_directions
from ppdinf.mechanisms.real_noise import SubspaceNoise, gaussian_on_grid, gaussian_reach, in_steps
from ppdinf.mechanisms.subspace import SubspaceMechanism
from ppdinf.noise.exact.lattice_gaussian import ImageLattice
from ppdinf.noise.primitives.stream import BitStream, normals
from ppdinf.privacy.gaussian_calibration import concentrated, gaussian_sigma
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.sensitivity import Neighbours, enclosing_ellipsoid

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


def _stated(
    factor: Reals, white: Reals, draw: Callable[[int, BitStream], Reals], sampler: str, reason: str
) -> SubspaceNoise:
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
