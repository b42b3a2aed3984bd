"""Readings of sums far outside of the possible values of the sums, against the enumeration of all tables.

A sum of non-negative counts has no negative value. The window of a cell ends where the weight is negligible compared
with that of the nearest possible sum, not compared with that of the reading.
"""

import numpy as np
import pymc as pm
import pytest
from chi_square import p_value_of_tables
from grids import box
from noise_totals import log_total
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf.denoising.count_windows import published_windows
from ppdinf.distributions import observed_measurements
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import InvariantError, ModelError

inv, laws = ppd.invariants, ppd.laws
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
    "slightly below": ([((1, 1), -28)], {}),
    "below": ([((1, 1), -35)], {}),
    "far below": ([((1, 1), -100)], {}),
    "as far as doubles can tell": ([((1, 1), -1000)], {}),
    "one cell": ([((1, 0), -1000), ((0, 1), 3)], {}),
    "twice one cell": ([((2, 0), -60), ((0, 1), -40)], {}),
    "two readings": ([((1, 1), -50), ((1, 1), -3)], {}),
    "two readings far away": ([((1, 1), -600), ((1, 1), -500)], {}),
    "above": ([((1, 1), 60)], AT_MOST_5),
    "far above": ([((1, 1), 1000)], AT_MOST_5),
    "a difference": ([((1, -1), -60)], AT_MOST_5),
    "a far difference": ([((1, -1), 900)], AT_MOST_5),
    "a weighted difference": ([((2, -3), -70), ((1, 1), -80)], AT_MOST_5),
    "crossing sums": ([((1, 1, 0), -90), ((0, 1, 1), -90)], {}),
    "nested sums": ([((1, 1, 0), -40), ((1, 1, 1), -1000)], {}),
    "above an exact sum": (
        [((1, 1, 1), 45)], {"public": {inv.linear([[1, 1, 0]], ["s"]): [4]}, "bounds": inv.between(0, 5)}
    ),
    "below an exact sum": ([((1, 1, 1), -800)], {"public": {inv.linear([[1, 1, 0]], ["s"]): [7]}}),
    "above exact parts": (
        [((1, 1, 1), 75), ((1, 1, 0), 75)], {"public": {inv.linear([[1, 1, 0], [0, 0, 1]], ["s", "t"]): [4, 3]}}
    ),
    "above a bound of a sum": (
        [((1, 1), 300)], {"bounds": inv.between(0, 5) & inv.inequality([[-1, -1]], [-6], ["s"])}
    ),
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


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", ["below", "crossing sums"])
def test_draws_are_those_of_all_tables(case):
    """Chi-square tests, each with a false alarm once in 1e5."""
    tables, log_weights = listed(case, "geometric")
    found = ppd.denoise(seen(case, "geometric"), draws=500, prior="flat", rng=1, progressbar=False)
    law = np.exp(log_weights - logsumexp(log_weights))
    assert p_value_of_tables(found.draws.values.reshape(-1, tables.shape[1])[::2], tables, law) > 1e-5


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
