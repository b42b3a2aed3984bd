"""Gaussian noise shaped like what one person can change.

The moves of one person, seen from the null space, have a smallest enclosing ellipsoid. Its shorter half-axes get
noise of one width, the longest move along them; what is left is treated likewise, with an ellipsoid of its own,
down to the last axis. This is the base decomposition of Nikolov, Talwar and Zhang, which starts with the short axes:
with the long ones first, short axes end up with the width of long ones.

They then scale the noise by the square root of the number of parts. Here the whole is calibrated at once, by the
longest move in the norm of the noise, which is at most as much and mostly less.

On a grid it is the discrete Gaussian with weight exp(-|M z|^2 / 2 tau^2) on the multiples that moves span, M the
whitening matrix F^+ in whole numbers and tau what these ask for; what is said of spherical noise
(`ppdinf.mechanisms.real.on_grid`) holds in the coordinates M z.

A. Nikolov, K. Talwar, L. Zhang, "The geometry of differential privacy: the sparse and approximate cases",
STOC 2013. J. Gao, R. Gong, F.-Y. Yu, "Subspace differential privacy", AAAI 2022, Theorem 3.11.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy import sparse

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.lattice.null_space import null_space
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.mechanisms.real.on_grid import gaussian_on_grid
from ppdinf.mechanisms.real.real_noise import RealNoise, gaussian_reach, in_steps, unless_noisy
from ppdinf.mechanisms.real.sensitivity_directions import inside, moved_structure, sensitivity_directions
from ppdinf.mechanisms.real.subspace import Reals, SubspaceMechanism
from ppdinf.noise.exact.gaussian.image_lattice import ImageLattice
from ppdinf.noise.primitives.continuous import normals
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.privacy.ellipsoid import enclosing_ellipsoid
from ppdinf.privacy.gaussian_calibration import concentrated, gaussian_sigma
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.privacy.sensitivity import Neighbours

__all__ = ["CorrelatedGaussian", "base_decomposition"]

WHITE = 24  # bits of the entries of the whitening matrix in whole numbers


@dataclass(frozen=True)
class CorrelatedGaussian(SubspaceMechanism):
    """Gaussian noise among all real z with ``A z = 0``, wider where one person changes more.

    Parameters
    ----------
    public : Public
        What is published exactly: sums of the cells, or of the answers where a query is given.
    epsilon, delta : int, float, str or Fraction
        Privacy loss between neighbours, and the probability with which it can be exceeded.
    query, neighbours, grid
        As for `SubspaceGaussian`.

    Raises
    ------
    InvariantError, PrivacyError
        `public` is no public information; a parameter is out of range or unknown; when drawing, too many cells.

    Notes
    -----
    Mean squared error within a factor O(log^2 m log(1/delta)) of the best there is, for small epsilon and delta. It
    pays for queries that overlap: the error of 128 cumulative counts is a fifteenth of that of spherical noise. For
    cells alone, where all directions are much alike, `SubspaceGaussian` has less. Lists the moves of one person,
    d^2 / 2 for records replaced: for tables of some hundred cells. Draws on a grid are exact.

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
        epsilon: int | float | str | Fraction,
        delta: int | float | str | Fraction,
        *,
        query: object = None,
        neighbours: Neighbours = "replaced",
        grid: int | float | str | Fraction | None = "auto",
    ) -> None:
        self._set(public, epsilon, delta, query, neighbours, grid)
        gaussian_sigma(self.epsilon, self.delta)  # refuses what cannot be calibrated

    @property
    def guarantee(self) -> Guarantee:
        """Induced subspace differential privacy; in zCDP by the width of the noise beside what a neighbour moves."""
        return concentrated(super().guarantee, gaussian_sigma(self.epsilon, self.delta))

    def factor(self, system: System) -> Reals:
        """Find F, shape (d, k), such that the noise is F e with e standard normal, before any grid."""
        directions, moves = sensitivity_directions(null_space(system.structure), self.query, self.neighbours)
        if not moves.size:
            return directions
        shape = base_decomposition(moves)
        longest = float(np.linalg.norm(np.linalg.solve(shape, moves), axis=0).max())
        return gaussian_sigma(self.epsilon, self.delta, sensitivity=longest) * (directions @ shape)

    def law(self, system: System) -> RealNoise:
        """Gaussian with covariance F F'."""
        factor = self.factor(system)
        widths = np.linalg.norm(factor, axis=0)
        axes = factor / widths  # orthogonal

        def draw(draws: int, stream: BitStream) -> Reals:
            return normals(stream, draws, widths.size) @ factor.T if widths.size else np.zeros((draws, factor.shape[0]))

        parts = np.unique(widths.round(12)).size
        reason = f"Gaussian noise of {parts} width{'s' * (parts != 1)} along {widths.size} orthogonal axes"
        if self.grid is not None and widths.size:
            try:
                return self._on_lattice(system, factor, axes.T / widths[:, np.newaxis], reason)
            except (InvariantError, PrivacyError) as error:
                if self.grid != "auto":
                    raise
                reason += f"; no grid, since {str(error)[0].lower()}{str(error)[1:].rstrip('.')}"
        law = _stated(factor, axes.T / widths[:, np.newaxis], draw, "axes", reason)
        return unless_noisy(law, self.grid, scale=1.0)

    def _on_lattice(self, system: System, factor: Reals, white: Reals, reason: str) -> RealNoise:
        """State the discrete Gaussian on the multiples of the grid that moves span."""
        space = null_space(system.structure)
        directions, moves = sensitivity_directions(space, self.query, self.neighbours)
        unit = 2.0 ** (WHITE - math.ceil(math.log2(np.abs(white).max())))
        whole = np.rint(white * unit).astype(np.int64)
        # the longest move in these numbers, over what it is in those that were calibrated
        longest = [np.linalg.norm(matrix @ (directions @ moves), axis=0).max() for matrix in (whole, white)]
        lattice = ImageLattice(moved_structure(space, self.query, self.neighbours).lattice.basis, whole)
        grid, steps = gaussian_on_grid(float(longest[0] / longest[1]), lattice.longest**2, self.grid)
        lattice.klein  # noqa: B018  (refuses what cannot be drawn, before anything is promised)
        width = float(grid * steps)  # of M z

        def draw(draws: int, stream: BitStream) -> Reals:
            return in_steps(lattice.draw(steps**2, draws, stream), grid)

        law = _stated(factor * (width / unit), whole / width, draw, "Klein", f"{reason}, on a lattice")
        return replace(law, grid=grid, exact=True)


def _stated(
    factor: Reals, white: Reals, draw: Callable[[int, BitStream], Reals], sampler: str, reason: str
) -> RealNoise:
    """State Gaussian noise F e by F, its whitening matrix and what draws it."""
    norm, axes = NoiseNorm(sparse.csc_array(white), 2), factor / np.linalg.norm(factor, axis=0)

    def log_density(z: Reals) -> float:
        return norm.log_density(z) if inside(axes, z) else -np.inf

    reach = gaussian_reach(float(np.linalg.norm(factor, axis=1).max(initial=0.0)), len(factor))
    return RealNoise(draw, log_density, sampler, reason, reach, factor.shape[1], norm)


def base_decomposition(moves: Reals) -> Reals:
    """Orthogonal axes, each as long as the longest move along its part.

    Parameters
    ----------
    moves : ndarray of float64, shape (k, n)
        They span R^k.

    Returns
    -------
    ndarray of float64, shape (k, k)
        One axis per column.

    Examples
    --------
    >>> base_decomposition(np.array([[8.0, 0.0], [0.0, 1.0]])).round(3)
    array([[0., 8.],
           [1., 0.]])
    """
    left, axes = np.eye(len(moves)), []
    while left.shape[1]:
        _, directions = np.linalg.eigh(enclosing_ellipsoid(left.T @ moves))  # short ones first
        half = (left.shape[1] + 1) // 2
        part = left @ directions[:, :half]
        axes.append(part * np.linalg.norm(part.T @ moves, axis=0).max())
        left = left @ directions[:, half:]
    found = np.hstack(axes)
    return found * np.sign(found[np.argmax(np.abs(found), axis=0), np.arange(len(moves))])
