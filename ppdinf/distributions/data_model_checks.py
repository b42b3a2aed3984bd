"""Refusals of data models: other shapes or dimensions, rows without public totals, a total counted twice."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.sparse as sp

from ppdinf._internal.pymc_compat import (
    BetaBinomialRV,
    BinomialRV,
    Constant,
    DimShuffle,
    DirichletMultinomialRV,
    Elemwise,
    MissingInputError,
    MultinomialRV,
    RandomVariable,
    SpecifyShape,
    SymbolicRandomVariable,
    TensorVariable,
    Variable,
    change_dist_size,
    toposort,
)
from ppdinf.distributions.data_models import at_initial_point, known
from ppdinf.distributions.observed import Observed
from ppdinf.errors import ModelError
from ppdinf.invariants import System
from ppdinf.lattice.feasible import nearest_feasible

Axes = tuple[frozenset[str], ...]


def cells_of_table(dist: TensorVariable, observed: Observed, dims: Sequence[str], model: pm.Model) -> TensorVariable:
    """Return an unnamed distribution with the shape of the table, unless it does not fit what is observed."""
    base = _fit_to_table(dist, observed)
    # refuse parameters that have a dimension of the table along another dimension of the table
    names = {x: name for name, x in model.named_vars.items()}
    axes: dict[Variable, Axes] = {}
    for node in toposort([dist], blockers=list(names)):
        for x in node.inputs:
            axes.setdefault(x, _named(model, names.get(x), x))
        for x in node.outputs:
            axes[x] = _of_result(x, axes)
    of_axes = axes.get(dist, ())
    for dim, there in zip(reversed(dims), reversed(of_axes), strict=False):
        for other in sorted(there & set(dims) - {dim}):
            if list(model.coords[other] or ()) != list(model.coords[dim] or ()):
                by = [name for x, name in names.items() if other in (model.named_vars_to_dims.get(name) or ())]
                raise ModelError(
                    f"a parameter of the table has the dimension {other!r} (as {by[0]!r} has) along the dimension "
                    f"{dim!r} of the table: arrays match by position, so give the parameter axes in the order "
                    f"{tuple(dims)}, for example by x[:, None] or x.T"
                )
    refuse_counted_twice(model, base, observed)
    return base


def _fit_to_table(dist: TensorVariable, observed: Observed) -> TensorVariable:
    """Give a distribution the shape of the table, or refuse it."""
    frame, op = observed.frame, dist.owner.op
    if isinstance(op, MultinomialRV | DirichletMultinomialRV):
        _require_public_rows(dist, observed.system)
        return change_dist_size(dist, frame.shape[:-1])
    if op.ndim_supp != 0 or not dist.dtype.startswith(("int", "uint")):
        raise ModelError(
            f"the cells need an elementwise distribution over integers, found {op} over {dist.dtype} "
            f"with {op.ndim_supp} support dimensions"
        )
    static = dist.type.shape
    if None in static and isinstance(op, SymbolicRandomVariable):  # for example truncated distributions
        with contextlib.suppress(MissingInputError):
            static = tuple(map(int, dist.shape.eval(mode="FAST_COMPILE")))
    fits = len(static) <= len(frame.shape) and all(
        have in (None, 1, want) for have, want in zip(static[::-1], frame.shape[::-1], strict=False)
    )
    if not fits:
        sizes = dict(zip(frame.dims, frame.shape, strict=True))
        raise ModelError(f"the distribution has shape {static}, but the table has shape {sizes}")
    return change_dist_size(_with_known_lengths(dist, frame.shape), frame.shape)


def _with_known_lengths(dist: TensorVariable, shape: tuple[int, ...]) -> TensorVariable:
    """Specify parameter lengths that are known to be 1, along axes on which the table has a single label."""
    op = dist.owner.op
    if not isinstance(op, RandomVariable):
        return dist
    rng, size = dist.owner.inputs[:2]
    parameters = []
    for parameter, core in zip(op.dist_params(dist.owner), op.ndims_params, strict=True):
        static = parameter.type.shape
        batch = len(static) - core  # axes of the table; a categorical distribution has an axis of counts after them
        expected = shape[len(shape) - batch :]
        lengths = [1 if n is None and m == 1 else n for n, m in zip(static[:batch], expected, strict=True)]
        lengths += static[batch:]
        parameters.append(parameter if tuple(lengths) == static else pt.specify_shape(parameter, lengths))
    return op.make_node(rng, size, *parameters).default_output()


def _require_public_rows(dist: TensorVariable, system: System) -> None:
    """Refuse rows whose totals are not public, or differ from those of the distribution."""
    n = dist.owner.inputs[-2]
    if not isinstance(n, Constant):
        raise ModelError("the number of persons in each row must be a constant, the public total of the row")
    *rows_shape, width = system.frame.shape
    totals = np.broadcast_to(np.asarray(n.data), rows_shape).ravel()
    rows = sp.kron(sp.eye_array(totals.size, dtype=np.int64), np.ones((1, width), dtype=np.int64), format="csr")
    moved = np.asarray(abs(rows @ system.lattice.basis).sum(axis=1)).ravel() > 0
    # a public sum is the same for every table, including the released one
    none = system.B[:0], system.limits[:0]
    known = rows @ nearest_feasible(system.A, system.values, *none, row_names=system.names)
    for row in np.flatnonzero(moved | (known != totals))[:1]:
        cell = system.frame.cell(int(row) * width)
        why = "is not public" if moved[row] else "differs from the n of the distribution"
        raise ModelError(f"the total of the row that begins at {cell} {why}: rows need public totals, equal to n")


def _named(model: pm.Model, name: str | None, x: Variable) -> Axes:
    dims = (name and model.named_vars_to_dims.get(name)) or ()
    if len(dims) == getattr(x, "ndim", 0):
        return tuple(frozenset([dim]) if dim in model.coords else frozenset() for dim in dims)
    return (frozenset(),) * getattr(x, "ndim", 0)


def _of_result(x: Variable, axes: dict[Variable, Axes]) -> Axes:
    """Return the dimensions of each axis of a result; an axis without a proof has none."""
    op, inputs = x.owner.op, x.owner.inputs
    labels = [frozenset[str]()] * getattr(x, "ndim", 0)  # (a generator of random numbers has no axes)
    if isinstance(op, SpecifyShape):
        return axes[inputs[0]]
    if isinstance(op, DimShuffle):
        return tuple(frozenset() if axis == "x" else axes[inputs[0]][axis] for axis in op.new_order)
    if isinstance(op, Elemwise):
        parts = [(y, y.ndim) for y in inputs]
    elif labels and getattr(op, "ndims_params", None) and op.ndim_supp == 0:  # axes before those of one draw
        parts = [(y, y.ndim - core) for y, core in zip(op.dist_params(x.owner), op.ndims_params, strict=True)]
    else:
        parts = []
    for y, batch in parts:
        for back in range(1, batch + 1):
            if y.type.broadcastable[batch - back] == x.type.broadcastable[-back]:
                labels[-back] |= axes[y][batch - back]
    return tuple(labels)


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
