"""Windows of counts: which counts of each cell a table can have when it is marginalized or sampled.

`choose` starts from the counts that the noise leaves, and adds those that draws of the prior or the data of dependents
favour. Windows differ in length; `build_fiber` pads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable, ancestors, compile_interpreted
from ppdinf._internal.values import Array
from ppdinf.distributions.data_models import (
    drawn_from_prior,
    elementwise,
    initial_support,
    log_density,
    subset_distribution,
    support_columns,
    without_truncation,
)
from ppdinf.distributions.observed import Observed, cell_windows
from ppdinf.distributions.published_ranges import Flags, Reals, possible_counts, propagated
from ppdinf.distributions.tables import DataOfDependents, tables_above
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.lattice.rows import LISTED, kinds
from ppdinf.tables.frame import Frame

NOISE = 1e-12  # probability that noise exceeds its support radius
BEYOND = 1e-10  # share of a cell's weight outside its window
DOUBT = 1e-8  # share of a cell's weight outside its window above which data of dependents extend the window
INSIDE = np.linspace(0, 1, 9)[:, None]  # places within a window at which these data are compared with places outside
DRAWS, FEWEST = 128, 16  # draws of the parameters: the largest and smallest number
TABLES = 2**22  # maximum number of counts of tables that are evaluated together, except for `FEWEST` draws: 32 MB
POINTS = 256, 64  # counts at which each cell is evaluated under every draw: without, and with data of dependents
EVALUATIONS = 2**24  # maximum number of density evaluations
ROUNDS = 6  # refinements of the evaluated counts
FIRST = 64  # number of cells whose windows are refined before those of all cells
EXTENSIONS = 10  # doublings of the range of counts in search of those at which data of dependents are possible

type Cells = NDArray[np.intp]
type Density = Callable[[Reals, list[Array]], Reals]


class Windows(NamedTuple):
    """The smallest and largest count of each window, cells that need no window, and signs of the data model, (d,)."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    uninformed: Flags
    nonnegative: Flags
    is_typical: bool = False  # whether a draw of the prior is far from the ends of all windows
    likely: NDArray[np.int64] | None = None  # counts at the parameters of a fit; None: those of largest noise weight

    @classmethod
    def of(cls, fiber: Fiber) -> Self:
        """Return the padded windows of a fiber."""
        nonnegative = np.zeros(fiber.lower.size, dtype=bool) if fiber.nonnegative is None else fiber.nonnegative
        return cls(fiber.lower, fiber.lower + fiber.width - 1, fiber.uninformed, nonnegative, fiber.is_typical)


def kinds_of(observed: Observed, data_model: DataModel) -> Cells:
    """Return kinds of cells with the same noise weights and support in a window; if unknown, one kind for each cell."""
    noise, of_model = observed.noise_columns(), None
    if noise is not None:
        of_model = support_columns(data_model.base, data_model.shape, data_model.support)
    if noise is None or of_model is None:
        return np.arange(math.prod(data_model.shape))
    return kinds([*noise, *observed.system.cell_limits, data_model.nonnegative, *of_model])[1]


def joined(kind: Cells, lower: Reals, upper: Reals) -> tuple[Reals, Reals]:
    """Give all cells of a kind one window, which contains theirs."""
    first, last = np.full(kind.size, np.inf), np.full(kind.size, -np.inf)
    np.minimum.at(first, kind, lower), np.maximum.at(last, kind, upper)
    return first[kind], last[kind]


def common_width(widths: Reals | NDArray[np.int64], cells: Cells, frame: Frame, rows: int) -> int:
    """Return the number of counts of the widest window among some cells; `rows` is the number of distinct rows."""
    cell, limit = int(cells[widths[cells].argmax()]), LISTED // rows
    if (width := int(widths[cell]) + 1) > limit:
        raise ModelError(
            f"noise and data model leave {width:,} counts to {frame.cell(cell)}, above the limit of {limit:,} for "
            f"{widths.size:,} cells: use a prior that restricts the size of the counts, make nonnegative() or upper "
            "bounds public if they hold, or give cells with many counts a table of their own if no public sum links "
            "them to others"
        )
    return width


def choose(
    observed: Observed, data_model: DataModel, *, read: Flags | None = None, present: Windows | None = None
) -> Windows:
    """Choose windows by everything observed; cells in `read` need one. Present windows are extended by data only."""
    nonnegative = data_model.nonnegative if present is None else present.nonnegative
    if observed.likelihood.query is not None:
        uninformed = np.zeros(nonnegative.size, dtype=bool)
        return present or Windows(*cell_windows(observed, nonnegative), uninformed, nonnegative)
    kind = kinds_of(observed, data_model)
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
            lower, upper = (np.where(uninformed, typical, end) for end in (lower, upper))
        # 2. draws of the prior
        lower, upper = _ended(prior, lower, upper)
        lower, upper = _extended_by_prior(prior, lower, upper, ~uninformed, int(kind.max()) + 1)
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
    lower, upper = joined(kind, lower, upper)
    if present is not None and (lower == present.lower).all() and (upper == present.upper).all():
        return present
    is_typical = present is None and not observed.likelihood.has_unknown_scale
    is_typical = is_typical and _is_typical(prior, lower, upper, ~uninformed)
    return Windows(lower.astype(np.int64), upper.astype(np.int64), uninformed, nonnegative, is_typical)


def _ended(prior: PriorDraws, lower: Reals, upper: Reals) -> tuple[Reals, Reals]:
    """Replace infinite ends of windows by the range of prior draws."""
    tables, cells, frame = prior.tables, prior.cells, prior.cells.frame
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


def _extended_by_prior(prior: PriorDraws, lower: Reals, upper: Reals, counted: Flags, rows: int) -> tuple[Reals, Reals]:
    """Extend windows to the significant counts under draws of the prior, and shorten those that are too long."""
    if not len(prior.tables):
        return lower, upper
    cells = prior.cells
    large = upper - lower >= LISTED // rows
    first = np.flatnonzero(large & counted)
    if first.size > FIRST:  # refuse too many counts before all cells are evaluated
        first = first[np.argsort(np.ptp(prior.tables[:, first], axis=0), kind="stable")[-FIRST:]]
        few = _refined(prior, first, lower, upper, large)
        common_width(few[1] - few[0], first, cells.frame, rows)
    within = np.logaddexp.reduce(prior.log_noise_within(lower, upper), axis=0)
    beyond = cells.at_ends(lower, upper).max(axis=0)  # if noise decreases outside
    sufficient = np.isneginf(beyond) | (within - math.log(len(prior.tables)) + math.log(BEYOND) > beyond)
    doubtful = np.flatnonzero((large | ~sufficient) & counted)
    return _refined(prior, doubtful, lower, upper, large) if doubtful.size else (lower, upper)


def _refined(prior: PriorDraws, cells: Cells, lower: Reals, upper: Reals, large: Flags) -> tuple[Reals, Reals]:
    """Extend the windows of some cells to their significant counts; shorten large ones to them and a margin."""
    first, last, _ = prior.significant(cells, lower, upper)
    lower, upper = lower.copy(), upper.copy()
    margin = last - first  # extension for the tails of the prior, which draws do not determine
    smallest, largest = prior.cells.low[cells] - 1, prior.cells.high[cells] + 1
    shortest = np.maximum(first - margin, smallest), np.minimum(last + margin, largest)
    lower[cells] = np.where(large[cells], shortest[0], np.minimum(lower[cells], first))
    upper[cells] = np.where(large[cells], shortest[1], np.maximum(upper[cells], last))
    return lower, upper


def _is_typical(prior: PriorDraws, lower: Reals, upper: Reals, counted: Flags) -> bool:
    """Return whether the counts of one prior draw are far from the ends of all windows, on the scale of the noise."""
    if not len(prior.tables):
        return False
    cells, weights = prior.cells, prior.log_noise_within(lower, upper)
    best = weights[int(np.argmax(np.where(counted, weights, 0.0).sum(axis=1)))]
    largest = np.maximum(weights.max(axis=0), cells.log_noise(np.rint((lower + upper) / 2)))
    return bool((best >= (largest + cells.at_ends(lower, upper).max(axis=0)) / 2)[counted].all())


class PublishedCells:
    """Possible counts of each cell, and log weights of counts, by everything published and the data model's sign."""

    def __init__(self, observed: Observed, nonnegative: Flags) -> None:
        self._likelihood, self._y, self.frame = observed.likelihood, observed.y, observed.frame
        self.low, self.high = possible_counts(observed.system, nonnegative)
        rows = observed.tail_inequalities(self.low, self.high)
        low, high = propagated(observed.system, nonnegative, rows) if rows[1].size else (self.low, self.high)
        self.is_contradictory = bool(np.any(low > high))  # inequalities that no table can satisfy are ignored
        if not self.is_contradictory:
            self.low, self.high = low, high

    def log_noise(self, counts: Reals) -> Reals:
        """Return log weights of noise given counts, (..., d); those of Laplace noise if cells are not independent."""
        if self._likelihood.is_fixed_by_cell:
            weights: Reals = self._likelihood.log_counts(self._y, np.atleast_2d(counts).T)
            return weights.T.reshape(np.shape(counts))
        rate = -math.log(NOISE) / max(self._likelihood.support_radius, 1)
        return np.asarray(-rate * abs(self._y - counts), dtype=np.float64)

    def at_ends(self, lower: Reals, upper: Reals) -> Reals:
        """Return log weights of noise at both ends of windows, (2, d); -inf if no count is possible further outside."""
        return np.where([lower > self.low, upper < self.high], self.log_noise(np.array([lower, upper])), -np.inf)


class DataModel:
    """The distribution of the cells of a table, and the data of its dependents."""

    def __init__(
        self, model: pm.Model, base: TensorVariable, shape: tuple[int, ...], data: DataOfDependents | None = None
    ) -> None:
        self.model, self.base, self.shape, self.data = model, base, shape, data

    @cached_property
    def support(self) -> Callable[[NDArray[np.int64]], Flags]:
        """A function that masks counts of each cell, shape (d, n), allowed at the model's initial point."""
        return initial_support(self.model, self.base, self.shape)

    def allowed(self, lower: NDArray[np.int64], width: int, cells: Cells) -> Flags:
        """Mask the counts in the windows of some cells, shape (k, width); `lower` is of all cells."""
        if cells.size == lower.size or lower.size * width <= TABLES:  # faster than to compile another function
            return self.support(lower[:, None] + np.arange(width))[cells]
        base = subset_distribution(elementwise(self.base, self.shape)[0], self.shape, cells)
        assert base is not None, "distributions whose support has columns are elementwise"
        return initial_support(self.model, base, (cells.size,))(lower[cells, None] + np.arange(width))

    @cached_property
    def nonnegative(self) -> Flags:
        """Cells without negative counts, shape (d,)."""
        return ~self.support(np.full((math.prod(self.shape), 1), -1))[:, 0]


class PriorDraws:
    """Draws of a data model's parameters and tables; empty if the prior has no draws."""

    def __init__(self, of: DataModel, cells: PublishedCells) -> None:
        self.cells = cells
        model, base = of.model, of.base
        data = of.data
        read = [base] if data is None else [base, data.log_density]
        drawn_variables = [*model.free_RVs, *tables_above(base, model)]
        near = set(ancestors(read, blockers=drawn_variables))
        self._parameters = [free for free in drawn_variables if free in near]
        observed_values = {rv: model.rvs_to_values[rv] for rv in model.observed_RVs if rv in set(ancestors(read))}
        self._given = {rv: rv.type.filter_variable(value) for rv, value in observed_values.items()}
        self._base = base
        self._shape = of.shape
        self._has_data = data is not None
        if data is not None:
            self._of_data = self._compiled(data.counts, data.log_density)
        draws = int(np.clip(TABLES // math.prod(self._shape), FEWEST, DRAWS))
        drawn = drawn_from_prior([without_truncation(base, model), *self._parameters], draws, self._given)
        self._draws = [parameters for _, *parameters in drawn]
        self.tables = np.array([table.ravel() for table, *_ in drawn]).reshape(len(drawn), math.prod(self._shape))

    @cached_property
    def _log_noise(self) -> Reals:
        return self.cells.log_noise(self.tables)

    def log_noise_within(self, lower: Reals, upper: Reals) -> Reals:
        """Return log weights of the noise given the tables, (draws, d), -inf outside windows."""
        return np.where((lower <= self.tables) & (self.tables <= upper), self._log_noise, -np.inf)

    def median(self) -> Reals:
        """Return the median count of each cell, shape (d,)."""
        return np.quantile(self.tables, 0.5, axis=0, method="nearest")

    def _compiled(self, counts: TensorVariable, density: TensorVariable) -> Callable[..., Reals]:
        """Compile a function of counts and parameters."""
        inputs = [counts, *self._parameters]
        return compile_interpreted(inputs, density, givens=self._given, on_unused_input="ignore")

    def moved_by_data(self, lower: Reals, upper: Reals) -> Flags:
        """Return cells of which data of dependents move a share above `DOUBT` out of one end of their windows."""
        none = np.zeros(lower.size, dtype=bool)
        if not self._has_data or not self._draws:
            return none
        ends = self.cells.at_ends(lower, upper)
        inside, outside = self._inside_and_outside(lower, upper, ends, None)
        possible = np.isfinite(np.maximum(inside, outside.max(axis=0)))
        under_all = (~possible | (outside > inside + math.log(DOUBT))).all(axis=1)
        if not (np.isfinite(ends) & under_all).any():
            return none
        density, _ = self._density(np.arange(lower.size), lambda counts: counts)  # compiled only if necessary
        inside, outside = self._inside_and_outside(lower, upper, ends, density)
        inside, outside = np.logaddexp.reduce(inside, axis=0), np.logaddexp.reduce(outside, axis=1)
        on_average = (outside > inside + math.log(DOUBT)) | np.isneginf(np.maximum(inside, outside))
        return (np.isfinite(ends) & under_all & on_average).any(axis=0)

    def _inside_and_outside(
        self, lower: Reals, upper: Reals, ends: Reals, density: Density | None
    ) -> tuple[Reals, Reals]:
        """Return the largest log weights within windows, (draws, d), and beyond their ends, (2, draws, d)."""
        lower, upper = np.maximum(lower, self.cells.low), np.minimum(upper, self.cells.high)
        grid = np.rint(lower + INSIDE * (upper - lower))
        inside, outside = np.empty(self.tables.shape), np.empty((2, *self.tables.shape))
        for k, (table, parameters) in enumerate(zip(self.tables, self._draws, strict=True)):
            counts = np.vstack([grid, np.clip(table, lower, upper), table])
            log_w = np.zeros(counts.shape) if density is None else density(counts, parameters)
            log_w += self._log_data(np.where(np.isneginf(log_w), table, counts), parameters)
            inside[k] = (self.cells.log_noise(counts[:-1]) + log_w[:-1]).max(axis=0)
            beyond = np.where([table < lower, table > upper], log_w[-1], -np.inf)
            outside[:, k] = ends + np.maximum(log_w[[0, len(grid) - 1]], beyond)
        return inside, outside

    def significant(
        self, subset: Cells, lower: Reals, upper: Reals, *, with_data: bool = False
    ) -> tuple[Reals, Reals, Flags]:
        """Return ranges of counts of significant weight of a subset of cells, and for which the search failed, (k,)."""

        def of_all(counts: Reals) -> Reals:
            every = np.repeat(lower[None], len(counts), axis=0)
            every[:, subset] = counts
            return every

        density, evaluated = self._density(subset, of_all)
        tables, smallest, largest = self.tables[:, subset], self.cells.low[subset] - 1, self.cells.high[subset] + 1
        # initial range: window and prior draws
        first = np.clip(np.minimum(lower[subset], tables.min(axis=0) - 1), smallest, largest)
        last = np.clip(np.maximum(upper[subset], tables.max(axis=0) + 1), smallest, largest)
        points = int(np.clip(EVALUATIONS // (len(self._draws) * evaluated), 32, POINTS[with_data]))
        share = np.linspace(0, 1, points // 2)[:, None]
        drawn = np.quantile(tables, share.ravel(), axis=0, method="nearest")
        open_ended = np.zeros(subset.size, dtype=bool)
        for _ in range(ROUNDS + EXTENSIONS * with_data):
            counts = np.sort(
                np.concatenate([first + np.rint(share * (last - first)), np.clip(drawn, first, last)]), axis=0
            )
            # m(x) q(y - x) on a grid of counts, averaged over prior draws of the parameters
            weight = np.full(counts.shape, -np.inf)
            for table, parameters in zip(self.tables, self._draws, strict=True):
                log_p = density(counts, parameters)
                if with_data:  # dependents may have no density at impossible counts, for which the draw is substituted
                    at = np.repeat(table[None].astype(np.float64), len(counts), axis=0)
                    at[:, subset] = np.where(np.isneginf(log_p), table[subset], counts)
                    log_p += self._log_data(at, parameters)[:, subset]
                weight = np.logaddexp(weight, log_p)
            parts = np.array_split(counts, -(-len(counts) * lower.size // TABLES))
            weight += np.concatenate([self.cells.log_noise(of_all(part))[:, subset] for part in parts])
            size, before = last - first, (first, last)
            first, last, ends = range_of_weight(counts, weight, size)
            if with_data:  # double a range that ends where weights are significant, or whose counts are impossible
                ends |= np.isneginf(weight).all(axis=0)
                open_ended = (ends & [before[0] > smallest, before[1] < largest]).any(axis=0)
                first = np.where(open_ended, np.maximum(before[0] - size, smallest), first)
                last = np.where(open_ended, np.minimum(before[1] + size, largest), last)
            if not open_ended.any() and np.all(last - first > size / 2):
                break
        return first, last, open_ended

    def _density(self, subset: Cells, of_all: Callable[[Reals], Reals]) -> tuple[Density, int]:
        """Compile the log density of counts of a subset of cells, shape (n, k), given a draw of the parameters."""
        cells = elementwise(self._base, self._shape)[0]
        alone = subset_distribution(cells, self._shape, subset)
        dist, shape = (cells, self._shape) if alone is None else (alone, (subset.size,))
        counts = pt.tensor(dtype=dist.dtype, shape=(None, *shape))
        function = self._compiled(counts, log_density(dist, counts))

        def of_counts(at: Reals, parameters: list[Array]) -> Reals:
            table = (of_all(at) if alone is None else at).astype(dist.dtype)
            with np.errstate(all="ignore"):
                log_p = function(table.reshape(-1, *shape), *parameters).reshape(len(at), -1)
            return np.nan_to_num(log_p[:, subset] if alone is None else log_p, nan=-np.inf, neginf=-np.inf)

        return of_counts, math.prod(shape)

    def _log_data(self, counts: Reals, parameters: list[Array]) -> Reals:
        """Return the log density of the data of dependents by cell, at counts of shape (n, d)."""
        table = counts.astype(self._base.dtype).reshape(-1, *self._shape)
        with np.errstate(all="ignore"):
            log_f = self._of_data(table, *parameters).T
        return np.nan_to_num(log_f, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def range_of_weight(counts: Reals, log_weights: Reals, size: Reals) -> tuple[Reals, Reals, Flags]:
    """Return the range of counts of significant weight, (k,), of a grid (n, k), and which ends have it, (2, k)."""
    heavy = log_weights > log_weights.max(axis=0) + math.log(BEYOND) - np.log(size + 1)
    begin = np.maximum(heavy.argmax(axis=0) - 1, 0)
    end = len(counts) - 1 - np.maximum(heavy[::-1].argmax(axis=0) - 1, 0)
    first, last = (np.take_along_axis(counts, at[None], 0)[0] for at in (begin, end))
    return first, last, heavy[[0, -1]]
