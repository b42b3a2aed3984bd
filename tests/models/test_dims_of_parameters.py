"""Parameters along the wrong dimension of a table with as many labels in both: refused if named dimensions prove it."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.errors import ModelError

COORDS = {"county": ["A", "B"], "month": [1, 2]}
NOISE = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1)
RELEASE = ppd.Release(xr.DataArray([[3, 1], [0, 2]], coords=COORDS), NOISE)
EXPRESSIONS = {
    "last axis": lambda x: x,
    "first axis": lambda x: x[:, None],
    "transposed": lambda x: (x[None, :] + pt.ones((2, 1))).T,
    "nonlinear": lambda x: pt.exp(pt.log1p(x)[:, None] + np.array([0.0, 1.0])),
    "specified shape": lambda x: pt.specify_shape(x[:, None] * pt.ones((2, 2)), (2, 2)),
    "by another": lambda x: pt.switch(x[:, None] > 1, pm.Gamma("other", 2, 1), x[:, None]),
    "both": lambda x: x[:, None] + x[None, :],
}


def log_poisson(x, mu):
    return pm.logp(pm.Poisson.dist(mu), x)


DISTRIBUTIONS = {
    "Poisson": pm.Poisson.dist,
    "negative binomial": lambda mu: pm.NegativeBinomial.dist(mu, 2.0),
    "zero-inflated": lambda mu: pm.ZeroInflatedPoisson.dist(0.5, mu),
    "by its density": lambda mu: pm.CustomDist.dist(
        mu, logp=lambda x, mu: pm.logp(pm.Poisson.dist(mu), x), dtype="int64"
    ),
    "shifted": lambda mu: pm.Poisson.dist(mu, shape=(2, 2)) + 1,
}


def axes_that_change(model, expression):
    """Return the axes of an expression along which the parameter "rate" changes it, by its values."""
    others = {x: np.full(2 if x.ndim else (), 2.0) for x in model.free_RVs if x is not model["rate"]}
    one, other = (
        pt.broadcast_to(expression, (2, 2)).eval({model["rate"]: rate, **others}, on_unused_input="ignore")
        for rate in (np.array([1.0, 1.0]), np.array([1.0, 3.0]))
    )
    ratios = other / one
    return {axis for axis in (0, 1) if not np.allclose(np.take(ratios, 0, axis), np.take(ratios, 1, axis))}


@pytest.mark.parametrize("along", COORDS)
@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_wrong_axes_are_refused_and_right_ones_are_not(expression, along):
    with pm.Model(coords=COORDS) as model:
        made = expression(pm.Gamma("rate", 2, 1, dims=along))
        changing = axes_that_change(model, made)
        if changing == {list(COORDS).index(along)}:
            ppd.PartiallyPrivate("cases", pm.Poisson.dist(made), release=RELEASE)
        else:
            with pytest.raises(ModelError, match=f"has the dimension '{along}' .as 'rate' has. along the dimension"):
                ppd.PartiallyPrivate("cases", pm.Poisson.dist(made), release=RELEASE)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_distributions(distribution):
    with pm.Model(coords=COORDS):
        rate = pm.Gamma("rate", 2, 1, dims=("month", "county"))
        with pytest.raises(ModelError, match=r"x\.T"):
            ppd.PartiallyPrivate("cases", distribution(rate), release=RELEASE)
        ppd.PartiallyPrivate("cases", distribution(rate.T), release=RELEASE)


def test_data_and_deterministics_have_dimensions():
    with pm.Model(coords=COORDS):
        exposure = pm.Data("exposure", np.ones((2, 2)), dims=("month", "county"))
        with pytest.raises(ModelError, match="as 'exposure' has"):
            ppd.PartiallyPrivate("cases", pm.Poisson.dist(pm.HalfNormal("level") * exposure), release=RELEASE)
    with pm.Model(coords=COORDS):
        rate = pm.Deterministic("rate", pm.HalfNormal("level", shape=2) + 1, dims="county")
        with pytest.raises(ModelError, match="dimension 'month' of the table"):
            ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate), release=RELEASE)
        ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate[:, None]), release=RELEASE)


def test_dimensions_that_prove_nothing_are_accepted():
    with pm.Model(coords={**COORDS, "area": [0, 1]}) as model:
        ppd.PartiallyPrivate("by area", pm.Poisson.dist(pm.Gamma("a", 2, 1, dims="area")), release=RELEASE)
        assert [x.name for x in model.observed_RVs] == ["by area_release"]
    places = {"origin": ["A", "B"], "destination": ["A", "B"]}
    moves = ppd.Release(
        xr.DataArray([[3, 1], [0, 2]], coords=places), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1)
    )
    with pm.Model(coords=places):
        attraction = pm.Gamma("attraction", 2, 1, dims="origin")
        ppd.PartiallyPrivate("moves", pm.Poisson.dist(attraction[:, None] * attraction), release=moves)


def test_linear_queries():
    ages = ppd.KNorm(ppd.invariants.total(), epsilon=1, query=np.array([[1, 1, 0, 0], [0, 0, 1, 1]]))
    release = ages.release(np.array([2, 3, 3, 1]))
    with pm.Model(coords={**release.coords, **COORDS}):
        rate = pm.Gamma("rate", 2, 1, dims="county")
        with pytest.raises(ModelError, match=r"'county' .* 'month'"):
            ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate), release=release, dims=("county", "month"))
        ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate[:, None]), release=release, dims=("county", "month"))
