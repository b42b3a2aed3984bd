"""Densities of models whose cells are ratios of gamma functions, against the tables of all log weights."""

from unittest.mock import patch

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf._internal.pymc_compat import ancestors
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.distributions.ops import GammaSums
from ppdinf.distributions.weight_forms import noise_segments

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


def log_negative_binomial(x, mean, shape):
    """Return log probabilities without the log gamma function of the shape."""
    rising = np.cumsum(np.log1p(np.arange(x.max() + 1) / shape))
    return np.where(x > 0, rising[x - 1], 0) + x * np.log(mean) - gammaln(x + 1) - (x + shape) * np.log1p(mean / shape)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("shape", [1e14, 1e10, 1e9, 1e8, 1e4, 3.0])
def test_densities_have_all_digits_for_every_shape(shape, constant):
    """Wrong variants: the log gamma function of large shapes (off by 1e-3), and its logarithm in single precision."""
    epsilon, mean, x = 0.1, 10.0 * X + 3, np.arange(4000)
    release = ppd.Release(10 * X + 1, ppd.GeneralizedLaplace(inv.Public(), epsilon="1/10"))
    with pm.Model() as model:
        alpha = shape if constant else pm.Flat("alpha", initval=2.0)
        ppd.PartiallyPrivate("x", pm.NegativeBinomial.dist(mu=mean, alpha=alpha), release=release)
    noise = np.log(np.tanh(epsilon / 2)) - epsilon * np.abs(x - 10 * X[:, None] - 1)
    right = logsumexp(log_negative_binomial(x, mean[:, None], shape) + noise, axis=1).sum()
    assert model.compile_logp()({} if constant else {"alpha": shape}) == pytest.approx(right, abs=1e-8)
    assert is_used(model) != constant


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
