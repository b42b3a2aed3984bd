"""Parameter moves given a table: the same steps, one at a time, by the joint density."""

import numpy as np
import pytest
from scipy.special import gammaln

import ppdinf as ppd
from ppdinf.denoising import learned_prior
from ppdinf.denoising.learned_prior import ACCEPTANCE, SPREADS, LearnedPrior, update_parameters


def effects_of(prior):
    """Return copies of the effects of each factor."""
    return [prior.effects[a:b].copy() for a, b in zip(prior.first[:-1], prior.first[1:], strict=True)]


def log_normal(x, mean, sd):
    return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd)


def log_negative_binomial(x, mean, a):
    return gammaln(x + a) - gammaln(a) + a * np.log(a / (a + mean)) + x * np.log(mean / (a + mean))


class ByDensities:
    """Update level, effects of each factor, log spreads and log shape; by the joint density with the table."""

    def __init__(self, prior, table, rng, tune):
        self.now = [prior.state[0], *effects_of(prior), prior.log_spread.copy(), prior.state[1]]
        self.codes, self.possible, self.table, self.rng, self.tune = prior.codes, prior.possible, table, rng, tune
        self.factors, self.here = len(prior.codes), self.density(self.now)
        self.lengths = [0.1, *[np.full(own.size, 0.2) for own in effects_of(prior)], np.full(self.factors, 0.3), 0.2]

    def density(self, at):
        """Return the log density up to a constant."""
        level, *effects, log_spread, log_shape = at
        found = log_normal(level, 0, learned_prior.LEVEL) + log_normal(log_shape, *learned_prior.SHAPE)
        log_mean = np.full(self.table.size, level)
        for own, codes, of_log in zip(effects, self.codes, log_spread, strict=True):
            found += log_normal(own, 0, np.exp(of_log)).sum()
            found += log_normal(np.exp(of_log), 0, learned_prior.SPREAD) + of_log
            log_mean = log_mean + own[codes]
        counts = log_negative_binomial(self.table, np.exp(log_mean), np.exp(log_shape))
        return found + counts[self.possible].sum()

    def changed(self, block, entry, by):
        at = [np.copy(part) for part in self.now]
        if entry is None:
            at[block] = at[block] + by
        else:
            at[block][entry] += by
        return at

    def decide(self, block, entry, step):
        proposed = self.changed(block, entry, step)
        there = self.density(proposed)
        accepted = np.log(self.rng.random()) < there - self.here
        if self.tune:
            factor = np.exp(0.1 * (accepted - ACCEPTANCE))
            if entry is None:
                self.lengths[block] *= factor
            else:
                self.lengths[block][entry] *= factor
        if accepted:
            self.now, self.here = proposed, there

    def update(self):
        self.decide(0, None, self.lengths[0] * self.rng.standard_normal())
        for k in range(self.factors):
            steps = [length * self.rng.standard_normal() for length in self.lengths[1 + k]]
            for entry, step in enumerate(steps):
                self.decide(1 + k, entry, step)
            for _ in range(SPREADS):
                self.decide(-2, k, self.lengths[-2][k] * self.rng.standard_normal())
            own, variance = self.now[1 + k], np.exp(2 * self.now[-2][k])
            v = 1 / (own.size / variance + 1 / 25)
            shift = (own.sum() / variance - self.now[0] / 25) * v + v**0.5 * self.rng.standard_normal()
            self.now[1 + k], self.now[0] = own - shift, self.now[0] + shift
            self.here = self.density(self.now)
        self.decide(-1, None, self.lengths[-1] * self.rng.standard_normal())


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("dims", [{"a": 4, "b": 3}, {"a": 3, "b": 4, "c": 2}, {"a": 7}], ids=["two", "three", "one"])
@pytest.mark.parametrize("tune", [True, False])
def test_steps_are_those_of_the_densities(dims, tune):
    """Sixty updates from the same random numbers; one cell is a structural zero. Wrong: its density is included."""
    rng = np.random.default_rng(1)
    table = rng.negative_binomial(0.7, 0.05, tuple(dims.values()))
    table.ravel()[2] = 0
    frame = ppd.Measurements({name: range(size) for name, size in dims.items()}).frame
    possible = np.arange(table.size) != 2
    assert learned_prior.LEVEL == 5  # as in the Gibbs step above
    prior = LearnedPrior(frame, possible, table.ravel(), 0).arrays
    oracle = ByDensities(prior, table.ravel(), np.random.default_rng(2), tune)
    wrong = ByDensities(prior, table.ravel(), np.random.default_rng(2), tune)
    wrong.possible = np.ones(table.size, dtype=bool)
    own = np.random.default_rng(2)
    for _ in range(60):
        update_parameters(prior, table.ravel(), tune, own)
        oracle.update()
        wrong.update()
    found = np.concatenate(
        [np.ravel(part) for part in (prior.state[0], *effects_of(prior), prior.log_spread, prior.state[1])]
    )
    np.testing.assert_allclose(found, np.concatenate([np.ravel(part) for part in oracle.now]), rtol=1e-7, atol=1e-9)
    assert not np.allclose(found, np.concatenate([np.ravel(part) for part in wrong.now]), atol=1e-3)
    np.testing.assert_allclose(prior.lengths[0], oracle.lengths[0])
    np.testing.assert_allclose(prior.lengths[1], oracle.lengths[-1])
