"""Exact size, a monotone likelihood ratio, and more power than tests of post-processed or naive counts."""

import math

import numpy as np
import pytest
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import ModelError, PrivacyError
from ppdinf.invariants import Public
from ppdinf.models import OneSidedTest

around = np.arange(-400, 500)  # noisy counts


def law_of_release(count, rate, noise=None):
    """Return P(Y = y) on around by the double sum over counts and noise."""
    z = np.arange(-900, 901)
    weight = np.exp(-rate * np.abs(z)) if noise is None else noise(z)
    weight = weight / weight.sum()
    values = np.arange(int(count.support()[0]), int(min(count.support()[1], count.isf(1e-14))) + 1)
    return sum(count.pmf(k) * weight[around - k + 900] for k in values)


FAMILIES = {
    "binomial": (lambda theta: stats.binom(40, theta), 0.3, 0.45),
    "Poisson": (stats.poisson, 12.0, 18.0),
    "negative binomial": (lambda theta: stats.nbinom(5, 1 - theta), 0.5, 0.7),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("family", "null", "other"), FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("rate", [0.1, 0.5, 2.0])
def test_p_values_and_size_by_enumeration(family, null, other, rate):
    test, law = OneSidedTest(family(null), rate), law_of_release(family(null), rate)
    upper = np.cumsum(law[::-1])[::-1]
    shown = slice(350, 500)
    np.testing.assert_allclose(test.p_value(around[shown]), upper[shown], atol=1e-11)
    elsewhere, p_values = law_of_release(family(other), rate), test.p_value(around)
    for level in (0.001, 0.05, 0.3):
        c, share = test.critical(level)
        assert 0 <= share <= 1
        rejected = law[around > c].sum() + share * law[around == c].sum()
        assert rejected == pytest.approx(level, abs=1e-11)
        assert test.power(family(null), level) == pytest.approx(level, abs=1e-11)
        assert law[p_values <= level].sum() <= level + 1e-11  # without randomization
        power = elsewhere[around > c].sum() + share * elsewhere[around == c].sum()
        assert test.power(family(other), level) == pytest.approx(power, abs=1e-10)
        assert power > level


@pytest.mark.parametrize(("family", "null", "other"), FAMILIES.values(), ids=FAMILIES)
def test_the_size_holds_for_the_complete_hypothesis(family, null, other):
    test = OneSidedTest(family(null), "1/4")
    powers = [test.power(family(theta), 0.05) for theta in np.linspace(null / 4, other, 9)]
    assert powers == sorted(powers)
    assert all(p <= 0.05 + 1e-12 for p, t in zip(powers, np.linspace(null / 4, other, 9), strict=True) if t <= null)


@pytest.mark.quick_cases(0)
def test_less_is_the_mirror_image_of_greater():
    greater, less = OneSidedTest(stats.binom(40, 0.3), 1), OneSidedTest(stats.binom(40, 0.7), 1, "less")
    np.testing.assert_allclose(less.p_value(40 - around), greater.p_value(around), atol=1e-12)
    (c, share), (d, other) = greater.critical(0.05), less.critical(0.05)
    assert d == 40 - c
    assert share == pytest.approx(other, abs=1e-9)
    assert less.power(stats.binom(40, 0.6), 0.05) == pytest.approx(greater.power(stats.binom(40, 0.4), 0.05))


@pytest.mark.parametrize(("family", "null", "other"), FAMILIES.values(), ids=FAMILIES)
def test_likelihood_ratio_is_monotone(family, null, other):
    """Log-concave noise preserves monotonicity; heavier tails do not: large counts are then not always extreme."""
    window = slice(340, 520)
    ratio = np.log(law_of_release(family(other), 0.5)[window] / law_of_release(family(null), 0.5)[window])
    assert np.all(np.diff(ratio) >= -1e-9)
    heavy = [law_of_release(family(theta), 0, lambda z: 1 / (1 + z.astype(float) ** 2)) for theta in (null, other)]
    assert np.diff(np.log(heavy[1][window] / heavy[0][window])).min() < -1e-4


def power_after(merge, null, other, level, released=around):
    """Return the power of the most powerful randomized test of the merged count."""
    values = np.unique(merge(released))
    merged = np.array([[law[merge(released) == v].sum() for v in values] for law in (null, other)])
    order = np.argsort(-merged[1] / merged[0])
    size = np.cumsum(merged[0][order])
    full = np.searchsorted(size, level)
    before = size[full - 1] if full else 0.0
    share = (level - before) / (size[full] - before)
    return merged[1][order][:full].sum() + share * merged[1][order][full]


N, NULL, OTHER = 20, stats.binom(20, 0.6), stats.binom(20, 0.9)


@pytest.mark.parametrize("rate", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("level", [0.01, 0.05, 0.2])
def test_rounding_loses_power(rate, level):
    """No test of the release has more power (Neyman and Pearson), and tests of counts rounded to fives have less.

    They have less power if the critical value is in the range of the count, outside which the likelihood ratio is flat.
    """
    laws, full = [law_of_release(law, rate) for law in (NULL, OTHER)], OneSidedTest(NULL, rate).power(OTHER, level)
    assert power_after(lambda y: y, *laws, level) == pytest.approx(full, abs=1e-9)
    lost = full - power_after(lambda y: 5 * np.floor(y / 5 + 0.5), *laws, level)
    assert (lost > 0.01) == (OneSidedTest(NULL, rate).critical(level)[0] <= N)
    assert lost > -1e-9


def gaussian(z):
    return np.exp(-(z.astype(float) ** 2) / 50)


@pytest.mark.parametrize("level", [0.001, 0.01, 0.05])
def test_clamping_loses_power_under_other_noise_only(level):
    """Theorem 15 states a strict loss; under double geometric noise the likelihood ratio is flat outside the range."""

    def clip(y):
        return np.clip(y, 0, N)

    laws = [law_of_release(law, 0.1) for law in (NULL, OTHER)]
    assert laws[0][(around < 0) | (around > N)].sum() > 0.1  # the premise: clamping changes many releases
    assert power_after(clip, *laws, level) == pytest.approx(OneSidedTest(NULL, 0.1).power(OTHER, level), abs=1e-9)
    laws = [law_of_release(law, 0, gaussian)[360:460] for law in (NULL, OTHER)]
    inside = around[360:460]
    assert laws[0].sum() == pytest.approx(1, abs=1e-9)
    full, clipped = (power_after(f, *laws, level, inside) for f in (lambda y: y, clip))
    assert clipped < full - 0.001


def test_without_randomization_clamping_loses_power():
    """At rate 0.1 the 1 % region starts far outside the range: clamped counts have no critical value that small."""
    test, laws = OneSidedTest(NULL, 0.1), [law_of_release(law, 0.1) for law in (NULL, OTHER)]
    assert test.critical(0.01)[0] > N
    pushed = np.array([laws[0][np.clip(around, 0, N) >= v].sum() for v in np.clip(around, 0, N)])
    assert laws[1][pushed <= 0.01].sum() == 0
    assert laws[1][test.p_value(around) <= 0.01].sum() > 0.009


def test_treating_the_noisy_count_as_true_violates_the_size():
    n, theta, rate, level = 40, 0.3, 0.3, 0.05
    law = law_of_release(stats.binom(n, theta), rate)
    naive = stats.binom(n, theta).sf(np.clip(around, 0, n) - 1)
    assert law[naive <= level].sum() > 2.5 * level
    assert law[OneSidedTest(stats.binom(n, theta), rate).p_value(around) <= level].sum() <= level


@pytest.mark.quick_cases(0)
def test_with_a_mechanism():
    """20,000 releases of counts drawn at theta_0: the share of small p-values equals the size by enumeration."""
    rng, mechanism = np.random.default_rng(1), ppd.GeneralizedLaplace(Public(), epsilon="1/2")
    counts = rng.poisson(9, 20_000)
    noisy = mechanism.simulate(counts, draws=1, rng=2).values[0]
    test = OneSidedTest(stats.poisson(9), mechanism.epsilon)
    law = law_of_release(stats.poisson(9), 0.5)
    for level in (0.05, 0.2):
        size = law[test.p_value(around) <= level].sum()
        small = int((test.p_value(noisy) <= level).sum())
        assert stats.binomtest(small, 20_000, size).pvalue > 1e-6
        wrong = law_of_release(stats.poisson(9), 0.65)[test.p_value(around) <= level].sum()
        assert stats.binomtest(small, 20_000, wrong).pvalue < 1e-6


def test_shapes():
    test = OneSidedTest(stats.poisson(3), 1)
    assert isinstance(test.p_value(4), float)
    assert test.p_value([[1, 2], [3, -4]]).shape == (2, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: OneSidedTest(stats.norm(), 1), ModelError, "frozen discrete distribution"),
        (lambda: OneSidedTest(stats.binom, 1), ModelError, "frozen discrete distribution"),
        (lambda: OneSidedTest({0: 1}, 1), ModelError, "frozen discrete distribution"),
        (lambda: OneSidedTest(stats.skellam(2, 3), 1), ModelError, "smallest integer"),
        (lambda: OneSidedTest(stats.poisson(3), 0), PrivacyError, "rate must be positive"),
        (lambda: OneSidedTest(stats.poisson(3), 1, "two-sided"), ModelError, "alternative must be"),
        (lambda: OneSidedTest(stats.poisson(3), 1).p_value(2.5), ModelError, "must be integers, found float64"),
        (lambda: OneSidedTest(stats.poisson(3), 1).p_value([True]), ModelError, "must be integers, found bool"),
        (lambda: OneSidedTest(stats.poisson(3), 1).critical(0), ModelError, "level must be"),
        (lambda: OneSidedTest(stats.poisson(3), 1).power(stats.norm(), 0.1), ModelError, "frozen discrete"),
        (lambda: OneSidedTest(stats.poisson(3), 1).critical(math.nan), ModelError, "level must be"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
