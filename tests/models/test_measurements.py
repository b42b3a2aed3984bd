"""Noisy measurements without preserved sums, with separately known public totals."""

import numpy as np
import pymc as pm
import pytest
from enumeration import fiber_points, total_variation
from known_parameters import known
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning
from ppdinf.invariants import Public, total

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}


@pytest.mark.quick_cases(1)
@pytest.mark.compiled
@pytest.mark.parametrize("marginalize", [True, False])
def test_public_total_known_separately_from_an_unconstrained_release(marginalize, tmp_path):
    y = np.array([4, -1, 2])  # sums to 5, the public total is 6
    public = total().on(y, values=[6])
    release = ppd.Release(y, ppd.GeneralizedLaplace(Public(()), epsilon="1/2"), public=public)
    release.save(tmp_path / "measured.ppd")
    release = ppd.read_release(tmp_path / "measured.ppd")
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=marginalize)
        idata = known(20_000) if marginalize else pm.sample(10_000, tune=200, chains=2, cores=1, random_seed=2, **QUIET)
    draws = ppd.sample_confidential(idata, model, random_seed=2).values.reshape(-1, 3)
    points = fiber_points(release.public.A, release.public.values, 6)
    logs = stats.poisson.logpmf(points, 2.0).sum(axis=1) - 0.5 * np.abs(points - y).sum(axis=1)
    p = np.exp(logs - np.logaddexp.reduce(logs))
    assert total_variation(draws, points, p) < 0.03  # 28 tables, 20,000 draws
    wrong = np.exp(stats.poisson.logpmf(points, 2.0).sum(axis=1))
    assert total_variation(draws, points, wrong / wrong.sum()) > 0.1


def test_sums_preserved_by_the_noise_are_added_to_the_public_statements():
    y = np.array([4, -1, 3])
    apart = ppd.invariants.cells({"dim_0": 0}).on(y, values=[5])
    release = ppd.Release(y, ppd.GeneralizedLaplace(total(), epsilon=1), public=apart)
    assert release.public.values.tolist() == [5, 6]
    assert release.kept.values.tolist() == [6]


def use(way, releases):
    if way != "in a model":
        return ppd.Measurements.of_releases(releases)
    with pm.Model(coords=releases[0].coords):
        return ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0, shape=3), release=releases)


@pytest.mark.parametrize("way", ["the same file twice", "all labels selected", "in a model"])
def test_equal_noise_is_reported(way, tmp_path):
    """Two releases with equal noisy counts are probably one release, whose noise would be counted twice."""
    table = ppd.as_table(np.array([3, 4, 2]), dims=["area"]).assign_coords(area=["v", "u", "w"])
    release = ppd.GeneralizedLaplace(total(), epsilon=1).release(table)
    release.save(tmp_path / "one.ppd")
    again = ppd.read_release(tmp_path / "one.ppd")
    if way == "all labels selected":
        again = release.sel(area=["v", "u", "w"])
    with pytest.warns(DiagnosisWarning, match="releases 1 and 2 have the same mechanism"):
        use(way, [release, again])


def test_different_noise_is_not_reported():
    y = ppd.as_table(np.array([3, 4, 2]), dims=["area"])
    mechanism = ppd.GeneralizedLaplace(total(), epsilon=1)
    ppd.Measurements.of_releases([ppd.Release(y, mechanism), ppd.Release(y + np.array([1, -1, 0]), mechanism)])
    ppd.Measurements.of_releases([ppd.Release(y, ppd.Suppression(total())), ppd.Release(y, mechanism)])
