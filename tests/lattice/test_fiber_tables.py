"""All tables of small fibers, against a filtered grid."""

import numpy as np
import pytest
from grids import box

from ppdinf.lattice.points.fiber_tables import cell_intervals, fiber_tables


@pytest.mark.parametrize("seed", range(100))
def test_equals_a_filtered_grid(seed):
    rng = np.random.default_rng(seed)
    d, k = rng.integers(2, 5), rng.integers(1, 3)
    A, x = rng.integers(-1 if seed % 4 == 0 else 0, 3, size=(k, d)), rng.integers(0, 4, size=d)
    B, limits = np.vstack([np.eye(d, dtype=int), -np.eye(d, dtype=int)]), np.r_[np.zeros(d, int), np.full(d, -5)]
    if seed % 2:  # and a bound that connects cells
        row = np.zeros(d, dtype=int)
        row[:2] = 1, -1
        B, limits = np.vstack([B, row]), np.r_[limits, x[0] - x[1]]
    grid = box(0, 5, d)
    expected = grid[np.all(grid @ A.T == A @ x, axis=1) & np.all(grid @ B.T >= limits, axis=1)]
    found = fiber_tables(A, A @ x, B, limits)
    assert np.array_equal(found, expected)
    low, high = cell_intervals(A, A @ x, B, limits)
    assert np.all(low <= expected.min(axis=0))
    assert np.all(high >= expected.max(axis=0))


def test_large_and_infinite_fibers_return_none():
    none = np.zeros((0, 3), dtype=int), np.zeros(0, dtype=int)
    assert fiber_tables([[1, 1, 1]], np.array([3]), *none) is None
    positive = np.eye(3, dtype=int), np.zeros(3, dtype=int)
    assert len(fiber_tables([[1, 1, 1]], np.array([3]), *positive)) == 10
    assert fiber_tables([[1, 1, 1]], np.array([3]), *positive, most=9) is None
    assert fiber_tables([[1, 1, 1]], np.array([10**9]), *positive) is None
    assert len(fiber_tables([[1, 1, 1]], np.array([-1]), *positive)) == 0
