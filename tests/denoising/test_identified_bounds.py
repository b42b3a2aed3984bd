"""Identified bounds against all tables."""

import itertools

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf import invariants as inv
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber import identified_sums

LABELS = {"area": ["A", "B"], "sex": ["f", "m", "x"]}
SUMS = {
    "nested": [inv.margin("area"), inv.total()],
    "crossing": [inv.margin("area"), inv.margin("sex")],
    "nothing": [],
    "one": [inv.margin("sex")],
}
TABLES = np.array(list(itertools.product(range(6), repeat=6)))


def stated(seed, sums):
    """Return measurements of a random table, and all tables that agree with them."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, (2, 3))
    published, agrees = np.empty((2, 3), dtype=object), np.ones(len(TABLES), dtype=bool)
    for k, value in enumerate(x.ravel().tolist()):
        low, high = [(0, 4), (1, 4), (value, value), (max(value - 1, 0), 5)][rng.integers(4)]
        if not low <= value <= high:
            low = high = value
        published.flat[k] = f"{low}-{high}" if low < high else str(value)
        agrees &= (low <= TABLES[:, k]) & (TABLES[:, k] <= high)
    public = {}
    for statement in SUMS[sums]:
        matrix = statement.on(xr.DataArray(x, LABELS)).A
        found, width = matrix @ x.ravel(), int(rng.integers(0, 3))
        public[statement] = found if width == 0 else [f"{max(v - width, 0)}-{v + 1}" for v in found.tolist()]
        low, high = (found, found) if width == 0 else (np.maximum(found - width, 0), found + 1)
        all_sums = TABLES @ matrix.toarray().T
        agrees &= ((low <= all_sums) & (all_sums <= high)).all(axis=1)
    cells = ppd.measured(inv.margin("area", "sex"), published, ppd.laws.Interval())
    return ppd.Measurements(LABELS, cells, public=public), TABLES[agrees]


def wrong(seen, tables, off=0):
    """Return whether bounds of cells or of sums differ from the smallest and largest of all tables."""
    for of, values in ((None, tables), (inv.margin("sex"), tables.reshape(-1, 2, 3).sum(axis=1))):
        found = ppd.identified_bounds(seen, of, progressbar=False)
        right = (found.lower == values.min(axis=0)) & (found.upper + off == values.max(axis=0))
        if not (right.all() and found.exact.all() and (found.lower == found.upper)[found.disclosed].all()):
            return True
    return False


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 135), marks=pytest.mark.deep)], ids=str)
def test_bounds_are_those_of_all_tables(seeds, sums):
    for seed in seeds:
        seen, tables = stated(seed, sums)
        assert not wrong(seen, tables), seed
    assert wrong(seen, tables, off=1)


@pytest.mark.quick_cases(0)
def test_integer_programmes_and_the_tree_of_sums_agree(monkeypatch):
    cases = [stated(seed, "nested")[0] for seed in range(20)]
    by_tree = [ppd.identified_bounds(seen, progressbar=False) for seen in cases]
    monkeypatch.setattr(identified_sums, "forest_of", lambda rows: None)
    for seen, found in zip(cases, by_tree, strict=True):
        pd.testing.assert_frame_equal(ppd.identified_bounds(seen, progressbar=False), found)


def test_propagation_over_single_rows_is_not_sufficient(monkeypatch):
    """A wrong variant that omits the programmes is noticed."""
    cases = [stated(seed, "crossing") for seed in range(10)]
    monkeypatch.setattr(identified_sums, "_solved", lambda *_: (None, np.nan))
    assert any(wrong(*case) for case in cases)


def test_bounds_hold_when_time_is_short():
    for seed in range(10):
        seen, tables = stated(seed, "crossing")
        found = ppd.identified_bounds(seen, seconds=0, progressbar=False)
        assert (found.lower <= tables.min(axis=0)).all()
        assert (found.upper >= tables.max(axis=0)).all()
        assert found.exact[found.disclosed].all()
        assert not found.exact.all() or (found.lower == tables.min(axis=0)).all()


def test_noise_bounds_nothing_and_rounding_does():
    noisy = ppd.measured(inv.margin("area"), [10, 3], ppd.laws.DoubleGeometric("1/4"))
    found = ppd.identified_bounds(ppd.Measurements({"area": ["A", "B"]}, noisy), progressbar=False)
    assert found.lower.tolist() == [0, 0]
    assert np.isinf(found.upper).all()
    assert found.exact.all()
    rounded = ppd.measured(inv.margin("area"), [10, 5], ppd.laws.RandomRounding(5))
    seen = ppd.Measurements({"area": ["A", "B"]}, rounded, public={inv.total(): 22})
    found = ppd.identified_bounds(seen, progressbar=False)
    assert found.lower.tolist() == [13, 8]
    assert found.upper.tolist() == [14, 9]
    assert found.index.tolist() == ["A", "B"]
    assert not found.disclosed.any()


def test_a_published_value_is_not_disclosed():
    cells = ppd.measured(inv.margin("area", "sex"), [["<5", "<5", "2-4"], ["20", "<5", "0"]], ppd.laws.Interval())
    seen = ppd.Measurements(LABELS, cells, public={inv.margin("area"): [10, 23]})
    found = ppd.identified_bounds(seen)
    assert found.index[found.disclosed].tolist() == [("B", "m")]
    assert found.loc[("B", "m"), "lower"] == found.loc[("B", "m"), "upper"] == 3
    assert not ppd.identified_bounds(seen, of=inv.margin("area")).disclosed.any()
    assert ppd.identified_bounds(seen, of=inv.total()).disclosed.all()


def test_public_bounds_are_statements():
    seen = ppd.Measurements({"area": ["A", "B", "C"]}, public={inv.total(): 9}, bounds=inv.between(2, 8))
    found = ppd.identified_bounds(seen)
    assert found.lower.tolist() == [2, 2, 2]
    assert found.upper.tolist() == [5, 5, 5]


def test_contradictions_are_named():
    cells = ppd.measured(inv.margin("area", "sex"), [["<5"] * 3] * 2, ppd.laws.Interval())
    with pytest.raises(InvariantError, match="area=A"):
        ppd.identified_bounds(ppd.Measurements(LABELS, cells, public={inv.margin("area"): [13, 2]}))


CELLS = inv.margin("area", "sex")
IMPOSSIBLE = {
    "exact": (lambda: ppd.Measurements(LABELS, public={CELLS: [[1, 2, 3], [4, -2, 6]]}), "'area=B, sex=m' .* as -2,"),
    "exact total": (lambda: ppd.Measurements(LABELS, public={inv.total(): -3}), "'total' is published as -3,"),
    "public range": (lambda: ppd.Measurements(LABELS, public={inv.total(): "<0"}), "'total' is published as <=-1,"),
    "range": (lambda: numbers(["<9", "<0"], ppd.laws.Interval()), "'area=B' is published as <=-1,"),
    "rounded": (lambda: numbers([5, -5], ppd.laws.Rounded(5)), "'area=B' is published as -5,"),
    "noise": (lambda: numbers([-4, -5], ppd.laws.AdditiveNoise({-4: 0.5, 4: 0.5})), "'area=B' is published as -5,"),
    "bound": (lambda: ppd.Measurements(LABELS, bounds=inv.between(-5, -2)), "the public bound .*area=A, sex=f"),
    "negative weights": (
        lambda: ppd.Measurements(LABELS, public={inv.linear([[-1] * 6], ["minus"]): [3]}),
        "'minus' is published as 3,",
    ),
}


def numbers(values, law):
    return ppd.Measurements(LABELS, ppd.measured(inv.margin("area"), values, law))


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_number_that_no_count_can_have_is_named(case):
    seen, message = IMPOSSIBLE[case][0](), f"{IMPOSSIBLE[case][1]}.*counts are not negative"
    with pytest.raises(InvariantError, match=message):
        ppd.identified_bounds(seen, progressbar=False)
    with pytest.raises(InvariantError, match=message):
        ppd.denoise(seen, draws=10, rng=1, progressbar=False)


def test_negative_numbers_with_noise_and_differences_are_possible():
    difference = inv.linear([[1, 0, 0, -1, 0, 0]], ["difference"])
    rounded = ppd.measured(inv.margin("area"), [-2, 0], ppd.laws.AdditiveNoise({-4: 0.5, 4: 0.5}))
    seen = ppd.Measurements(LABELS, rounded, public={difference: [-2]}, bounds=inv.between(-3, 9))
    assert ppd.identified_bounds(seen, inv.margin("area"), progressbar=False).upper.tolist() == [2, 4]


def test_two_numbers_of_one_cell_that_contradict_each_other_are_named():
    both = [ppd.measured(inv.margin("area"), [3, n], ppd.laws.Interval()) for n in (1, 2)]
    with pytest.raises(InvariantError, match="area=B"):
        ppd.identified_bounds(ppd.Measurements({"area": ["A", "B"]}, *both), progressbar=False)


@pytest.mark.parametrize(
    ("of", "message"), [("area", "must be a statement"), (inv.nonnegative(), "has no sums"), (3, "must be a statement")]
)
def test_unsuitable_sums_are_refused(of, message):
    seen, _ = stated(1, "nested")
    with pytest.raises(InvariantError, match=message):
        ppd.identified_bounds(seen, of)
    with pytest.raises(ModelError, match="takes Measurements"):
        ppd.identified_bounds(of)


def test_bounds_that_doubles_do_not_decide_are_not_called_exact():
    seen = ppd.Measurements(
        {"c": ["a", "b"]}, ppd.measured(inv.margin("c"), [f">={2**52}", "0-9"], ppd.laws.Interval()),
        public={inv.total(): 2**52 + 6},
    )  # fmt: skip
    assert not ppd.identified_bounds(seen, progressbar=False).exact.any()


@pytest.mark.parametrize("size", [10, 5 * 10**14, 2**50])
def test_bounds_of_large_counts_are_as_tight_as_those_of_small_counts(size):
    """Wrong variant: bounds that allow for rounding errors in sums of integers that doubles represent."""
    nested = ppd.Measurements(
        {"c": ["a", "b"]},
        ppd.measured(inv.margin("c"), [f"{size}-{size + 4}", "0-9"], ppd.laws.Interval()),
        public={inv.total(): size + 6},
    )
    crossing = ppd.Measurements(
        {"r": ["a", "b"], "c": ["x", "y"]},
        ppd.measured(inv.cells({"r": "a", "c": "x"}), [f">={size}"], ppd.laws.Interval()),
        public={inv.margin("r"): [size, size + 8], inv.margin("c"): [size + 3, size + 5]},
    )
    one, two = (ppd.identified_bounds(seen, progressbar=False) for seen in (nested, crossing))
    assert (one.lower - [size, 2]).tolist() == (one.upper - [size + 4, 6]).tolist() == [0, 0]
    assert two.disclosed.all()
    assert one.exact.all()
    assert two.exact.all()


@pytest.mark.parametrize("above", [True, False])
def test_infinite_ends_of_crossing_sums_are_exact(above):
    """Wrong variant: integers that can be added once."""
    law, limit = ppd.laws.Interval(), ">=4" if above else "<9"
    by_row = ppd.measured(inv.margin("r"), [">=3", limit], law)
    seen = ppd.Measurements(
        {"r": ["a", "b"], "c": ["x", "y"]}, by_row, ppd.measured(inv.margin("c"), [">=4", "<9"], law)
    )
    cells, rows = (ppd.identified_bounds(seen, of, progressbar=False) for of in (None, inv.margin("r")))
    largest = np.array(list(itertools.product(range(9), repeat=4)))
    largest = largest[(largest[:, 1] + largest[:, 3] < 9) & (above | (largest[:, 2] + largest[:, 3] < 9))].max(axis=0)
    assert cells.upper.tolist() == [np.inf, largest[1], np.inf if above else largest[2], largest[3]]
    assert rows.upper.tolist() == [np.inf, np.inf if above else 8]
    assert cells.exact.all()
    assert rows.exact.all()


def test_an_end_that_only_programmes_prove_to_be_finite_is_finite():
    """Propagation over single rows bounds no cell: 2 a - b <= 3 and 2 b - a <= 3 have the largest table (3, 3)."""
    law = ppd.laws.Interval()
    seen = ppd.Measurements({"c": ["a", "b"]}, ppd.measured(inv.linear([[2, -1], [-1, 2]]), ["<=3", "<=3"], law))
    found = ppd.identified_bounds(seen, progressbar=False)
    assert found.upper.tolist() == [3, 3]
    assert found.exact.all()
