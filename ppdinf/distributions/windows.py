"""Windows of counts from noise, public statements, draws of the prior, and data of dependents."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import (
    CustomDistRV,
    RandomVariable,
    TensorVariable,
    ancestors,
    compile_pymc,
    graph_replace,
)
from ppdinf._internal.values import Array
from ppdinf.distributions.count_ranges import possible_counts
from ppdinf.distributions.data_models import elementwise, log_density, truncated_integers
from ppdinf.distributions.observed import Observed, Reals, cell_windows
from ppdinf.distributions.tables import DataOfDependents
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.invariants import System

BEYOND = 1e-10  # share of a cell's weight outside its window
DOUBT = 1e-8  # share of a cell's weight outside its window above which data of dependents extend the window
INSIDE = np.linspace(0, 1, 9)[:, None]  # places within a window at which these data are compared with places outside
DRAWS = 128  # draws of the parameters
FAILURES = 3  # failed draws of a truncated distribution after which drawing stops
POINTS = 256, 64  # counts at which each cell is evaluated under every draw: without, and with data of dependents
EVALUATIONS = 2**24  # maximum number of density evaluations
ROUNDS = 6  # refinements of the evaluated counts
EXTENSIONS = 10  # doublings of the range of counts in search of those at which data of dependents are possible

type Law = Callable[[Array], Reals]
type Density = Callable[[Reals, list[Array]], Reals]


class PriorDraws:
    """Draws of a data model's parameters and tables; empty if the prior has no draws."""

    def __init__(
        self, model: pm.Model, base: TensorVariable, shape: tuple[int, ...], data: DataOfDependents | None
    ) -> None:
        read = [base] if data is None else [base, data.log_density]
        near = set(ancestors(read, blockers=model.free_RVs))
        self._parameters = [free for free in model.free_RVs if free in near]
        observed_values = {rv: model.rvs_to_values[rv] for rv in model.observed_RVs if rv in set(ancestors(read))}
        self._given = {rv: rv.type.filter_variable(value) for rv, value in observed_values.items()}
        self._base, self._shape, self._has_data, drawn = base, shape, data is not None, []
        if data is not None:
            self._of_data: Callable[..., Reals] = compile_pymc(
                [data.counts, *self._parameters],
                data.log_density,
                givens=self._given,
                mode="FAST_COMPILE",
                on_unused_input="ignore",
            )
        with np.errstate(all="ignore"):
            outputs = [_clipped(base, model), *self._parameters]
            draw = compile_pymc([], outputs, givens=self._given, mode="FAST_COMPILE", random_seed=1)
            failures = 0
            for _ in range(DRAWS):
                try:
                    drawn.append(draw())
                except (NotImplementedError, ValueError, OverflowError):
                    continue  # flat priors, Poisson counts with a mean above 1e18
                except pm.exceptions.TruncationError:
                    failures += 1  # improbable bounds within another distribution: half a second of attempts
                    if failures == FAILURES:
                        break
        self._draws = [parameters for _, *parameters in drawn]
        self.tables = np.array([table.ravel() for table, *_ in drawn]).reshape(len(drawn), math.prod(self._shape))

    def moved_by_data(
        self, lower: Reals, upper: Reals, low: Reals, high: Reals, law: Law, ends: Reals
    ) -> NDArray[np.bool_]:
        """Return cells of which data of dependents move a share above `DOUBT` out of one end of their windows."""
        none = np.zeros(lower.size, dtype=bool)
        if not self._has_data or not self._draws:
            return none
        inside, outside = self._inside_and_outside(lower, upper, low, high, law, ends, None)
        possible = np.isfinite(np.maximum(inside, outside.max(axis=0)))
        under_all = (~possible | (outside > inside + math.log(DOUBT))).all(axis=1)
        if not (np.isfinite(ends) & under_all).any():
            return none
        density, _ = self._density(np.arange(lower.size), lambda counts: counts)  # compiled only if necessary
        inside, outside = self._inside_and_outside(lower, upper, low, high, law, ends, density)
        inside, outside = np.logaddexp.reduce(inside, axis=0), np.logaddexp.reduce(outside, axis=1)
        on_average = (outside > inside + math.log(DOUBT)) | np.isneginf(np.maximum(inside, outside))
        return (np.isfinite(ends) & under_all & on_average).any(axis=0)

    def _inside_and_outside(
        self, lower: Reals, upper: Reals, low: Reals, high: Reals, law: Law, ends: Reals, density: Density | None
    ) -> tuple[Reals, Reals]:
        """Return the largest log weights within windows, (draws, d), and beyond their ends, (2, draws, d)."""
        lower, upper = np.maximum(lower, low), np.minimum(upper, high)
        grid = np.rint(lower + INSIDE * (upper - lower))
        inside, outside = np.empty(self.tables.shape), np.empty((2, *self.tables.shape))
        for k, (table, parameters) in enumerate(zip(self.tables, self._draws, strict=True)):
            counts = np.vstack([grid, np.clip(table, lower, upper), table])
            log_w = np.zeros(counts.shape) if density is None else density(counts, parameters)
            log_w += self._log_data(np.where(np.isneginf(log_w), table, counts), parameters)
            inside[k] = (law(counts[:-1]) + log_w[:-1]).max(axis=0)
            beyond = np.where([table < lower, table > upper], log_w[-1], -np.inf)
            outside[:, k] = ends + np.maximum(log_w[[0, len(grid) - 1]], beyond)
        return inside, outside

    def weigh(
        self,
        subset: NDArray[np.intp],
        lower: Reals,
        upper: Reals,
        law: Law,
        smallest: Reals,
        largest: Reals,
        *,
        with_data: bool = False,
    ) -> tuple[Reals, Reals, NDArray[np.bool_]]:
        """Find the range of significant weight of a subset of cells, within windows and prior draws."""

        def of_all(counts: Reals) -> Reals:
            every = np.repeat(lower[None], len(counts), axis=0)
            every[:, subset] = counts
            return every

        density, cells = self._density(subset, of_all)
        tables, smallest, largest = self.tables[:, subset], smallest[subset], largest[subset]
        # initial range: window and prior draws
        first = np.clip(np.minimum(lower[subset], tables.min(axis=0) - 1), smallest, largest)
        last = np.clip(np.maximum(upper[subset], tables.max(axis=0) + 1), smallest, largest)
        points = int(np.clip(EVALUATIONS // (len(self._draws) * cells), 32, POINTS[with_data]))
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
            weight += law(of_all(counts))[:, subset]
            # shrink the range to counts with significant weight, plus one grid point on either side
            size, before = last - first, (first, last)
            heavy = weight > weight.max(axis=0) + math.log(BEYOND) - np.log(size + 1)
            begin = np.maximum(heavy.argmax(axis=0) - 1, 0)
            end = len(counts) - 1 - np.maximum(heavy[::-1].argmax(axis=0) - 1, 0)
            first, last = (np.take_along_axis(counts, at[None], 0)[0] for at in (begin, end))
            if with_data:  # or double it
                impossible = np.isneginf(weight).all(axis=0)
                open_ended = ((heavy[0] | impossible) & (before[0] > smallest)) | (
                    (heavy[-1] | impossible) & (before[1] < largest)
                )
                first = np.where(open_ended, np.maximum(before[0] - size, smallest), first)
                last = np.where(open_ended, np.minimum(before[1] + size, largest), last)
            if not open_ended.any() and np.all(last - first > size / 2):
                break
        begins, ends, failed = lower.copy(), upper.copy(), np.zeros(lower.size, dtype=bool)
        begins[subset], ends[subset], failed[subset] = first, last, open_ended
        return begins, ends, failed

    def _density(self, subset: NDArray[np.intp], of_all: Callable[[Reals], Reals]) -> tuple[Density, int]:
        """Compile the log density of counts of a subset of cells, shape (n, k), given a draw of the parameters."""
        cells = elementwise(self._base, self._shape)[0]
        alone = subset_distribution(cells, self._shape, subset)
        dist, shape = (cells, self._shape) if alone is None else (alone, (subset.size,))
        counts = pt.tensor(dtype=dist.dtype, shape=(None, *shape))
        function = compile_pymc(
            [counts, *self._parameters],
            log_density(dist, counts),
            givens=self._given,
            mode="FAST_COMPILE",
            on_unused_input="ignore",
        )

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


def _clipped(base: TensorVariable, model: pm.Model) -> TensorVariable:
    """Draw from a complete distribution instead of a truncated one, and take the nearest permitted count."""
    clipped = {}
    for x in truncated_integers(base, model):
        *parameters, lower, upper = x.owner.inputs
        complete = x.owner.op.base_rv_op.make_node(*parameters).default_output()
        clipped[x] = pt.clip(complete, lower, upper).astype(x.dtype)
    return graph_replace([base], clipped, strict=False)[0]


def subset_distribution(
    dist: TensorVariable, shape: tuple[int, ...], subset: NDArray[np.intp]
) -> TensorVariable | None:
    """Return the distribution of a subset of cells, or None unless its parameters are elementwise."""
    op, at = dist.owner.op, np.unravel_index(subset, shape)
    if not isinstance(op, RandomVariable) or isinstance(op, CustomDistRV) or any(op.ndims_params):
        return None
    generator, parameters = dist.owner.inputs[0], op.dist_params(dist.owner)
    log_p: TensorVariable = op.make_node(generator, None, *[pt.broadcast_to(p, shape)[at] for p in parameters]).out
    return log_p


ENTRIES = 2**25  # maximum number of log weights, cells by counts: 256 MB
NOISE = 1e-12  # probability that noise exceeds its support radius


class Windows(NamedTuple):
    """Windows of counts: first counts, shape (d,), a common number of counts, and cells that need no window, (d,)."""

    lower: NDArray[np.int64]
    width: int
    uninformed: NDArray[np.bool_]
    is_typical: bool = False  # whether a draw of the prior is far from the ends of all windows


def choose_windows(
    model: pm.Model,
    base: TensorVariable,
    observed: Observed,
    nonnegative: NDArray[np.bool_],
    read: NDArray[np.bool_] | None = None,
    data: DataOfDependents | None = None,
) -> Windows:
    """Choose the windows of a table from what is observed and from its data model; cells in `read` need a window."""
    if observed.likelihood.query is not None:
        by_queries = cell_windows(observed, nonnegative)
        return Windows(
            by_queries[0], common_width(*by_queries, observed.system), np.zeros(nonnegative.size, dtype=bool)
        )
    uninformed = observed.without_information(nonnegative)
    if read is not None:
        uninformed &= ~read
    system = observed.system
    low, high = possible_counts(system, nonnegative, observed.tail_inequalities)
    lower, upper = observed.truncation(low, high)
    prior, law = PriorDraws(model, base, system.frame.shape, data), noise_law(observed)
    if uninformed.any():
        typical = np.quantile(prior.tables, 0.5, axis=0, method="nearest") if len(prior.tables) else np.maximum(low, 0)
        lower, upper = np.where(uninformed, typical, lower), np.where(uninformed, typical, upper)
    lower, upper = _ended(lower, upper, prior.tables, low, high, system)
    large = upper - lower >= ENTRIES // lower.size
    doubtful = (large | ~_surely_within(prior.tables, lower, upper, law, low, high)) & ~uninformed
    if len(prior.tables) and doubtful.any():
        first, last, _ = prior.weigh(np.flatnonzero(doubtful), lower, upper, law, low - 1, high + 1)
        margin = last - first  # extension for the tails of the prior, which draws do not determine
        lower = np.where(
            large, np.maximum(first - margin, low - 1), np.where(doubtful, np.minimum(lower, first), lower)
        )
        upper = np.where(large, np.minimum(last + margin, high + 1), np.where(doubtful, np.maximum(upper, last), upper))
    lower, upper = _widened(prior, lower, upper, law, low, high, ~uninformed, system)
    ends = _ends(lower, upper, law, low, high)
    is_typical = _is_typical(prior.tables, lower, upper, law, ends, ~uninformed)
    return Windows(lower.astype(np.int64), common_width(lower, upper, system), uninformed, is_typical)


def widened_windows(
    model: pm.Model, base: TensorVariable, observed: Observed, fiber: Fiber, data: DataOfDependents
) -> tuple[NDArray[np.int64], int] | None:
    """Return windows extended by the data of dependents, or None if the windows of a fiber are sufficient."""
    system = observed.system
    nonnegative = np.zeros(fiber.lower.size, dtype=bool) if fiber.nonnegative is None else fiber.nonnegative
    low, high = possible_counts(system, nonnegative, observed.tail_inequalities)
    first, last = fiber.lower.astype(np.float64), (fiber.lower + fiber.width - 1).astype(np.float64)
    prior, law = PriorDraws(model, base, system.frame.shape, data), noise_law(observed)
    lower, upper = _widened(prior, first, last, law, low, high, ~fiber.uninformed, system)
    if (lower == first).all() and (upper == last).all():
        return None
    return lower.astype(np.int64), common_width(lower, upper, system)


def _widened(
    prior: PriorDraws,
    lower: Reals,
    upper: Reals,
    law: Law,
    low: Reals,
    high: Reals,
    counted: NDArray[np.bool_],
    system: System,
) -> tuple[Reals, Reals]:
    """Extend the windows of counted cells that the data of dependents move out of them."""
    moved = prior.moved_by_data(lower, upper, low, high, law, _ends(lower, upper, law, low, high)) & counted
    if not moved.any():
        return lower, upper
    first, last, failed = prior.weigh(np.flatnonzero(moved), lower, upper, law, low - 1, high + 1, with_data=True)
    if failed.any():
        raise ModelError(
            f"the data of variables that depend on the table contradict the prior and everything published at "
            f"{system.frame.cell(int(np.argmax(failed)))}: correct the data, or allow more variation of the counts"
        )
    return np.minimum(lower, first), np.maximum(upper, last)


def common_width(lower: NDArray[np.int64] | Reals, upper: NDArray[np.int64] | Reals, system: System) -> int:
    """Return the number of counts of the widest window."""
    cell, largest = int(np.argmax(upper - lower)), ENTRIES // lower.size
    width = int(upper[cell] - lower[cell]) + 1
    if width > largest:
        raise ModelError(
            f"noise and data model leave {width:,} counts to {system.frame.cell(cell)}, above the limit of {largest:,} "
            f"for {lower.size:,} cells: use a prior that restricts the size of the counts, or make nonnegative() or "
            "upper bounds public if they hold"
        )
    return width


def _ended(lower: Reals, upper: Reals, tables: Array, low: Reals, high: Reals, system: System) -> tuple[Reals, Reals]:
    """Replace infinite ends of windows by the range of prior draws."""
    open_ended = ~np.isfinite(lower) | ~np.isfinite(upper)
    if not open_ended.any():
        return lower, upper
    if not len(tables):
        raise ModelError(
            f"the count at {system.frame.cell(int(np.argmax(open_ended)))} is unbounded by everything published, and "
            "the prior has no draws: give the parameters a proper prior, or make bounds public"
        )
    margin = np.ptp(tables, axis=0) + 1  # extension for the tails of the prior, which draws do not determine
    smallest, largest = (
        np.maximum(tables.min(axis=0) - margin, low - 1),
        np.minimum(tables.max(axis=0) + margin, high + 1),
    )
    lower = np.where(np.isfinite(lower), lower, np.minimum(smallest, np.where(np.isfinite(upper), upper - 1, smallest)))
    return lower, np.where(np.isfinite(upper), upper, np.maximum(largest, lower + 1))


def noise_law(observed: Observed) -> Law:
    """Return log weights of noise given counts of each cell, (..., d); Laplace of the same width as a substitute."""
    likelihood = observed.likelihood
    if likelihood.is_fixed_by_cell:
        y = observed.y
        return lambda counts: likelihood.log_counts(y, np.atleast_2d(counts).T).T.reshape(np.shape(counts))
    y, rate = observed.y, -math.log(NOISE) / max(likelihood.support_radius, 1)
    return lambda counts: np.asarray(-rate * abs(y - counts), dtype=np.float64)


def _surely_within(tables: Array, lower: Reals, upper: Reals, law: Law, low: Reals, high: Reals) -> NDArray[np.bool_]:
    """Return cells whose windows exclude at most `BEYOND` of their weight, if noise decreases outside them."""
    within = np.where((lower <= tables) & (tables <= upper), law(tables), -np.inf)
    beyond = _ends(lower, upper, law, low, high).max(axis=0)  # if noise decreases outside
    known = np.logaddexp.reduce(within, axis=0) - math.log(max(len(tables), 1))  # -inf without tables
    return np.isneginf(beyond) | (known + math.log(BEYOND) > beyond)


def _is_typical(tables: Array, lower: Reals, upper: Reals, law: Law, ends: Reals, counted: NDArray[np.bool_]) -> bool:
    """Return whether the counts of one prior draw are far from the ends of all windows, on the scale of the noise."""
    if not len(tables):
        return False
    weights = np.where((lower <= tables) & (tables <= upper), law(tables), -np.inf)
    best = weights[int(np.argmax(np.where(counted, weights, 0.0).sum(axis=1)))]
    largest = np.maximum(weights.max(axis=0), law(np.rint((lower + upper) / 2)))
    return bool((best >= (largest + ends.max(axis=0)) / 2)[counted].all())


def _ends(lower: Reals, upper: Reals, law: Law, low: Reals, high: Reals) -> Reals:
    """Return log weights of noise at both ends of windows, (2, d); -inf if no count is possible further outside."""
    return np.array([np.where(lower > low, law(lower), -np.inf), np.where(upper < high, law(upper), -np.inf)])
