import numpy as np
import pytest
from brute_force import groups
from grids import tables
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lattice_laws import two_way
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice import nearest_feasible, structure

fixed = settings(deadline=None, derandomize=True, max_examples=100)


def boxed(lower, upper):
    eye = np.eye(len(lower), dtype=int)
    return np.vstack([eye, -eye]), np.concatenate([lower, -np.asarray(upper)])


@st.composite
def problems(draw, partition):
    d, k = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if partition:  # the last label means no group
        A = (rng.integers(0, k + 1, d) == np.arange(k)[:, None]).astype(int)
        A = np.vstack([A, A.sum(axis=0)])
    else:
        A = rng.integers(-1, 3, (k, d))
    lower = rng.integers(-2, 2, d)
    upper = lower + rng.integers(0, 4, d)
    a = A @ rng.integers(lower, upper + 1)
    if draw(st.booleans()):
        a[0] += rng.integers(-4, 5)
    return A, a, lower, upper, rng.integers(-6, 7, d)


def agrees_with_enumeration(A, a, lower, upper, near, B, b):
    points = tables(lower, upper, A, a)
    points = points[(points @ B.T >= b).all(axis=1)]
    if len(points):
        x = nearest_feasible(A, a, B, b, near)
        assert (x == points).all(axis=1).any()
        assert abs(x - near).sum() == abs(points - near).sum(axis=1).min()
    else:
        with pytest.raises(InvariantError):
            nearest_feasible(A, a, B, b, near)


@pytest.mark.quick_cases(0)
@fixed
@given(problems(partition=True))
def test_water_filling_is_nearest(problem):
    agrees_with_enumeration(*problem, *boxed(*problem[2:4]))


@fixed
@given(problems(partition=False))
def test_integer_programme_is_nearest(problem):
    agrees_with_enumeration(*problem, *boxed(*problem[2:4]))


@pytest.mark.quick_cases(0)
@fixed
@given(problems(partition=False), st.integers(0, 2**32))
def test_bounds_on_several_cells(problem, seed):
    A, a, lower, upper, near = problem
    B, b = boxed(lower, upper)
    extra = np.random.default_rng(seed).integers(-1, 2, A.shape[1])
    agrees_with_enumeration(A, a, lower, upper, near, np.vstack([B, extra]), np.append(b, 1))


@fixed
@given(problems(partition=True))
def test_clipping_alone_would_break_the_totals(problem):
    A, a, lower, upper, near = problem
    assume(len(tables(lower, upper, A, a)))
    x = nearest_feasible(A, a, *boxed(lower, upper), near)
    clipped = np.clip(near, lower, upper)
    assert (A @ x == a).all()
    assert (x == clipped).all() == (A @ clipped == a).all()


def test_changes_are_spread_evenly():
    x = nearest_feasible([[1] * 5], [20], np.eye(5, dtype=int), [0] * 5, near=[-3, 0, 1, 2, 3])
    assert x.tolist() == [3, 3, 4, 5, 5]
    assert nearest_feasible([[1] * 4], [2], np.eye(4, dtype=int), [0] * 4, near=[1, 1, 0, 9]).sum() == 2


def test_hierarchy_of_many_cells():
    rng = np.random.default_rng(1)
    county = np.repeat(np.arange(300), 100)
    A = sparse.vstack([groups(county // 30, 10), groups(county, 300), np.ones((1, county.size), int)])
    table = rng.poisson(2, county.size)
    near = table + rng.geometric(0.3, county.size) - rng.geometric(0.3, county.size)
    x = nearest_feasible(A, A @ table, sparse.eye_array(county.size, dtype=int), np.zeros(county.size, int), near)
    assert (A @ x == A @ table).all()
    assert x.min() == 0


def test_stacked_margins():
    rng = np.random.default_rng(1)
    A = sparse.block_diag([sparse.coo_array(two_way(14, 24))] * 20)
    table = rng.poisson(2, A.shape[1])
    near = table + rng.geometric(0.3, table.size) - rng.geometric(0.3, table.size)
    found = structure(A)
    eye = sparse.eye_array(table.size, dtype=int)
    x = nearest_feasible(A, A @ table, eye, np.zeros(table.size, int), near, structure=found)
    assert (A @ x == A @ table).all()
    assert x.min() >= 0
    assert abs(x - near).sum() <= abs(table - near).sum()


def test_totals_beyond_the_precision_of_the_solver():
    rng = np.random.default_rng(1)
    A = two_way(4, 5)
    table = rng.integers(0, 2**48, 20)
    x = nearest_feasible(A, A @ table, np.eye(20, dtype=int), np.zeros(20, int), near=rng.integers(-5, 5, 20))
    assert (A @ x == A @ table).all()
    assert x.min() >= 0


def test_without_bounds_or_point():
    assert nearest_feasible([[1, 1, 1]], [7]).sum() == 7
    assert nearest_feasible([[3, 5]], [1], near=[2, -1]).tolist() == [2, -1]
    assert nearest_feasible(np.zeros((0, 2), int), [], near=[4, -4]).tolist() == [4, -4]


eye2 = np.eye(2, dtype=int)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1, 1]], [1], eye2, [1, 1]), r"No table has the total of row 0 \('all'\) within the bounds"),
        (([[1, 2]], [1], eye2, [1, 1]), r"nearest miss violates bound row 1"),
        (([[1, -1]], [3], [[0, 1], [-1, -1]], [0, -1]), r"nearest miss violates"),
        (([[1, 1]], [1], [[1, 1]], [2]), r"nearest miss violates (row 0 \('all'\)|bound row 0)"),
        (([[2, 4]], [1], eye2, [0, 0]), r"totals of row 0 \('all'\): the solutions are fractions"),
        (([[2, -2]], [1]), r"totals of row 0 \('all'\): the solutions are fractions"),
        (([[0, 0]], [1]), r"total of row 0 \('all'\) must be 0 .*, found 1"),
        (([[1, 1]], [3], [[1, 0], [-1, 0]], [2, -1]), r"bounds of cell 0 exclude each other: row 0, row 1"),
        (([[1, 1]], [3], [[0, 0]], [2]), r"bound of row 0 cannot be satisfied"),
        (([[1, 1]], [3], [[1, 0, 0]], [2]), r"same number of columns, found 2 and 3"),
        (([[1, 1]], [3], eye2, [2]), r"b must have one entry for each of 2 rows, found shape \(1,\)"),
        (([[1, 1]], [3], eye2, [0, 0], [1, 2, 3]), r"near must have one entry for each of 2 cells, found shape \(3,\)"),
        (([[1, 1]], [3], eye2, [0, 0], [1, 0.5]), r"near, cell 1: the entry is not an integer"),
        (([[1, 1]], [3], eye2, [0, 2**60]), r"b, row 1: the entry is not an integer of at most 2\^53"),
        (([[1, 0.5]], [3]), r"A, row 0 \('all'\), column 1"),
        (([[1, 1]], [3], [[1, 0.5]], [0]), r"B, row 0, column 1"),
    ],
)
def test_infeasible_problems_raise_with_names(arguments, message):
    with pytest.raises(InvariantError, match=message):
        nearest_feasible(*arguments, row_names=["all"])
