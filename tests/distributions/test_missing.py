"""Missing values among observed dependents of a table, against enumeration of all tables."""

import itertools

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import ppdinf as ppd

pytestmark = pytest.mark.filterwarnings(
    "ignore::pymc.exceptions.ImputationWarning", "ignore:invalid value:RuntimeWarning"
)

NOISY, TOTAL, EPSILON, RATE = np.array([5, -1, 2]), 6, 0.5, np.array([2.0, 1.0, 3.0])
TABLES = np.array([x for x in itertools.product(range(TOTAL + 1), repeat=3) if sum(x) == TOTAL])
WEIGHT = stats.poisson.pmf(TABLES, RATE).prod(axis=1) * np.exp(-EPSILON * abs(TABLES - NOISY).sum(axis=1))
VISITS = np.array([[1, np.nan], [np.nan, 0], [2, 1]])
SHARE = 0.4


def posed(way="auto", share=SHARE):
    release = ppd.Release(NOISY, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))
    with pm.Model(coords=release.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release, marginalize=way)
        pm.Binomial("v", n=x[:, None], p=share, observed=VISITS)
    return model


@pytest.mark.parametrize("way", ["auto", False])
def test_density(way):
    model = posed(way)
    log_density = model.compile_logp()
    assert ("x" in model) == (way is False)
    for missing in ([0, 0], [2, 1], [1, 2]):
        visits = VISITS.copy()
        visits[np.isnan(visits)] = missing
        point = {"v_unobserved": np.array(missing)}
        points = [{**point, "x": table} for table in TABLES] if way is False else [point]
        found = np.log(sum(np.exp(log_density(point)) for point in points))
        wanted = np.log((WEIGHT * stats.binom.pmf(visits, TABLES[:, :, None], SHARE).prod(axis=(1, 2))).sum())
        assert found == pytest.approx(wanted, abs=1e-9)


def test_missing_values_that_are_left_out_are_marginalized():
    """The recipe of docs/inference.md. Wrong variant: missing values are counted as zeros."""
    there = ~np.isnan(VISITS)
    release = ppd.Release(NOISY, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))
    with pm.Model(coords=release.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release)
        pm.Binomial("v", n=x[np.nonzero(there)[0]], p=SHARE, observed=VISITS[there])
    assert not model.free_RVs
    found = model.compile_logp()({})

    def wanted(counted):
        visits = np.where(there, VISITS, 0)
        density = np.where(counted, stats.binom.pmf(visits, TABLES[:, :, None], SHARE), 1.0)
        return np.log((WEIGHT * density.prod(axis=(1, 2))).sum())

    assert found == pytest.approx(wanted(there), abs=1e-9)
    assert abs(wanted(True) - found) > 0.1


@pytest.mark.parametrize("way", ["auto", False])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_chains_start_where_missing_values_are_possible(way, share):
    """Wrong variant: missing values drawn for a prior table, some of which are impossible."""
    model = posed(way, share)
    log_density = model.compile_logp()
    for seed in range(25):
        assert np.isfinite(log_density(model.initial_point(seed)))


def test_later_observations_also_move_the_start():
    release = ppd.Release(np.array([6, -3, 3]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))
    with pm.Model(coords=release.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release)
        pm.Binomial("q", n=x, p=0.9)
        pm.Binomial("d", n=x, p=0.5, observed=[0, 4, 1])
    log_density = model.compile_logp()
    assert all(np.isfinite(log_density(model.initial_point(seed))) for seed in range(10))


@pytest.mark.compiled
@pytest.mark.parametrize("way", ["auto", False])
def test_posterior(way):
    """Missing values are drawn and uninformative: the posterior of the table is that by the observed visits."""
    with posed(way) as model:
        idata = pm.sample(
            4000, tune=500, chains=1, random_seed=1, progressbar=False, quiet=True, compute_convergence_checks=False
        )
    drawn = ppd.sample_confidential(idata, model, random_seed=1).values.reshape(-1, 3)
    there = ~np.isnan(VISITS)
    law = WEIGHT * np.array([stats.binom.pmf(VISITS, x[:, None], SHARE)[there].prod() for x in TABLES])
    law /= law.sum()
    seen = np.array([(drawn == x).all(axis=1).mean() for x in TABLES])
    assert seen.sum() == pytest.approx(1)
    # 400 effective draws give a total variation of 0.06 on average, and above 0.16 less than once in 10^4
    assert 0.5 * abs(seen - law).sum() < 0.16
    assert 0.5 * abs(WEIGHT / WEIGHT.sum() - law).sum() > 0.2


@pytest.mark.parametrize("shaped", [lambda x: x[:, None], lambda x: x[:, None] + np.zeros((3, 2), dtype=int)])
def test_visits_of_each_shape_are_split_by_cell(shaped):
    """The mask of missing values has more dimensions than the table."""
    seen = ppd.Measurements(
        {"a": [0, 1, 2]},
        ppd.measured(ppd.invariants.margin("a"), [0, 0, 2], ppd.laws.RandomRounding(2)),
        bounds=ppd.invariants.nonnegative(),
    )
    with pm.Model() as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), seen, marginalize=False)
        pm.Binomial("v", n=shaped(x), p=SHARE, observed=VISITS)
    log_density = model.compile_logp()
    assert all(np.isfinite(log_density(model.initial_point(seed))) for seed in range(5))
