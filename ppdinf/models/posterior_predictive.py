"""`pm.sample_posterior_predictive` for models with confidential tables: equal for marginalized and sampled tables.

Dependents and releases are drawn from tables of the posterior: the stored draws of a table, or draws given the
parameters of each draw. A table with new labels is drawn from its data model
(`ppdinf.distributions.model_graph.predictions`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from ppdinf._internal.pymc_compat import SharedVariable, ancestors, forward
from ppdinf._internal.types import Array
from ppdinf.distributions.model_graph.dependents import ConfidentialTable, tables_of
from ppdinf.distributions.model_graph.predictions import new_labels, predictive_model
from ppdinf.errors import DiagnosisWarning
from ppdinf.models.model_order import posterior_of
from ppdinf.models.posterior_tables import draw_marginalized

_sample = pm.sample_posterior_predictive


@wraps(_sample)
def sample_posterior_predictive(
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
        drawn: xr.DataTree = _sample(
            trace, model, random_seed=random_seed, extend_inferencedata=extend_inferencedata, **options
        )
        return drawn
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
            tables_drawn = {
                x.name: draw_marginalized(x, draws, model, rng, dims=sample_dims, mode=mode) for x in latent
            }
        draws = draws.assign(tables_drawn)
    given: xr.DataTree | xr.Dataset = draws
    if isinstance(trace, xr.DataTree) and "posterior" in trace.children:
        given = trace.copy()
        given["posterior"] = xr.DataTree(draws)
    result: xr.DataTree = _sample(given, predictive, random_seed=random_seed, **options)
    if extend_inferencedata and given is not draws:
        trace.update(result)
        return trace
    return result


pm.sample_posterior_predictive = sample_posterior_predictive
forward.sample_posterior_predictive = sample_posterior_predictive


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
                    stacklevel=3,
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
