"""Least squares against a dense reference, enumerated laws of noise, and the coverage of its intervals."""

import numpy as np
import pytest
from scipy import linalg

import ppdinf as ppd
from ppdinf import laws
from ppdinf.errors import InvariantError, ModelError
from ppdinf.laws.observation_model import as_observation_model

inv = ppd.invariants
D = 12
CELLS = np.arange(D)
CODES = {"nested": (CELLS // 3, CELLS // 6), "crossing": (CELLS // 3, CELLS % 3), "open": (CELLS // 4, CELLS // 4)}


def indicator(codes):
    return (codes == np.unique(codes)[:, None]).astype(int)


def problem(kind, seed):
    """Return random measurements with noisy weighted sums, and two exact sums, the second of which repeats the first.

    Without measured cells, sums of some cells alone are not identified.
    """
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 50, D)
    Q = np.vstack([*map(indicator, CODES[kind]), rng.integers(0, 4, (2, D))])
    if kind != "open":
        Q = np.vstack([np.eye(D, dtype=int)[rng.random(D) < 0.7], Q])
    v = 10.0 ** rng.uniform(-2, 4, len(Q))
    y = Q @ x + rng.normal(0, np.sqrt(v))
    A = np.vstack([np.ones(D, dtype=int), 2 * np.ones(D, dtype=int)])
    public = {inv.linear(A[:1]): [x.sum()], inv.linear(A[1:]): [2 * x.sum()]}
    noisy = ppd.measured(inv.linear(Q), y, laws.Gaussian(np.sqrt(v)))
    return ppd.Measurements({"cell": range(D)}, noisy, public=public), Q, v, y, A[:1], x.sum()


def dense(Q, v, y, A, a):
    """Return estimate, covariance and the identified directions by elimination of the exact sums."""
    free, start = linalg.null_space(A), np.linalg.pinv(A) @ np.atleast_1d(a)
    design = (Q @ free) / np.sqrt(v)[:, None]
    t = np.linalg.pinv(design) @ ((y - Q @ start) / np.sqrt(v))
    identified = np.linalg.pinv(np.vstack([Q, A])) @ np.vstack([Q, A])
    return start + free @ t, free @ np.linalg.pinv(design.T @ design, hermitian=True) @ free.T, identified


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", CODES)
def test_estimates_and_covariances_are_those_of_a_dense_reference(kind, seed):
    """Variances differ by a factor of up to a million; the covariance without the exact sum does not agree.

    Without pivots, the factors of one system in nine are unstable or singular, for example of "open" with seed 1.
    """
    data, Q, v, y, A, a = problem(kind, seed)
    fit = ppd.least_squares(data)
    estimate, covariance, identified = dense(Q, v, y, A, a)
    known = np.abs(identified - np.eye(D)).max(axis=0) < 1e-9
    assert kind != "open" or not known.all()
    assert fit.estimate.values[known] == pytest.approx(estimate[known], rel=1e-7, abs=1e-7)
    assert np.isnan(fit.estimate.values[~known]).all()
    found = fit.covariance().to_numpy()
    scale = np.sqrt(np.abs(np.diag(covariance)))
    assert np.abs((found - covariance) / np.outer(scale, scale))[np.ix_(known, known)].max(initial=0) < 1e-6
    assert np.isinf(found.diagonal()[~known]).all()
    assert fit.estimate.values[known].sum() == pytest.approx(a) or not known.all()
    sums = fit.covariance(inv.linear(Q))
    assert sums.to_numpy() == pytest.approx(Q @ covariance @ Q.T, rel=1e-6, abs=1e-6 * v.min())
    assert fit.summary(inv.linear(Q))["sd"].to_numpy() == pytest.approx(np.sqrt(np.diag(sums)))
    wrong = dense(Q, v, y, np.zeros((1, D)), 0)[1]
    assert kind == "open" or np.abs(wrong / covariance - 1).max() > 1e-3


def test_sums_that_are_not_identified_have_infinite_errors():
    noisy = ppd.measured(inv.margin("area"), [4, 9], laws.DoubleGeometric(1))
    data = ppd.Measurements({"area": ["A", "B"], "sex": ["f", "m"]}, noisy, public={inv.total(): 12})
    fit = ppd.least_squares(data)
    a = np.exp(-1)
    variance = 2 * a / (1 - a) ** 2
    areas = fit.summary(inv.margin("area"))
    assert areas["estimate"].tolist() == pytest.approx([3.5, 8.5])
    assert areas["sd"].tolist() == pytest.approx([np.sqrt(variance / 2)] * 2)
    sexes = fit.summary(inv.margin("sex"))
    assert sexes["estimate"].isna().all()
    assert (sexes["sd"] == np.inf).all()
    assert (sexes["lower"] == -np.inf).all()
    assert (sexes["upper"] == np.inf).all()
    cells = fit.to_dataset()
    assert cells["estimate"].dims == ("area", "sex")
    assert cells["estimate"].isnull().all()
    assert fit.covariance(inv.margin("sex")).isna().to_numpy().sum() == 2
    weights = [[10**7, 10**7, 10**7, 10**7 - 1], [10**7] * 4]  # the first sum has an unknown share of 1e-7
    assert fit.summary(inv.linear(weights))["sd"].tolist() == [np.inf, pytest.approx(0, abs=1e-4)]


@pytest.mark.parametrize("public", [None, {inv.total(): 7}])
def test_tables_without_noisy_numbers(public):
    fit = ppd.least_squares(ppd.Measurements({"a": ["x", "y"]}, public=public))
    assert fit.summary(inv.total())["sd"].tolist() == [0.0 if public else np.inf]
    assert fit.estimate.isnull().all()


def test_the_projection_of_an_additive_mechanism_is_least_squares():
    """Equal variances: the estimate is the table plus the noise without its components along the public sums."""
    x, noise = np.arange(D), np.random.default_rng(3).integers(-9, 10, D)
    A = np.vstack([indicator(CELLS // 3), CELLS])
    noisy = ppd.measured(inv.margin("cell"), x + noise, laws.Staircase("1/4"))
    fit = ppd.least_squares(ppd.Measurements({"cell": range(D)}, noisy, public={inv.linear(A): A @ x}))
    assert fit.estimate.values == pytest.approx(x + noise - np.linalg.pinv(A) @ (A @ noise))


@pytest.mark.parametrize(("data", "message"), [
    (ppd.Measurements({"a": ["x", "y"]}, ppd.measured(inv.margin("a"), ["1-9", 4], laws.Interval())), "a=x"),
    (ppd.Measurements({"a": ["x"]}, ppd.measured(inv.margin("a"), [9], laws.RandomRounding(3))), "use ppdinf.denoise"),
    (np.array([3, 4]), "Measurements or releases, found ndarray"),
    ([ppd.Conditioned(inv.total() & inv.between(0, 9), laws.DoubleGeometric(1)).release([3, 4])], "release 1"),
], ids=["range", "rounded", "table", "conditioned"])  # fmt: skip
def test_noise_that_depends_on_the_count_is_refused_by_name(data, message):
    with pytest.raises(ModelError, match=message):
        ppd.least_squares(data)


def test_variances_that_differ_too_much_are_refused():
    noisy = ppd.measured(inv.margin("a"), [3, 4], laws.Gaussian([1e-3, 1e3]))
    with pytest.raises(ModelError, match="factor above 1e10"):
        ppd.least_squares(ppd.Measurements({"a": ["x", "y"]}, noisy))


def test_refused_probabilities_and_statements():
    fit = ppd.least_squares(ppd.GeneralizedLaplace(inv.total(), 1).release([3, 4]))
    with pytest.raises(ModelError, match="probability must be between 0 and 1"):
        fit.summary(probability=1.0)
    with pytest.raises(InvariantError, match="by one statement"):
        fit.covariance(inv.total() & inv.margin("dim_0"))


LAWS = [
    laws.DoubleGeometric("1/3"),
    laws.DiscreteGaussian("1/2"),
    laws.DiscreteGaussian(variance=40),
    laws.Staircase(1, 3, 2),
    laws.AdditiveNoise({-1: 0.2, 0: 0.5, 3: 0.3}),
    laws.L2Laplace("1/2"),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_moments_of_laws_are_those_of_their_weights(law):
    """Two numbers together; all weights beyond 150 are below 1e-15."""
    form = as_observation_model(law)
    z = np.stack(np.meshgrid(np.arange(-150, 151), np.arange(-150, 151)), axis=0).reshape(2, -1)
    p = np.exp(form.log_weight(z, np.zeros_like(z)).sum(axis=0))
    p /= p.sum()
    mean, variance = form.noise_moments(2)
    assert z @ p == pytest.approx(np.full(2, mean), abs=1e-12)
    assert (z * p) @ z.T - mean**2 == pytest.approx(variance * np.eye(2), rel=1e-7, abs=1e-9)


def test_moments_of_real_and_of_wide_noise():
    assert laws.Gaussian(2.5).noise_moments(1) == (0.0, pytest.approx(6.25))
    assert laws.Laplace(1.5).noise_moments(1) == (0.0, pytest.approx(4.5))
    assert laws.DoubleGeometric("1e-7").noise_variance == pytest.approx(2e14, rel=1e-6)


@pytest.mark.parametrize(
    ("case", "mechanism", "tolerance"),
    [
        ("one sum", ppd.GeneralizedLaplace(inv.total(), "1/2"), 1e-9),
        ("crossing", ppd.GeneralizedLaplace(inv.margin("a") & inv.margin("b"), "1/4"), 0.05),
        ("l2", ppd.GeneralizedLaplace(inv.total(), "1/2", norm="l2"), 2e-3),
        ("crossing, Gaussian", ppd.GeneralizedGaussian(inv.margin("a") & inv.margin("b"), sigma=3), 1e-6),
    ],
)
def test_covariances_of_releases_are_those_of_enumerated_noise(case, mechanism, tolerance):
    """A 2 x 2 table, noise up to 60 per cell; the variance under crossing sums is simulated, 3 % of standard error."""
    table = ppd.as_table(np.array([[30, 4], [12, 7]]), dims=["a", "b"])
    release = mechanism.release(table)
    moves = [[1, -1, -1, 1]] if "crossing" in case else [[1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1]]
    z = np.stack(np.meshgrid(*[np.arange(-60, 61)] * len(moves)), axis=-1).reshape(-1, len(moves)) @ np.array(moves)
    law = release.likelihood.form.law
    log_p = -0.5 * np.linalg.norm(z, axis=1) if "l2" in case else law.log_weight(z).sum(axis=1)
    p = np.exp(log_p) / np.exp(log_p).sum()
    expected = (z.T * p) @ z
    found = ppd.least_squares(release)
    assert found.covariance().to_numpy() == pytest.approx(expected, rel=tolerance, abs=tolerance * expected.max())
    assert found.estimate.values == pytest.approx(release.table.values)
