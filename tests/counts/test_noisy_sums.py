"""The law of noisy sums of a histogram given a table, against enumerated noise."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from ppdinf.counts.distribution import histogram
from ppdinf.counts.noisy_histogram import PURE
from ppdinf.laws.likelihood import HistogramNoise
from ppdinf.noise.primitives.stream import seeded_stream

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
@pytest.mark.parametrize("n", [2, 3, 8, 19])
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
