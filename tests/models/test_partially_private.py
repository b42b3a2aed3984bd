"""PartiallyPrivate with a sampled table: against enumeration, a reference posterior, and bad models."""

import json
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from enumeration import contrast, fiber_points, posterior, total_variation
from known_parameters import QUIET
from scipy import stats
from three_cells import LOG_NOISE, RATE, TABLES, released

import ppdinf as ppd
from ppdinf.errors import ModelError
from ppdinf.invariants import groups, total
from ppdinf.samplers.lattice_gibbs import LatticeGibbs


def small_release(y, epsilon, states=None, public=None):
    table = xr.DataArray(y, dims="county")
    public = total() if public is None else public
    if states is not None:
        table = table.assign_coords(state=("county", states))
        public = groups("state")
    return ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=epsilon))


@pytest.mark.deep
@pytest.mark.parametrize(
    ("y", "epsilon", "states"), [([2, -1, 3], "1/2", None), ([4, 0, -1, 2], 1, ["A", "A", "B", "B"])]
)
def test_posterior_equals_enumeration(y, epsilon, states):
    """Table and a two-valued rate jointly, by pm.sample; wrong: epsilon 20 % off, for which z is 12 and 31."""
    release = small_release(y, epsilon, states)
    rates, multipliers = np.linspace(0.5, 2, len(y)), np.array([0.5, 2.0])
    with pm.Model(coords=release.coords):
        which = pm.Bernoulli("which", 0.4)
        rate = rates * pm.math.switch(which, multipliers[1], multipliers[0])
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=False)
        idata = pm.sample(2_000, tune=100, chains=4, cores=1, random_seed=5, lattice_gibbs={"sweeps": 8}, **QUIET)
    points = fiber_points(release.public.A, release.public.values, int(max(release.public.values)))
    prior = [(multipliers[0], 0.6), (multipliers[1], 0.4)]
    draws = np.column_stack([idata.posterior["x"].values.reshape(-1, len(y)), idata.posterior["which"].values.ravel()])
    both = np.vstack([np.column_stack([points, np.full(len(points), k)]) for k in (0, 1)])
    right, wrong = (
        posterior(points, np.array(y), factor * float(release.mechanism.epsilon), rates, prior).T.ravel()
        for factor in (1.0, 1.2)
    )
    assert total_variation(draws, both, right) < np.sqrt(2 * right / np.pi / len(draws)).sum()  # 2 x expected
    z, z_wrong = contrast(draws, both, right, wrong)
    assert abs(z) < 6 < abs(z_wrong)


def p1_posterior(draws, marginalize=False, **kwargs):
    problem = json.loads(Path(__file__).with_name("p1.json").read_text())
    release = ppd.Release(
        xr.DataArray(problem["Y"], dims="area"), ppd.GeneralizedLaplace(total(), epsilon=problem["eps"])
    )
    with pm.Model(coords=release.coords) as model:
        mu = pm.Normal("mu", -5, 2)
        tau = pm.HalfNormal("tau", 1)
        eta = pm.Normal("eta", mu, tau, dims="area")
        rate = np.array(problem["pop"]) * pm.math.exp(eta)
        ppd.PartiallyPrivate("X", pm.Poisson.dist(rate), release=release, marginalize=marginalize)
        idata = pm.sample(draws, random_seed=11, **QUIET, **kwargs)
    return problem, model, idata


@pytest.mark.deep
@pytest.mark.parametrize("marginalize", [False, True])
def test_reference_posterior_of_twenty_areas(marginalize):
    """Means within 0.1 reference sd, sds within 5 %, R-hat < 1.01, every cell moving (one release is negative)."""
    problem, model, idata = p1_posterior(8_000, marginalize, chains=4, cores=2, target_accept=0.9)
    ppd.sample_confidential(idata, model, random_seed=3)
    for name, reference in problem["reference"].items():
        draws = idata.posterior[name]
        mean, sd = draws.mean(("chain", "draw")).values, draws.std(("chain", "draw")).values
        assert np.max(np.abs(mean - reference["mean"]) / reference["sd"]) < 0.1
        assert np.max(np.abs(sd / np.array(reference["sd"]) - 1)) < 0.05
    diagnosis = ppd.diagnose(idata, model)
    assert diagnosis.ok, str(diagnosis)
    assert marginalize or diagnosis.cells["moved"].min() > 0.5


@pytest.mark.deep
def test_same_seed_same_draws_in_one_process_and_in_several():
    alone = p1_posterior(50, tune=50, chains=2, cores=1)[2]
    for context in ("fork", "forkserver", "spawn"):
        apart = p1_posterior(50, tune=50, chains=2, cores=2, mp_ctx=context)[2]
        assert apart.posterior["X"].equals(alone.posterior["X"])
        assert apart.posterior["eta"].equals(alone.posterior["eta"])
    assert not np.array_equal(alone.posterior["X"][0], alone.posterior["X"][1])


@pytest.mark.quick_cases(0)
def test_forward_draws_of_table_and_release():
    release = small_release([30, 20, -1], "1/4")
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 20, 1)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=False)
        prior = pm.sample_prior_predictive(400, random_seed=3)
        idata = pm.sample(100, tune=100, chains=1, cores=1, random_seed=3, **QUIET)
        predicted = pm.sample_posterior_predictive(idata, random_seed=3, progressbar=False)
    x, y = prior.prior["x"], prior.prior_predictive["x_release"]
    assert x.dims == ("chain", "draw", "county")
    assert (x.sum("county") == y.sum("county")).all()  # forward releases preserve the total of their own table
    assert abs(float((y - x).mean())) < 0.5
    sd = np.sqrt(np.mean((y - x).values ** 2))
    assert 3.5 < sd < 5.5  # double geometric at 1/4: 5.6, reduced by the fixed total
    assert (predicted.posterior_predictive["x_release"].sum("county") == 49).all()
    assert ppd.sample_confidential(idata, model).dims == ("chain", "draw", "county")


def test_pymc_assigns_the_step_and_refuses_other_steps():
    release = small_release([3, 1, 2], 1)
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=False)
        pm.Poisson("other", 1.0)
    steps = pm.sampling.mcmc.assign_step_methods(model)[1]
    assert [var.name for var in steps[LatticeGibbs]] == ["x"]
    assert all("x" not in [v.name for v in variables] for step, variables in steps.items() if step is not LatticeGibbs)


def poisson(rate=2.0, **kwargs):
    return lambda: pm.Poisson.dist(rate, **kwargs)


BAD_MODELS = [
    (poisson(np.ones(4)), "has shape"),
    (poisson(np.ones((2, 3))), "has shape"),
    (lambda: pm.Normal.dist(0, 1), "elementwise distribution over integers"),
    (lambda: pm.Multinomial.dist(5, np.ones(3) / 3), "differs from the n"),
    (lambda: pm.MvNormal.dist(np.zeros(3), np.eye(3)), "elementwise"),
    (lambda: 3, "unnamed PyMC distribution"),
    (lambda: pm.DiscreteUniform.dist(500, 600), "excludes all counts near the released one at county=0"),
]


@pytest.mark.parametrize(("dist", "message"), BAD_MODELS)
def test_models_that_do_not_fit_are_refused(dist, message):
    release = small_release([3, 1, 2], 1)
    with pm.Model(coords=release.coords), pytest.raises(ModelError, match=message):
        ppd.PartiallyPrivate("x", dist(), release=release, marginalize=False)


def test_misaligned_coordinates_are_refused():
    release = small_release([3, 1, 2], 1)
    with (
        pm.Model(coords={"county": [2, 1, 0]}),
        pytest.raises(ModelError, match=r"pm\.Model\(coords=release\.coords\)"),
    ):
        ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=False)


def test_an_infeasible_start_is_refused_with_the_violated_row():
    release = small_release([3, 1, 2], 1)
    with pm.Model(coords=release.coords):
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=False)
        step = LatticeGibbs([x])
    with pytest.raises(ppd.errors.InvariantError, match="'total'"):
        step.step({"x": np.array([3, 1, 3])})


@pytest.mark.quick_cases(0)
def test_shares_of_a_public_total_are_not_modelled_independently():
    """Two binomial cells of 100 that sum to 100: their likelihood would count twice, sd 0.032 instead of 0.045."""
    rows = ppd.GeneralizedLaplace(ppd.invariants.margin("dim_0"), epsilon=1)
    release = ppd.Release(np.array([[40, 60], [30, 70]]), rows)

    def model(share, n=100):
        with pm.Model(coords=release.coords) as built:
            q = share()
            ppd.PartiallyPrivate("x", pm.Binomial.dist(pm.Data("n", n), q), release=release)
        return built

    def complementary():
        q = pm.math.invlogit(pm.Normal("logit", shape=2))
        return pm.math.stack([q, 1 - q], axis=-1)

    with pytest.raises(ModelError, match="'dim_0=0' is the n of every one of its cells"):
        model(complementary)
    model(lambda: pm.math.invlogit(pm.Normal("logit", shape=(2, 2))))  # 1/2 each at the start only
    later = model(complementary, n=120)
    later.compile_logp()
    with later:
        pm.set_data({"n": 100})
    with pytest.raises(ModelError, match="'dim_0=0' is the n of every one of its cells"):
        later.compile_logp()


@pytest.mark.quick_cases(0)
def test_parameters_are_converted_to_double_precision():
    """Short integers and single-precision numbers: the log gamma function of 30,000 would be off by 0.02."""
    n, y = 30_000, np.array([14_990, 15_010])
    release = ppd.Release(y, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        rate = pm.math.switch(np.array([True, False]), 0.5, 0.25)  # single precision
        ppd.PartiallyPrivate("x", pm.Mixture.dist([0.5, 0.5], [pm.Binomial.dist(n, rate), pm.Binomial.dist(n, 0.5)]),
                             release=release, marginalize=True)  # fmt: skip
    x = np.arange(14_800, 15_200)
    p = stats.binom.logpmf(x[:, None], n, np.array([[0.5, 0.25]]))
    mixed = np.logaddexp(p, stats.binom.logpmf(x[:, None], n, 0.5)) - np.log(2)
    expected = np.logaddexp.reduce(
        mixed[:, 0] + np.interp(30_000 - x, x, mixed[:, 1]) - abs(x - y[0]) - abs(30_000 - x - y[1])
    )
    expected += np.log(np.tanh(1.0))  # the constant of the noise (k, -k)
    assert float(sum(model.logp(sum=False)).eval()) == pytest.approx(expected, abs=1e-8)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("marginalize", [True, False])
def test_counts_above_32_bits(marginalize):
    large = 2**31 + 5
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/10")
    release = ppd.Release(np.array([large, 3 * large, 10]), mechanism)
    with pm.Model(coords=release.coords) as model:
        rates = np.array([large, 3.0 * large, 10.0])
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rates), release=release, marginalize=marginalize)
    assert np.isfinite(model.compile_logp()(model.initial_point()))
    assert model.rvs_to_values[model["x_release"]].data.tolist() == release.table.values.tolist()


@pytest.mark.quick_cases(0)
def test_numbers_of_trials_may_be_data_that_pymc_stores_as_real_numbers():
    """`pymc.Data` makes a real number of a Python integer. Numbers of trials that are no integers are refused."""
    release = ppd.Release(np.array([3, 5]), ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1))
    found = []
    for n in (9, np.array(9), np.array([9.0, 9.0])):
        with pm.Model(coords=release.coords) as model:
            q = pm.Beta("q", 1, 1)
            ppd.PartiallyPrivate("x", pm.Binomial.dist(pm.Data("n", n), q), release=release)
        found.append(float(model.compile_logp()({"q_logodds__": np.array(0.3)})))
    np.testing.assert_allclose(found, found[0], rtol=1e-12)
    with pytest.raises(ModelError, match="must be an integer"), pm.Model(coords=release.coords):
        ppd.PartiallyPrivate("x", pm.Binomial.dist(pm.Data("n", 9.5), 0.5), release=release)


def log_total(log_rate, factor):
    log_weight = stats.poisson.logpmf(TABLES, np.exp(log_rate) * RATE).sum(axis=1) + LOG_NOISE
    return stats.norm.logpdf(log_rate) + np.log((np.exp(log_weight) * factor).sum())


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", ["auto", True, False])
@pytest.mark.parametrize("name", ["", "inner"])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_rates_of_the_outer_model(name, way, kind):
    """A table in an inner model, its rate and its dependents in the outer model."""
    release = released()
    with pm.Model(coords=release.coords) as model:
        log_rate = pm.Normal("log_rate")
        with pm.Model(name=name, coords=release.coords):
            own = pm.math.exp(log_rate) * RATE.astype(kind)
            x = ppd.PartiallyPrivate("x", pm.Poisson.dist(own), release, marginalize=way)
        pm.Poisson("d", 1 + x[0], observed=3)
    assert len(model.free_RVs) == 1 + (way is False)
    log_density = model.compile_logp()
    for at in (-0.5, 0.4):
        point = {"log_rate": np.array(at)}
        points = [{**point, x.name: table} for table in TABLES] if way is False else [point]
        found = np.logaddexp.reduce([log_density(point) for point in points])
        assert found == pytest.approx(log_total(at, stats.poisson.pmf(3, 1 + TABLES[:, 0])), abs=1e-9)


def test_a_dependent_of_several_cells_makes_the_table_a_variable_of_the_outer_model():
    release = released()
    with pm.Model(coords=release.coords) as model:
        with pm.Model(name="inner", coords=release.coords):
            x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release)
        assert not model.free_RVs
        pm.Normal("d", x[:2].sum(), 1, observed=3)
    assert model["inner::x"] is x
    assert [v.name for v in model.free_RVs] == ["inner::x"]
