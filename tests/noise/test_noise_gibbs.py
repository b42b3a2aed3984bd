"""Line laws and Gibbs moves against enumeration; the comparison must reject wrong variants."""

import numba
import numpy as np
import pytest
from lattice_laws import KINDS, SYSTEMS, enumerate_law, exact_draws, log_masses, p_value

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice import margin_matrix
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace, Staircase
from ppdinf.laws.chain_kernels import double_geometric
from ppdinf.noise.mcmc.lattice_gibbs_noise import (
    FAR,
    gibbs_moves,
    line_quantile,
    move_space,
    noise_gibbs,
    step,
    word,
    work_space,
)

LAWS = [DoubleGeometric("1"), DoubleGeometric("3/2"), L2Laplace("3/2"), DiscreteGaussian("10/11")]


@numba.njit
def quantiles(z, cells, steps, kind, scale, least, most, u):
    rates = np.full(z.size, scale)
    room, out = work_space(cells.size), np.empty(u.size, np.int64)
    for k in range(u.size):
        out[k] = line_quantile(z, (z * z).sum(), cells, steps, kind, rates, least, most, u[k], room)
    return out


@numba.njit
def advance(starts, moves, n_steps, rng):
    """Move every start independently by the same number of steps."""
    out, room = starts.copy(), move_space(moves)
    for row in range(len(out)):
        for _ in range(n_steps):
            step(out[row], moves, word(rng), room)
    return out


def random_line(rng, unit):
    n = int(rng.integers(1, 7))
    steps = rng.choice([-1, 1], n) * (1 if unit else rng.integers(1, 5, n))
    return rng.integers(-9, 10, n), np.arange(n), steps


def line_cdf(law, z, steps, least, most):
    t = np.arange(max(least, -300), min(most, 300) + 1)
    log_mass = log_masses(law, z + t[:, None] * steps)
    p = np.exp(log_mass - log_mass.max())
    return t, np.cumsum(p / p.sum())


def disagreement(law, z, cells, steps, least, most, rng, *, truth=None):
    """Return the share of uniforms whose quantile differs from the enumerated line, except for rounding at jumps."""
    t, cdf = line_cdf(*(truth or (law, z, steps)), least, most)
    u = rng.random(400)
    got = quantiles(z, cells, steps, *law.kernel_id, least, most, u)
    want = t[np.minimum(np.searchsorted(cdf, u, side="right"), len(t) - 1)]
    near_jump = np.abs(u[:, None] - cdf).min(axis=1) < 1e-12
    return ((got != want) & ~near_jump).mean()


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("kind", ["l1", "l2", "gaussian"])
@pytest.mark.parametrize("bounded", [False, True])
def test_line_quantiles_equal_enumerated_quantiles(kind, bounded):
    rng = np.random.default_rng(1)
    for trial in range(60):
        law = KINDS[kind](rng.choice([0.3, 1.0, 2.5]))
        least, most = (-int(rng.integers(0, 8)), int(rng.integers(0, 8))) if bounded else (-FAR, FAR)
        assert disagreement(law, *random_line(rng, trial % 2), least, most, rng) == 0


def test_the_line_comparison_rejects_wrong_variants():
    rng = np.random.default_rng(2)
    for kind in ("l1", "l2", "gaussian"):
        law, wrong = KINDS[kind](1), KINDS[kind]("1.05")
        z, cells, steps = np.array([3, -1, -4, 2]), np.arange(4), np.array([1, -1, -1, 1])
        assert disagreement(wrong, z, cells, steps, -FAR, FAR, rng, truth=(law, z, steps)) > 0
    assert disagreement(law, z, cells[:3], steps[:3], -FAR, FAR, rng, truth=(law, z, steps)) > 0


def test_quantiles_in_far_tails_and_at_the_ends_are_finite_and_ordered():
    z, cells, steps = np.array([10_000_000, -3]), np.arange(2), np.array([1, -1])
    u = np.array([0.0, 1e-300, 1e-17, 0.5, 1 - 2**-53])
    for law in (DoubleGeometric("1/4"), DoubleGeometric(50)):
        t = quantiles(z, cells, steps, *law.kernel_id, -FAR, FAR, u)
        assert (np.diff(t) >= 0).all()
        assert (abs(t + 5_000_000) <= 5_001_000).all()


def test_states_on_one_line_move_to_the_same_point():
    rng = np.random.default_rng(3)
    for law in LAWS:
        z, cells, steps = random_line(rng, False)
        u = rng.random(200)
        there = quantiles(z + 7 * steps, cells, steps, *law.kernel_id, -FAR, FAR, u)
        assert (quantiles(z, cells, steps, *law.kernel_id, -FAR, FAR, u) == there + 7).mean() > 0.99


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("draws", [10_000, pytest.param(40_000, marks=pytest.mark.deep)])
def test_the_enumerated_law_is_invariant(system, law, draws):
    points, p = enumerate_law(SYSTEMS[system], law)
    moves = gibbs_moves(SYSTEMS[system], law)
    end = advance(exact_draws(points, p, draws, 4), moves, 12, np.random.default_rng(5))
    assert p_value(end, points, p) > 1e-6


@pytest.mark.deep
def test_chains_from_zero_reach_the_law_with_bounds():
    A, law, lower = [[1, 1, 1, 1]], DoubleGeometric("2/3"), np.array([0, -1, -3, -2])
    points, p = enumerate_law(A, law, lower=lower)
    moves = gibbs_moves(A, law, lower=lower)
    end = advance(np.zeros((60_000, 4), np.int64), moves, 60, np.random.default_rng(6))
    assert p_value(end, points, p) > 1e-6
    unbounded, q = enumerate_law(A, law)
    assert p_value(end, unbounded, q) < 1e-6


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("shape", [(2, 3), pytest.param((3, 3), marks=pytest.mark.deep)])
def test_pairs_of_rows_reach_the_law(shape):
    A, law = margin_matrix(shape, [(0,), (1,)]), DoubleGeometric(1)
    points, p = enumerate_law(A, law, reach=6 if shape == (3, 3) else 14)
    moves = gibbs_moves(A, law)
    assert moves.rows.shape in (shape, shape[::-1])
    end = advance(np.zeros((60_000, points.shape[1]), np.int64), moves, 40, np.random.default_rng(7))
    assert p_value(end, points, p) > 1e-6
    wrong = advance(
        np.zeros((60_000, points.shape[1]), np.int64),
        moves._replace(rates=1.05 * moves.rates),
        40,
        np.random.default_rng(8),
    )
    assert p_value(wrong, points, p) < 1e-6


@pytest.mark.quick_cases(0)
def test_pairs_and_lines_agree_on_a_larger_table():
    moves = gibbs_moves(margin_matrix((5, 6), [(0,), (1,)]), DoubleGeometric("1/4"))
    none = np.empty((0, 0), dtype=np.int64)
    lines = moves._replace(rows=none, columns=none, sweep=20)
    sizes = [np.abs(noise_gibbs(m, 20_000, burn=500, rng=9)[0]).sum(axis=1) for m in (moves, lines)]
    assert abs(sizes[0].mean() - sizes[1].mean()) < 6 * sizes[0].std() / np.sqrt(4000)
    assert abs(sizes[0].std() / sizes[1].std() - 1) < 0.1


def test_double_geometric_has_its_law():
    @numba.njit
    def many(n, rng):
        out = np.empty((n, 1), np.int64)
        for k in range(n):
            out[k, 0] = double_geometric(0.7, rng)
        return out

    points = np.arange(-60, 61)[:, None]
    p = np.exp(-0.7 * abs(points[:, 0]))
    draws = many(200_000, np.random.default_rng(10))
    assert p_value(draws, points, p / p.sum()) > 1e-6
    p = np.exp(-0.735 * abs(points[:, 0]))
    assert p_value(draws, points, p / p.sum()) < 1e-6


def test_draws_do_not_depend_on_the_number_of_threads():
    moves = gibbs_moves(margin_matrix((4, 4), [(0,), (1,)]), DoubleGeometric("1/4"))
    one, three = (noise_gibbs(moves, 50, chains=4, rng=11, threads=threads) for threads in (1, 3))
    assert (one == three).all()
    assert (one[0] != one[1]).any()
    assert (noise_gibbs(moves, 50, chains=4, rng=12) != one).any()
    assert not one.reshape(-1, 4, 4).sum(axis=1).any()
    assert not one.reshape(-1, 4, 4).sum(axis=2).any()


def test_a_fully_fixed_system_has_zero_noise():
    assert not noise_gibbs(gibbs_moves(np.eye(3, dtype=int), DoubleGeometric(1)), 4, rng=1).any()


def test_invalid_input_raises():
    law = DoubleGeometric(1)
    with pytest.raises(InvariantError, match="one bound for each of the 3 cells"):
        gibbs_moves([[1, 1, 1]], law, lower=[0, 0])
    with pytest.raises(InvariantError, match=r"lower\[1\] is positive"):
        gibbs_moves([[1, 1, 1]], law, lower=[0, 1, 0])
    with pytest.raises(PrivacyError, match="do not support staircase"):
        gibbs_moves([[1, 1, 1]], Staircase(1))
    with pytest.raises(PrivacyError, match="sigma must be positive"):
        DiscreteGaussian(0)
