import itertools

import numpy as np
import pytest
from enumeration import distinct, groups, pieces
from grids import tables
from lattice_laws import two_way

from ppdinf.errors import InvariantError
from ppdinf.lattice import connected_moves, kernel, margin_matrix, margin_moves, structure
from ppdinf.lattice.move_families import MarginSwaps, junction_tree, margin_swaps, margins_of
from ppdinf.lattice.moves import computed_basis, program
from ppdinf.lattice.systems import integer_matrix

DRAWS = 4000
ORDER = np.random.default_rng(3).permutation(16)


def small_fibers():
    """Yield name, system and a table with its totals; non-negative fibers of at most a few hundred points."""
    tables = np.random.default_rng(7)
    for R, C in [(2, 2), (2, 3), (2, 4), (3, 3), (3, 3), (3, 4), (3, 4), (4, 4)]:
        yield f"two-way {R}x{C}", two_way(R, C), tables.multinomial(5, np.ones(R * C) / (R * C))
    yield "permutations", two_way(3, 3), np.eye(3, dtype=int).ravel()
    for n in (3, 5):
        yield f"total {n}", np.ones((1, n), int), tables.integers(0, 3, n)
    yield "groups", groups([0, 0, 1, 1, 1, 2], 3).toarray(), np.array([1, 2, 0, 1, 1, 2])
    nested = np.vstack([np.ones((1, 6), int), groups([0, 0, 0, 1, 1, 1], 2).toarray()])
    yield "hierarchy", nested, tables.integers(0, 3, 6)
    yield "weights 3 5 7", np.array([[3, 5, 7]]), np.array([4, 0, 0])
    for weights in ([1, 2, 3], [2, 3, 5], [1, 1, 2, 3], [2, 2, 3, 3], [4, 5, 6, 7]):
        yield f"weights {weights}", np.array([weights]), tables.integers(1, 4, len(weights))
    sets = np.column_stack([bits for bits in itertools.product([0, 1], repeat=3) if any(bits)])
    yield "three sets", sets, np.ones(7, int)
    sex, age = np.divmod(np.arange(6), 3)
    yield "three sums", np.vstack([np.ones(6, int), sex, age >= 1]).astype(int), np.array([1, 0, 1, 1, 1, 0])
    for shape in [(2, 2, 2), (2, 2, 3)]:
        A = margin_matrix(shape, [(0, 1), (0, 2), (1, 2)]).toarray()
        yield f"no three-way {shape}", A, tables.integers(0, 2, A.shape[1])
    for _ in range(9):
        A = np.vstack([np.ones((1, 5), int), tables.integers(0, 3, (1, 5))])
        yield "random", A, tables.integers(0, 3, 5)


FIBERS = list(small_fibers())
MARGINS = [
    ((3, 3), [(0,), (1,)]), ((2, 2, 2), [(0, 1), (1, 2)]), ((2, 2, 3), [(0, 2), (1, 2)]),
    ((2, 2, 2), [(0,), (1,), (2,)]), ((2, 2, 2), [(0, 1), (2,)]), ((2, 3, 2), [(0,), (1,)]), ((2, 2, 2), [(1,)]),
    ((2, 2, 2, 2), [(0, 1), (1, 2), (2, 3)]), ((2, 2, 2), [(0, 1), (1, 2), (0, 2)]),
]  # fmt: skip


def points_of(A, table, upper=None):
    total = A @ table
    largest = [int((total[A[:, j] > 0] // A[A[:, j] > 0, j]).min(initial=10**6)) for j in range(A.shape[1])]
    return tables([0] * A.shape[1], largest if upper is None else upper, A, total)


@pytest.mark.parametrize("seconds", [0, 10], ids=["alone", "4ti2"])
@pytest.mark.parametrize("case", range(len(FIBERS)), ids=[name for name, _, _ in FIBERS])
def test_nonnegative_fibers_are_connected(case, seconds):
    _, A, table = FIBERS[case]
    moves = connected_moves(A, seconds=seconds)
    drawn = distinct(moves.draw(DRAWS, rng=1))
    assert moves.connected
    assert not (A @ drawn.T).any()
    assert pieces(points_of(A, table), drawn) == 1


@pytest.mark.parametrize("case", range(len(FIBERS)), ids=[name for name, _, _ in FIBERS])
def test_boxes_and_fibers_with_further_inequalities_are_connected(case):
    _, A, table = FIBERS[case]
    points = points_of(A, table, upper=np.maximum(table, 1))
    assert pieces(points, distinct(connected_moves(A, bounds="box").draw(DRAWS, rng=1))) == 1
    points = points_of(A, table)
    ordered = points[points[:, 0] + points[:, -1] >= table[0] + table[-1]]
    assert pieces(ordered, distinct(connected_moves(A, bounds="any").draw(DRAWS, rng=1))) == 1


def test_basis_moves_do_not_connect_several_fibers():
    apart = [name for name, A, table in FIBERS if pieces(points_of(A, table), kernel(A).basis.toarray().T) > 1]
    assert {"permutations", "weights 3 5 7"} <= set(apart)
    assert len(FIBERS) >= 30
    assert not connected_moves(np.ones((1, 3), int), bounds="none").reason.count("lower")


def test_basis_moves_connect_without_bounds():
    moves = connected_moves([[2, 3, 5]], bounds="none")
    assert moves.draw(20, rng=1).shape == (3, 20)
    assert len(distinct(moves.draw(200, rng=1))) == 2


def test_pair_transfers_are_necessary():
    A = np.ones((1, 3), int)
    points = tables([0, 0, 0], [0, 1, 1], A, [1])
    assert pieces(points, kernel(A).basis.toarray().T) == 2
    assert pieces(points, distinct(connected_moves(A, bounds="box").draw(50, rng=1))) == 1


def test_cycles_are_necessary_with_a_forbidden_diagonal():
    A = two_way(3, 3)
    allowed = 1 - np.eye(3, dtype=int).ravel()
    points = tables([0] * 9, allowed, A, [1] * 6)
    assert len(points) == 2
    assert pieces(points, distinct(connected_moves(A, bounds="lower").draw(DRAWS, rng=1))) == 2
    assert pieces(points, distinct(connected_moves(A, bounds="box").draw(DRAWS, rng=1))) == 1


def assert_connected(A, moves, seeds):
    """Random fibers of about four records are connected by moves in the kernel."""
    drawn = distinct(moves.draw(DRAWS, rng=1))
    assert not (A @ drawn.T).any()
    for seed in range(seeds):
        table = (np.random.default_rng(seed).random(A.shape[1]) < 4 / A.shape[1]).astype(int)
        assert pieces(points_of(A, table), drawn) == 1


@pytest.mark.parametrize(("shape", "generators"), MARGINS)
def test_margin_moves_connect(shape, generators):
    assert_connected(margin_matrix(shape, generators).toarray(), margin_moves(shape, generators), 4)


CHAIN = margin_matrix((2, 2, 2, 2), [(0, 1), (1, 2), (2, 3)]).toarray()
TWO = margin_matrix((2, 2, 2), [(0, 1), (1, 2)]).toarray()


@pytest.mark.parametrize(
    ("A", "separators"),
    [
        (CHAIN, ["2 separators of a 2 x 2 x 2 x 2 table with 3 margins"]),
        (CHAIN[:, ORDER], ["2 separators of a 2 x 2 x 2 x 2 table with 3 margins"]),
        (np.repeat(TWO, 2, axis=1), []),
        (np.repeat(CHAIN, [1, 2] + [1] * 14, axis=1), []),
        (np.kron(np.eye(2, dtype=int), margin_matrix((2, 2, 2), [(0,), (1,), (2,)]).toarray()), ["2 separators"]),
    ],
    ids=["chain", "cells in another order", "classes under two margins", "classes of unlike size", "two blocks"],
)
def test_decomposable_margins_of_class_sums_are_detected(A, separators):
    """Each fiber of a few records is connected; without the swaps across a separator it is not (below)."""
    moves = connected_moves(A, seconds=0)
    for phrase in separators:
        assert phrase in moves.reason
        assert "combinations" not in moves.reason
    assert_connected(A, moves, 6)


def test_margins_without_a_theorem_are_not_proved():
    for generators in ([(0, 1), (1, 2), (0, 2)], [(0, 1), (1, 2), (2, 3), (3, 0)]):
        A = margin_matrix((2,) * (1 + max(map(max, generators))), generators)
        assert "separator" not in connected_moves(A, seconds=0).reason
    for bounds in ("box", "any"):
        assert "separator" not in connected_moves(CHAIN, bounds=bounds, seconds=0).reason


def test_swaps_across_one_separator_alone_do_not_connect():
    shape, generators = (2, 2, 2, 2), [(0, 1), (1, 2), (2, 3)]
    A = margin_matrix(shape, generators).toarray()
    moves = margin_moves(shape, generators)
    family = next(family for family, _, _ in moves.families if isinstance(family, MarginSwaps))
    across_two = family.groups[family.groups[:, 2] == 0]
    partial = MarginSwaps(family.shape, across_two).draw(DRAWS, np.random.default_rng(1))
    table = np.bincount([0b0000, 0b1011], minlength=16)  # equal in dimension 1 only
    assert pieces(points_of(A, table), distinct(partial)) > 1
    assert pieces(points_of(A, table), distinct(moves.draw(DRAWS, rng=1))) == 1


@pytest.mark.parametrize(("generators", "decomposable"), [
    ([{0, 1}, {1, 2}, {2, 3}], True),
    ([{0, 1}, {1, 2}, {2, 3}, {3, 0}], False),
    ([{0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {5}], True),
    ([{0, 1}, {1, 2}, {0, 2}], False),
    ([{0, 1, 2}, {0, 3}, {1, 4}, {2, 5}], True),
    ([{0, 1, 2}, {0, 3, 4}, {1, 3, 5}], False),
])  # fmt: skip
def test_junction_trees(generators, decomposable):
    assert (junction_tree([frozenset(g) for g in generators]) is not None) == decomposable


@pytest.mark.parametrize(
    ("A", "phrase"),
    [
        (two_way(3, 5), "basic swaps of a 3 x 5 table"),
        (np.vstack([np.ones(15, int), two_way(3, 5)]), "basic swaps of a 3 x 5 table"),
        (groups([0, 0, 1], 2), "transfers within classes of equal cells"),
        ([[1, 2, 2]], "transfers within classes of equal cells; the one direction of each one-dimensional block"),
        (np.eye(2, dtype=int), "nothing moves"),
        ([[2, 3, 5]], "integer combinations of the reduced basis"),
        (two_way(3, 3)[:, 1:], "cycles of a graph"),
    ],
)
def test_reasons(A, phrase):
    assert phrase in connected_moves(A, seconds=0).reason


def test_swaps_of_every_position_are_drawn():
    drawn = distinct(connected_moves(two_way(3, 4)).draw(DRAWS, rng=1))
    assert len(drawn) == 2 * 3 * 6
    assert (abs(drawn).sum(axis=1) == 4).all()
    cycles = distinct(connected_moves(two_way(3, 3), bounds="box").draw(DRAWS, rng=1))
    assert len(cycles) == 2 * (9 + 6)


def test_every_short_lattice_vector_is_drawn():
    moves = connected_moves([[1, 1, 2, 3]], bounds="any")
    drawn = {tuple(v) for v in distinct(moves.draw(200_000, rng=1)).tolist()}
    short = {v for v in itertools.product(range(-2, 3), repeat=4) if v @ np.array([1, 1, 2, 3]) == 0 and any(v)}
    assert short <= drawn
    assert (0, 0, 0, 0) not in drawn


@pytest.mark.quick_cases(0)
def test_moves_of_large_tables_are_not_listed():
    found = structure(groups(np.arange(200_000) % 51, 51))
    moves = connected_moves(found)
    assert moves.draw(1000, rng=1).nnz == 2000
    county_age = margin_moves((3000, 23), [(0,), (1,)])
    assert county_age.draw(1000, rng=1).nnz == 4000


def test_draws_are_reproducible():
    moves = connected_moves(two_way(3, 3))
    assert (moves.draw(50, rng=3) != moves.draw(50, rng=3)).nnz == 0
    shared = np.random.default_rng(3)
    assert (moves.draw(50, rng=shared) != moves.draw(50, rng=shared)).nnz > 0


@pytest.mark.skipif(program("markov") is None, reason="4ti2 is not installed")
def test_4ti2_bases_are_used_if_available():
    assert "Markov bases by 4ti2" in connected_moves([[2, 3, 5]]).reason
    assert "Graver bases by 4ti2" in connected_moves([[2, 3, 5]], bounds="box").reason
    assert computed_basis(integer_matrix(margin_matrix((5, 5, 5), [(0, 1), (0, 2), (1, 2)])), "graver", 0.2) is None


def test_without_4ti2_combinations_are_used(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert program("markov") is None
    assert "integer combinations" in connected_moves([[2, 3, 5]]).reason


def test_unknown_bounds_raise():
    with pytest.raises(InvariantError, match="bounds must be one of 'none', 'lower', 'box', 'any', found 'upper'"):
        connected_moves([[1, 1]], bounds="upper")


CUBE = [(0, 1), (0, 2), (1, 2)]


def signless(vectors):
    """Return vectors up to sign."""
    first = vectors[np.arange(len(vectors)), abs(vectors).argmax(axis=1)]
    return {tuple(v) for v in (vectors * np.sign(first)[:, None]).tolist()}


def test_swaps_of_a_cube_are_its_markov_basis():
    """27 cubes and 54 moves of 12 cells (Diaconis and Sturmfels 1998), by enumeration of all moves of a corner."""
    A = margin_matrix((3, 3, 3), CUBE).toarray()
    basis = kernel(A).basis.toarray()
    coefficients = np.array(list(itertools.product((-1, 0, 1), repeat=8)))
    vectors = coefficients @ basis.T
    norms = abs(vectors).sum(axis=1)
    short = signless(vectors[(abs(vectors).max(axis=1) == 1) & ((norms == 8) | (norms == 12))])
    drawn = signless(
        distinct(margin_swaps((3, 3, 3), [frozenset(g) for g in CUBE]).draw(20_000, np.random.default_rng(1)))
    )
    assert len(drawn) == 27 + 54
    assert drawn == short


@pytest.mark.parametrize(("shape", "generators"), [
    ((3, 3, 3), CUBE),
    ((2,) * 4, list(itertools.combinations(range(4), 2))),
    ((2,) * 4, list(itertools.combinations(range(4), 3))),
    ((2, 3, 2, 2), [(0, 1), (1, 2), (2, 3), (3, 0)]),
    ((2, 1, 3, 2), [(0, 2), (2, 3), (0, 3)]),
    ((2, 3, 2, 2), [(0, 1), (2,)]),
])  # fmt: skip
def test_swaps_preserve_the_margins_of_a_system(shape, generators):
    A = margin_matrix(shape, generators)
    doubled = np.vstack([A.toarray(), A.toarray()[:3] + A.toarray()[1:4]])
    found = margins_of(kernel(doubled), shape)
    assert (margin_matrix(shape, found) @ kernel(A).basis).count_nonzero() == 0
    swaps = margin_swaps(shape, found)
    drawn = swaps.draw(2000, np.random.default_rng(1))
    assert not (A @ drawn).count_nonzero()
    assert abs(drawn).max() == 1
    assert set(abs(drawn).sum(axis=0).tolist()) <= {4, 6, 8, 12, 16, 24}
    combined = np.linalg.matrix_rank(drawn.toarray())
    transfers = kernel(A).rank - kernel(margin_matrix(shape, found)).class_basis.shape[1]
    assert combined + transfers >= kernel(A).rank
    partly = np.vstack([A.toarray(), np.eye(A.shape[1], dtype=int)[:1]])  # a cell is also public
    assert margins_of(kernel(partly), shape) != found


@pytest.mark.parametrize("bounds", ["lower", "box", "any"])
def test_models_without_a_theorem_get_swaps_and_combinations(bounds):
    moves = margin_moves((3, 3, 3), CUBE, bounds=bounds, seconds=0)
    kinds = {type(family).__name__ for family, _, _ in moves.families}
    assert kinds == {"MarginSwaps", "Combinations"}
    assert "integer combinations" in moves.reason
    chain = margin_moves((2, 2, 2, 2), [(0, 1), (1, 2), (2, 3)], seconds=0)
    assert [type(family).__name__ for family, _, _ in chain.families] == ["MarginSwaps"]


def test_half_of_the_moves_change_class_sums():
    """Six margins of 2**8 cells: 16 classes of 16 cells, so that transfers have 240 of 245 dimensions."""
    moves = margin_moves((2,) * 8, list(itertools.combinations(range(4), 2)), seconds=0)
    classes = np.arange(256) // 16
    sums = np.equal.outer(np.arange(16), classes).astype(np.int64)
    drawn = moves.draw(4000, rng=1)
    across = np.count_nonzero(abs(sums @ drawn).sum(axis=0))
    assert abs(across - 2000) < 4 * np.sqrt(1000)  # false alarm rate 1 in 16,000
