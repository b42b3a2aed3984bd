"""Movement of each cell of a chain of tables, which R-hat and ESS cannot detect if nothing moves.

A chain that never moves has an R-hat of nan and an ESS equal to the number of draws. Neither PyMC nor ArviZ
warns. The diagnostics of the parameters look acceptable, although their spread is far too small.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr


def acceptance_by_cell(draws: xr.DataArray) -> pd.DataFrame:
    """Measure how often each cell of a chain of integer tables moves, and its number of distinct values.

    Parameters
    ----------
    draws : xarray.DataArray of integers, dimensions ``("chain", "draw", ...)``

    Returns
    -------
    pandas.DataFrame
        One row per cell, indexed by its labels. ``moved``: the fraction of draws that differ from the previous
        draw, smallest over chains. ``changes``: the number of such draws in all chains. ``distinct``: the number of
        distinct values in all chains.

    See Also
    --------
    ppdinf.diagnose, ppdinf.plots.plot_chains

    Examples
    --------
    >>> import xarray as xr
    >>> from ppdinf.diagnostics import acceptance_by_cell
    >>> import numpy as np
    >>> table = xr.DataArray(np.array([[[1, 5], [2, 5], [2, 5]]]), dims=("chain", "draw", "county"))
    >>> acceptance_by_cell(table)
            moved  changes  distinct
    county
    0         0.5        1         2
    1         0.0        0         1
    """
    cells = [dim for dim in draws.dims if dim not in ("chain", "draw")]
    draws = draws.transpose("chain", "draw", *cells)
    values = draws.values
    changed = np.diff(values, axis=1) != 0
    moved, changes = changed.mean(axis=1).min(axis=0), changed.sum(axis=(0, 1))
    flat = np.sort(values.reshape(-1, *values.shape[2:]), axis=0)
    distinct = 1 + (np.diff(flat, axis=0) != 0).sum(axis=0)
    if not cells:
        one = {"moved": [float(moved)], "changes": [int(changes)], "distinct": [int(distinct)]}
        return pd.DataFrame(one, index=[draws.name])
    labels = [draws.indexes[dim] if dim in draws.indexes else range(draws.sizes[dim]) for dim in cells]
    index = pd.MultiIndex.from_product(labels, names=cells) if len(cells) > 1 else pd.Index(labels[0], name=cells[0])
    columns = {"moved": moved.ravel(), "changes": changes.ravel(), "distinct": distinct.ravel()}
    return pd.DataFrame(columns, index=index)
