"""Ranks of true tables among posterior draws, 1,000 data sets each by tree and by walk: uniform, and faults are caught.

Tables are Poisson with known rates, so that nothing but tables is drawn: independent ones by the tree, sweeps apart by
the walk, whose large cells move in a block. Three quantities, a p above 1e-5 each: a false alarm in 30,000 runs.
"""

import numpy as np
import pytest
from scipy.special import gammaln

import ppdinf as ppd
from ppdinf.denoising import table_walk
from ppdinf.denoising.count_windows import count_windows
from ppdinf.denoising.table_forest import TableForest
from ppdinf.denoising.table_walk import TableWalk
from ppdinf.diagnostics.calibration import calibrate, uniformity
from ppdinf.distributions.observation.observed_measurements import ObservedMeasurements
from ppdinf.fiber.gibbs import gaussian_block, joint_move

inv, laws = ppd.invariants, ppd.laws
RARE, DATA_SETS, LEARNT, BLOCKS = 1e-5, 1000, 12, 6
RATES = np.outer([40, 12, 1.5], [2, 1, 0.5, 1]).ravel()
CELLS = np.eye(12, dtype=int)
ROWS = 1 * (np.repeat(np.arange(3), 4) == np.arange(3)[:, None])
COLUMNS = 1 * (np.tile(np.arange(4), 3) == np.arange(4)[:, None])
NOISE = {"tree": [(ROWS, 9.0), (CELLS, 16.0)], "walk": [(ROWS, 9.0), (CELLS, 16.0), (COLUMNS, 4.0)]}


def measurements(route, numbers, total, *, sharper=1.0, kept=3):
    """Noisy sums of a table whose total is exact; wrong on purpose: other variances, or the last sums forgotten."""
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
    """A cell, a margin, and how well a table fits what was published."""
    away = [((tables @ rows.T - y) ** 2 / v).sum(axis=1) for (rows, v), y in zip(NOISE[route], numbers, strict=True)]
    return {"cell": tables[:, 1], "margin": tables[:, :4].sum(axis=1), "fit": sum(away)}


def infer(route, given, rng, draws=20, apart=4, **wrong):
    numbers, total = given
    observed = ObservedMeasurements(measurements(route, numbers, total, **wrong))
    windows = count_windows(observed)
    sums = observed.in_forest(windows.lower, windows.counts.shape[1])
    assert (sums is None) == (route == "walk")
    tables = TableWalk(observed, windows) if sums is None else TableForest(sums, windows)
    log_h = -gammaln(np.arange(windows.most + 1.0) + 1)
    slope, chain, found = np.log(RATES), tables.chain(rng), []
    for k in range(-LEARNT, draws * (apart if sums is None else 1)):
        chain.sweep(log_h, slope)
        for _ in range(BLOCKS):
            chain.move_with(None, log_h, slope, tune=k < 0)
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
    """Blocks of a few cells, those with 12 persons or more."""
    monkeypatch.setattr(gaussian_block, "FEWEST", 3)
    monkeypatch.setattr(gaussian_block, "AWAY", 1.5)
    monkeypatch.setattr(table_walk, "LEARNT", {LEARNT // 2})


@pytest.mark.deep
@pytest.mark.parametrize("route", NOISE)
def test_ranks_are_uniform(route):
    assert min(p_values(route, DATA_SETS)) > RARE


@pytest.mark.deep
@pytest.mark.parametrize(
    ("route", "wrong"), [("tree", {"sharper": 1.5}), ("walk", {"sharper": 1.5}), ("tree", {"kept": 1})], ids=str
)
def test_faults_are_caught(route, wrong):
    """Noise said to have two thirds of its variance; the cells' own measurements forgotten."""
    assert min(p_values(route, 300, **wrong)) < RARE


@pytest.mark.deep
def test_moves_without_their_hastings_ratio_are_caught(monkeypatch):
    """In place of the ratio of the proposals' probabilities, 1."""
    propose = joint_move.propose
    monkeypatch.setattr(joint_move, "propose", lambda *given: (propose(*given), 0.0)[1])
    monkeypatch.setattr(joint_move, "log_probability", lambda *given: 0.0)
    monkeypatch.setattr(joint_move, "joint_move", joint_move.joint_move.py_func)
    monkeypatch.setattr(table_walk, "joint_moves", joint_move.joint_moves.py_func)
    assert min(p_values("walk", 300)) < RARE
