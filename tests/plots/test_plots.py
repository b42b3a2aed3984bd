import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.stats import poisson

import ppdinf as ppd
from ppdinf.errors import CountError, LabelError, ModelError, PrivacyError
from ppdinf.plots import plot_cells, plot_chains, plot_intervals, plot_map, plot_noise, plot_posterior_table
from ppdinf.plots.noise import noise_values
from ppdinf.plots.posterior import naive_interval
from ppdinf.plots.style import RoundNumbers

COUNTIES = ["Big", "Middle $x$", "Small"]
PERSONS = np.array([90_000, 20_000, 1_000])


@pytest.fixture
def release():
    table = xr.DataArray([120, 31, -4], dims="county", coords={"county": COUNTIES, "population": ("county", PERSONS)})
    public = ppd.invariants.total() & ppd.invariants.covariates("population")
    return ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon="1/2"))


@pytest.fixture
def idata():
    rng = np.random.default_rng(1)
    count = rng.poisson([118, 28, 1], size=(4, 200, 3))
    shape = {"chain": range(4), "draw": range(200), "county": COUNTIES}
    posterior = xr.Dataset(
        {
            "cases": (("chain", "draw", "county"), count),
            "rate": (("chain", "draw", "county"), rng.gamma(count + 0.5) / PERSONS),
            "spread": (("chain", "draw"), rng.normal(size=(4, 200))),
        },
        coords=shape,
    )
    return xr.DataTree.from_dict({"posterior": posterior})


@pytest.fixture(autouse=True)
def _nothing_global_changes():
    before = dict(mpl.rcParams)
    yield
    assert dict(mpl.rcParams) == before
    assert pyplot.get_fignums() == []


def texts(figure):
    return " ".join(text.get_text() for text in figure.findobj(mpl.text.Text))


def test_posterior_and_naive_intervals_largest_first(idata, release):
    figure = plot_posterior_table(idata, release, "cases", rate="rate", exposure="population")
    counts, rates = figure.axes
    assert [label.get_text() for label in counts.get_yticklabels()] == COUNTIES
    marks = {tuple(line.get_xdata()) for line in counts.lines}
    assert (120, 31, -4) in marks
    assert tuple(idata.posterior.cases.mean(("chain", "draw")).values) in marks
    naive = [tuple(np.round(line.get_xdata())) for line in rates.lines]
    assert (133, 155, -400) in naive
    assert "below zero, no interval" in rates.get_xlabel()
    assert "1 of 3 rates" in texts(figure)
    segments = [collection.get_segments() for collection in rates.collections]
    assert len(segments) == 2  # naive and posterior intervals


def test_counts_alone_without_an_exposure(idata, release):
    figure = plot_posterior_table(idata, release, "cases")
    assert len(figure.axes) == 1
    assert "1 of 3 released counts are outside" in texts(figure)
    figure.savefig(__import__("io").BytesIO())  # a dollar sign in a label is printed


def marked(axes):
    """Return the posterior mean that the panel marks at each label."""
    labels = [label.get_text() for label in axes.get_yticklabels()]
    means = next(line for line in axes.lines if line.get_marker() == "o")
    return dict(zip(labels, means.get_xdata().tolist(), strict=True))


@pytest.mark.parametrize("change", [
    lambda posterior: posterior.sel(county=COUNTIES[::-1]),
    lambda posterior: posterior.sortby("county", ascending=False),
    lambda posterior: posterior.reindex(county=[*COUNTIES[1:], COUNTIES[0]]),
    lambda posterior: posterior.transpose("county", "draw", "chain"),
    lambda posterior: posterior.pad(county=(1, 0), constant_values=7).assign_coords(county=["Other", *COUNTIES]),
], ids=["sel", "sortby", "reindex", "transpose", "further label"])  # fmt: skip
def test_the_posterior_is_matched_by_label(idata, release, change):
    changed = xr.DataTree.from_dict({"posterior": change(idata.posterior.to_dataset())})
    figure = plot_posterior_table(changed, release, "cases", rate="rate", exposure="population")
    mean = idata.posterior.mean(("chain", "draw"))
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert marked(figure.axes[0]) == pytest.approx(dict(zip(COUNTIES, mean["cases"].values, strict=True)))
    rates = next(line for line in figure.axes[1].lines if line.get_marker() == "o").get_xdata()
    assert dict(zip(labels, rates, strict=True)) == pytest.approx(
        dict(zip(COUNTIES, 1e5 * mean["rate"].values, strict=True))
    )


def test_a_large_table_shows_its_smallest_cells():
    table = xr.DataArray(np.arange(200), dims="cell", coords={"cell": [f"c{i}" for i in range(200)]})
    release = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    draws = xr.Dataset({"n": (("chain", "draw", "cell"), np.arange(200.0)[None, None].repeat(10, 1))}, table.coords)
    figure = plot_posterior_table(xr.DataTree.from_dict({"posterior": draws}), release, "n")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [f"c{i}" for i in range(79, -1, -1)]


def test_rates_that_would_press_the_others_together_are_printed_at_the_edges():
    """Two of 40 counties have 1 person; a truth is drawn as bars; the order of the rows is stated."""
    persons, released = np.r_[np.full(38, 1000), 1, 1], np.r_[np.full(39, 5), -5]
    labels = {"county": [f"c{i}" for i in range(40)], "persons": ("county", persons)}
    table = xr.DataArray(released, dims="county", coords=labels)
    public = ppd.invariants.total() & ppd.invariants.covariates("persons")
    release = ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=1))
    draws = xr.Dataset(
        {"n": (("chain", "draw", "county"), np.full((1, 10, 40), 5)),
         "rate": (("chain", "draw", "county"), np.full((1, 10, 40), 0.005))}, {"county": labels["county"]},
    )  # fmt: skip
    idata = xr.DataTree.from_dict({"posterior": draws})
    counts, rates = plot_posterior_table(
        idata, release, "n", rate="rate", exposure="persons", truth=table[::-1] + np.arange(40)
    ).axes
    assert -200 < rates.get_xlim()[0] < 0
    assert rates.get_xlim()[1] < 2000
    assert [text.get_text() for text in rates.texts] == [
        f"to {naive_interval([5])[1][0] * 1e5:,.0f} \N{RIGHTWARDS ARROW}", "\N{LEFTWARDS ARROW} -500,000"
    ]  # fmt: skip
    assert counts.get_ylabel() == "by decreasing persons"
    assert any(
        line.get_marker() == "|" and (line.get_xdata() == released + 39 - np.arange(40)).all() for line in counts.lines
    )


def test_intervals_show_disclosed_cells_first():
    table = pd.DataFrame({"estimate": 5.0, "lower": np.arange(50) / 10, "upper": 9.0, "disclosed": False})
    table.loc[49, "disclosed"] = True  # the narrowest interval
    shown = [label.get_text() for label in plot_intervals(table.assign(least=3, most=3)).axes[0].get_yticklabels()]
    assert shown == [*map(str, range(39)), "disclosed: 49"]
    with pytest.raises(LabelError, match="'estimate' or 'least'"):
        plot_intervals(table[["lower"]])


@pytest.mark.parametrize("largest", [3, 12, 37, 99, 101, 180, 950, 20_000, 3_000_000])
def test_at_least_four_labels_cover_the_axis_of_counts(largest):
    """Up to 100 the axis is linear. The largest count is at most a few times the largest label."""
    counts = np.linspace(0, largest, 6).astype(int)
    table = xr.DataArray(counts, dims="cell", coords={"cell": list("abcdef")})
    release = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    draws = xr.Dataset({"n": (("chain", "draw", "cell"), counts[None, None].repeat(10, 1))}, table.coords)
    (axes,) = plot_posterior_table(xr.DataTree.from_dict({"posterior": draws}), release, "n").axes
    low, high = axes.get_xlim()
    shown = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert len(shown) >= 4
    assert 0 in shown
    assert max(shown) > largest / (1.6 if largest <= 100 else 10)
    assert len({axes.xaxis.get_major_formatter()(tick) for tick in shown}) == len(shown)
    assert (axes.get_xscale() == "linear") == (largest <= 100) == (axes.get_xlabel() == "persons")


def test_round_numbers_along_a_partly_logarithmic_axis():
    for low, high, ticks in (
        (-30, 2000, [-10, 0, 10, 100, 1000]),
        (2000, -30, [-10, 0, 10, 100, 1000]),  # a reversed axis
        (0, 150, [0, 10, 20, 50, 100]),
        (0, 40, [0, 10, 20, 30, 40]),
        (120, 180, [120, 130, 140, 150, 160, 170, 180]),
    ):
        assert RoundNumbers(10).tick_values(low, high) == ticks
    assert RoundNumbers(100).tick_values(0, 1500) == [0, 100, 200, 500, 1000]


def test_naive_interval_is_garwoods():
    """Its ends are the means for which the count has 5 % probability in either tail."""
    counts = np.array([0, 1, 7, 300])
    lower, upper = naive_interval(counts)
    np.testing.assert_allclose(poisson.cdf(counts, upper), 0.05)
    np.testing.assert_allclose(poisson.sf(counts[1:] - 1, lower[1:]), 0.05)
    assert lower[0] == 0
    assert np.isnan(naive_interval(np.array([-1]))).all()


def test_noise_has_the_distribution_of_the_release(release):
    noise = noise_values(release)
    k = np.arange(-60, 61)
    weight = np.exp(-abs(k) / 2)
    pair = np.convolve(weight, weight, mode="same")  # sum of the two other cells
    law = weight * pair[::-1] / np.sum(weight * pair[::-1])
    sd = np.sqrt(np.sum(law * k**2))
    assert abs(noise.std() / sd - 1) < 0.02
    assert abs(noise.std() / np.sqrt(np.sum(weight / weight.sum() * k**2)) - 1) > 0.1  # without the total: wrong

    figure = plot_noise(release)
    (axes,) = figure.axes
    bars = np.array([bar.get_height() for bar in axes.patches])
    middle = np.array([bar.get_x() + bar.get_width() / 2 for bar in axes.patches])
    np.testing.assert_allclose(bars, np.interp(middle, k, law), atol=0.006)
    assert f"{noise.std():.1f} persons" in texts(figure)


def test_the_stated_quantiles_of_the_noise_are_true(release):
    """At least half are at most the first number, at most 5 % exceed the second; no smaller number has this."""
    distance, said = abs(noise_values(release)), texts(plot_noise(release))
    often = int(re.search(r"at least half of them by (\d+) or less", said)[1])
    share, rare = re.search(r"([\d.]+)% of cells are off\s+by more than (\d+)", said).groups()
    assert (distance <= often - 1).mean() < 0.5 <= (distance <= often).mean()
    assert (distance > int(rare)).mean() <= 0.05 < (distance > int(rare) - 1).mean()
    assert float(share) == pytest.approx(100 * (distance > int(rare)).mean(), abs=0.05)


def test_wide_noise_is_binned_around_zero(release):
    wide = ppd.Release(release.table, ppd.GeneralizedLaplace(release.mechanism.public, epsilon="1/100"))
    (axes,) = plot_noise(wide).axes
    bars = np.array([bar.get_height() for bar in axes.patches])
    assert len(bars) < 80
    assert abs(bars.sum() - 1) < 0.002
    assert bars.argmax() == len(bars) // 2


def test_chains(idata):
    figure = plot_chains(idata, ["spread"])
    assert isinstance(figure, Figure)
    assert len(figure.axes) == 2
    assert len(figure.axes[0].lines) == 4
    assert "4 chains agree" in texts(figure)


def test_chains_that_disagree_are_reported(idata):
    idata.posterior["spread"] = idata.posterior["spread"] + 3 * idata.posterior["chain"]
    assert "do not agree" in texts(plot_chains(idata, ["spread"]))


@pytest.mark.parametrize(("chains", "draws"), [(1, 1), (1, 3), (1, 200), (2, 1), (2, 3), (2, 4)])
def test_chains_that_cannot_be_compared_have_traces_and_a_sentence(idata, chains, draws):
    """As they are after an interruption; four draws of two chains are compared."""
    few = idata.posterior.to_dataset().isel(chain=slice(chains), draw=slice(draws))
    figure, compared = plot_chains(xr.DataTree.from_dict({"posterior": few}), ["spread"]), draws == 4
    assert [len(axes.lines) for axes in figure.axes][: 2 - compared] == [chains]
    assert len(figure.axes) == 1 + compared
    assert ("One chain" if chains == 1 else "R-hat" if compared else "Fewer than 4 draws") in figure.get_suptitle()


def table_draws(shape, *, rate=40.0):
    dims = ("chain", "draw", *"abc"[: len(shape)])
    values = np.random.default_rng(1).poisson(rate, (2, 50, *shape))
    return xr.DataArray(values, dims=dims, coords={"chain": range(2), "draw": range(50)})


def test_cells_are_coloured_by_their_margins_of_error():
    draws = table_draws((3, 2))
    draws[..., 0, :] = 0
    draws[..., 1, 0] = np.arange(50) % 2 * 100  # from 0 to 100 around 50: the margin is the estimate
    axes = plot_cells(draws).axes[0]
    drawn = axes.collections[0].get_array()
    lower, upper = np.quantile(draws.stack(all=("chain", "draw")), [0.05, 0.95], axis=-1, method="inverted_cdf")
    share = (upper - lower) / 2 / np.maximum(draws.mean(("chain", "draw")), 1)
    np.testing.assert_array_equal(drawn, (share.values[..., None] > [0.1, 0.3, 1.0]).sum(axis=-1))
    assert [text.get_text() for text in axes.texts][:3] == ["0.0", "0.0", "50"]
    assert f"In {(share.values > 0.3).sum()} of 6 cells" in axes.get_title(loc="left")


def test_columns_are_dimensions_of_the_reader():
    axes = plot_cells(table_draws((2, 3, 2)), columns=["a", "c"]).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0, 0", "0, 1", "1, 0", "1, 1"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("a, c", "b")


def test_of_many_rows_the_uncertain_ones_are_shown():
    draws = table_draws((100, 2), rate=100.0)
    draws[..., 30:90, 1] = np.arange(50)[:, None] % 2 * 100
    axes = plot_cells(draws).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(k) for k in range(30, 90)]
    assert "60 of 100 rows" in axes.texts[-1].get_text()


def test_cells_without_numbers_are_not_certain():
    draws = table_draws((3, 2)).astype(float)
    draws[0, 0, 0, 0] = np.nan  # one draw
    draws[..., 1, 0] = np.arange(50) % 2 * 100
    figure = plot_cells(draws)
    axes = figure.axes[0]
    assert "In 1 of 5 cells" in axes.get_title(loc="left")
    assert "1 cell with draws that are nan is blank" in axes.texts[-1].get_text()
    assert axes.collections[0].get_array().mask.tolist() == [[True, False], [False, False], [False, False]]
    assert len(axes.texts) == 6  # five numbers and the subtitle


def test_a_map_shows_uncertain_areas_and_areas_without_a_value():
    gpd, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    areas = gpd.GeoDataFrame(geometry=[shapely.box(k, 0, k + 1, 1) for k in range(4)], index=list("ABCD"))
    values = {"estimate": [4.0, 90.0, 20.0, np.nan], "lower": [1, 80, 20, np.nan], "upper": [8, 99, 20, np.nan]}
    table = pd.DataFrame(values, index=list("CABD"))
    figure = plot_map(table, areas)
    assert "In 1 of 3 areas" in figure.get_suptitle()
    values, hatched, grey = figure.axes[0].collections
    np.testing.assert_array_equal(values.get_array(), [4, 90, 20])
    assert [len(part.get_paths()) for part in (values, hatched, grey)] == [3, 1, 1]
    assert hatched.get_paths()[0].get_extents().x0 == 2  # C, the third polygon
    assert values.to_rgba(values.get_array())[:, :3].min(axis=1).max() < 0.9  # no value is white
    drawn = plot_map(table * 10, areas).axes[0].collections[0]
    assert drawn.norm(200) - values.norm(20) > 0.2  # logarithmic above 100 persons
    assert [text.get_text() for text in figure.legends[0].get_texts()][1] == "1 area without a value"


def test_axes_of_a_plan_have_plain_numbers():
    total = ppd.invariants.total()
    figure = ppd.plan(lambda loss: ppd.GeneralizedLaplace(total, loss), (4,), ["1/100", 1]).plot()
    figure.canvas.draw()
    labels = [text.get_text() for axes in figure.axes for text in [*axes.get_xticklabels(), *axes.get_yticklabels()]]
    assert {"0.05", "50", "500%", "0.1%"} <= set(labels)
    assert not any("$" in label for label in labels)


@pytest.fixture
def areas():
    gpd, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    return gpd.GeoDataFrame(geometry=[shapely.box(k, 0, k + 1, 1) for k in range(3)], index=list("ABC"))


ROWS = pd.DataFrame({"estimate": [90.0, 4.0], "lower": [80.0, 1.0], "upper": [99.0, 8.0]}, index=["A", "B"])


def test_areas_without_a_margin_of_error_are_not_certain(areas):
    assert "In 1 of 1 area the" in plot_map(ROWS.assign(lower=[np.nan, 1]), areas).get_suptitle()


@pytest.mark.parametrize("size", [(12, 2), (2, 12), (3, 3)], ids=["wide", "tall", "square"])
def test_title_and_map_fill_the_figure(size):
    gpd, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    corners = list(np.ndindex(size))
    areas = gpd.GeoDataFrame(geometry=[shapely.box(i, j, i + 1, j + 1) for i, j in corners])
    table = pd.DataFrame({"estimate": 9.0, "lower": 1, "upper": np.arange(len(corners))})
    figure = plot_map(table, areas)
    figure.canvas.draw()
    title, shown = figure._suptitle.get_window_extent(), figure.bbox
    assert shown.x0 <= title.x0
    assert title.x1 <= shown.x1
    drawn = figure.axes[0].get_window_extent()
    assert max(drawn.width / shown.width, drawn.height / shown.height) > 0.6
    assert drawn.width * drawn.height > (0.15 if size == (2, 12) else 0.25) * shown.width * shown.height


NO_POSTERIOR = {  # a change of the posterior, options of the figure, the error
    "absent label": (lambda p: p.isel(county=[0, 1]), {}, LabelError, "'cases' along 'county' has no label 'Small'"),
    "repeated label": (
        lambda p: p.assign_coords(county=["Big", "Small", "Small"]), {}, LabelError, "the label 'Small' 2 times",
    ),
    "without labels": (lambda p: p.drop_vars("county"), {}, LabelError, "along 'county' has no label 'Big'"),
    "other kind": (lambda p: p.assign_coords(county=[1, 2, 3]), {}, LabelError, "along 'county' has no label 'Big'"),
    "other name": (lambda p: p.rename(county="place"), {}, LabelError, "dimensions .*'place'.*: expected .*'county'"),
    "no chain": (lambda p: p.isel(chain=0), {}, LabelError, "dimensions .*: expected .*'chain'"),
    "new label": (
        lambda p: p.isel(county=[0, 1]).reindex(county=COUNTIES), {}, ModelError, r"'cases' .* nan .*county=Small",
    ),
    "no variable": (lambda p: p.drop_vars("cases"), {}, ModelError, "no 'cases'; it has 'rate'"),
    "rate alone": (lambda p: p, {"rate": "rate"}, LabelError, "both rate and exposure"),
    "no covariate": (lambda p: p, {"rate": "rate", "exposure": "persons"}, LabelError, "'persons'"),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_POSTERIOR)
def test_posteriors_that_do_not_fit_are_refused(case, idata, release):
    change, options, error, words = NO_POSTERIOR[case]
    changed = xr.DataTree.from_dict({"posterior": change(idata.posterior.to_dataset())})
    with pytest.raises(error, match=words):
        plot_posterior_table(changed, release, "cases", **options)


SEXES = xr.DataArray([3, 4], dims="sex", coords={"sex": ["f", "m"]})
PROBABILITY, NUMBERS = "probability must be between 0 and 1", "draws must be numbers, and not nan in every cell"
NO_FIGURE = [
    (
        lambda: plot_noise(ppd.Release(SEXES, ppd.GeneralizedLaplace(ppd.invariants.margin("sex"), epsilon=1))),
        PrivacyError, "noise is always 0",
    ),
    (lambda: plot_cells(table_draws((3,)), "month"), LabelError, r"missing: \['month'\]"),
    (lambda: plot_cells(table_draws((3,)).isel(draw=0)), LabelError, r"missing: \['draw'\]"),
    (lambda: plot_cells(table_draws((2, 41))), LabelError, "41 columns do not fit"),
    *((lambda p=p: plot_cells(table_draws((3, 2)), probability=p), ModelError, PROBABILITY) for p in (2, 1, 0, -0.1)),
    (lambda: plot_cells(table_draws((3, 2)), probability=np.nan), ModelError, PROBABILITY),
    (lambda: plot_cells(table_draws((3, 2)).isel(draw=slice(0))), ModelError, NUMBERS),
    (lambda: plot_cells(table_draws((0, 2))), ModelError, NUMBERS),
    (lambda: plot_cells(table_draws((3, 2)).astype(str)), ModelError, NUMBERS),
    (lambda: plot_cells(table_draws((3, 2)).astype(float).where(False)), ModelError, NUMBERS),
]  # fmt: skip


@pytest.mark.parametrize(("draw", "error", "words"), NO_FIGURE)
def test_tables_without_a_figure_are_refused(draw, error, words):
    with pytest.raises(error, match=words):
        draw()


NO_MAP = [
    (ROWS.assign(estimate=["many", "few"]), {}, CountError, "column 'estimate' must contain numbers, .* found 'many'"),
    (ROWS.assign(estimate=[np.inf, 1]), {}, CountError, "column 'estimate' must contain numbers, .* found inf"),
    (ROWS.assign(upper=["99", "few"]), {}, CountError, "column 'upper' must contain numbers"),
    (ROWS.assign(estimate=np.nan), {}, CountError, "no number in column 'estimate'"),
    (ROWS.iloc[:0], {}, CountError, "no number in column 'estimate'"),
    (ROWS.rename(index={"B": "X"}), {}, LabelError, "1 row has no polygon"),
    (pd.concat([ROWS, ROWS]), {}, LabelError, "repeats"),
    (ROWS, {"value": "rate"}, LabelError, "no column 'rate'"),
    *((ROWS, {"uncertain": u}, ModelError, "uncertain must be a share of at least 0") for u in (-1, np.nan, np.inf)),
]


@pytest.mark.parametrize(("table", "options", "error", "words"), NO_MAP)
def test_values_that_a_map_cannot_show(table, options, error, words, areas):
    with pytest.raises(error, match=words):
        plot_map(table, areas, **options)


def test_areas_without_polygons(areas):
    with pytest.raises(LabelError, match=r"areas must be a GeoDataFrame .*found DataFrame"):
        plot_map(ROWS, pd.DataFrame({"name": [1, 2, 3]}, index=list("ABC")))
    areas.loc["B", "geometry"] = None
    with pytest.raises(LabelError, match="1 row has no polygon, such as 'B'"):
        plot_map(ROWS, areas)
