from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives.integers import bernoulli_exp, draw_discrete_gaussian, draw_discrete_laplace
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream

AWKWARD = [Fraction(3, 2), Fraction(3), Fraction(10, 11), Fraction(2, 3)]
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
def test_bernoulli_exp(q):
    happens = bernoulli_exp(q, 1_000_000, seeded_stream(3))
    assert happens.dtype == bool
    assert stats.binomtest(int(happens.sum()), len(happens), np.exp(-float(q))).pvalue > 1e-6
    if q in AWKWARD:  # for other q, a change of 5 % affects too few outcomes
        assert stats.binomtest(int(happens.sum()), len(happens), np.exp(-float(q * WIDER))).pvalue < 1e-6


def test_bernoulli_exp_at_extreme_q():
    assert bernoulli_exp(0, 1000, secure_stream()).all()
    assert not bernoulli_exp(10**9, 1000, secure_stream()).any()


def test_secure_draws_differ():
    assert len({tuple(draw_discrete_gaussian(10**6, 8, secure_stream())) for _ in range(50)}) == 50


def test_empty_draws():
    for sampler in (draw_discrete_laplace, draw_discrete_gaussian, bernoulli_exp):
        assert sampler(Fraction(1, 10**6), 0, seeded_stream(1)).shape == (0,)


@pytest.mark.parametrize("bad", [0, -1, Fraction(-1, 2), 0.5, "1/2", True, None, float("nan"), np.float64(1)])
@pytest.mark.parametrize(
    ("sampler", "name"),
    [(draw_discrete_laplace, "epsilon"), (draw_discrete_gaussian, "sigma_squared"), (bernoulli_exp, "q")],
)
def test_parameters_must_be_positive_rationals(sampler, name, bad):
    if sampler is bernoulli_exp and bad == 0:
        return
    with pytest.raises(PrivacyError, match=f"{name} must be .*Fraction"):
        sampler(bad, 1, seeded_stream(1))


def test_scales_beyond_64_bits_raise():
    with pytest.raises(PrivacyError, match="64-bit"):
        draw_discrete_laplace(Fraction(1, 10**18), 1, seeded_stream(1))
    with pytest.raises(PrivacyError, match="64-bit"):
        draw_discrete_gaussian(10**40, 1, seeded_stream(1))
