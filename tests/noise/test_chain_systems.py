"""Markov chains on a hundred random small systems, against enumeration; wrong variants must be rejected."""

from functools import cache

import numpy as np
import pytest
from grids import box
from lattice_laws import KINDS, exact_draws, log_masses, random_system
from scipy import stats
from test_chains import by_annealing, gibbs, independent, published

from ppdinf.fiber.gibbs.line_gibbs import NO_SUMS, cell_weights, walk
from ppdinf.lattice import kernel, margin_matrix
from ppdinf.lattice.moves import connected_moves
from ppdinf.laws import DoubleGeometric
from ppdinf.noise import IndependenceMetropolis
from ppdinf.noise.mcmc.lattice_gibbs_noise import gibbs_moves, noise_gibbs

pytestmark = pytest.mark.deep  # single systems are in `test_chains`

SYSTEMS, HALF, FEW, DRAWS = 100, 50, 25, 2000
SCALES = {"l1": ["2/3", "1", "3/2"], "l2": ["10/11", "3/2", "2"], "gaussian": ["2/3", "10/11", "3/2"]}
MARGINS = [margin_matrix(shape, [(0,), (1,)]).toarray() for shape in [(2, 3), (2, 4), (3, 3)]]


@cache
def problem(number, annealable=False):
    """Random system, law, and the law by enumeration; every tenth system is a two-way table."""
    rng = np.random.default_rng([number, 2024 if annealable else 2023])
    if annealable:  # integer solved cells
        law = DoubleGeometric(str(rng.choice(SCALES["l1"])))
        while IndependenceMetropolis(A := random_system(rng), law, 1).system.divisor != 1:
            pass
        return A, law, *enumerate_noise(A, law)
    A = MARGINS[number // 10 % 3] if number % 10 == 0 else random_system(rng)
    kind = "l1" if number % 10 == 0 else str(rng.choice(list(SCALES)))
    law = KINDS[kind](str(rng.choice(SCALES[kind])))
    return A, law, *enumerate_noise(A, law)


def enumerate_noise(A, law):
    """Return points and probabilities; the omitted points have a mass below 1e-5."""
    basis = kernel(A).basis.toarray()
    for reach in (3, 5, 8, 12, 20, 40, 80, 200):
        x = box(-reach, reach, basis.shape[1])
        z = x @ basis.T
        mass = np.exp(log_masses(law, z))
        if mass[(np.abs(x) == reach).any(axis=1)].sum() < 1e-7 * mass.sum():
            break
    kept = mass > 1e-9 * mass.sum()
    return z[kept], mass[kept] / mass[kept].sum()


class Comparison:
    """Draws of many systems, in two measures.

    Each system alone: the total variation is below the value that n independent draws exceed with probability 1e-8
    (McDiarmid). All systems together: the sum of their chi-square statistics.
    """

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
        A, law, points, p = problem(number, chain is by_annealing)
        found.add(chain(A, law, exact_draws(points, p, DRAWS, number), number, **wrong), points, p)
    return found


@pytest.mark.parametrize("chain", [published, gibbs, independent, by_annealing])
def test_hundred_systems(chain):
    assert compare(chain).agrees


@pytest.mark.parametrize("chain", [published, gibbs, independent, by_annealing])
def test_a_wrong_scale_on_fifty_systems(chain):
    assert compare(chain, HALF, factor="1.05" if chain is not gibbs else 1.05).p_value < 1e-6


@pytest.mark.parametrize(
    ("chain", "wrong", "share"),
    [
        (published, {"sublattice": True}, 0.8),
        (published, {"accept": False}, 0.9),
        (gibbs, {"sublattice": True}, 0.8),
        (independent, {"accept": False}, 0.7),
    ],
)
def test_wrong_chains_are_far_on_most_systems(chain, wrong, share):
    assert np.mean(compare(chain, FEW, **wrong).far) > share


def test_annealed_proposals_without_acceptance():
    assert compare(by_annealing, FEW, accept=False).p_value < 1e-6


def test_gibbs_reaches_everything_from_zero():
    for number in range(FEW):
        A, law, points, p = problem(number)
        moves = gibbs_moves(A, law)
        moves = moves._replace(sweep=max(moves.sweep, moves.starts.size))
        chain = noise_gibbs(moves, 60, chains=4, rng=number).reshape(-1, points.shape[1])
        assert set(map(tuple, points[p > 0.04].tolist())) <= set(map(tuple, chain.tolist()))


@pytest.mark.parametrize("A", MARGINS)
def test_two_way_tables_are_drawn_by_pairs_of_rows(A):
    assert gibbs_moves(A, DoubleGeometric(1)).rows.size


# -- confidential tables on bounded fibers --------------------------------------------------------------

WIDTH = 5


def gibbs_tables(x, starts, cells, steps, lower, log_weights, draws, each, rng):
    """Return tables after `each` directions from a random position of a long list of directions."""
    out, weights = np.empty((draws, x.size), np.int64), cell_weights(lower, log_weights)
    for k in range(draws):
        first = int(rng.random() * (starts.size - 1 - each))
        walk(x, starts[first : first + each + 1], cells, steps, weights, *NO_SUMS, rng)
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
