"""Posteriors in which everything but the table is known, without a sampler that would find out."""

import numpy as np
import xarray as xr


def known(draws, **values):
    """What `pm.sample` returns, one chain, where every draw of the parameters is the same."""
    at = {name: (("chain", "draw"), np.full((1, draws), value)) for name, value in values.items()}
    posterior = xr.Dataset(at, coords={"chain": [0], "draw": np.arange(draws)})
    return xr.DataTree.from_dict({"posterior": posterior})
