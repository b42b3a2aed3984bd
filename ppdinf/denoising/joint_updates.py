"""Updates of the learned prior's parameters, each jointly with the table.

New parameters are proposed here; `ppdinf.fiber.gibbs.joint_move` proposes the table and accepts or rejects both.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.denoising.parameter_moves import ACCEPTANCE, Prior, list_weights, log_sum
from ppdinf.fiber.gibbs.coarse_quantiles import log_weights_at
from ppdinf.fiber.gibbs.gaussian_block import Block
from ppdinf.fiber.gibbs.joint_move import Bounds, Noise, joint_moves
from ppdinf.fiber.gibbs.measured_sums import Measured

LENGTHS = (0.3, 1.0, 3.0)
"""Lengths of steps of effects, from short to long, so that chains leave and return to empty labels."""

SELDOM = 1 / 4
"""Probability of a joint update of level and shape."""

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]


@jit
def _tune(lengths: Reals, which: int, accepted: bool, tune: bool) -> None:
    """Lengthen steps that are accepted too often, and shorten the others."""
    if tune:
        lengths[which] *= math.exp(0.1 * (accepted - ACCEPTANCE))


@jit
def update_with_table(
    prior: Prior,
    x: Ints,
    sums: Ints,
    slack: Ints,
    partner: Ints,
    log_totals: Reals,
    at_knots: Reals,
    noise: Noise,
    measured: Measured,
    bounds: Bounds,
    block: Block,
    step: float,
    tune: bool,
    rng: np.random.Generator,
) -> None:
    """Update effects, level and shape, each jointly with the table, in place."""
    d, first, codes, possible = x.size, prior.first, prior.codes, prior.possible
    level, log_shape = prior.state[0], prior.state[1]
    log_h, h, a = prior.log_h, prior.h, math.exp(log_shape)
    log_mean, slope = np.full(d, level), np.empty(d)
    new_mean, new_slope = np.empty(d), np.empty(d)
    for i in range(d):
        for k in range(first.size - 1):
            log_mean[i] += prior.effects[first[k] + codes[k, i]]
        slope[i] = log_mean[i] - log_sum(log_shape, log_mean[i])
    # effects of each factor, jointly with the cells of their labels
    steps, ratios, accepted = np.empty(first[-1]), np.empty(first[-1]), np.empty(first[-1], dtype=np.bool_)
    for k in prior.turns:
        variance, which = math.exp(2 * prior.log_spread[k]), np.empty(first[k + 1] - first[k], dtype=np.int64)
        proposed = 0
        for j in range(first[k], first[k + 1]):
            steps[j], accepted[j] = LENGTHS[int(len(LENGTHS) * rng.random())] * rng.standard_normal(), False
            ratios[j] = (prior.effects[j] ** 2 - (prior.effects[j] + steps[j]) ** 2) / (2 * variance)
            if rng.random() < prior.often[j]:
                which[proposed] = j
                proposed += 1
        which = which[:proposed]
        for i in range(d):
            j = first[k] + codes[k, i]
            new_mean[i] = log_mean[i] + steps[j]
            new_slope[i] = new_mean[i] - log_sum(log_shape, new_mean[i])
            if possible[i]:  # log totals are log means minus slopes
                ratios[j] -= a * (steps[j] - new_slope[i] + slope[i])
        log_ratios, anew = np.empty(proposed), np.empty(proposed, dtype=np.bool_)
        for n in range(proposed):
            log_ratios[n], anew[n] = ratios[which[n]], rng.random() < 0.5
        moved = joint_moves(
            x, sums, slack, (prior.starts, prior.cells), which, partner, (log_h, h, at_knots, slope),
            (log_h, h, at_knots, new_slope), log_totals, noise, measured, bounds, block, step, log_ratios, anew, rng,
        )  # fmt: skip
        for n in range(proposed):
            if moved[n]:
                accepted[which[n]] = True
                prior.effects[which[n]] += steps[which[n]]
        for i in range(d):
            if accepted[first[k] + codes[k, i]]:
                log_mean[i], slope[i] = new_mean[i], new_slope[i]
    if rng.random() > SELDOM:
        return
    everywhere, all_cells = (np.array([0, prior.members.size]), prior.members), np.zeros(1, dtype=np.int64)
    not_anew, log_ratio = np.zeros(1, dtype=np.bool_), np.empty(1)
    # level, jointly with all cells
    change, scale = prior.lengths_with[0] * rng.standard_normal(), prior.scales[0]
    log_ratio[0] = (level**2 - (level + change) ** 2) / (2 * scale**2)
    for i in range(d):
        new_mean[i] = log_mean[i] + change
        new_slope[i] = new_mean[i] - log_sum(log_shape, new_mean[i])
        if possible[i]:
            log_ratio[0] -= a * (change - new_slope[i] + slope[i])
    moved = joint_moves(
        x, sums, slack, everywhere, all_cells, partner, (log_h, h, at_knots, slope), (log_h, h, at_knots, new_slope),
        log_totals, noise, measured, bounds, block, step, log_ratio, not_anew, rng,
    )  # fmt: skip
    if moved[0]:
        prior.state[0] = level + change
        log_mean, slope, new_mean, new_slope = new_mean, new_slope, log_mean, slope
    _tune(prior.lengths_with, 0, moved[0], tune)
    # shape, jointly with all cells
    proposal, mean, scale = log_shape + prior.lengths_with[1] * rng.standard_normal(), prior.scales[2], prior.scales[3]
    new_log_h, new_h, new_at_knots = np.empty_like(log_h), np.empty_like(h), np.empty_like(at_knots)
    list_weights(proposal, new_log_h, new_h)
    log_weights_at(noise[5], noise[2], noise[4], new_log_h, new_at_knots)
    log_ratio[0] = ((log_shape - mean) ** 2 - (proposal - mean) ** 2) / (2 * scale**2)
    for i in range(d):
        new_total = log_sum(proposal, log_mean[i])
        new_slope[i] = log_mean[i] - new_total
        if possible[i]:
            log_ratio[0] += math.exp(proposal) * (proposal - new_total) - a * (log_shape - log_mean[i] + slope[i])
    moved = joint_moves(
        x, sums, slack, everywhere, all_cells, partner, (log_h, h, at_knots, slope),
        (new_log_h, new_h, new_at_knots, new_slope), log_totals, noise, measured, bounds, block, step, log_ratio,
        not_anew, rng,
    )  # fmt: skip
    if moved[0]:
        prior.state[1] = proposal
        for count in range(log_h.size):
            log_h[count], h[count] = new_log_h[count], new_h[count]
        for i in range(at_knots.shape[0]):
            for j in range(at_knots.shape[1]):
                at_knots[i, j] = new_at_knots[i, j]
    _tune(prior.lengths_with, 1, moved[0], tune)
