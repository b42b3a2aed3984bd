"""Files of an analyst: draws as netCDF, a model by cloudpickle."""

import copy
import pickle
import subprocess
import sys

import cloudpickle
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ppdinf as ppd


@pytest.mark.quick_cases(0)
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


def test_releases_and_measurements_are_pickled_and_copied():
    release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    noise = ppd.laws.DoubleGeometric("1/4")
    measurements = ppd.Measurements({"a": [1, 2]}, ppd.measured(ppd.invariants.margin("a"), {1: 3, 2: -1}, noise))
    for copied in (lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy):
        assert copied(release).table.equals(release.table)
        assert copied(release).mechanism == release.mechanism
        assert repr(copied(measurements)) == repr(measurements)


@pytest.mark.deep
@pytest.mark.interpreted
def test_a_model_with_dependents_is_read_by_a_process_that_has_not_imported_the_package(tmp_path):
    """Without the rules that join a table with its dependents, PyMC finds random variables in the density."""
    release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release=release)
        pm.Binomial("deaths", x, 0.5, observed=[1, 0, 1])
    file = tmp_path / "model.pickle"
    file.write_bytes(cloudpickle.dumps(model))
    program = "import pickle, sys; model = pickle.load(open(sys.argv[1], 'rb')); " + (
        "print(float(model.compile_logp(mode='FAST_COMPILE')(model.initial_point())))"
    )
    run = subprocess.run([sys.executable, "-c", program, file], capture_output=True, text=True, check=True)
    assert float(run.stdout) == pytest.approx(float(model.compile_logp()(model.initial_point())), abs=1e-10)
