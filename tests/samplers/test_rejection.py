"""Rejection sampling and its bounds, against enumeration and quadrature, and against wrong distributions."""

import doctest
import sys

import numpy as np
import pymc as pm
import pytest
from posteriors_by_quadrature import EPSILON, GRID, Y, contrast_model, law_on_grid
from scipy import stats
from scipy.optimize import minimize
from scipy.special import gammaln

import ppdinf as ppd
from ppdinf.errors import ModelError
from ppdinf.fiber.sums_given_totals import totals
from ppdinf.samplers import posterior_rejection as module
from ppdinf.samplers import rejection
from ppdinf.samplers.posterior_rejection import log_bound, saturated_bound

NOISES = {
    "laplace": lambda z: -0.4 * np.abs(z),
    "narrow laplace": lambda z: -2.5 * np.abs(z),
    "gaussian": lambda z: -0.1 * z**2,
}
TWO_MODES = np.array([-np.inf, 0, *[-8.0] * 9, 0, -np.inf])  # 1 or 11 persons, and improbable values between


def system(rng, log_q):
    """Draw two groups and two free cells, with releases that may be negative."""
    block = np.array([0, 0, 0, 1, 1, -1, -1])
    y = rng.integers(-3, 12, block.size)
    total = np.array([max(y[:3].sum(), 1), rng.choice([0, max(y[3:5].sum(), 1)])])  # a group may be empty
    counts = np.arange(-20, 60) + np.zeros((block.size, 1), int)
    with np.errstate(invalid="ignore"):
        log_h = np.where(counts >= 0, log_q(y[:, None] - counts) - gammaln(counts + 1), -np.inf)
    return log_h, np.full(block.size, -20), total, block


def log_likelihood(parts, eta):
    log_h, lower, total, block = parts
    return totals.log_coefficient(log_h, eta=eta, lo=lower, total=total, block=block).sum() - np.exp(eta).sum()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("noise", NOISES)
def test_bounds_hold_for_all_rates_and_are_close_to_the_maximum(noise):
    rng = np.random.default_rng(1)
    for _ in range(5):
        parts = system(rng, NOISES[noise])
        bound = saturated_bound(*parts)
        for eta in rng.normal(1, 2, (200, 7)):
            assert log_likelihood(parts, eta) <= bound
        best = max(-minimize(lambda eta: -log_likelihood(parts, eta), start).fun for start in (np.zeros(7), np.ones(7)))  # noqa: B023
        assert best <= bound < best + 0.1


def test_noise_with_two_modes_has_no_bound_and_the_tangent_would_be_wrong(monkeypatch):
    """Concavity fails: the tangent at the maximum near 11 persons is below the likelihood at 1 person."""
    counts = np.arange(TWO_MODES.size)
    parts = (TWO_MODES - gammaln(counts + 1))[None], np.zeros(1, int), np.zeros(0, int), np.array([-1])
    assert saturated_bound(*parts) == np.inf
    monkeypatch.setattr(sys.modules[saturated_bound.__module__], "is_concave", lambda row: True)
    assert saturated_bound(*parts) < log_likelihood(parts, np.zeros(1))


Z = range(-30, 31)


def test_the_model_does_not_exceed_its_bound():
    right = law_on_grid()
    found = log_bound(contrast_model())
    mode = -EPSILON * np.abs(Y[Y < 0]).sum() - np.log(sum(np.exp(-np.abs([i, j, i + j]).sum()) for i in Z for j in Z))
    assert np.log(right.likelihood.max()) < found < mode  # sharper than the mode


def test_other_data_models_have_the_mode_bound_and_other_data_none():
    release = ppd.Release(Y, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    mixed = ppd.Release(Y, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1, norm="l2"))

    def bound(dist, release, beside=lambda rate: None):
        with pm.Model(coords=release.coords) as model:
            rate = pm.Gamma("rate", 2, 1)
            ppd.PartiallyPrivate("x", dist(rate), release=release)
            beside(rate)
        return log_bound(model)

    one, two = (given.likelihood.constant() for given in (release, mixed))
    mode = Y[Y < 0].sum() - one  # noise is most probable at the possible count nearest to the released one
    assert bound(lambda rate: pm.NegativeBinomial.dist(mu=rate, alpha=rate), release) == mode
    assert bound(pm.Poisson.dist, mixed) == -two
    assert bound(pm.Poisson.dist, release) < -2 - one
    assert bound(pm.Poisson.dist, release, lambda rate: pm.Normal("seen", rate, 1, observed=1)) == np.inf
    assert bound(pm.Poisson.dist, release, lambda rate: pm.Potential("more", -rate)) == np.inf


def test_projected_noise_has_no_bound():
    """Given the projected component, the density omits its prior: the mode is not a bound."""
    release = ppd.SubspaceLaplace(ppd.invariants.total(), 1).release(np.array([3, 1, 2]))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release=release, marginalize=True)
    assert log_bound(model) == np.inf


DRAWS = 20_000


def p_value(draws, density):
    """Return the Kolmogorov-Smirnov statistic against a density on the grid."""
    cdf = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return stats.kstest(draws, lambda theta: np.interp(theta, GRID, cdf / cdf[-1])).pvalue


@pytest.fixture(scope="module")
def model():
    return contrast_model()


@pytest.fixture(scope="module")
def idata(model):
    return rejection(model, DRAWS, rng=1, progressbar=False)


@pytest.mark.deep
def test_draws_follow_the_posterior_and_no_wrong_distribution(idata):
    draws = idata.posterior["theta"].values.ravel()
    right = law_on_grid()
    assert p_value(draws, right.posterior) > 1e-6
    reversed_inequality = right.prior * (1 - right.likelihood / right.likelihood.max())
    wrong = {
        "the inequality as printed": reversed_inequality,
        "epsilon off by 20 %": law_on_grid(epsilon=1.2).posterior,
        "P(Z | theta) dropped": right.without_sums,
        "the total unknown": law_on_grid(total_known=False).posterior,
        "no release": right.prior,
    }
    for name, density in wrong.items():
        assert p_value(draws, density) < 1e-6, name


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
def test_bound_acceptance_and_labels_are_reported(idata):
    right, attrs = law_on_grid(), idata.sample_stats.attrs
    assert attrs["bound"] == "proved"
    assert np.log(right.likelihood.max()) < attrs["log_bound"] < np.log(right.likelihood.max()) + 2.2
    expected = (right.prior * right.likelihood).sum() / right.prior.sum() / np.exp(attrs["log_bound"])
    assert attrs["acceptance_rate"] == pytest.approx(expected, rel=5 / np.sqrt(DRAWS))
    assert attrs["bound_raised"] == 0
    assert idata.posterior["theta"].dims == ("chain", "draw")
    assert idata.posterior["rate"].dims == ("chain", "draw", "county")
    assert idata.posterior["county"].values.tolist() == ["a", "b", "c"]
    acceptance = idata.sample_stats["acceptance"].values
    assert ((acceptance > 0) & (acceptance <= 1)).all()
    assert "x_release" in idata.observed_data


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
def test_if_a_proof_costs_too_much_the_likelihood_is_maximized(model, monkeypatch):
    monkeypatch.setattr(module, "AFFORDABLE", 1)
    idata = rejection(model, DRAWS, rng=2, progressbar=False)
    right, attrs = law_on_grid(), idata.sample_stats.attrs
    assert attrs["bound"] == "found"
    assert attrs["log_bound"] == pytest.approx(np.log(right.likelihood.max()), abs=1e-4)
    assert attrs["acceptance_rate"] > 0.3
    assert p_value(idata.posterior["theta"].values.ravel(), right.posterior) > 1e-6


@pytest.mark.compiled
def test_tables_are_drawn_on_the_fiber_afterwards(idata, model):
    assert ppd.diagnose(idata, model).ok
    table = ppd.sample_confidential(idata, model, random_seed=2)
    assert set(table.sum("county").values.ravel().tolist()) == {5}


def test_a_bound_that_was_too_low_is_raised_and_earlier_draws_are_tested_again(model, monkeypatch):
    batches = []

    def proposals(model, seed):
        def propose():
            batches.append(0.0 if not batches else 1.0)
            log_l = -2.0 if len(batches) == 1 else 0.0  # the first batch has no information on the maximum
            return [np.full(module.BATCH, batches[-1])], np.full(module.BATCH, log_l), np.zeros((module.BATCH, 1))

        return ["theta"], propose

    monkeypatch.setattr(module, "_proposals", proposals)
    monkeypatch.setattr(module, "_maximiser", lambda model: lambda starts, best: best)
    monkeypatch.setattr(module, "log_bound", lambda model: np.inf)
    result = rejection(model, 6000, rng=4, progressbar=False)
    assert len(batches) == 3
    assert result.sample_stats.attrs["bound_raised"] == 1
    first = np.count_nonzero(result.posterior["theta"] == 0)  # without the second test, all 4096
    assert stats.binomtest(first, module.BATCH, np.exp(-2)).pvalue > 1e-6


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
def test_the_example_runs_as_compiled_by_default():
    (example,) = doctest.DocTestFinder().find(rejection, "rejection", module)
    doctest.DebugRunner().run(example)


@pytest.mark.quick_cases(0)
def test_infeasible_runs_stop_with_a_remedy():
    y = np.array([300, 500, 400, 800])
    release = ppd.Release(y, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        log_rate = pm.Normal("log_rate", 0, 10, dims="dim_0")
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(log_rate)), release=release)
    with pytest.raises(ModelError, match=r"rejection is not feasible.*importance or pm\.sample"):
        rejection(model, 1000, rng=1, progressbar=False)


def test_models_without_a_prior_to_draw_from_are_refused():
    crossing = ppd.Release(
        np.eye(3, dtype=int),
        ppd.GeneralizedLaplace(ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1"), epsilon=1),
    )
    with pm.Model(coords=crossing.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release=crossing)
    with pytest.raises(ModelError, match="'x' is an integer unknown"):
        rejection(model, 10)
    with pm.Model() as model:
        pm.Normal("alone")
    with pytest.raises(ModelError, match="no observed variable"):
        rejection(model, 10)
    with pm.Model() as model:
        pm.Normal("seen", pm.Flat("flat"), observed=1.0)
    with pytest.raises(ModelError, match="proper prior"):
        rejection(model, 10)
    for draws in (0, 2.5, True):
        with pytest.raises(ModelError, match="positive integer"):
            rejection(model, draws)


def test_effects_whose_spread_is_drawn():
    """Draws under a nearly flat likelihood are draws of the prior: normal given their spread, and independent."""
    with pm.Model() as model:
        tau = pm.HalfNormal("tau")
        effect = pm.Normal("effect", 0, tau, shape=3)
        pm.Normal("seen", 1e-9 * (tau + effect.sum()), 1, observed=0.0)
    posterior = rejection(model, 2000, rng=1, progressbar=False).posterior
    z = (posterior["effect"] / posterior["tau"]).values[0]
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-6
    assert stats.kstest(posterior["tau"].values[0], "halfnorm").pvalue > 1e-6
    assert (abs(np.corrcoef(z.T) - np.eye(3)) < 6 / np.sqrt(2000)).all()


def test_priors_that_cannot_be_vectorized_are_refused():
    with pm.Model() as model:
        pm.Normal("seen", pm.ZeroSumNormal("effect", pm.HalfNormal("tau"), shape=3)[0], 1, observed=0.0)
    with pytest.raises(ModelError, match="cannot be drawn in batches"):
        rejection(model, 10)
