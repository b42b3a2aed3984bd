"""The parts of a table: weights of the total of each part, totals of all parts, and cells given the totals."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from ppdinf._internal.values import Integers, Reals
from ppdinf.denoising.contradictory_numbers import require_possible_numbers
from ppdinf.denoising.count_windows import LARGEST, Ends, ends_by_noise, published_ranges, reached
from ppdinf.distributions.observed_measurements import (
    ObservedMeasurements,
    contradiction_error,
    forest_of_sums,
    nested_sums,
    why_no_forest,
)
from ppdinf.errors import InvariantError, LabelError, ModelError
from ppdinf.fiber.nested_sums.nested_sums import Evaluated, NestedSums, OutOfReachError, Tilts
from ppdinf.measurements import Measurements
from ppdinf.tables.frame import Frame


@dataclass(frozen=True)
class BinomialPrior:
    """Independent binomial counts: cell i has the prior ``Binomial(n[i], p)``.

    Parameters
    ----------
    trials : str
        Coordinate of the table with the known n of every cell, such as the housing units of a block.
    p : float
        Probability, 0 < p < 1. It is given, not learned: see Notes of `ppdinf.denoise_parts`.

    Raises
    ------
    ModelError
        p is not between 0 and 1.

    See Also
    --------
    ppdinf.denoise_parts, ppdinf.census.read_occupied

    Examples
    --------
    >>> import ppdinf as ppd
    >>> ppd.denoising.BinomialPrior("units", 0.9)
    BinomialPrior(trials='units', p=0.9)
    """

    trials: str
    p: float

    def __post_init__(self) -> None:
        if not 0 < self.p < 1:
            raise ModelError(f"p must be between 0 and 1, found {self.p}")

    def largest(self, frame: Frame) -> Integers:
        """Return the largest count of every cell, its number of trials.

        Raises
        ------
        ModelError
            The coordinate contains a value that is not a count; the message names the cell.
        """
        trials = frame.broadcast(self.trials)
        good = trials >= 0 if trials.dtype.kind in "iu" else np.zeros(frame.size, dtype=bool)
        if not good.all():
            raise ModelError(
                f"the coordinate {self.trials!r} must contain integers >= 0, the trials of every cell; "
                f"{frame.cell(int(np.argmin(good)))} does not have one"
            )
        return trials.astype(np.int64)

    def log_weights(self, trials: Integers, counts: Integers) -> Reals:
        """Return the log probability of counts from 0 to the number of their trials, elementwise."""
        log_factorial = gammaln(np.arange(1.0, trials.max(initial=0) + 2))
        failures = trials - counts
        weights = log_factorial[trials] - log_factorial[counts] - log_factorial[failures]
        return weights + counts * np.log(self.p) + failures * np.log1p(-self.p)


AT_ONCE = 2**20  # log weights that are computed at once
BATCH = 16  # draws in one call of the kernel
SIMILAR = 1.25  # ratio of the widths of cells that are computed together


@dataclass(frozen=True, eq=False)
class TotalMessage:
    """Weights of the values of a part's total: the message from the part to the root."""

    first: int
    log_weight: Reals
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

    def _windows(self) -> tuple[Integers, Integers, Ends]:
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
    def log_weight(self) -> Reals:
        """Log weights of the counts of all cells, by the prior and the measurements of single cells."""
        log_weight = np.empty(int(self.width.sum()))
        entries = self._observed.of_cells
        by_cell = sp.csc_array(entries.matrix)
        for cells in self._similar():
            places = np.arange(self.width[cells].max())
            counts = self.low[cells, None] + places
            inside = places < self.width[cells, None]
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

    def _similar(self) -> Iterator[Integers]:
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
        digest = hashlib.sha256(frame.digest.encode())
        matrices = [
            part for rows in (system.A, system.B, entries.matrix) for part in (rows.indptr, rows.indices, rows.data)
        ]
        for array in (self.low, self.width, self.log_weight, system.values, system.limits, entries.y, *matrices):
            digest.update(np.ascontiguousarray(array).data)
        for form, rows in entries.forms:
            for column in form.columns(entries.of(form, rows)):
                for array in (rows[column.entries], column.begins, column.log_weights, [*column.left, *column.right]):
                    digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def draw(self, message: TotalMessage, totals: Integers, rng: np.random.Generator) -> NDArray[np.signedinteger]:
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


BOUND = 1e-9  # largest total variation distance between the law of the draws and the posterior
TOLERANCE = 1e-20  # error bound of the sums of totals without the omissions of the messages
REACHES = 32, 512, 1e12  # standard deviations of a total to which its message is continued
SMALLEST = 1e-3  # smallest variance of a parabola
LARGEST_CONTINUATION = 2**25  # entries of all continued messages
IMPOSSIBLE = (
    "the sums of parts are impossible or too improbable given the parts: check the values of top, and the prior"
)


class PartTotals:
    """Everything known about the sums of whole parts."""

    def __init__(self, parts: Sequence[str], top: Measurements | None) -> None:
        top = Measurements({"part": sorted(parts)}) if top is None else top
        self.parts = [str(label) for label in top.coords[top.dims[0]]]
        if len(top.dims) != 1 or sorted(self.parts) != sorted(parts):
            other = sorted({*self.parts} ^ {*parts})
            raise LabelError(
                f"top must have one dimension with the names of the parts, {', '.join(parts[:3])} ..., found "
                f"{dict(zip(top.dims, top.shape, strict=True))}; only on one side: {', '.join(other[:3]) or 'none'}"
            )
        self.dim, self._system, self._entries = top.dims[0], top.public, top.entries
        require_possible_numbers(top)
        forest = forest_of_sums(self._system, self._entries, sp.eye_array(len(parts), dtype=np.int64, format="csr"))
        if forest is None:
            raise InvariantError(f"top: {why_no_forest(self._system, self._entries)}: state nested sums of parts")
        self._forest = forest
        self._low, self._high = self._system.cell_limits
        self._tilts: Tilts | None = None

    def posterior(self, messages: Sequence[TotalMessage]) -> tuple[Evaluated, float] | None:
        """Compute the posterior of all totals and its error bound; None if the bound exceeds `BOUND`."""
        least, most = self._ranges(messages)
        sizes = np.array([message.log_weight.size for message in messages])
        sums = self._nested(np.array([message.first for message in messages]), sizes, (least, most))
        center = np.zeros(sizes.size) if self._tilts is None else self._tilts.cell_center
        log_weight = [_untilted(message, message.first, message.log_weight) for message in messages]
        log_missing = [
            message.log_missing + message.tilt * (message.center - at)
            for message, at in zip(messages, center, strict=True)
        ]
        evaluated = self._tilted(sums).evaluate(np.concatenate(log_weight), log_missing=log_missing)
        bound = float(np.expm1(np.log1p(evaluated.bound).sum()))
        return (evaluated, bound) if bound <= BOUND else None

    def tilts(self, messages: Sequence[TotalMessage]) -> Reals:
        """Compute the tilts of all parts at the saddlepoint, for the next messages."""
        mean, variance = np.array([message.moments for message in messages]).T
        variance = np.maximum(variance, SMALLEST)
        least, most = self._ranges(messages)
        for reach in REACHES:
            far = np.sqrt(variance) * reach + 1
            low = np.maximum(np.floor(mean - far), least)
            high = np.minimum(np.ceil(mean + far), most)
            low, high = np.minimum(low, most).astype(np.int64), np.maximum(high, least).astype(np.int64)
            if (high - low + 1.0).sum() > LARGEST_CONTINUATION:
                raise ModelError(IMPOSSIBLE)
            try:
                sums = self._nested(low, high - low + 1)
                break
            except InvariantError:
                if (low == least).all() and (high == most).all():
                    raise
        parabolas = [
            -((np.arange(a, b + 1) - m) ** 2) / (2 * v) for a, b, m, v in zip(low, high, mean, variance, strict=True)
        ]
        untilted = [_untilted(message, a, row) for message, a, row in zip(messages, low, parabolas, strict=True)]
        self._tilts = self._tilted(sums).tilts(np.concatenate(untilted))
        return self._tilts.tilt[self._forest.node]

    def _ranges(self, messages: Sequence[TotalMessage]) -> tuple[Integers, Integers]:
        """Return the smallest and largest possible total of every part."""
        least = np.maximum([message.least for message in messages], self._low).astype(np.int64)
        most = np.minimum([message.most for message in messages], self._high).astype(np.int64)
        for part in np.flatnonzero(least > most)[:1].tolist():
            cell = self._system.frame.cell(part)
            raise InvariantError(f"top: the bounds of the total of {cell} exclude all values that the part can have")
        return least, most

    def _nested(self, low: Integers, width: Integers, possible: tuple[Integers, Integers] | None = None) -> NestedSums:
        return nested_sums(self._forest, self._system, self._entries, low, width, TOLERANCE, possible)

    def _tilted(self, sums: NestedSums) -> NestedSums:
        """Return sums at the tilts of the current messages."""
        return sums if self._tilts is None else sums.at_tilts(self._tilts)


def _untilted(message: TotalMessage, first: int, log_weight: Reals) -> Reals:
    """Return log weights without the tilt of the message, up to a constant."""
    return log_weight - message.tilt * (first - message.center + np.arange(log_weight.size))
