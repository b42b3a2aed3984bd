"""Separable weights under constraints: normalisers and draws against enumeration, and wrong variants."""

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from lattice_laws import fit, listed, total_variation
from scipy import signal

import ppdinf as ppd
from ppdinf._internal.rationals import ball
from ppdinf.errors import InvariantError, ModelError
from ppdinf.lattice import margin_matrix, structure
from ppdinf.laws import DoubleGeometric
from ppdinf.noise.exact import class_sums
from ppdinf.noise.exact import variable_elimination as elimination
from ppdinf.noise.exact.potentials import class_sum, log_concave, product, table
from ppdinf.noise.exact.sampler_offer import Declined, Offer
from ppdinf.noise.exact.variable_elimination import Elimination
from ppdinf.noise.primitives.enclosures import precision
from ppdinf.noise.primitives.stream import seeded_stream


def random_problem(rng):
    """Return random constraints, windows and weights (some zero) around a feasible point, and the law."""
    n, k = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    A = rng.integers(-1, 3, size=(k, n))
    widths, first = rng.integers(2, 5, size=n), rng.integers(-2, 2, size=n)
    point = first + rng.integers(0, widths)
    logs = [np.where(rng.random(w) < 0.15, -np.inf, rng.normal(size=w)) for w in widths]
    for i in range(n):
        logs[i][point[i] - first[i]] = 0.3
    x = np.array(list(itertools.product(*(range(f, f + w) for f, w in zip(first, widths, strict=True)))))
    x = x[(x @ A.T == A @ point).all(1)]
    weights = np.exp([sum(logs[i][v - first[i]] for i, v in enumerate(row)) for row in x.tolist()])
    potentials = [table(int(f), log) for f, log in zip(first, logs, strict=True)]
    return A, A @ point, potentials, weights.sum(), listed(x, weights)


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize("seed", range(24))
def test_random_tables_with_bounds(seed):
    A, a, potentials, total, truth = random_problem(np.random.default_rng(seed))
    law = Elimination(A, a, potentials)
    assert law.log_normaliser == pytest.approx(math.log(total), abs=1e-12)
    x = law.draw(20_000, seeded_stream(seed))
    assert (x @ A.T == a).all()
    assert fit(x, truth) > 1e-6
    distance, expected = total_variation(x, truth)
    assert distance < expected + 0.02


def chain():
    """Three overlapping sums: messages over one open sum, and a fork."""
    A = [[1, 1, 0, 0, 0, 1], [0, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0]]
    weights = [[0.0, -0.2, -1.0, -0.1], [0.0, 0.4, 0.1, 0.3], [0.2, 0.0, -0.5, 0.9]] * 2
    x = np.array([p for p in itertools.product(range(4), repeat=6) if (np.array(A) @ p == [4, 4, 5]).all()])
    mass = np.exp([sum(weights[i][v] for i, v in enumerate(p)) for p in x.tolist()])
    return A, [4, 4, 5], weights, listed(x, mass)


@pytest.mark.quick_cases(0)
def test_wrong_variants_are_rejected(monkeypatch):
    A, a, weights, truth = chain()

    def p_value(weights=weights, size=100_000):
        law = Elimination(A, a, [table(0, w) for w in weights])
        return fit(law.draw(size, seeded_stream(3)), truth)

    assert p_value() > 1e-6
    assert p_value([[1.05 * x for x in w] for w in weights]) < 1e-6
    assert p_value([[x + 0.05 * k for k, x in enumerate(w)] for w in weights[:1]] + weights[1:]) < 1e-6  # tilted
    right = elimination._message

    def without_normaliser(*arguments):
        message, mass = right(*arguments)
        message.weights = np.ones_like(message.weights)
        return message, mass

    with monkeypatch.context() as patched:
        patched.setattr(elimination, "_message", without_normaliser)
        assert p_value() < 1e-6


def test_ball_arithmetic_gives_the_same_decisions(monkeypatch):
    A, a, weights, _ = chain()
    bounded = Elimination(A, a, [table(0, w) for w in weights])
    noise = Elimination([[1, 1, 0], [0, 1, 1]], [0, 0], [class_sum(n, Fraction(2)) for n in (1, 2, 3)])
    usual = bounded.draw(40, seeded_stream(5)), noise.draw(40, seeded_stream(5))
    with monkeypatch.context() as patched:
        patched.setattr(elimination, "UNIT", 1e300)  # comparisons of doubles decide nothing
        np.testing.assert_array_equal(bounded.draw(40, seeded_stream(5)), usual[0])
        np.testing.assert_array_equal(noise.draw(40, seeded_stream(5)), usual[1])


def test_error_bounds_of_double_tables_hold():
    potentials = [class_sum(n, Fraction(1, 2)) for n in (1, 3, 2)]
    law = Elimination([[1, 1, 0], [0, 1, 1]], [0, 0], potentials)
    rough, _, _ = law._forward(80)
    fine, _, _ = law._forward(300, exact=True)
    scale = 1.0
    for coarse, exact in zip(rough, fine, strict=True):
        for left, right in zip(coarse.tables, exact.tables, strict=True):
            assert left.relative < 1e-12
            assert left.absolute < 1e-18
            sums = np.argwhere(np.ones(left.entries.shape, dtype=bool)) + left.origin
            found, truth = left.look_up(sums), right.look_up(sums)
            error = [abs(arb(x) * scale - y) for x, y in zip(found.tolist(), truth.tolist(), strict=True)]
            allowed = found * left.relative * 4 + left.absolute * 4
            assert all(e < b for e, b in zip(error, allowed.tolist(), strict=True))


@pytest.mark.quick_cases(0)
def test_a_conditioned_mechanism_with_bounds():
    # double geometric noise around counts, given two sums and non-negative cells
    counts, epsilon = [2, 0, 1, 3], Fraction(3, 4)
    A, a = [[1, 1, 1, 1], [1, 1, 0, 0]], [6, 2]

    def cell(count):
        return log_concave(lambda k: (-abs(k - count) * ball(epsilon)).exp(), count, first=0)

    law = Elimination(A, a, [cell(c) for c in counts])
    y = np.array([p for p in itertools.product(range(7), repeat=4) if (np.array(A) @ p == a).all()])
    weights = np.exp(-0.75 * np.abs(y - counts).sum(1))
    assert law.log_normaliser == pytest.approx(math.log(weights.sum()), abs=1e-12)
    assert fit(law.draw(50_000, seeded_stream(1)), listed(y, weights)) > 1e-6


@pytest.mark.parametrize(("n", "epsilon"), [(1, "1/4"), (2, "3/2"), (7, "2/3"), (40, "1")])
def test_class_sums(n, epsilon):
    epsilon = Fraction(epsilon)
    k = np.arange(-3000, 3001)
    cell = np.tanh(float(epsilon) / 2) * np.exp(-float(epsilon) * np.abs(k))
    law = cell
    for _ in range(n - 1):
        law = signal.fftconvolve(law, cell, mode="same")
    with precision(150):
        first, weights, left_out = class_sum(n, epsilon)(80)
        assert left_out < 2.0**-80
        assert 1 - sum(weights, start=arb(0)) < 2.0**-78
        assert min(w.rel_accuracy_bits() for w in weights) > 55
    found = np.array([float(w.mid()) for w in weights])
    np.testing.assert_allclose(found, law[3000 + first :][: len(found)], atol=1e-13)


def test_product_of_proportional_sums():
    with precision(64):
        first, weights, _ = product([(class_sum(2, Fraction(1)), 1), (class_sum(1, Fraction(1)), -3)])(64)
        one, alone, _ = class_sum(2, Fraction(1))(64)
        for k in (-2, 0, 1):
            ratio = weights[k - first] / alone[k - one]
            assert abs(ratio / (arb(0.5).tanh() * (-3 * arb(abs(k))).exp()) - 1) < 1e-15


def test_improbable_values_are_enumerated():
    # twenty dice with the smallest possible total: probability 6^-20
    dice = Elimination([[1] * 20], [20], [table(1, [-math.log(6)] * 6)] * 20)
    assert dice.log_normaliser == pytest.approx(-20 * math.log(6), rel=1e-13)
    # Laplace noise with values outside the first windows
    far = Elimination([[1, 1]], [400], [class_sum(1, Fraction(1))] * 2)
    expected = math.log(math.tanh(0.5) ** 2 * (401 * math.exp(-400) + 2 * math.exp(-402) / (1 - math.exp(-2))))
    assert far.log_normaliser == pytest.approx(expected, rel=1e-12)


def test_free_and_redundant():
    law = Elimination([[1, 1, 0], [2, 2, 0]], [1, 2], [table(0, [0.0, 0.0])] * 3)
    x = law.draw(1000, seeded_stream(1))
    assert (x[:, 0] + x[:, 1] == 1).all()
    assert 400 < x[:, 2].sum() < 600
    assert law.log_normaliser == pytest.approx(math.log(4))


def test_refusals():
    with pytest.raises(InvariantError, match="no integers satisfy"):
        Elimination([[1, 1]], [9], [table(0, [0.0, 0.0])] * 2)
    crossing = np.vstack(
        [np.kron(np.eye(5, dtype=int), np.ones(5, int)), np.kron(np.ones(5, int), np.eye(5, dtype=int))]
    )
    with pytest.raises(InvariantError, match="partial sums"):
        Elimination(crossing, [0] * 10, [class_sum(1, Fraction(1, 4))] * 25)
    for bad in ([np.nan, 0.0], [-np.inf], [np.inf], [[0.0]]):
        with pytest.raises(ModelError, match="log_weights"):
            table(0, bad)


# -- estimates of the work --------------------------------------------------------------------------------------


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("shape", [(100, 100), (90, 130), (66, 66)])
def test_work_beyond_floating_point_raises_before_it_starts(shape):
    found = structure(margin_matrix(shape, [(0,), (1,)]))
    answer = class_sums.offer(found, DoubleGeometric("1/4"), np.arange(found.blocks.size))
    assert isinstance(answer, Declined)
    assert re.fullmatch(
        r"elimination would take (about \de\+2\d\d|more) steps( than floating point.*)?", answer.reason()
    )
    assert 0 <= answer.near < 1e-200


@pytest.mark.parametrize("epsilon", [1_000, 10_000, 10**6])
def test_work_of_very_narrow_noise_is_finite(epsilon):
    found = structure(margin_matrix((3, 4), [(0,), (1,)]))
    answer = class_sums.offer(found, DoubleGeometric(epsilon), np.arange(12))
    assert isinstance(answer, Offer)
    assert not answer.draw(3, seeded_stream(1)).any()


def test_more_constraints_than_dimensions_raise():
    with pytest.raises(InvariantError, match="tables of 70 dimensions, more than 64: they cross too much"):
        Elimination(margin_matrix((70, 70), [(0,), (1,)]), [0] * 140, [table(0, [0.0])] * 4900)


def test_the_plan_of_a_sparse_table_with_many_crossing_sums_raises():
    """Few cells can move, but the tables of partial sums have 70 dimensions."""
    counts = np.zeros((70, 70), dtype=int)
    counts[0, 0], counts[3, 4] = 4, 2
    public = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1") & ppd.invariants.nonnegative()
    with pytest.raises(InvariantError, match=r"139 independent public sums.*elimination needs too many steps"):
        ppd.Conditioned(public, DoubleGeometric(1)).sampler_plan(counts)
