"""Feasible tables, cells with one value, shortest vectors and decision diagrams, against a filtered grid."""

import itertools

import numpy as np
import pytest
from chi_square import p_value_of_tables
from enumeration import groups
from grids import box, tables
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lattice_laws import two_way
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice import fiber_tables as module
from ppdinf.lattice import nearest_feasible, structure
from ppdinf.lattice.decision_diagram import decision_diagram
from ppdinf.lattice.fiber_tables import cell_intervals, fiber_tables, fixed_cells
from ppdinf.lattice.shortest import nearest_steps, shortest_distance, shortest_step

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


def system(seed):
    """Return random sums and bounds, some of them tight, and all tables with counts up to 4."""
    rng = np.random.default_rng(seed)
    d, k = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    A = rng.integers(-1 if seed % 3 == 0 else 0, 3, size=(k, d))
    x = rng.integers(0, 4, size=d) * rng.integers(0, 2, size=d)
    eye = np.eye(d, dtype=int)
    B, limits = np.vstack([eye, -eye]), np.r_[np.zeros(d, dtype=int), np.full(d, -4)]
    for _ in range(seed % 3):  # bounds that connect cells
        row = rng.integers(-1, 2, size=d)
        B, limits = np.vstack([B, row]), np.r_[limits, row @ x - rng.integers(0, 2)]
    listed = tables([0] * d, [4] * d, A, A @ x, B, limits)
    A, B = (sparse.csr_array(M.astype(np.int64)) for M in (A, B))
    return (A, A @ x, B, limits), listed


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("part", range(10))
def test_equals_a_filtered_grid(part):
    """Forty random systems per part; in some of them propagation alone misses a fixed cell."""
    for seed in range(40 * part, 40 * part + 40):
        rows, listed = system(seed)
        assert np.array_equal(fiber_tables(*rows), listed), seed
        lowest, highest = listed.min(axis=0), listed.max(axis=0)
        low, high = cell_intervals(*rows)
        assert np.all(low <= lowest), seed
        assert np.all(high >= highest), seed
        assert fixed_cells(structure(rows[0]), *rows).tolist() == (lowest == highest).tolist(), seed


@pytest.mark.quick_cases(0)
def test_enumeration_rejects_propagation_alone_and_sums_alone(monkeypatch):
    """Wrong variants: propagation alone, and no bounds."""
    missed = {"propagation": 0, "sums": 0}
    monkeypatch.setattr(module, "SMALL", 0)
    for seed in range(200):
        rows, listed = system(seed)
        expected = listed.min(axis=0) == listed.max(axis=0)
        marked = fixed_cells(structure(rows[0]), *rows)
        assert not np.any(marked & ~expected), seed  # only fixed cells are marked
        missed["propagation"] += not np.array_equal(marked, expected)
        missed["sums"] += not np.array_equal(structure(rows[0]).fixed, expected)
    assert missed["propagation"] > 1
    assert missed["sums"] > 50


def test_large_and_infinite_fibers_return_none():
    none = np.zeros((0, 3), dtype=int), np.zeros(0, dtype=int)
    assert fiber_tables([[1, 1, 1]], np.array([3]), *none) is None
    positive = np.eye(3, dtype=int), np.zeros(3, dtype=int)
    assert len(fiber_tables([[1, 1, 1]], np.array([3]), *positive)) == 10
    assert fiber_tables([[1, 1, 1]], np.array([3]), *positive, most=9) is None
    assert fiber_tables([[1, 1, 1]], np.array([10**9]), *positive) is None
    assert len(fiber_tables([[1, 1, 1]], np.array([-1]), *positive)) == 0


def test_cells_without_bounds_stay_free():
    """A cell without an upper limit: x1 + x2 = 5 with x1 >= 0 alone fixes no cell."""
    A, B = sparse.csr_array([[1, 1]]), sparse.csr_array([[1, 0]])
    assert not fixed_cells(structure(A), A, np.array([5]), B, np.array([0])).any()
    tight = sparse.csr_array([[1, 0], [0, 1]])
    assert fixed_cells(structure(A), A, np.array([5]), tight, np.array([2, 3])).all()


def test_large_counts_are_decided_in_integers():
    """2 x 2 tables with margins of 2**50: one unit is free, or no unit."""
    A = sparse.csr_array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    eye, n = sparse.csr_array(sparse.eye_array(4, dtype=np.int64)), 2**50
    for least, fixed in ((0, True), (1, False)):
        values = np.array([least, 2 * n - least, n, n])
        assert fixed_cells(structure(A), A, values, eye, np.zeros(4, dtype=np.int64)).all() == fixed


@pytest.mark.quick_cases(0)
def test_large_tables_are_propagated():
    """Row totals of zero in a table of 40,000 cells."""
    n = 200
    rows, columns = sparse.eye_array(n), np.ones((1, n))
    A = sparse.vstack([sparse.kron(rows, columns), sparse.kron(columns, rows)], format="csr").astype(np.int64)
    x = np.ones((n, n), dtype=np.int64)
    x[:3], x[:, :5] = 0, 0
    B = sparse.csr_array(sparse.eye_array(n * n, dtype=np.int64))
    low, high = cell_intervals(A, A @ x.ravel(), B, np.zeros(n * n, dtype=np.int64))
    assert (high[x.ravel() == 0] == 0).all()
    assert low.max() == 0
    found = fixed_cells(structure(A), A, A @ x.ravel(), B, np.zeros(n * n, dtype=np.int64))
    assert found.tolist() == (x.ravel() == 0).tolist()


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


@pytest.mark.parametrize("A", [
    [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]], [[1, 1, 1, 0], [0, 0, 1, 1]],
    [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0]],
    [[2, 3, 5]], [[1, 2, 4]], [[3, -3, 1]], [[1, 1, 0, 0], [0, 1, 1, 0]], [[0, 0], [0, 0]], [[1, 0], [0, 1]],
])  # fmt: skip
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


RARE = 1e-6  # 60 tests: false alarm rate 1 in 17,000 runs


def problem(seed):
    """Return rows of small integers, supports with holes, and all solutions."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 4)), int(rng.integers(1, 7))
    M = rng.integers(-1, 3, (k, n)) * (rng.random((k, n)) < 0.7)
    supports = [np.sort(rng.choice(np.arange(-3, 6), int(rng.integers(1, 6)), replace=False)) for _ in range(n)]
    v = np.array([rng.choice(own) for own in supports])
    c = M @ v
    every = np.array(list(itertools.product(*supports)))
    return rng, M, c, supports, every[(every @ M.T == c).all(axis=1)]


def weights_of(solutions, supports, log_weights):
    begins = np.concatenate([[0], np.cumsum([own.size for own in supports])[:-1]])
    at = [begins[j] + np.searchsorted(supports[j], solutions[:, j]) for j in range(len(supports))]
    return np.array([log_weights[places] for places in at])


@pytest.mark.quick_cases(34)
@pytest.mark.parametrize("scale", [0.0, 1.0, 3.0, 300.0, 5000.0])
@pytest.mark.parametrize("seed", range(12))
def test_draws_have_the_law_of_the_weights(seed, scale):
    rng, M, c, supports, solutions = problem(seed)
    diagram = decision_diagram(sparse.csc_array(M), c, supports)
    log_weights = scale * rng.standard_normal(sum(own.size for own in supports))
    log_law = weights_of(solutions, supports, log_weights).sum(axis=0)
    law = np.exp(log_law - log_law.max())
    law /= law.sum()
    drawn = np.array([diagram.draw(log_weights, rng) for _ in range(1500)])
    assert p_value_of_tables(drawn, solutions, law) > RARE


@pytest.mark.parametrize("seed", range(30))
def test_values_that_occur_and_the_cheapest_solution(seed):
    rng, M, c, supports, solutions = problem(seed)
    diagram = decision_diagram(sparse.csc_array(M), c, supports)
    occur = [np.isin(own, solutions[:, j]) for j, own in enumerate(supports)]
    assert diagram.used.tolist() == np.concatenate(occur).tolist()
    cost = rng.random(diagram.values.size)
    best = diagram.nearest(cost)
    costs = weights_of(solutions, supports, cost).sum(axis=0)
    assert weights_of(best[None], supports, cost).sum() == pytest.approx(costs.min())


def test_problems_without_draws():
    die = np.array([1, 3, 5])
    odd = decision_diagram(sparse.csc_array(np.ones((1, 2), dtype=int)), np.array([5]), [die, die])
    rng = np.random.default_rng(1)
    assert odd.edges == 0
    assert odd.draw(np.zeros(6), rng) is None
    assert odd.nearest(np.zeros(6)) is None
    even = decision_diagram(sparse.csc_array(np.ones((1, 2), dtype=int)), np.array([4]), [die, die])
    assert even.draw(np.array([-np.inf, 0, 0, -np.inf, 0, 0]), rng) is None
    many = [np.arange(1000)] * 3
    assert decision_diagram(sparse.csc_array(np.ones((1, 3), dtype=int)), np.array([900]), many, largest=10_000) is None


def test_sums_of_thirty_rows_do_not_overflow():
    """Thirty open sums with 40 values each; few combinations occur."""
    M = np.vstack([np.eye(30, dtype=int), np.ones((1, 30), dtype=int)])
    M = np.hstack([M, np.vstack([np.eye(30, dtype=int), np.zeros((1, 30), dtype=int)])])
    supports = [np.array([0, 40])] * 30 + [np.arange(41)] * 30
    c = np.append(np.full(30, 40), 40)
    diagram = decision_diagram(sparse.csc_array(M), c, supports)
    x = diagram.draw(np.zeros(diagram.values.size), np.random.default_rng(1))
    assert (M @ x == c).all()


def test_variables_under_no_equation():
    none = sparse.csc_array((0, 2), dtype=np.int64)
    diagram = decision_diagram(none, np.zeros(0, dtype=np.int64), [np.array([0, 2]), np.array([1, 4])])
    found = {tuple(diagram.draw(np.zeros(4), np.random.default_rng(seed)).tolist()) for seed in range(60)}
    assert found == {(0, 1), (0, 4), (2, 1), (2, 4)}
