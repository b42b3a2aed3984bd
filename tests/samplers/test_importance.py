"""Importance sampling against the posterior by enumeration and quadrature; wrong weights, heavy tails are detected."""

import json
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from contrast import GRID, contrast_model, law_on_grid
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.samplers import importance


@pytest.fixture(scope="module")
def model():
    return contrast_model()


@pytest.fixture(scope="module")
def idata(model):
    return importance(model, 4000, rng=1)


def worst_z(theta, weight, density):
    """Return the largest standardized distance of weighted and exact distribution functions at nine quantiles."""
    cdf = np.cumsum(density) / density.sum()
    p = np.arange(1, 10) / 10
    quantiles = np.interp(p, cdf, GRID)
    found = np.array([weight[theta <= q].sum() for q in quantiles])
    return np.abs((found - p) / np.sqrt(p * (1 - p) * np.sum(weight**2))).max()


@pytest.mark.quick_cases(0)
def test_weighted_draws_follow_the_posterior_and_no_wrong_distribution(idata):
    theta = idata.weighted["theta"].values.ravel()
    weight = np.exp(idata.weighted["log_weight"].values.ravel())
    assert weight.sum() == pytest.approx(1)
    right = law_on_grid()
    assert worst_z(theta, weight, right.posterior) < 5.5
    wrong = {
        "epsilon off by 20 %": law_on_grid(epsilon=1.2).posterior,
        "P(Z | theta) dropped": right.without_sums,
        "the total unknown": law_on_grid(total_known=False).posterior,
    }
    for name, density in wrong.items():
        assert worst_z(theta, weight, density) > 5.5, name


def test_resampled_draws_evidence_and_diagnostics(idata, model):
    right, attrs = law_on_grid(), idata.sample_stats.attrs
    assert attrs["pareto_k"] < 0.5
    assert 4000 < attrs["ess"] <= 40_000
    assert attrs["log_evidence"] == pytest.approx(np.log(right.evidence), abs=0.05)
    theta = idata.posterior["theta"].values.ravel()
    assert worst_z(theta, np.full(theta.size, 1 / theta.size), right.posterior) < 5.5
    chosen = idata.sample_stats["proposal"].values.ravel()
    np.testing.assert_array_equal(theta, idata.weighted["theta"].values.ravel()[chosen])
    assert idata.posterior["rate"].dims == ("chain", "draw", "county")
    table = ppd.sample_confidential(idata, model, random_seed=2)
    assert set(table.sum("county").values.ravel().tolist()) == {5}


def test_diagnose_reads_the_weights(idata, model):
    assert ppd.diagnose(idata, model).ok  # one chain is sufficient for independent draws
    for name, value, message in (
        ("pareto_k", 0.9, "k-hat is 0.90"),
        ("pareto_k", np.nan, "k-hat"),
        ("ess", 50, "of 50"),
    ):
        bad = idata.copy(deep=True)
        bad.sample_stats.attrs[name] = value
        with pytest.warns(DiagnosisWarning, match=message):
            assert not ppd.diagnose(bad, model).ok


@pytest.mark.quick_cases(0)
def test_the_same_seed_gives_the_same_draws(idata, model):
    again = importance(model, 4000, rng=1)
    np.testing.assert_array_equal(again.posterior["theta"].values, idata.posterior["theta"].values)


@pytest.mark.quick_cases(0)
def test_a_spike_at_the_end_of_the_path_does_not_trap_the_proposal():
    """Effects with a common mean and an unknown spread have infinite density at equal effects and spread 0."""
    effects = np.array([0.5, -0.8, 1.3, 0.1, -1.1])
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 1)
        effect = pm.Normal("effect", 0, spread, shape=5)
        pm.Normal("seen", effect, 0.5, observed=effects)
    idata = importance(model, 2000, rng=3)
    assert idata.sample_stats.attrs["pareto_k"] < 0.7
    grid = np.linspace(1e-3, 5, 4000)  # the effects are integrated out by hand: seen ~ Normal(0, sqrt(spread^2 + 1/4))
    sd = np.sqrt(grid**2 + 0.25)
    density = np.exp(-(grid**2) / 2 - (effects**2).sum() / (2 * sd**2)) / sd**5
    weight = np.exp(idata.weighted["log_weight"])
    mean = float((weight * idata.weighted["spread"]).sum())
    assert mean == pytest.approx((grid * density).sum() / density.sum(), abs=0.05)


@pytest.mark.quick_cases(0)
def test_kinks_of_projected_noise_do_not_prevent_finding_the_mode():
    """Projected Laplace noise: between its kinks the log density of `x_noise_shift` is convex."""
    mechanism = ppd.SubspaceLaplace(ppd.invariants.total(), 2)
    release = ppd.Release(np.array([0.3, 1.5, 3.2]), mechanism)
    slope = np.array([1.0, -0.6, 0.5])
    with pm.Model(coords=release.coords) as model:
        theta = pm.Normal("theta", 0, 1)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(theta * slope)), release=release)
    idata = importance(model, 4000, rng=1)
    assert idata.sample_stats.attrs["pareto_k"] < 0.7
    tables = [(i, j, 5 - i - j) for i in range(6) for j in range(6 - i)]
    noise = np.array([mechanism.logp(release.table, x) for x in tables])
    data = stats.poisson.logpmf(np.array(tables)[:, None], np.exp(GRID[:, None] * slope)).sum(axis=2)
    density = np.exp(noise[:, None] + data).sum(axis=0) * stats.norm.pdf(GRID)
    weighted = idata.weighted["theta"].values.ravel(), np.exp(idata.weighted["log_weight"].values.ravel())
    assert worst_z(*weighted, density) < 5.5
    assert worst_z(*weighted, np.exp(1.5 * noise[:, None] + data).sum(axis=0) * stats.norm.pdf(GRID)) > 5.5


@pytest.mark.quick_cases(0)
def test_posteriors_without_a_mode_are_refused():
    with pm.Model() as model:
        theta = pm.Flat("theta")
        pm.Potential("valley", 0.1 * theta**2)
    with pytest.raises(ModelError, match="no mode"):
        importance(model, 10, rng=1)


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
def test_tails_heavier_than_the_proposals_are_reported():
    with pm.Model() as model:
        loose = pm.StudentT("loose", nu=0.5, mu=0, sigma=1)
        pm.Normal("seen", 0 * loose, 1, observed=0.0)
    with pytest.warns(DiagnosisWarning, match=r"k-hat is .* use pm\.sample"):
        idata = importance(model, 1000, rng=1)
    assert idata.sample_stats.attrs["pareto_k"] > 0.7


def test_posteriors_without_mass_are_refused():
    with pm.Model() as model:
        theta = pm.Normal("theta")
        pm.Potential("never", pm.math.switch(theta > 1e9, 0.0, -np.inf))
    with pytest.raises(ModelError, match="set initval"):
        importance(model, 10, rng=1)


@pytest.mark.deep
def test_reference_posterior_of_twenty_areas():
    """22 parameters, skewed, with a funnel: k-hat below 0.6, 1/8 of the draws effective, means and sds correct."""
    problem = json.loads((Path(__file__).parents[1] / "models" / "p1.json").read_text())
    release = ppd.Release(np.array(problem["Y"]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4"))
    with pm.Model(coords=release.coords) as model:
        mu, tau = pm.Normal("mu", -5, 2), pm.HalfNormal("tau", 1)
        eta = pm.Normal("eta", mu, tau, shape=20)
        ppd.PartiallyPrivate("X", pm.Poisson.dist(np.array(problem["pop"]) * pm.math.exp(eta)), release=release)
    idata = importance(model, 4000, rng=1)
    attrs = idata.sample_stats.attrs
    assert attrs["pareto_k"] < 0.6
    assert attrs["ess"] > 5000
    weight = np.exp(idata.weighted["log_weight"])
    for name in ("mu", "tau", "eta"):
        reference = problem["reference"][name]
        mean = (weight * idata.weighted[name]).sum(("chain", "draw"))
        sd = np.sqrt((weight * (idata.weighted[name] - mean) ** 2).sum(("chain", "draw")))
        assert np.max(np.abs(mean.values - reference["mean"]) / reference["sd"]) < 0.1
        assert np.max(np.abs(sd.values / np.array(reference["sd"]) - 1)) < 0.1
