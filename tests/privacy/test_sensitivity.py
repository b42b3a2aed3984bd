"""Sensitivities against all pairs of columns, and the changes that attain them."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from ppdinf.errors import PrivacyError
from ppdinf.privacy.sensitivity import sensitivity, sensitivity_polytope


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


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ([1, 2], "shape"),
        (np.zeros((0, 3)), "shape"),
        (np.zeros((2, 0)), "shape"),
        ([[1, np.nan]], "finite"),
        (sparse.coo_array([[1, np.inf]]), "finite"),
        ([["a"]], "numbers only"),
        ([[1], [1, 2]], "equal length"),
    ],
)
def test_refuses_invalid_queries(query, message):
    with pytest.raises(PrivacyError, match=message):
        sensitivity(query, p=1)


@pytest.mark.parametrize("arguments", [{"p": 3}, {"p": True}, {"p": 1, "neighbours": "swapped"}])
def test_refuses_other_distances_and_neighbours(arguments):
    with pytest.raises(PrivacyError):
        sensitivity([[1, 2]], **arguments)


def test_a_polytope_of_too_many_moves_is_refused():
    with pytest.raises(PrivacyError, match="too many to enumerate"):
        sensitivity_polytope(np.eye(800))
