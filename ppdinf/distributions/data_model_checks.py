"""Refusals of data models: parameters along other dimensions, and shares that count a public total twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import (
    BetaBinomialRV,
    BinomialRV,
    DimShuffle,
    Elemwise,
    SpecifyShape,
    TensorVariable,
    Variable,
    toposort,
)
from ppdinf.distributions.build_fiber import at_initial_point
from ppdinf.distributions.latent_tables import known
from ppdinf.distributions.observed import Observed
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


def refuse_counted_twice(model: pm.Model, base: TensorVariable, observed: Observed) -> None:
    """Refuse independent models of the shares of a public total: given the total, one share determines the others."""
    op = base.owner.op
    if not isinstance(op, BinomialRV | BetaBinomialRV):
        return
    n, *parameters = op.dist_params(base.owner)
    size, system, frame = known(n), observed.system, observed.frame
    if size is None:
        return
    size = np.broadcast_to(size, frame.shape).ravel()
    share = parameters[0] if isinstance(op, BinomialRV) else parameters[0] / (parameters[0] + parameters[1])
    for row, (name, total) in enumerate(zip(system.names, system.values, strict=True)):
        among = slice(*system.A.indptr[row : row + 2])
        cells = system.A.indices[among]
        if cells.size > 1 and (system.A.data[among] == 1).all() and (size[cells] == total).all():
            shares = pt.broadcast_to(share, frame.shape).ravel()[cells].sum()
            if all(np.isclose(at_initial_point(model, shares, shift), 1) for shift in (0.0, 0.5)):
                raise ModelError(
                    f"the public sum {name!r} is the n of every one of its cells, whose shares sum to 1: modelled "
                    "independently, the sum would be counted more than once. Model the cells of a row jointly by "
                    "pm.Multinomial.dist(n, p) or pm.DirichletMultinomial.dist(n, a) over the last dimension; for two "
                    "categories with q = pm.math.invlogit(...) use p = pm.math.stack([q, 1 - q], axis=-1)"
                )
