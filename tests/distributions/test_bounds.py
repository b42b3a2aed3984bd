"""The joint density of a table and published numbers: -inf exactly for tables outside public sums and bounds."""

import itertools

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import ppdinf as ppd

inv, laws = ppd.invariants, ppd.laws
COUNTS = np.array(list(itertools.product(range(-1, 5), repeat=3)))
BOUNDS = {
    "between": (inv.between(0, 3), lambda x: x.max() <= 3),
    "order of cells": (inv.at_least(0, 1, dim="a"), lambda x: x[0] >= x[1]),
    "sum": (inv.inequality([[1, 2, -1]], [1]), lambda x: x[0] + 2 * x[1] - x[2] >= 1),
    "sum with negative end": (inv.inequality([[-1, 0, -1]], [-4]), lambda x: x[0] + x[2] <= 4),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("name", "total", "published"),
    [
        ("between", None, "measured"), ("order of cells", 5, "measured"), ("sum", None, "measured"),
        ("sum with negative end", 5, "released"), ("between", 5, "released"), ("order of cells", None, "released"),
    ],
)  # fmt: skip
def test_tables_outside_of_bounds_have_no_density(name, total, published):
    bounds, holds = BOUNDS[name]
    y = np.array([2, 2, 1])
    public = bounds if total is None else inv.total() & bounds
    if published == "measured":
        law = laws.DoubleGeometric(1)
        seen = ppd.Measurements(
            {"a": [0, 1, 2]}, ppd.measured(inv.margin("a"), y.tolist(), law),
            public=None if total is None else {inv.total(): total}, bounds=bounds,
        )  # fmt: skip
    else:
        seen = ppd.Release(ppd.as_table(y, dims=("a",)), ppd.GeneralizedLaplace(public, epsilon=1))
    with pm.Model(coords={"a": [0, 1, 2]}) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(np.array([1.0, 2.0, 3.0])), release=seen, marginalize=False)
    logp = model.compile_logp()
    found = np.array([float(logp({"x": x})) for x in COUNTS])
    possible = np.array([holds(x) and x.min() >= 0 and total in (None, x.sum()) for x in COUNTS])
    assert (np.isfinite(found) == possible).all()
    away = abs(COUNTS - y)[possible].sum(axis=1)
    expected = stats.poisson([1, 2, 3]).logpmf(COUNTS[possible]).sum(axis=1) - away
    assert np.ptp(found[possible] - expected) < 1e-9


OFF = [[0, 2, -1], [0, 20, -19], [-1, 1, 1], [0, 1000, -999]]


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("way", ["PartiallyPrivate", "Released"])
@pytest.mark.parametrize("kind", ["l1", "l2", "conditioned"])
def test_normalizers_are_not_needed_outside_of_bounds(kind, way):
    """Wrong variant: an error, for no release is in reach of such a table and the total weight of releases is 0."""
    public = inv.total() & inv.nonnegative()
    if kind == "conditioned":
        mechanism = ppd.Conditioned(public, laws.DoubleGeometric(1))
    else:
        mechanism = ppd.WassersteinExponential(public, epsilon=1, sensitivity=2, secrets="s", loss=kind)
    with pm.Model() as model:
        if way == "Released":
            ppd.models.Released("y", mechanism, pm.DiscreteUniform("x", -2000, 2000, shape=3), observed=[0, 1, 0])
        else:
            release = ppd.Release(np.array([0, 1, 0]), mechanism)
            ppd.PartiallyPrivate("x", pm.DiscreteUniform.dist(-2000, 2000, shape=3), release, marginalize=False)
    logp = model.compile_logp()
    scale = {v.name: np.array(0.0) for v in model.value_vars if v.name != "x"}
    assert [float(logp({"x": np.array(x), **scale})) for x in OFF] == [-np.inf] * len(OFF)
    assert np.isfinite(logp({"x": np.array([0, 0, 1]), **scale}))
