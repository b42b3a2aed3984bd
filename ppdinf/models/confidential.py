"""Posterior draws of the confidential table, whichever way the model was fitted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from ppdinf._pymc_internals import ancestors, compile_pymc
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.models.distributions import ConfidentialRV, MarginalRV
from ppdinf.samplers import totals

__all__ = ["finished_draws", "of_draws", "sample_confidential"]


def sample_confidential(
    idata: Any, model: pm.Model | None = None, *, random_seed: int | np.random.Generator | None = None
) -> xr.DataArray:
    """Posterior draws of the confidential table; every one agrees with everything public.

    Where the table was summed out, one exact independent draw for each posterior draw of the parameters,
    added to ``idata.posterior``; where it is a variable of the model, its draws.

    Parameters
    ----------
    idata : xarray.DataTree
        What `pm.sample` returned.
    model : pymc.Model, optional
        The model, when not in its context. It holds one `PartiallyPrivate` table.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    xarray.DataArray of int64, dimensions ``("chain", "draw", *release.dims)``

    Raises
    ------
    ModelError
        The model has no such table or several, or `idata` comes from another model.

    Warns
    -----
    DiagnosisWarning
        Sampling was stopped and chains differ in length: of each only the draws that all have are kept in `idata`.

    Notes
    -----
    Some 100 us for each draw of 20 cells.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.Gamma("rate", 2, 1)
    ...     counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(rate), release=release)
    ...     idata = pm.sample(10, tune=10, chains=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> table = sample_confidential(idata, model, random_seed=1)
    >>> table.dims, set(table.sum("dim_0").values.ravel().tolist())
    (('chain', 'draw', 'dim_0'), {6})
    """
    model = pm.modelcontext(model)
    kinds = ConfidentialRV | MarginalRV
    found = [rv for rv in (*model.free_RVs, *model.observed_RVs) if isinstance(rv.owner.op, kinds)]
    if len(found) != 1:
        raise ModelError(f"the model has {len(found)} confidential tables, expected one made by PartiallyPrivate")
    (rv,) = found
    name = rv.name.removesuffix("_release") if isinstance(rv.owner.op, MarginalRV) else rv.name
    finished = finished_draws(idata)
    if finished is not idata:
        idata["posterior"] = finished.posterior.to_dataset()
    if name not in idata.posterior:
        if isinstance(rv.owner.op, ConfidentialRV):
            raise ModelError(f"the posterior holds no {name!r}: pass the result of pm.sample() for this model")
        draws = _draw_summed_out(rv, idata.posterior, model, np.random.default_rng(random_seed))
        dims = ("chain", "draw", *rv.owner.op.release.dims)
        table = xr.DataArray(draws, dims=dims, coords=rv.owner.op.release.coords)
        idata["posterior"] = idata.posterior.to_dataset().assign({name: table})
    return idata.posterior[name]


def finished_draws(idata: Any) -> Any:
    """Leave out draws that not every chain has: nutpie, when stopped, fills those it has not made with nan.

    Parameters
    ----------
    idata : xarray.DataTree

    Returns
    -------
    xarray.DataTree
        `idata` itself where chains are equally long.

    Warns
    -----
    DiagnosisWarning
        Saying how many draws of each chain are used.
    """
    posterior = idata.posterior.to_dataset()
    real = [variable for variable in posterior.data_vars.values() if variable.dtype.kind == "f"]
    there = [v.notnull().all([dim for dim in v.dims if dim not in ("chain", "draw")]) for v in real]
    if not there or all(bool(part.isel(draw=-1).all()) for part in there):
        return idata
    made = np.logical_and.reduce([part.transpose("chain", "draw").values for part in there])
    lengths = made.sum(axis=1)
    if (made != (np.arange(made.shape[1]) < lengths[:, None])).any() or not lengths.min():
        return idata  # nan among the draws themselves: a fault, which diagnose names
    warnings.warn(
        f"the chains were stopped after {', '.join(map(str, lengths.tolist()))} draws: "
        f"the first {lengths.min()} of each are used",
        DiagnosisWarning,
        stacklevel=3,
    )
    kept = idata.copy()
    for group in ("posterior", "sample_stats"):
        if group in kept.children:
            kept[group] = kept[group].to_dataset().isel(draw=slice(int(lengths.min())))
    return kept


def _draw_summed_out(rv: Any, posterior: Any, model: pm.Model, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw x given the parameters, the release and the totals, for every posterior draw of the parameters."""
    op = rv.owner.op
    eta, table, log_h = op.weights(rv.owner.inputs[:-1])
    function = of_draws([eta if log_h is not None else table], posterior, model)
    lead = (posterior.sizes["chain"], posterior.sizes["draw"])
    place = {"lo": op.fiber.lower, "total": op.total, "block": op.block, "rng": rng}
    flat = [function(at)[0] for at in np.ndindex(lead)]
    if log_h is not None:
        draws = totals.draw(log_h, eta=np.array(flat), **place)
    else:
        draws = np.array([totals.draw(weights, **place) for weights in flat])
    return draws.reshape(*lead, *op.release.shape)


def of_draws(
    outputs: list[Any], posterior: Any, model: pm.Model, mode: str | None = None
) -> Callable[[tuple[int, int]], list[NDArray[np.float64]]]:
    """Compile symbolic functions of a model's variables, to be called with a chain and a draw of the posterior."""
    near = set(ancestors(outputs, blockers=model.free_RVs))
    parameters = [free for free in model.free_RVs if free in near]
    columns = [posterior[p.name].transpose("chain", "draw", ...).values for p in parameters]
    function = compile_pymc(parameters, outputs, mode=mode)
    return lambda at: function(*(column[at] for column in columns))
