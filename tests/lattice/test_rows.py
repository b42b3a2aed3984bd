import numpy as np
import pytest
from brute_force import groups, rational_rank, systems
from flint import fmpz_mat
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_laws import two_way
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice import check_consistent, contradiction, integer_solution, rank, row_algebra
from ppdinf.lattice.algebra.integer_rows import eliminate_units
from ppdinf.lattice.algebra.systems import equal_columns, integer_matrix

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
    from ppdinf.lattice.algebra import systems

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


def test_messages_name_rows():
    names = ["male", "female", "all"]
    A = [[1, 0], [0, 1], [1, 1]]
    with pytest.raises(InvariantError, match=r"row 0 \('male'\).*row 1 \('female'\).*is 5, but row 2 \('all'\) is 6"):
        check_consistent(A, [2, 3, 6], row_names=names)
    check_consistent(A, [2, 3, 5], row_names=names)
    with pytest.raises(InvariantError, match=r"row 1 \('none'\) must be 0 .*, found 4"):
        check_consistent([[1, 1], [0, 0]], [3, 4], row_names=["both", "none"])
    with pytest.raises(InvariantError, match=r"totals of row 1 \('b'\): the solutions are fractions"):
        integer_solution([[1, 0, 0], [0, 2, 4]], [1, 3], row_names=["a", "b"])
    many = np.vstack([np.eye(12, dtype=int), np.ones((1, 12), int)])
    with pytest.raises(InvariantError, match=r"\(4 more rows\)"):
        check_consistent(many, np.ones(13, int))


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


@pytest.mark.parametrize(
    ("totals", "message"),
    [
        ([1, 2, 3], r"a must have one entry for each of 2 rows, found shape \(3,\)"),
        ([1, 2.5], r"a, row 1: the entry is not an integer"),
        ([np.nan, 2], "a, row 0"),
        ([1, 2**53 + 1], "a, row 1"),
        ([True, False], "a, row 0"),
        ([1, 2**80], "a, row 1"),
    ],
)
def test_invalid_totals_raise(totals, message):
    with pytest.raises(InvariantError, match=message):
        check_consistent([[1, 0], [0, 1]], totals)


def test_integers_in_floats_and_objects_are_accepted():
    for matrix in ([[1.0, 2.0]], np.array([[1, 2]], dtype=object), np.array([[1, 2]], dtype=np.uint8)):
        assert integer_matrix(matrix).dtype == np.int64
        assert integer_matrix(matrix).toarray().tolist() == [[1, 2]]


def test_the_input_matrix_is_not_modified():
    mine = sparse.csc_array((np.array([1, 2, 0, 5]), np.array([1, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 2))
    ours = integer_matrix(mine)
    assert mine.nnz == 4
    assert ours.toarray().tolist() == [[2, 0], [1, 5]]
