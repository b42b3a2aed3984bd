"""Laws of published numbers, against enumeration of tables, sums over all numbers, and draws."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from chi_square import p_value_of_tables
from grids import box
from known_parameters import gaps_by_rate
from published_laws import KINDS, Problem, listed_log_weights, log_ratio
from scipy import integrate, stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.errors import PpdinfError, PrivacyError
from ppdinf.laws.observation_model import as_observation_model

inv, laws = ppd.invariants, ppd.laws
FEW, MANY = 4, 50
CROSSING = pytest.mark.parametrize("nested", [True, False], ids=["nested", "crossing"])


def agrees(problem, **changes):
    """Return whether the package and the enumeration have the same weights."""
    expected = problem.log_weights()
    try:
        seen = problem.measurements(**changes)
        if problem.nested:
            ratio = problem.with_prior(expected, 1) - problem.with_prior(expected, 0)
            return bool(abs(log_ratio(problem, seen) - ratio) < 1e-7)
        found = listed_log_weights(problem, seen)
    except PpdinfError:
        assert changes, "the true statements are contradictory"
        return False
    probable = expected > expected.max() - 25  # windows omit improbable tables
    if not np.isfinite(found[probable]).all() or np.isfinite(found[np.isneginf(expected)]).any():
        return False
    shift = found[probable] - expected[probable]
    return bool(np.ptp(shift) < 1e-7)


@pytest.mark.quick_cases(3)
@CROSSING
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", [range(FEW), pytest.param(range(FEW, MANY), marks=pytest.mark.deep)], ids=str)
def test_weights_agree_with_enumeration(seeds, kind, nested):
    problems = [Problem(kind, seed, nested=nested) for seed in seeds]
    assert [seed for seed, problem in zip(seeds, problems, strict=True) if not agrees(problem)] == []
    assert not all(agrees(problem, wrong=True) for problem in problems)  # some systems cannot distinguish the laws


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith(("clipped", "suppressed"))])
def test_marks_are_not_missing_values(kind):
    problems = [Problem(kind, seed, nested=True) for seed in range(FEW)]
    assert not all(agrees(problem, marks_missing=True) for problem in problems)


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_draws_of_crossing_sums_agree_with_enumeration(kind):
    """Chi-square tests of thinned chains; with 16 laws, a false alarm has probability 2e-5."""
    problem = Problem(kind, 100, nested=False)
    posterior = ppd.denoise(problem.measurements(), draws=400, tune=40, prior="flat", rng=1, progressbar=False)
    log_p = problem.log_weights()
    p = np.exp(log_p - np.logaddexp.reduce(log_p))
    drawn = posterior.draws.values[:, ::4].reshape(-1, problem.d)
    assert p_value_of_tables(drawn, problem.tables, p) > 1e-6


Z = np.arange(-900, 901)
COUNTS = np.array([0, 1, 4, 7])
NORMALIZED = {
    "geometric": (laws.DoubleGeometric("1/3"), Z),
    "gaussian": (laws.DiscreteGaussian("1/3"), Z),
    "wide gaussian": (laws.DiscreteGaussian(20), Z),
    "staircase": (laws.Staircase("1/2", 3, 2), Z),
    "table": (laws.AdditiveNoise({-1: 0.25, 0: 0.5, 3: 0.25}), Z),
    "rounding": (laws.RandomRounding(3), Z),
    "rounded": (laws.Rounded(5), Z[Z % 5 == 0]),
    "clipped": (laws.Clipped(laws.DoubleGeometric("1/3"), 2), Z[Z >= 2]),
    "thresholded": (laws.Thresholded(laws.DiscreteGaussian(3), 5), Z[Z >= 4]),
    "clipped rounding": (laws.Clipped(laws.RandomRounding(3)), Z[Z >= 0]),
    "responses": (laws.RandomizedResponse(9, 0.8, 0.3), Z),
    "sampled": (laws.Sampled(3), 3 * np.arange(8)),
    "matrix": (laws.TransitionMatrix(ppd.counts.truncated_geometric(8, 1).matrix), np.arange(8)),
}


@pytest.mark.parametrize("name", NORMALIZED)
def test_integer_laws_of_published_numbers_sum_to_one(name):
    law, numbers = as_observation_model(NORMALIZED[name][0]), NORMALIZED[name][1]
    if name == "thresholded":
        numbers = np.append(law.mark, numbers[numbers >= 5])
    total = logsumexp(law.log_weight(numbers[:, None], COUNTS[None]), axis=0) - law.log_total(1)
    np.testing.assert_allclose(total, 0, atol=1e-9)


@pytest.mark.parametrize("law", [laws.Gaussian(1.7), laws.Laplace(2.3)], ids=str)
def test_real_laws_integrate_to_one(law):
    density = lambda y: np.exp(law.log_weight(y, 3) - law.log_total(1))  # noqa: E731
    assert integrate.quad(density, -80, 3)[0] + integrate.quad(density, 3, 80)[0] == pytest.approx(1, abs=1e-8)
    below = np.exp(laws.Clipped(law, 2).log_weight(np.array([2.0]), np.array([3])))[0]
    assert below + integrate.quad(lambda y: np.exp(laws.Clipped(law, 2).log_weight(y, 3)), 2, 60, points=[3])[0] == (
        pytest.approx(1, abs=1e-8)
    )


@pytest.mark.parametrize("epsilon", ["1/2", "2"])
def test_joint_l2_noise_sums_to_one(epsilon):
    law, z = as_observation_model(laws.L2Laplace(epsilon)), box(-80, 80, 2).T
    assert logsumexp(law.log_weight(z, 0).sum(axis=0)) == pytest.approx(law.log_total(2), abs=1e-9)


SKEWED = {-3: 0.1, -1: 0.2, 0: 0.4, 2: 0.3}
BANDS = {0: {0: 1}, 1: {-1: 0.7, 2: 0.3}, 3: {-1: 0.2, 0: 0.6, 1: 0.2}}
PTABLE = "i,j,v,p,type\n0,0,0,1,all\n1,0,-1,0.5,all\n1,2,1,0.5,all\n2,1,-1,0.25,all\n2,2,0,0.5,all\n2,3,1,0.25,all\n"


@pytest.mark.parametrize("law", [
    laws.AdditiveNoise(SKEWED), laws.BandedNoise(BANDS), laws.Thresholded(laws.AdditiveNoise(SKEWED), 3),
    laws.Clipped(laws.BandedNoise(BANDS), 1), laws.Thresholded(laws.RandomRounding(3), 3),
    laws.Clipped(laws.DoubleGeometric(1), 2),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("x", [0, 1, 4])
def test_draws_have_the_probabilities(law, x):
    """Each comparison has a false alarm rate of 1e-6."""
    drawn = law.publish(np.full(4000, x), np.random.default_rng(x))
    y, number = np.unique(np.append(np.arange(-60, 61), drawn), return_counts=True)
    number[(y >= -60) & (y <= 60)] -= 1
    log_p = np.where(law.is_possible(y), law.log_weight(y, np.full(y.size, x)), -np.inf)
    mark = y == getattr(law, "mark", None)
    p = np.exp(log_p)
    p[~mark] *= (1 - p[mark].sum()) / p[~mark].sum() if p[~mark].sum() else 1  # weights of marks are probabilities
    assert p.sum() == pytest.approx(1)
    assert number[p == 0].sum() == 0
    common = p > 1e-3
    if common.sum() > 1:
        assert stats.chisquare(number[common], p[common] / p[common].sum() * number[common].sum()).pvalue > 1e-6


@pytest.mark.parametrize("law", [laws.AdditiveNoise(SKEWED), laws.BandedNoise(BANDS)], ids=str)
def test_columns_of_listed_noise(law):
    y = [0, 2, 7]
    low, high = law.support_bounds(np.array(y), 0.0)
    for column in law.columns(np.array(y)):
        for entry, begin in zip(column.entries, column.begins, strict=True):
            x = begin + np.arange(column.log_weights.size)
            np.testing.assert_array_equal(column.log_weights, law.log_weight(np.full(x.size, y[entry]), x))
            outside = np.array([begin - 1, x[-1] + 1])
            assert (law.log_weight(np.full(2, y[entry]), outside) == -np.inf).all()
            possible = x[np.isfinite(column.log_weights)]
            assert low[entry] <= possible.min()
            assert possible.max() <= high[entry]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_ptable(tmp_path, separator):
    path = tmp_path / "ptable.csv"
    path.write_text(PTABLE.replace(",", separator))
    law = laws.read_ptable(path)
    x = np.array([0, 1, 2, 30_000])
    p = np.exp(law.log_weight(x[:, None] + np.arange(-1, 2), x[:, None]))
    np.testing.assert_allclose(p, [[0, 1, 0], [0.5, 0, 0.5], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25]])
    cells, total = ppd.measured(inv.margin("area"), [0, 2, 29_990], law), ppd.measured(inv.total(), 29_993, law)
    seen = ppd.Measurements({"area": list("ABC")}, cells, total)
    draws = ppd.denoise(seen, draws=200, rng=1, prior="flat", progressbar=False).draws
    assert set(draws.sel(area="A").values.ravel().tolist()) == {0, 1}
    assert set(draws.sel(area="B").values.ravel().tolist()) == {1, 2, 3}


def test_distributions_in_several_forms():
    array = np.array(list(SKEWED.items()))
    for form in (SKEWED, pd.Series(SKEWED), array, array[::-1]):
        law = laws.AdditiveNoise(form)
        assert (law.first, law.last) == (-3, 2)
        np.testing.assert_allclose(law.probabilities, [0.1, 0, 0.2, 0.4, 0, 0.3])


def test_randomized_response_of_two_answers():
    """Draws, and the limits keep = 1 and flip = 0, where reports are answers."""
    honest = laws.RandomizedResponse(5, 1, 0)
    np.testing.assert_array_equal(np.exp(honest.log_weight(np.arange(6)[:, None], np.arange(6))), np.eye(6))
    assert honest.support_bounds(np.array([2]), 0.0) == (2, 2)
    x = np.arange(7)
    assert (honest.log_weight(np.array(7), x) == -np.inf).all()
    assert honest.log_weight(np.array(5), np.array([6])) == -np.inf
    drawn = laws.RandomizedResponse(10, 0.8, 0.1).publish(np.full(4000, 4), np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(4 * 0.8 + 6 * 0.1, abs=5 * np.sqrt((4 * 0.16 + 6 * 0.09) / 4000))


def test_numbers_that_no_count_has():
    gap = laws.BandedNoise({0: {0: 0.5, 3: 0.5}, 1: {2: 1}})
    assert gap.is_possible(np.array([-1, 0, 1, 2, 3, 4])).tolist() == [False, True, False, False, True, True]


REALS = [laws.Gaussian(0.2), laws.Gaussian(3), laws.Laplace(0.2), laws.Laplace(3)]


def frozen(law):
    return stats.norm(0, law.sd) if isinstance(law, laws.Gaussian) else stats.laplace(0, law.scale)


def test_scales_from_published_accuracy():
    for law in (laws.Gaussian, laws.Laplace):
        for confidence in (0.9, 0.95):
            noise = frozen(law.of_margin_of_error(2.5, confidence))
            assert noise.cdf(2.5) - noise.cdf(-2.5) == pytest.approx(confidence)
    assert frozen(laws.Laplace.of_sd(3.0)).std() == pytest.approx(3)
    assert laws.Laplace.of_epsilon(0.5, sensitivity=3) == laws.Laplace(6)
    by_label = laws.Gaussian.of_margin_of_error(pd.Series({"A": 1.0, "B": 2.0, "C": 1.0}), 0.9)
    assert by_label.number.to_dict() == {"A": 0, "B": 1, "C": 0}


PER_ENTRY = {
    "Gaussian": laws.Gaussian,
    "Laplace": laws.Laplace,
    "Gaussian margin": lambda margin: laws.Gaussian.of_margin_of_error(margin, 0.9),
    "Laplace margin": lambda margin: laws.Laplace.of_margin_of_error(margin, 0.9),
    "Laplace sd": laws.Laplace.of_sd,
    "Laplace epsilon": laws.Laplace.of_epsilon,
}


@pytest.mark.parametrize("of", PER_ENTRY.values(), ids=PER_ENTRY)
def test_parameters_of_each_entry(of):
    for given in ([2, None, 1.0, 2], (2, np.nan, 1, 2), np.array([2, np.nan, 1, 2]), pd.Series([2, None, 1, 2])):
        found = of(given)
        assert found.laws == (of(2), of(1))
        assert np.asarray(found.number).tolist() == [0, -1, 1, 0]
    series = pd.Series([1, "*****"], ["A", "B"], dtype=object)
    for wrong, place in {
        "list": ([1, "*****"], "position 1: "),
        "texts": (np.array(["±1", "2"]), "position 0: "),
        "matrix": ([[1.0, 2.0], [3.0, -1.0]], "position 1, 1: "),
        "series": (series, "label 'B': "),
        "frame": (pd.DataFrame({"f": series, "m": [1, 2]}), "label 'B', 'f': "),
        "array": (xr.DataArray([[1.0, -2.0]], {"age": [5, 9]}, ("sex", "age")), "position 0 of 'sex', age=9: "),
    }.values():
        with pytest.raises(PrivacyError, match=f"^{place}.* must be a positive number, found "):
            of(wrong)


def test_numbers_without_noise_are_exact():
    for of in list(PER_ENTRY.values())[:-1]:
        with pytest.raises(PrivacyError, match=r"^label 'B': .* is 0, so the published number is exact: .*public="):
            of(pd.Series({"A": 2.0, "B": 0.0}))
    with pytest.raises(PrivacyError, match="epsilon must be a positive number, found 0"):
        laws.Laplace.of_epsilon([0])
    exact = {inv.margin("area"): [3, np.nan]}
    counts = ppd.measured(inv.margin("area"), [np.nan, 7.5], laws.Gaussian.of_margin_of_error([np.nan, 2], 0.9))
    seen = ppd.Measurements({"area": ["A", "B"]}, counts, public=exact)
    assert ppd.identified_bounds(seen).upper.tolist() == [3, np.inf]


@pytest.mark.parametrize("law", REALS, ids=str)
@pytest.mark.parametrize("y", [3.0, 2.37, -0.5])
def test_columns_and_tails_of_real_noise(law, y):
    (column,) = law.columns(np.array([y]))
    x = np.arange(-60, 61)
    begin, size = column.begins[0], column.log_weights.size
    below, above = np.maximum(begin - x, 0), np.maximum(x - begin - size + 1, 0)
    found = column.log_weights[np.clip(x - begin, 0, size - 1)]
    for steps, (rate, curvature) in ((below, column.left), (above, column.right)):
        found = found - steps * (rate + 0.5 * curvature * steps)
    log_p = frozen(law).logpdf(y - x)
    np.testing.assert_allclose(found - found.max(), log_p - log_p.max(), rtol=1e-9, atol=1e-9)
    assert found.max() == law.log_weight(y, x).max()
    for tail_probability in (0.1, 1e-6):
        low, high = law.support_bounds(y, tail_probability)
        p = np.exp(log_p - log_p.max())
        assert 0 < p[(x < low) | (x > high)].sum() + 1e-300 <= tail_probability
        assert low <= high
    below_3 = law.column_below(3)
    counts = below_3.begins[0] + np.arange(below_3.log_weights.size)
    np.testing.assert_allclose(below_3.log_weights, frozen(law).logcdf(3 - counts), rtol=1e-9, atol=1e-12)
    assert below_3.log_weights[0] > -1e-9


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("law", [laws.Gaussian(1.5), laws.Laplace(1.5), laws.Clipped(laws.Laplace(1.5))], ids=str)
def test_marginal_likelihoods_in_models(law):
    y = np.array([1.7, 0.0, 4.2])
    noise = frozen(law) if isinstance(law, laws.Gaussian) else stats.laplace(0, 1.5)
    seen = ppd.Measurements({"area": list("ABC")}, ppd.measured(inv.margin("area"), y, law), public={inv.total(): 6})
    tables = np.array([(i, j, 6 - i - j) for i in range(7) for j in range(7 - i)])
    log_noise = noise.logpdf(y - tables)
    if isinstance(law, laws.Clipped):
        log_noise[:, 1] = noise.logcdf(-tables[:, 1])

    def log_mass(means):
        return np.logaddexp.reduce((stats.poisson.logpmf(tables, means) + log_noise).sum(axis=1))

    first, second = gaps_by_rate(seen, np.array([1.0, 2.0, 3.0]), log_mass)
    assert first == pytest.approx(second, abs=1e-8)


def test_draws_of_real_noise():
    rng = np.random.default_rng(1)
    for law in REALS:
        drawn = law.publish(np.full(2000, 5), rng) - 5
        assert stats.kstest(drawn, frozen(law).cdf).pvalue > 1e-6
