"""Noise by chains: random small systems against enumeration, wrong variants, plans, files and seeds."""

import math
import secrets
from functools import cache

import numba
import numpy as np
import pytest
from grids import box
from lattice_laws import KINDS, enumerated, exact_draws, fit, log_masses, margins_law, random_system, total_variation
from scipy import stats
from test_chains import by_annealing, gibbs, independent, published

import ppdinf as ppd
from ppdinf.errors import InvariantError
from ppdinf.fiber.gibbs.line_gibbs import NO_SUMS, cell_weights, walk
from ppdinf.lattice import kernel, margin_matrix, structure
from ppdinf.lattice.moves import connected_moves
from ppdinf.laws import DoubleGeometric
from ppdinf.noise import IndependenceMetropolis, sampler_plan
from ppdinf.noise.exact.sampler_offer import Declined
from ppdinf.noise.mcmc import coupled_noise
from ppdinf.noise.mcmc.coupled_noise import gibbs_meeting
from ppdinf.noise.mcmc.lattice_gibbs_noise import gibbs_moves, noise_gibbs
from ppdinf.noise.mcmc.tv_bound import TVBound, tv_bound
from ppdinf.noise.primitives.chacha import ChaCha20
from ppdinf.noise.primitives.stream import seeded_stream

MARGINS = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
TABLE = np.array([[5, 0, 2], [1, 7, 3], [4, 4, 0]])


@pytest.fixture
def no_exact_sampler(monkeypatch):
    monkeypatch.setattr(sampler_plan, "OFFERS", (lambda *_: Declined(lambda: "too much for exact noise"),))


@pytest.mark.usefixtures("no_exact_sampler")
def test_release_by_a_chain_states_the_chain_in_files_and_reports(tmp_path):
    mechanism = ppd.GeneralizedLaplace(MARGINS, epsilon="1/2")
    release = mechanism.release(TABLE, allow_mcmc=True)
    assert not (release.table - TABLE).sum("dim_0").any()
    assert not (release.table - TABLE).sum("dim_1").any()
    release.save(tmp_path / "chain.ppd")
    for found in (release, ppd.read_release(tmp_path / "chain.ppd")):
        assert not found.plan.exact
        assert found.plan.sampler == "annealed independence"
        assert "Markov chain" in str(found.plan)
        assert "200 pairs of chains" in str(found.plan)
        assert 3 / 200 / 1.01 < found.plan.distance < 0.03  # the limit of 200 pairs is at least 0.0149
        promise = found.guarantee
        assert promise.sampler_distance == found.plan.distance
        assert promise.nearest == 4
        assert promise.sampler_delta == pytest.approx((1 + math.exp(2)) * found.plan.distance)
        assert f"up to {found.plan.distance:.2g} in total variation" in promise.describe()
        assert promise.to_dict()["sampler_distance"] == found.plan.distance
    again = mechanism.simulate(TABLE, draws=3, rng=1, allow_mcmc=True)
    assert (again == mechanism.simulate(TABLE, draws=3, rng=1, allow_mcmc=True)).all()
    assert (again != mechanism.simulate(TABLE, draws=3, rng=2, allow_mcmc=True)).any()


@pytest.mark.usefixtures("no_exact_sampler")
def test_chains_require_permission_and_the_l1_law():
    with pytest.raises(InvariantError, match="too much for exact noise"):
        ppd.GeneralizedLaplace(MARGINS, epsilon="1/2").release(TABLE)
    for norm_or_sigma in ({"epsilon": 1, "norm": "l2"},):
        with pytest.raises(InvariantError, match="too much for exact noise"):
            ppd.GeneralizedLaplace(MARGINS, **norm_or_sigma).release(TABLE, allow_mcmc=True)


def test_exact_samplers_have_priority():
    plan = ppd.GeneralizedLaplace(MARGINS, epsilon="1/2").sampler_plan(TABLE, allow_mcmc=True)
    assert plan.exact
    assert plan.distance is None


@pytest.mark.deep
def test_twelve_by_twelve_margins(monkeypatch):
    """The mean of |z| of the chain and of exact draws agrees with row-pair Gibbs."""
    monkeypatch.setattr(coupled_noise, "PAIRS", 15)
    mechanism, table = ppd.GeneralizedLaplace(MARGINS, epsilon="1/4"), np.full((12, 12), 9)
    assert mechanism.sampler_plan(table).exact
    noise = mechanism.simulate(table, draws=40, rng=1) - table
    assert abs(float(abs(noise).sum(("dim_0", "dim_1")).mean()) - 477) < 35  # five standard errors
    chain = coupled_noise.chain_noise(structure(MARGINS.on(table).A), DoubleGeometric("1/4"))
    drawn = chain.draw(10, seeded_stream(1))
    assert not drawn.reshape(10, 12, 12).sum(axis=2).any()
    assert abs(abs(drawn).sum(axis=1).mean() - 477) < 80


@pytest.mark.deep
def test_narrow_noise_under_both_margins_of_a_table(monkeypatch):
    """The system is beyond every exact sampler; the plan states it if a chain is allowed."""
    monkeypatch.setattr(coupled_noise, "PAIRS", 10)
    mechanism, table = ppd.GeneralizedLaplace(MARGINS, epsilon=2), np.full((14, 14), 9)
    with pytest.raises(InvariantError, match="196 cells lie under public sums that cross"):
        mechanism.release(table)
    release = mechanism.release(table, allow_mcmc=True)
    assert not release.plan.exact
    assert release.guarantee.sampler_delta > 0
    assert not (release.table - table).sum("dim_1").any()


# -- draws ----------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_draws_have_the_law_and_short_chains_are_rejected():
    chain = coupled_noise.chain_noise(structure(MARGINS.on(TABLE).A), DoubleGeometric(1))
    truth = margins_law(1.0, "l1")
    assert fit(chain.draw(3000, seeded_stream(1)), truth) > 1e-6
    system = coupled_noise.annealing(structure(MARGINS.on(TABLE).A), DoubleGeometric(1), levels=1)
    first, _ = coupled_noise.annealed(system, 1, chains=3000, rng=1)
    assert fit(first[:, 0], truth) < 1e-6


@pytest.mark.deep
def test_lattice_gibbs_is_used_for_non_integer_solutions():
    A, law = np.array([[2, 3, 5]]), DoubleGeometric("2/3")
    chain = coupled_noise.chain_noise(structure(A), law)
    assert chain.sampler == "lattice Gibbs"
    z = chain.draw(5000, seeded_stream(2))
    assert not (z @ A.T).any()
    truth = enumerated(A, "l1", law.epsilon)
    assert fit(z, truth) > 1e-6
    # with a lag of one, pairs that stay at zero "meet" at once, and the chain would hardly leave it
    short = tv_bound(gibbs_meeting(gibbs_moves(A, law)), pairs=200, lag=1, rng=0)
    distance, _ = total_variation(
        noise_gibbs(gibbs_moves(A, law), 1, burn=int(short.meetings.max()), chains=5000, rng=1)[:, 0], truth
    )
    assert distance > 3 * float(short.upper(short.meetings.max()))


def test_pairs_that_do_not_meet_raise(monkeypatch):
    monkeypatch.setattr(coupled_noise, "LIMIT", 3)
    with pytest.raises(InvariantError, match=r"no Markov chain.*had not met after 3 steps.*choose l2 or Gaussian"):
        coupled_noise.chain_noise(structure([[1, 1, 1, 1], [1, 2, 0, 3]]), DoubleGeometric("1/9"))


# -- seeds ----------------------------------------------------------------------------------------------


def test_draws_depend_on_every_word_of_the_stream_only():
    chain = coupled_noise.chain_noise(structure([[1, 1, 0], [0, 1, 1]]), DoubleGeometric("1/4"))
    taken = []

    def draw(words):
        return chain.draw(50, lambda n: taken.append(n) or np.array(words, dtype=np.uint64))

    words = [2**63 + 5, 11, 2**40, 3]
    np.random.seed(1)  # noqa: NPY002  (the global state must not matter)
    first = draw(words)
    np.random.seed(2)  # noqa: NPY002
    assert (draw(words) == first).all()
    assert set(taken) == {4}
    for place in range(4):
        for bit in (0, 31, 32, 63):
            other = list(words)
            other[place] ^= 1 << bit
            assert (draw(other) != first).any()
    assert len(np.unique(first, axis=0)) > 5  # chains of one call differ


def test_chains_use_a_cipher_keyed_by_the_stream():
    """A simulation generator would not be secure for releases: its words can be computed from each other."""
    seen = []

    def run(size, rng):
        seen.append(rng)
        return np.zeros((size, 1), dtype=np.int64)

    coupled_noise.ChainNoise("any", 1, TVBound(1, np.array([2, 2]), limit=10), run).draw(1, seeded_stream(1))
    (generator,) = seen
    words = np.array([stream.bit_generator.random_raw(8) for stream in generator.spawn(2)])
    key = seeded_stream(1)(4)
    assert (words == [ChaCha20(key, 1).random_raw(8), ChaCha20(key, 2).random_raw(8)]).all()


def test_keys_of_releases_and_of_simulations(monkeypatch):
    monkeypatch.setattr(sampler_plan, "OFFERS", (lambda structure, law, cells: Declined(lambda: "too much"),))
    keys, given = [], []
    monkeypatch.setattr(coupled_noise, "ChaCha20", lambda key: keys.append(key) or ChaCha20(key))
    monkeypatch.setattr("os.urandom", lambda n: given.append(secrets.token_bytes(n)) or given[-1])
    mechanism = ppd.GeneralizedLaplace(MARGINS, epsilon="1/2")
    mechanism.release(TABLE, allow_mcmc=True)
    assert keys[0].tobytes() in given
    mechanism.simulate(TABLE, draws=1, rng=1, allow_mcmc=True)
    assert (keys[1] == seeded_stream(1)(4)).all()
    assert len(given) == 1


# -- the confidence limit -------------------------------------------------------------------------------


@numba.njit
def meetings(pairs, lag, spread, rng):
    """Return meeting times of coupled independence chains with normal log weights."""
    out = np.empty(pairs, np.int64)
    for k in range(pairs):
        ahead = spread * rng.standard_normal()
        for _ in range(lag):
            offered = spread * rng.standard_normal()
            if np.log(rng.random()) <= offered - ahead:
                ahead = offered
        behind, out[k] = spread * rng.standard_normal(), lag
        while True:
            out[k] += 1
            offered, u = spread * rng.standard_normal(), np.log(rng.random())
            first, second = u <= offered - ahead, u <= offered - behind
            if first and second:
                break
            if first:
                ahead = offered
            if second:
                behind = offered
    return out


@pytest.mark.quick_cases(0)
def test_coverage_of_the_confidence_limit():
    rng, lag, spread, trials = np.random.default_rng(3), 8, 1.0, 400
    many = meetings(400_000, lag, spread, rng)
    covered = {1: 0, coupled_noise.LONGER: 0}
    for _ in range(trials):
        bound = TVBound(lag, meetings(coupled_noise.PAIRS, lag, spread, rng), limit=10**6)
        for times in covered:
            steps = times * (int(bound.meetings.max()) - lag)
            truth = np.maximum(0, np.ceil((many - lag - steps) / lag)).mean()
            covered[times] += float(bound.upper(steps)) >= truth
    assert covered[coupled_noise.LONGER] > 0.98 * trials
    assert covered[1] < 0.92 * trials


def test_distance_is_rounded_upwards():
    for meeting_times in ([2] * 200, [2] * 190 + [9] * 10, [2, 3, 4]):
        chain = coupled_noise.ChainNoise("any", 1, TVBound(1, np.array(meeting_times), limit=10), None)
        exact_limit = float(chain.bound.upper(1))
        assert exact_limit <= chain.distance <= min(1.0, 1.1 * exact_limit)
        assert float(f"{chain.distance:.2g}") == chain.distance


# single systems are in `test_chains`

SYSTEMS, HALF, FEW, DRAWS = 100, 50, 25, 2000
SCALES = {"l1": ["2/3", "1", "3/2"], "l2": ["10/11", "3/2", "2"], "gaussian": ["2/3", "10/11", "3/2"]}
MARGINS_OF_SYSTEMS = [margin_matrix(shape, [(0,), (1,)]).toarray() for shape in [(2, 3), (2, 4), (3, 3)]]


@cache
def problem(number, annealable=False):
    """Random system, law, and the law by enumeration; every tenth system is a two-way table."""
    rng = np.random.default_rng([number, 2024 if annealable else 2023])
    if annealable:  # integer solved cells
        law = DoubleGeometric(str(rng.choice(SCALES["l1"])))
        while IndependenceMetropolis(A := random_system(rng), law, 1).system.divisor != 1:
            pass
        return A, law, *enumerate_noise(A, law)
    A = MARGINS_OF_SYSTEMS[number // 10 % 3] if number % 10 == 0 else random_system(rng)
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


@pytest.mark.deep
@pytest.mark.parametrize("chain", [published, gibbs, independent, by_annealing])
def test_hundred_systems(chain):
    assert compare(chain).agrees


@pytest.mark.deep
@pytest.mark.parametrize("chain", [published, gibbs, independent, by_annealing])
def test_a_wrong_scale_on_fifty_systems(chain):
    assert compare(chain, HALF, factor="1.05" if chain is not gibbs else 1.05).p_value < 1e-6


@pytest.mark.deep
@pytest.mark.parametrize(("chain", "wrong", "share"), [
    (published, {"sublattice": True}, 0.8), (published, {"accept": False}, 0.9), (gibbs, {"sublattice": True}, 0.8),
    (independent, {"accept": False}, 0.7),
])  # fmt: skip
def test_wrong_chains_are_far_on_most_systems(chain, wrong, share):
    assert np.mean(compare(chain, FEW, **wrong).far) > share


@pytest.mark.deep
def test_annealed_proposals_without_acceptance():
    assert compare(by_annealing, FEW, accept=False).p_value < 1e-6


@pytest.mark.deep
def test_gibbs_reaches_everything_from_zero():
    for number in range(FEW):
        A, law, points, p = problem(number)
        moves = gibbs_moves(A, law)
        moves = moves._replace(sweep=max(moves.sweep, moves.starts.size))
        chain = noise_gibbs(moves, 60, chains=4, rng=number).reshape(-1, points.shape[1])
        assert set(map(tuple, points[p > 0.04].tolist())) <= set(map(tuple, chain.tolist()))


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
    A = MARGINS_OF_SYSTEMS[number // 10 % 2] if number % 10 == 0 else random_system(rng)
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


@pytest.mark.deep
def test_line_gibbs():
    assert compare_line_gibbs().agrees


@pytest.mark.deep
def test_wrong_line_gibbs_is_rejected():
    assert compare_line_gibbs(HALF, factor=1.05).p_value < 1e-6
    assert np.mean(compare_line_gibbs(FEW, sublattice=True).far) > 0.3  # many fibers have one or two points
    assert compare_line_gibbs(FEW, bounded=False).p_value < 1e-6
