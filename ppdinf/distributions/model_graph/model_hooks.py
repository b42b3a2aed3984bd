"""What is added to a model while one of its tables is summed out.

A table that is summed out is no variable of its model. Users may go on to write variables that depend on it, and they
do so after `PartiallyPrivate` has returned. So every variable that a model names is looked at first: random variables
whose densities look at one cell each are summed out with the table, and so are potentials that are sums of such terms;
anything else that looks at it (a total as a regressor, a deterministic share) makes it a variable of the model, or is
refused where it has to be summed out. Which tables wait is read from the graph, so that copies of a model, and models
within it, are no exception.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pymc as pm

from ppdinf._internal.pymc_compat import MeasurableOp, TensorVariable, ancestors
from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.distributions.densities.factors import Factor, read_cells
from ppdinf.distributions.densities.released_rv import ReleasedRV
from ppdinf.distributions.model_graph.build_fiber import at_initial_point, feasible_start, give_windows
from ppdinf.distributions.model_graph.dependents import all_above, dependents_of, depends_on, factors_of_one, tables_of
from ppdinf.distributions.model_graph.marginal_rewrite import not_by_cell
from ppdinf.distributions.model_graph.observed_potential import told
from ppdinf.distributions.observation.table_moves import with_support
from ppdinf.errors import ModelError

__all__ = ["restart", "restart_among", "restart_by_data", "settle"]

type Dims = str | Sequence[str | None]

_add = pm.Model.add_named_variable


def _add_named_variable(model: pm.Model, var: TensorVariable, dims: Dims | None = None) -> None:
    """Add a variable to a model, once it is settled what becomes of the tables that it depends on.

    Stands for the method `pymc.Model.add_named_variable`, by way of which PyMC names whatever enters a model.
    """
    root = model.root
    above = [table for table in _tables_above(var, root) if depends_on(var, table, root)]
    try:
        _refuse_as_a_table(var, root)
        is_told = _settle(var, above, model)
    except ModelError:
        if var in root.potentials:
            _withdraw(var, model)
        raise
    if is_told:
        _observe(var, model, dims)
        return
    _add(model, var, dims)
    if var in root.potentials or isinstance(var.owner and var.owner.op, MeasurableOp):
        for table in above:
            restart_among(table, list(dict.fromkeys([*dependents_of(table, root), var])), root)


pm.Model.add_named_variable = _add_named_variable


def settle(model: pm.Model, expression: TensorVariable, name: str) -> list[str]:
    """Make the tables that an expression depends on variables of the model; return the names of all it depends on."""
    root = model.root
    for table in _tables_above(expression, root):
        if table not in root.basic_RVs:
            _make_variable(table, model, name)
    return [table.name for table in tables_of(root) if depends_on(expression, table.variable, root)]


def _settle(var: TensorVariable, above: list[TensorVariable], model: pm.Model) -> bool:
    """Make tables that something depends on variables where needed; tell whether it is a potential by cell of one."""
    root = model.root
    waiting = [table for table in above if table not in root.basic_RVs]
    if not waiting:
        return False
    is_potential = var in root.potentials
    factors = _factors_by_cell(var, above[0], root) if len(above) == 1 else None
    by_cell = factors is not None
    if is_potential or not by_cell:
        _refuse_of_another(var, waiting, root)
    if is_potential and _home(waiting[0], model) is not model:  # the potential of a model within stays there
        by_cell = False
    if factors is None or not by_cell:
        for table in waiting:
            _make_variable(table, model, var.name)
    else:
        give_windows(above[0], read_cells(factors, [], above[0].owner.op.start.size), root)
    return is_potential and by_cell


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
    counts = model.rvs_to_values[of] if of in model.basic_RVs else of.type()
    found = [factors_of_one(var, of, counts, model, law.start.shape) for var in told]
    by_cell = [factor for factors in found if isinstance(factors, list) for factor in factors]
    of_all = [density for density in found if not isinstance(density, list)]
    give_windows(table, read_cells(by_cell, of_all, law.start.size), model)
    allowed = np.isfinite(at_initial_point(model, law.weights(table.owner.inputs, by_cell)))
    law.fiber = with_support(law.fiber, law.observed, allowed)
    law.start = feasible_start(law.fiber, allowed, law.observed)


def restart_among(table: TensorVariable, depending: list[TensorVariable], model: pm.Model) -> None:
    """Restart a table for what was observed among its dependents, if chains start from the table.

    Raises
    ------
    InvariantError
        As for `restart`.
    """
    told = [x for x in depending if x not in model.free_RVs]
    if told and any(x in model.free_RVs for x in (table, *depending)):
        restart(table, told, model)


def restart_by_data(table: TensorVariable, model: pm.Model) -> None:
    """Let the chains of a table start where what is observed of it is possible, if that can change.

    Raises
    ------
    InvariantError
        As for `restart`.
    """
    told = _told_of(table, model)
    data = set(model.data_vars)
    if data & set(ancestors([*told, *(model.rvs_to_values[var] for var in told if var in model.observed_RVs)])):
        restart(table, told, model)


def _told_of(table: TensorVariable, model: pm.Model) -> list[TensorVariable]:
    """List what is observed of a table besides its release."""
    return [var for var in dependents_of(table, model) if var not in model.free_RVs]


def _make_variable(table: TensorVariable, model: pm.Model, name: str) -> None:
    """Make a table a variable of the model, or of the one within which it was made, for what depends on it."""
    law = table.owner.op
    if law.is_kept_out:
        raise not_by_cell(name, table.name)
    home = _home(table, model)
    home.register_rv(table, home.name_of(table.name), dims=law.dims)
    if told := _told_of(table, model.root):
        restart(table, told, model.root)


def _home(table: TensorVariable, model: pm.Model) -> pm.Model:
    """Model that a table was made in: a model or one that it is part of."""
    while model.prefix and not table.name.startswith(f"{model.prefix}::"):
        model = model.parent
    return model


def _observe(potential: TensorVariable, model: pm.Model, dims: Dims | None) -> None:
    """Have a random variable stand for a potential by cell."""
    shape = potential.type.shape if None not in potential.type.shape else tuple(potential.shape.eval())
    _withdraw(potential, model)
    name = model.name_of(potential.name)
    named = (dims,) if isinstance(dims, str) else dims
    model.register_rv(told(1 * potential), name, observed=np.zeros(shape), dims=named)


def _withdraw(potential: TensorVariable, model: pm.Model | None) -> None:
    """Take a potential out of a model and those that it is part of."""
    while model is not None:
        model.potentials.remove(potential)
        model = model.parent


def _refuse_as_a_table(var: TensorVariable, model: pm.Model) -> None:
    """Refuse the name of a table that is summed out, and a potential that is a table itself."""
    for table in tables_of(model):
        name = table.released.name.removesuffix("_release")
        if var is table.variable and var in model.potentials:
            called, var.name = var.name, name
            raise ModelError(f"the potential {called!r} is the confidential table itself: write it as 1 * table")
        if var is not table.variable and var.name == name:
            raise ModelError(f"{var.name!r} is the name of the confidential table: choose another")


def _refuse_of_another(var: TensorVariable, waiting: list[TensorVariable], model: pm.Model) -> None:
    """Refuse what depends on a table of another model, such as the one of which this is a copy."""
    own = [table.variable for table in tables_of(model)]
    for table in waiting:
        if table not in own:
            raise ModelError(
                f"{var.name!r} depends on the confidential table {table.name!r} of another model, which is summed out "
                "there: write it before the model is copied, or give the table marginalize=False and take that of "
                f"the copy, model[{table.name!r}]"
            )


def _factors_by_cell(var: TensorVariable, table: TensorVariable, model: pm.Model) -> list[Factor] | None:
    """Return the density of a variable by cell, with which a table is marginalized; None where there is none.

    The value of a transformed variable comes back by way of bounds that may depend on the table: so that of the
    variable itself, and those of others between the two.
    """
    if var not in model.potentials and not isinstance(var.owner.op, MeasurableOp):
        return None
    if isinstance(var.owner.op, ConfidentialRV | ReleasedRV):
        return None
    transformed = [x for x in all_above(var, model) if model.rvs_to_transforms.get(x) is not None]
    if any(table in ancestors([x]) for x in transformed):
        return None
    try:
        found = factors_of_one(var, table, table.type(), model, table.owner.op.start.shape)
    except (NotImplementedError, RuntimeError):  # no density of its own, as for one part of a masked variable
        return None
    return found if isinstance(found, list) else None


def _tables_above(var: TensorVariable, model: pm.Model) -> list[TensorVariable]:
    """Tables that a variable depends on given the model's other variables."""
    return [x for x in all_above(var, model) if x.owner and isinstance(x.owner.op, ConfidentialRV)]
