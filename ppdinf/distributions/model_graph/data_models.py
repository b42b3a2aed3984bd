"""Data models written as expressions: shifted, clipped, with pymc.dims, or multinomial with a Poisson n."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import (
    XRV,
    Cast,
    CheckAndRaise,
    Constant,
    Elemwise,
    MeasurableOp,
    MultinomialRV,
    Op,
    PoissonRV,
    TensorVariable,
    TruncatedRV,
    Variable,
    XTensorVariable,
    ancestors,
    change_dist_size,
    graph_inputs,
    graph_replace,
    rv_size_is_none,
    vectorize_graph,
)
from ppdinf.errors import ModelError


def as_distribution(dist: TensorVariable) -> TensorVariable:
    """Return a function of one unnamed distribution as a distribution; other variables are returned unchanged."""
    if not (isinstance(dist, TensorVariable) and dist.owner and isinstance(dist.owner.op, Elemwise)):
        return dist
    drawn = [x for x in ancestors([dist]) if x.owner and isinstance(x.owner.op, MeasurableOp) and x is not dist]
    sources = [x for x in drawn if not any(x in ancestors([y]) for y in drawn if y is not x)]
    if not sources or any(x.name is not None for x in sources):
        return dist
    if len(sources) > 1:
        raise ModelError(
            "dist is a function of several distributions: use a distribution of the cells, or pm.CustomDist.dist with "
            "logp="
        )
    (source,) = sources
    stand_in = source.type()
    (function,) = graph_replace([dist], {source: stand_in}, strict=False)
    leaves = [x for x in graph_inputs([function]) if x is not stand_in]
    if not all(isinstance(x, Constant) for x in leaves):
        raise ModelError(
            "the shift or the bounds of a transformed distribution depend on variables or data of the model, which "
            "would change its support: use constants"
        )
    if source.type.broadcastable != dist.type.broadcastable:
        raise ModelError(
            "the shift or the bounds have more cells than the distribution, whose draw the cells would share: give the "
            "distribution the shape of the table, such as pm.Poisson.dist(mu, shape=3) + [0, 1, 2]"
        )
    inputs = [x for x in source.owner.inputs if isinstance(x, TensorVariable | Constant)]
    given = list(dict.fromkeys(x for x in inputs if not isinstance(x, Constant)))

    def transformed(*parameters: Variable) -> TensorVariable:
        *values, size = parameters
        (again,) = graph_replace([source], dict(zip(given, values, strict=True)), strict=False)
        if not rv_size_is_none(size):
            again = change_dist_size(again, size)
        return vectorize_graph(dist, {source: again})

    def of(parameters: Sequence[Variable]) -> TensorVariable:
        made: TensorVariable = pm.CustomDist.dist(*parameters, dist=transformed, class_name="Transformed")
        return made

    try:  # densities are derived without the variables of the model
        pm.logp(of([x.type() for x in given]), dist.type())
    except (NotImplementedError, RuntimeError) as error:
        raise ModelError(
            "PyMC has no density of this function of a distribution of integers: shifts by integers, negation and "
            "pm.math.clip are supported; use pm.CustomDist.dist with logp= for others"
        ) from error
    return of(given)


def truncated_integers(dist: Variable, model: pm.Model) -> list[TensorVariable]:
    """Return the truncated distributions of integers in a data model, without those of other variables of the model."""
    known = model.basic_RVs
    own = set(ancestors([dist], blockers=known)).difference(known)
    return [x for x in own if x.owner and isinstance(x.owner.op, TruncatedRV) and not x.dtype.startswith("float")]


def with_integer_bounds(dist: TensorVariable, model: pm.Model) -> TensorVariable:
    """Round the bounds of truncated distributions of integers in a data model inwards."""
    if not isinstance(dist, TensorVariable):
        return dist
    rounded = {}
    for x in truncated_integers(dist, model):
        *parameters, lower, upper = x.owner.inputs
        bounds = [_rounded(lower, np.ceil, pt.ceil), _rounded(upper, np.floor, pt.floor)]
        if bounds[0] is not lower or bounds[1] is not upper:
            rounded[x] = x.owner.clone_with_new_inputs([*parameters, *bounds], strict=False).outputs[0]
    return graph_replace([dist], rounded, strict=False)[0] if rounded else dist


def _rounded(
    bound: TensorVariable, of_numbers: Callable[..., Any], of_variables: Callable[..., TensorVariable]
) -> TensorVariable:
    if not bound.dtype.startswith("float"):
        return bound
    if not isinstance(bound, Constant):
        return of_variables(bound)
    return bound if (of_numbers(bound.data) == bound.data).all() else pt.constant(of_numbers(bound.data))


def with_positions(dist: Variable, dims: Sequence[str]) -> Variable:
    """Return a distribution of `pymc.dims` as one of arrays with the given dimensions, and others unchanged."""
    if not isinstance(dist, XTensorVariable):
        return dist
    op = dist.owner and dist.owner.op
    if not isinstance(op, XRV) or any(any(core) for core in op.core_dims):
        raise ModelError(
            "dist must be an elementwise distribution of pymc.dims such as pymc.dims.Poisson.dist(rate), or a "
            "distribution of pymc with parameters rate.values"
        )
    parameters = dist.owner.inputs[-len(op.core_dims[0]) :]
    if unknown := [dim for x in parameters for dim in x.dims if dim not in dims]:
        raise ModelError(f"the distribution has the dimension {unknown[0]!r}, but the table has the dimensions {dims}")
    values = []
    for x in parameters:
        order = [dim for dim in dims if dim in x.dims]
        places = [order.index(dim) if dim in order else "x" for dim in dims]
        values.append(x.transpose(*order).values.dimshuffle(places))
    drawn: Variable = op.core_op(*values, rng=pt.random.shared_rng(seed=None), return_next_rng=True)[1]
    return drawn


def with_independent_cells(dist: TensorVariable) -> TensorVariable:
    """Return independent Poisson cells for multinomial rows whose n has a Poisson distribution."""
    if not (isinstance(dist, TensorVariable) and dist.owner and isinstance(dist.owner.op, MultinomialRV)):
        return dist
    n, p = dist.owner.inputs[-2:]
    while n.owner and isinstance(n.owner.op, Elemwise) and isinstance(n.owner.op.scalar_op, Cast) and n.name is None:
        (n,) = n.owner.inputs
    if n.owner is None or not isinstance(n.owner.op, MeasurableOp):
        return dist
    if not isinstance(n.owner.op, PoissonRV) or n.name is not None:
        raise ModelError(
            f"the n of the multinomial rows is {n.name or n.owner.op}, but it must be a constant, the public total of "
            "the row, or an unnamed pm.Poisson.dist(mean), with which cells are independent. A negative binomial n is "
            "a Poisson n whose mean is a variable pm.Gamma(name, alpha, beta=alpha / mu); compute n as the sum of the "
            "cells after sampling"
        )
    (mean,) = n.owner.op.dist_params(n.owner)
    require: Op = CheckAndRaise(ModelError, "the p of multinomial rows must sum to 1")
    p = require(p, pt.all(pt.isclose(p.sum(axis=-1), 1.0)))
    return pm.Poisson.dist(mean[..., None] * p)
