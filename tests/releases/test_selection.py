"""The release object, made by a mechanism or by hand, and parts of releases, against enumeration."""

import re

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from grids import box, tables
from known_parameters import QUIET
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf import invariants as inv
from ppdinf.errors import CountError, InvariantError, LabelError, ModelError, PrivacyError, ReleaseFileError
from ppdinf.releases.selection import Selection

NOISY = xr.DataArray(
    [33, -2, 15],
    dims="county",
    coords={"county": ["x", "y", "z"], "state": ("county", list("AAB")), "density": ("county", [0.1, 2, 3])},
)


def laplace(public):
    return ppd.GeneralizedLaplace(public, epsilon="1/4")


def test_by_hand_from_published_numbers():
    release = ppd.Release(NOISY, laplace(inv.groups("state") & inv.covariates("density")))
    assert release.dims == ("county",)
    assert release.shape == (3,)
    assert release.coords["county"].tolist() == ["x", "y", "z"]
    assert release.public.values.tolist() == [31, 15]
    assert release.public is release.kept
    assert release.covariate("density").values.tolist() == [0.1, 2, 3]
    assert set(release.covariate("state").coords) <= {"county"}
    assert "county: 3" in repr(release)
    with pytest.raises(LabelError, match="no dimension or coordinate 'population'"):
        release.covariate("population")


def test_totals_known_independently_of_the_noisy_table():
    public = (inv.total() & inv.nonnegative()).on(NOISY, values=[50])
    release = ppd.Release(NOISY, laplace(inv.Public()), public=public)
    assert release.public.values.tolist() == [50]
    assert release.kept.A.shape == (0, 3)
    assert release.guarantee.nearest == 2  # the noise protects each count by itself, but the total is public
    assert release.guarantee.unprotected == ("the total",)
    assert release.guarantee.known == ("no count is negative",)


@pytest.mark.parametrize(
    ("table", "mechanism", "public", "error", "message"),
    [
        (NOISY, "laplace", None, PrivacyError, "found str"),
        (NOISY, laplace(inv.total()), inv.total(), InvariantError, "must be bound"),
        (NOISY.astype(float), laplace(inv.total()), None, CountError, "integer type"),
        (NOISY, laplace(inv.total()), inv.total().on(NOISY[::-1]), LabelError, "'county' where 'x' is expected"),
        (NOISY, laplace(inv.total()), inv.total().on(NOISY, values=[47]), InvariantError, "'total'"),
        (NOISY, laplace(inv.total()), (inv.groups("state") & inv.total()).on(NOISY, values=[31, 16, 47]),
         InvariantError, "total"),
        (NOISY, laplace(inv.total()), inv.groups("state").on(NOISY, values=[31, 16]), InvariantError, "state=B"),
        (NOISY, laplace(inv.cells({"county": "x"})), inv.cells({"county": ["x", "y"]}).on(NOISY, values=[1, 2]),
         InvariantError, "county=x"),
        (NOISY, laplace(inv.zeros({"county": "y"})), None, InvariantError, "structural zero"),
        (NOISY, laplace(inv.groups("region")), None, LabelError, "'region'"),
    ],
)  # fmt: skip
def test_refusals(table, mechanism, public, error, message):
    with pytest.raises(error, match=message):
        ppd.Release(table, mechanism, public=public)


def test_bounds_do_not_bind_the_noisy_table():
    release = ppd.Release(NOISY, laplace(inv.total() & inv.nonnegative()))
    assert release.table.min() < 0
    assert (release.public.nearest(release.table).values >= 0).all()


def test_the_table_is_a_copy():
    source = NOISY.copy()
    release = ppd.Release(source, laplace(inv.total()))
    source[0] = 0
    assert release.table.values.tolist() == [33, -2, 15]
    assert release.table.dtype == np.int64
    assert release.table.name == "released"


def test_conversions_of_a_release():
    """Parts, reordered dimensions, frames and datasets contain the noisy table and its covariates only."""
    coords = {"county": ["<a>", "b"], "sex": ["f", "m"], "persons": ("county", [50, 70])}
    table = xr.DataArray([[4, -2], [9, 3]], dims=("county", "sex"), coords=coords)
    release = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    assert release.table.sel(county="b").values.tolist() == [9, 3]
    assert release.transpose("sex", "county").values.tolist() == [[4, 9], [-2, 3]]
    frame = release.to_dataframe()
    assert frame.columns.tolist() == ["county", "sex", "persons", "released"]
    assert frame.iloc[1].tolist() == ["<a>", "m", 50, -2]
    data = release.to_dataset()
    assert data["public"].sel(public_sum="total") == 14
    assert data["released"].sel(county="b", sex="f") == 9
    assert data["persons"].values.tolist() == [50, 70]
    page = release._repr_html_()
    assert "GeneralizedLaplace" in page
    assert "<a>" not in page.replace("&lt;a&gt;", "")


@pytest.mark.parametrize("name", ["public", "public_sum"])
@pytest.mark.parametrize("kind", ["dimension", "covariate"])
def test_names_of_a_dataset_are_not_names_of_the_table(name, kind):
    table = NOISY.rename(county=name) if kind == "dimension" else NOISY.rename(density=name)
    with pytest.raises(LabelError, match=f"covariate {name!r}"):
        ppd.Release(table, laplace(inv.total())).to_dataset()


def test_representations_of_post_processed_releases_and_ledgers():
    public = ppd.invariants.total() & ppd.invariants.nonnegative()
    made = ppd.PostProcessed(public, epsilon=1).release(np.array([3, 0, 2]))
    assert made.dims == ("dim_0",)
    assert made.coords["dim_0"].tolist() == [0, 1, 2]
    ledger = ppd.privacy.Ledger(epsilon=2)
    assert repr(ledger) == "<Ledger: 0 releases, epsilon = 0 of 2 spent>"
    ledger.add(ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4").release(np.array([3, 0, 2])))
    assert repr(ledger) == "<Ledger: 1 releases, epsilon = 1/4 of 2 spent>"


TABLE = xr.DataArray([30, 4, 12, 7], dims="county", coords={"state": ("county", list("AABB"))})
MECHANISMS = {
    "gaussian": lambda p: ppd.SubspaceGaussian(p, epsilon=1, delta="1e-6"),
    "extended": lambda p: ppd.SubspaceGaussian(p, epsilon=1, delta="1e-6", method="extended"),
    "laplace": lambda p: ppd.SubspaceLaplace(p, epsilon=1),
    "correlated": lambda p: ppd.CorrelatedGaussian(p, epsilon=1, delta="1e-6"),
    "k-norm": lambda p: ppd.KNorm(p, epsilon=1),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_keeps_sums_and_is_read_from_its_file(name, tmp_path):
    release = MECHANISMS[name](inv.groups("state")).release(TABLE)
    assert release.table.dtype == np.float64
    assert np.allclose(release.public.A @ release.table.values, [34, 19])
    assert release.public.values.tolist() == [34, 19]
    release.save(tmp_path / "r.ppd")
    again = ppd.read_release(tmp_path / "r.ppd")
    xr.testing.assert_identical(again.table, release.table)
    assert again.mechanism == release.mechanism
    assert again.guarantee == release.guarantee
    how = r"in multiples of 1/\d+, (\w+) sampler \((exact|in double precision)\)"
    sampler, exact = re.search(how, release.guarantee.describe()).groups()
    assert (exact == "exact") == release.plan.exact == (sampler != "polytope")
    assert again.check()["agrees"].all()


def test_sums_that_the_noisy_table_does_not_keep_are_reported():
    known = (inv.total() & inv.groups("state") & inv.nonnegative()).on(TABLE)
    noisy = TABLE + np.array([-31.5, 2.0, 10.5, 19.0])
    report = ppd.Release(noisy, ppd.KNorm(inv.total(), 1), public=known).check()
    assert report["agrees"].tolist()[:3] == [True, False, False]
    assert (~report["agrees"]).sum() == 3  # and one cell is below zero


def test_a_table_that_lost_its_sums_is_refused():
    mechanism = MECHANISMS["gaussian"](inv.total())
    with pytest.raises(InvariantError, match="'total'"):
        ppd.Release([3.25, 1.25], mechanism)
    assert ppd.Release([3.25, 1.75], mechanism).public.values.tolist() == [5]


@pytest.mark.parametrize("table", [[1.0, np.nan], [1.0, np.inf], ["a", "b"], [True, False]])
def test_only_finite_numbers_are_released(table):
    with pytest.raises(CountError):
        ppd.Release(table, MECHANISMS["gaussian"](inv.total()))


def test_the_scale_is_settled_by_the_sums():
    mechanism, public = ppd.SubspaceLaplace(inv.margin("county"), 1, "extended"), inv.margin("county")
    tables = [xr.DataArray(np.zeros((2, n), dtype=int), dims=["county", "age"]) for n in (2, 5)]
    few, many = (abs(mechanism.likelihood(public.on(table)).norm.matrix).max() for table in tables)
    assert few != many


NOISED = xr.DataArray(
    [[4, -1, 2], [0, 3, 1]],
    dims=("area", "month"),
    coords={"area": ["u", "v"], "month": [1, 2, 3], "season": ("month", list("wws")), "size": ("area", [1, 2])},
)


def parts_with(public, **options):
    return ppd.Release(NOISED, ppd.GeneralizedLaplace(public, **{"epsilon": "1/2", **options}))


STATEMENTS = [
    inv.total(), inv.margin("month"), inv.margin("area"), inv.groups("season"), inv.margin("area", "season"),
    inv.hierarchy("season", "month"),
    inv.groups("month", {1: "q", 2: "q", 3: "r"}),
    inv.margin("month", weights="size"), inv.cells({"month": [2, 3], "area": "u"}), inv.cells({"season": "s"}),
    inv.zeros({"month": 1, "area": ["v"]}),
    inv.linear([[1, 0, 0, -1, 0, 0], [0, 2, 0, 0, 1, 0]], ["first", "second"]),
    inv.nonnegative()
    & inv.unit("visit", contributions=2)
    & inv.covariates("size", "season")
    & inv.labels("month", [1, 2, 3]),
]  # fmt: skip
PARTS = [
    {"month": 1}, {"month": [3]}, {"month": slice(1, 2)}, {"area": "v"}, {"area": ["v"], "month": [3, 2]},
    {"month": [2, 1], "area": ["v", "u"]},
]  # fmt: skip


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("seed", range(12))
def test_a_part_has_the_sums_and_the_noise_of_its_cells(seed):
    """Against all noise in {-2, ..., 2}^6.

    A part is refused if and only if a cut sum differs between noises of the part that keep its whole sums. The noise of
    an accepted part is independent of the other cells.
    """
    rng = np.random.default_rng(seed)
    public = inv.Public()
    for k in rng.choice(len(STATEMENTS), size=rng.integers(1, 4), replace=False):
        public &= STATEMENTS[k]
    table = NOISED * 0 if any(statement.kind == "zeros" for statement in public) else NOISED
    release, z = ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=1)), box(-2, 2, 6)
    possible = z[~(release.kept.A @ z.T).any(axis=0)]
    order = xr.DataArray(np.arange(6).reshape(2, 3), coords=NOISED.coords, dims=NOISED.dims)
    for part in PARTS:
        within = order.sel(part).values.ravel()
        alone = possible.copy()
        rows, outside = release.kept.A.toarray(), np.setdiff1d(np.arange(6), within)
        alone[:, outside] = 0
        whole = ~rows[:, outside].any(axis=1)
        of_part = box(-2, 2, within.size)
        of_part = of_part[~(rows[whole][:, within] @ of_part.T).any(axis=0)]
        cut = (rows[:, within] @ of_part.T).any()
        weights_dropped = STATEMENTS[7].statements[0] in public.statements and part.get("area") == "v"
        if cut or weights_dropped:
            with pytest.raises(InvariantError, match=r"cuts the public sum|selection drops"):
                release.sel(part)
            continue
        found = release.sel(part)
        assert not (rows @ alone.T).any()
        xr.testing.assert_identical(found.table.drop_attrs(), release.table.sel(part, drop=True))
        assert not (found.kept.A @ of_part.T).any()
        assert {tuple(row) for row in of_part.tolist()} == {tuple(row) for row in alone[:, within].tolist()}
        assert (found.public.A @ found.table.values.ravel() == found.public.values).all()
        assert found.guarantee.unit == release.guarantee.unit


def test_the_noise_of_a_part_has_the_marginal_law():
    """The law of complete noise, summed over all other cells; without the sum of the month it differs."""
    release, x = parts_with(inv.total() & inv.margin("month")), NOISED.copy(data=[[2, 1, 0], [1, 2, 3]])
    part, mechanism, of_part = release.sel(month=2), release.mechanism, x.sel(month=2, drop=True)
    z = box(-2, 2, 6)
    z = z[~(release.kept.A @ z.T).any(axis=0)]
    weight = np.exp([mechanism.logp(x + step.reshape(2, 3), x) for step in z])
    some = np.arange(-2, 3)
    marginal = np.array([weight[z[:, 1] == value].sum() for value in some])
    own_law = np.exp([part.mechanism.logp(of_part + np.array([value, -value]), of_part) for value in some])
    np.testing.assert_allclose(marginal / marginal.sum(), own_law / own_law.sum(), rtol=1e-12)
    assert part.mechanism.logp(of_part + np.array([1, 0]), of_part) == -np.inf
    without = np.exp(-0.5 * np.abs(some))  # noise of one cell without the public sum
    assert np.abs(without / without.sum() - marginal / marginal.sum()).max() > 0.05


def density(release, rate):
    with pm.Model(coords=release.coords) as model:
        mu = pm.Flat("mu")
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(mu), shape=release.shape), release, marginalize=True)
    value = model.compile_logp(mode="FAST_COMPILE")
    return np.array([float(value({"mu": at})) for at in rate])


@pytest.mark.quick_cases(0)
def test_posteriors_of_a_part_and_of_the_whole():
    """The density of independent months is the product of their parts; a part that cuts a sum has another density."""
    release, rate = parts_with(inv.margin("month") & inv.nonnegative()), np.array([-0.5, 0.3, 1.2])
    whole, parts = density(release, rate), [density(release.sel(month=month), rate) for month in (1, 2, 3)]
    np.testing.assert_allclose(np.diff(whole), np.diff(np.sum(parts, axis=0)), atol=1e-9)
    x = tables([0, 0], [4, 4], [[1, 1]], [2])
    log_joint = [stats.poisson.logpmf(x, np.exp(at)).sum(axis=1) - np.abs(x - [-1, 3]).sum(axis=1) / 2 for at in rate]
    np.testing.assert_allclose(np.diff(parts[1]), np.diff([logsumexp(each) for each in log_joint]), atol=1e-9)
    silent = ppd.Release(NOISED.sel(month=2, drop=True), ppd.GeneralizedLaplace(inv.Public(), epsilon="1/2"))
    assert np.abs(np.diff(density(silent, rate)) - np.diff(parts[1])).max() > 0.1


def test_sums_that_are_known_independently_of_the_noise():
    """The noise of each cell is independent, but a total that was published otherwise links the cells."""
    noise = ppd.GeneralizedLaplace(inv.Public(), epsilon=1)
    by_month = ppd.Release(NOISED, noise, public=inv.margin("month").on(NOISED, values=[9, 3, 4]))
    assert by_month.sel(month=[3, 1]).public.values.tolist() == [4, 9]
    assert by_month.sel(month=2).kept.A.shape == (0, 2)
    linked = ppd.Release(NOISED, noise, public=inv.total().on(NOISED, values=[11]))
    with pytest.raises(InvariantError, match="cuts the public sum 'total'"):
        linked.sel(month=2)
    implied = ppd.Release(NOISED, noise, public=(inv.total() & inv.margin("month")).on(NOISED, values=[16, 9, 3, 4]))
    assert implied.sel(month=2).public.values.tolist() == [3]
    cases = ppd.Release(NOISED, noise, public=inv.at_least("u", "v", dim="area").on(NOISED))
    assert cases.sel(month=2).public.limits.tolist() == [0]
    with pytest.raises(InvariantError, match="cuts the public bound 'u >= v at area=u, month=1'"):
        cases.sel(area="u")
    bound = ppd.Release(NOISED, noise, public=inv.inequality([[1, 1, 0, 0, 0, 0]], [2], ["both"]).on(NOISED))
    assert bound.sel(area=["u"]).public.bound_names == ["both"]


def test_a_part_is_post_processing_and_its_file_states_this(tmp_path):
    mechanism = ppd.GeneralizedLaplace(inv.margin("month") & inv.covariates("size", "season"), epsilon="1/2")
    release = mechanism.release(xr.DataArray([[4, 1, 2], [0, 3, 1]], dims=NOISED.dims, coords=NOISED.coords))
    part = release.sel(month=[3, 2]).sel(month=2)
    assert part.covariate("size").values.tolist() == [1, 2]
    assert part.provenance == "drawn"
    assert part.guarantee.loss(1) == release.guarantee.loss(1)
    assert "a part of a release (month = 2)" in part.guarantee.describe()
    part.save(tmp_path / "part.ppd")
    again = ppd.read_release(tmp_path / "part.ppd")
    assert again.table.identical(part.table)
    assert again.guarantee == part.guarantee
    assert again.selection.mechanism == mechanism
    assert again.selection.labels == {"month": (2,)}
    ledger = ppd.privacy.Ledger(epsilon=1)
    ledger.add(again)
    assert ledger.remaining == ppd.privacy.Ledger(epsilon="1/2").budget
    stated = parts_with(inv.margin("month")).sel(month=2)
    assert stated.provenance == "stated"
    stated.save(tmp_path / "stated.ppd")
    assert ppd.read_release(tmp_path / "stated.ppd").guarantee == stated.guarantee
    calibrated = ppd.Release(NOISED, ppd.GeneralizedGaussian(inv.margin("month"), 1, "1e-6", calibration="exact"))
    calibrated.sel(month=[1]).save(tmp_path / "calibrated.ppd")
    assert ppd.read_release(tmp_path / "calibrated.ppd").mechanism.sigma == calibrated.mechanism.sigma
    for forged, message in [
        (Selection(mechanism, {"month": ("2 \x00",)}), "a selected label"),
        (Selection(mechanism, {"area": ("v",)}), "other labels"),
        (Selection(ppd.GeneralizedLaplace(inv.margin("month"), epsilon=1), {"month": (2,)}), "another mechanism"),
    ]:
        part.selection = forged
        part.save(tmp_path / "forged.ppd", overwrite=True)
        with pytest.raises(ReleaseFileError, match=message):
            ppd.read_release(tmp_path / "forged.ppd")


def test_calibrated_noise_of_a_part_is_zcdp():
    release = ppd.Release(NOISED, ppd.GeneralizedGaussian(inv.margin("month"), 1, "1e-6", calibration="exact"))
    part = release.sel(month=1)
    assert part.mechanism.sigma == release.mechanism.sigma
    assert part.guarantee.variant == "zcdp"
    staircase = ppd.Release(NOISED, ppd.Conditioned(inv.margin("month"), noise=ppd.laws.Staircase(1, 2)))
    assert staircase.sel(month=1).likelihood.normaliser is None


@pytest.mark.parametrize(
    ("release", "chosen", "error", "message"),
    [
        (lambda: parts_with(inv.total()), {"month": 1}, InvariantError, "cuts the public sum 'total'"),
        (lambda: parts_with(inv.margin("month"), norm="l2"), {"month": 1}, ModelError, "one common scale"),
        (lambda: ppd.KNorm(inv.margin("month"), epsilon=1).release(abs(NOISED.drop_vars(["season", "size"]))),
         {"month": 1}, ModelError, "part of a release by KNorm"),
        (lambda: ppd.Release(abs(NOISED), ppd.Conditioned(inv.margin("month") & inv.between(0, 9),
                                                          noise=ppd.laws.DoubleGeometric(1))),
         {"month": 1}, ModelError, "part of a release by Conditioned"),
        (lambda: ppd.mechanisms.random_rounding(3, 40).release([30, 4, 6]), {"dim_0": [1, 2]}, ModelError,
         "part of a release by"),
        (lambda: ppd.PostProcessed(inv.Public(), epsilon=1).release(abs(NOISED.drop_vars(["season", "size"]))).noisy,
         {"month": 1}, PrivacyError, "post-processed"),
        (lambda: parts_with(inv.margin("month")), {"month": 9}, LabelError, "not a label"),
        (lambda: parts_with(inv.margin("month")), {"season": "w"}, LabelError, "'season'"),
        (lambda: parts_with(inv.Public()), {"month": 1, "area": "u"}, LabelError, r"sel\(area="),
        (lambda: parts_with(inv.margin("month", weights="size")), {"area": "u"}, InvariantError, "cuts the public sum"),
        (lambda: parts_with(inv.margin("area", weights="size")), {"area": "u"}, InvariantError, "selection drops"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::ppdinf.errors.PrivacyWarning")
def test_refused_selections(release, chosen, error, message):
    with pytest.raises(error, match=message):
        release().sel(chosen)


@pytest.mark.parametrize(
    ("mapping", "keywords"),
    [({"month": 1}, {"month": 2}), ({"month": 1}, {"area": "u"}), ({"month": [1]}, {"month": [1]}), (5, {}), ([], {})],
    ids=["two labels", "two dimensions", "the same", "a number", "a list"],
)
def test_labels_are_given_as_a_mapping_or_as_keywords(mapping, keywords):
    with pytest.raises(LabelError, match="as one mapping or as keywords"):
        parts_with(inv.Public()).sel(mapping, **keywords)
    assert parts_with(inv.Public()).sel({}, month=1).table.equals(parts_with(inv.Public()).sel({"month": 1}).table)


@pytest.mark.quick_cases(0)
def test_a_part_is_used_as_every_release():
    part = parts_with(inv.margin("month") & inv.nonnegative()).sel(month=2)
    draws = ppd.denoise(part, draws=50, rng=1, progressbar=False).draws
    assert set(draws.sum("area").values.ravel().tolist()) == {2}
    with pm.Model(coords=part.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1), shape=2), release=part)
        idata = pm.sample(20, tune=20, chains=1, cores=1, nuts_sampler="pymc", random_seed=1, **QUIET)
    released = ppd.sample_release(idata, model, random_seed=1)
    assert released.dims[-1] == "area"
    assert set(released.sum("area").values.ravel().tolist()) == {2}
    ppd.plots.plot_noise(part)


@pytest.mark.parametrize(
    ("labels", "wrong"),
    [(["r", "p"], None), (np.array(["r"]), None), (slice("q", "r"), None), ("q", None), (["q", "q"], LabelError),
     ([], CountError)],
    ids=["another order", "array", "slice", "one label", "a label twice", "no label"],
)  # fmt: skip
def test_labels_are_selected_as_xarray_selects_them(labels, wrong):
    table = xr.DataArray([[0, 1, 2], [3, 4, 5]], coords={"a": ["x", "y"], "b": ["p", "q", "r"]}, dims=("a", "b"))
    release = ppd.GeneralizedLaplace(inv.margin("b"), epsilon=1).release(table)
    if wrong:
        with pytest.raises(wrong):
            release.sel(b=labels)
        return
    part = release.sel(b=labels)
    chosen = release.table.sel(b=labels)
    xr.testing.assert_equal(part.table, chosen.drop_vars(set(chosen.coords) - set(chosen.dims)))
    assert part.public.values.tolist() == np.atleast_1d(table.sel(b=labels).sum("a")).tolist()
