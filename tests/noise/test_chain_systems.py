"""Every chain on a hundred random small systems, against enumeration; wrong variants must be rejected.

There are two measures. Each system alone: the total variation between draws and law is below the value that n
independent draws exceed with probability 1e-8 (McDiarmid's inequality: one draw changes the distance by 1 / n). All
systems together: the sum of their chi-square statistics, which detects small errors such as a scale error of 5 %.
"""

from functools import cache

import numba
import numpy as np
import pytest
from grids import box
from lattice_laws import KINDS, log_masses, random_system, scaled
from scipy import stats

from ppdinf.fiber.gibbs.line_gibbs import walk
from ppdinf.lattice import kernel, margin_matrix
from ppdinf.lattice.moves import connected_moves
from ppdinf.laws import DoubleGeometric
from ppdinf.noise.mcmc.annealed import anneal, annealed, annealing, draw_candidate, independence, own_rates, proposal
from ppdinf.noise.mcmc.isdp import isdp, jumps
from ppdinf.noise.mcmc.lattice_gibbs_noise import gibbs_moves, move_space, noise_gibbs, step, word

pytestmark = pytest.mark.deep  # single systems are in the tests of each chain

SYSTEMS, HALF, FEW, DRAWS = 100, 50, 25, 2000
SCALES = {"l1": ["2/3", "1", "3/2"], "l2": ["10/11", "3/2", "2"], "gaussian": ["2/3", "10/11", "3/2"]}
MARGINS = [margin_matrix(shape, [(0,), (1,)]).toarray() for shape in [(2, 3), (2, 4), (3, 3)]]


# -- systems and their laws -----------------------------------------------------------------------------


@cache
def problem(number):
    """Random system, law, and the law by enumeration; every tenth system is a two-way table."""
    rng = np.random.default_rng([number, 2023])
    A = MARGINS[number // 10 % 3] if number % 10 == 0 else random_system(rng)
    kind = "l1" if number % 10 == 0 else str(rng.choice(list(SCALES)))
    law = KINDS[kind](str(rng.choice(SCALES[kind])))
    return A, law, *enumerate_noise(A, law)


def enumerate_noise(A, law, lower=None):
    """Return points and probabilities; the omitted points have a mass below 1e-5."""
    basis = kernel(A).basis.toarray()
    for reach in (3, 5, 8, 12, 20, 40, 80, 200):
        x = box(-reach, reach, basis.shape[1])
        z = x @ basis.T
        mass = np.exp(log_masses(law, z))
        if mass[(np.abs(x) == reach).any(axis=1)].sum() < 1e-7 * mass.sum():
            break
    kept = mass > 1e-9 * mass.sum()
    if lower is not None:
        kept = (z >= lower).all(axis=1)
    return z[kept], mass[kept] / mass[kept].sum()


class Comparison:
    """Collects draws of many systems."""

    def __init__(self):
        self.far, self.chi_square, self.freedom, self.systems = [], 0.0, 0, 0

    def add(self, draws, points, p):
        n = len(draws)
        common = np.flatnonzero(p * n > 5)
        place = {tuple(point): k for k, point in enumerate(points[common].tolist())}
        counts = np.zeros(len(common) + 1)
        for z in map(tuple, draws.tolist()):
            counts[place.get(z, -1)] += 1
        expected = np.append(p[common], max(1.0 - p[common].sum(), 0.0)) * n
        distance = np.abs(counts - expected).sum() / (2 * n)
        noise = np.sqrt(expected / n * (1 - expected / n) / n).sum() / 2
        self.far.append(distance > noise + np.sqrt(np.log(1e8) / (2 * n)))
        self.chi_square += ((counts - expected) ** 2 / np.maximum(expected, 5)).sum()
        self.freedom += len(common)
        self.systems += 1

    @property
    def p_value(self):
        return stats.chi2.sf(self.chi_square, self.freedom)

    @property
    def agrees(self):
        """Return whether each system alone and all systems together agree with enumeration."""
        return self.systems >= SYSTEMS and not any(self.far) and self.p_value > 1e-6


def compare(chain, systems=SYSTEMS, **wrong):
    found = Comparison()
    for number in range(systems):
        A, law, points, p = problem(number)
        found.add(chain(A, law, number, **wrong).reshape(-1, points.shape[1]), points, p)
    return found


def doubled(basis):
    """Return a basis of a sublattice of index 2."""
    basis = basis.toarray()
    basis[:, 0] *= 2
    return basis


# -- the published chain --------------------------------------------------------------------------------


def published(A, law, number, factor=1, sublattice=False, accept=True):
    basis = doubled(kernel(A).basis) if sublattice else kernel(A).basis
    system = jumps(basis, scaled(law, factor), a=np.exp(-1.0))
    if not accept:  # under a flat target every proposal is accepted
        system = system._replace(kind=0, scale=0.0)
    return isdp(system, DRAWS // 2, thin=100, burn=200, chains=2, rng=number)[0]


def test_published_chain():
    assert compare(published).agrees


def test_wrong_published_chains_are_rejected():
    assert compare(published, HALF, factor="1.05").p_value < 1e-6
    assert np.mean(compare(published, FEW, sublattice=True).far) > 0.8
    assert np.mean(compare(published, FEW, accept=False).far) > 0.9


# -- lattice Gibbs for noise ----------------------------------------------------------------------------


@cache
def moves_of(number, bounded=False):
    A, law, *_ = problem(number)
    return gibbs_moves(A, law, lower=lower_of(number) if bounded else None)


def lower_of(number):
    return -np.random.default_rng(number).integers(0, 3, problem(number)[0].shape[1])


@numba.njit
def advanced(starts, moves, n_steps, rng):
    """Move every start independently by `n_steps` moves."""
    room = move_space(moves)
    for row in range(len(starts)):
        for _ in range(n_steps):
            step(starts[row], moves, word(rng), room)
    return starts


def gibbs(A, law, number, factor=1, sublattice=False):
    """Return draws of the law after moves that must preserve it; on a sublattice, start from zero."""
    moves, rng = moves_of(number), np.random.default_rng(number)
    moves = moves._replace(rates=factor * moves.rates)
    _, _, points, p = problem(number)
    start = points[rng.choice(len(points), DRAWS, p=p)]
    if sublattice:
        only = jumps(doubled(kernel(A).basis), law, a=0.5)
        none = np.empty((0, 0), dtype=np.int64)
        moves = moves._replace(starts=only.starts, cells=only.cells, steps=only.steps, rows=none, columns=none)
        start = np.zeros_like(start)
    return advanced(start, moves, 40, rng)


def test_gibbs():
    assert compare(gibbs).agrees


def test_gibbs_reaches_everything_from_zero():
    for number in range(FEW):
        _, _, points, p = problem(number)
        moves = moves_of(number)
        moves = moves._replace(sweep=max(moves.sweep, moves.starts.size))
        chain = noise_gibbs(moves, 60, chains=4, rng=number).reshape(-1, points.shape[1])
        assert set(map(tuple, points[p > 0.04].tolist())) <= set(map(tuple, chain.tolist()))


def test_gibbs_with_bounds():
    found, wrong = Comparison(), Comparison()
    for number in range(SYSTEMS):
        A, law, *_ = problem(number)
        rng, lower = np.random.default_rng(number), lower_of(number)
        points, p = enumerate_noise(A, law, lower)
        start = points[rng.choice(len(points), DRAWS, p=p)]
        found.add(advanced(start.copy(), moves_of(number, True), 40, rng), points, p)
        if number < FEW:
            wrong.add(advanced(start, moves_of(number, True)._replace(lower=lower - 1), 40, rng), points, p)
    assert found.agrees
    assert wrong.p_value < 1e-6


def test_wrong_gibbs_is_rejected():
    assert compare(gibbs, HALF, factor=1.05).p_value < 1e-6
    assert np.mean(compare(gibbs, FEW, sublattice=True).far) > 0.8


# -- Metropolised independence --------------------------------------------------------------------------


@numba.njit
def proposals(prepared, draws, rng):
    """Return the chain without its acceptance step; non-integer proposals are still rejected."""
    out = np.zeros((draws, prepared.free.size + prepared.solved.size), np.int64)
    for k in range(draws):
        while not draw_candidate(out[k], prepared, rng):
            pass
    return out


def independent(A, law, number, factor=1, accept=True):
    rate = law.epsilon / 2 if law.is_mixture else law.kernel_id[1]  # wider than targets without l1 tails
    prepared = proposal(A, scaled(law, factor), rate)
    if not accept:
        return proposals(prepared, DRAWS, np.random.default_rng(number))
    return independence(prepared, DRAWS // 2, thin=120, burn=240, chains=2, rng=number)[0]


def test_independence():
    assert compare(independent).agrees


def test_wrong_independence_is_rejected():
    assert compare(independent, HALF, factor="1.05").p_value < 1e-6
    assert np.mean(compare(independent, FEW, accept=False).far) > 0.7


# -- annealed independence ------------------------------------------------------------------------------


@numba.njit
def annealed_proposals(system, draws, rng):
    room, out = move_space(system.moves), np.zeros((draws, system.moves.d), np.int64)
    for k in range(draws):
        anneal(out[k], system, room, rng)
    return out


@cache
def annealing_problem(number):
    """Return a system with integer solved cells, its enumerated l1 law, and the shortest annealing."""
    rng = np.random.default_rng([number, 2024])
    law = DoubleGeometric(str(rng.choice(SCALES["l1"])))
    while proposal(A := random_system(rng), law, 1).divisor != 1:
        pass
    return annealing(A, law, levels=1), *enumerate_noise(A, law)


def compare_annealed(systems=SYSTEMS, factor=1, accept=True):
    found = Comparison()
    for number in range(systems):
        system, points, p = annealing_problem(number)
        moves = system.moves._replace(rates=factor * system.moves.rates)
        system = system._replace(moves=moves, start=system.start._replace(rate=factor * system.start.rate))
        if accept:
            noise = annealed(system, 5 * DRAWS, burn=30, chains=2, rng=number)[0][:, ::10].reshape(-1, moves.d)
        else:
            noise = annealed_proposals(own_rates(system), DRAWS, np.random.default_rng(number))
        found.add(noise, points, p)
    return found


def test_annealed_independence():
    assert compare_annealed().agrees


def test_wrong_annealed_independence_is_rejected():
    assert compare_annealed(HALF, factor=1.05).p_value < 1e-6
    assert compare_annealed(FEW, accept=False).p_value < 1e-6


# -- confidential tables on bounded fibers --------------------------------------------------------------

WIDTH = 5


@numba.njit
def gibbs_tables(x, starts, cells, steps, lower, log_weights, draws, each, rng):
    """Return tables after `each` directions from a random position of a long list of directions."""
    out = np.empty((draws, x.size), np.int64)
    for k in range(draws):
        first = int(rng.random() * (starts.size - 1 - each))
        walk(x, starts[first : first + each + 1], cells, steps, lower, log_weights, rng)
        out[k] = x
    return out


def fiber_problem(number):
    """Return a table in a box with Poisson cells and noise; every other fiber has one more linear bound."""
    rng = np.random.default_rng([number, 2025])
    A = MARGINS[number // 10 % 2] if number % 10 == 0 else random_system(rng)
    d = A.shape[1]
    lower, table = rng.integers(0, 3, d), rng.integers(0, 3, d)
    B = rng.integers(-1, 2, (number % 2, d))
    table = table + lower
    limits = B @ table - rng.integers(0, 3, len(B))
    grid = lower + box(0, WIDTH - 1, d)
    points = grid[(grid @ A.T == A @ table).all(axis=1) & (grid @ B.T >= limits).all(axis=1)]
    released, rates = table + rng.integers(-2, 3, d), rng.uniform(0.3, 5.0, d)
    window = lower[:, None] + np.arange(WIDTH)
    weights = stats.poisson.logpmf(window, rates[:, None]) - rng.choice([0.3, 1.0]) * abs(window - released[:, None])
    return rng, A, B, limits, lower, table, points, weights


def compare_line_gibbs(systems=SYSTEMS, factor=1.0, sublattice=False, bounded=True):
    found = Comparison()
    for number in range(systems):
        rng, A, B, limits, lower, table, points, weights = fiber_problem(number)
        moves = connected_moves(A, bounds="any" if len(B) else "box", seconds=0)
        v = moves.draw(512, rng=rng) * (2 if sublattice else 1)
        if not bounded:
            B, limits = B[:0], limits[:0]
        v = np.vstack([v.toarray(), B @ v.toarray()])
        starts = np.append(0, np.cumsum((v != 0).sum(axis=0))).astype(np.int32)
        columns, rows = np.nonzero(v.T)
        x = np.concatenate([table, B @ table - limits])
        each = 90 if len(B) else 25
        args = (lower, factor * weights, 2 * DRAWS, each, rng)
        tables = gibbs_tables(x, starts, rows.astype(np.int32), v[rows, columns], *args)[:, : table.size]
        log_p = weights[np.arange(table.size), points - lower].sum(axis=1)
        p = np.exp(log_p - log_p.max())
        found.add(tables, points, p / p.sum())
    return found


def test_line_gibbs():
    assert compare_line_gibbs().agrees


def test_wrong_line_gibbs_is_rejected():
    assert compare_line_gibbs(HALF, factor=1.05).p_value < 1e-6
    assert np.mean(compare_line_gibbs(FEW, sublattice=True).far) > 0.3  # many fibers have one or two points
    assert compare_line_gibbs(FEW, bounded=False).p_value < 1e-6


@pytest.mark.parametrize("number", [0, 10, 20])
def test_two_way_tables_are_drawn_by_pairs_of_rows(number):
    assert gibbs_moves(MARGINS[number // 10], DoubleGeometric(1)).rows.size
