"""Couplings: each chain alone follows its kernel, and meeting times bound the total variation distance."""

import math

import numba
import numpy as np
import pytest
from grids import box
from lattice_laws import KINDS, SYSTEMS, enumerate_law, exact_draws, p_value

from ppdinf.lattice import kernel, margin_matrix
from ppdinf.laws import DoubleGeometric
from ppdinf.laws.additive_law import double_geometric
from ppdinf.noise import IndependenceMetropolis, LatticeMetropolis
from ppdinf.noise.mcmc.coupled_noise import annealed_meeting, gibbs_meeting
from ppdinf.noise.mcmc.independence_metropolis import annealing
from ppdinf.noise.mcmc.lattice_gibbs_noise import gibbs_moves, move_space, step, word
from ppdinf.noise.mcmc.lattice_metropolis import coupled_jump, jumps, pair_step
from ppdinf.noise.mcmc.tv_bound import TVBound, in_threads, tv_bound

LAW = DoubleGeometric(1)


@numba.njit
def jump_pairs(gap, rate, faithful, size, rng):
    """Return coupled jumps of two states `gap` apart; the wrong variant draws the residual from the full jump law."""
    out = np.empty((size, 2), np.int64)
    for k in range(size):
        e = double_geometric(rate, rng)
        f = coupled_jump(0, gap, e, rate, rng)
        if not faithful and f != e - gap:
            f = double_geometric(rate, rng)
        out[k, 0], out[k, 1] = e, f
    return out


@numba.njit
def isdp_pairs(z, y, v, w, system, n_steps, rng):
    e, f = np.empty(v.shape[1], np.int64), np.empty(v.shape[1], np.int64)
    for row in range(len(z)):
        for _ in range(n_steps):
            pair_step(z[row], y[row], v[row], w[row], e, f, system, rng)


@numba.njit
def gibbs_pairs(z, y, moves, n_steps, rng):
    room = move_space(moves)
    for row in range(len(z)):
        for _ in range(n_steps):
            seed = word(rng)
            step(z[row], moves, seed, room)
            step(y[row], moves, seed, room)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("gap", [0, 1, 4])
def test_coupled_jumps_are_maximally_coupled(gap):
    rate, k = 1.0, np.arange(-60, 61)
    p = np.exp(-rate * abs(k))
    p /= p.sum()
    pairs = jump_pairs(gap, rate, True, 200_000, np.random.default_rng(1))
    for side in (0, 1):
        assert p_value(pairs[:, [side]], k[:, None], p) > 1e-6
    overlap = min(1.0, np.minimum(p, np.exp(-rate * abs(k - gap)) / np.exp(-rate * abs(k)).sum()).sum())
    met = (pairs[:, 0] == pairs[:, 1] + gap).mean()
    assert abs(met - overlap) < 6 * math.sqrt(overlap * (1 - overlap) / len(pairs)) + 1e-12


def test_a_wrong_coupling_is_rejected():
    k = np.arange(-60, 61)
    p = np.exp(-1.0 * abs(k))
    pairs = jump_pairs(1, 1.0, False, 200_000, np.random.default_rng(2))
    assert p_value(pairs[:, [1]], k[:, None], p / p.sum()) < 1e-6


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("system", ["total", "weights", "2 x 3 margins"])
@pytest.mark.parametrize("kind", ["l1", "l2", "gaussian"])
@pytest.mark.parametrize("pair", ["published", "gibbs"])
def test_each_chain_of_a_pair_preserves_the_law(pair, system, kind):
    law, rng = KINDS[kind](1), np.random.default_rng(5)
    points, p = enumerate_law(SYSTEMS[system], law)
    z, y = exact_draws(points, p, 20_000, 3), exact_draws(points, p, 20_000, 4)
    if pair == "gibbs":
        gibbs_pairs(z, y, gibbs_moves(SYSTEMS[system], law), 6, rng)
    else:
        basis = kernel(SYSTEMS[system]).basis
        v, w = (np.rint(x @ np.linalg.pinv(basis.toarray()).T).astype(np.int64) for x in (z, y))
        isdp_pairs(z, y, v, w, jumps(basis, law, a=np.exp(-1.0)), 10, rng)
        assert (z == v @ basis.T).all()
        assert (y == w @ basis.T).all()
    assert min(p_value(z, points, p), p_value(y, points, p)) > 1e-6
    assert (z == y).all(axis=1).mean() > (0.1 if pair == "gibbs" else 0)


def test_chains_that_have_met_stay_together():
    A = margin_matrix((4, 4), [(0,), (1,)])
    rng, law = np.random.default_rng(9), DoubleGeometric("1/4")
    system, v = jumps(kernel(A).basis, law, a=np.exp(-1.0)), rng.integers(-5, 6, (20, 9))
    z = v @ system_basis(system).T
    y, w = z.copy(), v.copy()
    isdp_pairs(z, y, v, w, system, 500, rng)
    assert (z == y).all()
    assert (v == w).all()
    gibbs_pairs(z, y, gibbs_moves(A, law), 500, rng)
    assert (z == y).all()


@pytest.mark.quick_cases(0)
def test_meeting_times_exceed_the_lag_and_do_not_depend_on_threads():
    A, law = margin_matrix((4, 4), [(0,), (1,)]), DoubleGeometric("1/4")
    published = LatticeMetropolis(A, law, a=np.exp(-1.0)).meeting
    conditioned = IndependenceMetropolis([[1, 1, 1]], law, "1/3").meeting
    for meeting in (published, conditioned, gibbs_meeting(gibbs_moves(A, law)), annealed_meeting(annealing(A, law))):
        one, three = (in_threads(lambda g: meeting(50, 10**5, g), 40, rng=10, threads=n) for n in (1, 3))  # noqa: B023
        assert one == three
        assert min(one) > 50
        assert meeting(5, 6, np.random.default_rng(11)) in (6, -1)


def test_gibbs_meets_within_about_ten_sweeps_on_four_by_four():
    A, none = margin_matrix((4, 4), [(0,), (1,)]), np.empty((0, 0), dtype=np.int64)
    moves = gibbs_moves(A, DoubleGeometric("1/4"))
    for kind in (moves, moves._replace(rows=none, columns=none, sweep=9)):
        times = np.array(in_threads(lambda g: gibbs_meeting(kind)(1, 10**4, g), 400, rng=13))  # noqa: B023
        assert 4 < np.median(times - 1) < 14


def system_basis(system):
    from scipy import sparse

    shape = (system.d, system.starts.size - 1)
    return sparse.csc_array((system.steps, system.cells, system.starts), shape=shape).toarray()


# -- bounds on total variation ---------------------------------------------------------------------------


TOTAL = np.array([[1, 1, 1]])


def points_of_a_total(reach=14):
    basis = kernel(TOTAL).basis.toarray()
    coordinates = box(-reach, reach, 2)
    return coordinates, coordinates @ basis.T


def gibbs_matrix(points, q, moves):
    """Return the transition probabilities of one sweep, with every line law by enumeration."""
    step, place = np.zeros((len(points), len(points))), {tuple(x): k for k, x in enumerate(points.tolist())}
    n = len(moves.starts) - 1
    for r in range(n):
        part = slice(moves.starts[r], moves.starts[r + 1])
        direction = np.zeros(points.shape[1], dtype=int)
        direction[moves.cells[part]] = moves.steps[part]
        for k, x in enumerate(points):
            line = [place[key] for t in range(-60, 61) if (key := tuple((x + t * direction).tolist())) in place]
            step[k, line] += q[line] / q[line].sum() / n
    return np.linalg.matrix_power(step, moves.sweep)


@pytest.mark.deep
def test_the_bound_exceeds_the_exact_distance_of_gibbs():
    law = DoubleGeometric("2/3")
    moves = gibbs_moves(TOTAL, law)
    _, points = points_of_a_total()
    q = np.exp([law.log_mass(x) for x in points])
    q /= q.sum()
    matrix, start = gibbs_matrix(points, q, moves), (points == 0).all(axis=1).astype(float)
    assert abs(q @ matrix - q).max() < 1e-9
    for lag in (1, 3, 8):
        bound = tv_bound(gibbs_meeting(moves), pairs=4000, lag=lag, rng=1)
        law_t = start
        for t in range(9):
            exact = 0.5 * abs(law_t - q).sum()
            assert exact <= bound.estimate(t) + 4 * bound.excess(t).std() / math.sqrt(4000)
            law_t = law_t @ matrix


def published_chain(name, log_q, reach=7):
    """Return a published chain on a total, its proposal probabilities, log acceptance ratios, and law at the start."""
    a = math.exp({"lattice": -2.5, "independence": -0.12}[name])
    coordinates, points = points_of_a_total(reach)
    if name == "lattice":
        g = a ** abs(coordinates[:, None] - coordinates).sum(axis=2) * ((1 - a) / (1 + a)) ** 2
        start = a ** abs(coordinates).sum(axis=1) * ((1 - a) / (1 + a)) ** 2
        return LatticeMetropolis(TOTAL, LAW, a), g, log_q - log_q[:, None], start
    chain = IndependenceMetropolis(TOTAL, LAW, -math.log(a))
    log_g = math.log(a) * abs(points[:, chain.system.free]).sum(axis=1)
    g = np.tile(np.exp(log_g) * ((1 - a) / (1 + a)) ** 2, (len(points), 1))
    log_w = log_q - log_g
    return chain, g, log_w - log_w[:, None], (points == 0).all(axis=1).astype(float)


@pytest.mark.parametrize("name", ["lattice", "independence"])
def test_the_bound_exceeds_the_exact_distance_of_published_chains(name):
    log_q = np.array([LAW.log_mass(x) for x in points_of_a_total(7)[1]])
    chain, g, log_ratio, law_t = published_chain(name, log_q)
    matrix = g * np.exp(np.minimum(0, log_ratio))
    matrix[np.diag_indices_from(matrix)] += 1 - matrix.sum(axis=1)
    q = np.exp(log_q) / np.exp(log_q).sum()
    assert abs(q @ matrix - q).max() < 1e-9
    bound = tv_bound(chain.meeting, pairs=4000, lag=20, rng=2)
    late = bound.meetings - 20
    violated = False
    for t in range(120):
        exact = 0.5 * abs(law_t - q).sum()
        assert exact <= bound.estimate(t) + 4 * bound.excess(t).std() / math.sqrt(4000) + 1e-6
        violated |= exact > (late > 3 * t + 1).mean() + 0.02  # time counted 3 times too fast
        law_t = law_t @ matrix
    assert violated


def test_the_estimate_is_the_formula_of_the_theorem():
    bound = TVBound(lag=3, meetings=np.array([4, 6, 9, 20]), limit=100)
    for t in range(30):
        expected = sum(max(0, math.ceil((tau - 3 - t) / 3)) for tau in (4, 6, 9, 20)) / 4
        assert bound.estimate(t) == min(1, expected)


@pytest.mark.parametrize("t", [5, 20, 45])
def test_coverage_of_upper_limits(t):
    """Geometric meeting times with a known mean; at t = 45 almost all of 100 pairs have met."""
    rng, lag, p = np.random.default_rng(3), 4, 0.1
    truth = sum((1 - p) ** (t + k * lag) for k in range(200))
    covered, normal = 0, 0
    for _ in range(400):
        bound = TVBound(lag, lag + rng.geometric(p, 100), 10**6)
        covered += bound.upper(t) >= min(1, truth)
        excess = bound.excess(t)
        normal += excess.mean() + 1.645 * excess.std() / 10 >= min(1, truth)
    assert covered >= 0.92 * 400
    if t == 45:
        assert normal < 0.9 * 400


def test_pairs_that_have_not_met_give_no_bound():
    bound = TVBound(lag=2, meetings=np.array([5, -1, 7]), limit=50)
    assert bound.unmet == 1
    assert (bound.estimate([0, 40]) == 1).all()
    assert (bound.upper([0, 40]) == 1).all()
    assert bound.steps(0.5) is None
    assert bound.delta(1, 2, 40) == 1
    assert "1 of 3 pairs of chains had not met after 50 steps" in str(bound)


def test_a_ten_by_ten_table_is_reported_as_not_met():
    moves = gibbs_moves(margin_matrix((10, 10), [(0,), (1,)]), DoubleGeometric("1/4"))
    bound = tv_bound(gibbs_meeting(moves), pairs=3, limit=300, rng=4)
    assert bound.unmet == 3
    assert "no bound" in str(bound)


def test_default_lag_and_threads():
    meeting = gibbs_meeting(gibbs_moves(margin_matrix((4, 4), [(0,), (1,)]), DoubleGeometric("1/4")))
    one, three = (tv_bound(meeting, pairs=300, rng=5, threads=threads) for threads in (1, 3))
    assert one.lag == three.lag
    assert (one.meetings == three.meetings).all()
    assert one.excess(0).mean() < 1.5
    t = one.steps(0.03)
    assert t is not None
    assert one.upper(t) <= 0.03
    assert one.delta("1/4", 2, t) == pytest.approx((1 + math.exp(0.5)) * float(one.upper(t)))


@pytest.mark.deep
def test_published_chain_on_four_by_four_needs_about_ten_thousand_iterations():
    """ISDP, Figure 1: l1, epsilon = 0.25, a = exp(-1), 200 pairs, stable in the lag."""
    chain = LatticeMetropolis(margin_matrix((4, 4), [(0,), (1,)]), DoubleGeometric("1/4"), a=math.exp(-1.0))
    for lag in (1000, 5000, 20_000):
        bound = tv_bound(chain.meeting, pairs=200, lag=lag, rng=6)
        times = np.arange(0, 40_000, 100)
        assert 3000 < times[np.argmax(bound.estimate(times) < 0.01)] < 20_000
