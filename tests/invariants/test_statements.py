"""Statements against plain loops: cells, zeros, matrices, bounds, covariates, sums; all through real JSON."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from random_tables import cells_of, sums_by_loop, tables

from ppdinf import invariants as inv
from ppdinf.errors import InvariantError, LabelError

TABLE = xr.DataArray(
    [[5, 0, 2], [3, 1, 1]],
    dims=("county", "measure"),
    coords={
        "county": ["x", "y"],
        "measure": ["cases", "deaths", "tests"],
        "state": ("county", ["A", "B"]),
        "density": ("county", [0.1, 2.5]),
    },
)
CELLS = pd.MultiIndex.from_product([["x", "y"], ["cases", "deaths", "tests"]])


@pytest.mark.quick_cases(0)
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_cells_and_zeros_equal_loops(data):
    table = data.draw(tables())
    names = data.draw(st.lists(st.sampled_from([*table.dims, "g"]), min_size=1, unique=True))
    where = {
        name: data.draw(st.lists(st.sampled_from(sorted(set(table[name].values.ravel().tolist()))), min_size=1))
        for name in names
    }
    match = [all(labels[name] in where[name] for name in names) for labels, _ in cells_of(table)]
    if not any(match):
        with pytest.raises(LabelError, match="no cell has"):
            inv.cells(where).on(table)
        return
    held, empty = inv.cells(where).on(table), inv.zeros(where).on(table)
    assert np.flatnonzero(match).tolist() == held.A.indices.tolist() == empty.A.indices.tolist()
    assert held.values.tolist() == table.values.ravel()[match].tolist()
    assert not empty.values.any()
    assert empty.empty.tolist() == match
    assert not held.empty.any()
    assert held.names == [held.frame.cell(k) for k in np.flatnonzero(match)]


@pytest.mark.quick_cases(0)
@settings(max_examples=50, deadline=None)
@given(tables(), st.integers(-5, 5), st.integers(6, 60))
def test_bounds_equal_loops(table, low, high):
    bound = inv.between(low, high).on(table)
    counts = [count for _, count in cells_of(table)]
    agrees = [low <= count for count in counts] + [count <= high for count in counts]
    assert bound.check(table)["agrees"].tolist() == agrees
    words = [f" at least {low}"] * len(counts) + [f" at most {high}"] * len(counts)
    assert bound.bound_names == [bound.frame.cell(k % len(counts)) + word for k, word in enumerate(words)]


def test_at_least_pairs_cells_along_a_dimension():
    bound = inv.at_least("cases", "deaths", dim="measure").on(TABLE)
    assert bound.B.toarray().tolist() == [[1, -1, 0, 0, 0, 0], [0, 0, 0, 1, -1, 0]]
    assert bound.bound_names == [
        "cases >= deaths at county=x, measure=cases",
        "cases >= deaths at county=y, measure=cases",
    ]
    one = inv.at_least("deaths", "tests", dim="measure").on(TABLE[0])
    assert one.bound_names == ["deaths >= tests at measure=deaths"]


@pytest.mark.parametrize(
    "kind", [list, np.array, sp.csr_array, sp.coo_matrix, lambda A: pd.DataFrame(A, columns=CELLS)]
)
def test_matrices_of_any_kind(kind):
    A = [[1, 0, 2, 0, 0, -1], [0, 1, 0, 0, 0, 0]]
    bound = inv.linear(kind(A), ["first", "second"]).on(TABLE)
    assert bound.values.tolist() == [5 + 4 - 1, 0]
    assert bound.names == ["first", "second"]
    below = inv.inequality(kind(A), [8, 1], ["first", "second"]).on(TABLE)
    assert below.check(TABLE)["agrees"].tolist() == [True, False]


@pytest.mark.parametrize(("declare", "error", "message"), [
    (lambda: inv.cells({}), LabelError, "choose cells by"),
    (lambda: inv.cells("x"), LabelError, "by a mapping"),
    (lambda: inv.cells({"county": []}), LabelError, "at least one of its labels"),
    (lambda: inv.cells({"county": None}), LabelError, "a label of 'county'"),
    (lambda: inv.cells({"county": {"x", "y"}}), LabelError, "a label of 'county'"),
    (lambda: inv.cells({"county": True}), LabelError, "a label of 'county'"),
    (lambda: inv.cells({"county": [0.5]}), LabelError, "a label of 'county'"),
    (lambda: inv.cells({3: "x"}), LabelError, "name of a coordinate"),
    (lambda: inv.linear([[0.5, 1]]), InvariantError, "row 0, column 0: 0.5 is not an integer"),
    (lambda: inv.linear([[np.nan, 1]], ["r"]), InvariantError, r"row 0 \('r'\), column 0: nan"),
    (lambda: inv.linear([[2**53 + 1, 1]]), InvariantError, "at most 2"),
    (lambda: inv.linear([[10**30, 1]]), InvariantError, "at most 2"),
    (lambda: inv.linear([[True, False]]), InvariantError, "write 0/1"),
    (lambda: inv.linear([1, 2]), InvariantError, "must be a matrix"),
    (lambda: inv.linear(np.zeros((0, 2))), InvariantError, "at least one row"),
    (lambda: inv.linear([[1, 2]], ["a", "b"]), InvariantError, "one name for each of the 1 rows of A, found 2"),
    (lambda: inv.linear([[1, 2], [2, 1]], ["a", "a"]), LabelError, "must be unique"),
    (lambda: inv.linear([[1, 2]], [3]), LabelError, "name of a row of A"),
    (lambda: inv.linear(pd.DataFrame([[1, 2]], columns=[0.5, 1.5])), LabelError, "a column of A"),
    (lambda: inv.inequality([[1, 1]], [0.5]), InvariantError, "limits, row 0"),
    (lambda: inv.inequality([[1, 1]], [1, 2]), InvariantError, "limits must have one entry for each of 1 rows"),
    (lambda: inv.between(None, None), InvariantError, "at least one limit"),
    (lambda: inv.between(3, 2), InvariantError, "no count lies between 3 and 2"),
    (lambda: inv.between(True, 2), InvariantError, "must be an integer"),
    (lambda: inv.between(0.0, 2), InvariantError, "must be an integer"),
    (lambda: inv.between(0, 2**53 + 1), InvariantError, "at most 2"),
    (lambda: inv.at_least("a", "a", dim="measure"), InvariantError, "'a' twice"),
    (lambda: inv.at_least(None, "a", dim="measure"), LabelError, "larger must be"),
    (lambda: inv.at_least("a", "b", dim=3), LabelError, "dimension of at_least"),
    (lambda: inv.covariates(), LabelError, "at least one"),
    (lambda: inv.covariates(3), LabelError, "name of a coordinate"),
    (lambda: inv.margin(), InvariantError, "use total"),
    (lambda: inv.margin("state", "state"), InvariantError, "twice: state, state"),
    (lambda: inv.margin(["state"]), LabelError, "must be a string"),
    (lambda: inv.groups("county", {}), LabelError, "'county' to parents is empty"),
    (lambda: inv.groups("county", ["A"]), LabelError, "found list"),
    (lambda: inv.groups("county", {"a1": None}), LabelError, "the parent of 'a1'"),
    (lambda: inv.groups("county", {True: "A"}), LabelError, "a label must be"),
    (lambda: inv.groups("county", {"a1": "A", "a2": "A\u00a0"}), LabelError, "look alike"),
    (lambda: inv.groups("county", {"a1": 1, "a2": "1"}), LabelError, "both as a string and as a number"),
    (lambda: inv.hierarchy(), InvariantError, "from coarse to fine"),
    (lambda: inv.hierarchy("state", "state"), InvariantError, "each once"),
    (lambda: inv.hierarchy("state", "county", parents={"a": "b"}), InvariantError, "single dimension"),
    (lambda: inv.hierarchy("county", parents={"a": "b", "b": "a"}), InvariantError, "cycle"),
    (lambda: inv.hierarchy("county", parents={"a": "b", "b": "c", "c": "b"}), InvariantError, "cycle"),
    (lambda: inv.hierarchy("county", parents={"a": "a"}), InvariantError, "cycle"),
    (lambda: inv.hierarchy("county", parents={"a": "A", "A": "N", "b": "N"}), InvariantError,
     "'b' has fewer ancestors"),
])  # fmt: skip
def test_refuses_malformed_declarations(declare, error, message):
    with pytest.raises(error, match=message):
        declare()


@pytest.mark.parametrize(("public", "error", "message"), [
    (inv.cells({"county": "z"}), LabelError, "'county' has no label 'z'"),
    (inv.cells({"county": 1}), LabelError, "its labels are strings such as 'x'"),
    (inv.cells({"density": 1}), LabelError, "'density' contains decimals"),
    (inv.zeros({"town": "x"}), LabelError, "no dimension or coordinate 'town'"),
    (inv.covariates("population"), LabelError, "no dimension or coordinate 'population'"),
    (inv.linear([[1, 1]], ["both"]), InvariantError, "the matrix with row 'both' has 2 columns, the table has 6 cells"),
    (inv.linear(pd.DataFrame([[1] * 6], ["all"], CELLS[::-1])), LabelError,
     r"row 'all' has \('y', 'tests'\) in column 0, where the cells of the table have \('x', 'cases'\)"),
    (inv.linear(pd.DataFrame([[1] * 6])), LabelError, r"has 0 in column 0"),
    (inv.at_least("cases", "recoveries", dim="measure"), LabelError, "'measure' has no label 'recoveries'"),
    (inv.at_least("A", "B", dim="state"), LabelError, "'state' is a coordinate"),
])  # fmt: skip
def test_refuses_tables_that_do_not_fit(public, error, message):
    with pytest.raises(error, match=message):
        public.on(TABLE)


EVERYTHING = (
    inv.total()
    & inv.total(weights="w")
    & inv.margin("county", "measure")
    & inv.groups("county", {"x": "P", "y": 3})
    & inv.hierarchy("state", "county")
    & inv.hierarchy("county", parents={"x": "p", "y": "q", "p": "r", "q": "r"})
    & inv.cells({"county": np.str_("x"), "measure": np.array(["cases", "tests"])})
    & inv.zeros({"county": ["x"], "year": np.arange(2)})
    & inv.linear(sp.csr_array([[1, 0, -7]]), ['quoted "row", with comma'])
    & inv.linear(pd.DataFrame([[1] * 6], ["all"], CELLS))
    & inv.inequality([[1, 1]], [np.int64(3)])
    & inv.covariates("density", "state")
    & inv.nonnegative()
    & inv.between(None, np.int64(9))
    & inv.at_least("cases", 0, dim="measure")
)


def test_every_kind_of_statement_survives_json():
    kinds = {entry["kind"] for entry in EVERYTHING.to_dict()}
    assert kinds == {
        "sums", "parents", "cells", "zeros", "linear", "linear-bound", "covariates", "between", "at-least",
    }  # fmt: skip
    again = inv.Public.from_dict(json.loads(json.dumps(EVERYTHING.to_dict())))
    assert again == EVERYTHING
    assert str(again) == str(EVERYTHING)
    assert hash(again) == hash(EVERYTHING)


def test_joining_drops_repetitions_and_nothing_else():
    assert (inv.total() & inv.nonnegative() & inv.total()) == (inv.total() & inv.nonnegative())
    assert len((inv.total() & inv.total(weights="w")).statements) == 2
    with pytest.raises(TypeError):
        inv.total() & "state"


def test_sentences_list_published_and_known_statements():
    assert str(inv.Public()) == "Published exactly: nothing."
    public = (
        inv.cells({"county": "x", "measure": ["cases", "tests"]}) & inv.linear([[1] * 6]) & inv.covariates("density")
    )
    public = public & inv.zeros({"county": "y"}) & inv.between(None, 9) & inv.at_least("cases", "deaths", dim="measure")
    assert str(public & inv.inequality([[1]], [2], ["low"])) == (
        "Published exactly: every count with county = x and measure = cases or tests; 1 weighted sum (row 0); the "
        "coordinate density. Known: no one can have county = y; every count is at most 9; cases >= deaths; low >= 2."
    )


@pytest.mark.quick_cases(0)
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_foreign_statements_are_refused_by_kind_and_field(data):
    """Any one field replaced by an invalid value is refused by a typed error, or is another valid statement."""
    entry = data.draw(st.sampled_from(json.loads(json.dumps(EVERYTHING.to_dict()))))
    junk = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=6,
    )
    changed = entry | {data.draw(st.sampled_from([*entry, "another"])): data.draw(junk)}
    try:
        public = inv.Public.from_dict([changed])
    except (InvariantError, LabelError):
        return
    assert json.loads(json.dumps(public.to_dict(), allow_nan=False)) == [changed]
    str(public)


@pytest.mark.parametrize("given", [[np.inf, 0, 1], [None, "a", "b"], ["a"], [["a", 1], ["b", np.nan], ["c", 1]]])
def test_labels_of_the_columns_of_a_matrix_are_labels_one_for_each(given):
    entry = inv.linear(pd.DataFrame([[1, 0, -7]], ["q"], ["a", "b", "c"])).to_dict()[0]
    with pytest.raises((InvariantError, LabelError), match=r"a column of a matrix|labels of 1"):
        inv.Public.from_dict([entry | {"cells": given}])


@pytest.mark.parametrize("data", [None, {}, "sums", [None], [[]], [{"kind": []}], [{"kind": "sums"}]])
def test_invalid_statements_are_refused(data):
    with pytest.raises(InvariantError):
        inv.Public.from_dict(data)


def test_and_and_or_do_not_drop_statements():
    """``a and b`` is b in Python: a statement would silently not be public."""
    for joined in (
        lambda: inv.total() and inv.margin("x"),
        lambda: inv.total() or inv.margin("x"),
        lambda: not inv.total(),
        lambda: bool(inv.Public()),
    ):
        with pytest.raises(InvariantError, match="join them by '&'"):
            joined()


STATES = xr.DataArray(
    [3, 1, 2, 7],
    dims="county",
    coords={
        "county": ["a1", "a2", "b1", "c1"],
        "state": ("county", ["A", "A", "B", "C"]),
        "region": ("county", ["N", "N", "N", "S"]),
        "persons": ("county", [2, 3, 1, 4]),
        "density": ("county", [0.5, 1.5, 2.5, 3.5]),
    },
)


def labelled(bound):
    return dict(zip(bound.names, bound.values.tolist(), strict=True))


@pytest.mark.quick_cases(0)
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_margins_equal_loops(data):
    table = data.draw(tables())
    by = data.draw(st.lists(st.sampled_from([*table.dims, "g"]), min_size=1, unique=True))
    weights = data.draw(st.sampled_from([None, "w"]))
    bound = inv.margin(*by, weights=weights).on(table)
    expected = sums_by_loop(table, by, weights)
    suffix = "" if weights is None else f" weighted by {weights}"
    assert labelled(bound) == {name + suffix: value for name, value in expected.items()}
    assert bound.names == [name + suffix for name in expected]
    assert (bound.A @ table.values.ravel()).tolist() == list(expected.values())
    assert inv.total(weights=weights).on(table).values.tolist() == [sum(expected.values())]


@pytest.mark.quick_cases(0)
@settings(max_examples=50, deadline=None)
@given(st.data())
def test_mappings_equal_groups(data):
    """A mapping of labels to parents and a coordinate with the same parents are the same sums."""
    table = data.draw(tables())
    dim = data.draw(st.sampled_from(table.dims))
    labels = table[dim].values.tolist()
    parents = {label: data.draw(st.sampled_from("PQ")) for label in labels}
    mapped = inv.groups(dim, parents | {"not in the table": "Z"}).on(table)
    marked = inv.groups("p").on(table.assign_coords(p=(dim, [parents[label] for label in labels])))
    assert mapped.values.tolist() == marked.values.tolist()
    assert (mapped.A != marked.A).nnz == 0
    assert mapped.names == [name.replace("p=", f"{dim} in ") for name in marked.names]


def test_a_hierarchy_publishes_each_level():
    assert labelled(inv.hierarchy("region", "state", "county").on(STATES)) == {
        "total": 13, "region=N": 6, "region=S": 7, "state=A": 4, "state=B": 2, "state=C": 7,
        "county=a1": 3, "county=a2": 1, "county=b1": 2, "county=c1": 7,
    }  # fmt: skip
    tree = {"a1": "A", "a2": "A", "b1": "B", "c1": "C", "A": "N", "B": "N", "C": "S", "N": "all", "S": "all"}
    for parents in (tree, pd.Series(tree)):
        assert labelled(inv.hierarchy("county", parents=parents).on(STATES)) == {
            "total": 13, "county in A": 4, "county in B": 2, "county in C": 7, "county in N": 6, "county in S": 7,
        }  # fmt: skip
    forest = {label: parent for label, parent in tree.items() if parent != "all"}
    assert (
        inv.hierarchy("county", parents=forest).on(STATES).names
        == inv.hierarchy("county", parents=tree).on(STATES).names
    )


@pytest.mark.parametrize(
    ("public", "error", "message"),
    [
        (inv.margin("tract"), LabelError, "no dimension or coordinate 'tract'; it has 'county', 'state'"),
        (inv.groups("density"), LabelError, "'density' contains decimals"),
        (inv.total(weights="density"), LabelError, "weights 'density' must be an integer"),
        (inv.total(weights="state"), LabelError, "weights 'state' must be an integer"),
        (inv.groups("county", {"a1": "A", "a2": "A"}), LabelError, "lacks the label 'b1'; it has labels such as 'a1'"),
        (inv.groups("county", {1: "A"}), LabelError, "lacks the label 'a1'; it has labels such as 1"),
    ],
)
def test_refuses_tables_without_the_named_coordinates(public, error, message):
    with pytest.raises(error, match=message):
        public.on(STATES)


def test_refuses_a_county_in_two_states():
    both = STATES.assign_coords(name=("county", ["Adams", "Berks", "Adams", "Clay"]))
    with pytest.raises(InvariantError, match="name=Adams lies in state=A and in state=B, so the levels do not nest"):
        inv.hierarchy("state", "name").on(both)
    assert len(inv.margin("state", "name").on(both).names) == 4


def test_many_crossed_coordinates_do_not_overflow():
    """Forty coordinates of three labels each have more combinations than an integer can represent."""
    rng = np.random.default_rng(1)
    coords = {f"k{k}": ("cell", rng.integers(3, size=50)) for k in range(40)}
    table = xr.DataArray(np.ones(50, dtype=int), dims="cell", coords=coords)
    bound = inv.margin(*coords).on(table)
    combinations = {tuple(row) for row in np.column_stack([values for _, values in coords.values()]).tolist()}
    assert len(bound.names) == len(combinations)


def test_sentences():
    assert str(inv.total(weights="persons") & inv.margin("sex", "age", weights="persons")) == (
        "Published exactly: the total, weighted by persons; the sum, weighted by persons, for every sex and age."
    )
    assert str(inv.groups("county", {"a": "A", "b": "A", "c": "B"})) == (
        "Published exactly: the sum for every group of county (2 groups)."
    )
