"""Pointwise log likelihoods of a release, for ``az.loo`` and ``az.compare``: one for the cells of each public sum.

Given the parameters, cells under different public sums are independent, and so are their noisy counts: what can be left
out and predicted from the rest is a whole group, its noisy counts and its public sum together, or a cell in no public
sum. PyMC itself takes a release for one observation, of which there is no rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable, Variable
from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.distributions.densities.marginal_logp import logp_natural, logp_table
from ppdinf.distributions.densities.released_rv import ReleasedRV
from ppdinf.distributions.model_graph.dependents import dependents_of
from ppdinf.distributions.observation.multinomial_rows import has_rows
from ppdinf.errors import ModelError
from ppdinf.models.posterior_tables import of_draws, only_table, sample_confidential

__all__ = ["log_likelihood", "sample_release"]

GROUP = "public_group"


def log_likelihood(idata: xr.DataTree, model: pm.Model | None = None) -> xr.DataArray:
    """Log likelihood of each public group of a release, for each posterior draw; added to ``idata``.

    Parameters
    ----------
    idata : xarray.DataTree
        What `pm.sample` returned. Gets the group ``log_likelihood`` that ``az.loo(idata)`` and ``az.compare`` read.
    model : pymc.Model, optional
        The model, when not in its context; its table is summed out.

    Returns
    -------
    xarray.DataArray, dimensions ``("chain", "draw", "public_group")``
        One entry per public sum, then one per cell in no public sum. Without the constant of the noise law, which
        is the same for every model of a release: compare models of one release, and read no absolute value.

    Raises
    ------
    ModelError
        There is nothing to leave out: the table is a variable of the model (its cells are then parameters, and a
        likelihood given these knows no public sum), one public sum joins all cells, the noise has a scale or a
        projection in common to all cells, or the data model is over rows.

    Examples
    --------
    >>> import pandas as pd, ppdinf as ppd
    >>> table = xr.DataArray([3, -1, 4, 2], dims="area", coords={"area": list("abcd"), "state": ("area", list("xxyy"))})
    >>> release = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.groups("state"), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release=release)
    ...     idata = pm.sample(10, tune=10, chains=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> log_likelihood(idata, model).public_group.values.tolist()
    ['state=x', 'state=y']
    """
    model = pm.modelcontext(model)
    table = only_table(model)
    law, given = table.law, table.variable.owner.inputs
    if not table.is_summed_out:
        raise ModelError(
            f"{table.name!r} is a variable of the model: given its cells the release says nothing of the model, and "
            "there is no pointwise likelihood to be had. Sum it out (marginalize=True) where the public sums allow it"
        )
    if dependents := dependents_of(table.variable, model):
        raise ModelError(
            f"{dependents[0].name!r} is observed of the same cells: there is more to predict than a release"
        )
    if law.observed.likelihood.auxiliary is not None:
        raise ModelError("the noise has a scale or a projection in common to all cells: none can be left out alone")
    if law.nested is not None:
        raise ModelError("noisy sums join the cells of several observations: none can be left out alone")
    if has_rows(law.base_op.make_node(*given).default_output()):
        raise ModelError("the data model is over rows: write it as independent cells, pm.Poisson.dist(n * p)")
    names = _names(law)
    if len(names) < 2:
        raise ModelError(
            "one public sum joins all cells: the release is one observation, and there is no rest to predict it from"
        )
    function = of_draws([_pointwise(law, given)], idata.posterior, model)
    lead = (idata.posterior.sizes["chain"], idata.posterior.sizes["draw"])
    values = np.array([function(at)[0] for at in np.ndindex(lead)]).reshape(*lead, len(names))
    coords = {"chain": idata.posterior.chain, "draw": idata.posterior.draw, GROUP: names}
    found = xr.DataArray(values, dims=("chain", "draw", GROUP), coords=coords, name=table.released.name)
    idata["log_likelihood"] = xr.DataTree(found.to_dataset())
    return found


def sample_release(
    idata: xr.DataTree, model: pm.Model | None = None, *, random_seed: int | np.random.Generator | None = None
) -> xr.DataArray:
    """Release the confidential tables of the posterior again: posterior predictive releases with the public sums.

    The same for a table that was summed out and one that was walked. ``pm.sample_posterior_predictive`` does this for
    a walked table; where it was summed out it draws a new table from the data model first, whose sums are its own.

    Parameters
    ----------
    idata : xarray.DataTree
    model : pymc.Model, optional
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    xarray.DataArray, dimensions ``("chain", "draw", *release.dims)``

    Raises
    ------
    ModelError
        As `sample_confidential`.
    """
    model = pm.modelcontext(model)
    observed, rng = only_table(model).law.observed, np.random.default_rng(random_seed)
    noisy = observed.noisy
    tables = sample_confidential(idata, model, random_seed=rng).values
    flat = tables.reshape(-1, *tables.shape[2:])
    again = ReleasedRV(observed, ndim=tables.ndim - 2)
    values = np.array([again.rng_fn(rng, table, np.zeros(0, dtype=np.int64)) for table in flat])
    dims = ("chain", "draw", *noisy.dims)
    own = {dim: noisy.coords[dim].values for dim in noisy.dims if dim in noisy.coords}
    coords = {"chain": idata.posterior.chain, "draw": idata.posterior.draw, **own}
    return xr.DataArray(values.reshape(*tables.shape[:2], *noisy.shape), dims=dims, coords=coords)


def _pointwise(law: ConfidentialRV, given: Sequence[Variable]) -> TensorVariable:
    """Log likelihood of each group and of each cell in none, symbolic."""
    block, total = law.groups
    free, grouped, form = np.flatnonzero(block < 0), np.flatnonzero(block >= 0), law.exponential_family(given)
    place = {"lo": law.fiber.lower, "total": total, "block": block}
    parts = []
    if total.size and form:
        eta, log_normaliser, log_h = form
        off = pt.zeros(total.size)[block[grouped]].inc(log_normaliser[grouped])
        parts += [logp_natural(eta, log_h, **place)[: total.size] - off]
    elif total.size:
        parts += [logp_table(law.weights(given), **place)[: total.size]]
    if free.size:
        parts += [pt.logsumexp(law.weights(given)[free], axis=1)]
    return pt.concatenate(parts)


def _names(law: ConfidentialRV) -> list[str]:
    """Name each group by the public sum over its cells, else by its first cell; then the cells in none."""
    system, (block, total) = law.observed.system, law.groups
    rows: dict[tuple[int, ...], str] = {}
    for row, name in enumerate(system.names):
        cells = system.A.indices[system.A.indptr[row] : system.A.indptr[row + 1]]
        rows.setdefault(tuple(sorted(cells.tolist())), name)
    members = [np.flatnonzero(block == k) for k in range(total.size)]
    named = [rows.get(tuple(cells.tolist()), f"cells with {_first(law, cells)}") for cells in members]
    return [*named, *(law.observed.frame.cell(int(cell)) for cell in np.flatnonzero(block < 0))]


def _first(law: ConfidentialRV, cells: NDArray[np.int64]) -> str:
    return law.observed.frame.cell(int(cells[0]))
