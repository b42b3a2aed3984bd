"""Tilted noise: unchanged draws, normalizers and laws, proved tails, and sums far in their tails."""

import math
from fractions import Fraction

import numpy as np
import pytest
import xarray as xr
from flint import ctx
from scipy import special, stats

import ppdinf as ppd
from ppdinf.errors import InvariantError
from ppdinf.invariants import at_least, between, groups, margin, nonnegative, total
from ppdinf.lattice.points.fiber_tables import fiber_tables
from ppdinf.mechanisms import DiscreteGaussian, DoubleGeometric, Staircase
from ppdinf.mechanisms.bounded import table_sums
from ppdinf.mechanisms.bounded.table_sums import sides, tilts
from ppdinf.noise.exact import variable_elimination as elimination

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


def chi_square(drawn, points, p):
    place = {tuple(point): k for k, point in enumerate(points.tolist())}
    counts = np.bincount([place[tuple(row)] for row in drawn.tolist()], minlength=len(points))
    common = p * len(drawn) >= 5
    seen, expected = (np.append(v[common], v[~common].sum()) for v in (counts, p * len(drawn)))
    return stats.chisquare(seen[expected > 0], expected[expected > 0]).pvalue


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
    assert chi_square(drawn, points, p) > 1e-6

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
        assert chi_square(drawn, points, p) < 1e-6


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
