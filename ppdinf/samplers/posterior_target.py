"""Log posterior density of a model in its unconstrained space; models and results of the samplers of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from arviz_base import from_dict
from numpy.typing import ArrayLike

from ppdinf._internal.pymc_compat import (
    FlatRV,
    HalfFlatRV,
    TensorVariable,
    compile_interpreted,
    compile_pymc,
    graph_replace,
    join_nonshared_inputs,
    vectorize_graph,
)
from ppdinf._internal.values import Array, Reals
from ppdinf.distributions.tables import drawn_for
from ppdinf.errors import ModelError


def require_parameters(model: pm.Model, draws: int) -> None:
    """Refuse models with discrete unknowns or without observed variables."""
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
        raise ModelError(f"draws must be a positive integer, found {draws!r}")
    if not model.free_RVs:
        raise ModelError("the model has no free parameter")
    if not model.observed_RVs and not model.potentials:
        raise ModelError("the model has no observed variable: add PartiallyPrivate(name, dist, release)")
    for rv in model.free_RVs:
        if rv.dtype.startswith(("int", "uint", "bool")):
            raise ModelError(
                f"{rv.name!r} is an integer unknown, which must be marginalized: use "
                "PartiallyPrivate(..., marginalize='auto') where the public sums allow it, or pm.sample()"
            )


def as_tree(
    model: pm.Model,
    draws: Mapping[str, Array],
    stats: Mapping[str, Array],
    attrs: Mapping[str, float | str | list[float]],
    **groups: Mapping[str, Array],
) -> xr.DataTree:
    """Label independent draws as one chain, with the model's dimensions and coordinates."""
    chains = {"posterior": draws, "sample_stats": stats, **groups}
    data = {group: {name: np.asarray(values)[None] for name, values in held.items()} for group, held in chains.items()}
    data["observed_data"] = {rv.name: model.rvs_to_values[rv].eval() for rv in model.observed_RVs}
    dims = {name: list(named) for name, named in model.named_vars_to_dims.items()}
    coords: dict[str, ArrayLike] = {dim: list(labels) for dim, labels in model.coords.items() if labels is not None}
    tree = from_dict(data, dims=dims, coords=coords)
    tree["sample_stats"].attrs.update(attrs)
    return tree


NORMALIZED = (
    "pytensor.tensor.random",
    *(f"pymc.distributions.{kind}" for kind in ("continuous", "mixture", "truncated")),
)
"""Modules of distributions whose densities integrate to 1."""


class Prior(NamedTuple):
    """The prior of unconstrained vectors."""

    draw_parts: Callable[[], list[Array]]
    log_densities: Callable[[Reals], Reals] | None

    def draw(self, size: int, rng: np.random.Generator | None = None) -> Reals:
        """Return independent draws, shape (size, d); their seed is that of the target."""
        return np.array([np.concatenate(self.draw_parts()) for _ in range(size)]).reshape(size, -1)

    def log_density(self, points: Reals) -> Reals:
        """Return the log density, shape (n,)."""
        assert self.log_densities is not None
        return _without_nan(self.log_densities, points)


class PosteriorTarget(NamedTuple):
    """Unnormalized log posterior of an unconstrained vector."""

    start: Reals
    prior: Prior | None
    log_p: Callable[[Reals], Reals]
    value_and_gradient: Callable[[Reals], tuple[float, Reals]]
    draws: Callable[[Reals], dict[str, Array]]


def target_of(model: pm.Model, seed: int = 1, mode: str | None = None) -> PosteriorTarget:
    """Compile the posterior of a model."""
    values, point = model.value_vars, model.initial_point()
    outcome = model.replace_rvs_by_values([*model.free_RVs, *model.deterministics])
    names = [variable.name for variable in (*model.free_RVs, *model.deterministics)]
    (log_p, *outcome), joined = join_nonshared_inputs(point, [model.logp(), *outcome], values)
    many = pt.dmatrix("many")
    gradient = compile_pymc([joined], [log_p, pt.grad(log_p, joined)], mode=mode)
    batch = compile_pymc([many], vectorize_graph(log_p, {joined: many}), mode=mode)
    transformed = compile_pymc([many], vectorize_graph(outcome, {joined: many}), on_unused_input="ignore", mode=mode)

    def draws(points: Reals) -> dict[str, Array]:
        return dict(zip(names, transformed(points), strict=True))

    start = np.concatenate([np.ravel(point[value.name]) for value in values])
    return PosteriorTarget(start, _prior(model, many, seed), partial(_without_nan, batch), gradient, draws)


def _prior(model: pm.Model, many: TensorVariable, seed: int) -> Prior | None:
    """Compile draws and density of the prior, without optimization: both are cheap."""
    free = model.free_RVs
    if any(isinstance(rv.owner.op, FlatRV | HalfFlatRV) for rv in free):
        return None
    observed = {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}
    drawn = graph_replace(list(drawn_for(model, free).values()), observed, strict=False)
    draw_parts = compile_interpreted([], [value.ravel() for value in drawn], random_seed=seed)
    try:
        draw_parts()
    except NotImplementedError:  # the distribution has no draws
        return None
    if not all(type(rv.owner.op).__module__.startswith(NORMALIZED) for rv in free):
        return Prior(draw_parts, None)
    (log_prior,), joined = join_nonshared_inputs(model.initial_point(), [model.logp(vars=free)], model.value_vars)
    density = compile_interpreted([many], vectorize_graph(log_prior, {joined: many}))
    return Prior(draw_parts, density)


def _without_nan(density: Callable[[Reals], Array], points: Reals) -> Reals:
    with np.errstate(all="ignore"):
        log_p = density(points)
    return np.where(np.isnan(log_p), -np.inf, log_p)
