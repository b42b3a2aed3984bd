"""Windows of non-negative counts, from the published measurements alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.values import Array, Flags, Integers, Reals
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.distributions.windows import PublishedCells
from ppdinf.errors import ModelError
from ppdinf.invariants.statement import CellNames, Joined
from ppdinf.lattice.feasible import nearest_feasible

LARGEST = 2**26  # elements of the array of log weights, cells times counts: 512 MB
HIGHEST = 2**27  # largest count, whose prior weights take 1 GB per chain
EXTENSION = 2.0  # lower extension of windows below the noise, in radii of the noise: priors of sparse tables favour 0

type Ends = tuple[Integers, Integers]
"""The smallest and the largest count of the window of each cell, or -1, shape (d,)."""


@dataclass(frozen=True, eq=False)
class CountWindows:
    """Possible counts of the cells."""

    lower: Integers
    counts: Integers
    log_noise: Reals
    ends: Ends

    @property
    def largest(self) -> int:
        """Largest count of any cell."""
        return int(self.counts.max())


def published_windows(observed: ObservedMeasurements) -> CountWindows:
    """Return the window of counts of every cell."""
    system, d = observed.system, observed.frame.size
    below, upper = published_ranges(observed)
    width = int((upper - below).max()) + 1
    if width * d > LARGEST:
        raise ModelError(
            f"noise leaves {width:,} possible counts per cell, above the limit of {LARGEST // d:,} for {d:,} cells"
        )
    if upper[cell := int(np.argmax(upper))] > HIGHEST:
        raise ModelError(
            f"the count at {system.frame.cell(cell)} can exceed {HIGHEST:,}, and denoise lists the prior weights of "
            "all counts up to the largest: state a model (ppd.PartiallyPrivate), or larger units"
        )
    lower = below.astype(np.int64)
    counts = lower[:, None] + np.arange(width)
    cell_lower, largest = system.cell_limits
    log_noise = observed.log_counts(counts)
    for row, counts_of_cell, first, last in zip(log_noise, counts, np.maximum(cell_lower, 0), largest, strict=True):
        row[(counts_of_cell < first) | (counts_of_cell > last)] = -np.inf
    ends = ends_by_noise(lower, counts[:, -1], (cell_lower, largest))
    return CountWindows(lower, np.maximum(counts, 0, out=counts), log_noise, ends)


def ends_by_noise(first: Integers, last: Integers, limits: tuple[Reals, Reals]) -> Ends:
    """Return the ends of windows that truncate the noise; -1 where public bounds exclude all counts beyond the end."""
    smallest, largest = limits
    return np.where(first > np.maximum(smallest, 0), first, -1), np.where(last < largest, last, -1)


def reached(draws: Array, ends: Ends) -> Flags:
    """Return for each cell whether one of its draws, shape (draws, d), is an end of its window."""
    return ((draws == ends[0]) | (draws == ends[1])).any(axis=0)


def published_ranges(observed: ObservedMeasurements) -> tuple[Reals, Reals]:
    """Return the smallest and largest count of the window of every cell, before bounds of single cells."""
    system = observed.system
    cells = PublishedCells(observed, np.ones(observed.frame.size, dtype=bool))
    below, upper = observed.truncation(cells.low, cells.high)
    below = np.maximum(below - EXTENSION * (upper - below) / 2, cells.low - 1)
    bounded = np.isfinite(upper)
    if not bounded.all():
        _require_table(observed)
        first = int(np.argmin(bounded))
        cell, of_sums = system.frame.cell(first), observed.of_sums
        containing = np.flatnonzero(np.diff(of_sums.matrix[:, [first]].indptr))
        if containing.size and cells.is_contradictory:
            raise ModelError(
                f"the count at {cell} is unbounded: noisy sums, such as {of_sums.names[int(containing[0])]!r}, are not "
                "used as limits, since noisy sums contradict each other or exact statements by more than their noise "
                "permits; correct a value or the scale of a law"
            )
        raise ModelError(
            f"the count at {cell} is unbounded by everything published: every cell needs a measurement, or a noisy or "
            "exact sum of counts that contains it, or else a model (ppd.PartiallyPrivate)"
        )
    return below, upper


def _require_table(observed: ObservedMeasurements) -> None:
    """Raise an error that names contradictory statements if no table of non-negative counts satisfies all of them."""
    system, d = observed.system, observed.frame.size
    further, limits = observed.hard_inequalities
    B = sp.csr_array(sp.vstack([system.B, sp.eye_array(d, dtype=np.int64), further], format="csr"))
    of_cells = CellNames(system.frame, np.arange(d), system.frame.dims, after=" is not negative")
    nearest_feasible(
        system.A, system.values, B, np.concatenate([system.limits, np.zeros(d, dtype=np.int64), limits]),
        row_names=system.names, bound_names=Joined([system.bound_names, of_cells, observed.hard_names]),
    )  # fmt: skip
