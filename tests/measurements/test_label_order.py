"""Values and coordinates are matched to cells by dimension and label, in every permitted order."""

from itertools import combinations, permutations, product

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.errors import LabelError

inv = ppd.invariants
NOISE = ppd.laws.DiscreteGaussian(variance=4)
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
