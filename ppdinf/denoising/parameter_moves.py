"""Updates of the learned prior's parameters given a table.

Parameters take random-walk Metropolis steps, each with its own tuned length. The log means of the cells and their log
totals log(shape + mean) are updated from step to step, so that each step visits every cell once. Arrays are updated
entry by entry: numba compiles such loops faster than array expressions, whose errors are strings.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

SPREADS = 5
"""Steps of a standard deviation for each step of its effects."""

ACCEPTANCE = 0.4
"""Target acceptance rate, to which step lengths are tuned."""

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]


@jit(inline="always")
def log_sum(a: float, b: float) -> float:
    """Return ``log(exp(a) + exp(b))``."""
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


@jit(inline="always")
def _accepts(log_ratio: float, lengths: Reals, which: int, tune: bool, rng: np.random.Generator) -> bool:
    """Accept or reject; while tuning, lengthen steps that are accepted too often and shorten the others."""
    accepted = math.log(rng.random()) < log_ratio
    if tune:
        lengths[which] *= math.exp(0.1 * (accepted - ACCEPTANCE))
    return accepted


class Prior(NamedTuple):
    """Arrays of a prior of n possible cells out of d. Kernels update them in place."""

    learned: bool
    log_h: Reals
    h: Reals
    slope: Reals
    possible: NDArray[np.bool_]
    members: Ints
    codes: Ints
    codes_of_members: Ints
    first: Ints
    starts: Ints
    cells: Ints
    turns: Ints
    often: Reals
    state: Reals
    effects: Reals
    log_spread: Reals
    lengths: Reals
    lengths_with: Reals
    scales: Reals


class _Cells(NamedTuple):
    """Counts, log means, log(shape + mean), and a work array for the last after a proposed step."""

    x: Reals
    log_mean: Reals
    log_total: Reals
    new_total: Reals


@jit
def _move_level(
    cells: _Cells, level: float, log_shape: float, scale: float, lengths: Reals, tune: bool, rng: np.random.Generator
) -> float:
    """Update the level, normal with the given standard deviation a priori."""
    x, log_mean, log_total, new_total = cells
    a, step = math.exp(log_shape), lengths[0] * rng.standard_normal()
    ratio = (level**2 - (level + step) ** 2) / (2 * scale**2)
    for i in range(x.size):
        new_total[i] = log_sum(log_shape, log_mean[i] + step)
        ratio += x[i] * step - (x[i] + a) * (new_total[i] - log_total[i])
    if not _accepts(ratio, lengths, 0, tune, rng):
        return level
    for i in range(x.size):
        log_mean[i] += step
        log_total[i] = new_total[i]
    return level + step


@jit
def _move_effects(
    cells: _Cells,
    codes: Ints,
    values: Reals,
    log_spread: float,
    log_shape: float,
    lengths: Reals,
    tune: bool,
    rng: np.random.Generator,
) -> None:
    """Update the effects of one factor in parallel: every cell has one of its labels."""
    x, log_mean, log_total, new_total = cells
    a, variance = math.exp(log_shape), math.exp(2 * log_spread)
    steps, ratios = np.empty(values.size), np.empty(values.size)
    for j in range(values.size):
        steps[j] = lengths[j] * rng.standard_normal()
        ratios[j] = (values[j] ** 2 - (values[j] + steps[j]) ** 2) / (2 * variance)
    for i in range(x.size):
        step = steps[codes[i]]
        new_total[i] = log_sum(log_shape, log_mean[i] + step)
        ratios[codes[i]] += x[i] * step - (x[i] + a) * (new_total[i] - log_total[i])
    for j in range(values.size):
        if not _accepts(ratios[j], lengths, j, tune, rng):
            steps[j] = 0.0
        values[j] += steps[j]
    for i in range(x.size):
        if steps[codes[i]] != 0.0:
            log_mean[i] += steps[codes[i]]
            log_total[i] = new_total[i]


@jit
def _move_spread(
    values: Reals, log_spread: float, scale: float, lengths: Reals, which: int, tune: bool, rng: np.random.Generator
) -> float:
    """Update the log standard deviation of effects, half-normal with the given scale a priori."""
    squares = 0.0
    for value in values:
        squares += value * value
    for _ in range(SPREADS):
        proposed = log_spread + lengths[which] * rng.standard_normal()
        before, after = math.exp(2 * log_spread), math.exp(2 * proposed)
        ratio = (1 - values.size) * (proposed - log_spread) - squares / 2 * (1 / after - 1 / before)
        if _accepts(ratio - (after - before) / (2 * scale**2), lengths, which, tune, rng):
            log_spread = proposed
    return log_spread


@jit
def _exchange(values: Reals, level: float, log_spread: float, scale: float, rng: np.random.Generator) -> float:
    """Shift the mean of the effects to the level, by a Gibbs draw given their sum."""
    variance = math.exp(2 * log_spread)
    precision = values.size / variance + 1 / scale**2
    total = 0.0
    for value in values:
        total += value
    shift = (total / variance - level / scale**2) / precision + rng.standard_normal() / math.sqrt(precision)
    for j in range(values.size):
        values[j] -= shift
    return level + shift


@jit
def _move_shape(
    cells: _Cells, log_shape: float, mean: float, spread: float, lengths: Reals, tune: bool, rng: np.random.Generator
) -> float:
    """Update the log shape, normal a priori."""
    x, log_mean, log_total, _ = cells
    proposed = log_shape + lengths[1] * rng.standard_normal()
    a, b = math.exp(log_shape), math.exp(proposed)
    of_zero = math.lgamma(b) - math.lgamma(a)
    ratio = ((log_shape - mean) ** 2 - (proposed - mean) ** 2) / (2 * spread**2)
    for i in range(x.size):
        ratio += b * proposed - (x[i] + b) * log_sum(proposed, log_mean[i]) - a * log_shape + (x[i] + a) * log_total[i]
        if x[i] > 0:
            ratio += math.lgamma(x[i] + b) - math.lgamma(x[i] + a) - of_zero
    return proposed if _accepts(ratio, lengths, 1, tune, rng) else log_shape


@jit
def list_weights(log_shape: float, log_h: Reals, h: Reals) -> None:
    """Write log Gamma(x + a) / (Gamma(a) x!) for x = 0, 1, ..., and its exponential, for the shape a."""
    a = math.exp(log_shape)
    log_h[0], h[0] = 0.0, 1.0
    for x in range(1, log_h.size):
        log_h[x] = log_h[x - 1] + math.log((x - 1 + a) / x)
        h[x] = np.exp(log_h[x])


@jit
def update_parameters(prior: Prior, table: Ints, tune: bool, rng: np.random.Generator) -> None:
    """Update level, effects, their standard deviations and the shape, once each, given a table."""
    scales, lengths, first, n = prior.scales, prior.lengths, prior.first, prior.members.size
    level, log_shape = prior.state[0], prior.state[1]
    factors = prior.log_spread.size
    cells = _Cells(np.empty(n), np.empty(n), np.empty(n), np.empty(n))
    for i in range(n):
        cells.x[i], cells.log_mean[i] = table[prior.members[i]], level
        for k in range(factors):
            cells.log_mean[i] += prior.effects[first[k] + prior.codes_of_members[k, i]]
        cells.log_total[i] = log_sum(log_shape, cells.log_mean[i])
    level = _move_level(cells, level, log_shape, scales[0], lengths, tune, rng)
    for k in range(factors):
        values = prior.effects[first[k] : first[k + 1]]
        of_values = lengths[2 + factors + first[k] : 2 + factors + first[k + 1]]
        log_spread = prior.log_spread[k]
        _move_effects(cells, prior.codes_of_members[k], values, log_spread, log_shape, of_values, tune, rng)
        prior.log_spread[k] = _move_spread(values, log_spread, scales[1], lengths, 2 + k, tune, rng)
        level = _exchange(values, level, prior.log_spread[k], scales[0], rng)
    prior.state[0] = level
    prior.state[1] = _move_shape(cells, log_shape, scales[2], scales[3], lengths, tune, rng)
    if prior.state[1] != log_shape:
        list_weights(prior.state[1], prior.log_h, prior.h)
