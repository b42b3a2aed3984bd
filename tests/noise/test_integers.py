"""Exact draws of integers: certified inversion tables against mpmath, and the laws of noise by chi-square."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from flint import arb, fmpq
from scipy import stats

from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives import integers
from ppdinf.noise.primitives.integers import Inversion, bernoulli, draw_discrete_gaussian, draw_discrete_laplace
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream

mp.mp.dps = 90

AWKWARD = [Fraction(3, 2), Fraction(3), Fraction(10, 11), Fraction(2, 3)]

RATIONALS = sorted(
    {*AWKWARD, *(Fraction(i, j) for i in (1, 2, 5, 7, 13, 24) for j in (1, 2, 3, 4, 5, 7, 9, 11, 13, 125))}
)

RATIONALS = [x for x in RATIONALS if x > Fraction(1, 20)]

FEW = [*AWKWARD, *RATIONALS[::6]]

QUICK_AND_ALL = pytest.mark.parametrize(
    "parameters", [pytest.param(FEW, id="few"), pytest.param(RATIONALS, id="all", marks=pytest.mark.deep)]
)

assert len(RATIONALS) >= 50


def ball(x):
    return arb(fmpq(x.numerator, x.denominator))


def real(x):
    return mp.mpf(x.numerator) / x.denominator


def laplace(epsilon, **options):
    return Inversion(lambda k: (-abs(k) * ball(epsilon)).exp(), 0, **options)


def gaussian(sigma_squared, **options):
    return Inversion(lambda k: (-(k**2) / ball(2 * sigma_squared)).exp(), 0, **options)


class TrueLaplace:
    def __init__(self, epsilon):
        self.a = mp.exp(-real(epsilon))

    def cdf(self, k):
        return self.a**-k / (1 + self.a) if k < 0 else 1 - self.a ** (k + 1) / (1 + self.a)


class TrueGaussian:
    def __init__(self, sigma_squared):
        self.sigma_squared = real(sigma_squared)
        self.normaliser = mp.jtheta(3, 0, mp.exp(-1 / (2 * self.sigma_squared)))

    @cache  # noqa: B019
    def cdf(self, k):
        if k >= 0:
            return 1 - self.cdf(-k - 1)
        total, j = mp.mpf(0), k
        while (term := mp.exp(-(mp.mpf(j) ** 2) / (2 * self.sigma_squared))) > mp.mpf(10) ** -80:
            total, j = total + term, j - 1
        return total / self.normaliser


LAWS = [(laplace, TrueLaplace), (gaussian, TrueGaussian)]


class StreamEndError(Exception):
    """A finite stream was read to its end."""


def finite_stream(words):
    left = list(words)

    def take(n):
        if n > len(left):
            raise StreamEndError
        taken, left[:] = left[:n], left[n:]
        return np.array(taken, dtype=np.uint64)

    return take


def branches(sample, width, depth, words=()):
    """Yield (words, outcome) for every shortest stream that decides ``sample``; outcome None at the maximal depth."""
    try:
        yield words, sample(finite_stream(words))
    except StreamEndError:
        if len(words) == depth:
            yield words, None
        else:
            for word in range(2**width):
                yield from branches(sample, width, depth, (*words, word))


def interval(words, width):
    low = sum(Fraction(word, 2 ** (width * (i + 1))) for i, word in enumerate(words))
    return low, low + Fraction(1, 2 ** (width * len(words)))


def all_inside(law, truth, depth=2):
    """Check that each decided stream is between F(k-1) and F(k), and return the undecided mass."""
    opened = Fraction(0)
    for words, k in branches(lambda stream: int(law.draw(1, stream)[0]), law.width, depth):
        low, high = interval(words, law.width)
        if k is None:
            opened += high - low
        elif not truth.cdf(k - 1) <= real(low) < real(high) <= truth.cdf(k):
            return None
    return opened


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("law", "truth"), LAWS)
@QUICK_AND_ALL
def test_bounds_enclose_the_distribution_function(law, truth, parameters):
    for parameter in parameters:
        exact, sampler = truth(parameter), law(parameter)
        for bits in (8, 64, 128):
            table = sampler._table(bits)
            gaps = []
            for i in range(len(table.lower)):
                scaled = exact.cdf(table.first + i) * 2**bits
                before = exact.cdf(table.first + i - 1) * 2**bits
                assert int(table.lower[i]) <= scaled
                assert int(table.upper[i]) >= min(before, 2**bits - 1)
                gaps.append(int(table.upper[i]) - before)
            assert max(gaps) < 2  # the effects of rounding and of the tails are each below 1
            assert (1 - exact.cdf(table.first + len(table.lower) - 1)) * 2**bits < 1


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("law", "truth"), LAWS)
@QUICK_AND_ALL
def test_enumerated_streams_are_decided_correctly(law, truth, parameters):
    for parameter in parameters:
        sampler = law(parameter, width=6)
        opened = all_inside(sampler, truth(parameter))
        assert opened is not None
        assert opened <= Fraction(2 * len(sampler._table(12).lower) + 2, 2**12)


@pytest.mark.parametrize(("law", "truth"), LAWS)
def test_enumeration_rejects_a_scale_error_of_five_percent(law, truth):
    for parameter in AWKWARD:
        assert all_inside(law(parameter * Fraction(21, 20), width=6), truth(parameter)) is None


def test_enumeration_rejects_rounded_bounds(monkeypatch):
    monkeypatch.setattr(integers, "integer_bounds", lambda ball: (round(float(ball.mid())),) * 2)
    for parameter in AWKWARD:
        assert all_inside(laplace(parameter, width=6), TrueLaplace(parameter)) is None


@pytest.mark.quick_cases(0)
def test_outcome_probabilities_as_fractions():
    sampler, truth = laplace(Fraction(2, 3), width=8), TrueLaplace(Fraction(2, 3))
    mass, opened = {}, Fraction(0)
    for words, k in branches(lambda stream: int(sampler.draw(1, stream)[0]), 8, 3):
        if k is None:
            opened += Fraction(1, 256 ** len(words))
        else:
            mass[k] = mass.get(k, 0) + Fraction(1, 256 ** len(words))
    assert sum(mass.values()) + opened == 1
    assert 0 < opened < Fraction(1, 2**16)
    for k, probability in mass.items():
        missing = truth.cdf(k) - truth.cdf(k - 1) - real(probability)
        assert 0 <= missing <= real(opened)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("first", [None, -3])
def test_blocks_accept_each_integer_with_its_probability(monkeypatch, first):
    monkeypatch.setattr(integers, "HALF_TABLE", 2)
    sampler = gaussian(Fraction(9), first=first, width=4)
    assert sampler.block == 4

    def propose(stream):
        values, kept = sampler._propose(1, stream)
        return int(values[0]), bool(kept[0])

    mass, opened = {}, Fraction(0)
    for words, outcome in branches(propose, 4, 4):
        if outcome is None:
            opened += Fraction(1, 16 ** len(words))
        else:
            mass[outcome] = mass.get(outcome, 0) + Fraction(1, 16 ** len(words))
    assert sum(mass.values()) + opened == 1
    assert opened < Fraction(1, 20)

    def weight(k):
        return mp.exp(-(mp.mpf(k) ** 2) / 18) if first is None or k >= first else mp.mpf(0)

    block = sampler.block
    envelope = block * sum(weight(block * j) for j in range(12))
    envelope += block * sum(weight(-1 - block * j) for j in range(12))
    for (k, kept), probability in mass.items():
        if kept:
            missing = weight(k) / envelope - real(probability)
            assert 0 <= missing <= real(opened)
    rejected = sum(p for (_, kept), p in mass.items() if not kept)
    expected = 1 - sum(weight(k) for k in range(-60, 61)) / envelope
    assert 0 <= expected - real(rejected) <= real(opened)


@pytest.mark.parametrize("first", [None, -7])
@pytest.mark.parametrize("half_table", [2, 8, 32])
def test_certain_acceptance_is_certain(monkeypatch, half_table, first):
    monkeypatch.setattr(integers, "HALF_TABLE", half_table)
    sampler = gaussian(Fraction(900), first=first)
    table, block = sampler._table(64), sampler.block
    assert block > 1

    def weight(k):
        return mp.exp(-(mp.mpf(k) ** 2) / 1800) if first is None or k >= first else mp.mpf(0)

    for j, kept in enumerate(table.kept, start=table.first):
        nearest, step = (block * j, 1) if j >= 0 else (block * (j + 1) - 1, -1)
        least, beyond = weight(nearest + step * (block - 1)), weight(nearest + step * block)
        assert int(kept) <= 2**64 * least / weight(nearest)
        if j not in (table.first, table.first + len(table.kept) - 1):  # and the bound is sharp
            assert int(kept) >= 2**64 * beyond / weight(nearest) - 2


def fit_of_wide(draws, sigma):
    """Return the p-value of the draws against the discrete Gaussian, in bins of about equal mass."""
    edges = np.unique(np.round(stats.norm.ppf(np.arange(1, 40) / 40) * sigma).astype(int))
    k = np.arange(int(-12 * sigma), int(12 * sigma) + 1)
    pmf = np.exp(-(k**2) / (2 * sigma**2))
    expected = np.bincount(np.searchsorted(edges, k), weights=pmf / pmf.sum()) * len(draws)
    return stats.chisquare(np.bincount(np.searchsorted(edges, draws), minlength=len(expected)), expected).pvalue


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("half_table", "sigma"), [(2**12, 1000), (64, 1000), (4, 30)])
def test_wide_laws(monkeypatch, half_table, sigma):
    monkeypatch.setattr(integers, "HALF_TABLE", half_table)
    sampler = gaussian(Fraction(sigma**2))
    assert sampler.block > 1
    draws = sampler.draw(30_000, seeded_stream(11))
    assert fit_of_wide(draws, sigma) > 1e-6
    assert fit_of_wide(draws, 1.05 * sigma) < 1e-6
    assert fit_of_wide(draws[:5_000], sigma) > 1e-6  # accepted and repeated draws are in the order of the stream
    assert stats.pearsonr(draws[:-1], draws[1:]).pvalue > 1e-6


def test_wide_laws_without_rejection_are_rejected(monkeypatch):
    monkeypatch.setattr(integers, "HALF_TABLE", 4)
    monkeypatch.setattr(Inversion, "_keeps", lambda *_: True)
    assert fit_of_wide(gaussian(Fraction(900)).draw(40_000, seeded_stream(11)), 30) < 1e-6


def test_support_with_a_lower_end():
    sampler = Inversion(lambda k: (-arb(k) / 3).exp(), 5, 5)
    draws = sampler.draw(50_000, seeded_stream(3))
    assert draws.min() == 5
    counts = np.bincount(np.minimum(draws - 5, 20))
    ratio = np.exp(-1 / 3)
    pmf = (1 - ratio) * ratio ** np.arange(21)
    pmf[-1] = ratio**20
    assert stats.chisquare(counts, pmf * 50_000).pvalue > 1e-6


def test_very_narrow_laws():
    for scale in (50, 1000, 10**30):
        assert not laplace(Fraction(scale)).draw(1000, seeded_stream(1)).any()
        assert not gaussian(Fraction(1, scale)).draw(1000, seeded_stream(1)).any()


def test_probability_below_one_word_is_still_drawn():
    # exp(-50) < 2^-64: only an extended first word of zero can give -1
    sampler = laplace(Fraction(50))
    assert sampler.draw(1, finite_stream([0, 2**40]))[0] == -1
    assert sampler.draw(1, finite_stream([0, 2**63]))[0] == 0
    assert sampler.draw(1, finite_stream([2**64 - 1, 2**64 - 2**40]))[0] == 1


@pytest.mark.parametrize("numerator", [0, 1, 2, 3])
def test_enumerated_bernoulli_draws(numerator):
    for denominator in (1, 2, 3, 7, 11, 24, 125):
        q = Fraction(numerator, denominator)
        truth, heads, opened = mp.exp(-real(q)), Fraction(0), Fraction(0)
        for words, outcome in branches(
            lambda stream, q=q: bool(bernoulli(lambda: (-ball(q)).exp(), 1, stream, width=8)[0]), 8, 2
        ):
            mass = Fraction(1, 256 ** len(words))
            heads += mass * (outcome is True)
            opened += mass * (outcome is None)
        assert 0 <= truth - real(heads) <= real(opened)
        assert opened == (Fraction(1, 2**16) if q else 0)


def test_tables_do_not_depend_on_other_threads():
    parameters = [Fraction(1, i) for i in range(1, 30, 3)]
    alone = [laplace(p)._tabulate(64).lower for p in parameters]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda p: laplace(p)._tabulate(64).lower, parameters))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)


# -- discrete Laplace and Gaussian noise -----------------------------------------------------------------


WIDER = Fraction(21, 20)


def laplace_pmf(epsilon, k):
    return np.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(k))


def gaussian_pmf(sigma_squared, k):
    weights = np.exp(-(k**2) / (2 * sigma_squared))
    return weights / weights.sum()


def fit(draws, pmf):
    """Return the chi-square p-value against a symmetric pmf, with tails pooled to expected counts above 20."""
    k = np.arange(-4000, 4001)
    expected = pmf(k) * len(draws)
    reach = int(k[expected > 20].max())
    counts = np.bincount(np.clip(draws, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    centre = expected[np.abs(k) <= reach]
    tail = (len(draws) - centre.sum()) / 2
    return stats.chisquare(counts, [tail, *centre, tail]).pvalue


@pytest.mark.parametrize("parameter", [*AWKWARD, Fraction(24, 125), Fraction(1, 40)])
@pytest.mark.parametrize(
    ("sampler", "pmf"), [(draw_discrete_laplace, laplace_pmf), (draw_discrete_gaussian, gaussian_pmf)]
)
def test_law_and_power(sampler, pmf, parameter):
    if sampler is draw_discrete_gaussian and parameter < 1:
        parameter = 1 / parameter
    draws = sampler(parameter, 400_000, seeded_stream(8))
    assert fit(draws, lambda k: pmf(float(parameter), k)) > 1e-6
    assert fit(draws, lambda k: pmf(float(parameter * WIDER), k)) < 1e-6


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("scale", [10**3, 10**9, 10**16])
def test_huge_scales_approach_the_continuous_laws(scale):
    laplace = draw_discrete_laplace(Fraction(1, scale), 60_000, seeded_stream(9)) / scale
    gaussian = draw_discrete_gaussian(Fraction(scale**2), 60_000, seeded_stream(9)) / scale
    jitter = np.random.default_rng(1).uniform(-0.5, 0.5, 60_000) / scale  # ties at scale 1000
    for draws, law in ((laplace + jitter, stats.laplace), (gaussian + jitter, stats.norm)):
        assert stats.kstest(draws, law.cdf).pvalue > 1e-6
        assert stats.kstest(draws * 1.05, law.cdf).pvalue < 1e-6


def test_parity_is_fair_in_wide_laws():
    # A block that proposed only even integers would pass every test above.
    for draws in (
        draw_discrete_laplace(Fraction(1, 10**9), 40_000, seeded_stream(2)),
        draw_discrete_gaussian(10**12, 40_000, seeded_stream(2)),
    ):
        for bit in range(4):
            assert stats.binomtest(int((draws >> bit & 1).sum()), len(draws)).pvalue > 1e-6


@pytest.mark.parametrize("q", [Fraction(1, 1000), *AWKWARD, Fraction(12)])
def test_bernoulli_draws(q):
    happens = bernoulli(lambda: (-ball(q)).exp(), 1_000_000, seeded_stream(3))
    assert happens.dtype == bool
    assert stats.binomtest(int(happens.sum()), len(happens), np.exp(-float(q))).pvalue > 1e-6
    if q in AWKWARD:  # for other q, a change of 5 % affects too few outcomes
        assert stats.binomtest(int(happens.sum()), len(happens), np.exp(-float(q * WIDER))).pvalue < 1e-6


def test_bernoulli_draws_of_extreme_probability():
    assert bernoulli(lambda: arb(1), 1000, secure_stream()).all()
    assert not bernoulli(lambda: (-arb(10**9)).exp(), 1000, secure_stream()).any()


def test_secure_draws_differ():
    assert len({tuple(draw_discrete_gaussian(10**6, 8, secure_stream())) for _ in range(50)}) == 50


def test_empty_draws():
    for sampler in (draw_discrete_laplace, draw_discrete_gaussian):
        assert sampler(Fraction(1, 10**6), 0, seeded_stream(1)).shape == (0,)


@pytest.mark.parametrize("bad", [0, -1, Fraction(-1, 2), 0.5, "1/2", True, None, float("nan"), np.float64(1)])
@pytest.mark.parametrize(
    ("sampler", "name"), [(draw_discrete_laplace, "epsilon"), (draw_discrete_gaussian, "sigma_squared")]
)
def test_parameters_must_be_positive_rationals(sampler, name, bad):
    with pytest.raises(PrivacyError, match=f"{name} must be .*Fraction"):
        sampler(bad, 1, seeded_stream(1))


@pytest.mark.parametrize(
    "call",
    [
        lambda: laplace(Fraction(1, 10**19)),
        lambda: draw_discrete_laplace(Fraction(1, 10**18), 1, seeded_stream(1)),
        lambda: draw_discrete_gaussian(10**40, 1, seeded_stream(1)),
    ],
)
def test_scales_beyond_64_bits_raise(call):
    with pytest.raises(PrivacyError, match="64-bit"):
        call()
