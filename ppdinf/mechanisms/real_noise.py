"""The law of real-valued noise under the public sums of one table, as release and inference use it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.samplers.noise_norm import NoiseNorm

if TYPE_CHECKING:
    from ppdinf.samplers.tape import Tape

__all__ = ["NARROWEST", "RARE", "RealNoise", "gaussian_reach", "laplace_reach"]

NARROWEST = 1e-3  # stands for no noise in densities of counts: 1 off weighs exp(-500,000) or exp(-1,000)
RARE = 1e-12
"""Probability with which noise leaves its reach in any cell."""

type Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RealNoise:
    """Noise on the null space of public sums.

    Attributes
    ----------
    draw : callable
        ``draw(draws, tape)``, float64 of shape (draws, d), on the null space.
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
    """

    draw: Callable[[int, Tape], Reals]
    log_density: Callable[[Reals], float]
    sampler: str
    reason: str
    reach: float
    dimension: int
    norm: NoiseNorm | None = None
    shifts: sparse.csr_array | None = None
    distance: Callable[[], float] | None = None


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
