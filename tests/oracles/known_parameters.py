"""Posteriors and draws of a table with all other variables fixed."""

import numpy as np
import pymc as pm
import xarray as xr
from pymc.sampling.mcmc import assign_step_methods
from scipy import stats

import ppdinf as ppd
from ppdinf.samplers.lattice_gibbs import LatticeGibbs

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}


def known(draws, **values):
    """What `pm.sample` returns, one chain, where every draw of the parameters is the same."""
    at = {name: (("chain", "draw"), np.full((1, draws), value)) for name, value in values.items()}
    posterior = xr.Dataset(at, coords={"chain": [0], "draw": np.arange(draws)})
    return xr.DataTree.from_dict({"posterior": posterior})


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


def gaps_by_rate(seen, sizes, log_mass, log_rates=(0.0, 0.7)):
    """Differences between densities of a rate in a model and by a formula of the means; equal if it is right."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 2)
        ppd.PartiallyPrivate("n", pm.Poisson.dist(rate * sizes), release=seen)
    logp, gaps = model.compile_logp(), []
    for at in log_rates:
        prior = stats.gamma.logpdf(np.exp(at), 2, scale=1 / 2) + at
        gaps.append(float(logp({"rate_log__": at})) - log_mass(np.exp(at) * sizes) - prior)
    return gaps
