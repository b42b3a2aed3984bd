"""Comparison of the chains with importance sampling, which detects modes that no chain visited.

R-hat and effective sample sizes compare chains with each other: they cannot detect a mode that every chain missed.
Importance sampling searches for modes from draws of the prior (`ppdinf.samplers.importance`), independently of the
chains. The two estimates of P(parameter <= t) are compared at 41 quantiles t of each of the two samples.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from ppdinf._internal.pymc_compat import NullTypeGradError
from ppdinf._internal.values import Array
from ppdinf.errors import ModelError
from ppdinf.samplers.posterior_importance import weighted_draws
from ppdinf.samplers.posterior_target import as_tree, target_of

MAX_PARAMETERS = 5  # maximum number of parameters: the comparison takes seconds
MAX_SECONDS = 3e-3  # longest evaluation of density and gradient for which it stays below a quarter of a minute
DRAWS = 300  # 3,000 weighted draws
K_HAT = 0.7  # above, the weights are not reliable and nothing is compared
MIN_ESS = 200.0
LEVELS = np.array([0.005, *np.linspace(0.025, 0.975, 39), 0.995])  # of the quantiles that are compared
DEVIATIONS = 5.0  # standard errors: a false alarm has a probability of at most 82 * 6e-7 per parameter
NEGLIGIBLE = 0.003  # difference of two probabilities that Pareto smoothing may leave


def missed_modes(idata: xr.DataTree, model: pm.Model, parameters: pd.DataFrame) -> list[str]:
    """Report a parameter whose distribution in the chains differs from that of importance sampling."""
    try:
        target = target_of(model, mode="FAST_COMPILE")
    except (NotImplementedError, NullTypeGradError):  # no gradient, for example of a likelihood in other code
        return []
    times = []
    for _ in range(3):
        begin = time.process_time()
        target.value_and_gradient(target.start)
        times.append(time.process_time() - begin)
    if min(times) > MAX_SECONDS:
        return []
    try:
        found = weighted_draws(target, DRAWS, np.random.default_rng(1))
    except ModelError:  # no mode with a Gaussian approximation
        return []
    if not found.agree:
        return [
            "Two searches from different starts found different modes of the posterior, and the chains may have missed "
            "one: compare with ppdinf.samplers.importance or ppdinf.samplers.rejection."
        ]
    if not found.k <= K_HAT or found.ess < MIN_ESS:
        return []
    drawn = as_tree(model, target.draws(found.points), {"log_weight": found.log_weight}, {}).posterior
    weight, ess = np.exp(found.log_weight), parameters[["ess_bulk", "ess_tail"]].min(axis=1).to_numpy()
    columns: list[tuple[Array, Array]] = []
    for rv in model.free_RVs:
        in_chains = idata.posterior[rv.name]
        matched = _in_the_order_of(in_chains, drawn[rv.name])
        if matched is None:
            return []
        columns += zip(_elements(matched), _elements(in_chains), strict=True)
    differences = [
        _largest_difference(weighted, weight, found.ess, chains, n)
        for (weighted, chains), n in zip(columns, ess, strict=True)
    ]
    worst = max(range(ess.size), key=lambda k: differences[k][0])
    excess, at, importance, sampled = differences[worst]
    if excess <= 0:
        return []
    name = parameters.index[worst]
    return [
        f"The chains have P({name} <= {at:.3g}) = {sampled:.3f}, importance sampling from independent starts has "
        f"{importance:.3f}: the chains missed a mode or did not mix between modes. Use ppdinf.samplers.importance or "
        "ppdinf.samplers.rejection for this posterior."
    ]


def _in_the_order_of(chains: xr.DataArray, weighted: xr.DataArray) -> xr.DataArray | None:
    """Order the elements of weighted draws by the dimensions and labels of the chains, or None if elements differ."""
    if set(chains.dims) != set(weighted.dims):
        return None
    for dim in (dim for dim in chains.dims if dim not in ("chain", "draw")):
        labels, own = chains.indexes.get(dim), weighted.indexes.get(dim)
        if chains.sizes[dim] != weighted.sizes[dim] or (labels is None) != (own is None):
            return None
        if labels is not None and own is not None and not labels.equals(own):
            if not (labels.is_unique and own.is_unique and labels.isin(own).all()):
                return None
            weighted = weighted.isel({dim: own.get_indexer(labels)})
    return weighted.transpose(*chains.dims)


def _elements(draws: xr.DataArray) -> Array:
    """Return one row of draws for each element."""
    return draws.transpose(..., "chain", "draw").values.reshape(-1, draws.sizes["chain"] * draws.sizes["draw"])


def _largest_difference(
    weighted: Array, weight: Array, weighted_ess: float, chains: Array, chains_ess: float
) -> tuple[float, float, float, float]:
    """Compare P(parameter <= t) of weighted draws and of chains."""
    order = np.argsort(weighted)
    cumulative = np.concatenate([[0.0], np.cumsum(weight[order])])
    inner = np.minimum(np.searchsorted(cumulative[1:], LEVELS), order.size - 1)
    t = np.concatenate([weighted[order][inner], np.quantile(chains, LEVELS)])
    importance = cumulative[np.searchsorted(weighted[order], t, side="right")]
    sampled = np.searchsorted(np.sort(chains), t, side="right") / chains.size
    pooled = (weighted_ess * importance + chains_ess * sampled) / (weighted_ess + chains_ess)
    error = np.sqrt(pooled * (1 - pooled) * (1 / weighted_ess + 1 / chains_ess))
    excess = np.abs(importance - sampled) - NEGLIGIBLE - DEVIATIONS * error
    k = int(np.argmax(excess))
    return float(excess[k]), float(t[k]), float(importance[k]), float(sampled[k])
