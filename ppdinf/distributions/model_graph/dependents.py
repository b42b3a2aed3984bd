"""What else in a model depends on its confidential tables, and what that tells about them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pymc as pm

from ppdinf._internal.pymc_compat import (
    TensorVariable,
    Variable,
    ancestors,
    replace_rvs_by_values,
    transformed_conditional_logp,
)
from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.distributions.densities.factors import Factor, factors_in
from ppdinf.distributions.densities.released_rv import ReleasedRV
from ppdinf.distributions.model_graph.marginal_rewrite import table_of

__all__ = [
    "Table",
    "all_above",
    "dependents_of",
    "depends_on",
    "drawn_for",
    "factors_of",
    "factors_of_one",
    "tables_of",
]


@dataclass(frozen=True)
class Table:
    """A confidential table of a model.

    Attributes
    ----------
    name : str
    variable : TensorVariable
        The table; a variable of the model only where it is not summed out.
    released : TensorVariable
        The observed release.
    is_summed_out : bool
    """

    name: str
    variable: TensorVariable
    released: TensorVariable
    is_summed_out: bool

    @property
    def law(self) -> ConfidentialRV:
        """The table's law: data model, release, windows and moves."""
        return self.variable.owner.op


def tables_of(model: pm.Model) -> list[Table]:
    """Find the confidential tables of a model, in the order in which they were added.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release=release)
    >>> [(table.name, table.is_summed_out) for table in tables_of(model)]
    [('counts', True)]
    """
    found = []
    for released in model.observed_RVs:
        if isinstance(released.owner.op, ReleasedRV):
            table = table_of(released)
            if table.owner is not None and isinstance(table.owner.op, ConfidentialRV):
                found.append(Table(table.name, table, released, table not in model.basic_RVs))
    return found


def depends_on(var: TensorVariable, table: TensorVariable, model: pm.Model) -> bool:
    """Tell whether a variable or expression depends on a table given all other variables, other than as its release."""
    if var is table or var.owner is None or (isinstance(var.owner.op, ReleasedRV) and table_of(var) is table):
        return False
    return table in all_above(var, model)


def all_above(var: TensorVariable, model: pm.Model) -> set[Variable]:
    """All that a variable depends on given the model's other variables."""
    return set(ancestors([var], blockers=[rv for rv in model.basic_RVs if rv is not var]))


def factors_of_one(
    var: TensorVariable, table: TensorVariable, counts: TensorVariable, model: pm.Model, shape: tuple[int, ...]
) -> list[Factor] | TensorVariable:
    """State what a variable or potential tells about a table that it depends on, given the values of all others.

    Parameters
    ----------
    var : TensorVariable
        A random variable or potential of `model`.
    table : TensorVariable
    counts : TensorVariable
        Stands for the counts of the table.
    model : pymc.Model
    shape : tuple of int
        Of the table.

    Returns
    -------
    list of Factor or TensorVariable
        Functions of the model's value variables: by cells where every element looks at one, else the log density.
    """
    values = {**model.rvs_to_values, table: counts}
    transforms = {**model.rvs_to_transforms, table: None}
    if var in model.potentials:
        (density,) = replace_rvs_by_values([var], rvs_to_values=values, rvs_to_transforms=transforms)
    else:
        (density,) = transformed_conditional_logp(
            rvs=[var], rvs_to_values=values, rvs_to_transforms=transforms, jacobian=False
        )
    found = factors_in(density, counts, shape)
    return density if found is None else found


def dependents_of(table: TensorVariable, model: pm.Model) -> list[TensorVariable]:
    """List the random variables and potentials that depend on a table given all others, besides its release."""
    return [var for var in (*model.basic_RVs, *model.potentials) if depends_on(var, table, model)]


def factors_of(
    table: TensorVariable,
    model: pm.Model,
    shape: tuple[int, ...] | None = None,
    known: Collection[TensorVariable] = (),
) -> tuple[list[Factor], list[TensorVariable]]:
    """State what all that depends on a table of a model tells about it, besides its release.

    Parameters
    ----------
    table : TensorVariable
    model : pymc.Model
    shape : tuple of int, optional
        Of the table, where that is no confidential one.
    known : collection of TensorVariable
        Dependents that are left out.

    Returns
    -------
    by_cell : list of Factor
    of_all : list of TensorVariable
        Log densities, functions of the model's value variables.
    """
    counts = model.rvs_to_values[table] if table in model.free_RVs else table.type()
    shape = table.owner.op.start.shape if shape is None else shape
    left = [var for var in dependents_of(table, model) if not any(var is other for other in known)]
    found = [factors_of_one(var, table, counts, model, tuple(map(int, shape))) for var in left]
    by_cell = [factor for factors in found if isinstance(factors, list) for factor in factors]
    return by_cell, [density for density in found if not isinstance(density, list)]


def drawn_for(model: pm.Model, rvs: list[TensorVariable]) -> dict[Variable, TensorVariable]:
    """Value variables of random variables, each with what it is of its variable: the inverse of taking densities."""
    found = {}
    for rv in rvs:
        transform = model.rvs_to_transforms[rv]
        found[model.rvs_to_values[rv]] = rv if transform is None else transform.forward(rv, *rv.owner.inputs)
    return found
