"""Densities of models whose cells are ratios of gamma functions, against the tables of all log weights."""

from unittest.mock import patch

import numpy as np
import pymc as pm
import pytest

import ppdinf as ppd
from ppdinf._internal.pymc_compat import ancestors
from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.distributions.densities.gamma_form import noise_segments
from ppdinf.distributions.densities.gamma_sums_op import GammaSums

X = np.array([9, 30, 0, 54, 17, 120, 3, 61, 28, 75, 12, 44, 8, 33, 90, 21, 5, 66])
DEEP = [
    pytest.param(kind, marks=pytest.mark.deep) for kind in ("by probability", "beta-binomial", "binomial", "Poisson")
]
inv = ppd.invariants


def model_of(kind, public, noise="l1", deaths=False, visits=False):
    mechanism = (
        ppd.GeneralizedLaplace(public, epsilon="1/4") if noise == "l1" else ppd.GeneralizedGaussian(public, sigma=12)
    )
    table = ppd.as_table(X, dims=["area"]).assign_coords(side=("area", ["a", "b"] * 9))
    release = ppd.Release(mechanism.simulate(table, draws=1, rng=3).squeeze("draw", drop=True), mechanism)
    with pm.Model() as model:
        mu = np.maximum(X, 2) * pm.math.exp(pm.Normal("level", 0, 0.3))
        shape = pm.Gamma("shape", 4, 1)
        counts = {
            "negative binomial": lambda: pm.NegativeBinomial.dist(mu=mu, alpha=shape),
            "by probability": lambda: pm.NegativeBinomial.dist(n=shape, p=pm.Beta("p", 2, 20, shape=X.size)),
            "beta-binomial": lambda: pm.BetaBinomial.dist(alpha=shape, beta=4 * shape, n=4 * X + 10),
            "binomial": lambda: pm.Binomial.dist(n=4 * X + 10, p=mu / (4 * X + 10)),
            "Poisson": lambda: pm.Poisson.dist(mu),
        }[kind]()
        x = ppd.PartiallyPrivate("x", counts, release=release)
        if deaths:
            pm.Binomial("deaths", n=x, p=pm.Beta("fatality", 2, 8), observed=X // 5)
        if visits:
            pm.Poisson("visits", 2.0 + x, observed=X)
    return model


def is_used(model):
    return any(x.owner and isinstance(x.owner.op, GammaSums) for x in ancestors([model.logp()]))


def compared(model):
    """Return the largest differences of the density and its gradient from those by all counts."""
    fast = model.logp_dlogp_function(ravel_inputs=True)
    with patch.object(ConfidentialRV, "gamma_form", lambda *_: None):
        slow = model.logp_dlogp_function(ravel_inputs=True)
    start = np.concatenate([np.ravel(value) for value in model.initial_point().values()])
    points = start + 0.2 * np.random.default_rng(1).standard_normal((3, start.size))
    pairs = [(fast(point), slow(point)) for point in points]
    return max(abs(a[0] - b[0]) for a, b in pairs), max(np.abs(a[1] - b[1]).max() for a, b in pairs)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("kind", ["negative binomial", *DEEP[:2]])
def test_densities_of_groups(kind):
    model = model_of(kind, inv.total())
    assert is_used(model)
    value, gradient = compared(model)
    assert value < 1e-10
    assert gradient < 1e-8


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("kind", ["negative binomial", *DEEP[2:]])
def test_densities_with_a_binomial_dependent(kind):
    model = model_of(kind, inv.groups("side"), "Gaussian", deaths=True)
    assert is_used(model)
    value, gradient = compared(model)
    assert value < 1e-10
    assert gradient < 1e-8


@pytest.mark.quick_cases(0)
def test_densities_of_cells_without_a_public_sum():
    model = model_of("negative binomial", inv.Public())
    assert is_used(model)
    value, gradient = compared(model)
    assert value < 1e-10
    assert gradient < 1e-8


@pytest.mark.quick_cases(0)
def test_cells_with_a_very_large_shape_are_poisson():
    """Shapes above 1e10: without their reduction the log gamma functions have no digits left (a difference of 1e4)."""
    release = ppd.Release(X * 10, ppd.GeneralizedLaplace(inv.total(), epsilon="1/10"))
    with pm.Model() as model:
        shape = pm.HalfFlat("shape")
        ppd.PartiallyPrivate("x", pm.NegativeBinomial.dist(mu=10.0 * X + 3, alpha=shape), release=release)
    with pm.Model() as poisson:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(10.0 * X + 3), release=release)
    assert is_used(model)
    right, density = float(poisson.compile_logp()({})), model.compile_logp(jacobian=False)
    for digits in (8, 9, 10, 11, 12, 13, 14):
        assert density({"shape_log__": digits * np.log(10)}) == pytest.approx(right, abs=5e-3)


def test_other_dependents_use_all_counts():
    assert not is_used(model_of("negative binomial", inv.total(), visits=True))


def test_narrow_windows_use_all_counts():
    mechanism = ppd.GeneralizedLaplace(inv.total(), epsilon=2)
    release = ppd.Release(mechanism.simulate(X, draws=1, rng=3)[0], mechanism)
    with pm.Model() as model:
        alpha = pm.Gamma("shape", 4, 1)
        ppd.PartiallyPrivate("x", pm.NegativeBinomial.dist(mu=X + 1, alpha=alpha), release=release)
    assert not is_used(model)


def noise_of(log_noise):
    return noise_segments(np.atleast_2d(log_noise), np.array([5]))


def test_noise_is_split_at_its_kink():
    k = np.arange(40.0)
    first, segment = noise_of(np.where(k < 3, -np.inf, 1 - 0.25 * abs(k - 11)))
    assert first.tolist() == [0, 2]
    np.testing.assert_allclose(segment, [[8, 16, 8, -1, 0.25, 0], [17, 44, 17, 0.75, -0.25, 0]], atol=1e-14)
    first, segment = noise_of(-0.5 * (k - 11) ** 2 / 9)
    np.testing.assert_allclose(segment, [[5, 44, 5, -121 / 18, 11 / 9, -1 / 18]], atol=1e-13)


@pytest.mark.parametrize(
    "log_noise",
    [
        np.abs(np.arange(-5.0, 6)),
        -np.sqrt(1 + np.arange(9.0)),
        np.where(np.arange(9) == 4, -np.inf, 0.0),
        np.full(4, -np.inf),
    ],
    ids=["convex", "curved", "hole", "empty"],
)
def test_noise_of_another_form_is_not_split(log_noise):
    assert noise_of(log_noise) is None
