"""Survey estimates: binomial probabilities, exact intervals, thinned Poisson counts, and coverage over surveys."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import ppdinf as ppd
from ppdinf.denoising.count_windows import published_windows
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.errors import DiagnosisWarning
from ppdinf.measurements.entries import RATE, scale_dependence

inv, laws = ppd.invariants, ppd.laws
Z = stats.norm.ppf(0.95)
SAMPLED = np.array([0, 0, 1, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 0])


def margins_of(n, weight=13, of_zero=12.0):
    """Margins of error of 90 % as survey programs compute them, with a conventional margin for 0."""
    return np.where(n > 0, Z * np.sqrt(weight * (weight - 1) * n), of_zero)


def survey(estimates, law, **more):
    bins = [f"b{k}" for k in range(len(estimates))]
    return ppd.Measurements({"bin": bins}, ppd.measured(inv.margin("bin"), estimates, law), **more)


@pytest.mark.parametrize("weight", [1, 1.5, 3.7, 13])
def test_probabilities_are_binomial_also_for_rounded_estimates(weight):
    law, n, x = laws.Sampled(weight), np.arange(31)[:, None], np.arange(31)
    for y in (weight * n, np.rint(weight * n)):
        found = law.log_weight(y, np.broadcast_to(x, (31, 31)))
        assert np.exp(found) == pytest.approx(stats.binom.pmf(n, x, 1 / weight), abs=1e-12)
    drawn = law.publish(np.full(4000, 20), np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(20, abs=5 * np.sqrt(20 * (weight - 1) / 4000))  # false-alarm rate 1e-6
    assert np.allclose(drawn / weight, np.rint(drawn / weight))


@pytest.mark.parametrize("tail", [0.05, 1e-12])
@pytest.mark.parametrize("n", [0, 1, 7, 300])
def test_bounds_are_those_of_exact_tests(n, tail):
    """The interval of Clopper and Pearson for the number of trials."""
    law, x = laws.Sampled(13), np.arange(n, 13 * n + 2000 + 400 * (n == 300) * 13)
    possible = (stats.binom.cdf(n, x, 1 / 13) > tail) & (stats.binom.sf(n - 1, x, 1 / 13) > tail)
    low, high = law.support_bounds(np.array([13.0 * n]), tail)
    assert (low[0], high[0]) == (x[possible][0], x[possible][-1])
    assert [end.tolist() for end in law.support_bounds(np.array([13.0 * n]), 0.0)] == [[n], [np.inf]]


@pytest.mark.parametrize(("n", "weight"), [(0, 13), (2, 13), (400, 40), (5, 1)])
def test_columns_are_the_probabilities_and_decrease_beyond_their_ends(n, weight):
    law = laws.Sampled(weight)
    (column,) = law.columns(np.array([weight * n, weight * n], dtype=float))
    first, size = int(column.begins[0]), column.log_weights.size
    x = first + np.arange(size)
    assert column.entries.tolist() == [0, 1]
    assert column.log_weights == pytest.approx(stats.binom.logpmf(n, x, 1 / weight), abs=1e-8)
    assert (column.left[0] == np.inf) == (first == n)
    assert (column.right[0] == np.inf) == (weight == 1)
    for (rate, curvature), beyond in ((column.left, first - 3), (column.right, x[-1] + 3)):
        if np.isfinite(rate):
            end = column.log_weights[0 if beyond < first else -1]
            expected = stats.binom.logpmf(n, beyond, 1 / weight)
            assert end - 3 * rate - 4.5 * curvature == pytest.approx(expected, abs=1e-3)
            assert end < column.log_weights.max() - 90


def test_the_flat_posterior_of_a_cell_is_negative_binomial():
    windows = published_windows(ObservedMeasurements(survey([26], laws.Sampled(13))))
    x = windows.counts[0]
    log_p = windows.log_noise[0] - np.logaddexp.reduce(windows.log_noise[0])
    assert np.exp(log_p) == pytest.approx(stats.nbinom.pmf(x - 2, 3, 1 / 13), abs=1e-11)


@pytest.mark.parametrize("statement", [inv.margin("bin"), inv.total()], ids=["cells", "total"])
def test_samples_of_poisson_counts_are_poisson(statement):
    """The marginal likelihood of a model is known in closed form."""
    n = np.array([3, 0, 8]) if statement == inv.margin("bin") else np.array([11])
    data = ppd.Measurements({"bin": list("abc")}, ppd.measured(statement, 7 * n, laws.Sampled(7)))
    base = np.array([20.0, 2.0, 60.0])
    with pm.Model(coords=data.coords) as model:
        level = pm.Normal("level", 0, 1)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(base * pm.math.exp(level)), release=data)
    logp = model.compile_logp(mode="FAST_COMPILE")

    def expected(level):
        mean = base * np.exp(level) / 7 if n.size > 1 else base.sum() * np.exp(level) / 7
        return stats.norm.logpdf(level) + stats.poisson.logpmf(n, mean).sum()

    for level in (-0.4, 0.3):
        found = logp({"level": level}) - logp({"level": 0.0})
        assert found == pytest.approx(expected(level) - expected(0.0), abs=1e-8)


def test_effective_weight_of_margins_of_error():
    estimates, moe = 13 * SAMPLED, margins_of(SAMPLED)
    bins = pd.Index([f"b{k}" for k in range(16)], name="bin")
    for kind in (np.asarray, list, lambda a: pd.Series(a, bins), lambda a: xr.DataArray(a, dims="bin")):
        law = laws.Sampled.of_margin_of_error(kind(estimates), kind(moe), 0.90)
        assert law.weight == pytest.approx(13)
    missing = laws.Sampled.of_margin_of_error([26, 40, 0], [margins_of(2), np.nan, 99.0], 0.90)
    assert missing.weight == pytest.approx(13)
    effective = laws.Sampled(12.3).log_weight(20.0, np.arange(200))  # not a multiple of the weight
    assert np.isneginf(effective[:2]).all()
    assert effective.argmax() == pytest.approx(20, abs=1)


def old_recipe(estimates, moe):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosisWarning)
        return survey(estimates, laws.Gaussian.of_margin_of_error(moe, 0.90))


def test_scales_that_increase_with_the_numbers_are_a_problem():
    """The test is exact: over all permutations of the scales its level is at most the stated rate."""
    moe = margins_of(SAMPLED)
    with pytest.warns(DiagnosisWarning, match="'bin=b2'.*state survey estimates by ppd.laws.Sampled"):
        data = survey(13 * SAMPLED, laws.Gaussian.of_margin_of_error(moe, 0.90))
    posterior = ppd.denoise(data, draws=150, rng=1, progressbar=False)
    assert any("larger scales" in problem for problem in posterior.problems)
    for scale in (laws.Laplace(moe), laws.Clipped(laws.Gaussian(moe), 0)):
        with pytest.warns(DiagnosisWarning, match="larger scales"):
            survey(13 * SAMPLED, scale)
    for law in (laws.Gaussian(12.0), laws.Gaussian(moe[::-1].copy()), laws.Sampled(13), laws.Gaussian(1 / moe)):
        assert scale_dependence(survey(13 * SAMPLED, law).parts) is None
    for n in (14, 15, 16, 40, 101):
        large = n // 2
        both = np.arange(large + 1)
        alarm = both[stats.hypergeom.sf(both - 1, n, large, large) < RATE]
        assert stats.hypergeom.pmf(alarm, n, large, large).sum() <= RATE
        assert (alarm.size > 0) == (n > 14)


def covered(mean, number, ways):
    """Return shares of covered cells and totals, and the ratio of estimated to true totals, by way."""
    rng, found = np.random.default_rng(7), {way: [] for way in ways}
    for seed in range(number):
        x = rng.poisson(mean, 16)
        n = rng.binomial(x, 1 / 13)
        y, moe = 13 * n, margins_of(n)
        for way in ways:
            if way == "published":
                total, half = y.sum(), margins_of(n.sum())
                found[way].append((np.mean(np.abs(y - x) <= moe), abs(total - x.sum()) <= half, total / x.sum()))
                continue
            data = old_recipe(y, moe) if way == "gaussian" else survey(y, laws.Sampled(13))
            posterior = ppd.denoise(
                data, draws=500, prior=way.replace("gaussian", "learned"), rng=seed, progressbar=False
            )
            cells, total = posterior.summary(), posterior.summary(inv.total()).iloc[0]
            inside = total.lower <= x.sum() <= total.upper
            found[way].append((np.mean((cells.lower <= x) & (x <= cells.upper)), inside, total.estimate / x.sum()))
    return {way: np.mean(rows, axis=0) for way, rows in found.items()}


def test_the_total_of_a_sparse_survey():
    """The published interval is 104 +- 58; Gaussian noise of the published margins gives 7."""
    law = laws.Sampled.of_margin_of_error(13 * SAMPLED, margins_of(SAMPLED), 0.90)
    total = ppd.denoise(survey(13 * SAMPLED, law), draws=500, rng=1, progressbar=False).summary(inv.total()).iloc[0]
    assert 95 < total.estimate < 111
    assert 40 < total.lower < 62
    assert 155 < total.upper < 180


@pytest.mark.deep
@pytest.mark.parametrize("mean", [7, 60])
def test_intervals_of_totals_cover_over_many_surveys(mean):
    """Fifty surveys: 90 % intervals that cover fewer than 38 times have a false-alarm rate of 2e-3 for each mean."""
    found = covered(mean, 50, ["learned", "gaussian", "published"])
    assert found["learned"][1] >= 38 / 50
    assert found["learned"][0] > 0.88
    assert abs(found["learned"][2] - 1) < 0.1
    assert found["gaussian"][2] < found["published"][2] - 0.15
