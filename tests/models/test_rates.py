import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.integrate import quad
from scipy.stats import gamma, kstest, poisson

import ppdinf as ppd
from ppdinf.errors import LabelError, ModelError
from ppdinf.models.rates import draw_rates, exposures, rate_model

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


def test_summed_out_rates_leave_poisson_counts_around_gamma_rates():
    """The density of a count equals the numerical integral over its rate, with a wrong spread shown to differ."""
    release = make()
    model = rate_model(release, exposure="persons", previous="before")
    point = model.initial_point()
    point |= {"intercept": np.array(-5.0), "slope": np.array(0.7), "spread_log__": np.log(0.6)}
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


def test_rates_are_drawn_from_their_law_given_count_and_parameters():
    release = make()
    draws = 20_000
    where = {"chain": [0], "draw": np.arange(draws), "county": list("abc")}
    fixed = {
        "count": (("chain", "draw", "county"), np.broadcast_to([1, 0, 14], (1, draws, 3))),
        "mean_rate": (("chain", "draw", "county"), np.full((1, draws, 3), 0.004)),
        "spread": (("chain", "draw"), np.full((1, draws), 0.5)),
    }
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(fixed, where)})
    rates = draw_rates(idata, release, exposure="persons", rng=3)
    assert rates.dims == ("chain", "draw", "county")
    for k, count in enumerate([1, 0, 14]):
        # prior Gamma(4, mean 0.004) times Poisson(count | persons * rate)
        law = gamma(4 + count, scale=1 / (4 / 0.004 + PERSONS[k]))
        assert kstest(rates[0, :, k], law.cdf).pvalue > 1e-6
        assert kstest(rates[0, :, k], gamma(4, scale=0.001).cdf).pvalue < 1e-6  # the count ignored
    assert rates.equals(draw_rates(idata, release, exposure="persons", rng=3))


def test_variables_and_shapes():
    assert [v.name for v in rate_model(make(), name="cases").free_RVs] == ["intercept", "spread", "cases"]
    two = xr.DataArray(np.arange(6).reshape(3, 2), dims=("age", "sex"), coords={"age": list("abc"), "sex": list("fm")})
    release = ppd.Release(two, ppd.GeneralizedLaplace(ppd.invariants.margin("sex"), epsilon=1))
    model = rate_model(release)
    assert [v.name for v in model.free_RVs] == ["intercept", "spread", "age_effect", "sex_effect", "count"]
    assert model["mean_rate"].eval().shape == (3, 2)
    assert model["count"].eval().shape == (3, 2)


def test_exposure_by_one_dimension_spreads_over_the_other():
    table = xr.DataArray(
        np.ones((2, 3), dtype=int),
        dims=("sex", "county"),
        coords={"sex": ["f", "m"], "county": list("abc"), "persons": ("county", PERSONS)},
    )
    public = ppd.invariants.total() & ppd.invariants.covariates("persons")
    release = ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=1))
    np.testing.assert_array_equal(exposures(release, "persons"), [PERSONS, PERSONS])


def test_refusals():
    with pytest.raises(ModelError, match="'persons' at county=b is not positive"):
        rate_model(make(persons=(1, 0, 5)), exposure="persons")
    with pytest.raises(ModelError, match="'before' at county=c is negative"):
        rate_model(make(before=(1, 0, -5)), previous="before")
    with pytest.raises(ModelError, match="'persons' holds text"):
        rate_model(make(persons=("1", "2", "3")), exposure="persons")
    with pytest.raises(LabelError, match="'people'"):
        rate_model(make(), exposure="people")
    cube = ppd.Release(np.ones((2, 2, 2), dtype=int), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pytest.raises(ModelError, match="one or two dimensions, the release has dim_0, dim_1, dim_2"):
        rate_model(cube)
    empty = xr.DataTree.from_dict({"posterior": xr.Dataset({"count": 0})})
    with pytest.raises(ModelError, match="no 'mean_rate'"):
        draw_rates(empty, make())


@pytest.mark.slow
def test_intervals_cover_and_beat_the_noisy_counts():
    """Over repeated simulated tables, 90 % intervals hold 90 % of the counts, and means are nearer than the release."""
    rng = np.random.default_rng(8)
    inside, cells, ours, naive = 0, 0, 0.0, 0.0
    for seed in range(6):
        persons = rng.integers(500, 20_000, size=40)
        count = rng.poisson(persons * rng.gamma(1 / 0.4**2, 0.002 * 0.4**2, size=40))
        table = xr.DataArray(count, dims="county", coords={"county": np.arange(40), "persons": ("county", persons)})
        public = ppd.invariants.total() & ppd.invariants.covariates("persons")
        mechanism = ppd.GeneralizedLaplace(public, epsilon="1/5")
        release = ppd.Release(mechanism.simulate(table, draws=1, rng=seed).isel(draw=0), mechanism)
        with rate_model(release, exposure="persons"):
            idata = pm.sample(500, tune=500, chains=2, cores=1, random_seed=seed, progressbar=False, quiet=True)
        draws = idata.posterior["count"].values.reshape(-1, 40)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        inside, cells = inside + np.sum((low <= count) & (count <= high)), cells + 40
        ours += np.sum((draws.mean(axis=0) - count) ** 2)
        naive += np.sum((release.table.values - count) ** 2)
    assert 0.85 < inside / cells < 0.97
    assert ours < 0.8 * naive
