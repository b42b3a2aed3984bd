"""Gibbs updates of a table with noisy sums of its histogram, against all tables; without the sums they are wrong."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from chi_square import p_value_of_tables

import ppdinf as ppd
from ppdinf.counts.noisy_histogram import PURE
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.gibbs.histogram_gibbs import draw_shift
from ppdinf.fiber.gibbs.table_update import advance, directions
from ppdinf.invariants import Public
from ppdinf.lattice.moves import connected_moves

N, CELLS, DRAWS = 4, 4, 6000
MEASURED = {
    "cyclic-laplace": [6, -3, 0, 1],
    "laplace": [5, -2, 1, 2],
    "privelet": [4, 3, 5, -3],
    "hierarchical": [4, 5, -2, 1, 2, 0, 0, 0, 1, *[0] * 8],
}


def problem(name, public):
    """Return cells with counts 0 to 3 in wider windows, with weights and a gap."""
    rng = np.random.default_rng(8)
    system = public.on(np.array([1, 2, 0, 3]))
    lower = np.array([-2, -1, 0, -1])
    counts = lower[:, None] + np.arange(8)
    log_weights = np.where((counts >= 0) & (counts < N), rng.normal(0, 0.7, counts.shape), -np.inf)
    log_weights[2, 1] = -np.inf
    noise = PURE[name].noise(np.array(MEASURED[name]), N, Fraction(3, 2) if name == "cyclic-laplace" else Fraction(3))
    moves = connected_moves(system.structure, bounds="box", shape=(CELLS,))
    return Fiber(system, lower, log_weights, moves, histogram=noise), log_weights


def listed(fiber, log_weights, with_noise=True):
    tables = np.array([x for x in product(range(N), repeat=CELLS) if (fiber.system.A @ x == fiber.system.values).all()])
    log_p = log_weights[np.arange(CELLS), tables - fiber.lower].sum(axis=1)
    if with_noise:
        log_p = log_p + [fiber.histogram.log_density(table) for table in tables]
    weight = np.exp(log_p - log_p.max())
    return tables, weight / weight.sum()


def drawn(fiber, log_weights, factor=None):
    rng, x, found, each = np.random.default_rng(2), np.array([1, 2, 0, 3]), [], 5 * CELLS
    starts, cells, steps = directions(fiber, each * DRAWS, rng)
    for k in range(DRAWS):
        along = starts[each * k : each * (k + 1) + 1], cells, steps
        x = advance(fiber, x, [log_weights], along, rng, factor)
        found.append(x)
    return np.array(found)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize("public", [Public(), ppd.invariants.total()], ids=["free", "total"])
def test_updates_against_all_tables(name, public):
    """Eight chi-square tests of 6,000 nearly independent draws (p above 1e-4); ignoring the sums is rejected."""
    fiber, log_weights = problem(name, public)
    tables, weight = listed(fiber, log_weights)
    assert p_value_of_tables(drawn(fiber, log_weights), tables, weight) > 1e-4
    assert p_value_of_tables(drawn(replace(fiber, histogram=None), log_weights), tables, weight) < 1e-9


@pytest.mark.deep
def test_updates_with_another_factor():
    """With a factor that depends on all cells, each direction is a proposal."""
    fiber, log_weights = problem("cyclic-laplace", Public())
    tables, weight = listed(fiber, log_weights)

    def factor(x):
        return 0.8 * abs(int(x.sum()) - 5)

    both = weight * np.exp([factor(table) for table in tables])
    draws = drawn(fiber, log_weights, factor)[::2]
    assert p_value_of_tables(draws, tables, both / both.sum()) > 1e-4 > p_value_of_tables(draws, tables, weight)


@pytest.mark.quick_cases(0)
def test_shifts_follow_their_law():
    """The quantiles of the shift at 40,000 numbers agree with its enumerated law within 3e-5."""
    for left, rate in ((np.array([3, -4, 0, 1]), 0.4), (np.array([7, 7]), 0.05)):
        c = np.arange(-400, 401)
        law = np.exp(-rate * np.abs(left[:, None] + c).sum(axis=0))
        found = [draw_shift(left, rate, (k + 0.5) / 40000) for k in range(40000)]
        share = np.bincount(np.array(found) + 400, minlength=c.size) / 40000
        assert np.abs(share - law / law.sum()).max() < 3e-5
