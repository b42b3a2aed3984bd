"""Nested sums against enumeration, convolution in logarithms, and groups of cells; ranges of sums over all tables."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from chi_square import p_value_of_tables
from nested_enumeration import CONTRADICTIONS, SYSTEMS, problems
from scipy.special import gammaln, logsumexp

from ppdinf.errors import InvariantError
from ppdinf.fiber.identified_sums import Rows, identified_sums
from ppdinf.fiber.nested_sums.nested_sums import LogTable, NestedSums, OutOfReachError
from ppdinf.fiber.nested_sums.upward_pass import set_tilts
from ppdinf.fiber.sums_given_totals import totals


def plan_of(p, scale=1.0, scaled=range(4), without=(), **changes):
    """Return the sums of an enumerated problem, with laws tabulated to different extents and exact tails."""
    scales = [scale if law in scaled else 1.0 for law in range(4)]
    v, e, b = p.variance * scales[0], p.epsilon * scales[1], p.epsilon * scales[3]
    laws = [
        LogTable([-2 / v, -0.5 / v, 0.0, -0.5 / v], left=(2 / v, 1 / v), right=(1 / v, 1 / v)),
        LogTable([0.0], left=(e, 0), right=(e, 0)),
        LogTable(p.matrix * scales[2]),
        LogTable([0.0, 0.0, -b], left=(0, 0), right=(b, 0)),
    ]
    shifts = np.array([2, 0, 4, 1])
    least, most = p.least.copy(), p.most.copy()
    for v in without:
        least[v], most[v] = -(2**40), 2**40
    sums, values, law = np.array(p.measured, dtype=np.int64).reshape(-1, 3).T
    structure = {"low": p.low, "width": p.width, "node": p.node, "parent": p.parent, "least": least, "most": most}
    return NestedSums(**structure, measured=(sums, values - shifts[law], law), laws=laws, **changes)


def moments(p):
    """Return posterior marginals, means and variances of cells and sums by enumeration."""
    q = p.posterior()
    cells, sums = q @ p.tables, q @ p.aggregate
    marginals = np.zeros(p.log_weight.size)
    for i in range(p.low.size):
        np.add.at(marginals, p.start[i] + p.tables[:, i] - p.low[i], q)
    variance = q @ (p.tables - cells) ** 2
    return marginals, cells, variance, sums, q @ (p.aggregate - sums) ** 2


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("far", CONTRADICTIONS)
def test_agrees_with_enumeration(far):
    for p in problems(SYSTEMS, seed=far, contradiction=far):
        evaluated = plan_of(p).evaluate(p.log_weight, p.slope)
        assert evaluated.value.sum() == pytest.approx(p.value(), rel=1e-12, abs=1e-10)
        assert (evaluated.bound <= 1e-10).all()
        for found, right in zip(evaluated.posteriors(), moments(p), strict=True):
            np.testing.assert_allclose(found, right, rtol=0, atol=1e-9)
        again = evaluated.settled.evaluate(p.log_weight, p.slope)
        np.testing.assert_allclose(again.value, evaluated.value, rtol=1e-12, atol=1e-10)


def test_missing_masses_of_cells_enter_the_bound():
    """Cells without their last value: the bound covers the lost weight; with a tenth of it, it does not."""
    uncovered = 0
    for p in problems(60, seed=5):
        cut = (p.width > 1) & (np.arange(p.width.size) % 2 == 0)
        p.slope[:] = 0.0
        weights = [np.exp(p.log_weight[a : a + w]) for a, w in zip(p.start, p.width, strict=True)]
        with np.errstate(divide="ignore"):
            missing = np.log([w[-1] if c else 0.0 for w, c in zip(weights, cut, strict=True)])
        full, possible = p.value(), (p.low, p.low + p.width - 1)
        p.width = p.width - cut
        plan = plan_of(p, start=p.start, possible=possible, tolerance=1 - 1e-12)
        for share in (1.0, 0.1):
            evaluated = plan.evaluate(p.log_weight, log_missing=np.log(share) + missing)
            finite = np.isfinite(evaluated.bound).all()
            covers = not finite or (evaluated.value + np.log1p(evaluated.bound)).sum() > full - 1e-9
            assert covers or share < 1
            uncovered += not covers and share < 1
    assert uncovered > 5


def test_posteriors_are_the_gradient():
    h = 1e-5
    for p in problems(20, seed=7):
        plan = plan_of(p)
        posteriors = plan.evaluate(p.log_weight, p.slope).posteriors()
        for which, gradient in enumerate((posteriors.log_weight, posteriors.cell_mean)):
            for k in range(gradient.size):
                ends = []
                for step in (h, -h):
                    moved = [p.log_weight.copy(), p.slope.copy()]
                    moved[which][k] += step
                    ends.append(plan.evaluate(*moved).value.sum())
                assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(gradient[k], abs=1e-5)


def test_wrong_variants_differ_from_enumeration():
    """A noise scale error of 5 % or an ignored exact value is detected in every problem that has them."""
    caught, forgotten = np.zeros(4, dtype=int), 0
    for p in problems(100, seed=3):
        exact = np.flatnonzero(p.least == p.most)
        right = p.value()
        found = plan_of(p).evaluate(p.log_weight, p.slope).value.sum()
        assert found == pytest.approx(right, abs=1e-9)
        for law in range(4):
            changed = p.value(scale=1.05, scaled=[law])
            if abs(changed - right) > 1e-8:
                caught[law] += 1
                found = plan_of(p, scale=1.05, scaled=[law]).evaluate(p.log_weight, p.slope).value.sum()
                assert found == pytest.approx(changed, abs=1e-9)
                assert found != pytest.approx(right, abs=1e-9)
        if exact.size and abs(p.value(without=exact) - right) > 1e-8:
            forgotten += 1
            found = plan_of(p, without=exact).evaluate(p.log_weight, p.slope)
            assert found.value.sum() != pytest.approx(right, abs=1e-9)
    assert caught.min() >= 10
    assert forgotten > 20


@pytest.mark.parametrize(("number", "far", "draws"), [(40, 0, 3000), (15, 400, 1000)])
def test_draws_have_the_enumerated_law(number, far, draws):
    """All 55 p-values are above 1e-6 (false alarm rate 1 in 18,000 runs); ignoring exact values is detected."""
    least = 1.0
    for n, p in enumerate(problems(number, seed=far or 11, contradiction=far)):
        law = p.posterior()
        x = plan_of(p).evaluate(p.log_weight, p.slope).draw(draws, rng=n)
        assert p_value_of_tables(x, p.tables, law, least=8) > 1e-6
        exact = np.flatnonzero(p.least == p.most)
        if exact.size and not far:
            wrong = plan_of(p, without=exact).evaluate(p.log_weight, p.slope).draw(draws, rng=n)
            with np.errstate(divide="ignore"):
                least = min(least, p_value_of_tables(wrong, p.tables, law, least=8))
    assert far or least < 1e-6


def poisson(rate, width):
    x = np.arange(width)
    return x * np.log(rate) - rate - gammaln(x + 1)


def convolved(a, b):
    """Return log weights of a sum by convolution in logarithms."""
    a, b = sorted((a, b), key=len)
    out = np.full(a.size + b.size - 1, -np.inf)
    for k, weight in enumerate(a):
        out[k : k + b.size] = np.logaddexp(out[k : k + b.size], weight + b)
    return out


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("sds", [0, 5, 60, -60])
def test_a_measurement_far_from_its_cells(sds):
    """Forty Poisson cells in eight blocks; blocks and their sum are measured, the sum 60 sd from its prior mean."""
    rng = np.random.default_rng(5)
    rates, width, variance, block_variance = rng.uniform(1, 30, 40), 150, 9.0, 4.0
    blocks = np.repeat(np.arange(8), 5)
    counts = rng.poisson(rates)
    y = np.bincount(blocks, counts).astype(int)
    sd = np.sqrt(variance + 8 * block_variance)
    total = max(int(y.sum() + sds * sd), 1)
    weights = np.array([poisson(rate, width) for rate in rates])
    whole = np.zeros(1)
    for b in range(8):
        part = np.zeros(1)
        for i in np.flatnonzero(blocks == b):
            part = convolved(part, weights[i])
        whole = convolved(whole, part - (np.arange(part.size) - y[b]) ** 2 / (2 * block_variance))
    right = logsumexp(whole - (np.arange(whole.size) - total) ** 2 / (2 * variance))
    structure = {"low": np.zeros(40, int), "width": np.full(40, width), "node": blocks, "parent": [8] * 8 + [-1]}
    measured = np.arange(9), np.append(y, total), [0] * 8 + [1]
    laws = [LogTable([0.0], (0, 1 / v), (0, 1 / v)) for v in (block_variance, variance)]
    plan = NestedSums(**structure, measured=measured, laws=laws)
    evaluated = plan.evaluate(weights.ravel())
    assert evaluated.value[0] == pytest.approx(right, rel=1e-12)
    assert evaluated.bound[0] <= 1e-10
    posteriors = evaluated.posteriors()
    x = evaluated.draw(400, rng=1)
    z = (x.mean(0) - posteriors.cell_mean) / np.sqrt(posteriors.cell_variance / 400)
    assert abs(z).max() < 6  # 40 normal values: false alarm rate 1 in 12 million runs


@pytest.mark.parametrize("tolerance", [1e-1, 1e-4, 1e-8])
def test_the_bound_holds(tolerance):
    """Trimming reduces the total weight by at most the stated bound."""
    rng, lost = np.random.default_rng(2), 0.0
    for _ in range(40):
        d, m = 40, 9
        node, y = rng.integers(0, 8, d), rng.integers(20, 200, m)
        node[:8] = np.arange(8)
        structure = {"low": np.zeros(d, int), "width": np.full(d, 60), "node": node, "parent": [8] * 8 + [-1]}
        weights = -rng.uniform(0.02, 1, (d, 1)) * abs(np.arange(60) - rng.integers(0, 60, (d, 1))) ** rng.choice([1, 2])
        v, e = rng.uniform(1, 300), rng.uniform(0.1, 1)
        laws = [LogTable([0.0], (0, 1 / v), (0, 1 / v)), LogTable([0.0], (e, 0), (e, 0))]
        measured = np.arange(m), y * 2, rng.integers(0, 2, m)
        values = []
        for t in (tolerance, 1e-13):
            plan = NestedSums(**structure, measured=measured, laws=laws, tolerance=t)
            plan._share *= 1e5 * (t > 1e-13)  # trim as much as allowed
            evaluated = plan.evaluate(weights.ravel())
            values.append(evaluated.value[0])
            if t == tolerance:
                bound = evaluated.bound[0]
        assert bound <= tolerance
        assert -2e-12 * abs(values[1]) - 1e-12 <= values[1] - values[0] <= np.log1p(bound) + 1e-11
        lost = max(lost, values[1] - values[0])
    assert lost > 1e-8 * tolerance


def kinds(rng, d, width):
    """Yield weights of many shapes, with typical or extremely improbable totals."""
    x = np.arange(width)
    yield rng.normal(0, rng.choice([1.0, 10.0, 100.0]), (d, width))
    odd = rng.normal(0, 1, (d, width))
    odd[:, 1::2] -= rng.choice([20.0, 300.0, 900.0])
    yield odd
    yield np.where(rng.random((d, width)) < 0.6, -np.inf, 0.0)
    yield -rng.choice([5.0, 800.0]) * abs(x - rng.integers(0, width, (d, 1)))
    yield x * np.log(rng.gamma(2, width / 8, (d, 1))) - gammaln(x + 1)


def test_one_sum_for_each_group_agrees_with_totals():
    rng, compared = np.random.default_rng(1), 0
    for _ in range(40):
        d, width, groups = int(rng.integers(2, 12)), int(rng.integers(2, 30)), int(rng.integers(1, 4))
        block, low = rng.integers(-1, groups, d), rng.integers(-5, 5, d)
        held = np.unique(block[block >= 0])
        for weights in kinds(rng, d, width):
            slope = rng.normal(0, 0.5, d)
            size, floor = np.bincount(block[block >= 0], minlength=groups), np.zeros(groups, int)
            np.add.at(floor, block[block >= 0], low[block >= 0])
            total = floor + rng.integers(0, size * (width - 1) + 1)
            names = np.full(groups + 1, -1)
            names[held] = np.arange(held.size)
            structure = {"low": low, "width": np.full(d, width), "node": names[block], "parent": np.full(held.size, -1)}
            plan = NestedSums(**structure, least=total[held], most=total[held])
            evaluated = plan.evaluate(weights.ravel(), slope)
            right = totals.log_coefficient(weights, lo=low, total=total, block=block, eta=slope)
            right = np.append(right[held], right[-1])
            np.testing.assert_allclose(evaluated.value, right, rtol=1e-11, atol=1e-9)
            if (right > -np.inf).all():
                shares = totals.marginals(weights, lo=low, total=total, block=block, eta=slope)
                np.testing.assert_allclose(evaluated.posteriors().log_weight, shares.ravel(), rtol=0, atol=1e-8)
                compared += 1
    assert compared > 100


def test_cells_share_weights():
    rng = np.random.default_rng(1)
    table = rng.normal(0, 1, 9)
    start, width, low = np.array([0, 3, 0, 2]), np.array([5, 6, 9, 4]), np.array([0, -2, 1, 0])
    arguments = {"low": low, "width": width, "node": [0, 0, 1, 1], "parent": [1, -1], "least": [1, 6], "most": [4, 6]}
    shared = NestedSums(**arguments, start=start).evaluate(table)
    at = np.concatenate([a + np.arange(w) for a, w in zip(start, width, strict=True)])
    apart = NestedSums(**arguments).evaluate(table[at])
    assert shared.value == pytest.approx(apart.value, rel=1e-14)
    added = np.zeros(9)
    np.add.at(added, at, apart.posteriors().log_weight)
    np.testing.assert_allclose(shared.posteriors().log_weight, added, atol=1e-13)


def test_a_chain_of_sums_of_one_cell():
    law = LogTable([0.0], (0, 1.0), (0, 1.0))
    chain = NestedSums(
        low=[0], width=[9], node=[0], parent=[1, 2, -1], measured=([0, 1, 1, 2], [2, 3, 5, 4], [0] * 4), laws=[law]
    )
    x = np.arange(9)
    right = -((x - 2) ** 2 + (x - 3) ** 2 + (x - 5) ** 2 + (x - 4) ** 2) / 2
    evaluated = chain.evaluate(np.zeros(9))
    assert evaluated.value[0] == pytest.approx(logsumexp(right), rel=1e-14)
    np.testing.assert_allclose(evaluated.posteriors().log_weight, np.exp(right - logsumexp(right)), atol=1e-13)


def test_a_rate_of_zero_allows_only_zero():
    plan = NestedSums(low=[0, -1], width=[5, 5], node=[0, 0], parent=[-1], least=[2], most=[2])
    evaluated = plan.evaluate(np.zeros(10), slope=[0.0, -np.inf])
    assert evaluated.value[0] == pytest.approx(0.0)
    assert evaluated.draw(3, rng=1).tolist() == [[2, 0]] * 3
    assert plan.evaluate(np.zeros(10), slope=[-np.inf, -np.inf]).value[0] == -np.inf


def test_a_cell_without_a_possible_value_is_detected():
    """The tree is too large for sums of logarithms."""
    cells, groups = 20_000, 2000
    plan = NestedSums(
        low=np.zeros(cells, int),
        width=np.full(cells, 10),
        node=np.repeat(np.arange(groups), 10),
        parent=np.append(np.full(groups, groups), -1),
        least=np.append(np.zeros(groups, int), 60_000),
        most=np.append(np.full(groups, 90), 60_000),
    )
    weights = np.zeros(200_000)
    value = plan.evaluate(weights).value[0]
    weights[50:60] = -np.inf
    evaluated = plan.evaluate(weights)
    assert value > -np.inf
    assert evaluated.value[0] == -np.inf
    with pytest.raises(OutOfReachError, match="cell 5") as caught:
        evaluated.draw()
    assert caught.value.node == 0


@pytest.mark.parametrize("total", [2000, 6000, 9000])
def test_tilts_of_wide_sums_converge(total):
    """Tilts converge; with damping from the first step on they would still move by 0.4 to 2.5."""
    cells = 900
    plan = NestedSums(
        low=np.zeros(cells, int),
        width=np.full(cells, 60),
        node=1 + np.arange(cells) // 300,
        parent=[-1, 0, 0, 0],
        least=[total, 0, 0, 0],
        most=[total, 2**40, 2**40, 2**40],
        measured=([1, 2, 3], [total // 3 - 40, total // 3 + 90, total // 3], [0, 0, 0]),
        laws=[LogTable([0.0], (0, 1 / 4), (0, 1 / 4))],
    )
    found = plan.evaluate(np.tile(-np.arange(60) / 10, cells))
    tree, tilt, moved = found._tree, found._weights.tilt, []
    tilt[:] = 0
    for _ in range(2):
        before = tilt.copy()
        set_tilts(tree, found._weights, found._factors, 0, tree.root[0] + 1)
        moved.append(abs(tilt - before).max())
    assert moved[1] < 1e-4 < 1 < moved[0]


def system(seed):
    """Return statements about a few cells from 0 to 4, wanted sums, and their values for all tables that agree."""
    rng = np.random.default_rng(seed)
    d, k = rng.integers(2, 6), rng.integers(1, 5)
    matrix = rng.integers(0, 2, (k, d)) if seed % 3 else rng.integers(-1, 3, (k, d))
    sums = matrix @ rng.integers(0, 5, d)
    low = sums - 1.0 * rng.integers(0, 3, k) * (rng.random(k) < 0.6)
    high = sums + 1.0 * rng.integers(0, 2, k)
    if seed % 10 == 0:  # perhaps contradictory
        low = low + rng.integers(-3, 4, k)
        high = np.maximum(high, low)
    wanted = np.vstack([np.eye(d, dtype=int), rng.integers(0, 2, (3, d))])
    tables = np.array(list(itertools.product(range(5), repeat=d)))
    agrees = ((tables @ matrix.T >= low) & (tables @ matrix.T <= high)).all(axis=1)
    cells = np.zeros(d), np.full(d, 4.0)
    return (Rows(sp.csr_array(matrix), low, high), cells, sp.csr_array(wanted)), tables[agrees] @ wanted.T


@pytest.mark.quick_cases(0)
def test_ranges_of_random_systems():
    contradictory = 0
    for seed in range(200):
        stated, values = system(seed)
        if len(values):
            low, high, exact = identified_sums(*stated)
            np.testing.assert_array_equal(low, values.min(axis=0), err_msg=str(seed))
            np.testing.assert_array_equal(high, values.max(axis=0), err_msg=str(seed))
            assert exact.all(), seed
        else:
            contradictory += 1
            with pytest.raises(InvariantError, match="no table"):
                identified_sums(*stated)
    assert contradictory > 2
