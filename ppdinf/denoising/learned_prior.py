"""A prior of the cells that learns its level, spread and sparsity, and the updates of its parameters given a table."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.tables.frame import Frame

SPREADS = 5
"""Steps of a standard deviation for each step of its effects."""

ACCEPTANCE = 0.4
"""Target acceptance rate, to which step lengths are tuned."""


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
    possible: Flags
    members: Integers
    codes: Integers
    codes_of_members: Integers
    first: Integers
    starts: Integers
    cells: Integers
    turns: Integers
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
    codes: Integers,
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
def update_parameters(prior: Prior, table: Integers, tune: bool, rng: np.random.Generator) -> None:
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


@jit
def write_slopes(prior: Prior) -> None:
    """Write the slopes of the log weights of a learned prior."""
    for i in range(prior.slope.size if prior.learned else 0):
        log_mean = prior.state[0]
        for k in range(prior.first.size - 1):
            log_mean += prior.effects[prior.first[k] + prior.codes[k, i]]
        prior.slope[i] = log_mean - log_sum(prior.state[1], log_mean)


SWEEPS = 4
"""Updates of the table and its prior per stored draw."""

LEVEL, SPREAD, SHAPE = 5.0, 1.5, (-1.0, 2.0)
"""Prior scales: sd of the level; scale of the sds of the effects; mean and sd of the log shape."""

EFFECTS = 5000
"""Largest number of labels of a factor."""

FEW, SELDOM = 300, 1 / 4
"""Number of cells of a label up to which its effect is always updated jointly with them; smallest probability of a
joint update."""

TURNS, SPARSE = 3, 10
"""Passes over factors whose labels all have few cells, and one of them fewer persons in a cell on average: possibly
empty labels mix slowest."""


class FixedPrior:
    """Prior without parameters."""

    def __init__(self, log_h: Reals, slope: Reals) -> None:
        d, none, no_cells = slope.size, np.zeros(0), np.zeros(0, dtype=np.int64)
        self.arrays = Prior(
            False, log_h, np.exp(log_h), slope, np.ones(d, dtype=bool), np.arange(d), np.zeros((0, d), dtype=np.int64),
            np.zeros((0, d), dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), no_cells,
            no_cells, none, np.zeros(2), none, none, np.zeros(2), np.zeros(2), np.zeros(4),
        )  # fmt: skip

    def log_weights(self) -> tuple[Reals, Reals]:
        """Return `log_h` and `slope`."""
        return self.arrays.log_h, self.arrays.slope

    @property
    def parameters(self) -> dict[str, float | Reals]:
        """An empty dictionary."""
        return {}


class LearnedPrior:
    """Parameters of the prior and their updates."""

    def __init__(self, frame: Frame, possible: Flags, start: Integers, largest: int) -> None:
        self.names, self.left_out, labels_of = [], [], []
        for name, (_, values) in frame.coords.items():
            codes, labels = pd.factorize(frame.broadcast(name)) if values.dtype.kind == "f" else frame.codes(name)
            if 2 <= labels.size <= min(EFFECTS, max(frame.size // 3, 2)) and labels.size < frame.size:
                self.names.append(name)
                labels_of.append((codes, labels.size))
            elif labels.size > 1 and frame.dims != (name,):
                self.left_out.append(name)
        sizes = np.array([size for _, size in labels_of], dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(sizes)])
        codes = np.array([labels for labels, _ in labels_of], dtype=np.int64).reshape(sizes.size, frame.size)
        # cells of each label, factor by factor
        members = np.flatnonzero(possible)
        orders = [members[np.argsort(labels[members], kind="stable")] for labels in codes]
        counts = [np.bincount(labels[members], minlength=size) for labels, size in zip(codes, sizes, strict=True)]
        numbers = np.concatenate([np.zeros(0, dtype=np.int64), *counts])
        sparse = [(np.bincount(k, start, n.size) < SPARSE * n).any() for k, n in zip(codes, counts, strict=True)]
        few = [n.max() <= FEW for n in counts]
        turns = np.repeat(np.arange(sizes.size), np.where(np.logical_and(sparse, few), TURNS, 1))
        level = float(np.log(max(start[possible].mean(), 0.01))) if possible.any() else 0.0
        log_h, h = np.empty(largest + 1), np.empty(largest + 1)
        self.arrays = Prior(
            learned=True,
            log_h=log_h,
            h=h,
            slope=np.zeros(frame.size),
            possible=possible,
            members=members,
            codes=codes,
            codes_of_members=np.ascontiguousarray(codes[:, members]),
            first=first,
            starts=np.concatenate([[0], np.cumsum(numbers)]),
            cells=np.concatenate([np.zeros(0, dtype=np.int64), *orders]),
            turns=turns,
            often=np.maximum(SELDOM, FEW / np.maximum(numbers, 1)),
            state=np.array([level, -0.5]),
            effects=np.zeros(first[-1]),
            log_spread=np.full(sizes.size, np.log(0.5)),
            lengths=np.concatenate([[0.1, 0.2], np.full(sizes.size, 0.3), np.full(first[-1], 0.2)]),
            lengths_with=np.array([0.1, 0.2]),
            scales=np.array([LEVEL, SPREAD, *SHAPE]),
        )
        list_weights(-0.5, log_h, h)

    def log_weights(self) -> tuple[Reals, Reals]:
        """Return log weights of counts, ``log_h[x] + slope[i] x`` up to a constant, shapes (largest + 1,) and (d,)."""
        write_slopes(self.arrays)
        return self.arrays.log_h, self.arrays.slope

    @property
    def parameters(self) -> dict[str, float | Reals]:
        """Values of the parameters by name."""
        prior = self.arrays
        values: dict[str, float | Reals] = {"level": float(prior.state[0]), "shape": float(np.exp(prior.state[1]))}
        for k, name in enumerate(self.names):
            values[f"{name} effect"] = prior.effects[prior.first[k] : prior.first[k + 1]].copy()
            values[f"{name} spread"] = float(np.exp(prior.log_spread[k]))
        return values
