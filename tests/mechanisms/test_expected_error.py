"""The expected error of a release against enumeration; no count enters it."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import xarray as xr
from lattice_laws import KINDS

import ppdinf as ppd
from ppdinf.errors import InvariantError, PpdinfError, PrivacyError
from ppdinf.invariants import public as public_statements
from ppdinf.laws import DoubleGeometric
from ppdinf.mechanisms import expected_error
from ppdinf.mechanisms.expected_error import cell_law, reversed_share, simulate_noise
from ppdinf.noise.exact import rejection
from ppdinf.noise.exact.scale_mixture.mixture import ScaleMixture
from ppdinf.plots import plot_plan

TOTAL = ppd.invariants.total()


def pairs(law, cells, reach):
    """All noise tables of a few cells that sum to zero, with their masses; without a sum, for two free cells."""
    moves = np.array([(*z, -sum(z)) for z in product(range(-reach, reach + 1), repeat=cells - 1)])
    mass = np.exp(law.log_weight(moves.astype(float)).sum(axis=1))
    return moves, mass / mass.sum()


def enumerated(law, cells, reach):
    """Standard deviation and 90 % half-width of the first cell, over all noise tables that sum to zero."""
    moves, mass = pairs(law, cells, reach)
    first = np.abs(moves[:, 0])
    within = [mass[first <= k].sum() for k in range(reach + 1)]
    return np.sqrt(mass @ first**2.0), int(np.searchsorted(within, 0.9))


@pytest.mark.parametrize(("kind", "scale"), [("l1", "1"), ("l1", "1/2"), ("gaussian", "2")])
@pytest.mark.parametrize("cells", [2, 3])
def test_a_cell_under_one_sum_against_enumeration(kind, scale, cells):
    law = KINDS[kind](scale)
    sd, half = enumerated(law, cells, 60)
    values, mass = cell_law(law, cells)
    assert np.sqrt(mass @ values**2.0) == pytest.approx(sd, rel=1e-9)
    made = ppd.GeneralizedLaplace if kind == "l1" else ppd.GeneralizedGaussian
    (row,) = made(TOTAL, **{"epsilon" if kind == "l1" else "sigma": scale}).expected_error((cells,)).to_dict("records")
    assert (row["sd"], row["support_radius"], row["exact"]) == (pytest.approx(sd), half, True)
    assert row["cv_100"] == pytest.approx(sd / 100)
    free = np.sqrt(cell_law(law, 1)[1] @ cell_law(law, 1)[0] ** 2.0)
    assert free > 1.1 * sd  # the law without the sum would be wrong


def test_many_cells_under_one_sum_are_nearly_free():
    values, mass = cell_law(DoubleGeometric("1/10"), 100_000)
    a = np.exp(-0.1)
    assert np.sqrt(mass @ values**2.0) == pytest.approx(np.sqrt(2 * a) / (1 - a), rel=1e-4)


def test_each_kind_of_cell_has_a_row():
    table = xr.DataArray(np.zeros(6, dtype=int), dims="c", coords={"c": list("abcdef"), "g": ("c", list("xxyyyz"))})
    found = ppd.GeneralizedLaplace(ppd.invariants.groups("g"), epsilon=1).expected_error(table)
    assert found["cells"].to_dict() == {
        "in a public sum of 2 cells": 2, "in a public sum of 3 cells": 3, "fixed by public sums": 1,
    }  # fmt: skip
    assert found.loc["fixed by public sums", "sd"] == 0
    none = ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1).expected_error((2, 3))
    assert none.index.tolist() == ["in no public sum"]


def test_simulated_laws_agree_with_enumeration_and_are_marked():
    """3 x 2 with both margins, and l2: pooled draws; four standard errors of a simulated sd are 4 %."""
    margins = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    found = ppd.GeneralizedLaplace(margins, epsilon=1).expected_error((3, 2))
    (kind,) = found.index
    assert kind == "in sums that cross, 6 cells"
    assert not found["exact"].any()
    (law, reach) = DoubleGeometric(1), 30
    columns = np.array([(a, b, -a - b) for a in range(-reach, reach + 1) for b in range(-reach, reach + 1)])
    mass = np.exp(2 * law.log_weight(columns.astype(float)).sum(axis=1))
    sd = np.sqrt(mass @ (columns**2.0).mean(axis=1) / mass.sum())
    assert found["sd"].iloc[0] == pytest.approx(sd, rel=0.06)
    two = ppd.GeneralizedLaplace(TOTAL, epsilon=1, norm="l2").expected_error((2,))
    z = np.arange(-80, 81)
    mass = np.exp(-np.sqrt(2) * np.abs(z))
    assert two["sd"].iloc[0] == pytest.approx(np.sqrt(mass @ z**2.0 / mass.sum()), rel=0.06)


def test_no_count_enters_the_answer():
    mechanism = ppd.GeneralizedLaplace(TOTAL, epsilon="1/4")
    one, other = mechanism.expected_error(np.array([0, 0, 9])), mechanism.expected_error(np.array([10**6, 3, 1]))
    assert one.equals(other)
    real = ppd.SubspaceGaussian(TOTAL, epsilon=1, delta="1e-6")
    assert real.expected_error([5, 1, 2]).equals(real.expected_error((3,)))


@pytest.mark.parametrize(("kind", "scale"), [("l1", "1"), ("l1", "1/2"), ("gaussian", "2")])
@pytest.mark.parametrize("cells", [1, 2, 3, 4])
def test_reversed_orders_against_enumeration(kind, scale, cells):
    """Swaps and limits, ties counting half; cells under a sum of few cells differ from independent cells."""
    law, reach, gaps = KINDS[kind](scale), 24 if cells == 4 else 50, [1, 2, 5]
    found = reversed_share(law, cells, gaps)
    if cells == 1:
        z = np.arange(-reach, reach + 1)
        moves = np.array(list(product(z, z)))
        mass = np.exp(law.log_weight(moves.astype(float)).sum(axis=1))
        mass /= mass.sum()
    else:
        moves, mass = pairs(law, cells, reach)
    apart = moves[:, 1] - moves[:, 0]
    for gap, share in zip(gaps, found, strict=True):
        assert share == pytest.approx(
            mass @ (apart > gap) + mass @ (apart == gap) / 2, abs=2e-4 if cells == 4 else 1e-8
        )
    if kind == "l1":
        made = ppd.GeneralizedLaplace(TOTAL if cells > 1 else ppd.invariants.Public(), epsilon=scale)
        (row,) = made.expected_error((max(cells, 2),), gaps=gaps).to_dict("records")
        assert [row[f"swap_{gap}"] for gap in gaps] == pytest.approx(found)
        across = [mass @ (moves[:, 0] > gap) + mass @ (moves[:, 0] == gap) / 2 for gap in gaps]
        assert [row[f"across_{gap}"] for gap in gaps] == pytest.approx(across, abs=2e-4)
        if cells in (2, 3):
            assert abs(reversed_share(law, 1, gaps) - found).max() > 0.01


def test_swaps_of_simulated_laws_are_those_of_two_different_cells():
    """Two cells with the same sums have dependent noise: their differences are not those of independent noise."""
    margins = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    (row,) = ppd.GeneralizedLaplace(margins, epsilon="1/4").expected_error((2, 2), gaps=[5]).to_dict("records")
    z = np.arange(-400, 401)  # the table of noise is z, -z, -z, z: two of three other cells differ by 2 z
    mass = np.exp(-np.abs(z))
    mass /= mass.sum()
    swap = 2 / 3 * (mass @ (2 * z > 5)) + 1 / 3 * 0
    assert row["swap_5"] == pytest.approx(swap, rel=0.1)


def laplace(public=TOTAL):
    return lambda epsilon: ppd.GeneralizedLaplace(public, epsilon=epsilon)


def test_a_plan_compares_losses_and_no_count_enters_it():
    found = ppd.plan(laplace(), (67,), ["1/4", 1], sizes=[50], gaps=[5])
    alone = ppd.GeneralizedLaplace(TOTAL, epsilon="1/4").expected_error((67,), sizes=[50], gaps=[5])
    assert found.table.loc["1/4"].equals(alone)
    assert found.table.equals(ppd.plan(laplace(), np.arange(67), ["1/4", 1], sizes=[50], gaps=[5]).table)
    named = ppd.plan(laplace(ppd.invariants.margin("county")), {"county": 3, "age": 2}, [1])
    assert named.table.index.tolist() == [("1", "in a public sum of 2 cells")]
    figure = plot_plan({"epsilon": found, "rho": named})
    assert [axes.get_xlabel() for axes in figure.axes][::2] == [
        f"{n}, per unit of distance" for n in ("epsilon", "rho")
    ]
    marked = plot_plan(found, cv="1/10", at=50).axes[1].get_legend().get_texts()[-1].get_text()
    assert marked == f"10% at 50 persons: epsilon = {found.loss_for(cv='1/10', at=50)}"
    for wrong in ({"sizes": [0]}, {"gaps": [1.5]}, {"gaps": [-1]}, {"losses": []}, {"losses": ["0"]}):
        with pytest.raises(PrivacyError):
            ppd.plan(laplace(), (67,), **{"losses": [1], **wrong})
    for wrong in ((0,), {"a": -1}, ()):
        with pytest.raises(PpdinfError):
            ppd.plan(laplace(), wrong)
    for losses in (0.25, "1/4", Fraction(1, 4)):
        with pytest.raises(PrivacyError, match=r"losses must be a sequence such as \['1/4'\]"):
            ppd.plan(laplace(), (67,), losses)
    with pytest.raises(PrivacyError, match="noise is always 0"):
        plot_plan(ppd.plan(laplace(), (1,), [1]))


FAMILIES = {
    "laplace": (laplace(), (67,)),
    "margins": (laplace(ppd.invariants.margin("a") & ppd.invariants.margin("b")), {"a": 3, "b": 4}),
    "gaussian": (lambda rho: ppd.GeneralizedGaussian(TOTAL, rho=rho), (20,)),
    "real": (lambda epsilon: ppd.SubspaceGaussian(TOTAL, epsilon, "1e-6"), (6,)),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.deep) if n == "margins" else n for n in FAMILIES])
def test_the_loss_for_an_error_is_sufficient_and_nearly_minimal(name):
    family, labels = FAMILIES[name]
    found = ppd.plan(family, labels, [1], sizes=[50])
    loss = found.loss_for(cv="1/10", at=50)
    assert loss == found.loss_for(sd=5)
    assert family(loss).expected_error(labels)["sd"].max() <= 5
    assert family(loss * Fraction(96, 100)).expected_error(labels)["sd"].max() > 5
    assert loss.denominator <= 1000
    within = found.loss_for(support_radius=8)
    assert family(within).expected_error(labels)["support_radius"].max() <= 8


def test_an_error_that_cannot_be_had_is_refused():
    found = ppd.plan(laplace(), (67,), [1])
    for wrong in (
        {},
        {"sd": 1, "support_radius": 2},
        {"cv": "1/10"},
        {"sd": 1, "at": 5},
        {"sd": -1},
        {"cv": "x", "at": 5},
    ):
        with pytest.raises(PrivacyError):
            found.loss_for(**wrong)
    with pytest.raises(PrivacyError, match="smallest loss suffices"):
        ppd.plan(laplace(), (1,), [1]).loss_for(sd=1)


SYSTEMS = {
    "no sum": (laplace(ppd.invariants.Public())("1/40"), (12,)),
    "total of 2": (laplace()("1/40"), (2,)),
    "total of 67": (laplace()("1/60"), (67,)),
    "groups": (laplace(ppd.invariants.margin("a"))("1/50"), {"a": 5, "b": 3}),
    "gaussian": (ppd.GeneralizedGaussian(TOTAL, sigma=40), (9,)),
    "l2": (ppd.GeneralizedLaplace(TOTAL, epsilon="1/30", norm="l2"), (12,)),
    "margins": (laplace(ppd.invariants.margin("a") & ppd.invariants.margin("b"))("1/100"), {"a": 3, "b": 5}),
    "gaussian margins": (
        ppd.GeneralizedGaussian(ppd.invariants.margin("a") & ppd.invariants.margin("b"), sigma=30), {"a": 6, "b": 7},
    ),
    "subspace": (ppd.SubspaceGaussian(TOTAL, 1, "1e-6"), (10,)),
    "k-norm": (ppd.KNorm(TOTAL, epsilon="1/4"), (6,)),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [n if n in ("total of 67", "groups") else pytest.param(n, marks=pytest.mark.deep) for n in SYSTEMS]
)
def test_stated_errors_agree_with_draws(name):
    """Within 2 %, at least 2.8 standard errors, of 400,000 values or more with another seed."""
    mechanism, labels = SYSTEMS[name]
    (row,) = mechanism.expected_error(labels, gaps=[20]).to_dict("records")
    shape = tuple(labels.values()) if isinstance(labels, dict) else labels
    blank = xr.DataArray(np.zeros(shape, dtype=int), dims=list(labels) if isinstance(labels, dict) else None)
    draws = 600_000 // blank.size
    noise = mechanism.simulate(blank, draws=draws, rng=2).values.reshape(draws, -1)
    assert noise.std() == pytest.approx(row["sd"], rel=0.02)
    assert np.quantile(np.abs(noise), 0.9) == pytest.approx(row["support_radius"], rel=0.02)
    assert (noise > 20).mean() + (noise == 20).mean() / 2 == pytest.approx(row["across_20"], abs=0.01)
    apart = noise[:, 0] - noise[:, -1]
    assert (apart > 20).mean() + (apart == 20).mean() / 2 == pytest.approx(row["swap_20"], abs=0.02)


@pytest.mark.quick_cases(0)
def test_simulations_that_take_too_long_are_refused_before_any_begins(monkeypatch):
    """10 x 10 cells with loss 1 take 30 s per draw; the message names the losses that can be planned."""
    margins = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")

    def laplace(epsilon):
        return ppd.GeneralizedLaplace(margins, epsilon=epsilon)

    def never(*_, **__):
        raise AssertionError("simulated")

    monkeypatch.setattr(ppd.GeneralizedLaplace, "simulate", never)
    with pytest.raises(InvariantError, match=r"losses 1: with 1, .* about \d+ s .*losses=\['1/4'\]"):
        ppd.plan(laplace, (10, 10), ["1/4", 1])
    with pytest.raises(InvariantError, match=r"about \d+ s .*state a smaller loss"):
        laplace(1).expected_error((10, 10))


@pytest.mark.quick_cases(0)
def test_a_plan_states_the_loss_of_one_person():
    """By labels alone, as releases state it: with both margins four cells change; bounds and zeros do not matter."""
    both, shape = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1"), (3, 4)
    table, total = np.arange(12).reshape(shape) + 1, ppd.invariants.total()
    for public, epsilon in (
        (both, 4),
        (total, 2),
        (total & ppd.invariants.nonnegative(), 2),
        (ppd.invariants.Public(), 2),
    ):
        found = ppd.plan(lambda e, public=public: ppd.GeneralizedLaplace(public, epsilon=e), shape, ["1/4"])
        planned, released = found.guarantee(1), ppd.GeneralizedLaplace(public, epsilon=1).release(table).guarantee
        assert planned.loss_of_unit == released.loss_of_unit == epsilon
    rho = ppd.plan(lambda rho: ppd.GeneralizedGaussian(both, rho=rho), shape, ["1/4"])
    assert rho.guarantee("1/4").loss_of_unit == 1
    exact = ppd.plan(lambda e: ppd.GeneralizedGaussian(total, e, "1e-3", calibration="exact"), shape, ["1/4"])
    assert (exact.guarantee(1).loss_of_unit, float(exact.guarantee(1).delta_of_unit)) == (1, 1e-3)


class SlowNoise:
    """A mechanism whose draws take seconds of its own clock."""

    now = 0.0

    def __init__(self, seconds):
        self.seconds = seconds

    def perf_counter(self):
        return self.now

    def on(self, system):
        return self

    def plan_on(self, system):
        return None

    def checked_draw(self, system, cells, draws, stream, plan):
        self.now += draws * self.seconds
        return np.zeros((draws, cells.size), dtype=int)


@pytest.mark.parametrize(("seconds", "drawn"), [(0.001, 1000), (0.01, 500), (0.1, 50), (0.4, 50)])
def test_slow_draws_are_fewer(monkeypatch, seconds, drawn):
    noise, system = SlowNoise(seconds), TOTAL.on(np.zeros(40, dtype=int))  # at least 50 draws
    monkeypatch.setattr(expected_error, "time", noise)
    assert len(simulate_noise(noise, system, 1000)) == drawn
    assert noise.now <= 20.5


def test_simulation_that_does_not_finish_states_its_time(monkeypatch):
    noise, system = SlowNoise(2.0), TOTAL.on(np.zeros(40, dtype=int))
    monkeypatch.setattr(expected_error, "time", noise)
    with pytest.raises(InvariantError, match=r"13 draws took 26 s, and 50 would take about 100 s: state a smaller"):
        simulate_noise(noise, system, 1000)
    assert noise.now == 26


def test_the_structure_of_public_sums_is_computed_once(monkeypatch):
    """All losses, the guarantee and the search of a loss share it."""
    calls, one = [], public_statements.structure
    monkeypatch.setattr(
        public_statements, "structure", lambda *args, **options: calls.append(1) or one(*args, **options)
    )
    found = ppd.plan(
        lambda loss: ppd.GeneralizedLaplace(ppd.invariants.margin("a"), loss), {"a": 3, "b": 4}, ["1/4", 1]
    )
    found.guarantee(1)
    found.loss_for(sd=3)
    assert len(calls) == 1


def test_sums_that_cross_too_much_are_refused_before_pilot_runs(monkeypatch):
    """The plan of 100 x 100 cells is refused as releases are: the lattice is split once, and no scales are drawn."""
    splits, split = [], rejection.split_lattice
    monkeypatch.setattr(rejection, "split_lattice", lambda lattice: splits.append(1) or split(lattice))
    monkeypatch.setattr(ScaleMixture, "_predict", lambda self: pytest.fail("pilot run"))
    margins = ppd.invariants.margin("a") & ppd.invariants.margin("b")
    with pytest.raises(InvariantError, match=r"no plan for the losses 1/20, 2: .* too much for exact .* choose l2"):
        ppd.plan(laplace(margins), {"a": 100, "b": 100}, ["1/20", 2])
    assert len(splits) == 1
