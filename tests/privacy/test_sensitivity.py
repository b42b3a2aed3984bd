"""Sensitivities against all pairs of columns, ellipsoids around changes, and distances of laws by linear programs."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from integer_programmes import distance_by_programme
from scipy import sparse, stats

from ppdinf.privacy import wasserstein_infinity
from ppdinf.privacy.sensitivity import enclosing_ellipsoid, sensitivity, sensitivity_polytope


def by_brute_force(query, p, neighbours):
    columns = np.asarray(query, dtype=float).T
    moves = columns if neighbours == "added" else [a - b for a, b in itertools.product(columns, repeat=2)]
    return max(np.linalg.norm(move, ord=p) for move in moves)


def random_queries():
    rng = np.random.default_rng(1)
    for _ in range(150):
        q, d = rng.integers(1, 9, size=2)
        kind = rng.integers(4)
        dense = rng.normal(size=(q, d)) if kind < 2 else rng.integers(-3, 4, size=(q, d)).astype(float)
        if kind % 2:
            dense *= rng.random((q, d)) < 0.3
        yield dense


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("neighbours", ["added", "replaced"])
def test_against_all_pairs_of_columns(p, neighbours):
    for query in random_queries():
        expected = by_brute_force(query, p, neighbours)
        assert sensitivity(query, p=p, neighbours=neighbours) == pytest.approx(expected, rel=1e-12)
        assert sensitivity(sparse.coo_array(query), p=p, neighbours=neighbours) == pytest.approx(expected, rel=1e-12)


@pytest.mark.quick_cases(0)
def test_the_cells_themselves():
    """1,000,000 counts: 1 if a record is added, 2 and the square root of 2 if it is moved."""
    cells = sparse.eye_array(10**6)
    assert sensitivity(cells, p=1, neighbours="added") == sensitivity(cells, p=2, neighbours="added") == 1
    assert sensitivity(cells, p=1) == 2
    assert sensitivity(cells, p=2) == pytest.approx(np.sqrt(2), rel=1e-15)


def test_large_columns_that_are_nearly_equal():
    """The difference of two numbers near 10^10 is 1; a difference of their squares would be lost."""
    query = [[10**10, 10**10 + 1, 10**10], [0, 0, 2]]
    for p, expected in ((1, 3), (2, np.sqrt(5))):
        assert sensitivity(query, p=p) == pytest.approx(expected, rel=1e-12)


def test_one_cell_cannot_be_replaced():
    assert sensitivity([[3], [4]], p=2) == 0
    assert sensitivity([[3], [4]], p=2, neighbours="added") == 5


@pytest.mark.parametrize("neighbours", ["added", "replaced"])
def test_the_longest_move_of_the_polytope_is_the_sensitivity(neighbours):
    for query in random_queries():
        moves = sensitivity_polytope(query, neighbours=neighbours)
        found = np.linalg.norm(moves, axis=0).max(initial=0)
        assert found == pytest.approx(sensitivity(query, p=2, neighbours=neighbours), rel=1e-12)
        assert all(np.any(moves != 0, axis=0))
        assert len({tuple(np.sign(m[m != 0][0]) * m) for m in moves.T}) == moves.shape[1]  # none twice, up to sign


def test_ellipsoids_of_known_shapes():
    cube = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).astype(float)
    assert np.allclose(enclosing_ellipsoid(cube), 3 * np.eye(3))
    assert np.allclose(enclosing_ellipsoid(np.diag([5.0, 2, 1, 3])), np.diag([25, 4, 1, 9]), rtol=3e-3)
    assert enclosing_ellipsoid(np.array([[1.0, -7, 3]])) == [[49]]


@pytest.mark.parametrize(("m", "n"), [(2, 2), (2, 30), (5, 12), (9, 60)])
def test_points_are_inside_and_the_volume_is_certified(m, n):
    """John: weights on touching points with this moment matrix prove that no smaller ellipsoid exists."""
    rng = np.random.default_rng(m + n)
    points = rng.normal(size=(m, n)) * np.logspace(0, 2, m)[:, None]
    for tolerance in (1e-2, 1e-6):
        shape = enclosing_ellipsoid(points, tolerance=tolerance)
        assert np.einsum("ij,ij->j", points, np.linalg.solve(shape, points)).max() <= 1 + 1e-9
        # any ellipsoid around the points has det at least m^m det(moment), for any weights: here, random ones
        for weights in rng.dirichlet(np.ones(n), size=20):
            moment = (points * weights) @ points.T
            assert np.linalg.slogdet(shape)[1] >= np.linalg.slogdet(m * moment)[1] - 1e-9
    loose = np.linalg.slogdet(enclosing_ellipsoid(points, tolerance=1e-2))[1]
    tight = np.linalg.slogdet(enclosing_ellipsoid(points, tolerance=1e-6))[1]
    assert loose - tight + m * 1e-5 >= -1e-9
    assert loose - tight <= 2 * m * np.log1p(2e-2)


def test_a_linear_map_takes_the_ellipsoid_along():
    rng = np.random.default_rng(3)
    points, move = rng.normal(size=(4, 15)), rng.normal(size=(4, 4))
    shape = enclosing_ellipsoid(points, tolerance=1e-7)
    assert np.allclose(enclosing_ellipsoid(move @ points, tolerance=1e-7), move @ shape @ move.T, rtol=1e-2, atol=1e-2)


HALF = Fraction(1, 2)


def random_law(rng, dimensions=None, size=5, total=12):
    """Probabilities in twelfths, so that jump levels of two laws often coincide."""
    cuts = np.sort(rng.choice(np.arange(1, total), rng.integers(0, size), replace=False))
    weights = np.diff([0, *cuts, total])
    values = [tuple(map(int, v)) for v in rng.integers(0, 7, (len(weights), dimensions or 1))]
    law = {}
    for value, weight in zip(values, weights, strict=True):
        key = value if dimensions else value[0]
        law[key] = law.get(key, 0) + Fraction(int(weight), total)
    return law


def quantile(law, u):
    level = 0
    for value in sorted(law):
        level += law[value]
        if level >= u:
            return value
    raise AssertionError


def by_quantiles(p, q, denominator=12):
    """Compare quantiles between any two neighbouring levels: all levels for laws in twelfths."""
    return max(abs(quantile(p, u) - quantile(q, u)) for u in [Fraction(2 * k + 1, 24) for k in range(denominator)])


def at_the_levels_of_one(p, q):
    """Equation (35) as printed: the jump levels of the first law only, from the left."""
    levels = np.cumsum([p[v] for v in sorted(p)])
    return max(abs(quantile(p, u) - quantile(q, u)) for u in levels)


def test_on_the_line_against_quantiles():
    """Random laws; the levels of one law alone give a wrong answer for many, but never exceed it."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(500):
        p, q = random_law(rng), random_law(rng)
        expected = by_quantiles(p, q)
        assert wasserstein_infinity(p, q) == wasserstein_infinity(q, p) == expected
        printed = at_the_levels_of_one(p, q)
        assert printed <= expected
        missed += printed < expected
    assert missed > 50


def test_the_levels_of_one_law_are_enough_under_stochastic_dominance():
    rng = np.random.default_rng(2)
    for _ in range(100):
        p, h = random_law(rng), rng.integers(0, 4, 7)
        q = {}
        for value, weight in p.items():
            q[value + int(h[value])] = q.get(value + int(h[value]), 0) + weight  # mass moves up only
        assert at_the_levels_of_one(p, q) == wasserstein_infinity(p, q)


def test_a_law_with_two_far_points_needs_the_levels_of_the_other():
    p, q = {5: 1}, {0: HALF, 10: HALF}
    assert wasserstein_infinity(p, q) == 5
    assert wasserstein_infinity({5: 1}, {0: Fraction(1, 100), 5: Fraction(99, 100)}) == 5
    assert at_the_levels_of_one({5: 1}, {0: Fraction(1, 100), 5: Fraction(99, 100)}) == 0


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_in_the_plane_against_linear_programs(norm):
    rng, order = np.random.default_rng(3), {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    by_norms = set()
    for _ in range(40):
        p, q = random_law(rng, 2), random_law(rng, 2)
        expected = distance_by_programme(p, q, order)
        found = wasserstein_infinity(p, q, norm=norm)
        assert found == pytest.approx(expected, abs=1e-12)
        by_norms.add(found == wasserstein_infinity(p, q, norm="l1"))
    assert norm == "l1" or False in by_norms


@pytest.mark.parametrize("total", [12, 10**9 + 7, 10**25 + 13])
def test_flows_are_exact_for_denominators_of_any_size(total):
    """Laws on a line embedded in the plane; a unit of 1e-25 of mass decides."""
    rng = np.random.default_rng(4)
    for _ in range(40):
        p, q = ({int(v): int(w) for v, w in zip(rng.permutation(9), rng.integers(1, 9, 4))} for _ in range(2))  # noqa: B905
        p, q = ({v: Fraction(w * (total // sum(x.values())), total) for v, w in x.items()} for x in (p, q))
        for law in (p, q):
            law[min(law)] += 1 - sum(law.values())
        flat = wasserstein_infinity(p, q)
        assert wasserstein_infinity({(v, v): w for v, w in p.items()}, {(v, v): w for v, w in q.items()}) == 2 * flat
    tiny = Fraction(1, total)
    assert wasserstein_infinity({(0, 0): 1}, {(0, 0): 1 - tiny, (9, 0): tiny}) == 9


def test_equal_floats_up_to_rounding_agree():
    """0.1 + 0.2 and 0.3 are one level; a law has distance 0 from itself computed in another way."""
    assert wasserstein_infinity({0: 0.1, 1: 0.2, 2: 0.7}, {0: 0.3, 2: 0.7}) == 1
    assert wasserstein_infinity({(0, 0): 0.1, (1, 0): 0.2, (2, 0): 0.7}, {(0, 0): 0.3, (2, 0): 0.7}) == 1
    k = np.arange(61)
    direct = stats.binom(60, 0.3).pmf(k)
    steps = np.ones(1)
    for _ in range(60):
        steps = np.convolve(steps, [0.7, 0.3])
    as_law = [dict(zip(k.tolist(), w.tolist(), strict=True)) for w in (direct, steps)]
    assert wasserstein_infinity(*as_law) == 0
    assert wasserstein_infinity(as_law[0], {v + 2: w for v, w in as_law[1].items()}) == 2


def test_small_tails_count():
    """Mass of 1e-200 at either end still moves; rounding to a grid of 1e-16 would lose it."""
    tail = 1e-200
    assert wasserstein_infinity({0: 1.0, 9: tail}, {0: 1.0}) == 9
    assert wasserstein_infinity({0: tail, 9: 1.0}, {9: 1.0}) == 9


@pytest.mark.parametrize(
    ("p", "q", "distance"),
    [
        (stats.binom(9, 0.5), stats.binom(9, 0.5, loc=3), 3),
        (stats.binom(20, 0.1), stats.binom(20, 0.1), 0),
        (stats.bernoulli(0.3), {0: 0.7, 4: 0.3}, 3),
        (stats.poisson(3), stats.poisson(3, loc=2), 2),
        (stats.norm(0, 2), stats.norm(1.5, 2), 1.5),
        (stats.norm(loc=1, scale=2), stats.norm(1, 3), math.inf),
        (stats.uniform(0, 1), stats.uniform(3, 3), 5),
        (stats.beta(2, 3, scale=2), stats.beta(2, 3, loc=-1, scale=4), 1),
        (stats.expon(0, 1), stats.expon(-4, 1), 4),
    ],
)
def test_frozen_distributions(p, q, distance):
    assert wasserstein_infinity(p, q) == distance
    assert wasserstein_infinity(q, p) == distance


def test_location_scale_families_against_quantiles():
    p, q = stats.beta(2, 3, loc=0.5, scale=2), stats.beta(2, 3, loc=-1, scale=4)
    u = np.linspace(0, 1, 10_001)
    assert wasserstein_infinity(p, q) == pytest.approx(np.abs(p.ppf(u) - q.ppf(u)).max(), abs=1e-9)
