"""Posterior probability of a table outside its truncation windows.

If the posterior exceeds the windows, marginalized and sampled models both give the posterior of a truncated model, and
diagnostics of the chains do not detect it (`ppdinf.models.mass_outside_windows`).
"""

from __future__ import annotations

import pymc as pm
import xarray as xr

from ppdinf.distributions.model_graph.dependents import tables_of
from ppdinf.distributions.model_graph.renewed_windows import follow_data
from ppdinf.errors import ModelError
from ppdinf.models.mass_outside_windows import window_problem
from ppdinf.models.posterior_tables import outside_windows


def window_problems(idata: xr.DataTree, model: pm.Model) -> list[str]:
    """Name the cells whose posterior exceeds their windows, one sentence per table."""
    follow_data(model)
    problems = []
    posterior = idata.posterior
    for table in tables_of(model):
        if not table.is_marginalized and table.name not in posterior:
            continue
        try:
            problems.append(window_problem(table.name, table.law, outside_windows(table, posterior, model)))
        except ModelError as error:  # draws of a required variable are missing
            problems.append(f"The windows of {table.name!r} cannot be checked against the posterior: {error}.")
    return list(filter(None, problems))
