"""Integer noise that keeps public sums: refusals of tables, density, draws, an audit by enumeration, broken sums."""

import math
import os
import traceback
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from chi_square import p_value_of_tables
from grids import box

import ppdinf as ppd
from ppdinf.cli.release_commands import show_session
from ppdinf.errors import CountError, InternalError, InvariantError, LabelError, PrivacyError
from ppdinf.invariants import Public, at_least, between, cells, covariates, groups, linear, total, zeros
from ppdinf.lattice.systems import exact_product, integer_matrix
from ppdinf.mechanisms import table_mechanism

CONFIDENTIAL = (7_654_321, 8_123_457, 9_031_333)
TABLE = xr.DataArray(
    list(CONFIDENTIAL),
    dims="county",
    coords={"county": ["x", "y", "z"], "state": ("county", ["A", "A", "B"]), "density": ("county", [0.1, 0.2, 0.3])},
)


def laplace(public=None, epsilon=1):
    return ppd.GeneralizedLaplace(total() if public is None else public, epsilon=epsilon)


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


def test_mechanisms_are_values():
    assert laplace(epsilon="1/4") == laplace(epsilon=0.25)
    assert laplace(epsilon="1/4") != laplace(epsilon=0.2)
    data = laplace(epsilon=0.1).to_dict()
    assert data == {"kind": "generalized-laplace", "epsilon": "1/10", "norm": "l1"}
    assert ppd.mechanisms.Mechanism.from_dict(data, total()) == laplace(epsilon="1/10")


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
    """Return the p-value of draws, of which those outside the box count as rare."""
    return p_value_of_tables(draws, points, law, 10, complete=False)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("public", "table", "width"), SYSTEMS.values(), ids=SYSTEMS)
def test_draws_follow_the_enumerated_law(public, table, width):
    """400,000 draws, mass outside the box below 1e-6; an epsilon that is 5 % off in either direction is detected."""
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


inv = ppd.invariants
SQUARE = np.array([[731, 4], [12, 7]])
MARGINS = inv.margin("dim_0") & inv.margin("dim_1")
KINDS = {
    "l1": ppd.GeneralizedLaplace(MARGINS, "1/2"),
    "gaussian": ppd.GeneralizedGaussian(MARGINS, 1, "1e-3"),
    "real": ppd.SubspaceLaplace(MARGINS, 1),
    "real on a grid": ppd.KNorm(inv.margin("dim_1"), 1, grid="1/8"),
    "bounded": ppd.Conditioned(MARGINS & inv.nonnegative(), ppd.mechanisms.DoubleGeometric(1)),
    "post-processed": ppd.PostProcessed(MARGINS & inv.nonnegative(), 1),
}


def broken(mechanism, monkeypatch, change=1):
    """Modify the last cell of every draw except the first."""
    drawn = type(mechanism).draw

    def draw(*arguments):
        found = drawn(*arguments)
        found[-1, -1] += change
        return found

    monkeypatch.setattr(type(mechanism), "draw", draw)


@pytest.mark.parametrize("name", KINDS)
def test_a_broken_sum_is_never_returned(name, monkeypatch):
    mechanism = KINDS[name]
    assert mechanism.simulate(SQUARE, draws=3, rng=1).shape == (3, 2, 2)
    broken(mechanism, monkeypatch)
    with pytest.raises(InternalError, match=r"internal error of ppdinf: the noise violates 'dim_[01]=1'.*not the"):
        mechanism.simulate(SQUARE, draws=3, rng=1)
    if name != "post-processed":  # its release draws by the mechanism of the noisy cells
        with pytest.raises(InternalError, match="Nothing was published") as refused:
            mechanism.release(SQUARE)
        assert "731" not in str(refused.value)


def test_a_broken_bound_is_never_returned(monkeypatch):
    monkeypatch.setattr(
        ppd.Conditioned, "draw", lambda self, system, x, draws, *_: np.tile([[740, -5, 3, 16]], (draws, 1))
    )
    with pytest.raises(InternalError, match="violates 'dim_0=0, dim_1=1 at least 0'"):
        KINDS["bounded"].simulate(SQUARE, draws=2)


def test_draws_of_a_distribution_are_checked(monkeypatch):
    release = KINDS["l1"].dist(pm.Poisson.dist(30, shape=(2, 2)))
    pm.draw(release, random_seed=1)
    broken(KINDS["l1"], monkeypatch)
    with pytest.raises(InternalError):
        pm.draw(release, random_seed=1)


def test_every_draw_is_checked(monkeypatch):
    """Also if draws are checked in small batches."""
    system = MARGINS.on(SQUARE)
    drawn = np.tile(SQUARE.ravel(), (50, 1))
    monkeypatch.setattr(table_mechanism, "BATCH", 12)
    table_mechanism.require_kept(system, drawn, SQUARE.ravel(), bounds=True)
    table_mechanism.require_kept(system, drawn, drawn, bounds=True)
    for row in (0, 2, 3, 49):
        wrong = drawn.copy()
        wrong[row, 1] += 1
        for x in (SQUARE.ravel(), drawn):
            with pytest.raises(InternalError):
                table_mechanism.require_kept(system, wrong, x, bounds=True)


def test_sums_beyond_64_bits_are_exact():
    A, x = integer_matrix([[2**40, -(2**40), 0], [1, 1, 1]]), np.array([[2**30, 1], [2**30 - 1, 0], [5, 2**50]])
    assert exact_product(A, x).tolist() == [[2**40, 2**40], [2**31 + 4, 2**50 + 1]]


def test_a_session_spends_nothing(tmp_path, monkeypatch, capsys):

    session = ppd.Session.open(tmp_path / "cases.budget", epsilon="1/2")
    with monkeypatch.context() as patched:
        broken(KINDS["l1"], patched)
        with pytest.raises(InternalError):
            session.release(KINDS["l1"], SQUARE, name="first")
    assert session.table()["outcome"].tolist() == ["void"]
    assert session.left == {"epsilon": Fraction(1, 2)}
    with pytest.raises(PrivacyError, match="at least one guarantee"):
        session.guarantee  # noqa: B018
    show_session(ppd.Session.open(session.path))
    assert "void" in capsys.readouterr().out
    session.release(KINDS["l1"], SQUARE, name="second")
    assert session.table()["outcome"].tolist() == ["void", "drawn"]
    assert session.left == {"epsilon": 0}
    assert ppd.Session.open(session.path).left == {"epsilon": 0}


def test_a_drawn_release_remains_spent(tmp_path):
    """A second outcome does not make a release void."""
    from ppdinf.sessions import journal

    session = ppd.Session.open(tmp_path / "cases.budget", epsilon="1/2")
    session.release(KINDS["l1"], SQUARE)
    journal.append(session.path, journal.read(session.path), {"outcome": 1, "state": "void"})
    assert session.left == {"epsilon": 0}
