"""Log densities of the observed dependents of a table, as functions of its counts and of the parameters.

They move the posterior of a table. Windows of counts therefore take them into account
(`ppdinf.distributions.model_graph.truncation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import pymc as pm
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import TensorVariable, ancestors, graph_inputs, graph_replace
from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.distributions.densities.factors import CellFactor
from ppdinf.distributions.model_graph.dependents import drawn_for, factors_of_variable, observed_among


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
