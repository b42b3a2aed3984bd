"""Gibbs and block steps of a table given its prior, for sums that overlap in any way."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.denoising.count_windows import CountWindows
from ppdinf.denoising.learned_prior import FIRST, NOT_ANEW, Groups, LearnedPrior, Weights
from ppdinf.distributions.model_graph.build_fiber import feasible_start
from ppdinf.distributions.observation.observed_measurements import ObservedMeasurements
from ppdinf.distributions.observation.table_moves import TableSupport, fiber_of
from ppdinf.fiber.gibbs.coarse_quantiles import knots_of
from ppdinf.fiber.gibbs.dispatch import Directions, advance, directions
from ppdinf.fiber.gibbs.gaussian_block import GaussianBlock, gaussian_block
from ppdinf.fiber.gibbs.joint_move import FREE, HELD, joint_moves
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums, no_sums
from ppdinf.fiber.gibbs.random_windows import cuts
from ppdinf.fiber.gibbs.slice_walk import walk_by_slices
from ppdinf.lattice.points.presolve import Support

__all__ = ["TableGibbs"]

WIDE = 1024  # counts of a window from which on lines are updated by slice sampling
BATCH, TIMES = 64, 4  # sweeps whose directions are drawn together, and number of uses of these directions
RELEARN = {50 * 2**k for k in range(20)}  # numbers of moves after which the cells of a block are chosen anew
NO_CELLS = np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int64)  # one group without cells
LARGE_DIAGRAM = 2**15  # edges of a decision diagram above which only one sweep of four is an exact draw
ACCEPTANCE = 0.6  # target acceptance rate of block moves, to which their length is tuned

type Reals = NDArray[np.float64]


@jit
def _weigh(log_noise: Reals, lower: NDArray[np.int64], log_h: Reals, slope: Reals, out: Reals) -> None:
    """Write log weights of the counts of all cells, the sum of noise and prior."""
    for i in range(log_noise.shape[0]):
        for k in range(log_noise.shape[1]):
            count = max(lower[i] + k, 0)  # negative counts have weight 0 in log_noise
            out[i, k] = log_noise[i, k] + log_h[count] + slope[i] * count


class TableGibbs:
    """Windows, moves and a feasible table for non-negative counts.

    Attributes
    ----------
    plan : str
        Description of the sampler, and the reason for its choice.
    largest : int
        Largest count with a listed log weight in the prior that `Chain.sweep` takes.

    Parameters
    ----------
    observed : ObservedMeasurements
    windows : CountWindows

    Raises
    ------
    InvariantError
        No table satisfies everything public.
    """

    def __init__(self, observed: ObservedMeasurements, windows: CountWindows) -> None:
        system, (d, width) = observed.system, windows.counts.shape
        coupling, possible = observed.coupling(windows.lower, width), np.isfinite(windows.log_noise)
        support = TableSupport(possible, possible)
        self.fiber = fiber_of(observed, windows.lower, windows.log_noise, support, coupling, np.ones(d, dtype=bool))
        moves, diagram = self.fiber.moves, self.fiber.diagram
        self.start = feasible_start(self.fiber, possible, observed).ravel()
        self.counts = windows.counts
        # rough posterior variances of cells, for the lengths of moves
        noise = np.maximum(cuts(windows.lower, windows.log_noise).variances, 1e-3)
        self.variances = 1 / (1 / noise + 1 / (self.start + 1.0))
        self.limits = np.maximum(system.cell_limits[0], 0), system.cell_limits[1]
        self.precision = observed.gaussian_cells()
        # noise weights, and for each cell the last count at which they increase
        log_noise = windows.log_noise - windows.log_noise.max(axis=1, keepdims=True)
        linear = np.exp(log_noise)
        rises = np.diff(linear, axis=1, prepend=np.inf) > 0
        falls = windows.lower + np.where(rises.any(axis=1), width - 1 - rises[:, ::-1].argmax(axis=1), 0)
        # slice sampling of wide windows, if lines have no holes and no other coupling
        self.wide = (
            width >= WIDE
            and (coupling is None or isinstance(coupling, MeasuredSums))
            and self.fiber.histogram is None
            and diagram is None
            and not self.fiber.may_be_cut
            and not Support(windows.lower, possible).holes.any()
        )
        self.largest = min(windows.largest, WIDE) if self.wide else windows.largest
        knots = knots_of(log_noise) if self.wide else np.zeros((d, 0), dtype=np.int64)
        self.noise = log_noise, linear, windows.lower, falls, knots
        B = sp.csc_array(system.B)
        self.bounds = B.indptr.astype(np.int64), B.indices.astype(np.int64), B.data.astype(np.int64)
        self.plan = (
            f"sampled along lines, because {observed.why_not_marginalizable}; moves: {moves.reason}; cells are updated "
            "jointly with the level, the effects and the shape of their prior"
        )
        if self.wide:
            self.plan += f"; lines are updated by slice sampling, since windows contain {width:,} counts"
        if diagram is not None:
            self.plan += (
                f"; tables are drawn exactly given the prior from a decision diagram of {diagram.diagram.edges:,} "
                "edges, since no theorem proves that the moves connect the fiber"
            )
        if isinstance(coupling, MeasuredSums) and not coupling.mixtures and (coupling.precision > 0).all():
            self.plan += (
                "; large cells are updated jointly by Klein's algorithm on the lattice of the exact sums, since the "
                "noise is Gaussian and sums are known more precisely than cells"
            )

    def block(self, means: Reals) -> tuple[GaussianBlock, NDArray[np.int64]]:
        """Choose the cells of a joint block from the mean counts, and for every other cell a partner with equal sums.

        The partner of a cell has the same exact sums and is the furthest from its bounds, preferably in the block.
        Partners outside the block are appended for their weights only; block moves do not change these cells.
        """
        distance = np.minimum(means - self.limits[0], self.limits[1] - means)
        distance[self.fiber.fixed] = -np.inf
        block, A = gaussian_block(self.fiber, self.precision, distance), self.fiber.system.A
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

    def weights(self) -> Reals:
        """Allocate the log weights of all counts; an empty array where lines are updated by slice sampling."""
        return np.empty((0, 0) if self.wide else self.fiber.log_noise.shape)

    def chain(self, rng: np.random.Generator) -> Chain:
        """Start a chain of tables."""
        return Chain(self, rng)


class Chain:
    """A Markov chain of tables."""

    def __init__(self, tables: TableGibbs, rng: np.random.Generator) -> None:
        # dispersed starts, so that R-hat detects a fiber that the moves do not connect
        vertex = tables.fiber.vertex(rng) if tables.fiber.may_be_cut else None
        self._tables, self._rng, self.table = tables, rng, tables.start if vertex is None else vertex
        self._directions, self._position = directions(tables.fiber, 1, rng), BATCH * TIMES
        self._total, self._moves, self._count = np.zeros(self.table.size), 0, 0
        self._step, self._means = 1.0, np.zeros(self.table.size)
        self._use, self._weights = tables.block(self._means), tables.weights()

    def __getstate__(self) -> dict[str, object]:
        """Omit attributes that can be recomputed."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_use", "_weights")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._use, self._weights = self._tables.block(self._means), self._tables.weights()

    def sweep(self, log_h: Reals, slope: Reals) -> None:
        """Update along as many lines as there are cells, given log weights ``log_h[x] + slope[i] x`` of the prior."""
        tables, d = self._tables, self.table.size
        if self._position == BATCH * TIMES:
            self._directions, self._position = directions(tables.fiber, d * BATCH, self._rng, tables.variances), 0
        starts, cells, steps = self._directions
        position = d * (self._position % BATCH)
        self._position += 1
        if tables.wide:
            self._sweep_by_slices((starts[position : position + d + 1], cells, steps), log_h, slope)
            return
        _weigh(tables.fiber.log_noise, tables.fiber.lower, log_h, slope, self._weights)
        diagram = tables.fiber.diagram
        by_lines = diagram is not None and diagram.diagram.edges > LARGE_DIAGRAM and self._position % 4 > 0
        self.table = advance(
            tables.fiber, self.table, [self._weights], (starts[position : position + d + 1], cells, steps), self._rng,
            by_lines=by_lines,
        )  # fmt: skip

    def _sweep_by_slices(self, along: Directions, log_h: Reals, slope: Reals) -> None:
        """Update along lines without the weights of all counts."""
        fiber, rng = self._tables.fiber, self._rng
        measured = fiber.coupling if isinstance(fiber.coupling, MeasuredSums) else no_sums(self.table.size)
        sums = measured.matrix @ self.table
        x = np.concatenate([self.table, fiber.slack(self.table)])
        walk_by_slices(
            x, *along, fiber.lower, fiber.log_noise, (log_h, slope), measured.given(sums, rng), sums, rng
        )  # fmt: skip
        self.table = x[: self.table.size]

    def move_with(self, prior: LearnedPrior | None, log_h: Reals, slope: Reals, *, tune: bool) -> None:
        """Update a block of cells, then the table and the prior's parameters jointly."""
        tables, rng = self._tables, self._rng
        coupling, x = tables.fiber.coupling, self.table.copy()
        if not isinstance(coupling, MeasuredSums):
            return
        sums, slack = coupling.matrix @ x, tables.fiber.slack(x)
        measured = coupling.given(sums, rng)
        self._learn(tune=tune)
        (block, partner), step = self._use, self._step
        log_totals = np.full(x.size, np.nan)  # cached log normalizers of single cells, valid until parameters change

        def move(
            groups: Groups, which: NDArray[np.int64], before: Weights, after: Weights, log_ratios: Reals,
            anew: NDArray[np.bool_],
        ) -> NDArray[np.bool_]:  # fmt: skip
            return joint_moves(
                x, sums, slack, groups, which, partner, before, after, log_totals, tables.noise, measured,
                tables.bounds, block.arrays, step, log_ratios, anew, rng,
            )  # fmt: skip

        if block.root.size:
            here = log_h, np.exp(log_h), slope
            moved = move(NO_CELLS, FIRST, here, here, np.zeros(1), NOT_ANEW)[0]
            if tune:
                self._step = min(1.0, self._step * np.exp(0.1 * (moved - ACCEPTANCE)))
        if prior is not None:
            prior.update_with(move, log_h.size - 1, rng, tune=tune)
        self.table = x

    def _learn(self, *, tune: bool) -> None:
        """Choose the block anew from the mean counts of past tables, at a few times during tuning."""
        if not tune:
            return
        self._total += self.table
        self._moves, self._count = self._moves + 1, self._count + 1
        if self._moves in RELEARN:
            self._means, self._step = self._total / self._count, 1.0
            self._use = self._tables.block(self._means)
            self._total[:], self._count = 0.0, 0
