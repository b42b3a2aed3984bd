"""Windows of counts from noise, public statements and the data model.

The noise of a complete table exceeds its support radius with probability at most 1e-12 for every data model. However,
a data model with lighter tails than the noise can move the posterior beyond this radius. Example: 100 is released for
a Poisson cell whose rate has the prior Gamma(2, 2), with epsilon = 1. The count is near 19, but the radius of the noise
is 30. Conversely, very wide noise includes counts that the data model excludes.

Windows therefore also depend on the weight m(x) q(y - x). Here q is the noise probability and m the prior predictive
probability of a count: the mean of the data model's density over prior draws of its parameters (observed variables have
their observed values). A window is extended to counts with significant weight. It is reduced to these counts if tables
of all counts within the noise radius exceed the memory. If data of dependents of the table make counts outside a window
possible, the weight is multiplied by their density, and the window is extended again.

Prior draws do not determine the posterior. Before a density is built, windows are extended at plausible parameters
(`ppdinf.distributions.model_graph.plausible_windows`), and `ppdinf.diagnostics.diagnose` checks them after sampling.
"""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.types import Array
from ppdinf.distributions.model_graph.data_of_dependents import DataOfDependents
from ppdinf.distributions.model_graph.prior_draws import BEYOND, Law, PriorDraws
from ppdinf.distributions.observation.observed import Observed, Reals
from ppdinf.distributions.observation.possible_values import possible_counts
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.invariants import System

ENTRIES = 2**25  # maximum number of log weights, cells by counts: 256 MB
NOISE = 1e-12  # probability that noise exceeds its support radius


def count_windows(
    model: pm.Model,
    base: TensorVariable,
    observed: Observed,
    nonnegative: NDArray[np.bool_],
    uninformed: NDArray[np.bool_],
    data: DataOfDependents | None = None,
) -> tuple[NDArray[np.int64], int, bool]:
    """Return the first count of every window, the number of counts of the widest one, and whether the prior fits."""
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
    return lower.astype(np.int64), common_width(lower, upper, system), is_typical


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
        return lambda counts: observed.log_counts(np.atleast_2d(counts).T).T.reshape(np.shape(counts))
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
