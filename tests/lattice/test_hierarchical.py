"""Complete tables with margins are detected in the rows of a system, and only such tables."""

import numpy as np
import pytest

from ppdinf.lattice import kernel, margin_matrix, structure

MARGINS = [
    ((3, 4), [(0,), (1,)]),
    ((2, 2), [(0,), (1,)]),
    ((4, 4), [(0,), (1,), ()]),
    ((3, 3, 3), [(0, 1), (0, 2), (1, 2)]),
    ((2, 3, 4), [(0,), (1,), (2,)]),
    ((3, 4, 5), [(0, 1), (2,)]),
    ((3, 4, 2), [(0,), (1,)]),
    ((3, 4, 5, 2), [(0, 1), (1, 2), (2, 3)]),
    ((2, 4, 3, 2), [(0, 1), (1, 2), (2, 3), (3, 0)]),
]


def grouped_columns():
    """Return four rows of seven cells: row sums, and sums of columns in groups of 2, 3 and 2."""
    groups = np.zeros((3, 7), dtype=int)
    groups[0, :2] = groups[1, 2:5] = groups[2, 5:] = 1
    return np.vstack([np.kron(np.eye(4, dtype=int), np.ones((1, 7), int)), np.kron(np.ones((1, 4), int), groups)])


def columns_within_states():
    """Return sums of five counties in two states and three ages: counties, ages by state, and the nation."""
    states = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]])
    counties = np.kron(np.eye(5, dtype=int), np.ones((1, 3), int))
    return np.vstack([counties, np.kron(states, np.eye(3, dtype=int)), np.ones((1, 15), int)])


def ranks(A):
    found = structure(A)
    return [table.shape for table in found.tables], sum(int(table.moving.sum()) for table in found.tables)


@pytest.mark.parametrize(("shape", "generators"), MARGINS)
def test_margins_are_detected_with_their_rank(shape, generators):
    A = margin_matrix(shape, generators).toarray()
    found = structure(A)
    assert sum(int(table.moving.sum()) for table in found.tables) == found.lattice.class_basis.shape[1] > 0
    shuffled = A[:, np.random.default_rng(1).permutation(A.shape[1])]
    assert [t.shape for t in structure(shuffled).tables] == [t.shape for t in found.tables]


def test_levels_of_margins_are_levels_of_dimensions():
    """Each row of the system varies in the dimensions of a generator and in no other."""
    A = margin_matrix((2, 4, 3, 2), MARGINS[-1][1]).toarray()[:, np.random.default_rng(2).permutation(48)]
    [table] = structure(A).tables
    arranged = A[:, table.classes].reshape(-1, *table.shape)
    for row in arranged:
        varies = {axis for axis in range(4) if (row != row.take([0], axis=axis)).any()}
        assert frozenset(varies) in table.generators
        assert row.sum() == np.prod([size for axis, size in enumerate(table.shape) if axis not in varies])


def test_redundant_rows_and_their_order_do_not_matter():
    A = margin_matrix((4, 6), [(0,), (1,)]).toarray()
    wider = np.vstack([A[0] + A[1], A.sum(axis=0), A[4:][::-1], A[:4], A[4:6].sum(axis=0), A[4:]])
    assert ranks(wider)[1] == 15
    assert sorted(ranks(wider)[0][0]) == [4, 6]


def test_groups_and_blocks():
    assert ranks(grouped_columns()) == ([(3, 4)], 6)
    [table] = structure(grouped_columns()).tables
    assert [weight.tolist() for weight in table.weights] == [[8, 8, 12], [7, 7, 7, 7]]
    assert ranks(columns_within_states()) == ([(2, 3), (3, 3)], 6)


@pytest.mark.parametrize("case", ["hole", "a sum is missing", "weights", "sizes of classes", "general"])
def test_other_systems_are_not_tables(case):
    A = margin_matrix((3, 4), [(0,), (1,)]).toarray()
    A = {
        "hole": A[:, :-1],
        "a sum is missing": A[1:-1],
        "weights": A * np.arange(1, 13),
        "sizes of classes": np.column_stack([A, A[:, 0]]),
        "general": np.array([[1, 2, 0, 1], [0, 1, 1, 3]]),
    }[case]
    assert kernel(A).rank
    assert not structure(A).tables
