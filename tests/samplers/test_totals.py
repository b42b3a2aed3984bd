"""Sums of windowed integers given their totals, against convolution and enumeration."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import chi2

from ppdinf.errors import InvariantError, ModelError
from ppdinf.samplers import totals


def convolve(rows):
    """Log weights of every sum, by plain convolution in logarithms."""
    log_sum = np.zeros(1)
    for row in rows:
        grid = np.full((row.size, log_sum.size + row.size - 1), -np.inf)
        for k, weight in enumerate(row):
            grid[k, k : k + log_sum.size] = log_sum + weight
        log_sum = logsumexp(grid, axis=0)
    return log_sum


def at(log_sum, s):
    return log_sum[s] if 0 <= s < log_sum.size else -np.inf


def oracle(logw, target):
    """Log coefficient and marginals of one block (offsets from lo)."""
    d, width = logw.shape
    with np.errstate(invalid="ignore", divide="ignore"):
        value = at(convolve(logw), target)
        table = np.zeros((d, width))
        if value > -np.inf:
            for i in range(d):
                others = convolve(np.delete(logw, i, axis=0))
                for k in range(width):
                    table[i, k] = np.exp(logw[i, k] + at(others, target - k) - value)
    return value, table


def flat(rng, d, width):
    return np.zeros((d, width))


def rough(rng, d, width):
    return rng.normal(0, rng.choice([1.0, 10.0, 100.0]), (d, width))


def sparse(rng, d, width):
    logw = rng.normal(0, 2, (d, width))
    logw[rng.random((d, width)) < 0.7] = -np.inf
    logw[np.arange(d), rng.integers(0, width, d)] = 0.0
    return logw


def even(rng, d, width):
    logw = rng.normal(0, 1, (d, width))
    logw[:, 1::2] = -np.inf
    return logw


def nearly_even(rng, d, width):
    logw = rng.normal(0, 1, (d, width))
    logw[:, 1::2] -= rng.choice([20.0, 40.0, 300.0, 900.0])
    return logw


def far_modes(rng, d, width):
    x = np.arange(width)
    sd = max(width / 40, 0.3)
    return np.logaddexp(-0.5 * ((x - width * 0.05) / sd) ** 2, -0.5 * ((x - width * 0.95) / sd) ** 2) + np.zeros(
        (d, 1)
    )


def peaked(rng, d, width):
    return -rng.choice([5.0, 60.0, 800.0]) * np.abs(np.arange(width) - rng.integers(0, width, (d, 1)))


def steep(rng, d, width):
    return rng.uniform(-50, 50, (d, 1)) * np.arange(width) + rng.normal(0, 1, (d, width))


def one_wide(rng, d, width):
    logw = -3.0 * np.arange(width) + np.zeros((d, 1))
    logw[0] = rng.normal(0, 0.1, width)
    return logw


def counts(rng, d, width):
    x = np.arange(width)
    rate, epsilon = rng.gamma(2, width / 8, (d, 1)), rng.choice([0.02, 0.25, 2.0])
    noisy = np.round(rate + rng.laplace(0, 1 / epsilon, (d, 1)))
    return x * np.log(rate) - gammaln(x + 1) - epsilon * np.abs(noisy - x)


def smooth(rng, d, width):
    sd = rng.uniform(0.5, 1 + width / 6, (d, 1))
    return -0.5 * ((np.arange(width) - rng.uniform(0, width, (d, 1))) / sd) ** 2


KINDS = [flat, rough, sparse, even, nearly_even, far_modes, peaked, steep, one_wide, counts, smooth]


def problems(kind, number=25):
    """Random blocks of a kind with totals typical, extreme, barely possible and impossible."""
    rng = np.random.default_rng(KINDS.index(kind))
    for n in range(number):
        d, width = int(rng.integers(1, 9)), int(rng.integers(1, 40))
        logw = kind(rng, d, width)
        shifted = np.exp(logw - logw.max(1, keepdims=True))
        typical = int(np.round((shifted / shifted.sum(1, keepdims=True) @ np.arange(width)).sum()))
        top = d * (width - 1)
        target = [typical, typical + 1, int(rng.integers(0, top + 1)), 0, 1, top, top - 1, top + 1, -1][n % 9]
        yield logw, target


@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_convolution(kind):
    for logw, target in problems(kind):
        value, table = oracle(logw, target)
        found = totals.log_coefficient(logw, lo=0, total=target)
        assert found.shape == (2,)
        assert found[1] == 0
        if value == -np.inf:
            assert found[0] == -np.inf
        else:
            assert found[0] == pytest.approx(value, rel=1e-12, abs=2e-10), (logw.shape, target)
        np.testing.assert_allclose(totals.marginals(logw, lo=0, total=target), table, rtol=0, atol=1e-9)
