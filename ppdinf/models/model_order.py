"""Posterior draws in chains, and in the order of the dimensions and labels of a model.

`xarray.Dataset.sel`, `sortby` and `reindex` change the order of labels. Functions that evaluate a model at posterior
draws take arrays by position, so they restore the order of the model first. `DataTree.sel` removes dimensions of draws,
and `arviz.extract` joins them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from ppdinf.errors import ModelError


def posterior_of(idata: object) -> xr.Dataset:
    """Return the posterior of a result of `pm.sample`, of a part of it, or of `arviz.extract`."""
    if isinstance(idata, xr.DataTree):
        idata = (idata["posterior"] if "posterior" in idata.children else idata).to_dataset()
    if isinstance(idata, xr.DataArray) and idata.name is not None:  # arviz.extract of a single variable
        idata = idata.to_dataset()
    if not isinstance(idata, xr.Dataset) or not idata.sizes:
        raise ModelError(
            "idata must contain posterior draws by name: pass the result of pm.sample, its group idata.posterior, or "
            f"the Dataset of az.extract(idata); found {type(idata).__name__} without them"
        )
    return idata


def dims_of_draws(posterior: xr.Dataset) -> list[str]:
    """Return the dimensions of draws: chain and draw, or one of them, or the sample of `arviz.extract`."""
    dims = [dim for dim in ("sample", "chain", "draw") if dim in posterior.dims]
    if not dims:
        raise ModelError("the posterior has no dimension chain, draw or sample: select draws by a list, draw=[0]")
    return dims


def of_each_draw(
    values: ArrayLike, posterior: xr.Dataset, dims: Sequence[str], labels: Mapping[Hashable, Any], name: str | None
) -> xr.DataArray:
    """Return results of one draw after the other, with the dimensions of draws first and those of `labels` last."""
    rows = np.reshape(values, [*(posterior.sizes[dim] for dim in dims), *np.shape(values)[1:]])
    of_draws = posterior.drop_dims([dim for dim in posterior.dims if dim not in dims])
    found = xr.DataArray(rows, of_draws.coords, (*dims, *labels), name)
    return found.assign_coords({dim: (dim, list(label)) for dim, label in labels.items() if label is not None})


def in_chains(posterior: xr.Dataset, dims: Sequence[str] | None = None) -> xr.Dataset:
    """Return draws with the dimensions chain and draw, joining other dimensions of draws to one chain."""
    dims = dims_of_draws(posterior) if dims is None else list(dims)
    if dims == ["chain", "draw"]:
        return posterior
    number = math.prod(posterior.sizes[dim] for dim in dims)
    joined = {}
    for name, draws in posterior.data_vars.items():
        if set(dims) <= set(draws.dims):
            draws = draws.transpose(*dims, ...)
            rest = draws.dims[len(dims) :]
            joined[name] = (("chain", "draw", *rest), draws.values.reshape(1, number, *draws.shape[len(dims) :]))
    kept = {dim: posterior.indexes[dim] for dim in posterior.dims if dim not in dims and dim in posterior.indexes}
    return xr.Dataset(joined, kept)


def in_model_order(draws: xr.DataArray, name: str, model: pm.Model) -> xr.DataArray:
    """Order draws of a variable as the model does, with ``chain`` and ``draw`` first."""
    named = model.named_vars_to_dims.get(name) or [None] * (draws.ndim - 2)
    dims = [f"{name}_dim_{axis}" if dim is None else dim for axis, dim in enumerate(named)]
    if set(draws.dims) != {"chain", "draw", *dims}:
        return draws.transpose("chain", "draw", ...)
    for dim in dims:
        own = draws.indexes.get(dim)
        if own is None:
            continue
        labels = pd.Index(range(len(own)) if model.coords.get(dim) is None else model.coords[dim])
        if own.equals(labels):
            continue
        places = own.get_indexer(labels) if own.is_unique else None
        if places is None or len(own) != len(labels) or (places < 0).any():
            wrong = [*labels.difference(own, sort=False), *own.difference(labels, sort=False), *own[own.duplicated()]]
            raise ModelError(
                f"the draws of {name!r} have other labels of {dim!r} than the model, such as {wrong[0]!r}: pass draws "
                "of all labels of the model, each once"
            )
        draws = draws.isel({dim: places})
    return draws.transpose("chain", "draw", *dims)
