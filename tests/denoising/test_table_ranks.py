"""Ranks of true tables among posterior draws, 400 data sets each by forest and by Gibbs: uniform; faults detected.

Tables are Poisson with known rates, so that only tables are drawn: independent draws by the forest, dependent draws by
the Gibbs sampler, which updates large cells in a block. Three quantities, p above 1e-5: a false alarm in 30,000 runs.
"""

import numpy as np
import pytest
from scipy.special import gammaln

import ppdinf as ppd
from ppdinf.denoising import table_gibbs
from ppdinf.denoising.count_windows import published_windows
from ppdinf.denoising.denoise import TableForest
from ppdinf.denoising.learned_prior import FixedPrior
from ppdinf.denoising.table_gibbs import TableGibbs
from ppdinf.diagnostics.calibration import calibrate, uniformity
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.fiber.gibbs import joint_move

inv, laws = ppd.invariants, ppd.laws
RARE, DATA_SETS, LEARNT = 1e-5, 400, 12
RATES = np.outer([40, 12, 1.5], [2, 1, 0.5, 1]).ravel()
CELLS = np.eye(12, dtype=int)
ROWS = 1 * (np.repeat(np.arange(3), 4) == np.arange(3)[:, None])
COLUMNS = 1 * (np.tile(np.arange(4), 3) == np.arange(4)[:, None])
NOISE = {"tree": [(ROWS, 9.0), (CELLS, 16.0)], "walk": [(ROWS, 9.0), (CELLS, 16.0), (COLUMNS, 4.0)]}


def measurements(route, numbers, total, *, sharper=1.0, kept=3):
    """Return noisy sums of a table with an exact total; wrong on purpose: other variances, or without the last sums."""
    parts = [
        ppd.measured(inv.linear(rows), y, laws.DiscreteGaussian(variance=variance / sharper))
        for (rows, variance), y in list(zip(NOISE[route], numbers, strict=True))[:kept]
    ]
    return ppd.Measurements({"cell": range(12)}, *parts, public={inv.total(): total})


def simulate(route, rng):
    x = rng.poisson(RATES)
    seen = measurements(route, [rows @ x for rows, _ in NOISE[route]], int(x.sum()))
    y = seen.entries.publish((seen.entries.matrix @ x)[None], rng)[0]
    numbers = np.split(y, np.cumsum([len(rows) for rows, _ in NOISE[route]])[:-1])
    return {name: own[0] for name, own in quantities(route, x[None], numbers).items()}, (numbers, int(x.sum()))


def quantities(route, tables, numbers):
    """Return a cell, a margin, and the fit of a table to the measurements."""
    away = [((tables @ rows.T - y) ** 2 / v).sum(axis=1) for (rows, v), y in zip(NOISE[route], numbers, strict=True)]
    return {"cell": tables[:, 1], "margin": tables[:, :4].sum(axis=1), "fit": sum(away)}


def infer(route, given, rng, draws=20, apart=2, **wrong):
    numbers, total = given
    observed = ObservedMeasurements(measurements(route, numbers, total, **wrong))
    windows = published_windows(observed)
    sums = observed.in_forest(windows.lower, windows.counts.shape[1])
    assert (sums is None) == (route == "walk")
    tables = TableGibbs(observed, windows) if sums is None else TableForest(sums, windows)
    log_h = -gammaln(np.arange(windows.largest + 1.0) + 1)
    prior, chain, found = FixedPrior(log_h, np.log(RATES)), tables.chain(rng), []
    for k in range(-LEARNT, draws * (apart if sums is None else 1)):
        chain.advance(prior, tune=k < 0)
        found.append(chain.table)
    return quantities(route, np.array(found[LEARNT :: apart if sums is None else 1]), numbers)


def p_values(route, data_sets, **wrong):
    found = calibrate(
        lambda rng: simulate(route, rng),
        lambda given, rng: infer(route, given, rng, **wrong),
        replicates=data_sets,
        rng=1,
    )
    return [uniformity(found[name]) for name in found]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Return blocks of a few cells, those with 12 persons or more."""
    monkeypatch.setattr(joint_move, "FEWEST", 3)
    monkeypatch.setattr(joint_move, "AWAY", 1.5)
    monkeypatch.setattr(table_gibbs, "RELEARN", {LEARNT // 2})


@pytest.mark.deep
@pytest.mark.parametrize("route", NOISE)
def test_ranks_are_uniform(route):
    assert min(p_values(route, DATA_SETS)) > RARE


@pytest.mark.deep
def test_ranks_by_slice_sampling_are_uniform(monkeypatch):
    """Windows of any width are treated as wide."""
    monkeypatch.setattr(table_gibbs, "WIDE", 1)
    chain, wide = TableGibbs.chain, []
    monkeypatch.setattr(TableGibbs, "chain", lambda tables, rng: (wide.append(tables.wide), chain(tables, rng))[1])
    assert min(p_values("walk", DATA_SETS)) > RARE
    assert all(wide)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("route", "wrong"), [("tree", {"sharper": 1.5}), ("walk", {"sharper": 1.5}), ("tree", {"kept": 1})], ids=str
)
def test_faults_are_detected(route, wrong):
    """Noise stated with two thirds of its variance; measurements of single cells omitted."""
    assert min(p_values(route, 300, **wrong)) < RARE


@pytest.mark.deep
def test_moves_without_their_hastings_ratio_are_detected(monkeypatch):
    """The ratio of the proposal probabilities is replaced by 1; only one sweep in six updates lines."""
    advance = table_gibbs.advance
    monkeypatch.setattr(
        table_gibbs,
        "advance",
        lambda fiber, table, weights, along, rng, **options: (
            advance(fiber, table, weights, along, rng, **options) if rng.random() < 1 / 6 else table
        ),
    )
    propose = joint_move.propose
    monkeypatch.setattr(joint_move, "propose", lambda *given: (propose(*given), 0.0)[1])
    monkeypatch.setattr(joint_move, "log_probability", lambda *given: 0.0)
    monkeypatch.setattr(joint_move, "joint_move", joint_move.joint_move.py_func)
    monkeypatch.setattr(table_gibbs, "joint_moves", joint_move.joint_moves.py_func)
    monkeypatch.setattr(table_gibbs, "sweeps", table_gibbs.sweeps.py_func)
    assert min(p_values("walk", 300)) < RARE
