"""Features of the random small systems that are compared with enumeration: the count in docs/measurements.md."""

from collections import Counter
from pathlib import Path

import measured_tables
import nested_enumeration
import numpy as np
import pytest

LAWS = {
    "discrete Gaussian noise": (0, "gaussian"),
    "double geometric noise": (1, "geometric"),
    "staircase noise": (None, "staircase"),
    "random rounding": (None, "rounding"),
    "transition matrices": (2, "matrix"),
    "thresholds and censored values": (3, "thresholded"),
}
OTHERS = [
    "exact sums",
    "bounds",
    "missing entries",
    "several numbers of one sum",
    "noise on sums of sums",
    "cells without information",
]


def tree_kinds(p):
    """Return the features of a system of nested sums: exact values, bounds, and noise of sums that contain others."""
    above = np.isin(np.arange(p.parent.size), p.parent)
    sums, _, laws = np.array(p.measured, dtype=np.int64).reshape(-1, 3).T
    return {name for name, (law, _) in LAWS.items() if law in laws} | {
        name
        for name, there in zip(
            OTHERS,
            [
                (above & (p.least == p.most)).any(),
                (above & (p.least < p.most) & (p.most < 1000)).any(),
                np.setdiff1d(np.arange(p.parent.size), sums).size > 0,
                np.unique(sums).size < sums.size,
                above[sums].any(),
                (p.node < 0).any(),
            ],
            strict=True,
        )
        if there
    }


def overlapping_kinds(p):
    """Return the features of a system of arbitrary sums; every cell has bounds."""
    rows = [tuple(row) for row, _, _ in p.terms]
    there = [p.exact is not None, True, p.missing, len(set(rows)) < len(rows)]
    names = {name for name, (_, kind) in LAWS.items() if kind in p.kinds}
    return names | {name for name, found in zip(OTHERS[:4], there, strict=True) if found}


@pytest.mark.quick_cases(0)
def test_the_documented_count_is_that_of_the_tests():
    trees, overlapping = Counter(), Counter()
    for far in nested_enumeration.CONTRADICTIONS:
        for p in nested_enumeration.problems(nested_enumeration.SYSTEMS, seed=far, contradiction=far):
            trees.update({"all": 1} | dict.fromkeys(tree_kinds(p), 1))
    for seed in range(measured_tables.SYSTEMS):
        overlapping.update({"all": 1} | dict.fromkeys(overlapping_kinds(measured_tables.Problem(seed)), 1))
    assert all(trees[name] + overlapping[name] > 30 for name in [*LAWS, *OTHERS])
    rows = [f"| {name} | {trees[name] or ''} | {overlapping[name] or ''} |" for name in ["all", *LAWS, *OTHERS]]
    text = (Path(__file__).parents[2] / "docs" / "measurements.md").read_text()
    table = "\n".join(row.replace("|  |", "| |") for row in rows)
    assert table in text, table
