"""A release enters a model once, also as a copy, in a list or as a part: its noise would be counted twice."""

import copy

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning, ModelError

MECHANISM = ppd.GeneralizedLaplace(ppd.invariants.margin("state"), epsilon="1/10")
COUNTS = np.random.default_rng(1).poisson(30, (3, 24)) + np.array([-20, 7, 3])[:, None]
COORDS = {"state": ["A", "B", "C"], "age": range(24)}
RELEASE = ppd.Release(xr.DataArray(COUNTS, coords=COORDS), MECHANISM)


def read(release, folder):
    release.save(folder / "cases.ppd")
    return ppd.read_release(folder / "cases.ppd")


AGAIN = {
    "the same": lambda release, _: release,
    "a copy": lambda release, _: copy.deepcopy(release),
    "read from a file": read,
    "made again": lambda release, _: ppd.Release(release.table, MECHANISM),
    "in a list": lambda release, folder: [read(release, folder)],
    "a part": lambda release, folder: read(release, folder).sel(state="B"),
    "a part of several labels": lambda release, _: copy.deepcopy(release).sel(state=["C", "A"]),
}


def both(first, second):
    with pm.Model():
        rate = pm.Gamma("rate", 2, 0.1)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), first)
        ppd.PartiallyPrivate("y", pm.Poisson.dist(rate), second)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("again", AGAIN.values(), ids=AGAIN)
def test_the_noise_of_a_release_is_in_a_model_once(again, tmp_path):
    other = again(RELEASE, tmp_path)
    with pytest.raises(ModelError, match="already in the model as that of 'x': observe it only once"):
        both(RELEASE, other)
    with pytest.raises(ModelError, match="observe it only once"):
        both(other, RELEASE)


PARTS = {
    "one label of several": ({"state": "B"}, {"state": ["A", "B"]}),
    "overlap": ({"state": ["A", "B"]}, {"state": ["C", "B"]}),
    "overlap in another order": ({"state": ["C", "B", "A"]}, {"state": ["A", "C"]}),
    "part of a part": ({"state": ["A", "B"]}, {"state": ["B"]}),
}


@pytest.mark.parametrize(("first", "second"), PARTS.values(), ids=PARTS)
def test_parts_with_common_cells_are_refused(first, second):
    for one, other in ((first, second), (second, first)):
        with pytest.raises(ModelError, match="already in the model as that of 'x': observe it only once"):
            both(RELEASE.sel(one), copy.deepcopy(RELEASE).sel(other))


def test_parts_by_different_dimensions():
    """Parts by state and by age have common cells; nothing is exact, so both can be selected."""
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon="1/10")
    release = ppd.Release(xr.DataArray(COUNTS, coords=COORDS), mechanism)
    with pytest.raises(ModelError, match="observe it only once"):
        both(release.sel(state=["A", "B"]), release.sel(age=list(range(5, 15))))


def test_other_noise_of_the_same_cells_and_other_parts_are_accepted():
    changed = COUNTS.copy()
    changed[:, :2] += [1, -1]
    both(RELEASE, ppd.Release(xr.DataArray(changed, coords=COORDS), MECHANISM))
    both(RELEASE.sel(state="A"), RELEASE.sel(state="B"))
    both(RELEASE.sel(state="A"), RELEASE.sel(state=["C", "B"]))
    other = ppd.Release(xr.DataArray(COUNTS, coords=COORDS), ppd.GeneralizedLaplace(MECHANISM.public, epsilon=1))
    both(RELEASE.sel(state="A"), other)


def test_parts_and_tables_of_other_dimensions_are_accepted():
    """One mechanism without public sums for tables of different dimensions."""
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon="1/10")
    states = ppd.Release(xr.DataArray(COUNTS, coords=COORDS), mechanism)
    sexes = ppd.Release(xr.DataArray(COUNTS[:2], coords={"sex": ["f", "m"], "age": range(24)}), mechanism)
    both(states.sel(state="A"), sexes)
    both(sexes, states.sel(state="A"))


def test_small_tables_can_coincide():
    def small(month):
        return ppd.Release(
            xr.DataArray([3, 4], coords={f"area{month}": ["A", "B"]}),
            ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1),
        )

    both(small("May"), small("June"))
    with pytest.warns(DiagnosisWarning, match="the release and that of 'x' have the same mechanism"):
        both(small("May"), small("May"))
