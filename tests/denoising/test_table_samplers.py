"""Samplers of tables given their prior: ranks of true tables, and generalized least squares for large counts."""

import numpy as np
import pytest
from scipy import linalg
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


@pytest.fixture
def small(monkeypatch):
    """Return blocks of a few cells, those with 12 persons or more."""
    monkeypatch.setattr(joint_move, "FEWEST", 3)
    monkeypatch.setattr(joint_move, "AWAY", 1.5)
    monkeypatch.setattr(table_gibbs, "RELEARN", {LEARNT // 2})


@pytest.mark.deep
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("route", NOISE)
def test_ranks_are_uniform(route):
    assert min(p_values(route, DATA_SETS)) > RARE


@pytest.mark.deep
@pytest.mark.usefixtures("small")
def test_ranks_by_slice_sampling_are_uniform(monkeypatch):
    """Windows of any width are treated as wide."""
    monkeypatch.setattr(table_gibbs, "WIDE", 1)
    chain, wide = TableGibbs.chain, []
    monkeypatch.setattr(TableGibbs, "chain", lambda tables, rng: (wide.append(tables.wide), chain(tables, rng))[1])
    assert min(p_values("walk", DATA_SETS)) > RARE
    assert all(wide)


@pytest.mark.deep
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("route", "wrong"), [("tree", {"sharper": 1.5}), ("walk", {"sharper": 1.5}), ("tree", {"kept": 1})], ids=str
)
def test_faults_are_detected(route, wrong):
    """Noise stated with two thirds of its variance; measurements of single cells omitted."""
    assert min(p_values(route, 300, **wrong)) < RARE


@pytest.mark.deep
@pytest.mark.usefixtures("small")
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
    monkeypatch.setattr(joint_move, "log_probability_back", lambda *given: 0.0)
    monkeypatch.setattr(joint_move, "joint_move", joint_move.joint_move.py_func)
    monkeypatch.setattr(table_gibbs, "joint_moves", joint_move.joint_moves.py_func)
    monkeypatch.setattr(table_gibbs, "sweeps", table_gibbs.sweeps.py_func)
    assert min(p_values("walk", 300)) < RARE


D = 12
BY_COUNTY = (np.repeat(np.arange(4), 3) == np.arange(4)[:, None]).astype(int)
BY_STATE = (np.repeat(np.arange(2), 6) == np.arange(2)[:, None]).astype(int)
ACROSS = (np.arange(D) % 3 == np.arange(3)[:, None]).astype(int)
TREE = [(CELLS, 50.0), (BY_COUNTY, 20.0), (BY_STATE, 10.0)]
OVERLAPPING = [(CELLS, 80.0), (ACROSS, 10.0), (BY_COUNTY, 20.0)]


def problem(queries, *, scale=1.0):
    """Return measurements of a table with exact total, mean and covariance by least squares; noise times `scale`."""
    rng = np.random.default_rng(1)
    x = rng.integers(4000, 9000, D)
    Q, v = np.vstack([q for q, _ in queries]), np.concatenate([np.full(len(q), v) for q, v in queries])
    y = np.rint(Q @ x + rng.normal(0, np.sqrt(v))).astype(int)
    starts = np.cumsum([0, *(len(q) for q, _ in queries)])
    parts = [
        ppd.measured(inv.linear(q), y[start : start + len(q)], laws.DiscreteGaussian(variance=scale * v))
        for (q, v), start in zip(queries, starts, strict=False)
    ]
    seen = ppd.Measurements({"cell": range(D)}, *parts, public={inv.total(): int(x.sum())})
    precision, ones = Q.T @ (Q / v[:, None]), np.ones((1, D))
    inverse = linalg.inv(np.block([[precision, ones.T], [ones, np.zeros((1, 1))]]))
    mean = (inverse @ np.append(Q.T @ (y / v), x.sum()))[:D]
    return seen, mean, inverse[:D, :D]


def test_means_of_nested_sums_are_those_of_least_squares():
    """Without sampling: the mean of every cell to 1e-3 persons, its variance likewise."""
    seen, mean, covariance = problem(TREE)
    observed = ObservedMeasurements(seen)
    windows = published_windows(observed)
    sums = observed.in_forest(windows.lower, windows.counts.shape[1])
    found = sums.evaluate(windows.log_noise.ravel()).posteriors()
    assert found.cell_mean == pytest.approx(mean, abs=1e-3)
    assert found.cell_variance == pytest.approx(np.diag(covariance), rel=1e-3)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(
    "queries", [TREE, pytest.param(OVERLAPPING, marks=pytest.mark.deep)], ids=["tree", "overlapping"]
)
def test_draws_have_the_moments_of_least_squares(queries):
    """12 means and 78 covariances within 4.5 standard errors: false alarms 1 in 1,000. Noise 5 % off fails."""
    seen, mean, covariance = problem(queries)
    posterior = ppd.denoise(seen, draws=3000, prior="flat", rng=1, progressbar=False)
    draws, n = posterior.draws.values.reshape(-1, D), float(posterior.convergence.ess_bulk.min())
    spread = np.diag(covariance)
    assert np.abs((draws.mean(axis=0) - mean) / np.sqrt(spread / n)).max() < 4.5
    errors = np.sqrt((np.outer(spread, spread) + covariance**2) / n)
    assert np.abs((np.cov(draws.T) - covariance) / errors).max() < 4.5
    assert np.abs((np.cov(draws.T) - covariance * 1.05**2) / errors).max() > 4.5


def test_lengths_of_moves_are_known_where_a_range_stands_beside_wide_noise():
    """Windows contain 10^5 counts; the range of one cell allows two of them."""
    rows, columns = np.kron(np.eye(2, dtype=int), [1, 1]), np.kron([1, 1], np.eye(2, dtype=int))
    wide = [
        ppd.measured(inv.linear(sums), y, laws.DiscreteGaussian(10_000.0))
        for sums, y in [
            (np.eye(4, dtype=int)[1:], [50_000, 70_000, 90_000]),
            (rows, [50_000, 160_000]),
            (columns, [70_000, 140_000]),
        ]
    ]
    told = ppd.measured(inv.linear([[1, 0, 0, 0]]), ["300-301"], laws.Interval())
    observed = ObservedMeasurements(ppd.Measurements({"cell": range(4)}, told, *wide))
    walk = TableGibbs(observed, published_windows(observed))
    assert walk.wide
    prior = walk.start + 1.0
    np.testing.assert_allclose(1 / walk.variances - 1 / prior, 1 / np.array([0.25, 1e8, 1e8, 1e8]), rtol=0.01)
