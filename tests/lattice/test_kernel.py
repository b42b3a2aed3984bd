import itertools

import numpy as np
import pytest
from brute_force import gcd_of_largest_minors, groups, rational_kernel, rational_rank, systems
from grids import box
from hypothesis import given, settings
from lattice_laws import two_way
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice import certify, is_saturated, kernel, margin_kernel, margin_matrix

fixed = settings(deadline=None, derandomize=True, max_examples=150)


@pytest.mark.quick_cases(0)
@fixed
@given(systems())
def test_basis_is_in_the_kernel_saturated_and_complete(A):
    lattice = kernel(A)
    B = lattice.basis.toarray()
    assert not (A @ B).any()
    assert lattice.rank == B.shape[1] == A.shape[1] - rational_rank(A)
    if lattice.rank:
        assert gcd_of_largest_minors(B) == 1
    assert lattice.certificate.startswith("A B = 0; ")


@pytest.mark.quick_cases(0)
@fixed
@given(systems(max_cells=4))
def test_every_small_solution_is_an_integer_combination(A):
    B = kernel(A).basis.toarray()
    near = box(-2, 2, A.shape[1])
    solutions = near[(near @ A.T == 0).all(axis=1)]
    if B.shape[1]:
        coefficients = np.rint(np.linalg.lstsq(B.astype(float), solutions.T.astype(float))[0]).astype(int)
        assert (B @ coefficients == solutions.T).all()
    else:
        assert len(solutions) == 1


@pytest.mark.quick_cases(0)
@fixed
@given(systems())
def test_saturation_agrees_with_the_minors(A):
    B = rational_kernel(A)
    if B.shape[1]:
        assert is_saturated(B) == (gcd_of_largest_minors(B) == 1)


def test_rational_nullspace_is_not_a_lattice_basis():
    rng = np.random.default_rng(1)
    systems = [rng.integers(-9, 10, (2, 6)) for _ in range(60)]
    ours = [is_saturated(kernel(A).basis) for A in systems]
    wrong = [is_saturated(rational_kernel(A)) for A in systems]
    assert all(ours)
    assert sum(wrong) < len(systems) / 2


def test_wrong_bases_are_not_certified():
    A = [[1, 1, 1, 0]]
    good = kernel(A).basis.toarray()
    with pytest.raises(InvariantError, match="not saturated"):
        certify(A, good * [2, 1, 1])
    with pytest.raises(InvariantError, match="leaves the kernel"):
        certify(A, good + np.eye(4, 3, dtype=int))
    with pytest.raises(InvariantError, match="2 vectors, but the kernel of A has rank 3"):
        certify(A, good[:, :2])
    with pytest.raises(InvariantError, match="not saturated"):
        certify(A, good[:, [0, 1, 1]])
    with pytest.raises(InvariantError, match="found 5 and 4"):
        certify([[1, 1, 1, 0, 0]], good)


@pytest.mark.parametrize(
    ("A", "largest", "proof"),
    [
        (groups(np.arange(3143) % 51, 51), 1, "identity block"),
        (sparse.block_diag([sparse.coo_array(two_way(14, 24))] * 20), 1, "identity block"),
        (two_way(30, 30), 1, "identity block"),
        (margin_matrix((6, 6, 6), [(0, 1), (0, 2), (1, 2)]), 1, "identity block"),
        (np.random.default_rng(1).integers(0, 2, (10, 60)), 2, "unit Smith form"),
        (np.random.default_rng(1).integers(0, 2, (40, 200)), 6, "unit Smith form"),
        ([[2, 3, 5, 7, 11]], 3, "unit Smith form"),
        (margin_matrix((2,) * 8, list(itertools.combinations(range(8), 2))), 2, "unit Smith form"),
    ],
    ids=["51 groups", "20 margins", "30x30", "6x6x6", "10x60", "40x200", "weights", "2^8"],
)
def test_named_systems(A, largest, proof):
    lattice = kernel(A)
    assert proof in lattice.certificate
    assert certify(A, lattice.basis).startswith("A B = 0; ")
    assert abs(lattice.basis).max() <= largest


@pytest.mark.deep
def test_ten_million_cells_are_stored_as_classes():
    A = groups(np.random.default_rng(1).integers(0, 51, 10_000_000), 51)
    lattice = kernel(A)
    assert lattice.rank == 10_000_000 - 51
    assert lattice.class_basis.shape == (51, 0)
    assert not (A @ lattice.basis).count_nonzero()


@pytest.mark.parametrize("A", [np.zeros((0, 3), int), np.zeros((2, 3), int)])
def test_without_constraints_the_lattice_contains_all_vectors(A):
    assert (kernel(A).basis.toarray() == np.eye(3)).all()


def test_a_fully_fixed_system_has_an_empty_basis():
    lattice = kernel(2 * np.eye(3, dtype=int))
    assert lattice.rank == 0
    assert lattice.basis.shape == (3, 0)


def test_entries_between_2_to_the_53_and_2_to_the_63_are_exact():
    a, b, c = 2**31 - 1, 2**31 + 11, 2**30 + 3
    basis = kernel([[a, b, 0], [0, b + 2, c]]).basis.toarray().ravel().tolist()
    assert max(map(abs, basis)) > 2**53
    assert a * basis[0] + b * basis[1] == 0
    assert (b + 2) * basis[1] + c * basis[2] == 0


def test_entries_beyond_int64_raise():
    with pytest.raises(InvariantError, match="beyond 64-bit integers"):
        kernel([[2**53, 2**53 - 1, 0], [0, 2**53 - 111, 2**53 - 113]])


margins = [
    ((3, 4), [(0,), (1,)]),
    ((3, 4), [()]),
    ((3, 4), []),
    ((2, 3, 2), [(0, 1), (1, 2), (0, 2)]),
    ((2, 3, 2), [(0, 1), (2,)]),
    ((2, 3, 2), [(1,)]),
    ((2, 3, 2), [(0, 1, 2)]),
    ((2, 1, 3), [(0,), (2,), ()]),
    ((2,) * 5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]),
    ((2, 2, 2, 3), [(0, 1, 2), (2, 3)]),
]


@pytest.mark.parametrize(("shape", "generators"), margins)
def test_closed_form_spans_the_lattice_of_its_margins(shape, generators):
    closed = margin_kernel(shape, generators).basis
    A = margin_matrix(shape, generators)
    assert certify(A, closed).startswith("A B = 0; ")
    assert closed.shape[1] == kernel(A).rank
    assert abs(closed).max() <= 1 if closed.nnz else True


@pytest.mark.parametrize(("shape", "generators"), margins)
def test_margin_matrix_computes_margins(shape, generators):
    table = np.arange(np.prod(shape)).reshape(shape) ** 2
    kept = [g for g in generators if not any(set(g) < set(h) for h in generators)]
    summed = [table.sum(axis=tuple(s for s in range(len(shape)) if s not in g)).ravel() for g in kept]
    assert (margin_matrix(shape, generators) @ table.ravel() == np.concatenate([[], *summed])).all()


def test_margins_of_unknown_dimensions_raise():
    with pytest.raises(InvariantError, match="must contain dimensions from 0 to 1, found 2"):
        margin_kernel((2, 3), [(0, 2)])
    with pytest.raises(InvariantError, match="Every size of a table must be positive"):
        margin_matrix((2, 0), [(0,)])
