"""Sensitivities against all pairs of columns, the changes that attain them, and smallest ellipsoids around them."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from ppdinf.privacy.sensitivity import enclosing_ellipsoid, sensitivity, sensitivity_polytope


def by_brute_force(query, p, neighbours):
    columns = np.asarray(query, dtype=float).T
    moves = columns if neighbours == "added" else [a - b for a, b in itertools.product(columns, repeat=2)]
    return max(np.linalg.norm(move, ord=p) for move in moves)


def random_queries():
    rng = np.random.default_rng(1)
    for _ in range(150):
        q, d = rng.integers(1, 9, size=2)
        kind = rng.integers(4)
        dense = rng.normal(size=(q, d)) if kind < 2 else rng.integers(-3, 4, size=(q, d)).astype(float)
        if kind % 2:
            dense *= rng.random((q, d)) < 0.3
        yield dense


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("neighbours", ["added", "replaced"])
def test_against_all_pairs_of_columns(p, neighbours):
    for query in random_queries():
        expected = by_brute_force(query, p, neighbours)
        assert sensitivity(query, p=p, neighbours=neighbours) == pytest.approx(expected, rel=1e-12)
        assert sensitivity(sparse.coo_array(query), p=p, neighbours=neighbours) == pytest.approx(expected, rel=1e-12)


@pytest.mark.quick_cases(0)
def test_the_cells_themselves():
    """1,000,000 counts: 1 if a record is added, 2 and the square root of 2 if it is moved."""
    cells = sparse.eye_array(10**6)
    assert sensitivity(cells, p=1, neighbours="added") == sensitivity(cells, p=2, neighbours="added") == 1
    assert sensitivity(cells, p=1) == 2
    assert sensitivity(cells, p=2) == pytest.approx(np.sqrt(2), rel=1e-15)


def test_large_columns_that_are_nearly_equal():
    """The difference of two numbers near 10^10 is 1; a difference of their squares would be lost."""
    query = [[10**10, 10**10 + 1, 10**10], [0, 0, 2]]
    for p, expected in ((1, 3), (2, np.sqrt(5))):
        assert sensitivity(query, p=p) == pytest.approx(expected, rel=1e-12)


def test_one_cell_cannot_be_replaced():
    assert sensitivity([[3], [4]], p=2) == 0
    assert sensitivity([[3], [4]], p=2, neighbours="added") == 5


@pytest.mark.parametrize("neighbours", ["added", "replaced"])
def test_the_longest_move_of_the_polytope_is_the_sensitivity(neighbours):
    for query in random_queries():
        moves = sensitivity_polytope(query, neighbours=neighbours)
        found = np.linalg.norm(moves, axis=0).max(initial=0)
        assert found == pytest.approx(sensitivity(query, p=2, neighbours=neighbours), rel=1e-12)
        assert all(np.any(moves != 0, axis=0))
        assert len({tuple(np.sign(m[m != 0][0]) * m) for m in moves.T}) == moves.shape[1]  # none twice, up to sign


def reach(shape, points):
    return np.einsum("ij,ij->j", points, np.linalg.solve(shape, points))


def test_ellipsoids_of_known_shapes():
    cube = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).astype(float)
    assert np.allclose(enclosing_ellipsoid(cube), 3 * np.eye(3))
    assert np.allclose(enclosing_ellipsoid(np.diag([5.0, 2, 1, 3])), np.diag([25, 4, 1, 9]), rtol=3e-3)
    assert enclosing_ellipsoid(np.array([[1.0, -7, 3]])) == [[49]]


@pytest.mark.parametrize(("m", "n"), [(2, 2), (2, 30), (5, 12), (9, 60)])
def test_points_are_inside_and_the_volume_is_certified(m, n):
    """John: weights on touching points with this moment matrix prove that no smaller ellipsoid exists."""
    rng = np.random.default_rng(m + n)
    points = rng.normal(size=(m, n)) * np.logspace(0, 2, m)[:, None]
    for tolerance in (1e-2, 1e-6):
        shape = enclosing_ellipsoid(points, tolerance=tolerance)
        assert reach(shape, points).max() <= 1 + 1e-9
        # any ellipsoid around the points has det at least m^m det(moment), for any weights: here, random ones
        for weights in rng.dirichlet(np.ones(n), size=20):
            moment = (points * weights) @ points.T
            assert np.linalg.slogdet(shape)[1] >= np.linalg.slogdet(m * moment)[1] - 1e-9
    loose = np.linalg.slogdet(enclosing_ellipsoid(points, tolerance=1e-2))[1]
    tight = np.linalg.slogdet(enclosing_ellipsoid(points, tolerance=1e-6))[1]
    assert loose - tight + m * 1e-5 >= -1e-9
    assert loose - tight <= 2 * m * np.log1p(2e-2)


def test_a_linear_map_takes_the_ellipsoid_along():
    rng = np.random.default_rng(3)
    points, move = rng.normal(size=(4, 15)), rng.normal(size=(4, 4))
    shape = enclosing_ellipsoid(points, tolerance=1e-7)
    assert np.allclose(enclosing_ellipsoid(move @ points, tolerance=1e-7), move @ shape @ move.T, rtol=1e-2, atol=1e-2)
