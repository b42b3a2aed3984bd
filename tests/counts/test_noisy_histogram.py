"""Noisy histograms: the law of the noisy sums against enumeration, spreads against theory, post-processing."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

import ppdinf as ppd
from ppdinf.counts.distribution import histogram
from ppdinf.counts.noisy_histogram import PURE
from ppdinf.laws.likelihood import HistogramNoise
from ppdinf.noise.primitives.stream import seeded_stream


def spread(name, counts, epsilon, draws=4000, **more):
    stream = seeded_stream(3)
    noisy = np.array([ppd.counts.noisy_histogram(counts, epsilon, stream, name, **more) for _ in range(draws)])
    return noisy - counts


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", PURE)
def test_noise_is_unbiased_and_preserves_the_total(name):
    counts = np.array([40, 30, 20, 5, 0, 0, 3, 2])
    noise = spread(name, counts, 1)
    z = noise.mean(axis=0) / (noise.std(axis=0) / np.sqrt(len(noise)))
    assert np.abs(z).max() < 4.5  # 32 means: false alarm rate below 3e-4
    if name.startswith(("cyclic", "privelet")):
        assert np.abs(noise.sum(axis=1)).max() < 1e-9


@pytest.mark.quick_cases(0)
def test_spread_of_the_cyclic_laplace():
    """Each bin and each partial sum has the noise of two double geometric values; independent noise accumulates."""
    rho = np.exp(-1.0)
    variance = 2 * rho / (1 - rho) ** 2
    cyclic = spread("cyclic-laplace", np.full(16, 100), 1, 20000)
    assert np.allclose(cyclic.var(axis=0), 2 * variance, rtol=0.08)
    assert np.allclose(np.cumsum(cyclic, axis=1)[:, :-1].var(axis=0), 2 * variance, rtol=0.08)
    wide = np.exp(-0.5)
    independent = spread("laplace", np.full(16, 100), 1, 20000)
    assert np.allclose(independent.var(axis=0), 2 * wide / (1 - wide) ** 2, rtol=0.08)


def test_consistent_sums_are_more_accurate_than_bins():
    """With weighted averaging, sums of many bins are more accurate than with independent noise of bins."""
    counts = np.full(256, 50)
    tree = spread("hierarchical", counts, 1, 300)
    assert tree[:, :128].sum(axis=1).std() < 0.5 * spread("laplace", counts, 1, 300)[:, :128].sum(axis=1).std()


def test_cyclic_gaussian():
    noise = spread("cyclic-gaussian", np.full(8, 50), 1, delta="1/1000")
    assert noise.var(axis=0).mean() == pytest.approx(2 * 7.5, rel=0.3)


def test_postprocessing():
    noisy = np.array([30, -4, 10, 4.0])
    near, cut = ppd.counts.to_distribution(noisy), ppd.counts.to_distribution(noisy, "clip")
    assert near.sum() == pytest.approx(1)
    assert cut.tolist() == pytest.approx([30 / 44, 0, 10 / 44, 4 / 44])
    assert not np.allclose(near, cut)
    assert ppd.counts.to_distribution([-1, -2], "clip").tolist() == [0.5, 0.5]
    assert ppd.counts.to_distribution([-1, -2]).sum() == pytest.approx(1)
    for seed in range(300):  # no negative values by rounding
        assert ppd.counts.to_distribution(np.random.default_rng(seed).integers(-5, 40, 12)).min() >= 0


N = 3
TABLES = np.array(list(product(range(N), repeat=4)))
REACH = np.arange(-14, 15)


def listed_cyclic(rate):
    """Return the law of ``L_i - L_(i+1)`` for three counts by enumeration up to 14; the rest has mass exp(-14 rate)."""
    around = np.array(list(product(REACH, repeat=N)))
    weight = np.exp(-rate * np.abs(around).sum(axis=1))
    law = {}
    for z, w in zip(map(tuple, (around - np.roll(around, -1, axis=1)).tolist()), weight, strict=True):
        law[z] = law.get(z, 0.0) + w
    return law


def test_cyclic_noise_against_its_list():
    """The law of 81 tables is exact; maximising over the shift instead of marginalizing is wrong."""
    rate, law = 1.5, listed_cyclic(1.5)
    measured = np.array([3, -1, 2])
    noise = PURE["cyclic-laplace"].noise(measured, N, Fraction(3, 2))
    found = np.array([noise.log_density(table) for table in TABLES])
    expected = np.array([np.log(law[tuple((measured - histogram(table, N)).tolist())]) for table in TABLES])
    np.testing.assert_allclose(found, expected - N * np.log(np.exp(-rate * np.abs(REACH)).sum()), atol=1e-6)
    left = [noise.left(table) for table in TABLES]
    likeliest = np.array([-rate * np.abs(own - np.median(own)).sum() for own in left])
    assert np.ptp(likeliest - expected) > 0.1


@pytest.mark.parametrize("name", ["laplace", "privelet", "hierarchical"])
@pytest.mark.parametrize("n", [2, 3, 8, 19, 33])
def test_noise_of_sums(name, n):
    """The log density is minus the rate times the distance of the sums; steps of a cell change the sums correctly."""
    rng, privatizer = np.random.default_rng(3), PURE[name]
    cells = rng.integers(0, n, 12)
    measured = privatizer.measure(histogram(cells, n), Fraction(1, 2), seeded_stream(rng))
    noise, sums = privatizer.noise(measured, n, Fraction(1, 2)), privatizer.sums(n).toarray()
    rate = float(privatizer.rate(n, Fraction(1, 2)))
    assert np.abs(sums[:, 1:] - sums[:, :-1])[privatizer.includes_total :].sum(axis=0).max() * rate <= 0.5  # the budget
    for table in (cells, rng.integers(0, n, 12)):
        expected = stats.dlaplace.logpmf(measured - sums @ np.bincount(table, minlength=n), rate).sum()
        assert noise.log_density(table) == pytest.approx(expected)
    assert noise.log_density(np.append(cells[1:], n)) == -np.inf
    assert noise.log_density(np.append(cells[1:], -1)) == -np.inf


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", PURE)
def test_measured_sums_follow_their_law(name):
    """Frequencies of equal sums of two neighbouring tables have the ratios of the law; twice the rate is rejected.

    3,000 draws of each table, by a chi-square of the two samples' odds against the law (p above 1e-4, four kinds).
    """
    one, other = np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2])
    epsilon, stream, draws, privatizer = Fraction(4), seeded_stream(5), 3000, PURE[name]
    keys = [
        [tuple(privatizer.measure(histogram(table, N), epsilon, stream).tolist()) for _ in range(draws)]
        for table in (one, other)
    ]
    values, number = np.unique(np.array(keys[0] + keys[1]), axis=0, return_inverse=True)
    counts = np.array([np.bincount(part, minlength=len(values)) for part in np.split(number, 2)])
    values, counts = values[counts.sum(axis=0) >= 20], counts[:, counts.sum(axis=0) >= 20]

    def p_value(factor):
        log_odds = []
        for value in values:
            noise = privatizer.noise(value, N, factor * epsilon)
            log_odds.append(noise.log_density(one) - noise.log_density(other))
        share, total = 1 / (1 + np.exp(-np.array(log_odds))), counts.sum(axis=0)
        return stats.chi2.sf(((counts[0] - total * share) ** 2 / (total * share * (1 - share))).sum(), len(values))

    assert p_value(1) > 1e-4 > p_value(2)


def test_far_tails_and_large_rates():
    """Sums over shifts are finite and exact whether a list needs thousands of terms or one."""
    for rate, spread in ((0.003, 40), (20.0, 3)):
        left = np.array([0, spread, -spread, 1])
        noise = HistogramNoise(left, np.zeros(4, np.int64), PURE["laplace"].noise(left, 4, Fraction(1)).steps * 0, rate)
        shifted = HistogramNoise(noise.measured, noise.lowest, noise.steps, rate, shifted=True)
        c = np.arange(-20000, 20001)
        expected = np.logaddexp.reduce(stats.dlaplace.logpmf(left[:, None] + c, rate).sum(axis=0))
        assert shifted.log_density(np.zeros(1, np.int64)) == pytest.approx(expected, abs=1e-9)
