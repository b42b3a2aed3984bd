"""Exact leave-one-out predictive densities of public groups: the model is sampled again without each group."""

from __future__ import annotations

from typing import Any

import arviz_stats
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from ppdinf.distributions.model_graph.renewed_windows import follow_data
from ppdinf.models.log_likelihood import GROUP, pointwise
from ppdinf.models.posterior_tables import of_draws, only_table, outside_windows, warn_of_windows


def leave_one_out(model: pm.Model | None = None, *, name: str | None = None, **sampling: Any) -> pd.DataFrame:
    """Return the log predictive density of each public group of a release given all other groups.

    For each group the model is sampled without the likelihood of this group. ``az.loo`` approximates this from a single
    sample, which needs about 10 groups or more, and fails where one group matters much.

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

    Notes
    -----
    The cost is that of one run of `pm.sample` per group.

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
