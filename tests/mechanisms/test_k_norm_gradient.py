"""K-norm gradient: densities, draws, and an audit of the guarantee by integration over neighbouring data."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from ppdinf import PartiallyPrivate, read_release
from ppdinf.errors import ModelError, PrivacyError
from ppdinf.mechanisms import (
    Gradient,
    KNormGradient,
    LinearRegression,
    LogisticRegression,
    Mean,
    Quantile,
)
from ppdinf.noise.real.k_norm import K_NORMS


def on_grid(mechanism, data, grid):
    """Normalized density on a grid of equal cells, by the public log density."""
    log = mechanism.log_density(grid if grid.ndim == 2 else grid[:, None], data)
    density = np.exp(log - log.max())
    return density / density.sum()


def cdf_on_grid(mechanism, data, grid):
    """Distribution function at the right ends of the cells with the given midpoints."""
    mass = on_grid(mechanism, data, grid)
    step = grid[1] - grid[0]
    return lambda t: np.interp(t, grid + step / 2, np.cumsum(mass), left=0)


def regression_data(rng, n, d, kind):
    x = rng.normal(size=(n, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    signal = x @ np.linspace(1, -0.5, d)
    if kind == "linear":
        return x, np.clip(signal + 0.2 * rng.normal(size=n), -1, 1)
    return x, (rng.uniform(size=n) < 1 / (1 + np.exp(-2 * signal))).astype(int)


# Draws


@pytest.mark.parametrize("norm", K_NORMS)
def test_means_are_k_norm_laws(norm):
    """The size of the error is Gamma(d) with scale 2 diameter Delta_z / (n epsilon); a deviation of 5 % is detected."""
    rng = np.random.default_rng(1)
    data = rng.uniform(-0.3, 0.3, (40, 3))
    mechanism = KNormGradient(Mean(bound=1), epsilon="1/2", norm=norm, delta_z=3)
    grid = float(Mean(1).grid(data, norm, mechanism.epsilon / 6))  # records are cut to its multiples
    center = (np.trunc(data / grid) * grid).mean(axis=0)
    error = mechanism.simulate(data, draws=50_000, rng=2) - center
    size = np.linalg.norm(error, K_NORMS[norm], axis=1)
    scale = 2 * 2 * 3 / (40 * 0.5)
    assert stats.kstest(size, stats.gamma(3, scale=scale).cdf).pvalue > 1e-6
    assert stats.kstest(size, stats.gamma(3, scale=1.05 * scale).cdf).pvalue < 1e-6
    y = center + error[:2]
    difference = mechanism.log_density(y[0], data) - mechanism.log_density(y[1], data)
    assert difference == pytest.approx((size[1] - size[0]) / scale)
    assert str(mechanism.sampler_plan(data)) == f"direct sampler (exact): a {norm} law around the mean"


def test_means_on_a_subspace_that_contains_them():
    """Half the dimensions, half the degrees; every answer is in the subspace."""
    rng = np.random.default_rng(2)
    A = rng.normal(size=(6, 2))
    data = rng.uniform(-0.2, 0.2, (30, 2)) @ A.T
    bound = np.linalg.norm(data, axis=1).max()
    mechanism = KNormGradient(Mean(bound), epsilon=1, subspace=A @ [[1, 2, 3], [0, 1, 1]], known="the span of two")
    assert mechanism.sampler_plan(data).distance is None
    draws = mechanism.simulate(data, draws=40_000, rng=3)
    off = draws - draws @ A @ np.linalg.pinv(A.T @ A) @ A.T
    np.testing.assert_allclose(off, 0, atol=1e-12)
    size = np.linalg.norm(draws - data.mean(axis=0), axis=1)
    scale = 2 * 2 * bound / 30
    assert stats.kstest(size, stats.gamma(2, scale=scale).cdf).pvalue > 1e-6
    assert stats.kstest(size, stats.gamma(6, scale=scale).cdf).pvalue < 1e-6
    assert "the span of two" in mechanism.guarantee.describe()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("d1", "d2"), [(12, 3), (24, 3), (24, 12)])
def test_errors_of_projected_and_confined_means(d1, d2):
    """Their Corollary 13 in closed form: d2 (d1 + 1) c^2 when projected, d2 (d2 + 1) c^2 on the subspace."""
    A = np.kron(np.eye(d2), np.ones((d1 // d2, 1)))
    data = np.zeros((50, d1))
    free = KNormGradient(Mean(1), epsilon=1).simulate(data, draws=20_000, rng=14) @ A @ A.T * (d2 / d1)
    drawn = KNormGradient(Mean(1), epsilon=1, subspace=A, known="blocks").simulate(data, draws=20_000, rng=15)
    for answers, degrees in ((free, d1), (drawn, d2)):
        squares = (answers**2).sum(axis=1)
        expected = d2 * (degrees + 1) * (4 / 50) ** 2
        assert abs(squares.mean() - expected) < 5 * squares.std() / math.sqrt(20_000)
        printed = degrees * d1 * (4 / 50) ** 2  # d1^2 and d1 d2: bounds, not the errors themselves
        assert squares.mean() < 0.9 * printed


@pytest.mark.parametrize("norm", K_NORMS)
@pytest.mark.deep
def test_means_on_a_line_that_misses_them_against_integration(norm):
    """A chain: no closed form exists if the mean is off the subspace, or the norm is not l2."""
    data = np.array([[0.3, 0.1], [-0.1, 0.5], [0.4, 0.2]])
    direction = np.array([[1.0], [2.0]])
    mechanism = KNormGradient(Mean(1), epsilon=2, norm=norm, subspace=direction, known="the second is twice the first")
    assert not mechanism.sampler_plan(data, allow_mcmc=True).exact
    draws = mechanism.simulate(data, draws=20_000, rng=4)
    np.testing.assert_allclose(draws[:, 1], 2 * draws[:, 0], rtol=1e-9, atol=1e-12)
    grid = np.linspace(-15, 15, 12_001)
    mass = on_grid(mechanism, data, grid[:, None] * direction[:, 0])
    edges, cdf = grid + 0.00125, np.cumsum(mass)
    assert stats.kstest(draws[:, 0], lambda t: np.interp(t, edges, cdf, left=0)).pvalue > 1e-6
    wider = KNormGradient(Mean(1), epsilon="2.4", norm=norm, subspace=direction, known="same").simulate(
        data, draws=20_000, rng=4
    )
    assert stats.kstest(wider[:, 0], lambda t: np.interp(t, edges, cdf, left=0)).pvalue < 1e-6


@pytest.mark.parametrize("probability", [0.5, 0.25, 0.9])
def test_quantiles_against_integration(probability):
    """Ties, records at the ends, and an epsilon that is 20 % off."""
    data = np.array([0.0, 1.0, 1.0, 2.5, 4.0, 7.0, 10.0])
    mechanism = KNormGradient(Quantile(probability, 0, 10), epsilon=1, delta_z="1.5")
    draws = mechanism.simulate(data, draws=60_000, rng=5)[:, 0]
    grid = np.linspace(0, 10, 4001)[:-1] + 0.00125
    cdf = cdf_on_grid(mechanism, data, grid)
    assert stats.kstest(draws, cdf).pvalue > 1e-6
    other = KNormGradient(Quantile(probability, 0, 10), epsilon="1.2", delta_z="1.5")
    assert stats.kstest(other.simulate(data, draws=60_000, rng=5)[:, 0], cdf).pvalue < 1e-6
    assert mechanism.log_density([10.5], data) == -math.inf
    assert mechanism.sampler_plan(data).exact


def by_hand(radius, d):
    """Least squares stated as a user-defined gradient, which the chain draws."""
    return Gradient(
        lambda data, y: y @ (data[0].T @ data[0]) - data[0].T @ data[1],
        lambda y: np.linalg.norm(y, axis=1) + 2,
        answers=d,
        radius=radius,
    )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("n", "radius", "epsilon"), [(400, 1.5, 2), (60, 2.0, 1)])
def test_linear_regression_by_rejection_against_the_chain(n, radius, epsilon):
    """Two algorithms for one law, the second with answers at the edge of the ball; a scale 10 % off is detected."""
    x, response = data = regression_data(np.random.default_rng(6), n, 3, "linear")
    exact = KNormGradient(LinearRegression(radius), epsilon=epsilon)
    chain = KNormGradient(by_hand(radius, 3), epsilon=epsilon)
    assert exact.sampler_plan(data).reason.startswith("rejection")
    assert not chain.sampler_plan(data, allow_mcmc=True).exact
    drawn, walked = exact.simulate(data, draws=20_000, rng=7), chain.simulate(data, draws=4000, rng=8)
    for column in range(3):
        assert stats.ks_2samp(drawn[:, column], walked[:, column]).pvalue > 1e-5
    size, other = (np.linalg.norm(x.T @ (x @ y.T - response[:, None]), axis=0) for y in (drawn, walked))
    assert stats.ks_2samp(size, other).pvalue > 1e-5
    assert stats.ks_2samp(size, other * 1.1).pvalue < 1e-6
    assert max(np.linalg.norm(y, axis=1).max() for y in (drawn, walked)) <= radius


@pytest.mark.parametrize("norm", K_NORMS)
@pytest.mark.parametrize("n", [30, 3])
def test_linear_regression_in_one_dimension_against_integration(norm, n):
    """By rejection, and by the chain for noise as wide as the ball."""
    data = regression_data(np.random.default_rng(16), n, 1, "linear")
    mechanism = KNormGradient(LinearRegression(0.5), epsilon="1/2" if n == 30 else "1/100", norm=norm)
    draws = mechanism.simulate(data, draws=5000, rng=17)[:, 0]
    grid = np.linspace(-0.5, 0.5, 4001)[:-1] + 0.000125
    assert stats.kstest(draws, cdf_on_grid(mechanism, data, grid)).pvalue > 1e-6
    assert (mechanism.sampler_plan(data, allow_mcmc=True).distance is None) == (n == 30)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("norm", K_NORMS)
def test_logistic_regression_against_integration(norm):
    rng = np.random.default_rng(9)
    data = regression_data(rng, 60, 2, "logistic")
    mechanism = KNormGradient(LogisticRegression(4.0), epsilon=1, norm=norm)
    draws = mechanism.simulate(data, draws=2000, rng=10)
    ticks = np.linspace(-4, 4, 162)[:-1] + 4 / 161
    grid = np.array(list(itertools.product(ticks, ticks)))
    mass = on_grid(mechanism, data, grid)
    for f in (lambda y: y[:, 0], lambda y: y[:, 1], lambda y: y[:, 0] * y[:, 1], lambda y: (y**2).sum(axis=1)):
        mean = mass @ f(grid)
        se = math.sqrt((mass @ f(grid) ** 2 - mean**2) / len(draws))
        assert abs(f(draws).mean() - mean) < 5 * se + 0.005


def test_separable_records_stay_in_the_ball():
    x = np.array([[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0], [-0.8, 0.1]])
    draws = KNormGradient(LogisticRegression(5.0), epsilon=5).simulate((x, np.array([1, 1, 0, 0])), draws=200, rng=1)
    assert np.linalg.norm(draws, axis=1).max() <= 5
    assert draws[:, 0].mean() > 0.5


# The guarantee


def worst_loss(mechanism, pairs, grid):
    return max(
        np.abs(np.log(on_grid(mechanism, a, grid)) - np.log(on_grid(mechanism, b, grid))).max() for a, b in pairs
    )


def neighbours(values, n):
    """All data of n records from a few values, each with all data that differ in one record."""
    for data in itertools.combinations_with_replacement(values, n):
        for other in values:
            if other != data[0]:
                yield np.array(data), np.array([other, *data[1:]])


def test_audit_of_quantiles():
    """Every pair of neighbours; half the epsilon would be too small, so the factor of 2 is needed."""
    mechanism = KNormGradient(Quantile(0.5, 0, 4), epsilon=1)
    grid = np.linspace(0, 4, 401)[:-1] + 0.005
    loss = worst_loss(mechanism, neighbours([0.0, 1.0, 2.0, 3.5, 4.0], 4), grid)
    assert 0.55 < loss <= 1 + 1e-9


def test_audit_of_means():
    """The normalizer does not depend on the data, so half of the stated loss is never exceeded."""
    grid = np.linspace(-40, 40, 16_001)
    loss = worst_loss(KNormGradient(Mean(1), epsilon=1), neighbours([-1.0, 0.0, 1.0], 3), grid)
    assert loss == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("objective", [LinearRegression(2.0), LogisticRegression(2.0)], ids=lambda o: type(o).__name__)
def test_audit_of_regressions(objective):
    responses = (-1.0, 1.0) if isinstance(objective, LinearRegression) else (0, 1)
    records = [(x, r) for x in (-1.0, 0.3, 1.0) for r in responses]
    grid = np.linspace(-2, 2, 402)[:-1] + 0.005
    pairs = [
        tuple((np.array([[x] for x, _ in data]), np.array([r for _, r in data])) for data in ((a, *rest), (b, *rest)))
        for rest in itertools.combinations_with_replacement(records, 2)
        for a, b in itertools.combinations(records, 2)
    ]
    loss = worst_loss(KNormGradient(objective, epsilon=1), pairs, grid)
    assert 0.35 < loss <= 1 + 1e-9


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("norm", K_NORMS)
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_sensitivities_are_valid_and_nearly_attained(norm, kind):
    """Random records and answers: no change of the gradient exceeds the bound, the largest is at least 3/4."""
    rng, features = np.random.default_rng(13), 2.0
    objective = (
        LinearRegression(3.0, features=features, response=0.5)
        if kind == "linear"
        else LogisticRegression(3.0, features=features)
    )
    reached = 0.0
    for d in (1, 2, 4):
        for _ in range(30):
            y, x = rng.normal(size=(1, d)), rng.normal(size=(150, d))
            y *= 2.9 / np.linalg.norm(y)
            x *= features / np.linalg.norm(x, axis=1, keepdims=True)
            ends = (-0.5, 0.5) if kind == "linear" else (0.0, 1.0)
            each = [objective.gradient((row[None], np.array([r])), y) for row in x for r in ends]
            gradients = np.concatenate(each)
            moves = np.linalg.norm(gradients[:, None] - gradients[None], K_NORMS[norm], axis=2).max()
            bound = objective.sensitivity(y, norm)[0]
            assert moves <= bound * (1 + 1e-12)
            reached = max(reached, moves / bound)
    assert reached > 0.75


def test_guarantee():
    mechanism = KNormGradient(Mean(2), epsilon=0.1, delta_z=4)
    assert mechanism.guarantee.variant == "pufferfish"
    assert str(mechanism.guarantee.loss()) == "1/10"
    assert "no record has an l2 norm above 2" in mechanism.guarantee.describe()


@pytest.mark.parametrize(
    ("objective", "data", "kwargs"),
    [
        (Mean(np.float64(1)), [[0.1, 0.2], [0.3, 0.1]], {"norm": "l1", "delta_z": "3/2"}),
        (Mean(1), [[0.1, 0.2], [0.2, 0.4]], {"subspace": [[1], [2]], "known": "the second is twice the first"}),
        (Quantile(0.5, 0, 10), [1, 2, 7], {}),
        (LinearRegression(1.5, features=2), (np.eye(3) * 1.5, [1, 0.5, 0]), {"norm": "linf"}),
        (LogisticRegression(2), (np.eye(2), [1, 0]), {}),
    ],
)
def test_releases_have_guarantees_and_are_read_from_their_files(objective, data, kwargs, tmp_path):
    mechanism = KNormGradient(objective, "1/3", **kwargs)
    release = mechanism.release(data, allow_mcmc=True)
    assert release.dims == ("answer",)
    assert release.guarantee.loss_at_nearest == Fraction(1, 3)
    assert str(release.plan) in release.guarantee.describe()
    assert release.guarantee.delta_at(1) == (release.plan.distance or 0)  # 1: nothing certifies the chain
    assert release.plan.exact == (release.mechanism.grid is not None)
    assert release.plan.exact == (isinstance(objective, Mean | Quantile) and not kwargs.get("subspace"))
    assert ("last digits" in release.guarantee.describe()) != release.plan.exact
    release.save(tmp_path / "r.ppd")
    again = read_release(tmp_path / "r.ppd")
    assert again.table.identical(release.table)
    assert again.mechanism.to_dict() == release.mechanism.to_dict()
    assert again.guarantee == release.guarantee
    difference = mechanism.log_density(release.table, data) - again.mechanism.log_density(again.table, data)
    assert difference == 0


def test_a_release_reveals_nothing_more_about_the_records():
    """The share of accepted attempts depends on the records, and is not published."""
    data = regression_data(np.random.default_rng(1), 400, 3, "linear")
    release = KNormGradient(LinearRegression(1.5), epsilon=2).release(data)
    assert "%" not in release.guarantee.describe()
    assert release.plan.acceptance is None


class SometimesExact(Quantile):
    """A user-defined objective that does not state that its sampler applies to all records."""

    always_exact = False


def test_the_choice_of_an_exact_sampler_counts_as_known():
    """The records decide between exact draws and a chain; otherwise nothing is added to the guarantee."""
    data = regression_data(np.random.default_rng(1), 400, 3, "linear")
    line, word = {"subspace": [[1], [2]], "known": "a line"}, "that no Markov chain is needed for the records"
    for objective, records, kwargs, tells in (
        (LinearRegression(1.5), data, {}, True),
        (Mean(1), [[0.1, 0.2]], line, True),
        (Mean(1), [[0.1, 0.3]], line, False),  # a chain without a guarantee
        (Mean(1), [[0.1, 0.3]], {}, False),
        (Quantile(0.5, 0, 1), [0.3], {}, False),
        (SometimesExact(0.5, 0, 1), [0.3], {}, True),
    ):
        guarantee = KNormGradient(objective, 2, **kwargs).release(records, allow_mcmc=True).guarantee
        assert (word in guarantee.known) == tells
        assert "how many records there are" in guarantee.known


def test_chains_are_released_only_when_allowed():
    data = (np.eye(2), [1, 0])
    with pytest.raises(PrivacyError, match="for research, allow the"):
        KNormGradient(LogisticRegression(2), 1).release(data)


def test_functions_are_not_saved_and_answers_are_not_tables(tmp_path):
    release = KNormGradient(by_hand(2.0, 2), 1).release((np.eye(2), np.ones(2)), allow_mcmc=True)
    with pytest.raises(PrivacyError, match="other objectives consist of code"):
        release.save(tmp_path / "r.ppd")
    with pytest.raises(ModelError, match="depends on records"):
        release.mechanism.logp(release.table, [1, 2])
    with pytest.raises(ModelError, match="depends on records"), pm.Model():
        PartiallyPrivate("x", pm.Poisson.dist(1.0), release=release)


# Randomness and refusals


def test_releases_take_no_seed_and_simulations_repeat():
    data, mechanism = np.linspace(0, 1, 11), KNormGradient(Quantile(0.5, 0, 1), epsilon=1)
    with pytest.raises(PrivacyError, match="takes no 'rng'"):
        mechanism.release(data, rng=1)
    assert not mechanism.release(data).table.equals(mechanism.release(data).table)
    shared = np.random.default_rng(1)
    once, again = (mechanism.simulate(data, draws=3, rng=shared) for _ in range(2))
    assert not np.array_equal(once, again)
    np.testing.assert_array_equal(once, mechanism.simulate(data, draws=3, rng=np.random.default_rng(1)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KNormGradient("mean", 1), "first argument must be an objective"),
        (lambda: KNormGradient(Mean(1), 0), "epsilon must be positive"),
        (lambda: KNormGradient(Mean(1), 1, norm="l3"), "norm must be one of"),
        (lambda: KNormGradient(Mean(1), 1, delta_z=-1), "delta_z must be positive"),
        (lambda: KNormGradient(Mean(1), 1, delta_z="0.99"), "delta_z must be at least 1"),
        (lambda: KNormGradient(Mean(1), 1, grid=0.1), "grid must be a power of two"),
        (lambda: KNormGradient(Mean(1), 1, grid="fine"), "grid must be a finite number"),
        (lambda: KNormGradient(LogisticRegression(1), 1, grid=1), "no sampler on a grid"),
        (lambda: KNormGradient(Mean(1), 1, subspace=[[1], [2]], known="x", grid=1), "no sampler on a grid"),
        (lambda: KNormGradient(Mean(1), 1, subspace=[[1]]), "describe it in known"),
        (lambda: Quantile(0.5, -1e308, 1e308), "upper - lower must be between"),
        (lambda: Quantile(0.5, 0, 1e-320), "upper - lower must be between"),
        (lambda: KNormGradient(Mean(1), 1, subspace=[1], known="x"), "subspace must be a matrix"),
        (lambda: KNormGradient(Mean(1), 1, subspace=[[np.nan]], known="x"), "subspace must contain finite"),
        (lambda: KNormGradient(Mean(1), 1, subspace=[[0], [0]], known="x"), "contains only 0"),
        (lambda: Mean(0), "bound must be positive"),
        (lambda: Mean(math.inf), "bound must be positive"),
        (lambda: Mean("1"), "bound must be positive"),
        (lambda: Quantile(1, 0, 1), "probability must lie between"),
        (lambda: Quantile(0.5, 1, 1), "lower must be below upper"),
        (lambda: Quantile(0.5, -math.inf, 1), "lower must be a finite number"),
        (lambda: LinearRegression(1, features=-1), "features must be positive"),
        (lambda: LinearRegression(True), "radius must be positive"),
        (lambda: LogisticRegression(math.nan), "radius must be positive"),
        (lambda: Gradient("f", 1, answers=1, radius=1), "function must be a gradient"),
        (lambda: Gradient(abs, 0, answers=1, radius=1), "sensitivity_bound must be positive"),
        (lambda: Gradient(abs, 1, answers=0, radius=1), "answers must be a positive integer"),
        (lambda: Gradient(abs, 1, answers=1, radius=math.inf), "radius must be positive"),
    ],
)
def test_refuses_malformed_parameters(make, message):
    with pytest.raises(PrivacyError, match=message):
        make()


X = np.array([[0.6, 0.8], [0.1, 0.2]])


@pytest.mark.parametrize(
    ("objective", "data", "message"),
    [
        (Mean(1), [[0.5], [1.2345]], "exceeds 1, first in row 1"),
        (Mean(1), [0.5, math.nan], "records 1 is not finite"),
        (Mean(1), ["a"], "records must be numbers"),
        (Mean(1), [[1], [1, 2]], "rows of equal length"),
        (Mean(1), [True], "records must be numbers"),
        (Mean(1), [], "records must be numbers"),
        (Mean(1e-14), [0.0, 1e-13], "exceeds 1e-14, first in row 1"),
        (Quantile(0.5, 0, 1), [0.5, 1.2345], "first in row 1"),
        (Quantile(0.5, 0, 1), [[0.5, 0.6]], "one number per record"),
        (LinearRegression(1), X, "a pair"),
        (LinearRegression(1), (X, [0.5]), "one response per row"),
        (LinearRegression(1), (X * 1.2345, [0, 0]), "features exceeds 1, first in row 0"),
        (LinearRegression(1), (X, [0, 1.2345]), "response of a record exceeds 1"),
        (LogisticRegression(1), (X, [0, 2]), "record 1 must be 0 or 1"),
        (Gradient(lambda x, y: y[0], 1, answers=2, radius=1), None, "must have the shape of y"),
    ],
)
def test_refuses_records_out_of_bounds_without_showing_them(objective, data, message):
    with pytest.raises(PrivacyError, match=message) as caught:
        KNormGradient(objective, epsilon=1).release(data, allow_mcmc=True)
    assert "1.23" not in str(caught.value)


def test_refuses_other_misuse():
    with pytest.raises(PrivacyError, match="draws must be"):
        KNormGradient(Mean(1), 1).simulate([0.5], draws=0)
    with pytest.raises(PrivacyError, match="vectors of length 2, answers have length 3"):
        KNormGradient(Mean(1), 1, subspace=[[1], [2]], known="x").release([[0, 0, 0.5]])
