"""Mixtures of multivariate t distributions: density against SciPy, draws against the density, fits of skewness."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from ppdinf.samplers import posterior_proposal as module
from ppdinf.samplers.posterior_proposal import TMixture, fit

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
