"""The next table of a chain: an exact draw from a decision diagram, or Gibbs updates along random lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._internal.values import Integers, Reals
from ppdinf.fiber.gibbs.fiber import Fiber, table_diagram
from ppdinf.fiber.gibbs.line_gibbs import NO_SUMS, cell_weights, walk, walk_histogram
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums, log_weights_of, sums_of_norm
from ppdinf.laws.noise_norm import NoiseNorm

WHOLE = 1 / 16  # share of the draws with complete windows
SPREADS = 4  # size of an interval in standard deviations of the noise
LARGE = 2**16  # smallest number of log weights for truncation
BLOCK = 2**20  # log weights whose variances are computed together


@dataclass(frozen=True, eq=False)
class RandomTruncation:
    """Division of windows into intervals of equal size at random positions."""

    lower: Integers
    width: int
    size: int
    variances: Reals

    @property
    def is_complete(self) -> bool:
        """Whether windows are never truncated because the table is small."""
        return self.size == self.width and self.lower.size * self.width < LARGE

    def draw(self, rng: np.random.Generator) -> Integers | None:
        """Draw the part of each first interval that is before its window; None for no truncation."""
        if self.size == self.width or rng.random() < WHOLE:
            return None
        return rng.integers(self.size, size=self.lower.size)

    def around(self, table: Integers, at: Integers | None) -> tuple[Integers, int]:
        """Return the smallest counts of the intervals that contain a table, shape (d,), and their number of counts."""
        if at is None:
            return self.lower, self.width
        return self.lower - at + (table - self.lower + at) // self.size * self.size, self.size

    def restricted(self, weights: Reals, lower: Integers, width: int) -> Reals:
        """Return the log weights of intervals from those of the windows; -inf outside of the windows."""
        column = (lower - self.lower)[:, None] + np.arange(width)
        inside = (column >= 0) & (column < self.width)
        found = np.take_along_axis(weights, np.clip(column, 0, self.width - 1), axis=1)
        return np.where(inside, found, -np.inf)


def random_truncation(lower: Integers, log_noise: Reals) -> RandomTruncation:
    """Choose the size of intervals by the spread of the noise within the windows."""
    (d, width), rows = log_noise.shape, max(1, BLOCK // log_noise.shape[1])
    variances = np.concatenate([np.zeros(0), *(variance(log_noise[i : i + rows]) for i in range(0, d, rows))])
    size = int(SPREADS * np.sqrt(max(variances.max(initial=0.0), 1.0)))
    return RandomTruncation(lower, width, size if log_noise.size >= LARGE and 2 * size <= width else width, variances)


def variance(log_weights: Reals) -> Reals:
    """Return the variance of a count whose log weights are given, for each row."""
    weights, counts = np.exp(log_weights - log_weights.max(axis=1, keepdims=True)), np.arange(log_weights.shape[1])
    weights /= weights.sum(axis=1, keepdims=True)
    return (weights * (counts - (weights @ counts)[:, None]) ** 2).sum(axis=1)


TOGETHER, SMALL = 3, 2**14  # directions of a joint draw, and largest number of edges of its diagram
AGAIN = 0.5  # share of the directions that are resampled by their expected step length

type Directions = tuple[Integers, Integers, Integers]


def _wide(index: NDArray[np.integer]) -> Integers:
    """Return 64-bit indices of a sparse matrix for compiled kernels; SciPy stores 32 or 64 bits."""
    return index.astype(np.int64, copy=False)


def directions(fiber: Fiber, number: int, rng: np.random.Generator, variances: Reals | None = None) -> Directions:
    """Draw directions of a fiber in the format of `walk`; small numbers take longer than the updates themselves."""
    v = fiber.moves.draw(number, rng=rng)
    if variances is not None and number:
        along = 1 / np.maximum(v.power(2).T @ (1 / variances), 1e-300)
        again = int(AGAIN * number)
        at = (np.arange(again) + rng.random(again)) / again * along.sum()  # stratified resampling
        chosen = np.minimum(np.searchsorted(np.cumsum(along), at), number - 1)
        v = v[:, rng.permutation(np.concatenate([np.arange(number - again), chosen]))]
    if fiber.system.limits.size:
        v = sp.vstack([v, fiber.system.B @ v], format="csc")
    return _wide(v.indptr), _wide(v.indices), v.data


def advance(
    fiber: Fiber,
    table: Integers,
    conditional: list[Reals],
    along: Directions,
    rng: np.random.Generator,
    log_factor: Callable[[Integers], float] | None = None,
    lower: Integers | None = None,
    *,
    by_lines: bool = False,
) -> Integers:
    """Return the table after updates along the directions."""
    if by_lines or (fiber.diagram is None and not fiber.may_be_cut):
        return _along_lines(fiber, table, conditional, along, rng, log_factor, lower)
    if fiber.diagram is not None and fiber.diagram.is_whole(fiber.coupling) and log_factor is None:
        return _drawn_jointly(fiber, table, conditional, None, rng, log_factor)
    # the joint draw is first or last at random, so that the kernel stays reversible
    block = None if fiber.diagram is not None else _some_cells(table.size, along, rng)
    first = rng.random() < 0.5
    for jointly in (first, not first):
        if jointly:
            table = _drawn_jointly(fiber, table, conditional, block, rng, log_factor)
        else:
            table = _along_lines(fiber, table, conditional, along, rng, log_factor, lower)
    return table


def _some_cells(d: int, along: Directions, rng: np.random.Generator) -> Integers:
    """Return the cells that a few random directions change."""
    starts, cells, _ = along
    chosen = rng.integers(starts.size - 1, size=TOGETHER)
    found = np.unique(np.concatenate([cells[starts[r] : starts[r + 1]] for r in chosen]))
    return found[found < d]


def _drawn_jointly(
    fiber: Fiber,
    table: Integers,
    conditional: list[Reals],
    block: Integers | None,
    rng: np.random.Generator,
    log_factor: Callable[[Integers], float] | None,
) -> Integers:
    """Draw all cells, or a block of cells given the others, by the weights that are products over cells and sums."""
    coupling, measured, diagram = fiber.coupling, None, fiber.diagram
    if isinstance(coupling, MeasuredSums):
        measured = coupling.given(coupling.matrix @ table, rng)
    if block is not None and fiber.support is not None:
        sums = coupling if isinstance(coupling, MeasuredSums) else None
        diagram = table_diagram(fiber.system, fiber.support.around(table, block), sums, SMALL)
    proposed = None if diagram is None else diagram.draw(conditional[0], measured, rng)
    if diagram is None or proposed is None or (proposed == table).all():
        return table
    log_ratio = 0.0
    for x, sign in ((proposed, 1), (table, -1)):
        if isinstance(coupling, MeasuredSums) and measured is not None:
            others = np.setdiff1d(np.arange(coupling.y.size), diagram.sums)
            log_ratio += sign * log_weights_of(others, (coupling.matrix @ x)[others], measured).sum()
        elif isinstance(coupling, NoiseNorm):
            log_ratio += sign * float(coupling.of(conditional[1] - coupling.matrix @ x))
        if log_factor is not None:
            log_ratio += sign * log_factor(x)
    return proposed if log_ratio >= 0 or np.log(rng.random()) < log_ratio else table


def _along_lines(
    fiber: Fiber,
    table: Integers,
    conditional: list[Reals],
    along: Directions,
    rng: np.random.Generator,
    log_factor: Callable[[Integers], float] | None,
    lower: Integers | None,
) -> Integers:
    """Update a table along directions."""
    d, coupling, noise = table.size, fiber.coupling, fiber.histogram
    x = np.concatenate([table, fiber.slack(table)])
    with_sums = coupling is not None or noise is not None
    weights = cell_weights(fiber.lower if lower is None else lower, conditional[0], with_sums=with_sums)
    if noise is not None:
        changes = (_wide(noise.steps.indptr), _wide(noise.steps.indices), noise.steps.data)

        def move(x: Integers, along: Directions) -> None:
            left = noise.left(x[:d])
            walk_histogram(x, *along, weights, changes, noise.rate, noise.shifted, left, rng)
    elif coupling is None:

        def move(x: Integers, along: Directions) -> None:
            walk(x, *along, weights, *NO_SUMS, rng)
    else:
        if isinstance(coupling, NoiseNorm):
            sums, largest = sums_of_norm(coupling, conditional[1]), coupling.order == np.inf
        else:
            sums, largest = coupling, False
        measured = sums.given(sums.matrix @ table, rng)

        def move(x: Integers, along: Directions) -> None:
            walk(x, *along, weights, measured, sums.matrix @ x[:d], largest, rng)

    if log_factor is None:
        move(x, along)
    else:
        _propose(x, move, along, rng, lambda x: log_factor(x[:d]))
    return x[:d]


def _propose(
    x: Integers,
    move: Callable[[Integers, Directions], None],
    along: Directions,
    rng: np.random.Generator,
    log_factor: Callable[[Integers], float],
) -> None:
    """Update a table in place; each direction is a proposal."""
    starts, cells, steps = along
    here = log_factor(x)
    for r in range(starts.size - 1):
        proposed = x.copy()
        move(proposed, (starts[r : r + 2], cells, steps))
        if (proposed == x).all():
            continue
        there = log_factor(proposed)
        if np.log(rng.random()) < there - here:
            x[:], here = proposed, there
