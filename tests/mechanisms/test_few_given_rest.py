"""Noise under lower bounds and one public sum of many cells, against an enumeration of all releases."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy import stats

import ppdinf as ppd
from ppdinf import invariants as inv
from ppdinf.mechanisms.bounded import few_given_rest
from ppdinf.mechanisms.bounded.few_given_rest import FewGivenRest, lower_bounds_and_groups
from ppdinf.noise.primitives.stream import seeded_stream

DRAWS = 20_000
ALARM = 1e-6  # false-alarm rate of each test
ONE_SUM = np.zeros(4, dtype=int)


def p_value(x, low, groups, few, seed=3, reach=14):
    """Return the p-value of draws against all releases within a reach, outside of which less than 1e-6 lies."""
    x, groups = np.array(x), np.array(groups)
    ranges = [range(int(v) - reach if end is None else end, int(v) + reach) for v, end in zip(x, low, strict=True)]
    tables = np.array(list(itertools.product(*ranges)))
    labels = np.unique(groups[groups >= 0])
    kept = np.all([tables[:, groups == g].sum(axis=1) == x[groups == g].sum() for g in labels], axis=0)
    tables = tables[kept]
    weights = np.exp(-abs(tables - x).sum(axis=1))
    place = {tuple(row): n for n, row in enumerate(tables.tolist())}
    drawn = FewGivenRest(x, low, groups, Fraction(1), few=few).draw(DRAWS, seeded_stream(seed))
    counts = np.bincount([place[tuple(row)] for row in drawn.tolist()], minlength=len(tables))
    expected = DRAWS * weights / weights.sum()
    often = expected > 5
    seen, wanted = (np.append(part[often], part[~often].sum()) for part in (counts, expected))
    return stats.chisquare(seen[wanted > 0], wanted[wanted > 0]).pvalue


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(
    ("x", "low", "groups", "few"),
    [
        ([2, 0, 1, 0], [0] * 4, ONE_SUM, 1),
        ([2, 0, 1, 0], [0] * 4, ONE_SUM, 2),
        ([2, 0, 1, 0], [0] * 4, ONE_SUM, 4),
        ([0, 0, 3, 0], [0] * 4, ONE_SUM, 2),  # tilted beyond epsilon: noise at its bound is the most probable
        ([3, 1, 0], [0, None, 0], [0, 0, 0], 1),
        ([1, 4, 2], [1, 0, -1], [5, 5, 5], 2),
        ([1, 0, 2, 1, 1], [0, 0, 0, 0, 1], [0, 1, 0, 1, -1], 1),  # two sums, and a cell without a sum
        ([-1, 2, 1], [None] * 3, [0, 0, 0], 1),
        ([3, 2, 4], [0, 0, 0], [0, 0, 0], 1),  # far from the bounds: drawn again where they are violated
    ],
)
def test_draws_have_the_enumerated_law(x, low, groups, few):
    assert p_value(x, low, groups, few) > ALARM


def test_wrong_variants_are_detected(monkeypatch):
    """The rest accepted at once; square roots of probabilities. Without a tilt the law is the same."""
    posed = ([2, 0, 1, 0], [0] * 4, ONE_SUM, 2)
    right = few_given_rest._Sums.log_probability
    with monkeypatch.context() as patch:
        patch.setattr(few_given_rest._Sums, "log_probability", lambda self, sums: np.zeros(sums.size))
        patch.setattr(few_given_rest._Sums, "enclose", lambda self, s: arb(1))
        with pytest.raises(ppd.errors.InvariantError):  # no values of the few have such a sum
            p_value(*posed)
    with monkeypatch.context() as patch:
        patch.setattr(few_given_rest._Sums, "log_probability", lambda self, sums: 0.5 * right(self, sums))
        patch.setattr(few_given_rest._Sums, "enclose", lambda self, s: arb(0))
        assert p_value(*posed) < ALARM
    with monkeypatch.context() as patch:
        patch.setattr(few_given_rest, "_mean", lambda *args: 0.0)
        assert p_value(*posed) > ALARM


def test_enclosures_agree_with_the_probabilities_in_floating_point():
    cells = [few_given_rest._Cell(x, 0, Fraction(1, 2), Fraction(-1, 5)) for x in (3, 0, 8)]
    sums, every = few_given_rest._Sums(cells), np.arange(-3, 60)
    weights = [np.exp(-0.5 * abs(np.arange(400) - c.x) - 0.2 * (np.arange(400) - c.x)) for c in cells]
    exact = np.convolve(np.convolve(*weights[:2]), weights[2])
    exact = np.concatenate([np.zeros(3), exact[:60]]) / exact.max()
    np.testing.assert_allclose(np.exp(sums.log_probability(every)), exact, rtol=1e-9)
    with few_given_rest.precision(64):
        np.testing.assert_allclose([float(sums.enclose(int(s))) for s in every], exact, rtol=1e-9, atol=1e-30)


@pytest.mark.parametrize("unbounded", [0, 3])
@pytest.mark.parametrize("theta", [-0.9, -0.2, 0.0, 0.3])
def test_means_of_tilted_noise(unbounded, theta):
    distances, counts, z = np.array([0, 1, 7]), np.array([2, 1, 4]), np.arange(-300, 300)
    weights = np.exp(-abs(z) + theta * z)
    expected = unbounded * (weights @ z) / weights.sum()
    for distance, count in zip(distances, counts, strict=True):
        w = np.where(z >= -distance, weights, 0.0)
        expected += count * (w @ z) / w.sum()
    assert few_given_rest._mean(1.0, distances, counts, unbounded, theta) == pytest.approx(expected, rel=1e-9)


def test_means_of_noise_tilted_beyond_epsilon():
    distances, counts, z = np.array([0, 1, 7]), np.array([2, 1, 4]), np.arange(-7, 300)
    weights, expected = np.exp(-abs(z) - 1.7 * z), 0.0
    for distance, count in zip(distances, counts, strict=True):
        w = np.where(z >= -distance, weights, 0.0)
        expected += count * (w @ z) / w.sum()
    assert few_given_rest._mean(1.0, distances, counts, 0, -1.7) == pytest.approx(expected, rel=1e-9)


def test_other_public_statements_are_left_to_elimination():
    cells, several, epsilon = np.arange(6).reshape(2, 3), inv.nonnegative(), Fraction(1, 10)
    one = inv.inequality(np.array([[0, 0, 3, 0, 0, 0]]), [4], ["third"])
    low, groups = lower_bounds_and_groups((inv.margin("dim_0") & several & one).on(cells), epsilon)
    assert low == [0, 0, 2, 0, 0, 0]
    assert groups.tolist() == [0, 0, 0, 1, 1, 1]
    assert lower_bounds_and_groups((inv.total() & several).on(cells), Fraction(1, 1000)) is None
    for public in (
        inv.margin("dim_0") & inv.margin("dim_1") & several,
        inv.total() & inv.between(0, 9),
        inv.total() & several & inv.zeros({"dim_0": [0], "dim_1": [0]}),
        inv.linear(np.array([[1, 1, 2, 1, 1, 1]]), ["weighted"]) & several,
    ):
        assert lower_bounds_and_groups(public.on(cells), epsilon) is None


def test_sums_that_doubles_do_not_represent_are_left_to_elimination():
    """The largest public value decides: of a sum, or of a bound below 0 or above."""
    cells, epsilon = np.array([3, 0, 1, 2]), Fraction(1, 10)
    for size, found in ((2**50, True), (2**51, False), (2**52, False)):
        for bound in (inv.nonnegative() & inv.total(), inv.between(-size, None) & inv.total()):
            large = bound.on(cells + size * np.array([1, 0, 0, 0]))
            assert (lower_bounds_and_groups(large, epsilon) is not None) == found


def test_a_release_of_large_counts():
    """By elimination. Larger totals are refused by every mechanism."""
    x = np.array([2**53 - 40, 0, 3, 2])
    mechanism = ppd.Conditioned(inv.total() & inv.nonnegative(), noise=ppd.mechanisms.DoubleGeometric("1/2"))
    drawn = mechanism.simulate(x, draws=200, rng=1)
    assert {sum(row) for row in drawn.values.tolist()} == {2**53 - 35}
    assert drawn.values.min() == 0


@pytest.mark.quick_cases(0)
def test_a_release_of_ten_thousand_cells():
    """Elimination would take 3e10 multiplications."""
    x = np.random.default_rng(1).poisson(3, 10_000)
    mechanism = ppd.Conditioned(inv.total() & inv.nonnegative(), noise=ppd.mechanisms.DoubleGeometric("1/10"))
    release = mechanism.release(x)
    assert release.table.values.sum() == x.sum()
    assert release.table.values.min() >= 0
    assert release.guarantee.sampler.startswith("double-geometric conditioned on public information")
    assert "independent cells and rejection" in release.guarantee.sampler
