"""A table given its prior, by a walk on its fiber, along lines and of cells at once: sums may overlap in any way."""

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
from ppdinf.fiber.gibbs.dispatch import advance, directions
from ppdinf.fiber.gibbs.gaussian_block import GaussianBlock, gaussian_block
from ppdinf.fiber.gibbs.joint_move import FREE, HELD, joint_moves
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums
from ppdinf.fiber.gibbs.random_windows import cuts

__all__ = ["TableWalk"]

BATCH, TIMES = 64, 4  # sweeps whose directions are drawn together, and how often these are gone along
LEARNT = {50 * 2**k for k in range(20)}  # moves after which the cells of a block are chosen
NO_CELLS = np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int64)  # one group, of none
OFTEN = 2**15  # edges of a decision diagram beyond which one sweep of four is an exact draw
WANTED = 0.6  # share of the moves of a block to be accepted, to which their length is tuned

type Reals = NDArray[np.float64]


@jit
def _weigh(log_noise: Reals, lower: NDArray[np.int64], log_h: Reals, slope: Reals, found: Reals) -> None:
    """Log weights of the counts of all cells, by noise and prior."""
    for i in range(log_noise.shape[0]):
        for k in range(log_noise.shape[1]):
            count = max(lower[i] + k, 0)  # fewer than 0 weigh nothing
            found[i, k] = log_noise[i, k] + log_h[count] + slope[i] * count


class TableWalk:
    """Windows, moves and a table to start from, for counts of 0 or more.

    Attributes
    ----------
    plan : str
        How tables are drawn, and why.

    Parameters
    ----------
    observed : ObservedMeasurements
    windows : CountWindows

    Raises
    ------
    InvariantError
        No table agrees with everything public.
    """

    def __init__(self, observed: ObservedMeasurements, windows: CountWindows) -> None:
        system, (d, width) = observed.system, windows.counts.shape
        coupling, possible = observed.coupling(windows.lower, width), np.isfinite(windows.log_noise)
        support = TableSupport(possible, possible)
        self.fiber = fiber_of(observed, windows.lower, windows.log_noise, support, coupling, np.ones(d, dtype=bool))
        moves, diagram = self.fiber.moves, self.fiber.diagram
        self.start = feasible_start(self.fiber, possible, observed).ravel()
        self.counts = windows.counts
        noise = np.maximum(cuts(windows.lower, windows.log_noise).variances, 1e-3)
        self.variances = 1 / (1 / noise + 1 / (self.start + 1.0))
        self.limits = np.maximum(system.cell_limits[0], 0), system.cell_limits[1]
        self.precision = observed.gaussian_cells()
        log_noise = windows.log_noise - windows.log_noise.max(axis=1, keepdims=True)
        linear = np.exp(log_noise)
        rises = np.diff(linear, axis=1, prepend=np.inf) > 0
        falls = windows.lower + np.where(rises.any(axis=1), width - 1 - rises[:, ::-1].argmax(axis=1), 0)
        self.noise = log_noise, linear, windows.lower, falls
        B = sp.csc_array(system.B)
        self.bounds = B.indptr.astype(np.int64), B.indices.astype(np.int64), B.data.astype(np.int64)
        self.plan = (
            f"sampled along lines, because {observed.why_not_marginalizable}; moves: {moves.reason}; cells move "
            "together with the level, the effects and the shape of their prior"
        )
        if diagram is not None:
            self.plan += (
                f"; tables are drawn exactly given the prior from a decision diagram of {diagram.diagram.edges:,} "
                "edges, since no theorem says that moves connect their support"
            )
        if isinstance(coupling, MeasuredSums) and not coupling.mixtures and (coupling.precision > 0).all():
            self.plan += (
                "; large cells go together by Klein's algorithm, on the lattice that exact sums leave, since noise "
                "is Gaussian and sums are known better than cells"
            )

    def block(self, usual: Reals) -> tuple[GaussianBlock, NDArray[np.int64]]:
        """Cells that move together, by where cells usually are, and for every other one a partner with its exact sums.

        A partner is the cell furthest from where it has to stop, of the block if there is one. Those outside of it are
        added, for what they weigh: the block's own moves leave them where they are.
        """
        away = np.minimum(usual - self.limits[0], self.limits[1] - usual)
        away[self.fiber.fixed] = -np.inf
        block, A = gaussian_block(self.fiber, self.precision, away), self.fiber.system.A
        partner = np.full(usual.size, FREE)
        if A.shape[0]:
            held = np.flatnonzero((np.diff(sp.csc_array(A).indptr) > 0) & ~self.fiber.fixed)
            classes = self.fiber.system.structure.classes
            order = held[np.argsort(away[held], kind="stable")]
            order = np.concatenate([order, block.cells[np.argsort(away[block.cells], kind="stable")]])
            furthest = np.full(usual.size, HELD)
            furthest[classes[order]] = order
            partner[held] = furthest[classes[held]]
            more = np.setdiff1d(np.unique(partner[held]), block.cells)
            B = block.basis
            rows = (B.data, B.indices, B.indptr), (block.cells.size + more.size, B.shape[1])
            block = GaussianBlock(np.concatenate([block.cells, more]), sp.csc_array(*rows), block.root)
        partner[block.cells] = HELD
        partner[self.fiber.fixed] = HELD
        return block, partner

    def chain(self, rng: np.random.Generator) -> Chain:
        """Start a chain of tables."""
        return Chain(self, rng)


class Chain:
    """A table that moves."""

    def __init__(self, walk: TableWalk, rng: np.random.Generator) -> None:
        vertex = walk.fiber.vertex(rng) if walk.fiber.may_be_cut else None  # so that R-hat sees tables that moves cut
        self._walk, self._rng, self.table = walk, rng, walk.start if vertex is None else vertex
        self._along, self._at = directions(walk.fiber, 1, rng), BATCH * TIMES
        self._total, self._moves, self._since = np.zeros(self.table.size), 0, 0
        self._step, self._usual = 1.0, np.zeros(self.table.size)
        self._use, self._weights = walk.block(self._usual), np.empty_like(walk.fiber.log_noise)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what follows from the rest."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_use", "_weights")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._use, self._weights = self._walk.block(self._usual), np.empty_like(self._walk.fiber.log_noise)

    def sweep(self, log_h: Reals, slope: Reals) -> None:
        """Move along as many lines as there are cells, given log weights ``log_h[x] + slope[i] x`` of the prior."""
        walk = self._walk
        _weigh(walk.fiber.log_noise, walk.fiber.lower, log_h, slope, self._weights)
        d = self.table.size
        if self._at == BATCH * TIMES:
            self._along, self._at = directions(walk.fiber, d * BATCH, self._rng, walk.variances), 0
        starts, cells, steps = self._along
        at = d * (self._at % BATCH)
        self._at += 1
        diagram = walk.fiber.diagram
        by_lines = diagram is not None and diagram.diagram.edges > OFTEN and self._at % 4 > 0
        self.table = advance(
            walk.fiber, self.table, [self._weights], (starts[at : at + d + 1], cells, steps), self._rng,
            by_lines=by_lines,
        )  # fmt: skip

    def move_with(self, prior: LearnedPrior | None, log_h: Reals, slope: Reals, *, tune: bool) -> None:
        """Move a block of cells, then the table and parameters of the prior together."""
        walk, rng = self._walk, self._rng
        coupling, x = walk.fiber.coupling, self.table.copy()
        if not isinstance(coupling, MeasuredSums):
            return
        sums, slack = coupling.matrix @ x, walk.fiber.slack(x)
        measured = coupling.given(sums, rng)
        self._learn(tune=tune)
        (block, partner), step = self._use, self._step
        log_totals = np.full(x.size, np.nan)  # of weights of single cells: the same until parameters change

        def move(
            groups: Groups, which: NDArray[np.int64], before: Weights, after: Weights, log_ratios: Reals,
            anew: NDArray[np.bool_],
        ) -> NDArray[np.bool_]:  # fmt: skip
            return joint_moves(
                x, sums, slack, groups, which, partner, before, after, log_totals, walk.noise, measured, walk.bounds,
                block.arrays, step, log_ratios, anew, rng,
            )  # fmt: skip

        if block.root.size:
            here = log_h, np.exp(log_h), slope
            moved = move(NO_CELLS, FIRST, here, here, np.zeros(1), NOT_ANEW)[0]
            if tune:
                self._step = min(1.0, self._step * np.exp(0.1 * (moved - WANTED)))
        if prior is not None:
            prior.update_with(move, log_h.size - 1, rng, tune=tune)
        self.table = x

    def _learn(self, *, tune: bool) -> None:
        """Find the cells that move together anew, now and then while tuning, by where they have been since."""
        if not tune:
            return
        self._total += self.table
        self._moves, self._since = self._moves + 1, self._since + 1
        if self._moves in LEARNT:
            self._usual, self._step = self._total / self._since, 1.0
            self._use = self._walk.block(self._usual)
            self._total[:], self._since = 0.0, 0
