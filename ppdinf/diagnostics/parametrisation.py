"""Which variable makes NUTS take short steps or diverge, and which way of writing it would suit what is told.

Normal effects with a scale of their own to learn are written centred, ``eta ~ Normal(mu, tau)``, or in units of the
scale, ``z ~ Normal(0, 1)``, ``eta = mu + tau z``. Where little is told of the effects, the first makes a funnel: the
smaller tau, the less room for eta, and transitions diverge where tau is small. Of thousands of effects none diverges,
but tau moves no further than the size of all of them lets it: that follows tau, ``log tau`` and its logarithm are
nearly the same. Where much is told, the second way does harm: the effects stay where they are when tau moves, so that z
has to move against it, and ``log tau`` and the size of z are negatively related.

References
----------
M. Betancourt, M. Girolami, "Hamiltonian Monte Carlo for hierarchical models" (2015), section 3. O. Papaspiliopoulos,
G. O. Roberts, M. Skoeld, "A general framework for the parametrization of hierarchical models", Statistical Science 22
(2007), 59-73, section 2, for what the share of a scale that effects determine does to either.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from ppdinf._pymc_internals import NormalRV, TensorVariable, ancestors, compile_pymc
from ppdinf._types import Array
from ppdinf.models.posterior_tables import Posterior

__all__ = ["parametrisations"]

SMALL = 0.25  # share of draws with the smallest scales
CROWDED = 0.6  # share of divergences among these, from which on they are where the scale is small
AGAINST = -0.5  # correlation of log scale and log size, from which on effects move against their scale
WITH = 0.9  # that from which on they move with it alone
LOOKED_AT = 400  # draws for which means and scales of effects are worked out


def parametrisations(idata: xr.DataTree, model: pm.Model, low: list[str]) -> list[str]:
    """Say which normal effects to write otherwise; empty where none is at fault.

    Parameters
    ----------
    idata : xarray.DataTree
    model : pymc.Model
    low : list of str
        Variables with too small an effective sample size.

    Returns
    -------
    list of str
        One sentence for each variable, naming it.
    """
    posterior, found = idata.posterior, []
    diverged = diverging(idata)
    free = {rv: rv.name for rv in model.free_RVs if rv.name in posterior and rv.dtype.startswith("float")}
    for rv, name in free.items():
        if not isinstance(rv.owner.op, NormalRV) or rv.ndim == 0:
            continue
        mean, sd = rv.owner.op.dist_params(rv.owner)
        for scale in [x for x in ancestors([sd]) if x in free and x.ndim == 0]:
            tau = free[scale]
            if diverged.any() and _where_small(_log(posterior[tau]), diverged) > CROWDED:
                fault = f"Transitions diverge where {tau!r} is small, the scale of {name!r}: a funnel."
            elif tau in low and _together(posterior, rv, tau, free, model):
                fault = f"{tau!r} moves no further than {name!r}, whose scale it is, lets it."
            else:
                continue
            found.append(
                f"{fault} Little is told of {name!r}: write it in units of its scale, mu + {tau} * pm.Normal(..., 0, "
                "1), or have ppdinf.models.ready.log_rates choose."
            )
        if [x for x in ancestors([mean, sd]) if x in free]:
            continue
        for scale in [x for x in free if x.ndim == 0 and x is not rv]:
            tau = free[scale]
            if (tau in low or diverged.any()) and _against(posterior, name, tau):
                found.append(
                    f"{name!r} moves against {tau!r}: the larger one, the smaller the other. Much is told of the "
                    f"effects of which {name!r} is in units of {tau!r}: write them centred, pm.Normal(..., mu, {tau}), "
                    "or have ppdinf.models.ready.log_rates choose."
                )
    return found


def diverging(idata: xr.DataTree) -> NDArray[np.bool_]:
    """Which transitions diverged, chain after chain; one that did not where no sampler says."""
    stats = idata.get("sample_stats")
    if stats is None or "diverging" not in stats:
        return np.zeros(1, dtype=bool)
    return np.asarray(stats["diverging"].values, dtype=bool).ravel()


def _log(values: xr.DataArray) -> NDArray[np.float64]:
    draws = np.asarray(values.values, dtype=float).ravel()
    logs: NDArray[np.float64] = np.log(np.maximum(draws, np.finfo(float).tiny))
    return logs


def _where_small(log_scale: NDArray[np.float64], diverging: NDArray[np.bool_]) -> float:
    """Return the share of divergences among the draws with the smallest scales."""
    return float(np.mean(log_scale[diverging] <= np.quantile(log_scale, SMALL)))


def _together(
    posterior: Posterior, effects: TensorVariable, tau: str, free: dict[TensorVariable, str], model: pm.Model
) -> bool:
    """Whether the size of effects around their mean goes with their scale."""
    parameters = effects.owner.op.dist_params(effects.owner)
    above = set(ancestors(parameters)) & set(model.basic_RVs)
    inputs = [x for x in free if x in above]
    if len(inputs) < len(above):
        return False  # no draws of some of it
    names = [free[x] for x in (effects, *inputs)]
    draws = [posterior[name].values.reshape(-1, *posterior[name].shape[2:]) for name in names]
    some = np.unique(np.linspace(0, len(draws[0]) - 1, LOOKED_AT).astype(int))
    law = compile_pymc(inputs, parameters, mode="FAST_COMPILE", on_unused_input="ignore")
    size = np.array([_size(values[0], *law(*values[1:])) for values in zip(*[d[some] for d in draws], strict=True)])
    scale = _log(posterior[tau])[some]
    return bool(np.isfinite(size).all() and np.corrcoef(scale, scale + size)[0, 1] > WITH)


def _size(effects: Array, mean: Array, sd: Array) -> float:
    """Logarithm of the size of effects in units of their standard deviation."""
    with np.errstate(all="ignore"):
        return float(np.log(np.mean(((effects - mean) / sd) ** 2)) / 2)


def _against(posterior: Posterior, name: str, tau: str) -> bool:
    """Whether the size of effects in units of a scale falls as it grows."""
    scale = np.asarray(posterior[tau].values, dtype=float)
    if (scale <= 0).any():
        return False
    z = np.asarray(posterior[name].values, dtype=float)
    size = 0.5 * np.log(np.mean(z**2, axis=tuple(range(2, z.ndim))).ravel())
    return bool(np.corrcoef(_log(posterior[tau]), size)[0, 1] < AGAINST)
