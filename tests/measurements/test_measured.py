"""Published numbers and coordinates by label: every permitted form, order and error."""

import copy
from itertools import combinations, permutations, product

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
    [3, 1, 2], (3, 1, 2), np.array([3.0, 1.0, 2.0]), {"C": 2, "A": 3, "B": 1}, pd.Series({"B": 1, "A": 3, "C": 2}),
    pd.Series([2, 3, 1], index=pd.Index(["C", "A", "B"], name="county")),
    pd.Series({"county=A": 3, "county=B": 1, "county=C": 2}),
    xr.DataArray([1, 3, 2], coords={"county": ["B", "A", "C"]}, dims="county"),
    xr.DataArray([3, 1, 2], dims="county"),
    pd.Series([3, 1, 2], index=["A", "B", "C"], dtype="Int64"),
]  # fmt: skip


@pytest.mark.parametrize("values", BY_COUNTY, ids=range(len(BY_COUNTY)))
def test_the_same_numbers_in_every_form(values):
    found = entries(inv.margin("county"), values)
    assert found.y.tolist() == [3, 1, 2]
    assert list(found.names) == ["county=A", "county=B", "county=C"]
    assert found.matrix.toarray().tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]


def test_two_way_numbers_without_labels_are_in_the_order_of_the_statement():
    table = np.array([[1, 2], [3, 4], [5, 6]])
    for values in (table, table.ravel()):
        assert entries(inv.margin("county", "sex"), values).y.tolist() == [1, 2, 3, 4, 5, 6]
    assert entries(inv.margin("sex", "county"), table.T).y.tolist() == [1, 3, 5, 2, 4, 6]


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
    found = entries(inv.margin("county"), [3, np.nan, 2], laws.DiscreteGaussian(variance=[9, np.nan, 1]))
    assert found.y.tolist() == [3, 2]


def test_absent_from_a_thresholded_release():
    cut = laws.Thresholded(laws.DoubleGeometric(1), threshold=5)
    assert entries(inv.margin("county"), {"B": 6}, cut).y.tolist() == [ABSENT, 6, ABSENT]


def counties(values, law=NOISE):
    return lambda: entries(inv.margin("county"), values, law)


def exactly(**given):
    return lambda: ppd.Measurements(LABELS, **given)


REFUSED = [
    (counties([3, 1]), LabelError, "shape"),
    (counties([[3, 1, 2]]), LabelError, "shape"),
    (counties({"A": 3, "B": 1}), LabelError, "lack 'county=C'"),
    (counties({"A": 3, "B": 1, "C": 2, "D": 1}), LabelError, "'D'"),
    (counties(pd.Series([3, 1, 2, 2], index=["A", "B", "C", "C"])), LabelError, "'C' twice"),
    (counties(pd.Series([3, 1], index=pd.Index(["f", "m"], name="sex"))), LabelError, "labelled by"),
    (counties([3, 1.5, 2]), CountError, "county=B"),
    (counties([3, "many", 2]), CountError, "county=B"),
    (counties([3, 1, 2], 4.95), PrivacyError, "ppdinf.laws"),
    (counties([3, 1, 2], laws.RandomRounding(3)), CountError, "county=B"),
    (counties([3, 1, 2], laws.DiscreteGaussian(variance=[9, np.nan, 1])), PrivacyError, r"county=B.*scale"),
    (counties({"B": 4}, laws.Thresholded(laws.DoubleGeometric(1), threshold=5)), CountError, "from 5 on"),
    (lambda: ppd.Measurements({"county": ["A", "Total"]}, public={inv.margin("county"): [1, 2]}), LabelError,
     "'county' has the label 'Total' among others: a total would count everybody"),
    (lambda: entries(inv.nonnegative(), [1]), InvariantError, "no sum"),
    (lambda: ppd.measured("county", [1], NOISE), InvariantError, "ppdinf.invariants"),
    (lambda: entries(inv.margin("town"), [1]), LabelError, "town"),
    (lambda: ppd.Measurements(LABELS, [3, 1, 2]), ModelError, "ppd.measured"),
    (lambda: ppd.Measurements({}), LabelError, "labels"),
    (exactly(public={inv.total(): [1, 2]}), LabelError, "shape"),
    (exactly(public=inv.total()), InvariantError, "missing"),
    (exactly(public={inv.total(): 5, inv.margin("sex"): [1, 2]}), InvariantError, "contradict"),
    (exactly(public={inv.total(): -5}, bounds=inv.nonnegative()), InvariantError, "total"),
    (lambda: laws.DiscreteGaussian(2, variance=4), PrivacyError, "exactly one of"),
    (lambda: laws.DiscreteGaussian(variance=[1, -1]), PrivacyError, "positive"),
    (lambda: laws.Staircase([1, 2], sensitivity=[2, 3]), PrivacyError, "one parameter"),
    (lambda: laws.RandomRounding(1), PrivacyError, ">= 2"),
    (lambda: laws.Thresholded(laws.L2Laplace(1), 3), PrivacyError, "IntegerLaw"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "words"), REFUSED)
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
    z = np.array(list(product(range(-6, 7), repeat=4)))
    kept = z[~(release.kept.A @ z.T).any(axis=0)]
    largest = -np.log(np.exp(-2.0 * np.abs(kept).sum(axis=1)).sum())
    assert largest <= log_chance_of_equality(release) + 1e-4
    assert log_chance_of_equality(release) < 0


SHAPES = {
    "2 x 2": {"a": ["x", "y"], "b": ["u", "v"]},
    "2 x 2, the same whole numbers": {"a": [1, 0], "b": [1, 0]},
    "3 x 3, strings and numbers": {"a": ["x", "y", "z"], "b": [7, 3, 5]},
    "1 x 3": {"a": ["x"], "b": [2, 0, 1]},
    "2 x 2 x 2": {"a": ["x", "y"], "b": [1, 0], "c": ["y", "x"]},
}


def numbers(labels):
    """Return a number for each cell, and an array of the numbers in the order of the labels."""
    cells = {cell: 10 + 3 * k + k * k for k, cell in enumerate(product(*labels.values()))}
    return cells, np.array(list(cells.values())).reshape([len(entries) for entries in labels.values()])


def measured_cells(labels, values, order, **law):
    seen = ppd.Measurements(labels, ppd.measured(inv.margin(*order), values, law.get("law", NOISE)))
    rows, columns = seen.entries.matrix.nonzero()
    found = np.empty(seen.entries.y.size, dtype=int)
    found[columns] = seen.entries.y[rows]
    return found


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("labels", SHAPES.values(), ids=SHAPES)
def test_arrays_with_named_dimensions_in_every_order_and_with_any_labels_omitted(labels):
    cells, values = numbers(labels)
    table = xr.DataArray(values, dims=list(labels), coords=labels)
    right = list(cells.values())
    subsets = [left for k in range(len(labels) + 1) for left in combinations(labels, k)]
    for order, left in product(permutations(labels), subsets):
        given = table.isel({dim: slice(None, None, -1) for dim in labels if dim not in left}).drop_vars(left)
        given = given.transpose(*order)
        for statement in (tuple(labels), tuple(labels)[::-1]):
            assert measured_cells(labels, given, statement).tolist() == right, (order, left, statement)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("labels", SHAPES.values(), ids=SHAPES)
def test_pandas_objects_and_stacked_arrays_in_every_order(labels):
    cells, values = numbers(labels)
    table, right = xr.DataArray(values, dims=list(labels), coords=labels), list(cells.values())
    for order in permutations(labels):
        series = table.transpose(*order).to_series().sample(frac=1, random_state=1)
        frame = series.unstack(list(order[1:]))
        for given in (series, frame, frame.T, table.stack(cell=order)):
            assert measured_cells(labels, given, tuple(labels)).tolist() == right, (order, type(given))


def test_scales_of_noise_are_matched_like_values():
    labels = SHAPES["2 x 2"]
    variance = xr.DataArray([[1, 2], [3, 4]], dims=("b", "a"), coords={"b": labels["b"]})
    seen = ppd.Measurements(
        labels, ppd.measured(inv.margin("a", "b"), np.zeros((2, 2)), ppd.laws.DiscreteGaussian(variance=variance))
    )
    found = {int(row): form.law.variance for form, rows in seen.entries.forms for row in rows}
    assert [found[row] for row in range(4)] == [1, 3, 2, 4]


def test_public_values_are_matched_like_values():
    labels = SHAPES["2 x 2"]
    exact = xr.DataArray([[1, 2], [3, 4]], dims=("b", "a"), coords={"a": labels["a"]})
    assert ppd.Measurements(labels, public={inv.margin("a", "b"): exact}).public.values.tolist() == [1, 3, 2, 4]


SQUARE = np.arange(4).reshape(2, 2)
WRONG = [
    (("a", "b"), xr.DataArray(SQUARE)),
    (("a", "b"), xr.DataArray(SQUARE, dims=("b", "c"))),
    (("a", "b"), xr.DataArray(SQUARE, dims=("b", "c"), coords={"b": ["u", "v"]})),
    (("a", "b"), xr.DataArray(SQUARE.ravel(), dims="b")),
    (("a", "b"), xr.DataArray(np.zeros((2, 2, 1)), dims=("b", "a", "c"))),
    (("a", "b"), xr.DataArray(np.zeros((3, 2)), dims=("b", "a"), coords={"a": ["x", "y"]})),
    (("a", "b"), xr.DataArray(SQUARE, dims=("b", "a"), coords={"b": ["u", "u"]})),
    (("a", "b"), xr.DataArray(SQUARE, dims=("b", "a"), coords={"b": [0, 1]})),
    (("a",), xr.DataArray([1, 2], dims="b")),
    (("a",), xr.DataArray([1, 2], dims="b", coords={"b": ["x", "y"]})),
    (("a",), xr.DataArray([1, 2])),
    (("a",), pd.Series([1, 2], index=pd.Index(["x", "y"], name="b"))),
]


@pytest.mark.parametrize(("by", "values"), WRONG, ids=range(len(WRONG)))
def test_dimensions_and_labels_that_do_not_fit_are_refused(by, values):
    with pytest.raises(LabelError):
        measured_cells(SHAPES["2 x 2"], values, by)


def test_groups_without_labels_are_in_the_order_of_the_groups_and_another_dimension_is_refused():
    labels, groups = SHAPES["2 x 2"], inv.groups("a", {"x": "one", "y": "two"})
    for dim in ("a", "region"):
        seen = ppd.Measurements(labels, ppd.measured(groups, xr.DataArray([5, 6], dims=dim), NOISE))
        assert seen.entries.y.tolist() == [5, 6]
    for statement in (groups, inv.margin("a") & inv.total()):
        values = xr.DataArray([5, 6, 7][: 2 if statement is groups else 3], dims="b")
        with pytest.raises(LabelError, match="dimension 'b'"):
            ppd.Measurements(labels, ppd.measured(statement, values, NOISE))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("labels", SHAPES.values(), ids=SHAPES)
def test_coordinates_are_matched_to_cells_by_label(labels):
    cells, values = numbers(labels)
    table = xr.DataArray(values, dims=list(labels), coords=labels)
    for order in permutations(labels):
        series = table.transpose(*order).to_series()
        reverse = {dim: slice(None, None, -1) for dim in labels}
        for given in (
            table.transpose(*order),
            table.transpose(*order).isel(reverse),
            table.transpose(*order).drop_vars(order[0]),
            series[::-1],
            (list(labels), series[::-1]),
        ):
            for stated in (labels, xr.zeros_like(table)):
                frame = ppd.Measurements(stated, coords={"persons": given}).frame
                assert frame.broadcast("persons").tolist() == list(cells.values()), (order, type(given))


def test_coordinates_without_labels_are_in_the_order_of_the_table():
    labels = {"a": ["x", "y"], "b": ["u", "v"]}
    rows = pd.Series([5, 6])
    for given in (
        ("b", [5, 6]),
        ("b", rows),
        xr.DataArray([5, 6], dims="b"),
        ("b", pd.Series([5, 6], index=["u", "v"])),
    ):
        frame = ppd.Measurements(labels, coords={"persons": given}).frame
        assert frame.broadcast("persons").tolist() == [5, 6, 5, 6]


UNFIT = [
    xr.DataArray([1, 2], dims="c"),
    xr.DataArray([1, 2, 3], dims="a"),
    xr.DataArray([1, 2], dims="a", coords={"a": ["x", "x"]}),
    xr.DataArray([1, 2], dims="a", coords={"a": [0, 1]}),
    pd.Series({"x": 1}).rename_axis("a"),
    pd.Series({"x": 1, "y": 2}),
    ("a", pd.Series({"y": 1, "x": 2})),
    ("b", pd.Series({"x": 1, "y": 2}).rename_axis("a").rename_axis("c")),
    ("a", [1, 2, 3]),
]


@pytest.mark.parametrize("given", UNFIT, ids=range(len(UNFIT)))
def test_coordinates_that_do_not_fit_are_refused(given):
    with pytest.raises(LabelError):
        ppd.Measurements(SHAPES["2 x 2"], coords={"persons": given})
