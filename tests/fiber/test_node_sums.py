"""Sums of cells from their Gauss nodes, against integer windows, convolution and the stated bounds."""

import numpy as np
import pytest
from groups_of_cells import binomial, block, convolved, evaluated, gaussian, l1, negative_binomial, poisson
from scipy.special import logsumexp

from ppdinf.fiber.sums_given_totals import totals
from ppdinf.fiber.sums_given_totals.cell_windows import Weights
from ppdinf.fiber.sums_given_totals.gauss_nodes import (
    CENTER,
    DECAY,
    ERROR,
    GRID,
    LOG_Z,
    MARGIN,
    MIDDLE,
    NODE,
    NODES,
    SPREAD,
    STEP,
    STEPS,
    WEIGHT,
    gauss_rule,
)  # fmt: skip
from ppdinf.fiber.sums_given_totals.node_sums import by_nodes

BLOCKS = [
    (poisson, l1, 0.1, 67, 5.0, 0.0),
    (poisson, l1, 0.1, 40, 6.5, 1.5),
    (poisson, l1, 0.05, 60, 2.0, -1.0),
    (poisson, gaussian, 0.02, 30, 6.0, 0.0),
    (binomial, l1, 0.1, 60, -1.0, 0.0),
    (negative_binomial, l1, 0.1, 80, -3.5, 0.0),
]


def nodes_of(problem):
    logw, row, _, lo, _, _ = problem
    near = evaluated(*problem)[1] - lo
    return totals.node_pieces(logw, np.isin(np.arange(len(logw)), row), near, 10**6)


def by_nodes_of(problem, nodes):
    """Return log coefficient and means, or nan if nodes are not accurate enough."""
    logw, row, eta, lo, _, total = problem
    means = np.zeros(eta.size)
    w = Weights(logw, totals.upper_envelope(logw), row, eta)
    part = by_nodes(w, nodes, np.arange(eta.size), int(total[0] - lo.sum()), means)
    return part + eta @ lo, means + lo


@pytest.mark.parametrize("places", [1, 4, 20])
def test_a_rule_has_the_moments_of_its_measure(places):
    p = np.random.default_rng(places).gamma(0.5, size=50)
    p /= p.sum()
    k, node, weight = np.arange(50) - 7.0, np.zeros(places), np.zeros(places)
    gauss_rule(p, -7.0, node, weight)
    assert (weight >= 0).all()
    for r in range(2 * places):
        power = ((k - 18) / 25) ** r
        assert weight @ ((node - 18) / 25) ** r == pytest.approx(p @ power, abs=1e-13)


def test_a_rule_for_few_integers_has_the_integers_as_nodes():
    node, weight = np.zeros(20), np.zeros(20)
    gauss_rule(np.array([0.25, 0.5, 0.25]), 3.0, node, weight)
    assert node[:3].tolist() == [3, 4, 5]
    assert weight.tolist() == [0.25, 0.5, 0.25] + 17 * [0.0]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("family", "noise", "epsilon", "d", "level", "off"), BLOCKS)
def test_sums_by_nodes_against_convolution_and_rows(family, noise, epsilon, d, level, off):
    problem = logw, _, eta, lo, _, total = block(family, noise, epsilon, d, level, 7, off)
    nodes = nodes_of(problem)
    value, means = by_nodes_of(problem, nodes)
    assert not np.isnan(value)  # the tested method
    served, found = evaluated(*problem, nodes=nodes)
    assert served[0] == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(found, means, rtol=1e-14)
    by_row = evaluated(*problem)
    assert value == pytest.approx(by_row[0][0], rel=1e-14, abs=1e-10)
    np.testing.assert_allclose(means, by_row[1], rtol=1e-11, atol=1e-8)
    k = np.arange(logw.shape[1])
    log_z = logsumexp(logw + eta[:, None] * k, axis=1)
    laws = np.exp(logw + eta[:, None] * k - log_z[:, None])
    at = total[0] - lo.sum()
    assert value == pytest.approx(log_z.sum() + np.log(convolved(laws)[at]) + eta @ lo, rel=1e-12)


def random_problem(seed):
    """Return cells of any family and noise scale, some of them empty, some with equal weights."""
    rng = np.random.default_rng(seed)
    family = (poisson, poisson, binomial, negative_binomial)[rng.integers(4)]
    noise, epsilon = (l1, gaussian)[rng.integers(2)], np.exp(rng.uniform(np.log(1e-3), np.log(10)))
    level = rng.uniform(-2, 8) if family is poisson else rng.uniform(-3, -0.2)
    return block(family, noise, epsilon, int(rng.integers(24, 100)), level, seed, rng.uniform(-2, 2))


def compare(seeds):
    """Return the largest errors of log coefficients and means, and the number of problems solved by nodes."""
    served, worst, slope = 0, 0.0, 0.0
    for seed in seeds:
        problem = random_problem(seed)
        value, means = by_nodes_of(problem, nodes_of(problem))
        if np.isnan(value):
            continue
        exact, expected = evaluated(*problem)
        served += 1
        worst = max(worst, abs(value - exact[0]) / max(1, 1e-4 * abs(exact[0])))  # rounding of large logarithms
        slope = max(slope, np.max(abs(means - expected) / np.maximum(1, 1e-4 * abs(expected))))
    return worst, slope, served


@pytest.mark.quick_cases(0)
def test_random_problems_against_integer_windows():
    worst, slope, served = compare(range(12))
    assert served >= 6
    assert worst < 1e-10
    assert slope < 1e-8


@pytest.mark.deep
def test_many_random_problems_against_integer_windows():
    worst, slope, served = compare(range(100, 300))
    assert served >= 100
    assert worst < 1e-10
    assert slope < 1e-8


def test_a_relative_error_of_1e_6_in_one_node_is_detected():
    problem = block(*BLOCKS[0][:5], 7)
    nodes = nodes_of(problem)
    good, _ = by_nodes_of(problem, nodes)
    exact = evaluated(*problem)[0][0]
    for entry in (NODE + 9, WEIGHT + 9):
        table = nodes.table.copy()
        table[:, entry] *= 1 + 1e-6
        bad, _ = by_nodes_of(problem, nodes._replace(table=table))
        assert abs(good - exact) < 1e-10 < abs(bad - exact)


@pytest.mark.parametrize(("family", "noise", "epsilon", "d", "level", "off"), BLOCKS[1::2])
def test_bounds_of_pieces_hold_between_grid_points(family, noise, epsilon, d, level, off):
    problem = logw, *_ = block(family, noise, epsilon, d, level, 7, off)
    nodes, k, rng = nodes_of(problem), np.arange(logw.shape[1]), np.random.default_rng(3)
    for r in rng.choice(d, 4, replace=False):
        for n in rng.integers(nodes.first[r], nodes.first[r + 1] - 1, 4):
            piece = nodes.table[n]
            if piece[GRID] == 0:
                continue
            start, end, step = nodes.start[n], nodes.start[n + 1], 1 / piece[GRID]
            node, weight = piece[NODE : NODE + NODES], piece[WEIGHT : WEIGHT + NODES]
            for eta in rng.uniform(start, end, 5):
                log_p = logw[r] + eta * k
                log_z, s = logsumexp(log_p), eta - piece[CENTER]
                p, x = np.exp(log_p - log_z), k - piece[MIDDLE]
                tilted = weight * np.exp(s * node)
                assert piece[LOG_Z] + s * piece[MIDDLE] + np.log(tilted.sum()) == pytest.approx(log_z, abs=1e-11)
                for u in np.append(rng.uniform(0, STEPS * step, 20), rng.uniform(0, np.pi, 5)):
                    phi, g = p @ np.exp(1j * u * x), u / step
                    if u < np.pi:
                        assert abs(phi) <= np.exp(-piece[DECAY + min(int(g), STEPS)]) * (1 + 1e-12)
                    if g < STEPS and u < np.pi:
                        found = tilted @ np.exp(1j * u * node) / tilted.sum()
                        assert abs(phi - found) <= piece[ERROR + int(g) + 1] + 5e-13
                for t in rng.uniform(-1, 1, 5) * MARGIN / (STEP * piece[GRID]):
                    log_mgf = logsumexp(log_p + t * (k - p @ k)) - log_z
                    assert log_mgf <= 0.5 * t**2 * piece[SPREAD] * (1 + 1e-9)


def test_cells_outside_of_their_pieces_use_their_windows():
    problem = logw, row, eta, lo, blocks, total = block(*BLOCKS[0][:5], 7)
    nodes = nodes_of(problem)
    far = (logw, row, np.where(row == 3, eta - 30, eta), lo, blocks, total)
    assert np.isnan(by_nodes_of(far, nodes)[0])
    one, other = evaluated(*far), evaluated(*far, nodes=nodes)
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
