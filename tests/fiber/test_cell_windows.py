"""Probabilities of rows, vectorised exponentials and quantiles of cells.

Each move starts at a separate draw from the law. Chi-square p-values are above 1e-6 in 8 tests: false alarm rate 1 in
120,000 runs.
"""

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

from ppdinf.fiber.gibbs import cell_quantiles as cell_quantiles
from ppdinf.fiber.gibbs.cell_quantiles import coarse_step, coarse_total, log_total, log_weights_at, quantile, shares
from ppdinf.fiber.sums_given_totals import cell_windows
from ppdinf.fiber.sums_given_totals.cell_windows import Weights, exp_of, upper_envelope, vectorised


@vectorised
def raised(x, out):
    for i in range(x.size):
        out[i] = exp_of(x[i])


@vectorised
def raised_inaccurately(x, out):
    """Compute the same reduction in another order: ln 2 is no longer subtracted in two parts."""
    for i in range(x.size):
        n = np.floor(x[i] * 1.4426950408889634 + 0.5)
        r = (x[i] - n * 6.93147180369123816490e-1) - n * 1.90821492927058770002e-10
        out[i] = np.exp(r) * 2.0**n


def off(function):
    """Return the largest relative error, by numbers with forty digits."""
    rng = np.random.default_rng(1)
    x = np.concatenate([-700 * rng.random(2000), -40 * rng.random(2000), [0.0, -0.0, -5e-324, -np.log(2) / 2, -700.0]])
    out = np.empty_like(x)
    function(x, out)
    with mpmath.workdps(40):
        right = [mpmath.exp(mpmath.mpf(value)) for value in x]
        return max(float(abs(mpmath.mpf(found) / value - 1)) for found, value in zip(out, right, strict=True))


def test_exponentials_are_accurate_in_functions_that_reorder_sums():
    assert off(raised) < 2**-52
    assert off(raised_inaccurately) > 2**-48


def test_exponentials_far_below_the_maximum_are_zero():
    x, out = np.array([-700.1, -1e308, -np.inf]), np.ones(3)
    raised(x, out)
    assert (out == 0).all()


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 33, 150])
def test_probabilities_and_moments_of_rows_of_any_length(n):
    k = np.arange(n)
    logw = (-gammaln(k + 1.0) - 0.5 * np.abs(3 - k))[None]
    w, cell = Weights(logw, upper_envelope(logw), np.array([0]), np.array([0.7])), np.array([0])
    rows, log_z = cell_windows.probabilities(w, cell, 0.2)
    weight = np.exp(logw[0] + 0.9 * k)
    p = weight / weight.sum()
    assert log_z == pytest.approx(np.log(weight.sum()), abs=1e-13)
    here = cell_windows.row_of(rows, 0)
    assert here == pytest.approx(p[rows.first[0] : rows.first[0] + here.size], rel=1e-13)
    mean, variance = cell_windows.moments(p)
    assert (mean, variance) == pytest.approx((k @ p, (k - k @ p) ** 2 @ p), abs=1e-12)


def test_weights_are_normalised_in_place():
    entry = np.log(np.array([1.0, 2.0, 5.0]))
    assert cell_windows.normalise(entry) == pytest.approx(np.log(8))
    assert entry == pytest.approx([0.125, 0.25, 0.625])


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
MOVES, RARE = 20_000, 1e-6
COARSE = {  # lower, log weights by noise of 70 counts, and knots
    "gaussian": (-10, -((np.arange(70) - 37.0) ** 2) / 60, [10, 20, 33, 37, 50, 69]),
    "laplace": (0, -abs(np.arange(70) - 20) / 5, [0, 1, 9, 20, 30, 69, 69, 69]),
    "nothing measured": (4, np.zeros(70), [0, 69]),
    "two modes": (0, -np.minimum((np.arange(70) - 9) ** 2 / 20, (np.arange(70) - 50) ** 2 / 30), [0, 9, 30, 50, 69]),
}
PRIORS = ((0.6, -0.06), (1.8, -0.12))  # shape and slope under two parameters


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


def log_h_of(shape, listed=3):
    counts = np.arange(float(listed))
    return gammaln(counts + shape) - gammaln(counts + 1) - gammaln(shape)


def coarse(name):
    lower, log_row, knots = COARSE[name]
    counts = lower + np.arange(70)
    log_row = np.where(counts < 0, -np.inf, log_row)
    positive = np.maximum(counts, 0)
    law = np.array([
        log_row + gammaln(positive + a) - gammaln(positive + 1) - gammaln(a) + slope * counts for a, slope in PRIORS
    ])  # fmt: skip
    each = logsumexp(law, axis=1)  # parameters are equally likely
    return lower, log_row, np.array(knots), law - each[:, None], each


def at_knots(lower, log_row, knots, prior):
    """Return ``log_h``, log weights at the knots, and slope."""
    found = np.empty((1, knots.size))
    log_weights_at(log_row[None, knots], np.array([lower]), knots[None], prior[0], found)
    return prior[0], found[0], prior[1]


def total(lower, knots, prior):
    return coarse_total(prior[1], prior[2], lower, knots, np.empty(knots.size))


def p_value(name, anew, step):
    lower, log_row, knots, law, each = coarse(name)
    share, rng = np.exp(law - logsumexp(law)).ravel(), np.random.default_rng(3)
    states, found = rng.choice(share.size, size=MOVES, p=share), np.empty(MOVES, dtype=int)
    priors = [at_knots(lower, log_row, knots, (log_h_of(shape), slope)) for shape, slope in PRIORS]
    totals = [total(lower, knots, prior) for prior in priors]
    for n, state in enumerate(states.tolist()):
        k, column = divmod(state, 70)
        count, log_ratio, log_total = step(
            log_row, lower, knots, lower + column, priors[k], priors[1 - k], totals[k], np.empty(knots.size),
            rng.random(), anew,
        )  # fmt: skip
        assert log_total == totals[1 - k]
        accepted = np.log(rng.random()) < log_ratio + each[k] - each[1 - k]
        found[n] = (1 - k) * 70 + count - lower if accepted else state
    assert (found != states).mean() > 0.1
    observed, often = np.bincount(found, minlength=share.size), share * MOVES >= 8
    groups = np.append(observed[often], observed[~often].sum()), np.append(share[often], share[~often].sum())
    kept = groups[1] > 0
    return stats.chisquare(groups[0][kept], groups[1][kept] * MOVES).pvalue


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("name", COARSE)
def test_the_law_of_counts_and_parameters_is_invariant(name, anew):
    assert p_value(name, anew, coarse_step) > RARE


def test_the_ratio_of_sums_alone_is_rejected():
    """The ratio that is correct if all counts are knots."""

    each = coarse("nothing measured")[-1]

    def wrong(*given):
        k = int(given[4][2] == PRIORS[1][1])
        count, _, log_total = coarse_step(*given)
        return count, each[1 - k] - each[k], log_total

    assert p_value("nothing measured", True, wrong) < RARE


def test_a_count_within_its_own_step_stays():
    lower, log_row, knots, *_ = coarse("gaussian")
    prior = at_knots(lower, log_row, knots, (log_h_of(0.4), -0.05))
    log_total = total(lower, knots, prior)
    for column in range(12, 69):
        for uniform in (1e-5, 0.3, 1 - 1e-5):  # the last step has a share of 1e-8: rounding errors are 1e-6 of it
            given = log_row, lower, knots, lower + column, prior, prior, log_total, np.empty(knots.size), uniform, False
            count, log_ratio, _ = coarse_step(*given)
            assert count == lower + column
            assert abs(log_ratio) < 1e-9


@pytest.mark.parametrize("slope", [-0.7, -1e-3, -1e-9, 0.0, 1e-6, 0.02, 900.0])
@pytest.mark.parametrize("shape", [0.3, 1.0, 20.0])
def test_the_sum_of_geometric_weights(slope, shape):
    """The log sum and all shares agree with a sum over all counts of the weights between the knots."""
    lower, row = 3, -((np.arange(4000) - 700.0) ** 2) / 1e5
    knots = np.append(cell_quantiles.knots_of(row[None])[0], 3999)  # the last knot twice
    prior = at_knots(lower, row, knots, (log_h_of(shape), slope))
    shares = np.empty(knots.size)
    log_total = coarse_total(prior[1], slope, lower, knots, shares)
    each = np.interp(np.arange(4000), knots[:-1], prior[1][:-1]) + slope * (lower + np.arange(4000))
    assert log_total == pytest.approx(logsumexp(each), rel=1e-12, abs=1e-11)
    expected = np.add.reduceat(np.exp(each - logsumexp(each)), knots[:-1])
    np.testing.assert_allclose(shares[[*range(knots.size - 2), -1]], expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("peak", [0, 5, 39_000, 40_000])
def test_knots_include_ends_and_peaks(peak):
    row = -abs(np.arange(40_001.0) - peak)
    row[:3] = -np.inf
    knots = cell_quantiles.knots_of(np.array([row, row]))
    assert (knots[0] == knots[1]).all()
    assert {3, max(peak, 3), 40_000} <= set(knots[0].tolist())
    assert (np.diff(knots[0]) >= 0).all()
    assert knots.shape[1] <= 4 * cell_quantiles.NEAR + cell_quantiles.UNIFORM
