"""Exact noise under bounds and public sums of many cells: tilted noise, and a few cells given the others."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import xarray as xr
from chi_square import p_value_of_tables
from flint import arb, ctx
from scipy import special

import ppdinf as ppd
from ppdinf import invariants as inv
from ppdinf.errors import InvariantError
from ppdinf.invariants import at_least, between, groups, margin, nonnegative, total
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.mechanisms import DiscreteGaussian, DoubleGeometric, Staircase, few_given_rest, table_sums
from ppdinf.mechanisms.few_given_rest import FewGivenRest, lower_bounds_and_groups
from ppdinf.mechanisms.table_sums import sides, tilts
from ppdinf.noise.exact import variable_elimination as elimination
from ppdinf.noise.primitives.stream import seeded_stream

ZEROS = xr.DataArray([3, *[0] * 14], dims="county")
STATES = xr.DataArray([2, 1, *[0] * 12], dims="county", coords={"state": ("county", list("ABBBBBBAAAAAAB"))})
QUARTER = DoubleGeometric("1/4")
CASES = {
    "zeros": (QUARTER, total() & nonnegative(), ZEROS),
    "groups": (QUARTER, groups("state") & nonnegative(), STATES),
    "full cells": (QUARTER, total() & between(0, 4), 4 - ZEROS),
    "staircase": (Staircase(1, 3, 2), total() & nonnegative(), ZEROS),
    "margins": (
        DoubleGeometric("3/4"),
        margin("a") & margin("b") & nonnegative(),
        xr.DataArray([[0, 3, 0, 1], [0, 0, 2, 0], [0, 0, 0, 1]], dims=("a", "b")),
    ),
    "bounds that link cells": (
        QUARTER,
        margin("kind") & nonnegative() & at_least("cases", "deaths", dim="kind"),
        xr.DataArray(
            [[1, 0, 0, 2, 0, 1], [0, 0, 0, 1, 0, 1]], dims=("kind", "b"), coords={"kind": ["cases", "deaths"]}
        ).T,
    ),
}


@pytest.fixture(autouse=True)
def clear_caches():
    table_sums.eliminated_releases.cache_clear()
    yield
    table_sums.eliminated_releases.cache_clear()


def law_of(noise, system, x):
    points = fiber_tables(system.A, system.values, system.B, system.limits)
    log_w = noise.log_weight(points - x).sum(axis=1)
    return points, np.exp(log_w - special.logsumexp(log_w)), special.logsumexp(log_w)


def draws_and_normalizer(noise, public, table, draws):
    table_sums.eliminated_releases.cache_clear()
    mechanism = ppd.Conditioned(public, noise=noise)
    drawn = mechanism.simulate(table, draws=draws, rng=1).values.reshape(draws, -1)
    return drawn, mechanism.log_normaliser(public.on(table), table.values.ravel())


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", ["zeros", "groups", "full cells", "staircase", "bounds that link cells"])
def test_sums_far_from_their_untilted_mean_follow_the_formula(name, monkeypatch):
    """False alarms below 1e-6 per case; a tilt of one side only, or different tilts within a sum, are detected."""
    noise, public, table = CASES[name]
    x = table.values.ravel()
    points, p, log_c = law_of(noise, public.on(table), x)
    drawn, log_normaliser = draws_and_normalizer(noise, public, table, 20_000)
    assert log_normaliser == pytest.approx(log_c, abs=1e-9)
    assert p_value_of_tables(drawn, points, p) > 1e-6

    def upward(noise, tilt, below, above):
        def wrong(bits):
            (up, _, tail), (_, down, _) = (
                sides(noise, tilt, below, above)(bits),
                sides(noise, Fraction(0), 99, 99)(bits),
            )
            return up, down, tail

        return wrong

    for attribute, wrong in [("sides", upward), ("_groups", lambda _: np.arange(x.size) * 2 // x.size)]:
        with monkeypatch.context() as patch:
            patch.setattr(table_sums, "DEVIATIONS", 0.0)
            patch.setattr(table_sums, attribute, wrong)
            drawn, log_normaliser = draws_and_normalizer(noise, public, table, 20_000)
        assert abs(log_normaliser - log_c) > 1e-3
        assert p_value_of_tables(drawn, points, p) < 1e-6


@pytest.mark.quick_cases(0)
def test_a_sum_far_out_under_bounds_that_link_cells(monkeypatch):
    """Two deaths in total among 150 counties, with one more at weight 1: supports of 80 bits need the tilt."""
    cases = np.ones(150, dtype=int)
    cases[::5] = 0
    deaths = np.where(np.isin(np.arange(150), [3, 6]), 1, 0)
    table = xr.DataArray([cases, deaths], dims=("kind", "county"), coords={"kind": ["cases", "deaths"]})
    public = margin("kind") & nonnegative() & at_least("cases", "deaths", dim="kind")
    mechanism = ppd.Conditioned(public, noise=DoubleGeometric(1))
    monkeypatch.setattr(elimination, "BITS", (80,))
    drawn = mechanism.simulate(table, draws=3, rng=1)
    assert (drawn.sel(kind="cases") >= drawn.sel(kind="deaths")).all()
    table_sums.eliminated_releases.cache_clear()
    monkeypatch.setattr(table_sums, "tilts", lambda *a: {})
    with pytest.raises(InvariantError, match="within the windows"):
        mechanism.simulate(table, draws=3, rng=1)


@pytest.mark.parametrize("name", CASES)
def test_each_draw_is_the_untilted_one(name, monkeypatch):
    """Draws given the sums do not depend on the tilt, and are decided exactly: the same bits give the same tables."""
    noise, public, table = CASES[name]
    monkeypatch.setattr(table_sums, "DEVIATIONS", 0.0)
    found = []
    monkeypatch.setattr(table_sums, "tilts", lambda *a: found.append(tilts(*a)) or found[-1])
    tilted, normaliser = draws_and_normalizer(noise, public, table, 2000)
    assert found[0]
    monkeypatch.setattr(table_sums, "tilts", lambda *a: {})
    usual, expected = draws_and_normalizer(noise, public, table, 2000)
    np.testing.assert_array_equal(tilted, usual)
    assert normaliser == pytest.approx(expected, abs=1e-9)
    # an arbitrary tilt does as well
    monkeypatch.setattr(table_sums, "tilts", lambda *a: dict.fromkeys(found[0], Fraction(noise.epsilon / 7)))
    other, normaliser = draws_and_normalizer(noise, public, table, 2000)
    np.testing.assert_array_equal(other, usual)
    assert normaliser == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("noise", [QUARTER, DoubleGeometric(3), Staircase(1, 3, 2), DiscreteGaussian(9)])
@pytest.mark.parametrize("share", ["-3", "-1/2", "0", "1/2", "15/16"])
def test_tails_of_tilted_weights(noise, share):
    """The bound on the omitted mass holds, is small, and differs from the bound for untilted noise."""
    rate = Fraction(1, 81) if isinstance(noise, DiscreteGaussian) else noise.epsilon / noise.period
    tilt = rate * Fraction(share)
    with ctx.workprec(200):
        weights, tail = noise.window(60, ctx.prec, math.inf, tilt)
        k = np.arange(20_000)
        logs = noise.log_weight(k) + float(tilt) * k
        np.testing.assert_allclose(np.log([float(w) for w in weights]), logs[: len(weights)], atol=1e-9, rtol=1e-9)
        beyond = np.exp(logs[len(weights) :]).sum()
        assert beyond * (1 - 1e-9) <= float(tail) / 2 <= 2.0**-61
        if isinstance(noise, DoubleGeometric):  # geometric, so that the bound is attained
            fall = float(noise.epsilon - tilt)
            expected = math.exp(-fall * len(weights)) / -math.expm1(-fall)
            assert beyond == pytest.approx(expected)
            assert float(tail) / 2 == pytest.approx(expected)
        if tilt > 0 and not isinstance(noise, DiscreteGaussian):  # a tilt that it hardly feels
            untilted = noise.window(60, ctx.prec)
            assert np.exp(logs[len(untilted[0]) :]).sum() > 100 * float(untilted[1])


def test_weights_that_rise_up_to_a_bound_are_all_listed():
    with ctx.workprec(200):
        up, down, tail = sides(QUARTER, Fraction(-3), 40.0, math.inf)(80)
    assert len(down) == 41
    assert [float(w.log()) for w in down[:3]] == pytest.approx([0, 2.75, 5.5])
    assert len(up) < 30
    assert tail < 2.0**-80


@pytest.mark.parametrize("noise", [QUARTER, DoubleGeometric("1/100"), Staircase(1, 3, 2)])
def test_tilted_sums_have_the_required_mean(noise):
    """Within two standard deviations, where they were beyond ten; a few large cells balance many nearly empty cells."""
    rng = np.random.default_rng(3)
    scale = math.exp(0.5 * noise.log_total)
    x = np.concatenate([rng.poisson(0.2 * scale, 2000), rng.poisson(0.05 * scale, 1960), [10**5] * 40])
    group = np.repeat([0, 1], 2000)
    found = tilts(noise, x.astype(float), np.full(x.size, np.inf), group)
    z = np.arange(-100_000, 100_001)
    for k in range(2):
        mean = variance = before = 0.0
        for value, n in zip(*np.unique(x[group == k], return_counts=True), strict=True):
            possible = z[z >= -value]
            w, untilted = (
                special.softmax(noise.log_weight(possible) + tilt * possible) for tilt in (float(found[k]), 0.0)
            )
            m = w @ possible
            mean, variance = mean + n * m, variance + n * (w @ possible**2 - m**2)
            before += n * (untilted @ possible)
        assert abs(mean) < 2 * math.sqrt(variance)
        assert before > 10 * math.sqrt(variance)


def test_cells_without_bounds_or_public_sums_are_not_tilted():
    free, zero = np.full(50, np.inf), np.zeros(50)
    assert tilts(QUARTER, zero, free, np.full(50, -1)) == {}
    assert tilts(QUARTER, free, free, np.zeros(50, dtype=int)) == {}
    assert tilts(QUARTER, zero, zero, np.zeros(50, dtype=int)) == {}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("mean", [0.5, 3])
def test_thousands_of_cells_near_their_bounds(mean, monkeypatch):
    """The initial supports suffice; without a tilt, the omitted mass exceeds the mass of the public sum."""
    monkeypatch.setattr(elimination, "BITS", (80,))
    table = np.random.default_rng(1).poisson(mean, (1, 2047))
    mechanism = ppd.Conditioned(margin("dim_0") & nonnegative(), noise=QUARTER)
    release = mechanism.release(table)
    assert release.table.values.sum() == table.sum()
    assert release.table.values.min() >= 0
    table_sums.eliminated_releases.cache_clear()
    monkeypatch.setattr(table_sums, "tilts", lambda *a: {})
    with pytest.raises(InvariantError, match="within the windows"):
        mechanism.release(table)


DRAWS = 20_000
ALARM = 1e-6  # false-alarm rate of each test
ONE_SUM = np.zeros(4, dtype=int)


def p_value_of_few(x, low, groups, few, seed=3, reach=14):
    """Return the p-value of draws against all releases within a reach, outside of which less than 1e-6 lies."""
    x, groups = np.array(x), np.array(groups)
    ranges = [range(int(v) - reach if end is None else end, int(v) + reach) for v, end in zip(x, low, strict=True)]
    tables = np.array(list(itertools.product(*ranges)))
    labels = np.unique(groups[groups >= 0])
    kept = np.all([tables[:, groups == g].sum(axis=1) == x[groups == g].sum() for g in labels], axis=0)
    tables = tables[kept]
    weights = np.exp(-abs(tables - x).sum(axis=1))
    drawn = FewGivenRest(x, low, groups, Fraction(1), few=few).draw(DRAWS, seeded_stream(seed))
    return p_value_of_tables(drawn, tables, weights / weights.sum())


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(("x", "low", "groups", "few"), [
    ([2, 0, 1, 0], [0] * 4, ONE_SUM, 1), ([2, 0, 1, 0], [0] * 4, ONE_SUM, 2), ([2, 0, 1, 0], [0] * 4, ONE_SUM, 4),
    ([0, 0, 3, 0], [0] * 4, ONE_SUM, 2),  # tilted beyond epsilon: noise at its bound is the most probable
    ([3, 1, 0], [0, None, 0], [0, 0, 0], 1), ([1, 4, 2], [1, 0, -1], [5, 5, 5], 2),
    ([1, 0, 2, 1, 1], [0, 0, 0, 0, 1], [0, 1, 0, 1, -1], 1),  # two sums, and a cell without a sum
    ([-1, 2, 1], [None] * 3, [0, 0, 0], 1),
    ([3, 2, 4], [0, 0, 0], [0, 0, 0], 1),  # far from the bounds: drawn again where they are violated
])  # fmt: skip
def test_draws_have_the_enumerated_law(x, low, groups, few):
    assert p_value_of_few(x, low, groups, few) > ALARM


def test_wrong_variants_are_detected(monkeypatch):
    """The rest accepted at once; square roots of probabilities. Without a tilt the law is the same."""
    posed = ([2, 0, 1, 0], [0] * 4, ONE_SUM, 2)
    right = few_given_rest._Sums.log_probability
    with monkeypatch.context() as patch:
        patch.setattr(few_given_rest._Sums, "log_probability", lambda self, sums: np.zeros(sums.size))
        patch.setattr(few_given_rest._Sums, "enclose", lambda self, s: arb(1))
        with pytest.raises(ppd.errors.InvariantError):  # no values of the few have such a sum
            p_value_of_few(*posed)
    with monkeypatch.context() as patch:
        patch.setattr(few_given_rest._Sums, "log_probability", lambda self, sums: 0.5 * right(self, sums))
        patch.setattr(few_given_rest._Sums, "enclose", lambda self, s: arb(0))
        assert p_value_of_few(*posed) < ALARM
    with monkeypatch.context() as patch:
        patch.setattr(FewGivenRest, "_tilt", lambda *args: Fraction(0))
        assert p_value_of_few(*posed) > ALARM


def test_enclosures_agree_with_the_probabilities_in_floating_point():
    x, epsilon, every = np.array([3, 0, 8]), Fraction(1, 2), np.arange(-3, 60)
    sampler = FewGivenRest(x, [0] * 3, np.zeros(3, dtype=int), epsilon)
    sums = few_given_rest._Sums([sampler._potential(i, Fraction(-1, 5)) for i in range(3)])
    weights = [np.exp(-0.5 * abs(np.arange(400) - c) - 0.2 * (np.arange(400) - c)) for c in x]
    exact = np.convolve(np.convolve(*weights[:2]), weights[2])
    exact = np.concatenate([np.zeros(3), exact[:60]]) / exact.max()
    np.testing.assert_allclose(np.exp(sums.log_probability(every)), exact, rtol=1e-9)
    with few_given_rest.precision(64):
        np.testing.assert_allclose([float(sums.enclose(int(s))) for s in every], exact, rtol=1e-9, atol=1e-30)


@pytest.mark.parametrize("steep", [False, True])
@pytest.mark.parametrize("unbounded", [0, 3])
def test_the_tilt_moves_the_mean_of_a_sum_to_its_public_value(steep, unbounded):
    """With tilts beyond epsilon, too, where most counts are at their bounds."""
    x = np.repeat([0, 1, 200], [400, 10, 1] if steep else [20, 20, 300])
    low = [None] * unbounded + [0] * (x.size - unbounded)
    theta = float(FewGivenRest(x, low, np.zeros(x.size, dtype=int), Fraction(1, 10))._tilt(np.arange(x.size)))
    z = np.arange(-5000.0, 5000)
    least = np.where([end is None for end in low], -np.inf, -x)
    weights = special.softmax(np.where(z >= least[:, np.newaxis], -0.1 * abs(z) + theta * z, -np.inf), axis=1)
    mean = weights @ z
    assert abs(mean.sum()) < 0.2 * np.sqrt((weights @ z**2 - mean**2).sum())
    assert (theta < -0.1) == (steep and not unbounded)


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
