"""R-hat and effective sample sizes of every element of a variable, and limits of the largest of many R-hats."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_base import rcParams
from arviz_stats.base import array_stats
from scipy.stats import chi2

RHAT = 1.01
LEVEL = 0.05
MIN_DRAWS = 4
"""Draws per chain required for R-hat and effective sample sizes."""
NO_OVERLAP = 100.0
"""R-hat above which chains do not overlap; its exact value is then uninformative."""


def limit(quantities: int, chains: int = 4) -> float:
    """Return the limit for the largest of many R-hats, 1.01 for one quantity."""
    # for chains that mix, R-hat**2 - 1 is about a scaled chi-square variable; the joint 95 % quantile (Bonferroni)
    freedom = 2 * chains - 1
    grows = chi2.isf(LEVEL / max(quantities, 1), freedom) / chi2.isf(LEVEL, freedom)
    return float(np.sqrt(1 + (RHAT**2 - 1) * grows))


def format_rhat(value: float, threshold: float) -> str:
    """Format an R-hat with enough digits to compare it with the limit, and the limit if it is exceeded."""
    if np.isnan(value):
        return "not a number"
    if value > NO_OVERLAP:
        return f"above {NO_OVERLAP:.0f}"
    if value <= threshold:
        return f"{value:.3f}"
    digits = next((k for k in range(3, 16) if f"{value:.{k}f}" != f"{threshold:.{k}f}"), 16)
    return f"{value:.{digits}f} (above {threshold:.{digits}f})"


def convergence(draws: xr.DataArray) -> pd.DataFrame:
    """Measure the agreement of the chains of one variable."""
    draws = draws.transpose("chain", "draw", ...)
    chains, length = draws.shape[:2]
    upper = rcParams["stats.ci_prob"]  # ArviZ's quantiles of the tail
    columns = {name: np.full(math.prod(draws.shape[2:]), np.nan) for name in ("ess_bulk", "ess_tail", "r_hat")}
    arviz: Any = array_stats  # its functions have no types
    for k, number in enumerate(np.moveaxis(draws.values.reshape(chains, length, -1), 2, 0)):
        values = number.astype(np.float64)
        if length < MIN_DRAWS or not np.isfinite(values).all():
            continue
        with np.errstate(divide="ignore", invalid="ignore"):  # constant numbers
            columns["ess_bulk"][k] = arviz.ess(values, method="bulk")
            columns["ess_tail"][k] = arviz.ess(values, method="tail", prob=(1 - upper, upper))
            columns["r_hat"][k] = arviz.rhat(values) if chains > 1 else np.nan
    labels = [
        map(str, draws.indexes[dim] if dim in draws.indexes else range(draws.sizes[dim])) for dim in draws.dims[2:]
    ]
    names = [f"{draws.name}[{', '.join(label)}]" for label in itertools.product(*labels)] if labels else [draws.name]
    return pd.DataFrame(columns, index=pd.Index(names))
