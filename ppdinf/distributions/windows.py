"""Windows of counts: which counts of each cell a table can have when it is marginalized or sampled.

`choose` starts from the counts that the noise leaves, and adds those that draws of the prior or the data of dependents
favour. Windows differ in length; `build_fiber` pads them. `outside` and `beyond_ends` estimate what they exclude.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ppdinf.distributions.observed import Observed, cell_windows
from ppdinf.distributions.prior_draws import BEYOND, DataModel, PriorDraws
from ppdinf.distributions.published_ranges import Flags, PublishedCells, Reals, possible_counts
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.invariants import System
from ppdinf.tables.frame import Frame

ENTRIES = 2**25  # maximum number of log weights, cells by counts: 256 MB


class Windows(NamedTuple):
    """The smallest and largest count of each window, cells that need no window, and signs of the data model, (d,)."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    uninformed: Flags
    nonnegative: Flags
    is_typical: bool = False  # whether a draw of the prior is far from the ends of all windows

    @classmethod
    def of(cls, fiber: Fiber) -> Self:
        """Return the padded windows of a fiber."""
        nonnegative = np.zeros(fiber.lower.size, dtype=bool) if fiber.nonnegative is None else fiber.nonnegative
        return cls(fiber.lower, fiber.lower + fiber.width - 1, fiber.uninformed, nonnegative, fiber.is_typical)

    def common_width(self, frame: Frame) -> int:
        """Return the number of counts of the widest window."""
        cell, largest = int(np.argmax(self.upper - self.lower)), ENTRIES // self.lower.size
        width = int(self.upper[cell] - self.lower[cell]) + 1
        if width > largest:
            raise ModelError(
                f"noise and data model leave {width:,} counts to {frame.cell(cell)}, above the limit of {largest:,} "
                f"for {self.lower.size:,} cells: use a prior that restricts the size of the counts, or make "
                "nonnegative() or upper bounds public if they hold"
            )
        return width


def choose(
    observed: Observed, data_model: DataModel, *, read: Flags | None = None, present: Windows | None = None
) -> Windows:
    """Choose windows by everything observed; cells in `read` need one. Present windows are extended by data only."""
    if observed.likelihood.query is not None:
        return present or _of_queries(observed, data_model.nonnegative)
    nonnegative = data_model.nonnegative if present is None else present.nonnegative
    cells = PublishedCells(observed, nonnegative)
    prior, frame = PriorDraws(data_model, cells), observed.frame
    if present is not None:
        uninformed = present.uninformed
        lower, upper = present.lower.astype(np.float64), present.upper.astype(np.float64)
    else:
        uninformed = observed.without_information(nonnegative)
        if read is not None:
            uninformed &= ~read
        # 1. what the noise and the public statements leave; a typical count of cells without information
        lower, upper = observed.truncation(cells.low, cells.high)
        if uninformed.any():
            typical = prior.median() if len(prior.tables) else np.maximum(cells.low, 0)
            lower = np.where(uninformed, typical, lower)
            upper = np.where(uninformed, typical, upper)
        # 2. draws of the prior
        lower, upper = _ended(prior, lower, upper, frame)
        lower, upper = _extended_by_prior(prior, lower, upper, ~uninformed)
    # 3. data of dependents
    moved = np.flatnonzero(prior.moved_by_data(lower, upper) & ~uninformed)
    if moved.size:
        first, last, failed = prior.significant(moved, lower, upper, with_data=True)
        if failed.any():
            raise ModelError(
                "the data of variables that depend on the table contradict the prior and everything published at "
                f"{frame.cell(int(moved[failed][0]))}: correct the data, or allow more variation of the counts"
            )
        lower[moved] = np.minimum(lower[moved], first)
        upper[moved] = np.maximum(upper[moved], last)
    if present is not None and (lower == present.lower).all() and (upper == present.upper).all():
        return present
    is_typical = present is None and _is_typical(prior, lower, upper, ~uninformed)
    return Windows(lower.astype(np.int64), upper.astype(np.int64), uninformed, nonnegative, is_typical)


def _of_queries(observed: Observed, nonnegative: Flags) -> Windows:
    return Windows(*cell_windows(observed, nonnegative), np.zeros(nonnegative.size, dtype=bool), nonnegative)


def _ended(prior: PriorDraws, lower: Reals, upper: Reals, frame: Frame) -> tuple[Reals, Reals]:
    """Replace infinite ends of windows by the range of prior draws."""
    tables, cells = prior.tables, prior.cells
    open_ended = ~np.isfinite(lower) | ~np.isfinite(upper)
    if not open_ended.any():
        return lower, upper
    if not len(tables):
        raise ModelError(
            f"the count at {frame.cell(int(np.argmax(open_ended)))} is unbounded by everything published, and the "
            "prior has no draws: give the parameters a proper prior, or make bounds public"
        )
    margin = np.ptp(tables, axis=0) + 1  # extension for the tails of the prior, which draws do not determine
    smallest = np.maximum(tables.min(axis=0) - margin, cells.low - 1)
    largest = np.minimum(tables.max(axis=0) + margin, cells.high + 1)
    lower = np.where(np.isfinite(lower), lower, np.minimum(smallest, np.where(np.isfinite(upper), upper - 1, smallest)))
    return lower, np.where(np.isfinite(upper), upper, np.maximum(largest, lower + 1))


def _extended_by_prior(prior: PriorDraws, lower: Reals, upper: Reals, counted: Flags) -> tuple[Reals, Reals]:
    """Extend windows to the significant counts under draws of the prior, and shorten those that are too long."""
    if not len(prior.tables):
        return lower, upper
    cells = prior.cells
    within = np.logaddexp.reduce(prior.log_noise_within(lower, upper), axis=0)
    beyond = cells.at_ends(lower, upper).max(axis=0)  # if noise decreases outside
    sufficient = np.isneginf(beyond) | (within - math.log(len(prior.tables)) + math.log(BEYOND) > beyond)
    large = upper - lower >= ENTRIES // lower.size
    doubtful = np.flatnonzero((large | ~sufficient) & counted)
    if not doubtful.size:
        return lower, upper
    first, last, _ = prior.significant(doubtful, lower, upper)
    lower, upper = lower.copy(), upper.copy()
    margin = last - first  # extension for the tails of the prior, which draws do not determine
    shortest = np.maximum(first - margin, cells.low[doubtful] - 1), np.minimum(last + margin, cells.high[doubtful] + 1)
    lower[doubtful] = np.where(large[doubtful], shortest[0], np.minimum(lower[doubtful], first))
    upper[doubtful] = np.where(large[doubtful], shortest[1], np.maximum(upper[doubtful], last))
    return lower, upper


def _is_typical(prior: PriorDraws, lower: Reals, upper: Reals, counted: Flags) -> bool:
    """Return whether the counts of one prior draw are far from the ends of all windows, on the scale of the noise."""
    if not len(prior.tables):
        return False
    cells, weights = prior.cells, prior.log_noise_within(lower, upper)
    best = weights[int(np.argmax(np.where(counted, weights, 0.0).sum(axis=1)))]
    largest = np.maximum(weights.max(axis=0), cells.log_noise(np.rint((lower + upper) / 2)))
    return bool((best >= (largest + cells.at_ends(lower, upper).max(axis=0)) / 2)[counted].all())


TAIL = 20  # largest draws from which the scale of a tail is estimated
CELLS = 2**12  # cells whose draws are sorted together


def outside(windows: Windows, system: System, draws: NDArray[np.int64]) -> Reals:
    """Estimate the posterior probability of each cell outside its window from draws of the table, shape (n, d)."""
    low, high = possible_counts(system, windows.nonnegative)
    n, d = draws.shape
    k = max(min(TAIL, n // 10), 1)
    shares = np.zeros(d)
    for begin in range(0, d, CELLS):
        some = slice(begin, begin + CELLS)
        part = np.partition(draws[:, some], sorted({0, k, n - 1 - k, n - 1} & set(range(n))), axis=0)
        # an exponential tail on the scale of the k most extreme draws, unless no count beyond the end is possible
        for extreme, inner, end, is_hard in (
            (part[0], part[min(k, n - 1)], windows.lower[some], (windows.lower < low)[some]),
            (-part[-1], -part[max(n - 1 - k, 0)], -windows.upper[some], (windows.upper > high)[some]),
        ):
            scale, gap = (inner - extreme) / np.log(k + 1), np.maximum(extreme - end, 0)
            falls = np.exp(-np.divide(gap, scale, out=np.where(gap > 0, np.inf, 0.0), where=scale > 0))
            shares[some] += np.where(is_hard, 0.0, falls / n)
    return np.where(windows.uninformed, 0.0, shares)


def beyond_ends(marginals: Reals) -> Reals:
    """Bound the probability of every cell outside its window, from its probabilities inside, shape (d, width)."""
    if marginals.shape[1] < 2:
        return np.zeros(len(marginals))
    result = np.zeros(len(marginals))
    for last, before in ((marginals[:, 0], marginals[:, 1]), (marginals[:, -1], marginals[:, -2])):
        ratio = np.divide(last, before, out=np.ones_like(last), where=before > 0)
        falls = np.where(ratio < 1, ratio / np.maximum(1 - ratio, 1e-3), 1e3)
        result += np.minimum(last * falls, 1.0)
    return result
