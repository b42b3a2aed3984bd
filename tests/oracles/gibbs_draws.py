"""Draws of a table by its Gibbs step alone, with all other variables fixed."""

import numpy as np
from pymc.sampling.mcmc import assign_step_methods

from ppdinf.samplers.lattice_gibbs import LatticeGibbs


def gibbs_draws(model, draws, *, every=2, **options):
    """Return tables "x" of a chain from the initial point of a model, one of `every` steps, shape (draws, cells)."""
    with model:
        _, chosen = assign_step_methods(model)
    assert "x" in [value.name for step, values in chosen.items() if step is LatticeGibbs for value in values]
    step = LatticeGibbs([model["x"]], model=model, **options)
    step.setup_chain(np.random.default_rng(1), 0, draws)
    point, found = model.initial_point(), []
    for _ in range(every * draws):
        point, _ = step.step(point)
        found.append(point["x"])
    return np.array(found[every - 1 :: every]).reshape(draws, -1)
