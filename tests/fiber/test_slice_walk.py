"""Slice sampling along lines leaves the enumerated law of a table invariant; a level at a fixed distance does not.

Each chain starts at a separate draw from the law, so that all chains are independent. Chi-square p-values of all tables
are above 1e-6 in 4 tests: false alarm rate 1 in 250,000 runs.
"""

import itertools

import chi_square
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln

from ppdinf.fiber.gibbs import slice_walk
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums

WALKS, RARE, LOWER, WIDTH, SHAPE = 6000, 1e-6, np.array([-2, 1, 0]), 9, 0.6
TABLES = np.array(list(itertools.product(range(-2, 7), range(1, 10), range(9))))
SUMS = np.array([[1, 1, 0], [0, 1, 1], [2, 0, 1]])
Y = np.array([6, 9, 7])
MOVES = np.array([[1, 0, 0], [0, 1, 0], [0, 1, -1], [1, -1, 0], [1, -2, 1]])  # one public bound: x1 + x2 >= 3
SLOPE = np.array([-0.2, -0.1, -0.4])
RNG = np.random.default_rng(5)
TABLE = RNG.normal(0, 1, 40)  # log weights of the third sum from -5 on
CELLS = RNG.normal(0, 1, (3, WIDTH))  # weights with several modes


def posed():
    """Return log weights of cells, noisy sums of three kinds, and the law of all tables."""
    log_noise = np.where(LOWER[:, None] + np.arange(WIDTH) < 0, -np.inf, CELLS)
    ends, first = np.array([0, 0, 0, TABLE.size]), np.array([0, 0, -5])
    measured = MeasuredSums(
        sp.csc_array(SUMS), Y, np.array([0.3, 0.0, 0.0]), np.array([0.0, 0.5, 0.0]), ends, first, TABLE
    )
    sums = TABLES @ SUMS.T
    law = log_noise[np.arange(3), TABLES - LOWER].sum(axis=1) + TABLES @ SLOPE
    positive = np.maximum(TABLES, 0)
    law += (gammaln(positive + SHAPE) - gammaln(positive + 1) - gammaln(SHAPE)).sum(axis=1)
    law += -0.15 * (Y[0] - sums[:, 0]) ** 2 - 0.5 * abs(Y[1] - sums[:, 1]) + TABLE[sums[:, 2] + 5]
    law[TABLES[:, 1] + TABLES[:, 2] < 3] = -np.inf
    weight = np.exp(law - law.max())
    return log_noise, measured, weight / weight.sum()


def p_value(listed, walk):
    """Return the chi-square p-value of final tables of chains from the law; the prior is listed below `listed`."""
    log_noise, measured, law = posed()
    counts = np.arange(float(listed))
    log_h = gammaln(counts + SHAPE) - gammaln(counts + 1) - gammaln(SHAPE)
    v = sp.csc_array(np.vstack([MOVES.T, MOVES[:, 1] + MOVES[:, 2]]))  # the last row is the slack
    along = v.indptr.astype(np.int64), v.indices.astype(np.int64), v.data.astype(np.int64)
    rng = np.random.default_rng(2)
    states, found = rng.choice(law.size, size=WALKS, p=law), np.empty(WALKS, dtype=int)
    for n, state in enumerate(states.tolist()):
        x = np.append(TABLES[state], TABLES[state, 1:].sum() - 3)
        sums = SUMS @ x[:3]
        walk(x, *along, LOWER, log_noise, (log_h, SLOPE), measured.arrays, sums, rng)
        assert (sums == SUMS @ x[:3]).all()
        assert x[3] == x[1] + x[2] - 3
        found[n] = np.ravel_multi_index(tuple(x[:3] - LOWER), (WIDTH,) * 3)
    assert (found != states).mean() > 0.5
    return chi_square.p_value(found, law, least=8)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("listed", [2, 5, 30])
def test_the_law_of_the_table_is_invariant(listed):
    assert p_value(listed, slice_walk.walk_by_slices) > RARE


@pytest.mark.quick_cases(0)
def test_a_level_at_a_fixed_distance_is_rejected(monkeypatch):
    monkeypatch.setattr(slice_walk, "_level", lambda here, rng: here - 1.0)
    assert p_value(2, slice_walk.walk_by_slices.py_func) < RARE
