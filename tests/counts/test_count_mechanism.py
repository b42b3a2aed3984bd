"""Mechanisms for one count: draws, the optimum against a general solver, polytopes of mechanisms, and refusals."""

import math
from itertools import combinations, pairwise, repeat

import numpy as np
import pytest
from chi_square import p_value
from distributions import NAMES, distribution
from flint import arb
from scipy import sparse
from scipy.optimize import linprog

import ppdinf as ppd
from ppdinf.counts import TwoStage, bounded_geometric, heuristic, noisy_histogram, optimal, unfixed
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.optimal import ColumnSystems, adjoint, slacks
from ppdinf.counts.scales import patterns
from ppdinf.counts.theory import representation
from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.noise.primitives.enclosures import draw_rows
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream

MECHANISMS = {
    "heuristic": lambda: ppd.counts.heuristic(distribution("geometric", 12), 1),
    "optimal": lambda: ppd.counts.optimal(distribution("geometric", 12), 1),
    "gaussian": lambda: ppd.counts.discrete_gaussian(12, 1, "1/100"),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", MECHANISMS)
def test_law_from_secure_words(name):
    """The false alarm rate is below 1e-4 over all rows; an error of 5 % in a band is rejected."""
    mechanism = MECHANISMS[name]()
    drawn = {i: mechanism.draw(np.full(100_000, i), secure_stream()) for i in range(mechanism.n)}
    assert min(p_value(drawn[i], mechanism.matrix[i]) for i in drawn) > 1e-4 / mechanism.n / len(MECHANISMS)
    wrong = mechanism.matrix * np.where(np.abs(np.subtract.outer(range(12), range(12))) == 0, 1.05, 1)
    wrong /= wrong.sum(axis=1, keepdims=True)
    assert min(p_value(drawn[i], wrong[i]) for i in drawn) < 1e-4


def test_undecided_words():
    """Words next to the boundary of two columns: ball arithmetic distinguishes them, doubles do not."""
    third = 2**64 // 3  # 64 bits do not decide it: the next word does
    for given, column in (([third, 0], 0), ([third, 2**64 - 1], 1), (repeat(third - 1), 0), (repeat(third + 1), 1)):
        words = iter(given)
        stream = lambda n, words=words: np.array([next(words) for _ in range(n)], dtype=np.uint64)  # noqa: E731
        assert draw_rows(
            np.array([[1 / 3, 2 / 3]]), np.array([0]), lambda i: [arb(1) / 3, arb(2) / 3], stream
        ).tolist() == [column]


def test_draws_have_the_shape_of_the_counts_and_repeat():
    mechanism = MECHANISMS["heuristic"]()
    assert mechanism.simulate(np.zeros((3, 4), dtype=int), rng=1).shape == (3, 4)
    assert (mechanism.simulate([3, 4], rng=1) == mechanism.simulate([3, 4], rng=1)).all()


def test_the_histogram_is_preserved():
    """For cells drawn from z the released histogram is z up to sampling, but not without a fixed point."""
    z = distribution("binomial", 21)
    counts = np.repeat(np.arange(21), (z * 10_000).round().astype(int))
    away = {}
    for name, mechanism in {
        "fixed": ppd.counts.heuristic(z, "0.3"), "unfixed": ppd.counts.unfixed(z, "0.3")
    }.items():  # fmt: skip
        released = ppd.counts.histogram(mechanism.simulate(counts, rng=2), 21)
        away[name] = ppd.counts.wasserstein(released / released.sum(), z)
    assert away["fixed"] < 0.1 < 10 * away["fixed"] < away["unfixed"]


def smallest_error(z, epsilon, power=1, *, cost=None, fixed=True, method="highs"):
    """Return the smallest error by SciPy's linear programme over all entries."""
    n, up = z.size, math.exp(epsilon)
    steps = sparse.diags_array([np.full(n, -1.0), np.full(n - 1, up)], offsets=[0, 1], shape=(n - 1, n))
    back = sparse.diags_array([np.full(n, up), np.full(n - 1, -1.0)], offsets=[0, 1], shape=(n - 1, n))
    private = -sparse.kron(sparse.vstack([steps, back]), sparse.eye_array(n))
    rows = sparse.kron(sparse.eye_array(n), np.ones((1, n)))
    keeps = sparse.kron(z[np.newaxis], sparse.eye_array(n))
    equal, values = (sparse.vstack([rows, keeps]), np.append(np.ones(n), z)) if fixed else (rows, np.ones(n))
    if cost is None:
        cost = z[:, np.newaxis] * np.abs(np.arange(n)[:, np.newaxis] - np.arange(n)) ** power
    found = linprog(cost.ravel(), private, np.zeros(private.shape[0]), equal, values, method=method)
    assert found.success
    return found.fun


def by_interior_point(z, epsilon, power=1):
    """Return the mechanism of smallest error by the method for any weights."""
    away = np.abs(np.subtract.outer(np.arange(len(z)), np.arange(len(z))))
    return ppd.counts.optimal(z, epsilon, weights=np.array(z)[:, np.newaxis] * away**power)


@pytest.mark.parametrize("name", NAMES[:4])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.5])
def test_smallest_error(name, epsilon):
    """A linear program, the closed form and the interior-point method agree; the heuristic has a larger error."""
    z = distribution(name, 21)
    least = smallest_error(z, epsilon)
    for best in (ppd.counts.optimal(z, epsilon), by_interior_point(z, epsilon)):
        assert best.count_error() == pytest.approx(least, rel=2e-6)
        audit = best.audit()
        assert audit.row_error < 1e-11
        assert audit.fixed_point_error < 1e-12
        assert audit.epsilon <= epsilon * (1 + 1e-15)
    assert ppd.counts.heuristic(z, epsilon, "min").count_error() > least * 1.001


def test_smallest_error_of_41_counts():
    z = distribution("binomial", 41)
    assert by_interior_point(z, 0.5).count_error() == pytest.approx(smallest_error(z, 0.5), rel=1e-6)


def test_the_closed_form_has_the_smallest_error_of_every_convex_function():
    """Absolute and squared error, and of each pair of thresholds the probability of both; sparse z, and zeros in z."""
    rng = np.random.default_rng(0)
    for n, concentration, epsilon in ((7, 0.05, 0.2), (12, 0.3, 3), (16, 1, 0.05), (24, 5, 1)):
        z = rng.dirichlet(np.full(n, concentration))
        z[1] = 0
        z /= z.sum()
        best = ppd.counts.optimal(z, epsilon)
        assert ppd.counts.affinely_simplified(best)
        for power in (1, 2):
            assert best.count_error(power=power) <= smallest_error(z, epsilon, power) * (1 + 5e-6) + 1e-12
        both = np.cumsum(np.cumsum(z[:, np.newaxis] * best.matrix, axis=0), axis=1)
        for selector in ("max", "min"):
            other = z[:, np.newaxis] * ppd.counts.heuristic(z, epsilon, selector).matrix
            assert (both >= np.cumsum(np.cumsum(other, axis=0), axis=1) - 1e-12).all()


@pytest.mark.parametrize("at", [0, 1500, 2999])
def test_the_closed_form_of_many_counts(at):
    """Probabilities of noisy counts below the smallest double: sums stay exact."""
    z = np.zeros(3000)
    z[[at, 1200]] = 0.75, 0.25
    audit = ppd.counts.optimal(z, 1).audit()
    assert (audit.row_error < 1e-12, audit.fixed_point_error < 1e-12, audit.epsilon) == (True, True, 1)


def test_other_weights():
    """Arbitrary weights are allowed. (A different price for too large counts has no effect: sums are fixed.)"""
    z = distribution("geometric", 12)
    cost = np.random.default_rng(1).random((12, 12))
    best = ppd.counts.optimal(z, 1, weights=cost)
    assert (best.matrix * cost).sum() == pytest.approx(smallest_error(z, 1, cost=cost), rel=2e-6)
    assert (best.matrix * cost).sum() < 0.999 * (ppd.counts.optimal(z, 1).matrix * cost).sum()  # the weights matter


@pytest.mark.parametrize("name", NAMES)
def test_no_worse_than_the_heuristic(name):
    z = distribution(name, 81)
    quick = ppd.counts.heuristic(z, 1, "best").count_error()
    assert ppd.counts.optimal(z, 1).count_error() <= quick * (1 + 1e-12)


def test_counts_of_probability_0_are_never_released():
    best = ppd.counts.optimal([0.5, 0, 0.5], 1)
    assert best.matrix[:, 1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("spread", [1, 1e4, 1e8])
def test_systems_against_dense_algebra(spread):
    """For multipliers of any spread: residuals of all three equations, and the dense solution in balls."""
    rng = np.random.default_rng(1)
    m, n, E = 5, 7, 2.0
    u, v = spread ** rng.uniform(-1, 1, (2, m, n - 1))
    z = rng.dirichlet(np.ones(n))
    rhs, rows, fixed = rng.normal(size=(m, n)), rng.normal(size=n), rng.normal(size=m)
    fixed += (z @ rows - fixed.sum()) / m  # otherwise the equations have no solution
    dt, dlam, dmu = ColumnSystems(u, v, z, E).solve(rhs, rows, fixed)
    assert np.abs(dt.sum(axis=0) - rows).max() < 1e-12 * np.abs(dt).max()
    assert np.abs(dt @ z - fixed).max() < 1e-12 * np.abs(dt).max()
    a, b = slacks(dt, E)
    left = adjoint(u * a, v * b, E) - dlam - np.outer(dmu, z) - rhs
    assert np.abs(left).max() < 1e-9 * np.abs(u * a).max()


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_probabilities_near_the_rounding_of_1(epsilon):
    """The optimum is found or a RoundingError is raised; linear algebra never fails, and the closed form never."""
    for z in ([1 - 1.15e-12, 1.15e-12, 0, 0], [0, 1e-10, 0, 1 - 1e-10], [1e-13, 0.5, 0.5 - 1e-13]):
        exact = ppd.counts.optimal(z, epsilon)
        assert exact.count_error() <= ppd.counts.heuristic(z, epsilon, "best").count_error() + 1e-15
        try:
            found = by_interior_point(z, epsilon)
        except ArithmeticError as error:
            outcome = str(error)
        else:
            best = ppd.counts.heuristic(z, epsilon, "best").count_error()
            outcome = "above the optimum" if found.count_error() <= best + 1e-9 else "worse"
        assert "above the optimum" in outcome


def test_unfixed_has_the_smallest_error_of_all():
    for name in NAMES[:4]:
        z = distribution(name, 15)
        for epsilon in (0.2, 1):
            found = ppd.counts.unfixed(z, epsilon)
            assert found.count_error(z) == pytest.approx(smallest_error(z, epsilon, fixed=False), rel=1e-9)
            assert found.audit().epsilon <= epsilon
            squares = ppd.counts.unfixed(z, epsilon, power=2)
            assert squares.count_error(z, power=2) == pytest.approx(
                smallest_error(z, epsilon, 2, fixed=False), rel=1e-9
            )


def test_unfixed_with_any_convex_weights():
    """Convex costs that differ by row, against a linear program; the costs of the first row alone are worse."""
    rng, n = np.random.default_rng(2), 9
    away = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    for epsilon in (0.3, 1):
        by_distance = np.cumsum(np.cumsum(rng.exponential(size=(n, n)), axis=1), axis=1)
        weights = np.take_along_axis(by_distance, away, axis=1)
        found = ppd.counts.unfixed(np.full(n, 1 / n), epsilon, weights=weights)
        least = smallest_error(np.full(n, 1 / n), epsilon, fixed=False, cost=weights)
        assert (weights * found.matrix).sum() == pytest.approx(least, rel=1e-9)
        other = ppd.counts.unfixed(np.full(n, 1 / n), epsilon)
        assert (weights * other.matrix).sum() > least * 1.0001
    squares = ppd.counts.unfixed(np.full(n, 1 / n), 1, power=2)
    stated = ppd.counts.unfixed(np.full(n, 1 / n), 1, weights=away**2)
    assert np.array_equal(squares.matrix, stated.matrix)


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_baselines_satisfy_their_guarantee(epsilon):
    for found in (ppd.counts.truncated_geometric(40, epsilon), ppd.counts.staircase(40, epsilon)):
        audit = found.audit()
        assert audit.row_error < 1e-12
        assert audit.epsilon <= epsilon * (1 + 1e-12)
    gaussian = ppd.counts.discrete_gaussian(40, epsilon, "1/3000").audit()
    assert gaussian.row_error < 1e-12
    assert gaussian.delta <= 1 / 3000
    assert gaussian.delta > 0.2 / 3000  # not much wider than necessary


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.01), (1, 1e-6), (1, 0.2), (3, 0.001)])
def test_bounded_noise_is_as_narrow_as_delta_allows(epsilon, delta):
    """The matrix is that of the listed noise; delta is within its limit, and noise narrower by one exceeds it."""
    n = 250
    found = ppd.counts.bounded_geometric(n, epsilon, delta)
    m = np.flatnonzero(found.matrix[100]).max() - 100

    def listed(m):
        p = np.exp(-epsilon * np.abs(np.arange(-m, m + 1)))
        rows = [np.bincount(np.clip(np.arange(i - m, i + m + 1), 0, n - 1), p / p.sum(), n) for i in range(n)]
        return np.array(rows)

    np.testing.assert_allclose(found.matrix, listed(m), atol=1e-15)
    transition = ppd.Transition(found.matrix, epsilon=epsilon)
    again = ppd.Transition._of_file(transition.public, {k: v for k, v in transition.to_dict().items() if k != "kind"})
    for guarantee in (transition.guarantee, again.guarantee):
        assert float(guarantee.epsilon) == epsilon
        assert 0.5 * delta * np.exp(-epsilon) < guarantee.delta <= delta + 1e-9
    assert found.audit().delta == pytest.approx(float(transition.guarantee.delta), abs=1e-9)
    assert ppd.Transition(listed(m - 1), epsilon=epsilon).guarantee.delta > delta


LOG2 = math.log(2)


def vertices(M, r):
    """Return the vertices of {b >= 0 : M b = r} by enumeration of all bases."""
    rank = np.linalg.matrix_rank(M)
    found = {}
    for basis in combinations(range(M.shape[1]), rank):
        own = M[:, basis]
        if np.linalg.matrix_rank(own) < rank:
            continue
        b = np.linalg.lstsq(own, r, rcond=None)[0]
        if (b > -1e-9).all() and np.abs(own @ b - r).max() < 1e-9:
            full = np.zeros(M.shape[1])
            full[list(basis)] = b
            found.setdefault(tuple(full.round(7) + 0.0), full)
    return list(found.values())


def image(b):
    """Return the mechanism of the weights of scales of 3 counts, and rounded numbers by which it can be compared."""
    exact = (ppd.counts.scales(3, LOG2) @ np.reshape(b, (4, 3))).ravel()
    return tuple(exact.round(7) + 0.0), exact


def extreme_matrices(z=None):
    """Return extreme mechanisms for 3 counts: images of extreme representations that are not mixtures of others."""
    M, r = representation(3, LOG2, z)
    images = dict(image(b) for b in vertices(M, r))
    points, extreme = np.array(list(images.values())), set()
    for k in range(len(points)):
        others = np.delete(points, k, axis=0)
        mix = linprog(
            np.zeros(len(others)), A_eq=np.vstack([others.T, np.ones(len(others))]), b_eq=np.append(points[k], 1)
        )
        if not mix.success:
            extreme.add(list(images)[k])
    return extreme


@pytest.mark.parametrize(("z", "of_weights", "of_matrices"), [(np.full(3, 1 / 3), 78, 36), (None, 36, 27)])
def test_examples_1_and_2_with_and_without_a_fixed_point(z, of_weights, of_matrices):
    assert len(vertices(*representation(3, LOG2, z))) == of_weights
    assert len(extreme_matrices(z)) == of_matrices


@pytest.mark.parametrize("n", [2, 3, 4])
def test_dimensions(n):
    for z in (None, np.full(n, 1 / n), np.eye(n)[0] * 0.5 + np.eye(n)[-1] * 0.5):
        M, _ = representation(n, 0.7, z)
        used = np.ones(M.shape[1], dtype=bool) if z is None else np.tile(z > 0, M.shape[1] // n)
        fixed = None if z is None else int((z > 0).sum())
        M = M[:, used]
        assert ppd.counts.dimensions(n, fixed) == M.shape[1] - np.linalg.matrix_rank(M)


def of_representation(b, z):
    """Return the mechanism of a vertex from its weights of the four scales of 3 counts in each column."""
    weight = np.reshape(np.where(np.abs(b) > 1e-12, b, 0), (4, 3))
    every = ppd.counts.scales(3, LOG2)
    scale, column = np.nonzero(weight)
    peak = weight[scale, column] * every[:, scale].max(axis=0)
    return CountMechanism.of_scales(
        column, peak, patterns(3)[scale], ppd.counts.heuristic([0.5, 0.5], 1).epsilon, name="", z=z
    )


def test_simplified_is_extreme():
    """Every vertex is simplified, and no mixture of two vertices is (Theorems 4 and 11)."""
    third = np.full(3, 1 / 3)
    for z, simplified in ((third, ppd.counts.affinely_simplified), (None, ppd.counts.linearly_simplified)):
        corners = vertices(*representation(3, LOG2, z))
        for b in corners:
            assert simplified(of_representation(b, z))
        for one, other in pairwise(corners):
            assert not simplified(of_representation(np.add(one, other) / 2, z))


@pytest.mark.parametrize("z", [None, np.full(3, 1 / 3)], ids=["without a fixed point", "with a fixed point"])
def test_extreme_representations_of_extreme_mechanisms(z):
    """Corollaries 3 and 4 for every extreme representation: some of their mechanisms are mixtures of others."""
    among = extreme_matrices(z)
    corners = vertices(*representation(3, LOG2, z))
    found = [ppd.counts.extreme(of_representation(b, z)) for b in corners]
    assert found == [image(b)[0] in among for b in corners]
    assert not all(found)
    assert not ppd.counts.extreme(of_representation(np.mean(corners, axis=0), z))


@pytest.mark.parametrize("name", ["binomial", "geometric", "homicides"])
@pytest.mark.parametrize("selector", ["max", "min", "sandwich"])
def test_the_heuristic_is_extreme(name, selector):
    """Theorem 6, proved for each matrix by a rank over a prime field."""
    mechanism = ppd.counts.heuristic(distribution(name, 60), "1/2", selector)
    assert ppd.counts.affinely_simplified(mechanism)
    assert mechanism.audit().scales <= mechanism.audit().most_scales


def test_scales_and_patterns():
    assert ppd.counts.single_peaked(2, 4).tolist() == [True, True, False]
    every = ppd.counts.scales(5, 1)
    assert every.shape == (5, 16)
    assert np.allclose(np.abs(np.diff(np.log(every), axis=0)), 1)
    assert np.allclose(every.sum(axis=0), 1)


HALVES = [0.5, 0.5]
STAGE = TwoStage(1, 5)
EVEN, DISTANCES = np.full(3, 1 / 3), np.abs(np.subtract.outer(range(3), range(3))).astype(float)


def noisy(privatizer, **more):
    return noisy_histogram([50] * 8, 1, seeded_stream(1), privatizer, **more)


REFUSED = [
    *((lambda build=build, epsilon=epsilon: build(HALVES, epsilon), PrivacyError, "epsilon")
      for build in (heuristic, optimal, unfixed) for epsilon in (0, "1e-7", 101, 10**9)),
    (lambda: heuristic([0.5, 0.4], 1), PrivacyError, "must sum to 1"),
    (lambda: heuristic([1.5, -0.5], 1), PrivacyError, "non-negative"),
    (lambda: heuristic([1.0], 1), PrivacyError, "at least two"),
    (lambda: heuristic([HALVES], 1), PrivacyError, "one-dimensional"),
    (lambda: heuristic(["a", "b"], 1), PrivacyError, "numbers only"),
    (lambda: heuristic([np.nan, 1], 1), PrivacyError, "finite"),
    (lambda: heuristic(HALVES, 1, "widest"), PrivacyError, "selector must be one of"),
    (lambda: optimal(HALVES, 1, weights=np.ones(3)), PrivacyError, "a matrix of shape"),
    (lambda: heuristic(HALVES, 1).simulate([2]), CountError, "counts must be from 0 to"),
    (lambda: ppd.counts.single_peaked(4, 4), PrivacyError, "peak"),
    (lambda: ppd.counts.scales(21, 1), PrivacyError, r"2\^\(n - 1\)"),
    (lambda: ppd.counts.scale([2, 3], 1), PrivacyError, "pattern"),
    (lambda: ppd.counts.affinely_simplified(ppd.counts.staircase(4, 1)), PrivacyError, "must be stored as scales"),
    (lambda: ppd.counts.affinely_simplified(ppd.counts.truncated_geometric(4, 1)), PrivacyError, "have a fixed point"),
    (lambda: ppd.counts.histogram([0, 5], 5), CountError, "counts must be from 0 to"),
    (lambda: ppd.counts.histogram([-1, 0], 5), CountError, "counts must be from 0 to"),
    (lambda: ppd.counts.histogram([0.5], 5), CountError, "integers only"),
    (lambda: ppd.counts.to_distribution([30, -4, 10], "sort"), PrivacyError, "postprocessing"),
    (lambda: noisy("smooth"), PrivacyError, "privatizer must be"),
    (lambda: noisy("cyclic-gaussian"), PrivacyError, "delta"),
    (lambda: noisy("cyclic-gaussian", delta=2), PrivacyError, "delta"),
    (lambda: noisy("laplace", delta="1/1000"), PrivacyError, "not allowed for others"),
    (lambda: STAGE.release([5]), CountError, "from 0 to n - 1 = 4"),
    (lambda: STAGE.release([1], rng=3), PrivacyError, "takes no 'rng'"),
    (lambda: STAGE.mechanism, PrivacyError, "requires the privatized histogram"),
    (lambda: STAGE.release([1, 2]).mechanism.release([1, 2]), PrivacyError, "already belongs to a release"),
    (lambda: TwoStage(1, 5, public=ppd.invariants.total()), InvariantError, "keep no sum"),
    # the number of counts is refused before memory is allocated
    *((lambda n=n: TwoStage(1, n), PrivacyError, "n must be at most 8,192") for n in (8193, 2**31, 10**30)),
    (lambda: TwoStage(200, 5), PrivacyError, "epsilon"),
    (lambda: TwoStage("1e-9", 5), PrivacyError, "epsilon"),
    (lambda: TwoStage(1, 1), PrivacyError, "must be an integer >= 2"),
    (lambda: TwoStage(1, privatizer="laplace"), PrivacyError, "n is required"),
    (lambda: TwoStage(1, measured=[3, 1]), PrivacyError, "n is required"),
    (lambda: TwoStage(1, 5, drawn=[3, 5]), CountError, "from 0 to n - 1"),
    (lambda: unfixed(EVEN, 1, weights=np.eye(3)), PrivacyError, "row 0 of weights must be"),
    (lambda: unfixed(EVEN, 1, weights=np.sqrt(DISTANCES)), PrivacyError, "row 0 of weights must be"),
    (lambda: unfixed(EVEN, 1, weights=DISTANCES + np.triu(DISTANCES)), PrivacyError, "row 1 of weights must be"),
    (lambda: unfixed(EVEN, 1, weights=np.ones((2, 2))), PrivacyError, "matrix of shape"),
    (lambda: bounded_geometric(5, 1, 1), PrivacyError, "delta must be below 1"),
    (lambda: TwoStage(1, 5, split=1), PrivacyError, "split"),
    (lambda: TwoStage(1, 5, constructor="x"), PrivacyError, "constructor must be one of"),
    (lambda: TwoStage(1, 5, privatizer="cyclic-gaussian"), PrivacyError, "privatizer must be one of"),
    (lambda: TwoStage(1, 5, postprocessing="x"), PrivacyError, "postprocessing must be one of"),
    *((lambda sums=sums: TwoStage(1, 5, measured=sums), PrivacyError, "measured must have 5 integers")
      for sums in ([1, 2], [1, 2, 3, 4, 0.5], 5)),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
