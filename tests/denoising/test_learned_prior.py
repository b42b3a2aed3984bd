"""The learned prior: steps and joint proposals by the joint density, and ranks of simulated data sets."""

import importlib

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import ppdinf as ppd
from ppdinf.denoising import learned_prior, table_gibbs
from ppdinf.denoising.count_windows import published_windows
from ppdinf.denoising.learned_prior import ACCEPTANCE, SPREADS, LearnedPrior, list_weights, update_parameters
from ppdinf.distributions.observed_measurements import ObservedMeasurements

inv, laws = ppd.invariants, ppd.laws
MODULE = importlib.import_module("ppdinf.denoising.denoise")


def effects_of(prior):
    """Return copies of the effects of each factor."""
    return [prior.effects[a:b].copy() for a, b in zip(prior.first[:-1], prior.first[1:], strict=True)]


def log_normal(x, mean, sd):
    return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd)


def log_negative_binomial(x, mean, a):
    return gammaln(x + a) - gammaln(a) + a * np.log(a / (a + mean)) + x * np.log(mean / (a + mean))


def log_density(prior, table, level, effects, log_spread, log_shape):
    """Return the log density of the parameters and of negative binomial counts of possible cells, up to a constant."""
    found = log_normal(level, 0, learned_prior.LEVEL) + log_normal(log_shape, *learned_prior.SHAPE)
    log_mean = np.full(table.size, level)
    for own, codes, of_log in zip(effects, prior.codes, log_spread, strict=True):
        found += log_normal(own, 0, np.exp(of_log)).sum()
        found += log_normal(np.exp(of_log), 0, learned_prior.SPREAD) + of_log
        log_mean = log_mean + own[codes]
    counts = log_negative_binomial(table, np.exp(log_mean), np.exp(log_shape))
    return found + counts[prior.possible].sum()


class ByDensities:
    """Update level, effects of each factor, log spreads and log shape; by the joint density with the table."""

    def __init__(self, prior, table, rng, tune):
        self.now = [prior.state[0], *effects_of(prior), prior.log_spread.copy(), prior.state[1]]
        self.prior, self.table, self.rng, self.tune = prior, table, rng, tune
        self.factors, self.here = len(prior.codes), self.density(self.now)
        self.lengths = [0.1, *[np.full(own.size, 0.2) for own in effects_of(prior)], np.full(self.factors, 0.3), 0.2]

    def density(self, at):
        level, *effects, log_spread, log_shape = at
        return log_density(self.prior, self.table, level, effects, log_spread, log_shape)

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
    everywhere = prior._replace(possible=np.ones(table.size, dtype=bool))
    wrong = ByDensities(everywhere, table.ravel(), np.random.default_rng(2), tune)
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


MOST = 60
NOISE = (None,) * 6


def updated(prior, move, rng, monkeypatch):
    """Update the prior by proposals that a Python function accepts."""
    monkeypatch.setattr(table_gibbs, "joint_moves", move)
    monkeypatch.setattr(table_gibbs, "log_weights_at", lambda *arrays: None)
    update = table_gibbs.update_with_table.py_func
    update(prior, np.zeros(prior.possible.size), *[None] * 4, np.zeros((12, 0)), NOISE, *[None] * 4, False, rng)


def density_of(prior, table):
    return log_density(prior, table, prior.state[0], effects_of(prior), prior.log_spread, prior.state[1])


@pytest.mark.parametrize("accepts", [True, False])
def test_ratios_and_weights_are_those_of_the_prior(accepts, monkeypatch):
    """For each proposal, the ratio and the change of a table's weights equal the change of the joint density."""
    rng = np.random.default_rng(1)
    table = ppd.as_table(rng.integers(0, 40, (4, 3)), dims=("a", "b"))
    noisy = ppd.measured(inv.margin("a", "b"), table, laws.DoubleGeometric(1))
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
        start = density_of(prior, x)
        differences.clear()
        updated(prior, move, rng, monkeypatch)
        change = density_of(prior, x) - start
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
    noisy = ppd.measured(inv.margin("cell"), counts, laws.DoubleGeometric("1/10"))
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


SHAPE = (3, 5)


def data_set(rng):
    """Draw parameters, a table, and noisy sums of it: cells and one margin, which overlaps the other margin or not."""
    level = rng.normal(0, learned_prior.LEVEL)
    spreads = abs(rng.normal(0, learned_prior.SPREAD, 2))
    effects = [rng.normal(0, spread, n) for spread, n in zip(spreads, SHAPE, strict=True)]
    shape = np.exp(rng.normal(*learned_prior.SHAPE))
    mean = np.exp(level + effects[0][:, None] + effects[1])
    return level, shape, rng.poisson(rng.gamma(shape, mean / shape))


def ranks(seed, *, overlapping, variance):
    rng = np.random.default_rng(seed)
    level, shape, table = data_set(rng)
    noise = laws.DiscreteGaussian(variance=4)

    def noisy(sums):
        return sums + np.rint(rng.normal(0, 2, sums.shape)).astype(int)

    stated = laws.DiscreteGaussian(variance=variance)
    parts = [ppd.measured(inv.margin("a"), noisy(table.sum(1)), noise)]
    parts += [ppd.measured(inv.margin("b"), noisy(table.sum(0)), noise)] if overlapping else []
    parts += [ppd.measured(inv.margin("a", "b"), noisy(table), stated)]
    seen = ppd.Measurements(
        {"a": range(SHAPE[0]), "b": range(SHAPE[1])}, *parts, public={inv.total(): int(table.sum())}
    )
    posterior = ppd.denoise(seen, draws=100, tune=50, chains=1, rng=seed, progressbar=False)
    tables = posterior.draws.values[0].reshape(100, -1)[::5]

    def far(tables):
        """Return squared differences of cells from their measurements, which depend on the scale of the noise."""
        return ((tables - parts[-1].values.ravel()) ** 2).sum(axis=-1) + rng.uniform(-0.5, 0.5, tables.shape[:-1])

    truth = [level, shape, table.ravel()[0] + rng.uniform(-0.5, 0.5), far(table.ravel())]
    draws = [
        posterior.parameters["level"][0][::5],
        posterior.parameters["shape"][0][::5],
        tables[:, 0] + rng.uniform(-0.5, 0.5, 20),
        far(tables),
    ]
    return [int((own < true).sum()) for own, true in zip(draws, truth, strict=True)]


def p_values(found):
    """Return the chi-square statistic of the ranks of each quantity, 21 ranks in bins of three."""
    counts = [np.bincount(np.array(column) // 3, minlength=7) for column in zip(*found, strict=True)]
    return [float(stats.chisquare(own).pvalue) for own in counts]


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setattr(learned_prior, "LEVEL", 1.0)
    monkeypatch.setattr(learned_prior, "SPREAD", 0.5)
    monkeypatch.setattr(learned_prior, "SHAPE", (0.0, 0.5))


@pytest.mark.deep
@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("kind", ["nested", "pairs", "overlapping"])
def test_ranks_are_uniform(kind, monkeypatch):
    """Four quantities, p above 1e-4 each; draws 20 apart are still dependent. Nested tables also in pairs."""
    monkeypatch.setattr(MODULE, "LARGE", 0 if kind == "pairs" else 200)
    overlapping = kind == "overlapping"
    data_sets = 120 if overlapping else 200  # the Gibbs sampler takes three times as long
    assert min(p_values([ranks(seed, overlapping=overlapping, variance=4) for seed in range(data_sets)])) > 1e-4


@pytest.mark.deep
@pytest.mark.usefixtures("narrow")
def test_noise_stated_a_quarter_as_wide_is_detected():
    """A few data sets suffice, since cells are too close to their measurements: p below 1e-20."""
    assert min(p_values([ranks(seed, overlapping=False, variance=0.25) for seed in range(20)])) < 1e-4


def test_pairs_of_tables_follow_the_parameters_they_are_drawn_from(monkeypatch):
    """Chi-square of a cell against its law; false alarms 1 in 1,000. Wrong: the parameters after the updates."""
    monkeypatch.setattr(MODULE, "LARGE", 0)
    monkeypatch.setattr(MODULE, "update_parameters", lambda prior, *given: prior.state.put(0, given[-1].choice([0, 3])))
    observed = ObservedMeasurements(
        ppd.Measurements({"a": range(2)}, ppd.measured(inv.margin("a"), [4, 2], laws.DoubleGeometric("1/2")))
    )
    windows = published_windows(observed)
    tables = MODULE.TableForest(observed.in_forest(windows.lower, windows.counts.shape[1]), windows)
    prior = LearnedPrior(observed.frame, np.ones(2, dtype=bool), tables.start, tables.largest)
    prior.arrays.state[0] = 0.0
    chain, found = tables.chain(np.random.default_rng(1)), []
    for _ in range(4000):
        before = prior.arrays.state[0]
        chain.advance(prior, tune=False)
        found.append((before, prior.arrays.state[0], chain.table[0]))
    before, after, x = np.array(found).T
    counts = np.arange(10)

    def p_value(states, level):
        log_law = log_negative_binomial(counts, np.exp(level), np.exp(prior.arrays.state[1])) - gammaln(counts + 1)
        log_law -= abs(counts - 4) / 2
        law = np.exp(log_law - log_law.max())
        drawn = x[(states == level) & (x < counts.size)].astype(int)
        return stats.chisquare(np.bincount(drawn, minlength=counts.size), drawn.size * law / law.sum()).pvalue

    assert min(p_value(before, 0), p_value(before, 3)) > 1e-3
    assert max(p_value(after, 0), p_value(after, 3)) < 1e-6
    assert (before != after).mean() == pytest.approx(
        1 / 4, abs=0.03
    )  # once in a pair, to the other level half the time
