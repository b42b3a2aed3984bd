"""What else in a model depends on its confidential tables, and what that makes of them.

A table that is summed out is no variable of its model. Users may go on to write variables that depend on it, and they
do so after `PartiallyPrivate` has returned. So the model watches what is added to it: random variables whose densities
look at one cell each are summed out with the table, and so are potentials that are sums of such terms; anything else
that looks at it (a total as a regressor, a deterministic share) makes it a variable of the model, or is refused where
it has to be summed out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._pymc_internals import (
    MeasurableOp,
    TensorVariable,
    ancestors,
    replace_rvs_by_values,
    transformed_conditional_logp,
)
from ppdinf.distributions.confidential import ConfidentialRV
from ppdinf.distributions.factors import Factor, cells_of, elements
from ppdinf.distributions.layout import at_initial_point, feasible_start
from ppdinf.distributions.released import ReleasedRV
from ppdinf.distributions.summed_out import not_by_cell, table_of
from ppdinf.distributions.told import told
from ppdinf.errors import ModelError

__all__ = ["Table", "dependents_of", "drawn_for", "factors_of", "settle", "tables_of", "watch"]


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
    variable: Any
    released: Any
    is_summed_out: bool

    @property
    def law(self) -> ConfidentialRV:
        """The table's law: data model, release, windows and moves."""
        return self.variable.owner.op


def tables_of(model: pm.Model) -> list[Table]:
    """Find the confidential tables of a model, in the order in which they were added.

    Examples
    --------
    >>> import ppdinf as ppd
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
            found.append(Table(table.name, table, released, table not in model.free_RVs))
    return found


class Watch:
    """Look at every variable that is added to a model, for what it makes of a table that is summed out.

    Stands for the method `pymc.Model.add_named_variable`, by way of which PyMC names whatever enters a model.

    Parameters
    ----------
    model : pymc.Model
    table : TensorVariable
        Not yet a variable of the model.
    promote : callable, optional
        Makes it one. None where it has to be summed out.
    """

    def __init__(self, model: pm.Model, table: Any, promote: Callable[[], Any] | None) -> None:
        self.model, self.add, self.table, self.promote = model, model.add_named_variable, table, promote
        self.name = table.name
        self.told: list[Any] = []  # what is observed of the table besides its release
        model.add_named_variable = self
        self.enter = model.named_vars.__setitem__
        model.named_vars.__setitem__ = self.within  # where models within this one hand on what they name

    def __call__(self, var: Any, dims: Any = None) -> None:
        """Add a variable."""
        if var is not self.table and var.name == self.table.name:
            raise ModelError(f"{var.name!r} is the name of the confidential table: choose another")
        if var is self.table and var in self.model.potentials:
            name, var.name = var.name, self.name
            self.model.potentials.remove(var)
            raise ModelError(f"the potential {name!r} is the confidential table itself: write it as 1 * table")
        known = self._look(var)
        if known is not None and var in self.model.potentials:
            self._observe(var, known.shape, dims)
            return
        self.add(var, dims)
        self._tell(var)

    def within(self, name: str, var: Any) -> None:
        """Name a variable of a model within this one, made after the table."""
        if self._look(var) is not None and var in self.model.potentials:
            self.settle(var.name)
        self.enter(name, var)
        self._tell(var)

    def _look(self, var: Any) -> NDArray[np.int64] | None:
        """Find the cells that a dependent of a summed-out table looks at; others make the table a variable."""
        if not (self.waits and looks_at(var, self.table, self.model)):
            return None
        known = _cells_of(var, self.table, self.model)
        if known is None:
            self.settle(var.name)
        else:
            self.table.owner.op.cells[var.name] = known
        return known

    def _tell(self, var: Any) -> None:
        """Note what was observed of the table."""
        depends = looks_at(var, self.table, self.model)
        is_density = var in self.model.potentials or (depends and isinstance(var.owner.op, MeasurableOp))
        if depends and is_density and var not in self.model.free_RVs:
            self.told.append(var)
            if not self.waits:
                restart(self.table, self.told, self.model)

    def _observe(self, potential: Any, shape: tuple[int, ...], dims: Any) -> None:
        """Have a random variable stand for a potential by cell."""
        model, density = self.model, elements(potential, self.table)
        while model is not None:
            model.potentials.remove(potential)
            model = model.parent
        name = self.model.name_of(potential.name)
        named = None if density is not potential else (dims,) if isinstance(dims, str) else dims
        self.model.register_rv(told(density), name, observed=np.zeros(shape), dims=named)

    @property
    def waits(self) -> bool:
        """Whether the table is no variable of the model."""
        return self.table not in self.model.free_RVs

    def settle(self, name: str) -> None:
        """Make the table a variable of the model, for what depends on it."""
        if self.promote is None:
            raise not_by_cell(name, self.table.name)
        self.promote()
        restart(self.table, self.told, self.model)


def watch(model: pm.Model, table: Any, promote: Callable[[], Any] | None) -> None:
    """Watch a model, and the ones that it is part of: arguments as for `Watch`."""
    while model is not None:
        Watch(model, table, promote)
        model = model.parent


def settle(model: pm.Model, expression: Any, name: str) -> list[str]:
    """Make the tables that an expression depends on variables of the model; return the names of all it depends on."""
    watched = model.add_named_variable
    while isinstance(watched, Watch):
        if watched.waits and looks_at(expression, watched.table, model):
            watched.settle(name)
        watched = watched.add
    return [table.name for table in tables_of(model) if looks_at(expression, table.variable, model)]


def restart(table: Any, told: list[Any], model: pm.Model, of: Any = None) -> None:
    """Let the chains of a table start where all that is observed of it cell by cell is possible.

    What was observed of another variable, which the table stands for, is given as `of`.

    Raises
    ------
    InvariantError
        No such table agrees with what is public.
    """
    law, of = table.owner.op, table if of is None else of
    factors = [factor_of(var, of, model.rvs_to_values[of], model, law.start.shape) for var in told]
    weights = law.weights(table.owner.inputs, [factor for factor in factors if isinstance(factor, Factor)])
    allowed = np.isfinite(at_initial_point(model, weights))
    law.start = feasible_start(law.fiber, allowed, law.observed)


def looks_at(var: Any, table: Any, model: pm.Model) -> bool:
    """Tell whether a variable or expression depends on a table given all other variables, other than as its release."""
    if var is table or var.owner is None or (isinstance(var.owner.op, ReleasedRV) and table_of(var) is table):
        return False
    return table in _above(var, model)


def _cells_of(var: Any, table: Any, model: pm.Model) -> NDArray[np.int64] | None:
    """Cells that the elements of a random variable's density look at; None for one that cannot be summed out with them.

    What looks at two tables is told to the steps of both, so that neither can be summed out. The value of a transformed
    variable comes back by way of bounds that may depend on the table.
    """
    op = var.owner.op
    is_drawn = isinstance(op, MeasurableOp) and not isinstance(op, ConfidentialRV | ReleasedRV)
    if not (is_drawn or var in model.potentials):
        return None
    if model.rvs_to_transforms.get(var) is not None or _tables_above(var, model) != {table}:
        return None
    try:
        found = factor_of(var, table, table.type(), model, table.owner.op.start.shape)
    except (NotImplementedError, RuntimeError):  # no density of its own, as for one part of a masked variable
        return None
    return None if isinstance(found, TensorVariable) else found.cells


def _above(var: Any, model: pm.Model) -> set[Any]:
    """All that a variable depends on given the model's other variables."""
    return set(ancestors([var], blockers=[rv for rv in model.basic_RVs if rv is not var]))


def _tables_above(var: Any, model: pm.Model) -> set[Any]:
    """Tables that a variable depends on given the model's other variables."""
    return {x for x in _above(var, model) if x.owner and isinstance(x.owner.op, ConfidentialRV)}


def factor_of(var: Any, table: Any, counts: Any, model: pm.Model, shape: tuple[int, ...]) -> Factor | Any:
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
    Factor or TensorVariable
        A function of the model's value variables: by cells where every element looks at one, else its log density.
    """
    values = {**model.rvs_to_values, table: counts}
    transforms = {**model.rvs_to_transforms, table: None}
    if var in model.potentials:
        (density,) = replace_rvs_by_values([var], rvs_to_values=values, rvs_to_transforms=transforms)
    else:
        (density,) = transformed_conditional_logp(
            rvs=[var], rvs_to_values=values, rvs_to_transforms=transforms, jacobian=False
        )
    density = elements(density, counts)

    def given() -> dict[Any, Any]:
        for rv in model.free_RVs:  # one that is just being added has no start of its own yet
            model.rvs_to_initial_values.setdefault(rv, None)
        point = model.initial_point()
        return {**{x: pt.constant(point[x.name]) for x in model.value_vars}, counts: pt.ones(shape, dtype=counts.dtype)}

    cells = cells_of(density, counts, shape, cache(given))
    return density if cells is None else Factor(density, counts, math.prod(shape), cells)


def dependents_of(table: Any, model: pm.Model) -> list[Any]:
    """List the random variables and potentials that depend on a table given all others, besides its release."""
    return [var for var in (*model.basic_RVs, *model.potentials) if looks_at(var, table, model)]


def factors_of(
    table: Any, model: pm.Model, shape: tuple[int, ...] | None = None, known: Collection[Any] = ()
) -> tuple[list[Factor], list[Any]]:
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
    found = [factor_of(var, table, counts, model, tuple(map(int, shape))) for var in left]
    return [x for x in found if isinstance(x, Factor)], [x for x in found if not isinstance(x, Factor)]


def drawn_for(model: pm.Model, rvs: list[Any]) -> dict[Any, Any]:
    """Value variables of random variables, each with what it is of its variable: the inverse of taking densities."""
    found = {}
    for rv in rvs:
        transform = model.rvs_to_transforms[rv]
        found[model.rvs_to_values[rv]] = rv if transform is None else transform.forward(rv, *rv.owner.inputs)
    return found
