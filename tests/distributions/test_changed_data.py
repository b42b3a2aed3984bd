"""Windows of counts are recomputed for the data of a model: enumeration after `pm.set_data`."""

import itertools

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pymc.model.transform.optimization import freeze_dims_and_data, freeze_model
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.errors import ModelError

inv = ppd.invariants

NOISY, EPSILON, MANY = np.array([3, 5]), 1.0, np.arange(4000)
OFFSETS = np.array([1.0, 1.3])


def poisson(data, theta):
    return pm.Poisson.dist(data * pm.math.exp(theta))


def binomial(data, theta):
    return pm.Binomial.dist(n=data.astype("int64"), logit_p=theta)


def negative_binomial(data, theta):
    return pm.NegativeBinomial.dist(mu=data * pm.math.exp(theta), alpha=2000)


def covariate(data, theta):
    return pm.Poisson.dist(pm.math.exp(theta + data.dot([1.0, -0.5])))


def beta_binomial(data, theta):
    return pm.BetaBinomial.dist(n=data.astype("int64"), alpha=200 * pm.math.exp(theta), beta=200)


CASES = {  # data model, its log probabilities, and data before and after the change; parameters are near 0
    "exposure": (poisson, lambda d, t: stats.poisson.logpmf(MANY, d[:, None] * np.exp(t)), OFFSETS, 300 * OFFSETS),
    "more trials": (binomial, lambda d, t: stats.binom.logpmf(MANY, d[:, None], 1 / (1 + np.exp(-t))),
                    np.array([4, 7]), np.array([400, 700])),
    "fewer trials": (binomial, lambda d, t: stats.binom.logpmf(MANY, d[:, None], 1 / (1 + np.exp(-t))),
                     np.array([400, 700]), np.array([4, 7])),
    "beta-binomial": (beta_binomial, lambda d, t: stats.betabinom.logpmf(MANY, d[:, None], 200 * np.exp(t), 200),
                      np.array([4, 7]), np.array([400, 700])),
    "negative binomial": (negative_binomial, lambda d, t: stats.nbinom.logpmf(
        MANY, 2000, 2000 / (2000 + d[:, None] * np.exp(t))), OFFSETS, 300 * OFFSETS),
    "covariates": (covariate, lambda d, t: stats.poisson.logpmf(MANY, np.exp(t + d @ [1.0, -0.5])[:, None]),
                   np.zeros((2, 2)), np.array([[5.0, -1], [6, 1]])),
}  # fmt: skip


def released(public=None):
    return ppd.Release(NOISY, ppd.GeneralizedLaplace(inv.Public() if public is None else public, epsilon=EPSILON))


def posed(dist, data, way="auto", public=None):
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 0.1)
        ppd.PartiallyPrivate("x", dist(pm.Data("data", data), theta), released(public), marginalize=way)
    return model


def log_likelihood(log_p):
    """Log density of the release."""
    return logsumexp(log_p + stats.dlaplace.logpmf(NOISY[:, None] - MANY, EPSILON), axis=1).sum()


def density(model):
    function = model.compile_logp(vars=[model["x_release"]])
    return lambda theta: float(function({"theta": np.array(float(theta))}))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", CASES)
def test_density_after_the_data_have_changed(case):
    """The posterior is pulled far below the prior mean. Windows of the first data are up to 100 units off."""
    dist, log_p, before, after = CASES[case]
    model = posed(dist, before)
    with model:
        pm.set_data({"data": after})
    found = density(model)
    for theta in (-0.3, -0.2):
        assert found(theta) == pytest.approx(log_likelihood(log_p(after, theta)), abs=1e-3)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", ["fewer trials", "covariates"])
def test_functions_compiled_before_the_data_changed_raise(case):
    dist, _, before, after = CASES[case]
    model = posed(dist, before)
    old, gradient = density(model), model.compile_dlogp()
    old(0.1)
    model["data"].set_value(np.asarray(after, dtype=model["data"].dtype))  # not by way of pm.set_data
    with pytest.raises(ModelError, match="compile it again"):
        old(0.1)
    with pytest.raises(ModelError, match="compile it again"):
        gradient({"theta": np.array(0.3)})


def intervened(model, after):
    return pm.do(model, {"data": np.asarray(after, dtype=model["data"].dtype)})


def copied(model, after):
    copy = model.copy()
    with copy:
        pm.set_data({"data": after})
    return copy


def frozen(freeze):
    def change(model, after):
        with model:
            pm.set_data({"data": after})
        return freeze(model)

    return change


WAYS = {
    "intervened on": intervened,
    "copied": copied,
    "frozen": frozen(freeze_model),
    "frozen data": frozen(freeze_dims_and_data),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", WAYS)
def test_models_with_other_data_have_windows_of_their_own(way):
    dist, log_p, before, after = CASES["more trials"]
    model = posed(dist, before)
    first = density(model)(0.3)
    changed = WAYS[way](model, after)
    assert density(changed)(-0.2) == pytest.approx(log_likelihood(log_p(after, -0.2)), abs=1e-3)
    if way in ("intervened on", "copied"):  # the first model keeps its data
        assert density(model)(0.3) == pytest.approx(first, abs=1e-9)


def test_a_prior_by_data_moves_the_windows():
    """The release 3 under a prior mean that data raise from 1 to 300."""

    def model_of(level):
        with pm.Model() as model:
            theta = pm.Normal("theta", pm.Data("level", level), 0.1)
            ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(theta)), released())
        return model

    model = model_of(0.0)
    with model:
        pm.set_data({"level": np.log(300)})
    log_p = stats.poisson.logpmf(MANY, np.exp(5.5))[None]
    assert density(model)(5.5) == pytest.approx(log_likelihood(log_p), abs=1e-3)


def enumerated(trials, p, total):
    tables = [x for x in itertools.product(*(range(n + 1) for n in trials)) if total is None or sum(x) == total]
    tables = np.array(tables)
    log_w = stats.binom.logpmf(tables, trials, p).sum(axis=1) - EPSILON * abs(tables - NOISY).sum(axis=1)
    law = np.exp(log_w - logsumexp(log_w))
    mean = law @ tables
    return mean, np.sqrt(law @ (tables - mean) ** 2)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("public", [None, inv.total()], ids=["no sum", "total"])
@pytest.mark.parametrize("way", ["auto", False])
def test_posterior_after_more_trials(way, public):
    """300 trials of a cell instead of 5. Six standard errors: a false alarm once in 1e8 for each of 8 means."""
    with pm.Model() as model:
        n = pm.Data("n", [5, 7])
        ppd.PartiallyPrivate("x", pm.Binomial.dist(n=n, p=0.9), released(public), marginalize=way)
        if way == "auto":
            pm.Normal("other", 0, 1)
        model.logp()
        pm.set_data({"n": [300, 8]})
        if way == "auto":
            given = xr.Dataset({"other": (("chain", "draw"), np.zeros((1, 800)))})
            x = ppd.sample_confidential(xr.DataTree.from_dict({"posterior": given}), random_seed=3)
        else:
            options = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
            x = pm.sample(800, tune=0, chains=1, random_seed=2, **options).posterior["x"]
    mean, sd = enumerated(np.array([300, 8]), 0.9, None if public is None else 8)
    assert (
        abs(x.values[0].mean(axis=0) - mean) < 12 * sd / np.sqrt(800) + 1e-9
    ).all()  # Gibbs draws have a quarter of the effective size
