"""K-norm gradient: densities, draws, answers on grids, and an audit of the guarantee by integration."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from chi_square import p_value
from grids import box
from scipy import stats

from ppdinf import PartiallyPrivate, read_release
from ppdinf.errors import ModelError, PrivacyError
from ppdinf.mechanisms import Gradient, KNormGradient, LinearRegression, LogisticRegression, Mean, Quantile
from ppdinf.noise.k_norm import K_NORMS, draw_integer_k_norm, one_of
from ppdinf.noise.primitives.stream import seeded_stream


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


@pytest.mark.parametrize("epsilon", ["1", "4"])
def test_bounded_means_are_truncated_laplace_laws(epsilon):
    """Partially private data, (13): density exp(-n epsilon |y - mean| / (2 Delta)) on the interval of width Delta.

    The worst loss by enumeration is at most epsilon, and above epsilon / 2, the loss of means without bounds.
    """
    grid, rate = Fraction(1, 8), float(Fraction(epsilon)) / 4
    answers = np.arange(-16, 17) / 16  # sums of two records divided by 2

    def law(records):
        p = np.exp(-2 * rate * np.abs(answers - np.mean(records)))
        return p / p.sum()

    mechanism = KNormGradient(Mean(1, bounded=True), epsilon=epsilon, grid=grid)
    for records in ([0.25, 0.75], [-1.0, -1.0]):
        drawn = mechanism.simulate(records, draws=5000, rng=2)[:, 0]
        assert p_value(np.rint((drawn + 1) * 16).astype(int), law(records)) > 1e-6
        assert p_value(np.rint((drawn + 1) * 16).astype(int), law(np.negative(records))) < 1e-6
        inside = mechanism.log_density(answers[:, None], records)
        assert np.ptp(inside - np.log(law(records))) < 1e-9
        assert np.isneginf(mechanism.log_density([[1.1]], records))
    values = np.linspace(-1, 1, 17)
    losses = [np.abs(np.log(law([a, b]) / law([a, c]))).max() for a, b, c in itertools.product(values, values, values)]
    assert float(Fraction(epsilon)) / 2 * 1.2 < max(losses) <= float(Fraction(epsilon))


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
        (Mean(1, bounded=True), [0.1, -0.4], {}),
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


X = np.array([[0.6, 0.8], [0.1, 0.2]])


@pytest.mark.parametrize(("objective", "data", "message"), [
    (Mean(1), [[0.5], [1.2345]], "exceeds 1, first in row 1"),
    (Mean(1), [0.5, math.nan], "records 1 is not finite"),
    (Mean(1), ["a"], "records must be numbers"),
    (Mean(1), [[1], [1, 2]], "rows of equal length"),
    (Mean(1), [True], "records must be numbers"), (Mean(1), [], "records must be numbers"),
    (Mean(1, bounded=True), [[0.1, 0.2]], "records of one number"),
    (Mean(1e-14), [0.0, 1e-13], "exceeds 1e-14, first in row 1"),
    (Quantile(0.5, 0, 1), [0.5, 1.2345], "first in row 1"),
    (Quantile(0.5, 0, 1), [[0.5, 0.6]], "one number per record"),
    (LinearRegression(1), X, "a pair"),
    (LinearRegression(1), (X, [0.5]), "one response per row"),
    (LinearRegression(1), (X * 1.2345, [0, 0]), "features exceeds 1, first in row 0"),
    (LinearRegression(1), (X, [0, 1.2345]), "response of a record exceeds 1"),
    (LogisticRegression(1), (X, [0, 2]), "record 1 must be 0 or 1"),
    (Gradient(lambda x, y: y[0], 1, answers=2, radius=1), None, "must have the shape of y"),
])  # fmt: skip
def test_refuses_records_out_of_bounds_without_showing_them(objective, data, message):
    with pytest.raises(PrivacyError, match=message) as caught:
        KNormGradient(objective, epsilon=1).release(data, allow_mcmc=True)
    assert "1.23" not in str(caught.value)


NEIGHBOURING = np.array([60.1, 70.2, 80.3]), np.array([61.3, 70.2, 80.3])


def quantile_law(records, probability, lower, upper, grid, rate):
    """Candidates and their probabilities, from the definition."""
    grid = Fraction(grid)
    y = [k * grid for k in range(math.ceil(Fraction(lower) / grid), math.floor(Fraction(upper) / grid) + 1)]
    off = [abs(sum(Fraction(x) <= v for x in records) - len(records) * Fraction(probability)) for v in y]
    weights = np.exp([-float(rate * value) for value in off])
    return np.array(y, dtype=float), weights / weights.sum()


@pytest.mark.parametrize(
    ("records", "probability", "lower", "upper", "grid"),
    [
        ([0.0, 1.0, 1.0, 2.5, 4.0, 7.0, 10.0], "1/2", 0, 10, "1/2"),
        ([0.1, 0.3, 0.30001, 2.9], "1/4", 0.1, 3.05, "1/4"),
        ([-7.0, -6.5, 2.5], "0.9", -7.0, 3.0, 1),
    ],
)
def test_quantiles_follow_the_stated_law(records, probability, lower, upper, grid):
    """Chi-square over all candidates; wrong laws: epsilon 20 % off, records counted from the next candidate."""
    objective = Quantile(float(Fraction(probability)), lower, upper)
    drawn = KNormGradient(objective, "3/2", grid=grid).simulate(records, draws=50_000, rng=1)[:, 0]
    moved = [x + float(Fraction(grid)) for x in records]
    for data, rate, agrees in ((records, 0.75, True), (records, 0.9, False), (moved, 0.75, False)):
        y, p = quantile_law(data, probability, lower, upper, grid, rate)
        assert set(drawn) <= set(y)
        counts = (drawn[:, None] == y).sum(axis=0)
        assert (stats.chisquare(counts, 50_000 * p).pvalue > 1e-6) == agrees


def test_the_guarantee_of_quantiles_holds_for_every_bit():
    """All neighbours of four records; between candidates, at candidates, and close to candidates."""
    worst = 0.0
    for data in itertools.combinations_with_replacement([0.0, 0.3, 1.0, 1.99, 2.0], 4):
        for other in (0.0, 0.3, 1.0, 1.99, 2.0):
            laws = [quantile_law(x, "1/2", 0, 2, "1/4", 0.5)[1] for x in (data, (other, *data[1:]))]
            worst = max(worst, float(np.abs(np.log(laws[0]) - np.log(laws[1])).max()))
    assert 0.5 < worst <= 1


def test_digits_of_a_quantile_prove_nothing():
    """Neighbours have the same support of answers; in doubles, u (b - a) reveals b in a third of cases."""

    def provable(drawn, grid):
        steps = drawn / grid
        return np.mean((steps != np.rint(steps)) | (drawn < 0) | (drawn > 100))

    mechanism, in_doubles = (KNormGradient(Quantile(0.5, 0, 100), 1, grid=g) for g in ("auto", None))
    assert provable(mechanism.simulate(NEIGHBOURING[0], draws=100_000, rng=1), 2**-14) == 0
    assert provable(in_doubles.simulate(NEIGHBOURING[0], draws=100_000, rng=1), 2**-14) > 0.9
    release = mechanism.release(NEIGHBOURING[0])
    assert release.mechanism.grid == Fraction(1, 2**14)  # from the interval alone
    assert "in multiples of 1/16384" in release.guarantee.describe()


@pytest.mark.parametrize("norm", K_NORMS)
def test_integer_k_norm_vectors_against_enumeration(norm):
    """Two dimensions, chi-square over the square of side 25; wrong: the rate 10 % off."""
    z = draw_integer_k_norm(2, norm, Fraction(1, 2), 100_000, seeded_stream(1))
    points = box(-12, 12, 2)
    far = box(-90, 90, 2)
    for rate, agrees in ((0.5, True), (0.55, False)):
        total = np.exp(-rate * np.linalg.norm(far, K_NORMS[norm], axis=1)).sum()
        p = np.exp(-rate * np.linalg.norm(points, K_NORMS[norm], axis=1)) / total
        place = np.where((np.abs(z) <= 12).all(axis=1), (z[:, 0] + 12) * 25 + z[:, 1] + 12, 625)
        assert (p_value(place, np.append(p, 1 - p.sum())) > 1e-6) == agrees


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(7, 3)])
def test_radii_of_cubes(rate):
    """Means of narrow and wide noise: E |z| of linf noise in three dimensions, by summation or its limit 3 / rate."""
    size = np.abs(draw_integer_k_norm(3, "linf", rate, 40_000, seeded_stream(2))).max(axis=1)
    k = np.arange(200)
    p = np.where(k, (2 * k + 1) ** 3 - (2 * k - 1) ** 3, 1) * np.exp(-float(rate) * k)
    mean = 3 / float(rate) if rate < 1 else p @ k / p.sum()
    assert abs(size.mean() - mean) < 5 * size.std() / 200


def test_choices_with_masses_of_very_unlike_size():
    sizes, logs = np.array([1, 2**40, 5]), [Fraction(0), Fraction(-40), Fraction(-3000)]
    p = np.array([1, 2**40 * math.exp(-40), 0.0])
    found = np.bincount(one_of(sizes, logs).draw(20_000, seeded_stream(3))[:, 0], minlength=3)
    assert found[2] == 0
    assert stats.binomtest(int(found[0]), 20_000, p[0] / p.sum()).pvalue > 1e-6


@pytest.mark.parametrize("norm", K_NORMS)
def test_means_are_sums_on_the_grid(norm):
    """Sums of records truncated towards 0, plus integer noise: the same law around all neighbours, at epsilon / 2."""
    records = np.array([[0.3, -0.29], [0.01, 0.99 if norm == "linf" else 0.7], [-0.26, 0.1]])
    mechanism = KNormGradient(Mean(1), 2, norm=norm, grid="1/4")
    sums = mechanism.simulate(records, draws=1000, rng=1) * 3
    assert np.array_equal(np.rint(sums * 4), (sums * 4).round(9))
    assert np.abs(sums.mean(axis=0) - [0.0, -0.25 + (0.75 if norm == "linf" else 0.5)]).max() < 5 * 2.5 / math.sqrt(
        1000
    )
    # noise of a step of the grid in the sum costs rate / 4 / diameter, rate being half of epsilon
    step = draw_integer_k_norm(2, norm, Fraction(1, 4) / 2 * (1 - Fraction(1, 10**10)), 1000, seeded_stream(1))
    own = KNormGradient(Mean(1), 2, norm=norm, grid="1/4")._draw(np.zeros((3, 2)), 1000, seeded_stream(1))
    assert np.array_equal(own, step / 4 / 3)


def test_records_are_cut_to_the_grid_of_the_density_too():
    mechanism = KNormGradient(Mean(1), 1, grid="1/4")
    y = np.array([[0.1], [0.3]])
    assert np.array_equal(mechanism.log_density(y, [0.3, 0.6]), mechanism.log_density(y, [0.25, 0.5]))
    assert not np.array_equal(mechanism.log_density(y, [0.3, 0.6]), mechanism.log_density(y, [0.25, 0.75]))


def test_components_off_a_subspace_are_not_published():
    """Records are off the subspace by a rounding error, which is not published."""
    records = np.array([[1.0, 2.0 + 1e-10], [0.5, 1.0]]) / 4
    line = {"subspace": [[1.0], [2.0]], "known": "the second is twice the first"}
    drawn = KNormGradient(Mean(1), 1, **line).simulate(records, draws=200, rng=1)
    assert np.abs(drawn[:, 1] - 2 * drawn[:, 0]).max() < 1e-14 * np.abs(drawn).max()


def test_coefficients_are_cut_to_24_bits():
    features = np.random.default_rng(1).uniform(-1, 1, (400, 1))
    drawn = KNormGradient(LinearRegression(2.0), 2).simulate((features, features[:, 0] / 2), draws=200, rng=1)
    assert np.array_equal(drawn * 2**23, np.rint(drawn * 2**23))


def test_files_without_a_grid_hold_real_numbers(tmp_path):
    """Files without a grid are read, written again unchanged, and described as not exact."""
    release = KNormGradient(Quantile(0.5, 0, 10), 1, grid=None).release([1, 2, 7])
    assert "grid" not in release.mechanism.to_dict()
    release.save(tmp_path / "old.ppd")
    again = read_release(tmp_path / "old.ppd")
    assert again.mechanism.grid is None
    assert "last digits" in again.guarantee.describe()
    again.save(tmp_path / "again.ppd")
    assert (tmp_path / "old.ppd").read_bytes() == (tmp_path / "again.ppd").read_bytes()
