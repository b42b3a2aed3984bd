"""Discrete Gaussian noise on lattices: Klein's proposals, the rejection, and wrong variants of each."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from lattice_laws import enumerated, fit, margins_law, random_system, total_variation, two_way
from scipy import sparse

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice import kernel
from ppdinf.noise.exact import klein as klein_module
from ppdinf.noise.exact import lattice_gaussian as gaussian
from ppdinf.noise.exact.gram_schmidt import klein
from ppdinf.noise.exact.klein import Klein
from ppdinf.noise.exact.lattice_gaussian import draw_gaussian, gaussian_acceptance
from ppdinf.noise.exact.theta import enclose_mass, log_gaussian_mass, log_ratio
from ppdinf.noise.primitives import enclosures
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream

SIGMAS = [Fraction(1, 2), Fraction(3, 2), Fraction(2, 3), Fraction(10, 11), Fraction(2)]


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize("seed", range(40))
def test_random_lattices(seed):
    rng = np.random.default_rng(seed)
    A, sigma = random_system(rng, largest_rank=2 + seed % 2), SIGMAS[seed % len(SIGMAS)]
    z = draw_gaussian(klein(kernel(A)), sigma**2, seeded_stream(seed), size=20_000)
    assert not (z @ A.T).any()
    truth = enumerated(A, "gaussian", sigma)
    assert fit(z, truth) > 1e-6
    distance, expected = total_variation(z, truth)
    assert distance < expected + 0.02


@pytest.mark.parametrize(
    ("cells", "sigma", "acceptance"),
    [(4, "1/2", 0.861), (4, "1", 0.978), (4, "2", 1.0), (30, "1", 0.963)],
)
def test_acceptance_on_margins(cells, sigma, acceptance):
    proposals = klein(kernel(two_way(cells, cells))).propose(
        [Fraction(sigma) ** 2] * (20_000 if cells == 4 else 100), seeded_stream(1)
    )
    keep = np.exp(proposals.log_keep()[0])
    assert keep.max() <= 1 + 1e-12
    assert keep.mean() == pytest.approx(acceptance, abs=0.004)


def test_acceptance_of_a_total():
    assert gaussian_acceptance(klein(kernel(np.ones((1, 102), dtype=int))), Fraction(1)) > 0.9998


HALF = Fraction(1, 4)  # sigma = 1/2: Klein's sampler without rejection is biased


@pytest.mark.quick_cases(0)
def test_wrong_variants_are_rejected(monkeypatch):
    A = two_way(3, 3)
    truth = margins_law(0.5)
    right = klein(kernel(A))

    def p_value(basis=right, sigma_squared=HALF, size=200_000):
        return fit(draw_gaussian(basis, sigma_squared, seeded_stream(3), size=size), truth)

    assert p_value() > 1e-6
    assert p_value(sigma_squared=HALF * Fraction(441, 400)) < 1e-6  # scale error of 5 %
    uncentered = replace(right, factors=np.zeros_like(right.factors))
    with monkeypatch.context() as patched:
        patched.setattr(gaussian, "draw_bernoulli", lambda logs, *_: np.ones(len(logs), dtype=bool))
        assert p_value() < 1e-6  # no rejection
        assert p_value(uncentered) < 1e-6  # wrong centers
    with monkeypatch.context() as patched:  # acceptance with an exponent error of 10 %
        patched.setattr(
            gaussian,
            "draw_bernoulli",
            lambda logs, error, enclose, stream: enclosures.draw_bernoulli(0.5 * logs, error, enclose, stream),
        )
        assert p_value() < 1e-6


def test_an_unsaturated_basis_is_rejected():
    A = np.array([[2, 3, 5]])
    lattice = kernel(A)
    truth = enumerated(A, "gaussian", Fraction(3, 2))
    assert fit(draw_gaussian(klein(lattice), Fraction(9, 4), seeded_stream(1), size=20_000), truth) > 1e-6
    rational = lattice.class_basis @ np.array([[2, 1], [0, 1]])  # index 2
    wrong = klein(replace(lattice, class_basis=sparse.csc_array(rational)))
    assert fit(draw_gaussian(wrong, Fraction(9, 4), seeded_stream(1), size=20_000), truth) < 1e-6


def test_the_law_does_not_depend_on_the_basis():
    A = two_way(3, 2)
    lattice = kernel(A)
    skewed = lattice.class_basis @ np.array([[1, 3], [0, 1]])
    other = klein(replace(lattice, class_basis=sparse.csc_array(skewed)))
    z = draw_gaussian(other, Fraction(1), seeded_stream(1), size=30_000)
    assert fit(z, enumerated(A, "gaussian", 1, reach=12)) > 1e-6


def test_rounded_bases_reduce_acceptance_only():
    # orthogonal parts and centers with three digits: the proposals are inexact, the law is exact
    A = two_way(3, 3)
    exact = klein(kernel(A))
    rough = Klein(
        exact.basis,
        np.floor(exact.squares * 950) / 1000,
        exact.starts,
        exact.columns,
        np.round(exact.factors, 3),
        0.05,
    )
    z = draw_gaussian(rough, Fraction(1), seeded_stream(1), size=60_000)
    proposals = rough.propose([Fraction(1)] * 2000, seeded_stream(2))
    assert proposals.log_keep()[0].max() <= 0
    assert fit(z, margins_law(1)) > 1e-6


def test_ball_arithmetic_gives_the_same_decisions(monkeypatch):
    basis = klein(kernel(np.array([[1, 1, 1, 2]])))
    usual = draw_gaussian(basis, Fraction(3, 7), seeded_stream(5), size=60)
    wide = draw_gaussian(basis, Fraction(10**9), seeded_stream(5), size=20)
    with monkeypatch.context() as patched:
        patched.setattr(klein_module, "_draw_coordinates", klein_module._draw_coordinates.py_func)
        patched.setattr(klein_module, "ERROR", 1e6)  # comparisons of doubles decide nothing
        patched.setattr(enclosures, "ROUNDING", 1e6)
        np.testing.assert_array_equal(draw_gaussian(basis, Fraction(3, 7), seeded_stream(5), size=60), usual)
        np.testing.assert_array_equal(draw_gaussian(basis, Fraction(10**9), seeded_stream(5), size=20), wide)


def test_error_bounds_of_log_acceptances_hold():
    for A, sigma in ((two_way(4, 4), "1/2"), (np.array([[2, 3, 5, 7]]), "1/3"), (np.ones((1, 40), int), "1/2")):
        proposals = klein(kernel(A)).propose([Fraction(sigma) ** 2] * 20, seeded_stream(1))
        logs, error = proposals.log_keep()
        with ctx.workprec(200):
            for i in range(20):
                assert abs(proposals.enclose_keep(i).log() - arb(logs[i])) < error[i] < 1e-11


def test_gaussian_masses():
    with ctx.workprec(200):
        for v in (*np.geomspace(1e-3, 3.99, 60).tolist(), 0.16, 0.1599999):
            at_zero = enclose_mass(arb(0), arb(v))
            assert abs(at_zero.log() - arb(float(log_gaussian_mass(np.array([v]))[0]))) < 1e-15
            for f in np.linspace(-0.5, 0.5, 11).tolist():
                exact = sum((-((arb(k) + f) ** 2) / (2 * v)).exp() for k in range(-60, 61))
                assert abs(enclose_mass(arb(f), arb(v)) / exact - 1) < 1e-50
                log = (exact / at_zero).log()
                assert abs(log - arb(log_ratio(f, v))) < 1e-15 * (1 + abs(float(log)))


def test_undecided_words_are_extended():
    # a first word of zeros leaves the block undecided; after 2^70 blocks only the word 0 accepts the proposal
    begin, rest = [0, 2**63, 0, 2**6], seeded_stream(1)

    def stream(n):
        taken = [begin.pop(0) if begin else int(rest(1)[0]) for _ in range(n)]
        return np.array(taken, dtype=np.uint64)

    assert draw_gaussian(klein(kernel([[1, 1]])), Fraction(1), stream).sum() == 0
    assert not begin


def test_many_cells_and_wide_noise():
    basis = klein(kernel(np.ones((1, 3143), dtype=int)))
    z = draw_gaussian(basis, Fraction(100), secure_stream(), size=3)
    assert not z.sum(1).any()
    assert z.std() == pytest.approx(10, rel=0.05)
    z = draw_gaussian(klein(kernel(two_way(3, 3))), Fraction(10**16), seeded_stream(1), size=3000)
    assert np.sqrt((z**2).mean()) == pytest.approx(10**8 * 2 / 3, rel=0.05)
    with pytest.raises(PrivacyError, match="wider"):
        draw_gaussian(klein(kernel(two_way(3, 3))), Fraction(10**40), seeded_stream(1))
    with pytest.raises(PrivacyError, match="sigma_squared"):
        draw_gaussian(basis, 0.5, seeded_stream(1))


def test_ill_conditioned_bases_raise():
    lattice = kernel([[1, 2, 4]])
    skewed = lattice.class_basis @ np.array([[1, 10**7], [0, 1]])
    with pytest.raises(InvariantError, match="ill-conditioned"):
        klein(replace(lattice, class_basis=sparse.csc_array(skewed)))


def test_empty_draws():
    assert draw_gaussian(klein(kernel(np.eye(3, dtype=int))), Fraction(1), seeded_stream(1), size=4).shape == (4, 3)
    assert draw_gaussian(klein(kernel([[1, 1]])), Fraction(1), seeded_stream(1), size=0).shape == (0, 2)
