"""Releases and tables leave the memory with their models: PyTensor's caches have weak references to Ops."""

import gc
import weakref

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.distributions.tables import tables_of

MODELS = {
    "marginalized": (lambda r: pm.Poisson.dist(r * np.ones(12)), "auto"),
    "all counts": (lambda r: pm.NegativeBinomial.dist(mu=r * np.ones(12), alpha=2.0), True),
    "sampled": (lambda r: pm.Poisson.dist(r * np.ones(12)), False),
}


def compiled(dist, way):
    """Compile a model of a new release; return weak references to the release and to the law of the table."""
    labels = {"area": np.arange(12), "state": ("area", np.arange(12) // 3)}
    table = xr.DataArray(np.arange(12) % 7, dims="area", coords=labels)
    release = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.groups("state"), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        x = ppd.PartiallyPrivate("x", dist(pm.Gamma("r", 2, 1)), release, marginalize=way)
        pm.Binomial("d", n=x, p=0.5, observed=np.zeros(12, dtype=int))
    point = model.initial_point()
    assert np.isfinite(model.compile_logp()(point))
    assert np.isfinite(model.compile_dlogp()({name: point[name] for name in point})).all()
    return weakref.ref(release), weakref.ref(tables_of(model)[0].law)


@pytest.mark.parametrize("name", MODELS)
def test_releases_of_deleted_models_leave_the_memory(name):
    held = [compiled(*MODELS[name]) for _ in range(2)]
    gc.collect()
    assert [reference() for pair in held for reference in pair] == [None] * 4
