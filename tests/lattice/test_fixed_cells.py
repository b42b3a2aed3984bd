"""Cells that are determined by sums and bounds, against all tables of small systems."""

import numpy as np
import pytest
from grids import box
from scipy import sparse

from ppdinf.lattice.blocks import structure
from ppdinf.lattice.points import fiber_tables as module
from ppdinf.lattice.points.fiber_tables import cell_intervals, fixed_cells


def system(seed):
    """Return random sums and bounds of a table; some bounds are tight, some connect cells, some cells are unbounded."""
    rng = np.random.default_rng(seed)
    d, k = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    A = rng.integers(-1 if seed % 3 == 0 else 0, 3, size=(k, d))
    x = rng.integers(0, 4, size=d) * rng.integers(0, 2, size=d)
    eye, low, high = np.eye(d, dtype=int), np.zeros(d, dtype=int), np.full(d, 4)
    B, limits = np.vstack([eye, -eye]), np.r_[low, -high]
    for _ in range(seed % 3):
        row = rng.integers(-1, 2, size=d)
        B, limits = np.vstack([B, row]), np.r_[limits, row @ x - rng.integers(0, 2)]
    grid = box(0, 4, d)
    tables = grid[np.all(grid @ A.T == A @ x, axis=1) & np.all(grid @ B.T >= limits, axis=1)]
    A, B = (sparse.csr_array(M.astype(np.int64)) for M in (A, B))
    return A, A @ x, B, limits, tables.min(axis=0) == tables.max(axis=0)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("part", range(10))
def test_equals_enumeration(part):
    """Forty random systems per part; in some of them propagation alone misses a cell."""
    for seed in range(40 * part, 40 * part + 40):
        A, a, B, b, expected = system(seed)
        assert fixed_cells(structure(A), A, a, B, b).tolist() == expected.tolist(), seed


@pytest.mark.quick_cases(0)
def test_enumeration_rejects_propagation_alone_and_sums_alone(monkeypatch):
    """Wrong variants: propagation alone, and no bounds."""
    missed = {"propagation": 0, "sums": 0}
    monkeypatch.setattr(module, "SMALL", 0)
    for seed in range(200):
        A, a, B, b, expected = system(seed)
        found = fixed_cells(structure(A), A, a, B, b)
        assert not np.any(found & ~expected), seed  # only fixed cells are marked
        missed["propagation"] += not np.array_equal(found, expected)
        missed["sums"] += not np.array_equal(structure(A).fixed, expected)
    assert missed["propagation"] > 1
    assert missed["sums"] > 50


def test_cells_without_bounds_stay_free():
    """A cell without an upper limit: x1 + x2 = 5 with x1 >= 0 alone fixes no cell."""
    A, B = sparse.csr_array([[1, 1]]), sparse.csr_array([[1, 0]])
    assert not fixed_cells(structure(A), A, np.array([5]), B, np.array([0])).any()
    tight = sparse.csr_array([[1, 0], [0, 1]])
    assert fixed_cells(structure(A), A, np.array([5]), tight, np.array([2, 3])).all()


def test_large_counts_are_decided_in_integers():
    """2 x 2 tables with margins of 2**50: one unit is free, or no unit."""
    A = sparse.csr_array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    eye, n = sparse.csr_array(sparse.eye_array(4, dtype=np.int64)), 2**50
    for least, fixed in ((0, True), (1, False)):
        values = np.array([least, 2 * n - least, n, n])
        assert fixed_cells(structure(A), A, values, eye, np.zeros(4, dtype=np.int64)).all() == fixed


@pytest.mark.quick_cases(0)
def test_large_tables_are_propagated():
    """Row totals of zero in a table of 40,000 cells."""
    n = 200
    rows, columns = sparse.eye_array(n), np.ones((1, n))
    A = sparse.vstack([sparse.kron(rows, columns), sparse.kron(columns, rows)], format="csr").astype(np.int64)
    x = np.ones((n, n), dtype=np.int64)
    x[:3], x[:, :5] = 0, 0
    B = sparse.csr_array(sparse.eye_array(n * n, dtype=np.int64))
    low, high = cell_intervals(A, A @ x.ravel(), B, np.zeros(n * n, dtype=np.int64))
    assert (high[x.ravel() == 0] == 0).all()
    assert low.max() == 0
    found = fixed_cells(structure(A), A, A @ x.ravel(), B, np.zeros(n * n, dtype=np.int64))
    assert found.tolist() == (x.ravel() == 0).tolist()
