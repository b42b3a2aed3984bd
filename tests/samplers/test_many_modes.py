"""Posteriors with several modes, or skewed, by importance and by rejection, against quadrature over all tables."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning
from ppdinf.samplers import importance, posterior_importance, posterior_rejection, rejection
from ppdinf.samplers.posterior_proposal import DefensiveMixture, TMixture

GRID = np.linspace(-12, 12, 48_001)
NO_DATA = np.zeros(3)


def normal(mean, sd):
    return lambda: pm.Normal("r", mean, sd), lambda r: stats.norm.logpdf(r, mean, sd)


def mixture(weight, mean, sd):
    def log_density(r):
        return logsumexp(np.log(weight) + stats.norm.logpdf(r[:, None], mean, sd), axis=1)

    return lambda: pm.NormalMixture("r", weight, mean, sd), log_density


TWO = mixture([0.5, 0.5], [-2, 4], [0.3, 0.6])
THREE = mixture([0.2, 0.5, 0.3], [-6, 0, 6], [0.5] * 3)
RARE = mixture([0.99, 0.01], [-4, 4], [0.5, 0.3])
NARROW = mixture([0.1, 0.9], [3, -2], [0.01, 2])

# prior, rate of three cells as a function of r (and of a module with exp, sin, cos), release, thresholds of r
POSTERIORS = {
    "two modes of one height": (TWO, lambda r, m: m.exp((r - 1) ** 2 / 9 - 1), (3, -1, 4), (1,)),
    "a square": (normal(0, 3), lambda r, m: r**2 + 0.01, (20, 25, 30), (0,)),
    "a square and a prior that leans": (normal(1, 3), lambda r, m: r**2 + 0.01, (20, 25, 30), (0,)),
    "a mode that is rare in the prior": (RARE, lambda r, m: m.exp(r / 3), (3, 4, 4), (0,)),
    "a narrow mode within a wide one": (NARROW, lambda r, m: m.exp(0.1 * r), (1, 1, 2), (2.9,)),
    "three modes": (THREE, lambda r, m: m.exp(0.7 * m.cos(r / 2)), (3, -1, 4), (-3, 3)),
    "skewed": (normal(0, 3), lambda r, m: m.exp(r), (0, 1, 0), (-2, 0)),
    "skewed, and nobody counted": (normal(0, 3), lambda r, m: m.exp(r), (2, -1, -1), (-2, 0)),
    "one mode": (normal(0, 1), lambda r, m: m.exp(r), (3, -1, 4), (0.5,)),
    "waves": (normal(0, 2), lambda r, m: 20 * m.exp(1.2 * m.sin(3 * r)), (30, 28, 33), (-1, 1)),
}
QUICK = ("two modes of one height", "a square and a prior that leans")


def model_of(name):
    (prior, _), rate, released, _ = POSTERIORS[name]
    release = ppd.Release(np.array(released), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate(prior(), pm.math) + NO_DATA), release=release)
    return model


def exact(name):
    """Return the log evidence, and probabilities that r exceeds the thresholds."""
    (_, log_prior), rate, y, thresholds = POSTERIORS[name]
    total = sum(y)
    tables = np.array([(i, j, total - i - j) for i in range(total + 1) for j in range(total + 1 - i)])
    log_noise = -np.abs(np.array(y) - tables).sum(axis=1) - gammaln(tables + 1).sum(axis=1)
    mean = rate(GRID, np)
    log_p = log_prior(GRID) + total * np.log(mean) - 3 * mean + logsumexp(log_noise)
    density = np.exp(log_p - log_p.max())
    log_evidence = np.log(density.sum() * (GRID[1] - GRID[0])) + log_p.max()
    return log_evidence, [density[limit < GRID].sum() / density.sum() for limit in thresholds]


def assert_probabilities(found, right, size, name):
    """Check within 5 standard errors, and 0.003 for modes of few draws: a false alarm in a million runs."""
    for got, p in zip(found, right, strict=True):
        assert abs(got - p) < 5 * np.sqrt(p * (1 - p) / size) + 0.003, (name, got, p)


def check_importance(name, draws):
    log_evidence, right = exact(name)
    idata = importance(model_of(name), draws, rng=1)
    attrs, r = idata.sample_stats.attrs, idata.weighted["r"].values.ravel()
    weight = np.exp(idata.weighted["log_weight"].values.ravel())
    assert_probabilities([weight[r > t].sum() for t in POSTERIORS[name][3]], right, attrs["ess"], name)
    assert attrs["log_evidence"] == pytest.approx(log_evidence, abs=5 / np.sqrt(attrs["ess"]))
    np.testing.assert_allclose(attrs["log_evidence_halves"], log_evidence, atol=0.1)


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
