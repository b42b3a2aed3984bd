"""l2 Laplace noise on lattices: nodes, the sum that approximates the integral, draws, and wrong variants."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from lattice_laws import enumerated, fit, margins_law, random_system, total_variation, two_way

from ppdinf.lattice import kernel
from ppdinf.noise.exact import l2_laplace_mixture as mixture
from ppdinf.noise.exact import theta
from ppdinf.noise.exact.gram_schmidt import klein
from ppdinf.noise.exact.l2_laplace_mixture import (
    PER_UNIT,
    RATIO_BOUND,
    L2Mixture,
    _log_sum,
    enclose_sum,
    mixture_acceptance,
)
from ppdinf.noise.exact.theta import log_gaussian_mass
from ppdinf.noise.primitives import enclosures
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream

EPSILONS = [Fraction(3, 2), Fraction(3), Fraction(10, 11), Fraction(2)]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("seed", range(12))
def test_random_lattices(seed):
    rng = np.random.default_rng(100 + seed)
    epsilon = EPSILONS[seed % len(EPSILONS)]
    A = random_system(rng, largest_rank=3 if epsilon == 3 else 2)
    z = L2Mixture(klein(kernel(A)), epsilon).draw(20_000, seeded_stream(seed))
    assert not (z @ A.T).any()
    truth = enumerated(A, "l2", epsilon)
    assert fit(z, truth) > 1e-6
    distance, expected = total_variation(z, truth)
    assert distance < expected + 0.02


@pytest.mark.parametrize(
    ("cells", "epsilon", "lower"),
    [(3, "1/4", 0.99), (4, "1/4", 0.99), (4, "3/2", 0.99), (30, "1/4", 0.9), (30, "3/2", 0.9)],
)
def test_acceptance_on_margins(cells, epsilon, lower):
    law = L2Mixture(klein(kernel(two_way(cells, cells))), Fraction(epsilon))
    assert mixture_acceptance(law) > lower
    assert law.log_keep(law.propose(50, seeded_stream(1)))[0].max() <= 0
    # without invariants |z| would be Gamma(m, 1/epsilon); wide noise on a lattice of rank m comes close
    if epsilon == "1/4":
        z = law.draw(2000 if cells < 30 else 100, secure_stream())
        m = (cells - 1) ** 2
        radius = np.linalg.norm(z, axis=1) / 4
        assert abs(radius.mean() - m) < 6 * np.sqrt(m / len(z)) + 0.05


@pytest.mark.deep
def test_wrong_variants_are_rejected(monkeypatch):
    epsilon = Fraction(5, 2)
    truth = margins_law(2.5, "l2")
    basis = klein(kernel(two_way(3, 3)))

    def p_value(law, size=100_000):
        return fit(law.draw(size, seeded_stream(3)), truth)

    assert p_value(L2Mixture(basis, epsilon)) > 1e-6
    assert p_value(L2Mixture(basis, epsilon * Fraction(21, 20))) < 1e-6
    with monkeypatch.context() as patched:
        patched.setattr(mixture, "draw_bernoulli", lambda logs, *_: np.ones(len(logs), dtype=bool))
        assert p_value(L2Mixture(basis, epsilon)) < 1e-6  # no rejection
    with monkeypatch.context() as patched:  # acceptance with half of the exponent
        patched.setattr(
            mixture,
            "draw_bernoulli",
            lambda logs, error, enclose, stream: enclosures.draw_bernoulli(logs / 2, error, enclose, stream),
        )
        assert p_value(L2Mixture(basis, epsilon), 400_000) < 1e-6  # 1e-23 to 1e-39 for three seeds
    with monkeypatch.context() as patched:  # integrals instead of the masses of the integers: wrong normaliser
        patched.setattr(theta, "log_gaussian_mass", lambda v: 0.5 * np.log(2 * np.pi * v))
        assert p_value(L2Mixture(basis, epsilon)) < 1e-6


def test_the_sum_exceeds_its_lower_bound():
    """R(x) >= RATIO_BOUND for all x up to 4, by ball arithmetic on intervals; nodes above 6 only increase R."""
    with ctx.workprec(64):
        nodes = [arb(2 * j + 1) / (2 * PER_UNIT) for j in range(6 * PER_UNIT)]
        factor, floor = (arb(2) / arb.pi()).sqrt() / PER_UNIT, arb(int(RATIO_BOUND * 1000)) / 1000

        def holds(low, high):
            # for v < sqrt(x) the term decreases in x, above it increases: each is bounded at its worse end
            total = arb(0)
            for v in nodes:
                worst = max(abs(low / float(v) - float(v)), abs(high / float(v) - float(v)))
                if worst < 12:
                    total += (-(max(abs(arb(low) / v - v), abs(arb(high) / v - v)) ** 2) / 2).exp()
            return bool(total * factor > floor)

        left = [(i / 64, (i + 1) / 64) for i in range(256)]
        checked = 0
        while left:
            low, high = left.pop()
            checked += 1
            assert checked < 20_000
            if not holds(low, high):
                middle = (low + high) / 2
                left += [(low, middle), (middle, high)]


def test_the_sum_is_nearly_one_for_large_x():
    x = np.concatenate([np.linspace(0.5, 30, 400), np.geomspace(30, 1e6, 60)])
    assert np.abs(_log_sum(x)).max() < 1e-4
    with ctx.workprec(150):
        for value in (0.0, 0.0356, 0.3, 2.0, 57.3):
            assert abs(enclose_sum(arb(value)).log() - arb(float(_log_sum(np.array([value]))[0]))) < 1e-13


def test_nodes_against_their_law():
    basis = klein(kernel([[1, 1, 2]]))
    law = L2Mixture(basis, Fraction(2))
    v = (law._counted[:-1] + 0.5) / PER_UNIT
    logs = np.array([log_gaussian_mass((x / 2) ** 2 / basis.squares).sum() for x in v]) - v**2 / 2
    weights = np.exp(logs) / np.exp(logs).sum()
    np.testing.assert_allclose(law._cumulative, np.cumsum(weights), atol=1e-13)
    nodes, bounds = law._enclosures(64)
    assert nodes.tolist() == law._counted[:-1].tolist()
    bounds = bounds[1:]
    for j in range(0, len(v), 37):
        assert bounds[j][0] / 2**64 <= law._cumulative[j] + 1e-13
        assert bounds[j][1] / 2**64 >= law._cumulative[j] - 1e-13


def test_ball_arithmetic_gives_the_same_decisions(monkeypatch):
    law = L2Mixture(klein(kernel([[1, 1, 2]])), Fraction(2))
    usual = law.draw(20, seeded_stream(5))
    with monkeypatch.context() as patched:
        patched.setattr(law, "_margin", 2.0)
        patched.setattr(enclosures, "ROUNDING", 1e6)
        np.testing.assert_array_equal(law.draw(20, seeded_stream(5)), usual)


def test_empty_draws():
    assert L2Mixture(klein(kernel(np.eye(3, dtype=int))), Fraction(1)).draw(4, seeded_stream(1)).shape == (4, 3)
    assert L2Mixture(klein(kernel([[1, 1]])), Fraction(1)).draw(0, seeded_stream(1)).shape == (0, 2)
