"""Bounds on the likelihood: never below it, close to its maximum, and none if concavity fails."""

import numpy as np
import pymc as pm
import pytest
from contrast import EPSILON, Y, contrast_model, law_on_grid
from scipy.optimize import minimize
from scipy.special import gammaln

import ppdinf as ppd
from ppdinf.fiber.sums_given_totals import totals
from ppdinf.samplers import posterior_rejection as module
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
    monkeypatch.setattr(module, "_is_concave", lambda row: True)
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
