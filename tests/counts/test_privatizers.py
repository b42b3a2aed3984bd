"""Noisy histograms: privacy of each privatizer by its sums, spreads against theory, post-processing."""

from fractions import Fraction

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf.counts.noisy_histogram import PRIVATIZERS
from ppdinf.errors import CountError, PrivacyError
from ppdinf.noise.primitives.stream import seeded_stream

PURE = [name for name in PRIVATIZERS if name != "cyclic-gaussian"]


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


def test_a_step_of_one_person_is_a_step_of_one_cyclic_value():
    """For every step of one person, noise shifted by one unit gives the same noisy histogram."""
    for f in range(5):
        around = np.zeros(6, dtype=int)
        around[f + 1] = 1
        step = around - np.roll(around, -1)
        assert step[f] == -1
        assert step[f + 1] == 1
        assert np.abs(step).sum() == 2


@pytest.mark.parametrize("n", [2, 5, 8, 16, 33])
def test_sensitivity_of_the_tree_sums(n):
    """Privelet's differences change by 2 log2(n) in total, the sums of the tree by two on each level."""
    levels = max(1, (n - 1).bit_length())
    deep = 1
    while 16**deep < n:
        deep += 1
    for f in range(n - 1):
        leaves = np.zeros(2**levels)
        leaves[f], leaves[f + 1] = -1, 1
        changed = 0
        for level in range(levels):
            halves = leaves.reshape(2 ** (level + 1), -1).sum(axis=1)
            changed += np.abs(halves[::2] - halves[1::2]).sum()
        assert changed <= 2 * levels
        bins = np.zeros(16**deep)
        bins[f], bins[f + 1] = -1, 1
        assert sum(np.abs(bins.reshape(16**k, -1).sum(axis=1)).sum() for k in range(1, deep + 1)) <= 2 * deep


def test_consistent_sums_are_more_accurate_than_bins():
    """With weighted averaging, sums of many bins are more accurate than with independent noise of bins."""
    counts = np.full(256, 50)
    tree = spread("hierarchical", counts, 1, 300)
    assert tree[:, :128].sum(axis=1).std() < 0.5 * spread("laplace", counts, 1, 300)[:, :128].sum(axis=1).std()


def test_cyclic_gaussian():
    noise = spread("cyclic-gaussian", np.full(8, 50), 1, delta="1/1000")
    assert noise.var(axis=0).mean() == pytest.approx(2 * 7.5, rel=0.3)
    for more in ({}, {"delta": 2}):
        with pytest.raises(PrivacyError, match="delta"):
            spread("cyclic-gaussian", np.full(8, 50), 1, 1, **more)
    with pytest.raises(PrivacyError, match="not allowed for others"):
        spread("laplace", np.full(8, 50), 1, 1, delta="1/1000")


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
    with pytest.raises(PrivacyError, match="postprocessing"):
        ppd.counts.to_distribution(noisy, "sort")


def test_invalid_histograms_raise():
    for counts in ([0, 5], [-1, 0]):
        with pytest.raises(CountError, match="counts must be from 0 to"):
            ppd.counts.histogram(counts, 5)
    with pytest.raises(CountError, match="integers only"):
        ppd.counts.histogram([0.5], 5)
    with pytest.raises(PrivacyError, match="privatizer must be"):
        ppd.counts.noisy_histogram([1, 2], Fraction(1), seeded_stream(1), "smooth")
