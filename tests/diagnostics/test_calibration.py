"""Rank tests of every sampler of the posterior, and the faults that they must detect.

Poisson cells with rates BASE * exp(theta * SLOPE) and theta on a grid, so that posteriors are computed exactly. The
noise has its own sampler. Quantities: theta; the size of the noise |y - x|; the fit log p(x | theta). The
last two depend on the release and detect faults that theta does not detect.
"""

import noisy_denominators as denominators
import numpy as np
import pytensor.tensor as pt
import pytest
import scipy.sparse as sp
from numba import njit
from posterior_problems import REGIMES, SYSTEMS, noise, noticed, rows, solved
from scipy import stats
from scipy.special import gammaln

from ppdinf.diagnostics.calibration import calibrate, position, uniformity
from ppdinf.distributions.marginal_logp import logp_natural
from ppdinf.fiber.gibbs.line_gibbs import NO_SUMS, cell_weights, walk
from ppdinf.fiber.sums_given_totals import totals
from ppdinf.lattice.moves import connected_moves

GRID = np.linspace(-2.4, 2.4, 33)
PRIOR = stats.norm.pdf(GRID, 0, 0.8)
PRIOR = PRIOR / PRIOR.sum()

LOG_FACTORIAL = gammaln(np.arange(20_000) + 1)
BY_PIECES = {  # large enough for polynomials in the log rate: characteristic functions on a grid, and cumulants
    "two of 12": (rows(range(12), range(12, 24), cells=24), np.repeat([0, 1], 12)),
    "one of 240": (rows(range(240), cells=240), np.zeros(240, int)),
}


class Problem:
    """Distribution of (theta, x, y) for one system and regime, and its posteriors, with or without a fault."""

    def __init__(self, system, regime, *, fault=None):
        self.A, self.block = {**SYSTEMS, **BY_PIECES}[system]
        mean, self.epsilon = REGIMES[regime]
        d = self.A.shape[1]
        self.slope = np.resize([1.0, -0.3, 0.6, 0.1], d)
        self.rates = mean * np.linspace(0.7, 1.3, d) * np.exp(GRID[:, None] * self.slope)
        self.solve = solved(self.A)
        self.believed = 1.2 * self.epsilon if fault == "epsilon off by 20 %" else self.epsilon
        self.fault = fault

    def simulate(self, rng):
        k = rng.choice(GRID.size, p=PRIOR)
        x = rng.poisson(self.rates[k])
        y = x + noise(self.A.shape[1], *self.solve, self.epsilon, rng)
        truth = {"theta": GRID[k], "noise": np.abs(y - x).sum(), "fit": self.fit(k, x)}
        return truth, (k, x, y)

    def fit(self, k, x):
        """Return the log likelihood of the table: theta alone does not detect unused data."""
        return (x * np.log(self.rates[k])).sum(axis=-1) - self.rates[k].sum(axis=-1) - LOG_FACTORIAL[x].sum(axis=-1)

    def log_noise(self, y, width):
        return -self.believed * np.abs(y[:, None] - np.arange(width))

    def log_theta(self, y):
        """Return the log prior over the grid, without P(Z | theta) if that is the fault."""
        log_p = np.log(PRIOR)
        if self.fault == "P(Z | theta) dropped":
            goal = np.bincount(self.block, weights=y)
            sums = np.stack([self.rates[:, self.block == b].sum(axis=1) for b in range(goal.size)], axis=1)
            log_p = log_p - stats.poisson.logpmf(goal, sums).sum(axis=1)
        return log_p

    def marginal(self, data, rng, draws=40):
        """Draw theta on the grid with the table marginalized, then tables given theta."""
        _, _, y = data
        block, goal = self.block, np.bincount(self.block, weights=y).astype(np.int64)
        width = int(goal.max()) + 1
        if self.fault == "a public sum dropped":  # the last group, or the only total
            block, width = np.where(block == block.max(), -1, block), width + int(60 / self.epsilon)
            goal = goal[:-1] if goal.size > 1 else goal
        log_h = self.log_noise(y, width) - LOG_FACTORIAL[:width]
        place = {"lo": 0, "total": goal, "block": block}
        counted = used(goal, block)
        log_l = np.array([totals.log_coefficient(log_h, eta=np.log(r), **place)[counted].sum() for r in self.rates])
        return self.drawn(y, log_l, log_h, place, rng, draws)

    def pieces(self, data, rng, draws=40):
        """Draw with the table marginalized as for NUTS: by piecewise approximations of log normalizers."""
        _, _, y = data
        goal = np.bincount(self.block, weights=y).astype(np.int64)
        log_h = self.weights(y, goal)
        own = np.roll(log_h, 1, axis=0) if self.fault == "pieces of the neighbour" else log_h
        log_l = by_pieces(own, np.log(self.rates), goal, self.block).sum(axis=1)
        return self.drawn(y, log_l, log_h, {"lo": 0, "total": goal, "block": self.block}, rng, draws)

    def weights(self, y, goal):
        width = int(min(goal.max(), y.max() + 30 / self.epsilon)) + 1
        return self.log_noise(y, width) - LOG_FACTORIAL[:width]

    def drawn(self, y, log_l, log_h, place, rng, draws):
        log_p = self.log_theta(y) + log_l - self.rates.sum(axis=1)
        p = np.exp(log_p - log_p.max())
        chosen = rng.choice(GRID.size, size=draws, p=p / p.sum())
        tables = totals.draw(log_h, eta=np.log(self.rates[chosen]), **drawable(place), rng=rng)[:, 0]
        return {"theta": GRID[chosen], "noise": np.abs(y - tables).sum(axis=1), "fit": self.fit(chosen, tables)}

    def fiber(self, data, rng, length=30):
        """Run a chain through the truth: table by Gibbs steps on the fiber, theta by its full conditional."""
        k, x, y = data
        width = int(y.sum()) + 1
        before = int(rng.integers(length + 1))
        starts, cells, steps = self.directions(length, rng)
        chosen, tables = chain_through(
            k, x, starts, cells, steps, self.log_noise(y, width) - LOG_FACTORIAL[:width], np.log(self.rates),
            self.log_theta(y) - self.rates.sum(axis=1), before, length, rng,
        )  # fmt: skip
        return {"theta": GRID[chosen], "noise": np.abs(y - tables).sum(axis=1), "fit": self.fit(chosen, tables)}

    def directions(self, length, rng):
        each = 2 * self.A.shape[1] * length
        if not hasattr(self, "_pool") or self._at == 200:  # drawing few at a time would take longer than the steps
            A = self.A
            if self.fault == "a public sum dropped":
                A = A[: -1 if len(A) < 3 else -2]  # of nested or crossing sums the last follows from the others
            v = connected_moves(sp.csr_array(A), bounds="lower").draw(200 * each, rng=rng)
            self._pool, self._at = v, 0
        self._at += 1
        pool = self._pool
        return pool.indptr[(self._at - 1) * each : self._at * each + 1], pool.indices, pool.data


def by_pieces(log_h, eta, goal, block):
    """Return log coefficients of the totals for many natural parameters, by the Op with fixed pieces."""
    log_h = np.hstack([np.full((len(log_h), 1), -np.inf), log_h])  # windows of `PartiallyPrivate` start below 0
    node = logp_natural(pt.vector("eta", shape=block.shape), log_h, lo=-1, total=goal, block=block).owner
    fixed, found = [variable.get_value() for variable in node.inputs[1:]], []
    for at in eta:
        out = [[None], [None]]
        node.op.perform(node, [at, *fixed], out)
        found.append(out[0][0][:-1])
    return np.array(found)


def used(goal, block):
    """Return the relevant entries of log_coefficient: totals with cells, and free cells."""
    return [*(b for b in range(goal.size) if (block == b).any()), goal.size]


def drawable(place):
    """Remove totals without cells, which cannot be drawn."""
    keep = used(place["total"], place["block"])[:-1]
    return place if len(keep) else {**place, "total": np.zeros(1, np.int64)}


@njit
def draw_theta(log_p, log_rates, x, rng):
    log_p = log_p + log_rates @ x.astype(np.float64)
    cdf = np.cumsum(np.exp(log_p - log_p.max()))
    return np.searchsorted(cdf, rng.random() * cdf[-1], side="right")


def chain_through(k, x, starts, cells, steps, log_noise, log_rates, log_prior, before, length, rng):
    """Run the kernel backward for the steps before the truth and forward for the others, both from the truth."""
    thetas, tables, lower = np.empty(length, np.int64), np.empty((length, x.size), np.int64), np.zeros(x.size, np.int64)
    counts = np.arange(log_noise.shape[1])
    each = (starts.size - 1) // length
    at, table = k, x.copy()
    for n in range(length):
        if n == before:
            at, table = k, x.copy()
        if n < before:
            at = draw_theta(log_prior, log_rates, table, rng)
        weights = log_noise + np.outer(log_rates[at], counts)
        walk(table, starts[n * each : (n + 1) * each + 1], cells, steps, cell_weights(lower, weights), *NO_SUMS, rng)
        if n >= before:
            at = draw_theta(log_prior, log_rates, table, rng)
        thetas[n], tables[n] = at, table
    return thetas, tables


def p_values(route, system, regime, *, fault=None, replicates=1000):
    problem = Problem(system, regime, fault=fault)
    found = calibrate(problem.simulate, getattr(problem, route), replicates=replicates, rng=1)
    return {name: uniformity(found[name]) for name in found}


ROUTES = [("marginal", system) for system in SYSTEMS if system != "two-way"] + [("fiber", system) for system in SYSTEMS]
SEEN_BY = {"epsilon off by 20 %": "noise", "a public sum dropped": "noise", "P(Z | theta) dropped": "fit"}
PIECES = [
    ("two of 12", "sparse", 400),
    ("two of 12", "flat", 200),
    ("one of 240", "sparse", 400),
    ("one of 240", "dense", 300),
]
RIGHT = [(route, system, regime, 1000) for route, system in ROUTES for regime in REGIMES]
FAULTY = [
    *((route, system, "dense", fault, seen_by, 1000)
      for route, system in ROUTES for fault, seen_by in SEEN_BY.items()
      if (system, seen_by) != ("two-way", "fit")),  # P(Z | theta) of two margins has no closed form to drop
    *(("pieces", system, "sparse", fault, seen_by, 400)
      for system in BY_PIECES
      for fault, seen_by in (("epsilon off by 20 %", "noise"), ("pieces of the neighbour", "theta"))),
]  # fmt: skip


@pytest.mark.deep
@pytest.mark.parametrize(("route", "system", "regime", "replicates"), [*RIGHT, *(("pieces", *case) for case in PIECES)])
def test_ranks_of_the_truth_are_uniform(route, system, regime, replicates):
    assert min(p_values(route, system, regime, replicates=replicates).values()) > 1e-6


@pytest.mark.deep
@pytest.mark.parametrize(("route", "system", "regime", "fault", "seen_by", "replicates"), FAULTY)
def test_faults_are_detected(route, system, regime, fault, seen_by, replicates):
    problem = Problem(system, regime, fault=fault)
    assert noticed(problem.simulate, getattr(problem, route), seen_by, replicates=replicates)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("system", "regime"), [(system, regime) for system, regime, _ in PIECES])
def test_pieces_are_used_for_these_problems(system, regime):
    """Otherwise the rank tests by pieces would be those by rows: equal to 1e-9, with other last digits."""
    problem, rng, other = Problem(system, regime), np.random.default_rng(1), []
    for _ in range(3):
        _, (_, _, y) = problem.simulate(rng)
        goal = np.bincount(problem.block, weights=y).astype(np.int64)
        log_h, eta = problem.weights(y, goal), np.log(problem.rates[8:-8])
        place = {"lo": 0, "total": goal, "block": problem.block}
        by_rows = np.array([totals.log_coefficient(log_h, eta=at, **place)[:-1] for at in eta])
        found = by_pieces(log_h, eta, goal, problem.block)
        assert found == pytest.approx(by_rows, abs=1e-9)
        other.append((found != by_rows).mean())
    assert np.mean(other) > 0.75


@pytest.mark.deep
def test_parameters_alone_do_not_detect_unused_data():
    """The reason for the fit: without P(Z | theta) the posterior of theta is wide, and calibrated on average."""
    found = p_values("fiber", "groups", "sparse", fault="P(Z | theta) dropped", replicates=1500)
    assert found["theta"] > 1e-6
    assert found["fit"] < 1e-6


def test_noise_of_the_oracle_preserves_the_sums_and_has_its_distribution():
    A, _ = SYSTEMS["total"]
    rng, parts = np.random.default_rng(1), solved(A[:, :3])
    draws = np.array([noise(3, *parts, 1.0, rng) for _ in range(20_000)])
    assert (draws.sum(axis=1) == 0).all()
    z = np.arange(-30, 31)
    mass = np.exp(-np.abs(z[:, None]) - np.abs(z) - np.abs(z[:, None] + z)).sum(axis=1)
    expected = mass[28:33] / mass.sum() * len(draws)
    observed = np.array([(draws[:, 0] == value).sum() for value in range(-2, 3)])
    assert (np.abs(observed - expected) < 5 * np.sqrt(expected)).all()


def test_position_orders_ties_at_random():
    rng = np.random.default_rng(1)
    tied = [position(1, [1, 1, 1, 2], rng) for _ in range(5000)]
    assert max(tied) < 0.8
    assert stats.kstest(np.array(tied) / 0.8, "uniform").pvalue > 1e-6


def test_uniformity_detects_shift_and_spread():
    u = np.random.default_rng(2).random(2000)
    assert uniformity(u) > 1e-6
    for wrong in (u**1.2, 0.5 + (u - 0.5) * 0.9, stats.norm.cdf(1.25 * stats.norm.ppf(u))):
        assert uniformity(wrong) < 1e-6


ALARM = 1e-4  # for each of two parameters: a correct posterior fails once in 5,000 runs


@pytest.mark.deep
def test_posterior_is_calibrated_where_the_persons_are_noisy():
    found = denominators.study("1/10", {"right": denominators.summed_out, "naive": denominators.taken_as_true}, 500)
    p = {name: [uniformity(of["position"]) for of in found[name].values()] for name in found}
    assert min(p["right"]) > ALARM
    assert p["naive"][1] < ALARM  # contrast: rural areas are small, and the noise is not


def test_model_has_the_posterior_that_was_calibrated():
    """Marginalized by PyMC's model, at points of the grid, against the posterior on the grid."""
    _, release, events = denominators.simulate("1/10", np.random.default_rng(3))
    value = denominators.model(release, events).compile_logp(mode="FAST_COMPILE")
    chosen = [(3, 4), (10, 10), (12, 5), (17, 16)]
    expected = np.log([denominators.summed_out(release, events)[at] / denominators.PRIOR[at] for at in chosen])
    found = np.array(
        [value({"level": denominators.LEVEL[i], "contrast": denominators.CONTRAST[j]}) for i, j in chosen], dtype=float
    )
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-9, atol=1e-8)
