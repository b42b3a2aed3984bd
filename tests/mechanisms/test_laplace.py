"""Generalized Laplace: refusals, density, draws, and an audit of the guarantee by enumeration."""

import math
import os
import traceback

import numpy as np
import pytest
import xarray as xr
from grids import box
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import CountError, InvariantError, LabelError, PrivacyError, PrivacyWarning
from ppdinf.invariants import Public, at_least, between, cells, covariates, groups, linear, nonnegative, total, zeros

CONFIDENTIAL = (7_654_321, 8_123_457, 9_031_333)
TABLE = xr.DataArray(
    list(CONFIDENTIAL),
    dims="county",
    coords={"county": ["x", "y", "z"], "state": ("county", ["A", "A", "B"]), "density": ("county", [0.1, 0.2, 0.3])},
)


def laplace(public=None, epsilon=1):
    return ppd.GeneralizedLaplace(total() if public is None else public, epsilon=epsilon)


@pytest.mark.parametrize("name", ["seed", "rng", "random_state"])
def test_a_release_takes_no_seed(name):
    with pytest.raises(PrivacyError, match=f"takes no '{name}'.*simulate"):
        laplace().release([3, 1, 2], **{name: 1})


@pytest.mark.parametrize(
    ("public", "table", "error", "message"),
    [
        (total(), TABLE, LabelError, r"'state', 'density' public: add covariates\('state', 'density'\)"),
        (groups("state"), TABLE, LabelError, "the coordinates 'density'"),
        (total() & covariates("size"), TABLE.drop_vars(["state", "density"]), LabelError, "no .* coordinate 'size'"),
        (total(), [7_654_321, -8_123_457], CountError, "dim_0=1"),
        (total(), [7_654_321.5, 8_123_457.0], CountError, "dim_0=0"),
        (total() & between(0, 8_000_000), list(CONFIDENTIAL), InvariantError, "'dim_0=1 at most 8000000'"),
        (zeros({"dim_0": 1}), list(CONFIDENTIAL), InvariantError, r"'dim_0=1 \(structural zero\)'"),
        (at_least(0, 1, dim="dim_0"), list(CONFIDENTIAL), InvariantError, "'0 >= 1 at dim_0=0'"),
        (groups("state"), list(CONFIDENTIAL), LabelError, "no dimension or coordinate 'state'"),
        (linear([[2**30] * 3], ["scaled"]), [2**30, *CONFIDENTIAL[1:]], CountError, "'scaled' exceeds 2"),
    ],
)
def test_refusals_name_the_fault_and_show_no_count(public, table, error, message):
    with pytest.raises(error, match=message) as caught:
        laplace(public).release(table)
    shown = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value.__cause__)
    assert not any(str(count) in shown for count in CONFIDENTIAL)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("total", 1), InvariantError),
        ((None, 1), InvariantError),
        ((total(), 0), PrivacyError),
        ((total(), "1/0"), PrivacyError),
        ((total(), 1, "l7"), PrivacyError),
        ((total(), 1, 2), PrivacyError),
    ],
)
def test_refuses_malformed_parameters(arguments, error):
    with pytest.raises(error):
        ppd.GeneralizedLaplace(*arguments)


@pytest.mark.parametrize("draws", [0, -1, True, 1.0, "1"])
def test_refuses_invalid_numbers_of_draws(draws):
    with pytest.raises(PrivacyError, match="draws must be a positive integer"):
        laplace().simulate([3, 1, 2], draws=draws, rng=1)


def test_mechanisms_are_values():
    assert laplace(epsilon="1/4") == laplace(epsilon=0.25)
    assert laplace(epsilon="1/4") != laplace(epsilon=0.2)
    data = laplace(epsilon=0.1).to_dict()
    assert data == {"kind": "generalized-laplace", "epsilon": "1/10", "norm": "l1"}
    assert ppd.mechanisms.Mechanism.from_dict(data, total()) == laplace(epsilon="1/10")


@pytest.mark.parametrize(
    "data", [None, {}, {"kind": []}, {"kind": "other"}, {"kind": "generalized-laplace", "eps": "1"}]
)
def test_unknown_mechanisms_are_refused(data):
    with pytest.raises(PrivacyError):
        ppd.mechanisms.Mechanism.from_dict(data, total())


@pytest.mark.quick_cases(0)
def test_public_sums_survive_every_release():
    table = TABLE.drop_vars("density")
    mechanism = laplace(groups("state") & nonnegative(), epsilon="1/5")
    with pytest.warns(PrivacyWarning, match="fix 1 of 3 cells, the first at county=z"):
        releases = [mechanism.release(table) for _ in range(50)]
    for release in releases:
        assert release.public.check(release.table)["agrees"][:2].all()
        assert release.table[2] == CONFIDENTIAL[2]
    # the three most probable values have probability 0.46 together: a false alarm has probability 1e-15
    assert len({int(release.table[0]) for release in releases}) > 3
    assert {release.table.dtype for release in releases} == {np.dtype(np.int64)}


def test_counts_near_zero_become_negative():
    assert any(laplace(epsilon="1/10").release([0, 1, 0]).table.min() < 0 for _ in range(50))


def test_structural_zeros_do_not_warn():
    table = TABLE.drop_vars(["state", "density"]).copy(data=[5, 0, 7])
    release = laplace(total() & zeros({"county": "y"}), epsilon="1/10").release(table)  # a warning would be an error
    assert release.table[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_forked_processes_draw_different_noise():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, laplace(epsilon="1/1000").release([10**6] * 40).table.values.tobytes())
        os._exit(0)
    mine = laplace(epsilon="1/1000").release([10**6] * 40).table.values
    theirs = np.frombuffer(os.read(reader, 8 * 40), dtype=np.int64)
    os.wait()
    assert theirs.sum() == mine.sum()
    assert not np.array_equal(theirs, mine)


def test_simulation_repeats_and_never_shares_its_generator():
    mechanism, table = laplace(epsilon="1/10"), TABLE.drop_vars(["state", "density"]).copy(data=[5, 0, 7])
    first = mechanism.simulate(table, draws=20, rng=3)
    assert first.dims == ("draw", "county")
    assert first.dtype == np.int64
    xr.testing.assert_equal(first, mechanism.simulate(table, draws=20, rng=3))
    xr.testing.assert_equal(first[:, 1], mechanism.simulate(table, draws=20, rng=np.int64(3))[:, 1])
    shared = np.random.default_rng(3)
    before = shared.bit_generator.state
    once, again = (mechanism.simulate(table, draws=20, rng=shared) for _ in range(2))
    assert shared.bit_generator.state == before
    assert not once.equals(again)
    xr.testing.assert_equal(once, mechanism.simulate(table, draws=20, rng=np.random.default_rng(3)))


def test_density_of_two_cells_is_the_closed_form():
    """Noise (k, -k) has probability a^(2|k|) (1 - a^2) / (1 + a^2) with a = exp(-epsilon)."""
    mechanism, a = laplace(epsilon="1/3"), math.exp(-1 / 3)
    for k in range(-4, 5):
        log_p = mechanism.logp([5 + k, 2 - k], [5, 2])
        assert log_p == pytest.approx(2 * abs(k) * math.log(a) + math.log((1 - a**2) / (1 + a**2)), abs=1e-12)
    weights = [math.exp(mechanism.logp([5 + k, 2 - k], [5, 2])) for k in range(-200, 201)]
    assert sum(weights) == pytest.approx(1, rel=1e-12)


def test_density_is_zero_off_the_fiber():
    mechanism = laplace(groups("g") & zeros({"dim_0": 3}))
    y = xr.DataArray([5, 2, 1, 0], dims="dim_0", coords={"dim_0": range(4), "g": ("dim_0", [0, 0, 1, 1])})
    at_zero = math.log(math.tanh(1))  # one difference within a group; the other two cells are known
    assert mechanism.logp(y, y) == pytest.approx(at_zero)
    assert mechanism.logp(y, y.copy(data=[4, 3, 1, 0])) == pytest.approx(at_zero - 2)
    assert mechanism.logp(y, y.copy(data=[4, 2, 2, 0])) == -math.inf  # the same total, other groups
    assert mechanism.logp(y, y.copy(data=[5, 2, 0, 1])) == -math.inf  # a structural zero that is none
    assert mechanism.logp(y, y.copy(data=[9, -2, 1, 0])) == pytest.approx(at_zero - 8)  # bounds do not enter the law
    with pytest.raises(LabelError):
        mechanism.logp(y, y[::-1])
    huge = laplace(linear([[2**40, 2**40]]))
    assert huge.logp([0, 0], [2**24, 0]) == -math.inf  # 2**64 is 0 in 64-bit arithmetic


def test_large_noise_is_rare_as_stated():
    for epsilon in ("1/20", "1/3", "4"):
        mechanism = laplace(epsilon=epsilon)
        width = mechanism.likelihood(total().on([1, 0, 0])).support_radius
        z = np.arange(-2 * width, 2 * width + 1)
        one = np.exp(mechanism.law.log_weight(z))
        law = one * np.convolve(one, one, mode="same")  # of one cell among three that sum to zero
        assert 3 * law[np.abs(z) > width].sum() <= 1e-12 * law.sum()
        assert width <= 40 / mechanism.epsilon + 3


def lattice_points(A, width):
    """All z with A z = 0 and entries of at most `width`, by enumeration."""
    z = box(-width, width, A.shape[1])
    return z[np.all(A @ z.T == 0, axis=0)]


BLOCKS = xr.DataArray([4, 0, 3, 2, 6], dims="c", coords={"g": ("c", list("PPPQQ")), "w": ("c", [1, 1, 1, 0, 2])})
SYSTEMS = {
    "total of three": (total(), BLOCKS[:3].drop_vars(["g", "w"]), 12),
    "two groups": (groups("g"), BLOCKS.drop_vars("w"), 5),
    "free and fixed cells": (total(weights="w") & cells({"c": 0}), BLOCKS[:4].drop_vars("g"), 9),
    "weights with a gap": (total(weights="w"), BLOCKS[1:4].drop_vars("g"), 12),
    "structural zero": (total() & zeros({"c": 1}), BLOCKS[:4].drop_vars(["g", "w"]), 9),
    "nothing": (Public(), BLOCKS[:2].drop_vars(["g", "w"]), 14),
}


def outcome_law(points, epsilon):
    """Law of lattice points by enumeration, by their code."""
    weights = np.exp(-epsilon * np.abs(points).sum(axis=1))
    return weights / weights.sum()


def p_value(draws, points, law):
    """Chi-square test that draws follow a law on lattice points; rare points and all others are pooled."""
    width = np.abs(points).max()
    codes = (points + width) @ (2 * width + 1) ** np.arange(points.shape[1])
    inside = np.all(np.abs(draws) <= width, axis=1)
    drawn = (draws[inside] + width) @ (2 * width + 1) ** np.arange(points.shape[1])
    order = np.argsort(codes)
    position = np.searchsorted(codes[order], drawn)
    observed = np.bincount(position, minlength=len(points))
    assert np.array_equal(codes[order][position], drawn), "a draw is off the lattice"
    expected = law[order] * len(draws)
    common = expected >= 10
    observed = np.append(observed[common], len(draws) - observed[common].sum())
    expected = np.append(expected[common], len(draws) - expected[common].sum())
    return stats.chisquare(observed, expected).pvalue


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("public", "table", "width"), SYSTEMS.values(), ids=SYSTEMS)
def test_draws_follow_the_enumerated_law(public, table, width):
    """400,000 draws; an epsilon that is 5 % off in either direction is detected.

    The mass outside the box is below 1e-6.
    """
    if "c" not in table.coords:
        table = table.assign_coords(c=range(table.size))
    draws = laplace(public, epsilon="3/2").simulate(table, draws=400_000, rng=11).values - table.values
    points = lattice_points(public.on(table).A.toarray(), width)
    assert p_value(draws, points, outcome_law(points, 1.5)) > 1e-6
    for wrong in (1.5 * 0.95, 1.5 * 1.05):
        assert p_value(draws, points, outcome_law(points, wrong)) < 1e-6


def test_the_law_differs_from_noise_with_a_balancing_cell():
    """Two cells of free noise and a third cell that balances them also keep the total, but have another law."""
    a = math.exp(-1)
    free = np.random.default_rng(5).geometric(1 - a, (400_000, 2, 2)) @ [1, -1]
    points = lattice_points(np.ones((1, 3), dtype=int), 14)
    assert p_value(np.column_stack([free, -free.sum(axis=1)]), points, outcome_law(points, 1)) < 1e-6


@pytest.mark.parametrize(("public", "table", "width"), SYSTEMS.values(), ids=SYSTEMS)
def test_the_guarantee_holds_between_all_equivalent_tables(public, table, width):
    """Every pair of tables with the same public sums, every outcome; half the stated epsilon would be too small."""
    mechanism = laplace(public, epsilon="2/5")
    system = public.on(table)
    offsets = lattice_points(system.A.toarray(), 3)
    tables = [x for x in table.values + offsets if x.min() >= 0][:200]
    assert len(tables) > 5
    outcomes = table.values + lattice_points(system.A.toarray(), 4)
    loss, distance = worst_losses(mechanism, tables, outcomes)
    epsilon = float(mechanism.guarantee.epsilon)
    assert np.all(loss <= epsilon * distance + 1e-12)
    assert np.any(loss > epsilon / 2 * distance + 1e-12)
    assert distance[distance > 0].min() == mechanism.guarantee_on(system, mechanism.plan_on(system)).nearest
    rng, log_constant = np.random.default_rng(2), mechanism.log_constant(system)
    for _ in range(20):  # the densities compared are those that analysts use
        x, y = tables[rng.integers(len(tables))], outcomes[rng.integers(len(outcomes))]
        log_p = mechanism.law.log_weight(y - x).sum() - log_constant
        assert mechanism.logp(table.copy(data=y), x) == pytest.approx(log_p, abs=1e-12)


def worst_losses(mechanism, tables, outcomes):
    """Largest log ratio of outcome probabilities, and l1 distance, for every ordered pair of tables."""
    log_p = np.array([mechanism.law.log_weight(outcomes - x).sum(axis=1) for x in tables])  # one normalizer for all x
    loss = np.array([np.max(row - log_p, axis=1) for row in log_p])
    distance = np.abs(np.array(tables)[:, None] - np.array(tables)[None]).sum(axis=2)
    return loss, distance
