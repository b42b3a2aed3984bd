"""Posteriors whose labels or dimensions were reordered: every function matches them to the model by label."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.diagnostics.problems import fiber_problems
from ppdinf.errors import LabelError, ModelError
from ppdinf.models.rates import draw_rates

COORDS = {"area": ["A", "B", "C", "D"], "sex": [1, 0]}
COUNTS = np.array([[500, 480], [30, 35], [4, 9], [120, 90]])
RELEASE = ppd.Release(
    xr.DataArray(COUNTS, coords=COORDS), ppd.GeneralizedLaplace(ppd.invariants.margin("sex"), epsilon="1/100")
)
ORDERS = {
    "labels": lambda posterior: posterior.sel(area=list("DBCA")),
    "labels of both": lambda posterior: posterior.sortby("area", ascending=False).sortby("sex"),
    "dimensions": lambda posterior: posterior.transpose("draw", "sex", "area", "chain"),
}


def posed(marginalize):
    with pm.Model(coords=RELEASE.coords) as model:
        rate = pm.Gamma("rate", 2, 0.02, dims=("area", "sex"))
        ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate), RELEASE, marginalize=marginalize)
    return model


def posterior(**more):
    rng = np.random.default_rng(1)
    draws = {"rate": COUNTS * rng.uniform(0.95, 1.05, (1, 5, 4, 2)), **more}
    data = xr.Dataset({name: (("chain", "draw", *COORDS), values) for name, values in draws.items()}, COORDS)
    return xr.DataTree.from_dict({"posterior": data.assign_coords(chain=[0], draw=range(5))})


def reordered(idata, change):
    return xr.DataTree.from_dict({"posterior": change(idata.posterior.to_dataset())})


@pytest.mark.parametrize("change", ORDERS.values(), ids=ORDERS)
def test_marginalized_tables(change):
    model, idata = posed(True), posterior()
    again = reordered(idata, change)
    drawn, same = (ppd.sample_confidential(one, model, random_seed=1) for one in (idata, again))
    xr.testing.assert_equal(*xr.align(drawn, same.transpose(*drawn.dims), join="left"))
    assert (abs(drawn.mean(("chain", "draw")) - COUNTS) < 60).all()
    free = ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1)
    with pm.Model(coords=RELEASE.coords) as model:
        rate = pm.Gamma("rate", 2, 0.02, dims=("area", "sex"))
        ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate), ppd.Release(RELEASE.table, free))
    with pytest.warns(ppd.errors.DiagnosisWarning, match="public groups"):
        left, right = (ppd.log_likelihood(one, model) for one in (posterior(), reordered(posterior(), change)))
    np.testing.assert_array_equal(left.values, right.transpose(*left.dims).values)


@pytest.mark.parametrize("change", ORDERS.values(), ids=ORDERS)
def test_sampled_tables(change):
    model = posed(False)
    again = reordered(posterior(cases=np.tile(COUNTS, (1, 5, 1, 1))), change)
    assert fiber_problems(again, model) == []
    ppd.sample_confidential(again, model)  # warns of windows if cells are exchanged


def test_other_labels_are_refused():
    model, idata = posed(True), posterior()
    for change in (
        lambda data: data.sel(area=["A", "B", "C"]),
        lambda data: data.sel(area=["A", "B", "C", "C"]),
        lambda data: data.assign_coords(area=list("ABCE")),
    ):
        with pytest.raises(ModelError, match="the draws of 'rate' have other labels of 'area' than the model"):
            ppd.sample_confidential(reordered(idata, change), model)


def test_rates_need_the_draws_of_all_labels():
    ones = {"spread": (("chain", "draw"), np.ones((1, 5))), "mean_rate": (("chain", "draw"), np.ones((1, 5)))}
    data = xr.Dataset({**ones, "count": (("chain", "draw", *COORDS), np.tile(COUNTS, (1, 5, 1, 1)))}, COORDS)
    whole = xr.DataTree.from_dict({"posterior": data})
    assert draw_rates(whole, RELEASE, rng=1).shape == (1, 5, 4, 2)
    with pytest.raises(LabelError, match="other labels of 'area' than the release"):
        draw_rates(reordered(whole, lambda one: one.sel(area=["A", "B"])), RELEASE)
