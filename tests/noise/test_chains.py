"""Markov chains for noise against enumeration of small systems, with wrong variants.

A chain is a function of a system, a law, and the law's enumerated points, which start chains that must preserve it.
"""

from functools import cache

import numba
import numpy as np
import pytest
from grids import box
from lattice_laws import KINDS, SYSTEMS, enumerate_law, exact_draws, log_masses, p_value, scaled

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice import kernel, margin_matrix
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace, Staircase
from ppdinf.noise import IndependenceMetropolis, LatticeMetropolis
from ppdinf.noise.mcmc.independence_metropolis import (
    anneal,
    annealed,
    annealing,
    draw_candidate,
    log_importance,
    own_rates,
)
from ppdinf.noise.mcmc.lattice_gibbs_noise import (
    gibbs_moves,
    line_quantile,
    move_space,
    noise_gibbs,
    step,
    word,
    work_space,
)
from ppdinf.noise.mcmc.lattice_metropolis import jump, jumps, metropolis
from ppdinf.noise.mcmc.tv_bound import tv_bound

NONE = np.empty((0, 0), dtype=np.int64)
FOUR_BY_FOUR = margin_matrix((4, 4), [(0,), (1,)])
LAWS = [DoubleGeometric("1"), L2Laplace("3/2"), DiscreteGaussian("10/11")]


# -- chains and their wrong variants --------------------------------------------------------------------


def doubled(basis):
    """Return a basis of a sublattice of index 2."""
    basis = basis.toarray()
    basis[:, 0] *= 2
    return basis


@numba.njit
def after_jumps(starts, system, n_steps, rng):
    """Move every start independently by steps of the published chain."""
    e = np.empty(system.starts.size - 1, np.int64)
    for row in range(len(starts)):
        for _ in range(n_steps):
            jump(e, system.rate, rng)
            metropolis(starts[row], e, system, rng.random())
    return starts


def published(A, law, start, seed, steps=100, factor=1, sublattice=False, accept=True):
    """Move draws by the published chain; on a sublattice, start from zero."""
    system = jumps(doubled(kernel(A).basis) if sublattice else kernel(A).basis, scaled(law, factor), a=np.exp(-1.0))
    if not accept:  # under a flat target every proposal is accepted
        system = system._replace(kind=0, scale=0.0)
    start = np.zeros_like(start) if sublattice else start.copy()
    return after_jumps(start, system, steps, np.random.default_rng(seed))


@numba.njit
def after_moves(starts, moves, n_steps, rng):
    """Move every start independently by moves of lattice Gibbs."""
    room = move_space(moves)
    for row in range(len(starts)):
        for _ in range(n_steps):
            step(starts[row], moves, word(rng), room)
    return starts


moves_of = cache(lambda rows, law: gibbs_moves(np.array(rows), law))


def gibbs(A, law, start, seed, steps=40, factor=1, sublattice=False, zero=False):
    """Move draws by lattice Gibbs; from zero if required."""
    moves = moves_of(tuple(map(tuple, np.asarray(A).tolist())), law)
    moves = moves._replace(rates=factor * moves.rates)
    if sublattice:
        only = jumps(doubled(kernel(A).basis), law, a=0.5)
        moves = moves._replace(starts=only.starts, cells=only.cells, steps=only.steps, rows=NONE, columns=NONE)
    start = np.zeros_like(start) if sublattice or zero else start.copy()
    return after_moves(start, moves, steps, np.random.default_rng(seed))


@numba.njit
def after_proposals(prepared, draws, thin, rng, printed, scale):
    """Run Metropolised independence with the printed ratio (q of all cells of the current state) or a wrong scale."""
    d = prepared.free.size + prepared.solved.size
    out, z, candidate = np.empty((draws, d), np.int64), np.zeros(d, np.int64), np.zeros(d, np.int64)
    for iteration in range(draws * thin):
        if draw_candidate(candidate, prepared, rng):
            ratio = scale * (log_importance(candidate, prepared) - log_importance(z, prepared))
            if printed:
                for i in prepared.solved:
                    ratio -= prepared.rate * abs(z[i])
            if np.log(rng.random()) <= ratio:
                z[:] = candidate
        if iteration % thin == thin - 1:
            out[iteration // thin] = z
    return out


@numba.njit
def proposals(prepared, draws, rng):
    """Return proposals without the acceptance step; non-integer proposals are still rejected."""
    out = np.zeros((draws, prepared.free.size + prepared.solved.size), np.int64)
    for k in range(draws):
        while not draw_candidate(out[k], prepared, rng):
            pass
    return out


def independent(A, law, start, seed, rate=None, factor=1, accept=True):
    # wider proposals than targets without l1 tails
    rate = rate or (law.epsilon / 2 if law.is_mixture else law.kernel_id[1])
    chain = IndependenceMetropolis(A, scaled(law, factor), rate)
    if not accept:
        return proposals(chain.system, len(start), np.random.default_rng(seed))
    noise, _ = chain.draw(len(start) // 2, thin=120, burn=240, chains=2, rng=seed)
    return noise.reshape(start.shape)


@numba.njit
def annealed_proposals(system, draws, rng):
    room, out = move_space(system.moves), np.zeros((draws, system.moves.d), np.int64)
    for k in range(draws):
        anneal(out[k], system, room, rng)
    return out


def by_annealing(A, law, start, seed, levels=1, factor=1, accept=True):
    system = annealing(A, scaled(law, factor), levels=levels)
    if not accept:
        return annealed_proposals(own_rates(system), len(start), np.random.default_rng(seed))
    noise, accepted = annealed(system, 5 * len(start), burn=100, chains=2, rng=seed)
    assert levels == 1 or (accepted > 0.2).all()
    return noise[:, ::10].reshape(start.shape)


# -- small systems --------------------------------------------------------------------------------------

# Chain, number of draws, laws, and options.
SINGLE = {
    "published": (published, 30_000, LAWS, {"steps": 10}),
    "gibbs": (gibbs, 40_000, [*LAWS, DoubleGeometric("3/2")], {"steps": 12}),
    "independence": (independent, 20_000, [DoubleGeometric(1), DiscreteGaussian("10/11")], {"rate": 0.9}),
    "annealed": (by_annealing, 20_000, [DoubleGeometric(1)], {"levels": 2}),
}
CASES = [
    pytest.param(name, system, law, id=f"{name}-{system}-{law}")
    for name, (_, _, laws, _) in SINGLE.items()
    for system in SYSTEMS
    for law in laws
    if (name, system) != ("annealed", "weights")
]


@pytest.mark.quick_cases(16)
@pytest.mark.parametrize(("name", "system", "law"), CASES)
def test_chains_have_the_enumerated_law(name, system, law):
    chain, draws, _, options = SINGLE[name]
    points, p = enumerate_law(SYSTEMS[system], law)
    end = chain(SYSTEMS[system], law, exact_draws(points, p, draws, 1), 2, **options)
    assert p_value(end, points, p) > 1e-6


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("wrong", [{}, {"factor": "1.05"}, {"accept": False}, {"sublattice": True}], ids=str)
def test_wrong_published_chains_on_a_total(wrong):
    points, p = enumerate_law(SYSTEMS["total"], LAWS[0])
    end = published(SYSTEMS["total"], LAWS[0], exact_draws(points, p, 60_000, 3), 4, steps=60, **wrong)
    assert (p_value(end, points, p) < 1e-6) == bool(wrong)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("shape", "factor"),
    [((2, 3), 1), ((2, 3), 1.05), *(pytest.param((3, 3), factor, marks=pytest.mark.deep) for factor in (1, 1.05))],
)
def test_pairs_of_rows_reach_the_law_from_zero(shape, factor):
    A, law = margin_matrix(shape, [(0,), (1,)]).toarray(), DoubleGeometric(1)
    points, p = enumerate_law(A, law, reach=6 if shape == (3, 3) else 14)
    assert gibbs_moves(A, law).rows.shape in (shape, shape[::-1])
    end = gibbs(A, law, np.zeros((60_000, points.shape[1]), np.int64), 7, factor=factor)
    assert (p_value(end, points, p) < 1e-6) == (factor != 1)


@pytest.mark.deep
@pytest.mark.parametrize(("printed", "scale"), [(False, 1.0), (True, 1.0), (False, 1.05)])
def test_the_printed_ratio_and_a_wrong_scale_of_independence(printed, scale):
    points, p = enumerate_law(SYSTEMS["total"], DoubleGeometric(1))
    prepared = IndependenceMetropolis(SYSTEMS["total"], DoubleGeometric(1), 0.5).system
    end = after_proposals(prepared, 40_000, 60, np.random.default_rng(3), printed, scale)
    assert (p_value(end, points, p) < 1e-6) == (printed or scale != 1)


@numba.njit
def with_weights(system, draws, thin, power, rng):
    """Run annealed independence with its weights raised to a power; 0 ignores them."""
    room, d = move_space(system.moves), system.moves.d
    out, z, candidate = np.empty((draws, d), np.int64), np.zeros(d, np.int64), np.zeros(d, np.int64)
    log_weight = anneal(z, system, room, rng)
    for iteration in range(draws * thin):
        offered = anneal(candidate, system, room, rng)
        if np.log(rng.random()) <= power * (offered - log_weight):
            z[:] = candidate
            log_weight = offered
        if iteration % thin == thin - 1:
            out[iteration // thin] = z
    return out


@pytest.mark.deep
@pytest.mark.parametrize("power", [1.0, 0.0])
def test_annealing_without_weights(power):
    points, p = enumerate_law(SYSTEMS["2 x 3 margins"], DoubleGeometric(1))
    system = own_rates(annealing(SYSTEMS["2 x 3 margins"], DoubleGeometric(1), levels=2))
    end = with_weights(system, 20_000, 10, power, np.random.default_rng(2))
    assert (p_value(end, points, p) < 1e-6) == (power == 0)


# -- the published chain and independence: recorded draws, transition matrix, inequalities ---------------------


def test_recorded_draws_have_the_law_and_the_margins():
    points, p = enumerate_law(SYSTEMS["2 x 3 margins"], LAWS[0])
    chain = LatticeMetropolis(SYSTEMS["2 x 3 margins"], LAWS[0], a=np.exp(-1.0))
    noise, accepted = chain.draw(10_000, thin=100, burn=1000, chains=2, rng=6)
    assert p_value(noise.reshape(-1, 6), points, p) > 1e-6
    assert (accepted > 0.2).all()
    assert (accepted < 0.8).all()


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_one_step_has_the_transition_probabilities_of_algorithm_1(law):
    """Enumerate the rows of the transition matrix, and check detailed balance up to rounding."""
    basis, a = kernel(SYSTEMS["total"]).basis.toarray(), np.exp(-1.0)
    jumps_e = box(-30, 30, 2)
    g = ((1 - a) / (1 + a)) ** 2 * a ** np.abs(jumps_e).sum(axis=1)
    states = box(-2, 2, 2) @ basis.T
    q = np.array([np.exp(law.log_mass(z)) for z in states])

    def row(z):
        targets = z + jumps_e @ basis.T
        p = g * np.minimum(1, np.exp(log_masses(law, targets) - law.log_mass(z)))
        p[np.flatnonzero((jumps_e == 0).all(axis=1))[0]] += 1 - p.sum()
        return targets, p

    end = published(SYSTEMS["total"], law, np.tile(states[7], (60_000, 1)), 5, steps=1)
    assert p_value(end, *row(states[7])) > 1e-6
    chances = np.zeros((len(states), len(states)))
    for i, z in enumerate(states):
        targets, p = row(z)
        for j, t in enumerate(states):
            chances[i, j] = p[(targets == t).all(axis=1)].sum()
    flow = q[:, None] * chances
    assert np.allclose(flow, flow.T, rtol=1e-9, atol=0)


def test_inequalities_truncate_the_law_of_independence():
    A, law, table = [[1, 1, 1, 1], [0, 0, 1, 1]], DoubleGeometric("1/2"), np.array([2, 0, 1, 5])
    B, limits = np.vstack([np.eye(4, dtype=int), [[1, 0, 1, 0]]]), np.append(-table, -2)
    points, p = enumerate_law(A, law, lower=-table)
    allowed = points[:, 0] + points[:, 2] >= -2
    points, p = points[allowed], p[allowed] / p[allowed].sum()
    chain = IndependenceMetropolis(A, law, 0.5, B=B, limits=limits)
    noise, _ = chain.draw(10_000, thin=100, chains=2, burn=500, rng=2)
    assert p_value(noise.reshape(-1, 4), points, p) > 1e-6


def test_index_set_and_exact_solutions():
    prepared = IndependenceMetropolis([[2, 3, 5]], DoubleGeometric(1), 1, free=[0, 1]).system
    assert (prepared.free.tolist(), prepared.solved.tolist()) == ([0, 1], [2])
    assert (prepared.factors.tolist(), prepared.divisor) == ([[-2, -3]], 5)


def test_acceptance_on_a_table_like_that_of_the_paper():
    """Table of 2 x 23 ages by sex with totals by sex and voting age, non-negative: the paper accepts 1.68 %."""
    A = np.zeros((3, 46), dtype=int)
    A[0], A[1, :23], A[2, 4:23], A[2, 27:] = 1, 1, 1, 1
    table = np.random.default_rng(4).poisson(5.5, 46)
    free = np.setdiff1d(np.arange(46), [0, 22, 45])
    chain = IndependenceMetropolis(A, DoubleGeometric("1/2"), "0.6", free=free, B=np.eye(46, dtype=int), limits=-table)
    noise, accepted = chain.draw(20_000, rng=5)
    assert 0.003 < accepted[0] < 0.06
    assert not (noise[0] @ A.T).any()
    assert (noise[0] + table >= 0).all()


# -- lines of lattice Gibbs -----------------------------------------------------------------------------


@numba.njit
def quantiles(z, cells, steps, kind, scale, u):
    rates = np.full(z.size, scale)
    room, out = work_space(cells.size), np.empty(u.size, np.int64)
    for k in range(u.size):
        out[k] = line_quantile(z, (z * z).sum(), cells, steps, kind, rates, u[k], room)
    return out


def random_line(rng, unit):
    n = int(rng.integers(1, 7))
    steps = rng.choice([-1, 1], n) * (1 if unit else rng.integers(1, 5, n))
    return rng.integers(-9, 10, n), np.arange(n), steps


def disagreement(law, z, cells, steps, rng, *, truth=None):
    """Return the share of uniforms whose quantile differs from the enumerated line, except for rounding at jumps."""
    true_law, true_z, true_steps = truth or (law, z, steps)
    t, u = np.arange(-300, 301), rng.random(400)
    log_mass = log_masses(true_law, true_z + t[:, None] * true_steps)
    p = np.exp(log_mass - log_mass.max())
    cdf = np.cumsum(p / p.sum())
    expected = t[np.minimum(np.searchsorted(cdf, u, side="right"), len(t) - 1)]
    near_jump = np.abs(u[:, None] - cdf).min(axis=1) < 1e-12
    return ((quantiles(z, cells, steps, *law.kernel_id, u) != expected) & ~near_jump).mean()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", ["l1", "l2", "gaussian"])
def test_line_quantiles_equal_enumerated_quantiles(kind):
    rng = np.random.default_rng(1)
    for trial in range(120):
        law = KINDS[kind](rng.choice([0.3, 1.0, 2.5]))
        assert disagreement(law, *random_line(rng, trial % 2), rng) == 0


def test_the_line_comparison_rejects_wrong_variants():
    rng = np.random.default_rng(2)
    for kind in ("l1", "l2", "gaussian"):
        law, wrong = KINDS[kind](1), KINDS[kind]("1.05")
        z, cells, steps = np.array([3, -1, -4, 2]), np.arange(4), np.array([1, -1, -1, 1])
        assert disagreement(wrong, z, cells, steps, rng, truth=(law, z, steps)) > 0
    assert disagreement(law, z, cells[:3], steps[:3], rng, truth=(law, z, steps)) > 0


def test_quantiles_in_far_tails_and_at_the_ends_are_finite_and_ordered():
    z, cells, steps = np.array([10_000_000, -3]), np.arange(2), np.array([1, -1])
    u = np.array([0.0, 1e-300, 1e-17, 0.5, 1 - 2**-53])
    for law in (DoubleGeometric("1/4"), DoubleGeometric(50)):
        t = quantiles(z, cells, steps, *law.kernel_id, u)
        assert (np.diff(t) >= 0).all()
        assert (abs(t + 5_000_000) <= 5_001_000).all()


def test_states_on_one_line_move_to_the_same_point():
    rng = np.random.default_rng(3)
    for law in [*LAWS, DoubleGeometric("3/2")]:
        z, cells, steps = random_line(rng, False)
        u = rng.random(200)
        there = quantiles(z + 7 * steps, cells, steps, *law.kernel_id, u)
        assert (quantiles(z, cells, steps, *law.kernel_id, u) == there + 7).mean() > 0.99


# -- larger tables, threads and refusals ---------------------------------------------------------------------


QUARTER = DoubleGeometric("1/4")
RUNS = {
    "published": lambda **how: LatticeMetropolis(FOUR_BY_FOUR, QUARTER, a=np.exp(-1.0)).draw(50, **how)[0],
    "gibbs": lambda **how: noise_gibbs(gibbs_moves(FOUR_BY_FOUR, QUARTER), 50, **how),
    "independence": lambda **how: IndependenceMetropolis([[1, 1, 1]], DoubleGeometric(1), 1).draw(50, **how)[0],
    "annealed": lambda **how: annealed(annealing(FOUR_BY_FOUR, QUARTER), 20, **how)[0],
}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", RUNS)
def test_draws_do_not_depend_on_the_number_of_threads(name):
    one, three = (RUNS[name](chains=4, rng=11, threads=threads) for threads in (1, 3))
    assert (one == three).all()
    assert (one[0] != one[1]).any()
    assert (RUNS[name](chains=4, rng=12) != one).any()
    sums = [[1, 1, 1]] if name == "independence" else FOUR_BY_FOUR.toarray()
    assert not (one @ np.transpose(sums)).any()


def test_a_fully_fixed_system_has_zero_noise():
    assert not noise_gibbs(gibbs_moves(np.eye(3, dtype=int), DoubleGeometric(1)), 4, rng=1).any()


TOTAL, UNIT = [[1, 1, 1]], DoubleGeometric(1)
REFUSED = [
    (lambda: annealing([[1, 1]], L2Laplace(1)), PrivacyError, "requires an l1 law"),
    (lambda: annealing([[1, 1]], UNIT, levels=0), PrivacyError, "levels must be"),
    (lambda: annealing(SYSTEMS["weights"], UNIT), InvariantError, "multiples of 1/2"),
    (lambda: gibbs_moves(TOTAL, Staircase(1)), PrivacyError, "do not support staircase"),
    (lambda: DiscreteGaussian(0), PrivacyError, "sigma must be positive"),
    (lambda: IndependenceMetropolis(TOTAL, UNIT, 1, free=[0]), InvariantError, "do not determine the other cells"),
    (lambda: IndependenceMetropolis([[1, 1, 0]], UNIT, 1, free=[0, 1]), InvariantError,
     "do not determine the other cells"),
    (lambda: IndependenceMetropolis(TOTAL, UNIT, 1, free=[0, 7]), InvariantError, "found 7"),
    (lambda: IndependenceMetropolis(TOTAL, UNIT, 1, B=[[1, 0, 0]], limits=[1]), InvariantError,
     r"limits\[0\] is positive"),
    (lambda: IndependenceMetropolis(TOTAL, UNIT, 1, B=[[1, 0, 0]], limits=[0, 0]), InvariantError, "2 limits"),
    (lambda: IndependenceMetropolis(TOTAL, UNIT, 0), PrivacyError, "rate must be positive"),
    (lambda: IndependenceMetropolis(TOTAL, UNIT, 1).draw(3, thin=0, rng=1), PrivacyError, "thin and chains must be"),
    (lambda: LatticeMetropolis(TOTAL, UNIT, a=1.0), PrivacyError, "0 < a < 1"),
    (lambda: tv_bound(lambda lag, limit, rng: 1, pairs=0, rng=1), PrivacyError, "pairs must be at least 1"),
    (lambda: tv_bound(lambda lag, limit, rng: 1, lag=10, limit=10, rng=1), PrivacyError, "below limit = 10"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_invalid_input_raises(call, error, message):
    with pytest.raises(error, match=message):
        call()
