"""Couplings: each chain alone follows its kernel, chains stay together after meeting, and lags are respected."""

import math

import numba
import numpy as np
import pytest
from lattice_laws import KINDS, SYSTEMS, enumerate_law, exact_draws, p_value

from ppdinf.lattice import kernel, margin_matrix
from ppdinf.laws import DoubleGeometric
from ppdinf.laws.chain_kernels import double_geometric
from ppdinf.noise.mcmc.coupled_noise import coupled_jump, gibbs_meeting, isdp_meeting, isdp_pair_step
from ppdinf.noise.mcmc.isdp import jumps
from ppdinf.noise.mcmc.lattice_gibbs_noise import gibbs_moves, move_space, step, word
from ppdinf.noise.mcmc.tv_bound import in_threads

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
            isdp_pair_step(z[row], y[row], v[row], w[row], e, f, system, rng)


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


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("system", ["total", "weights", "2 x 3 margins"])
@pytest.mark.parametrize("kind", ["l1", "l2", "gaussian"])
def test_each_chain_of_a_published_pair_preserves_the_law(system, kind):
    law = KINDS[kind](1)
    points, p = enumerate_law(SYSTEMS[system], law)
    basis = kernel(SYSTEMS[system]).basis
    pseudo_inverse = np.linalg.pinv(basis.toarray())
    z, y = exact_draws(points, p, 20_000, 3), exact_draws(points, p, 20_000, 4)
    v, w = (np.rint(x @ pseudo_inverse.T).astype(np.int64) for x in (z, y))
    isdp_pairs(z, y, v, w, jumps(basis, law, a=np.exp(-1.0)), 10, np.random.default_rng(5))
    assert p_value(z, points, p) > 1e-6
    assert p_value(y, points, p) > 1e-6
    assert (z == v @ basis.T).all()
    assert (y == w @ basis.T).all()
    assert (z == y).all(axis=1).any()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("system", ["total", "weights", "2 x 3 margins"])
@pytest.mark.parametrize("kind", ["l1", "l2", "gaussian"])
def test_each_chain_of_a_gibbs_pair_preserves_the_law(system, kind):
    law = KINDS[kind](1)
    points, p = enumerate_law(SYSTEMS[system], law)
    z, y = exact_draws(points, p, 20_000, 6), exact_draws(points, p, 20_000, 7)
    gibbs_pairs(z, y, gibbs_moves(SYSTEMS[system], law), 6, np.random.default_rng(8))
    assert p_value(z, points, p) > 1e-6
    assert p_value(y, points, p) > 1e-6
    assert (z == y).all(axis=1).mean() > 0.1


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
    for meeting in (isdp_meeting(jumps(kernel(A).basis, law, a=np.exp(-1.0))), gibbs_meeting(gibbs_moves(A, law))):
        one, three = (in_threads(lambda g: meeting(50, 10**5, g), 40, rng=10, threads=n) for n in (1, 3))  # noqa: B023
        assert one == three
        assert min(one) > 50
        assert meeting(5, 6, np.random.default_rng(11)) in (6, -1)


def test_a_pair_that_has_not_met_is_reported():
    meeting = gibbs_meeting(gibbs_moves(margin_matrix((10, 10), [(0,), (1,)]), DoubleGeometric("1/4")))
    assert meeting(1, 200, np.random.default_rng(12)) == -1


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
