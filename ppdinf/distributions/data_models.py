"""Data models: the distribution that a user passes, as a distribution of the cells of a table in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc import logp

from ppdinf._internal.pymc_compat import (
    XRV,
    BetaBinomialRV,
    BinomialRV,
    Cast,
    CheckAndRaise,
    Constant,
    CustomDistRV,
    DimShuffle,
    DirichletMultinomialRV,
    Elemwise,
    GeometricRV,
    MeasurableOp,
    MultinomialRV,
    NegBinomialRV,
    Op,
    PoissonRV,
    RandomType,
    RandomVariable,
    TensorVariable,
    TruncatedRV,
    Variable,
    XTensorVariable,
    ancestors,
    change_dist_size,
    check_dist_not_registered,
    compile_interpreted,
    graph_inputs,
    graph_replace,
    inputvars,
    rv_size_is_none,
    toposort,
    vectorize_graph,
)
from ppdinf._internal.values import Array, Flags, Integers, Reals
from ppdinf.errors import ModelError

UNBOUNDED = (GeometricRV, MultinomialRV, DirichletMultinomialRV, NegBinomialRV, PoissonRV)
BOUNDED_BY_FIRST = (BetaBinomialRV, BinomialRV)
AT_ONCE = 2**21  # number of densities per evaluation of a support: 16 MB
FAILURES = 3  # failed draws of a truncated distribution after which drawing stops


def as_distribution(dist: Variable, dims: Sequence[str], model: pm.Model) -> TensorVariable:
    """Return what a user passes as an unnamed distribution of arrays, with integer bounds and in double precision."""
    dist = _with_positions(dist, dims)
    dist = _with_independent_cells(_of_expression(_with_integer_bounds(dist, model)))
    op = getattr(getattr(dist, "owner", None), "op", None)
    if op is None or not hasattr(op, "ndim_supp"):
        raise ModelError("dist must be an unnamed PyMC distribution such as pm.Poisson.dist(rate)")
    check_dist_not_registered(dist)
    return in_double(dist, model)


def in_double(dist: TensorVariable, model: pm.Model) -> TensorVariable:
    """Return a distribution whose parameters, and those of its components, have 64 bits."""
    converted: dict[Variable, Variable] = {}
    done: dict[Variable, TensorVariable] = {}
    for node in toposort([dist], blockers=list(model.named_vars.values())):
        if isinstance(node.op, RandomVariable):
            parameters = [_wide(x, done) for x in node.op.dist_params(node)]
            if isinstance(node.op, BinomialRV | BetaBinomialRV):
                parameters[0] = _as_integer(parameters[0])
            if any(x is not y for x, y in zip(parameters, node.op.dist_params(node), strict=True)):
                rng, size = node.inputs[:2]
                converted[node.outputs[1]] = node.op.make_node(rng, size, *parameters).outputs[1]
    if dist in converted:
        return converted[dist]
    return graph_replace([dist], converted, strict=False)[0] if converted else dist


def constant(x: Variable) -> Array | None:
    """Return the numeric value of a variable without inputs, or None."""
    if all(isinstance(leaf, Constant) for leaf in graph_inputs([x])):
        return x.eval(mode="FAST_COMPILE")
    return None


def _as_integer(n: TensorVariable) -> TensorVariable:
    """Return a number of trials as an integer: `pymc.Data` stores a Python integer as a real number."""
    if np.dtype(n.dtype).kind != "f":
        return n
    require: Op = CheckAndRaise(ModelError, "the n of a binomial distribution must be an integer")
    return require(n.astype("int64"), pt.all(pt.eq(n, pt.floor(n))))


def _wide(x: TensorVariable, done: dict[Variable, TensorVariable]) -> TensorVariable:
    """Return a parameter of 64 bits; what was computed from shorter constants is recomputed in 64 bits."""
    if x in done:
        return done[x]
    kind, wide = np.dtype(x.dtype).kind, x
    dtype = "float64" if kind == "f" else "int64" if kind in "iu" else x.dtype
    if isinstance(x, Constant):
        wide = x if x.dtype == dtype else pt.constant(np.asarray(x.data, dtype=dtype))
    elif x.name is None and x.owner is not None and isinstance(x.owner.op, Elemwise | DimShuffle):
        inputs = [_wide(y, done) for y in x.owner.inputs]
        if any(y is not z for y, z in zip(inputs, x.owner.inputs, strict=True)):
            wide = x.owner.op(*inputs)
    done[x] = wide if wide.dtype == dtype else wide.astype(dtype)
    return done[x]


def has_rows(dist: TensorVariable) -> bool:
    """Return whether a distribution is over rows of counts that `elementwise` can split."""
    return isinstance(dist.owner.op, MultinomialRV | DirichletMultinomialRV)


def elementwise(dist: TensorVariable, shape: tuple[int, ...]) -> tuple[TensorVariable, TensorVariable | float]:
    """Return a distribution of independent cells, and the log density of the row sums to subtract."""
    if not has_rows(dist):
        return dist, 0.0
    n, p = dist.owner.inputs[-2:]
    if isinstance(dist.owner.op, MultinomialRV):
        cells = pm.Poisson.dist(n[..., None] * p, shape=shape)
        sums = pm.logp(pm.Poisson.dist(n), n)
    else:
        strength = p.sum(axis=-1)
        cells = pm.NegativeBinomial.dist(mu=n[..., None] * p / strength[..., None], alpha=p, shape=shape)
        sums = pm.logp(pm.NegativeBinomial.dist(mu=n, alpha=strength), n)
    return cells, pt.sum(pt.broadcast_to(sums, shape[:-1]))


def _of_expression(dist: TensorVariable) -> TensorVariable:
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
        return pm.CustomDist.dist(*parameters, dist=transformed, class_name="Transformed")

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
    inside = set(ancestors([dist], blockers=known)).difference(known)
    return [x for x in inside if x.owner and isinstance(x.owner.op, TruncatedRV) and not x.dtype.startswith("float")]


def _with_integer_bounds(dist: TensorVariable, model: pm.Model) -> TensorVariable:
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


def _with_positions(dist: Variable, dims: Sequence[str]) -> Variable:
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
    return op.core_op(*values, rng=pt.random.shared_rng(seed=None), return_next_rng=True)[1]


def _with_independent_cells(dist: TensorVariable) -> TensorVariable:
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


def log_density(dist: TensorVariable, counts: TensorVariable) -> TensorVariable:
    """Return the log density of tables of counts, shape (n, *table shape), under an elementwise distribution."""
    value = dist.type()
    # otherwise PyMC clones random variables in some densities, and the variables of the model are lost
    above = [x for x in ancestors([dist]) if x.name and x.owner and isinstance(x.owner.op, MeasurableOp)]
    stand_ins = {x: x.type() for x in above}
    (alone,) = graph_replace([dist], stand_ins, strict=False)
    density = vectorize_graph(logp(alone, value), {value: counts})
    return graph_replace([density], {y: x for x, y in stand_ins.items()}, strict=False)[0]


def kind_of_support(base: TensorVariable) -> Literal["constant", "counts", "unknown"]:
    """Return how the support of a data model depends on its parameters."""
    op = base.owner.op
    if isinstance(op, UNBOUNDED):
        return "counts"
    deciding = base.owner.op.dist_params(base.owner)[:1] if isinstance(op, BOUNDED_BY_FIRST) else [base]
    leaves = [leaf for leaf in graph_inputs(deciding) if not isinstance(leaf.type, RandomType)]
    above = [x for x in ancestors(deciding) if x.owner and isinstance(x.owner.op, MeasurableOp)]
    outputs = base.owner.outputs
    constants = all(isinstance(leaf, Constant) for leaf in leaves)
    return "constant" if constants and all(x in outputs or x.name is None for x in above) else "unknown"


def initial_support(model: pm.Model, base: TensorVariable, shape: tuple[int, ...]) -> Callable[[Integers], Flags]:
    """Return a function that masks counts of each cell, shape (d, n), allowed at the model's initial point."""
    cells = elementwise(base, shape)[0]
    counts = pt.tensor("counts", dtype=cells.dtype, shape=(None, *shape))
    # the largest count of a marginalized table leaves most counts to a table that depends on it
    tables = [x for x in ancestors([cells]) if hasattr(x.owner and x.owner.op, "largest")]
    largest = {x: pt.constant(x.owner.op.largest, dtype=x.dtype) for x in tables if x not in model.basic_RVs}
    (cells,) = graph_replace([cells], largest, strict=False)
    (log_data,) = model.replace_rvs_by_values([log_density(cells, counts)])
    inputs = inputvars([log_data])
    point = model.initial_point() if inputs else {}
    parameters = [variable for variable in inputs if variable is not counts]
    density = compile_interpreted([counts, *parameters], log_data)
    values = [point[variable.name] for variable in parameters]

    def support(counts: Integers) -> Flags:
        parts = np.array_split(counts.T.reshape(-1, *shape), -(-counts.size // AT_ONCE) or 1)
        allowed = [np.isfinite(density(part.astype(cells.dtype), *values)) for part in parts]
        return np.concatenate(allowed).reshape(counts.T.shape).T

    return support


def support_columns(
    base: TensorVariable, shape: tuple[int, ...], support: Callable[[Integers], Flags]
) -> list[Array] | None:
    """Return numbers of each cell that determine the support at the initial point; None if none are known to do so."""
    (cells, _), d = elementwise(base, shape), math.prod(shape)
    if isinstance(cells.owner.op, UNBOUNDED):  # of counts above the first, all or none are impossible
        return list(support(np.repeat([[0, 1, 2]], d, axis=0)).T)
    n = constant(cells.owner.op.dist_params(cells.owner)[0]) if isinstance(cells.owner.op, BOUNDED_BY_FIRST) else None
    if n is None:
        return None
    largest = np.broadcast_to(n, shape).ravel().astype(np.int64)
    return [largest, *support(np.stack([np.zeros(d, dtype=np.int64), largest], axis=1)).T]


def at_initial_point(model: pm.Model, expression: TensorVariable, shift: float = 0.0) -> Reals:
    """Evaluate an expression at the model's initial point, or with every real variable shifted from it."""
    (graph,) = model.replace_rvs_by_values([expression])
    inputs = inputvars([graph])
    point, rng = model.initial_point() if inputs else {}, np.random.default_rng(1)
    values = [point[variable.name] for variable in inputs]
    values = [x + shift * rng.standard_normal(x.shape) if x.dtype.kind == "f" else x for x in values]
    return compile_interpreted(inputs, graph)(*values)


def known(x: Variable) -> Array | None:
    """Return the value of an expression of constants and data, or None."""
    leaves = list(graph_inputs([x]))
    if any(isinstance(leaf.type, RandomType) for leaf in leaves):
        return None
    try:
        return np.asarray(x.eval(mode="FAST_COMPILE"))
    except Exception:
        return None


def drawn_from_prior(
    outputs: list[TensorVariable], draws: int, given: Mapping[TensorVariable, TensorVariable]
) -> list[list[Array]]:
    """Draw variables of a model together; without the draws that fail."""
    results = list[list[Array]]()
    failures = 0
    with np.errstate(all="ignore"):
        draw = compile_interpreted([], outputs, givens=given, random_seed=1)
        for _ in range(draws):
            try:
                results.append(draw())
            except (NotImplementedError, ValueError, OverflowError):
                continue  # flat priors, Poisson counts with a mean above 1e18
            except pm.exceptions.TruncationError:
                failures += 1  # improbable bounds within another distribution: half a second of attempts
                if failures == FAILURES:
                    break
    return results


def without_truncation(base: TensorVariable, model: pm.Model) -> TensorVariable:
    """Draw from a complete distribution instead of a truncated one, and take the nearest permitted count."""
    clipped = {}
    for x in truncated_integers(base, model):
        *parameters, lower, upper = x.owner.inputs
        complete = x.owner.op.base_rv_op.make_node(*parameters).default_output()
        clipped[x] = pt.clip(complete, lower, upper).astype(x.dtype)
    return graph_replace([base], clipped, strict=False)[0]


def subset_distribution(
    dist: TensorVariable, shape: tuple[int, ...], subset: NDArray[np.intp]
) -> TensorVariable | None:
    """Return the distribution of a subset of cells, or None unless its parameters are elementwise."""
    op, at = dist.owner.op, np.unravel_index(subset, shape)
    if not isinstance(op, RandomVariable) or isinstance(op, CustomDistRV) or any(op.ndims_params):
        return None
    generator, parameters = dist.owner.inputs[0], op.dist_params(dist.owner)
    return op.make_node(generator, None, *[pt.broadcast_to(p, shape)[at] for p in parameters]).out
