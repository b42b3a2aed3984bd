"""Tables of nested models, against enumeration of all tables."""

import itertools

import noise_totals
import numpy as np
import pymc as pm
import pytest
from scipy import stats

import ppdinf as ppd

NOISY, TOTAL, EPSILON, RATE = np.array([5, -1, 2]), 6, 0.5, np.array([2.0, 1.0, 3.0])
TABLES = np.array([x for x in itertools.product(range(TOTAL + 1), repeat=3) if sum(x) == TOTAL])
NOISE = -EPSILON * abs(TABLES - NOISY).sum(axis=1) - noise_totals.log_total(EPSILON, 3)


def log_total(log_rate, factor):
    log_weight = stats.poisson.logpmf(TABLES, np.exp(log_rate) * RATE).sum(axis=1) + NOISE
    return stats.norm.logpdf(log_rate) + np.log((np.exp(log_weight) * factor).sum())


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", ["auto", True, False])
@pytest.mark.parametrize("name", ["", "inner"])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_rates_of_the_outer_model(name, way, kind):
    """A table in an inner model, its rate and its dependents in the outer model."""
    release = ppd.Release(NOISY, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))
    with pm.Model(coords=release.coords) as model:
        log_rate = pm.Normal("log_rate")
        with pm.Model(name=name, coords=release.coords):
            own = pm.math.exp(log_rate) * RATE.astype(kind)
            x = ppd.PartiallyPrivate("x", pm.Poisson.dist(own), release, marginalize=way)
        pm.Poisson("d", 1 + x[0], observed=3)
    assert len(model.free_RVs) == 1 + (way is False)
    log_density = model.compile_logp()
    for at in (-0.5, 0.4):
        point = {"log_rate": np.array(at)}
        points = [{**point, x.name: table} for table in TABLES] if way is False else [point]
        found = np.logaddexp.reduce([log_density(point) for point in points])
        assert found == pytest.approx(log_total(at, stats.poisson.pmf(3, 1 + TABLES[:, 0])), abs=1e-9)


def test_a_dependent_of_several_cells_makes_the_table_a_variable_of_the_outer_model():
    release = ppd.Release(NOISY, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))
    with pm.Model(coords=release.coords) as model:
        with pm.Model(name="inner", coords=release.coords):
            x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release)
        assert not model.free_RVs
        pm.Normal("d", x[:2].sum(), 1, observed=3)
    assert model["inner::x"] is x
    assert [v.name for v in model.free_RVs] == ["inner::x"]
