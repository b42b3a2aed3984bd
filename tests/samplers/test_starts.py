"""Initial tables after changes of data, and in copied models."""

import numpy as np
import pymc as pm
import pytest

import ppdinf as ppd
from ppdinf.samplers.lattice_gibbs import LatticeGibbs

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1, "random_seed": 1}


def multinomial():
    n, seen = pm.Data("n", 7), pm.Data("seen", [3, 1, 0])
    p = pm.Dirichlet("p", np.ones(3))
    x = pm.Multinomial("x", n, p)
    pm.Binomial("d", x, 0.5, observed=seen)


def sums():
    n, seen = pm.Data("n", 7), pm.Data("seen", [3, 1, 0])
    x = pm.Poisson("x", pm.Gamma("rate", 2, 1), shape=3)
    pm.DiracDelta("total", x.sum(), observed=n)
    pm.Binomial("d", x, 0.5, observed=seen)


def released():
    n, seen = pm.Data("n", 7), pm.Data("seen", [3, 1, 0])
    x = pm.Poisson("x", pm.Gamma("rate", 2, 1), shape=3)
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=0.5)
    pm.modelcontext(None).register_rv(mechanism.dist(x), "y", observed=n * np.array([1.0, 1.0, -1.0]))
    pm.Binomial("d", x, 0.5, observed=seen)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("tell", [multinomial, sums, released])
def test_plain_tables_start_at_the_present_data(tell):
    with pm.Model() as model:
        tell()
        for n, seen in ((7, [3, 1, 0]), (12, [0, 2, 9])):
            pm.set_data({"n": n, "seen": seen})
            draws = pm.sample(5, tune=5, chains=2, **QUIET).posterior["x"].values
            assert set(draws.sum(axis=-1).ravel().tolist()) == {n}
            assert (draws >= seen).all()
            assert not any(start is not None for start in model.rvs_to_initial_values.values())
    copy = model.copy()
    with copy:
        draws = pm.sample(5, tune=5, chains=1, **QUIET).posterior["x"].values
    assert set(draws.sum(axis=-1).ravel().tolist()) == {12}


def test_an_explicit_step_starts_on_the_fiber():
    with pm.Model():
        sums()
        draws = pm.sample(5, tune=5, chains=1, step=[LatticeGibbs([pm.modelcontext(None)["x"]])], **QUIET)
    assert set(draws.posterior["x"].sum("x_dim_0").values.ravel().tolist()) == {7}


@pytest.mark.quick_cases(0)
def test_sampled_tables_start_at_the_present_data():
    release = ppd.Release(np.array([6, -3, 3]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=0.5))
    with pm.Model(coords=release.coords) as model:
        seen = pm.Data("seen", [0, 2, 1])
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release, marginalize=False)
        pm.Binomial("d", n=x, p=0.5, observed=seen)
        for counts in ([0, 2, 1], [0, 0, 6]):
            pm.set_data({"seen": counts})
            draws = pm.sample(5, tune=5, chains=1, **QUIET).posterior["x"].values
            assert (draws >= counts).all()
        pm.set_data({"seen": [3, 2, 2]})
        with pytest.raises(ppd.errors.InvariantError):
            pm.sample(5, tune=5, chains=1, **QUIET)
    with model:
        pm.set_data({"seen": [0, 3, 0]})
    with model.copy():
        assert (pm.sample(5, tune=5, chains=1, **QUIET).posterior["x"].values >= [0, 3, 0]).all()
