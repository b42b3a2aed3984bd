"""Log posterior density of a model in its unconstrained space, for single points and for batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import (
    FlatRV,
    HalfFlatRV,
    TensorVariable,
    compile_pymc,
    graph_replace,
    join_nonshared_inputs,
    vectorize_graph,
)
from ppdinf._internal.types import Array
from ppdinf.distributions.model_graph.dependents import drawn_for

NORMALIZED = (
    "pytensor.tensor.random",
    *(f"pymc.distributions.{kind}" for kind in ("continuous", "mixture", "truncated")),
)
"""Modules of distributions whose densities integrate to 1."""

Matrix = NDArray[np.float64]


class Prior(NamedTuple):
    """The prior of unconstrained vectors."""

    draw_parts: Callable[[], list[Array]]
    log_densities: Callable[[Matrix], NDArray[np.float64]] | None

    def draw(self, size: int, rng: np.random.Generator | None = None) -> Matrix:
        """Return independent draws, shape (size, d); their seed is that of the target."""
        return np.array([np.concatenate(self.draw_parts()) for _ in range(size)]).reshape(size, -1)

    def log_density(self, points: Matrix) -> NDArray[np.float64]:
        """Return the log density, shape (n,)."""
        assert self.log_densities is not None
        return _without_nan(self.log_densities, points)


class PosteriorTarget(NamedTuple):
    """Unnormalized log posterior of an unconstrained vector."""

    start: NDArray[np.float64]
    prior: Prior | None
    log_p: Callable[[Matrix], NDArray[np.float64]]
    value_and_gradient: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]
    draws: Callable[[Matrix], dict[str, Array]]


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

    def draws(points: Matrix) -> dict[str, Array]:
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
    draw_parts = compile_pymc([], [value.ravel() for value in drawn], mode="FAST_COMPILE", random_seed=seed)
    try:
        draw_parts()
    except NotImplementedError:  # the distribution has no draws
        return None
    if not all(type(rv.owner.op).__module__.startswith(NORMALIZED) for rv in free):
        return Prior(draw_parts, None)
    (log_prior,), joined = join_nonshared_inputs(model.initial_point(), [model.logp(vars=free)], model.value_vars)
    density = compile_pymc([many], vectorize_graph(log_prior, {joined: many}), mode="FAST_COMPILE")
    return Prior(draw_parts, density)


def _without_nan(density: Callable[[Matrix], Array], points: Matrix) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        log_p = density(points)
    return np.where(np.isnan(log_p), -np.inf, log_p)
