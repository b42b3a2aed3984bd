"""Sums of cells of exponential families by cumulants and by Gauss nodes, against convolution, rows and 40 digits."""

import mpmath
import numpy as np
import pytest
from groups_of_cells import (
    binomial,
    block,
    by_convolution,
    cut,
    evaluated,
    gaussian,
    l1,
    negative_binomial,
    of_several_groups,
    poisson,
    rows_of,
)
from scipy.special import logsumexp

from ppdinf.fiber.sums_given_totals import totals
from ppdinf.fiber.sums_given_totals.cell_windows import Weights
from ppdinf.fiber.sums_given_totals.cumulants import by_cumulants
from ppdinf.fiber.sums_given_totals.gauss_nodes import (
    CENTER,
    DECAY,
    ERROR,
    GRID,
    LEVEL,
    LEVELS,
    LOG_NORMALISER,
    LOG_Z,
    MARGIN,
    MIDDLE,
    NODE,
    NODES,
    STEP,
    STEPS,
    WEIGHT,
    gauss_rule,
)
from ppdinf.fiber.sums_given_totals.node_sums import by_nodes
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import BEND, BEYOND, ORDER, REACH, placed

PROBLEMS = [
    (poisson, l1, [-3, 0, 1, 7, 40], 0.5),
    (poisson, l1, [0, 2], 2.0),
    (poisson, l1, [5000], 0.25),
    (poisson, gaussian, [-2, 0, 3, 25, 400], 0.3),
    (binomial, l1, [0, 12, 61], 0.4),
    (negative_binomial, gaussian, [1, 30], 0.4),
]
BY_CUMULANTS = [
    (poisson, l1, 0.25, 500, 2.3, 0.0), (poisson, l1, 0.25, 500, 2.3, 3.0), (poisson, l1, 0.5, 300, -1.5, 0.5),
    (poisson, gaussian, 0.25, 60, 2.3, 0.0), (poisson, gaussian, 0.25, 60, 2.3, -2.0),
    (poisson, gaussian, 0.7, 400, 0.0, 0.0), (binomial, l1, 0.3, 200, -1.0, 1.0),
    (binomial, gaussian, 0.3, 40, -1.0, 0.0),
    (negative_binomial, gaussian, 0.4, 400, -0.7, 0.0),
]  # fmt: skip
BY_NODES = [
    (poisson, l1, 0.1, 67, 5.0, 0.0), (poisson, l1, 0.1, 40, 6.5, 1.5), (poisson, l1, 0.05, 60, 2.0, -1.0),
    (poisson, l1, 0.5, 67, 3.5, 0.0), (poisson, gaussian, 0.02, 30, 6.0, 0.0), (binomial, l1, 0.1, 60, -1.0, 0.0),
    (negative_binomial, l1, 0.1, 80, -3.5, 0.0),
]  # fmt: skip


def place(pieces, logw, row, eta):
    number, by = np.empty(row.size, np.int64), np.empty(row.size)
    placed(pieces, Weights(logw, totals.upper_envelope(logw), row, eta), np.arange(row.size), 0.0, number, by)
    return number, by


def nodes_of(problem):
    logw, row, _, lo, _, _ = problem
    return totals.node_pieces(logw, np.isin(np.arange(len(logw)), row), evaluated(*problem)[1] - lo, 10**6)


def by(method, problem, made):
    """Return log coefficient and means by cumulants or nodes alone, or nan if they are not accurate enough."""
    logw, row, eta, lo, _, total = problem
    w, means = Weights(logw, totals.upper_envelope(logw), row, eta), np.zeros(eta.size)
    part = method(w, made, np.arange(eta.size), int(total[0] - lo.sum()), means)
    return part + eta @ lo, means + lo


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(("family", "noise", "released", "epsilon"), PROBLEMS)
def test_polynomials_against_high_precision_sums(family, noise, released, epsilon):
    """K and K' are accurate to rounding, and characteristic functions are within the stated bounds, on pieces."""
    rng = np.random.default_rng(4)
    _, logw = rows_of(family, noise, released, epsilon)
    pieces = cut(logw)
    assert (pieces.unit[:, 1] > 0).mean() > 0.9
    width, seen = logw.shape[1], 0
    with mpmath.workdps(40):
        for r, row in enumerate(logw):
            begin, units, _, scale = pieces.first[r]
            etas = (begin + rng.random(6) * units) / scale
            numbers, shifts = place(pieces, logw, np.full(6, r), etas)
            allowed = np.flatnonzero(row > -np.inf)
            for eta, number, shift in zip(etas, numbers, shifts, strict=True):
                if number < 0:
                    continue
                seen += 1
                piece = pieces.table[number]
                weights = [mpmath.exp(mpmath.mpf(row[k]) + mpmath.mpf(eta) * int(k)) for k in allowed]
                mass = mpmath.fsum(weights)
                mean = mpmath.fsum(w * int(k) for w, k in zip(weights, allowed, strict=True)) / mass
                value = np.polyval(piece[ORDER - 1 :: -1], shift)
                slope = np.polyval(np.arange(1, ORDER)[::-1] * piece[ORDER - 1 : 0 : -1], shift)
                assert float(abs(value - mpmath.log(mass))) < 1e-13 * (10 + abs(value) + width)
                assert float(abs(slope - mean)) < 1e-11 * (1 + abs(slope))
                for share in (0.5, 1.0):
                    u = share * piece[REACH]
                    phi = mpmath.fsum(w * mpmath.expj(u * int(k)) for w, k in zip(weights, allowed, strict=True)) / mass
                    off = abs(np.exp(np.polyval(piece[ORDER - 1 :: -1], shift + 1j * u) - value) / complex(phi) - 1)
                    assert off < np.expm1(piece[BEYOND] * u**ORDER) + 1e-12 * (1 + slope)
    assert seen > 3 * len(released)


@pytest.mark.parametrize(("family", "noise", "released", "epsilon"), PROBLEMS)
def test_characteristic_functions_are_below_their_bound_everywhere(family, noise, released, epsilon):
    rng = np.random.default_rng(5)
    _, logw = rows_of(family, noise, released, epsilon)
    pieces = cut(logw)
    u, k = np.linspace(1e-3, np.pi, 400), np.arange(logw.shape[1])
    wave = np.exp(1j * np.outer(u, k))
    for r, row in enumerate(logw):
        begin, units, _, scale = pieces.first[r]
        etas = (begin + rng.random(30) * units) / scale
        for eta, number in zip(etas, place(pieces, logw, np.full(30, r), etas)[0], strict=True):
            if number >= 0:
                law = np.exp(row + eta * k - logsumexp(row + eta * k))
                piece = pieces.table[number]
                bound = np.exp(-0.5 * piece[BEND] * np.minimum(u, piece[REACH]) ** 2)
                assert (np.abs(wave @ law) < bound * (1 + 1e-9) + 1e-14).all()
                # a wrong variant: the variance instead of the bound for all frequencies
                spread = law @ k**2 - (law @ k) ** 2
                assert spread < 1e-2 or (np.abs(wave @ law) > 1.001 * np.exp(-0.55 * spread * u**2)).any()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("method", "case"), [*((by_nodes, case) for case in BY_NODES), *((by_cumulants, case) for case in BY_CUMULANTS)]
)
def test_sums_against_convolution_and_rows(method, case):
    problem = block(*case[:5], 7, case[5])
    made = cut(problem[0]) if method is by_cumulants else nodes_of(problem)
    value, means = by(method, problem, made)
    assert not np.isnan(value)  # the tested method
    served, found = evaluated(*problem, **{"pieces" if method is by_cumulants else "nodes": made})
    assert served[0] == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(found, means, rtol=1e-14)
    by_row = evaluated(*problem)
    assert value == pytest.approx(by_row[0][0], rel=1e-14, abs=1e-10 * max(1, abs(value) * (method is by_cumulants)))
    np.testing.assert_allclose(means, by_row[1], rtol=1e-9 if method is by_cumulants else 1e-11, atol=1e-8)
    exact, of_ends = by_convolution(problem, (0, -1))
    assert value == pytest.approx(exact, rel=1e-10 if method is by_cumulants else 1e-12)
    assert means[[0, -1]] == pytest.approx(of_ends, rel=1e-8)
    np.testing.assert_array_equal(by(method, problem, made)[1], means)


@pytest.mark.parametrize("entry", [0, 1, 2, 3])
def test_a_relative_error_of_1e_6_in_a_piece_is_detected(entry):
    problem = logw, row, eta, *_ = block(poisson, gaussian, 0.25, 60, 2.3, 7)
    pieces = cut(logw)
    value, means = evaluated(*problem)
    number, _ = place(pieces, logw, row, eta)
    pieces.table[number[0], entry] += 1e-6
    wrong_value, wrong_means = evaluated(*problem, pieces)
    if entry == 0:
        assert abs(wrong_value[0] - value[0]) > 1e-10 * abs(value[0])
    else:
        assert not np.allclose(wrong_means, means, rtol=1e-9, atol=1e-9)


def test_a_relative_error_of_1e_6_in_one_node_is_detected():
    problem = block(*BY_NODES[0][:5], 7)
    nodes = nodes_of(problem)
    good, exact = by(by_nodes, problem, nodes)[0], evaluated(*problem)[0][0]
    for entry in (NODE + 7, WEIGHT + 7):
        table = nodes.table.copy()
        table[:, entry] *= 1 + 1e-6
        bad, _ = by(by_nodes, problem, nodes._replace(table=table))
        assert abs(good - exact) < 1e-10 < abs(bad - exact)


def test_free_cells():
    logw, row, eta, lo, blocks, _ = block(poisson, l1, 0.5, 50, 1.0, 3)
    for far in ((), (-np.inf, 40.0, -300.0)):  # an empty cell, outside of all pieces
        eta[: len(far)] = far
        problem = logw, row, eta, lo, blocks - 1, np.zeros(0, np.int64)
        (value, means), right = evaluated(*problem, cut(logw)), evaluated(*problem)
        assert value[-1] == pytest.approx(right[0][-1], rel=1e-13)
        np.testing.assert_allclose(means, right[1], rtol=1e-11, atol=1e-12)


def test_rows_are_used_if_pieces_and_nodes_are_not_usable():
    """Cells outside of pieces, extreme or impossible totals, weights on a sublattice, and few pieces use the rows."""
    problem = logw, row, eta, lo, blocks, total = block(poisson, gaussian, 0.25, 60, 2.3, 7)
    far, made = np.where(row == 5, 30.0, eta), {"pieces": cut(logw), "nodes": nodes_of(problem)}
    even = np.where(np.arange(logw.shape[1]) % 2, -np.inf, logw)
    cases = [
        ((logw, row, far, lo, blocks, total), made),
        ((logw, row, eta, lo, blocks, total + 900), made),
        ((logw, row, eta, lo, blocks, total + 10**6), made),
        ((even, row, eta, lo, blocks, total // 2 * 2 + lo.sum() % 2), {"pieces": cut(even)}),
        (problem, {"pieces": cut(logw, 3)}),
    ]
    for case, given in cases:
        for found, right in zip(evaluated(*case, **given), evaluated(*case), strict=True):
            np.testing.assert_array_equal(found, right)


def test_groups_of_several_sizes():
    """Few and many cells, an extreme total, cells outside of pieces, an empty cell, and a free cell."""
    problem = logw, _, eta, lo, blocks, _ = of_several_groups([4, 40, 45, 30, 25, 1])
    near = np.rint(np.exp(eta)).astype(np.int64) - lo
    made = {"pieces": cut(logw), "nodes": totals.node_pieces(logw, np.ones(145, bool), near, 10**6)}
    eta[blocks == 4], eta[5] = 30.0, -np.inf
    (value, means), (right, right_means) = evaluated(*problem, **made), evaluated(*problem)
    np.testing.assert_allclose(value, right, rtol=1e-10)
    np.testing.assert_allclose(means, right_means, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(means[blocks == 4], right_means[blocks == 4])
    assert (means[blocks == 2] != right_means[blocks == 2]).any()  # not by rows


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


@pytest.mark.parametrize("level", [1.0, 3.5])
def test_rows_from_count_0_to_the_last_possible_count_have_nodes(level):
    logw, row, eta, lo, blocks, total = problem = block(poisson, l1, 0.5, 67, level, 9)
    wider = np.hstack([logw, np.full((67, 90), -np.inf)])
    from_zero = np.array([np.roll(weights, min(first, 0)) for weights, first in zip(wider, lo, strict=True)])
    clipped = from_zero, row, eta, np.maximum(lo, 0), blocks, total
    value, means = by(by_nodes, clipped, nodes_of(clipped))
    exact, expected = evaluated(*problem)
    assert value == pytest.approx(exact[0], rel=1e-10)
    np.testing.assert_allclose(means, expected, rtol=1e-8)


def random_problem(seed):
    """Return cells of any family and noise scale, some of them empty, some with equal weights."""
    rng = np.random.default_rng(seed)
    family = (poisson, poisson, binomial, negative_binomial)[rng.integers(4)]
    noise, epsilon = (l1, gaussian)[rng.integers(2)], np.exp(rng.uniform(np.log(1e-3), np.log(10)))
    level = rng.uniform(-2, 8) if family is poisson else rng.uniform(-3, -0.2)
    return block(family, noise, epsilon, int(rng.integers(24, 100)), level, seed, rng.uniform(-2, 2))


@pytest.mark.parametrize(
    ("seeds", "least"),
    [
        pytest.param(range(12), 6, marks=pytest.mark.quick_cases(0)),
        pytest.param(range(100, 300), 100, marks=pytest.mark.deep),
    ],
)
def test_random_problems_against_integer_windows(seeds, least):
    served = 0
    for seed in seeds:
        problem = random_problem(seed)
        value, means = by(by_nodes, problem, nodes_of(problem))
        if np.isnan(value):
            continue
        served += 1
        exact, expected = evaluated(*problem)
        assert abs(value - exact[0]) < 1e-10 * max(1, 1e-4 * abs(exact[0]))  # rounding of large logarithms
        assert (abs(means - expected) < 1e-8 * np.maximum(1, 1e-4 * abs(expected))).all()
    assert served >= least


@pytest.mark.parametrize("case", BY_NODES[1::2])
def test_bounds_of_pieces_hold_between_grid_points(case):
    problem = logw, *_ = block(*case[:5], 7, case[5])
    nodes, k, rng = nodes_of(problem), np.arange(logw.shape[1]), np.random.default_rng(3)
    for r in rng.choice(len(logw), 4, replace=False):
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
                        further = (
                            np.sin(STEPS * step / 2) / np.sin(u / 2)
                            if g >= STEPS + 1 and piece[DECAY + STEPS] > 0
                            else 1
                        )
                        assert abs(phi) <= np.exp(-piece[DECAY + min(int(g), STEPS)]) * further * (1 + 1e-12)
                    if g < STEPS and u < np.pi:
                        found = tilted @ np.exp(1j * u * node) / tilted.sum()
                        assert abs(phi - found) <= piece[ERROR + int(g) + 1] + 5e-13
                levels = np.arange(-LEVELS, LEVELS + 1) / piece[LEVEL]
                for t in rng.uniform(-1, 1, 5) * MARGIN / (STEP * piece[GRID]):
                    log_normaliser = logsumexp(log_p + t * x) - piece[LOG_Z] - s * piece[MIDDLE]
                    above = np.interp(s + t, levels, piece[LOG_NORMALISER:NODE])
                    assert abs(s + t) <= levels[-1]
                    assert -1e-12 <= above - log_normaliser < 0.1
