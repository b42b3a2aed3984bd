"""Comparators by hand and in closed form; `compare` against exact noise distributions and for a model."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.errors import LabelError, ModelError, PrivacyError
from ppdinf.invariants import groups, total
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
@pytest.mark.parametrize(
    "unknown",
    [
        ppd.TopDown(total(), 1, ppd.invariants.margin("home")),
        *(ppd.PostProcessed(total(), 1, method) for method in ("rounded", "nonnegative", "l2", "l1", "truncated")),
        ppd.Conditioned(BOUNDED, ppd.mechanisms.DoubleGeometric("1/2")),
        ppd.WassersteinExponential(BOUNDED, 1, **EARTH),
        BY_MATRIX,
        ppd.Suppression(BOUNDED),
    ],
    ids=lambda mechanism: f"{mechanism.kind} {getattr(mechanism, 'method', '')}",
)
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


@pytest.mark.parametrize(
    "known",
    [
        mechanism(),
        ppd.GeneralizedGaussian(total(), rho="1/8"),
        ppd.SubspaceLaplace(total(), 1),
        ppd.Conditioned(total(), ppd.mechanisms.DoubleGeometric("1/2")),
        ppd.WassersteinExponential(total(), 1, **EARTH),
    ],
    ids=lambda mechanism: mechanism.kind,
)
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
    with pytest.raises(LabelError, match="'a' estimates"):
        compare({"a": noise}, SQUARE[0], draws=2, **QUIET)


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
    with pytest.raises(ModelError, match="for the confidential table"):
        compare({"a": (mechanism(), ppd.least_squares)}, TABLE, estimand="level", draws=2, **QUIET)


def test_bad_input_is_refused():
    with pytest.raises(ModelError, match="interval must be a probability"):
        compare({"a": mechanism()}, TABLE, interval=90, **QUIET)
    with pytest.raises(ModelError, match="nothing to compare"):
        compare({}, TABLE, **QUIET)
    for draws in (0, 2.5, "3"):
        with pytest.raises(PrivacyError, match="draws must be a positive integer"):
            compare({"a": mechanism()}, TABLE, draws=draws, **QUIET)
    with pytest.raises(ModelError, match="no variable 'foo'"):
        compare({"a": mechanism()}, TABLE, estimand="foo", draws=2, **QUIET)
    for named in (TABLE.rename(county="analysis"), TABLE.rename(state="analysis")):
        with pytest.raises(LabelError, match="'analysis'"):
            compare({"a": mechanism(public=ppd.invariants.total())}, named, draws=2, **QUIET)
    with pytest.raises(ModelError, match="found int"):
        compare({"a": (mechanism(), lambda release: 3)}, TABLE, draws=2, **QUIET)
    with pytest.raises(LabelError, match="'a' estimates"):
        compare({"a": (mechanism(), lambda release: release.table.sum("county"))}, TABLE, draws=2, **QUIET)
    with pytest.raises(ModelError, match=r"'b' is a mechanism without a model, .* 'level'"):
        compare({"a": (mechanism(), clipped), "b": mechanism()}, TABLE, estimand="level", draws=2, **QUIET)
