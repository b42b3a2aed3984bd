"""Tables, readings and parameters that are impossible: -inf exactly there, and enumeration of all others.

A sum of non-negative counts has no negative value. The window of a cell ends where the weight is negligible compared
with that of the nearest possible sum, not compared with that of the reading.

The counts of cells are independent given the parameters, except for dependents of several cells.
"""

import itertools

import numpy as np
import pymc as pm
import pytest
from grids import box
from known_parameters import QUIET
from lattice_laws import log_total
from scipy import stats
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf.denoising.count_windows import published_windows
from ppdinf.distributions import observed_measurements
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import InvariantError, ModelError

inv, laws = ppd.invariants, ppd.laws
COUNTS = np.array(list(itertools.product(range(-1, 5), repeat=3)))
BOUNDS = {
    "between": (inv.between(0, 3), lambda x: x.max() <= 3),
    "order of cells": (inv.at_least(0, 1, dim="a"), lambda x: x[0] >= x[1]),
    "sum": (inv.inequality([[1, 2, -1]], [1]), lambda x: x[0] + 2 * x[1] - x[2] >= 1),
    "sum with negative end": (inv.inequality([[-1, 0, -1]], [-4]), lambda x: x[0] + x[2] <= 4),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("name", "total", "published"),
    [
        ("between", None, "measured"), ("order of cells", 5, "measured"), ("sum", None, "measured"),
        ("sum with negative end", 5, "released"), ("between", 5, "released"), ("order of cells", None, "released"),
    ],
)  # fmt: skip
def test_tables_outside_of_bounds_have_no_density(name, total, published):
    bounds, holds = BOUNDS[name]
    y = np.array([2, 2, 1])
    public = bounds if total is None else inv.total() & bounds
    if published == "measured":
        law = laws.DoubleGeometric(1)
        seen = ppd.Measurements(
            {"a": [0, 1, 2]}, ppd.measured(inv.margin("a"), y.tolist(), law),
            public=None if total is None else {inv.total(): total}, bounds=bounds,
        )  # fmt: skip
    else:
        seen = ppd.Release(ppd.as_table(y, dims=("a",)), ppd.GeneralizedLaplace(public, epsilon=1))
    with pm.Model(coords={"a": [0, 1, 2]}) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(np.array([1.0, 2.0, 3.0])), release=seen, marginalize=False)
    logp = model.compile_logp()
    found = np.array([float(logp({"x": x})) for x in COUNTS])
    possible = np.array([holds(x) and x.min() >= 0 and total in (None, x.sum()) for x in COUNTS])
    assert (np.isfinite(found) == possible).all()
    away = abs(COUNTS - y)[possible].sum(axis=1)
    expected = stats.poisson([1, 2, 3]).logpmf(COUNTS[possible]).sum(axis=1) - away
    assert np.ptp(found[possible] - expected) < 1e-9


OFF = [[0, 2, -1], [0, 20, -19], [-1, 1, 1], [0, 1000, -999]]


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("way", ["PartiallyPrivate", "Released"])
@pytest.mark.parametrize("kind", ["l1", "l2", "conditioned"])
def test_normalizers_are_not_needed_outside_of_bounds(kind, way):
    """Wrong variant: an error, for no release is in reach of such a table and the total weight of releases is 0."""
    public = inv.total() & inv.nonnegative()
    if kind == "conditioned":
        mechanism = ppd.Conditioned(public, laws.DoubleGeometric(1))
    else:
        mechanism = ppd.WassersteinExponential(public, epsilon=1, sensitivity=2, secrets="s", loss=kind)
    with pm.Model() as model:
        if way == "Released":
            ppd.models.Released("y", mechanism, pm.DiscreteUniform("x", -2000, 2000, shape=3), observed=[0, 1, 0])
        else:
            release = ppd.Release(np.array([0, 1, 0]), mechanism)
            ppd.PartiallyPrivate("x", pm.DiscreteUniform.dist(-2000, 2000, shape=3), release, marginalize=False)
    logp = model.compile_logp()
    scale = {v.name: np.array(0.0) for v in model.value_vars if v.name != "x"}
    assert [float(logp({"x": np.array(x), **scale})) for x in OFF] == [-np.inf] * len(OFF)
    assert np.isfinite(logp({"x": np.array([0, 0, 1]), **scale}))


LAWS = {  # law, log weight of the noise
    "geometric": (laws.DoubleGeometric(1), lambda z: -1.0 * abs(z)),
    "gaussian": (laws.DiscreteGaussian(variance=8), lambda z: -(z**2) / 16),
    "real laplace": (laws.Laplace(0.8), lambda z: -abs(z) / 0.8),
    "real gaussian": (laws.Gaussian(3.5), lambda z: -(z**2) / 24.5),
    "staircase": (
        laws.Staircase(1, sensitivity=2, step=1),
        lambda z: -1.0 * np.where(abs(z) < 1, 0, 1 + (abs(z) - 1) // 2),
    ),
}
AT_MOST_5 = {"bounds": inv.between(0, 5)}
CASES = {  # (weights of a sum, reading) for each reading, and exact statements
    "slightly below": ([((1, 1), -28)], {}), "below": ([((1, 1), -35)], {}), "far below": ([((1, 1), -100)], {}),
    "as far as doubles can tell": ([((1, 1), -1000)], {}),
    "one cell": ([((1, 0), -1000), ((0, 1), 3)], {}),
    "twice one cell": ([((2, 0), -60), ((0, 1), -40)], {}),
    "two readings": ([((1, 1), -50), ((1, 1), -3)], {}),
    "two readings far away": ([((1, 1), -600), ((1, 1), -500)], {}),
    "above": ([((1, 1), 60)], AT_MOST_5), "far above": ([((1, 1), 1000)], AT_MOST_5),
    "a difference": ([((1, -1), -60)], AT_MOST_5),
    "a far difference": ([((1, -1), 900)], AT_MOST_5),
    "a weighted difference": ([((2, -3), -70), ((1, 1), -80)], AT_MOST_5),
    "crossing sums": ([((1, 1, 0), -90), ((0, 1, 1), -90)], {}),
    "nested sums": ([((1, 1, 0), -40), ((1, 1, 1), -1000)], {}),
    "above an exact sum": ([((1, 1, 1), 45)],
                           {"public": {inv.linear([[1, 1, 0]], ["s"]): [4]}, "bounds": inv.between(0, 5)}),
    "below an exact sum": ([((1, 1, 1), -800)], {"public": {inv.linear([[1, 1, 0]], ["s"]): [7]}}),
    "above exact parts": ([((1, 1, 1), 75), ((1, 1, 0), 75)],
                          {"public": {inv.linear([[1, 1, 0], [0, 0, 1]], ["s", "t"]): [4, 3]}}),
    "above a bound of a sum": ([((1, 1), 300)],
                               {"bounds": inv.between(0, 5) & inv.inequality([[-1, -1]], [-6], ["s"])}),
}  # fmt: skip


def seen(case, kind):
    readings, more = CASES[case]
    parts = [ppd.measured(inv.linear([rows], [f"r{k}"]), [y], LAWS[kind][0]) for k, (rows, y) in enumerate(readings)]
    return ppd.Measurements({"a": list("ABC")[: len(readings[0][0])]}, *parts, **more)


def listed(case, kind, log_prior=None, largest=45):
    """All tables that agree with the exact statements, and their log weights under a prior, by default flat."""
    readings, more = CASES[case]
    tables = box(0, 5 if "bounds" in more else largest, len(readings[0][0]))
    system = seen(case, kind).public
    exact = np.all(tables @ system.A.toarray().T == system.values, axis=1)
    tables = tables[exact & np.all(tables @ system.B.toarray().T >= system.limits, axis=1)]
    log_weights = sum(LAWS[kind][1](y - tables @ np.array(weights)) for weights, y in readings)
    return tables, log_weights + (0.0 if log_prior is None else log_prior(tables).sum(axis=1))


def marginals(tables, log_weights, counts):
    """Posterior probabilities of the counts of each cell."""
    weight = np.exp(log_weights - logsumexp(log_weights))
    by_count = [np.bincount(x, weight, int(counts.max()) + 1) for x in tables.T]
    return np.array([np.where(own >= 0, p[own.clip(0)], 0.0) for p, own in zip(by_count, counts, strict=True)])


def lost(case, kind):
    """Return the posterior probability outside of windows, and the largest error of a marginal or a log weight."""
    observed, (tables, log_weights) = ObservedMeasurements(seen(case, kind)), listed(case, kind)
    windows = published_windows(observed)
    lower, width = windows.lower, windows.counts.shape[1]
    probability = marginals(tables, log_weights, lower[:, None] + np.arange(width))
    sums, error = observed.in_forest(lower, width), 0.0
    if sums is not None:
        found = sums.evaluate(windows.log_noise.ravel()).posteriors().log_weight.reshape(probability.shape)
        error = abs(found - probability).max()
    else:
        coupling = observed.coupling(lower, width)
        inside = np.all((tables >= lower) & (tables < lower + width), axis=1)
        tables, log_weights = tables[inside], log_weights[inside]
        heavy = np.argsort(-log_weights)[:200]
        own = [windows.log_noise[np.arange(lower.size), x - lower].sum() for x in tables[heavy]]
        found = (
            own + np.array([coupling.log_density(x) if coupling else 0.0 for x in tables[heavy]]) - log_weights[heavy]
        )
        error = np.ptp(found) if np.isfinite(found).all() else np.inf
    return 1 - probability.sum(axis=1).min(), error


@pytest.mark.quick_cases(42)
@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("case", CASES)
def test_windows_and_weights_are_those_of_all_tables(case, kind):
    outside, error = lost(case, kind)
    assert outside < 1e-9
    assert error < 1e-8


def test_the_range_of_the_noise_alone_is_too_small(monkeypatch):
    def unlimited(system, low, high, sums):
        return np.full(sums.shape[0], -np.inf), np.full(sums.shape[0], np.inf)

    monkeypatch.setattr(observed_measurements, "possible_sums", unlimited)
    with pytest.raises(ModelError, match=r"the count at a=A is unbounded: noisy sums, such as 'r0'.* contradict"):
        lost("below", "geometric")
    assert lost("slightly below", "geometric")[0] > 0.1


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize(("case", "kind"), [(case, kind) for case in CASES for kind in ("geometric", "gaussian")])
def test_models(case, kind):
    """The density of nested sums, and the windows of tables whose sums cross."""
    rate = 2.5
    with pm.Model(coords=seen(case, kind).coords) as model:
        rates = pm.Gamma("rate", 4, 1, default_transform=None)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rates), release=seen(case, kind))
    tables, log_weights = listed(case, kind, lambda x: x * np.log(rate) - rate - gammaln(x + 1))
    (table,) = tables_of(model)
    if table.is_marginalized:
        logp = model.compile_fn(model.logp(vars=[model["x_release"]]), inputs=model.value_vars, mode="FAST_COMPILE")
        expected = logsumexp(log_weights) - log_total(LAWS[kind][1], len(CASES[case][0]), kept=False)
        assert float(logp({"rate": np.array(rate)})) == pytest.approx(expected, rel=1e-9, abs=1e-8)
    else:
        fiber = table.law.fiber
        counts = fiber.lower[:, None] + np.arange(fiber.width)
        assert marginals(tables, log_weights, counts).sum(axis=1).min() > 1 - 1e-9


def test_sums_that_contradict_each_other_are_refused_as_such():
    """The readings bound every count, but no table is near both of them."""
    parts = [ppd.measured(inv.linear([rows], [name]), [y], laws.DoubleGeometric(1)) for rows, name, y in (
        ([1, 1, 0], "part", 300), ([1, 1, 1], "whole", 20)
    )]  # fmt: skip
    both = ppd.Measurements({"a": ["A", "B", "C"]}, *parts)
    with pytest.raises(ModelError, match=r"a=A is unbounded: noisy sums, such as 'part', are not used as limits"):
        ppd.denoise(both, 20, rng=1, progressbar=False)
    law = laws.RandomRounding(5)
    with pytest.raises(InvariantError, match="total"):
        ppd.denoise(ppd.Measurements({"a": ["A", "B"]}, ppd.measured(inv.total(), [-20], law)), 20, progressbar=False)


NOISY, EPSILON, X = np.array([6, 9]), 0.5, np.arange(-20, 120)
READINGS = np.array([[1, 2], [0, 3], [2, 2]])
FIRST, SECOND, P = np.array([3, 4]), np.array([1, 2]), 0.4


def at(possible, log_p, x, otherwise=1):
    """Return log probabilities where a parameter is possible, and -inf elsewhere."""
    return np.where(possible, log_p(np.where(possible, x, otherwise)), -np.inf)


def removal(x, t):
    pm.Binomial("first", n=x, p=P, observed=FIRST)
    pm.Binomial("second", n=x - FIRST, p=P, observed=SECOND)


DEPENDENTS = {  # dependents of the table given t, and their log density at counts of cell i
    "beyond a censoring bound": (
        lambda x, t: pm.Censored("d", pm.Poisson.dist((x - 5) * pm.math.exp(t)), lower=None, upper=3, observed=[1, 3]),
        lambda x, i, t: at(
            x >= 5,
            lambda x: [stats.poisson.logpmf(1, np.exp(t) * (x - 5)), stats.poisson.logsf(2, np.exp(t) * (x - 5))][i],
            x,
            9,
        ),
    ),
    "zero inflation": (
        lambda x, t: pm.ZeroInflatedPoisson("d", psi=x / 9, mu=pm.math.exp(t), observed=[0, 2]),
        lambda x, i, t: at(
            (x >= 0) & (x <= 9),
            lambda x: np.log((1 - x / 9) * (i == 0) + x / 9 * stats.poisson.pmf([0, 2][i], np.exp(t)) + 1e-300),
            x,
        ),
    ),
    "one component of a mixture": (
        lambda x, t: pm.Mixture(
            "d", w=[0.3, 0.7], comp_dists=[pm.Poisson.dist(x - 4), pm.Poisson.dist(pm.math.exp(t))], observed=[1, 9]
        ),
        lambda x, i, t: at(
            x >= 4,
            lambda x: np.log(
                0.3 * stats.poisson.pmf([1, 9][i], x - 4) + 0.7 * stats.poisson.pmf([1, 9][i], np.exp(t))
            ),
            x,
            9,
        ),
    ),
    "removal": (
        removal,
        lambda x, i, t: at(x >= 0, lambda x: stats.binom.logpmf(FIRST[i], x, P), x)
        + at(x >= FIRST[i], lambda x: stats.binom.logpmf(SECOND[i], x - FIRST[i], P), x, 9),
    ),
    "standard deviation": (lambda x, t: pm.Normal("d", t, sigma=x, observed=[1.0, 2.5]),
                           lambda x, i, t: at(x > 0, lambda x: stats.norm.logpdf([1.0, 2.5][i], t, x), x)),
    "shape": (lambda x, t: pm.Gamma("d", alpha=x, beta=pm.math.exp(t), observed=[1.0, 2.0]),
              lambda x, i, t: at(x > 0, lambda x: stats.gamma.logpdf([1.0, 2.0][i], x, scale=np.exp(-t)), x)),
    "mean": (lambda x, t: pm.Poisson("d", pm.math.exp(t) * (x - 1), observed=[0, 2]),
             lambda x, i, t: at(x >= 1, lambda x: stats.poisson.logpmf([0, 2][i], np.exp(t) * (x - 1)), x)),
    "several readings": (lambda x, t: pm.Poisson("d", (x - 2)[None] * pm.math.exp(t), observed=READINGS),
                         lambda x, i, t: at(x >= 2,
                                            lambda x: stats.poisson.logpmf(READINGS[:, [i]], np.exp(t) * (x - 2)).sum(
                                                0), x, 9)),
    "one cell": (
        lambda x, t: pm.Exponential("d", lam=x[0] - 4, observed=0.3),
        lambda x, i, t: at(x > 4, lambda x: stats.expon.logpdf(0.3, scale=1 / (x - 4)), x, 9) if i == 0 else 0.0 * x,
    ),
    "a probability": (lambda x, t: pm.Bernoulli("d", x / 10, observed=[1, 0]),
                      lambda x, i, t: at((x >= 0) & (x <= 10), lambda x: stats.bernoulli.logpmf([1, 0][i], x / 10), x)),
}  # fmt: skip
DATA = {  # data models given the mean
    "poisson": (lambda mu: pm.Poisson.dist(mu * np.ones(2)), lambda x, mu: stats.poisson.logpmf(x, mu)),
    "negative counts": (
        lambda mu: pm.Poisson.dist(mu * np.ones(2)) - 5, lambda x, mu: stats.poisson.logpmf(x + 5, mu)
    ),
}  # fmt: skip


def model_of(add, dist, public=None, marginalize="auto"):
    release = ppd.Release(NOISY, ppd.GeneralizedLaplace(inv.Public() if public is None else public, epsilon=EPSILON))
    with pm.Model() as model:
        t = pm.Normal("t", 0, 1)
        add(ppd.PartiallyPrivate("x", dist(7.0), release, marginalize=marginalize), t)
    return model


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("case", DEPENDENTS)
def test_density_and_gradient(case, data):
    (add, log_f), (dist, log_p) = DEPENDENTS[case], DATA[data]
    model = model_of(add, dist)
    assert "x" not in model.named_vars

    def expected(t):
        cells = [log_p(X, 7.0) + stats.dlaplace.logpmf(y - X, EPSILON) + log_f(X, i, t) for i, y in enumerate(NOISY)]
        return sum(logsumexp(cell) for cell in cells) + stats.norm.logpdf(t)

    density, gradient = model.compile_logp(), model.compile_dlogp()
    for t in (-0.4, 0.3):
        assert density({"t": np.array(t)}) == pytest.approx(expected(t), abs=1e-7)
        slope = (expected(t + 1e-5) - expected(t - 1e-5)) / 2e-5
        assert gradient({"t": np.array(t)})[0] == pytest.approx(slope, abs=1e-5)


SAMPLED = {
    "removal": DEPENDENTS["removal"],
    "standard deviation": DEPENDENTS["standard deviation"],
    "both cells": (
        lambda x, t: pm.Poisson("d", x[0] - x[1] + 4, observed=3),
        lambda x: at(x[0] - x[1] + 4 >= 0, lambda mu: stats.poisson.logpmf(3, mu), x[0] - x[1] + 4),
    ),
}


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("case", SAMPLED)
def test_draws_of_a_sampled_table(case):
    """Means are within six standard errors of 4,000 independent draws; all tables are drawn that are possible."""
    add, log_f = SAMPLED[case]
    model = model_of(lambda x, t: add(x, 0.0), DATA["poisson"][0], inv.total(), False)
    tables = np.array([x for x in itertools.product(range(16), repeat=2) if sum(x) == 15])
    log_p = stats.poisson.logpmf(tables, 7.0).sum(axis=1) - EPSILON * abs(tables - NOISY).sum(axis=1)
    if case == "both cells":
        log_p = log_p + np.array([log_f(x) for x in tables])
    else:
        log_p = log_p + sum(log_f(tables[:, i], i, 0.0) for i in range(2))
    p = np.exp(log_p - logsumexp(log_p))
    mean = p @ tables
    sd = np.sqrt(p @ (tables - mean) ** 2)
    with model:
        idata = pm.sample(4000, tune=100, chains=2, random_seed=1, **QUIET)
    drawn = idata.posterior["x"].values.reshape(-1, 2)
    assert (abs(drawn.mean(axis=0) - mean) < 6 * sd / np.sqrt(4000)).all()
    assert p[drawn[:, 0]].all()
