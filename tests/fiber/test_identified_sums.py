"""Ranges of sums over all integer tables against enumeration: nested, crossing, weighted, contradictory systems."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from ppdinf.errors import InvariantError
from ppdinf.fiber.identified_sums import Rows, identified_sums


def system(seed):
    """Return statements about a few cells from 0 to 4, wanted sums, and their values for all tables that agree."""
    rng = np.random.default_rng(seed)
    d, k = rng.integers(2, 6), rng.integers(1, 5)
    matrix = rng.integers(0, 2, (k, d)) if seed % 3 else rng.integers(-1, 3, (k, d))
    sums = matrix @ rng.integers(0, 5, d)
    low = sums - 1.0 * rng.integers(0, 3, k) * (rng.random(k) < 0.6)
    high = sums + 1.0 * rng.integers(0, 2, k)
    if seed % 10 == 0:  # perhaps contradictory
        low = low + rng.integers(-3, 4, k)
        high = np.maximum(high, low)
    wanted = np.vstack([np.eye(d, dtype=int), rng.integers(0, 2, (3, d))])
    tables = np.array(list(itertools.product(range(5), repeat=d)))
    agrees = ((tables @ matrix.T >= low) & (tables @ matrix.T <= high)).all(axis=1)
    cells = np.zeros(d), np.full(d, 4.0)
    return (Rows(sp.csr_array(matrix), low, high), cells, sp.csr_array(wanted)), tables[agrees] @ wanted.T


@pytest.mark.quick_cases(0)
def test_ranges_of_random_systems():
    contradictory = 0
    for seed in range(200):
        stated, values = system(seed)
        if len(values):
            low, high, exact = identified_sums(*stated)
            np.testing.assert_array_equal(low, values.min(axis=0), err_msg=str(seed))
            np.testing.assert_array_equal(high, values.max(axis=0), err_msg=str(seed))
            assert exact.all(), seed
        else:
            contradictory += 1
            with pytest.raises(InvariantError, match="no table"):
                identified_sums(*stated)
    assert contradictory > 2
