"""l1 noise by rejection: the split of a lattice, acceptance rates, draws, and wrong variants."""

from fractions import Fraction

import numpy as np
import pytest
from lattice_laws import enumerated, fit, margins_law, random_system, total_variation, two_way
from scipy.linalg import block_diag

from ppdinf.errors import PrivacyError
from ppdinf.lattice import kernel, structure
from ppdinf.laws import DoubleGeometric
from ppdinf.noise.exact import rejection
from ppdinf.noise.exact.rejection import draw_by_rejection, rejection_acceptance, split_lattice
from ppdinf.noise.primitives import enclosures
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream

EPSILONS = [Fraction(3, 2), Fraction(1), Fraction(10, 11), Fraction(2)]


@pytest.mark.parametrize("seed", range(32))
def test_random_lattices(seed):
    rng, split = np.random.default_rng(200 + seed), None
    while split is None:
        A = random_system(rng, largest_rank=2)
        split = split_lattice(kernel(A))
    epsilon = EPSILONS[seed % len(EPSILONS)]
    z = draw_by_rejection(split, epsilon, seeded_stream(seed), size=20_000)
    assert not (z @ A.T).any()
    truth = enumerated(A, "l1", epsilon)
    assert fit(z, truth) > 1e-6
    distance, expected = total_variation(z, truth)
    assert distance < expected + 0.02


@pytest.mark.quick_cases(0)
def test_margins_and_wrong_variants(monkeypatch):
    split, truth = split_lattice(kernel(two_way(3, 3))), margins_law(1.5, "l1")

    def p_value(epsilon=Fraction(3, 2), size=200_000):
        return fit(draw_by_rejection(split, epsilon, seeded_stream(3), size=size), truth)

    assert p_value() > 1e-6
    assert p_value(Fraction(63, 40)) < 1e-6
    right = enclosures.draw_bernoulli
    with monkeypatch.context() as patched:
        patched.setattr(rejection, "draw_bernoulli", lambda logs, *_: np.ones(len(logs), dtype=bool))
        assert p_value() < 1e-6  # no rejection
    with monkeypatch.context() as patched:
        patched.setattr(rejection, "draw_bernoulli", lambda logs, error, f, stream: right(0.9 * logs, error, f, stream))
        assert p_value() < 1e-6  # biased acceptance
    with monkeypatch.context() as patched:  # wrong rate within the classes
        usual = rejection.draw_class
        patched.setattr(
            rejection, "draw_class", lambda n, s, e, *rest, **size: usual(n, s, e * Fraction(21, 20), *rest, **size)
        )
        assert p_value() < 1e-6


def test_four_by_four():
    split = split_lattice(kernel(two_way(4, 4)))
    assert rejection_acceptance(split, Fraction(1, 4)) == pytest.approx(0.033, rel=0.05)
    z = draw_by_rejection(split, Fraction(1, 4), secure_stream(), size=4000).reshape(-1, 4, 4)
    assert not z.sum(1).any()
    assert not z.sum(2).any()
    # all cells have the same law by symmetry, although they are drawn in four different ways
    sizes = np.abs(z).mean(0)
    assert sizes.max() / sizes.min() < 1.15


def test_a_basis_is_transformed_to_have_an_identity_block():
    sets = np.array([[1, 0, 0, 1, 1, 0, 1], [0, 1, 0, 1, 0, 1, 1], [0, 0, 1, 0, 1, 1, 1]])
    split = split_lattice(kernel(sets))
    z = draw_by_rejection(split, Fraction(1), seeded_stream(1), size=20_000)
    assert not (z @ sets.T).any()
    # by symmetry between the sets
    sizes = np.abs(z).mean(0)
    assert np.ptp(sizes[:3]) < 0.05
    assert np.ptp(sizes[3:6]) < 0.05


def test_lattices_without_free_cells():
    assert split_lattice(kernel([[2, 3, 5]])) is None


def test_ball_arithmetic_gives_the_same_decisions(monkeypatch):
    split = split_lattice(kernel(two_way(2, 3)))
    usual = draw_by_rejection(split, Fraction(1), seeded_stream(5), size=30)
    monkeypatch.setattr(enclosures, "ROUNDING", 1e6)
    np.testing.assert_array_equal(draw_by_rejection(split, Fraction(1), seeded_stream(5), size=30), usual)


def test_small_and_invalid_epsilon():
    split = split_lattice(kernel(two_way(3, 3)))
    z = draw_by_rejection(split, Fraction(1, 10**6), seeded_stream(1), size=50)
    assert np.abs(z).mean() > 10**5
    with pytest.raises(PrivacyError, match="epsilon"):
        draw_by_rejection(split, 0.5, seeded_stream(1))


def test_blocks_of_the_same_form_have_one_pilot_run(monkeypatch):
    """30 tables of 3 x 4 and a table of 3 x 3, each with both margins: two pilot runs, with different rates."""
    rates, estimate = [], rejection_acceptance
    monkeypatch.setattr(rejection, "rejection_acceptance", lambda *of: rates.append(estimate(*of)) or rates[-1])
    monkeypatch.setattr(rejection, "PILOT", rejection.BATCH)
    rejection._acceptance.cache_clear()
    found = structure(block_diag(*[two_way(3, 4)] * 30, two_way(3, 3)))
    blocks = [np.flatnonzero(found.blocks == block) for block in range(31)]
    offered = [rejection.offer(found, DoubleGeometric("1/3"), cells).acceptance for cells in blocks]
    rejection._acceptance.cache_clear()
    assert offered == [rates[0]] * 30 + [rates[1]]
    assert len(rates) == 2
    assert rates[0] < rates[1]
