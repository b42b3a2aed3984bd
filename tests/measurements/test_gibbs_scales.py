"""The Gibbs sampler for overlapping noisy sums, by law: enumeration of all tables; a scale 5 % off is detected.

The statistic is the log weight of all measurements, which is proportional to a scale: chi-square on its bins, p above
1e-5 for the posterior and below for weights to the power 1.05.
"""

import itertools
import math

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
