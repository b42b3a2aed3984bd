"""Dimensions of the parameters of a data model, by the dims of named variables of the model.

PyMC broadcasts arrays by position. In a table with as many counties as months, a rate by month is silently multiplied
along the counties if its axis is the wrong one. Names of dimensions prove such a fault.
"""

from __future__ import annotations

from collections.abc import Sequence

import pymc as pm

from ppdinf._internal.pymc_compat import DimShuffle, Elemwise, SpecifyShape, TensorVariable, Variable, toposort
from ppdinf.errors import ModelError

Axes = tuple[frozenset[str], ...]


def refuse_other_dimensions(model: pm.Model, dist: TensorVariable, dims: Sequence[str]) -> None:
    """Refuse parameters that have a dimension of the table along another dimension of the table."""
    names = {x: name for name, x in model.named_vars.items()}
    axes: dict[Variable, Axes] = {}
    for node in toposort([dist], blockers=list(names)):
        for x in node.inputs:
            axes.setdefault(x, _named(model, names.get(x), x))
        for x in node.outputs:
            axes[x] = _of_result(x, axes)
    found = axes.get(dist, ())
    for dim, there in zip(reversed(dims), reversed(found), strict=False):
        for other in sorted(there & set(dims) - {dim}):
            if list(model.coords[other] or ()) != list(model.coords[dim] or ()):
                by = [name for x, name in names.items() if other in (model.named_vars_to_dims.get(name) or ())]
                raise ModelError(
                    f"a parameter of the table has the dimension {other!r} (as {by[0]!r} has) along the dimension "
                    f"{dim!r} of the table: arrays match by position, so give the parameter axes in the order "
                    f"{tuple(dims)}, for example by x[:, None] or x.T"
                )


def _named(model: pm.Model, name: str | None, x: Variable) -> Axes:
    dims = (name and model.named_vars_to_dims.get(name)) or ()
    if len(dims) == getattr(x, "ndim", 0):
        return tuple(frozenset([dim]) if dim in model.coords else frozenset() for dim in dims)
    return (frozenset(),) * getattr(x, "ndim", 0)


def _of_result(x: Variable, axes: dict[Variable, Axes]) -> Axes:
    """Return the dimensions of each axis of a result; an axis without a proof has none."""
    op, inputs = x.owner.op, x.owner.inputs
    found = [frozenset[str]()] * getattr(x, "ndim", 0)  # (a generator of random numbers has no axes)
    if isinstance(op, SpecifyShape):
        return axes[inputs[0]]
    if isinstance(op, DimShuffle):
        return tuple(frozenset() if axis == "x" else axes[inputs[0]][axis] for axis in op.new_order)
    if isinstance(op, Elemwise):
        parts = [(y, y.ndim) for y in inputs]
    elif found and getattr(op, "ndims_params", None) and op.ndim_supp == 0:  # axes before those of one draw
        parts = [(y, y.ndim - core) for y, core in zip(op.dist_params(x.owner), op.ndims_params, strict=True)]
    else:
        parts = []
    for y, batch in parts:
        for back in range(1, batch + 1):
            if y.type.broadcastable[batch - back] == x.type.broadcastable[-back]:
                found[-back] |= axes[y][batch - back]
    return tuple(found)
