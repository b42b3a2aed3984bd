"""A table given its prior, by a walk along lines of its fiber: sums may overlap in any way."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.distributions.layout import feasible_start
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.errors import ModelError
from ppdinf.fiber.advance import advance, directions
from ppdinf.fiber.fiber import Fiber
from ppdinf.lattice.fiber_tables import cell_intervals
from ppdinf.lattice.moves import connected_moves

__all__ = ["TableWalk"]

LARGEST = 2**25  # log weights of counts, cells by counts: 256 MB
FURTHER = 2.0  # how far windows go below what noise reaches, in its own reach: a prior of sparse tables pulls down
BATCH = 64  # sweeps whose directions are drawn together


class TableWalk:
    """Windows, moves and a table to start from, for counts of 0 or more.

    Parameters
    ----------
    observed : ObservedMeasurements

    Raises
    ------
    ModelError
        Naming a cell that nothing published bounds, or windows that do not fit into memory.
    InvariantError
        No table agrees with everything public.
    """

    def __init__(self, observed: ObservedMeasurements) -> None:
        system, d = observed.system, observed.frame.size
        nonnegative = np.ones(d, dtype=bool)
        low, high = _intervals(observed)
        below, upper = observed.windows(low, high)
        below = np.maximum(below - FURTHER * (upper - below) / 2, low - 1)
        bounded = np.isfinite(upper)
        if not bounded.all():
            cell = system.frame.cell(int(np.argmin(bounded)))
            raise ModelError(
                f"nothing published bounds the count at {cell}: without a model of your own (ppd.PartiallyPrivate) "
                "every cell needs a measurement, or a noisy or exact sum of counts that holds it"
            )
        width = int((upper - below).max()) + 1
        if width * d > LARGEST:
            raise ModelError(f"noise leaves {width:,} counts to a cell, of which {d:,} cells can have {LARGEST // d:,}")
        lower = below.astype(np.int64)
        counts = lower[:, None] + np.arange(width)
        least, most = system.cell_limits
        allowed = (counts >= np.maximum(least, 0)[:, None]) & (counts <= most[:, None])
        log_noise = np.where(allowed, observed.log_counts(counts), -np.inf)
        linked = bool(np.any(np.diff(system.B.indptr) > 1))
        coupling = observed.coupling(lower, width)
        connected = connected_moves(system.structure, bounds="any" if linked else "lower", shape=observed.frame.shape)
        moves = observed.moves(connected, coupling)
        self.fiber = Fiber(system, lower, log_noise, moves, coupling, nonnegative)
        self.start = feasible_start(self.fiber, np.isfinite(log_noise), observed, gaps=True).ravel()
        self.counts = np.maximum(counts, 0)
        self.most = int(self.counts.max())

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


def _intervals(observed: ObservedMeasurements) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest and largest count of every cell by what is public and by noisy sums in reach."""
    system, d = observed.system, observed.frame.size
    units, zeros = sp.eye_array(d, dtype=np.int64, format="csr"), np.zeros(d, dtype=np.int64)
    B, limits = observed.implied()
    rows, least = sp.vstack([system.B, units, B], format="csr"), np.concatenate([system.limits, zeros, limits])
    low, high = cell_intervals(system.A, system.values, rows, least)
    if np.any(low > high):  # noisy sums contradict each other: what is public alone
        rows, least = sp.vstack([system.B, units], format="csr"), np.concatenate([system.limits, zeros])
        low, high = cell_intervals(system.A, system.values, rows, least)
    return low, high
