"""R-hat and effective sample sizes of every element of a variable, each under its own label.

By `az.summary` of ArviZ 1.3 the rows of a table come out in the order of its columns, under labels in the order of its
rows, as soon as another variable has one of the table's dimensions: the numbers of one cell then stand under the name
of another. Its statistics of one variable at a time are laid out as the variable is, and are what is read here.
"""

from __future__ import annotations

import itertools
import warnings

import arviz as az
import numpy as np
import pandas as pd
import xarray as xr

__all__ = ["convergence"]


def convergence(draws: xr.DataArray) -> pd.DataFrame:
    """Measure how well chains of one variable agree.

    Parameters
    ----------
    draws : xarray.DataArray, dimensions ``("chain", "draw", ...)``
        With a name.

    Returns
    -------
    pandas.DataFrame
        One row per element, indexed ``name[label, ...]``, in the order of the dimensions of `draws`: ``ess_bulk``,
        ``ess_tail`` and ``r_hat``, rank-normalised, of split chains. Of an element that never changes R-hat is nan.

    Examples
    --------
    >>> draws = np.random.default_rng(1).normal(size=(4, 100, 2))
    >>> effect = xr.DataArray(draws, coords={"sex": ["f", "m"]}, dims=("chain", "draw", "sex"), name="effect")
    >>> found = convergence(effect)
    >>> list(found.index), bool((found["r_hat"] < 1.1).all())
    (['effect[f]', 'effect[m]'], True)
    """
    draws = draws.transpose("chain", "draw", ...)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # nan of what never changes
        found = {
            "ess_bulk": az.ess(draws, method="bulk"),
            "ess_tail": az.ess(draws, method="tail"),
            "r_hat": az.rhat(draws),
        }
    columns = {name: values.transpose(*draws.dims[2:]).values.ravel() for name, values in found.items()}
    labels = [
        map(str, draws.indexes[dim] if dim in draws.indexes else range(draws.sizes[dim])) for dim in draws.dims[2:]
    ]
    names = [f"{draws.name}[{', '.join(label)}]" for label in itertools.product(*labels)] if labels else [draws.name]
    return pd.DataFrame(columns, index=pd.Index(names))
