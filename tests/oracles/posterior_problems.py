"""Small systems, an independent sampler of noise, and rank tests of rejection and importance sampling.

Poisson cells with log rates log(BASE) + level + theta * SLOPE. The public functions compile a model for its release;
what they compile is built here with the release in shared variables, and everything after that is their code:
`posterior_rejection._draw` and `posterior_importance.weighted_draws`. Tables that public sums split into groups are
summed out as `PartiallyPrivate` does it (`test_calibration_of_samplers` compares the likelihoods),
other fibers table by table.

Quantities: theta; the size of the noise |y - x|; the fit log p(x | theta), with x drawn given theta.
"""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numba import njit
from scipy.special import gammaln

from ppdinf.diagnostics.calibration import calibrate, uniformity
from ppdinf.distributions.ops import SumsGivenTotals
from ppdinf.fiber.sums_given_totals import totals
from ppdinf.fiber.sums_given_totals.value_and_gradient import pack
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.samplers import posterior_importance, posterior_rejection
from ppdinf.samplers.posterior_rejection import saturated_bound
from ppdinf.samplers.posterior_target import target_of


def rows(*groups, cells=6):
    return np.array([[int(i in group) for i in range(cells)] for group in groups])


SYSTEMS = {  # public sums, and the group of each cell where the sums split the cells
    "total": (rows(range(6)), np.zeros(6, int)),
    "groups": (rows(range(3), range(3, 6)), np.repeat([0, 1], 3)),
    "hierarchy": (rows(range(6), range(4), range(4, 6), range(2), range(2, 4)), np.repeat([0, 1, 2], 2)),
    "two-way": (rows(*(range(3 * k, 3 * k + 3) for k in range(3)), *(range(k, 9, 3) for k in range(3)), cells=9), None),
}
REGIMES = {"dense": (25.0, 0.25), "sparse": (0.7, 1.5), "flat": (4.0, 0.05)}  # mean count, epsilon


def solved(A):
    """Dependent cells as integer combinations of free ones, on {z : A z = 0}."""
    columns, rank = [], 0
    for j in range(A.shape[1]):
        if np.linalg.matrix_rank(A[:, [*columns, j]]) > rank:
            columns, rank = [*columns, j], rank + 1
    free = np.setdiff1d(np.arange(A.shape[1]), columns)
    combination = -np.linalg.lstsq(A[:, columns], A[:, free], rcond=None)[0]
    assert np.allclose(combination, combination.round())
    return np.array(columns), free, combination.round().astype(np.int64)


@njit
def noise(d, dependent, free, combination, epsilon, rng):
    """Discrete Laplace in the free cells, accepted in proportion to the mass of the dependent ones."""
    z, p = np.empty(d, np.int64), 1 - np.exp(-epsilon)
    while True:
        for i in free:
            z[i] = rng.geometric(p) - rng.geometric(p)
        size = 0
        for r, i in enumerate(dependent):
            z[i] = 0
            for c, j in enumerate(free):
                z[i] += combination[r, c] * z[j]
            size += abs(z[i])
        if rng.random() < np.exp(-epsilon * size):
            return z


def noticed(simulate, infer, quantity, *, replicates, each=100, alarm=1e-6):
    """Whether a fault shows by `replicates`, the number at which what is right is tested.

    It is looked at after every `each` of them and the first look that sees it ends the run, so that what is right
    would be taken for a fault with a probability of at most ``replicates / each * alarm``.
    """
    rng, found = np.random.default_rng(1), []
    while len(found) < replicates:
        found += calibrate(simulate, infer, replicates=each, rng=rng)[quantity].tolist()
        if uniformity(found) < alarm:
            return True
    return False


SLOPE, LEVEL_SD, THETA_SD = np.array([1.0, -0.3, 0.6, 0.1]), 0.1, 0.25
CROSSING = rows(range(2), range(2, 4), (0, 2), (1, 3), cells=4)  # both margins of a 2 x 2 table
KEPT = 20  # draws of each posterior that the truth is ranked among
BATCH, AFFORDABLE = 512, 2000  # small, so that rejection takes both ways to its bound


class Compiled:
    """Both routes for tables of d cells, with everything that depends on the release in shared variables."""

    def __init__(self, cells, enumerated):
        self.data = {"log_base": np.zeros(cells), "forget": np.array(0.0)}
        if enumerated:
            self.data |= {"tables": np.zeros((1, cells)), "log_h": np.zeros(1)}
        else:
            self.data |= {"packed": np.zeros(1, np.int64)}
            self.data |= {"total": np.zeros(1, np.int64), "member": np.zeros((1, cells))}
        self.data = {name: pytensor.shared(value, name=name) for name, value in self.data.items()}
        with pm.Model() as self.model:
            theta, level = pm.Normal("theta", 0, THETA_SD), pm.Normal("level", 0, LEVEL_SD)
            eta = self.data["log_base"] + level + theta * np.resize(SLOPE, cells)
            log_l = self.enumerated(eta) if enumerated else self.summed_out(eta)
            pm.Potential("release", log_l - pt.exp(eta).sum())

    def summed_out(self, eta):
        s = self.data
        value = SumsGivenTotals(True)(eta, s["packed"])[0].sum()
        means = s["member"] @ pt.exp(eta)  # of the public sums
        log_p = (s["total"] * pt.log(means) - means - pt.gammaln(s["total"] + 1)).sum()
        return value - s["forget"] * log_p

    def enumerated(self, eta):
        return pt.logsumexp(self.data["tables"] @ eta + self.data["log_h"])

    def compile(self, route):
        if route == "importance":
            self.target = target_of(self.model)
            return
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(posterior_rejection, "BATCH", BATCH)
            _, self.propose = posterior_rejection._proposals(self.model, 1)
        self.maximise = posterior_rejection._maximiser(self.model)


class Problem:
    """Law of (theta, x, y) under one system and regime, and its posterior by one route, with or without a fault."""

    def __init__(self, route, system, regime, compiled, *, fault=None):
        self.route, self.fault, self.compiled = route, fault, compiled
        self.A, self.block = {**SYSTEMS, "two-way": (CROSSING, None)}[system]
        mean, self.epsilon = REGIMES[regime]
        d = self.A.shape[1]
        self.log_base, self.slope = np.log(mean * np.linspace(0.7, 1.3, d)), np.resize(SLOPE, d)
        self.solve = solved(self.A)
        self.believed = 1.2 * self.epsilon if fault == "epsilon off by 20 %" else self.epsilon

    def simulate(self, rng):
        theta, level = rng.normal(0, THETA_SD), rng.normal(0, LEVEL_SD)
        x = rng.poisson(np.exp(self.eta(theta, level)))
        y = x + noise(x.size, *self.solve, self.epsilon, rng)
        return self.quantities(np.array([theta]), np.array([level]), x[None], y, scalar=True), y

    def eta(self, theta, level):
        return self.log_base + np.multiply.outer(theta, self.slope) + np.expand_dims(level, -1)

    def quantities(self, theta, level, x, y, scalar=False):
        eta = self.eta(theta, level)
        fit = (x * eta - np.exp(eta) - gammaln(x + 1)).sum(axis=1)
        found = {"theta": theta, "noise": np.abs(y - x).sum(axis=1), "fit": fit}
        return {name: value[0] for name, value in found.items()} if scalar else found

    def infer(self, y, rng):
        self.place(y)
        theta, level = (self.by_importance if self.route == "importance" else self.by_rejection)(rng)
        return self.quantities(theta, level, self.tables(self.eta(theta, level), rng), y)

    def place(self, y):
        """Put the release where the compiled functions read it."""
        forget = float(self.fault == "P(Z | theta) dropped")
        if self.block is None:
            eye = np.eye(y.size, dtype=int)
            self.fiber = fiber_tables(self.A, self.A @ y, eye, np.zeros(y.size, int))
            log_q = -self.believed * np.abs(y - self.fiber).sum(axis=1)
            data = {"tables": self.fiber.astype(float), "log_h": log_q - gammaln(self.fiber + 1).sum(axis=1)}
        else:
            block, total = self.block, np.bincount(self.block, weights=y).astype(np.int64)
            width = int(total.max()) + 1
            if self.fault == "a public sum dropped":  # the last group, or the total of a single one
                block, width = np.where(block == block.max(), -1, block), width + int(60 / self.epsilon)
                total = total[:-1]
            counts = np.arange(width)
            log_h = -self.believed * np.abs(y[:, None] - counts) - gammaln(counts + 1)
            self.parts = {"lo": np.zeros(y.size, np.int64), "total": total, "block": block}
            member = (block == np.arange(total.size)[:, None]).astype(float)
            place = block, np.arange(y.size), self.parts["lo"], total
            packed = pack(
                log_h, totals.upper_envelope(log_h), *place, totals.NO_PIECES, totals.NO_GRIDS, totals.NO_NODES
            )
            data = {"packed": packed, "total": total, "member": member}
        self.log_h = log_h if self.block is not None else data["log_h"]
        for name, value in {**data, "log_base": self.log_base, "forget": np.array(forget)}.items():
            self.compiled.data[name].set_value(value)

    def by_rejection(self, rng):
        compiled, propose = self.compiled, self.compiled.propose
        bound = 0.0 if self.block is None else saturated_bound(self.log_h, *self.parts.values())
        bound = np.inf if self.fault == "P(Z | theta) dropped" else bound
        if self.fault == "M too small":
            bound -= 4.0
            propose = lambda: (lambda d, l, u: (d, np.minimum(l, bound), u))(*compiled.propose())  # noqa: E731, E741
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(posterior_rejection, "AFFORDABLE", AFFORDABLE)
            found = posterior_rejection._draw(propose, bound, compiled.maximise, KEPT, rng)
        self.bound, self.acceptance = found.attrs["bound"], found.attrs["acceptance_rate"]
        return found.draws[0], found.draws[1]

    def by_importance(self, rng):
        found = posterior_importance.weighted_draws(self.compiled.target, 2 * KEPT, rng)
        self.k = found.k
        chosen = found.chosen[:KEPT]  # resampled in random order
        if self.fault == "proposal density left out":
            log_p = self.compiled.target.log_p(found.points)
            chosen = np.argsort(-log_p - rng.gumbel(size=log_p.size))[:KEPT]
        return found.points[chosen, 0], found.points[chosen, 1]

    def tables(self, eta, rng):
        if self.block is None:
            log_p = eta @ self.fiber.T + self.log_h
            return self.fiber[np.argmax(log_p + rng.gumbel(size=log_p.shape), axis=1)]
        place = self.parts if self.parts["total"].size else {**self.parts, "total": np.zeros(1, np.int64)}
        return totals.draw(self.log_h, eta=eta, **place, rng=rng)[:, 0]


def p_values(route, system, regime, compiled, *, fault=None, replicates=1000):
    problem = Problem(route, system, regime, compiled, fault=fault)
    found = calibrate(problem.simulate, problem.infer, replicates=replicates, rng=1)
    return {name: uniformity(found[name]) for name in found}


def seen(quantity, route, system, regime, compiled, *, fault, replicates):
    problem = Problem(route, system, regime, compiled, fault=fault)
    return noticed(problem.simulate, problem.infer, quantity, replicates=replicates)
