"""Sums of a few cells from polynomials at fixed frequencies, against convolution, rows and high-precision sums."""

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
)
from scipy.special import logsumexp

from ppdinf.fiber.sums_given_totals import frequency_grids, totals
from ppdinf.fiber.sums_given_totals import frequency_polynomials as poly
from ppdinf.fiber.sums_given_totals.cell_windows import Weights
from ppdinf.fiber.sums_given_totals.fixed_frequencies import by_frequencies

BLOCKS = [
    (poisson, l1, 0.5, 20, 3.5, 0.0), (poisson, l1, 0.5, 60, 0.5, 0.0), (poisson, l1, 0.5, 60, 0.5, 1.5),
    (poisson, l1, 0.25, 45, 2.0, -1.5), (poisson, l1, 0.1, 30, 1.0, 0.0), (poisson, l1, 2.0, 6, 1.0, 0.0),
    (poisson, gaussian, 0.25, 20, 2.3, 0.0), (poisson, gaussian, 0.25, 100, -1.0, 0.0),
    (binomial, l1, 0.3, 40, -1.0, 1.0), (binomial, gaussian, 0.3, 7, -1.0, 0.0),
    (negative_binomial, gaussian, 0.4, 30, -0.7, 0.0),
]  # fmt: skip


def on_grids(problem, most=2**24):
    """Return pieces of a block and their entries on a grid, for cells near their posterior means."""
    logw, row, eta, lo, blocks, total = problem
    n = blocks.size
    near = np.rint(evaluated(logw, row[:n], eta[:n], lo[:n], blocks, total)[1] - lo[:n])
    pieces = cut(logw)
    offsets = total - np.bincount(blocks, weights=lo[: blocks.size], minlength=total.size).astype(np.int64)
    return pieces, totals.grids_of(logw, row[: blocks.size], blocks, offsets, pieces, most, near)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("family", "noise", "epsilon", "d", "level", "off"), BLOCKS)
def test_sums_of_a_few_cells_against_convolution_and_rows(family, noise, epsilon, d, level, off):
    problem = logw, row, eta, lo, _, total = block(family, noise, epsilon, d, level, 7, off)
    pieces, grids = on_grids(problem)
    w, means = Weights(logw, totals.upper_envelope(logw), row, eta), np.empty(d)
    part = by_frequencies(w, pieces, grids, 0, np.arange(d), int(total[0] - lo.sum()), means)
    assert not np.isnan(part)  # the tested method
    value, found = evaluated(*problem, pieces, grids)
    assert value[0] == pytest.approx(part + eta @ lo, rel=1e-14)
    by_row = evaluated(*problem)
    assert value[0] == pytest.approx(by_row[0][0], rel=1e-10)
    np.testing.assert_allclose(found, by_row[1], rtol=1e-9, atol=1e-9)
    exact, of_ends = by_convolution(problem, (0, -1))
    assert value[0] == pytest.approx(exact, rel=1e-10)
    assert found[[0, -1]] == pytest.approx(of_ends, rel=1e-8)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("family", "noise", "epsilon", "d", "level", "off"), BLOCKS[1:11:3])
def test_polynomials_and_bounds_of_a_piece_on_a_grid(family, noise, epsilon, d, level, off):
    """On pieces, characteristic functions, decay and log moment generating functions are within bounds."""
    problem = logw, row, eta, *_ = block(family, noise, epsilon, d, level, 7, off)
    pieces, grids = on_grids(problem)
    (_, modulus, n), k, rng = grids.group[0], np.arange(logw.shape[1]), np.random.default_rng(3)
    with mpmath.workdps(40):
        for i in range(min(d, 6)):
            w = logw[row[i]]
            entry = _entry(grids, pieces, row[i], eta[i])
            x = rng.uniform(-entry[poly.HALF], entry[poly.HALF])
            at, middle = entry[poly.BASE] + entry[poly.HALF], int(entry[poly.MIDDLE])
            allowed = np.flatnonzero(w > -np.inf)
            z = mpmath.exp(mpmath.mpf(entry[poly.LOG_Z]))
            weights = [mpmath.exp(mpmath.mpf(w[j]) + mpmath.mpf(at) * int(j) + x * int(j - middle)) for j in allowed]
            c = entry[poly.WAVES :].reshape(poly.TERMS, 2, n)
            served = min(n, modulus // 2 + 1)
            for j in (0, 1, served // 2, served - 1):
                angle = mpmath.mpf(2) * mpmath.pi * j / int(modulus)
                right = mpmath.fsum(
                    p * mpmath.expj(angle * int(a - middle)) for p, a in zip(weights, allowed, strict=True)
                )
                y = x / entry[poly.HALF]
                found = complex(np.polyval(c[::-1, 0, j], y), np.polyval(c[::-1, 1, j], y))
                assert abs(found - complex(right / z)) < entry[poly.LEFT_OUT] + 2e-14 * (10 + abs(entry[poly.LOG_Z]))
            assert entry[poly.LEFT_OUT] < 1e-12
            log_z, law = _law(w, k, at + x)
            beyond = 2 * np.pi * np.arange(n, modulus // 2 + 1) / modulus
            if beyond.size:
                size = np.abs(np.exp(1j * np.outer(beyond, k)) @ law).max()
                assert size <= np.exp(-entry[poly.DECAY]) + 1e-14
                assert np.log(size + 1e-9) > -1.3 * entry[poly.DECAY] - 0.6  # the bound of another row does not hold
            for s in range(2):
                rate = (2 * s - 1) * poly.RATE / modulus
                excess = _law(w, k, at + x + rate)[0] - log_z - rate * (law @ k)
                assert 0.4 * entry[poly.EXCESS + s] - 1e-9 < excess < entry[poly.EXCESS + s] + 1e-12


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_between_grid_points(seed):
    """Rows of lumps whose middle one dominates between grid points: possible cells that noise does not produce."""
    rng = np.random.default_rng(seed)
    k, modulus, n, half = np.arange(41), 90, 32, 0.25
    logw = np.full(41, -np.inf)
    at = np.sort(rng.choice(41, 6, replace=False))
    height = rng.normal(0, 1, 6)
    center = rng.normal(0, 0.3)
    logw[at] = height - 0.02 * (at - rng.uniform(5, 35)) ** 2
    if seed == 0:  # at -1 the left lump dominates, at 1 the right one, in between the lump without width
        logw[:] = -np.inf
        logw[[5, 6, 20, 34, 35]], center = [0.0, 0.0, 2.5, 0.0, 0.0], 0.0
    w = Weights(logw[None], totals.upper_envelope(logw[None]), np.zeros(1, np.int64), np.zeros(1))
    entry = np.empty(poly.width(n))
    poly.fill(w, 0, center, half, modulus, n, entry)
    beyond = 2 * np.pi * np.arange(n, modulus // 2 + 1) / modulus
    sizes, excesses = [], []
    for x in np.linspace(-half, half, 401):
        log_z, law = _law(logw, k, center + x)
        sizes.append(np.abs(np.exp(1j * np.outer(beyond, k)) @ law).max())
        rates = -poly.RATE / modulus, poly.RATE / modulus
        excesses.append([_law(logw, k, center + x + rate)[0] - log_z - rate * (law @ k) for rate in rates])
    assert max(sizes) <= np.exp(-entry[poly.DECAY]) + 1e-14
    assert (np.max(excesses, axis=0) <= entry[poly.EXCESS : poly.EXCESS + 2]).all()


def _law(w, k, eta):
    log_z = logsumexp(w + eta * k)
    return log_z, np.exp(w + eta * k - log_z)


def _entry(grids, pieces, row, eta):
    """Return the piece on the first grid that contains a natural parameter."""
    begin, _, start, scale = pieces.first[row]
    first, count = pieces.unit[start + int(np.floor(eta * scale)) - begin]
    n = first + int((eta * scale - np.floor(eta * scale)) * count)
    at, parts = grids.place[0, 2 * n : 2 * n + 2]
    size = poly.width(grids.group[grids.group[:, 0] == 0][0, 2])
    at += size * min(int((eta - grids.table[at + poly.BASE]) / (2 * grids.table[at + poly.HALF])), parts - 1)
    return grids.table[at : at + size]


@pytest.mark.parametrize("near", [None, -50, 0, 1000])
def test_sums_do_not_depend_on_expected_offsets(near):
    """Grids for wrong expected offsets may not be usable, which affects only the time."""
    problem = logw, row, _, lo, blocks, total = block(poisson, l1, 0.5, 25, 2.0, 11)
    offsets, said = total - lo.sum(), None if near is None else np.full(row.size, near)
    pieces = cut(logw)
    grids = totals.grids_of(logw, row, blocks, offsets, pieces, 2**24, said)
    (value, means), (right, right_means) = evaluated(*problem, pieces, grids), evaluated(*problem)
    np.testing.assert_allclose(value, right, rtol=1e-10)
    np.testing.assert_allclose(means, right_means, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("epsilon", "level", "d", "has_grid"), [(0.1, 1.0, 20, True), (0.02, 6.9, 6, False)])
def test_groups_with_too_wide_cells_have_no_grid(epsilon, level, d, has_grid, monkeypatch):
    """Without the check they have a grid, but no evaluation near the likely offsets uses it."""
    problem = logw, row, eta, lo, _, total = block(poisson, l1, epsilon, d, level, 3)
    assert (on_grids(problem)[1].group[0, 0] >= 0) == has_grid
    monkeypatch.setattr(frequency_grids, "_fit", lambda *arrays: np.ones(len(logw), dtype=bool))
    pieces, grids = on_grids(problem)
    assert grids.group[0, 0] >= 0
    w, means = Weights(logw, totals.upper_envelope(logw), row, eta), np.empty(d)
    part = by_frequencies(w, pieces, grids, 0, np.arange(d), int(total[0] - lo.sum()), means)
    assert np.isnan(part) != has_grid


@pytest.mark.parametrize("term", [0, 1, 2])
def test_a_relative_error_of_1e_6_in_a_polynomial_is_detected(term):
    problem = _, row, eta, *_ = block(poisson, l1, 0.5, 60, 0.5, 7)
    pieces, grids = on_grids(problem)
    value, means = evaluated(*problem)
    entry = _entry(grids, pieces, row[0], eta[0])
    entry[poly.WAVES + 2 * grids.group[0, 2] * term + 1] += 1e-6  # real part at the first nonzero frequency
    wrong_value, wrong_means = evaluated(*problem, pieces, grids)
    off = abs(wrong_value[0] - value[0]) > 1e-10 * abs(value[0])
    assert off or not np.allclose(wrong_means, means, rtol=1e-9, atol=1e-9)


def test_several_groups_share_grids():
    """Groups with too few cells, several sizes, an extreme total, cells outside of pieces, and a free cell."""
    problem = logw, row, eta, lo, blocks, total = of_several_groups([4, 20, 30, 25, 20, 1])
    pieces, grids = on_grids((logw, row, eta, lo, blocks[:-1], total))
    assert grids.group[0, 0] == -1
    assert (grids.group[[1, 2, 4], 0] >= 0).all()
    eta[blocks == 4] = 30.0
    eta[5] = -np.inf  # an empty cell
    (value, means), (right, right_means) = evaluated(*problem, pieces, grids), evaluated(*problem)
    np.testing.assert_allclose(value, right, rtol=1e-10)
    np.testing.assert_allclose(means, right_means, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(means[blocks == 4], right_means[blocks == 4])
    none = on_grids((logw, row, eta, lo, blocks[:-1], total), most=10)[1]
    assert not none.table.size
    assert (none.group[:, 0] == -1).all()
