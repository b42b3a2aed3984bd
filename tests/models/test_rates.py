import mpmath
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from known_parameters import QUIET
from scipy.integrate import quad
from scipy.stats import gamma, kstest, nbinom, poisson

import ppdinf as ppd
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import LabelError, ModelError
from ppdinf.models import rates
from ppdinf.models.rates import draw_rates, rate_model
from ppdinf.releases.rate_inputs import exposures

PUBLIC = ppd.invariants.total() & ppd.invariants.covariates("persons", "before")
PERSONS = np.array([400, 900, 2500])


def make(values=(3, -1, 12), persons=PERSONS, before=(2, 0, 10), public=PUBLIC, epsilon=1):
    table = xr.DataArray(
        np.array(values),
        dims="county",
        coords={
            "county": list("abc"),
            "persons": ("county", np.array(persons)),
            "before": ("county", np.array(before)),
        },
    )
    return ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=epsilon))


def at(model, **values):
    """Return a point with given values of parameters, as the model's value variables."""
    transforms = {name: model.rvs_to_transforms[model[name]] for name in values}
    names = [model.rvs_to_values[model[name]].name for name in values]
    given = {name: pt.constant(np.asarray(value, dtype=float)) for name, value in values.items()}
    moved = {name: x if transforms[name] is None else transforms[name].forward(x) for name, x in given.items()}
    return {x: moved[name].eval() for x, name in zip(names, values, strict=True)}


@pytest.fixture
def walked(monkeypatch):
    """Use the form of the model for sampled tables on tables that can be marginalized."""
    monkeypatch.setattr(rates, "why_not_marginalizable", lambda observed: "public sums cross each other")


@pytest.mark.usefixtures("walked")
def test_marginalized_rates_give_poisson_counts_with_gamma_rates():
    """The density of a count equals the numerical integral over its rate; a wrong spread differs."""
    release = make()
    model = rate_model(release, exposure="persons", previous="before")
    point = model.initial_point()
    point |= at(model, intercept=-5.0, slope=0.7, spread=0.6)
    logp = model.compile_logp(vars=[model["count"]], sum=False)
    point["count"] = np.array([1, 2, 11])
    found = np.exp(logp(point)[0])

    earlier = np.log((np.array([2, 0, 10]) + 0.5) / PERSONS)
    mean = np.exp(-5 + 0.7 * (earlier - earlier.mean()))

    def integral(k, spread):
        shape = 1 / spread**2
        prior = gamma(shape, scale=mean[k] / shape)
        value = point["count"][k]
        return quad(lambda r: poisson.pmf(value, PERSONS[k] * r) * prior.pdf(r), 0, prior.ppf(1 - 1e-12), limit=200)[0]

    np.testing.assert_allclose(found, [integral(k, 0.6) for k in range(3)], rtol=1e-5)
    assert not np.allclose(found, [integral(k, 0.5) for k in range(3)], rtol=1e-2)


LOG_OBSERVED = np.array([-1.5, 0.5, 2.0])


def log_rate_of(deviation, log_mean, spread, precision, log_observed):
    """Mean and standard deviation of a normal log rate given a normal observation, by precisions that add up."""
    variance = 1 / (1 / spread**2 + precision)
    mean = variance * (log_mean / spread**2 + precision * log_observed)
    return mean + np.sqrt(variance) * deviation


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("precision", [0.0, pytest.param(2.0, marks=pytest.mark.compiled), 1e6])
def test_deviations_are_those_of_gamma_rates_for_every_precision(precision):
    log_mean, spread, told = np.array([-1.0, 0.5, 3.0]), 0.6, np.full(3, precision)
    law = gamma(1 / spread**2, scale=np.exp(log_mean) * spread**2)
    with pm.Model() as model:
        of_mean = pm.math.constant(log_mean), pm.math.constant(spread)
        log_rates = rates._log_rates(*of_mean, told, LOG_OBSERVED, None)
    value = np.array([-0.4, 0.2, 2.0])

    def log_rate(value):
        return log_rates.eval({model["deviation"]: value})

    np.testing.assert_allclose(log_rate(value), log_rate_of(value, log_mean, spread, told, LOG_OBSERVED))
    step = 1e-3
    slope = (log_rate(value + step) - log_rate(value - step)) / (2 * step)
    expected = law.logpdf(np.exp(log_rate(value))) + log_rate(value) + np.log(slope)
    found = model.compile_logp(sum=False, jacobian=False)({"deviation": value})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    drawn = pm.draw(pm.math.exp(log_rates), 4000, random_seed=1)
    for k in range(3):
        assert kstest(drawn[:, k], gamma(1 / spread**2, scale=np.exp(log_mean[k]) * spread**2).cdf).pvalue > 1e-5
        assert kstest(drawn[:, k], gamma(1 / 0.5**2, scale=np.exp(log_mean[k]) * 0.5**2).cdf).pvalue < 1e-5


@pytest.mark.parametrize("spread", [1.0, 0.0099, 0.0101, 1e-5])
def test_the_density_of_small_spreads_is_exact_to_rounding(spread):
    """Terms of the density of the gamma distribution cancel: with 50 digits as the oracle."""
    with pm.Model() as model:
        of_mean = pm.math.constant(np.zeros(1)), pm.math.constant(spread)
        rates._log_rates(*of_mean, np.zeros(1), np.zeros(1), None)
    density = model.compile_logp(jacobian=False)
    with mpmath.workdps(50):
        shape, log_ratio = 1 / mpmath.mpf(spread) ** 2, mpmath.mpf(spread) * mpmath.mpf(1.5)
        right = shape * mpmath.log(shape) - mpmath.loggamma(shape) + shape * (log_ratio - mpmath.exp(log_ratio))
        right += mpmath.log(spread)
    assert float(density({"deviation": np.array([1.5])})) == pytest.approx(float(right), abs=1e-9)


def test_a_release_informs_large_counts_under_little_noise_and_no_others():
    def precision(values, epsilon):
        return rates._precision(make(values, epsilon=epsilon), np.array([1.0, 2.0, 0.0]))

    large = precision((3000, 4000, 5000), 1)
    assert (large[:2] > 100).all()
    assert large[2] == 0  # nobody is at risk
    assert (precision((3000, 4000, 5000), "1/10000") < 0.2).all()
    assert precision((-5, 3, 4000), "1/10")[0] < 0.2


@pytest.mark.quick_cases(0)
def test_counts_are_poisson_given_the_rates_and_zero_where_nobody_lives():
    """The density of the release with given deviations, against the sum over all tables."""
    release = make((3, 0, 11), persons=(400, 0, 2500), epsilon=1)
    model = rate_model(release, exposure="persons")
    deviation = np.array([0.3, 0.5, -0.2])
    point = at(model, intercept=-5.2, spread=0.6, deviation=deviation)
    observed = np.log([3 / 400, 0.5, 11 / 2500])
    told, log_mean = rates._precision(release, np.array([400, 0, 2500])), -5.2
    log_rate = log_rate_of(deviation, log_mean, 0.6, told, observed)
    mean = np.exp(log_rate) * [400, 0, 2500]
    first = np.arange(15)
    weights = poisson.pmf(first, mean[0]) * poisson.pmf(14 - first, mean[2])
    noise = np.exp(-(abs(3 - first) + abs(11 - (14 - first))))

    def logp(point):
        return float(model.compile_logp(vars=model.observed_RVs)(point))

    deviation = np.array([-0.4, 0.5, 0.1])
    other = point | at(model, deviation=deviation)
    log_rate = log_rate_of(deviation, log_mean, 0.6, told, observed)
    mean = np.exp(log_rate) * [400, 0, 2500]
    others = poisson.pmf(first, mean[0]) * poisson.pmf(14 - first, mean[2])
    expected = np.log((others * noise).sum() / (weights * noise).sum())
    assert logp(other) - logp(point) == pytest.approx(expected, rel=1e-6)
    assert np.all(np.isfinite(model.compile_dlogp()(point)))
    empty = point | at(model, deviation=np.array([0.3, -3.0, -0.2]))
    assert logp(empty) == pytest.approx(logp(point), rel=1e-12)  # the rate is undefined where nobody lives


def test_rates_are_drawn_from_their_distribution_given_count_and_parameters():
    release = make()
    draws = 20_000
    where = {"chain": [0], "draw": np.arange(draws), "county": list("abc")}
    fixed = {
        "count": (("chain", "draw", "county"), np.broadcast_to([1, 0, 14], (1, draws, 3))),
        "mean_rate": (("chain", "draw", "county"), np.full((1, draws, 3), 0.004)),
        "spread": (("chain", "draw"), np.full((1, draws), 0.5)),
    }
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(fixed, where)})
    drawn = draw_rates(idata, release, exposure="persons", rng=3)
    assert drawn.dims == ("chain", "draw", "county")
    for k, count in enumerate([1, 0, 14]):
        # prior Gamma(4, mean 0.004) times Poisson(count | persons * rate)
        law = gamma(4 + count, scale=1 / (4 / 0.004 + PERSONS[k]))
        assert kstest(drawn[0, :, k], law.cdf).pvalue > 1e-6
        assert kstest(drawn[0, :, k], gamma(4, scale=0.001).cdf).pvalue < 1e-6  # the count is ignored
    assert drawn.equals(draw_rates(idata, release, exposure="persons", rng=3))


@pytest.mark.quick_cases(0)
def test_variables_and_shapes():
    model = rate_model(make(), name="cases")
    assert [v.name for v in model.free_RVs] == ["intercept", "spread", "deviation"]
    assert [(table.name, table.is_marginalized) for table in tables_of(model)] == [("cases", True)]
    two = xr.DataArray(np.arange(6).reshape(3, 2), dims=("age", "sex"), coords={"age": list("abc"), "sex": list("fm")})
    release = ppd.Release(two, ppd.GeneralizedLaplace(ppd.invariants.margin("sex"), epsilon=1))
    model = rate_model(release)
    assert [v.name for v in model.free_RVs] == ["intercept", "spread", "age_effect", "sex_effect", "deviation"]
    assert model["mean_rate"].eval().shape == (3, 2)
    assert model["deviation"].eval().shape == (3, 2)
    three = xr.DataArray(np.arange(9).reshape(3, 3), dims=("age", "sex"))
    both = ppd.invariants.margin("sex") & ppd.invariants.margin("age")
    for table, mechanism in (
        (three, ppd.GeneralizedLaplace(both, epsilon=1)),
        (two, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1, norm="l2")),
    ):
        names = [v.name for v in rate_model(ppd.Release(table, mechanism)).free_RVs]
        assert names[-1] == "count"
        assert "deviation" not in names


@pytest.mark.quick_cases(0)
def test_effects_of_any_number_of_dimensions_are_summed():
    cube = xr.DataArray(np.ones((2, 3, 1, 2), dtype=int), dims=("age", "race", "year", "sex"))
    model = rate_model(ppd.Release(cube, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1)))
    names = ["intercept", "spread", "age_effect", "race_effect", "sex_effect", "deviation"]  # one label: no effect
    assert [v.name for v in model.free_RVs] == names
    given = {"intercept": 0.2, "age_effect": [1.0, -1], "race_effect": [0.5, 0, -0.5], "sex_effect": [0.1, -0.1]}
    mean = model["mean_rate"].eval({model[name]: np.array(value) for name, value in given.items()})
    assert mean.shape == (2, 3, 1, 2)
    assert mean[1, 2, 0, 0] == pytest.approx(np.exp(0.2 - 1 - 0.5 + 0.1))


@pytest.mark.quick_cases(0)
@pytest.mark.usefixtures("walked")
def test_where_nobody_lives_the_count_is_zero_and_other_cells_are_unaffected():
    """Same density and gradient as without the empty county, and draws in which its count is 0."""
    full, empty = make(), make(persons=(400, 0, 2500))
    model = rate_model(empty, exposure="persons", previous="before")
    slope, spread = 0.9, 0.6
    intercept = np.log(14 / 2900)
    point = model.initial_point() | at(model, intercept=intercept, slope=slope, spread=spread)
    point["count"] = np.array([3, 0, 11])
    logp = model.compile_logp(vars=[model["count"]], sum=False)
    found = logp(point)[0]
    assert found[1] == 0
    impossible = point | {"count": np.array([2, 1, 11])}
    assert logp(impossible)[0][1] == -np.inf
    assert np.all(np.isfinite(model.compile_dlogp()(point)))

    before = np.log((np.array([2, 10]) + 0.5) / np.array([400, 2500]))  # centered over those at risk
    mean = np.exp(intercept + slope * (before - before.mean())) * np.array([400, 2500])
    size = 1 / spread**2
    expected = nbinom.logpmf([3, 11], size, size / (size + mean))
    np.testing.assert_allclose(found[[0, 2]], expected, rtol=1e-9)
    assert not np.allclose(compile_count(full)(point)[0][1], found[1])  # a positive exposure there changes the result

    with model:
        idata = pm.sample(50, tune=50, chains=1, random_seed=1, **QUIET)
    assert set(idata.posterior["count"].values[..., 1].ravel().tolist()) == {0}
    assert set(idata.posterior["count"].values.sum(axis=-1).ravel().tolist()) == {14}
    assert np.isfinite(draw_rates(idata, empty, exposure="persons", rng=1)).all()


def compile_count(release):
    model = rate_model(release, exposure="persons", previous="before")
    return model.compile_logp(vars=[model["count"]], sum=False)


def test_exposure_by_one_dimension_is_broadcast_over_the_other():
    table = xr.DataArray(
        np.ones((2, 3), dtype=int),
        dims=("sex", "county"),
        coords={"sex": ["f", "m"], "county": list("abc"), "persons": ("county", PERSONS)},
    )
    public = ppd.invariants.total() & ppd.invariants.covariates("persons")
    release = ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=1))
    np.testing.assert_array_equal(exposures(release, "persons"), [PERSONS, PERSONS])


def ones(*dims):
    table = xr.DataArray(np.ones((2,) * len(dims), dtype=int), dims=dims)
    return ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))


ANSWERS = ppd.KNorm(ppd.invariants.total(), epsilon=1, query=np.array([[1, 1, 0], [0, 1, 1]]))
EMPTY = xr.DataTree.from_dict({"posterior": xr.Dataset({"count": 0})})
TAKEN = [("spread",), ("mean_rate",), ("intercept",), ("deviation",), ("a", "a_effect")]
REFUSED = [
    (lambda: rate_model(make(persons=(1, -1, 5)), exposure="persons"), "'persons' at county=b is negative"),
    (lambda: rate_model(make(persons=(0, 0, 0)), exposure="persons"), "it is 0 in every cell"),
    (lambda: rate_model(make(before=(1, 0, -5)), previous="before"), "'before' at county=c is negative"),
    (lambda: rate_model(make(persons=("1", "2", "3")), exposure="persons"), "'persons' contains text"),
    *((lambda name=name: rate_model(make(), name=name), "name must differ from the names in the model")
      for name in ("spread", "mean_rate", "rate", "county", "persons", "")),
    *((lambda dims=dims: rate_model(ones(*dims)), f"dimension '{dims[-1]}' has the name of a parameter")
      for dims in TAKEN),
    (lambda: rate_model(ones("count", "b")), "name must differ"),
    (lambda: rate_model(ANSWERS.release(np.array([2, 3, 3]))), "quer"),
    (lambda: draw_rates(EMPTY, make()), "no 'mean_rate'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refusals(call, message):
    with pytest.raises(ModelError, match=message):
        call()
    with pytest.raises(LabelError, match="'people'"):
        rate_model(make(), exposure="people")


@pytest.mark.deep
def test_intervals_cover_and_have_less_error_than_noisy_counts():
    """For 240 simulated counties, 90 % intervals contain 90 % of the counts, and means are closer than the release."""
    rng = np.random.default_rng(8)
    persons = rng.integers(500, 20_000, size=240)
    count = rng.poisson(persons * rng.gamma(1 / 0.4**2, 0.002 * 0.4**2, size=240))
    table = xr.DataArray(count, dims="county", coords={"county": np.arange(240), "persons": ("county", persons)})
    public = ppd.invariants.total() & ppd.invariants.covariates("persons")
    mechanism = ppd.GeneralizedLaplace(public, epsilon="1/5")
    release = ppd.Release(mechanism.simulate(table, draws=1, rng=1).isel(draw=0), mechanism)
    with rate_model(release, exposure="persons"):
        idata = pm.sample(400, tune=300, chains=1, random_seed=1, **QUIET)
        draws = ppd.sample_confidential(idata).values.reshape(-1, 240)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    assert 0.85 < np.mean((low <= count) & (count <= high)) < 0.97
    ours, naive = (np.sum((means - count) ** 2) for means in (draws.mean(axis=0), release.table.values))
    assert ours < 0.8 * naive
