"""Weights of single cells: totals, shares and quantiles against sums in logarithms, also beyond double precision."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from ppdinf.fiber.gibbs.cell_quantiles import log_total, quantile, shares

WIDTH = 120
CASES = {  # lower, centre and variance of the noise; shape and mean of the prior
    "few persons": (-70, -3, 19.5, 0.1, 0.5),
    "a window above 0": (50, 110, 145, 0.6, 80),
    "a prior far below the noise": (400, 460, 5, 0.3, 0.01),
    "a prior far above the noise": (-60, 0, 0.5, 40, 5000),
    "weights beyond double precision": (0, 60, 300, 900, 70),
    "weights that add to too little": (900, 950, 19.5, 2, 1),
    "a poisson prior": (-30, 20, 19.5, 1e9, 15),
}


def posed(name):
    lower, centre, variance, shape, mean = CASES[name]
    counts = lower + np.arange(WIDTH)
    log_row = np.where(counts < 0, -np.inf, -((counts - centre) ** 2) / (2 * variance))
    log_row -= log_row.max()
    x = np.arange(lower + WIDTH + 1.0)
    log_h = gammaln(x + shape) - gammaln(shape) - gammaln(x + 1)
    slope = np.log(mean) - np.logaddexp(np.log(shape), np.log(mean))
    falls = lower + int(log_row.argmax())
    with np.errstate(over="ignore"):
        row, h = np.exp(log_row), np.exp(log_h)
    start = max(lower, 0)
    own = np.full(WIDTH, -np.inf)
    own[start - lower :] = log_row[start - lower :] + log_h[start:-1] + slope * counts[start - lower :]
    return (row, log_row, lower), falls, (log_h, h, slope), own


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", CASES)
def test_weights_agree_with_sums_in_logarithms(name):
    noise, falls, prior, own = posed(name)
    found = log_total(*noise, falls, *prior)
    assert abs(found - logsumexp(own)) < 1e-9 * max(1, abs(found))
    share = np.exp(own - logsumexp(own))
    below = np.cumsum(share) - share
    for k in np.flatnonzero(share > 1e-12):
        at = shares(*noise, noise[2] + k, *prior, found)
        np.testing.assert_allclose(at, [below[k], share[k]], rtol=1e-7, atol=1e-12)
        assert quantile(*noise, below[k] + share[k] / 2, *prior, found) == noise[2] + k


def test_shares_of_improbable_counts():
    """A quantile within the step of a count far in the tail is this count."""
    noise, falls, prior, own = posed("few persons")
    found = log_total(*noise, falls, *prior)
    for x in (0, 5, 20, 49):
        at = shares(*noise, x, *prior, found)[1]
        assert 0 < at < 1
        assert abs(np.log(at) - own[x + 70] + logsumexp(own)) < 1e-9


def test_omitted_counts_are_detected():
    """An increasing prior is not truncated where the noise decreases; half of the weight would be lost."""
    noise, falls, prior, own = posed("a prior far above the noise")
    likeliest = noise[2] + own.argmax()
    assert likeliest > falls + 1
    assert abs(log_total(*noise, falls, *prior) - logsumexp(own)) < 1e-9 * abs(logsumexp(own))
