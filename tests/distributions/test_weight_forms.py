"""Ratios of gamma functions, and cells with identical distributions, against tables of all log weights."""

from unittest.mock import patch

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf._internal.pymc_compat import ancestors
from ppdinf.distributions import confidential_rv as confidential
from ppdinf.distributions.confidential_rv import ConfidentialRV, identical_cells
from ppdinf.distributions.ops import GammaSums
from ppdinf.distributions.weight_forms import noise_segments

X = np.array([9, 30, 0, 54, 17, 120, 3, 61, 28, 75, 12, 44, 8, 33, 90, 21, 5, 66])
inv = ppd.invariants


def model_of(kind, public, noise="l1", deaths=False, visits=None):
    mechanism = (
        ppd.GeneralizedLaplace(public, epsilon="1/4") if noise == "l1" else ppd.GeneralizedGaussian(public, sigma=12)
    )
    table = ppd.as_table(X, dims=["area"]).assign_coords(side=("area", ["a", "b"] * 9))
    release = ppd.Release(mechanism.simulate(table, draws=1, rng=3).squeeze("draw", drop=True), mechanism)
    with pm.Model() as model:
        mu = np.maximum(X, 2) * pm.math.exp(pm.Normal("level", 0, 0.3))
        shape = pm.Gamma("shape", 4, 1)

        def inflation():
            return pm.Beta("share", 3, 1, shape=X.size)

        counts = {
            "negative binomial": lambda: pm.NegativeBinomial.dist(mu=mu, alpha=shape),
            "by probability": lambda: pm.NegativeBinomial.dist(n=shape, p=pm.Beta("p", 2, 20, shape=X.size)),
            "beta-binomial": lambda: pm.BetaBinomial.dist(alpha=shape, beta=4 * shape, n=4 * X + 10),
            "binomial": lambda: pm.Binomial.dist(n=4 * X + 10, p=mu / (4 * X + 10)),
            "Poisson": lambda: pm.Poisson.dist(mu),
            "zero-inflated": lambda: pm.ZeroInflatedNegativeBinomial.dist(inflation(), mu=mu, alpha=shape),
            "zero-inflated binomial": lambda: pm.ZeroInflatedBinomial.dist(inflation(), n=X + 1, p=mu / (2 * mu + 1)),
            "hurdle": lambda: pm.HurdlePoisson.dist(inflation(), mu=mu),
            "without zeros": lambda: pm.Truncated.dist(pm.NegativeBinomial.dist(mu=mu, alpha=shape), lower=1),
            "between bounds": lambda: pm.Truncated.dist(pm.Poisson.dist(mu), lower=2, upper=90),
        }[kind]()
        x = ppd.PartiallyPrivate("x", counts, release=release)
        if deaths:
            pm.Binomial("deaths", n=x, p=pm.Beta("fatality", 2, 8), observed=X // 5)
        if visits is not None:
            pm.Poisson("visits", visits + 0.5 * x if visits else 0.5 * x, observed=X // 3)
    return model


def is_used(model, form=lambda op: isinstance(op, GammaSums)):
    return any(x.owner and form(x.owner.op) for x in ancestors([model.logp()]))


def compared(model):
    """Return the largest differences of the density and its gradient from those by all counts."""
    fast = model.logp_dlogp_function(ravel_inputs=True)
    none = {name: lambda *_: None for name in ("gamma_form", "exponential_family")}
    with patch.multiple(ConfidentialRV, **none):
        slow = model.logp_dlogp_function(ravel_inputs=True)
    start = np.concatenate([np.ravel(value) for value in model.initial_point().values()])
    points = start + 0.2 * np.random.default_rng(1).standard_normal((3, start.size))
    pairs = [(fast(point), slow(point)) for point in points]
    return max(abs(a[0] - b[0]) for a, b in pairs), max(np.abs(a[1] - b[1]).max() for a, b in pairs)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(
    ("kind", "how"),
    [(kind, "total") for kind in ("negative binomial", "by probability", "beta-binomial")]
    + [(kind, "deaths") for kind in ("negative binomial", "binomial", "Poisson")]
    + [("negative binomial", "no sum"), ("Poisson", "visits")]
    + [(kind, how) for kind in ("zero-inflated", "without zeros") for how in ("total", "deaths", "no sum")]
    + [("zero-inflated binomial", "total"), ("hurdle", "deaths"), ("between bounds", "no sum")],
)
def test_densities(kind, how):
    public = {"deaths": inv.groups("side"), "no sum": inv.Public()}.get(how, inv.total())
    noise = "Gaussian" if how == "deaths" else "l1"
    model = model_of(kind, public, noise, deaths=how == "deaths", visits=0.0 if how == "visits" else None)
    is_family = kind in ("binomial", "Poisson")
    assert is_used(model) != is_family
    assert is_used(model, lambda op: getattr(op, "as_means", False)) == is_family
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


MU = np.maximum(X, 2.0)
OTHERS = {
    "a mixture of counts": lambda: pm.Mixture.dist([0.4, 0.6], [pm.Poisson.dist(MU), pm.Poisson.dist(2 * MU)]),
    "more ones": lambda: pm.Mixture.dist([0.4, 0.6], [pm.DiracDelta.dist(1), pm.Poisson.dist(MU)]),
    "three parts": lambda: pm.Mixture.dist([0.2, 0.2, 0.6], [pm.DiracDelta.dist(0)] * 2 + [pm.Poisson.dist(MU)]),
    "zeros, or 2 and more": lambda: pm.Mixture.dist(
        [0.4, 0.6], [pm.DiracDelta.dist(0), pm.Truncated.dist(pm.Poisson.dist(MU), lower=2)]
    ),
    "a bound for each area": lambda: pm.Truncated.dist(pm.Poisson.dist(MU), upper=X + 30),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_mixtures_and_truncations_use_all_counts(name):
    mechanism = ppd.GeneralizedLaplace(inv.total(), epsilon="1/4")
    with pm.Model() as model:
        ppd.PartiallyPrivate("x", OTHERS[name](), release=ppd.Release(X, mechanism))
    assert not is_used(model)


def test_shares_of_0_and_1_have_the_density_by_all_counts():
    model = model_of("zero-inflated", inv.Public())
    start = model.initial_point()
    for log_odds in (-800.0, 40.0):  # the share is 0, or rounded to 1
        start["share_logodds__"] = np.where(X > 10, 40.0, log_odds)
        found = float(model.compile_logp()(start))
        with patch.multiple(ConfidentialRV, gamma_form=lambda *_: None):
            assert found == pytest.approx(float(model.compile_logp()(start)), abs=1e-8)


def test_other_dependents_use_all_counts():
    assert not is_used(model_of("negative binomial", inv.total(), visits=2.0))


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
    span, segment = noise_of(np.where(k < 3, -np.inf, 1 - 0.25 * abs(k - 11)))
    assert span.tolist() == [[0, 2]]
    np.testing.assert_allclose(segment, [[8, 16, 8, -1, 0.25, 0], [17, 44, 17, 0.75, -0.25, 0]], atol=1e-14)
    _, segment = noise_of(-0.5 * (k - 11) ** 2 / 9)
    np.testing.assert_allclose(segment, [[5, 44, 5, -121 / 18, 11 / 9, -1 / 18]], atol=1e-13)


@pytest.mark.parametrize("log_noise", [
    np.abs(np.arange(-5.0, 6)), -np.sqrt(1 + np.arange(9.0)), np.where(np.arange(9) == 4, -np.inf, 0.0),
    np.full(4, -np.inf),
], ids=["convex", "curved", "hole", "empty"])  # fmt: skip
def test_noise_of_another_form_is_not_split(log_noise):
    assert noise_of(log_noise) is None


UNITS = np.array([[4, 7, 4], [4, 9, 7]])
KEY = np.zeros(6, dtype=np.int64)
MEAN, SPREAD = pm.Beta.dist(3, 1), pm.Gamma.dist(2, 1)


@pytest.mark.parametrize(("dist", "kinds"), [
    (lambda: pm.BetaBinomial.dist(MEAN * SPREAD, (1 - MEAN) * SPREAD, UNITS), [0, 1, 0, 0, 2, 1]),
    (lambda: pm.BetaBinomial.dist(SPREAD, [1.0, 2.0, 1.0], UNITS), [0, 1, 0, 0, 2, 3]),
    (lambda: pm.NegativeBinomial.dist(mu=MEAN, alpha=SPREAD, shape=(2, 3)), [0] * 6),
    (lambda: pm.NegativeBinomial.dist(mu=pm.Gamma.dist(1, 1, shape=3), alpha=SPREAD, shape=(2, 3)), None),
    (lambda: pm.ZeroInflatedPoisson.dist(psi=MEAN, mu=SPREAD, shape=(2, 3)), None),
    (lambda: pm.Poisson.dist(np.arange(6.0).reshape(2, 3)), None),
], ids=["units", "a parameter by column", "one law", "a rate for each column", "a mixture", "all differ"])  # fmt: skip
def test_kinds(dist, kinds):
    """Cells are identical if constants are equal; a parameter that varies and is not constant distinguishes them."""
    found = identical_cells(dist(), (2, 3), KEY)
    if kinds is None:
        assert found is None
        return
    of_kinds, first, kind = found
    agree = np.equal.outer(kind, kind)
    np.testing.assert_array_equal(agree, np.equal.outer(kinds, kinds))
    np.testing.assert_array_equal(kind[first], np.arange(first.size))
    assert of_kinds.eval().shape == first.shape


def test_windows_distinguish_cells():
    kind = identical_cells(
        pm.NegativeBinomial.dist(mu=MEAN, alpha=SPREAD, shape=(2, 3)), (2, 3), np.array([0, 0, 0, 1, 1, 0])
    )[2]
    assert (kind == [0, 0, 0, 1, 1, 0]).all() or (kind == [1, 1, 1, 0, 0, 1]).all()


def density(model):
    names, logp = [x.name for x in model.value_vars], model.logp()
    both = model.compile_fn([logp, *pytensor.gradient.grad(logp, model.value_vars)])
    return lambda at: np.array([float(x) for x in both(dict(zip(names, at, strict=True)))])


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("public", ["groups", "nested"])
def test_weights_are_those_of_each_single_cell(public, monkeypatch):
    """Density and slopes with one evaluation per group, and with one per cell; a wrong group is detected."""
    rng = np.random.default_rng(1)
    units = np.array([3, 8, 3, 8, 12, 3, 12, 8])
    noisy = rng.binomial(units, 0.7) + rng.integers(-2, 3, 8)
    inv, law = ppd.invariants, ppd.laws.DoubleGeometric("1/2")
    coords = {"area": range(8)}
    if public == "groups":
        seen = ppd.Measurements(coords, ppd.measured(inv.margin("area"), noisy, law), public={inv.total(): 38})
    else:
        total = ppd.measured(inv.total(), 40, law)
        seen = ppd.Measurements(coords, ppd.measured(inv.margin("area"), noisy, law), total)

    def built():
        with pm.Model(coords=seen.coords) as model:
            mean, size = pm.Beta("mean", 3, 1), pm.Gamma("size", 2, 0.1)
            data = pm.BetaBinomial.dist(alpha=mean * size, beta=(1 - mean) * size, n=units)
            ppd.PartiallyPrivate("x", data, release=seen, marginalize=True)
        return density(model)

    at = np.array([0.4, 1.3])
    together = built()(at)
    monkeypatch.setattr(confidential, "identical_cells", lambda *_: None)
    np.testing.assert_allclose(together, built()(at), rtol=1e-10)

    def wrong(dist, shape, key):
        of_kinds, first, kind = identical_cells(dist, shape, key)
        return of_kinds, first, kind[::-1]

    monkeypatch.setattr(confidential, "identical_cells", wrong)
    assert abs(built()(at) - together).max() > 1e-3
