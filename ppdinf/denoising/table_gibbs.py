"""Gibbs and block steps of a table and its prior, for noisy sums that overlap in any way."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Integers, Reals
from ppdinf.denoising.count_windows import CountWindows
from ppdinf.denoising.learned_prior import (
    ACCEPTANCE,
    SWEEPS,
    FixedPrior,
    LearnedPrior,
    Prior,
    list_weights,
    log_sum,
    update_parameters,
    write_slopes,
)
from ppdinf.distributions.build_fiber import TableSupport, feasible_start, fiber_of
from ppdinf.distributions.marginalization import why_not_marginalizable
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.fiber.gibbs.cell_quantiles import knots_of, log_weights_at
from ppdinf.fiber.gibbs.joint_move import FREE, HELD, Block, Bounds, GaussianBlock, Noise, gaussian_block, joint_moves
from ppdinf.fiber.gibbs.line_gibbs import NO_SUMS, CellWeights, cell_weights, walk_by_slices, walk_tables
from ppdinf.fiber.gibbs.measured_sums import Measured, MeasuredSums, Mixtures, draw_scales, no_sums
from ppdinf.fiber.gibbs.table_update import Directions, advance, directions, random_truncation
from ppdinf.lattice.rows import Rows
from ppdinf.lattice.supports import Support

LENGTHS = (0.3, 1.0, 3.0)
"""Lengths of steps of effects, from short to long, so that chains leave and return to empty labels."""

SELDOM = 1 / 4
"""Probability of a joint update of level and shape."""


@jit
def update_with_table(
    prior: Prior,
    x: Integers,
    sums: Integers,
    slack: Integers,
    partner: Integers,
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
    new_log_h, new_h, new_at_knots = np.empty_like(log_h), np.empty_like(h), np.empty_like(at_knots)
    level_scale, _, mean, shape_scale = prior.scales
    # level, then shape, jointly with all cells
    for which_state in range(2):
        change = prior.lengths_with[which_state] * rng.standard_normal()
        new_level, new_shape = (level + change, log_shape) if which_state == 0 else (level, log_shape + change)
        list_weights(new_shape, new_log_h, new_h)
        log_weights_at(noise[5], noise[2], noise[4], new_log_h, new_at_knots)
        log_ratio[0] = (level**2 - new_level**2) / (2 * level_scale**2)
        log_ratio[0] += ((log_shape - mean) ** 2 - (new_shape - mean) ** 2) / (2 * shape_scale**2)
        for i in range(d):
            new_mean[i] = log_mean[i] + new_level - level
            new_slope[i] = new_mean[i] - log_sum(new_shape, new_mean[i])
            if possible[i]:
                log_ratio[0] += math.exp(new_shape) * (new_shape - new_mean[i] + new_slope[i])
                log_ratio[0] -= math.exp(log_shape) * (log_shape - log_mean[i] + slope[i])
        moved = joint_moves(
            x, sums, slack, everywhere, all_cells, partner, (log_h, h, at_knots, slope),
            (new_log_h, new_h, new_at_knots, new_slope), log_totals, noise, measured, bounds, block, step, log_ratio,
            not_anew, rng,
        )  # fmt: skip
        if moved[0]:
            level, log_shape = new_level, new_shape
            prior.state[0], prior.state[1] = level, log_shape
            log_h[:], h[:], at_knots[:] = new_log_h, new_h, new_at_knots
            log_mean[:], slope[:] = new_mean, new_slope
        if tune:
            prior.lengths_with[which_state] *= math.exp(0.1 * (moved[0] - ACCEPTANCE))


BLOCK_ACCEPTANCE = 0.6  # target acceptance rate of block moves, to which their length is tuned


@jit
def sweeps(
    number: int,
    x: Integers,
    along: tuple[Integers, Integers, Integers],
    prior: Prior,
    noise: Noise,
    measured: Measured,
    mixtures: Mixtures,
    bounds: Bounds,
    alone: Block,
    block: Block,
    partner: Integers,
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
            write_slopes(prior)
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
        if alone[4].size > 0:
            write_slopes(prior)
            here = prior.log_h, prior.h, at_knots, prior.slope
            moved = joint_moves(
                table, sums, slack, nobody, one, partner, here, here, log_totals, noise, measured, bounds, alone, step,
                zero, kept, rng,
            )  # fmt: skip
            if tune:
                step = min(1.0, step * np.exp(0.1 * (moved[0] - BLOCK_ACCEPTANCE)))
        if prior.learned:
            update_with_table(
                prior, table, sums, slack, partner, log_totals, at_knots, noise, measured, bounds, block, step, tune,
                rng,
            )  # fmt: skip
    return step


WIDE = 1024  # counts of a window from which on lines are updated by slice sampling
BATCH, TIMES = 16, 4  # draws whose directions are drawn together, and number of uses of these directions
TIMES_OF_FIXED = 16  # the same under a fixed prior without noisy sums, where lines take less time than directions
RELEARN = {12 * 2**k for k in range(20)}  # numbers of draws after which the cells of a block are chosen anew
LARGE_DIAGRAM = 2**15  # edges of a decision diagram above which only one sweep of four is an exact draw
LISTED = 64, 16  # listed log weights of the prior where windows are wide: at least, and per cell


@jit
def _weigh(log_noise: Reals, lower: Integers, log_h: Reals, slope: Reals, out: Reals) -> None:
    """Write log weights of the counts of all cells, the sum of noise and prior."""
    for i in range(log_noise.shape[0]):
        for k in range(log_noise.shape[1]):
            count = max(lower[i] + k, 0)  # negative counts have weight 0 in log_noise
            out[i, k] = log_noise[i, k] + log_h[count] + slope[i] * count


class TableGibbs:
    """Windows, moves and a feasible table for non-negative counts."""

    def __init__(self, observed: ObservedMeasurements, windows: CountWindows) -> None:
        system, (d, width) = observed.system, windows.counts.shape
        coupling, possible = observed.coupling(windows.lower, width), np.isfinite(windows.log_noise)
        allowed = Rows.each(possible)
        support, noise = TableSupport(allowed, allowed), Rows.each(windows.log_noise)
        self.fiber = fiber_of(observed, windows.lower, noise, support, coupling, np.ones(d, dtype=bool))
        moves, diagram = self.fiber.moves, self.fiber.diagram
        self.start = feasible_start(self.fiber, allowed, observed).ravel()
        self.counts = windows.counts
        # rough posterior variances of cells, for the lengths of moves
        variances = np.maximum(random_truncation(windows.lower, windows.log_noise).variances, 1e-3)
        self.variances = 1 / (1 / variances + 1 / (self.start + 1.0))
        self.limits = np.maximum(system.cell_limits[0], 0), system.cell_limits[1]
        self.precision = observed.gaussian_cells()
        # slice sampling of wide windows, if lines have no holes and no other coupling
        self.wide = (
            width >= WIDE
            and (coupling is None or isinstance(coupling, MeasuredSums))
            and self.fiber.histogram is None
            and diagram is None
            and not self.fiber.may_be_cut
            and not Support(windows.lower, allowed).holes.any()
        )
        # tables without weights that change, which are drawn in batches under a fixed prior
        self.constant = not (self.wide or coupling or self.fiber.histogram or diagram or self.fiber.may_be_cut)
        self.free = max(1, int((~self.fiber.fixed).sum()))
        # noise weights of single cells for joint moves
        log_noise = windows.log_noise - windows.log_noise.max(axis=1, keepdims=True)
        self.largest, linear, falls = windows.largest, np.zeros((0, 0)), np.zeros(0, dtype=np.int64)
        knots = np.zeros((d, 0), dtype=np.int64)
        if self.wide:
            self.largest, knots = min(windows.largest, max(LISTED[0], LISTED[1] * d)), knots_of(log_noise)
        else:
            linear = np.exp(log_noise)
            rises = np.diff(linear, axis=1, prepend=np.inf) > 0  # weights decrease from the last of them
            falls = windows.lower + np.where(rises.any(axis=1), width - 1 - rises[:, ::-1].argmax(axis=1), 0)
        self.noise = log_noise, linear, windows.lower, falls, knots, np.take_along_axis(log_noise, knots, axis=1)
        B = sp.csc_array(system.B)
        self.bounds = B.indptr.astype(np.int64), B.indices.astype(np.int64), B.data.astype(np.int64)
        self.plan = (
            f"sampled along lines, because {why_not_marginalizable(observed) or 'sums cross'}. Moves: {moves.reason} "
            "Cells are updated jointly with the level, the effects and the shape of their prior."
        )
        if self.wide:
            self.plan += f" Lines are updated by slice sampling, since windows contain {width:,} counts."
        if diagram is not None:
            self.plan += (
                f" Tables are drawn exactly given the prior from a decision diagram of {diagram.diagram.edges:,} "
                "edges, since no theorem proves that the moves connect the fiber."
            )
        if isinstance(coupling, MeasuredSums) and not coupling.mixtures and (coupling.precision > 0).all():
            self.plan += (
                " Large cells are updated jointly by Klein's algorithm on the lattice of the exact sums, since the "
                "noise is Gaussian and sums are known more precisely than cells."
            )

    def block(self, means: Reals, *, alone: bool = False) -> tuple[GaussianBlock, Integers]:
        """Choose the cells of a joint block from mean counts, and for every other cell a partner with equal sums."""
        distance = np.minimum(means - self.limits[0], self.limits[1] - means)
        distance[self.fiber.fixed] = -np.inf
        block, A = gaussian_block(self.fiber, self.precision, distance, alone), self.fiber.system.A
        partner = np.full(means.size, FREE)
        if A.shape[0]:
            constrained = np.flatnonzero((np.diff(sp.csc_array(A).indptr) > 0) & ~self.fiber.fixed)
            classes = self.fiber.system.structure.classes
            order = constrained[np.argsort(distance[constrained], kind="stable")]
            order = np.concatenate([order, block.cells[np.argsort(distance[block.cells], kind="stable")]])
            furthest = np.full(means.size, HELD)
            furthest[classes[order]] = order
            partner[constrained] = furthest[classes[constrained]]
            partners = np.setdiff1d(np.unique(partner[constrained]), block.cells)
            B = block.basis
            rows = (B.data, B.indices, B.indptr), (block.cells.size + partners.size, B.shape[1])
            block = GaussianBlock(np.concatenate([block.cells, partners]), sp.csc_array(*rows), block.root)
        partner[block.cells] = HELD
        partner[self.fiber.fixed] = HELD
        return block, partner

    def chain(self, rng: np.random.Generator) -> Chain:
        """Start a chain of tables."""
        return Chain(self, rng)


class Chain:
    """A Markov chain of tables."""

    def __init__(self, tables: TableGibbs, rng: np.random.Generator) -> None:
        fiber = tables.fiber
        # dispersed starts, so that R-hat detects a fiber that the moves do not connect
        vertex = fiber.vertex(rng) if fiber.may_be_cut else None
        self._tables, self._rng, self.table = tables, rng, tables.start if vertex is None else vertex
        self._directions, self._position = directions(fiber, 1, rng), BATCH * TIMES_OF_FIXED
        self._total, self._draws, self._count = np.zeros(self.table.size), 0, 0
        self._set_blocks(np.zeros(self.table.size))
        self._weights = np.empty((0, 0) if tables.wide else fiber.log_noise.shape)
        self._constant: CellWeights | None = None
        self._jointly = isinstance(fiber.coupling, MeasuredSums)
        sums = fiber.coupling if isinstance(fiber.coupling, MeasuredSums) else no_sums(self.table.size)
        arrays = sums.arrays  # precisions of l2 noise change
        self._measured, self._mixtures = (*arrays[:4], arrays[4].copy(), *arrays[5:]), sums.mixture_arrays

    def advance(self, prior: LearnedPrior | FixedPrior, *, tune: bool) -> None:
        """Update the table and the prior by four sweeps; lengths of steps adapt only while tuning."""
        tables, d = self._tables, self._tables.free
        constant = tables.constant and isinstance(prior, FixedPrior)
        if self._position >= BATCH * (TIMES_OF_FIXED if constant else TIMES):
            self._directions = directions(tables.fiber, d * SWEEPS * BATCH, self._rng, tables.variances)
            self._position = 0
        if constant:
            self._walk(*prior.log_weights())
            return
        starts, cells, steps = self._directions
        position = d * SWEEPS * (self._position % BATCH)
        self._position += 1
        if tables.wide:
            along = starts[position : position + d * SWEEPS + 1], cells, steps
            self._sweeps(SWEEPS, prior, along, tune=tune)
        else:
            for k in range(SWEEPS):
                along = starts[position + k * d : position + (k + 1) * d + 1], cells, steps
                fiber, diagram = tables.fiber, tables.fiber.diagram
                _weigh(fiber.log_noise, fiber.lower, *prior.log_weights(), self._weights)
                by_lines = diagram is not None and diagram.diagram.edges > LARGE_DIAGRAM and k > 0
                self.table = advance(fiber, self.table, [self._weights], along, self._rng, by_lines=by_lines)
                self._sweeps(1, prior, (starts[:1], cells, steps), tune=tune)
        if tune:
            self._total += self.table
            self._draws, self._count = self._draws + 1, self._count + 1
            if self._draws in RELEARN:
                self._set_blocks(self._total / self._count)
                self._total[:], self._count = 0.0, 0

    def _set_blocks(self, means: Reals) -> None:
        """Choose the cells that are updated alone, and those that are updated with the prior."""
        tables, self._step = self._tables, 1.0
        self._alone, self._block = tables.block(means, alone=True)[0], tables.block(means)

    def _walk(self, log_h: Reals, slope: Reals) -> None:
        """Set the next table of a batch, whose weights are constant."""
        tables, lines = self._tables, SWEEPS * self._tables.free
        if self._constant is None:
            _weigh(tables.fiber.log_noise, tables.fiber.lower, log_h, slope, self._weights)
            self._constant = cell_weights(tables.fiber.lower, self._weights)
        if self._position % BATCH == 0:
            x = np.concatenate([self.table, tables.fiber.slack(self.table)])
            self._batch = np.empty((BATCH, self.table.size), dtype=np.int64)
            walk_tables(x, lines, self._directions, self._constant, NO_SUMS, self._batch, self._rng)
        self.table = self._batch[self._position % BATCH]
        self._position += 1

    def _sweeps(self, number: int, prior: LearnedPrior | FixedPrior, along: Directions, *, tune: bool) -> None:
        """Update table and prior by the kernel; it updates the table along the directions by slice sampling."""
        tables, (block, partner) = self._tables, self._block
        x = np.concatenate([self.table, tables.fiber.slack(self.table)])
        self._step = sweeps(
            number, x, along, prior.arrays, tables.noise, self._measured, self._mixtures, tables.bounds,
            self._alone.arrays, block.arrays, partner, self._step, self._jointly, tune, self._rng,
        )  # fmt: skip
        self.table = x[: self.table.size]
