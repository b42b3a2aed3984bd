"""Steps for models with a sampled table: Gibbs updates of the table, and NUTS with a dense metric."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm

from ppdinf._internal.pymc_compat import BlockedStep, Competence, QuadPotentialFullAdapt
from ppdinf.errors import ModelError
from ppdinf.samplers.lattice_gibbs import LatticeGibbs


def dense_steps(model: pm.Model | None = None) -> list[BlockedStep]:
    """Return steps for `pm.sample`: `LatticeGibbs` for the table, NUTS with a dense metric for the parameters."""
    model = pm.modelcontext(model)
    tables = [v for v in model.free_RVs if LatticeGibbs.competence(v, has_grad=False) is Competence.IDEAL]
    parameters = [v for v in model.free_RVs if v not in tables]
    if len(tables) != 1 or not parameters:
        raise ModelError(
            "the model must have one confidential table and at least one parameter, found "
            f"{len(tables)} and {len(parameters)}"
        )
    point = model.initial_point()
    size = sum(point[model.rvs_to_values[v].name].size for v in parameters)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "QuadPotentialFullAdapt is an experimental feature")
        metric = QuadPotentialFullAdapt(size, np.zeros(size), np.eye(size), 10)  # what PyMC's "adapt_full" builds
    return [LatticeGibbs(tables, model=model), pm.NUTS(parameters, potential=metric, model=model)]
