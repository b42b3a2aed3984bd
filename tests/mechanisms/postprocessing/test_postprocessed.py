"""Post-processed tables: kept sums, guarantees, and comparison with other mechanisms."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import PrivacyWarning
from ppdinf.invariants import Public, at_least, between, groups, hierarchy, margin, nonnegative, total, zeros
from ppdinf.mechanisms.postprocessing import PostProcessed, TopDown
from ppdinf.models.compare import noisy_as_true

RNG = np.random.default_rng(1)
TABLE = xr.DataArray(
    np.add(RNG.poisson([6.0, 3.0], size=(5, 2)), [3, 0]),
    dims=("county", "what"),
    coords={"what": ["cases", "deaths"], "state": ("county", ["A", "A", "B", "B", "B"])},
)
TABLE[0, 1] = 0
COUNTS = ("l1", "rounded")
PUBLICS = {
    "nothing": Public(),
    "total": total() & nonnegative(),
    "groups": groups("state"),
    "margins": margin("county") & margin("what"),
    "linked": margin("what") & at_least("cases", "deaths", dim="what"),
    "capped": groups("state") & between(0, 40) & zeros({"county": 0, "what": "deaths"}),
}


@pytest.mark.quick_cases(12)
@pytest.mark.parametrize("public", PUBLICS.values(), ids=PUBLICS)
@pytest.mark.parametrize("method", ["truncated", "l2", "nonnegative", "l1", "rounded"])
def test_public_sums_and_bounds_are_kept(public, method):
    table = TABLE.where(TABLE["what"] == "cases", np.minimum(TABLE, TABLE.sel(what="cases"))).astype(int)
    mechanism = PostProcessed(public, "1/4", method)
    draws = mechanism.simulate(table, draws=20, rng=2)
    assert draws.dims == ("draw", "county", "what")
    assert draws.dtype == (np.int64 if method in (*COUNTS, "truncated") else np.float64)
    system = public.on(table)
    cells = draws.values.reshape(20, -1)
    if method != "l2":
        assert (cells >= 0).all()
    if method != "truncated":
        assert np.abs((system.A @ cells.T).T - system.values).max(initial=0) < 1e-9
    if method not in ("l2", "truncated"):
        assert ((system.B @ cells.T).T - system.limits).min(initial=0) > -1e-9
    assert (cells[:, system.empty] == 0).all() or method == "l2"


def test_same_noise_nearest_and_rounded():
    public = PUBLICS["linked"]
    real, whole = (PostProcessed(public, "1/4", m).simulate(TABLE, draws=30, rng=3) for m in ("nonnegative", "rounded"))
    assert float(abs(real - whole).max()) <= 1 + 1e-6
    noisy = PostProcessed(Public(), "1/4", "truncated").simulate(TABLE + 1000, draws=30, rng=3) - 1000
    nearest = PostProcessed(public, "1/4", "l1").simulate(TABLE, draws=30, rng=3)
    l1, l2 = (lambda y: abs(y - noisy).sum(("county", "what"))), (lambda y: ((y - noisy) ** 2).sum(("county", "what")))
    assert (l1(nearest) <= l1(whole)).all()
    assert (l2(real) <= l2(nearest) + 1e-6).all()


def test_a_release_contains_its_noisy_table_and_reports_moves():
    release = PostProcessed(groups("state"), "1/4").release(TABLE)
    public = release.noisy.public
    assert public.check(release.table)["agrees"].all()
    move = np.abs(release.table.values - release.noisy.table.values)
    report = release.report
    assert report["cells"] == 10
    assert report["negative"] == (release.noisy.table.values < 0).sum()
    assert report["moved"] == (move > 0).sum()
    assert report["total_moved"] == move.sum()
    assert report["largest_move"] == move.max()
    assert "the sum for every state" in release.guarantee.unprotected
    assert release.guarantee.epsilon == ppd.GeneralizedLaplace(Public(), "1/4").epsilon
    assert release.guarantee.nearest == 2
    assert "distance k" in release.guarantee.describe()
    with pm.Model(coords=release.noisy.coords) as model:  # inference starts from the noisy table
        rate = pm.Gamma("rate", 2, 0.1, dims=release.noisy.dims)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release.noisy)
    assert np.isfinite(sum(model.point_logps().values()))


def test_reading_a_repaired_table_as_the_noisy_one_is_a_model_to_compare_with():
    table, mechanism = np.array([0, 0, 0, 0, 60]), PostProcessed(total(), "1/4")
    y = mechanism.simulate(table, draws=1, rng=5)[0].drop_vars("draw", errors="ignore")
    naive = ppd.Release(y, mechanism.measurement, public=mechanism.public.on(y))
    assert naive.mechanism.epsilon == mechanism.epsilon
    assert naive.public.values.tolist() == [60]
    assert np.isfinite(naive.mechanism.logp(y, table))
    measured = TopDown(total() & groups("state"), 1, margin("county"), ["1/4", "3/4"]).measurement
    assert float(measured.epsilon) == 0.75
    assert measured.public.coordinates() == {"state", "county"}


@pytest.mark.quick_cases(0)
def test_a_baseline_in_compare():
    table = xr.DataArray([0, 1, 2, 60], dims="county")
    methods = {
        "conditioned": ppd.GeneralizedLaplace(total(), "1/4"),
        "rounded": PostProcessed(total(), "1/4"),
        "as if true": (PostProcessed(total(), "1/4"), noisy_as_true),
        "truncated": PostProcessed(total(), "1/4", "truncated"),
    }
    found = ppd.compare(methods, table, draws=800, rng=1, progressbar=False)
    bias = found["bias"].sum("county")
    assert float(bias.sel(analysis="rounded")) == pytest.approx(0, abs=1e-9)
    assert float(bias.sel(analysis="truncated")) > 3
    assert float(found["bias"].sel(analysis="rounded", county=3)) < -2  # small cells gain as much as large cells lose
    assert float(found["rmse"].sel(analysis="rounded", county=0)) < float(
        found["rmse"].sel(analysis="conditioned", county=0)
    )
    assert (found["coverage"].sel(analysis="as if true") < 0.7).all()


@pytest.mark.deep
def test_top_down_adds_up_and_measures_the_top_well():
    table = xr.DataArray(
        RNG.poisson(8, (40, 3)), dims=("county", "age"), coords={"state": ("county", np.repeat(list("ABCD"), 10))}
    )
    mechanism = TopDown(Public(), 1, hierarchy("state", "county"), ["1/2", "1/4", "1/8", "1/8"])
    draws = mechanism.simulate(table, draws=400, rng=4)
    assert draws.dtype == np.int64
    assert int(draws.min()) == 0
    error = (draws.sum(("county", "age")) - table.sum()).values  # noise of the top at its share of epsilon
    law = stats.dlaplace(0.5)
    edges = np.arange(-5, 6)
    observed = np.bincount(np.clip(error, -5, 5) + 5, minlength=11)
    expected = np.array([law.cdf(-5), *law.pmf(edges[1:-1]), law.sf(4)]) * 400
    assert stats.chisquare(observed, expected).pvalue > 1e-6
    bottom_up = PostProcessed(Public(), 1).simulate(table, draws=400, rng=4)  # the same budget on cells alone
    assert (bottom_up.sum(("county", "age")) - table.sum()).values.std() > 3 * error.std()
    states = draws.groupby("state").sum().sum("age") - table.groupby("state").sum().sum("age")
    assert float(states.std()) < 14  # rate 1/4 has 5.6; counties of rate 1/8 alone would have 36


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "public",
    [total(), groups("state"), margin("county"), margin("age"), groups("state") & margin("age") & between(0, 30)],
    ids=["total", "states", "counties", "ages", "crossing and capped"],
)
def test_top_down_keeps_public_sums_on_every_level(public):
    table = xr.DataArray(
        RNG.poisson(2, (6, 3)), dims=("county", "age"), coords={"state": ("county", np.repeat(list("AB"), 3))}
    )
    draws = TopDown(public, 1, hierarchy("state", "county")).simulate(table, draws=10, rng=5)
    system = public.on(table)
    for draw in draws:
        assert system.check(draw.drop_vars("draw", errors="ignore"))["agrees"].all()
    assert (draws >= 0).all()
    assert len(np.unique(draws.values.reshape(10, -1), axis=0)) > 1


def test_top_down_without_noise_is_the_table():
    mechanism = TopDown(margin("what"), 900, groups("state"))
    assert (mechanism.simulate(TABLE, draws=2, rng=1) == TABLE).all()
    release = mechanism.release(TABLE)
    assert release.table.equals(release.noisy.table)
    assert release.report["moved"] == 0
    assert "2 levels" in release.guarantee.describe()
    assert ppd.mechanisms.Mechanism.from_dict(mechanism.to_dict(), mechanism.public) == mechanism


def test_fixed_cells_are_announced():
    table = xr.DataArray([1, 2, 3, 4, 5, 6], dims="c", coords={"state": ("c", list("AABBBC"))})
    with pytest.warns(PrivacyWarning, match="fix 1 of 6 cells"):
        PostProcessed(groups("state"), 1).release(table)
