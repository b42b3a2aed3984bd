"""The release object, made by a mechanism or by hand from published numbers, integers or real numbers."""

import re

import numpy as np
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.errors import CountError, InvariantError, LabelError, PrivacyError
from ppdinf.invariants import Public, cells, covariates, groups, margin, nonnegative, total, zeros

NOISY = xr.DataArray(
    [33, -2, 15],
    dims="county",
    coords={"county": ["x", "y", "z"], "state": ("county", list("AAB")), "density": ("county", [0.1, 2, 3])},
)


def laplace(public):
    return ppd.GeneralizedLaplace(public, epsilon="1/4")


def test_by_hand_from_published_numbers():
    release = ppd.Release(NOISY, laplace(groups("state") & covariates("density")))
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
    public = (total() & nonnegative()).on(NOISY, values=[50])
    release = ppd.Release(NOISY, laplace(Public()), public=public)
    assert release.public.values.tolist() == [50]
    assert release.kept.A.shape == (0, 3)
    assert release.guarantee.nearest == 2  # the noise protects each count by itself, but the total is public
    assert release.guarantee.unprotected == ("the total",)
    assert release.guarantee.known == ("no count is negative",)


@pytest.mark.parametrize(
    ("table", "mechanism", "public", "error", "message"),
    [
        (NOISY, "laplace", None, PrivacyError, "found str"),
        (NOISY, laplace(total()), total(), InvariantError, "must be bound"),
        (NOISY.astype(float), laplace(total()), None, CountError, "integer type"),
        (NOISY, laplace(total()), total().on(NOISY[::-1]), LabelError, "'county' where 'x' is expected"),
        (NOISY, laplace(total()), total().on(NOISY, values=[47]), InvariantError, "'total'"),
        (NOISY, laplace(total()), (groups("state") & total()).on(NOISY, values=[31, 16, 47]), InvariantError, "total"),
        (NOISY, laplace(total()), groups("state").on(NOISY, values=[31, 16]), InvariantError, "state=B"),
        (NOISY, laplace(cells({"county": "x"})), cells({"county": ["x", "y"]}).on(NOISY, values=[1, 2]),
         InvariantError, "county=x"),
        (NOISY, laplace(zeros({"county": "y"})), None, InvariantError, "structural zero"),
        (NOISY, laplace(groups("region")), None, LabelError, "'region'"),
    ],
)  # fmt: skip
def test_refusals(table, mechanism, public, error, message):
    with pytest.raises(error, match=message):
        ppd.Release(table, mechanism, public=public)


def test_bounds_do_not_bind_the_noisy_table():
    release = ppd.Release(NOISY, laplace(total() & nonnegative()))
    assert release.table.min() < 0
    assert (release.public.nearest(release.table).values >= 0).all()


def test_the_table_is_a_copy():
    source = NOISY.copy()
    release = ppd.Release(source, laplace(total()))
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
        ppd.Release(table, laplace(total())).to_dataset()


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
    release = MECHANISMS[name](groups("state")).release(TABLE)
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
    known = (total() & groups("state") & nonnegative()).on(TABLE)
    noisy = TABLE + np.array([-31.5, 2.0, 10.5, 19.0])
    report = ppd.Release(noisy, ppd.KNorm(total(), 1), public=known).check()
    assert report["agrees"].tolist()[:3] == [True, False, False]
    assert (~report["agrees"]).sum() == 3  # and one cell is below zero


def test_a_table_that_lost_its_sums_is_refused():
    mechanism = MECHANISMS["gaussian"](total())
    with pytest.raises(InvariantError, match="'total'"):
        ppd.Release([3.25, 1.25], mechanism)
    assert ppd.Release([3.25, 1.75], mechanism).public.values.tolist() == [5]


@pytest.mark.parametrize("table", [[1.0, np.nan], [1.0, np.inf], ["a", "b"], [True, False]])
def test_only_finite_numbers_are_released(table):
    with pytest.raises(CountError):
        ppd.Release(table, MECHANISMS["gaussian"](total()))


def test_integer_mechanisms_accept_integer_tables_only():
    with pytest.raises(CountError, match="integer type"):
        ppd.Release([3.0, 2.0], ppd.GeneralizedLaplace(total(), epsilon=1))


def test_the_scale_is_settled_by_the_sums():
    mechanism, public = ppd.SubspaceLaplace(margin("county"), 1, "extended"), margin("county")
    tables = [xr.DataArray(np.zeros((2, n), dtype=int), dims=["county", "age"]) for n in (2, 5)]
    few, many = (abs(mechanism.likelihood(public.on(table)).norm.matrix).max() for table in tables)
    assert few != many
