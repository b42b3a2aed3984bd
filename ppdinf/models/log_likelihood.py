"""Pointwise log likelihoods of a release by public sum or by cell, and exact leave-one-out predictive densities."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import arviz_stats
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from scipy.special import softmax

from ppdinf._internal.pymc_compat import TensorVariable, Variable
from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.distributions.data_models import has_rows
from ppdinf.distributions.marginal_logp import logp_natural, logp_table
from ppdinf.distributions.marginalization import why_not_marginalizable
from ppdinf.distributions.observed import ObservedRelease
from ppdinf.distributions.random_variables import ReleasedRV
from ppdinf.distributions.renewed_windows import follow_data
from ppdinf.distributions.tables import ConfidentialTable, dependents_of
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.fiber.sums_given_totals.totals import log_coefficient
from ppdinf.models.model_order import dims_of_draws, in_chains, of_each_draw, posterior_of
from ppdinf.models.posterior_tables import of_draws, only_table, outside_windows, sample_confidential, warn_of_windows
from ppdinf.models.pymc_after_sampling import log_likelihood_of_dependent

NEGLIGIBLE = -36.0  # log weight at an end of a range, relative to the largest
LARGEST = 2**20  # counts of a range
TILTS = np.sinh(np.linspace(-6, 6, 25)) / 20  # up to 10


def require_cells(law: ConfidentialRV) -> None:
    """Refuse releases whose cells have no such density."""
    observed = law.observed
    if not isinstance(observed, ObservedRelease) or not observed.is_integer:
        raise ModelError("of='cells' requires a single release with integer noise by a mechanism of ppdinf")
    if observed.likelihood.normaliser is not None or observed.likelihood.query is not None:
        raise ModelError("of='cells' requires independent noise of cells given the public sums: use of='groups'")
    A = observed.system.A
    if observed.system.limits.size:
        raise ModelError("of='cells' does not support public bounds, whose probability depends on the parameters")
    if (A.data != 1).any() or (np.bincount(A.indices, minlength=1) > 1).any():
        raise ModelError("of='cells' requires that every cell is in at most one public sum, with weight 1")


def wider_counts(law: ConfidentialRV, counts: Integers, log_p: Reals) -> Integers | None:
    """Return wider ranges of counts if the weight at the end of a range is not negligible at this draw, or None."""
    (block, total), noise, at = law.groups, law.observed.log_counts(counts), counts.astype(np.float64)
    log_weights = log_p + noise
    lowest, highest = np.zeros(block.size), np.zeros(block.size)
    heavy = np.zeros((2, block.size), dtype=bool)
    for b in range(total.size):
        own = np.flatnonzero(block == b)
        means, of_noise = _tilted_means(log_weights[own], at[own]), _tilted_means(noise[own], at[own])
        together = means.sum(axis=1, keepdims=True)
        sums = np.hstack([together, together - means + of_noise])  # of all cells; with the noise alone in cell i
        tilts = np.array([np.interp(total[b], column, TILTS) for column in sums.T])
        lowest[own], highest[own] = tilts.min(), tilts.max()
        of_alone = noise[own] + tilts[1:, None] * at[own]
        heavy[0, own], heavy[1, own] = _is_heavy(of_alone, 0), _is_heavy(of_alone, -1)
    heavy[0] |= _is_heavy(log_weights + lowest[:, None] * at, 0)
    heavy[1] |= _is_heavy(log_weights + highest[:, None] * at, -1)
    if not heavy.any():
        return None
    size = counts.shape[1]
    first, last = counts[:, 0] - size * heavy[0], counts[:, -1] + size * heavy[1]
    widest = int((last - first).max()) + 1
    if widest > LARGEST:
        raise ModelError(
            f"the released cells are so far from the data model that of='cells' would sum over {widest:,} counts of a "
            "cell: use of='groups'"
        )
    return np.asarray(first[:, None] + np.arange(widest))


def _tilted_means(log_weights: Reals, at: Reals) -> Reals:
    """Return the mean count of each cell with weights times exp(t x), shape (tilts, cells)."""
    return np.array([(softmax(log_weights + t * at, axis=1) * at).sum(axis=1) for t in TILTS])


def _is_heavy(log_weights: Reals, end: int) -> Flags:
    """Return whether the weight at an end is not negligible; also if no count of the range is possible."""
    largest = log_weights.max(axis=1)
    return np.asarray((log_weights[:, end] > largest + NEGLIGIBLE) | ~np.isfinite(largest))


def log_densities_of_cells(law: ConfidentialRV, counts: Integers, log_p: Reals) -> Reals:
    """Return the log predictive density of each cell given the others."""
    (block, total), noise, size = law.groups, law.observed.log_counts(counts), counts.shape[1]
    log_weights = log_p + noise
    found = np.logaddexp.reduce(log_weights, axis=1) - law.observed.log_constants()  # cells in no public sum
    for b in range(total.size):
        own = np.flatnonzero(block == b)
        n = own.size
        copies = np.repeat(log_weights[None, own], n + 1, axis=0)  # copy i has the noise alone in cell i; the last: all
        copies[np.arange(n), np.arange(n)] = noise[own]
        weights = log_coefficient(
            copies.reshape(-1, size),
            lo=np.tile(counts[own, 0], n + 1),
            total=np.full(n + 1, total[b]),
            block=np.repeat(np.arange(n + 1), n),
        )
        found[own] = weights[n] - weights[:n]
    return found


GROUP = "public_group"
FEWEST = 10  # groups for the normal approximations of az.loo


def log_likelihood(
    idata: xr.DataTree | xr.Dataset, model: pm.Model | None = None, of: str = "groups", *, name: str | None = None
) -> xr.DataArray:
    """Return the log likelihood of each part of a release for each posterior draw; add it to ``idata``.

    Parameters
    ----------
    idata : xarray.DataTree or xarray.Dataset
        As for `sample_confidential`. The group ``log_likelihood``, which ``az.loo(idata)`` and ``az.compare`` read, is
        added to a result of `pm.sample`.
    model : pymc.Model, optional
        The model, outside its context.
    of : {"groups", "cells"} or str
        Groups are the cells under one public sum, and each cell in no public sum. ``"cells"`` is the alternative if
        there are few groups: the density of each released cell given the other released cells of its group. Leaving
        out a released cell also leaves out the public sum, which would determine it. The name of an observed variable
        that depends on a table, such as deaths among cases: the density of each observation given the release and all
        other observations, after marginalization of the table, ``log p(d_j, y_j) - log p(y_j)`` for independent cells.
    name : str, optional
        Name of the table, if the model has several.

    Returns
    -------
    xarray.DataArray, dimensions ``("chain", "draw", "public_group")``, ``("chain", "draw", "cell")`` or of the variable
        One entry per public sum, then one per cell in no public sum; or one entry per cell or observation. The
        densities are normalized, so that laws of the noise can be compared, too, for the same released numbers.

    Raises
    ------
    ModelError
        No part of the release can be left out: the table cannot be marginalized, one public sum contains all
        cells, the noise has a scale or a projection shared by all cells, or the data model is over rows. A variable
        or potential that depends on the table is observed too, or noisy sums overlap. For cells: the release is not
        one by a mechanism with independent integer noise of cells given disjoint public sums.

    Warns
    -----
    DiagnosisWarning
        There are fewer than 10 public groups. The posterior of a cell exceeds its truncation window.

    See Also
    --------
    leave_one_out : The same without the approximation of ``az.loo``, for few groups.

    Examples
    --------
    >>> import pymc as pm, xarray as xr, pandas as pd, ppdinf as ppd
    >>> table = xr.DataArray(range(20), dims="area", coords={"area": range(20), "state": ("area", [*range(10)] * 2)})
    >>> release = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.groups("state"), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release=release)
    ...     idata = pm.sample(10, tune=10, chains=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> ppd.log_likelihood(idata, model).public_group.values[:2].tolist()
    ['state=0', 'state=1']
    """
    model = pm.modelcontext(model)
    if of in model.named_vars:
        follow_data(model)
        found = log_likelihood_of_dependent(posterior_of(idata), model, of)
    else:
        found = _of_parts(posterior_of(idata), model, of, name)
    if isinstance(idata, xr.DataTree):
        idata["log_likelihood"] = xr.DataTree(found.to_dataset())
    return found


def _of_parts(posterior: xr.Dataset, model: pm.Model, of: str, name: str | None) -> xr.DataArray:
    """Return the log likelihood of groups or cells of a release for each draw."""
    table, flat = only_table(model, name), in_chains(posterior)
    lead = (flat.sizes["chain"], flat.sizes["draw"])
    if of == "cells":
        law, dim = _require_units(model, name), "cell"
        require_cells(law)
        names = [law.observed.frame.cell(k) for k in range(law.fiber.lower.size)]
        reach = int(np.ceil(law.observed.likelihood.support_radius))
        counts, rows = law.observed.y.astype(np.int64)[:, None] + np.arange(-reach, reach + 1), []
        of_draw = _data_model_of_draws(table, counts, flat, model)
        for at in np.ndindex(lead):
            log_p = of_draw(at)[0]
            while (wider := wider_counts(law, counts, log_p)) is not None:
                counts, of_draw = wider, _data_model_of_draws(table, wider, flat, model)
                log_p = of_draw(at)[0]
            rows.append(log_densities_of_cells(law, counts, log_p))
    elif of == "groups":
        groups, names = pointwise(model, name)
        dim, of_draw = GROUP, of_draws([groups], flat, model)
        rows = [of_draw(at)[0] for at in np.ndindex(lead)]
        warn_of_windows(table, outside_windows(table, flat, model))
        if len(names) < FEWEST:
            warnings.warn(
                f"there are only {len(names)} public groups, too few for the standard errors and the k-hat of az.loo: "
                "use ppd.models.leave_one_out(model), which samples the model again without each group, or of='cells'",
                DiagnosisWarning,
                stacklevel=3,
            )
    else:
        raise ModelError(f"of must be 'groups' or 'cells' or the name of an observed variable, found {of!r}")
    return of_each_draw(rows, posterior, dims_of_draws(posterior), {dim: names}, table.released.name)


def sample_release(
    idata: xr.DataTree | xr.Dataset,
    model: pm.Model | None = None,
    *,
    name: str | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """Draw posterior predictive releases: release each posterior table again, with the same public sums.

    ``pm.sample_posterior_predictive`` draws releases in the same way, together with dependents of the table.

    Parameters
    ----------
    idata : xarray.DataTree or xarray.Dataset
        As for `sample_confidential`.
    model : pymc.Model, optional
    name : str, optional
        Name of the table, if the model has several.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    xarray.DataArray, dimensions ``("chain", "draw", *release.dims)``

    Raises
    ------
    ModelError
        As `sample_confidential`.

    See Also
    --------
    ppdinf.sample_confidential, ppdinf.compare

    Examples
    --------
    >>> import pymc as pm, ppdinf as ppd
    >>> release = ppd.Release([3, -1, 4], ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release=release)
    ...     idata = pm.sample(10, tune=10, chains=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> again = ppd.sample_release(idata, model, random_seed=1)
    >>> again.dims, set(again.sum("dim_0").values.ravel().tolist())
    (('chain', 'draw', 'dim_0'), {6})
    """
    model = pm.modelcontext(model)
    table, rng = only_table(model, name), np.random.default_rng(random_seed)
    observed, noisy = table.law.observed, table.law.observed.noisy
    tables = sample_confidential(idata, model, name=name, random_seed=rng)
    posterior = posterior_of(idata)
    dims = dims_of_draws(posterior)
    flat = tables.values.reshape(-1, *tables.shape[len(dims) :])
    again = ReleasedRV(observed, ndim=flat.ndim - 1)
    given = np.zeros((len(flat), 0))
    if observed.likelihood.has_unknown_scale:
        joined = in_chains(posterior)
        of_draw = of_draws([table.variable.owner.inputs[-1]], joined, model)
        given = np.array([of_draw(at)[0] for at in np.ndindex(joined.sizes["chain"], joined.sizes["draw"])])
    values = [again.rng_fn(rng, x, scales, None) for x, scales in zip(flat, given, strict=True)]
    labels = {dim: noisy.coords[dim].values if dim in noisy.coords else None for dim in noisy.dims}
    return of_each_draw(values, posterior, dims, labels, None)


def pointwise(model: pm.Model, name: str | None = None) -> tuple[TensorVariable, list[str]]:
    """Build the log likelihood of each public group and of each cell in no public sum, and return their names."""
    law, given = _require_units(model, name), only_table(model, name).variable.owner.inputs
    names = _names(law)
    if len(names) < 2:
        raise ModelError(
            "one public sum contains all cells: the release is a single observation and cannot be predicted from "
            "others. Use of='cells', or compare posterior predictive releases: ppd.sample_release(idata, model)"
        )
    return _pointwise(law, given), names


def _require_units(model: pm.Model, name: str | None) -> ConfidentialRV:
    """Return the law of the table; refuse models in which no part of the release can be left out."""
    table = only_table(model, name)
    law, given = table.law, table.variable.owner.inputs
    if reason := why_not_marginalizable(law.observed):
        raise ModelError(f"{table.name!r} cannot be marginalized, so the release has no pointwise likelihood: {reason}")
    if dependents := dependents_of(table.variable, model):
        raise ModelError(
            f"{dependents[0].name!r} is observed for the same cells: the release has no pointwise likelihoods. Use "
            f"of={dependents[0].name!r}, the likelihoods of its observations given the release"
        )
    if law.observed.likelihood.auxiliary is not None and not law.observed.likelihood.has_unknown_scale:
        raise ModelError("the noise has a scale or a projection shared by all cells: no cell can be left out alone")
    if law.lines is not None:
        raise ModelError("exact sums determine cells from the others: no observation can be left out alone")
    if law.nested is not None:
        raise ModelError("noisy sums join the cells of several observations: no observation can be left out alone")
    if has_rows(law.dist(given)):
        raise ModelError("the data model is over rows: write it as independent cells, pm.Poisson.dist(n * p)")
    return law


def _pointwise(law: ConfidentialRV, given: Sequence[Variable]) -> TensorVariable:
    """Build the log likelihood of each group and of each cell in no group, as a symbolic vector."""
    block, total = law.groups
    free, grouped, form = np.flatnonzero(block < 0), np.flatnonzero(block >= 0), law.exponential_family(given)
    place = {"lo": law.fiber.lower, "total": total, "block": block}
    parts = []
    if total.size and form:
        eta, log_normaliser, log_h = form
        normalizers = pt.zeros(total.size)[block[grouped]].inc(log_normaliser[grouped])
        parts += [logp_natural(eta, log_h, **place)[: total.size] - normalizers]
    elif total.size:
        parts += [logp_table(law.weights(given), **place)[: total.size]]
    if free.size:
        parts += [pt.logsumexp(law.weights(given)[free], axis=1)]
    shares = law.observed.log_constants()
    constants = np.append(np.bincount(block[grouped], shares[grouped], minlength=total.size), shares[free])
    return pt.concatenate(parts) - constants


def _data_model_of_draws(
    table: ConfidentialTable, counts: Integers, posterior: xr.Dataset, model: pm.Model
) -> Callable[[tuple[int, int]], list[Reals]]:
    """Compile the log densities of counts by the data model, as a function of a chain and a draw."""
    log_p = table.law.log_data_model(table.variable.owner.inputs, pt.constant(counts))
    return of_draws([log_p], posterior, model)


def _names(law: ConfidentialRV) -> list[str]:
    """Name each group by its public sum, or by its first cell; then the cells in no group."""
    system, (block, total) = law.observed.system, law.groups
    rows: dict[tuple[int, ...], str] = {}
    for row, name in enumerate(system.names):
        cells = system.A.indices[system.A.indptr[row] : system.A.indptr[row + 1]]
        rows.setdefault(tuple(sorted(cells.tolist())), name)
    members = [np.flatnonzero(block == k) for k in range(total.size)]
    named = [
        rows.get(tuple(cells.tolist()), f"cells with {law.observed.frame.cell(int(cells[0]))}") for cells in members
    ]
    return [*named, *(law.observed.frame.cell(int(cell)) for cell in np.flatnonzero(block < 0))]


def leave_one_out(model: pm.Model | None = None, *, name: str | None = None, **sampling: Any) -> pd.DataFrame:
    """Return the log predictive density of each public group of a release given all other groups.

    For each group the model is sampled without the likelihood of this group, at the cost of one run of `pm.sample`.
    ``az.loo`` approximates this from a single sample, which needs about 10 groups or more, and fails where one group
    matters much.

    Parameters
    ----------
    model : pymc.Model, optional
        The model, outside its context.
    name : str, optional
        Name of the table, if the model has several.
    **sampling
        Arguments of `pm.sample`, such as ``draws=1000, random_seed=1``.

    Returns
    -------
    pandas.DataFrame
        One row per public sum, then one per cell in no public sum:

        - ``elpd``: log predictive density, normalized as by `log_likelihood`; its sum over groups is the elpd of the
          model.
        - ``monte_carlo_error``: its standard error due to the finite number of draws.

    Raises
    ------
    ModelError
        As `log_likelihood`.

    Warns
    -----
    DiagnosisWarning
        Without a group, the posterior of a cell exceeds its truncation window.

    See Also
    --------
    log_likelihood : Pointwise log likelihoods for ``az.loo``, from one sample.

    References
    ----------
    A. Vehtari, A. Gelman, J. Gabry, "Practical Bayesian model evaluation using leave-one-out cross-validation and
    WAIC", Stat. Comput. 27 (2017), section 2.1.

    Examples
    --------
    >>> import pymc as pm, xarray as xr
    >>> from ppdinf.models import leave_one_out
    >>> import ppdinf as ppd
    >>> table = xr.DataArray([3, -1, 4, 2], dims="area", coords={"area": list("abcd"), "state": ("area", list("xxyy"))})
    >>> release = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.groups("state"), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release=release)
    >>> leave_one_out(model, draws=50, tune=50, chains=2, random_seed=1, progressbar=False,
    ...               compute_convergence_checks=False).index.tolist()
    ['state=x', 'state=y']
    """
    model = pm.modelcontext(model)
    _, names = pointwise(model, name)
    rows = []
    for k in range(len(names)):
        for _ in range(2):  # the second copy has the windows of the parameters that are plausible without the group
            without = model.copy()
            with without:
                pm.Potential("left_out_group", -pointwise(without, name)[0][k])
            follow_data(without)
        with without:
            posterior = pm.sample(**sampling).posterior
        table = only_table(model, name)
        warn_of_windows(table, outside_windows(table, posterior, model))
        of_draw = of_draws([pointwise(model, name)[0][k]], posterior, model)
        lead = posterior.sizes["chain"], posterior.sizes["draw"]
        values = np.array([of_draw(at)[0] for at in np.ndindex(lead)]).reshape(lead)
        density = np.exp(values - values.max())
        effective = float(arviz_stats.ess(xr.DataArray(density, dims=("chain", "draw"), name="density")).item())
        error = density.std() / density.mean() / np.sqrt(effective) if density.std() > 0 else 0.0
        rows.append((values.max() + np.log(density.mean()), error))
    return pd.DataFrame(rows, columns=["elpd", "monte_carlo_error"], index=pd.Index(names, name=GROUP))
