"""The cost of conditioning by blocks, against the normalizers of all tables."""

import math
from fractions import Fraction

import numpy as np
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.invariants import at_least, between, groups, margin, nonnegative, total
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.mechanisms import DoubleGeometric, Staircase
from ppdinf.privacy import conditioning_cost
from ppdinf.privacy.conditioning import cost_by_blocks

RATES = ["1/20", "1/2", 2]


def enumerated(noise, system, most=2500):
    """Largest log(C(x') / C(x)) / (epsilon |x - x'|) over all pairs of tables."""
    tables = fiber_tables(system.A, system.values, system.B, system.limits, most=most)
    log_c = np.array([np.logaddexp.reduce(noise.log_weight(tables - x).sum(axis=1)) for x in tables])
    worst = 0.0
    for x, own in zip(tables, log_c, strict=True):
        steps = float(noise.epsilon) * np.abs(tables - x).sum(axis=1)
        worst = max(worst, float(np.max((log_c - own)[steps > 0] / steps[steps > 0], initial=0.0)))
    return worst


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("epsilon", RATES)
@pytest.mark.parametrize("table", [[5, 1], [3, 0, 2], [7, 7, 6, 0], [1, 1, 0, 2, 0, 1], [1] * 6, [2, 0] * 2])
def test_one_sum_is_exact(table, epsilon):
    system = (total() & nonnegative()).on(table)
    for noise in (DoubleGeometric(epsilon), Staircase(epsilon, 3, 2)):
        cost = cost_by_blocks(noise, system)
        assert cost.lower == pytest.approx(enumerated(noise, system), abs=2e-9)
        assert cost.upper - cost.lower <= 1e-9
        assert cost.tables <= math.comb(sum(table) + len(table) - 1, sum(table))


@pytest.mark.parametrize("epsilon", RATES)
@pytest.mark.parametrize("upper", [2, 3, 5])
def test_upper_bounds_count(upper, epsilon):
    system = (total() & between(0, upper)).on([1, 2, 0, 2, 1])
    for noise in (DoubleGeometric(epsilon), Staircase(epsilon, 2, 1)):
        cost = cost_by_blocks(noise, system)
        assert cost.lower == cost.upper == pytest.approx(enumerated(noise, system), abs=1e-12)
    lower_only = cost_by_blocks(DoubleGeometric(epsilon), (total() & nonnegative()).on([1, 2, 0, 2, 1]))
    assert upper == 5 or abs(cost.upper - lower_only.upper) > 1e-6  # without its upper bounds it is another system


@pytest.mark.parametrize("epsilon", RATES)
def test_the_worst_block_decides(epsilon):
    table = xr.DataArray([2, 1, 0, 4, 1, 0, 0], dims="county", coords={"state": ("county", list("AABBBCC"))})
    noise, public = DoubleGeometric(epsilon), groups("state") & nonnegative()
    cost = cost_by_blocks(noise, public.on(table))
    parts = [enumerated(noise, (total() & nonnegative()).on(part)) for part in ([2, 1], [4, 0, 1])]
    assert cost.lower == pytest.approx(max(parts), abs=2e-9)
    assert cost.lower == pytest.approx(enumerated(noise, public.on(table)), abs=2e-9)
    assert min(parts) < max(parts) - 1e-6


@pytest.mark.parametrize("epsilon", RATES)
@pytest.mark.parametrize("cells", [2, 3, 5])
def test_bounds_hold_without_enumeration(cells, epsilon, monkeypatch):
    """For any number of persons; the bound becomes tighter as their number grows."""
    from ppdinf.privacy import conditioning

    monkeypatch.setattr(conditioning, "WORK", 0)
    noise, spare = DoubleGeometric(epsilon), []
    for persons in (1, 2, 5, 9):
        system = (total() & nonnegative()).on([persons] + [0] * (cells - 1))
        cost, exact = cost_by_blocks(noise, system), enumerated(noise, system)
        assert cost.lower - 1e-12 <= exact <= cost.upper + 1e-12
        assert cost.lower == pytest.approx(exact, abs=1e-12)  # all persons in one cell
        assert cost.upper < 1
        spare.append(cost.upper - exact)
        b = math.exp(-2 * float(noise.epsilon))
        assert cost.upper == pytest.approx(math.log(2 - b - (1 - b) ** cells) / (2 * float(noise.epsilon)))
    assert spare[-1] <= spare[0]
    # the limit for one cell fewer is too small: the bound is sharp
    assert (
        math.log(2 - b - (1 - b) ** (cells - 1)) / (2 * float(noise.epsilon))
        < cost_by_blocks(noise, (total() & nonnegative()).on([3000] + [0] * (cells - 1))).lower
    )


def test_random_boxes_stay_within_the_bound_of_a_step(monkeypatch):
    from ppdinf.privacy import conditioning

    monkeypatch.setattr(conditioning, "WORK", 0)
    rng, seen = np.random.default_rng(1), 0.0
    for _ in range(40):
        upper = int(rng.integers(1, 6))
        table = rng.integers(0, upper + 1, int(rng.integers(2, 5)))
        system = (total() & between(0, upper)).on(table)
        for epsilon in RATES:
            cost = cost_by_blocks(DoubleGeometric(epsilon), system)
            exact = enumerated(DoubleGeometric(epsilon), system)
            assert exact <= cost.upper <= 1
            seen = max(seen, exact / cost.upper)
    assert seen > 0.3


@pytest.mark.parametrize("epsilon", RATES)
@pytest.mark.parametrize(
    "table", [[[2, 0, 1], [0, 3, 1]], [[1, 0, 1], [0, 2, 1], [1, 1, 0]], np.diag([3, 3, 3]), [[9, 0], [0, 9]]]
)
def test_two_way_tables_are_bounded(table, epsilon):
    table = xr.DataArray(np.array(table), dims=("sex", "age"))
    noise, system = DoubleGeometric(epsilon), (margin("sex") & margin("age") & nonnegative()).on(table)
    exact, cost = enumerated(noise, system), cost_by_blocks(noise, system)
    assert 0 < exact <= cost.upper < 1


@pytest.mark.parametrize("epsilon", RATES)
def test_single_cells(epsilon):
    """Without a sum, the worst case is a count at its bound; with two bounds, the second bound reduces it."""
    noise = DoubleGeometric(epsilon)
    free = cost_by_blocks(noise, nonnegative().on([3, 1]))
    a = math.exp(-float(noise.epsilon))
    assert free.upper == pytest.approx(math.log(1 + a - a * a) / float(noise.epsilon))
    for upper in (1, 4, 12):
        assert enumerated(noise, between(0, upper).on([1, 0])) <= free.upper
    assert cost_by_blocks(noise, total().on([3, 1])) == (0, 0, 0)


def test_systems_without_a_bound_below_one():
    linked = margin("kind") & nonnegative() & at_least("cases", "deaths", dim="kind")
    table = xr.DataArray([[3, 1, 2], [1, 0, 1]], dims=("kind", "county"), coords={"kind": ["cases", "deaths"]})
    assert cost_by_blocks(DoubleGeometric(1), linked.on(table)).upper == 1
    square = xr.DataArray([[300, 100], [200, 50]], dims=("sex", "age"))
    crossing = margin("sex") & margin("age") & nonnegative()
    assert cost_by_blocks(Staircase(1, 3, 2), crossing.on(square)).upper == 1
    cube = xr.DataArray(np.arange(8).reshape(2, 2, 2) + 9, dims=("a", "b", "c"))
    three = margin("a", "b") & margin("a", "c") & margin("b", "c") & nonnegative()
    assert cost_by_blocks(DoubleGeometric(1), three.on(cube)).upper == 1


def test_wide_tables_and_much_noise_stay_in_range():
    table = xr.DataArray(np.full((60, 60), 9), dims=("sex", "age"))
    crossing = (margin("sex") & margin("age") & nonnegative()).on(table)
    for epsilon in (1e-6, 50, 5000):
        assert 0 < cost_by_blocks(DoubleGeometric(epsilon), crossing).upper <= 1
        assert 0 <= cost_by_blocks(DoubleGeometric(epsilon), nonnegative().on([1, 2])).upper <= 1
        assert 0 <= cost_by_blocks(DoubleGeometric(epsilon), (total() & nonnegative()).on([10**9, 2])).upper <= 1


@pytest.mark.parametrize("epsilon", ["1e-12", "1e-9", "1e-4"])
def test_small_losses_keep_their_digits(epsilon, monkeypatch):
    """Gamma is about 1 - 2 epsilon: rounding must not decrease it."""
    from ppdinf.privacy import conditioning

    monkeypatch.setattr(conditioning, "WORK", 0)
    table, noise = xr.DataArray([[7, 8, 1], [1, 2, 9], [3, 3, 3]], dims=("sex", "age")), DoubleGeometric(epsilon)
    for public in (total() & nonnegative(), total() & between(0, 9), margin("sex") & margin("age") & nonnegative()):
        cost = cost_by_blocks(noise, public.on(table))
        assert 1 - cost.upper == pytest.approx(2 * float(epsilon), rel=1e-3, abs=1e-15)


@pytest.mark.parametrize(("cells", "persons"), [(5, 30), (4000, 1400)])
def test_thousands_of_cells_have_a_lower_bound_too(cells, persons):
    """All persons in one cell, and one in another, in integers: weights of thousands of persons overflow doubles.

    With epsilon = log 2 a step has weight 1/2. The other persons are placed in (j + d - 2 choose j) ways for j persons,
    or the rest of them.
    """
    half, before, after = Fraction(1, 2), Fraction(0), Fraction(0)
    for j in range(persons + 1):
        before += math.comb(j + cells - 2, j) * half ** (2 * j)
        second = half ** (1 + abs(1 - j)) + half**j * (1 - half ** (2 * (persons - j))) * Fraction(4, 3)
        after += math.comb(j + cells - 3, j) * half**j * second
    system = (total() & nonnegative()).on([persons, *[0] * (cells - 1)])
    cost = cost_by_blocks(DoubleGeometric(Fraction(math.log(2))), system)
    expected = math.log(after / before) / (2 * math.log(2))
    assert cost.lower == pytest.approx(expected, abs=1e-9)
    assert cost.upper >= cost.lower


def test_many_groups_are_bounded_together():
    """Several groups are enumerated, the largest first; the others are below the limit for the same number of cells."""
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 9, 600)
    table = xr.DataArray(counts, dims="cell", coords={"group": ("cell", np.arange(600) // 6)})
    cost = cost_by_blocks(DoubleGeometric("1/20"), (groups("group") & nonnegative()).on(table))
    b = math.exp(-0.1)
    assert 0.5 < cost.lower < cost.upper <= math.log(2 - b - (1 - b) ** 6) / 0.1
    assert cost.tables < 8 * 5000


@pytest.mark.quick_cases(0)
def test_gamma_of_releases():
    """Millions of tables: exact for few persons and for many, a bound below 1 for two-way tables."""
    public, noise = total() & nonnegative(), DoubleGeometric("1/2")
    few = conditioning_cost(ppd.Conditioned(public, noise=noise), public.on([30, 20, 10, 0, 0, 5]))
    many = conditioning_cost(ppd.Conditioned(public, noise=noise), public.on([30_000, 20_000, 10, 0, 0, 5]))
    assert few.exact
    assert many.exact
    assert few.gamma <= many.gamma == pytest.approx(math.log(2 - 1 / math.e - (1 - 1 / math.e) ** 6), abs=1e-9)
    release = ppd.Conditioned(public, noise=noise).release([30, 20, 10, 0, 0, 5])
    assert few.gamma <= release.guarantee.gamma <= few.gamma + 2e-6
    table = xr.DataArray(np.arange(16).reshape(4, 4), dims=("sex", "age"))
    crossing = margin("sex") & margin("age") & nonnegative()
    bound = conditioning_cost(ppd.Conditioned(crossing, noise=noise), crossing.on(table), search=0)
    assert not bound.exact
    assert bound.gamma < 1
