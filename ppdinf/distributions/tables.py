"""The confidential tables of a model, their dependents, and the data from which their windows were computed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import (
    PartialObservedRV,
    RandomType,
    SharedVariable,
    TensorVariable,
    Variable,
    ancestors,
    graph_inputs,
    graph_replace,
    replace_rvs_by_values,
    transformed_conditional_logp,
)
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.distributions.factors import CellFactor, data_of, equals, factors_in, with_exact_sums
from ppdinf.distributions.linked_tables import factor_of_table
from ppdinf.distributions.random_variables import ObservedPotentialRV, ReleasedRV, table_of
from ppdinf.errors import ModelError
from ppdinf.measurements import Measurements
from ppdinf.measurements.same_noise import refuse_noise_in_use
from ppdinf.releases import Release


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


def has_tables(model: pm.Model | None = None, *_: object, **__: object) -> bool:
    """Return whether a model, by default that of the context, observes a release or a potential of its tables."""
    observed = pm.modelcontext(model).root.observed_RVs
    return any(isinstance(var.owner.op, ReleasedRV | ObservedPotentialRV) for var in observed)


def tables_of(model: pm.Model) -> list[ConfidentialTable]:
    """Return the confidential tables of a model, in the order of their creation."""
    tables = []
    for released in model.observed_RVs:
        if isinstance(released.owner.op, ReleasedRV):
            table = table_of(released)
            if table.owner is not None and isinstance(table.owner.op, ConfidentialRV):
                tables.append(ConfidentialTable(table.name, table, released, table not in model.basic_RVs))
    return tables


def tables_above(expression: TensorVariable, model: pm.Model) -> list[TensorVariable]:
    """Return the marginalized tables on which an expression depends, without the expression."""
    above = [x for x in all_above(expression, model) if x.owner and isinstance(x.owner.op, ConfidentialRV)]
    return [x for x in above if x is not expression and x not in model.basic_RVs]


def refuse_second_use(published: Release | Measurements, model: pm.Model) -> None:
    """Refuse a release that a model already observes, as a whole, as a copy or in part."""
    for table in tables_of(model):
        earlier = table.law.observed.published
        if earlier is published:
            raise ModelError(f"the release is already in the model as that of {table.name!r}: observe it only once")
        new, old = ([x] if isinstance(x, Release) else x.releases for x in (published, earlier))
        refuse_noise_in_use(new, old, table.name)


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
    if (factor := factor_of_table(var, table)) is not None:
        return [factor]
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
    law = table.owner.op
    if isinstance(law, ConfidentialRV):
        density = with_exact_sums(density, counts, law.start, law.observed.system.lattice)
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
    table: TensorVariable, model: pm.Model, shape: tuple[int, ...] | None = None, known: Collection[TensorVariable] = ()
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


class DataOfDependents(NamedTuple):
    """Log density of the observed dependents of a table by cell."""

    counts: TensorVariable
    log_density: TensorVariable


def data_of_dependents(
    table: TensorVariable,
    dependents: Sequence[TensorVariable],
    model: pm.Model,
    known: Mapping[TensorVariable, list[CellFactor]] = MappingProxyType({}),
) -> DataOfDependents | None:
    """Return the log density by cell of the observed dependents of a table, or None without such dependents."""
    shape = table.owner.op.start.shape
    counts = pt.tensor("counts", dtype=table.dtype, shape=(None, *shape))
    one = model.rvs_to_values[table] if table in model.free_RVs else table.type()
    terms = []
    for var in observed_among(dependents, model):
        factors = known.get(var) or factors_of_variable(var, table, one, model, shape)
        for factor in factors if isinstance(factors, list) else []:
            term = factor.by_cell(counts)
            if isinstance(term, float):
                continue
            leaves = set(graph_inputs([term]))
            drawn = drawn_for(model, [rv for rv in model.free_RVs if model.rvs_to_values[rv] in leaves])
            (term,) = graph_replace([term], drawn, strict=False)
            if not any(x.owner and isinstance(x.owner.op, ConfidentialRV) for x in ancestors([term])):
                terms.append(term)
    return DataOfDependents(counts, sum(terms[1:], start=terms[0])) if terms else None


def windows_are_stale(table: TensorVariable, model: pm.Model) -> bool:
    """Return whether data differ from those from which the windows of a table were computed."""
    return table.owner.op.data_digest != _digest_of(_leaves(table, model, dependents_of(table, model)))


def note_data(table: TensorVariable, model: pm.Model, dependents: Sequence[TensorVariable] | None = None) -> None:
    """Store the data from which the windows of a table were computed."""
    law = table.owner.op
    dependents = dependents_of(table, model) if dependents is None else dependents
    law.data_digest = _digest_of(_leaves(table, model, dependents))
    data = [leaf for leaf in data_of(_leaves(table, model)) if not getattr(leaf.tag, "is_constant", False)]
    law.unchanged = [equals(leaf, np.asarray(leaf.get_value())) for leaf in data]


def _leaves(table: TensorVariable, model: pm.Model, dependents: Sequence[TensorVariable] = ()) -> list[Variable]:
    """Return the inputs on which a table depends, in the same order for copies of a model."""
    given = [x for x in table.owner.inputs if not isinstance(x.type, RandomType)]
    given += observed_among(dependents, model) if dependents else []
    above = set(ancestors(given))
    values = [value for rv, value in model.rvs_to_values.items() if rv in above and rv not in model.free_RVs]
    return list(graph_inputs([*given, *values]))


def digest_of_model(model: pm.Model) -> bytes:
    """Return a digest of all constants and data of a model."""
    observed = [value for rv, value in model.rvs_to_values.items() if rv not in model.free_RVs]
    return _digest_of(graph_inputs([*model.basic_RVs, *model.potentials, *observed]))


def _digest_of(leaves: Iterable[Variable]) -> bytes:
    digest = hashlib.sha256()
    for leaf in leaves:
        values = leaf.get_value(borrow=True) if isinstance(leaf, SharedVariable) else getattr(leaf, "data", None)
        if isinstance(values, np.ndarray | np.generic):
            digest.update(f"{values.shape} {values.dtype}".encode() + values.tobytes())
    return digest.digest()
