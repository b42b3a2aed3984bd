"""Decide whether a table is marginalized: when it is created, and whenever a variable is added to its model.

A new table is marginalized if everything published about it splits the cells (`why_not_marginalizable`) and its
distribution depends on no other table (`is_marginalized`). Random variables and potentials that are added later, whose
densities each depend on a single cell, are marginalized jointly with the table. Any other dependent makes the table a
variable of the model, or is refused if the table must be marginalized. Marginalized tables are identified from the
graph, so the checks also work in copies of a model and in nested models.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from ppdinf._internal import pymc_patches
from ppdinf._internal.pymc_compat import (
    DiracDeltaRV,
    Elemwise,
    MeasurableOp,
    PartialObservedRV,
    TensorVariable,
    TrueDiv,
    ancestors,
    toposort,
)
from ppdinf.distributions.build_fiber import feasible_start, give_windows, widen_windows, with_support
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.distributions.data_models import at_initial_point, elementwise, log_density
from ppdinf.distributions.factors import CellFactor, cell_indices, factors_in, read_cells, with_exact_sums
from ppdinf.distributions.linked_tables import why_not_linked
from ppdinf.distributions.marginal_rewrite import not_by_cell
from ppdinf.distributions.observed import Observed
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.distributions.published_ranges import possible_counts
from ppdinf.distributions.random_variables import ReleasedRV, observed_potential, table_of
from ppdinf.distributions.tables import (
    all_above,
    dependents_of,
    depends_on,
    factors_of_variable,
    has_tables,
    observed_among,
    tables_above,
    tables_of,
)
from ppdinf.distributions.tied_cells import TiedCells
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.lattice.rows import Rows


def why_not_marginalizable(observed: Observed) -> str:
    """Return the reason why published numbers do not permit the marginalization of their table, or an empty string."""
    if isinstance(observed, ObservedMeasurements):
        if observed.forest is not None or TiedCells.of(observed) is not None:
            return ""
        if not observed.of_sums.are_independent:
            return "l2 noise of several numbers is not independent"
        return "noisy and exact sums cross each other" if observed.of_sums.y.size else observed.crossing()
    likelihood = observed.likelihood
    if likelihood.norm is not None:
        return "the noise is not independent between cells"
    if likelihood.histogram is not None:
        return "noisy sums of the histogram of counts were published with the table"
    if likelihood.of_table is not None:
        return "the probability of the release depends on the complete table"
    crossing = observed.crossing() if TiedCells.of(observed) is None else ""
    if likelihood.normaliser is not None and not crossing.startswith("public sums"):
        return "the normalizing constant of the noise depends on the table"
    return crossing


def why_sampled(table: TensorVariable, model: pm.Model) -> str:
    """Return why a table is a variable of its model, or an empty string if it need not be one."""
    law, tables = table.owner.op, [other.variable for other in tables_of(model)]
    above = [other for other in tables if depends_on(table, other, model)]
    unlinked = above and why_not_linked(law.dist(table.owner.inputs), above, law.observed)
    if reason := why_not_marginalizable(law.observed) or (unlinked and f"it depends on {above[0].name!r}, {unlinked}"):
        return f"because {reason}"
    for var in (*dependents_of(table, model), *model.deterministics):
        by_cell = not why_sampled(var, model) if var in tables else _factors_by_cell(var, table, model) is not None
        if depends_on(var, table, model) and not by_cell:
            return f"because of {var.name!r}"
    return ""


def is_marginalized(
    requested: bool | str, observed: Observed, base: TensorVariable, model: pm.Model, name: str
) -> bool:
    """Decide whether a new table is marginalized; tables on which its distribution depends become variables."""
    reason, above = why_not_marginalizable(observed), tables_above(base, model.root)
    others = [table.name for table in tables_of(model.root) if depends_on(base, table.variable, model.root)]
    if others and not reason:
        unlinked = why_not_linked(base, above, observed)
        if requested and not unlinked:
            return True
        reason = f"its distribution depends on the table {others[0]!r}, {unlinked}"
    if reason and (requested is True or any(table.owner.op.is_kept_out for table in above)):
        raise ModelError(f"the confidential table cannot be marginalized: {reason}; use marginalize='auto'")
    for table in above:
        if table not in model.root.basic_RVs:  # became one with a table that depends on it
            _make_variable(table, model, name)
    return bool(requested) and not reason


type Dims = str | Sequence[str | None]


def _depends_on_tables(model: pm.Model, var: TensorVariable, dims: Dims | None = None) -> bool:
    """Return whether a new variable depends on a table, or may have the name of one."""
    above = ancestors([var])
    return has_tables(model) or any(x.owner and isinstance(x.owner.op, ConfidentialRV) for x in above)


def _add_named_variable(
    add: Callable[..., None], model: pm.Model, var: TensorVariable, dims: Dims | None = None
) -> None:
    """Add a variable to a model, after deciding how the tables on which it depends are treated."""
    root = model.root
    if isinstance(var.owner and var.owner.op, ReleasedRV):  # of a table that is being created
        _refuse_as_a_table(var, root)
        add(model, var, dims)
        for table in tables_above(table_of(var), root):
            widen_windows(table, dependents_of(table, root), root, {})
        return
    tables = [x for x in all_above(var, root) if x.owner and isinstance(x.owner.op, ConfidentialRV)]
    above = [table for table in tables if depends_on(var, table, root)]
    try:
        _refuse_as_a_table(var, root)
        _refuse_sum_of_cells(var, above, root)
        is_observed, factors = _marginalize_or_add(var, above, model)
    except ModelError:
        if var in root.potentials:
            _withdraw(var, model)
        raise
    if is_observed:
        shape = var.type.shape if None not in var.type.shape else tuple(var.shape.eval())
        _withdraw(var, model)
        name = model.name_of(var.name)
        named = (dims,) if isinstance(dims, str) else dims
        model.register_rv(observed_potential(1 * var), name, observed=np.zeros(shape), dims=named)
        return
    add(model, var, dims)
    if var in root.potentials or isinstance(var.owner and var.owner.op, MeasurableOp):
        for table in above:
            dependents = list(dict.fromkeys([*dependents_of(table, root), var]))
            if var not in root.free_RVs:
                widen_windows(table, dependents, root, {var: factors} if factors else {})
            restart_among(table, dependents, root)


pymc_patches.replace("add_named_variable", _add_named_variable, _depends_on_tables)


def _marginalize_or_add(
    var: TensorVariable, above: list[TensorVariable], model: pm.Model
) -> tuple[bool, list[CellFactor] | None]:
    """Make tables variables where required."""
    root = model.root
    waiting = [table for table in above if table not in root.basic_RVs]
    if not waiting:
        return False, None
    is_potential = var in root.potentials
    factors = _factors_by_cell(var, above[0], root) if len(above) == 1 else None
    by_cell = factors is not None
    if is_potential or not by_cell:
        _refuse_of_another(var, waiting, root)
    if is_potential and _home(waiting[0], model) is not model:  # the potential of a nested model stays there
        by_cell = False
    if factors is None or not by_cell:
        for table in waiting:
            if table in root.basic_RVs:  # became one with a table that depends on it
                continue
            remedy = _remedy(var, table, root)
            _make_variable(table, model, var.name, remedy)
            if remedy:
                warnings.warn(
                    f"{table.name!r} is sampled instead of marginalized, because of {var.name!r}: {remedy}",
                    DiagnosisWarning,
                    stacklevel=8,
                )
    else:
        give_windows(above[0], read_cells(factors, [], above[0].owner.op.start.size), root)
    return is_potential and by_cell, factors


def restart(
    table: TensorVariable,
    observed: list[TensorVariable],
    model: pm.Model,
    of: TensorVariable | None = None,
    further: Sequence[CellFactor] = (),
) -> None:
    """Set the initial table to one at which all cell-by-cell observations and further factors are possible."""
    law, of = table.owner.op, table if of is None else of
    counts = model.rvs_to_values[of] if of in model.basic_RVs else of.type()
    results = [factors_of_variable(var, of, counts, model, law.start.shape) for var in observed]
    by_cell = [*further, *(factor for factors in results if isinstance(factors, list) for factor in factors)]
    of_all = [density for density in results if not isinstance(density, list)]
    give_windows(table, read_cells(by_cell, of_all, law.start.size), model)
    allowed = Rows.each(np.isfinite(at_initial_point(model, law.weights(table.owner.inputs, by_cell))))
    law.fiber = with_support(law.fiber, law.observed, allowed)
    law.start = feasible_start(law.fiber, allowed, law.observed)


def restart_among(table: TensorVariable, depending: list[TensorVariable], model: pm.Model) -> None:
    """Restart a table for its observed dependents, if chains start from the table."""
    observed = observed_among(depending, model)
    if observed and any(x in model.free_RVs for x in (table, *depending)):
        restart(table, observed, model)


def restart_above(dist: TensorVariable, observed: Observed, model: pm.Model) -> None:
    """Restart the variables on which a new table depends if they exclude the smallest counts published of it."""
    above = [table.variable for table in tables_of(model) if table.variable in model.free_RVs]
    above = [table for table in above if depends_on(dist, table, model)]
    if not above or observed.likelihood.query is not None:
        return
    low, high = possible_counts(observed.system, np.ones(observed.frame.size, dtype=bool))
    smallest = np.maximum(observed.truncation(low, high)[0] + 1, low)  # the range includes one count outside
    counts = pt.constant(np.maximum(smallest, 0).astype(np.int64).reshape(1, *observed.frame.shape))
    for table in above:
        density = log_density(elementwise(dist, observed.frame.shape)[0], counts)[0]
        if (at_initial_point(model, density) > -np.inf).all():
            continue
        (density,) = model.replace_rvs_by_values([density])
        factors = factors_in(density, model.rvs_to_values[table], table.owner.op.start.shape)
        if factors is not None:
            restart(table, _observed_dependents(table, model), model, further=factors)


def restart_by_data(table: TensorVariable, model: pm.Model) -> None:
    """Set the initial table to one at which all observations are possible, if the observations can change."""
    observed = _observed_dependents(table, model)
    data = set(model.data_vars)
    if data & set(ancestors([*observed, *(model.rvs_to_values[var] for var in observed if var in model.observed_RVs)])):
        restart(table, observed, model)


def _observed_dependents(table: TensorVariable, model: pm.Model) -> list[TensorVariable]:
    """Return the observed dependents of a table except its release."""
    return [var for var in dependents_of(table, model) if var not in model.free_RVs]


def _remedy(var: TensorVariable, table: TensorVariable, model: pm.Model) -> str:
    """Return how a random variable can be written so that it depends on a table cell by cell, or an empty string."""
    if var not in model.potentials and not isinstance(var.owner.op, MeasurableOp):
        return ""
    law = table.owner.op
    parameters = with_exact_sums(var, table, law.start, law.observed.system.lattice)
    for node in toposort([parameters], blockers=[table]):
        is_ratio = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, TrueDiv)
        is_ratio = is_ratio and table in ancestors(node.inputs[1:], blockers=[table])
        if is_ratio and cell_indices(node.outputs[0], table, law.start.shape) is None:
            return "it divides by a function of cells that no exact sum determines. Divide by a known number"
    return ""


def _make_variable(table: TensorVariable, model: pm.Model, name: str, remedy: str = "") -> None:
    """Make a table a variable of the model (or of the nested model in which it was created) for a dependent."""
    law = table.owner.op
    if law.is_kept_out:
        raise not_by_cell(name, table.name, remedy)
    for other in tables_above(table, model.root):
        _make_variable(other, model, name)
    home = _home(table, model)
    home.register_rv(table, home.name_of(table.name), dims=law.dims)
    observed = _observed_dependents(table, model.root)
    if observed or any(depends_on(table, other.variable, model.root) for other in tables_of(model.root)):
        restart(table, observed, model.root)


def _home(table: TensorVariable, model: pm.Model) -> pm.Model:
    """Return the model in which a table was created: a model or its parent."""
    while model.prefix and not table.name.startswith(f"{model.prefix}::"):
        model = model.parent
    return model


def _withdraw(potential: TensorVariable, model: pm.Model | None) -> None:
    """Remove a potential from a model and its parents."""
    while model is not None:
        model.potentials.remove(potential)
        model = model.parent


def _refuse_as_a_table(var: TensorVariable, model: pm.Model) -> None:
    """Refuse the name of a marginalized table, and a potential that is the table itself."""
    for table in tables_of(model):
        name = table.released.name.removesuffix("_release")
        if var is table.variable and var in model.potentials:
            called, var.name = var.name, name
            raise ModelError(f"the potential {called!r} is the confidential table itself: write it as 1 * table")
        if var is not table.variable and var.name == name:
            raise ModelError(f"{var.name!r} is the name of the confidential table: choose another name")


def _refuse_sum_of_cells(var: TensorVariable, above: list[TensorVariable], model: pm.Model) -> None:
    """Refuse exact observations of several cells, at which no chain moves."""
    if above and isinstance(var.owner and var.owner.op, DiracDeltaRV):
        if len(above) == 1 and _factors_by_cell(var, above[0], model) is not None:
            return
        tables = " and ".join(sorted(repr(table.name) for table in above))
        remedy = (
            "state the sum in public=, ppdinf.Measurements(..., public={ppdinf.invariants.total(): value})"
            if len(above) == 1
            else "make the tables one table with a further dimension, ppdinf.Measurements, and state the sum in public="
        )
        raise ModelError(f"{var.name!r} is an exact sum of cells of {tables}, which chains cannot satisfy: {remedy}")


def _refuse_of_another(var: TensorVariable, waiting: list[TensorVariable], model: pm.Model) -> None:
    """Refuse dependents of a table of another model, for example of the model that was copied."""
    tables = [table.variable for table in tables_of(model)]
    for table in waiting:
        if table not in tables:
            raise ModelError(
                f"{var.name!r} depends on the confidential table {table.name!r} of another model, in which it is "
                "marginalized: add the variable before the model is copied, or use marginalize=False and the table of "
                f"the copy, model[{table.name!r}]"
            )


def _factors_by_cell(var: TensorVariable, table: TensorVariable, model: pm.Model) -> list[CellFactor] | None:
    """Return the density of a variable split by cell, with which the table is marginalized, or None."""
    if var not in model.potentials and not isinstance(var.owner.op, MeasurableOp):
        return None
    # the densities of the observed and the missing part of a masked variable cannot be separated by cell
    if isinstance(var.owner.op, ConfidentialRV | ReleasedRV | PartialObservedRV):
        return None
    transformed = [x for x in all_above(var, model) if model.rvs_to_transforms.get(x) is not None]
    if any(table in ancestors([x]) for x in transformed):
        return None
    try:
        factors = factors_of_variable(var, table, table.type(), model, table.owner.op.start.shape)
    except (NotImplementedError, RuntimeError):  # no separate density, for example of a part of a masked variable
        return None
    return factors if isinstance(factors, list) else None


def _refuse_particles(sample: Callable[..., Any], *args: Any, model: pm.Model | None = None, **kwargs: Any) -> Any:
    """Refuse to sample from the prior where its tables do not have the public sums."""
    for table in tables_of(pm.modelcontext(model).root):
        if not table.is_marginalized and table.law.observed.system.A.size:
            raise ModelError(
                f"pm.sample_smc starts from prior draws, in which the confidential table {table.name!r} does not "
                "have its public sums: marginalize the table (marginalize=True names what prevents it), or sample by "
                "pm.sample() and compare models by ppdinf.sample_release"
            )
    return sample(*args, model=model, **kwargs)


pymc_patches.replace("sample_smc", _refuse_particles, lambda *_, model=None, **kwargs: has_tables(model))
