"""Sums of cells from fixed nodes, against integer windows, convolution and stated bounds, and rank tests."""

import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.special import digamma, gammaln, loggamma, logsumexp

from ppdinf.diagnostics.calibration import calibrate, uniformity
from ppdinf.distributions import ops
from ppdinf.fiber import fixed_nodes, gamma_ratios
from ppdinf.fiber.fixed_nodes import AT, BASE, FIRST, LAST, PANELS, PANELS_END, POINT, by_fixed_nodes
from ppdinf.fiber.gamma_ratios import ALPHA, BETA, ETA, HIGH, LOW, ZERO, GammaRatios, domain, log_weights
from ppdinf.fiber.gamma_sums import evaluate_ratios
from ppdinf.fiber.node_plans import no_nodes, plan_nodes

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from accuracy import Counts, ExactDensity

FAMILIES = ("negative binomial", "poisson", "binomial", "beta-binomial")
# ranks: level and shape are on a grid, so that the posterior follows from log coefficients alone
D, EPSILON, RARE = 60, 1 / 15, 1e-5  # p-values of both ranks are above RARE: a false alarm in 50,000 runs
SIZES, LEVELS = np.linspace(0.3, 2.0, D), np.log(np.linspace(100, 300, 7))


def segments_of(released, epsilon, gaussian=False):
    """Return the first and end segment of each cell, and the log noise of all cells as segments."""
    reach, first, segment = int((9 if gaussian else 30) / epsilon) + 1, [0], []
    for y in released:
        low, high = max(y - reach, 0), max(y + reach, 5)
        if gaussian:
            segment.append([low, high, y, 0, 0, -(epsilon**2) / 2])
        else:
            segment += [[low, y, y, 0, epsilon, 0]] if low <= y else []
            segment.append([max(y + 1, low), high, y, 0, -epsilon, 0])
        first.append(len(segment))
    return np.column_stack([first[:-1], first[1:]]), np.array(segment, float)


def problem(
    seed, family=None, epsilon=None, d=None, gaussian=None, level=None, dependent=None, groups=1, off=None, zeros=False
):
    """Return cells, blocks and totals; what is not given is random."""
    rng = np.random.default_rng(seed)

    def pick(given, drawn):
        return drawn if given is None else given

    family = pick(family, FAMILIES[rng.integers(4)])
    epsilon = pick(epsilon, np.exp(rng.uniform(np.log(1e-3), np.log(10))))
    gaussian, dependent = pick(gaussian, rng.random() < 0.4), pick(dependent, rng.random() < 0.4)
    d, level = pick(d, int(rng.integers(16, 100))), pick(level, rng.uniform(-1, 9))
    mu, alpha, trials = np.exp(rng.normal(level, 1, d)), np.exp(rng.normal(1.5, 1, d)), np.zeros(d)
    p = np.zeros((d, gamma_ratios.PARAMETERS))
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
    if zeros:
        p[:, ZERO] = rng.normal(0, 3, d)
    return GammaRatios(p, has, *segments_of(released, epsilon, gaussian)), block, np.array(totals)


def planned(cells, block, totals):
    low, high = cells.parameter[:, LOW], cells.parameter[:, HIGH]
    return plan_nodes(cells.has, cells.span, cells.segment, low, high, block, totals.size)


def evaluated(cells, block, totals, nodes=None):
    """Return values and derivatives from nodes or, without nodes, from integers."""
    value, out = np.zeros(totals.size + 1), np.zeros((block.size, gamma_ratios.PARAMETERS))
    evaluate_ratios(cells, no_nodes(block.size, totals.size) if nodes is None else nodes, block, totals, value, out)
    return value, out


def is_by_nodes(cells, block, totals, nodes):
    """Return whether nodes are accurate enough for the first group."""
    members, out = np.flatnonzero(block == 0), np.zeros((block.size, gamma_ratios.PARAMETERS))
    return not np.isnan(by_fixed_nodes(nodes, cells.parameter, cells.has, members, 0, totals[0], out))


def errors(one, other):
    """Return differences of values and derivatives; of large numbers, relative to 1e-4 of them."""
    scaled = []
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
        known = np.isfinite(a)
        scaled.append(np.max(abs(a[known] - b[known]) / np.maximum(1, 1e-4 * abs(b[known])), initial=0.0))
    return scaled


@pytest.mark.quick_cases(0)
def test_log_weights_and_derivatives_are_those_of_gamma_functions():
    x = np.concatenate([np.linspace(0, 30, 40), [500.5, 1e4]])
    p = np.array([[0.3, 2.5, 2e4 + 3.5, 1.0, 2e4 + 1.0, -2.0]])
    cells = GammaRatios(p, np.ones(3, np.int64), np.array([[0, 1]]), np.array([[0.0, 2e4, 100, 0.5, 0.1, -1e-4]]))
    eta, alpha, beta, low, high, zero = p[0]
    expected = eta * x + gammaln(x + alpha) - gammaln(x + low) + gammaln(beta - x) - gammaln(high - x)
    expected -= gammaln(alpha) + gammaln(beta)
    expected[0] += zero
    noise = 0.5 + 0.1 * (x - 100) - 1e-4 * (x - 100) ** 2
    value, up, down = np.zeros(x.size), np.empty(x.size), np.empty(x.size)
    log_weights(cells, 0, cells.segment[0], 0.0, x, value, up, down)
    np.testing.assert_allclose(value, expected + noise, rtol=1e-14, atol=1e-9)
    np.testing.assert_allclose(up, digamma(x + alpha) - digamma(alpha), rtol=1e-13, atol=1e-14)
    with mpmath.workdps(30):  # differences of doubles have fewer digits
        exact = [float(mpmath.digamma(mpmath.mpf(beta) - at) - mpmath.digamma(beta)) for at in x]
    np.testing.assert_allclose(down, exact, rtol=1e-13, atol=2e-15)


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("seed", range(8))
def test_bounds_off_the_real_line_hold(seed):
    cells, _, _ = problem(seed, d=3, level=4, dependent=False)
    rng = np.random.default_rng(seed)
    for i in range(3):
        low, high = domain(cells, i)
        eta, alpha, beta, a, c = cells.parameter[i, :ZERO]
        segment = cells.segment[cells.span[i, 0]]

        def log_weight(z, eta=eta, alpha=alpha, beta=beta, a=a, c=c, segment=segment):
            value = eta * z - loggamma(z + a) + segment[5] * (z - segment[2]) ** 2
            value += loggamma(z + alpha) if cells.has[0] else 0
            value += loggamma(beta - z) if cells.has[1] else 0
            return value - loggamma(c - z) if cells.has[2] else value

        begin, end = np.sort(rng.uniform(low, high, 2))
        k, curved = gamma_ratios.bend(bool(cells.has[0]), alpha + begin, a + begin)
        if cells.has[2]:
            of_end = gamma_ratios.bend(bool(cells.has[1]), beta - end, c - end)
            k, curved = k + of_end[0], curved + of_end[1]
        k -= 2 * segment[5]
        x, y = rng.uniform(begin, end, 200), rng.uniform(0, high - low, 200)
        excess = (log_weight(x + 1j * y) - log_weight(x + 0j)).real
        assert (excess <= 0.5 * k * y**2 + 1e-6).all()
        step = 1e-2 * (1 + x)
        second = (log_weight(x + step + 0j) - 2 * log_weight(x + 0j) + log_weight(x - step + 0j)).real / step**2
        inside = (x - step > begin) & (x + step < end)
        assert (second[inside] <= curved + 1e-6).all()


@pytest.mark.parametrize("column", [ETA, ALPHA, BETA, LOW, HIGH, ZERO])
def test_cells_with_the_same_segments_share_weights_only_if_all_but_the_rate_agree(column):
    """Against cells that each have their own copy of the segments; one parameter differs between half of the cells."""
    few, _, totals = problem(3, "beta-binomial", 0.2, 3, False, 3, False)
    which = np.arange(24) % 3
    p, block = few.parameter[which], np.where(np.arange(24) < 18, 0, -1)
    p[::2, column] += -1 if column == LOW else 1
    own = [few.segment[slice(*few.span[i])] for i in which]
    ends = np.cumsum([0, *map(len, own)])
    copies = GammaRatios(p, few.has, np.column_stack([ends[:-1], ends[1:]]), np.concatenate(own))
    shared = GammaRatios(p, few.has, few.span[which], few.segment)
    total = 6 * totals
    assert np.unique(shared.span, axis=0).shape == (3, 2)
    assert max(errors(evaluated(shared, block, total), evaluated(copies, block, total))) < 1e-12
    nodes = planned(shared, block, total)
    assert max(errors(evaluated(shared, block, total, nodes), evaluated(copies, block, total))) < 1e-9


def log_weights_of(cells, i, tilt=0.0):
    """Return all counts of a cell, and their log weights."""
    x = np.arange(*(end + extra for end, extra in zip(domain(cells, i), (0.0, 1.0), strict=True)))
    own, out, none = cells.segment[slice(*cells.span[i])], np.zeros(x.size), np.empty(x.size)
    for k in range(x.size):
        at = slice(k, k + 1)
        log_weights(cells, i, own[np.searchsorted(own[:, 1], x[k])], tilt, x[at], out[at], none[at], none[at])
    return x, out


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("seed", range(6))
def test_bounds_on_errors_hold_at_near_and_far_parameters(seed):
    """For tilted sums and frequencies; a panel of which one weight is wrong by 1e-6 exceeds its bound."""
    cells, block, totals = problem(seed, FAMILIES[3 * (seed % 2)], 0.05, 8, False, 5, False)
    nodes, rng, detected, small = planned(cells, block, totals), np.random.default_rng(seed), 0, 0
    for i in range(4):
        kind = nodes.kind[int(nodes.cell[i, 0])]
        m, first = int(kind[LAST] - kind[FIRST]), POINT * int(kind[FIRST])
        point, panels = nodes.point[first : first + POINT * m], nodes.panel[int(kind[PANELS]) : int(kind[PANELS_END])]
        x, base = point[AT * m : (AT + 1) * m] + kind[fixed_nodes.CENTRE], point[BASE * m : (BASE + 1) * m]
        for far in (0, 0.3, 1, 3):
            p = cells.parameter[i]
            p[ETA] += far * rng.normal() / 20
            p[[ALPHA, BETA]] += np.exp(far * rng.normal()) - 1 if p[ALPHA] > 1 else 0
            p[[ALPHA, BETA]] = max(p[ALPHA], 0.05), max(p[BETA], p[HIGH] - 0.95)
            w = np.zeros(3 * m)
            fixed_nodes._log_f(point, kind, cells.has, p, w)
            k, exact = log_weights_of(cells, i)
            top = logsumexp(exact)
            one = w[0] + point[fixed_nodes.RISE * m]
            for tilt, u in ((0, 0), (0.01, 0), (-0.02, 0.03), (0.03, 0.1)):
                bound = np.empty(len(panels))
                shift = top - tilt * kind[fixed_nodes.CENTRE] + one
                fixed_nodes._errors(panels, point, kind, cells.has, p, w, tilt, shift, bound)
                wanted = np.exp(exact - top + (tilt + 1j * u) * k).sum()
                weights = np.exp(base + w[:m] - one - top + (tilt + 1j * u) * x)
                most = bound @ np.exp(u * panels[:, fixed_nodes.ALONG])
                rounding = 1e-10 * np.exp(exact - top + tilt * k).sum()
                assert abs(weights.sum() - wanted) <= most + rounding
                small += most < 1e-10
                detected += abs(weights.sum() + 1e-6 * weights[abs(weights).argmax()] - wanted) > most + rounding
    assert detected > 0.9 * small > 5


def convolved(cells, total):
    """Return the log coefficient by convolution of all weights."""
    sums, shift = np.ones(1), 0.0
    for i in range(cells.parameter.shape[0]):
        x, logw = log_weights_of(cells, i)
        shift += logsumexp(logw)
        sums, total = np.convolve(sums, np.exp(logw - logsumexp(logw))), total - int(x[0])
    return shift + np.log(sums[total])


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("zeros", [False, True])
def test_groups_against_convolution_and_windows(family, gaussian, zeros):
    cells, block, totals = problem(3, family, 0.1, 40, gaussian, 3.5, False, off=0.3, zeros=zeros)
    nodes = planned(cells, block, totals)
    value, out = evaluated(cells, block, totals, nodes)
    assert is_by_nodes(cells, block, totals, nodes) or "binomial" in family[:13]
    assert value[0] == pytest.approx(convolved(cells, totals[0]), abs=1e-9)
    worst, slope = errors((value, out), evaluated(cells, block, totals))
    assert worst < 1e-10
    assert slope < 1e-8


@pytest.mark.parametrize("column", [ETA, ALPHA, BETA, ZERO])
def test_derivatives_are_those_of_the_value(column):
    cells, block, totals = problem(5, "beta-binomial", 0.1, 20, False, 3 if column == ZERO else 4, False, off=0)
    cells.parameter[:, ALPHA] += 1
    cells.parameter[:, BETA] += 5
    nodes = planned(cells, block, totals)
    _, out = evaluated(cells, block, totals, nodes)
    for i in abs(out[:, column]).argsort()[-2:]:
        step = 1e-4 * max(abs(cells.parameter[i, column]), 0.1)
        values = []
        for side in (1, -1):
            moved = cells.parameter.copy()
            moved[i, column] += side * step
            values.append(evaluated(cells._replace(parameter=moved), block, totals, nodes)[0][0])
        assert out[i, column] == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5)


@pytest.mark.parametrize(
    ("seeds", "epsilon", "least"),
    [(range(10), 0.2, 2), pytest.param(range(100, 300), None, 60, marks=pytest.mark.deep)],
)
def test_random_cells_against_integer_windows(seeds, epsilon, least):
    served = 0
    for seed in seeds:
        cells, block, totals = problem(seed, epsilon=epsilon, groups=1 + seed % 3, zeros=seed % 2 == 1)
        nodes = planned(cells, block, totals)
        served += is_by_nodes(cells, block, totals, nodes)
        worst, slope = errors(evaluated(cells, block, totals, nodes), evaluated(cells, block, totals))
        assert worst < 1e-10 + 1e-15 * totals.sum()  # rounding of gamma functions of large counts
        assert slope < 1e-8
    assert served >= least


AGAINST_DIGITS = [
    Counts("negative binomial", 0.5, 10, 0),
    Counts("negative binomial", 5.0, 100, areas=24, typical=250),
    Counts("negative binomial", 0.3, 10, 3, "binomial dependents"),
    Counts("beta-binomial", 5.0, 10),
]


@pytest.mark.deep
@pytest.mark.parametrize("counts", AGAINST_DIGITS)
def test_densities_and_derivatives_against_40_digits(counts):
    """Of models, near the truth and one standard deviation of the prior away; benchmarks/accuracy.py has more."""
    exact, rng = ExactDensity(counts), np.random.default_rng(1)
    density = exact.model.logp_dlogp_function(ravel_inputs=True)
    for scale in (0.05, 1):
        theta = exact.mean + scale * rng.normal(size=len(exact.mean))
        value, slopes = exact.at(theta, np.eye(theta.size))
        found, gradient = density(theta)
        assert abs(float(float(found) - value)) < 1e-10
        np.testing.assert_allclose(gradient, [float(s) for s in slopes], rtol=1e-11, atol=1e-10)


@pytest.mark.deep
def test_an_error_of_1e_9_in_a_model_is_detected(monkeypatch):
    """All weights of one kind of cells are wrong by 1e-9."""

    def wrong(*arguments):
        nodes = plan_nodes(*arguments)
        m = int(nodes.kind[0, LAST])
        nodes.point[BASE * m : (BASE + 1) * m] += 1e-9
        return nodes

    monkeypatch.setattr(ops, "plan_nodes", wrong)
    exact = ExactDensity(AGAINST_DIGITS[0])
    value, _ = exact.at(exact.mean, [])
    assert 9e-10 < abs(float(float(exact.model.compile_logp()({"theta": exact.mean})) - value)) < 1e-8


def test_an_error_of_1e_9_is_detected():
    """One weight is wrong so that the density is wrong by 1e-9."""
    cells, block, totals = problem(2, "negative binomial", 0.1, 40, False, 6, False, off=0)
    exact, nodes = evaluated(cells, block, totals), planned(cells, block, totals)
    assert errors(evaluated(cells, block, totals, nodes), exact)[0] < 1e-11
    kind = nodes.kind[int(nodes.cell[0, 0])]
    m = int(kind[LAST] - kind[FIRST])
    base = nodes.point[POINT * int(kind[FIRST]) :][BASE * m : (BASE + 1) * m]
    base += 1e-9
    assert 9e-10 < errors(evaluated(cells, block, totals, nodes), exact)[0] < 1.1e-9


@pytest.mark.parametrize("epsilon", [0.1, 0.01])
def test_shapes_below_1_are_summed_by_nodes(epsilon):
    """Weights that are convex on both sides of the released number."""
    for seed, shape in enumerate((0.3, 0.7, 0.99)):
        cells, block, totals = problem(seed, "negative binomial", epsilon, 67, False, 7.0, False, off=0.0)
        mean = cells.parameter[:, ALPHA] / np.expm1(-cells.parameter[:, ETA])
        cells.parameter[:, ETA], cells.parameter[:, ALPHA] = np.log(mean / (mean + shape)), shape
        nodes = planned(cells, block, totals)
        assert is_by_nodes(cells, block, totals, nodes)
        assert max(errors(evaluated(cells, block, totals, nodes), evaluated(cells, block, totals))) < 1e-9


def test_bounds_on_the_variation_of_tilted_weights_hold():
    """Half of the total variation bounds ``2 sin(u / 2) |phi(u)|``; the largest weight alone is too small."""
    too_small = without = 0
    for seed in range(60):
        cells, block, totals = problem(
            seed, *(("negative binomial", 0.3, 1, False, 2.5) if seed % 2 else (None, None, 1))
        )
        if seed % 2:
            cells.parameter[:, ALPHA] = 0.1  # a local maximum at 0, and one at the released number
        nodes, shift, p = planned(cells, block, totals), 0.05 * (seed % 3 - 1), cells.parameter[0]
        p[ZERO] = (0, 4, -4)[seed // 2 % 3]
        if not len(nodes.kind) or (cells.has[1] and p[BETA] < p[HIGH]):
            continue
        kind, m = nodes.kind[0], int(nodes.kind[0, LAST])
        w = np.zeros(3 * m)
        fixed_nodes._log_f(nodes.point, kind, cells.has, p, w)
        _, log_p = log_weights_of(cells, 0, shift)
        log_p -= shift * kind[fixed_nodes.CENTRE]
        log_z = log_p.max() + w[0] + nodes.point[fixed_nodes.RISE * m]
        variation = np.abs(np.diff(np.exp(log_p - log_p.max()), prepend=0, append=0)).sum() / 2
        bound = fixed_nodes._variation(nodes.point, kind, cells.has, p, w, shift, log_z, np.empty(m))
        assert np.log(variation) - 1e-9 < np.log(bound)
        below = p[ALPHA] < p[LOW] and (cells.segment[:, 5] < 0).any()
        if cells.has[0] and p[ZERO] >= 0:
            assert np.log(bound) < np.log(variation) + (1.5 if below else 0.7)
        too_small += variation > 1 + 1e-9
        p[ZERO] = 0  # wrong: the bound for another weight of 0
        bound = fixed_nodes._variation(nodes.point, kind, cells.has, p, w, shift, log_z, np.empty(m))
        without += np.log(variation) > np.log(bound) + 1e-9
    assert min(too_small, without) > 3


def test_a_count_of_a_cell_without_rate_is_0():
    cells, block, totals = problem(2, "negative binomial", 0.5, 20, False, 2, False, off=0)
    cells.parameter[3, ETA] = -np.inf
    value, out = evaluated(cells, block, totals, planned(cells, block, totals))
    expected, slope = evaluated(cells, block, totals)
    assert out[3, ETA] == 0
    assert out[3, ALPHA] == pytest.approx(0, abs=1e-15)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(out, slope, rtol=1e-9)


def test_impossible_totals_and_parameters_have_density_0_or_nan():
    cells, block, totals = problem(2, "binomial", 0.5, 20, False, 2, False)
    nodes = planned(cells, block, totals)
    assert evaluated(cells, block, totals - 10**6, nodes)[0][0] == -np.inf
    for impossible in (np.nan, 1e15, -1e28):
        cells.parameter[3, ETA] = impossible
        assert np.isnan(evaluated(cells, block, totals, nodes)[0][block[3]])


def simulate(rng, shape, totals):
    """Draw parameters, a table, and its release; noise whose sums are 0 by rejection."""
    grid, block, z = grid_of(shape), np.arange(D) % totals, np.zeros(D, np.int64)
    level, alpha = grid[rng.integers(len(grid))]
    x = rng.poisson(rng.gamma(alpha, SIZES * np.exp(level) / alpha))
    for b in range(totals):
        z[block == b] = 1
        while z[block == b].sum() != 0:
            drawn = np.diff(rng.geometric(1 - np.exp(-EPSILON), (500, np.sum(block == b), 2)))[..., 0]
            z[block == b] = drawn[(drawn.sum(axis=1) == 0).argmax()]
    return {"level": level, "shape": alpha}, (x + z, np.bincount(block, x).astype(int))


def grid_of(shape):
    return np.array([(level, a) for level in LEVELS for a in shape * np.exp(np.linspace(-1, 1, 6))])


def cells_of(level, shape, segments):
    mu, p = SIZES * np.exp(level), np.zeros((D, gamma_ratios.PARAMETERS))
    p[:, LOW], p[:, ALPHA], p[:, ETA] = 1, shape, np.log(mu / (mu + shape))
    normaliser = np.sum(shape * np.log(shape / (mu + shape)))
    return GammaRatios(p, np.array([1, 0, 0]), *segments), normaliser


def on_grid(given, shape, epsilon=EPSILON):
    """Yield the cells of each point of the grid, with log normalizer, blocks, totals and nodes."""
    y, total = given
    segments, block, nodes = segments_of(y, epsilon), np.arange(D) % len(total), None
    for at in grid_of(shape):
        cells, normaliser = cells_of(*at, segments)
        nodes = planned(cells, block, total) if nodes is None else nodes
        yield normaliser, (cells, block, total, nodes)


def infer(given, rng, shape, **wrong):
    """Draw parameters on the grid given a release and the totals."""
    grid = grid_of(shape)
    log_p = np.array([normaliser + evaluated(*given)[0].sum() for normaliser, given in on_grid(given, shape, **wrong)])
    p = np.exp(log_p - log_p.max())
    chosen = grid[rng.choice(len(grid), size=40, p=p / p.sum())]
    return {"level": chosen[:, 0], "shape": chosen[:, 1]}


def p_values(data_sets, shape, totals, **wrong):
    def draw(given, rng):
        return infer(given, rng, shape, **wrong)

    found = calibrate(lambda rng: simulate(rng, shape, totals), draw, replicates=data_sets, rng=1)
    return {name: uniformity(ranks) for name, ranks in found.items()}


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(("shape", "totals"), [(0.5, 1), (1.0, 3), (5.0, 3)])
def test_nodes_are_used(shape, totals):
    rng, by_nodes = np.random.default_rng(1), []
    for _ in range(3):
        _, given = simulate(rng, shape, totals)
        by_nodes += [is_by_nodes(*problem) for _, problem in on_grid(given, shape)]
    assert np.mean(by_nodes) > 0.7


@pytest.mark.deep
@pytest.mark.parametrize("totals", [1, 3])
@pytest.mark.parametrize("shape", [0.5, 1.0, 5.0])
def test_ranks_are_uniform(shape, totals):
    found = p_values(100, shape, totals)
    assert min(found.values()) > RARE, found


@pytest.mark.deep
def test_another_scale_of_the_noise_is_detected():
    assert min(p_values(200, 5.0, 1, epsilon=EPSILON / 2.5).values()) < RARE
