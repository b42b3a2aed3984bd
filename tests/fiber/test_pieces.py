"""Log normalisers by pieces against high-precision sums, and sums of cells from their cumulants against convolution."""

import mpmath
import numpy as np
import pytest
from groups_of_cells import (
    binomial,
    block,
    convolved,
    cut,
    evaluated,
    gaussian,
    l1,
    negative_binomial,
    poisson,
    rows_of,
)
from scipy.special import logsumexp

from ppdinf.fiber.sums_given_totals import totals
from ppdinf.fiber.sums_given_totals.cell_windows import Weights
from ppdinf.fiber.sums_given_totals.cumulants import by_cumulants
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import BEND, BEYOND, ORDER, REACH, placed


def place(pieces, logw, row, eta):
    number, by = np.empty(row.size, np.int64), np.empty(row.size)
    w = Weights(logw, totals.upper_envelope(logw), row, eta)
    placed(pieces, w, np.arange(row.size), 0.0, number, by)
    return number, by


PROBLEMS = [
    (poisson, l1, [-3, 0, 1, 7, 40], 0.5),
    (poisson, l1, [0, 2], 2.0),
    (poisson, l1, [5000], 0.25),
    (poisson, gaussian, [-2, 0, 3, 25, 400], 0.3),
    (binomial, l1, [0, 12, 61], 0.4),
    (negative_binomial, gaussian, [1, 30], 0.4),
]


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
            for eta, number, by in zip(etas, numbers, shifts, strict=True):
                if number < 0:
                    continue
                seen += 1
                piece = pieces.table[number]
                weights = [mpmath.exp(mpmath.mpf(row[k]) + mpmath.mpf(eta) * int(k)) for k in allowed]
                mass = mpmath.fsum(weights)
                mean = mpmath.fsum(w * int(k) for w, k in zip(weights, allowed, strict=True)) / mass
                value = np.polyval(piece[ORDER - 1 :: -1], by)
                slope = np.polyval(np.arange(1, ORDER)[::-1] * piece[ORDER - 1 : 0 : -1], by)
                assert float(abs(value - mpmath.log(mass))) < 1e-13 * (10 + abs(value) + width)
                assert float(abs(slope - mean)) < 1e-11 * (1 + abs(slope))
                for share in (0.5, 1.0):
                    u = share * piece[REACH]
                    phi = mpmath.fsum(w * mpmath.expj(u * int(k)) for w, k in zip(weights, allowed, strict=True)) / mass
                    off = abs(np.exp(np.polyval(piece[ORDER - 1 :: -1], by + 1j * u) - value) / complex(phi) - 1)
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


BLOCKS = [
    (poisson, l1, 0.25, 500, 2.3, 0.0),
    (poisson, l1, 0.25, 500, 2.3, 3.0),
    (poisson, l1, 0.5, 300, -1.5, 0.5),
    (poisson, gaussian, 0.25, 60, 2.3, 0.0),
    (poisson, gaussian, 0.25, 60, 2.3, -2.0),
    (poisson, gaussian, 0.7, 400, 0.0, 0.0),
    (binomial, l1, 0.3, 200, -1.0, 1.0),
    (binomial, gaussian, 0.3, 40, -1.0, 0.0),
    (negative_binomial, gaussian, 0.4, 400, -0.7, 0.0),
]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("family", "noise", "epsilon", "d", "level", "off"), BLOCKS)
def test_sums_of_cells_against_convolution_and_rows(family, noise, epsilon, d, level, off):
    problem = logw, row, eta, lo, _, total = block(family, noise, epsilon, d, level, 7, off)
    pieces = cut(logw)
    w, means = Weights(logw, totals.upper_envelope(logw), row, eta), np.empty(d)
    part = by_cumulants(w, pieces, np.arange(d), int(total[0] - lo.sum()), means)
    assert not np.isnan(part)  # the tested method
    value, found = evaluated(*problem, pieces)
    assert value[0] == pytest.approx(part + eta @ lo, rel=1e-14)
    by_row = evaluated(*problem)
    assert value[0] == pytest.approx(by_row[0][0], rel=1e-10)
    np.testing.assert_allclose(found, by_row[1], rtol=1e-9, atol=1e-9)
    log_z = logsumexp(logw + eta[:, None] * np.arange(logw.shape[1]), axis=1)
    laws = np.exp(logw + eta[:, None] * np.arange(logw.shape[1]) - log_z[:, None])
    at = total[0] - lo.sum()
    exact = log_z.sum() + np.log(convolved(laws)[at]) + eta @ lo
    assert value[0] == pytest.approx(exact, rel=1e-10)
    for i in (0, d - 1):
        others, k = convolved(np.delete(laws, i, axis=0)), np.arange(logw.shape[1])
        weight = laws[i] * others[at - k]
        assert found[i] == pytest.approx(lo[i] + weight @ k / weight.sum(), rel=1e-8)
    again = evaluated(*problem, pieces)
    np.testing.assert_array_equal(found, again[1])


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


def test_free_cells():
    logw, row, eta, lo, blocks, _ = block(poisson, l1, 0.5, 50, 1.0, 3)
    problem = logw, row, eta, lo, blocks - 1, np.zeros(0, np.int64)
    value, means = evaluated(*problem, cut(logw))
    right = evaluated(*problem)
    assert value[-1] == pytest.approx(right[0][-1], rel=1e-13)
    np.testing.assert_allclose(means, right[1], rtol=1e-11, atol=1e-12)
    eta[:3] = -np.inf, 40.0, -300.0  # an empty cell, outside of all pieces
    value, means = evaluated(*problem, cut(logw))
    right = evaluated(*problem)
    assert value[-1] == pytest.approx(right[0][-1], rel=1e-13)
    np.testing.assert_allclose(means, right[1], rtol=1e-11, atol=1e-12)


def test_rows_are_used_if_pieces_are_not_usable():
    """Cells outside of pieces, extreme or impossible totals, weights on a sublattice, and few pieces use the rows."""
    problem = logw, row, eta, lo, blocks, total = block(poisson, gaussian, 0.25, 60, 2.3, 7)
    pieces = cut(logw)
    far = eta.copy()
    far[5] = 30.0
    even = np.where(np.arange(logw.shape[1]) % 2, -np.inf, logw)
    beyond = np.array([total[0] + 10**6])
    cases = [
        ((logw, row, far, lo, blocks, total), pieces),
        ((logw, row, eta, lo, blocks, total + 900), pieces),
        ((logw, row, eta, lo, blocks, beyond), pieces),
        ((even, row, eta, lo, blocks, total // 2 * 2 + lo.sum() % 2), cut(even)),
        (problem, cut(logw, 3)),
    ]
    for case, pieces in cases:
        for found, right in zip(evaluated(*case, pieces), evaluated(*case), strict=True):
            np.testing.assert_array_equal(found, right)
