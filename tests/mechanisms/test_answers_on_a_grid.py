"""Means and quantiles in multiples of a grid: the law of the published bits, and the information about the records."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from grids import box
from scipy import stats

from ppdinf import read_release
from ppdinf.mechanisms import KNormGradient, LinearRegression, Mean, Quantile
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.real.k_norm import K_NORMS, draw_integer_k_norm, one_of

NEIGHBOURS = np.array([60.1, 70.2, 80.3]), np.array([61.3, 70.2, 80.3])


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
    """Two neighbouring data sets have the same support of answers, all of them exact doubles.

    In doubles, the answers u (b - a) between records a and b reveal b in a third of cases.
    """

    def provable(drawn, grid):
        steps = drawn / grid
        return np.mean((steps != np.rint(steps)) | (drawn < 0) | (drawn > 100))

    mechanism, in_doubles = (KNormGradient(Quantile(0.5, 0, 100), 1, grid=g) for g in ("auto", None))
    assert provable(mechanism.simulate(NEIGHBOURS[0], draws=100_000, rng=1), 2**-14) == 0
    assert provable(in_doubles.simulate(NEIGHBOURS[0], draws=100_000, rng=1), 2**-14) > 0.9
    release = mechanism.release(NEIGHBOURS[0])
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
        counts = (z[:, :1] + 12) * 25 + z[:, 1:] + 12
        counts = np.bincount(counts[(np.abs(z) <= 12).all(axis=1), 0], minlength=625)
        tail_probability = p * 1e5 < 5
        observed = np.append(counts[~tail_probability], 100_000 - counts[~tail_probability].sum())
        expected = np.append(p[~tail_probability], 1 - p[~tail_probability].sum()) * 1e5
        assert (stats.chisquare(observed, expected).pvalue > 1e-6) == agrees


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


def test_older_files_hold_real_numbers(tmp_path):
    """Files without a grid are read, written again unchanged, and described as not exact."""
    release = KNormGradient(Quantile(0.5, 0, 10), 1, grid=None).release([1, 2, 7])
    assert "grid" not in release.mechanism.to_dict()
    release.save(tmp_path / "old.ppd")
    again = read_release(tmp_path / "old.ppd")
    assert again.mechanism.grid is None
    assert "last digits" in again.guarantee.describe()
    again.save(tmp_path / "again.ppd")
    assert (tmp_path / "old.ppd").read_bytes() == (tmp_path / "again.ppd").read_bytes()
