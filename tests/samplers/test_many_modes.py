"""Posteriors with several modes, or skewed, by importance and by rejection, against quadrature over all tables."""

import numpy as np
import pymc as pm
import pytest
from posteriors_by_quadrature import POSTERIORS, assert_probabilities, exact, model_of
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning
from ppdinf.samplers import importance, posterior_importance, posterior_rejection, rejection
from ppdinf.samplers.posterior_proposal import DefensiveMixture, TMixture

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
