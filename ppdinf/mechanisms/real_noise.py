"""The law of real-valued noise under the public sums of one table, in multiples of a grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy import sparse

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Array, Reals
from ppdinf.errors import PrivacyError
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan

NARROWEST = 1e-3  # scale that replaces zero noise in densities of counts: 1 off weighs exp(-500,000) or exp(-1,000)
RARE = 1e-12
LARGEST_MATRIX = 10**6  # entries of a matrix whose singular values are computed
"""Probability that noise exceeds its reach in any cell."""

FINE = 2**16
"""Default number of steps of the grid in the scale of the noise."""

type Draw = Callable[[int, BitStream], Reals]
"""``draw(draws, stream)``: shape (draws, d)."""

type Grid = Fraction | str | None


def as_grid(value: Parameter | None, *, largest: Fraction | None = None) -> Grid:
    """Validate a grid: "auto", a power of two, or None for real numbers in double precision."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return value
    grid = as_fraction(value, "grid")
    if (grid.numerator & (grid.numerator - 1)) or (grid.denominator & (grid.denominator - 1)):
        raise PrivacyError(f"grid must be a power of two such as '1/64' (multiples are doubles), found {value!r}")
    if largest is not None and grid > largest:
        raise PrivacyError(f"grid must be at most {largest}, so that counts are multiples of it, found {value!r}")
    return grid


def grid_below(scale: float, *, steps: int = FINE) -> Fraction:
    """Return the largest power of two, at least 2^-30, that divides a scale into at least `steps` steps."""
    return Fraction(2) ** max(-30, math.floor(math.log2(scale / steps)))


def in_steps(z: Array, grid: Fraction) -> Reals:
    """Multiply integers by a grid; exact up to 2^53."""
    return np.multiply(z, float(grid), dtype=np.float64)


def unless_noisy(law: SubspaceNoise, grid: Grid, *, scale: float = 0.0) -> SubspaceNoise:
    """Mark a law without noise as exact, if a grid is set."""
    return law if grid is None or (scale and law.dimension) else replace(law, grid=Fraction(1), exact=True)


def real_sampler(grid: Grid, plan: Plan | None) -> str:
    """Describe for a guarantee how real-valued noise was drawn, and the consequence for low-order digits."""
    if grid is None:
        if plan is not None and plan.distance is None:
            plan = replace(plan, exact=False)
        return (
            f"real-valued, {plan or 'drawn in a way that is not stated'}; in double precision, so that the guarantee "
            "is one about real numbers, and the last digits of published numbers can reveal more"
        )
    doubles = "; the probability of each multiple was computed in double precision" * (
        plan is not None and not plan.exact and plan.distance is None
    )
    return f"in multiples of {grid}, {plan or 'drawn in a way that is not stated'}{doubles}"


@dataclass(frozen=True, eq=False)
class SubspaceNoise:
    """Noise on the null space of public sums."""

    draw: Draw
    log_density: Callable[[Reals], float]
    sampler: str
    reason: str
    reach: float
    dimension: int
    norm: NoiseNorm | None = None
    shifts: sparse.csr_array | None = None
    distance: Callable[[], float] | None = None
    grid: Fraction | None = None
    exact: bool = False
    removed: Callable[[Reals], Reals] | None = None

    def added(self, answers: Array, draws: int, stream: BitStream) -> Reals:
        """Draw noisy answers, float64 of shape (draws, d)."""
        noise = self.draw(draws, stream)
        noisy = answers + noise  # integers and multiples of a power of two: rounded at most once
        return noisy if self.removed is None else noisy - self.removed(noise)


def gaussian_reach(sigma: float, cells: int) -> float:
    """Return a bound on Gaussian noise with standard deviation at most sigma in each of `cells` cells."""
    return sigma * math.sqrt(2 * math.log(2 * cells / RARE))


def laplace_reach(scale: float, cells: int) -> float:
    """Return a bound on sums ``sum_k q_k e_k`` with ``|q|_2 <= 1`` of independent Laplace noise, for `cells` cells."""
    u = np.linspace(0.9, 0.999, 100)
    return scale * float(np.min((math.log(2 * cells / RARE) - np.log1p(-(u**2))) / u))


def log_total_of_norm(norm: NoiseNorm, m: int, shifts: sparse.csr_array | None) -> float | None:
    """Return the log of the integral of ``exp(-norm)`` over the m dimensions of the noise, and over removed shifts."""
    (k, d), r = norm.matrix.shape, 0 if shifts is None else shifts.shape[1]
    if norm.factor is not None:
        log_lengths, k = np.full(m + r, math.log(norm.factor)), m + r
    elif k * d <= LARGEST_MATRIX:
        log_lengths = np.log(np.linalg.svd(norm.matrix.toarray(), compute_uv=False)[:m])
    else:
        return None
    if norm.order == 2:
        return float(m / 2 * math.log(2 * math.pi) - log_lengths.sum())
    if norm.order != 1 or k != m + r or (r and m + r != d):
        return None
    stretched = 0.0 if shifts is None else math.log(2 * np.linalg.norm(shifts[:, [0]].toarray()))  # all are as long
    return float((m + r) * math.log(2) - log_lengths.sum() - r * stretched)


HIDDEN = 3.0  # variance of the rounding in squared lengths of orthogonal parts
SLACK = 1e-9  # relative to sigma: exceeds rounding errors in calibrations and the deviation at HIDDEN


def gaussian_on_grid(sigma: float, square: float, grid: Grid) -> tuple[Fraction, Fraction]:
    """Widen Gaussian noise for a lattice, and choose its grid if it is "auto"."""
    length = math.sqrt(square)
    step = min(Fraction(1), grid_below(sigma / length)) if not isinstance(grid, Fraction) else grid
    share = HIDDEN * (length * float(step) / sigma) ** 2
    if share > 0.5:
        coarsest = Fraction(2) ** math.floor(math.log2(sigma / length * math.sqrt(0.5 / HIDDEN)))
        raise PrivacyError(f"a grid of {step} is too coarse for this noise: choose a grid of at most {coarsest}")
    return step, Fraction(sigma * (1 + SLACK) / math.sqrt(1 - share)) / step
