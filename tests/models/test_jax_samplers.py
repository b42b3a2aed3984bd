"""Marginalized tables in JAX: densities and gradients equal those of compiled code, chains the reference posterior."""

from importlib.metadata import version

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from test_partially_private import p1_posterior

import ppdinf as ppd
from ppdinf._internal.pymc_compat import get_jaxified_graph
from ppdinf.distributions.ops import SumsGivenTotals
from ppdinf.errors import ModelError
from ppdinf.models import label_effects

jax = pytest.importorskip("jax")

COUNTS = xr.DataArray([[3, 1, 0], [2, 6, 4]], dims=("area", "age"), coords={"area": ["n", "s"], "age": [1, 2, 3]})


def released(mechanism, counts=COUNTS):
    release = ppd.Release(counts, mechanism)
    return release, pm.Model(coords=release.coords)


def poisson():
    release, model = released(ppd.GeneralizedLaplace(ppd.invariants.margin("area"), epsilon=1))
    with model:
        scale = pm.HalfNormal("scale")
        rate = pm.Gamma("rate", 2, 1 / scale, dims=COUNTS.dims)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    return model


def negative_binomial():
    counts = xr.DataArray(np.random.default_rng(0).poisson(30, 16), dims="area")
    release, model = released(ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/50"), counts)
    with model:
        shape, mean = pm.Gamma("shape", 2, 1), pm.Gamma("mean", 2, 0.1, dims="area")
        ppd.PartiallyPrivate("x", pm.NegativeBinomial.dist(mu=mean, alpha=shape), release=release)
    return model


def effects_under_l2_noise():
    release, model = released(ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1, norm="l2"))
    with model:
        log_rate = label_effects.log_rates(release, ["area", "age"])
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(log_rate)), release=release)
    return model


def dependent():
    release, model = released(ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with model:
        rate, p = pm.Gamma("rate", 2, 1, dims="age"), pm.Beta("p", 1, 1)
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
        pm.Binomial("deaths", x, p, observed=np.array([[1, 0, 0], [1, 2, 0]]))
    return model


def nested():
    """The totals of the table and of its areas, where one cell is known too."""
    public = ppd.invariants.total() & ppd.invariants.margin("area")
    release, model = released(ppd.GeneralizedLaplace(public & ppd.invariants.cells({"area": "s"}), epsilon=1))
    with model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1, dims="age")), release=release)
    return model


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(
    "made",
    [
        poisson,
        pytest.param(dependent, marks=pytest.mark.deep),
        pytest.param(effects_under_l2_noise, marks=pytest.mark.deep),
        pytest.param(nested, marks=pytest.mark.deep),
        pytest.param(negative_binomial, marks=pytest.mark.deep),
    ],
)
def test_densities_and_gradients_equal_those_of_compiled_code(made):
    """As numpyro and blackjax evaluate them; blackjax and chain_method="vectorized" map over chains."""
    model = made()
    point = {name: np.asarray(value, dtype=float) + 0.1 for name, value in model.initial_point().items()}
    log_density = get_jaxified_graph(model.value_vars, [model.logp()])
    chains = [jax.numpy.stack([point[x.name], point[x.name] - 0.05]) for x in model.value_vars]
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(lambda x: log_density(*x)[0])))(chains)
    for chain, shift in enumerate((0, 0.05)):
        at = {name: value - shift for name, value in point.items()}
        assert values[chain] == pytest.approx(float(model.compile_logp()(at)), rel=1e-10)
        gradient = np.concatenate([np.ravel(x[chain]) for x in gradients])
        np.testing.assert_allclose(gradient, model.compile_dlogp()(at), rtol=1e-10, atol=1e-10)


def test_what_jax_cannot_differentiate_or_compile_is_refused():
    x, packed = pt.dvector(), pt.lvector()
    value = SumsGivenTotals(True)(x, packed)[0]
    with pytest.raises(ModelError, match="replace shared variables by constants"):
        jax.jit(get_jaxified_graph([x, packed], [value]))(np.zeros(2), np.zeros(4, dtype=int))


@pytest.mark.deep
@pytest.mark.parametrize(("sampler", "chain_method"), [("numpyro", "vectorized"), ("blackjax", "parallel")])
def test_reference_posterior_of_twenty_areas(sampler, chain_method):
    """Means within 0.4 reference sd, sds within 30 %: 1,600 draws; the deep test of PyMC's NUTS has 32,000."""
    pytest.importorskip(sampler)
    if sampler == "blackjax" and version("blackjax") >= "1.6":
        pytest.skip("PyMC cannot call this version: https://github.com/pymc-devs/pymc/issues/8367")
    nuts = {"chain_method": chain_method}
    problem, _, idata = p1_posterior(800, True, tune=500, chains=2, nuts_sampler=sampler, nuts=nuts)
    for name, reference in problem["reference"].items():
        if name == "X":
            continue
        draws = idata.posterior[name]
        mean, sd = draws.mean(("chain", "draw")).values, draws.std(("chain", "draw")).values
        assert np.max(np.abs(mean - reference["mean"]) / reference["sd"]) < 0.4
        assert np.max(np.abs(sd / np.array(reference["sd"]) - 1)) < 0.3
