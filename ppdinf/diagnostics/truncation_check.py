"""Whether the posterior of a table ends within the windows of counts it was looked for in.

Where the posterior goes further, both routes give an answer for a narrower question without a sign of trouble in any
chain (`ppdinf.models.mass_outside_windows`).
"""

from __future__ import annotations

import pymc as pm
import xarray as xr

from ppdinf.distributions.model_graph.dependents import tables_of
from ppdinf.distributions.model_graph.renewed_windows import follow_data
from ppdinf.errors import ModelError
from ppdinf.models.mass_outside_windows import outside_of_draws, outside_of_law, window_problem
from ppdinf.models.posterior_tables import law_of_draws

__all__ = ["window_problems"]


def window_problems(idata: xr.DataTree, model: pm.Model) -> list[str]:
    """Name the cells whose posterior goes beyond their windows, one sentence for each table.

    Parameters
    ----------
    idata : xarray.DataTree
        What `pm.sample` returned for `model`.
    model : pymc.Model

    Returns
    -------
    list of str
        Empty where all is well.

    Notes
    -----
    For a table that was summed out, compiles one function and works out the law of every cell at 64 posterior draws.
    """
    follow_data(model)
    problems = []
    posterior = idata.posterior
    for table in tables_of(model):
        if table.is_summed_out:
            try:
                lead = posterior.sizes["chain"], posterior.sizes["draw"]
                law = law_of_draws(table, posterior, model, mode="FAST_COMPILE")
                share = outside_of_law(table.law, *law, lead)
            except ModelError as error:  # draws left out
                problems.append(f"Whether windows hold the posterior of {table.name!r} is not known: {error}.")
                continue
        elif table.name in posterior:
            share = outside_of_draws(table.law, posterior[table.name])
        else:
            continue
        problems.append(window_problem(table.name, table.law, share))
    return list(filter(None, problems))
