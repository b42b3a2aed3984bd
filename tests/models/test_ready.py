"""Log rates with effects: the law is the one stated, whichever coordinates chains move in."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.stats import halfnorm, norm

import ppdinf as ppd
from ppdinf.errors import LabelError, ModelError
from ppdinf.models.ready import log_rates

STATES = ["a", "a", "b", "b", "b", "c"]
PEOPLE = np.array([100, 4000, 50, 3000, 900, 70])


def as_function(model, what):
    """Compile a quantity of the model as a function of what chains move."""
    (of_values,) = model.replace_rvs_by_values([what])
    return model.compile_fn(of_values, inputs=model.value_vars, on_unused_input="ignore")


def release(public, values=(3, 40, 0, 21, 7, 1), epsilon=1):
    table = xr.DataArray(
        np.array(values),
        dims="county",
        coords={"county": list("uvwxyz"), "state": ("county", STATES), "people": ("county", PEOPLE)},
    )
    return ppd.Release(
        table, ppd.GeneralizedLaplace(public & ppd.invariants.covariates("people", "state"), epsilon=epsilon)
    )


PUBLIC = {
    "states": ppd.invariants.groups("state"),
    "total": ppd.invariants.total(),
    "none": ppd.invariants.covariates("people"),
}


@pytest.mark.parametrize("public", PUBLIC)
def test_priors_are_those_stated_in_whatever_coordinates(public):
    """Density of what moves, against the stated density of what it means with the Jacobian by differences."""
    with pm.Model() as model:
        log_rate = log_rates(release(PUBLIC[public]), ["state", "county"], exposure="people")
        # intercept, effects of both
        told = [model[name] for name in ("intercept", "state_effect", "county_effect")]
        meaning = pm.math.concatenate([pm.math.flatten(pm.math.stack([told[0]])), told[1], told[2]])
    names = [v.name for v in model.value_vars]
    rng = np.random.default_rng(3)
    point = {v.name: rng.normal(0, 0.3, model.initial_point()[v.name].shape) for v in model.value_vars}
    moved = [name for name in names if not name.endswith("spread_log__")]
    function = as_function(model, meaning)

    def meant(flat):
        here, at = dict(point), 0
        for name in moved:
            size = point[name].size
            here[name] = flat[at : at + size].reshape(point[name].shape)
            at += size
        return function(here)

    flat = np.concatenate([point[name].ravel() for name in moved])
    step = 1e-6
    jacobian = [(meant(flat + step * e) - meant(flat - step * e)) / (2 * step) for e in np.eye(flat.size)]
    value = meant(flat)
    spread = {name: np.exp(point[f"{name}_spread_log__"]) for name in ("state", "county")}
    overall = np.log(72 / PEOPLE.sum())
    expected = norm(overall, 2.5).logpdf(value[0]) + norm(0, spread["state"]).logpdf(value[1:4]).sum()
    expected += norm(0, spread["county"]).logpdf(value[4:]).sum() + np.linalg.slogdet(jacobian)[1]
    expected += sum(halfnorm.logpdf(s) + np.log(s) for s in spread.values())
    assert model.compile_logp()(point) == pytest.approx(expected, rel=1e-6)
    wrong = expected - norm(overall, 2.5).logpdf(value[0]) + norm(overall, 2.0).logpdf(value[0])
    assert abs(wrong - expected) > 1e-3
    rates = as_function(model, log_rate)(point)
    state = np.array([0, 0, 1, 1, 1, 2])
    np.testing.assert_allclose(rates, value[0] + value[1:4][state] + value[4:], rtol=1e-12)


def test_what_bears_the_public_sums_moves_by_them():
    names = {}
    for public, statement in PUBLIC.items():
        with pm.Model() as model:
            log_rates(release(statement), ["state", "county"], exposure="people")
        names[public] = [v.name for v in model.free_RVs]
    assert names["states"] == ["intercept", "county_spread", "county_moved", "state_spread", "state_moved"]
    assert names["none"] == ["intercept", "state_spread", "state_moved", "county_spread", "county_moved"]
    assert names["total"][-1] == "intercept_moved"


def test_public_sums_are_met_where_what_moves_is_zero():
    """Where much is told, chains start where expected sums are nearly those of the release."""
    with pm.Model() as model:
        log_rate = log_rates(
            release(PUBLIC["states"], values=(300, 9000, 20, 4000, 100, 700)), ["state"], exposure="people"
        )
    point = model.initial_point()
    rates = as_function(model, log_rate)(point)
    np.testing.assert_allclose(
        np.bincount([0, 0, 1, 1, 1, 2], weights=np.exp(rates) * PEOPLE), [9300, 4120, 700], rtol=0.05
    )


def test_tables_of_two_dimensions_and_refusals():
    table = xr.DataArray(
        np.arange(6).reshape(3, 2), dims=("age", "sex"), coords={"age": list("abc"), "sex": list("fm")}
    )
    two = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.margin("sex"), epsilon=1))
    with pm.Model() as model:
        log_rate = log_rates(two, ["age", "sex"])
        assert [v.name for v in model.free_RVs][-1] == "sex_moved"
        drawn = pm.draw([log_rate, model["intercept"], model["age_effect"], model["sex_effect"]], random_seed=1)
    np.testing.assert_allclose(drawn[0], drawn[1] + drawn[2][:, None] + drawn[3])
    with pm.Model(), pytest.raises(ModelError, match="twice"):
        log_rates(two, ["age", "age"])
    with pm.Model(), pytest.raises(LabelError):
        log_rates(two, ["region"])
