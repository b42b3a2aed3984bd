"""PartiallyPrivate with a marginalized table: density, gradient and table draws against enumeration."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from enumeration import fiber_points, total_variation
from grids import box
from known_parameters import known
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import ModelError
from ppdinf.invariants import at_least, margin, total

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}


def release_of(y, epsilon, public, states=None):
    table = xr.DataArray(np.array(y), dims=("county", "sex")[: np.ndim(y)])
    if states is not None:
        table = table.assign_coords(state=("county", states))
    return ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=epsilon))


DISTRIBUTIONS = {
    "poisson": lambda r: pm.Poisson.dist(r),
    "mixture": lambda r: pm.Mixture.dist([0.3, 0.7], [pm.Poisson.dist(r), pm.Poisson.dist(2 * r)]),
}


def enumerated(release, dist, rate):
    """Tables and their log weights by one call of logp: without windows and transforms."""
    y, system = release.table.values.ravel(), release.public
    points = box(0, int(max(system.values.max(), 1)), y.size)
    points = points[np.all(points @ system.A.toarray().T == system.values, axis=1)]
    points = points[np.all(points @ system.B.toarray().T >= system.limits, axis=1)]
    shaped = points.reshape(-1, *release.shape)
    log_data = pm.logp(dist(rate * np.ones(shaped.shape)), shaped).eval(mode="FAST_COMPILE")
    log_noise = -float(release.mechanism.epsilon) * np.abs(points - y).sum(axis=1) - release.likelihood.constant()
    return points, log_data.reshape(len(points), -1).sum(axis=1) + log_noise


EMPTY = {  # a distribution of counts given a rate, and its log probabilities
    "poisson": (pm.Poisson.dist, stats.poisson.logpmf),
    "negative binomial": (
        lambda rate: pm.NegativeBinomial.dist(mu=rate, alpha=2.0),
        lambda x, rate: stats.nbinom.logpmf(x, 2, 2 / (2 + rate)),
    ),
    "binomial": (lambda rate: pm.Binomial.dist(n=6, p=rate / 10), lambda x, rate: stats.binom.logpmf(x, 6, rate / 10)),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("family", EMPTY)
def test_a_county_without_people_is_uninformative(family):
    """Its count is 0; against the sum over the counts of the other two, and its slope."""
    dist, log_mass = EMPTY[family]
    y, x = np.array([3, 1, 2]), np.arange(7)
    release = ppd.Release(y, ppd.GeneralizedLaplace(total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        r = pm.Uniform("r", 0, 4, default_transform=None)
        ppd.PartiallyPrivate("x", dist(r * np.array([1.0, 0.0, 2.0])), release=release, marginalize=True)

    def expected(r):
        log_noise = -np.abs(y[0] - x) - np.abs(y[2] - (6 - x))
        return np.logaddexp.reduce(log_mass(x, r) + log_mass(6 - x, 2 * r) + log_noise)

    logp, gradient = model.compile_logp(), model.compile_dlogp()
    origin = logp({"r": np.array(1.0)}) - expected(1.0)
    for r in (0.5, 2.5):
        assert logp({"r": np.array(r)}) - origin == pytest.approx(expected(r), abs=1e-7)  # PyMC rounds alpha to float32
        slope = (expected(r + 1e-5) - expected(r - 1e-5)) / 2e-5
        assert gradient({"r": np.array(r)})[0] == pytest.approx(slope, abs=1e-6)


@pytest.mark.quick_cases(1)
@pytest.mark.compiled
@pytest.mark.parametrize("family", ["poisson", "mixture"])
def test_table_draws_equal_enumeration_given_the_parameters(family):
    release, dist = release_of([3, -1, 2], "1/2", total()), DISTRIBUTIONS[family]
    with pm.Model(coords=release.coords) as model:
        pm.Uniform("rate", 0, 5)
        ppd.PartiallyPrivate("x", dist(model["rate"]), release=release)
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset({"rate": (("chain", "draw"), np.full((2, 5_000), 1.5))})})
    draws = ppd.sample_confidential(idata, model, random_seed=8)
    assert draws.dims == ("chain", "draw", "county")
    assert draws.equals(idata.posterior["x"])
    points, log_joint = enumerated(release, dist, 1.5)
    p = np.exp(log_joint - np.logaddexp.reduce(log_joint))
    assert total_variation(draws.values.reshape(-1, 3), points, p) < 0.03  # 20 tables, 10,000 draws
    _, wrong = enumerated(release_of([3, -1, 2], "3/5", total()), dist, 1.5)
    wrong = np.exp(wrong - np.logaddexp.reduce(wrong))
    assert 0.5 * np.abs(wrong - p).sum() > 0.03  # the difference for an epsilon 20 % off


def test_forward_draws_preserve_the_total_of_their_own_table():
    release = release_of([30, 20, -1], "1/4", total())
    with pm.Model(coords=release.coords):
        rate = pm.Gamma("rate", 20, 1)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
        uncompiled = {"mode": "FAST_COMPILE"}
        prior = pm.sample_prior_predictive(200, random_seed=3, compile_kwargs=uncompiled)
        predicted = pm.sample_posterior_predictive(
            known(100, rate=17.0), random_seed=3, progressbar=False, compile_kwargs=uncompiled
        )
    assert prior.prior_predictive["x_release"].dims == ("chain", "draw", "county")
    assert 30 < float(predicted.posterior_predictive["x_release"].sum("county").mean()) < 70


def test_tables_that_cannot_be_marginalized_are_refused_with_the_reason():
    crossing = release_of([[1, 0], [0, 2]], 1, margin("county") & margin("sex"))
    linked = release_of([[1, 0], [0, 2]], 1, total() & at_least(0, 1, dim="sex"))
    for release, message in ((crossing, "cross each other"), (linked, "'0 >= 1 at county=0, sex=0' links cells")):
        with pm.Model(coords=release.coords), pytest.raises(ModelError, match=message):
            ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=True)


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
def test_bounds_that_link_cells_hold_in_every_draw():
    release = release_of([[3, -1], [0, 2]], 1, total() & at_least(0, 1, dim="sex"))
    with pm.Model(coords=release.coords):
        ppd.PartiallyPrivate("x", pm.Poisson.dist(1.0), release=release)
        idata = pm.sample(8_000, tune=100, chains=2, cores=1, random_seed=4, **QUIET)
    draws = idata.posterior["x"]
    assert (draws.sel(sex=0) >= draws.sel(sex=1)).all()
    points, log_joint = enumerated(release, lambda r: pm.Poisson.dist(r), 1.0)
    p = np.exp(log_joint - np.logaddexp.reduce(log_joint))
    assert total_variation(draws.values.reshape(-1, 4), points, p) < 0.02
    assert len(fiber_points(release.public.A, release.public.values, 4)) > len(points)
