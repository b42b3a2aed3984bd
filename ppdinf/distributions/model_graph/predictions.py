"""Predictions of tables for new labels: new areas, months or persons.

`pm.set_data` can give a model other labels than those of a release. The release contains no information about the
counts of new labels: they follow the data model, conditional on the parameters. `pm.sample_posterior_predictive` then
draws them from a copy of the model. In the copy each such table is the analyst's distribution, with the lengths of the
present coordinates, as a variable. Dependents of the table are drawn from the drawn table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps

import pymc as pm
import xarray as xr

from ppdinf._internal.pymc_compat import (
    SpecifyShape,
    TensorVariable,
    Variable,
    change_dist_size,
    forward,
    toposort,
)
from ppdinf.distributions.densities.mechanism_rv import mechanism_dist
from ppdinf.distributions.model_graph.dependents import ConfidentialTable, tables_of
from ppdinf.distributions.observation.multinomial_rows import has_rows
from ppdinf.distributions.observation.observed_release import mechanism_of
from ppdinf.errors import LabelError, ModelError
from ppdinf.releases import Release

__all__ = ["new_labels", "predictive_model"]

_sample = pm.sample_posterior_predictive


def new_labels(table: ConfidentialTable, model: pm.Model) -> list[str]:
    """Return the dimensions of a table whose labels in the model differ from those of the release."""
    coords = table.law.observed.frame.coords
    given = [(dim, model.coords.get(dim)) for dim in table.law.dims or ()]
    return [dim for dim, labels in given if labels is not None and list(labels) != list(coords[dim][1])]


def predictive_model(model: pm.Model, names: Sequence[str] = ()) -> pm.Model:
    """Return a model for forward draws in which tables with new labels, and tables in `names`, are variables.

    Parameters
    ----------
    model : pymc.Model
        It is not changed. The result shares its data and coordinates.
    names : sequence of str
        Variables that are requested. The release of a table with new labels is drawn only if it is among them.

    Raises
    ------
    ModelError
        The data model of a table or the release has no extension to new labels.
    """
    tables = tables_of(model)
    replaced: dict[Variable, TensorVariable] = {}
    for table in tables:
        if dims := new_labels(table, model):
            replaced[table.variable] = _of_present_labels(table, dims, model)
            if table.released.name in names:
                replaced[table.released] = _release_again(table, replaced[table.variable], model)
    added = [table for table in tables if table.is_marginalized and (table.variable in replaced or table.name in names)]
    before = list(dict.fromkeys([*model.named_vars.values(), *(table.variable for table in added)]))
    after = _with_replacements(before, replaced)
    # model.copy() would copy the data, and search a table of the old labels for its dependents
    predictive = object.__new__(type(model))
    predictive.__dict__.update(model.__dict__)
    predictive.named_vars = {x.name: after[x] for x in before}
    dims_of_added = {table.name: tuple(table.law.dims) for table in added if table.law.dims}
    predictive.named_vars_to_dims = {**model.named_vars_to_dims, **dims_of_added}
    values = {**model.rvs_to_values, **{table.variable: table.variable.type() for table in added}}
    predictive.rvs_to_values = {after[rv]: value for rv, value in values.items()}
    predictive.values_to_rvs = {value: rv for rv, value in predictive.rvs_to_values.items()}
    predictive.free_RVs = [after[x] for x in (*model.free_RVs, *(table.variable for table in added))]
    of_old_labels = {t.released for t in tables if t.variable in replaced and t.released not in replaced}
    predictive.observed_RVs = [after[x] for x in model.observed_RVs if x not in of_old_labels]
    predictive.deterministics = [after[x] for x in model.deterministics]
    predictive.data_vars = [after[x] for x in model.data_vars]
    predictive.potentials = [after[x] for x in model.potentials]
    return predictive


def _with_replacements(
    outputs: Sequence[TensorVariable], replaced: dict[Variable, TensorVariable]
) -> dict[Variable, TensorVariable]:
    """Return a map of variables to their copies given replacements of other lengths; it contains all outputs.

    `graph_replace` would assert the lengths of the replaced variables. Replacements may depend on earlier ones.
    """
    copies = dict[Variable, TensorVariable]()

    def copy_dependents(of: Sequence[Variable]) -> None:
        for node in toposort(of, blockers=list(copies)):
            if any(x in copies for x in node.inputs):
                again = node.clone_with_new_inputs([copies.get(x, x) for x in node.inputs], strict=False)
                copies.update(zip(node.outputs, again.outputs, strict=True))

    for old, new in replaced.items():
        copy_dependents([new])
        copies[old] = copies.get(new, new)
    copy_dependents(outputs)
    for old, new in copies.items():
        new.name = old.name
    return {x: copies.get(x, x) for x in outputs}


def _of_present_labels(table: ConfidentialTable, dims: Sequence[str], model: pm.Model) -> TensorVariable:
    """Return the data model of a table with the lengths of the present coordinates of the model."""
    law, inputs = table.law, table.variable.owner.inputs
    given = list(inputs if law.observed.likelihood.auxiliary is None else inputs[:-1])
    # lengths of 1 were specified for the labels of the release
    given = [x.owner.inputs[0] if x.owner and isinstance(x.owner.op, SpecifyShape) else x for x in given]
    dist = law.base_op.make_node(*given).default_output()
    if has_rows(dist):
        raise ModelError(
            f"the rows of {table.name!r} have the public totals of the labels of its release: predictions for new "
            f"labels of {dims[0]!r} require cells with a distribution of their own, such as pm.Poisson.dist(n * p)"
        )
    new: TensorVariable = change_dist_size(dist, [model.dim_lengths[dim] for dim in table.law.dims or ()])
    return new


def _release_again(table: ConfidentialTable, counts: TensorVariable, model: pm.Model) -> TensorVariable:
    """Return a release of a table with new labels by the mechanism of the old release."""
    published = table.law.observed.published
    if not isinstance(published, Release):
        raise ModelError(
            f"{table.released.name!r} consists of measurements of the labels of the release, which have no extension "
            f"to new labels: request the table, var_names=[{table.name!r}]"
        )
    labels = {dim: list(model.coords[dim]) for dim in table.law.dims or ()}
    try:
        return mechanism_dist(mechanism_of(published), counts, labels)
    except LabelError as error:  # public sums by coordinates, which new labels do not have
        raise ModelError(
            f"{table.released.name!r} cannot be drawn for the new labels: {error}. Request the table instead, "
            f"var_names=[{table.name!r}]"
        ) from error


@wraps(_sample)
def sample_posterior_predictive(
    trace: xr.DataTree | xr.Dataset,
    model: pm.Model | None = None,
    *,
    var_names: str | Sequence[str] | None = None,
    sample_vars: str | Sequence[str] | None = None,
    **kwargs: object,
) -> xr.DataTree:
    """Draw from the predictive model if tables have new labels or marginalized tables are requested by name."""
    model = pm.modelcontext(model)
    var_names, sample_vars = ([x] if isinstance(x, str) else x for x in (var_names, sample_vars))
    names = [*(var_names or ()), *(sample_vars or ())]
    tables = tables_of(model)
    renamed = [table for table in tables if new_labels(table, model)]
    if renamed or any(table.is_marginalized and table.name in names for table in tables):
        model = predictive_model(model, names)
        trace = _without(trace, [table.name for table in renamed])
        if not names:
            var_names = [*(table.name for table in renamed), *(x.name for x in model.observed_RVs)]
    drawn: xr.DataTree = _sample(trace, model, var_names=var_names, sample_vars=sample_vars, **kwargs)
    return drawn


def _without(trace: xr.DataTree | xr.Dataset, names: Sequence[str]) -> xr.DataTree | xr.Dataset:
    """Return draws without tables of old labels, which PyMC would otherwise reuse."""
    if isinstance(trace, xr.Dataset):
        return trace.drop_vars(names, errors="ignore")
    if isinstance(trace, xr.DataTree) and names:
        without = trace.copy()
        draws = "posterior" in trace.children
        kept = (trace["posterior"] if draws else trace).to_dataset().drop_vars(names, errors="ignore")
        if not draws:
            return kept
        without["posterior"] = xr.DataTree(kept)
        return without
    return trace


pm.sample_posterior_predictive = sample_posterior_predictive
forward.sample_posterior_predictive = sample_posterior_predictive
