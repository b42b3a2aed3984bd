"""Shortest lattice vectors against brute force over all short vectors."""

import numpy as np
import pytest
from grids import box

from ppdinf.errors import InvariantError
from ppdinf.lattice import structure
from ppdinf.lattice.points.shortest import nearest_steps, shortest_distance, shortest_step


def brute_force(A, reach=3, power=1):
    vectors = box(-reach, reach, A.shape[1])
    norms = (np.abs(vectors) ** power).sum(axis=1)[np.all(vectors @ A.T == 0, axis=1)]
    norms = norms[norms > 0]
    return int(norms.min()) if norms.size else None


@pytest.mark.quick_cases(31)
@pytest.mark.parametrize("seed", range(60))
def test_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    A = rng.integers(-2 if seed % 3 == 0 else 0, 3, size=(rng.integers(1, 4), rng.integers(2, 6)))
    found, expected = shortest_distance(structure(A)), brute_force(A)
    if expected is None:  # no vector within the search radius: the result must be longer
        assert found is None or found > 3
    else:
        assert found == expected
    for metric in ("l1", "l2"):
        step = shortest_step(structure(A), metric)
        assert (step is None) == (found is None)
        assert step is None or (np.any(step) and not np.any(A @ step))
    euclidean, squares = shortest_distance(structure(A), "l2"), brute_force(A, power=2)
    if squares is not None and squares <= 9:  # vectors with entries beyond 3 cannot be shorter
        assert euclidean == pytest.approx(np.sqrt(squares))


def test_three_way_table_with_all_two_way_margins_needs_eight():
    axes = np.eye(27, dtype=int).reshape(3, 3, 3, 27)
    A = np.vstack([axes.sum(axis=k).reshape(9, 27) for k in range(3)])
    assert shortest_distance(structure(A)) == 8


@pytest.mark.parametrize(
    "A",
    [
        [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]],
        [[1, 1, 1, 0], [0, 0, 1, 1]],
        [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0]],
        [[2, 3, 5]],
        [[1, 2, 4]],
        [[3, -3, 1]],
        [[1, 1, 0, 0], [0, 1, 1, 0]],
        [[0, 0], [0, 0]],
        [[1, 0], [0, 1]],
    ],
)
def test_nearest_steps_represent_all(A):
    """Every shortest vector h has the same law of <z, h> as a listed vector."""
    found = structure(A)
    listed = nearest_steps(found)
    d = len(A[0])
    shortest = shortest_step(found, "l2")
    if shortest is None:
        assert listed == []
        return
    square = int(shortest @ shortest)
    near = box(-2, 2, d)
    near = near[(near @ np.array(A).T == 0).all(axis=1) & ((near**2).sum(axis=1) == square)]
    wide = box(-3, 3, d)
    wide = wide[(wide @ np.array(A).T == 0).all(axis=1)]

    def law(z, h):
        values, which = np.unique(z @ h, return_inverse=True)
        return dict(zip(values.tolist(), np.bincount(which, np.exp(-2.0 * (z**2).sum(axis=1))), strict=True))

    def same(p, q):
        total_p, total_q = sum(p.values()), sum(q.values())
        return all(abs(p.get(t, 0) / total_p - q.get(t, 0) / total_q) < 1e-5 for t in {*p, *q})

    laws = []
    for block, step in listed:
        sums = block.class_system.toarray()[:, block.classes]
        z = box(-3, 3, step.size)
        laws.append(law(z[(z @ sums.T == 0).all(axis=1)], step))
    for h in near:
        assert any(same(law(wide, h), known) for known in laws)


@pytest.mark.deep
def test_nearest_steps_of_large_blocks_raise():
    rng = np.random.default_rng(1)
    with pytest.raises(InvariantError, match="too many to list"):
        nearest_steps(structure(rng.integers(0, 50, size=(3, 40))))


def test_blocks_with_the_same_entries_in_other_columns_are_not_merged():
    """Both systems have the same entries in the same columns, row after row, but different row lengths."""
    first = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 0, 1, 1, 0]])
    second = np.array([[1, 1, 1, 0, 0], [0, 0, 0, 1, 1], [1, 0, 1, 1, 0]])
    A = np.zeros((6, 10), dtype=int)
    A[:3, :5], A[3:, 5:] = first, second
    found = nearest_steps(structure(A))
    apart = [step.tolist() for block in (first, second) for _, step in nearest_steps(structure(block))]
    assert sorted(step.tolist() for _, step in found) == sorted(apart)
    assert len(apart) == 2
