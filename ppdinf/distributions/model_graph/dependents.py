"""Dependents of the confidential tables of a model, and their factors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pymc as pm

from ppdinf._internal.pymc_compat import (
    PartialObservedRV,
    TensorVariable,
    Variable,
    ancestors,
    replace_rvs_by_values,
    transformed_conditional_logp,
)
from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.distributions.densities.factors import CellFactor, factors_in
from ppdinf.distributions.densities.released_rv import ReleasedRV
from ppdinf.distributions.model_graph.marginal_rewrite import table_of


@dataclass(frozen=True)
class ConfidentialTable:
    """A confidential table of a model."""

    name: str
    variable: TensorVariable
    released: TensorVariable
    is_marginalized: bool

    @property
    def law(self) -> ConfidentialRV:
        """The distribution of the table: data model, release, windows and moves."""
        return self.variable.owner.op


def tables_of(model: pm.Model) -> list[ConfidentialTable]:
    """Return the confidential tables of a model, in the order of their creation."""
    tables = []
    for released in model.observed_RVs:
        if isinstance(released.owner.op, ReleasedRV):
            table = table_of(released)
            if table.owner is not None and isinstance(table.owner.op, ConfidentialRV):
                tables.append(ConfidentialTable(table.name, table, released, table not in model.basic_RVs))
    return tables


def depends_on(var: TensorVariable, table: TensorVariable, model: pm.Model) -> bool:
    """Return whether a variable or expression other than the release depends on a table given all other variables."""
    if var is table or var.owner is None or (isinstance(var.owner.op, ReleasedRV) and table_of(var) is table):
        return False
    return table in all_above(var, model)


def all_above(var: TensorVariable, model: pm.Model) -> set[Variable]:
    """Return all variables on which a variable depends given the model's other variables."""
    return set(ancestors([var], blockers=[rv for rv in model.basic_RVs if rv is not var]))


def factors_of_variable(
    var: TensorVariable, table: TensorVariable, counts: TensorVariable, model: pm.Model, shape: tuple[int, ...]
) -> list[CellFactor] | TensorVariable:
    """Return the factors of a table that a dependent variable or potential contributes, given all other values."""
    values = {**model.rvs_to_values, table: counts}
    transforms = {**model.rvs_to_transforms, table: None}
    if var in model.potentials:
        (density,) = replace_rvs_by_values([var], rvs_to_values=values, rvs_to_transforms=transforms)
    else:
        parts = parts_of(var, model)
        densities = transformed_conditional_logp(
            rvs=parts, rvs_to_values=values, rvs_to_transforms=transforms, jacobian=False
        )
        density = densities[parts.index(var)]
    factors = factors_in(density, counts, shape)
    return density if factors is None else factors


def parts_of(var: TensorVariable, model: pm.Model | None = None) -> list[TensorVariable]:
    """Return the observed and the missing part of a masked variable, whose densities PyMC computes together."""
    if var.owner is None or not isinstance(var.owner.op, PartialObservedRV):
        return [var]
    return list(var.owner.outputs) if model is None else [rv for rv in model.basic_RVs if rv.owner is var.owner]


def dependents_of(table: TensorVariable, model: pm.Model) -> list[TensorVariable]:
    """Return the random variables and potentials that depend on a table given all others, except its release."""
    return [var for var in (*model.basic_RVs, *model.potentials) if depends_on(var, table, model)]


def observed_among(variables: Sequence[TensorVariable], model: pm.Model) -> list[TensorVariable]:
    """Return the variables without a value to sample: observed variables without missing parts, and potentials."""
    return [x for x in variables if x not in model.free_RVs and set(parts_of(x, model)) == set(parts_of(x))]


def dependent_factors(
    table: TensorVariable,
    model: pm.Model,
    shape: tuple[int, ...] | None = None,
    known: Collection[TensorVariable] = (),
) -> tuple[list[CellFactor], list[TensorVariable]]:
    """Return the factors that all dependents of a table contribute, except its release."""
    counts = model.rvs_to_values[table] if table in model.free_RVs else table.type()
    shape = table.owner.op.start.shape if shape is None else shape
    left = [var for var in dependents_of(table, model) if not any(var is other for other in known)]
    results = [factors_of_variable(var, table, counts, model, tuple(map(int, shape))) for var in left]
    by_cell = [factor for factors in results if isinstance(factors, list) for factor in factors]
    return by_cell, [density for density in results if not isinstance(density, list)]


def drawn_for(model: pm.Model, rvs: list[TensorVariable]) -> dict[Variable, TensorVariable]:
    """Map value variables to functions of their random variables: the inverse of conditioning on values."""
    values = {}
    for rv in rvs:
        transform = model.rvs_to_transforms[rv]
        values[model.rvs_to_values[rv]] = rv if transform is None else transform.forward(rv, *rv.owner.inputs)
    return values
