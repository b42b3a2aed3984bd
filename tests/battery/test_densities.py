"""Likelihoods of marginalized tables, and joint densities of sampled tables, against sums over enumerated tables."""

import enumerator as own
import numpy as np
import pymc as pm
import pytest
from data_models import DATA_MODELS
from posed import Posed, with_gradient
from published import PUBLISHED
from scipy import stats

import ppdinf as ppd

# The default compiler takes seconds per model. Without it, PyTensor's rewrites of log(1 - p) are missing, so nan must
# be avoided explicitly.
QUICK = {"mode": "FAST_COMPILE"}
SUITED = {"multinomial rows": "rows", "Dirichlet-multinomial rows": "rows", "Bernoulli": "two persons"}
OTHERS = ["nothing", "groups", "gaussian", "staircase", "known apart", "at most 5", "suppressed"]
QUICKLY_BUILT = [
    "Poisson", "Poisson, a rate of 0", "binomial", "binomial, one p is 1", "negative binomial, shape unknown",
    "geometric", "discrete uniform below 0", "beta-binomial", "zero-inflated Poisson", "mixture with a fixed count",
    "truncated Poisson", "censored Poisson", "a law made of others", "switched rates, nothing else",
    "negative binomial of single precision", "whole rates", "multinomial rows",
]  # fmt: skip
LIGHT = ["Poisson", "binomial", "discrete uniform below 0", "negative binomial of single precision", "multinomial rows"]
EACH = [pytest.param(data, marks=() if data in QUICKLY_BUILT else pytest.mark.deep) for data in DATA_MODELS]


def first(data):
    return Posed(data, SUITED.get(data, "total"))


def feasible(data, published):
    """Return whether the data model allows a table of this release, and the release has the required shape."""
    if DATA_MODELS[data].whole or PUBLISHED[published].values == (2,):
        return published == SUITED.get(data)
    posed = Posed(data, published)
    if posed.law.negative and published in ("nothing", "suppressed", "bounded", "congenial"):
        return published == "nothing"
    listed = posed.listed()
    log_p = posed.log_joint(posed.points("ordinary")[0], listed) + listed.log_noise
    return listed.tables.size > 0 and bool(np.isfinite(log_p).any())


def close(found, expected, scale=1.0):
    return np.allclose(found, expected, rtol=2e-6, atol=1e-7 * max(1.0, abs(scale)), equal_nan=False)


def check_summed_out(posed, **mode):
    model, listed = posed.model(marginalize=True), posed.listed()
    if posed.law.fixed:
        value = model.compile_logp(**mode)
    else:
        both = with_gradient(model, **mode)

    def at(point):
        with np.errstate(all="ignore"):
            found, slopes = (value(point), np.zeros_like(point["theta"])) if posed.law.fixed else both(point)
        return float(found), slopes

    def expected(theta):
        return listed.log_marginal(posed.log_joint({"theta": theta}, listed))

    wrong = []
    for point in posed.points("ordinary") + posed.points("extreme"):
        if posed.beyond(point, listed):
            continue
        reference = expected(point["theta"])
        slopes = own.slope(expected, point["theta"])
        found, found_slopes = at(point)
        if not abs(found - reference) <= 1e-8 * max(1.0, abs(reference)) or not close(found_slopes, slopes, reference):
            wrong.append((point["theta"].tolist(), found, reference, found_slopes.tolist(), slopes.tolist()))
    for point in posed.points("rounded"):
        found, found_slopes = at(point)
        if np.isnan(found) or found == np.inf or not np.isfinite(found_slopes).all():
            wrong.append((point["theta"].tolist(), found, "rounded", found_slopes.tolist()))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("data", EACH)
def test_marginalized(data):
    check_summed_out(first(data), **QUICK)


@pytest.mark.deep
@pytest.mark.parametrize("data", ["binomial", "binomial by its logit", "zero-inflated Poisson", "hurdle Poisson"])
def test_marginalized_as_compiled_by_default(data):
    check_summed_out(first(data))


@pytest.mark.deep
@pytest.mark.parametrize("data", DATA_MODELS)
def test_marginalized_for_another_release(data):
    """Each data model with two of the other releases, in turn."""
    suited = [published for published in OTHERS if feasible(data, published)]
    turn = list(DATA_MODELS).index(data)
    for published in {suited[turn % len(suited)], suited[(turn + 1) % len(suited)]} if suited else ():
        check_summed_out(Posed(data, published), **QUICK)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("published", OTHERS)
def test_every_release_marginalized(published):
    check_summed_out(Posed("Poisson", published), **QUICK)
    check_summed_out(Posed("negative binomial", published), **QUICK)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("rate", [0.3, 2.0, 7.0])
def test_the_data_model_can_override_the_noise(rate):
    """100 released comes from a count near 19: further away than noise is with a probability of 1e-12."""
    release = ppd.Release(np.array([100]), ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1))
    with pm.Model() as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 2), shape=1), release=release, marginalize=True)
    x = np.arange(300)

    def expected(rate):  # rate is on the log scale in the model
        likelihood = own.logsumexp(own.poisson(x, rate) - np.abs(100 - x))
        return likelihood + stats.gamma.logpdf(rate, 2, scale=1 / 2) + np.log(rate)

    value = model.compile_logp(**QUICK)
    found = [float(value({"rate_log__": np.log(at)})) for at in (rate, 3.0)]
    assert found[0] - found[1] == pytest.approx(expected(rate) - expected(3.0), abs=1e-7)


def check_walked(posed, **mode):
    """Check the joint density at every listed table, and that it is -inf at tables that violate a sum."""
    model, listed = posed.model(marginalize=False), posed.listed()
    value = model.compile_logp(**mode)
    shape = posed.release.release().table.shape
    chosen = np.linspace(0, len(listed.tables) - 1, min(40, len(listed.tables))).astype(int)
    for point in posed.points("ordinary"):
        expected = (posed.log_joint(point, listed) + listed.log_noise)[chosen]
        with np.errstate(all="ignore"):
            found = np.array([value(point | {"x": listed.tables[k].reshape(shape)}) for k in chosen], dtype=float)
        # the density of a sampled table is PyMC's own, as precise as its arguments
        precision = 1e-5 if "single precision" in posed.data else 1e-8
        assert own.alike(found, expected, precision), (found, expected)
        if posed.release.A:
            moved = listed.tables[chosen[0]] + np.eye(listed.tables.shape[1], dtype=int)[0]
            assert value(point | {"x": moved.reshape(shape)}) == -np.inf


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "data", [pytest.param(data, marks=() if data in LIGHT else pytest.mark.deep) for data in DATA_MODELS]
)
def test_sampled(data):
    check_walked(first(data), **QUICK)
