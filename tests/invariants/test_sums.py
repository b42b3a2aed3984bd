"""Totals, margins, groups and hierarchies against sums by plain loops."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from random_tables import sums_by_loop, tables

from ppdinf.errors import InvariantError, LabelError
from ppdinf.invariants import groups, hierarchy, margin, total

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
    bound = margin(*by, weights=weights).on(table)
    expected = sums_by_loop(table, by, weights)
    suffix = "" if weights is None else f" weighted by {weights}"
    assert labelled(bound) == {name + suffix: value for name, value in expected.items()}
    assert bound.names == [name + suffix for name in expected]
    assert (bound.A @ table.values.ravel()).tolist() == list(expected.values())
    assert total(weights=weights).on(table).values.tolist() == [sum(expected.values())]


@pytest.mark.quick_cases(0)
@settings(max_examples=50, deadline=None)
@given(st.data())
def test_mappings_equal_groups(data):
    """A mapping of labels to parents and a coordinate with the same parents are the same sums."""
    table = data.draw(tables())
    dim = data.draw(st.sampled_from(table.dims))
    labels = table[dim].values.tolist()
    parents = {label: data.draw(st.sampled_from("PQ")) for label in labels}
    mapped = groups(dim, parents | {"not in the table": "Z"}).on(table)
    marked = groups("p").on(table.assign_coords(p=(dim, [parents[label] for label in labels])))
    assert mapped.values.tolist() == marked.values.tolist()
    assert (mapped.A != marked.A).nnz == 0
    assert mapped.names == [name.replace("p=", f"{dim} in ") for name in marked.names]


def test_a_hierarchy_publishes_each_level():
    assert labelled(hierarchy("region", "state", "county").on(STATES)) == {
        "total": 13, "region=N": 6, "region=S": 7, "state=A": 4, "state=B": 2, "state=C": 7,
        "county=a1": 3, "county=a2": 1, "county=b1": 2, "county=c1": 7,
    }  # fmt: skip
    tree = {"a1": "A", "a2": "A", "b1": "B", "c1": "C", "A": "N", "B": "N", "C": "S", "N": "all", "S": "all"}
    for parents in (tree, pd.Series(tree)):
        assert labelled(hierarchy("county", parents=parents).on(STATES)) == {
            "total": 13, "county in A": 4, "county in B": 2, "county in C": 7, "county in N": 6, "county in S": 7,
        }  # fmt: skip
    forest = {label: parent for label, parent in tree.items() if parent != "all"}
    assert hierarchy("county", parents=forest).on(STATES).names == hierarchy("county", parents=tree).on(STATES).names


@pytest.mark.parametrize(
    ("declare", "error", "message"),
    [
        (lambda: margin(), InvariantError, "use total"),
        (lambda: margin("state", "state"), InvariantError, "twice: state, state"),
        (lambda: margin(["state"]), LabelError, "must be a string"),
        (lambda: groups("county", {}), LabelError, "'county' to parents is empty"),
        (lambda: groups("county", ["A"]), LabelError, "found list"),
        (lambda: groups("county", {"a1": None}), LabelError, "the parent of 'a1'"),
        (lambda: groups("county", {True: "A"}), LabelError, "a label must be"),
        (lambda: groups("county", {"a1": "A", "a2": "A\u00a0"}), LabelError, "look alike"),
        (lambda: groups("county", {"a1": 1, "a2": "1"}), LabelError, "both as a string and as a number"),
        (lambda: hierarchy(), InvariantError, "from coarse to fine"),
        (lambda: hierarchy("state", "state"), InvariantError, "each once"),
        (lambda: hierarchy("state", "county", parents={"a": "b"}), InvariantError, "single dimension"),
        (lambda: hierarchy("county", parents={"a": "b", "b": "a"}), InvariantError, "cycle"),
        (lambda: hierarchy("county", parents={"a": "b", "b": "c", "c": "b"}), InvariantError, "cycle"),
        (lambda: hierarchy("county", parents={"a": "a"}), InvariantError, "cycle"),
        (
            lambda: hierarchy("county", parents={"a": "A", "A": "N", "b": "N"}),
            InvariantError,
            "'b' has fewer ancestors",
        ),
    ],
)
def test_refuses_malformed_declarations(declare, error, message):
    with pytest.raises(error, match=message):
        declare()


@pytest.mark.parametrize(
    ("public", "error", "message"),
    [
        (margin("tract"), LabelError, "no dimension or coordinate 'tract'; it has 'county', 'state'"),
        (groups("density"), LabelError, "'density' contains decimals"),
        (total(weights="density"), LabelError, "weights 'density' must be an integer"),
        (total(weights="state"), LabelError, "weights 'state' must be an integer"),
        (groups("county", {"a1": "A", "a2": "A"}), LabelError, "lacks the label 'b1'; it has labels such as 'a1'"),
        (groups("county", {1: "A"}), LabelError, "lacks the label 'a1'; it has labels such as 1"),
    ],
)
def test_refuses_tables_without_the_named_coordinates(public, error, message):
    with pytest.raises(error, match=message):
        public.on(STATES)


def test_refuses_a_county_in_two_states():
    both = STATES.assign_coords(name=("county", ["Adams", "Berks", "Adams", "Clay"]))
    with pytest.raises(InvariantError, match="name=Adams lies in state=A and in state=B, so the levels do not nest"):
        hierarchy("state", "name").on(both)
    assert len(margin("state", "name").on(both).names) == 4


def test_many_crossed_coordinates_do_not_overflow():
    """Forty coordinates of three labels each have more combinations than an integer can represent."""
    rng = np.random.default_rng(1)
    coords = {f"k{k}": ("cell", rng.integers(3, size=50)) for k in range(40)}
    table = xr.DataArray(np.ones(50, dtype=int), dims="cell", coords=coords)
    bound = margin(*coords).on(table)
    combinations = {tuple(row) for row in np.column_stack([values for _, values in coords.values()]).tolist()}
    assert len(bound.names) == len(combinations)


def test_sentences():
    assert str(total(weights="persons") & margin("sex", "age", weights="persons")) == (
        "Published exactly: the total, weighted by persons; the sum, weighted by persons, for every sex and age."
    )
    assert str(groups("county", {"a": "A", "b": "A", "c": "B"})) == (
        "Published exactly: the sum for every group of county (2 groups)."
    )
