"""Marginal likelihood of a release and all dependents of its table.

A marginalized table is not a variable of the model and has no value when PyMC computes the model's density. This
rewrite then joins the release and all variables drawn given the table into one node with the density

    p(y, v | theta) = sum over tables x on the fiber of p(x | theta) q(y - x) prod_j p(v_j | x, theta).

The sum is a product over groups of cells if each v_j depends on a single cell
(`ppdinf.distributions.factors`): the densities of the v_j are then further weights of its counts. Forward
draws do not use the rewrite: they draw the table and then its dependents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import (
    Apply,
    Constant,
    FunctionGraph,
    InitialPoint,
    MeasurableOp,
    Op,
    TensorVariable,
    ValuedRV,
    Variable,
    _logprob,
    ancestors,
    conditional_logp,
    graph_inputs,
    graph_replace,
    in2out,
    initial_point_rewrites_db,
    logprob_rewrites_db,
    node_rewriter,
)
from ppdinf._internal.values import Array
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.distributions.factors import CellFactor, factors_in, with_exact_sums
from ppdinf.distributions.linked_tables import factor_of_table
from ppdinf.distributions.marginal_logp import logp_natural, logp_table
from ppdinf.distributions.ops import logp_gamma, logp_nested_natural, logp_nested_table
from ppdinf.distributions.random_variables import ReleasedRV, table_of
from ppdinf.errors import ModelError
from ppdinf.lattice.rows import Rows


class Marginalized(MeasurableOp, Op):
    """A release and the other dependents of a marginalized table; has a density and cannot be evaluated."""

    __props__ = ()

    def __init__(self, given: list[Variable], drawn: list[TensorVariable]) -> None:
        self.given, self.drawn = given, drawn

    def make_node(self, *inputs: Variable) -> Apply:
        """Apply to inputs of the types of `given`."""
        return Apply(self, list(inputs), [x.type() for x in self.drawn])

    def perform(self, node: Apply, inputs: Sequence[Array], outputs: list[list[Array | None]]) -> None:
        """Raise an error: the node has a density only."""
        raise ModelError("a release of a marginalized table has a density, but no draws")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


@node_rewriter([ReleasedRV])
def marginalize(fgraph: FunctionGraph, node: Apply) -> dict[Variable, Variable] | None:
    """Join a release with the other dependents of its table if the table has no value."""
    table = table_of(node.outputs[1])
    if not (table.owner and isinstance(table.owner.op, ConfidentialRV)) or _depends_on_tables(table):
        return None
    released, later = node.outputs[1], set(_reached_from(fgraph, table))
    drawn = [x.owner.inputs[0] for x in _reached_from(fgraph, table, beyond_values=False) if _has_value(x)]
    if released not in drawn:
        return None  # the release is not observed
    drawn = [released, *(rv for rv in drawn if rv is not released)]
    outer = dict(_frontier(drawn, later))
    inner = {x: x.type(name=x.name) for x in outer.values()}
    within = graph_replace(drawn, {x: inner[y] for x, y in outer.items()}, strict=False)
    return dict(zip(drawn, Marginalized(list(inner.values()), within)(*inner, return_list=True), strict=True))


# before PyMC treats stacked or mixed expressions of the table as variables
logprob_rewrites_db.register("ppdinf_marginalize", in2out(marginalize), "basic", position=-1)


@node_rewriter([ConfidentialRV])
def start_from_table(fgraph: FunctionGraph, node: Apply) -> dict[Variable, Variable] | None:
    """Start dependents of a marginalized table from the table's initial value instead of a prior draw."""
    table = node.outputs[0]
    if any(isinstance(client.op, InitialPoint) for client, _ in fgraph.clients[table]):
        return None  # the table is a variable of the model
    return {table: table.type.filter_variable(pt.constant(node.op.start, dtype=table.dtype))}


initial_point_rewrites_db.register("ppdinf_start_from_table", in2out(start_from_table), "basic")


def _reached_from(fgraph: FunctionGraph, table: TensorVariable, beyond_values: bool = True) -> list[Variable]:
    """Return all that depends on a table; if not `beyond_values`, given the values of variables that have one."""
    reached, ahead = {table: None}, [table]
    while ahead:
        x = ahead.pop()
        if beyond_values or not _has_value(x):
            new = [y for client, _ in fgraph.clients[x] for y in client.outputs if y not in reached]
            reached |= dict.fromkeys(new)
            ahead.extend(new)
    return list(reached)


def _depends_on_tables(table: TensorVariable) -> bool:
    """Return whether a table depends on a marginalized table, with which it is marginalized."""
    valued = [x for x in ancestors([table]) if _has_value(x)]
    above = ancestors([table], blockers=valued)
    return any(x is not table and x.owner and isinstance(x.owner.op, ConfidentialRV) for x in above)


def _has_value(x: Variable) -> bool:
    """Return whether a variable represents a random variable with a value."""
    return x.owner is not None and isinstance(x.owner.op, ValuedRV)


def _frontier(drawn: list[TensorVariable], later: set[Variable]) -> Iterator[tuple[Variable, Variable]]:
    """Yield the inputs of the table, of its dependents and of expressions between them, with their replacements."""
    visited, ahead = set[Variable](), list[Variable](drawn)
    while ahead:
        x = ahead.pop()
        if x in visited:
            continue
        visited.add(x)
        if x in later and _has_value(x):
            yield x, x.owner.inputs[1]
        elif x in later:
            ahead.extend(x.owner.inputs)
        elif not all(isinstance(leaf, Constant) for leaf in graph_inputs([x])):
            yield x, x


def not_by_cell(name: str, table: str, remedy: str = "") -> ModelError:
    """Return the error for a variable that prevents marginalization of a table, with a remedy."""
    return ModelError(
        f"{name!r} does not depend on the confidential table {table!r} cell by cell with constant indices, so the "
        f"table cannot be marginalized: {f'{remedy}, or ' if remedy else ''}use PartiallyPrivate(..., "
        "marginalize=False), which makes the table a variable of the model"
    )


def factors_given(
    table: TensorVariable, drawn: Sequence[TensorVariable], values: Sequence[TensorVariable]
) -> list[CellFactor]:
    """Return densities of a table's dependents, as functions of the counts."""
    found: dict[TensorVariable, Any] = {rv: factor_of_table(rv, table) for rv in drawn}
    of_tables = {rv: factor for rv, factor in found.items() if factor is not None}
    values = [value for rv, value in zip(drawn, values, strict=True) if rv not in of_tables]
    drawn = [rv for rv in drawn if rv not in of_tables]
    if not drawn:
        return list(of_tables.values())
    counts, law = table.type(), table.owner.op
    distinct = [value.type() for value in values]  # distinct inputs: two variables may share an observed value
    densities = conditional_logp({table: counts, **dict(zip(drawn, distinct, strict=True))}, warn_rvs=False)
    given = graph_replace([densities[x] for x in distinct], dict(zip(distinct, values, strict=True)), strict=False)
    all_factors = list(of_tables.values())
    for rv, density in zip(drawn, given, strict=True):
        density = with_exact_sums(density, counts, law.start, law.observed.system.lattice)
        factors = factors_in(density, counts, law.start.shape)
        if factors is None:
            raise not_by_cell(rv.name, table.name)
        all_factors += factors
    return all_factors


def _of_weights(law: ConfidentialRV, weights: TensorVariable) -> TensorVariable:
    """Return the log weight of all tables from log weights of every count."""
    if law.nested is not None:
        return logp_nested_table(law.nested, weights)
    block, total = law.groups
    return logp_table(weights, lo=law.lower, total=total, block=block).sum()


def _of_natural(law: ConfidentialRV, eta: TensorVariable, log_h: Rows[np.float64]) -> TensorVariable:
    """Return the log weight of all tables from weights of exponential-family form."""
    if law.nested is not None:
        return logp_nested_natural(law.nested, eta, log_h.whole)
    block, total = law.groups
    near = law.fiber.likely if law.lines is None else None
    return logp_natural(eta, log_h, lo=law.lower, total=total, block=block, near=near).sum()


_OMITTED = ContextVar("omitted", default=False)


@contextmanager
def without_marginalized_tables() -> Iterator[None]:
    """Give marginalized tables the log density 0 in graphs from which their terms are not used: they take seconds."""
    before = _OMITTED.set(True)
    try:
        yield
    finally:
        _OMITTED.reset(before)


@_logprob.register(Marginalized)
def _marginal_logp(
    op: Marginalized, values: Sequence[TensorVariable], *inputs: Variable, **kwargs: object
) -> list[TensorVariable]:
    if _OMITTED.get():
        return [pt.zeros(()) for _ in values]
    valued = [x for x in ancestors(inputs) if x.owner and isinstance(x.owner.op, ValuedRV)]
    inputs = graph_replace(list(inputs), {x: x.owner.inputs[0] for x in valued}, strict=False)
    release, *drawn = graph_replace(op.drawn, dict(zip(op.given, inputs, strict=True)), strict=False)
    log_l = marginal_log_density(release, drawn, values[1:])
    # the windows were computed for this release: other releases have no density here
    noisy = table_of(release).owner.op.observed.noisy.values
    return [pt.switch(pt.all(pt.eq(values[0], noisy)), log_l, -np.inf), *(pt.zeros(()) for _ in drawn)]


def marginal_log_density(
    release: TensorVariable, drawn: Sequence[TensorVariable] = (), values: Sequence[TensorVariable] = ()
) -> TensorVariable:
    """Return the log density of a release, and of dependents of its table at values, after marginalization."""
    table = table_of(release)
    law, given = table.owner.op, table.owner.inputs
    if (form := law.exponential_family(given, table, drawn, values)) is not None:
        eta, log_normaliser, log_h = form
        log_l = _of_natural(law, eta, log_h) - log_normaliser.sum()
    elif (ratios := law.gamma_form(table, drawn, values)) is not None:
        block, total = law.groups
        log_l = logp_gamma(ratios, total, block[~law.fiber.uninformed])
    else:
        factors = factors_given(table, drawn, values)
        log_l = _of_weights(law, law.summed_weights(given, factors)) + sum(
            factor.constant_part(law.start) for factor in factors
        )
    auxiliary = release.owner.op.dist_params(release.owner)[1:]
    log_l -= law.observed.likelihood.log_prior_in_weights(*auxiliary) + law.base(given)[1]
    return log_l - (law.observed.log_constant or 0.0)
