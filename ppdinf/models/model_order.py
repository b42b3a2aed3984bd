"""Posterior draws in the order of the dimensions and labels of a model.

`xarray.Dataset.sel`, `sortby` and `reindex` change the order of labels. Functions that evaluate a model at posterior
draws take arrays by position, so they restore the order of the model first.
"""

from __future__ import annotations

import pandas as pd
import pymc as pm
import xarray as xr

from ppdinf.errors import ModelError

__all__ = ["in_model_order"]


def in_model_order(draws: xr.DataArray, name: str, model: pm.Model) -> xr.DataArray:
    """Order draws of a variable as the model does, with ``chain`` and ``draw`` first.

    Dimensions without names in the model, and dimensions without labels, stay in place.

    Raises
    ------
    ModelError
        The labels of a dimension are not those of the model; the message names one.

    Examples
    --------
    >>> with pm.Model(coords={"area": ["A", "B"]}) as model:
    ...     rate = pm.Gamma("rate", 2, 1, dims="area")
    >>> draws = xr.DataArray([[[3.0, 4.0]]], dims=("chain", "draw", "area"), coords={"area": ["B", "A"]})
    >>> in_model_order(draws, "rate", model).values
    array([[[4., 3.]]])
    """
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
