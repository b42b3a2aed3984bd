"""Sweeps of a chain of tables and parameters of their prior, in one kernel.

A sweep updates in turn

1. the table along lines (`ppdinf.fiber.gibbs.slice_walk`),
2. the parameters given the table (`ppdinf.denoising.parameter_moves`),
3. a block of cells, and then the parameters jointly with the table (`ppdinf.denoising.joint_updates`).

Scales of l2 noise are drawn given the table before steps 1 and 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.denoising.joint_updates import update_with_table
from ppdinf.denoising.parameter_moves import Prior, log_sum, update_parameters
from ppdinf.fiber.gibbs.coarse_quantiles import log_weights_at
from ppdinf.fiber.gibbs.gaussian_block import Block
from ppdinf.fiber.gibbs.joint_move import Bounds, Noise, joint_moves
from ppdinf.fiber.gibbs.measured_sums import Measured, Mixtures, draw_scales
from ppdinf.fiber.gibbs.slice_walk import walk_by_slices

ACCEPTANCE = 0.6  # target acceptance rate of block moves, to which their length is tuned

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]


@jit
def _write_slopes(prior: Prior) -> None:
    """Write the slopes of the log weights of a learned prior."""
    first = prior.first
    for i in range(prior.slope.size if prior.learned else 0):
        log_mean = prior.state[0]
        for k in range(first.size - 1):
            log_mean += prior.effects[first[k] + prior.codes[k, i]]
        prior.slope[i] = log_mean - log_sum(prior.state[1], log_mean)


@jit
def sweeps(
    number: int,
    x: Ints,
    along: tuple[Ints, Ints, Ints],
    prior: Prior,
    noise: Noise,
    measured: Measured,
    mixtures: Mixtures,
    bounds: Bounds,
    block: Block,
    partner: Ints,
    step: float,
    jointly: bool,
    tune: bool,
    rng: np.random.Generator,
) -> float:
    """Update a table and the parameters of its prior in place, and return the step of the block."""
    log_noise, lower, knots, noise_at_knots = noise[0], noise[2], noise[4], noise[5]
    d, lines = lower.size, (along[0].size - 1) // number
    table, slack = x[:d], x[d:]
    first, rows, values = measured[:3]
    sums, log_totals, at_knots = np.zeros(measured[3].size, dtype=np.int64), np.empty(d), np.empty(knots.shape)
    for i in range(d):
        for j in range(first[i], first[i + 1]):
            sums[rows[j]] += values[j] * table[i]
    # a block alone: no cells change their weights
    nobody = np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int64)
    one, zero, kept = np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1, dtype=np.bool_)
    for n in range(number):
        if lines > 0:
            draw_scales(mixtures, sums, measured, rng)
            _write_slopes(prior)
            starts = along[0][n * lines : (n + 1) * lines + 1]
            walk_by_slices(
                x, starts, along[1], along[2], lower, log_noise, (prior.log_h, prior.slope), measured, sums, rng
            )  # fmt: skip
        if prior.learned:
            update_parameters(prior, table, tune, rng)
        if not jointly:
            continue
        draw_scales(mixtures, sums, measured, rng)
        log_totals[:] = np.nan  # log totals of single cells, valid until parameters change
        log_weights_at(noise_at_knots, lower, knots, prior.log_h, at_knots)
        if block[4].size > 0:
            _write_slopes(prior)
            here = prior.log_h, prior.h, at_knots, prior.slope
            moved = joint_moves(
                table, sums, slack, nobody, one, partner, here, here, log_totals, noise, measured, bounds, block, step,
                zero, kept, rng,
            )  # fmt: skip
            if tune:
                step = min(1.0, step * np.exp(0.1 * (moved[0] - ACCEPTANCE)))
        if prior.learned:
            update_with_table(
                prior, table, sums, slack, partner, log_totals, at_knots, noise, measured, bounds, block, step, tune,
                rng,
            )  # fmt: skip
    return step
