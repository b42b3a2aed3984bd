"""Proposals of joint updates: ratios of densities and weights of counts, against SciPy."""

import numpy as np
import pytest
from scipy import stats

import ppdinf as ppd
from ppdinf.denoising import learned_prior, table_gibbs
from ppdinf.denoising.learned_prior import LearnedPrior, list_weights

MOST = 60
NOISE = (None,) * 6


def log_density(prior, table):
    """Return the log density of the parameters and of negative binomial counts of all possible cells."""
    level, log_shape = prior.state
    found = stats.norm.logpdf(level, 0, learned_prior.LEVEL) + stats.norm.logpdf(log_shape, *learned_prior.SHAPE)
    log_mean = np.full(table.size, level)
    for k, (codes, log_spread) in enumerate(zip(prior.codes, prior.log_spread, strict=True)):
        own = prior.effects[prior.first[k] : prior.first[k + 1]]
        found += stats.norm.logpdf(own, 0, np.exp(log_spread)).sum()
        log_mean = log_mean + own[codes]
    a = np.exp(log_shape)
    counts = stats.nbinom.logpmf(table, a, a / (a + np.exp(log_mean)))
    return found + counts[prior.possible].sum()


def updated(prior, move, rng, monkeypatch):
    """Update the prior by proposals that a Python function accepts."""
    monkeypatch.setattr(table_gibbs, "joint_moves", move)
    monkeypatch.setattr(table_gibbs, "log_weights_at", lambda *arrays: None)
    update = table_gibbs.update_with_table.py_func
    update(prior, np.zeros(prior.possible.size), *[None] * 4, np.zeros((12, 0)), NOISE, *[None] * 4, False, rng)


@pytest.mark.parametrize("accepts", [True, False])
def test_ratios_and_weights_are_those_of_the_prior(accepts, monkeypatch):
    """For each proposal, the ratio and the change of a table's weights equal the change of the joint density."""
    rng = np.random.default_rng(1)
    table = ppd.as_table(rng.integers(0, 40, (4, 3)), dims=("a", "b"))
    noisy = ppd.measured(ppd.invariants.margin("a", "b"), table, ppd.laws.DoubleGeometric(1))
    seen = ppd.Measurements({"a": range(4), "b": range(3)}, noisy)
    possible, x = np.arange(12) != 5, table.values.ravel()
    prior = LearnedPrior(seen.frame, possible, x, MOST).arrays
    differences = []

    def move(x_, sums, slack, groups, which, partner, before, after, *others):
        (first, members), cells_of, log_ratios = groups, [], others[-3]
        assert set(members) == set(np.flatnonzero(possible))
        for log_h, h, *_ in (before, after):
            np.testing.assert_allclose(h, np.exp(log_h))
        assert which.size == 1 or (before[0] == after[0]).all()
        for g, log_ratio in zip(which, log_ratios, strict=True):
            cells = members[first[g] : first[g + 1]]
            weighed = [(log_h[x] + slope * x)[cells].sum() for log_h, _, _, slope in (before, after)]
            differences.append(log_ratio + weighed[1] - weighed[0])
            cells_of.append(cells)
        assert np.unique(np.concatenate(cells_of)).size == sum(cells.size for cells in cells_of)
        return np.full(which.size, accepts)

    for _ in range(40):
        prior.state[:], prior.effects[:] = rng.normal(size=2), rng.normal(size=7)
        list_weights(prior.state[1], prior.log_h, prior.h)
        start = log_density(prior, x)
        differences.clear()
        updated(prior, move, rng, monkeypatch)
        change = log_density(prior, x) - start
        assert change == pytest.approx(sum(differences) if accepts else 0.0, rel=1e-7, abs=1e-8)


def test_large_counts_of_a_large_shape(monkeypatch):
    """Weights of nearly Poisson counts in the thousands overflow: logarithms are used."""
    frame = ppd.Measurements({"a": range(4)}).frame
    prior = LearnedPrior(frame, np.ones(4, dtype=bool), np.full(4, 3000), 4000).arrays
    proposed = []

    def move(x, sums, slack, groups, which, partner, before, after, *others):
        proposed.append((before, after, others[-3]))
        return np.zeros(which.size, dtype=bool)

    rng = np.random.default_rng(1)
    prior.state[1] = 9.0
    list_weights(9.0, prior.log_h, prior.h)
    for _ in range(20):
        updated(prior, move, rng, monkeypatch)
    for (*_, slope), (log_h, h, _, slope_new), log_ratio in proposed:
        assert np.isposinf(h).any()
        assert np.isfinite(log_h).all()
        assert np.isfinite([*slope, *slope_new, *log_ratio]).all()


def by_year(kind, years=(2019, 2020)):
    """Twelve areas in two years; `kind` converts the years, which are a coordinate."""
    counts = np.random.default_rng(1).poisson(np.repeat([40, 5], 6))
    noisy = ppd.measured(ppd.invariants.margin("cell"), counts, ppd.laws.DoubleGeometric("1/10"))
    return ppd.Measurements(
        {"cell": [f"c{k}" for k in range(12)]}, noisy, coords={"year": ("cell", [kind(y) for y in np.repeat(years, 6)])}
    )


def test_decimal_labels_of_a_coordinate_have_effects():
    """Whole and other decimals, as for integers and strings: the same draws."""
    draws = [ppd.denoise(by_year(kind), draws=20, rng=1, progressbar=False) for kind in (int, str, float)]
    draws.append(ppd.denoise(by_year(float, (0.5, -1.25)), draws=20, rng=1, progressbar=False))
    for posterior in draws:
        assert posterior.draws.values.tolist() == draws[0].draws.values.tolist()
        assert "year effect" in posterior.parameters
        assert "no effects" not in posterior.plan


@pytest.mark.parametrize("kind", [int, float, str])
def test_the_plan_names_coordinates_without_effects(kind):
    seen, values = by_year(int), [kind(k) for k in range(12)]
    data = ppd.Measurements(
        {"cell": seen.coords["cell"]},
        *seen.stated,
        coords={"year": ("cell", seen.frame.coords["year"][1]), "size": ("cell", values)},
    )
    posterior = ppd.denoise(data, draws=5, rng=1, progressbar=False)
    assert posterior.plan.endswith("nested or disjoint. The prior has no effects of size: the labels are too many.")
    assert "no effects" not in ppd.denoise(data, draws=5, rng=1, prior="flat", progressbar=False).plan
