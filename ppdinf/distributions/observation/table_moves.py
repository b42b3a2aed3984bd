"""Sampling plan of a table given everything else: moves that are proved to connect its support, or exact draws.

The same plan applies to tables of `ppdinf.PartiallyPrivate`, to latent multinomials and to `ppdinf.denoise`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.distributions.observation.observed import Observed
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums
from ppdinf.lattice.moves.support_moves import support_moves
from ppdinf.lattice.points.presolve import Support
from ppdinf.laws.real_valued.noise_norm import NoiseNorm

NEARLY = 0.01  # maximum weight of all other counts of a nearly known cell

type Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TableSupport:
    """Possible counts of the cells of a table."""

    possible: Mask
    allowed: Mask
    cut: bool = False


def fiber_of(
    observed: Observed, lower: NDArray[np.int64], log_noise: NDArray[np.float64], support: TableSupport,
    coupling: NoiseNorm | MeasuredSums | None, nonnegative: Mask, without_window: Mask | None = None,
) -> Fiber:  # fmt: skip
    """Plan the sampling of a table within its windows."""
    system, held = observed.system, observed.hard_inequalities()
    B = sp.csr_array(sp.vstack([system.B, held[0]], format="csr"))
    plan = support_moves(
        system.A, system.values, B, np.concatenate([system.limits, held[1]]), Support(lower, support.possible),
        _nearly_known(log_noise, observed), found=system.structure, cut=support.cut, shape=observed.frame.shape,
    )  # fmt: skip
    moves = observed.moves(plan, coupling)
    proved = plan.proved and not Support(lower, support.allowed).holes.any() and not _has_holes(coupling)
    restricted = plan.held is not None
    return Fiber(
        system, lower, log_noise, moves, coupling, nonnegative, observed.likelihood.histogram,
        plan.support if restricted or not proved else None, proved, restricted, without_window,
    )  # fmt: skip


def with_support(fiber: Fiber, observed: Observed, allowed: Mask) -> Fiber:
    """Plan again for a table with further dependents, if they exclude more counts than upper tails."""
    possible = np.isfinite(fiber.log_noise)
    now = Support(fiber.lower, allowed)
    if now.is_empty or not fiber.proved:
        return fiber
    ends = Support(fiber.lower, possible).high
    if not now.holes.any() and (now.high == ends).all():
        return fiber
    assert fiber.nonnegative is not None
    possible &= ~fiber.nonnegative[:, None] | (fiber.lower[:, None] + np.arange(fiber.width) >= 0)
    support = TableSupport(possible, allowed, cut=True)
    return fiber_of(
        observed, fiber.lower, fiber.log_noise, support, fiber.coupling, fiber.nonnegative, fiber.without_window
    )


def _nearly_known(log_noise: NDArray[np.float64], observed: Observed) -> Mask:
    """Return cells of which one count has nearly all the weight; none if sums split the cells into groups."""
    if observed.system.structure.is_partition:
        return np.zeros(len(log_noise), dtype=bool)
    peak = log_noise.max(axis=1, keepdims=True)
    weights = np.exp(log_noise - np.where(np.isfinite(peak), peak, 0.0))
    known: Mask = weights.sum(axis=1) - 1 < NEARLY
    return known


def _has_holes(coupling: NoiseNorm | MeasuredSums | None) -> bool:
    """Return whether a value of a noisy sum is impossible while smaller and larger values are possible."""
    if not isinstance(coupling, MeasuredSums) or not coupling.log_weights.size:
        return False
    for start, end in zip(coupling.ends[:-1], coupling.ends[1:], strict=True):
        possible = np.flatnonzero(np.isfinite(coupling.log_weights[start:end]))
        if possible.size and possible[-1] - possible[0] + 1 > possible.size:
            return True
    return False
