"""Published numbers by label: every permitted form of numbers, and every error."""

import copy
import itertools

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.errors import CountError, DiagnosisWarning, InvariantError, LabelError, ModelError, PrivacyError
from ppdinf.laws.censored import ABSENT
from ppdinf.measurements.same_noise import log_chance_of_equality

inv, laws = ppd.invariants, ppd.laws
LABELS = {"county": ["A", "B", "C"], "sex": ["f", "m"]}
STATES = {"state": ("county", ["X", "Y", "X"])}
NOISE = laws.DiscreteGaussian(variance=4)


def entries(statement, values, law=NOISE, **kwargs):
    return ppd.Measurements(LABELS, ppd.measured(statement, values, law), coords=STATES, **kwargs).entries


BY_COUNTY = [
    [3, 1, 2],
    (3, 1, 2),
    np.array([3.0, 1.0, 2.0]),
    {"C": 2, "A": 3, "B": 1},
    pd.Series({"B": 1, "A": 3, "C": 2}),
    pd.Series([2, 3, 1], index=pd.Index(["C", "A", "B"], name="county")),
    pd.Series({"county=A": 3, "county=B": 1, "county=C": 2}),
    xr.DataArray([1, 3, 2], coords={"county": ["B", "A", "C"]}, dims="county"),
    xr.DataArray([3, 1, 2], dims="county"),
    pd.Series([3, 1, 2], index=["A", "B", "C"], dtype="Int64"),
]


@pytest.mark.parametrize("values", BY_COUNTY, ids=range(len(BY_COUNTY)))
def test_the_same_numbers_in_every_form(values):
    found = entries(inv.margin("county"), values)
    assert found.y.tolist() == [3, 1, 2]
    assert list(found.names) == ["county=A", "county=B", "county=C"]
    assert found.matrix.toarray().tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]


def test_two_way_numbers():
    table = np.array([[1, 2], [3, 4], [5, 6]])
    frame = pd.DataFrame(
        table, index=pd.Index(["A", "B", "C"], name="county"), columns=pd.Index(["f", "m"], name="sex")
    )
    labelled = xr.DataArray(table, coords=LABELS, dims=("county", "sex"))
    for values in (table, table.ravel(), frame, frame.T, labelled, labelled.T, labelled[::-1], frame.stack()):
        assert entries(inv.margin("county", "sex"), values).y.tolist() == [1, 2, 3, 4, 5, 6]
        swapped = entries(inv.margin("sex", "county"), values if values is not table else table.T)
        if not isinstance(values, np.ndarray) or values.ndim == 2:
            assert swapped.y.tolist() == [1, 3, 5, 2, 4, 6]


def test_groups_by_coordinate_and_by_mapping():
    assert entries(inv.groups("state"), {"Y": 7, "X": 5}).y.tolist() == [5, 7]
    parents = {"A": "north", "B": "south", "C": "south"}
    assert entries(inv.groups("county", parents), {"south": 1, "north": 2}).y.tolist() == [2, 1]
    assert entries(inv.total(), 12).y.tolist() == [12]


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA, np.ma.masked])
def test_missing_measurements_are_omitted(missing):
    if missing is np.ma.masked:
        values = np.ma.array([3, 0, 2], mask=[False, True, False])
    else:
        values = pd.Series([3, missing, 2], index=["A", "B", "C"], dtype=object)
    found = entries(inv.margin("county"), values)
    assert found.y.tolist() == [3, 2]
    assert list(found.names) == ["county=A", "county=C"]


def test_scales_by_entry():
    by_label = pd.Series({"C": 1.0, "A": 9.0, "B": 4.95})
    found = entries(inv.margin("county"), [3, 1, 2], laws.DiscreteGaussian(variance=by_label))
    expected = [-1 / 18, -1 / 9.9, -1 / 2]
    assert found.log_weights(found.y[:, None] + np.array([[1]])).ravel() == pytest.approx(expected)
    with pytest.raises(PrivacyError, match=r"county=B.*scale"):
        entries(inv.margin("county"), [3, 1, 2], laws.DiscreteGaussian(variance=[9, np.nan, 1]))
    found = entries(inv.margin("county"), [3, np.nan, 2], laws.DiscreteGaussian(variance=[9, np.nan, 1]))
    assert found.y.tolist() == [3, 2]


def test_absent_from_a_thresholded_release():
    cut = laws.Thresholded(laws.DoubleGeometric(1), threshold=5)
    assert entries(inv.margin("county"), {"B": 6}, cut).y.tolist() == [ABSENT, 6, ABSENT]
    with pytest.raises(CountError, match="from 5 on"):
        entries(inv.margin("county"), {"B": 4}, cut)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: entries(inv.margin("county"), [3, 1]), LabelError, "shape"),
        (lambda: entries(inv.margin("county"), [[3, 1, 2]]), LabelError, "shape"),
        (lambda: entries(inv.margin("county"), {"A": 3, "B": 1}), LabelError, "lack 'county=C'"),
        (lambda: entries(inv.margin("county"), {"A": 3, "B": 1, "C": 2, "D": 1}), LabelError, "'D'"),
        (
            lambda: entries(inv.margin("county"), pd.Series([3, 1, 2, 2], index=["A", "B", "C", "C"])),
            LabelError,
            "'C' twice",
        ),
        (
            lambda: entries(inv.margin("county"), pd.Series([3, 1], index=pd.Index(["f", "m"], name="sex"))),
            LabelError,
            "labelled by",
        ),
        (lambda: entries(inv.margin("county"), [3, 1.5, 2]), CountError, "county=B"),
        (lambda: entries(inv.margin("county"), [3, "many", 2]), CountError, "county=B"),
        (lambda: entries(inv.margin("county"), [3, 1, 2], 4.95), PrivacyError, "ppdinf.laws"),
        (lambda: entries(inv.margin("county"), [3, 1, 2], laws.RandomRounding(3)), CountError, "county=B"),
        (lambda: entries(inv.nonnegative(), [1]), InvariantError, "no sum"),
        (lambda: ppd.measured("county", [1], NOISE), InvariantError, "ppdinf.invariants"),
        (lambda: entries(inv.margin("town"), [1]), LabelError, "town"),
        (lambda: ppd.Measurements(LABELS, [3, 1, 2]), ModelError, "ppd.measured"),
        (lambda: ppd.Measurements({}), LabelError, "labels"),
        (lambda: ppd.Measurements(LABELS, public={inv.total(): [1, 2]}), LabelError, "shape"),
        (lambda: ppd.Measurements(LABELS, public=inv.total()), InvariantError, "missing"),
        (
            lambda: ppd.Measurements(LABELS, public={inv.total(): 5, inv.margin("sex"): [1, 2]}),
            InvariantError,
            "contradict",
        ),
        (lambda: ppd.Measurements(LABELS, public={inv.total(): -5}, bounds=inv.nonnegative()), InvariantError, "total"),
        (lambda: laws.DiscreteGaussian(2, variance=4), PrivacyError, "exactly one of"),
        (lambda: laws.DiscreteGaussian(variance=[1, -1]), PrivacyError, "positive"),
        (lambda: laws.Staircase([1, 2], sensitivity=[2, 3]), PrivacyError, "one parameter"),
        (lambda: laws.RandomRounding(1), PrivacyError, ">= 2"),
        (lambda: laws.Thresholded(laws.L2Laplace(1), 3), PrivacyError, "IntegerLaw"),
    ],
)
def test_errors_name_the_problem(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_exact_sums_and_bounds():
    seen = ppd.Measurements(
        LABELS, coords=STATES, public={inv.groups("state"): {"Y": 7, "X": 5}}, bounds=inv.nonnegative()
    )
    assert dict(zip(seen.public.names, seen.public.values.tolist(), strict=True)) == {"state=X": 5, "state=Y": 7}
    assert len(seen.public.limits) == 6


def test_releases_of_one_table():
    table = np.array([3, 5, 2])
    first = ppd.GeneralizedLaplace(inv.total(), epsilon=1).release(table)
    pair = inv.linear([[1, 1, 0]], ["first two"])
    second = ppd.GeneralizedGaussian(pair, sigma=2).release(table)
    seen = ppd.Measurements.of_releases([first, second])
    assert seen.public.values.tolist() == [10, 8]
    assert seen.entries.y.tolist() == [*first.table.values.tolist(), *second.table.values.tolist()]
    with pytest.raises(InvariantError, match="release 2"):
        ppd.Measurements.of_releases([first, ppd.GeneralizedLaplace(inv.total(), epsilon=1).release(table + 1)])
    with pytest.raises(ModelError, match="release 2"):
        ppd.Measurements.of_releases([first, ppd.SubspaceGaussian(inv.total(), 1, "1e-6").release(table)])
    mixed = ppd.GeneralizedLaplace(inv.total(), 1, norm="l2").release(table)
    assert len(ppd.Measurements.of_releases([first, mixed]).entries.forms) == 2
    with pytest.raises(ModelError, match="once"):
        ppd.Measurements.of_releases([first, first])


def test_a_release_counts_once_however_it_is_obtained(tmp_path):
    mechanism = ppd.GeneralizedLaplace(inv.total(), epsilon="1/10")
    for size, proved in ((3, False), (20, True)):
        release = mechanism.release(np.arange(size))
        release.save(tmp_path / f"{size}.ppd")
        equal = [ppd.read_release(tmp_path / f"{size}.ppd"), release.sel(dim_0=list(range(size)))]
        for other in (release, copy.copy(release)):
            with pytest.raises(ModelError, match="they are one release"):
                ppd.Measurements.of_releases([release, other])
        for other in equal:
            with pytest.raises(ModelError if proved else DiagnosisWarning, match="releases 1 and 2"):
                ppd.Measurements.of_releases([release, other])


@pytest.mark.parametrize("public", [inv.total(), inv.Public(), inv.linear([[1, 1, 0, 0]], ["pair"])])
def test_the_bound_on_equal_draws_holds(public):
    """Against the weights of all noise in {-6, ..., 6}^4: the largest probability is 1 over their sum."""
    release = ppd.Release(np.zeros(4, dtype=int), ppd.GeneralizedLaplace(public, epsilon=2))
    z = np.array(list(itertools.product(range(-6, 7), repeat=4)))
    kept = z[~(release.kept.A @ z.T).any(axis=0)]
    largest = -np.log(np.exp(-2.0 * np.abs(kept).sum(axis=1)).sum())
    assert largest <= log_chance_of_equality(release) + 1e-4
    assert log_chance_of_equality(release) < 0


def test_a_label_of_a_total_is_refused():
    with pytest.raises(LabelError, match="'county' has the label 'Total' among others: a total would count everybody"):
        ppd.Measurements({"county": ["A", "B", "Total"]}, public={ppd.invariants.margin("county"): [1, 2, 3]})
