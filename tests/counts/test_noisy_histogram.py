"""Noisy histograms: the law of the noisy sums against enumeration, spreads against theory, post-processing."""

from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product

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


def sums_of(privatizer, n):
    """Return the matrix of sums of a histogram."""
    lowest, steps = privatizer.changes(n)
    return np.cumsum(np.column_stack([lowest, steps.toarray()]), axis=1)


@pytest.mark.parametrize("n", [2, 3, 8, 19, 33])
def test_sums_are_those_of_their_names(n):
    """Cumulative counts and bins, and estimates without noise that are the histogram."""
    own = np.random.default_rng(n).integers(0, 9, n)
    below = np.array([own[:i].sum() for i in range(1, n)])
    assert (sums_of(PURE["cumulative"], n) @ own).tolist() == [own.sum(), *below]
    assert (sums_of(PURE["laplace"], n) @ own).tolist() == own.tolist()
    for name in ("cumulative", "laplace", "privelet", "hierarchical"):
        assert PURE[name].estimate(sums_of(PURE[name], n) @ own, n) == pytest.approx(own)


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
    below = np.cumsum(noisy)[:-1]
    grid = np.array(list(combinations_with_replacement(range(41), 3)))
    nearest = grid[((grid - below) ** 2).sum(axis=1).argmin()]
    assert 40 * np.cumsum(ppd.counts.to_distribution(noisy, "isotonic"))[:-1] == pytest.approx(nearest)
    assert not np.allclose(40 * np.cumsum(near)[:-1], nearest)
    assert cut.tolist() == pytest.approx([30 / 44, 0, 10 / 44, 4 / 44])
    assert not np.allclose(near, cut)
    assert ppd.counts.to_distribution([-1, -2], "clip").tolist() == [0.5, 0.5]
    assert ppd.counts.to_distribution([-1, -2]).sum() == pytest.approx(1)
    for seed, method in product(range(300), ("simplex", "isotonic")):  # no negative values by rounding
        assert ppd.counts.to_distribution(np.random.default_rng(seed).integers(-5, 40, 12), method).min() >= 0


def test_reranked_cells_are_nearest():
    """Of all orders of the counts, none is nearer to the noisy cells; ties are broken evenly (4.5 standard errors)."""
    cells, z, stream = np.array([4, -3, 1, 1, 9]), np.array([0.2, 0.4, 0, 0.2, 0.2]), seeded_stream(1)
    drawn = np.array([ppd.counts.rerank(cells, z, stream) for _ in range(400)])
    assert (np.sort(drawn, axis=1) == [0, 1, 1, 3, 4]).all()
    least = min(np.abs(cells - order).sum() for order in set(permutations([0, 1, 1, 3, 4])))
    assert (np.abs(drawn - cells).sum(axis=1) == least).all()
    tied = np.array([ppd.counts.rerank([1, 1, 9], [0.25, 0.35, 0.4], stream) for _ in range(400)])
    assert abs((tied[:, 0] == 0).mean() - 0.5) < 4.5 * 0.025


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


@pytest.mark.parametrize("name", ["cumulative", "laplace", "privelet", "hierarchical"])
@pytest.mark.parametrize("n", [2, 3, 8, 19, 33])
def test_noise_of_sums(name, n):
    """Minus the rate times the distance of sums; the rate epsilon on single bins would spend twice the budget."""
    rng, privatizer = np.random.default_rng(3), PURE[name]
    cells = rng.integers(0, n, 12)
    measured = privatizer.measure(histogram(cells, n), Fraction(1, 2), seeded_stream(rng))
    noise, sums = privatizer.noise(measured, n, Fraction(1, 2)), sums_of(privatizer, n)
    rate = float(privatizer.rate(n, Fraction(1, 2)))
    changes = np.abs(np.diff(sums, axis=1))
    assert changes[: privatizer.includes_total].sum() == 0
    assert changes.sum(axis=0).max() * rate <= 0.5  # the budget
    assert np.abs(np.diff(np.eye(n), axis=1)).sum(axis=0).max() * 0.5 == 1
    for table in (cells, rng.integers(0, n, 12)):
        expected = stats.dlaplace.logpmf(measured - sums @ np.bincount(table, minlength=n), rate).sum()
        assert noise.log_density(table) == pytest.approx(expected)
    assert noise.log_density(np.append(cells[1:], n)) == -np.inf
    assert noise.log_density(np.append(cells[1:], -1)) == -np.inf


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", PURE)
def test_measured_sums_follow_their_law(name):
    """Odds of sums of two neighbours, 3,000 draws each, by chi-square (p above 1e-4); twice the rate is rejected."""
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


def test_distances_of_distributions():
    """Against SciPy, samples with these frequencies, and the largest difference over all events."""
    rng, k = np.random.default_rng(4), np.arange(6)
    for p, q in rng.integers(1, 9, (5, 2, 6)):
        p_sum, q_sum = p / p.sum(), q / q.sum()
        assert ppd.counts.wasserstein(p_sum, q_sum) == pytest.approx(stats.wasserstein_distance(k, k, p_sum, q_sum))
        sampled = stats.ks_2samp(np.repeat(k, p), np.repeat(k, q)).statistic
        assert ppd.counts.kolmogorov_smirnov(p_sum, q_sum) == pytest.approx(sampled)
        events = np.array(list(product([0, 1], repeat=6)))
        assert ppd.counts.total_variation(p_sum, q_sum) == pytest.approx(np.abs(events @ (p_sum - q_sum)).max())
