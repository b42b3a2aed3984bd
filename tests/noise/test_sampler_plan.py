"""The choice of a sampler for a system, joint draws of its parts, and the number of random words per draw."""

import pickle
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from lattice_laws import KINDS, enumerated, fit, law_of, margins_law, two_way
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import InvariantError
from ppdinf.lattice import structure
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace
from ppdinf.noise import sampler_plan
from ppdinf.noise.exact import class_sums
from ppdinf.noise.exact import lattice_gaussian as gaussian
from ppdinf.noise.mcmc.coupled_noise import two_digits_up
from ppdinf.noise.primitives.integers import draw_discrete_gaussian, draw_discrete_laplace
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream
from ppdinf.noise.sampler_plan import Plan, exact_noise, plan_sampler

MARGINS = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")


def used(A, law):
    return [part.sampler for part in exact_noise(structure(np.array(A)), law).parts]


@pytest.mark.parametrize(("A", "samplers"), [
    ([[1, 1, 1, 0, 0]], ["free", "class"]), ([[1, 1, 1, 1], [1, 1, 0, 0]], ["class"]),
    ([[1, 1, 1, 0], [0, 0, 1, 1]], ["elimination"]),
    ([[2, 3, 5]], ["elimination"]), (two_way(2, 5), ["elimination"]), (two_way(4, 4), ["rejection"]),
])  # fmt: skip
def test_l1_samplers(A, samplers):
    assert used(A, DoubleGeometric("1/4")) == samplers


def test_two_exact_samplers_agree(monkeypatch):
    A, law, truth = two_way(2, 3), DoubleGeometric("3/2"), enumerated(two_way(2, 3), "l1", Fraction(3, 2))
    assert used(A, law) == ["elimination"]
    assert fit(exact_noise(structure(A), law).draw(30_000, seeded_stream(1)), truth) > 1e-6
    monkeypatch.setattr(class_sums, "QUICK", 0)
    assert used(A, law) == ["rejection"]
    assert fit(exact_noise(structure(A), law).draw(30_000, seeded_stream(1)), truth) > 1e-6


def test_classes_within_crossing_sums():
    A = np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    noise = exact_noise(structure(A), DoubleGeometric("2"))
    assert [part.sampler for part in noise.parts] == ["elimination"]
    z = noise.draw(60_000, seeded_stream(1))
    assert not (z @ A.T).any()
    assert fit(z, law_of(A, DoubleGeometric(2))) > 1e-6
    assert fit(z, law_of(A, DoubleGeometric("21/10"))) < 1e-6


def test_narrow_gaussians_are_drawn_block_by_block(monkeypatch):
    A = np.kron(np.eye(3, dtype=int), two_way(3, 3))
    law = DiscreteGaussian("1/2")
    assert len(exact_noise(structure(A), law).parts) == 1
    monkeypatch.setattr(gaussian, "LEAST", 1.0)
    noise = exact_noise(structure(A), law)
    assert [part.cells.size for part in noise.parts] == [9, 9, 9]
    z = noise.draw(40_000, seeded_stream(1))
    for block in range(3):
        assert fit(z[:, 9 * block : 9 * block + 9], margins_law(0.5)) > 1e-6


def test_plans_state_sampler_and_reason():
    bound = MARGINS.on(np.ones((4, 4), dtype=int))
    found = plan_sampler(bound, DoubleGeometric("1/4"))
    assert str(found) == (
        "rejection sampler (exact): 16 cells lie in 1 block of public sums that cross; 3.3 % of attempts are kept"
    )
    assert found.acceptance == 0.033
    assert Plan(**found.to_dict()) == found
    assert plan_sampler(bound, L2Laplace("1/4")).sampler == "mixture"
    assert plan_sampler(bound, DiscreteGaussian(1)).sampler == "Klein"
    total = ppd.invariants.total().on(np.ones(3, dtype=int))
    found = plan_sampler(total, DoubleGeometric(1))
    assert found.to_dict() == {"sampler": "class", "exact": True, "reason": found.reason}
    assert found.reason == ("the public sums split 3 cells into 1 group with noise that sums to zero")


def test_a_plan_stores_its_sampler(monkeypatch):
    """Draws do not repeat the set-up, except for another system, or a plan from a file or another process."""
    system, law = MARGINS.on(np.ones((2, 3), dtype=int)), DoubleGeometric("3/2")
    found = plan_sampler(system, law)
    read = [Plan(**found.to_dict()), pickle.loads(pickle.dumps(found))]
    first = found.noise_on(system.structure, law).draw(5, seeded_stream(1))
    other = ppd.invariants.total().on(np.ones((2, 3), dtype=int)).structure
    for unlike in (read[0].noise_on(system.structure, law), read[1].noise_on(system.structure, law)):
        np.testing.assert_array_equal(unlike.draw(5, seeded_stream(1)), first)
    assert found.noise_on(other, law).parts[0].sampler == "class"
    assert found.noise_on(system.structure, DiscreteGaussian(1)).sampler == "Klein"
    monkeypatch.setattr(sampler_plan, "OFFERS", ())
    sampler_plan.exact_or_refusal.cache_clear()
    np.testing.assert_array_equal(found.noise_on(system.structure, law).draw(5, seeded_stream(1)), first)
    with pytest.raises(InvariantError, match="no exact sampler"):
        read[0].noise_on(system.structure, law)
    sampler_plan.exact_or_refusal.cache_clear()


def test_systems_beyond_exact_sampling_raise():
    with pytest.raises(InvariantError, match="cross each other"):
        plan_sampler(MARGINS.on(np.ones((14, 14), dtype=int)), DoubleGeometric(2))
    with pytest.raises(InvariantError, match="narrow"):
        plan_sampler(MARGINS.on(np.ones((30, 30), dtype=int)), DiscreteGaussian("1/2"))


def test_intersecting_sets_over_few_records():
    sets = np.zeros((3, 14), dtype=int)
    sets[0, :7], sets[1, 4:10], sets[2, [0, 5, 6, 8, 9, 11, 12]] = 1, 1, 1
    noise = exact_noise(structure(sets), DoubleGeometric("1/4"))
    z = noise.draw(5000, secure_stream())
    assert not (z @ sets.T).any()
    assert z.any(axis=0).all()


def test_releases_of_crossing_margins():
    table = np.arange(16).reshape(4, 4)
    mechanism = ppd.GeneralizedLaplace(MARGINS, epsilon="1/4")
    release = mechanism.release(table)
    assert release.plan.sampler == "rejection"
    assert release.plan.exact
    noisy = mechanism.simulate(table, draws=200, rng=1).values
    assert (noisy.sum(1) == table.sum(0)).all()
    assert (noisy.sum(2) == table.sum(1)).all()
    assert noisy.std(0).min() > 1


@pytest.mark.parametrize(
    ("limit", "written"), [(0.0143, 0.015), (0.014, 0.014), (0.0999, 0.1), (0.996, 1.0), (1.0, 1.0)]
)
def test_limits_are_rounded_up(limit, written):
    assert two_digits_up(limit) == written


DRAWS = 4000  # standard error of the correlation under independence: 0.016
TOTAL = np.ones((1, 100), dtype=int)


def words_and_sizes(draw, draws=DRAWS):
    """Return the number of words and |z|_1 of each of many draws from one stream."""
    source, read = seeded_stream(1), []

    def stream(n):
        read[-1] += n
        return source(n)

    sizes = []
    for _ in range(draws):
        read.append(0)
        sizes.append(np.abs(draw(stream)).sum())
    return np.array(read), np.array(sizes)


def spearman(words, sizes):
    return 0.0 if np.ptp(words) == 0 else stats.spearmanr(words, sizes).statistic


def lattice(A, kind, scale):
    noise = cache(lambda: exact_noise(structure(np.array(A)), KINDS[kind](scale)))
    return lambda stream: noise().draw(1, stream)


@pytest.mark.parametrize(("draw", "words"), [
    (lambda stream: draw_discrete_laplace(Fraction(1, 4), 100, stream), 100),
    (lambda stream: draw_discrete_gaussian(Fraction(9), 100, stream), 100),
    (lattice(TOTAL, "l1", "1/4"), 199),
], ids=["discrete Laplace", "discrete Gaussian", "class"])  # fmt: skip
def test_words_are_the_same_for_every_noise(draw, words):
    """Fewer than one word in 2**50 is rejected here."""
    read, sizes = words_and_sizes(draw, 300)
    assert set(read.tolist()) == {words}
    assert np.ptp(sizes) > 50


def on_a_grid(make, *arguments):
    total = ppd.invariants.total()
    law = cache(lambda: make(total, "1/10", *arguments).law(total.on(np.ones(12, dtype=int))))
    return lambda stream: law().draw(1, stream)


def test_words_of_extended_noise_on_a_grid_are_the_same_for_every_noise():
    read, sizes = words_and_sizes(on_a_grid(ppd.SubspaceLaplace, "extended"), 200)
    assert np.ptp(read) == 0
    assert np.ptp(sizes) > 50


@pytest.mark.parametrize(
    "draw",
    [
        lambda stream: draw_discrete_laplace(Fraction(1, 500), 100, stream),
        lambda stream: draw_discrete_gaussian(Fraction(10**6), 100, stream),
        lattice(TOTAL, "l1", "1/100"),
        lattice(two_way(2, 5), "l1", "1/4"),
        lattice(two_way(3, 3), "l1", "1/4"),
        lattice(two_way(3, 3), "gaussian", "1/2"),
        lattice(two_way(4, 4), "l2", "1/4"),
        on_a_grid(ppd.SubspaceGaussian, "1e-6"),
        on_a_grid(ppd.CorrelatedGaussian, "1e-6"),
        on_a_grid(ppd.SubspaceLaplace),
        on_a_grid(ppd.KNorm),
    ],
    ids=[
        *["wide Laplace", "wide Gaussian", "wide class", "elimination", "rejection", "Klein", "mixture"],
        *["Gaussian on a grid", "correlated on a grid", "projected on a grid", "K-norm on a grid"],
    ],
)
@pytest.mark.deep
def test_words_are_nearly_independent_of_the_noise(draw):
    assert abs(spearman(*words_and_sizes(draw))) < 0.16  # 0.1, and four standard errors


def test_a_sampler_with_a_counting_loop_is_detected():
    def unary(stream):
        """Draw geometric noise with one word per step: the textbook loop."""
        z = 0
        while stream(1)[0] > 2**62:
            z += 1
        return np.array([z])

    assert spearman(*words_and_sizes(unary)) > 0.9


@pytest.mark.quick_cases(0)
def test_documented_timing_of_l2_noise_with_one_total():
    """A narrower mixing scale requires more attempts for its Gaussian coordinates: docs/timing.md."""
    assert -0.35 < spearman(*words_and_sizes(lattice(TOTAL, "l2", "1/4"))) < -0.1
