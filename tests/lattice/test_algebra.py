"""Rows, solutions and kernels of integer systems, against rational algebra."""

import itertools

import numpy as np
import pytest
from enumeration import gcd_of_largest_minors, groups, rational_kernel, rational_rank, systems
from flint import fmpz_mat
from grids import box
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_laws import two_way
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice import (
    certify,
    check_consistent,
    contradiction,
    integer_solution,
    is_saturated,
    kernel,
    margin_kernel,
    margin_matrix,
    rank,
    row_algebra,
)
from ppdinf.lattice.integer_rows import eliminate_units
from ppdinf.lattice.systems import equal_columns, integer_matrix

fixed = settings(deadline=None, derandomize=True, max_examples=150)


@pytest.mark.quick_cases(0)
@fixed
@given(systems())
def test_rank_and_redundant_rows(A):
    algebra = row_algebra(A)
    assert algebra.rank == rational_rank(A) == rational_rank(A[algebra.independent])
    assert sorted([*algebra.independent.tolist(), *algebra.redundant]) == list(range(len(A)))
    for row, combination in algebra.redundant.items():
        rebuilt = sum((c * A[p].astype(object) for p, c in combination.items()), np.zeros(A.shape[1], object))
        assert (rebuilt == A[row]).all()


@pytest.mark.quick_cases(0)
@fixed
@given(systems(), st.data())
def test_contradictions_exist_exactly_if_the_rank_increases(A, data):
    a = np.array(data.draw(st.lists(st.integers(-5, 5), min_size=len(A), max_size=len(A))))
    y = contradiction(A, a)
    assert (y is None) == (rational_rank(A) == rational_rank(np.column_stack([A, a])))
    if y is not None:
        assert not sum(weight * A[row] for row, weight in y.items()).any()
        assert sum(weight * a[row] for row, weight in y.items()) != 0


def test_substitution_of_stated_cells_finds_the_same_contradictions():
    rng, agree = np.random.default_rng(0), 0
    for _ in range(200):
        n, d = rng.integers(1, 7), rng.integers(1, 5)
        A = rng.integers(-1, 2, (n, d)) * rng.choice([1, 1, 2], (n, 1))
        single = rng.random(n) < 0.6
        A[single] = np.eye(d, dtype=int)[rng.integers(0, d, n)][single] * rng.choice([1, 1, -1, 2], (n, 1))[single]
        a = A @ rng.integers(0, 3, d)
        a[rng.integers(n)] += rng.integers(2)
        y = contradiction(A, a)
        assert y == contradiction(A, a, algebra=row_algebra(A))  # without substitution
        agree += y is None
    assert 40 < agree < 160


@pytest.mark.quick_cases(0)
@fixed
@given(systems(), st.data())
def test_integer_solutions_exist_exactly_if_smith_forms_agree(A, data):
    x = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=A.shape[1], max_size=A.shape[1])))
    a = A @ x // data.draw(st.sampled_from([1, 2, 3]))
    smith = [fmpz_mat(M.tolist()).snf() for M in (A, np.column_stack([A, a]))]
    diagonals = [[int(s[i, i]) for i in range(min(s.nrows(), s.ncols())) if s[i, i] != 0] for s in smith]
    if diagonals[0] == diagonals[1]:
        solution = np.zeros(A.shape[1], dtype=object)
        for cell, value in integer_solution(A, a).items():
            solution[cell] = value
        assert (A.astype(object) @ solution == a).all()
    else:
        with pytest.raises(InvariantError, match=r"contradict|fractions|contains no cell"):
            integer_solution(A, a)


@fixed
@given(systems())
def test_elimination_reproduces_every_row(A):
    rows = [{j: v for j, v in enumerate(row) if v} for row in A.tolist()]
    steps = eliminate_units(rows)
    stage_of = {row: stage for stage, row in enumerate(steps.rows)}
    for i, row in enumerate(A):
        parts = [*steps.lower[i].items(), *([(stage_of[i], 1)] if i in stage_of else [])]
        rebuilt = {j: steps.remainder.get(i, {}).get(j, 0) for j in range(len(row))}
        for stage, factor in parts:
            for j, value in steps.upper[stage].items():
                rebuilt[j] += factor * value
        assert list(rebuilt.values()) == row.tolist()
    assert all(abs(v) > 1 for row in steps.remainder.values() for v in row.values())
    assert all(abs(u[c]) == 1 for u, c in zip(steps.upper, steps.columns, strict=True))


@fixed
@given(systems())
def test_equal_columns_by_definition(A):
    classes, representatives = equal_columns(integer_matrix(A))
    same = (A[:, :, None] == A[:, None, :]).all(axis=0)
    assert (same == (classes[:, None] == classes[None, :])).all()
    assert representatives.tolist() == [classes.tolist().index(c) for c in range(representatives.size)]


def test_hash_collisions_do_not_merge_classes(monkeypatch):
    from ppdinf.lattice import systems

    honest, rounds = systems._column_hash, []

    def colliding(A, weights):
        rounds.append(1)
        return honest(A, weights * np.uint64(len(rounds) > 2))

    monkeypatch.setattr(systems, "_column_hash", colliding)
    classes, _ = equal_columns(integer_matrix([[1, 2, 1, 3], [1, 0, 1, 0]]))
    assert classes.tolist() == [0, 1, 0, 2]
    assert len(rounds) == 3


def test_floating_point_rank_would_be_wrong():
    A = np.array([[2**52, 2**52 + 1], [2**52 + 1, 2**52 + 2]])
    assert np.linalg.matrix_rank(A.astype(float)) == 1
    assert rank(A) == 2


def test_census_sized_systems():
    assert rank(groups(np.arange(3143) % 51, 51)) == 51
    ((row, combination),) = row_algebra(two_way(14, 24)).redundant.items()
    assert set(combination) == set(range(38)) - {row}
    assert {abs(c) for c in combination.values()} == {1}


bad_matrices = {
    "fraction": ([[1, 0], [1, 0.5]], r"A, row 1 \('b'\), column 1: 0.5 is not an integer"),
    "nan": ([[1, 0], [np.nan, 1]], r"row 1 \('b'\), column 0: nan"),
    "infinity": ([[1, np.inf], [0, 1]], r"row 0 \('a'\), column 1: inf"),
    "large": ([[1, 0], [0, 2**53 + 1]], r"row 1 \('b'\), column 1: 9007199254740993 is not an integer of at"),
    "very large": ([[1, 0], [0, 2**70]], r"row 1 \('b'\), column 1: 1180591620717411303424"),
    "negative": ([[1, -(2**53) - 1], [0, 1]], r"row 0 \('a'\), column 1"),
    "unsigned": (np.array([[1, 0], [0, 2**64 - 1]], dtype=np.uint64), r"row 1 \('b'\), column 1"),
    "boolean": ([[True, False], [False, True]], r"row 0 \('a'\), column 0: True .*0/1 for booleans"),
    "text": ([["1", "0"], ["0", "1"]], r"row 0 \('a'\), column 0: 1 is not an integer"),
    "complex": ([[1j, 0], [0, 1]], r"row 0 \('a'\), column 0"),
    "object": (np.array([[1, 0], [0, None]]), r"row 1 \('b'\), column 1: None"),
    "masked": (np.ma.array([[1, 0], [0, 1]], mask=[[0, 0], [1, 0]]), r"row 1 \('b'\), column 0"),
    "sparse": (sparse.csr_array([[1, 0], [0, 0.5]]), r"row 1 \('b'\), column 1: 0.5"),
    "vector": ([1, 2], r"1 dimension"),
    "rows": ([[1, 2]], r"each of the 1 rows of A, found 2"),
    "ragged": ([[1, 2], [3]], "rows of equal length"),
}


@pytest.mark.parametrize("case", bad_matrices)
def test_invalid_matrices_raise(case):
    matrix, message = bad_matrices[case]
    with pytest.raises(InvariantError, match=message):
        row_algebra(matrix, row_names=["a", "b"])


TOTALS = [
    ([1, 2, 3], r"a must have one entry for each of 2 rows, found shape \(3,\)"),
    ([1, 2.5], r"a, row 1: the entry is not an integer"),
    ([np.nan, 2], "a, row 0"), ([1, 2**53 + 1], "a, row 1"), ([True, False], "a, row 0"), ([1, 2**80], "a, row 1"),
]  # fmt: skip
SUMMED, TWELVE = np.array([[1, 0], [0, 1], [1, 1]]), np.vstack([np.eye(12, dtype=int), np.ones((1, 12), int)])
GOOD = kernel([[1, 1, 1, 0]]).basis.toarray()
REFUSED = [
    *((lambda totals=totals: check_consistent(np.eye(2, dtype=int), totals), message) for totals, message in TOTALS),
    (lambda: check_consistent(SUMMED, [2, 3, 6], row_names=["male", "female", "all"]),
     r"row 0 \('male'\).*row 1 \('female'\).*is 5, but row 2 \('all'\) is 6"),
    (lambda: check_consistent([[1, 1], [0, 0]], [3, 4], row_names=["both", "none"]),
     r"row 1 \('none'\) must be 0 .*, found 4"),
    (lambda: check_consistent(TWELVE, np.ones(13, int)), r"\(4 more rows\)"),
    (lambda: integer_solution([[1, 0, 0], [0, 2, 4]], [1, 3], row_names=["a", "b"]),
     r"totals of row 1 \('b'\): the solutions are fractions"),
    # wrong bases are not certified
    (lambda: certify([[1, 1, 1, 0]], GOOD * [2, 1, 1]), "not saturated"),
    (lambda: certify([[1, 1, 1, 0]], GOOD + np.eye(4, 3, dtype=int)), "leaves the kernel"),
    (lambda: certify([[1, 1, 1, 0]], GOOD[:, :2]), "2 vectors, but the kernel of A has rank 3"),
    (lambda: certify([[1, 1, 1, 0]], GOOD[:, [0, 1, 1]]), "not saturated"),
    (lambda: certify([[1, 1, 1, 0, 0]], GOOD), "found 5 and 4"),
    (lambda: kernel([[2**53, 2**53 - 1, 0], [0, 2**53 - 111, 2**53 - 113]]), "beyond 64-bit integers"),
    (lambda: margin_kernel((2, 3), [(0, 2)]), "must contain dimensions from 0 to 1, found 2"),
    (lambda: margin_matrix((2, 0), [(0,)]), "Every size of a table must be positive"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refusals(call, message):
    with pytest.raises(InvariantError, match=message):
        call()
    check_consistent(SUMMED, [2, 3, 5])


def test_integers_in_floats_and_objects_are_accepted():
    for matrix in ([[1.0, 2.0]], np.array([[1, 2]], dtype=object), np.array([[1, 2]], dtype=np.uint8)):
        assert integer_matrix(matrix).dtype == np.int64
        assert integer_matrix(matrix).toarray().tolist() == [[1, 2]]


def test_the_input_matrix_is_not_modified():
    mine = sparse.csc_array((np.array([1, 2, 0, 5]), np.array([1, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 2))
    ours = integer_matrix(mine)
    assert mine.nnz == 4
    assert ours.toarray().tolist() == [[2, 0], [1, 5]]


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


@pytest.mark.parametrize(("A", "largest", "proof"), [
    (groups(np.arange(3143) % 51, 51), 1, "identity block"),
    (sparse.block_diag([sparse.coo_array(two_way(14, 24))] * 20), 1, "identity block"),
    (two_way(30, 30), 1, "identity block"),
    (margin_matrix((6, 6, 6), [(0, 1), (0, 2), (1, 2)]), 1, "identity block"),
    (np.random.default_rng(1).integers(0, 2, (10, 60)), 2, "unit Smith form"),
    (np.random.default_rng(1).integers(0, 2, (40, 200)), 6, "unit Smith form"),
    ([[2, 3, 5, 7, 11]], 3, "unit Smith form"),
    (margin_matrix((2,) * 8, list(itertools.combinations(range(8), 2))), 2, "unit Smith form"),
], ids=["51 groups", "20 margins", "30x30", "6x6x6", "10x60", "40x200", "weights", "2^8"])  # fmt: skip
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


margins = [
    ((3, 4), [(0,), (1,)]), ((3, 4), [()]), ((3, 4), []), ((2, 3, 2), [(0, 1), (1, 2), (0, 2)]),
    ((2, 3, 2), [(0, 1), (2,)]), ((2, 3, 2), [(1,)]), ((2, 3, 2), [(0, 1, 2)]), ((2, 1, 3), [(0,), (2,), ()]),
    ((2,) * 5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]),
    ((2, 2, 2, 3), [(0, 1, 2), (2, 3)]),
]  # fmt: skip


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
