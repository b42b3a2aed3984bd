"""Releases of real numbers: sums up to rounding, files byte for byte, and scales that depend on the sums."""

import re

import numpy as np
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.errors import CountError, InvariantError
from ppdinf.invariants import groups, margin, nonnegative, total

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
