"""Forward draws: cells from the data model alone, and a copy of a model in which every table is a variable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pymc as pm

from ppdinf._internal.pymc_compat import (
    Constant,
    RandomType,
    SpecifyShape,
    TensorVariable,
    Variable,
    ancestors,
    change_dist_size,
    compile_pymc,
    graph_inputs,
    reseed_rngs,
    toposort,
)
from ppdinf._internal.values import Array, Integers
from ppdinf.distributions.data_models import has_rows, subset_distribution
from ppdinf.distributions.factors import cell_indices
from ppdinf.distributions.observed import mechanism_of
from ppdinf.distributions.random_variables import ObservedPotentialRV, mechanism_dist
from ppdinf.distributions.tables import ConfidentialTable, dependents_of, tables_of
from ppdinf.errors import LabelError, ModelError
from ppdinf.releases import Release

SEEDS = 2**63


def uninformed_cells(table: TensorVariable) -> TensorVariable:
    """Return the distribution of the cells on which nothing published depends, a symbolic vector."""
    law = table.owner.op
    dist, cells = law.base(table.owner.inputs)[0], np.flatnonzero(law.fiber.uninformed)
    alone = subset_distribution(dist, law.start.shape, cells)
    return dist.ravel()[cells] if alone is None else alone


class DataModelDraws:
    """A compiled function that draws cells given the values of the inputs of their distribution."""

    def __init__(self, cells: TensorVariable, inputs: Sequence[Variable], **compile_kwargs: object) -> None:
        self._rngs = [x for x in graph_inputs([cells]) if isinstance(x.type, RandomType)]
        self._function = compile_pymc(list(inputs), cells, on_unused_input="ignore", **compile_kwargs)

    def __call__(self, values: Sequence[Array], rng: np.random.Generator) -> Integers:
        """Draw the cells once."""
        reseed_rngs(self._rngs, int(rng.integers(SEEDS)))
        try:
            return np.asarray(self._function(*values), dtype=np.int64)
        except NotImplementedError as error:
            raise ModelError(
                "cells on which nothing published depends are drawn from their distribution, which has no draws: give "
                "pm.CustomDist a function random=, or make bounds on the cells public"
            ) from error


def new_labels(table: ConfidentialTable, model: pm.Model) -> list[str]:
    """Return the dimensions of a table whose labels in the model differ from those of the release."""
    coords = table.law.observed.frame.coords
    given = [(dim, model.coords.get(dim)) for dim in table.law.dims or ()]
    return [dim for dim, labels in given if labels is not None and list(labels) != list(coords[dim][1])]


def predictive_model(model: pm.Model, names: Sequence[str] = ()) -> pm.Model:
    """Return a model for forward draws in which all tables are variables."""
    tables = tables_of(model)
    replaced: dict[Variable, TensorVariable] = {}
    for table in tables:
        if dims := new_labels(table, model):
            replaced[table.variable] = _of_present_labels(table, dims, model)
            for var in (table.variable, *(x for x in dependents_of(table.variable, model) if x.owner)):
                _refuse_constants(var, table, dims, model)
            if table.released.name in names:
                replaced[table.released] = _release_again(table, replaced[table.variable], model)
    added = [table for table in tables if table.is_marginalized]
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
    observed = [x for x in model.observed_RVs if not isinstance(x.owner.op, ObservedPotentialRV)]
    predictive.observed_RVs = [after[x] for x in observed if x not in of_old_labels]
    predictive.deterministics = [after[x] for x in model.deterministics]
    predictive.data_vars = [after[x] for x in model.data_vars]
    predictive.potentials = [after[x] for x in model.potentials]
    return predictive


def _with_replacements(
    outputs: Sequence[TensorVariable], replaced: dict[Variable, TensorVariable]
) -> dict[Variable, TensorVariable]:
    """Return a map of variables to their copies given replacements of other lengths; it contains all outputs."""
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


def _refuse_constants(var: TensorVariable, table: ConfidentialTable, renamed: Sequence[str], model: pm.Model) -> None:
    """Refuse constants with one element per old label in the distribution of a table or of its dependent."""
    of_table = table.law.dims or ()
    dims = model.named_vars_to_dims.get(var.name) or (of_table if var.ndim == len(of_table) else ())
    node = table.law.base_op.make_node(*table.law.of_dist(var.owner.inputs)) if var is table.variable else var.owner
    parameters = node.op.dist_params(node) if hasattr(node.op, "dist_params") else [var]
    above = ancestors(parameters, blockers=[x for x in (*model.basic_RVs, table.variable) if x is not var])
    constants = [x for x in above if isinstance(x, Constant) and getattr(x, "ndim", 0) > 0]
    for axis, dim in enumerate(dims, -len(dims)):
        length = len(table.law.observed.frame.coords[dim][1]) if dim in renamed else None
        for constant in constants:
            if length in constant.type.shape and _varies_along(parameters, constant, axis):
                values = np.array2string(constant.data, threshold=3, edgeitems=2, separator=", ").replace("\n", "")
                raise ModelError(
                    f"{constant.name or 'the constant array'} {values} in the distribution of {var.name!r} has a "
                    f"number for each old label of {dim!r}: write pm.Data(name, values, dims={dim!r}) in the model, "
                    "and give its values for the new labels by pm.set_data"
                )


def _varies_along(parameters: Sequence[Variable], constant: Constant, axis: int) -> bool:
    """Return whether an axis of a parameter depends on different elements of a constant, or may do so."""
    for parameter in parameters:
        scalars = [x for x in ancestors([parameter]) if not getattr(x, "ndim", 0)]
        if constant in ancestors([parameter], blockers=scalars):
            which = cell_indices(parameter, constant, constant.type.shape)
            if which is None or (which.ndim >= -axis and (which.shape[axis] > 1 or constant.type.shape[-1] == 1)):
                return True
    return False


def _of_present_labels(table: ConfidentialTable, dims: Sequence[str], model: pm.Model) -> TensorVariable:
    """Return the data model of a table with the lengths of the present coordinates of the model."""
    law, given = table.law, table.law.of_dist(table.variable.owner.inputs)
    # lengths of 1 were specified for the labels of the release
    given = [x.owner.inputs[0] if x.owner and isinstance(x.owner.op, SpecifyShape) else x for x in given]
    dist = law.base_op.make_node(*given).default_output()
    if has_rows(dist):
        raise ModelError(
            f"the rows of {table.name!r} have the public totals of the labels of its release: predictions for new "
            f"labels of {dims[0]!r} require cells with a distribution of their own, such as pm.Poisson.dist(n * p)"
        )
    return change_dist_size(dist, [model.dim_lengths[dim] for dim in table.law.dims or ()])


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
