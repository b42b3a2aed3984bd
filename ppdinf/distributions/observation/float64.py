"""Distributions in double precision for parameters of any type, and detection of constants.

PyTensor stores a Python number in the smallest type that holds it (100 as a byte) and evaluates the log gamma function
of short integers in single precision. The relative error of 1e-7 is about 1 in the log density of large counts.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import (
    BetaBinomialRV,
    BinomialRV,
    CheckAndRaise,
    Constant,
    DimShuffle,
    Elemwise,
    Op,
    RandomVariable,
    TensorVariable,
    Variable,
    graph_inputs,
    graph_replace,
    toposort,
)
from ppdinf._internal.types import Array
from ppdinf.errors import ModelError


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
    kind, found = np.dtype(x.dtype).kind, x
    dtype = "float64" if kind == "f" else "int64" if kind in "iu" else x.dtype
    if isinstance(x, Constant):
        found = x if x.dtype == dtype else pt.constant(np.asarray(x.data, dtype=dtype))
    elif x.name is None and x.owner is not None and isinstance(x.owner.op, Elemwise | DimShuffle):
        inputs = [_wide(y, done) for y in x.owner.inputs]
        if any(y is not z for y, z in zip(inputs, x.owner.inputs, strict=True)):
            found = x.owner.op(*inputs)
    done[x] = found if found.dtype == dtype else found.astype(dtype)
    return done[x]
