"""Sums of windowed integers given their totals, against convolution and enumeration."""

import itertools
from math import factorial

import numpy as np
import pytest
from chi_square import p_value_of_tables
from groups_of_cells import evaluated
from scipy.special import gammaln, logsumexp

from ppdinf.fiber.sums_given_totals import totals
from ppdinf.fiber.sums_given_totals.cell_windows import Weights, upper_envelope
from ppdinf.fiber.sums_given_totals.fourier import by_probabilities


def convolve(rows):
    """Return log weights of every sum by plain convolution in logarithms."""
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
    """Return log coefficient and marginals of one block (offsets from lo)."""
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
    return np.logaddexp(-0.5 * ((x - width * 0.05) / sd) ** 2, -0.5 * ((x - width * 0.95) / sd) ** 2) + np.zeros((d, 1))


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
    """Yield random blocks of a kind with typical, extreme, barely possible and impossible totals."""
    rng = np.random.default_rng(KINDS.index(kind))
    for n in range(number):
        d, width = int(rng.integers(1, 9)), int(rng.integers(1, 40))
        logw = kind(rng, d, width)
        shifted = np.exp(logw - logw.max(1, keepdims=True))
        typical = int(np.round((shifted / shifted.sum(1, keepdims=True) @ np.arange(width)).sum()))
        top = d * (width - 1)
        target = [typical, typical + 1, int(rng.integers(0, top + 1)), 0, 1, top, top - 1, top + 1, -1][n % 9]
        yield logw, target


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_convolution(kind):
    for logw, target in problems(kind):
        value, table = oracle(logw, target)
        found = totals.log_coefficient(logw, lo=0, total=target)
        assert found.shape == (2,)
        assert found[1] == 0
        assert found[0] == pytest.approx(value, rel=1e-12, abs=2e-10), (logw.shape, target)
        np.testing.assert_allclose(totals.marginals(logw, lo=0, total=target), table, rtol=0, atol=1e-9)
        if value > -np.inf:
            np.testing.assert_allclose(evaluated_means(logw, target)[1], table @ np.arange(logw.shape[1]), atol=1e-6)


def evaluated_means(logw, target):
    cells = np.arange(len(logw))
    value, means = evaluated(logw, cells, np.zeros(cells.size), 0 * cells, 0 * cells, np.array([target]))
    return value[0], means


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", [flat, sparse, even, far_modes, counts, smooth, one_wide])
def test_many_cells(kind):
    rng = np.random.default_rng(7)
    for d, width in ((60, 100), (200, 12), (3, 900), (400, 10)):
        logw = kind(rng, d, width)
        log_sum, p = convolve(logw), np.exp(logw - logsumexp(logw, axis=1, keepdims=True))
        finite, mean = np.flatnonzero(log_sum > -np.inf), p @ np.arange(width)
        var = p @ np.arange(width) ** 2 - mean**2
        off = max(int(mean.sum() - 3 * np.sqrt(var.sum())), 4) // 2 * 2
        for target in (log_sum.argmax(), off, *rng.choice(finite, 2), finite[1], finite[-2]):
            value = totals.log_coefficient(logw, lo=0, total=target)[0]
            assert value == pytest.approx(log_sum[target], rel=1e-12, abs=2e-10)
            if value == -np.inf:
                continue
            value, means = evaluated_means(logw, target)
            assert value == pytest.approx(log_sum[target], rel=1e-12, abs=2e-10)
            np.testing.assert_allclose(means, totals.marginals(logw, lo=0, total=target) @ np.arange(width), atol=1e-8)
            assert means.sum() == pytest.approx(target, rel=1e-10)
            if kind is smooth and target == off:  # a wrong variant: only the first two moments
                tilt = (target - mean.sum()) / var.sum()
                assert np.abs(mean + tilt * var - means).max() > 1e-6


def test_the_oracle_rejects_too_few_moments():
    """Wrong variant: four moments of each cell instead of twelve, centred and at the same frequencies."""
    logw = smooth(np.random.default_rng(5), 400, 10)
    p = np.exp(logw - logsumexp(logw, axis=1, keepdims=True))
    k = np.arange(10) - np.rint(p @ np.arange(10))[:, None]
    target = round(float((p @ np.arange(10)).sum()))
    modulus = int(16 * np.sqrt((p * k**2).sum()))
    u = 2 * np.pi * (np.arange(modulus) - modulus // 2) / modulus
    # relevant frequencies: above them the characteristic function of the sum is below 1e-14
    u = u[np.abs(u) < 8 / np.sqrt((p * k**2).sum())]

    def log_mass(order):
        powers = [(1j * u) ** r / factorial(r) * (p * k**r).sum(axis=1)[:, None] for r in range(order)]
        phi = np.prod(sum(powers), axis=0)
        shift = target - np.rint(p @ np.arange(10)).sum()
        return np.log((phi * np.exp(-1j * u * shift)).real.sum() / modulus) + logsumexp(logw, axis=1).sum()

    right = convolve(logw)[target]
    assert abs(log_mass(13) - right) < 1e-9
    assert abs(log_mass(5) - right) > 1e-6


def test_the_oracle_rejects_too_few_frequencies():
    """Wrong variant: frequencies with spacing 2 pi / 4 sd, which alias sums 4 sd away."""
    logw = smooth(np.random.default_rng(3), 20, 60)
    p = np.exp(logw - logsumexp(logw, axis=1, keepdims=True))
    x = np.arange(60)
    mean, sd = (p @ x).sum(), np.sqrt((p @ x**2 - (p @ x) ** 2).sum())
    target, modulus = round(mean), int(4 * sd)
    u = 2 * np.pi * np.arange(modulus) / modulus
    phi = np.prod(p @ np.exp(1j * np.outer(x, u)), axis=0)
    wrong = np.log((phi * np.exp(-1j * u * target)).real.mean()) + logsumexp(logw, axis=1).sum()
    right = convolve(logw)[target]
    assert abs(wrong - right) > 1e-4
    assert totals.log_coefficient(logw, lo=0, total=target)[0] == pytest.approx(right, abs=1e-11)


def test_blocks_free_cells_and_lower_ends():
    rng = np.random.default_rng(11)
    logw, lo = rng.normal(0, 2, (7, 6)), rng.integers(-5, 5, 7)
    block, eta = np.array([1, -1, 0, 1, -1, 0, 1]), rng.normal(0, 1, 7)
    total = np.array([lo[[2, 5]].sum() + 4, lo[[0, 3, 6]].sum() + 9, 0])
    weights = logw + eta[:, None] * (lo[:, None] + np.arange(6))
    found = totals.log_coefficient(logw, lo=lo, total=total, block=block, eta=eta)
    table = totals.marginals(logw, lo=lo, total=total, block=block, eta=eta)
    for b, cells, target in ((0, [2, 5], 4), (1, [0, 3, 6], 9)):
        value, expected = oracle(weights[cells], target)
        assert found[b] == pytest.approx(value, abs=1e-11)
        np.testing.assert_allclose(table[cells], expected, atol=1e-11)
    assert found[2] == 0  # no cells, total 0
    assert found[3] == pytest.approx(logsumexp(weights[[1, 4]], axis=1).sum(), abs=1e-11)
    np.testing.assert_allclose(table[1], np.exp(weights[1] - logsumexp(weights[1])), atol=1e-13)
    assert totals.log_coefficient(logw, lo=lo, total=[*total[:2], 1], block=block)[2] == -np.inf


def test_marginals_are_the_gradient():
    rng = np.random.default_rng(2)
    logw, step = counts(rng, 6, 30), 1e-4
    table = totals.marginals(logw, lo=0, total=40)
    for i, k in itertools.product(range(6), range(0, 30, 7)):
        up, down = logw.copy(), logw.copy()
        up[i, k] += step
        down[i, k] -= step
        slope = np.diff([totals.log_coefficient(w, lo=0, total=40)[0] for w in (down, up)])[0] / (2 * step)
        assert table[i, k] == pytest.approx(slope, abs=1e-8)


def test_the_cost_of_wide_windows_depends_on_their_mass():
    """In a table that is 100 times wider, the relevant entries are found and the result is equal."""
    x = np.arange(20_000)
    rate = np.array([[30.0], [50.0], [400.0]])
    logw = -gammaln(x + 1.0) - 0.02 * np.abs(np.array([[20], [70], [420]]) - x)
    wide = totals.log_coefficient(logw, lo=0, total=500, eta=np.log(rate[:, 0]))[0]
    narrow = totals.log_coefficient(logw[:, :501], lo=0, total=500, eta=np.log(rate[:, 0]))[0]
    assert wide == pytest.approx(narrow, rel=1e-13)


def test_one_very_wide_cell():
    """The tails of one cell make high frequencies relevant for the sum of 60."""
    x, scale = np.arange(1200), np.repeat([80.0, 6.0], [1, 59])[:, None]
    logw = -np.abs(x - np.where(scale > 6, 600, 24)) / scale
    p = np.exp(logw) / np.exp(logw).sum(axis=1, keepdims=True)
    frequencies = np.fft.rfft(p, 2**17)  # no aliasing: the largest sum is 71,940
    log_sum = np.log(np.fft.irfft(frequencies.prod(axis=0), 2**17)[2274]) + logsumexp(logw, axis=1).sum()
    others = np.fft.irfft(frequencies[1:].prod(axis=0), 2**17)[2274 - x]
    value, means = evaluated_means(logw, 2274)
    assert value == pytest.approx(log_sum, abs=2e-10)
    assert means[0] == pytest.approx((x * p[0] * others).sum() / (p[0] * others).sum(), abs=1e-7)
    assert means.sum() == pytest.approx(2274, rel=1e-10)


def test_a_rate_of_zero_allows_only_zero():
    logw, eta = -gammaln(np.arange(9) + 1.0) * np.ones((3, 1)), np.array([0.3, -np.inf, 0.5])
    for lo, total in (([0, 1, 0], 8), (0, 17)):
        assert totals.log_coefficient(logw, lo=lo, total=total, eta=eta)[0] == -np.inf


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("steep", "accurate"), [(1.0, True), (20.0, True), (300.0, False)])
def test_probabilities_and_logarithms_have_the_same_convolution(steep, accurate):
    """Cells that are 0 or between 20 and 40, with totals between the modes of their sum."""
    logw = np.random.default_rng(1).normal(0, 1, (6, 41))
    logw[:, 1:20], logw[:, 20:] = -np.inf, logw[:, 20:] - steep
    w, cells = Weights(logw, upper_envelope(logw), np.arange(6), np.zeros(6)), np.arange(6)
    for target in (23, 70, 101, 230):
        good, value, rows, rest = by_probabilities(w, cells, target, 0.0)
        assert good is accurate
        if good:
            expected, table = oracle(logw, target)
            assert value == pytest.approx(expected, rel=1e-12)
            found = np.zeros((6, 41))
            for i in range(6):
                part = slice(rows.start[i], rows.start[i + 1])
                size = rows.p[part].size
                found[i, rows.first[i] : rows.first[i] + size] = rows.p[part] * rest.p[part]
            np.testing.assert_allclose(found / found.sum(axis=1, keepdims=True), table, atol=1e-12)


@pytest.mark.parametrize("size", [1e13, 1e15, 1e28, 1e300])
def test_natural_parameters_without_digits_have_the_value_nan(size):
    """Markov chains that diverge request such values, and must be able to return."""
    logw = -gammaln(np.arange(9) + 1.0) * np.ones((3, 1))
    value = totals.log_coefficient(logw, lo=0, total=8, eta=size * np.array([1.0, -1.0, 0.3]))[0]
    assert value == pytest.approx(8 * size, rel=1e-12) if size < 1e14 else np.isnan(value)


@pytest.mark.parametrize("lo", [0, -40])
def test_empty_cells_have_no_effect(lo):
    """Windows far below 0, in a block and free; a large number instead of -inf would cancel there."""
    x = lo + np.arange(60)
    with np.errstate(invalid="ignore"):
        logw = np.where(x < 0, -np.inf, -gammaln(np.maximum(x, 0) + 1.0) - 0.3 * np.abs(np.arange(5)[:, None] - x))
    eta, block = np.array([0.3, -np.inf, 0.5, 0.2, -np.inf]), np.array([0, 0, 0, -1, -1])
    there = eta > -np.inf
    found = totals.log_coefficient(logw, lo=lo, total=8, block=block, eta=eta)
    without = totals.log_coefficient(logw[there], lo=lo, total=8, block=block[there], eta=eta[there])
    np.testing.assert_allclose(found, without + logw[[1, 4], -lo], atol=1e-12)
    marginals = totals.marginals(logw, lo=lo, total=8, block=block, eta=eta)
    np.testing.assert_array_equal(marginals[~there], np.tile(x == 0, (2, 1)))
    np.testing.assert_allclose(
        marginals[there], totals.marginals(logw[there], lo=lo, total=8, block=block[there], eta=eta[there]), atol=1e-12
    )
    drawn = totals.draw(logw, lo=lo, total=8, block=block, eta=np.tile(eta, (50, 1)), rng=1).reshape(50, 5)
    assert (drawn[:, ~there] == 0).all()
    assert (drawn[:, :3].sum(axis=1) == 8).all()


def joint_law(logw, target):
    """Return every table of the block with its probability, by enumeration."""
    d, width = logw.shape
    tables = np.array([t for t in itertools.product(range(width), repeat=d) if sum(t) == target])
    log_p = logw[np.arange(d), tables].sum(axis=1)
    tables, log_p = tables[log_p > -np.inf], log_p[log_p > -np.inf]
    return tables, np.exp(log_p - logsumexp(log_p))


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("kind", [flat, rough, sparse, even, far_modes, counts, smooth])
def test_draws_follow_the_joint_law(kind):
    rng = np.random.default_rng(5)
    for d, width in ((1, 5), (2, 9), (4, 6), (5, 4)):
        logw = kind(rng, d, width)
        feasible = np.flatnonzero(convolve(logw) > -np.inf)
        target = rng.choice(feasible)
        tables, p = joint_law(logw, target)
        draws = totals.draw(logw, lo=0, total=target, draws=20_000, rng=int(target))
        assert p_value_of_tables(draws, tables, p, least=10) > 1e-6


def test_draws_when_attempts_run_out():
    """Distant modes and a total that requires a value between them: backward sampling."""
    logw = np.full((3, 41), -np.inf)
    logw[:, [0, 1, 2, 40]] = np.random.default_rng(12).normal(0, 1, (3, 4))
    logw[:, 20] = [-60.0, -61.0, -59.5]
    tables, p = joint_law(logw, 22)
    draws = totals.draw(logw, lo=0, total=22, draws=5_000, rng=1)
    assert p_value_of_tables(draws, tables, p, least=10) > 1e-6


def test_the_chi_square_rejects_a_missing_acceptance():
    """Wrong variant: the last cell completes the total and is always accepted."""
    rng = np.random.default_rng(6)
    logw = smooth(rng, 3, 8)
    tables, p = joint_law(logw, 10)
    each = np.exp(logw - logsumexp(logw, axis=1, keepdims=True))
    two = np.array([rng.choice(8, 40_000, p=each[i]) for i in (0, 1)]).T
    wrong = np.column_stack([two, 10 - two.sum(axis=1)])
    wrong = wrong[(wrong[:, 2] >= 0) & (wrong[:, 2] < 8)]
    assert p_value_of_tables(wrong, tables, p, least=10) < 1e-12


def test_draws_have_the_posterior_means():
    rng = np.random.default_rng(8)
    logw = counts(rng, 50, 120)
    block = np.repeat([0, 1, -1], [20, 20, 10])
    each = np.exp(logw - logsumexp(logw, axis=1, keepdims=True))
    total = np.array([round((each[block == b] @ np.arange(120)).sum()) + 15 for b in (0, 1)])
    draws = totals.draw(logw, lo=3, total=total + 60, block=block, draws=20_000, rng=2)
    assert (draws[:, block == 0].sum(axis=1) == total[0] + 60).all()
    assert (draws[:, block == 1].sum(axis=1) == total[1] + 60).all()
    table = totals.marginals(logw, lo=3, total=total + 60, block=block)
    x = np.arange(120) + 3
    mean = table @ x
    sd = np.sqrt(table @ x**2 - mean**2)
    z = (draws.mean(axis=0) - mean) / sd * np.sqrt(len(draws))
    assert np.abs(z).max() < 5.5


def test_unsigned_integers():
    rates = np.log([[0.4] * 101, [0.6] * 101]) * np.arange(101)
    signed = totals.log_coefficient(rates, lo=[50, 100], total=290)
    unsigned = totals.log_coefficient(rates, lo=np.array([50, 100], dtype=np.uint16), total=np.uint64(290))
    np.testing.assert_array_equal(unsigned, signed)


def test_draws_of_many_parameters_follow_the_joint_law():
    """The windows of many natural parameters are shared, and most of the sums require no tilt."""
    rng = np.random.default_rng(14)
    logw, totals_of_blocks = counts(rng, 5, 6), np.array([9, 4])
    block, few = np.array([0, 1, 0, 1, 0]), np.array([[0.4, -0.3, 0.1, -np.inf, 0.2], [-1.5, 0.6, 0.8, 0.1, -0.2]])
    eta = np.tile(few, (10_000, 1))
    draws = totals.draw(logw, lo=0, total=totals_of_blocks, block=block, eta=eta, rng=3)[:, 0]
    assert (draws[::2, 3] == 0).all()
    for k in range(2):
        for b in range(2):
            cells = np.flatnonzero((block == b) & (few[k] > -np.inf))
            tables, p = joint_law(logw[cells] + few[k, cells, None] * np.arange(6), totals_of_blocks[b])
            assert p_value_of_tables(draws[k::2][:, cells], tables, p, least=10) > 1e-6
    tables, p = joint_law(logw[::2] + few[0, ::2, None] * np.arange(6), 9)
    assert p_value_of_tables(draws[1::2][:, ::2], tables, p, least=10) < 1e-12  # the parameters of the other draws
