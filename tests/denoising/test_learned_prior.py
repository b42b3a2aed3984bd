"""Proposals of the learned prior: ratios of densities and weights of counts, against SciPy."""

import numpy as np
import pytest
from scipy import stats

import ppdinf as ppd
from ppdinf.denoising import learned_prior
from ppdinf.denoising.learned_prior import LearnedPrior

MOST = 60


def log_density(prior, level, effects, log_shape, table):
    """Return the log density of the parameters and of negative binomial counts of all possible cells."""
    found = stats.norm.logpdf(level, 0, learned_prior.LEVEL) + stats.norm.logpdf(log_shape, *learned_prior.SHAPE)
    log_mean = np.full(table.size, level)
    for own, codes, log_spread in zip(effects, prior.codes, prior.log_spread, strict=True):
        found += stats.norm.logpdf(own, 0, np.exp(log_spread)).sum()
        log_mean = log_mean + own[codes]
    a = np.exp(log_shape)
    counts = stats.nbinom.logpmf(table, a, a / (a + np.exp(log_mean)))
    return found + counts[prior.possible].sum()


@pytest.mark.parametrize("accepts", [True, False])
def test_ratios_and_weights_are_those_of_the_prior(accepts):
    """For each proposal, the ratio and the change of a table's weights equal the change of the joint density."""
    rng = np.random.default_rng(1)
    table = ppd.as_table(rng.integers(0, 40, (4, 3)), dims=("a", "b"))
    noisy = ppd.measured(ppd.invariants.margin("a", "b"), table, ppd.laws.DoubleGeometric(1))
    seen = ppd.Measurements({"a": range(4), "b": range(3)}, noisy)
    possible, x = np.arange(12) != 5, table.values.ravel()
    prior = LearnedPrior(seen.frame, possible, x)
    differences = []

    def move(groups, which, before, after, log_ratios, anew):
        (first, members), cells_of = groups, []
        assert sorted(members) == np.flatnonzero(possible).tolist()
        assert all((h == np.exp(log_h)).all() for log_h, h, _ in (before, after))
        assert which.size == 1 or (before[0] == after[0]).all()
        for g, log_ratio in zip(which, log_ratios, strict=True):
            cells = members[first[g] : first[g + 1]]
            weighed = [(log_h[x] + slope * x)[cells].sum() for log_h, _, slope in (before, after)]
            differences.append(log_ratio + weighed[1] - weighed[0])
            cells_of.append(cells)
        assert np.unique(np.concatenate(cells_of)).size == sum(cells.size for cells in cells_of)
        return np.full(which.size, accepts)

    for _ in range(40):
        prior.level, prior.log_shape = rng.normal(), rng.normal()
        prior.effects = [rng.normal(size=4), rng.normal(size=3)]
        start = prior.level, [own.copy() for own in prior.effects], prior.log_shape
        differences.clear()
        prior.update_with(move, MOST, rng, tune=False)
        ends = prior.level, prior.effects, prior.log_shape
        change = log_density(prior, *ends, x) - log_density(prior, *start, x)
        assert change == pytest.approx(sum(differences) if accepts else 0.0, rel=1e-7, abs=1e-8)


def test_large_counts_of_a_large_shape():
    """Weights of nearly Poisson counts in the thousands overflow: logarithms are used."""
    prior = LearnedPrior(ppd.Measurements({"a": range(4)}).frame, np.ones(4, dtype=bool), np.full(4, 3000))
    proposed = []

    def move(groups, which, before, after, log_ratios, anew):
        proposed.append((before, after, log_ratios))
        return np.zeros(which.size, dtype=bool)

    rng = np.random.default_rng(1)
    prior.log_shape = 9.0
    for _ in range(20):
        prior.update_with(move, 4000, rng, tune=False)
    for (_, _, slope), (log_h, h, slope_new), log_ratio in proposed:
        assert np.isposinf(h).any()
        assert np.isfinite(log_h).all()
        assert np.isfinite([*slope, *slope_new, *log_ratio]).all()
