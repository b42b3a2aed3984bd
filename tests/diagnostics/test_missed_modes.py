"""A mode that no chain visited is reported; chains that are right are not."""

import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from posteriors_by_quadrature import POSTERIORS, draws_of, exact, model_of

import ppdinf as ppd
from ppdinf._internal.pymc_compat import Apply, Op
from ppdinf.errors import DiagnosisWarning

WRONG = 0.03  # difference of a probability that must be reported


def chains(r):
    return az.from_dict({"posterior": {"r": np.asarray(r).reshape(4, -1)}})


@pytest.mark.quick_cases(0)
def test_chains_in_one_of_two_modes_are_reported_and_right_ones_are_not():
    name = "two modes of one height"
    model, r = model_of(name), draws_of(name, 4000, 1)
    assert ppd.diagnose(chains(r), model).ok
    with pytest.warns(DiagnosisWarning, match=r"P\(r <= .* importance sampling .* missed a mode"):
        assert not ppd.diagnose(chains(np.random.default_rng(2).choice(r[r > 1], 4000)), model).ok


def area_draws(shift=0.0):
    """Return a posterior of two areas with means 0 and 4, and independent draws of it."""
    with pm.Model(coords={"area": ["u", "v"], "sex": ["f"]}) as model:
        prior = pm.Normal("level", [[0.0], [5.0]], [[1.0], [2.0]], dims=("area", "sex"))
        pm.Normal("seen", prior, 1, observed=[[0.0], [3.75]])
    mean, sd = np.array([0.0, 4.0 + shift]), np.sqrt([0.5, 0.8])
    level = np.random.default_rng(5).normal(mean, sd, (4, 1000, 2))[..., None]
    dims, coords = {"level": ["area", "sex"]}, {"area": ["u", "v"], "sex": ["f"]}
    return model, az.from_dict({"posterior": {"level": level}}, dims=dims, coords=coords).posterior.to_dataset()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "change",
    [
        lambda draws: draws,
        lambda draws: draws.isel(area=[1, 0]),
        lambda draws: draws.transpose("sex", "draw", "area", "chain"),
        lambda draws: draws.isel(area=[1]),  # not compared
        lambda draws: draws.assign_coords(area=["u", "w"]),  # not compared
    ],
)
def test_elements_are_compared_by_their_labels(change):
    model, draws = area_draws()
    assert ppd.diagnose(xr.DataTree.from_dict({"posterior": change(draws)}), model).ok


def test_the_element_that_differs_is_named_by_its_label():
    model, draws = area_draws(shift=1.0)
    with pytest.warns(DiagnosisWarning, match=r"P\(level\[v, f\] <= "):
        ppd.diagnose(xr.DataTree.from_dict({"posterior": draws.isel(area=[1, 0])}), model)


class Density(Op):
    """A density without gradient."""

    def make_node(self, x):
        return Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.array(-((inputs[0] - 1.0) ** 2) / 2)


def test_a_density_without_gradient_is_not_compared():
    with pm.Model() as model:
        pm.Potential("seen", Density()(pm.Normal("r", 0, 1)))
    assert ppd.diagnose(chains(np.random.default_rng(6).normal(0.5, np.sqrt(0.5), 4000)), model).ok


@pytest.mark.deep
def test_wrong_shares_of_two_modes_are_noticed():
    """Chains that mix between both modes, but spend too little time in the left one."""
    name = "two modes of one height"
    model, r, rng = model_of(name), draws_of(name, 4000, 3), np.random.default_rng(4)
    left = rng.random(4000) < 1 - exact(name)[1][0] - 0.12
    wrong = np.where(left, rng.choice(r[r <= 1], 4000), rng.choice(r[r > 1], 4000))
    with pytest.warns(DiagnosisWarning, match="importance sampling"):
        ppd.diagnose(chains(wrong), model)


@pytest.mark.deep
@pytest.mark.parametrize("name", POSTERIORS)
def test_nuts_is_right_or_reported(name):
    with model_of(name) as model:
        idata = pm.sample(1000, tune=1000, chains=4, cores=2, random_seed=1, progressbar=False, quiet=True)
    r = idata.posterior["r"].values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosisWarning)
        found = ppd.diagnose(idata, model)
    wrong = max(abs(np.mean(r > t) - p) for t, p in zip(POSTERIORS[name][3], exact(name)[1], strict=True))
    assert wrong < WRONG or not found.ok


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name in POSTERIORS if name != "waves"])
def test_right_draws_are_never_reported(name):
    """11 samples with 82 comparisons at 5 standard errors: a false alarm in 2,000 runs."""
    assert ppd.diagnose(chains(draws_of(name, 4000, 10)), model_of(name)).ok
