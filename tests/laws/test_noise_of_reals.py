"""Real Gaussian and Laplace noise on counts: parameters, tails, files, and models with continuous parameters."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import CountError, PrivacyError

inv, laws = ppd.invariants, ppd.laws
LAWS = [laws.Gaussian(0.2), laws.Gaussian(3), laws.Laplace(0.2), laws.Laplace(3)]


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


@pytest.mark.parametrize("wrong", [
    lambda: laws.Gaussian(0), lambda: laws.Gaussian(np.inf), lambda: laws.Laplace(-1), lambda: laws.Laplace("1"),
    lambda: laws.Gaussian.of_margin_of_error(1, 90), lambda: laws.Laplace.of_margin_of_error(1, 0),
    lambda: laws.Laplace.of_epsilon(1, 0), lambda: laws.Laplace(True),
])  # fmt: skip
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(PrivacyError):
        wrong()


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


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("y", [3.0, 2.37, -0.5])
def test_columns_and_tails(law, y):
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


@pytest.mark.parametrize("law", [*LAWS, laws.Clipped(laws.Laplace(3))], ids=str)
def test_files(law, tmp_path):
    y = [2.5, 0.0, 1 / 3]
    cells, total = ppd.measured(inv.margin("area"), y, law), ppd.measured(inv.total(), "1-9", laws.Interval())
    seen = ppd.Measurements({"area": list("ABC")}, cells, total)
    seen.save(tmp_path / "seen.ppd")
    again = ppd.read_measurements(tmp_path / "seen.ppd")
    assert again.equals(seen)
    assert again.to_dataframe().released.tolist() == [*y, "1-9"]
    for value in ("2,5", np.inf, "x"):
        with pytest.raises(CountError, match=r"must be a number|is not an integer or a range"):
            ppd.Measurements({"area": [0]}, ppd.measured(inv.total(), value, law))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("law", [laws.Gaussian(1.5), laws.Laplace(1.5), laws.Clipped(laws.Laplace(1.5))], ids=str)
def test_marginal_likelihoods_in_models(law):
    y = np.array([1.7, 0.0, 4.2])
    noise = frozen(law) if isinstance(law, laws.Gaussian) else stats.laplace(0, 1.5)
    seen = ppd.Measurements({"area": list("ABC")}, ppd.measured(inv.margin("area"), y, law), public={inv.total(): 6})
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 2)
        ppd.PartiallyPrivate("n", pm.Poisson.dist(rate * np.array([1.0, 2.0, 3.0])), release=seen)
    logp = model.compile_logp()
    tables = np.array([(i, j, 6 - i - j) for i in range(7) for j in range(7 - i)])
    log_noise = noise.logpdf(y - tables)
    if isinstance(law, laws.Clipped):
        log_noise[:, 1] = noise.logcdf(-tables[:, 1])
    gaps = []
    for log_rate in (0.0, 0.7):
        log_p = stats.poisson.logpmf(tables, np.exp(log_rate) * np.array([1.0, 2.0, 3.0])).sum(axis=1)
        exact = np.logaddexp.reduce(log_p + log_noise.sum(axis=1)) + stats.gamma.logpdf(np.exp(log_rate), 2, scale=0.5)
        gaps.append(float(logp({"rate_log__": log_rate})) - exact - log_rate)
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-8)


def test_draws():
    rng = np.random.default_rng(1)
    for law in LAWS:
        drawn = law.publish(np.full(2000, 5), rng) - 5
        assert stats.kstest(drawn, frozen(law).cdf).pvalue > 1e-6
