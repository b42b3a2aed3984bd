"""R-hat and effective sample sizes of every element of a variable, by label.

`az.summary` of ArviZ 1.3 mislabels the rows of a table if another variable has one of the table's dimensions: rows
are in the order of the table's columns, labels in the order of its rows. It also takes 3 ms per element, which is an
hour for a million cells.
"""

from __future__ import annotations

import itertools

import pandas as pd
import xarray as xr
from arviz_base import rcParams

from ppdinf.diagnostics.chain_statistics import chain_statistics


def convergence(draws: xr.DataArray) -> pd.DataFrame:
    """Measure the agreement of the chains of one variable."""
    draws = draws.transpose("chain", "draw", ...)
    chains, length = draws.shape[:2]
    upper = rcParams["stats.ci_prob"]  # ArviZ's quantiles of the tail
    statistics = chain_statistics(draws.values.reshape(chains, length, -1), (1 - upper, upper))
    columns = dict(zip(("ess_bulk", "ess_tail", "r_hat"), statistics, strict=True))
    labels = [
        map(str, draws.indexes[dim] if dim in draws.indexes else range(draws.sizes[dim])) for dim in draws.dims[2:]
    ]
    names = [f"{draws.name}[{', '.join(label)}]" for label in itertools.product(*labels)] if labels else [draws.name]
    return pd.DataFrame(columns, index=pd.Index(names))
