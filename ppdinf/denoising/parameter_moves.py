"""Parameters of the learned prior: how they move given a table, and proposals for those that cells go along with.

Given a table they take random-walk Metropolis steps, each tuned to be accepted at a rate. Log means of the cells, and
what their negative binomials make of them, go along from step to step, so that each step looks at every cell once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

__all__ = ["WANTED", "move_parameters", "propose_effects"]

LENGTHS = (0.3, 1.0, 3.0)
"""Of steps of effects that cells go along with: whoever is there may leave, and come back."""

SPREADS = 5
"""Steps of a standard deviation for one of its effects."""

WANTED = 0.4
"""Share of steps to be accepted, to which their lengths are tuned."""

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]


@jit(inline="always")
def _log_sum(a: float, b: float) -> float:
    """``log(exp(a) + exp(b))``."""
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


@jit(inline="always")
def _accepts(log_ratio: float, lengths: Reals, which: int, tune: bool, rng: np.random.Generator) -> bool:
    """Accept or not; while tuning, lengthen steps that are accepted too often and shorten others."""
    accepted = math.log(rng.random()) < log_ratio
    if tune:
        lengths[which] *= math.exp(0.1 * (accepted - WANTED))
    return accepted


class _Cells(NamedTuple):
    """Counts, log means, logs of shape plus mean, and room for the last as they would be after a step."""

    x: Reals
    log_mean: Reals
    far: Reals
    further: Reals


@jit
def _move_level(
    cells: _Cells, level: float, log_shape: float, scale: float, lengths: Reals, tune: bool, rng: np.random.Generator
) -> float:
    """Move the level, normal of the given standard deviation a priori."""
    x, log_mean, far, further = cells
    a, step = math.exp(log_shape), lengths[0] * rng.standard_normal()
    ratio = (level**2 - (level + step) ** 2) / (2 * scale**2)
    for i in range(x.size):
        further[i] = _log_sum(log_shape, log_mean[i] + step)
        ratio += x[i] * step - (x[i] + a) * (further[i] - far[i])
    if not _accepts(ratio, lengths, 0, tune, rng):
        return level
    log_mean += step
    far[:] = further
    return level + step


@jit
def _move_effects(
    cells: _Cells,
    codes: Ints,
    own: Reals,
    log_spread: float,
    log_shape: float,
    lengths: Reals,
    tune: bool,
    rng: np.random.Generator,
) -> None:
    """Move the effects of one factor side by side: no cell has two of its labels."""
    x, log_mean, far, further = cells
    a, variance, steps, ratios = math.exp(log_shape), math.exp(2 * log_spread), np.empty(own.size), np.empty(own.size)
    for j in range(own.size):
        steps[j] = lengths[j] * rng.standard_normal()
        ratios[j] = (own[j] ** 2 - (own[j] + steps[j]) ** 2) / (2 * variance)
    for i in range(x.size):
        step = steps[codes[i]]
        further[i] = _log_sum(log_shape, log_mean[i] + step)
        ratios[codes[i]] += x[i] * step - (x[i] + a) * (further[i] - far[i])
    for j in range(own.size):
        if not _accepts(ratios[j], lengths, j, tune, rng):
            steps[j] = 0.0
        own[j] += steps[j]
    for i in range(x.size):
        if steps[codes[i]] != 0.0:
            log_mean[i] += steps[codes[i]]
            far[i] = further[i]


@jit
def _move_spread(
    own: Reals, log_spread: float, scale: float, lengths: Reals, which: int, tune: bool, rng: np.random.Generator
) -> float:
    """Move the log standard deviation of effects, half-normal of the given scale a priori."""
    squares = (own * own).sum()
    for _ in range(SPREADS):
        proposed = log_spread + lengths[which] * rng.standard_normal()
        before, after = math.exp(2 * log_spread), math.exp(2 * proposed)
        ratio = (1 - own.size) * (proposed - log_spread) - squares / 2 * (1 / after - 1 / before)
        if _accepts(ratio - (after - before) / (2 * scale**2), lengths, which, tune, rng):
            log_spread = proposed
    return log_spread


@jit
def _exchange(own: Reals, level: float, log_spread: float, scale: float, rng: np.random.Generator) -> float:
    """Move what effects have in common to the level, by its law given their sum: a Gibbs step."""
    variance = math.exp(2 * log_spread)
    precision = own.size / variance + 1 / scale**2
    shift = (own.sum() / variance - level / scale**2) / precision + rng.standard_normal() / math.sqrt(precision)
    own -= shift
    return level + shift


@jit
def _move_shape(
    cells: _Cells, log_shape: float, mean: float, spread: float, lengths: Reals, tune: bool, rng: np.random.Generator
) -> float:
    """Move the log shape, normal a priori."""
    x, log_mean, far, _ = cells
    proposed = log_shape + lengths[1] * rng.standard_normal()
    a, b = math.exp(log_shape), math.exp(proposed)
    of_none = math.lgamma(b) - math.lgamma(a)
    ratio = ((log_shape - mean) ** 2 - (proposed - mean) ** 2) / (2 * spread**2)
    for i in range(x.size):
        ratio += b * proposed - (x[i] + b) * _log_sum(proposed, log_mean[i]) - a * log_shape + (x[i] + a) * far[i]
        if x[i] > 0:
            ratio += math.lgamma(x[i] + b) - math.lgamma(x[i] + a) - of_none
    return proposed if _accepts(ratio, lengths, 1, tune, rng) else log_shape


@jit
def move_parameters(
    x: Reals,
    codes: Ints,
    first: Ints,
    at: Reals,
    effects: Reals,
    log_spread: Reals,
    lengths: Reals,
    scales: tuple[float, float, float, float],
    tune: bool,
    rng: np.random.Generator,
) -> None:
    """Move level, effects, their standard deviations and the shape, once each, in place.

    Parameters
    ----------
    x : array, shape (n,)
        Counts of the cells that are not 0 by definition.
    codes : array of int64, shape (factors, n)
        Of each factor, the label of each cell.
    first : array of int64, shape (factors + 1,)
        Where the effects of each factor begin, and their number.
    at : array, shape (2,)
        Level and log shape.
    effects, log_spread : arrays, shapes (effects,) and (factors,)
    lengths : array, shape (2 + factors + effects,)
        Of the steps of level, shape, log spreads and effects.
    scales : tuple of float
        Standard deviation of the level; scale of those of the effects; mean and standard deviation of the log shape.
    tune : bool
        Whether lengths are tuned.
    rng : numpy.random.Generator
    """
    of_level, of_spread, shape_mean, shape_spread = scales
    level, log_shape = at
    factors, log_mean, far = log_spread.size, np.full(x.size, level), np.empty(x.size)
    of_effects = lengths[2 + factors :]
    for k in range(factors):
        for i in range(x.size):
            log_mean[i] += effects[first[k] + codes[k, i]]
    for i in range(x.size):
        far[i] = _log_sum(log_shape, log_mean[i])
    cells = _Cells(x, log_mean, far, np.empty(x.size))
    level = _move_level(cells, level, log_shape, of_level, lengths, tune, rng)
    for k in range(factors):
        own, of_own = effects[first[k] : first[k + 1]], of_effects[first[k] : first[k + 1]]
        _move_effects(cells, codes[k], own, log_spread[k], log_shape, of_own, tune, rng)
        log_spread[k] = _move_spread(own, log_spread[k], of_spread, lengths, 2 + k, tune, rng)
        level = _exchange(own, level, log_spread[k], of_level, rng)
    at[0], at[1] = level, _move_shape(cells, log_shape, shape_mean, shape_spread, lengths, tune, rng)


@jit
def propose_effects(
    own: Reals,
    log_spread: float,
    codes: Ints,
    possible: NDArray[np.bool_],
    log_mean: Reals,
    far: Reals,
    log_shape: float,
    rng: np.random.Generator,
) -> tuple[Reals, Reals, Reals, Reals]:
    """Propose new effects of one factor, for cells to go along with.

    Parameters
    ----------
    own, log_spread : array, float
        Effects, and their log standard deviation.
    codes, possible : arrays, shape (d,)
        Label of each cell; cells that are not 0 by definition.
    log_mean, far, log_shape : arrays of shape (d,), float
        ``far`` is the log of shape plus mean.
    rng : numpy.random.Generator

    Returns
    -------
    steps, ratios : arrays of the shape of `own`
        The log ratio of each label's step, but for what its cells weigh with other slopes, ``log_mean - far``.
    log_mean, far : arrays, shape (d,)
        Were all labels accepted.
    """
    variance, a = math.exp(2 * log_spread), math.exp(log_shape)
    steps, ratios = np.empty(own.size), np.empty(own.size)
    raised, further = np.empty(codes.size), np.empty(codes.size)
    for j in range(own.size):
        steps[j] = LENGTHS[int(len(LENGTHS) * rng.random())] * rng.standard_normal()
        ratios[j] = (own[j] ** 2 - (own[j] + steps[j]) ** 2) / (2 * variance)
    for i in range(codes.size):
        raised[i] = log_mean[i] + steps[codes[i]]
        further[i] = _log_sum(log_shape, raised[i])
        if possible[i]:
            ratios[codes[i]] -= a * (further[i] - far[i])
    return steps, ratios, raised, further
