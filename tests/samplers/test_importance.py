"""Importance sampling against the posterior by enumeration and quadrature; wrong weights, heavy tails are detected."""

import json
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from posteriors_by_quadrature import (
    GRID,
    POSTERIORS,
    assert_probabilities,
    contrast_model,
    exact,
    law_on_grid,
    model_of,
)
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.samplers import importance, posterior_importance, posterior_rejection, rejection
from ppdinf.samplers import posterior_proposal as module
from ppdinf.samplers.posterior_proposal import DefensiveMixture, TMixture, fit


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


SCALES = np.array([[[2.0, 0.3], [0.3, 0.5]], [[0.2, 0.0], [0.0, 1.0]]])
TWO = TMixture(np.array([0.3, 0.7]), np.array([[0.0, 1.0], [3.0, -1.0]]), np.linalg.cholesky(SCALES))


def density(points, freedom=module.DEGREES):
    parts = zip(TWO.weight, TWO.mean, SCALES, strict=True)
    return sum(w * stats.multivariate_t(m, s, df=freedom).pdf(points) for w, m, s in parts)


def test_density_is_that_of_the_mixture():
    points = np.random.default_rng(1).normal(0, 4, (50, 2))
    np.testing.assert_allclose(np.exp(TWO.log_density(points)), density(points), rtol=1e-12)


def test_draws_follow_the_density_and_not_one_with_other_tails():
    draws = TWO.draw(100_000, np.random.default_rng(2))
    edges = np.array([-np.inf, -3, -1, 0, 1, 3, np.inf])
    seen = np.histogram(draws[:, 0], bins=edges)[0]
    for freedom, right in ((module.DEGREES, True), (50, False)):
        parts = zip(TWO.weight, TWO.mean[:, 0], np.sqrt(SCALES[:, 0, 0]), strict=True)
        mass = np.diff(sum(w * stats.t.cdf(edges, freedom, m, s) for w, m, s in parts))
        assert (stats.chisquare(seen, mass * len(draws)).pvalue > 1e-6) == right


def test_one_component_has_the_given_covariance():
    draws = TMixture.single(np.array([1.0, 2.0]), SCALES[0]).draw(200_000, np.random.default_rng(3))
    np.testing.assert_allclose(np.cov(draws.T), SCALES[0], atol=0.05)


def test_fits_recover_a_mixture():
    rng = np.random.default_rng(4)
    points = TWO.draw(4000, rng)
    found = fit(points, 4000, rng)
    fresh = TWO.draw(20_000, rng)
    gap = np.mean(TWO.log_density(fresh) - found.log_density(fresh))  # Kullback-Leibler divergence
    assert 0 < gap < 0.03
    one = fit(points, 1, rng)
    assert one.weight.size == 1
    assert np.mean(TWO.log_density(fresh) - one.log_density(fresh)) > 0.2


def test_few_draws_give_components_that_are_not_too_narrow(monkeypatch):
    """Without the shared part of their scale matrices, four components fitted to 1,600 draws give poor weights."""
    law = stats.multivariate_normal(np.zeros(20))
    points = law.rvs(1600, random_state=5)

    def share():
        rng = np.random.default_rng(6)
        proposal = fit(points, 1600, rng)
        assert proposal.weight.size == 4
        fresh = proposal.draw(20_000, rng)
        log_w = law.logpdf(fresh) - proposal.log_density(fresh)
        return np.exp(2 * logsumexp(log_w) - logsumexp(2 * log_w)) / log_w.size

    with_prior = share()
    monkeypatch.setattr(module, "SCALE_PRIOR", 0)
    without = share()
    assert with_prior > 1.3 * without, (with_prior, without)


@pytest.mark.parametrize("points", [np.zeros((50, 2)), np.repeat([[1.0, 2.0]], 9, axis=0)])
def test_identical_draws_still_give_a_density(points):
    assert np.isfinite(fit(points, 1, np.random.default_rng(7)).log_density(points)).all()


QUICK = ("two modes of one height", "a square and a prior that leans")


def check_importance(name, draws):
    log_evidence, right = exact(name)
    idata = importance(model_of(name), draws, rng=1)
    attrs, r = idata.sample_stats.attrs, idata.weighted["r"].values.ravel()
    weight = np.exp(idata.weighted["log_weight"].values.ravel())
    assert_probabilities([weight[r > t].sum() for t in POSTERIORS[name][3]], right, attrs["ess"], name)
    assert attrs["log_evidence"] == pytest.approx(log_evidence, abs=5 / np.sqrt(attrs["ess"]))
    np.testing.assert_allclose(attrs["log_evidence_halves"], log_evidence, atol=0.1)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("name", QUICK)
def test_importance_finds_all_modes(name):
    check_importance(name, 800)


@pytest.mark.deep
@pytest.mark.parametrize("name", POSTERIORS)
def test_both_samplers_agree_with_quadrature(name, monkeypatch):
    if name == "waves":  # eight modes: four components cannot approximate them
        with pytest.warns(DiagnosisWarning, match="k-hat"):
            check_importance(name, 4000)
    else:
        check_importance(name, 4000)
    _, right = exact(name)
    for affordable in (1e6, 1):  # a proved bound, and one found by maximization
        monkeypatch.setattr(posterior_rejection, "AFFORDABLE", affordable)
        r = rejection(model_of(name), 4000, rng=2, progressbar=False).posterior["r"].values
        assert_probabilities([np.mean(r > t) for t in POSTERIORS[name][3]], right, 4000, name)


@pytest.mark.quick_cases(0)
def test_searches_that_disagree_are_reported(monkeypatch):
    """One search finds both modes and the prior, the other one only the left mode."""
    model, searches = model_of("two modes of one height"), posterior_importance._searches
    left = TMixture.single(np.array([-2.0]), np.array([[0.1]]))
    monkeypatch.setattr(
        posterior_importance,
        "_searches",
        lambda target, rng: [searches(target, rng)[0], (left, DefensiveMixture([left], [1.0]))],
    )
    with pytest.warns(DiagnosisWarning, match="two searches from different starts"):
        idata = importance(model, 1000, rng=1)
    log_evidence, right = exact("two modes of one height")
    assert idata.sample_stats.attrs["log_evidence"] == pytest.approx(log_evidence, abs=0.1)
    assert np.mean(idata.posterior["r"].values > 1) == pytest.approx(right[0], abs=0.05)
    with pytest.warns(DiagnosisWarning, match="Two searches"):
        assert not ppd.diagnose(idata, model).ok


@pytest.mark.quick_cases(0)
def test_priors_without_density_or_draws_are_replaced_by_a_wide_distribution():
    """Improper, ordered, and unnormalized priors: weights against two variables by quadrature."""
    grid = np.linspace(-8, 8, 641)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    data = stats.norm.logpdf(1.0, a**2 / 4 + b, 1)
    cases = {
        "flat": (lambda: pm.Flat("a"), np.zeros_like(a)),
        "unnormalized": (
            lambda: pm.CustomDist("a", 2.0, logp=lambda value, scale: -(value**2) / (2 * scale**2)),
            -(a**2) / 8,
        ),
    }
    for name, (prior, log_prior) in cases.items():
        with pm.Model() as model:
            first, second = prior(), pm.Normal("b", 0, 0.5)
            pm.Normal("seen", first**2 / 4 + second, 1, observed=1.0)
        log_p = log_prior + stats.norm.logpdf(b, 0, 0.5) + data
        density = np.exp(log_p - log_p.max())
        idata = importance(model, 1000, rng=1)
        weight = np.exp(idata.weighted["log_weight"].values.ravel())
        found = (weight * (np.abs(idata.weighted["a"].values.ravel()) > 2)).sum()
        right = density[np.abs(a) > 2].sum() / density.sum()
        assert_probabilities([found], [right], idata.sample_stats.attrs["ess"], name)
        log_evidence = log_p.max() + np.log(density.sum() * (grid[1] - grid[0]) ** 2)
        assert idata.sample_stats.attrs["log_evidence"] == pytest.approx(log_evidence, abs=0.08)
    with pm.Model() as model:
        pair = pm.Normal("pair", 0, 1, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1])
        pm.Normal("seen", pair[1] - pair[0], 0.5, observed=2.0)
    gap = np.linspace(0, 10, 10_001)  # twice a normal with variance 2, truncated at 0: the density is not renormalized
    density = stats.norm.pdf(gap, 0, np.sqrt(2)) * stats.norm.pdf(2, gap, 0.5)
    idata = importance(model, 1000, rng=1)
    assert idata.sample_stats.attrs["log_evidence"] == pytest.approx(np.log(density.sum() * 0.001), abs=0.05)
