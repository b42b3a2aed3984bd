"""The law of real-valued noise under the public sums of one table, as release and inference use it.

Differential privacy of noise in floating point is a promise about real numbers: which of two tables made a sum of
doubles can be read off its last digits (I. Mironov, "On significance of the least significant bits for differential
privacy", CCS 2012). So the noise is z times a grid g, a power of two, with whole z from the exact samplers: then a
published number is a double without rounding, and every law is stated, kept and inferred on these multiples alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.types import Array
from ppdinf.errors import PrivacyError
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan

__all__ = [
    "FINE",
    "NARROWEST",
    "RARE",
    "RealNoise",
    "as_grid",
    "gaussian_reach",
    "grid_below",
    "in_steps",
    "laplace_reach",
    "real_sampler",
    "unless_noisy",
]

NARROWEST = 1e-3  # stands for no noise in densities of counts: 1 off weighs exp(-500,000) or exp(-1,000)
RARE = 1e-12
"""Probability with which noise leaves its reach in any cell."""

FINE = 2**16
"""Steps of the grid in the scale of the noise, by default."""

type Reals = NDArray[np.float64]
type Grid = Fraction | str | None


def as_grid(value: Parameter | None, *, largest: Fraction | None = None) -> Grid:
    """Read a grid: "auto", a power of two, or None for real numbers in double precision.

    Raises
    ------
    PrivacyError
        Anything else, or a grid above `largest`.

    Examples
    --------
    >>> as_grid("1/64"), as_grid(0.5), as_grid("auto")
    (Fraction(1, 64), Fraction(1, 2), 'auto')
    """
    if value is None or (isinstance(value, str) and value == "auto"):
        return value
    grid = as_fraction(value, "grid")
    if (grid.numerator & (grid.numerator - 1)) or (grid.denominator & (grid.denominator - 1)):
        raise PrivacyError(f"grid must be a power of two such as '1/64', whose multiples are doubles, found {value!r}")
    if largest is not None and grid > largest:
        raise PrivacyError(f"grid must be {largest} or less, so that counts lie on it, found {value!r}")
    return grid


def grid_below(scale: float, *, steps: int = FINE) -> Fraction:
    """Find the largest power of two, at least 2^-30, of which `steps` fit into a scale.

    Examples
    --------
    >>> grid_below(20.0, steps=64)
    Fraction(1, 4)
    """
    return Fraction(2) ** max(-30, math.floor(math.log2(scale / steps)))


def in_steps(z: Array, grid: Fraction) -> Reals:
    """Multiply whole numbers by a grid: exact up to 2^53."""
    found: Reals = np.multiply(z, float(grid), dtype=np.float64)
    return found


def unless_noisy(law: RealNoise, grid: Grid, *, scale: float = 0.0) -> RealNoise:
    """State that a law without noise is exact, where a grid is wanted."""
    return law if grid is None or (scale and law.dimension) else replace(law, grid=Fraction(1), exact=True)


def real_sampler(grid: Grid, plan: Plan | None) -> str:
    """Say in a guarantee how real-valued noise was drawn, and what that means for its digits."""
    if grid is None:
        if plan is not None and plan.distance is None:
            plan = replace(plan, exact=False)
        return (
            f"real-valued, {plan or 'drawn in a way that is not stated'}; in double precision, so that the promise is "
            "one about real numbers, and the last digits of what is published can tell more"
        )
    doubles = "; how likely each is was worked out in double precision" * (
        plan is not None and not plan.exact and plan.distance is None
    )
    return f"in multiples of {grid}, {plan or 'drawn in a way that is not stated'}{doubles}"


@dataclass(frozen=True, eq=False)
class RealNoise:
    """Noise on the null space of public sums.

    Attributes
    ----------
    draw : callable
        ``draw(draws, stream)``, float64 of shape (draws, d): multiples of the grid, where there is one.
    log_density : callable
        Of one vector of the null space, shape (d,), normaliser dropped.
    sampler, reason : str
        How it is drawn, and why so.
    reach : float
        Bound on ``|z|`` that no cell exceeds but with probability 1e-12.
    dimension : int
        Of what the noise spans: less than the null space where no record moves some answers.
    norm : NoiseNorm, optional
        Its log density as minus a norm, where there is one.
    shifts : sparse array of float64, shape (d, r), optional
        What a projection removes from the noise: `norm` is then that of ``z + shifts @ t``, and the density at z the
        integral over t.
    distance : callable, optional
        Of a Markov chain: measure an upper limit of its total variation from the law.
    grid : Fraction, optional
        Power of two of which what is drawn is a multiple; without it real numbers are drawn, in double precision.
    exact : bool
        Whether the draws follow the law exactly; floating-point numbers decide about others.
    removed : callable, optional
        What the projection removes of drawn noise. It looks at nothing but the sums that the noise breaks, so that
        ``answers + noise - removed(noise)`` is a function of the noisy answers and of what is public.
    """

    draw: Callable[[int, BitStream], Reals]
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
        noisy = answers + noise  # whole numbers and multiples of a power of two: rounded once at most
        return noisy if self.removed is None else noisy - self.removed(noise)


def gaussian_reach(sigma: float, cells: int) -> float:
    """Bound on Gaussian noise whose standard deviation is at most sigma in each of that many cells.

    Examples
    --------
    >>> round(gaussian_reach(1.0, 1), 2)
    7.53
    """
    return sigma * math.sqrt(2 * math.log(2 * cells / RARE))


def laplace_reach(scale: float, cells: int) -> float:
    """Bound on sums ``sum_k q_k e_k`` with ``|q|_2 <= 1`` of independent Laplace noise, one in each of that many cells.

    ``E exp(u q e) = 1 / (1 - (u scale q)^2)``, and the logarithm is convex in q^2, so that all weight on one e is the
    worst: Chernoff's bound for one Laplace variable holds for every sum. Any u would do; a good one is taken.

    Examples
    --------
    >>> round(laplace_reach(1.0, 1), 2)
    32.12
    """
    u = np.linspace(0.9, 0.999, 100)
    return scale * float(np.min((math.log(2 * cells / RARE) - np.log1p(-(u**2))) / u))
