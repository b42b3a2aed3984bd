"""Projections and bases of real null spaces, against dense linear algebra."""

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf.errors import InvariantError
from ppdinf.lattice import null_space as module
from ppdinf.lattice import structure
from ppdinf.lattice.null_space import null_space


def random_systems():
    rng = np.random.default_rng(2)
    for _ in range(200):
        k, d = rng.integers(1, 5), rng.integers(1, 11)
        yield rng.integers(-1, 3, size=(k, d))


@pytest.mark.quick_cases(0)
def test_against_dense_linear_algebra():
    for A in random_systems():
        space = null_space(structure(A))
        _, s, vt = np.linalg.svd(A)
        kernel = vt[np.sum(s > 1e-9) :]
        assert space.dimension == len(kernel)
        projection = space.project(np.eye(A.shape[1]))
        assert np.allclose(projection, kernel.T @ kernel, atol=1e-12)
        Q = space.basis.toarray()
        assert np.allclose(Q.T @ Q, np.eye(len(kernel)), atol=1e-12)
        assert np.allclose(Q @ Q.T, projection, atol=1e-12)


def test_a_class_of_many_cells_is_fast():
    space = null_space(structure(np.ones((1, 3000), dtype=int)))
    assert space.fixed.nnz == 3000
    assert space.basis.nnz < 3000 * 13
    z = np.random.default_rng(1).normal(size=(4, 3000))
    assert np.allclose(space.project(z), z - z.mean(axis=1, keepdims=True), atol=1e-12)
    assert np.allclose(space.basis @ (space.basis.T @ z[0]), space.project(z)[0], atol=1e-12)


def test_no_fixed_cells_and_all_fixed_cells():
    free, none = null_space(structure(np.zeros((1, 3), dtype=int))), null_space(structure(np.eye(3, dtype=int)))
    assert np.array_equal(free.project(np.arange(3.0)), np.arange(3.0))
    assert np.array_equal(none.project(np.arange(3.0)), np.zeros(3))
    assert free.basis.shape == (3, 3)
    assert none.basis.shape == (3, 0)


def test_nearly_dependent_sums_raise():
    A = np.array([[2**40, 2**40, 0, 2**40], [1, 2, 3, 5]])
    space = null_space(structure(A))
    z = space.project(np.random.default_rng(1).normal(size=(3, 4)))
    assert np.abs(A @ z.T / [[2**40], [1]]).max() < 1e-14
    with pytest.raises(InvariantError, match="too close to combinations of other sums"):
        null_space(structure([[10**5, 10**5 + 1, 3], [10**5 + 1, 10**5 + 2, 3]]))


def test_a_basis_beyond_the_memory_limit_raises(monkeypatch):
    margins = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    space = null_space(margins.on(np.zeros((4, 5), dtype=int)).structure)
    monkeypatch.setattr(module, "LARGEST_BASIS", 100)
    with pytest.raises(InvariantError, match="20 cells lie in one block"):
        _ = space.basis
