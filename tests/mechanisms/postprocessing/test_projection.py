"""Projection against all faces; rounding against all 0/1 tables, printed formulas and naive rounding."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from ppdinf.lattice import margin_matrix
from ppdinf.mechanisms.postprocessing.projection import (
    controlled_rounding,
    integer_floor,
    onto_bounds,
    onto_simplices,
    onto_sums,
    round_to_sums,
)


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


NONE = sparse.csr_array((0, 4), dtype=np.int64)


def all_zero_one(d):
    return np.array(list(itertools.product((0, 1), repeat=d)))


def cases_and_deaths(J, sums=None):
    """Bounds cases >= deaths >= 0 and, as a row, the sum of cases; cells are cases, then deaths."""
    eye = np.eye(J, dtype=np.int64)
    B = np.block([[eye, -eye], [np.zeros((J, J), dtype=np.int64), eye]])
    return np.concatenate([np.ones(J), np.zeros(J)]).astype(np.int64)[np.newaxis], B


def test_two_stages_against_all_zero_one_tables():
    rng, unrestored = np.random.default_rng(1), 0
    A, B = cases_and_deaths(4)
    us = all_zero_one(8)
    for _ in range(40):
        cases = rng.poisson(3, 4)
        deaths = rng.binomial(cases, 0.4)
        y = np.concatenate([cases, deaths]) + rng.integers(-4, 5, 8)
        total = [int(cases.sum())]
        real = onto_bounds(y, A, total, B, np.zeros(8))
        found = round_to_sums(real, sparse.csr_array(A), total, sparse.csr_array(B), np.zeros(8, dtype=int))
        floor = integer_floor(real)
        tables = floor + us
        feasible = us[(tables @ A[0] == total[0]) & (tables @ B.T >= 0).all(axis=1)]
        least = np.abs(feasible - (real - floor)).sum(axis=1).min()
        assert np.abs(found - real).sum() == pytest.approx(least, abs=1e-6)
        assert A @ found == total
        assert (B @ found >= 0).all()
        unrestored += A[0] @ np.rint(real) != total[0]  # rounding alone loses the sum
    assert unrestored > 5


def test_the_sum_of_floors_restores_the_sum():
    """Erratum: s less one floor, as printed, is more than a 0/1 table can add up to."""
    real, total = np.array([2.5, 3.5, 4.0, 1.0]), 11
    floor, us = integer_floor(real), all_zero_one(4)
    assert not any((us.sum(axis=1) == total - one).any() for one in floor)
    restored = us[us.sum(axis=1) == total - floor.sum()] + floor
    assert (restored.sum(axis=1) == total).all()
    found = round_to_sums(real, sparse.csr_array([[1, 1, 1, 1]]), [total], NONE, [])
    assert found.tolist() in restored.tolist()
    assert found.tolist() in ([3, 3, 4, 1], [2, 4, 4, 1])


def test_the_bound_is_on_rounded_counts():
    """Erratum: with ``y_d * floor(d)`` for the rounded deaths, they end above the cases."""
    A, B = cases_and_deaths(3)
    real, total = np.array([3.55, 0.7, 0.75, 3.55, 0, 0]), [5]
    floor, us = integer_floor(real), all_zero_one(6)
    us = us[us @ A[0] == total[0] - floor @ A[0]]
    cost = np.abs(us - (real - floor)).sum(axis=1)
    printed = (us[:, :3] + floor[:3] >= us[:, 3:] * floor[3:]).all(axis=1)
    best = floor + us[printed][np.argmin(cost[printed])]
    assert best[3] > best[0]
    found = round_to_sums(real, sparse.csr_array(A), total, sparse.csr_array(B), np.zeros(6, dtype=int))
    assert found.tolist() == [3, 1, 1, 3, 0, 0]


def test_controlled_rounding_against_enumeration():
    rng, changed = np.random.default_rng(5), 0
    A = margin_matrix((2, 3), [(0,), (1,)])
    us = all_zero_one(6)
    for _ in range(60):
        real = rng.integers(0, 40, 6) / rng.choice([1, 4, 10])
        found = controlled_rounding(real, A)
        tables = np.floor(real) + us
        near = (np.abs(tables - real) < 1 - 1e-9).all(axis=1)
        near &= (np.abs(tables @ A.T - A @ real) < 1 - 1e-9).all(axis=1)
        assert near[np.flatnonzero((tables == found).all(axis=1))].all()
        assert np.abs(found - real).sum() == pytest.approx(np.abs(tables[near] - real).sum(axis=1).min())
        changed += (np.abs(A @ np.rint(real) - A @ real) >= 1).any()  # cell by cell, a margin moves by one or more
    assert changed >= 3


def test_the_nearest_table_is_returned_without_neighbouring_tables():
    """A bound requires a cell to increase by more than 1, so no floor plus 0 or 1 satisfies it."""
    A, B = sparse.csr_array(margin_matrix((2, 2), [(0,), (1,)])), sparse.csr_array([[0, 1, 0, 0]])
    found = round_to_sums([1.5, 1.5, 0.5, 3.5], A, [3, 4, 2, 5], B, [3])
    assert found.tolist() == [0, 3, 2, 2]
    least, total = sparse.eye_array(3, dtype=int), sparse.csr_array([[1, 1, 1]])
    sums = round_to_sums([0.2, 4.8], total, [5], least, [0, 3, 0], groups=[[1, 1, 0], [0, 0, 1]])
    assert sums[:2].sum() == 3
    assert sums.sum() == 5


def test_a_level_of_a_hierarchy_rounds_sums_of_cells():
    G = sparse.csr_array([[1, 1, 0, 0], [0, 0, 1, 1]])
    total = sparse.csr_array([[1, 1, 1, 1]])
    found = round_to_sums([2.7, 4.3], total, [7], sparse.eye_array(4, dtype=int), [0] * 4, groups=G)
    assert (G @ found).tolist() == [3, 4]
    assert (found >= 0).all()
    assert integer_floor([3 - 1e-8, 3 + 1e-8, 2.5, -0.5]).tolist() == [3, 3, 2, -1]
