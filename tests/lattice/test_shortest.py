"""The nearest alternative table against brute force over all short vectors."""

import itertools

import numpy as np
import pytest

from ppdinf.lattice import structure
from ppdinf.lattice.shortest import shortest_distance, shortest_step


def brute_force(A, reach=3, power=1):
    vectors = np.array(list(itertools.product(range(-reach, reach + 1), repeat=A.shape[1])))
    norms = (np.abs(vectors) ** power).sum(axis=1)[np.all(vectors @ A.T == 0, axis=1)]
    norms = norms[norms > 0]
    return int(norms.min()) if norms.size else None


@pytest.mark.parametrize("seed", range(60))
def test_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    A = rng.integers(-2 if seed % 3 == 0 else 0, 3, size=(rng.integers(1, 4), rng.integers(2, 6)))
    found, expected = shortest_distance(structure(A)), brute_force(A)
    if expected is None:  # nothing within reach: whatever was found must be further out
        assert found is None or found > 3
    else:
        assert found == expected
    for metric in ("l1", "l2"):
        step = shortest_step(structure(A), metric)
        assert (step is None) == (found is None)
        assert step is None or (np.any(step) and not np.any(A @ step))
    euclidean, squares = shortest_distance(structure(A), "l2"), brute_force(A, power=2)
    if squares is not None and squares <= 9:  # no entry beyond 3 can do better
        assert euclidean == pytest.approx(np.sqrt(squares))


def test_three_way_table_with_all_two_way_margins_needs_eight():
    axes = np.eye(27, dtype=int).reshape(3, 3, 3, 27)
    A = np.vstack([axes.sum(axis=k).reshape(9, 27) for k in range(3)])
    assert shortest_distance(structure(A)) == 8
