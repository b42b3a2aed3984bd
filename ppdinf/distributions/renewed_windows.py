"""Windows of counts computed again before a density is built, for present data and plausible parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.sparse as sp
from scipy.optimize import minimize

from ppdinf._internal import pymc_patches
from ppdinf._internal.progress import progress
from ppdinf._internal.pymc_compat import Constant, NullTypeGradError, TensorVariable, compile_interpreted, graph_replace
from ppdinf.distributions.build_fiber import data_model_of, renew_windows, set_windows
from ppdinf.distributions.data_model_checks import refuse_counted_twice
from ppdinf.distributions.data_models import drawn_from_prior, known, log_density
from ppdinf.distributions.factors import CellFactor
from ppdinf.distributions.marginal_rewrite import without_marginalized_tables
from ppdinf.distributions.marginalization import restart_among
from ppdinf.distributions.observed import Reals, sums_of_cells
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.distributions.ops import stop_gradient
from ppdinf.distributions.predictions import new_labels
from ppdinf.distributions.random_variables import ReleasedRV
from ppdinf.distributions.tables import (
    ConfidentialTable,
    dependents_of,
    digest_of_model,
    drawn_for,
    factors_of_variable,
    has_tables,
    note_data,
    tables_above,
    tables_of,
    windows_are_stale,
)
from ppdinf.distributions.windows import PublishedCells, Windows, joined, range_of_weight
from ppdinf.errors import ModelError
from ppdinf.lattice.rows import LISTED

POINTS = 64  # counts of each cell at which its weight is evaluated
EVALUATIONS = 2**18  # maximum number of counts of all cells
STEPS = 60  # of the optimizer
FITS = 4  # each with the windows of the one before
LONG = 2**24  # number of cells, times evaluations, after which no fit begins: a minute
FEWEST = 20  # evaluations of a fit
DRAWS, FEW = 12, 3  # of the normal approximation, and of the prior; of tables of more than 3 x 10^5 cells
LARGE = 4  # standard deviations of the log density of draws of a normal distribution
HALVINGS = 5
DENSE = 400  # maximum number of parameters of a normal approximation
ROUNDS = 24  # doublings and refinements of the range of counts in search of its ends
MANY = 10**5  # cells from which the time of a fit is shown
SIGMA = 0.3  # probability outside one standard deviation, approximately

log_p_of = pm.Model.logp  # the density without computation of windows


def plausible_windows(model: pm.Model) -> dict[TensorVariable, Windows]:
    """Return the windows of tables whose windows must be extended."""
    tables = [t for t in tables_of(model) if t.law.observed.likelihood.query is None]
    tables = [t for t in tables if not tables_above(t.variable, model)]  # other tables are marginalized given these
    alone = len(model.observed_RVs) == len(tables_of(model)) and not model.potentials
    if not tables or (alone and all(table.law.fiber.is_typical for table in tables)):
        return {}
    if not any(rv.dtype.startswith("float") for rv in model.free_RVs):
        return {}  # draws of the prior have the known parameters
    try:
        posterior = ApproximatePosterior(model, [CellWeights(table) for table in tables])
    except (NotImplementedError, NullTypeGradError):  # a density without gradient
        return {}
    point = posterior.start
    if not np.isfinite(posterior(point)[0]):
        return {}
    for _ in range(FITS):
        point, draws = posterior.fit(point)
        if not posterior.extend(draws) or posterior.evaluations > LONG // posterior.size:
            break
    extended = [t for t in posterior.tables if (t.lower < t.present.lower).any() or (t.upper > t.present.upper).any()]
    return {t.table.variable: t.windows for t in extended}


class CellWeights:
    """Weights of the counts of each cell of a table by noise and public statements, on a grid of counts."""

    def __init__(self, table: ConfidentialTable) -> None:
        self.table = table
        self.present = Windows.of(table.law.fiber)
        self.kind = table.law.fiber.noise.of
        self.published = PublishedCells(table.law.observed, self.present.nonnegative)
        self.lower, self.upper = (end.astype(np.float64) for end in self.present[:2])
        self.center = self.lower, self.upper

    @property
    def windows(self) -> Windows:
        """The windows after extension."""
        lower, upper, likely = (at.astype(np.int64) for at in (self.lower, self.upper, np.mean(self.center, axis=0)))
        return Windows(lower, upper, *self.present[2:4], likely=likely)

    def log_noise(self, counts: Reals) -> Reals:
        """Return log weights of counts, shape (d, n); the first count of an uninformed cell represents all counts."""
        inside = (counts >= self.published.low[:, None]) & (counts <= self.published.high[:, None])
        first = np.where(np.arange(counts.shape[1]) == 0, 0.0, -np.inf)
        weights = np.where(inside, self.published.log_noise(counts.T).T, -np.inf)
        return np.where(self.present.uninformed[:, None], first, weights)

    def grid(self, points: int) -> tuple[Reals, Reals]:
        """Return counts of each cell, and their log weights times the number of counts that they represent."""
        share = np.linspace(0, 1, points // 2)
        ends = (self.lower, self.upper), self.center
        counts = np.sort(np.hstack([np.rint(a[:, None] + share * (b - a)[:, None]) for a, b in ends]), axis=1)
        edges = np.hstack([counts[:, :1] - 0.5, (counts[:, 1:] + counts[:, :-1]) / 2, counts[:, -1:] + 0.5])
        with np.errstate(divide="ignore"):
            spacing = np.log(np.diff(edges, axis=1))
        return counts, self.log_noise(counts) + np.where(self.present.uninformed[:, None], 0.0, spacing)


class ApproximatePosterior:
    """Approximate joint density of the real variables of a model."""

    def __init__(self, model: pm.Model, tables: Sequence[CellWeights]) -> None:
        self.tables, self.evaluations, self.size = tables, 0, sum(part.lower.size for part in tables)
        self._points = int(np.clip(EVALUATIONS // self.size, 16, POINTS))
        self._draws = int(np.clip(4 * EVALUATIONS // self.size, FEW, DRAWS))
        all_tables = tables_of(model)
        left = dict.fromkeys((*model.basic_RVs, *model.potentials))
        for table in all_tables:
            left.pop(table.variable, None), left.pop(table.released, None)
        counts = [pt.tensor(dtype="float64", shape=(part.lower.size, None)) for part in tables]
        log_noise = [pt.tensor(dtype="float64", shape=(part.lower.size, None)) for part in tables]
        weights = list[tuple[TensorVariable, TensorVariable]]()
        for part, at, noise in zip(tables, counts, log_noise, strict=True):
            by_cell = list[CellFactor]()
            for var in dependents_of(part.table.variable, model):
                one = model.rvs_to_values.get(part.table.variable, part.table.variable.type())
                factors = factors_of_variable(var, part.table.variable, one, model, part.table.law.start.shape)
                if isinstance(factors, list):
                    by_cell += factors
                    left.pop(var, None)
            weights.append(_weights(part.table, by_cell, at, noise))
        terms = [
            _of_table(part.table, smooth, at) for part, (smooth, _), at in zip(tables, weights, counts, strict=True)
        ]
        with without_marginalized_tables():
            log_p = log_p_of(model, vars=list(left)) if left else pt.zeros(())
        outputs = model.replace_rvs_by_values([sum(terms, start=log_p), *(weight for _, weight in weights)])
        # only real variables are fitted; tables and other integers keep their initial values
        initial, free = model.initial_point(), [model.rvs_to_values[rv] for rv in model.free_RVs]
        self._real = [value for value in free if value.dtype.startswith("float")]
        fixed = {
            value: pt.constant(initial[value.name], dtype=value.dtype) for value in free if value not in self._real
        }
        log_p, *of_counts = graph_replace(outputs, fixed, strict=False)
        gradient = pt.grad(log_p, self._real, disconnected_inputs="ignore")
        self._shapes = [initial[value.name].shape for value in self._real]
        self._ends = np.cumsum([math.prod(shape) for shape in self._shapes])
        inputs = [*self._real, *counts, *log_noise]
        self._evaluate = compile_interpreted(inputs, [log_p, *gradient], on_unused_input="ignore")
        self._weigh = compile_interpreted(inputs, of_counts, on_unused_input="ignore")
        self._on_grids = self._grids()
        candidates = [
            np.concatenate([np.ravel(initial[value.name]) for value in self._real]),
            *_prior(model, self._real, self._draws),
        ]
        scale = np.std(candidates[1:], axis=0) if len(candidates) > 1 else np.ones(candidates[0].size)
        self._scale = np.where((scale > 0) & np.isfinite(scale), scale, 1.0)
        self.start = candidates[int(np.argmax([self(point)[0] for point in candidates]))]

    def __call__(self, point: Reals) -> tuple[float, Reals]:
        """Return the log density and its gradient."""
        self.evaluations += 1
        with np.errstate(all="ignore"):
            try:
                log_p, *parts = self._evaluate(*self._values(point), *self._on_grids)
            except (ArithmeticError, AssertionError, ModelError, ValueError):  # parameters that a density refuses
                return -np.inf, np.zeros(point.size)
        gradient = np.concatenate([np.ravel(part) for part in parts])
        is_valid = np.isfinite(log_p) and np.isfinite(gradient).all()
        return (float(log_p) if is_valid else -np.inf), gradient

    def weights(self, point: Reals, counts: Sequence[Reals]) -> list[Reals]:
        """Return the log weights of counts of each table, shape (d, n)."""
        log_noise = [part.log_noise(at) for part, at in zip(self.tables, counts, strict=True)]
        with np.errstate(all="ignore"):
            weights: list[Reals] = self._weigh(*self._values(point), *counts, *log_noise)
        return weights

    def _values(self, point: Reals) -> list[Reals]:
        """Return the values of the real variables."""
        parts = np.split(point, self._ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _grids(self) -> list[Reals]:
        """Return counts and log weights of noise of all tables, at which the density is evaluated."""
        counts, log_noise = zip(*(part.grid(self._points) for part in self.tables), strict=True)
        return [*counts, *log_noise]

    def fit(self, point: Reals) -> tuple[Reals, list[Reals]]:
        """Return the maximum, and draws of a normal approximation whose first draw is the maximum."""

        def descent(z: Reals) -> tuple[float, Reals]:
            log_p, gradient = self(point + self._scale * z)
            return (-log_p, -self._scale * gradient) if np.isfinite(log_p) else (1e300, np.zeros(z.size))

        limits = {"maxiter": STEPS, "maxfun": max(FEWEST, LONG // self.size)}
        optimum = minimize(descent, np.zeros(point.size), jac=True, method="L-BFGS-B", options=limits)
        mode, draws = point + self._scale * optimum.x, []
        k, rng = point.size, np.random.default_rng(1)
        if k <= DENSE:
            variances, axes = np.linalg.eigh(optimum.hess_inv.todense())
            spread = axes * np.sqrt(np.maximum(variances, 0.0))
            lowest = self(mode)[0] - k / 2 - LARGE * math.sqrt(k / 2 + 1)
            for _ in range(self._draws):  # a draw that the joint density excludes is moved towards the maximum
                step = self._scale * (spread @ rng.standard_normal(k))
                near = (mode + step / 2**halved for halved in range(HALVINGS))
                draws.extend([next((draw for draw in near if self(draw)[0] > lowest), mode)])
        return mode, [mode, *draws]

    def extend(self, draws: Sequence[Reals]) -> bool:
        """Extend the windows to all significant counts at given parameters, and return whether one was extended."""
        ranges = [self._significant(draw) for draw in draws]
        is_extended = False
        for part, *needed in zip(self.tables, *ranges, strict=True):
            part.center = needed[0]
            first, last = np.swapaxes(needed, 0, 1)
            margin = (last - first).max(axis=0) / 2  # for the tails of the posterior, which draws do not determine
            first, last = first.min(axis=0), last.max(axis=0)
            low, high = part.published.low - 1, part.published.high + 1
            # the last fit decides, because a first one may be far from the posterior
            ends = [at.astype(np.float64) for at in part.present[:2]]
            lower = np.where(first < ends[0], np.floor(np.maximum(first - margin, low)), ends[0])
            upper = np.where(last > ends[1], np.ceil(np.minimum(last + margin, high)), ends[1])
            lower, upper = joined(part.kind, lower, upper)
            fits = upper - lower < LISTED // (int(part.kind.max()) + 1)
            lower, upper = np.where(fits, lower, ends[0]), np.where(fits, upper, ends[1])
            is_extended |= bool(((first < part.lower) | (last > part.upper))[fits].any())
            part.lower, part.upper = lower, upper
        self._on_grids = self._grids()
        return is_extended

    def _significant(self, point: Reals) -> list[tuple[Reals, Reals]]:
        """Return the range of counts of each cell with a significant share of its weight, within and beyond windows."""
        ranges = [(part.lower, part.upper) for part in self.tables]
        remaining = [~part.present.uninformed for part in self.tables]  # cells whose range is not final
        extended = [np.zeros(cells.size, dtype=bool) for cells in remaining]
        share = np.linspace(0, 1, self._points)[:, None]
        for _ in range(ROUNDS):
            grids = [np.rint(first + share * (last - first)) for first, last in ranges]
            weights = self.weights(point, [counts.T for counts in grids])
            for k, (part, counts, weight) in enumerate(zip(self.tables, grids, weights, strict=True)):
                first, last = ranges[k]
                size, informed = last - first, remaining[k] & (weight.max(axis=1) > -np.inf)
                inner, outer, (below, above) = range_of_weight(counts, weight.T, size)
                below &= informed & (first >= part.published.low)
                above &= informed & (last <= part.published.high)
                inner = np.where(below, np.maximum(first - size - 1, part.published.low - 1), inner)
                outer = np.where(above, np.minimum(last + size + 1, part.published.high + 1), outer)
                ranges[k] = np.where(informed, inner, first), np.where(informed, outer, last)
                # a range that was extended is not shortened again, or it could alternate between two lengths
                extended[k] |= below | above
                remaining[k] = below | above | (informed & ~extended[k] & (outer - inner < size / 2))
            if not any(cells.any() for cells in remaining):
                break
        sides = [(part.lower, part.upper) for part in self.tables]
        return [
            (np.where(cells, lower, first), np.where(cells, upper, last))
            for cells, (lower, upper), (first, last) in zip(remaining, sides, ranges, strict=True)
        ]


def _weights(
    table: ConfidentialTable, factors: Sequence[CellFactor], counts: TensorVariable, log_noise: TensorVariable
) -> tuple[TensorVariable, TensorVariable]:
    """Return log weights of counts by the data model, noise and dependents, shape (d, n): with a gradient, and fast."""
    law = table.law
    dist, shape = law.base(table.variable.owner.inputs)[0], (counts.shape[1], *law.start.shape)
    at = pt.tensor(dtype=dist.dtype, shape=(None, *law.start.shape))
    log_p = log_density(dist, at).reshape((shape[0], -1)).T

    if law.observed.likelihood.has_unknown_scale:
        log_noise += law.log_given(table.variable.owner.inputs, counts)

    def of_counts(x: TensorVariable) -> TensorVariable:
        return graph_replace([log_p], {at: x}, strict=False)[0]

    tried = stop_gradient(of_counts(counts.T.reshape(shape).astype(dist.dtype))) + log_noise
    impossible = pt.or_(pt.isnan(tried), pt.eq(tried, -np.inf))
    # densities have no gradient at impossible counts, for which the most probable count is substituted
    likeliest = pt.take_along_axis(
        counts, pt.argmax(pt.switch(impossible, -np.inf, tried), axis=1, keepdims=True), axis=1
    )
    possible = pt.switch(impossible, likeliest, counts).T.reshape(shape).astype(dist.dtype)
    of_dependents = sum(factor.by_cell(possible) for factor in factors)
    smooth, weights = (
        pt.switch(law.fiber.uninformed[:, None], log_noise, pt.switch(impossible, -np.inf, weights + of_dependents))
        for weights in (of_counts(possible) + log_noise, tried)
    )
    return smooth, weights


def _of_table(table: ConfidentialTable, weights: TensorVariable, counts: TensorVariable) -> TensorVariable:
    """Return the log weight of all cells, with exact and noisy sums as normal observations of sums of cells."""
    observed = table.law.observed
    matrix, centers = sp.csr_array(observed.system.A), observed.system.values.astype(np.float64)
    variances = np.ones(centers.size)
    if isinstance(observed, ObservedMeasurements) and observed.of_sums.y.size:
        low, high = observed.of_sums.support_bounds(SIGMA)
        matrix = sp.csr_array(sp.vstack([matrix, observed.of_sums.matrix], format="csr"))
        centers = np.concatenate([centers, np.nan_to_num((low + high) / 2)])
        variances = np.concatenate([variances, (high - low) ** 2 / 4 + 1])
    shares = pt.special.softmax(weights, axis=1)
    means = (shares * counts).sum(axis=1)
    squares = (shares * (counts - means[:, None]) ** 2).sum(axis=1)
    variance = sums_of_cells(sp.csr_array(matrix.power(2)), squares) + variances
    log_sums = -0.5 * ((centers - sums_of_cells(matrix, means)) ** 2 / variance + pt.log(variance))
    return pt.logsumexp(weights, axis=1).sum() + log_sums.sum()


def _prior(model: pm.Model, values: Sequence[TensorVariable], number: int) -> list[Reals]:
    """Return draws of the prior of unconstrained variables, unless they fail or are not finite."""
    rvs = [model.values_to_rvs[value] for value in values]
    observed = {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}
    drawn = [value.ravel() for value in graph_replace(list(drawn_for(model, rvs).values()), observed, strict=False)]
    draws = [np.concatenate(draw) for draw in drawn_from_prior(drawn, number, {})]
    return [draw for draw in draws if np.isfinite(draw).all()]


def follow_data(model: pm.Model) -> None:
    """Compute the windows of all tables of a model from its present data and published numbers."""
    for table in tables_of(model.root):
        if dims := new_labels(table, model.root):
            raise ModelError(
                f"the labels of {dims[0]!r} differ from those of the release of {table.name!r}, which has no density "
                "for other labels: restore labels and data by pm.set_data, or predict tables of the present labels by "
                "pm.sample_posterior_predictive(..., predictions=True)"
            )
        follow_data_of(table, model.root)
    _extend(model.root)


def _follow_numbers(table: ConfidentialTable, model: pm.Model) -> None:
    """Give a table the published numbers that its model observes; other copies of the model keep their own."""
    law, value = table.law, model.rvs_to_values[table.released]
    given = value.data if isinstance(value, Constant) else known(value)
    if given is None or np.array_equal(given, law.observed.noisy.values):
        return
    again = copy(law)
    again.observed = law.observed.with_numbers(given)
    again.data_digest, again.fitted_data = b"", set()
    table.variable.owner.op = again
    table.released.owner.op = ReleasedRV(again.observed, ndim=table.variable.ndim)


def follow_data_of(of: ConfidentialTable, model: pm.Model) -> None:
    """Compute the windows of a table from its present data and published numbers."""
    _follow_numbers(of, model)
    table, law = of.variable, of.law
    if windows_are_stale(table, model):
        refuse_counted_twice(model, law.base(table.owner.inputs)[0], law.observed)
        renew_windows(table, model)
        law.fitted_data.clear()
        restart_among(table, dependents_of(table, model), model)
    else:
        note_data(table, model)  # copies of a model share the table's law, but not its data


def _extend(model: pm.Model) -> None:
    """Extend windows to the counts at plausible parameters, once for the data of a model."""
    tables, digest = tables_of(model), digest_of_model(model)
    if all(digest in table.law.fitted_data for table in tables):
        return
    cells = sum(table.law.start.size for table in tables)
    with progress("Windows of counts", 1, disable=cells < MANY, before="fitting parameters"):
        extended = plausible_windows(model)
    for table, windows in extended.items():
        set_windows(table, data_model_of(table, model), windows)
        restart_among(table, dependents_of(table, model), model)
        note_data(table, model)
    for table in tables:
        table.law.fitted_data.add(digest)


def _logp(logp: Callable[..., Any], model: pm.Model, *args: Any, **kwargs: Any) -> Any:
    """Update the windows before the density of a model is built."""
    follow_data(model)
    return logp(model, *args, **kwargs)


pymc_patches.replace("logp", _logp, has_tables)
