"""Checks of models and labelled results, shared by the samplers of parameters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pymc as pm
import xarray as xr
from arviz_base import from_dict
from numpy.typing import ArrayLike

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.types import Array
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
    data["observed_data"] = {rv.name: _observed(model, rv) for rv in model.observed_RVs}
    dims = {name: list(named) for name, named in model.named_vars_to_dims.items()}
    coords: dict[str, ArrayLike] = {dim: list(labels) for dim, labels in model.coords.items() if labels is not None}
    tree = from_dict(data, dims=dims, coords=coords)
    tree["sample_stats"].attrs.update(attrs)
    return tree


def _observed(model: pm.Model, rv: TensorVariable) -> Array:
    return np.asarray(model.rvs_to_values[rv].eval())
