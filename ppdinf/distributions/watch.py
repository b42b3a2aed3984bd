"""What is added to a model while one of its tables is summed out.

A table that is summed out is no variable of its model. Users may go on to write variables that depend on it, and they
do so after `PartiallyPrivate` has returned. So the model watches what is added to it: random variables whose densities
look at one cell each are summed out with the table, and so are potentials that are sums of such terms; anything else
that looks at it (a total as a regressor, a deterministic share) makes it a variable of the model, or is refused where
it has to be summed out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm

from ppdinf._pymc_internals import MeasurableOp, TensorVariable
from ppdinf.distributions.confidential import ConfidentialRV
from ppdinf.distributions.dependents import all_above, factors_of_one, looks_at, tables_of
from ppdinf.distributions.layout import at_initial_point, feasible_start
from ppdinf.distributions.released import ReleasedRV
from ppdinf.distributions.summed_out import not_by_cell
from ppdinf.distributions.told import told
from ppdinf.errors import ModelError

__all__ = ["restart", "settle", "watch"]

type Dims = str | Sequence[str | None]


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

    def __init__(self, model: pm.Model, table: TensorVariable, promote: Callable[[], object] | None) -> None:
        self.model, self.add, self.table, self.promote = model, model.add_named_variable, table, promote
        self.name = table.name
        self.told: list[TensorVariable] = []  # what is observed of the table besides its release
        model.add_named_variable = self
        self.enter = model.named_vars.__setitem__
        model.named_vars.__setitem__ = self.within  # where models within this one hand on what they name

    def __call__(self, var: TensorVariable, dims: Dims | None = None) -> None:
        """Add a variable."""
        if var is not self.table and var.name == self.table.name:
            raise ModelError(f"{var.name!r} is the name of the confidential table: choose another")
        if var is self.table and var in self.model.potentials:
            name, var.name = var.name, self.name
            self.model.potentials.remove(var)
            raise ModelError(f"the potential {name!r} is the confidential table itself: write it as 1 * table")
        if self._look(var) and var in self.model.potentials:
            self._observe(var, dims)
            return
        self.add(var, dims)
        self._tell(var)

    def within(self, name: str, var: TensorVariable) -> None:
        """Name a variable of a model within this one, made after the table."""
        if self._look(var) and var in self.model.potentials:
            self.settle(var.name)
        self.enter(name, var)
        self._tell(var)

    def _look(self, var: TensorVariable) -> bool:
        """Tell whether a variable looks at a summed-out table cell by cell; others that look make it a variable."""
        if not (self.waits and looks_at(var, self.table, self.model)):
            return False
        by_cell = _is_by_cell(var, self.table, self.model)
        if not by_cell:
            self.settle(var.name)
        return by_cell

    def _tell(self, var: TensorVariable) -> None:
        """Note what was observed of the table."""
        depends = looks_at(var, self.table, self.model)
        is_density = var in self.model.potentials or (depends and isinstance(var.owner.op, MeasurableOp))
        if depends and is_density and var not in self.model.free_RVs:
            self.told.append(var)
            if not self.waits:
                restart(self.table, self.told, self.model)

    def _observe(self, potential: TensorVariable, dims: Dims | None) -> None:
        """Have a random variable stand for a potential by cell."""
        model, static = self.model, potential.type.shape
        while model is not None:
            model.potentials.remove(potential)
            model = model.parent
        shape = static if None not in static else tuple(potential.shape.eval())
        name, named = self.model.name_of(potential.name), (dims,) if isinstance(dims, str) else dims
        self.model.register_rv(told(1 * potential), name, observed=np.zeros(shape), dims=named)

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


def watch(model: pm.Model, table: TensorVariable, promote: Callable[[], object] | None) -> None:
    """Watch a model, and the ones that it is part of: arguments as for `Watch`."""
    while model is not None:
        Watch(model, table, promote)
        model = model.parent


def settle(model: pm.Model, expression: TensorVariable, name: str) -> list[str]:
    """Make the tables that an expression depends on variables of the model; return the names of all it depends on."""
    watched = model.add_named_variable
    while isinstance(watched, Watch):
        if watched.waits and looks_at(expression, watched.table, model):
            watched.settle(name)
        watched = watched.add
    return [table.name for table in tables_of(model) if looks_at(expression, table.variable, model)]


def restart(
    table: TensorVariable, told: list[TensorVariable], model: pm.Model, of: TensorVariable | None = None
) -> None:
    """Let the chains of a table start where all that is observed of it cell by cell is possible.

    What was observed of another variable, which the table stands for, is given as `of`.

    Raises
    ------
    InvariantError
        No such table agrees with what is public.
    """
    law, of = table.owner.op, table if of is None else of
    found = [factors_of_one(var, of, model.rvs_to_values[of], model, law.start.shape) for var in told]
    factors = [factor for factors in found if isinstance(factors, list) for factor in factors]
    allowed = np.isfinite(at_initial_point(model, law.weights(table.owner.inputs, factors)))
    law.start = feasible_start(law.fiber, allowed, law.observed)


def _is_by_cell(var: TensorVariable, table: TensorVariable, model: pm.Model) -> bool:
    """Tell whether the elements of a variable's density look at one cell each, so that a table is summed out with it.

    What looks at two tables is told to the steps of both, so that neither can be summed out. The value of a transformed
    variable comes back by way of bounds that may depend on the table.
    """
    op = var.owner.op
    is_drawn = isinstance(op, MeasurableOp) and not isinstance(op, ConfidentialRV | ReleasedRV)
    if not (is_drawn or var in model.potentials):
        return False
    if model.rvs_to_transforms.get(var) is not None or _tables_above(var, model) != {table}:
        return False
    try:
        return isinstance(factors_of_one(var, table, table.type(), model, table.owner.op.start.shape), list)
    except (NotImplementedError, RuntimeError):  # no density of its own, as for one part of a masked variable
        return False


def _tables_above(var: TensorVariable, model: pm.Model) -> set[TensorVariable]:
    """Tables that a variable depends on given the model's other variables."""
    return {x for x in all_above(var, model) if x.owner and isinstance(x.owner.op, ConfidentialRV)}
