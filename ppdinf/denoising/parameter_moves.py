"""Updates of the learned prior's parameters given a table, and proposals of effects for joint updates with cells.

Given a table, parameters take random-walk Metropolis steps, each with its own tuned length. The log means of the cells
and their log totals log(shape + mean) are updated from step to step, so that each step visits every cell once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

__all__ = ["ACCEPTANCE", "move_parameters", "propose_effects"]

LENGTHS = (0.3, 1.0, 3.0)
"""Lengths of steps of effects in joint updates, from short to long, so that chains leave and return to empty labels."""

SPREADS = 5
"""Steps of a standard deviation for each step of its effects."""

ACCEPTANCE = 0.4
"""Target acceptance rate, to which step lengths are tuned."""

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]


@jit(inline="always")
def _log_sum(a: float, b: float) -> float:
    """Return ``log(exp(a) + exp(b))``."""
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


@jit(inline="always")
def _accepts(log_ratio: float, lengths: Reals, which: int, tune: bool, rng: np.random.Generator) -> bool:
    """Accept or reject; while tuning, lengthen steps that are accepted too often and shorten the others."""
    accepted = math.log(rng.random()) < log_ratio
    if tune:
        lengths[which] *= math.exp(0.1 * (accepted - ACCEPTANCE))
    return accepted


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
        new_total[i] = _log_sum(log_shape, log_mean[i] + step)
        ratio += x[i] * step - (x[i] + a) * (new_total[i] - log_total[i])
    if not _accepts(ratio, lengths, 0, tune, rng):
        return level
    log_mean += step
    log_total[:] = new_total
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
        new_total[i] = _log_sum(log_shape, log_mean[i] + step)
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
    squares = (values * values).sum()
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
    shift = (values.sum() / variance - level / scale**2) / precision + rng.standard_normal() / math.sqrt(precision)
    values -= shift
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
        ratio += b * proposed - (x[i] + b) * _log_sum(proposed, log_mean[i]) - a * log_shape + (x[i] + a) * log_total[i]
        if x[i] > 0:
            ratio += math.lgamma(x[i] + b) - math.lgamma(x[i] + a) - of_zero
    return proposed if _accepts(ratio, lengths, 1, tune, rng) else log_shape


@jit
def move_parameters(
    x: Reals,
    codes: Ints,
    first: Ints,
    state: Reals,
    effects: Reals,
    log_spread: Reals,
    lengths: Reals,
    scales: tuple[float, float, float, float],
    tune: bool,
    rng: np.random.Generator,
) -> None:
    """Update level, effects, their standard deviations and the shape, once each, in place.

    Parameters
    ----------
    x : array, shape (n,)
        Counts of the cells that are not structural zeros.
    codes : array of int64, shape (factors, n)
        The label of each cell in each factor.
    first : array of int64, shape (factors + 1,)
        Start of the effects of each factor, and the number of effects.
    state : array, shape (2,)
        Level and log shape.
    effects, log_spread : arrays, shapes (effects,) and (factors,)
    lengths : array, shape (2 + factors + effects,)
        Lengths of the steps of level, shape, log spreads and effects.
    scales : tuple of float
        Prior scales: sd of the level; scale of the sds of the effects; mean and sd of the log shape.
    tune : bool
        Whether to adapt lengths.
    rng : numpy.random.Generator
    """
    of_level, of_spread, shape_mean, shape_spread = scales
    level, log_shape = state
    factors, log_mean, log_total = log_spread.size, np.full(x.size, level), np.empty(x.size)
    of_effects = lengths[2 + factors :]
    for k in range(factors):
        for i in range(x.size):
            log_mean[i] += effects[first[k] + codes[k, i]]
    for i in range(x.size):
        log_total[i] = _log_sum(log_shape, log_mean[i])
    cells = _Cells(x, log_mean, log_total, np.empty(x.size))
    level = _move_level(cells, level, log_shape, of_level, lengths, tune, rng)
    for k in range(factors):
        values, of_values = effects[first[k] : first[k + 1]], of_effects[first[k] : first[k + 1]]
        _move_effects(cells, codes[k], values, log_spread[k], log_shape, of_values, tune, rng)
        log_spread[k] = _move_spread(values, log_spread[k], of_spread, lengths, 2 + k, tune, rng)
        level = _exchange(values, level, log_spread[k], of_level, rng)
    state[0], state[1] = level, _move_shape(cells, log_shape, shape_mean, shape_spread, lengths, tune, rng)


@jit
def propose_effects(
    values: Reals,
    log_spread: float,
    codes: Ints,
    possible: NDArray[np.bool_],
    log_mean: Reals,
    log_total: Reals,
    log_shape: float,
    rng: np.random.Generator,
) -> tuple[Reals, Reals, Reals, Reals]:
    """Propose new effects of one factor for joint updates with cells.

    Parameters
    ----------
    values, log_spread : array, float
        Effects, and their log standard deviation.
    codes, possible : arrays, shape (d,)
        Label of each cell; False for structural zeros.
    log_mean, log_total, log_shape : arrays of shape (d,), float
        ``log_total`` is log(shape + mean).
    rng : numpy.random.Generator

    Returns
    -------
    steps, ratios : arrays of the shape of `values`
        Steps, and the log ratio of each label's step without the weights of its cells, whose new slopes are
        ``log_mean - log_total``.
    log_mean, log_total : arrays, shape (d,)
        Values if all labels were accepted.
    """
    variance, a = math.exp(2 * log_spread), math.exp(log_shape)
    steps, ratios = np.empty(values.size), np.empty(values.size)
    new_mean, new_total = np.empty(codes.size), np.empty(codes.size)
    for j in range(values.size):
        steps[j] = LENGTHS[int(len(LENGTHS) * rng.random())] * rng.standard_normal()
        ratios[j] = (values[j] ** 2 - (values[j] + steps[j]) ** 2) / (2 * variance)
    for i in range(codes.size):
        new_mean[i] = log_mean[i] + steps[codes[i]]
        new_total[i] = _log_sum(log_shape, new_mean[i])
        if possible[i]:
            ratios[codes[i]] -= a * (new_total[i] - log_total[i])
    return steps, ratios, new_mean, new_total
