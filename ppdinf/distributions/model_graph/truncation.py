"""Windows of counts: where noise, public statements and the data model let each confidential count be.

Noise goes further than its reach with a probability of 1e-12 in a whole table: that much holds whatever the data model
says. But noise with exponential tails gives way to a data model with lighter ones: 100 released for a Poisson cell
whose rate has the prior Gamma(2, 2), with epsilon 1, comes from a count near 19, while noise reaches 30 counts. And
very wide noise reaches counts that no data model ever takes. So windows also look at the weight m(x) q(y - x), with q
the law of noise and m that of counts under the prior: the mean of the data model's density over draws of its parameters
(observed variables held at what was observed). A window grows to where that weight is, and shrinks to it where tables
of all counts that noise reaches would not fit into memory.

Draws of the prior cannot know where the posterior goes: `ppdinf.diagnostics.diagnose` looks whether it ends within.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.special import logsumexp

from ppdinf._internal.pymc_compat import CustomDistRV, RandomVariable, TensorVariable, ancestors, compile_pymc
from ppdinf._internal.types import Array
from ppdinf.distributions.densities.confidential_rv import log_density
from ppdinf.distributions.observation.multinomial_rows import elementwise
from ppdinf.distributions.observation.observed import Observed, Reals
from ppdinf.distributions.observation.truncation_bounds import possible_counts
from ppdinf.errors import ModelError
from ppdinf.invariants import System

__all__ = ["ENTRIES", "common_width", "count_windows", "of_some_cells"]

ENTRIES = 2**25  # of a table of log weights, cells by counts: 256 MB
BEYOND = 1e-10  # share of a cell's weight that a window may leave out
NOISE = 1e-12  # probability that noise goes further than its reach
FAILURES = 3  # of draws of a truncated law, after which no more are made
DRAWS, POINTS = 128, 256  # of the parameters, and counts at which each cell is weighed under every one of them
WEIGHED = 2**24  # densities of single counts that are worth evaluating
ROUNDS = 6  # of weighing ever fewer counts

type Law = Callable[[Array], Reals]


def count_windows(
    model: pm.Model,
    base: TensorVariable,
    observed: Observed,
    nonnegative: NDArray[np.bool_],
    uninformed: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], int]:
    """Choose the first count of every window, and how many counts each has.

    Parameters
    ----------
    model : pymc.Model
    base : TensorVariable
        The data model, of the shape of the table.
    observed : Observed
        Of cells, not of answers.
    nonnegative : array of bool, shape (d,)
        Cells whose counts the data model takes to be 0 or more.
    uninformed : array of bool, shape (d,)
        Cells without a window: for these a count that the data model allows is chosen.

    Returns
    -------
    lower : array of int64, shape (d,)
    width : int
        No count that is possible lies at the end of a window for what is public.

    Raises
    ------
    ModelError
        Naming a cell whose window would have more than ``ENTRIES / d`` counts.
    """
    system = observed.system
    low, high = possible_counts(system, nonnegative, observed.tail_inequalities())
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
        more = last - first  # draws of a prior do not know its tails
        lower = np.where(large, np.maximum(first - more, low - 1), np.where(doubtful, np.minimum(lower, first), lower))
        upper = np.where(large, np.minimum(last + more, high + 1), np.where(doubtful, np.maximum(upper, last), upper))
    return lower.astype(np.int64), common_width(lower, upper, system)


def common_width(lower: NDArray[np.int64] | Reals, upper: NDArray[np.int64] | Reals, system: System) -> int:
    """Return the number of counts of the widest window.

    Raises
    ------
    ModelError
        Naming the cell, where tables of that width would not fit into memory.
    """
    cell, most = int(np.argmax(upper - lower)), ENTRIES // lower.size
    width = int(upper[cell] - lower[cell]) + 1
    if width > most:
        raise ModelError(
            f"noise and data model leave {width:,} counts to {system.frame.cell(cell)}, where {lower.size:,} cells can "
            f"have {most:,} each: give the parameters a prior that knows the size of the counts, or, where they hold, "
            "make nonnegative() or upper bounds public"
        )
    return width


def _ended(lower: Reals, upper: Reals, tables: Array, low: Reals, high: Reals, system: System) -> tuple[Reals, Reals]:
    """Give windows that nothing published ends the ends of what is drawn from the prior.

    Raises
    ------
    ModelError
        Naming a cell, where there are no draws.
    """
    open_ended = ~np.isfinite(lower) | ~np.isfinite(upper)
    if not open_ended.any():
        return lower, upper
    if not len(tables):
        raise ModelError(
            f"nothing published bounds the count at {system.frame.cell(int(np.argmax(open_ended)))}, and the prior has "
            "no draws that would: give the parameters a proper prior, or make bounds public"
        )
    more = np.ptp(tables, axis=0) + 1  # draws of a prior do not know its tails
    least, most = np.maximum(tables.min(axis=0) - more, low - 1), np.minimum(tables.max(axis=0) + more, high + 1)
    lower = np.where(np.isfinite(lower), lower, np.minimum(least, np.where(np.isfinite(upper), upper - 1, least)))
    return lower, np.where(np.isfinite(upper), upper, np.maximum(most, lower + 1))


def _noise_law(observed: Observed) -> Law:
    """Log weight of noise given counts of each cell, shape (..., d); Laplace as wide for noise without one."""
    likelihood = observed.likelihood
    if likelihood.is_fixed_by_cell:
        return lambda counts: observed.log_counts(np.atleast_2d(counts).T).T.reshape(np.shape(counts))
    y, rate = observed.y, -math.log(NOISE) / max(likelihood.support_radius, 1)
    return lambda counts: np.asarray(-rate * abs(y - counts), dtype=np.float64)


def _surely_within(tables: Array, lower: Reals, upper: Reals, law: Law, low: Reals, high: Reals) -> NDArray[np.bool_]:
    """Tell cells whose windows hold all but `BEYOND` of their weight: beyond, none is above that of noise at the ends.

    Tables drawn from the data model say how much there is within.
    """
    within = np.where((lower <= tables) & (tables <= upper), law(tables), -np.inf)
    beyond = [np.where(further, law(end), -np.inf) for end, further in ((lower, lower > low), (upper, upper < high))]
    known = logsumexp(within, axis=0) - math.log(max(len(tables), 1)) if len(tables) else np.full(low.size, -np.inf)
    return np.isneginf(np.maximum(*beyond)) | (known + math.log(BEYOND) > np.maximum(*beyond))


class _Prior:
    """Draws of a data model's parameters from their prior, and of its tables; none where the prior has no draws.

    Attributes
    ----------
    tables : array, shape (draws, d)
    """

    def __init__(self, model: pm.Model, base: TensorVariable, shape: tuple[int, ...]) -> None:
        near = set(ancestors([base], blockers=model.free_RVs))
        self._parameters = [free for free in model.free_RVs if free in near]
        seen = {rv: model.rvs_to_values[rv] for rv in model.observed_RVs if rv in set(ancestors([base]))}
        self._given = {rv: rv.type.filter_variable(value) for rv, value in seen.items()}
        self._base, self._shape, drawn = base, shape, []
        with np.errstate(all="ignore"):
            draw = compile_pymc([], [base, *self._parameters], givens=self._given, mode="FAST_COMPILE", random_seed=1)
            tail_probability = 0
            for _ in range(DRAWS):
                try:
                    drawn.append(draw())
                except (NotImplementedError, ValueError, OverflowError):
                    continue  # flat priors, Poisson counts with a mean beyond 1e18
                except pm.exceptions.TruncationError:
                    tail_probability += 1  # truncation to what is rare: half a second of attempts
                    if tail_probability == FAILURES:
                        break
        self._draws = [parameters for _, *parameters in drawn]
        self.tables = np.array([table.ravel() for table, *_ in drawn]).reshape(len(drawn), math.prod(self._shape))

    def weigh(
        self, some: NDArray[np.intp], lower: Reals, upper: Reals, law: Law, least: Reals, most: Reals
    ) -> tuple[Reals, Reals]:
        """Find where the weight m(x) q(y - x) of some cells is, among their windows and what was drawn.

        Evaluated at some counts, ever nearer to each other as the ends close in. Windows of other cells stay.
        """

        def of_all(counts: Reals) -> Reals:
            every = np.repeat(lower[None], len(counts), axis=0)
            every[:, some] = counts
            return every

        density, cells = self._density(some, of_all)
        tables, least, most = self.tables[:, some], least[some], most[some]
        first = np.clip(np.minimum(lower[some], tables.min(axis=0) - 1), least, most)
        last = np.clip(np.maximum(upper[some], tables.max(axis=0) + 1), least, most)
        points = int(np.clip(WEIGHED // (len(self._draws) * cells), 32, POINTS))
        share = np.linspace(0, 1, points // 2)[:, None]
        drawn = np.quantile(tables, share.ravel(), axis=0, method="nearest")
        for _ in range(ROUNDS):
            counts = np.sort(
                np.concatenate([first + np.rint(share * (last - first)), np.clip(drawn, first, last)]), axis=0
            )
            weight = np.full(counts.shape, -np.inf)
            for parameters in self._draws:
                weight = np.logaddexp(weight, density(counts, parameters))
            weight += law(of_all(counts))[:, some]
            heavy = weight > weight.max(axis=0) + math.log(BEYOND) - np.log(last - first + 1)
            begin = np.maximum(heavy.argmax(axis=0) - 1, 0)
            end = len(counts) - 1 - np.maximum(heavy[::-1].argmax(axis=0) - 1, 0)
            size, (first, last) = last - first, (np.take_along_axis(counts, at[None], 0)[0] for at in (begin, end))
            if np.all(last - first > size / 2):
                break
        begins, ends = lower.copy(), upper.copy()
        begins[some], ends[some] = first, last
        return begins, ends

    def _density(
        self, some: NDArray[np.intp], of_all: Callable[[Reals], Reals]
    ) -> tuple[Callable[[Reals, list[Array]], Reals], int]:
        """Compile the log density of counts of some cells, shape (n, k), given a draw of the parameters.

        With the number of cells that it looks at: all of them, where the data model cannot be had of some alone.
        """
        cells = elementwise(self._base, self._shape)[0]
        alone = of_some_cells(cells, self._shape, some)
        dist, shape = (cells, self._shape) if alone is None else (alone, (some.size,))
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
                found = function(table.reshape(-1, *shape), *parameters).reshape(len(at), -1)
            return np.nan_to_num(found[:, some] if alone is None else found, nan=-np.inf, neginf=-np.inf)

        return of_counts, math.prod(shape)


def of_some_cells(dist: TensorVariable, shape: tuple[int, ...], some: NDArray[np.intp]) -> TensorVariable | None:
    """Distribution of some cells of a table; None unless it is told by parameters of each cell alone."""
    op, at = dist.owner.op, np.unravel_index(some, shape)
    if not isinstance(op, RandomVariable) or isinstance(op, CustomDistRV) or any(op.ndims_params):
        return None
    generator, parameters = dist.owner.inputs[0], op.dist_params(dist.owner)
    found: TensorVariable = op.make_node(generator, None, *[pt.broadcast_to(p, shape)[at] for p in parameters]).out
    return found
