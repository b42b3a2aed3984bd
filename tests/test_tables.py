"""Tables are accepted unchanged or refused, and no error message shows a count."""

import re
import traceback
import unicodedata
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import ppdinf as ppd
from ppdinf.errors import CountError, LabelError, PrivacyWarning
from ppdinf.tables.frame import Frame
from ppdinf.tables.table import labelled_cells, ranked
from ppdinf.tables.totals import named_totals

COUNTS = (7_654_321, 8_123_457, 9_031_333)
"""Confidential counts that no message may show."""

NAMES = ["Adams", "Berks", "Chester"]


def county(values=COUNTS, labels=NAMES, **coords):
    values = np.array(values) if isinstance(values, list | tuple) else values
    further = {name: ("county", column) for name, column in coords.items()}
    return xr.DataArray(values, dims="county", coords={"county": labels} | further)


def objects(*labels):
    return np.array(labels, dtype=object)


def two_way(index, columns, values=None):
    return pd.DataFrame(np.array(values or [COUNTS[:2], COUNTS[1:]]), index=index, columns=columns)


ROWS, COLUMNS = pd.Index(["a", "b"], name="row"), pd.Index([1, 2], name="column")
LEVELS = pd.MultiIndex.from_tuples([("a", 1), ("b", 1), ("b", 2)], names=["row", "column"])

REFUSED_COUNTS = {
    "fractions": (county([7_654_321.5, 8_123_457.0, 9_031_333.0]), "fractional or infinite, the first at county=Adams"),
    "whole floats": (county([7_654_321.0, 8_123_457.0, 9_031_333.0]), "astype"),
    "nan": (county([7_654_321.0, np.nan, 9_031_333.0]), "1 cells are missing, the first at county=Berks: write 0"),
    "infinite": (county([7_654_321.0, np.inf, 9_031_333.0]), "the first at county=Berks"),
    "bool": (county([True, False, True]), "found bool"),
    "objects": (county(objects(*COUNTS)), "found object"),
    "missing object": (county(objects(*COUNTS[:2], None)), "the first at county=Chester"),
    "text": (county([str(count) for count in COUNTS]), "integer type"),
    "complex": (county([7_654_321j, 8_123_457j, 9_031_333j]), "complex128"),
    "datetime": (county(pd.to_datetime([1, 2, 3])), "datetime64"),
    "timedelta": (county(pd.to_timedelta([1, 2, 3])), "timedelta64"),
    "negative": (county([7_654_321, -8_123_457, 9_031_333]), "1 cells are negative, the first at county=Berks"),
    "beyond 2**53": (county([2**53 + 1, 1, 2]), "county=Adams exceeds 2"),
    "unsigned beyond int64": (county(np.array([1, 2**63 + 1, 2], dtype=np.uint64)), "county=Berks exceeds 2"),
    "masked": (np.ma.array(COUNTS, mask=[0, 1, 0]), "masked"),
    "masked in xarray": (xr.DataArray(np.ma.array(COUNTS, mask=[0, 1, 0]), dims="county"), "the first at county=1"),
    "pandas missing": (pd.Series([*COUNTS[:2], None], pd.Index(NAMES, name="county"), dtype="Int64"), "county=Chester"),
    "one number": (np.array(7_654_321), "a table must be an xarray"),
    "no array": ({"Adams": 7_654_321}, "found dict"),
    "no cells": (np.zeros((3, 0), dtype=int), "at least one cell"),
    "no columns": (pd.DataFrame(index=ROWS).rename_axis(columns="column"), "at least one cell"),
    "ragged": ([[7_654_321, 8_123_457], [9_031_333]], "equal length: write"),
    "Dataset": (xr.Dataset({"cases": county(), "deaths": county()}), "choose one of 'cases', 'deaths'"),
    "long table": (pd.DataFrame({"county": NAMES, "count": COUNTS}), r"as_table\(data, count="),
}

REFUSED_LABELS = {
    "twice": (county(labels=["Adams", "Adams", "Chester"]), "'county' contains label 'Adams' twice"),
    "number twice": (county(labels=[1, 2, 1]), "'county' contains label 1 twice"),
    "compatible form": (county(labels=["ﬁfth", "fifth", "x"]), "look alike"),
    "composed": (county(labels=["é", unicodedata.normalize("NFD", "é"), "x"]), "look alike"),
    "trailing blank": (county(labels=["Adams", "Adams ", "x"]), "look alike"),
    "double blank": (county(labels=["St  Clair", "St Clair", "x"]), "look alike"),
    "no-break blank": (county(labels=["St\u00a0Clair", "St Clair", "x"]), "look alike"),
    "tab": (county(labels=["St\tClair", "St Clair", "x"]), "look alike"),
    "invisible": (county(labels=["Ad\u200bams", "Adams", "x"]), "look alike"),
    "bell": (county(labels=["Adams\x07", "Adams", "x"]), "look alike"),
    "states alike": (county(state=["Ohio", "Ohio ", "Ohio"]), "coordinate 'state' contains"),
    "names alike": (county(**{"county ": ["a", "b", "c"]}), "names of dimensions and coordinates"),
    "null": (county(labels=objects("a\0", "b", "c")), "text files cannot"),
    "surrogate": (county(labels=np.array(["a\ud800", "b", "c"])), "text files cannot"),
    "nan": (county(labels=objects("a", np.nan, "c")), "'county' contains float at position 1"),
    "None": (county(state=objects("a", None, "c")), r"'state' contains (float|NoneType) at position 1"),
    "strings and numbers": (county(labels=objects("a", 2, "c")), "both strings and integers"),
    "bool": (county(labels=[True, False, True]), "type bool"),
    "bool objects": (county(state=objects(True, False, True)), "bool at position 0"),
    "dates": (county(labels=pd.to_datetime(["2020", "2021", "2022"])), "'2021-12'"),
    "durations": (county(state=np.array([1, 2, 3], dtype="m8[s]")), "timedelta64"),
    "decimals": (county(labels=[0.5, 1.5, 2.5]), "type float64"),
    "beyond 2**53": (county(labels=np.array([1, 2, 2**63 + 1], dtype=np.uint64)), "above 2"),
    "missing decimal": (
        county(density=[0.5, np.nan, 1.0]),
        "'density' contains a missing or infinite number at position 1",
    ),
    "bytes": (county(labels=np.array([b"a", b"b", b"c"])), "convert its labels"),
    "dimension of numbers": (xr.DataArray(np.array(COUNTS), dims=(3,)), "non-empty strings"),
    "dimension without a name": (xr.DataArray(np.array(COUNTS), dims=("",)), "non-empty strings"),
    "reserved dimension": (xr.DataArray(np.array(COUNTS), dims="draw"), "rename it"),
    "reserved coordinate": (county(released=[1, 2, 3]), "rename it"),
    "levels": (county().expand_dims("year").stack(both=("year", "county")), "several levels"),
    "combination absent": (pd.Series(COUNTS, LEVELS), r"1 combinations of row, column are absent, such as \('a', 2\)"),
    "combination twice": (pd.Series(COUNTS, LEVELS[[0, 1, 1]]), r"\('b', 1\) more than once"),
    "level missing": (
        pd.Series(COUNTS[:2], pd.MultiIndex.from_tuples([("a", 1), (None, 1)], names=["row", "column"])),
        "level 'row' of the index has a missing label in row 1",
    ),
    "most combinations absent": (
        pd.Series(range(9), pd.MultiIndex.from_arrays([range(9)] * 30, names=[f"level {k}" for k in range(30)])),
        "absent, such as",
    ),
    "unnamed index": (pd.Series(COUNTS), "name the index levels"),
    "unnamed columns": (two_way(ROWS, ["u", "v"]), r"\['row', None\]"),
    "one name twice": (two_way(ROWS, ["u", "v"]).rename_axis(columns="row"), "name the index levels"),
    "levels in rows": (two_way(LEVELS[:2], COLUMNS), "stack"),
}


@pytest.mark.parametrize(("data", "message"), REFUSED_COUNTS.values(), ids=REFUSED_COUNTS)
def test_refuses_invalid_counts(data, message):
    assert_refused(data, CountError, message)


@pytest.mark.parametrize(("data", "message"), REFUSED_LABELS.values(), ids=REFUSED_LABELS)
def test_refuses_labels_that_look_alike_or_cannot_be_written(data, message):
    assert_refused(data, LabelError, message)


def assert_refused(data, error, message):
    with pytest.raises(error, match=message) as caught:
        ppd.as_table(data)
    shown = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value.__cause__)
    digits = re.sub(r"[,_]", "", shown)
    assert not any(str(count) in digits for count in COUNTS), "a message shows a confidential count"


@pytest.mark.parametrize(
    ("data", "dims", "message"),
    [
        (county(), ("state",), "rename or transpose"),
        (np.zeros((2, 2), int), ("a",), "1 dimension names for an array with 2"),
        (np.zeros((2, 2), int), ("a", "a"), "unique name"),
        (two_way(ROWS, COLUMNS), ("column", "row"), "the index is named 'row', but dims states 'column'"),
        (two_way(ROWS, COLUMNS), ("row",), "pass dims|name the index"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
def test_refuses_dims_that_contradict_the_table(data, dims, message):
    if dims == ("row",):
        data = data.rename_axis(columns=None)
    with pytest.raises(LabelError, match=message):
        ppd.as_table(data, dims=dims)


def test_every_container_gives_the_same_table():
    values = np.array([[1, 2, 3], [4, 5, 6]])
    rows, columns = pd.Index(["b", "a"], name="row"), pd.Index([30, 10, 20], name="column")
    expected = xr.DataArray(values, dims=("row", "column"), coords={"row": objects("b", "a"), "column": columns})
    frame = pd.DataFrame(values, rows, columns)
    shuffled = frame.stack().iloc[[0, 1, 3, 2, 5, 4]]  # labels appear in the same order, cells do not
    for data in (
        expected,
        expected.astype(np.int8),
        expected.astype(np.uint64),
        frame,
        frame.astype("Int64"),
        frame.stack(),
        shuffled,
        pd.DataFrame(values, pd.CategoricalIndex(rows), columns),
    ):
        table = ppd.as_table(data)
        xr.testing.assert_identical(table.drop_attrs().rename(None), expected.astype(np.int64))
        assert table.dtype == np.int64


LONG = pd.DataFrame(
    {
        "sex": ["m", "f", "f", "m"], "county": ["B", "A", "B", "A"], "n": [5, 0, 731, 2],
        "persons": [60, 70, 60, 70], "share": [0.5, 0.25, 1.0, 2.0],
    }
)  # fmt: skip


def test_a_long_frame_is_read_with_its_covariates():
    table = ppd.as_table(LONG, count="n", dims=["county", "sex"], covariates=["persons", "share"])
    assert table.dims == ("county", "sex")
    assert table.sel(county="B", sex="f") == 731
    assert table.persons.dims == ("county",)
    assert table.persons.sel(county="A") == 70
    assert table.share.dims == ("county", "sex")
    assert table.share.sel(county="A", sex="m") == 2
    assert ppd.as_table(LONG[:2], count="n", dims=["sex"]).values.tolist() == [5, 0]
    for data, arguments, message in (
        (LONG, {"count": "n", "dims": ["county", "age"]}, "no column 'age'; it has 'sex', 'county'"),
        (LONG, {"count": "n", "dims": ["county"]}, "'B' twice"),
        (LONG, {"count": "n", "dims": ["n", "sex"]}, "'n' is named for more than one purpose"),
        (LONG[:3], {"count": "n", "dims": ["county", "sex"]}, "combinations of county, sex are absent"),
        (LONG, {"covariates": ["persons"]}, "name the counts with count="),
        (np.array([1, 2]), {"count": "n", "dims": ["county"]}, "one row per cell"),
    ):
        with pytest.raises(LabelError, match=message):
            ppd.as_table(data, **arguments)


@pytest.mark.parametrize("dims", [["county"], ["county", "sex"]])
def test_a_long_frame_without_rows_has_no_cells(dims):
    """Covariates do not change the error, and all labels of all dimensions give a table of zeros."""
    for covariates in ([], ["persons"]):
        with pytest.raises(CountError, match="at least one cell in each dimension"):
            ppd.as_table(LONG[:0], count="n", dims=dims, covariates=covariates)
    labels = {"county": ["A", "B"], "sex": ["f", "m"]}
    table = ppd.as_table(LONG[:0], count="n", dims=dims, labels={dim: labels[dim] for dim in dims})
    assert table.shape == (2,) * len(dims)
    assert not table.any()


def test_rows_of_persons_are_named_as_such():
    with pytest.raises(LabelError, match=r"one row per person, count them first, pd.crosstab") as caught:
        ppd.as_table(LONG[["sex", "county"]])
    assert "None" not in str(caught.value)
    assert ppd.as_table(pd.crosstab(LONG.county, LONG.sex)).dims == ("county", "sex")


@pytest.mark.parametrize("name", ["Total", "all", " TOTAL ", "Grand total"])
def test_totals_are_refused(name):
    table = county(labels=["Adams", "Berks", name])
    with pytest.raises(LabelError, match="a total would count everybody twice"):
        ppd.as_table(table)
    assert ppd.as_table(table, nonnegative=False).size == 3  # released tables are read unchanged
    assert ppd.as_table(xr.DataArray([3], dims="sex", coords={"sex": [name]})).size == 1
    with pytest.raises(LabelError, match="'All' among others"):
        ppd.as_table(pd.crosstab(LONG.county, LONG.sex, margins=True))


def test_chunks_are_computed_once():
    dask = pytest.importorskip("dask.array")
    reads = []
    lazy = dask.from_array(np.array(COUNTS), chunks=3).map_blocks(lambda block: reads.append(1) or block, dtype=int)
    reads.clear()
    assert ppd.as_table(county(lazy)).values.tolist() == list(COUNTS)
    assert len(reads) == 1


def test_a_table_is_a_copy():
    source = county()
    state = objects("x", "y", "z")
    source = source.assign_coords(state=("county", state))
    table = ppd.as_table(source)
    source[0] = 0
    state[0] = "changed"
    assert table.values.tolist() == list(COUNTS)
    assert table["state"].values.tolist() == ["x", "y", "z"]


def test_coordinates_follow_the_order_of_the_table():
    table = xr.DataArray(
        np.arange(6).reshape(2, 3), dims=("a", "b"), coords={"g": (("b", "a"), np.arange(6).reshape(3, 2))}
    )
    frame = Frame.of(table)
    assert frame.coords["g"][0] == ("a", "b")
    assert frame.broadcast("g").tolist() == [0, 2, 4, 1, 3, 5]
    assert frame.label("g", 1) == 2


def test_coordinates_and_attributes_of_tables():
    table = xr.DataArray(
        [1, 2], dims="c", coords={"c": ["x", "y"], "when": "2021", "density": ("c", np.array([0.1, 2], np.float32))}
    ).drop_indexes("c")
    table = ppd.as_table(table.assign_coords(code=("c", np.array([1, 2], dtype=object))))
    assert set(table.coords) == {"c", "density", "code"}  # where it was cut from is not part of it
    assert table["density"].dtype == np.float64
    assert table["code"].dtype == np.int64


def test_frames_differ_by_name():
    frame, _ = labelled_cells(county(state=["A", "A", "B"]))
    for other, message in [
        (county(labels=["Adams", "Chester", "Berks"]), "'Chester' at position 1 of 'county' where 'Berks' is expected"),
        (county(labels=[1, 2, 3]), "has 1 at position 0"),
        (county(state=["A", "B", "B"]), "'B' at position 1 of 'state'"),
        (county()[:2], r"\(2,\) labels along"),
        (county().rename(county="place"), "it lacks 'county'; 'place' is not expected"),
    ]:
        with pytest.raises(LabelError, match=message):
            frame.check_same(labelled_cells(other)[0], "the other table")
    table = xr.DataArray(np.ones((1, 1), dtype=int), dims=("county", "sex"))
    both, one, turned = (labelled_cells(each)[0] for each in (table, table[:, 0], table.T))
    for first, second, message in [
        (both, one, r"expected \('county', 'sex'\): it lacks 'sex'$"),
        (one, both, r"expected \('county',\): 'sex' is not expected$"),
        (both, turned, "transpose it first$"),
    ]:
        with pytest.raises(LabelError, match=message):
            first.check_dims(second, "the other table")
    frame.check_same(labelled_cells(county())[0], "a table without the coordinate")


def test_selecting_names_the_label_that_is_missing():
    frame, _ = labelled_cells(county(labels=["01001", "01003", "01005"]))
    with pytest.raises(LabelError, match="no label 1001; its labels are strings such as '01001'"):
        frame.select("county", [1001])
    assert frame.select("county", ["01005", "01001"]).tolist() == [True, False, True]


@given(
    st.lists(st.text(max_size=8), min_size=1, max_size=6).filter(
        lambda texts: not named_totals(objects(*texts))[0].any()
    )
)
def test_distinct_labels_pass_and_similar_labels_do_not(labels):
    """The fast path for plain text agrees with a comparison of visible forms."""

    def seen(label):
        shown = [
            c
            for c in unicodedata.normalize("NFKC", label)
            if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf")
        ]
        return " ".join("".join(shown).split())

    writable = all(unicodedata.category(c) != "Cs" and c != "\0" for label in labels for c in label)
    apart = len({seen(label) for label in labels}) == len(labels)
    table = xr.DataArray(np.ones(len(labels), int), dims="c", coords={"c": objects(*labels)})
    if writable and apart:
        assert ppd.as_table(table)["c"].values.tolist() == labels
    else:
        with pytest.raises(LabelError):
            ppd.as_table(table)


MICRODATA = pd.DataFrame({"county": list("CCCCBBBAA"), "sex": list("fffmmfmfm")})


@pytest.mark.parametrize(
    ("table", "dims"),
    [
        (MICRODATA["county"].value_counts(), ["county"]),
        (MICRODATA["county"].value_counts(ascending=True)[::-1], ["county"]),
        (MICRODATA["county"].value_counts().sort_index(), []),
        (pd.Series([5, 9, 2], pd.Index(["x", "z", "y"], name="county")), []),
        (pd.Series([5, 4, 4], pd.Index(["x", "z", "y"], name="county")), ["county"]),
        (pd.Series([4, 4, 4], pd.Index(["x", "z", "y"], name="county")), []),
        (pd.Series([5, 4], pd.Index(["m", "f"], name="sex")), []),
        (np.array([9, 5, 1]), []),
        (county([9, 5, 1], labels=[30, 10, 20]), ["county"]),
    ],
)
def test_labels_in_the_order_of_their_counts_are_detected(table, dims):
    """Sorted labels reveal nothing; tables sorted by their counts publish the confidential ranking."""
    assert ranked(*labelled_cells(table)) == dims
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1)
    if not dims:
        mechanism.release(table)
        return
    with pytest.warns(PrivacyWarning, match=f"labels of {dims[0]!r} are in the order of their counts") as caught:
        mechanism.release(table)
    shown = " ".join(str(entry.message) for entry in caught)
    order = [str(label) for label in ppd.as_table(table)[dims[0]].values]
    assert not any(repr(label) in shown for label in order)
    declared = ppd.invariants.labels(dims[0], ppd.as_table(table)[dims[0]].values.tolist())
    ppd.GeneralizedLaplace(declared, epsilon=1).release(table)


@pytest.mark.parametrize(
    ("told", "noticed"),
    [
        ((("a", "b"), [[5, 0, 2], [1, 1, 9]]), True),
        ((("b", "a"), [[0.05, 0.01], [0.0, 0.01], [0.02, 0.09]]), True),  # shares of a hundred persons, transposed
        ((("a", "b"), [[5, 0, 2], [1, 1, 8]]), False),
        ((("b",), [6, 1, 11]), False),
        ((("a", "b"), [[0, 0, 0], [0, 0, 0]]), False),
        ((("a", "b"), [["5", "0", "2"], ["1", "1", "9"]]), False),  # groups by name
    ],
)
def test_coordinates_that_are_the_counts_are_detected(told, noticed):
    """Such coordinates would be published without noise."""
    table = xr.DataArray([[5, 0, 2], [1, 1, 9]], dims=("a", "b"), coords={"told": told})
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total() & ppd.invariants.covariates("told"), epsilon=1)
    with pytest.warns(PrivacyWarning, match="'told' is proportional to the counts") if noticed else nullcontext():
        mechanism.release(table)
    if noticed and told[0] == ("a", "b"):
        by_row = xr.DataArray([[4, 4], [7, 7]], dims=("a", "b"), coords={"told": ("a", [4, 7])})
        with pytest.warns(PrivacyWarning, match="'told' is proportional to the counts"):
            mechanism.release(by_row)


def test_several_levels_sorted_by_their_cells_are_detected():
    """Levels are in the order of first appearance, which is the order of their largest cells."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {"place": rng.choice(list("DACB"), 400, p=[0.4, 0.3, 0.2, 0.1]), "sex": rng.choice(["f", "m"], 400)}
    )
    assert ranked(*labelled_cells(rows.value_counts())) == ["place"]
    assert ranked(*labelled_cells(rows.value_counts().sort_index())) == []
    with pytest.warns(PrivacyWarning, match="'place' are in the order"):
        ppd.PostProcessed(ppd.invariants.total(), epsilon=1).release(rows.value_counts())


DOMAIN = {"county": ["A", "B", "C", "D"], "sex": ["m", "f"]}


def test_absent_declared_labels_count_zero():
    counted = ppd.as_table(MICRODATA.value_counts(), labels=DOMAIN)
    assert counted.values.tolist() == [[1, 1], [2, 1], [1, 3], [0, 0]]
    assert counted.dtype == np.int64
    assert [counted[dim].values.tolist() for dim in ("county", "sex")] == list(DOMAIN.values())
    again = ppd.as_table(counted[:3, ::-1], labels=DOMAIN)
    assert again.equals(counted)
    frame = MICRODATA.value_counts().unstack("sex")
    assert ppd.as_table(frame, labels={"county": DOMAIN["county"]}).values.tolist() == [[1, 1], [1, 2], [3, 1], [0, 0]]
    public = ppd.invariants.labels("county", DOMAIN["county"]) & ppd.invariants.labels("sex", DOMAIN["sex"])
    release = ppd.GeneralizedLaplace(public, epsilon=1).release(counted)
    assert "the labels of county and their order" in release.guarantee.known
    for other in (counted[:3], counted[::-1]):
        with pytest.raises(
            LabelError, match=r"differ from the declared labels: ('D' is on one side only|their order differs)"
        ):
            ppd.GeneralizedLaplace(public, epsilon=1).release(other)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"county": ["A", "B"]}, "has the label 'C', which is not among"),
        ({"county": ["A", "B", "C", "C"]}, "contain a duplicate"),
        ({"place": ["A"]}, "labels are given for 'place'"),
        ({"county": "ABC"}, "by dimension, in their order"),
        (["A", "B", "C"], "by dimension, in their order"),
    ],
)
def test_declared_labels_that_do_not_fit(labels, message):
    with pytest.raises(LabelError, match=message):
        ppd.as_table(MICRODATA["county"].value_counts(), labels=labels)


def test_coordinates_have_no_value_for_labels_that_are_absent():
    """A population of 0 would be invented."""
    with pytest.raises(LabelError, match="coordinate 'persons' has no value"):
        ppd.as_table(county(persons=[10, 20, 30]), labels={"county": [*NAMES, "Dauphin"]})
    turned = ppd.as_table(county(persons=[10, 20, 30]), labels={"county": NAMES[::-1]})
    assert turned["persons"].values.tolist() == [30, 20, 10]


def test_one_dimension_has_one_name():
    assert ppd.as_table(np.array([3, 1, 2]), dims="county").dims == ("county",)


def test_data_frames_of_other_libraries_are_read_as_those_of_pandas():
    """Their labels, for example codes of counties, do not become counts. The class stands for polars and pyarrow."""

    class Frame(list):
        def to_pandas(self):
            return pd.DataFrame(self, columns=["county", "n"])

    frame = Frame([[42001, 3], [42003, 4]])
    table = ppd.as_table(frame, count="n", dims=["county"])
    assert table.to_series().to_dict() == {42001: 3, 42003: 4}
    for read in (ppd.as_table, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).release):
        with pytest.raises(LabelError, match="with one row per cell, name the columns by as_table"):
            read(frame)


@pytest.mark.parametrize("name", [3, ("sex", 1), 2.5])
def test_names_of_index_levels_are_text(name):
    with pytest.raises(LabelError, match="index level names must be non-empty strings"):
        ppd.as_table(pd.Series([1, 2], index=pd.Index(["a", "b"], name=name)))
    with pytest.raises(LabelError, match="index level names must be non-empty strings"):
        ppd.as_table(pd.DataFrame([[1, 2]], index=pd.Index(["a"], name="b"), columns=pd.Index(["u", "v"], name=name)))
