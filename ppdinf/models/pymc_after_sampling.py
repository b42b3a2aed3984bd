"""PyMC's `compute_log_likelihood` and `sample_posterior_predictive` for models with confidential tables."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from scipy.special import logsumexp

from ppdinf._internal import pymc_patches
from ppdinf._internal.pymc_compat import SharedVariable, TensorVariable, ancestors, vectorize_graph
from ppdinf._internal.values import Array, Integers, Reals
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.distributions.factors import CellFactor
from ppdinf.distributions.marginal_rewrite import marginal_log_density
from ppdinf.distributions.marginalization import why_not_marginalizable
from ppdinf.distributions.predictions import new_labels, predictive_model
from ppdinf.distributions.random_variables import ObservedPotentialRV, ReleasedRV
from ppdinf.distributions.renewed_windows import follow_data
from ppdinf.distributions.tables import (
    ConfidentialTable,
    dependent_factors,
    depends_on,
    factors_of_variable,
    has_tables,
    tables_of,
)
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.fiber.sums_given_totals.totals import log_coefficient
from ppdinf.models.model_order import dims_of_draws, in_chains, of_each_draw, posterior_of
from ppdinf.models.posterior_tables import draw_marginalized, of_draws

LARGEST = 10**6  # log weights of one evaluation


class OfOneTable(NamedTuple):
    """An observed dependent of a table that can be marginalized."""

    table: ConfidentialTable
    others: list[CellFactor]
    own: CellFactor


def of_one_table(var: TensorVariable, model: pm.Model) -> OfOneTable | str:
    """Return the table of an observed dependent, and factors of all its dependents, or a reason why it has no table."""
    above = [table for table in tables_of(model) if depends_on(var, table.variable, model)]
    if len(above) != 1 or var not in model.observed_RVs or isinstance(var.owner.op, ObservedPotentialRV | ReleasedRV):
        return "it is not an observed variable that depends on one confidential table"
    (table,) = above
    if reason := why_not_marginalizable(table.law.observed):
        return reason
    others, of_all = dependent_factors(table.variable, model, known=[var])
    counts = model.rvs_to_values[table.variable] if table.variable in model.free_RVs else table.variable.type()
    own = factors_of_variable(var, table.variable, counts, model, table.law.start.shape)
    if of_all or not isinstance(own, list):
        return "not every variable depends on the table cell by cell"
    return OfOneTable(table, others, own[0]) if len(own) == 1 else "its density is not one of single observations"


def log_likelihood_of_dependent(
    posterior: xr.Dataset, model: pm.Model, name: str, dims: Sequence[str] | None = None
) -> xr.DataArray:
    """Return the log likelihood of each observation of a dependent given all other data, for each draw."""
    var, dims = model[name], dims_of_draws(posterior) if dims is None else dims
    found = of_one_table(var, model)
    if isinstance(found, str):
        raise ModelError(
            f"the likelihood of {name!r} without the table does not exist: {found}. Compare models by posterior "
            "predictive draws, pm.sample_posterior_predictive"
        )
    law, factor = found.table.law, found.own
    shape = tuple(model.rvs_to_values[var].shape.eval()[: factor.density.ndim].tolist())
    cells = np.broadcast_to(factor.cells, shape).ravel()
    weights = law.weights(found.table.variable.owner.inputs, found.others)
    flat = in_chains(posterior, dims)
    counts = law.possible(weights, law.counts)
    every = vectorize_graph(factor.density, {factor.table: counts.astype(factor.table.dtype)})
    width = counts.shape[0]
    by_observation = pt.broadcast_to(every, (width, *shape)).reshape((width, math.prod(shape))).T
    of_draw = of_draws([weights, by_observation], flat, model)
    each = np.ndindex(flat.sizes["chain"], flat.sizes["draw"])
    values = np.array([_given_others(law, cells, *of_draw(at)) for at in each])
    named = model.named_vars_to_dims.get(name) or [None] * len(shape)
    own_dims = [dim or f"{name}_dim_{k}" for k, dim in enumerate(named[: len(shape)])]
    labels = {dim: model.coords.get(dim) for dim in own_dims}
    return of_each_draw(values.reshape(-1, *shape), posterior, dims, labels, name)


def _of_release(posterior: xr.Dataset, model: pm.Model, table: ConfidentialTable, dims: Sequence[str]) -> xr.DataArray:
    """Return the log density of a release without the dependents of its table, for each draw."""
    flat = in_chains(posterior, dims)
    of_draw = of_draws([marginal_log_density(table.released)], flat, model)
    values = [of_draw(at)[0] for at in np.ndindex(flat.sizes["chain"], flat.sizes["draw"])]
    return of_each_draw(values, posterior, dims, {}, table.released.name)


def _given_others(law: ConfidentialRV, cells: Integers, log_weights: Reals, of_own: Reals) -> Reals:
    """Return the log density of each observation given all others, at one draw of the parameters."""
    result = of_own[:, 0].copy()  # observations that depend on no cell
    own = np.flatnonzero(cells >= 0)
    cell = cells[own]
    of_own = np.where(np.isnan(of_own[own]), -np.inf, of_own[own])  # impossible parameters exclude their counts
    of_own = np.where(log_weights[cell] == -np.inf, 0.0, of_own)
    complete = log_weights.copy()
    np.add.at(complete, cell, of_own)
    repeated = np.bincount(cell, minlength=len(complete))[cell] > 1
    without = log_weights[cell]
    for j in np.flatnonzero(repeated).tolist():
        others = (cell == cell[j]) & (np.arange(cell.size) != j)
        without[j] += of_own[others].sum(axis=0)
    if law.nested is not None or law.lines is not None:
        log_p = law.log_total(complete)
        for j in range(cell.size):
            rows = complete.copy()
            rows[cell[j]] = without[j]
            result[own[j]] = log_p - law.log_total(rows)
        return result
    (block, total), lower = law.groups, law.fiber.lower
    result[own] = logsumexp(complete[cell], axis=1) - logsumexp(without, axis=1)  # cells in no public sum
    for b in np.unique(block[cell][block[cell] >= 0]):
        members, among = np.flatnonzero(block == b), np.flatnonzero(block[cell] == b)
        n, place = members.size, np.searchsorted(members, cell[among])
        log_p = log_coefficient(complete[members], lo=lower[members], total=total[b])[0]
        step = max(1, LARGEST // complete[members].size)
        for some in (slice(k, k + step) for k in range(0, among.size, step)):
            copies = np.repeat(complete[None, members], among[some].size, axis=0)
            copies[np.arange(len(copies)), place[some]] = without[among[some]]
            left = log_coefficient(
                copies.reshape(-1, complete.shape[1]),
                lo=np.tile(lower[members], len(copies)),
                total=np.full(len(copies), total[b]),
                block=np.repeat(np.arange(len(copies)), n),
            )
            result[own[among[some]]] = log_p - left[:-1]
    return result


def _compute_log_likelihood(
    own_function: Callable[..., Any],
    idata: xr.DataTree,
    *,
    var_names: Sequence[str] | None = None,
    extend_inferencedata: bool = True,
    model: pm.Model | None = None,
    sample_dims: Sequence[str] = ("chain", "draw"),
    **kwargs: Any,
) -> xr.DataTree | xr.Dataset:
    """Return the likelihood of each dependent after marginalization of its table, equal for both forms of a model."""
    model = pm.modelcontext(model)
    follow_data(model)
    observed = [var for var in model.observed_RVs if not isinstance(var.owner.op, ObservedPotentialRV)]
    names = [var.name for var in observed] if var_names is None else list(var_names)
    for table in tables_of(model):
        if table.released.name in names and table.law.observed.log_constant is None:
            warnings.warn(
                f"the log likelihoods of {table.released.name!r} lack the normalizing constant of the noise, which is "
                "not known: compare them only between models of this release with the same noise",
                DiagnosisWarning,
                stacklevel=2,
            )
    dependents = [(var, found) for var in observed if isinstance(found := of_one_table(var, model), OfOneTable)]
    own = [var.name for var, _ in dependents if var.name in names]
    # likelihoods of dependents are given the release, whose own density does not contain them
    releases = {found.table.released.name: found.table for _, found in dependents}
    result = xr.Dataset()
    if others := [name for name in names if name not in (*own, *releases)]:
        result = own_function(
            idata, var_names=others, extend_inferencedata=False, model=model, sample_dims=sample_dims, **kwargs
        )
    posterior = posterior_of(idata)
    of_own = [log_likelihood_of_dependent(posterior, model, name, sample_dims) for name in own]
    of_own += [_of_release(posterior, model, releases[name], sample_dims) for name in releases if name in names]
    result = result.assign({values.name: values for values in of_own})
    if not extend_inferencedata:
        return result
    idata["log_likelihood"] = xr.DataTree(result)
    return idata


pymc_patches.replace(
    "compute_log_likelihood", _compute_log_likelihood, lambda *args, model=None, **kwargs: has_tables(model)
)


def _sample_posterior_predictive(
    sample: Callable[..., Any],
    trace: Any,
    model: pm.Model | None = None,
    *,
    var_names: str | Sequence[str] | None = None,
    sample_vars: str | Sequence[str] | None = None,
    sample_dims: Sequence[str] | None = None,
    random_seed: Any = None,
    extend_inferencedata: bool = False,
    **kwargs: Any,
) -> xr.DataTree | dict[str, Array]:
    """Draw dependents and releases of tables from posterior draws of the tables."""
    model = pm.modelcontext(model)
    var_names, sample_vars = ([x] if isinstance(x, str) else x for x in (var_names, sample_vars))
    options = {**kwargs, "var_names": var_names, "sample_vars": sample_vars, "sample_dims": sample_dims}
    tables = tables_of(model)
    renamed = [table.name for table in tables if new_labels(table, model)]
    _warn_of_old_labels(tables, model)
    if not renamed and not any(table.is_marginalized for table in tables):
        return sample(trace, model, random_seed=random_seed, extend_inferencedata=extend_inferencedata, **options)
    names = [*(var_names or ()), *(sample_vars or ())]
    predictive = predictive_model(model, names)
    if renamed and not names:
        options["var_names"] = [*renamed, *(x.name for x in predictive.observed_RVs)]
    draws = _as_dataset(trace, model).drop_vars(renamed, errors="ignore")
    # posterior draws of the marginalized tables on which the result depends
    above = set(ancestors([predictive[name] for name in names] or predictive.observed_RVs))
    latent = [
        table
        for table in tables
        if table.is_marginalized
        and predictive[table.name] in above
        and table.name not in {*renamed, *(sample_vars or ()), *draws}
    ]
    if latent:
        rng = np.random.default_rng(random_seed)
        random_seed, mode = int(rng.integers(2**31)), (kwargs.get("compile_kwargs") or {}).get("mode")
        with _data_of_draws(trace, model):
            for x in latent:  # tables depend on earlier ones
                draws = draws.assign({x.name: draw_marginalized(x, draws, model, rng, dims=sample_dims, mode=mode)})
    given: xr.DataTree | xr.Dataset = draws
    if isinstance(trace, xr.DataTree) and "posterior" in trace.children:
        given = trace.copy()
        given["posterior"] = xr.DataTree(draws)
    result: xr.DataTree = sample(given, predictive, random_seed=random_seed, **options)
    if extend_inferencedata and given is not draws:
        trace.update(result)
        return trace
    return result


pymc_patches.replace(
    "sample_posterior_predictive", _sample_posterior_predictive, lambda trace, model=None, **kwargs: has_tables(model)
)


def _warn_of_old_labels(tables: Sequence[ConfidentialTable], model: pm.Model) -> None:
    """Warn if labels of the release are among the new labels; positions 0, 1, ... may mean other cells."""
    for table in tables:
        for dim in new_labels(table, model):
            old = table.law.observed.frame.coords[dim][1].tolist()
            if known := [label for label in model.coords[dim] if label in old and old != list(range(len(old)))]:
                warnings.warn(
                    f"{known[0]!r} is a label of {dim!r} in the release of {table.name!r}, but the other labels have "
                    "changed: all counts are drawn from the data model, without the release. Predict new labels only, "
                    "and use the draws with the labels of the release for its cells",
                    DiagnosisWarning,
                    stacklevel=4,
                )


def _as_dataset(trace: Any, model: pm.Model) -> xr.Dataset:
    """Return draws as a dataset, of any form that PyMC accepts."""
    if isinstance(trace, list):
        stacked = {name: np.stack([point[name] for point in trace])[None] for name in trace[0]}
        return xr.Dataset(
            {
                name: (("chain", "draw", *(f"{name}_dim_{k}" for k in range(values.ndim - 2))), values)
                for name, values in stacked.items()
            }
        )
    return posterior_of(
        trace if isinstance(trace, xr.DataTree | xr.Dataset) else pm.to_inference_data(trace, model=model)
    )


@contextmanager
def _data_of_draws(trace: Any, model: pm.Model) -> Iterator[None]:
    """Give a model the data with which draws were made, if they are stored with the draws."""
    has_data = isinstance(trace, xr.DataTree) and "constant_data" in trace.children
    stored = trace["constant_data"].to_dataset() if has_data else xr.Dataset()
    shared = [x for x in model.data_vars if isinstance(x, SharedVariable) and x.name in stored]
    present = [x.get_value() for x in shared]
    try:
        for x in shared:
            x.set_value(stored[x.name].values.astype(x.dtype))
        yield
    finally:
        for x, values in zip(shared, present, strict=True):
            x.set_value(values)
