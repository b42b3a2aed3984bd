"""Cells of a sampled table that the Gibbs step moves from posterior draws.

A chain that mixes also leaves cells constant: other counts of a cell can be improbable given the model and the release,
and more draws do not help. `mobile_cells` repeats steps of `LatticeGibbs` from posterior draws, each with the
conditional distribution of the table given the parameters of its draw. If a cell moves in a few such steps but in none
of the many draws of the chains, the cause is not the posterior.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf.distributions.model_graph.dependents import dependent_factors
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.dispatch import advance, directions
from ppdinf.models.model_order import in_model_order
from ppdinf.models.posterior_tables import of_draws
from ppdinf.samplers.lattice_gibbs import SWEEPS, scales_of

STEPS = 32  # steps, each from another posterior draw


def mobile_cells(table: TensorVariable, idata: xr.DataTree, model: pm.Model) -> NDArray[np.bool_]:
    """Return which cells move in steps from posterior draws, shape (d,); all True if steps cannot be repeated."""
    law, posterior, rng = table.owner.op, idata.posterior, np.random.default_rng(0)
    fiber = law.fiber
    draws = in_model_order(posterior[table.name], table.name, model).values
    moved = np.zeros(fiber.lower.size, dtype=bool)
    by_cell, _ = dependent_factors(table, model)
    try:
        conditional = of_draws(law.conditional(table, by_cell), posterior, model)
    except ModelError:  # parameters without draws
        return ~moved
    truncation, variances = scales_of(table, model)
    each = SWEEPS * moved.size
    starts, where, steps = directions(fiber, each * STEPS, rng, variances)
    for k in range(STEPS):
        chain, draw = rng.integers(draws.shape[:2])
        before = draws[chain, draw].ravel().astype(np.int64)
        before[fiber.uninformed] = fiber.lower[fiber.uninformed]  # drawn from the data model, not by the step
        if not fiber.holds(before):
            return ~np.zeros_like(moved)
        weights, *rest = conditional((chain, draw))
        offsets = truncation.draw(rng)
        lower, width = truncation.around(before, offsets)
        weights = weights if offsets is None else truncation.restricted(weights, lower, width)
        along = starts[each * k : each * (k + 1) + 1], where, steps
        moved |= advance(fiber, before, [weights, *rest], along, rng, lower=lower) != before
    return moved
