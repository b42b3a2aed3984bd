"""Noise of classes given their sums: the law and the draws, each with a wrong variant that must be rejected."""

from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, exp

import mpmath as mp
import numpy as np
import pytest
from lattice_laws import fit
from scipy import stats

from ppdinf._internal.rationals import ball
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.noise.exact import single_sums as classes
from ppdinf.noise.exact.single_sums import compositions, draw_class, draw_partition, negative_part, polya_urn
from ppdinf.noise.primitives import stream as stream
from ppdinf.noise.primitives.integers import Inversion
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream

NOISE = [(2, 0, "1/2"), (2, 3, "1"), (3, 0, "3/2"), (3, -2, "2/3"), (3, 4, "10/11"), (4, 1, "3")]
SMALL = [(n, total, Fraction(epsilon)) for n, total, epsilon in NOISE]
LARGER = [(102, 0, Fraction(24, 125)), (102, -40, Fraction(24, 125)), (5000, 7, Fraction(2))]


def brute_law(n, total, epsilon, reach):
    """Return the law of double geometric noise given its sum, by enumeration."""
    law = {}
    for head in product(range(-reach, reach + 1), repeat=n - 1):
        z = (*head, total - sum(head))
        law[z] = exp(-float(epsilon) * sum(map(abs, z)))
    normaliser = sum(law.values())
    return {z: weight / normaliser for z, weight in law.items()}


def law_from(t_weights, n, total, zs):
    """Return the law of z if t has the given weights and U, V are uniform compositions of t + total and t."""
    law = {}
    for z in zs:
        negative = -sum(x for x in z if x < 0)  # V exceeds the negative part of z, cell by cell
        law[z] = sum(
            weight * comb(t - negative + n - 1, n - 1) / (comb(t + total + n - 1, n - 1) * comb(t + n - 1, n - 1))
            for t, weight in t_weights.items()
            if t >= negative
        )
    return law


def weights_of_t(n, total, epsilon, end=400):
    sampler = negative_part(n, total, epsilon)
    raw = {t: float(sampler.weight(t) / sampler.weight(sampler.mode)) for t in range(max(0, -total), end)}
    return {t: weight / sum(raw.values()) for t, weight in raw.items()}


@pytest.mark.parametrize(("n", "total", "epsilon"), SMALL)
def test_construction_has_the_conditional_law(n, total, epsilon):
    truth = brute_law(n, total, epsilon, {2: 100, 3: 45, 4: 12}[n])
    zs = [z for z, p in truth.items() if p > 1e-7]
    right = law_from(weights_of_t(n, total, epsilon), n, total, zs)
    assert max(abs(right[z] - truth[z]) for z in zs) < 1e-12
    wrong = law_from(weights_of_t(n, total, epsilon / 2), n, total, zs)  # exp(-epsilon t) for exp(-2 epsilon t)
    assert max(abs(wrong[z] - truth[z]) for z in zs) > 1e-3


def mp_weight(n, total, epsilon, t):
    rate = mp.mpf(epsilon.numerator) / epsilon.denominator
    return mp.mpf(comb(t + total + n - 1, n - 1)) * comb(t + n - 1, n - 1) * mp.exp(-2 * rate * t)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("n", "total", "epsilon"), [*SMALL, *LARGER])
def test_certified_bounds_of_t(n, total, epsilon):
    mp.mp.dps = 60
    sampler = negative_part(n, total, epsilon)
    first = max(0, -total)
    weights = [mp_weight(n, total, epsilon, first)]
    while len(weights) < sampler.mode - first + 2 or weights[-1] > mp.mpf(10) ** -50 * max(weights):
        weights.append(mp_weight(n, total, epsilon, first + len(weights)))
    assert np.argmax(np.array(weights, dtype=object)) == sampler.mode - first
    cdf = np.cumsum(np.array(weights, dtype=object)) / mp.fsum(weights)
    for bits in (8, 64, 128):
        table = sampler._table(bits)
        for i in range(len(table.lower)):
            j = table.first + i + sampler.mode - first  # table rows count from the mode, these from the first t
            assert int(table.lower[i]) <= cdf[j] * 2**bits
            assert int(table.upper[i]) >= min(cdf[j - 1] * 2**bits if j else 0, 2**bits - 1)
        assert (1 - cdf[j]) * 2**bits < 1


@pytest.mark.parametrize(("n", "total"), [(2, 5), (3, 4), (4, 3), (5, 0), (5, 2), (3, 9)])
def test_every_composition_has_the_same_number_of_urn_histories(n, total):
    counts = Counter()
    for history in product(*(range(total + 1 + j) for j in range(n - 1))):
        bars = np.zeros((1, n + 1), dtype=np.int64)
        bars[0, n] = total
        # words that `bounded` maps to these balls and accepts
        words = np.array([-(-b * 2**64 // (total + 1 + j)) + 1 for j, b in enumerate(history)], dtype=np.uint64)
        assert polya_urn(words, 0, bars) == n - 1
        bars[:, 1:n].sort(axis=1)
        counts[tuple(np.diff(bars[0]))] += 1
    assert len(counts) == comb(total + n - 1, n - 1)
    assert len(set(counts.values())) == 1
    naive = Counter(tuple(sorted(bars)) for bars in product(range(total + 1), repeat=n - 1))  # wrong: no urn
    assert n == 2 or total == 0 or len(set(naive.values())) > 1


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("n", "total", "epsilon"), SMALL[:5])
def test_draws_and_power(monkeypatch, n, total, epsilon):
    size = 100_000
    reach = {2: 100, 3: 45}[n]
    truth = brute_law(n, total, epsilon, reach)
    draws = draw_class(n, total, epsilon, seeded_stream(6), size=size)
    assert draws.dtype == np.int64
    assert (draws.sum(axis=1) == total).all()
    assert fit(draws, truth) > 1e-6
    assert fit(draws, brute_law(n, total, epsilon * Fraction(21, 20), reach)) < 1e-6

    def wrong_exponent(n, total, epsilon):
        sampler = negative_part(n, total, epsilon)
        return Inversion(
            lambda t: sampler.weight(t) * (t * ball(epsilon)).exp(),
            negative_part(n, total, epsilon / 2).mode,
            sampler.first,
        )

    with monkeypatch.context() as patched:
        patched.setattr(classes, "negative_part", wrong_exponent)
        assert fit(draw_class(n, total, epsilon, seeded_stream(6), size=size), truth) < 1e-6

    def independent_bars(totals, n, _stream):
        inner = np.random.default_rng(1).integers(0, totals[:, np.newaxis] + 1, size=(len(totals), n - 1))
        return np.column_stack([np.zeros_like(totals), np.sort(inner, axis=1), totals])

    if n > 2:
        with monkeypatch.context() as patched:
            patched.setattr(classes, "compositions", independent_bars)
            assert fit(draw_class(n, total, epsilon, seeded_stream(6), size=size), truth) < 1e-6


def test_hundred_and_two_cells():
    n, epsilon, size = 102, Fraction(24, 125), 40_000
    weights = weights_of_t(n, 0, epsilon, 900)
    t, p = np.array(list(weights)), np.array(list(weights.values()))
    # U_1 and V_1 are independent given t, with a uniform composition's first part
    variance = float(p @ (2 * t * (n - 1) * (t + n))) / (n**2 * (n + 1))

    # the same law by convolution: one cell against the sum of the other cells
    k = np.arange(-2048, 2048)
    cell = np.tanh(float(epsilon) / 2) * np.exp(-float(epsilon) * np.abs(k))
    others = np.fft.fftshift(np.fft.irfft(np.fft.rfft(np.fft.ifftshift(cell)) ** (n - 1)))
    marginal = cell[1:] * others[1:][::-1]
    marginal /= marginal.sum()
    assert variance == pytest.approx(float(marginal @ k[1:] ** 2), rel=1e-9)
    assert np.sqrt(variance) == pytest.approx(7.27, abs=0.01)
    size_l1 = n * float(marginal @ np.abs(k[1:]))
    assert size_l1 == pytest.approx(523, abs=0.5)

    z = draw_class(n, 0, epsilon, seeded_stream(7), size=size)
    assert not z.sum(axis=1).any()
    for values, mean in ((np.abs(z).sum(axis=1), size_l1), ((z**2).sum(axis=1), n * variance)):
        error = values.std() / np.sqrt(size)
        assert abs(values.mean() - mean) < 5 * error
        assert abs(values.mean() - mean * 1.05) > 20 * error
    keep = np.abs(k[1:]) <= 25
    observed = np.bincount(z[:, 17][np.abs(z[:, 17]) <= 25] + 25)
    expected = marginal[keep] * size
    rest = size - observed.sum(), size - expected.sum()
    assert stats.chisquare([*observed, rest[0]], [*expected, rest[1]]).pvalue > 1e-6


def test_many_large_draws_through_blocks():
    # t spreads over more values than the table holds
    n, epsilon, size = 40, Fraction(1, 10**6), 4000
    assert negative_part(n, 0, epsilon).block > 1
    z = draw_class(n, 0, epsilon, seeded_stream(2), size=size)
    assert not z.sum(axis=1).any()
    # in the limit: Laplace noise given its sum, whose l1 norm is Gamma(n - 1, 1/epsilon)
    l1 = np.abs(z).sum(axis=1) * float(epsilon)
    assert stats.kstest(l1, stats.gamma(n - 1).cdf).pvalue > 1e-6
    assert stats.kstest(l1 * 1.05, stats.gamma(n - 1).cdf).pvalue < 1e-6


def test_partition_keeps_every_class_sum():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 12, size=300)
    labels[labels == 5] = 6  # an empty class
    labels[0] = 12  # a class of one cell
    labels[1:][labels[1:] == 12] = 0
    z = draw_partition(labels, 14, Fraction(1, 3), secure_stream(), 200)
    assert z.shape == (200, 300)
    for c in range(14):
        assert not z[:, labels == c].sum(axis=1).any()
    assert not z[:, 0].any()
    assert z[:, 1:].any(axis=0).all()


def test_partition_has_the_law_of_each_class():
    labels = np.array([1, 0, 2, 1, 2, 0, 1])  # sizes 2, 3, 2
    z = draw_partition(labels, 3, Fraction(2, 3), seeded_stream(12), 60_000)
    pair, triple = brute_law(2, 0, Fraction(2, 3), 60), brute_law(3, 0, Fraction(2, 3), 30)
    assert fit(z[:, [1, 5]], pair) > 1e-6
    assert fit(z[:, [2, 4]], pair) > 1e-6
    assert fit(z[:, [0, 3, 6]], triple) > 1e-6
    joint = {(a, b): p * q for (a, _), p in pair.items() for (b, _), q in pair.items()}
    assert fit(z[:, [1, 2]], joint) > 1e-6  # classes of one size are drawn together, yet independent
    shared = {(a, b): p * (a == b) for (a, _), p in pair.items() for (b, _) in pair}
    assert fit(np.column_stack([z[:, 1], z[:, 1]]), joint) < 1e-6 < fit(np.column_stack([z[:, 1], z[:, 1]]), shared)


def test_draws_do_not_depend_on_the_size_of_reads(monkeypatch):
    whole = draw_class(50, 3, Fraction(1, 2), seeded_stream(1), size=30)
    monkeypatch.setattr(stream, "ROW", 17)
    np.testing.assert_array_equal(draw_class(50, 3, Fraction(1, 2), seeded_stream(1), size=30), whole)


def test_the_number_of_words_does_not_depend_on_the_noise():
    words, read = seeded_stream(0), []

    def counting(n):
        read.append(n)
        return words(n)

    for epsilon in (Fraction(3), Fraction(1, 5), Fraction(1, 50)):
        read.clear()
        draw_class(30, 0, epsilon, counting, size=100)
        assert sum(read) == 100 * (2 * 30 - 1)


def test_single_cells_and_no_draws():
    assert (draw_class(1, -9, Fraction(1), seeded_stream(1), size=3) == [[-9]] * 3).all()
    assert draw_class(4, 0, Fraction(1), seeded_stream(1), size=0).shape == (0, 4)
    assert draw_partition(np.array([], dtype=int), 0, Fraction(1), seeded_stream(1), 5).shape == (5, 0)


def test_huge_epsilon_gives_the_smallest_noise():
    assert not draw_class(30, 0, Fraction(100), seeded_stream(1), size=1000).any()
    z = draw_class(3, -6, Fraction(100), seeded_stream(1), size=20_000)
    assert (z <= 0).all()  # all 28 compositions of 6 have the smallest l1 norm
    law = {tuple(-x for x in u): 1 / 28 for u in product(range(7), repeat=3) if sum(u) == 6}
    assert fit(z, law) > 1e-6


def test_huge_totals():
    z = draw_class(3, 10**15, Fraction(1, 2), seeded_stream(1), size=10)
    assert (z.sum(axis=1) == 10**15).all()
    bars = compositions(np.array([2**61]), 4, seeded_stream(1))
    assert (np.diff(bars) >= 0).all()


REFUSED = [
    ((0, 0, Fraction(1)), InvariantError, "n must be at least 1, found 0"),
    ((2.5, 0, Fraction(1)), InvariantError, "n must be an integer, found 2.5"),
    ((3, 0.0, Fraction(1)), InvariantError, "total must be an integer, found 0.0"),
    ((3, 2**62, Fraction(1)), InvariantError, "below 2..62"),
    ((3, 0, 0.5), PrivacyError, "found 0.5"),
    ((3, 0, Fraction(-1)), PrivacyError, "epsilon"),
    ((3, 0, Fraction(1, 10**20)), PrivacyError, "64-bit"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), REFUSED)
def test_invalid_class_raises(arguments, error, message):
    with pytest.raises(error, match=message):
        draw_class(*arguments, seeded_stream(1))


LABELS = {
    "float64": np.array([0.0, 1.0]),
    "bool": np.array([True, False]),
    r"shape \(1, 2\)": np.array([[0, 1]]),
    "cell 2 has class 2": np.array([0, 1, 2]),
    "cell 1 has class -1": np.array([0, -1]),
}


@pytest.mark.parametrize("message", LABELS)
def test_invalid_labels_raise(message):
    with pytest.raises(InvariantError, match=message):
        draw_partition(LABELS[message], 2, Fraction(1), seeded_stream(1), 1)


@pytest.mark.deep
def test_ten_million_cells():
    labels = np.random.default_rng(1).integers(0, 51, size=10**7)
    z = draw_partition(labels, 51, Fraction(24, 125), secure_stream(), 1)[0]
    assert not np.bincount(labels, weights=z).any()
    expected = 1 / (2 * np.sinh(0.096) ** 2)  # conditioning on 51 sums changes one part in 200,000
    assert z.var() == pytest.approx(expected, rel=0.005)
