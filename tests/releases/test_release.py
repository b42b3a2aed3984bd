"""The release object, made by a mechanism or by hand from published numbers."""

import numpy as np
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.errors import CountError, InvariantError, LabelError, PrivacyError
from ppdinf.invariants import Public, cells, covariates, groups, nonnegative, total, zeros

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
