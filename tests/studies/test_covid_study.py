"""The COVID study: its parts on small tables, and its numbers on a quick run."""

import shutil

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from saved_files import claims_of

from case_studies._shared.replicate_files import unpack
from case_studies._shared.study import Study
from case_studies.covid import run as covid
from ppdinf.datasets import epidemic

CLAIMS, POSTERIORS, PANEL, BULLETIN = covid.claims, covid.posteriors, covid.panel, covid.bulletin
TABLE = np.array([[40, 3], [0, 0], [7, 7], [900, 12]])


@pytest.mark.deep
def test_releases_keep_public_sums_for_every_method():
    found = covid.release(TABLE, np.array([30, 2, 0, 700]), 0.1, 5, np.random.default_rng(1))
    assert set(found) == {(method, norm) for method in covid.METHODS for norm in ("l1", "l2")}
    for (method, _), tables in found.items():
        assert tables.shape == (5, 4, 2)
        assert (method == "counting") != CLAIMS.agrees(tables[np.newaxis], TABLE[np.newaxis])
    again = covid.release(TABLE, np.array([30, 2, 0, 700]), 0.1, 5, np.random.default_rng(1))
    assert all(np.array_equal(found[key], again[key]) for key in found)


def test_broken_bounds_and_totals_do_not_agree():
    kept = np.stack([TABLE] * 2)[np.newaxis]
    assert CLAIMS.agrees(kept, TABLE[np.newaxis])
    for cell, change in [((0, 1, 0, 0), 1), ((0, 1, 2, 1), 1), ((0, 0, 1, 1), -1)]:
        broken = kept.copy()
        broken[cell] += change
        assert not CLAIMS.agrees(broken, TABLE[np.newaxis])


def test_contracted_counts_are_those_that_were_not_zero():
    released = np.array([[[0, 0], [5, 5]], [[3, 0], [9, 2]]])  # two replicates of two counties
    truth = np.array([[4, 1], [6, 2]])
    found = {name: share.value for name, share in CLAIMS.contracted(released, truth).items()}
    assert found == {"no cases": 0.25, "no deaths": 0.5, "no survivors": 0.25}
    assert np.isnan(CLAIMS.contracted(released, np.array([[4, 0], [6, 0]]))["no deaths"].value)


def test_relative_errors_leave_out_months_without_cases():
    assert CLAIMS.relative_errors(np.array([[5, 3], [2, 9]]), np.array([4, 0])).tolist() == [25.0, 50.0]


def test_coverage_bias_and_width_are_those_of_the_intervals():
    truth = np.array([[[10, 1], [9, 1], [20, 4]]])  # one month, three counties
    estimates = np.zeros((1, 2, 3, 3, 3))  # two replicates; mean, low, high
    estimates[..., 0, :] = [11, 9, 15]
    sizes = np.array(["small", "middle", "large"])
    rows = CLAIMS.coverage({(1.0, "naive"): estimates}, truth, sizes).map(float).loc[1.0, "naive"]
    assert rows.loc[("small", "cases")].tolist() == [1, 1, 1, 6]
    assert rows.loc[("large", "cases")].tolist() == [0, -9, 9, 6]
    assert rows.loc[("all", "cases"), "coverage"] == pytest.approx(2 / 3)
    assert rows.loc[("all", "fatality"), "coverage"] == 0


def test_thirds_are_of_equal_size():
    assert CLAIMS.thirds(np.array([5, 1, 9, 4, 7, 2])).tolist() == [
        "middle", "small", "large", "middle", "large", "small",
    ]  # fmt: skip


def test_algorithms_agree_unless_a_mean_is_shifted():
    index = pd.MultiIndex.from_product(
        [covid.algorithms.COLORS, covid.algorithms.NAMES], names=["algorithm", "parameter"]
    )
    table = pd.DataFrame({"mean": 1.0, "sd": 2.0, "effective draws": 400.0}, index=index)
    table.iloc[0, 0] += 0.5  # standard errors are 0.1
    assert covid.algorithms.agree(table)
    table.iloc[0, 0] += 0.1
    assert not covid.algorithms.agree(table)


def drawn_from_the_prior(rng, means, shapes, rate, number):
    """Draw tables from the prior, one of the scenarios each: tables, noisy tables."""
    mean = means[rng.integers(len(means), size=number)]
    c = rng.negative_binomial(shapes, shapes / (shapes + mean))
    tables = np.stack([c, rng.binomial(c, rng.beta(0.6, 29.4, c.shape))], axis=2)
    noise = rng.geometric(-np.expm1(-rate), (2, *tables.shape))
    return tables, tables + noise[0] - noise[1]


def held(tables, noisy, rate, rng, **prior):
    """Share of confidential counts in 95 % intervals."""
    inside = []
    for table, y in zip(tables, noisy, strict=True):
        total = int(table[:, 0].sum())
        drawn = POSTERIORS.noisy_pairs.draw(
            *y.T, rate=rate, share=0.02, strength=30.0, total=total, draws=200, rng=rng, **prior
        )
        _, low, high = np.moveaxis(POSTERIORS.summary(drawn), -1, 0)
        inside.append((low[:, :2] <= table) & (table <= high[:, :2]))
    return np.mean(inside), np.sqrt(0.95 * 0.05 / np.size(inside))


@pytest.mark.quick_cases(0)
def test_intervals_of_posteriors_cover_the_confidential_counts():
    """Tables drawn from the prior: coverage of at least 95 % minus 4.9 sd, as for intervals of integers."""
    rng, means = np.random.default_rng(8), 5000 * np.array([[0.17, 0.01, 0.06, 0.76]])
    tables, noisy = drawn_from_the_prior(rng, means, 3.0, 0.25, 60)
    share, sd = held(tables, noisy, 0.25, rng, mean=means, shape=3.0)
    assert 0.95 - 4.9 * sd < share < 1


@pytest.mark.quick_cases(0)
def test_intervals_cover_counts_of_dependent_counties():
    rng, size = np.random.default_rng(9), np.linspace(-1.5, 1.5, 12)
    means = 20_000 * POSTERIORS.tilted(np.full(12, 1 / 12), np.array([-0.8, -0.3, 0.0, 0.3, 0.8]), size)
    shapes = np.exp(3 + size)
    tables, noisy = drawn_from_the_prior(rng, means, shapes, 0.0025, 30)
    share, sd = held(tables, noisy, 0.0025, rng, mean=means, shape=shapes)
    assert 0.95 - 4.9 * sd < share < 1
    apart, _ = held(tables, noisy, 0.0025, rng, mean=means[2], shape=shapes)
    assert apart < 0.95 - 4.9 * sd  # the test would detect a model with independent movements of counties


def test_analysts_use_public_tables_of_earlier_months():
    table = epidemic()
    cases, deaths, persons = table.cases.values.copy(), table.deaths.values.copy(), table.population.values
    before = POSTERIORS.fitted(cases, deaths, persons, 9)
    fatal = POSTERIORS.fatality(cases, deaths, 9, 5000)
    cases[:, 9:], deaths[:, 9:] = 1, 0
    shares, prior = POSTERIORS.fitted(cases, deaths, persons, 9)
    assert np.array_equal(before[0], shares)
    assert np.array_equal(before[1]["shape"], prior["shape"])
    assert before[1]["strength"] == prior["strength"] > 0
    assert POSTERIORS.fatality(cases, deaths, 9, 5000) == fatal
    assert shares.shape == (POSTERIORS.SCENARIOS, 67)
    assert shares.sum(axis=1) == pytest.approx(np.ones(POSTERIORS.SCENARIOS))
    assert (shares > 0).all()
    assert (prior["shape"] > 0).all()


def test_movements_and_differences_of_small_counties_are_recovered():
    """A tilt of 0.5 either way each month and shapes exp(3 + size): both within a third, from six months of 200."""
    rng, population = np.random.default_rng(3), np.exp(np.linspace(7, 14, 200))
    size = POSTERIORS.standardised(population)
    cases = np.round(1e6 * population / population.sum()).astype(np.int64)[:, np.newaxis]
    for tilt in (0.5, -0.5, 0.5, -0.5, 0.5, -0.5):
        shape, last = np.exp(3 + size), (0.9 * cases[:, -1] / cases[:, -1].sum() + 0.1 * population / population.sum())
        mean = 1e6 * POSTERIORS.tilted(last, tilt, size)
        cases = np.column_stack([cases, rng.negative_binomial(shape, shape / (shape + mean))])
    shares, prior = POSTERIORS.fitted(cases, cases // 50, population, 7)
    rise = np.polyfit(size, np.log(prior["shape"]), 1)
    assert rise == pytest.approx([1, 3], abs=0.33)
    middle, high = shares[POSTERIORS.SCENARIOS // 2], shares[-1]
    tilt = np.polyfit(size, np.log(high / middle), 1)[0]
    assert 1.3 * 0.4 < tilt < 2.2 * 0.5  # the largest of eleven quantiles of Student's t: 1.9 scales


def test_expected_deaths_follow_the_cases_of_two_months():
    cases, deaths = np.array([[400_000, 800_000, 100_000]]), np.zeros((1, 3), dtype=np.int64)
    deaths[0, 1:] = 0.01 * (cases[0, :-1] + cases[0, 1:]) / 2
    assert POSTERIORS.fatality(cases, deaths, 2, 100_000) == pytest.approx(deaths[0, 2] / 100_000, rel=1e-3)
    assert POSTERIORS.fatality(cases, deaths, 2, 1) == 0.5


def test_the_data_are_those_of_the_folder_given(tmp_path, monkeypatch):
    monkeypatch.delenv("PPDINF_DATA", raising=False)
    assert covid.load(None)[1] == "simulated"
    table = epidemic()
    rows = table[["cases", "deaths"]].to_dataframe().reset_index()
    rows[["county", "fips", "month", "cases", "deaths"]].to_csv(tmp_path / "covid_pa_monthly.csv", index=False)
    table[["fips", "population"]].to_dataframe().to_csv(tmp_path / "pa_population.csv", index=False)
    read, source = covid.load(tmp_path)
    assert source == "covid_pa_monthly.csv"
    assert np.array_equal(read.cases, table.cases)
    monkeypatch.setenv("PPDINF_DATA", str(tmp_path))
    assert covid.load(None)[1] == source
    assert covid.both_series(table, None) is None
    own = rows.assign(cases=rows.cases + 100)[["county", "fips", "month", "cases", "deaths"]]
    own[own.month < "2021-06"].to_csv(tmp_path / "covid_pa_monthly_doh_to_2021-05.csv", index=False)
    department, name = covid.load(tmp_path / "covid_pa_monthly_doh_to_2021-05.csv")
    assert name == "covid_pa_monthly_doh_to_2021-05.csv"
    assert department.cases.shape == (67, 15)
    compared = covid.both_series(table, tmp_path)
    assert compared["health department"].tolist() == [department.cases.sum(), department.deaths.sum()]
    assert compared["root mean squared difference"].tolist() == [100, 0]
    assert compared["share beyond the noise sd (l1, epsilon 1)"].tolist() == [1, 0]
    for kind, name in (("confirmed", "cases"), ("deaths", "deaths")):  # as downloaded: cumulative, one column a day
        ends = pd.period_range("2020-03", periods=24, freq="M").to_timestamp(how="end")
        days = ["2/29/20", *(f"{day.month}/{day.day}/{day.year % 100}" for day in ends)]
        so_far = np.hstack([np.zeros((67, 1), dtype=int), table[name].values.cumsum(axis=1)])
        wide = pd.DataFrame(so_far, columns=days).assign(
            FIPS=[f"{code}.0" for code in table.fips.values], Admin2=table.county.values, Province_State="Pennsylvania"
        )
        wide.to_csv(tmp_path / f"time_series_covid19_{kind}_US.csv", index=False)
    downloaded, source = covid.load(tmp_path)
    assert source == "county series"
    for name in ("cases", "deaths", "population"):
        assert np.array_equal(downloaded[name], table[name])


def test_releases_of_all_months_are_noisy_in_every_county_and_exact_in_the_state():
    table = epidemic().isel(month=slice(8, 12))
    found = PANEL.released(table, np.random.default_rng(1))
    assert found["cases"].public.values.tolist() == table.cases.sum("county").values.tolist()
    assert found["deaths"].public.values.size == 0
    for name, release in found.items():
        apart = release.table.values - table[name].values
        assert (apart != 0).mean() > 0.8  # 1 - tanh(1/8) = 0.88 of all
        assert apart.std() == pytest.approx(1 / (np.sqrt(2) * np.sinh(0.125)), rel=0.25)  # 5.6; 268 cells
    told = PANEL.told(found["cases"])
    assert ((told > 0) & (told < 1)).all()
    assert (np.diff(told[:, 0][np.argsort(found["cases"].table.values[:, 0])]) >= 0).all()


@pytest.mark.deep
def test_the_panel_has_a_density_and_every_cell_a_share_and_a_fatality():
    table = epidemic().isel(month=slice(8, 11), county=slice(None, None, 11))
    found = PANEL.released(table, np.random.default_rng(2))
    model = PANEL.model_of(found["cases"], found["deaths"], table.population.values)
    point = model.initial_point()
    assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(point))
    assert point["log_share"].shape == point["cell"].shape == table.cases.shape
    sizes = {name: value.size for name, value in point.items()}
    assert sizes["tilt"] == 2
    assert sizes["of_county"] == table.sizes["county"]


def page(tmp_path, draws, population):
    names = [f"County {k}" for k in range(len(population))]
    study = Study("x", tmp_path, about="", settings={})
    about = {"title": "COVID-19 by county, March 2021", "months": 4, "epsilon": 1, "noise": np.array([-3, 2, 0, 11])}
    BULLETIN.bulletin(study, draws, int(draws[0, :, 0].sum()), population, names, **about)
    return (tmp_path / "bulletin.html").read_text(encoding="utf-8")


@pytest.mark.quick_cases(0)
def test_the_printed_page_is_complete_and_agrees_with_the_draws(tmp_path):
    rng, population = np.random.default_rng(4), np.array([4000, 90_000, 1_200_000])
    cases = np.stack([rng.poisson(6, 400), rng.poisson(300, 400)], axis=1)
    cases = np.column_stack([cases, 9000 - cases.sum(axis=1)])
    draws = np.stack([cases, rng.binomial(cases, 0.02)], axis=2)
    table = BULLETIN.numbers(draws, population, ["A", "B", "C"])
    low, high = np.quantile(1e5 * cases[:, 0] / 4000, [0.025, 0.975], method="inverted_cdf")
    assert table.loc["A", ["rate from", "rate to"]].tolist() == [low, high]
    assert (table["fatality from"] <= table["fatality"]).all()
    words = " ".join(BULLETIN.statement(table, draws, 9000, 4, 1, np.array([-3, 2, 0, 11])).values())
    for said in (
        "in these 3 counties together in this month: 9,000",
        "696 per 100,000",
        "Half of these numbers are 2 or less",
        "noisy numbers of 4 months",
    ):
        assert said in words
    text = page(tmp_path, draws, population)
    assert "County 2" in text
    assert "@page" in text
    assert not [word for word in ("<script", "<link", "src=", "@import") if word in text]
    assert (tmp_path / "bulletin.png").stat().st_size < 1e6


@pytest.mark.quick_cases(0)
def test_counties_without_a_case_have_a_page_too(tmp_path):
    draws = np.zeros((50, 2, 2), dtype=np.int32)
    draws[:, 1] = [40, 2]
    assert "County 0" in page(tmp_path, draws, np.array([100, 2000]))


@pytest.mark.deep
def test_pymc_finds_the_posterior_that_is_drawn_exactly():
    import arviz as az
    import pymc as pm

    import ppdinf as ppd

    mean, shape, share, strength = np.array([30.0, 6, 90, 3, 40, 10]), 2.0, 0.06, 20.0
    labels = {"county": list("ABCDEF")}
    noisy = [np.array([27, 10, 16, 14, 19, 19]), np.array([-1, -2, 4, -7, 3, 6])]
    confidential = xr.DataArray([27, 1, 21, 5, 21, 20], dims="county", coords=labels)
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.Public(()), epsilon="1/4")
    tables = [xr.DataArray(y, dims="county", coords=labels) for y in noisy]
    with pm.Model(coords=labels):
        released = ppd.Release(tables[0], mechanism, public=ppd.invariants.total().on(confidential))
        cases = ppd.PartiallyPrivate("cases", pm.NegativeBinomial.dist(mu=mean, alpha=shape, shape=6), release=released)
        fatal = pm.BetaBinomial.dist(n=cases, alpha=strength * share, beta=strength * (1 - share))
        ppd.PartiallyPrivate("deaths", fatal, release=ppd.Release(tables[1], mechanism))
        idata = pm.sample(4000, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    drawn = POSTERIORS.noisy_pairs.draw(
        *noisy, rate=0.25, mean=mean, shape=shape, share=share, strength=strength, total=95, draws=100_000, rng=1
    )
    for k, name in enumerate(("cases", "deaths")):
        chains = idata.posterior[name]
        error = np.sqrt(az.mcse(idata, var_names=[name])[name].values ** 2 + drawn[..., k].var(axis=0) / len(drawn))
        assert (np.abs(chains.mean(["chain", "draw"]).values - drawn[..., k].mean(axis=0)) < 4.9 * error).all()
    with_total = drawn[..., 0].mean(axis=0)
    without = POSTERIORS.noisy_pairs.draw(
        *noisy, rate=0.25, mean=mean, shape=shape, share=share, strength=strength, draws=100_000, rng=2
    )[..., 0].mean(axis=0)
    assert np.abs(with_total - without).max() > 10 * error.max()  # the total matters, and the test would see it


def covers_the_confidential_counts(noisy, drawn, truth):
    """95 % intervals cover 87 % of 144 dependent counts, as of 72 independent ones, except in 1 of 10,000 runs."""
    assert (drawn[..., 0].sum(axis=1) == truth[..., 0].sum(axis=0)).all()
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="inverted_cdf")
    assert ((low <= truth) & (truth <= high)).mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 72)
    assert ((drawn.mean(axis=0) - truth) ** 2).mean() < ((noisy - truth) ** 2).mean()
    far = truth + 3 * (noisy - truth)  # noise three times as wide as stated is detected
    assert ((low <= far) & (far <= high)).mean() < 0.8


def stop_after_drawing(*_):
    """Stop a study before it evaluates its draws."""
    raise InterruptedError


@pytest.mark.deep
def test_a_quick_run_agrees_with_the_readme(tmp_path, monkeypatch):
    """Its claims, its panel of twelve counties, and equal results with more processes."""
    monkeypatch.delenv("PPDINF_DATA", raising=False)
    covid.main(tmp_path / "one", quick=True)
    holds = {claim["claim"]: claim["holds"] for claim in claims_of(tmp_path / "one")}
    for words in (
        "smaller largest errors",
        "every release has",
        "Delta_z of a count",
        "Delta_z = 2 (l2)",
        "Delta_z = 4 (l1)",
        "the stated epsilon = 1 (l2)",
        "the stated epsilon = 2 (l1)",
        "err less than post-processed counts in deaths",
    ):
        found = [value for name, value in holds.items() if words in name]
        assert found
        assert all(found)
    fails = {name for name, value in holds.items() if value is False}
    assert fails <= {
        "releases of the least populous county concentrate around the confidential number (epsilon 1, l2 loss)"
    }
    undecided = [name for name, value in holds.items() if value is None]
    assert len(undecided) > 10  # eight replicates of three months
    assert {path.suffix for path in (tmp_path / "one").iterdir()} >= {".png", ".svg", ".html", ".json", ".csv"}

    one = tmp_path / "one" / "replicates"
    ((noisy, drawn, verdict, _),) = (unpack(path.read_bytes(), path.name) for path in one.glob("panel-*"))
    table = epidemic().isel(month=slice(9, 15), county=slice(None, None, 6))
    covers_the_confidential_counts(noisy, drawn, np.stack([table.cases.values, table.deaths.values], axis=-1))
    assert "R-hat" in verdict

    two = tmp_path / "two" / "replicates"  # of releases and of posteriors, each process makes one
    two.mkdir(parents=True)
    for path in one.iterdir():
        if path.stem.rpartition("-")[2] not in ("1", "3"):
            shutil.copy(path, two)
    # the rest is a function of the draws, and takes longer
    monkeypatch.setattr(CLAIMS, "relative_errors", stop_after_drawing)
    with pytest.raises(InterruptedError):
        covid.main(tmp_path / "two", quick=True, workers=2)
    assert {path.name for path in two.iterdir()} == {path.name for path in one.iterdir()}
    for path in one.iterdir():
        np.testing.assert_equal(unpack((two / path.name).read_bytes(), path.name), unpack(path.read_bytes(), path.name))
