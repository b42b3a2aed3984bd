"""A table given its prior, by a walk along lines of its fiber: sums may overlap in any way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppdinf.denoising.count_windows import CountWindows
from ppdinf.distributions.layout import feasible_start
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.fiber.advance import advance, directions
from ppdinf.fiber.fiber import Fiber
from ppdinf.lattice.moves import connected_moves

__all__ = ["TableWalk"]

BATCH = 64  # sweeps whose directions are drawn together


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
        linked = bool(np.any(np.diff(system.B.indptr) > 1))
        coupling = observed.coupling(windows.lower, width)
        connected = connected_moves(system.structure, bounds="any" if linked else "lower", shape=observed.frame.shape)
        moves = observed.moves(connected, coupling)
        self.fiber = Fiber(system, windows.lower, windows.log_noise, moves, coupling, np.ones(d, dtype=bool))
        self.start = feasible_start(self.fiber, np.isfinite(windows.log_noise), observed, gaps=True).ravel()
        self.counts = windows.counts
        self.plan = f"walked along lines, since {observed.obstacle}; moves: {moves.reason}"

    def chain(self, rng: np.random.Generator) -> Chain:
        """Start a chain of tables."""
        return Chain(self, rng)


class Chain:
    """A table that moves."""

    def __init__(self, walk: TableWalk, rng: np.random.Generator) -> None:
        self._walk, self._rng, self.table = walk, rng, walk.start
        self._along, self._at = directions(walk.fiber, 1, rng), BATCH

    def sweep(self, log_h: NDArray[np.float64], slope: NDArray[np.float64]) -> None:
        """Move along as many lines as there are cells, given log weights ``log_h[x] + slope[i] x`` of the prior."""
        walk = self._walk
        log_weights = walk.fiber.log_noise + log_h[walk.counts] + slope[:, None] * walk.counts
        d = self.table.size
        if self._at == BATCH:
            self._along, self._at = directions(walk.fiber, d * BATCH, self._rng), 0
        starts, cells, steps = self._along
        own = starts[d * self._at : d * (self._at + 1) + 1]
        self._at += 1
        self.table = advance(walk.fiber, self.table, [log_weights], (own, cells, steps), self._rng)
