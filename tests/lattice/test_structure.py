"""Fixed and tied cells, classes and blocks by definition, tables with margins in rows, and real null spaces."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from enumeration import groups, rational_kernel, rational_rank, systems
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_laws import MARGINS, columns_within_states, grouped_columns, two_way

import ppdinf as ppd
from ppdinf.errors import InvariantError
from ppdinf.lattice import kernel, margin_matrix, structure
from ppdinf.lattice import null_space as module
from ppdinf.lattice.class_sums import elimination_order
from ppdinf.lattice.null_space import null_space
from ppdinf.lattice.systems import integer_matrix

fixed = settings(deadline=None, derandomize=True, max_examples=120)


def finest_blocks(A):
    """Split cells by the definition: S is a union of blocks if rank(S) + rank(not S) = rank."""
    cells = range(A.shape[1])
    together = np.ones((A.shape[1], A.shape[1]), dtype=bool)
    for size in cells:
        for S in itertools.combinations(cells, size):
            inside = np.isin(cells, S)
            if rational_rank(A[:, inside]) + rational_rank(A[:, ~inside]) == rational_rank(A):
                together &= inside[:, None] == inside[None, :]
    return together


@pytest.mark.quick_cases(0)
@fixed
@given(systems(max_rows=3, max_cells=4))
def test_structure_by_definition(A):
    found = structure(A)
    K = rational_kernel(A)
    assert (found.fixed == ~K.astype(bool).any(axis=1)).all()
    for i, j in itertools.product(range(A.shape[1]), repeat=2):
        if K[i].any() and K[j].any():
            tied = rational_rank(K[[i, j]]) == 1
            assert tied == (found.tied_to[i] == found.tied_to[j])
    for i in range(A.shape[1]):
        lead, ratio = found.tie(i)
        assert lead <= i
        assert (K[i] == ratio * K[lead]).all()
    assert ((found.blocks[:, None] == found.blocks[None, :]) == finest_blocks(A)).all()
    for c, determined in enumerate(found.determined):
        assert determined == (not K[found.classes == c].sum(axis=0).any())
    for b, (rank, sum_rank) in enumerate(zip(found.block_ranks, found.sum_ranks, strict=True)):
        inside = found.blocks == b
        assert rank == inside.sum() - rational_rank(A[:, inside])
        columns = {tuple(column) for column in A[:, inside].T.tolist() if any(column)}
        distinct = np.array(sorted(columns)).reshape(len(columns), len(A)).T
        assert sum_rank == (len(columns) - rational_rank(distinct) if columns else 1)
    assert found.block_ranks.sum() == found.lattice.rank
    assert found.is_partition == found.determined.all()


@pytest.mark.quick_cases(0)
@fixed
@given(systems())
def test_core_variables_determine_the_class_sums(A):
    found = structure(A)
    core, K = found.core, found.lattice.class_basis.toarray()
    inside = core.variables >= 0
    assert (inside == (core.heights != 0)).all()
    assert (inside == (found.sum_ranks > 1)[found.blocks[found.lattice.representatives]]).all()
    n, basis = core.system.shape[1], K[inside]
    assert n - core.system.shape[0] == found.sum_ranks[found.sum_ranks > 1].sum()
    w = np.zeros((n, K.shape[1]), dtype=int)
    for variable, height, row in zip(core.variables[inside], core.heights[inside], basis, strict=True):
        assert not (row % height).any()
        assert not w[variable].any() or (w[variable] == row // height).all()
        w[variable] = row // height
    assert not (core.system @ w).any()


@fixed
@given(systems())
def test_elimination_order_assigns_every_variable_to_a_bucket(A):
    system = integer_matrix(A)
    order = elimination_order(system)
    assert sorted(order.rows.tolist()) == list(range(len(A)))
    seen = []
    for row, near, variables in zip(order.rows, order.open_rows, order.variables, strict=True):
        assert len(near) <= order.width
        for v in variables:
            assert set(np.flatnonzero(A[:, v])) <= {row, *near}
        seen += variables.tolist()
    assert sorted(seen) == np.flatnonzero(A.any(axis=0)).tolist()


@fixed
@given(systems())
def test_elimination_order_has_minimum_degree(A):
    order = elimination_order(integer_matrix(A))
    linked, open_rows = (A != 0).astype(int) @ (A != 0).astype(int).T > 0, np.ones(len(A), dtype=bool)
    np.fill_diagonal(linked, False)
    for row, near in zip(order.rows, order.open_rows, strict=True):
        degrees = np.where(open_rows, linked[:, open_rows].sum(axis=1), len(A))
        assert row == degrees.argmin()
        open_rows[row] = False
        assert near.tolist() == np.flatnonzero(linked[row] & open_rows).tolist()
        linked[np.ix_(near, near)] = True
        np.fill_diagonal(linked, False)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(2, 4), st.integers(2, 5))
def test_elimination_width_of_two_way_tables(rows, columns):
    core = structure(two_way(rows, columns)).core
    if rows > 2 and columns > 2:
        assert core.order.width == min(rows, columns) - 1
    else:
        assert core.order.width == 0


def test_hierarchies_are_partitions_into_their_finest_groups():
    county = np.arange(600) % 60
    nested = np.vstack([np.ones((1, 600), int), groups(county // 10, 6).toarray(), groups(county, 60).toarray()])
    found = structure(nested)
    assert found.is_partition
    assert found.sum_ranks.size == 60
    assert found.lattice.rank == 540


def test_three_intersecting_sets_over_14_records():
    regions = [np.array(bits) for bits in itertools.product([0, 1], repeat=3) if any(bits)]
    A = np.column_stack(regions * 2)
    found = structure(A)
    assert np.unique(found.classes).size == 7
    assert found.sum_ranks.tolist() == [4]
    assert found.lattice.rank == 11
    outside = structure(np.column_stack([A, np.zeros((3, 1), int)]))
    assert np.unique(outside.classes).size == 8
    assert outside.sum_ranks.tolist() == [4, 1]


def test_sex_by_age_with_three_sums_has_one_degree_of_freedom():
    sex, age = np.divmod(np.arange(46), 23)
    found = structure(np.vstack([np.ones(46, int), sex, age >= 5]).astype(int))
    assert np.unique(found.classes).size == 4
    assert found.sum_ranks.tolist() == [1]
    assert found.lattice.rank == 43
    assert "One-dimensional class sums: 46 cells in 1 block." in str(found)


def test_two_rows_with_both_margins_are_tied():
    found = structure(two_way(2, 6))
    assert found.tied_to.tolist() == [0, 1, 2, 3, 4, 5] * 2
    assert found.tie(8) == (2, Fraction(-1))
    assert found.core.system.shape == (1, 6)


def test_larger_two_way_tables_are_core():
    found = structure(two_way(3, 4))
    assert (found.tied_to == np.arange(12)).all()
    assert found.sum_ranks.tolist() == [6]
    assert "Core: 12 cells in 1 block; variables 12, independent constraints 6, elimination width 2." in str(found)


def test_weights_give_rational_ties():
    assert structure([[2, 3]]).tie(1) == (0, Fraction(-2, 3))
    assert structure([[1, 2, 0], [0, 3, 5]]).tie(2) == (0, Fraction(3, 10))


@pytest.mark.parametrize(("A", "line"), [
    (np.eye(3, dtype=int), "Released without noise: 3 cells (0, 1, 2)."),
    (np.zeros((1, 12), int), "In no constraint: 12 cells (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...)."),
    (np.ones((1, 5), int), "Sum over the class is public: 5 cells in 1 class."),
    ([[1, 1]], "Tied to another cell: 1 cell (1)."),
])  # fmt: skip
def test_summary_lines(A, line):
    assert line in structure(A).summary()


@pytest.mark.deep
def test_ten_million_cells_under_51_totals():
    found = structure(groups(np.random.default_rng(1).integers(0, 51, 10_000_000), 51))
    assert found.is_partition
    assert found.sum_ranks.size == 51


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
