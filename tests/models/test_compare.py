"""Comparators by hand and in closed form, `compare` against exact noise distributions, and ranks and probabilities."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf import invariants as inv
from ppdinf.errors import InvariantError, LabelError, ModelError, PrivacyError
from ppdinf.invariants import groups, total
from ppdinf.models import aggregate, ranks, summary
from ppdinf.models.compare import clipped, compare, gaussian, noisy_as_true, projected

QUIET = {"progressbar": False, "rng": 1}
TABLE = xr.DataArray([0, 1, 2, 40], dims="county", coords={"state": ("county", ["A", "A", "B", "B"])})


def mechanism(epsilon="1/2", public=None):
    return ppd.GeneralizedLaplace(total() if public is None else public, epsilon=epsilon)


def test_naive_tables():
    y = TABLE.copy(data=[4, -3, 7, -1])
    release = ppd.Release(y, mechanism(public=groups("state")))
    assert noisy_as_true(release).equals(release.table)
    assert clipped(release).values.tolist() == [4, 0, 7, 0]
    assert projected(release).values.tolist() == [1, 0, 6, 0]
    assert projected(release).coords.equals(release.table.coords)
    bounded = ppd.Release(y, mechanism(public=total() & ppd.invariants.between(None, 3)))
    kept = projected(bounded).values
    assert kept.sum() == 7
    assert (kept >= 0).all()
    assert (kept <= 3).all()


def test_gaussian_has_the_variance_of_the_noise_and_of_the_data_model():
    release = ppd.Release(np.array([4, -3, 7]), mechanism("1"))
    with pm.Model(coords=release.coords) as model:
        observed = gaussian("x", np.full(3, 2.0), np.full(3, 2.5), release)
    a = np.exp(-1.0)
    expected = 2.5 + 2 * a / (1 - a) ** 2  # variance of the double geometric distribution
    sd = observed.owner.op.dist_params(observed.owner)[1].eval()
    assert sd**2 == pytest.approx(np.full(3, expected))
    assert model.named_vars_to_dims["x_release"] == ("dim_0",)


@pytest.mark.deep
def test_noise_intervals_cover_as_stated_and_clipping_is_biased_as_computed():
    found = compare(
        {"conditioned": mechanism(), "clipped": (mechanism(), clipped), "projected": (mechanism(), projected)},
        TABLE,
        draws=1000,
        **QUIET,
    )
    assert found["bias"].dims == ("analysis", "county")
    assert found["state"].values.tolist() == ["A", "A", "B", "B"]
    right = found.sel(analysis="conditioned")
    z = np.arange(-80, 81)
    pairs = np.convolve(np.exp(-np.abs(z) / 2), np.exp(-np.abs(z) / 2), "same")
    triples = np.convolve(pairs, np.exp(-np.abs(z) / 2), "same")
    law = np.exp(-np.abs(z) / 2) * triples  # one cell, given that four cells sum to zero
    law /= law.sum()
    assert right["rmse"].values == pytest.approx(np.full(4, np.sqrt(law @ z**2)), rel=0.1)
    assert (np.abs(right["bias"]) < 5 * right["rmse"] / np.sqrt(1000)).all()
    half = z[np.searchsorted(np.cumsum(law), 0.95)]
    assert right["width"].values == pytest.approx(np.full(4, 2 * half), abs=1.01)
    assert (right["coverage"] >= 0.88).all()
    wrong = found.sel(analysis="clipped")
    expected = [law @ np.maximum(z + x, 0) - x for x in TABLE.values]
    assert wrong["bias"].values == pytest.approx(expected, abs=5 * float(right["rmse"].max()) / np.sqrt(1000))
    assert wrong["bias"][0] > 0.4  # the test would miss this without clipping
    assert (wrong["width"] == 0).all()
    sums = found["bias"].sum("county")
    assert float(sums.sel(analysis="projected")) == pytest.approx(0, abs=1e-9)
    assert float(sums.sel(analysis="clipped")) > 1


def test_the_same_seed_and_mechanism_give_the_same_releases():
    found = compare({"a": (mechanism(), noisy_as_true), "b": mechanism()}, TABLE, draws=50, **QUIET)
    assert found["bias"].sel(analysis="a").equals(found["bias"].sel(analysis="b").assign_coords(analysis="a"))
    again = compare({"a": (mechanism(), noisy_as_true), "b": mechanism()}, TABLE, draws=50, **QUIET)
    xr.testing.assert_identical(found, again)


def conditioned_model(release):
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 1, 0.1, dims=release.dims)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    return model


def clipped_model(release):
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 1, 0.1, dims=release.dims)
        pm.Poisson("x", rate, observed=clipped(release).values, dims=release.dims)
    return model


@pytest.mark.deep
def test_models_are_fitted_and_tables_keep_their_total():
    methods = {"conditioned": (mechanism("1/4"), conditioned_model), "clipped": (mechanism("1/4"), clipped_model)}
    found = compare(methods, TABLE[:3], draws=4, estimand="rate", truth=TABLE[:3] + 0.5, **QUIET)
    width = found["width"].mean("county")
    assert width.sel(analysis="conditioned") > width.sel(analysis="clipped") > 0  # clipping ignores the noise
    assert found["coverage"].sel(analysis="conditioned").mean() > 0.5
    tables = compare({"conditioned": (mechanism("1/4"), conditioned_model)}, TABLE[:3], draws=2, **QUIET)
    assert float(tables["bias"].sum()) == pytest.approx(0, abs=1e-9)  # posterior tables preserve the total


SQUARE = xr.DataArray(
    [[40, 3, 0], [7, 90, 1], [2, 5, 160]], dims=("home", "work"), coords={"home": list("abc"), "work": list("xyz")}
)
BOUNDED = total() & ppd.invariants.nonnegative()
BY_MATRIX = ppd.Transition(ppd.counts.truncated_geometric(200, 1).matrix)
EARTH = {"sensitivity": 2, "secrets": "a case"}


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize("unknown", [
    ppd.TopDown(total(), 1, ppd.invariants.margin("home")),
    *(ppd.PostProcessed(total(), 1, method) for method in ("rounded", "nonnegative", "l2", "l1", "truncated")),
    ppd.Conditioned(BOUNDED, ppd.mechanisms.DoubleGeometric("1/2")),
    ppd.WassersteinExponential(BOUNDED, 1, **EARTH),
    BY_MATRIX, ppd.Suppression(BOUNDED),
], ids=lambda mechanism: f"{mechanism.kind} {getattr(mechanism, 'method', '')}")  # fmt: skip
def test_noise_with_a_distribution_unknown_to_users_has_no_interval(unknown):
    table = SQUARE.isel(home=0) if unknown.kind in ("conditioned", "wasserstein-exponential") else SQUARE
    found = compare({"a": unknown, "b": mechanism()}, table, draws=20, **QUIET)
    assert found["intervals"].values.tolist() == [
        "none: the law of the noise depends on the counts or is not known",
        "quantiles of the noise",
    ]
    for name in ("coverage", "width"):
        assert found[name].sel(analysis="a").isnull().all()
        assert found[name].sel(analysis="b").notnull().all()
    for name in ("bias", "rmse"):
        assert found[name].notnull().all()
    assert "intervals" in found.to_dataframe()


@pytest.mark.parametrize("known", [
    mechanism(), ppd.GeneralizedGaussian(total(), rho="1/8"), ppd.SubspaceLaplace(total(), 1),
    ppd.Conditioned(total(), ppd.mechanisms.DoubleGeometric("1/2")),
    ppd.WassersteinExponential(total(), 1, **EARTH),
], ids=lambda mechanism: mechanism.kind)  # fmt: skip
def test_intervals_of_noise_with_a_public_distribution_cover_as_stated(known):
    found = compare({"a": known}, SQUARE.isel(home=0), draws=400, **QUIET)
    assert found["intervals"].item() == "quantiles of the noise"
    # at least 90 %, because noise is integer-valued; 5 standard errors of 400 draws, 0.01 for the simulated quantiles
    assert (found["coverage"] > 0.9 - 0.01 - 5 * np.sqrt(0.09 / 400)).all()


@pytest.mark.quick_cases(0)
def test_cells_are_matched_by_dimension_and_label():
    methods = {"noise": mechanism(), "own order": (mechanism(), lambda release: release.table.T[::-1])}
    expected = compare(methods, SQUARE, draws=20, **QUIET)
    for truth in (SQUARE.T, SQUARE[::-1], SQUARE[[1, 2, 0], [2, 0, 1]], SQUARE.T[:, ::-1]):
        found = compare(methods, SQUARE, truth=truth, draws=20, **QUIET)
        assert found["bias"].dims == ("analysis", *truth.dims)
        xr.testing.assert_identical(
            found.transpose("analysis", *SQUARE.dims).sel(home=SQUARE["home"], work=SQUARE["work"]), expected
        )
    assert abs(float(expected["bias"].max())) < 10  # 100 and more if cells are matched by position
    with pytest.raises(LabelError, match=r"over \('home', 'work'\).*labels of 'home' differ, such as 'c'"):
        compare(methods, SQUARE, truth=SQUARE.assign_coords(home=list("abd")), draws=2, **QUIET)
    for truth in (SQUARE.assign_coords(home=list("abd")), SQUARE[:2], SQUARE.drop_vars("home"), SQUARE[:, 0]):
        with pytest.raises(LabelError, match="'noise' estimates"):
            compare(methods, SQUARE, truth=truth, draws=2, **QUIET)


def test_answers_to_queries_are_compared_with_their_true_values():
    query = [[1, 1, 0], [0, 1, 1]]
    noise = ppd.SubspaceLaplace(ppd.invariants.Public(), 1, query=query)
    truth = xr.DataArray([40, 3], dims="answer")
    found = compare({"a": noise}, SQUARE[0, [0, 2, 1]], truth=truth, draws=200, **QUIET)
    assert (np.abs(found["bias"]) < 5 * found["rmse"] / np.sqrt(200)).all()
    assert (found["coverage"] > 0.78).all()  # 0.9 minus 5 standard errors and 0.01


def test_least_squares_and_posteriors_without_a_model_have_intervals():
    """Under one public sum, the estimates of least squares are the released counts; normal intervals are near 90 %."""

    def posterior(release):
        return ppd.denoise(release, draws=60, chains=1, rng=1, progressbar=False)

    methods = {"noise": mechanism(), "squares": (mechanism(), ppd.least_squares)}
    found = compare(methods, TABLE, draws=100, **QUIET)
    assert found["rmse"].sel(analysis="squares").values == pytest.approx(found["rmse"].sel(analysis="noise").values)
    assert (abs(found["coverage"].sel(analysis="squares") - 0.9) < 0.02 + 5 * np.sqrt(0.09 / 100)).all()
    few = compare({"a": (mechanism(), ppd.least_squares), "b": (mechanism(), posterior)}, TABLE, draws=2, **QUIET)
    assert few["intervals"].values.tolist() == ["normal quantiles of least squares", "quantiles of the posterior"]
    assert float(few["bias"].sel(analysis="b").sum()) == pytest.approx(0, abs=1e-9)
    assert (few["width"].sel(analysis="b") < few["width"].sel(analysis="a")).all()  # small counts are not negative


ONE = {"a": mechanism()}
REFUSED = [
    (ONE, {"interval": 90}, ModelError, "interval must be a probability"),
    ({}, {}, ModelError, "nothing to compare"),
    *((ONE, {"draws": draws}, PrivacyError, "draws must be a positive integer") for draws in (0, 2.5, "3")),
    (ONE, {"estimand": "foo"}, ModelError, "no variable 'foo'"),
    *((ONE, {"table": TABLE.rename({name: "analysis"})}, LabelError, "'analysis'") for name in ("county", "state")),
    ({"a": (mechanism(), lambda release: 3)}, {}, ModelError, "found int"),
    ({"a": (mechanism(), lambda release: release.table.sum("county"))}, {}, LabelError, "'a' estimates"),
    ({"a": ppd.SubspaceLaplace(inv.Public(), 1, query=[[1, 1, 0], [0, 1, 1]])}, {"table": SQUARE[0]}, LabelError,
     "'a' estimates"),
    ({"a": (mechanism(), clipped), "b": mechanism()}, {"estimand": "level"}, ModelError,
     r"'b' is a mechanism without a model, .* 'level'"),
    ({"a": (mechanism(), ppd.least_squares)}, {"estimand": "level"}, ModelError, "for the confidential table"),
]  # fmt: skip


@pytest.mark.parametrize(("methods", "given", "error", "message"), REFUSED)
def test_bad_input_is_refused(methods, given, error, message):
    with pytest.raises(error, match=message):
        compare(methods, **{"table": TABLE, "draws": 2, **given}, **QUIET)


RNG = np.random.default_rng(1)
SAMPLE = ("chain", "draw")


def mean_rank(numbers, k):
    """Return the rank of entry k: one more than the number of smaller entries, and half of the other equal entries."""
    if np.isnan(numbers[k]):
        return np.nan
    return 1 + np.sum(numbers < numbers[k]) + (np.sum(numbers == numbers[k]) - 1) / 2


@pytest.mark.parametrize("dims", [("chain", "draw", "a", "b"), ("b", "draw", "a", "chain")])
@pytest.mark.parametrize("kind", ["int64", "int8", "float64", "nan"])
def test_ranks_agree_with_counting(dims, kind):
    numbers = RNG.integers(-3, 4, size=(2, 5, 4, 3)).astype("float64" if kind == "nan" else kind)
    if kind == "nan":
        numbers[RNG.random(numbers.shape) < 0.2] = np.nan
    coords = {"a": list("wxyz"), "state": ("a", list("AABB"))}
    draws = xr.DataArray(numbers, dims=(*SAMPLE, "a", "b"), coords=coords, name="persons").transpose(*dims)
    for dim, axis in (("a", 2), ("b", 3)):
        expected = np.apply_along_axis(lambda row: [mean_rank(row, k) for k in range(row.size)], axis, numbers)
        found = ranks(draws, dim)
        xr.testing.assert_identical(found, draws.copy(data=found.values))  # labels and dimensions are unchanged
        np.testing.assert_array_equal(found.transpose(*SAMPLE, "a", "b"), expected)
    with pytest.raises(LabelError, match="no dimension 'county'"):
        ranks(draws, "county")


def test_sums_are_exact_or_refused():
    """Weights near the largest 64-bit integer, against integers of Python."""
    cells = [[2048, 1026, 2**50], [0, 5, 7]]
    draws = xr.DataArray(np.array([cells]), dims=("chain", "draw", "a"))
    weights = [[2**53, -(2**53), 8], [1, 1, 2**13], [2**20, 3, -1]]
    exact = [[sum(w * x for w, x in zip(row, own, strict=True)) for row in weights] for own in cells]
    assert 2048 * 2**53 > 2**63 > exact[0][0]
    assert aggregate(draws, inv.linear(weights[::2])).values[0].tolist() == [row[::2] for row in exact]
    assert exact[0][1] > 2**63
    with pytest.raises(InvariantError, match="the sum 'second' exceeds 64-bit integers in a draw"):
        aggregate(draws, inv.linear(weights, ["first", "second", "third"]))
    assert aggregate(draws[:, 1:], inv.linear(weights)).values[0].tolist() == exact[1:]


def test_comparisons_have_a_probability_with_labels():
    posterior = ppd.denoise(
        ppd.Measurements(
            {"area": list("ABC")},
            ppd.measured(ppd.invariants.margin("area"), [31, 4, 12], ppd.laws.DoubleGeometric("1/4")),
            public={ppd.invariants.total(): 45},
        ),
        draws=200,
        rng=1,
        progressbar=False,
    )
    areas = posterior.sums(ppd.invariants.margin("area"))
    one = posterior.summary(areas.sel(area="A") > areas.sel(area="C"))
    assert list(one.columns) == ["estimate", "monte_carlo_error"]
    assert one["estimate"].item() == float((areas.sel(area="A") > areas.sel(area="C")).mean())
    several = posterior.summary(areas > 10)
    assert list(several.index) == ["A", "B", "C"]
    assert several["estimate"].tolist() == (areas > 10).mean(SAMPLE).values.tolist()
    assert ((several["monte_carlo_error"] > 0) & (several["monte_carlo_error"] < 0.1)).all()
    largest = posterior.summary(ranks(areas, "area") == 3)
    assert largest["estimate"].sum() == pytest.approx(1, abs=0.05)  # ties are the difference
    pairs = posterior.summary(areas > areas.rename(area="other"))
    assert pairs.index.names == ["area", "other"]
    assert pairs.loc[("A", "B"), "estimate"] > 0.9 > 0.1 > pairs.loc[("B", "A"), "estimate"]
    with pytest.raises(ModelError, match=r"numbers or bool.*draws == label"):
        posterior.summary(areas.idxmax("area"))
    assert posterior.summary(areas.idxmax("area") == "A")["estimate"].item() > 0.5


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("p", "stay"), [(0.5, 0.0), (0.1, 0.0), (0.3, 0.8)], ids=["even", "rare", "slow"])
def test_the_monte_carlo_error_is_the_standard_deviation_of_the_probability(p, stay):
    """Chains of bool that repeat or draw anew: their means over 1,000 posteriors of 2 x 500 draws."""
    rng, posteriors, shape = np.random.default_rng(1), 1000, (2, 500, 1000)
    true = rng.random(shape) < p
    for t in range(1, shape[1]):
        true[:, t] = np.where(rng.random((2, posteriors)) < stay, true[:, t - 1], true[:, t])
    found = summary(xr.DataArray(true, dims=(*SAMPLE, "posterior")))
    spread = float(np.sqrt(np.mean((found["estimate"] - p) ** 2)))
    # the sd over 1,000 posteriors has an error of 2.2 %, and estimates of slow chains are off by some percent
    assert float(found["monte_carlo_error"].mean()) == pytest.approx(spread, rel=0.12)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (1, 4), (4, 100)])
@pytest.mark.parametrize("value", [True, False])
def test_equal_draws_have_a_positive_error(shape, value):
    found = summary(xr.DataArray(np.full(shape, value), dims=SAMPLE)).iloc[0]
    assert found["estimate"] == value
    n = np.prod(shape)
    expected = np.sqrt((n + 1) / (n + 2) ** 2 / n) if shape[1] > 3 else np.nan
    assert found["monte_carlo_error"] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64"])
def test_integers_of_every_size_are_summarized_alike(kind):
    low = 0 if kind.startswith("u") else -100
    draws = xr.DataArray(RNG.integers(low, 100, size=(2, 200, 3)), dims=(*SAMPLE, "area"))
    assert summary(draws.astype(kind)).astype(float).equals(summary(draws).astype(float))


@pytest.mark.parametrize("kind", ["reals", "integers with ties"])
def test_simultaneous_intervals_contain_all_numbers_together(kind):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(2, 500, 6)) @ rng.normal(size=(6, 6)) * 4
    values = values if kind == "reals" else np.rint(values).astype(np.int64)
    draws = xr.DataArray(values, dims=("chain", "draw", "area"))

    def inside(table):
        return ((values >= table.lower.to_numpy()) & (values <= table.upper.to_numpy())).all(axis=-1).mean()

    found = summary(draws, 0.9, simultaneous=True)
    assert 0.9 <= inside(found) < 0.92
    assert inside(summary(draws, 0.9)) < 0.8, "intervals that hold alone do not hold together"
    if kind == "reals":
        flat = np.sort(values.reshape(-1, 6), axis=0)
        k = int(np.flatnonzero((flat == found.lower.to_numpy()).all(axis=1))[0]) + 1
        np.testing.assert_array_equal(flat[-k], found.upper)
        narrower = found.assign(lower=flat[k], upper=flat[-k - 1])
        assert inside(narrower) < 0.9, "the next narrower intervals contain too few draws"
    one = summary(draws.isel(area=[0]), 0.9, simultaneous=True)
    np.testing.assert_allclose(one.margin_of_error, summary(draws.isel(area=[0]), 0.9).margin_of_error, rtol=0.03)
