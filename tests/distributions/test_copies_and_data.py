"""Copies of a model, changes of its data, and deletion: the density follows, and releases leave the memory."""

import gc
import weakref

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pymc.model.transform.optimization import freeze_dims_and_data, freeze_model
from scipy import stats
from scipy.special import logsumexp
from three_cells import LOG_NOISE, LOG_WEIGHT, TABLES, log_sum, posed, summed

import ppdinf as ppd
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import ModelError

inv = ppd.invariants


def of_two(x):
    return -0.3 * (x[0] - x[2]) ** 2


def by_cell(x):
    return -0.3 * (x**2).sum()


COPIES = {
    "copied": pm.Model.copy,
    "copied twice": lambda model: model.copy().copy(),
    "observed": lambda model: pm.observe(with_latent(model), {"q": 1.5}),
    "intervened on": lambda model: pm.do(with_latent(model), {"q": 1.5}),
}


def with_latent(model):
    with model:
        pm.Normal("q", 0, 1)
    return model


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("again", COPIES)
@pytest.mark.parametrize("potential", [of_two, by_cell])
def test_potentials_on_the_table_of_a_copy(potential, again):
    """Wrong variant: another table is drawn at every call."""
    copy = COPIES[again](posed())
    x = tables_of(copy)[0].variable
    with copy:
        pm.Potential("p", potential(x))
    wanted = log_sum(lambda x: np.exp(potential(x)))
    if again == "observed":
        wanted += stats.norm.logpdf(1.5)
    assert summed(copy)() == pytest.approx(wanted, abs=1e-9)
    assert ("x" in copy) == (potential is of_two)


@pytest.mark.parametrize("potential", [of_two, by_cell])
def test_the_table_of_the_copied_model_is_refused(potential):
    model = posed()
    x, copy = tables_of(model)[0].variable, model.copy()
    before = copy.compile_logp()({})
    with copy, pytest.raises(ModelError, match="'p' depends on the confidential table 'x' of another model"):
        pm.Potential("p", potential(x))
    with copy, pytest.raises(ModelError, match="of another model"):
        pm.Deterministic("share", x / x.sum())
    assert not copy.potentials
    assert copy.compile_logp()({}) == pytest.approx(before, abs=1e-12)


def test_a_table_that_must_be_marginalized_must_be_in_copies_as_well():
    copy = posed(marginalize=True).copy()
    with copy, pytest.raises(ModelError, match="marginalize=False"):
        pm.Potential("p", of_two(tables_of(copy)[0].variable))
    assert not copy.potentials


def test_copies_contain_the_names_of_tables():
    copy = posed().copy()
    with copy, pytest.raises(ModelError, match="name of the confidential table"):
        pm.Normal("x")
    x = tables_of(copy)[0].variable
    with copy, pytest.raises(ModelError, match="1 \\* table"):
        pm.Potential("p", x)
    assert x.name == "x"


def test_a_table_that_is_observed_or_set_is_not_marginalized():
    model, at = posed(marginalize=False), TABLES[7]
    seen = pm.observe(model, {"x": at})
    assert [table.is_marginalized for table in tables_of(seen)] == [False]
    assert seen.compile_logp()({}) == pytest.approx(LOG_WEIGHT[7], abs=1e-9)
    given = pm.do(model, {"x": at})
    assert given.compile_logp()({}) == pytest.approx(LOG_NOISE[7], abs=1e-9)
    assert not tables_of(given)
    with given:
        pm.Potential("p", of_two(given["x"]))
    assert given.compile_logp()({}) == pytest.approx(LOG_NOISE[7] + of_two(at), abs=1e-9)


# -- windows of changed data -----------------------------------------------------------------------------

Y, MANY = np.array([3, 5]), np.arange(4000)
OFFSETS = np.array([1.0, 1.3])


BINOMIAL = (
    lambda d, t: pm.Binomial.dist(n=d.astype("int64"), logit_p=t),
    lambda d, t: stats.binom.logpmf(MANY, d[:, None], 1 / (1 + np.exp(-t))),
)
CASES = {  # data model, its log probabilities, and data before and after the change; parameters are near 0
    "exposure": (lambda d, t: pm.Poisson.dist(d * pm.math.exp(t)),
                 lambda d, t: stats.poisson.logpmf(MANY, d[:, None] * np.exp(t)), OFFSETS, 300 * OFFSETS),
    "more trials": (*BINOMIAL, np.array([4, 7]), np.array([400, 700])),
    "fewer trials": (*BINOMIAL, np.array([400, 700]), np.array([4, 7])),
    "beta-binomial": (lambda d, t: pm.BetaBinomial.dist(n=d.astype("int64"), alpha=200 * pm.math.exp(t), beta=200),
                      lambda d, t: stats.betabinom.logpmf(MANY, d[:, None], 200 * np.exp(t), 200),
                      np.array([4, 7]), np.array([400, 700])),
    "negative binomial": (lambda d, t: pm.NegativeBinomial.dist(mu=d * pm.math.exp(t), alpha=2000),
                          lambda d, t: stats.nbinom.logpmf(MANY, 2000, 2000 / (2000 + d[:, None] * np.exp(t))),
                          OFFSETS, 300 * OFFSETS),
    "covariates": (lambda d, t: pm.Poisson.dist(pm.math.exp(t + d.dot([1.0, -0.5]))),
                   lambda d, t: stats.poisson.logpmf(MANY, np.exp(t + d @ [1.0, -0.5])[:, None]),
                   np.zeros((2, 2)), np.array([[5.0, -1], [6, 1]])),
}  # fmt: skip


def release_of(public=None):
    return ppd.Release(Y, ppd.GeneralizedLaplace(inv.Public() if public is None else public, epsilon=1.0))


def changing(dist, data, way="auto", public=None):
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 0.1)
        ppd.PartiallyPrivate("x", dist(pm.Data("data", data), theta), release_of(public), marginalize=way)
    return model


def log_likelihood(log_p):
    """Log density of the release."""
    return logsumexp(log_p + stats.dlaplace.logpmf(Y[:, None] - MANY, 1.0), axis=1).sum()


def with_data(model, data):
    with model:
        pm.set_data({"data": data})
    return model


def density(model):
    function = model.compile_logp(vars=[model["x_release"]])
    return lambda theta: float(function({"theta": np.array(float(theta))}))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", CASES)
def test_density_after_the_data_have_changed(case):
    """The posterior is pulled far below the prior mean. Windows of the first data are up to 100 units off."""
    dist, log_p, before, after = CASES[case]
    found = density(with_data(changing(dist, before), after))
    for theta in (-0.3, -0.2):
        assert found(theta) == pytest.approx(log_likelihood(log_p(after, theta)), abs=1e-3)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", ["fewer trials", "covariates"])
def test_functions_compiled_before_the_data_changed_raise(case):
    dist, _, before, after = CASES[case]
    model = changing(dist, before)
    old, gradient = density(model), model.compile_dlogp()
    old(0.1)
    model["data"].set_value(np.asarray(after, dtype=model["data"].dtype))  # not by way of pm.set_data
    with pytest.raises(ModelError, match="compile it again"):
        old(0.1)
    with pytest.raises(ModelError, match="compile it again"):
        gradient({"theta": np.array(0.3)})


WAYS = {
    "intervened on": lambda model, after: pm.do(model, {"data": np.asarray(after, dtype=model["data"].dtype)}),
    "copied": lambda model, after: with_data(model.copy(), after),
    "frozen": lambda model, after: freeze_model(with_data(model, after)),
    "frozen data": lambda model, after: freeze_dims_and_data(with_data(model, after)),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", WAYS)
def test_models_with_other_data_have_windows_of_their_own(way):
    dist, log_p, before, after = CASES["more trials"]
    model = changing(dist, before)
    first = density(model)(0.3)
    changed = WAYS[way](model, after)
    assert density(changed)(-0.2) == pytest.approx(log_likelihood(log_p(after, -0.2)), abs=1e-3)
    if way in ("intervened on", "copied"):  # the first model keeps its data
        assert density(model)(0.3) == pytest.approx(first, abs=1e-9)


def test_a_prior_by_data_moves_the_windows():
    """The release 3 under a prior mean that data raise from 1 to 300."""

    def model_of(level):
        with pm.Model() as model:
            theta = pm.Normal("theta", pm.Data("level", level), 0.1)
            ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(theta)), release_of())
        return model

    model = model_of(0.0)
    with model:
        pm.set_data({"level": np.log(300)})
    log_p = stats.poisson.logpmf(MANY, np.exp(5.5))[None]
    assert density(model)(5.5) == pytest.approx(log_likelihood(log_p), abs=1e-3)


# -- memory ----------------------------------------------------------------------------------------------

MODELS = {
    "marginalized": (lambda r: pm.Poisson.dist(r * np.ones(12)), "auto"),
    "all counts": (lambda r: pm.NegativeBinomial.dist(mu=r * np.ones(12), alpha=2.0), True),
    "sampled": (lambda r: pm.Poisson.dist(r * np.ones(12)), False),
}


def compiled(dist, way):
    """Compile a model of a new release; return weak references to the release and to the law of the table."""
    labels = {"area": np.arange(12), "state": ("area", np.arange(12) // 3)}
    table = xr.DataArray(np.arange(12) % 7, dims="area", coords=labels)
    release = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.groups("state"), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        x = ppd.PartiallyPrivate("x", dist(pm.Gamma("r", 2, 1)), release, marginalize=way)
        pm.Binomial("d", n=x, p=0.5, observed=np.zeros(12, dtype=int))
    point = model.initial_point()
    assert np.isfinite(model.compile_logp()(point))
    assert np.isfinite(model.compile_dlogp()({name: point[name] for name in point})).all()
    return weakref.ref(release), weakref.ref(tables_of(model)[0].law)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", MODELS)
def test_releases_of_deleted_models_leave_the_memory(name):
    held = [compiled(*MODELS[name]) for _ in range(2)]
    gc.collect()
    assert [reference() for pair in held for reference in pair] == [None] * 4
