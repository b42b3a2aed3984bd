"""A model of a release, for PyMC and for the enumerator."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
import xarray as xr
from data_models import DATA_MODELS
from published import PUBLISHED
from pymc.pytensorf import gradient, rewrite_pregrad

import ppdinf as ppd
from ppdinf.samplers.lattice_gibbs import LatticeGibbs


@dataclass(frozen=True)
class Posed:
    """A data model and a release."""

    data: str
    published: str

    @property
    def law(self):
        return DATA_MODELS[self.data]

    @property
    def release(self):
        return PUBLISHED[self.published]

    def model(self, *, marginalize, prior=None):
        """Build the model: the table is called x; theta has no prior, or the given one."""
        release = self.release.release()
        with pm.Model(coords=release.coords) as model:
            size = len(self.law.ordinary[0])
            theta = pm.Flat("theta", shape=size) if prior is None else prior(size)
            eta = self.law.predictors(theta, release.table.shape)
            ppd.PartiallyPrivate("x", self.law.dist(theta, eta), release=release, marginalize=marginalize)
        return model

    def listed(self, **wrong):
        return self.release.listed(self.law.low, self.law.high, **wrong)

    def log_joint(self, point, listed):
        return self.law.log_probability(np.asarray(point["theta"]), listed.tables)

    def beyond(self, point, listed):
        """Return whether the posterior is further from the release than its noise."""
        if self.release.reach is None:
            return False
        probable = listed.probabilities(self.log_joint(point, listed)) > 1e-11
        return bool((np.abs(listed.tables[probable] - np.ravel(self.release.noisy)) > self.release.reach).any())

    def points(self, which):
        return [{"theta": np.array(theta)} for theta in getattr(self.law, which)]


def with_gradient(model, **mode):
    """Compile the log density of a model and its gradient, as PyMC does, in one function of a point."""
    log_p = model.logp()
    return model.compile_fn([log_p, gradient(rewrite_pregrad(log_p), model.continuous_value_vars)], **mode)


def summed_out(model, point, draws, seed):
    """Return tables drawn given the point, as rows."""
    values = {name: np.broadcast_to(value, (1, draws, *np.shape(value))) for name, value in point.items()}
    dims = {name: ("chain", "draw", *(f"{name}_{k}" for k in range(array.ndim - 2))) for name, array in values.items()}
    posterior = xr.Dataset({name: (dims[name], array) for name, array in values.items()})
    idata = xr.DataTree.from_dict({"posterior": posterior})
    return np.asarray(ppd.sample_confidential(idata, model, random_seed=seed)).reshape(draws, -1)


def walked(model, point, draws, seed, sweeps=8):
    """Return tables of a chain, thinned until they are nearly independent."""
    step, state = _step(model, point, seed, sweeps)
    found = np.empty((draws, int(np.prod(state["x"].shape))), dtype=np.int64)
    for k in range(-5, draws):
        state, _ = step.step(state)
        found[max(k, 0)] = np.ravel(state["x"])
    return found


def moved_once(model, point, starts, seed, sweeps=2):
    """Return the results of one step from each table: independent, whether the step is accepted or not."""
    step, state = _step(model, point, seed, sweeps)
    shape = state["x"].shape
    return np.array([np.ravel(step.step(state | {"x": start.reshape(shape)})[0]["x"]) for start in starts])


def _step(model, point, seed, sweeps):
    step = LatticeGibbs([model["x"]], model=model, sweeps=sweeps, rng=np.random.default_rng(seed))
    step._conditional = remembered(step._conditional)  # all other values are constant: windows repeat
    return step, model.initial_point(random_seed=seed) | point


def remembered(function):
    """Evaluate once for each of the arguments."""
    found = {}

    def of(*given):
        key = tuple(np.asarray(value).tobytes() for value in given)
        if key not in found:
            found[key] = function(*given)
        return [value.copy() for value in found[key]]

    return of
