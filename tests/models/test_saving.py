"""Files of an analyst: draws as netCDF, a model by cloudpickle."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ppdinf as ppd


def test_draws_and_models_are_saved_and_read_back(tmp_path):
    pytest.importorskip("h5netcdf")
    release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release=release)
        idata = pm.sample(
            20, tune=20, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
    drawn = ppd.sample_confidential(idata, model, random_seed=1)
    idata.to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
    again = xr.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf")
    assert again.posterior["x"].values.tolist() == drawn.values.tolist()
    assert again.posterior["x"].dtype == np.int64
    again.close()

    copied = cloudpickle.loads(cloudpickle.dumps(model))  # plain pickle does not support PyMC models
    point = model.initial_point()
    assert copied.compile_logp()(point) == pytest.approx(float(model.compile_logp()(point)), abs=1e-12)
