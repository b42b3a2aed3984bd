"""Windows of counts from noise, public statements and the data model.

The noise of a complete table exceeds its support radius with probability at most 1e-12 for every data model. However,
a data model with lighter tails than the noise can move the posterior beyond this radius. Example: 100 is released for
a Poisson cell whose rate has the prior Gamma(2, 2), with epsilon = 1. The count is near 19, but the radius of the noise
is 30. Conversely, very wide noise includes counts that the data model excludes.

Windows therefore also depend on the weight m(x) q(y - x). Here q is the noise probability and m the prior predictive
probability of a count: the mean of the data model's density over prior draws of its parameters (observed variables have
their observed values). A window is extended to counts with significant weight. It is reduced to these counts if tables
of all counts within the noise radius exceed the memory.

Prior draws do not determine the posterior: `ppdinf.diagnostics.diagnose` checks that the posterior is within the
windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import CustomDistRV, RandomVariable, TensorVariable, ancestors, compile_pymc
from ppdinf._internal.types import Array
from ppdinf.distributions.densities.confidential_rv import log_density
from ppdinf.distributions.observation.multinomial_rows import elementwise
from ppdinf.distributions.observation.observed import Observed, Reals
from ppdinf.distributions.observation.possible_values import possible_counts
from ppdinf.errors import ModelError
from ppdinf.invariants import System

__all__ = ["ENTRIES", "common_width", "count_windows", "subset_distribution"]

ENTRIES = 2**25  # maximum number of log weights, cells by counts: 256 MB
BEYOND = 1e-10  # share of a cell's weight outside its window
NOISE = 1e-12  # probability that noise exceeds its support radius
FAILURES = 3  # failed draws of a truncated distribution after which drawing stops
DRAWS, POINTS = 128, 256  # draws of the parameters, and counts at which each cell is evaluated under every draw
EVALUATIONS = 2**24  # maximum number of density evaluations
ROUNDS = 6  # refinements of the evaluated counts

type Law = Callable[[Array], Reals]


def count_windows(
    model: pm.Model,
    base: TensorVariable,
    observed: Observed,
    nonnegative: NDArray[np.bool_],
    uninformed: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], int]:
    """Return the first count of every window, and the number of counts of the widest window.

    Parameters
    ----------
    model : pymc.Model
    base : TensorVariable
        The data model, with the shape of the table.
    observed : Observed
        Observations of cells, not of linear queries.
    nonnegative : array of bool, shape (d,)
        Cells with non-negative counts under the data model.
    uninformed : array of bool, shape (d,)
        Cells without a window, for which an allowed count of the data model is chosen.

    Returns
    -------
    lower : array of int64, shape (d,)
    width : int
        A window that ends at a public bound extends one count beyond the bound.

    Raises
    ------
    ModelError
        A window would have more than ``ENTRIES / d`` counts; the message names the cell.
    """
    system = observed.system
    low, high = possible_counts(system, nonnegative, observed.tail_inequalities)
    lower, upper = observed.truncation(low, high)
    prior, law = _Prior(model, base, system.frame.shape), _noise_law(observed)
    if uninformed.any():
        typical = np.quantile(prior.tables, 0.5, axis=0, method="nearest") if len(prior.tables) else np.maximum(low, 0)
        lower, upper = np.where(uninformed, typical, lower), np.where(uninformed, typical, upper)
    lower, upper = _ended(lower, upper, prior.tables, low, high, system)
    large = upper - lower >= ENTRIES // lower.size
    doubtful = (large | ~_surely_within(prior.tables, lower, upper, law, low, high)) & ~uninformed
    if len(prior.tables) and doubtful.any():
        first, last = prior.weigh(np.flatnonzero(doubtful), lower, upper, law, low - 1, high + 1)
        margin = last - first  # extension for the tails of the prior, which draws do not determine
        lower = np.where(
            large, np.maximum(first - margin, low - 1), np.where(doubtful, np.minimum(lower, first), lower)
        )
        upper = np.where(large, np.minimum(last + margin, high + 1), np.where(doubtful, np.maximum(upper, last), upper))
    return lower.astype(np.int64), common_width(lower, upper, system)


def common_width(lower: NDArray[np.int64] | Reals, upper: NDArray[np.int64] | Reals, system: System) -> int:
    """Return the number of counts of the widest window.

    Raises
    ------
    ModelError
        Tables of that width exceed the memory; the message names the cell.
    """
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
    """Replace infinite ends of windows by the range of prior draws.

    Raises
    ------
    ModelError
        The prior has no draws; the message names a cell.
    """
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


def _noise_law(observed: Observed) -> Law:
    """Return log weights of noise given counts of each cell, (..., d); Laplace of the same width as a substitute."""
    likelihood = observed.likelihood
    if likelihood.is_fixed_by_cell:
        return lambda counts: observed.log_counts(np.atleast_2d(counts).T).T.reshape(np.shape(counts))
    y, rate = observed.y, -math.log(NOISE) / max(likelihood.support_radius, 1)
    return lambda counts: np.asarray(-rate * abs(y - counts), dtype=np.float64)


def _surely_within(tables: Array, lower: Reals, upper: Reals, law: Law, low: Reals, high: Reals) -> NDArray[np.bool_]:
    """Return cells whose windows exclude at most `BEYOND` of their weight, with noise decreasing outside the windows.

    The weight inside is estimated from prior tables.
    """
    within = np.where((lower <= tables) & (tables <= upper), law(tables), -np.inf)
    beyond = [np.where(further, law(end), -np.inf) for end, further in ((lower, lower > low), (upper, upper < high))]
    known = np.logaddexp.reduce(within, axis=0) - math.log(max(len(tables), 1))  # -inf without tables
    return np.isneginf(np.maximum(*beyond)) | (known + math.log(BEYOND) > np.maximum(*beyond))


class _Prior:
    """Prior draws of a data model's parameters and tables; empty if the prior has no draws.

    Attributes
    ----------
    tables : array, shape (draws, d)
    """

    def __init__(self, model: pm.Model, base: TensorVariable, shape: tuple[int, ...]) -> None:
        near = set(ancestors([base], blockers=model.free_RVs))
        self._parameters = [free for free in model.free_RVs if free in near]
        observed_values = {rv: model.rvs_to_values[rv] for rv in model.observed_RVs if rv in set(ancestors([base]))}
        self._given = {rv: rv.type.filter_variable(value) for rv, value in observed_values.items()}
        self._base, self._shape, drawn = base, shape, []
        with np.errstate(all="ignore"):
            draw = compile_pymc([], [base, *self._parameters], givens=self._given, mode="FAST_COMPILE", random_seed=1)
            tail_probability = 0
            for _ in range(DRAWS):
                try:
                    drawn.append(draw())
                except (NotImplementedError, ValueError, OverflowError):
                    continue  # flat priors, Poisson counts with a mean above 1e18
                except pm.exceptions.TruncationError:
                    tail_probability += 1  # truncation to improbable values: takes half a second of attempts
                    if tail_probability == FAILURES:
                        break
        self._draws = [parameters for _, *parameters in drawn]
        self.tables = np.array([table.ravel() for table, *_ in drawn]).reshape(len(drawn), math.prod(self._shape))

    def weigh(
        self, subset: NDArray[np.intp], lower: Reals, upper: Reals, law: Law, smallest: Reals, largest: Reals
    ) -> tuple[Reals, Reals]:
        """Find the range of significant weight m(x) q(y - x) of a subset of cells, within windows and prior draws.

        The weight is evaluated on successively finer grids of counts. Windows of other cells are unchanged.
        """

        def of_all(counts: Reals) -> Reals:
            every = np.repeat(lower[None], len(counts), axis=0)
            every[:, subset] = counts
            return every

        density, cells = self._density(subset, of_all)
        tables, smallest, largest = self.tables[:, subset], smallest[subset], largest[subset]
        # initial range: window and prior draws
        first = np.clip(np.minimum(lower[subset], tables.min(axis=0) - 1), smallest, largest)
        last = np.clip(np.maximum(upper[subset], tables.max(axis=0) + 1), smallest, largest)
        points = int(np.clip(EVALUATIONS // (len(self._draws) * cells), 32, POINTS))
        share = np.linspace(0, 1, points // 2)[:, None]
        drawn = np.quantile(tables, share.ravel(), axis=0, method="nearest")
        for _ in range(ROUNDS):
            counts = np.sort(
                np.concatenate([first + np.rint(share * (last - first)), np.clip(drawn, first, last)]), axis=0
            )
            # m(x) q(y - x) on a grid of counts, averaged over prior draws of the parameters
            weight = np.full(counts.shape, -np.inf)
            for parameters in self._draws:
                weight = np.logaddexp(weight, density(counts, parameters))
            weight += law(of_all(counts))[:, subset]
            # shrink the range to counts with significant weight, plus one grid point on either side
            heavy = weight > weight.max(axis=0) + math.log(BEYOND) - np.log(last - first + 1)
            begin = np.maximum(heavy.argmax(axis=0) - 1, 0)
            end = len(counts) - 1 - np.maximum(heavy[::-1].argmax(axis=0) - 1, 0)
            size, (first, last) = last - first, (np.take_along_axis(counts, at[None], 0)[0] for at in (begin, end))
            if np.all(last - first > size / 2):
                break
        begins, ends = lower.copy(), upper.copy()
        begins[subset], ends[subset] = first, last
        return begins, ends

    def _density(
        self, subset: NDArray[np.intp], of_all: Callable[[Reals], Reals]
    ) -> tuple[Callable[[Reals, list[Array]], Reals], int]:
        """Compile the log density of counts of a subset of cells, shape (n, k), given a draw of the parameters.

        Also return the number of evaluated cells: all cells if the data model has no distribution of a subset.
        """
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
