"""Sums of cells from the nodes of panels, against integer windows, convolution and stated bounds, and rank tests."""

import mpmath
import numpy as np
import pytest
from scipy.special import digamma, gammaln, loggamma, logsumexp

from ppdinf.diagnostics.calibration import calibrate, uniformity
from ppdinf.fiber import panel_sums
from ppdinf.fiber.gamma_ratios import (
    ALPHA,
    BETA,
    ETA,
    HIGH,
    LOW,
    PARAMETERS,
    GammaRatios,
    bends,
    domain,
    level,
    log_weights,
)
from ppdinf.fiber.gamma_sums import evaluate_ratios
from ppdinf.fiber.panels import (
    BOUND,
    CENTRE,
    ERRORS,
    MOST,
    PANEL,
    PLAN,
    TOP,
    panel_rules,
    peak_of,
    place,
    plan,
)  # fmt: skip

RULES = panel_rules()
FAMILIES = ("negative binomial", "poisson", "binomial", "beta-binomial")
# ranks: level and shape are on a grid, so that the posterior follows from log coefficients alone
D, EPSILON, RARE = 20, 1 / 15, 1e-5  # p-values of both ranks are above RARE: a false alarm in 50,000 runs
SIZES = np.linspace(0.3, 2.0, D)
LEVELS, SHAPES = np.log(np.linspace(30, 90, 7)), np.exp(np.linspace(np.log(1.2), np.log(12), 6))
GRID = np.array([(level, shape) for level in LEVELS for shape in SHAPES])


def segments_of(released, epsilon, gaussian=False):
    """Return the first segment of each cell, and the log noise of all cells as segments."""
    reach, first, segment = int((9 if gaussian else 30) / epsilon) + 1, [0], []
    for y in released:
        low, high = max(y - reach, 0), max(y + reach, 5)
        if gaussian:
            segment.append([low, high, y, 0, 0, -(epsilon**2) / 2])
        else:
            segment += [[low, y, y, 0, epsilon, 0]] if low <= y else []
            segment.append([max(y + 1, low), high, y, 0, -epsilon, 0])
        first.append(len(segment))
    return np.array(first), np.array(segment, float)


def problem(seed, family=None, epsilon=None, d=None, gaussian=None, level=None, dependent=None, groups=1, off=None):
    """Return cells, blocks and totals; what is not given is random."""
    rng = np.random.default_rng(seed)

    def pick(given, drawn):
        return drawn if given is None else given

    family = pick(family, FAMILIES[rng.integers(4)])
    epsilon = pick(epsilon, np.exp(rng.uniform(np.log(1e-3), np.log(10))))
    gaussian, dependent = pick(gaussian, rng.random() < 0.4), pick(dependent, rng.random() < 0.4)
    d, level = pick(d, int(rng.integers(16, 100))), pick(level, rng.uniform(-1, 9))
    mu, alpha, trials = np.exp(rng.normal(level, 1, d)), np.exp(rng.normal(1.5, 1, d)), np.zeros(d)
    p = np.zeros((d, PARAMETERS))
    p[:, LOW] = 1
    if family == "poisson":
        x, p[:, ETA] = rng.poisson(mu), np.log(mu)
    elif family == "negative binomial":
        x, p[:, ETA], p[:, ALPHA] = rng.poisson(rng.gamma(alpha, mu / alpha)), np.log(mu / (mu + alpha)), alpha
    else:
        trials = np.ceil(mu * np.exp(rng.uniform(0, 3, d))) + 1
        x = rng.binomial(trials.astype(int), np.minimum(mu / trials, 0.9))
        p[:, HIGH], p[:, ETA] = trials + 1, np.log(mu / trials)
        if family == "beta-binomial":
            p[:, ETA], p[:, ALPHA], p[:, BETA] = 0, alpha, trials + alpha * (trials / mu - 1)
    if dependent:
        p[:, LOW] = 1 - rng.binomial(x, 0.1)
        p[:, ETA] += np.log(0.9)
    released = x + np.rint((rng.normal if gaussian else rng.laplace)(0, 1 / epsilon, d)).astype(int)
    block = rng.integers(-1 if d > 30 else 0, groups, d) if groups > 1 else np.zeros(d, np.int64)
    off = pick(off, rng.uniform(-1, 1))
    totals = [x[block == b].sum() + int(off * np.sqrt(x[block == b].sum())) for b in range(groups)]
    has = np.array([family in FAMILIES[::3], family == "beta-binomial", trials.any()], np.int64)
    return GammaRatios(p, has, *segments_of(released, epsilon, gaussian)), block, np.array(totals)


def evaluated(cells, block, totals, by_nodes=True, rules=RULES):
    value, out = np.zeros(totals.size + 1), np.zeros((block.size, PARAMETERS))
    evaluate_ratios(cells, rules, block, totals, by_nodes, value, out)
    return value, out


def is_by_nodes(cells, block, totals):
    """Return whether nodes are accurate enough for the first group."""
    members = np.flatnonzero(block == 0)
    out = np.zeros((block.size, PARAMETERS))
    return not np.isnan(panel_sums.by_panels(cells, RULES, members, totals[0], False, out))


def errors(one, other):
    """Return differences of values and derivatives; of large numbers, relative to 1e-4 of them."""
    scaled = []
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
        known = np.isfinite(a)
        scaled.append(np.max(abs(a[known] - b[known]) / np.maximum(1, 1e-4 * abs(b[known])), initial=0.0))
    return scaled


def moments(n, m, power):
    node, log_weight = np.empty(m), np.empty(m)
    place(RULES, 7, n, node, log_weight)
    scaled, k = (node - 7 - (n - 1) / 2) / n, np.arange(n) / n - (n - 1) / 2 / n
    return np.exp(log_weight) @ scaled**power / n, np.mean(k**power)


@pytest.mark.quick_cases(9)
@pytest.mark.parametrize("m", [4, 16, 32])
@pytest.mark.parametrize("times", [2.5, 3, 40, 1e5])
def test_a_rule_has_the_moments_of_its_integers(m, times):
    for power in (0, 1, 2, 2 * m - 2, 2 * m - 1):
        found, expected = moments(int(times * m), m, power)
        assert found == pytest.approx(expected, rel=2e-11, abs=3e-13)


@pytest.mark.quick_cases(0)
def test_log_weights_and_derivatives_are_those_of_gamma_functions():
    x = np.concatenate([np.linspace(0, 30, 40), [500.5, 1e4]])
    p = np.array([[0.3, 2.5, 2e4 + 3.5, 1.0, 2e4 + 1.0]])
    cells = GammaRatios(p, np.ones(3, np.int64), np.array([0, 1]), np.array([[0.0, 2e4, 100, 0.5, 0.1, -1e-4]]))
    eta, alpha, beta, low, high = p[0]
    expected = eta * x + gammaln(x + alpha) - gammaln(x + low) + gammaln(beta - x) - gammaln(high - x)
    expected -= gammaln(alpha) + gammaln(beta)
    noise = 0.5 + 0.1 * (x - 100) - 1e-4 * (x - 100) ** 2
    value, up, down = np.zeros(x.size), np.empty(x.size), np.empty(x.size)
    log_weights(cells, 0, cells.segment[0], 0.0, x, value, up, down)
    np.testing.assert_allclose(value, expected + noise, rtol=1e-14, atol=1e-9)
    np.testing.assert_allclose(up, digamma(x + alpha) - digamma(alpha), rtol=1e-13, atol=1e-14)
    with mpmath.workdps(30):  # differences of doubles have fewer digits
        exact = [float(mpmath.digamma(mpmath.mpf(beta) - at) - mpmath.digamma(beta)) for at in x]
    np.testing.assert_allclose(down, exact, rtol=1e-13, atol=2e-15)
    for at, wanted in zip(x[1:], expected[1:] + noise[1:], strict=True):
        height, slope = level(cells, 0, cells.segment[0], 0.0, at)
        step = 1e-4 * at
        ahead, behind = (level(cells, 0, cells.segment[0], 0.0, at + side * step)[0] for side in (1, -1))
        assert height == pytest.approx(wanted, rel=1e-13, abs=1e-9)
        assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-5)


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("seed", range(8))
def test_bounds_off_the_real_line_hold(seed):
    cells, _, _ = problem(seed, d=3, level=4, dependent=False)
    rng = np.random.default_rng(seed)
    for i in range(3):
        low, high = domain(cells, i)
        eta, alpha, beta, a, c = cells.parameter[i]
        segment = cells.segment[cells.first[i]]

        def log_weight(z, eta=eta, alpha=alpha, beta=beta, a=a, c=c, segment=segment):
            value = eta * z - loggamma(z + a) + segment[5] * (z - segment[2]) ** 2
            value += loggamma(z + alpha) if cells.has[0] else 0
            value += loggamma(beta - z) if cells.has[1] else 0
            return value - loggamma(c - z) if cells.has[2] else value

        begin, end = np.sort(rng.uniform(low, high, 2))
        k, bend = bends(cells, i, segment, begin, end)
        x, y = rng.uniform(begin, end, 200), rng.uniform(0, high - low, 200)
        excess = (log_weight(x + 1j * y) - log_weight(x + 0j)).real
        assert (excess <= 0.5 * k * y**2 + 1e-6).all()
        step = 1e-2 * (1 + x)
        second = (log_weight(x + step + 0j) - 2 * log_weight(x + 0j) + log_weight(x - step + 0j)).real / step**2
        inside = (x - step > begin) & (x + step < end)
        assert (second[inside] <= bend + 1e-6).all()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_plans_hold_for_tilted_sums_and_frequencies(seed):
    cells, _, _ = problem(seed, d=2, level=5, epsilon=0.05, dependent=False)
    for i in range(2):
        panels, bounds, result = np.empty((MOST, PANEL), np.int64), np.empty((MOST + 2, BOUND)), np.zeros(PLAN)
        if np.isnan(peak_of(cells, i, 0.0, result)):
            continue
        count = plan(cells, i, 0.0, 1e-4, 0.01, panels, bounds, result)
        assert count > 0
        low, high = domain(cells, i)
        nodes, logs = [], []
        for begin, n, m, s in panels[:count]:
            x, out = np.empty(m), np.empty(m)
            place(RULES, begin, n, x, out)
            log_weights(cells, i, cells.segment[s], 0.0, x, out, np.empty(m), np.empty(m))
            nodes, logs = [*nodes, x - result[CENTRE]], [*logs, out]
        nodes, logs = np.concatenate(nodes), np.concatenate(logs) - result[TOP]
        k, exact = np.arange(low, high + 1.0), []
        for at in k:
            s = next(s for s in range(cells.first[i], cells.first[i + 1]) if cells.segment[s, 1] >= at)
            exact.append(level(cells, i, cells.segment[s], 0.0, at)[0] - result[TOP])
        assert max(exact) <= 1e-9
        k, exact = k - result[CENTRE], np.array(exact)
        for tilt in (0.0, 0.005, -0.005):
            for u in (0.0, 0.02, 0.1):
                wave = np.exp(exact + (tilt + 1j * u) * k).sum() - np.exp(logs + (tilt + 1j * u) * nodes).sum()
                bound = np.exp(bounds[: int(result[ERRORS])] @ [1, abs(tilt), u]).sum()
                assert abs(wave) <= bound + 1e-11 * np.exp(exact + tilt * k).sum()


def convolved(cells, total):
    """Return the log coefficient by convolution of all weights."""
    sums, shift = np.ones(1), 0.0
    for i in range(cells.parameter.shape[0]):
        low, high = domain(cells, i)
        s = np.searchsorted(cells.segment[cells.first[i] : cells.first[i + 1], 1], k := np.arange(low, high + 1.0))
        logw = np.array(
            [level(cells, i, cells.segment[cells.first[i] + a], 0.0, at)[0] for a, at in zip(s, k, strict=True)]
        )
        shift += logsumexp(logw)
        sums, total = np.convolve(sums, np.exp(logw - logsumexp(logw))), total - low
    return shift + np.log(sums[total])


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("gaussian", [True, False])
def test_groups_against_convolution_and_windows(family, gaussian):
    cells, block, totals = problem(3, family, 0.1, 40, gaussian, 3.5, False, off=0.3)
    value, out = evaluated(cells, block, totals)
    mixed = family == "beta-binomial" or (gaussian and (cells.parameter[:, ALPHA] < cells.parameter[:, LOW]).any())
    assert is_by_nodes(cells, block, totals) or (cells.has[0] and mixed)
    assert value[0] == pytest.approx(convolved(cells, totals[0]), abs=1e-9)
    worst, slope = errors((value, out), evaluated(cells, block, totals, False))
    assert worst < 1e-10
    assert slope < 1e-8


@pytest.mark.parametrize("column", [ETA, ALPHA, BETA])
def test_derivatives_are_those_of_the_value(column):
    cells, block, totals = problem(5, "beta-binomial", 0.1, 20, False, 4, False, off=0)
    cells.parameter[:, ALPHA] += 1
    cells.parameter[:, BETA] += 5
    _, out = evaluated(cells, block, totals)
    for i in (0, 7):
        step = 1e-4 * max(abs(cells.parameter[i, column]), 0.1)
        values = []
        for side in (1, -1):
            moved = cells.parameter.copy()
            moved[i, column] += side * step
            values.append(evaluated(cells._replace(parameter=moved), block, totals)[0][0])
        assert out[i, column] == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5)


@pytest.mark.parametrize(
    ("seeds", "epsilon", "least"),
    [(range(20), 0.2, 5), pytest.param(range(100, 300), None, 60, marks=pytest.mark.deep)],
)
def test_random_cells_against_integer_windows(seeds, epsilon, least):
    served = 0
    for seed in seeds:
        cells, block, totals = problem(seed, epsilon=epsilon, groups=1 + seed % 3)
        served += is_by_nodes(cells, block, totals)
        worst, slope = errors(evaluated(cells, block, totals), evaluated(cells, block, totals, False))
        assert worst < 1e-10 + 1e-15 * totals.sum()  # rounding of gamma functions of large counts
        assert slope < 1e-8
    assert served >= least


@pytest.mark.parametrize("part", [0, 1])
def test_a_relative_error_of_1e_6_in_one_node_is_detected(part):
    cells, block, totals = problem(2, "negative binomial", 0.1, 40, False, 6, False, off=0)
    exact = evaluated(cells, block, totals, False)
    assert errors(evaluated(cells, block, totals), exact)[0] < 1e-10
    rules = RULES.copy()
    for m in (16, 20, 24, 28, 32):
        if part:
            rules[m // 4 - 1, 1, 0, 6] += 1e-6  # the logarithm of a weight
        else:
            rules[m // 4 - 1, 0, 0, 6] *= 1 + 1e-6
    assert errors(evaluated(cells, block, totals, rules=rules), exact)[0] > 1e-10


@pytest.mark.parametrize("epsilon", [0.1, 0.01])
def test_shapes_below_1_are_summed_by_nodes(epsilon):
    """Weights that are convex on both sides of the released number."""
    for seed, shape in enumerate((0.3, 0.7, 0.99)):
        cells, block, totals = problem(seed, "negative binomial", epsilon, 67, False, 7.0, False, off=0.0)
        mean = cells.parameter[:, ALPHA] / np.expm1(-cells.parameter[:, ETA])
        cells.parameter[:, ETA], cells.parameter[:, ALPHA] = np.log(mean / (mean + shape)), shape
        assert is_by_nodes(cells, block, totals)
        assert max(errors(evaluated(cells, block, totals), evaluated(cells, block, totals, by_nodes=False))) < 1e-9


def test_bounds_on_the_variation_of_tilted_weights_hold():
    """Half of the total variation bounds ``2 sin(u / 2) |phi(u)|``; the largest weight alone is too small."""
    too_small = 0
    for seed in range(60):
        cells, *_ = problem(seed, *(("negative binomial", 0.3, 1, False, 2.5) if seed % 2 else (None, None, 1)))
        if seed % 2:
            cells.parameter[:, ALPHA] = 0.1  # a local maximum at 0, and one at the released number
        result, shift = np.zeros(PLAN), 0.05 * (seed % 3 - 1)
        if np.isnan(peak_of(cells, 0, 0.0, result)):
            continue
        low, high = domain(cells, 0)
        x = np.arange(low, high + 1)
        segments = cells.segment[cells.first[0] : cells.first[1]]
        of = [next(part for part in segments if part[0] <= k <= part[1]) for k in x]
        log_p = np.array([level(cells, 0, part, shift, float(k))[0] for k, part in zip(x, of, strict=True)])
        log_p -= shift * result[CENTRE]
        variation = np.abs(np.diff(np.exp(log_p - log_p.max()), prepend=0, append=0)).sum() / 2
        bound = panel_sums._variation(cells, 0, result, 0.0, shift) - log_p.max()
        assert np.log(variation) - 1e-9 < bound < np.log(variation) + 0.7
        too_small += variation > 1 + 1e-9
    assert too_small > 3


def test_a_count_of_a_cell_without_rate_is_0():
    cells, block, totals = problem(2, "negative binomial", 0.5, 20, False, 2, False, off=0)
    cells.parameter[3, ETA] = -np.inf
    value, out = evaluated(cells, block, totals)
    expected, slope = evaluated(cells, block, totals, False)
    assert out[3, ETA] == 0
    assert out[3, ALPHA] == pytest.approx(0, abs=1e-15)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(out, slope, rtol=1e-9)


def test_impossible_totals_and_parameters_have_density_0_or_nan():
    cells, block, totals = problem(2, "binomial", 0.5, 20, False, 2, False)
    assert evaluated(cells, block, totals - 10**6)[0][0] == -np.inf
    for impossible in (np.nan, 1e15, -1e28):
        cells.parameter[3, ETA] = impossible
        assert np.isnan(evaluated(cells, block, totals)[0][block[3]])


def simulate(rng):
    """Draw parameters, a table, and its release; noise whose sum is 0 by rejection."""
    at, shape = GRID[rng.integers(len(GRID))]
    x = rng.poisson(rng.gamma(shape, SIZES * np.exp(at) / shape))
    while True:
        z = np.diff(rng.geometric(1 - np.exp(-EPSILON), (2000, D, 2)))[..., 0]
        if (z.sum(axis=1) == 0).any():
            break
    return {"level": at, "shape": shape}, (x + z[(z.sum(axis=1) == 0).argmax()], x.sum())


def cells_of(level, shape, segments):
    mu, p = SIZES * np.exp(level), np.zeros((D, PARAMETERS))
    p[:, LOW], p[:, ALPHA], p[:, ETA] = 1, shape, np.log(mu / (mu + shape))
    normaliser = np.sum(shape * np.log(shape / (mu + shape)))
    return GammaRatios(p, np.array([1, 0, 0]), *segments), normaliser


def infer(given, rng, *, epsilon=EPSILON):
    """Draw parameters on the grid given a release and the total."""
    y, total = given
    segments, log_p = segments_of(y, epsilon), np.empty(len(GRID))
    for k, at in enumerate(GRID):
        cells, normaliser = cells_of(*at, segments)
        log_p[k] = evaluated(cells, np.zeros(D, np.int64), np.array([total]))[0][0] + normaliser
    p = np.exp(log_p - log_p.max())
    chosen = GRID[rng.choice(len(GRID), size=40, p=p / p.sum())]
    return {"level": chosen[:, 0], "shape": chosen[:, 1]}


def p_values(data_sets, **wrong):
    found = calibrate(simulate, lambda given, rng: infer(given, rng, **wrong), replicates=data_sets, rng=1)
    return {name: uniformity(ranks) for name, ranks in found.items()}


@pytest.mark.quick_cases(0)
def test_nodes_are_used():
    rng, by_nodes = np.random.default_rng(1), []
    for _ in range(5):
        _, (y, total) = simulate(rng)
        for at in GRID[::4]:
            cells, _ = cells_of(*at, segments_of(y, EPSILON))
            by_nodes.append(is_by_nodes(cells, np.zeros(D, np.int64), np.array([total])))
    assert np.mean(by_nodes) > 0.9


@pytest.mark.deep
def test_ranks_are_uniform():
    found = p_values(400)
    assert min(found.values()) > RARE, found


@pytest.mark.deep
def test_another_scale_of_the_noise_is_detected():
    assert min(p_values(400, epsilon=1.6 * EPSILON).values()) < RARE
