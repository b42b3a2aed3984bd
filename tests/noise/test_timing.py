"""The number of random words per draw against the noise; `benchmarks/timing.py` measures times."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from lattice_laws import KINDS, two_way
from scipy import stats

import ppdinf as ppd
from ppdinf.lattice import structure
from ppdinf.noise.primitives.integers import draw_discrete_gaussian, draw_discrete_laplace
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.sampler_plan import exact_noise

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


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda stream: draw_discrete_laplace(Fraction(1, 4), 100, stream), 100),
        (lambda stream: draw_discrete_gaussian(Fraction(9), 100, stream), 100),
        (lattice(TOTAL, "l1", "1/4"), 199),
    ],
    ids=["discrete Laplace", "discrete Gaussian", "class"],
)
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
