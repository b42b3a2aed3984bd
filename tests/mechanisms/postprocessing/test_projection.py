"""Projections against enumeration of all faces, and against each other."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice import margin_matrix
from ppdinf.mechanisms.postprocessing.projection import onto_bounds, onto_simplices, onto_sums


def by_faces(y, A, a, B, b, w):
    """Nearest feasible point among the projections onto every set of active bounds (dense pseudo-inverses)."""
    best, least = None, np.inf
    root = np.sqrt(w)
    for size in range(len(b) + 1):
        for active in map(list, itertools.combinations(range(len(b)), size)):
            E, e = np.vstack([A, B[active]]), np.concatenate([a, b[active]])
            x = y + np.linalg.pinv(E / root) @ (e - E @ y) / root
            if np.abs(E @ x - e).max(initial=0) < 1e-8 and (B @ x >= b - 1e-8).all() and w @ (x - y) ** 2 < least:
                best, least = x, w @ (x - y) ** 2
    return best


def small_problems(seed, n):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        d = int(rng.integers(2, 7))
        A = rng.integers(0, 2, size=(int(rng.integers(1, 3)), d))
        A = np.vstack([A, A.sum(axis=0)])  # a redundant sum
        B = np.eye(d, dtype=int)
        B[-1, 0] = -1  # the last cell is at least the first
        x = rng.poisson(2, d)
        x[-1] += x[0]
        yield x + rng.integers(-6, 7, d), A, A @ x, B, np.zeros(d, dtype=int), rng.choice([0.5, 1.0, 3.0], d)


def test_nearest_among_all_faces():
    moved = 0
    for y, A, a, B, b, w in small_problems(1, 60):
        expected = by_faces(y, A, a, B, b, w)
        found = onto_bounds(y, A, a, B, b, w)
        assert found == pytest.approx(expected, abs=1e-9)
        assert A @ found == pytest.approx(a, abs=1e-10)
        unweighted = onto_bounds(y, A, a, B, b)
        clipped = np.maximum(onto_sums(y, A, a, w), 0)  # the wrong way: projects, then clips
        moved += not np.allclose(unweighted, expected) and not np.allclose(clipped, expected)
    assert moved > 10


def test_orthogonal_projection_of_any_rank():
    rng = np.random.default_rng(2)
    A = margin_matrix((4, 5), [(0,), (1,)])
    x = rng.poisson(30, 20)
    y, w = x + rng.normal(0, 9, 20), rng.uniform(0.1, 10, 20)
    found = onto_sums(y, A, A @ x, w)
    normal = (found - y) * w  # in the row space of A, which makes it the nearest
    dense = A.toarray()
    assert dense.T @ np.linalg.lstsq(dense.T, normal)[0] == pytest.approx(normal, abs=1e-9)
    assert A @ found == pytest.approx(A @ x, abs=1e-10)


def test_simplices_are_the_same_projection():
    rng = np.random.default_rng(3)
    for _ in range(40):
        groups = rng.integers(-1, 3, 12)
        A = sparse.csr_array((groups == np.arange(3)[:, np.newaxis]).astype(int))
        x = rng.poisson(1.5, 12)
        y = x + rng.integers(-5, 6, 12)
        found = onto_simplices(y, groups, A @ x)
        expected = onto_bounds(y, A, A @ x, np.eye(12), np.zeros(12))
        assert found == pytest.approx(expected, abs=1e-9)
        assert (found >= 0).all()


def test_large_totals_keep_their_digits():
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(20), 500)
    x = rng.integers(0, 10**7, 10_000)
    y = x + rng.integers(-50, 51, 10_000)
    sums = np.bincount(groups, x)
    found = onto_simplices(y, groups, sums)
    assert np.bincount(groups, found) == pytest.approx(sums, rel=1e-13)
    assert np.abs(found - x).max() < 55
    A = sparse.csr_array((np.ones(10_000), (groups, np.arange(10_000))))
    assert onto_bounds(y, A, sums, sparse.eye_array(10_000), np.zeros(10_000)) == pytest.approx(found, abs=1e-6)


def test_infeasible_targets_are_refused():
    with pytest.raises(InvariantError, match="contradict"):
        onto_sums([1, 2], [[1, 1], [1, 1]], [3, 4])
    with pytest.raises(InvariantError, match="all public sums and bounds"):
        onto_bounds([1, 2], [[1, 1]], [-1], np.eye(2), np.zeros(2))
    with pytest.raises(InvariantError, match="group 0 of 2 non-negative cells"):
        onto_simplices([1, 2], [0, 0], [-1])
    with pytest.raises(InvariantError, match="weights must be 2 non-negative numbers"):
        onto_sums([1, 2], [[1, 1]], [3], weights=[1, -1])
