"""Parameters of the learned prior: how they move given a table, and proposals for those that cells go along with.

Given a table they take random-walk Metropolis steps, each tuned to be accepted at a rate. Log means of the cells, and
what their negative binomials make of them, go along from step to step, so that each step looks at every cell once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf._compiled import jit

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


@jit
def _move_spread(own: Reals, log_spread: float, scale: float, lengths: Reals, which: int, tune: bool, rng) -> float:  # type: ignore[no-untyped-def]
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
def move_parameters(
    x: Reals,
    labels: Ints,
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
    labels : array of int64, shape (factors, n)
        Of each factor's label in each cell: its place among the effects.
    first : array of int64, shape (factors + 1,)
        Where the effects of each factor begin, and their number.
    at : array, shape (2,)
        Level and log shape.
    effects, log_spread : arrays, shapes (effects,) and (factors,)
    lengths : array, shape (2 + factors + effects,)
        Of the steps of all these, in this order.
    scales : tuple of float
        Standard deviation of the level; scale of those of the effects; mean and standard deviation of the log shape.
    tune : bool
        Whether lengths are tuned.
    rng : numpy.random.Generator
    """
    of_level, of_spread, shape_mean, shape_spread = scales
    level, log_shape = at
    a, factors = math.exp(log_shape), log_spread.size
    log_mean, far, further = np.full(x.size, level), np.empty(x.size), np.empty(x.size)
    for k in range(factors):
        for i in range(x.size):
            log_mean[i] += effects[labels[k, i]]
    step = lengths[0] * rng.standard_normal()
    ratio = (level**2 - (level + step) ** 2) / (2 * of_level**2)
    for i in range(x.size):
        far[i] = _log_sum(log_shape, log_mean[i])
        further[i] = _log_sum(log_shape, log_mean[i] + step)
        ratio += x[i] * step - (x[i] + a) * (further[i] - far[i])
    if _accepts(ratio, lengths, 0, tune, rng):
        level += step
        log_mean += step
        far, further = further, far

    ratios, steps = np.empty(effects.size), np.empty(effects.size)
    for k in range(factors):
        variance, own = math.exp(2 * log_spread[k]), effects[first[k] : first[k + 1]]
        for j in range(first[k], first[k + 1]):  # no cell has two labels of a factor: they move side by side
            steps[j] = lengths[2 + factors + j] * rng.standard_normal()
            ratios[j] = (effects[j] ** 2 - (effects[j] + steps[j]) ** 2) / (2 * variance)
        for i in range(x.size):
            step = steps[labels[k, i]]
            further[i] = _log_sum(log_shape, log_mean[i] + step)
            ratios[labels[k, i]] += x[i] * step - (x[i] + a) * (further[i] - far[i])
        for j in range(first[k], first[k + 1]):
            if not _accepts(ratios[j], lengths, 2 + factors + j, tune, rng):
                steps[j] = 0.0
            effects[j] += steps[j]
        for i in range(x.size):
            if steps[labels[k, i]] != 0.0:
                log_mean[i] += steps[labels[k, i]]
                far[i] = further[i]
        log_spread[k] = _move_spread(own, log_spread[k], of_spread, lengths, 2 + k, tune, rng)
        # what effects have in common goes to the level, by its law given their sum: a Gibbs step
        variance = math.exp(2 * log_spread[k])
        precision = own.size / variance + 1 / of_level**2
        shift = (own.sum() / variance - level / of_level**2) / precision + rng.standard_normal() / math.sqrt(precision)
        own -= shift
        level += shift

    proposed = log_shape + lengths[1] * rng.standard_normal()
    b = math.exp(proposed)
    ratio = ((log_shape - shape_mean) ** 2 - (proposed - shape_mean) ** 2) / (2 * shape_spread**2)
    for i in range(x.size):
        ratio += b * proposed - (x[i] + b) * _log_sum(proposed, log_mean[i])
        ratio -= a * log_shape - (x[i] + a) * far[i]
        if x[i] > 0:
            ratio += math.lgamma(x[i] + b) - math.lgamma(b) - math.lgamma(x[i] + a) + math.lgamma(a)
    if _accepts(ratio, lengths, 1, tune, rng):
        log_shape = proposed
    at[0], at[1] = level, log_shape


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
