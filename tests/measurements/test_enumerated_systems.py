"""Small systems against enumeration: the features of the random ones, and scales of noise that are 5 % off by law."""

import itertools
import math
from collections import Counter
from pathlib import Path

import measured_tables
import nested_enumeration
import numpy as np
import pytest
from measured_tables import ABSENT_BELOW, KINDS, ROUNDED
from scipy import stats
from scipy.special import gammaln

import ppdinf as ppd
from ppdinf.denoising.count_windows import published_windows
from ppdinf.denoising.table_gibbs import TableGibbs
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.fiber.gibbs.table_update import advance, directions

LAWS = {
    "discrete Gaussian noise": (0, "gaussian"),
    "double geometric noise": (1, "geometric"),
    "staircase noise": (None, "staircase"),
    "random rounding": (None, "rounding"),
    "transition matrices": (2, "matrix"),
    "thresholds and censored values": (3, "thresholded"),
}
OTHERS = [
    "exact sums", "bounds", "missing entries", "several numbers of one sum", "noise on sums of sums",
    "cells without information",
]  # fmt: skip


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
    text = (Path(__file__).parents[2] / "docs" / "denoising.md").read_text()
    table = "\n".join(row.replace("|  |", "| |") for row in rows)
    assert table in text, table


inv, laws = ppd.invariants, ppd.laws
RARE, MOST, LINES, DRAWS = 1e-5, 9, 24, 30_000
RATES = np.array([2.0, 1.0, 3.0, 1.5])
TABLES = np.array(list(itertools.product(range(MOST + 1), repeat=4)))
ROWS = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1], *np.eye(4, dtype=int)])
FAR = {  # far from the prior, so that the noise distribution dominates
    "gaussian": [9, 12, 11, 3, 6, 0, 7, 5],
    "geometric": [13, 14, 12, 9, 8, 4, 9, 6],
    "staircase": [15, 16, 14, 11, 9, 6, 9, 8],
    "rounding": [6, 6, 6, 3, 3, 0, 3, 3],
    "matrix": [0, 13, 5, 2, 8, 1, 3, 11],
    "thresholded": [None, None, 15, 12, None, None, 9, 7],
    "l2": [9, 12, 11, 3, 6, 0, 7, 5],
}


def l2(rng):
    return laws.L2Laplace(2), None


def posed(kind):
    """Return published numbers, and the log weight of every table given them."""
    y = FAR[kind]
    law, log_weight = l2(None) if kind == "l2" else KINDS[kind](np.random.default_rng(3))
    values = [np.nan if v is None else v for v in y]
    parts = [inv.margin("a"), inv.margin("b"), inv.margin("a", "b")]
    ends = [slice(0, 2), slice(2, 4), slice(4, 8)]
    measured = [ppd.measured(part, values[own], law) for part, own in zip(parts, ends, strict=True)]
    seen = ppd.Measurements({"a": [0, 1], "b": [0, 1]}, *measured, bounds=inv.between(0, MOST))
    sums = TABLES @ ROWS.T
    if kind == "l2":
        away = (sums - np.array(y)) ** 2
        return seen, -2 * sum(np.sqrt(away[:, own].sum(axis=1)) for own in ends)
    known = [{s: log_weight(v, s) for s in range(2 * MOST + 1)} for v in y]
    return seen, np.array([sum(at[s] for at, s in zip(known, row, strict=True)) for row in sums.tolist()])


def walked(seen):
    observed = ObservedMeasurements(seen)
    windows = published_windows(observed)
    walk, rng = TableGibbs(observed, windows), np.random.default_rng(1)
    counts = windows.counts
    weights = walk.fiber.log_noise + counts * np.log(RATES)[:, None] - gammaln(counts + 1)
    starts, cells, steps = directions(walk.fiber, LINES * DRAWS, rng)
    table, found = walk.start, np.empty((DRAWS, 4), dtype=np.int64)
    for k in range(DRAWS):
        own = starts[LINES * k : LINES * (k + 1) + 1]
        table = found[k] = advance(walk.fiber, table, [weights], (own, cells, steps), rng)
    return found


def p_value(draws, statistic, log_law):
    law = np.exp(log_law - log_law[np.isfinite(log_law)].max())
    law /= law.sum()
    order = np.argsort(statistic)
    bins = np.empty(law.size, dtype=int)
    bins[order] = np.minimum((np.cumsum(law[order]) * 12).astype(int), 11)
    number = draws @ (MOST + 1) ** np.arange(3, -1, -1)
    observed = np.bincount(bins[number], minlength=12)
    expected = np.bincount(bins, weights=law, minlength=12) * len(draws)
    kept = expected >= 5
    return float(stats.chisquare(observed[kept], expected[kept] * observed[kept].sum() / expected[kept].sum()).pvalue)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(
    "kind", [k if k in ("gaussian", "l2") else pytest.param(k, marks=pytest.mark.deep) for k in FAR]
)
def test_a_scale_five_percent_off_is_detected(kind):
    seen, log_weight = posed(kind)
    prior = (TABLES * np.log(RATES) - gammaln(TABLES + 1)).sum(axis=1)
    draws = walked(seen)
    statistic = np.where(np.isfinite(log_weight), log_weight, -1e3)
    assert p_value(draws, statistic, prior + log_weight) > RARE
    assert p_value(draws, statistic, prior + 1.05 * log_weight) < RARE


def test_the_oracle_has_every_law():
    assert set(FAR) == {*KINDS, "l2"}
    assert ROUNDED == ABSENT_BELOW == 3
    assert math.isclose(sum(FAR["rounding"]) % ROUNDED, 0)
