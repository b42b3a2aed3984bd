"""Updates of tables along lines, by slices and jointly with a parameter, against the exact law of all tables.

Chains by slices start at separate draws from the law, so that all chains are independent. Chi-square p-values of all
tables are above 1e-6 in 4 tests: false alarm rate 1 in 250,000 runs.

Each move starts at a separate draw from the law, so that all moves are independent for every acceptance rate. The
p-values of chi-square tests of all states are above 1e-6 in 16 tests: false alarm rate 1 in 60,000 runs.
"""

import itertools
from dataclasses import replace
from fractions import Fraction

import arviz as az
import chi_square
import numpy as np
import pymc as pm
import pytest
import scipy.sparse as sp
import xarray as xr
from chi_square import p_value
from scipy import stats
from scipy.special import gammaln

import ppdinf as ppd
from ppdinf._internal.pymc_compat import compile_pymc
from ppdinf.counts.noisy_histogram import PURE
from ppdinf.denoising.count_windows import published_windows
from ppdinf.denoising.table_gibbs import TableGibbs
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.fiber.gibbs import joint_move, line_gibbs
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.gibbs.line_gibbs import draw_shift
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums, log_weight_of_all, log_weights_of
from ppdinf.fiber.gibbs.table_update import advance, directions
from ppdinf.invariants import Public, margin, nonnegative
from ppdinf.lattice import connected_moves, margin_matrix
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.lattice.moves import connected_moves as moves_of
from ppdinf.lattice.rows import Rows

SWEEPS, CHAINS, DRAWS = 4, 2, 1000
LEAST = 500  # required effective draws
# cells with counts 0 to N - 1, and noisy sums of their histogram
N, CELLS, SETS = 4, 4, 6000
MEASURED = {
    "cumulative": [4, 5, -2, 2],
    "cyclic-laplace": [6, -3, 0, 1],
    "laplace": [5, -2, 1, 2],
    "privelet": [4, 3, 5, -3],
    "hierarchical": [4, 5, -2, 1, 2, 0, 0, 0, 1, *[0] * 8],
}
# three cells, and three noisy sums
WALKS, RARE, LOWER, WIDTH, SHAPE = 6000, 1e-6, np.array([-2, 1, 0]), 9, 0.6
TABLES = np.array(list(itertools.product(range(-2, 7), range(1, 10), range(9))))
SUMS = np.array([[1, 1, 0], [0, 1, 1], [2, 0, 1]])
Y = np.array([6, 9, 7])
MOVES = np.array([[1, 0, 0], [0, 1, 0], [0, 1, -1], [1, -1, 0], [1, -2, 1]])  # one public bound: x1 + x2 >= 3
SLOPE = np.array([-0.2, -0.1, -0.4])
RNG = np.random.default_rng(5)
TABLE = RNG.normal(0, 1, 40)  # log weights of the third sum from -5 on
CELL_WEIGHTS = RNG.normal(0, 1, (3, WIDTH))  # weights with several modes


def two_way_margins(dims):
    public = nonnegative()
    for pair in itertools.combinations(range(dims), 2):
        public = public & margin(*(f"dim_{k}" for k in pair))
    return public


def updated(table, rate, moves=None, epsilon="1/2"):
    """Return the fiber, log weights given known rates, and draws of shape (chains, draws, cells)."""
    release = ppd.Release(table, ppd.GeneralizedLaplace(two_way_margins(table.ndim), epsilon=epsilon))
    with pm.Model() as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    op = model["x"].owner.op
    fiber = op.fiber if moves is None else Fiber(op.fiber.system, op.fiber.lower, op.fiber.noise, moves)
    (law,) = (np.array(part) for part in compile_pymc([], op.conditional(model["x"]), mode="FAST_COMPILE")())
    draws = np.empty((CHAINS, DRAWS, table.size), dtype=np.int64)
    for chain, rng in enumerate(np.random.default_rng(1).spawn(CHAINS)):
        x = table.ravel().astype(np.int64)
        for draw in range(DRAWS):
            x = advance(fiber, x, [law], directions(fiber, SWEEPS * x.size, rng), rng)
            draws[chain, draw] = x
    return fiber, law, draws


def distance(fiber, law, draws):
    """Return the total variation distance of draws from the enumerated law, and the number of tables."""
    points = fiber_tables(fiber.system.A, fiber.system.values, fiber.system.B, fiber.system.limits)
    log = law[np.arange(points.shape[1]), points - fiber.lower].sum(axis=1)
    exact = np.exp(log - log.max())
    place = {tuple(point): k for k, point in enumerate(points.tolist())}
    seen = np.bincount([place[tuple(x)] for x in draws.reshape(-1, points.shape[1]).tolist()], minlength=len(points))
    return 0.5 * abs(seen / seen.sum() - exact / exact.sum()).sum(), len(points)


def twelve():
    """Return a 3-cycle in one layer against another: two tables that no cube connects."""
    cycle = np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]])
    move = np.stack([cycle, -cycle, np.zeros((3, 3), dtype=int)])
    return np.maximum(move, 0)


@pytest.mark.deep
def test_modes_without_a_connecting_cube_and_sparse_cubes_have_the_law_of_enumeration():
    for table, rate, epsilon in (
        (twelve(), 0.6, "1/100"),
        (np.random.default_rng(3).poisson(0.7, (3, 3, 3)), 0.7, "1/2"),
    ):
        fiber, law, draws = updated(table, rate, epsilon=epsilon)
        tv, number = distance(fiber, law, draws)
        assert number == 2 if rate == 0.6 else number > 5
        # E TV <= sqrt(K / n) / 2, and a draw changes TV by 1 / n: 4 sd, false alarm rate 1 in 15,000
        assert tv < 0.5 * np.sqrt(number / LEAST) + 4 * 0.5 / np.sqrt(LEAST)
        assert rate == 0.7 or (np.ptp(draws, axis=1).max(axis=1) > 0).all()


@pytest.mark.quick_cases(0)
def test_combinations_of_the_basis_alone_do_not_leave_a_mode():
    table = twelve()
    moves = connected_moves(margin_matrix((3, 3, 3), itertools.combinations(range(3), 2)), seconds=0)
    fiber, law, draws = updated(table, 0.6, moves, epsilon="1/100")
    assert distance(fiber, law, draws)[0] > 0.1


@pytest.mark.parametrize(("shape", "rate"), [((3, 3, 3), 2.0), ((2,) * 6, 3.0)])
@pytest.mark.deep
def test_chains_mix(shape, rate):
    table = np.random.default_rng(3).poisson(rate, shape)
    fiber, _, draws = updated(table, rate)
    cells = xr.DataArray(draws[..., ~fiber.system.structure.fixed], dims=("chain", "draw", "cell"))
    assert float(az.rhat(cells).max()) < 1.02
    assert float(az.ess(cells).min()) > LEAST


def problem(name, public):
    """Return cells with counts 0 to 3 in wider windows, with weights and a gap."""
    rng = np.random.default_rng(8)
    system = public.on(np.array([1, 2, 0, 3]))
    lower = np.array([-2, -1, 0, -1])
    counts = lower[:, None] + np.arange(8)
    log_weights = np.where((counts >= 0) & (counts < N), rng.normal(0, 0.7, counts.shape), -np.inf)
    log_weights[2, 1] = -np.inf
    noise = PURE[name].noise(np.array(MEASURED[name]), N, Fraction(3, 2) if name[0] == "c" else Fraction(3))
    moves = moves_of(system.structure, bounds="box", shape=(CELLS,))
    return Fiber(system, lower, Rows.each(log_weights), moves, histogram=noise), log_weights


def listed(fiber, log_weights, with_noise=True):
    tables = np.array(
        [x for x in itertools.product(range(N), repeat=CELLS) if (fiber.system.A @ x == fiber.system.values).all()]
    )
    log_p = log_weights[np.arange(CELLS), tables - fiber.lower].sum(axis=1)
    if with_noise:
        log_p = log_p + [fiber.histogram.log_density(table) for table in tables]
    weight = np.exp(log_p - log_p.max())
    return tables, weight / weight.sum()


def drawn(fiber, log_weights, factor=None):
    rng, x, found, each = np.random.default_rng(2), np.array([1, 2, 0, 3]), [], 5 * CELLS
    starts, cells, steps = directions(fiber, each * SETS, rng)
    for k in range(SETS):
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
    assert chi_square.p_value_of_tables(drawn(fiber, log_weights), tables, weight) > 1e-4
    assert chi_square.p_value_of_tables(drawn(replace(fiber, histogram=None), log_weights), tables, weight) < 1e-9


@pytest.mark.deep
def test_updates_with_another_factor():
    """With a factor that depends on all cells, each direction is a proposal."""
    fiber, log_weights = problem("cyclic-laplace", Public())
    tables, weight = listed(fiber, log_weights)

    def factor(x):
        return 0.8 * abs(int(x.sum()) - 5)

    both = weight * np.exp([factor(table) for table in tables])
    draws = drawn(fiber, log_weights, factor)[::2]
    assert (
        chi_square.p_value_of_tables(draws, tables, both / both.sum())
        > 1e-4
        > chi_square.p_value_of_tables(draws, tables, weight)
    )


@pytest.mark.quick_cases(0)
def test_shifts_follow_their_law():
    """The quantiles of the shift at 40,000 numbers agree with its enumerated law within 3e-5."""
    for left, rate in ((np.array([3, -4, 0, 1]), 0.4), (np.array([7, 7]), 0.05)):
        c = np.arange(-400, 401)
        law = np.exp(-rate * np.abs(left[:, None] + c).sum(axis=0))
        found = [draw_shift(left, rate, (k + 0.5) / 40000) for k in range(40000)]
        share = np.bincount(np.array(found) + 400, minlength=c.size) / 40000
        assert np.abs(share - law / law.sum()).max() < 3e-5


def posed():
    """Return log weights of cells, noisy sums of three kinds, and the law of all tables."""
    log_noise = np.where(LOWER[:, None] + np.arange(WIDTH) < 0, -np.inf, CELL_WEIGHTS)
    ends, first = np.array([0, 0, 0, TABLE.size]), np.array([0, 0, -5])
    measured = MeasuredSums(
        sp.csc_array(SUMS), Y, np.array([0.3, 0.0, 0.0]), np.array([0.0, 0.5, 0.0]), ends, first, TABLE
    )
    sums = TABLES @ SUMS.T
    law = log_noise[np.arange(3), TABLES - LOWER].sum(axis=1) + TABLES @ SLOPE
    positive = np.maximum(TABLES, 0)
    law += (gammaln(positive + SHAPE) - gammaln(positive + 1) - gammaln(SHAPE)).sum(axis=1)
    law += -0.15 * (Y[0] - sums[:, 0]) ** 2 - 0.5 * abs(Y[1] - sums[:, 1]) + TABLE[sums[:, 2] + 5]
    law[TABLES[:, 1] + TABLES[:, 2] < 3] = -np.inf
    weight = np.exp(law - law.max())
    return log_noise, measured, weight / weight.sum()


def p_value_of_states(listed, walk):
    """Return the chi-square p-value of final tables of chains from the law; the prior is listed below `listed`."""
    log_noise, measured, law = posed()
    counts = np.arange(float(listed))
    log_h = gammaln(counts + SHAPE) - gammaln(counts + 1) - gammaln(SHAPE)
    v = sp.csc_array(np.vstack([MOVES.T, MOVES[:, 1] + MOVES[:, 2]]))  # the last row is the slack
    along = v.indptr.astype(np.int64), v.indices.astype(np.int64), v.data.astype(np.int64)
    rng = np.random.default_rng(2)
    states, found = rng.choice(law.size, size=WALKS, p=law), np.empty(WALKS, dtype=int)
    for n, state in enumerate(states.tolist()):
        x = np.append(TABLES[state], TABLES[state, 1:].sum() - 3)
        sums = SUMS @ x[:3]
        walk(x, *along, LOWER, log_noise, (log_h, SLOPE), measured.arrays, sums, rng)
        assert (sums == SUMS @ x[:3]).all()
        assert x[3] == x[1] + x[2] - 3
        found[n] = np.ravel_multi_index(tuple(x[:3] - LOWER), (WIDTH,) * 3)
    assert (found != states).mean() > 0.5
    return chi_square.p_value(found, law, least=8)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("listed", [2, 5, 30])
def test_the_law_of_the_table_is_invariant(listed):
    assert p_value_of_states(listed, line_gibbs.walk_by_slices) > RARE


@pytest.mark.quick_cases(0)
def test_a_level_at_a_fixed_distance_is_rejected(monkeypatch):
    monkeypatch.setattr(line_gibbs, "_level", lambda here, rng: here - 1.0)
    assert p_value_of_states(2, line_gibbs.walk_by_slices.py_func) < RARE


inv, laws = ppd.invariants, ppd.laws
MOST, JOINT_MOVES, JOINT_DRAWS, SMALL = 7, 8000, 4000, 1e-6
STATES = np.array(list(itertools.product(range(MOST + 1), repeat=4)))
ROWS = {"a": [[1, 1, 0, 0], [0, 0, 1, 1]], "b": [[1, 0, 1, 0], [0, 1, 0, 1]]}
TRUTH = np.array([3, 1, 5, 2])
EXACT = {"nothing": [], "total": [[1, 1, 1, 1]], "margin": [[1, 1, 0, 0], [0, 0, 1, 1]]}
LEVELS = np.array([[0.7, 0.0, 1.4, 0.4], [0.4, 0.3, 1.1, 0.1]])  # log rates under two parameters
PRIOR = np.array([0.4, 0.6])
OTHERS = [1, 3]  # cells 0 and 2 are the block


def posed_jointly(exact, law, monkeypatch):
    """Return updates with a block of two of four small cells, and the law of parameters and tables."""
    monkeypatch.setattr(joint_move, "AWAY", 0.5)
    monkeypatch.setattr(joint_move, "FEWEST", 1)
    noise = laws.DiscreteGaussian(variance=3) if law == "gaussian" else laws.DoubleGeometric("1/2")
    y = {"a": [5, 6], "b": [7, 4], "cells": [4, -1, 4, 3]}
    parts = [ppd.measured(inv.margin(k), y[k], laws.DiscreteGaussian(variance=2)) for k in "a"]
    parts += [ppd.measured(inv.margin("b"), y["b"], noise)]
    parts += [ppd.measured(inv.margin("a", "b"), np.reshape(y["cells"], (2, 2)), laws.DiscreteGaussian(variance=3))]
    public = {inv.linear(np.array(EXACT[exact])): np.dot(EXACT[exact], TRUTH).tolist()} if EXACT[exact] else None
    bounds = inv.between(0, MOST)
    seen = ppd.Measurements({"a": [0, 1], "b": [0, 1]}, *parts, public=public, bounds=bounds)
    observed = ObservedMeasurements(seen)
    walk = TableGibbs(observed, published_windows(observed))
    usual = np.zeros(4)
    usual[[0, 2]] = 3.5, 3.6
    log_law = (
        -((STATES - y["cells"]) ** 2).sum(axis=1) / 6 - ((STATES @ np.transpose(ROWS["a"]) - y["a"]) ** 2).sum(1) / 4
    )
    away = STATES @ np.transpose(ROWS["b"]) - y["b"]
    log_law = log_law - ((away**2).sum(axis=1) / 6 if law == "gaussian" else abs(away).sum(axis=1) / 2)
    for row in EXACT[exact]:
        log_law[STATES @ row != np.dot(row, TRUTH)] = -np.inf
    both = np.stack([log_law + np.log(p) + poisson(level) for p, level in zip(PRIOR, LEVELS, strict=True)])
    weight = np.exp(both - both.max())
    return walk, usual, weight / weight.sum()


def poisson(level):
    return (STATES * level - np.exp(level) - gammaln(STATES + 1)).sum(axis=1)


def moved(walk, usual, law, *, anew, step, fault="", seed=1):
    """Return parameters and tables, as numbers of states, after one proposal of the other parameter."""
    rng = np.random.default_rng(seed)
    states = rng.choice(law.size, size=JOINT_MOVES, p=law.ravel())
    block, partner = walk.block(usual)
    coupling, found = walk.fiber.coupling, np.empty(JOINT_MOVES, dtype=int)
    log_h = -gammaln(np.arange(walk.counts.max() + 1.0) + 1)
    none = np.zeros((4, 0))  # all counts are summed, without knots
    totals = [np.full(4, np.nan), np.full(4, np.nan)]  # the second time unchanged
    if fault == "partner":
        partner = np.where(partner >= 0, joint_move.FREE, partner)
    for n, state in enumerate(states.tolist()):
        k, number = divmod(state, len(STATES))
        x = STATES[number].copy()
        ratio = np.log(PRIOR[1 - k] / PRIOR[k]) - (np.exp(LEVELS[1 - k]) - np.exp(LEVELS[k])).sum()
        sums, slack = coupling.matrix @ x, walk.fiber.slack(x)
        given = (x, sums, slack, np.arange(4), partner, (log_h, np.exp(log_h), none, LEVELS[k]))
        known = totals[1 - k if fault == "totals" else k].copy()
        accepted = joint_move.joint_move(
            *given, (log_h, np.exp(log_h), none, LEVELS[1 - k]), known, walk.noise, coupling.given(sums, rng),
            walk.bounds, block.arrays, step, ratio + (fault == "prior"), anew, rng,
        )  # fmt: skip
        assert (sums == coupling.matrix @ x).all()
        totals[1 - k if accepted else k] = known
        found[n] = (1 - k if accepted else k) * len(STATES) + x @ (MOST + 1) ** np.arange(3, -1, -1)
    return states, found


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize(("exact", "law", "step", "fault"), [
    ("nothing", "gaussian", 1.0, "hastings"), ("nothing", "gaussian", 0.6, "hastings"),
    ("nothing", "geometric", 1.0, "prior"), ("total", "gaussian", 1.0, "hastings"),
    ("total", "gaussian", 1.0, "partner"), ("margin", "gaussian", 1.0, "partner"),
    ("total", "geometric", 1.0, "partner"), ("nothing", "geometric", 1.0, "totals"),
])  # fmt: skip
def test_the_law_of_parameters_and_tables_is_invariant(exact, law, step, fault, anew, monkeypatch):
    walk, usual, probability = posed_jointly(exact, law, monkeypatch)
    assert walk.block(usual)[0].cells.tolist() == ([0, 2] if law == "gaussian" else [] if exact == "nothing" else [0])
    assert walk.block(usual)[0].root.shape[0] == (
        0 if law == "geometric" or exact == "margin" else 2 - len(EXACT[exact])
    )
    states, found = moved(walk, usual, probability, anew=anew, step=step)
    assert (found != states).mean() > 0.05
    assert p_value(found, probability, least=8) > SMALL
    if fault == "hastings":  # without the probabilities of the proposals
        propose = joint_move.propose
        monkeypatch.setattr(joint_move, "propose", lambda *given: (propose(*given), 0.0)[1])
        monkeypatch.setattr(joint_move, "log_probability_back", lambda *given: 0.0)
        monkeypatch.setattr(joint_move, "joint_move", joint_move.joint_move.py_func)
    assert p_value(moved(walk, usual, probability, anew=anew, step=step, fault=fault)[1], probability, least=8) < SMALL


def test_constant_cells_are_in_no_block():
    noise = laws.DiscreteGaussian(variance=2)
    seen = ppd.Measurements(
        {"a": [0, 1, 2], "b": [0, 1, 2]},
        *(
            ppd.measured(inv.margin(*names), np.full((3,) * len(names), 9), noise)
            for names in (["a"], ["b"], ["a", "b"])
        ),
        public={inv.total(): 30, inv.zeros({"a": [2], "b": [0, 1]}): None},
    )
    observed = ObservedMeasurements(seen)
    walk = TableGibbs(observed, published_windows(observed))
    assert walk.fiber.fixed.sum() == 2
    block, partner = walk.block(np.zeros(9))
    assert not walk.fiber.fixed[block.cells].any()
    assert (partner[walk.fiber.fixed] == joint_move.HELD).all()


def test_discrete_gaussians_around_any_centre():
    """Chi-square tests of draws from a list and by rejection, and masses against sums."""
    rng = np.random.default_rng(2)
    for center, variance in ((0.3, 0.05), (-0.45, 1.0), (0.3, 3.2), (0.5, 60.0)):
        k = np.arange(-120, 121)
        weight = np.exp(-((k - center) ** 2) / (2 * variance))
        assert joint_move._log_mass(center, 1 / variance) == pytest.approx(np.log(weight.sum()), abs=1e-12)
        found = np.array([joint_move._discrete_gaussian(center, 1 / variance, rng) for _ in range(JOINT_DRAWS)])
        expected = JOINT_DRAWS * weight / weight.sum()
        often = expected > 5
        counted = np.array([(found == at).sum() for at in k])
        assert (
            stats.chisquare(counted[often], expected[often] * counted[often].sum() / expected[often].sum()).pvalue
            > SMALL
        )


@pytest.mark.parametrize("last", [2, 9])
def test_the_weight_of_all_sums_is_the_sum_of_their_weights(last):
    """Gaussian, Laplace and listed weights; the listed value 9 is impossible."""
    listed = np.log([0.2, 0.5, 0.3])
    y, ends, first = np.array([3.0, 7.0, 0.0]), np.array([0, 0, 0, 3]), np.array([0, 0, 1])
    sums = MeasuredSums(sp.eye_array(3, format="csc", dtype=int), y, np.array([0.5, 0, 0]), np.array([0, 2.0, 0]), ends,
                        first, listed)  # fmt: skip
    x = np.array([5, 4, last])
    apart = log_weights_of(np.arange(3), x, sums.arrays)
    np.testing.assert_allclose(apart, [-1.0, -6.0, listed[1] if last == 2 else -np.inf])
    assert log_weight_of_all(x, sums.arrays) == pytest.approx(apart.sum())
