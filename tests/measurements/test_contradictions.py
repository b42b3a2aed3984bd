"""Errors on contradictory statements name the statements that contradict each other, by their labels."""

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf.errors import InvariantError
from ppdinf.lattice.feasible import conflicting_rows
from ppdinf.lattice.systems import integer_matrix

inv = ppd.invariants
LABELS = {"a": ["x", "y"], "b": ["u", "v", "w"]}
A, B, NONNEGATIVE = inv.margin("a"), inv.margin("b"), inv.nonnegative()
EXACT = ppd.laws.TransitionMatrix(np.eye(20))


def cell(a, b):
    return inv.cells({"a": a, "b": b})


def seen(*parts, **given):
    noisy = ppd.measured(inv.margin("a", "b"), [[1, 2, 3], [4, 5, 6]], ppd.laws.DiscreteGaussian(2))
    return ppd.Measurements(LABELS, noisy, *parts, **given)


SUMS = {
    "two margins": ({A: [5, 6], B: [1, 2, 3]}, ["a=x", "a=y", "b=u", "is 11", "is 6"]),
    "in the other order": ({B: [1, 2, 3], A: [5, 6]}, ["a=x", "a=y", "b=u", "is 11", "is 6"]),
    "a total": ({inv.total(): 12, A: [5, 6]}, ["'a=x'", "'a=y'", "'total'", "is 11", "is 12"]),
    "a cell above its row": ({A: [5, 6], cell("x", "u"): [8]}, ["'a=x'", "'a=x, b=u'", "'a=x, b=v at least 0'"]),
    "a cell above the total": ({inv.total(): 3, cell("y", "w"): [8]}, ["'total'", "'a=y, b=w'"]),
    "a cell above both sums": (
        {A: [5, 6], B: [0, 0, 11], cell("x", "u"): [1]},
        ["'b=u'", "'a=x, b=u'", "'a=y, b=u at"],
    ),
    "a negative row": ({A: [5, -2]}, ["'a=y'", "'a=y, b=u at least 0'"]),
}


@pytest.mark.parametrize("name", SUMS)
def test_exact_sums(name):
    public, named = SUMS[name]
    with pytest.raises(InvariantError, match="contradict each other") as refused:
        seen(public=public, bounds=NONNEGATIVE)
    assert [text for text in named if text not in str(refused.value)] == []


def test_a_cell_that_its_sum_excludes_is_named():
    parts = ppd.measured(B, [3, 3, 3], EXACT), ppd.measured(cell("x", "u"), [9], EXACT)
    with pytest.raises(InvariantError, match=r"'b=u' contradicts .* of the cell at a=x, b=u"):
        ppd.denoise(seen(*parts, public={inv.total(): 9}, bounds=NONNEGATIVE), 20, rng=1, progressbar=False)


REFUSED = {
    "text": ({"public": "total"}, "public must map statements to their values, .* found str"),
    "a list": ({"public": ["total"]}, "public must map statements to their values, .* found list"),
    "a number": ({"public": 3}, "public must map statements to their values, .* found int"),
    "text for a statement": ({"public": {"total": 3}}, "must be statements of ppdinf.invariants, such as total"),
    "a bound with a value": ({"public": {NONNEGATIVE: 3}}, "states no sum and has no value"),
    "text for bounds": ({"bounds": "nonnegative"}, "bounds must be statements .* found str"),
    "a bound that a row exceeds": (
        {"public": {A: [3, 6]}, "bounds": inv.between(0, 1)}, r"'a=y'\), bound .*'a=y, b=u at most 1'",
    ),
    "ranges for cells": ({"bounds": {cell("x", "u"): (1, 9)}}, "bounds must be statements .* found dict"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
def test_malformed_statements_and_bounds_are_refused_by_name(given, message):
    with pytest.raises(InvariantError, match=message):
        seen(**given)


@pytest.mark.parametrize("seed", range(30))
def test_conflicting_rows_are_infeasible_and_minimal(seed):
    """Rows are dropped one by one, and HiGHS finds a point of the others."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(seed)
    rows, d = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    M, m = rng.integers(0, 2, (rows, d)), rng.integers(-5, 9, rows)
    unit, low = np.eye(d, dtype=int), rng.integers(-2, 3, d)
    equal, above = conflicting_rows(integer_matrix(M), m, integer_matrix(unit), low)

    def feasible(equal, above):
        matrices = {"A_eq": M[equal], "b_eq": m[equal]} if len(equal) else {}
        bounds = [(low[i] if i in above else None, None) for i in range(d)]
        return linprog(np.zeros(d), bounds=bounds, **matrices).status == 0

    if not equal.size:
        assert feasible(np.arange(rows), np.arange(d))
        return
    assert not feasible(equal, above)
    for row in equal:
        assert feasible(equal[equal != row], above)
