"""Cells with the same published count, bounds and support share one row of weights; sums equal those cell by cell."""

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf._internal.pymc_compat import ancestors
from ppdinf.distributions import build_fiber, confidential_rv, ops, windows
from ppdinf.distributions.ops import GammaSums
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import ModelError
from ppdinf.fiber.node_plans import no_nodes
from ppdinf.invariants import Public, inequality, nonnegative, total
from ppdinf.lattice import rows

Y = np.array([3, 3, 0, 3, -1, 3, 0, 5])
EXPOSURE = np.array([1.0, 0.0, 1.0, 2.0, 1.0, 0.0, 2.0, 1.0])
N = np.array([4, 9, 4, 9, 4, 4, 9, 9])
DEATHS = np.array([0, 1, 0, 2, 0, 0, 0, 1])
EPSILON = 1.5
COUNTS = np.arange(200)
UNIT = np.eye(8, dtype=int)


SLOPE = np.array([0.1, 1.0, -0.5, 0.8, 0.3, -1.0, 0.5, -0.2])  # otherwise sums given the total are free of parameters
LEAST, MOST = np.where(np.arange(8) == 5, 4, 0), np.where(np.arange(8) == 3, 2, 999)


def probability(t):
    return 1 / (1 + np.exp(-SLOPE * t))[:, None]


def mean(t):
    return np.exp(SLOPE * t)[:, None]


def bounded(t):
    inside = (LEAST[:, None] <= COUNTS) & (MOST[:, None] >= COUNTS)
    return np.where(inside, stats.poisson.pmf(COUNTS, mean(t)), 0.0)


# the data model, the probability of each count of each cell given a parameter, and public statements besides the total
CASES = {
    "rates of 0": (
        lambda t: pm.Poisson.dist(pm.math.exp(t * SLOPE) * EXPOSURE),
        lambda t: stats.poisson.pmf(COUNTS, mean(t) * EXPOSURE[:, None]), (),
    ),
    "numbers of trials": (
        lambda t: pm.Binomial.dist(N, pm.math.invlogit(t * SLOPE)),
        lambda t: stats.binom.pmf(COUNTS, N[:, None], probability(t)), (),
    ),
    "sizes": (
        lambda t: pm.NegativeBinomial.dist(mu=pm.math.exp(t * SLOPE), alpha=N.astype(float)),
        lambda t: stats.nbinom.pmf(COUNTS, N[:, None], N[:, None] / (N[:, None] + mean(t))), (),
    ),
    "a free shape": (
        lambda t: pm.NegativeBinomial.dist(mu=EXPOSURE + 1, alpha=pm.math.exp(t)),
        lambda t: stats.nbinom.pmf(COUNTS, np.exp(t), np.exp(t) / (np.exp(t) + 1 + EXPOSURE[:, None])), (),
    ),
    "a free shape and deaths": (
        lambda t: pm.NegativeBinomial.dist(mu=EXPOSURE + 1, alpha=pm.math.exp(t)),
        lambda t: stats.nbinom.pmf(COUNTS, np.exp(t), np.exp(t) / (np.exp(t) + 1 + EXPOSURE[:, None]))
        * stats.binom.pmf(DEATHS[:, None], COUNTS, 0.3), (),
    ),
    "free shapes and numbers of trials": (
        lambda t: pm.BetaBinomial.dist(n=N, alpha=pm.math.exp(t), beta=2.0),
        lambda t: stats.betabinom.pmf(COUNTS, N[:, None], np.exp(t), 2.0), (),
    ),
    "bounds of some cells": (
        lambda t: pm.Poisson.dist(pm.math.exp(t * SLOPE)), bounded,
        (inequality(-2 * UNIT[[3]], [-5]), inequality(UNIT[[5]], [4]), nonnegative()),
    ),
    "deaths": (
        lambda t: pm.Poisson.dist(pm.math.exp(t * SLOPE) * 2),
        lambda t: stats.poisson.pmf(COUNTS, mean(t) * 2) * stats.binom.pmf(DEATHS[:, None], COUNTS, 0.3), (),
    ),
}  # fmt: skip


def model_of(name, exact=True):
    dist, _, statements = CASES[name]
    public = total() if exact else Public(())
    for statement in statements:
        public &= statement
    release = ppd.Release(Y, ppd.GeneralizedLaplace(public, epsilon=EPSILON))
    with pm.Model(coords=release.coords) as model:
        x = ppd.PartiallyPrivate("x", dist(pm.Normal("t", 0, 1)), release=release)
        if name.endswith("deaths"):
            pm.Binomial("deaths", n=x, p=0.3, observed=DEATHS)
    return model


def differences(model):
    """Return differences of the log density of a model between parameters, and the derivative, without the prior."""
    logp, slope = model.compile_logp(), model.compile_dlogp()
    value = [float(logp({"t": np.array(t)})) - stats.norm.logpdf(t) for t in (-0.4, 0.3, 1.1)]
    return np.append(np.diff(value), slope({"t": np.array(0.3)})[0] + 0.3)


def convolved(law, exact):
    """Return the same numbers from sums cell by cell, over all counts."""

    def log_weight(t):
        weights = (CASES[law][1] if law in CASES else law)(t) * np.exp(-EPSILON * abs(Y[:, None] - COUNTS))
        if not exact:
            return np.log(weights.sum(axis=1)).sum()
        of_sum = np.ones(1)
        for own in weights:
            of_sum = np.convolve(of_sum, own)
        return np.log(of_sum[Y.sum()])

    value = [log_weight(t) for t in (-0.4, 0.3, 1.1)]
    return np.append(np.diff(value), (log_weight(0.3 + 1e-5) - log_weight(0.3 - 1e-5)) / 2e-5)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_shared_rows_have_the_sums_of_all_cells(name, exact):
    model = model_of(name, exact)
    noise = tables_of(model)[0].law.fiber.noise
    assert len(noise.values) < Y.size  # some cells share a row
    np.testing.assert_allclose(differences(model), convolved(name, exact), rtol=1e-8, atol=1e-8)


def evaluate_ratios(monkeypatch, by_nodes):
    monkeypatch.setattr(confidential_rv, "OF_NODES", 0)
    if not by_nodes:
        monkeypatch.setattr(ops, "plan_nodes", lambda *given: no_nodes(Y.size, given[-1]))
    monkeypatch.setattr(ops, "shared_constants", lambda _, compute: pytensor.shared(compute()))


RATIOS = "a free shape", "a free shape and deaths", "free shapes and numbers of trials"


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", RATIOS)
@pytest.mark.parametrize("by_nodes", [True, False])
def test_ratios_of_gamma_functions_share_rows(monkeypatch, by_nodes, name, exact):
    """Though windows are so narrow that all log weights would be listed."""
    evaluate_ratios(monkeypatch, by_nodes)
    model = model_of(name, exact)
    assert any(isinstance(x.owner and x.owner.op, GammaSums) for x in ancestors([model.logp()]))
    np.testing.assert_allclose(differences(model), convolved(name, exact), rtol=1e-8, atol=1e-8)


def test_rows_shared_by_released_count_alone_are_detected(monkeypatch):
    monkeypatch.setattr(windows, "kinds_of", lambda observed, _: np.unique(observed.y, return_inverse=True)[1])
    monkeypatch.setattr(build_fiber, "kinds_of", windows.kinds_of)
    found = differences(model_of("bounds of some cells"))
    assert not np.allclose(found, convolved("bounds of some cells", True), rtol=1e-4)


@pytest.mark.parametrize("name", ["sizes", "deaths"])
def test_sharing_by_noise_alone_is_detected(monkeypatch, name):
    monkeypatch.setattr(confidential_rv, "kinds", lambda columns: rows.kinds(columns[:1]))
    assert not np.allclose(differences(model_of(name)), convolved(name, True), rtol=1e-4)


def test_kinds_agree_in_every_column():
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, 3, 200), rng.choice([-np.inf, 0.5, np.inf], 200), rng.integers(0, 2, 200) == 1]
    first, of = rows.kinds(columns)
    table = np.stack([column.astype(float) for column in columns], axis=1)
    assert (table[first][of] == table).all()
    assert len(first) == len(np.unique(table, axis=0))
    every, own = rows.kinds([np.array([5, 2, 9])])
    assert every.tolist() == own.tolist() == [0, 1, 2]  # distinct cells keep their order


def test_exposures_that_become_0_after_the_model_is_built():
    release = ppd.Release(Y, ppd.GeneralizedLaplace(total(), epsilon=EPSILON))
    with pm.Model(coords=release.coords) as model:
        exposure = pm.Data("exposure", np.ones(8))
        ppd.PartiallyPrivate(
            "x", pm.Poisson.dist(pm.math.exp(SLOPE * pm.Normal("t", 0, 1)) * exposure), release=release
        )
        assert len(tables_of(model)[0].law.fiber.noise.values) == len(set(Y))
        pm.set_data({"exposure": EXPOSURE})
    np.testing.assert_allclose(differences(model), convolved("rates of 0", True), rtol=1e-8)


@pytest.mark.parametrize("by_nodes", [True, False])
def test_two_tables_of_two_dimensions_whose_shapes_become_different(monkeypatch, by_nodes):
    """One is transposed; a common shape is replaced by one for each cell after the model is built."""
    evaluate_ratios(monkeypatch, by_nodes)
    wide = xr.DataArray(Y.reshape(2, 4), {"a": [0, 1], "b": range(4)}, ("a", "b"))
    with pm.Model(coords=wide.coords) as model:
        shape = pm.Data("shape", np.full((2, 4), 2.0))
        rate = pm.math.exp(pm.Normal("t", 0, 1) * SLOPE.reshape(2, 4))
        for name, table, own in (("x", wide, (rate, shape)), ("y", wide.T, (rate.T, shape.T))):
            release = ppd.Release(table, ppd.GeneralizedLaplace(total(), epsilon=EPSILON))
            ppd.PartiallyPrivate(name, pm.NegativeBinomial.dist(mu=own[0], alpha=own[1]), release=release)
    assert sum(isinstance(x.owner and x.owner.op, GammaSums) for x in ancestors([model.logp()])) == 2
    for shapes in (np.full(8, 2.0), N / 3):
        with model:
            pm.set_data({"shape": shapes.reshape(2, 4)})
        size = shapes[:, None]
        exact = convolved(lambda t, n=size: stats.nbinom.pmf(COUNTS, n, n / (n + mean(t))), True)
        np.testing.assert_allclose(differences(model), 2 * exact, rtol=1e-8, atol=1e-8)


D = 20_000
RNG = np.random.default_rng(1)
MEAN = np.exp(RNG.normal(2.5, 0.8, D))
MEAN[7] = 1e6
NOISY = RNG.poisson(MEAN) + RNG.laplace(0, 1, D).round().astype(int)
LARGE = {
    "Poisson": (lambda t: pm.Poisson.dist(MEAN * pm.math.exp(t)), lambda t: stats.poisson(np.exp(t) * MEAN[:, None])),
    "a free shape": (
        lambda t: pm.NegativeBinomial.dist(mu=MEAN, alpha=9 + t),
        lambda t: stats.nbinom(9 + t, (9 + t) / (9 + t + MEAN[:, None])),
    ),
}


def large(dist):
    release = ppd.Release(NOISY, ppd.GeneralizedLaplace(Public(()), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", dist(pm.Normal("t", 0, 0.1)), release=release)
    return model


@pytest.mark.parametrize("name", LARGE)
def test_a_large_skewed_table_has_few_rows(monkeypatch, name):
    """Cells with the same released count share a row; one count of a million widens no other cell's list of weights."""
    dist, law = LARGE[name]
    monkeypatch.setattr(confidential_rv, "LISTED", 10**6)
    model = large(dist)
    fiber = tables_of(model)[0].law.fiber
    assert fiber.noise.values.size < D * fiber.width / 50
    logp = model.compile_logp()
    counts = np.maximum(NOISY, 0)[:, None] + np.arange(-60, 61)

    def by_cell(t):
        log = law(t).logpmf(counts) - abs(NOISY[:, None] - counts)
        return logsumexp(log, axis=1).sum() + stats.norm.logpdf(t, 0, 0.1)

    found = float(logp({"t": np.array(0.001)})) - float(logp({"t": np.array(-0.001)}))
    np.testing.assert_allclose(found, by_cell(0.001) - by_cell(-0.001), rtol=1e-7)
    monkeypatch.setattr(rows, "LISTED", 10**6)
    with pytest.raises(ModelError, match=r"20,000 cells with windows of \d+ counts have more than 1,000,000 weights"):
        _ = fiber.log_noise


def test_a_large_table_is_refused_if_weights_must_be_listed_by_cell(monkeypatch):
    model = large(lambda t: pm.NegativeBinomial.dist(mu=MEAN, alpha=MEAN * pm.math.exp(t)))
    monkeypatch.setattr(confidential_rv, "LISTED", 10**6)
    monkeypatch.setattr(rows, "LISTED", 10**6)
    with pytest.raises(ModelError, match="can be listed by cell"):
        model.logp()
