"""One part of a table as a tree of nested sums: the weights of its total, and its cells given the total."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp

from ppdinf.denoising.count_priors import BinomialPrior
from ppdinf.denoising.count_windows import LARGEST, Ends, ends_by_noise, published_ranges, reached
from ppdinf.denoising.impossible_numbers import require_possible_numbers
from ppdinf.distributions.observation.nested_plan import (
    contradiction_error,
    forest_of_sums,
    nested_sums,
    why_no_forest,
)
from ppdinf.distributions.observation.observed_measurements import ObservedMeasurements
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.nested_sums.nested_sums import Evaluated, NestedSums, OutOfReachError
from ppdinf.measurements import Measurements

AT_ONCE = 2**20  # log weights that are computed at once
BATCH = 16  # draws in one call of the kernel
SIMILAR = 1.25  # ratio of the widths of cells that are computed together


@dataclass(frozen=True, eq=False)
class TotalMessage:
    """Weights of the values of a part's total: the message from the part to the root."""

    first: int
    log_weight: NDArray[np.float64]
    log_missing: float
    tilt: float
    tolerance: float
    center: int
    least: int
    most: int
    digest: str

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of the tilted total."""
        p = np.exp(self.log_weight - self.log_weight.max())
        p /= p.sum()
        values = self.first + np.arange(p.size)
        mean = float(p @ values)
        return mean, float(p @ (values - mean) ** 2)


class PartSums:
    """The nested sums of one part, with the sum of all its cells as the root."""

    def __init__(self, data: Measurements, prior: BinomialPrior | None) -> None:
        require_possible_numbers(data)
        self.data, self._observed, self._prior = data, ObservedMeasurements(data), prior
        system, of_sums, d = self._observed.system, self._observed.of_sums, data.frame.size
        every = sp.csr_array(np.ones((1, d), dtype=np.int64))
        forest = forest_of_sums(system, of_sums, every)
        if forest is None:
            raise InvariantError(
                f"{why_no_forest(system, of_sums)}: state nested sums, or use ppd.denoise for a table that fits in "
                "memory"
            )
        self._forest = forest
        self.low, self.width, self._ends = self._windows()
        self._start = np.cumsum(self.width) - self.width

    def _windows(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Ends]:
        smallest, largest = self._observed.system.cell_limits
        if self._prior is None:
            below, upper = published_ranges(self._observed)
        else:
            below, upper = np.zeros(smallest.size), self._prior.largest(self.data.frame).astype(np.float64)
        low, high = np.maximum(np.maximum(below, smallest), 0), np.minimum(upper, largest)
        if (low > high).any():
            cell = self.data.frame.cell(int(np.argmax(low > high)))
            raise InvariantError(f"the count at {cell} has no possible value: check its bounds")
        width = (high - low).astype(np.int64) + 1
        if width.sum() > LARGEST:
            raise ModelError(f"cells have {width.sum():,} possible counts together, above the limit of {LARGEST:,}")
        low = low.astype(np.int64)
        if self._prior is None:
            return low, width, ends_by_noise(low, low + width - 1, (smallest, largest))
        return low, width, (np.full_like(low, -1), np.full_like(low, -1))  # the noise truncates no window

    def truncated(self, draws: NDArray[np.integer]) -> int:
        """Return the number of cells whose draws, shape (draws, d), reach the end of the range of the noise."""
        return int(reached(draws, self._ends).sum())

    @cached_property
    def log_weight(self) -> NDArray[np.float64]:
        """Log weights of the counts of all cells, by the prior and the measurements of single cells."""
        log_weight, entries = np.empty(int(self.width.sum())), self._observed.of_cells
        by_cell = sp.csc_array(entries.matrix)
        for cells in self._similar():
            places = np.arange(self.width[cells].max())
            counts, inside = self.low[cells, None] + places, places < self.width[cells, None]
            weights = np.zeros(counts.shape)
            measured = by_cell[:, cells]
            of_cell = np.diff(measured.indptr)
            if measured.nnz:
                noise = entries.only(measured.indices).log_weights(np.repeat(counts, of_cell, axis=0))
                weights[of_cell > 0] = np.add.reduceat(noise, measured.indptr[:-1][of_cell > 0])
            if self._prior is not None:
                trials = np.broadcast_to(self._prior.largest(self.data.frame)[cells, None], counts.shape)
                weights[inside] += self._prior.log_weights(trials[inside], counts[inside])
            log_weight[(self._start[cells, None] + places)[inside]] = weights[inside]
        return log_weight

    def message(self, tilt: float, tolerance: float) -> TotalMessage:
        """Compute the weights of the values of the total, tilted by ``exp(tilt total)``."""
        sums = self._sums(tolerance)
        total = self._evaluated(sums, tilt).total
        least, most = sums.range_of_root
        center = total.first + int(total.log_weight.argmax())
        # the weights contain exp(tilt total), which can be large: only differences from the centre matter
        log_weight = total.log_weight - tilt * center
        with np.errstate(divide="ignore"):
            log_missing = float(logsumexp(log_weight) + np.log(total.missing))
        return TotalMessage(total.first, log_weight, log_missing, tilt, tolerance, center, least, most, self.digest)

    def _similar(self) -> Iterator[NDArray[np.int64]]:
        """Yield cells with windows of similar width."""
        order = np.argsort(self.width, kind="stable")
        width, at = self.width[order], 0
        while at < order.size:
            widest = int(SIMILAR * width[at]) + 1
            stop = min(int(np.searchsorted(width, widest, "right")), at + max(AT_ONCE // widest, 1))
            yield order[at:stop]
            at = stop

    @cached_property
    def digest(self) -> str:
        """Identify the labels, windows, sums and log weights of the part."""
        frame, system, entries = self.data.frame, self._observed.system, self._observed.of_sums
        found = hashlib.sha256(frame.digest.encode())
        matrices = [
            part for rows in (system.A, system.B, entries.matrix) for part in (rows.indptr, rows.indices, rows.data)
        ]
        for array in (self.low, self.width, self.log_weight, system.values, system.limits, entries.y, *matrices):
            found.update(np.ascontiguousarray(array).data)
        for form, rows in entries.forms:
            for column in form.columns(entries.of(form, rows)):
                for array in (rows[column.entries], column.begins, column.log_weights, [*column.left, *column.right]):
                    found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()

    def draw(
        self, message: TotalMessage, totals: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.signedinteger]:
        """Draw all cells given the total of each draw, shape (draws, d), in the smallest signed integer type."""
        evaluated = self._evaluated(self._sums(message.tolerance), message.tilt)
        largest = int((self.low + self.width - 1).max())
        draws = np.empty((totals.size, self.low.size), np.min_scalar_type(-largest - 1))
        for at in range(0, totals.size, BATCH):
            given = totals[at : at + BATCH]
            draws[at : at + BATCH] = evaluated.draw(given.size, rng, given)
        return draws

    def _sums(self, tolerance: float) -> NestedSums:
        system, of_sums = self._observed.system, self._observed.of_sums
        return nested_sums(self._forest, system, of_sums, self.low, self.width, tolerance)

    def _evaluated(self, sums: NestedSums, tilt: float) -> Evaluated:
        """Compute the weights of all sums; raise an error that names contradictory sums."""
        try:
            evaluated = sums.evaluate(self.log_weight, np.full(self.low.size, tilt))
            evaluated.require_table()
        except OutOfReachError as error:
            system, of_sums = self._observed.system, self._observed.of_sums
            raise contradiction_error(error, self._forest, system, of_sums) from error
        return evaluated
