"""Predictions for new labels after `pm.set_data`: the data model, not the old release, against exact moments."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning, ModelError

inv = ppd.invariants

DRAWS, COVARIATES = 1000, np.array([0.0, 0.5, 1.0, 1.5])
MEANS = np.exp(1.0 + 0.8 * COVARIATES)


def posed(way, public=None):
    table = xr.DataArray([3, 5, 9], dims="area", coords={"area": list("ABC"), "state": ("area", list("xxy"))})
    public = inv.total() if public is None else public
    release = ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=1))
    with pm.Model(coords=release.coords) as model:
        z = pm.Data("z", [0.0, 1.0, 2.0], dims="area")
        visits = pm.Data("visits", [1, 2, 3], dims="area")
        a = pm.Normal("a", 0, 1)
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(a + 0.8 * z)), release, marginalize=way)
        pm.Binomial("v", n=x, p=0.5, observed=visits, dims="area")
    return model


def posterior(**further):
    """Draws of the parameter, all 1, and tables of the old labels."""
    coords = {"chain": [0], "draw": np.arange(DRAWS), "area": list("ABC")}
    draws = xr.Dataset({"a": (("chain", "draw"), np.ones((1, DRAWS))), **further}, coords=coords)
    return xr.DataTree.from_dict({"posterior": draws})


def rename(model):
    with model:
        pm.set_data({"z": COVARIATES, "visits": np.zeros(4, dtype=int)}, coords={"area": list("DEFG")})


def predicted(model, idata, **kwargs):
    options = {"predictions": True, "progressbar": False, "random_seed": 1, "compile_kwargs": {"mode": "FAST_COMPILE"}}
    return pm.sample_posterior_predictive(idata, model, **options, **kwargs).predictions


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", ["auto", False])
def test_tables_of_new_labels_follow_the_data_model(way):
    """Wrong variant: the old table, or one whose total is the old public sum. Five standard errors."""
    old = (("chain", "draw", "area"), np.full((1, DRAWS, 3), [3, 5, 9]))
    model, idata = posed(way), posterior(x=old)
    rename(model)
    drawn = predicted(model, idata)
    assert set(drawn.data_vars) == {"x", "v"}
    assert drawn.x.area.values.tolist() == drawn.v.area.values.tolist() == list("DEFG")
    x, v = drawn.x.values[0], drawn.v.values[0]
    error = np.sqrt(MEANS / DRAWS)
    assert (abs(x.mean(axis=0) - MEANS) < 5 * error).all()
    assert (abs(x.var(axis=0) / MEANS - 1) < 5 * np.sqrt((2 + 1 / MEANS) / DRAWS)).all()
    assert (abs(v.mean(axis=0) - MEANS / 2) < 5 * error).all()
    assert (v <= x).all()
    assert len(set(x.sum(axis=1).tolist())) > 10
    assert "x" in idata.posterior  # the given draws are unchanged


def test_labels_of_the_release_among_new_labels_are_reported():
    """Also a permutation: the counts of A in the release are not used."""
    model = posed("auto")
    with model:
        pm.set_data({"z": np.arange(3.0), "visits": np.zeros(3, dtype=int)}, coords={"area": list("CAB")})
    with pytest.warns(DiagnosisWarning, match="'C' is a label of 'area' in the release of 'x'"):
        predicted(model, posterior().isel(draw=slice(3)))


def test_a_marginalized_table_can_be_requested_by_name():
    """For unchanged labels given draws of the table are used; without such draws it is drawn from its posterior.

    The posterior mean is enumerated. Wrong variant: draws of the data model, with means up to 13. Five standard errors.
    """
    old = (("chain", "draw", "area"), np.full((1, DRAWS, 3), [3, 5, 9]))
    model = posed("auto")
    idata = posterior(x=old)
    known = xr.DataTree(xr.Dataset({"z": ("area", [0.0, 1, 2])}, coords={"area": list("ABC")}))
    idata["constant_data"] = known
    assert (predicted(model, idata, var_names=["x", "v"]).v.values <= [3, 5, 9]).all()
    idata = posterior()
    idata["constant_data"] = known
    drawn = predicted(model, idata, var_names="x").x.values[0]
    tables = np.array([(i, j, 17 - i - j) for i in range(18) for j in range(18 - i)])
    log_p = (stats.poisson.logpmf(tables, np.exp(1 + 0.8 * np.arange(3))) - abs(tables - [3, 5, 9])).sum(axis=1)
    p = np.exp(log_p + stats.binom.logpmf([1, 2, 3], tables, 0.5).sum(axis=1))
    mean, square = (p @ tables**k / p.sum() for k in (1, 2))
    assert (abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt((square - mean**2) / DRAWS)).all()
    assert "x" not in model.named_vars


def test_releases_of_new_labels():
    """The mechanism releases the new table: the total of table and release are equal."""
    model = posed("auto")
    rename(model)
    drawn = predicted(model, posterior().isel(draw=slice(20)), var_names=["x", "x_release"])
    assert (drawn.x.sum("area") == drawn.x_release.sum("area")).all()
    assert (drawn.x != drawn.x_release).any()
    model = posed("auto", inv.groups("state"))
    rename(model)
    with pytest.raises(ModelError, match=r"coordinate .state.*Request the table instead, var_names=\[.x.\]"):
        predicted(model, posterior(), var_names=["x_release"])


def test_the_old_release_has_no_density_for_new_labels():
    model = posed("auto")
    rename(model)
    for use in (model.compile_logp, lambda: ppd.sample_release(posterior(), model)):
        with pytest.raises(ModelError, match="labels of 'area' differ from those of the release of 'x'"):
            use()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", ["auto", False])
def test_labels_of_releases_drawn_again(way):
    old = (("chain", "draw", "area"), np.full((1, DRAWS, 3), [3, 5, 9]))
    idata = posterior(x=old).isel(draw=slice(3))
    again = ppd.sample_release(idata, posed(way), random_seed=1)
    assert again.area.values.tolist() == list("ABC")
    assert (again.sum("area") == 17).all()


def test_rows_with_public_totals_have_no_extension():
    release = ppd.Release(
        xr.DataArray([[3, 4]], coords={"area": ["A"], "sex": ["f", "m"]}),
        ppd.GeneralizedLaplace(inv.margin("area"), epsilon=1),
    )
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Multinomial.dist([7], [0.5, 0.5]), release)
        model.set_dim("area", 2, ["B", "C"])
    draws = xr.Dataset({"a": (("chain", "draw"), np.ones((1, 2)))})
    with pytest.raises(ModelError, match="the rows of 'x' have the public totals"):
        predicted(model, draws)


def test_one_label_becomes_two():
    """The length 1 of a parameter is specified for the old label only."""
    release = ppd.Release(xr.DataArray([3], coords={"month": [1]}), ppd.GeneralizedLaplace(inv.Public(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        z = pm.Data("z", [1.0], dims="month")
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("a", 1, 1) * z), release)
        pm.set_data({"z": [1.0, 1e4]}, coords={"month": [2, 3]})
    drawn = predicted(model, posterior().isel(draw=slice(2)))
    assert drawn.x.shape == (1, 2, 2)
    assert (drawn.x.values[..., 1] > 5000).all()


def exposed(written, exposures=(10.0, 20.0, 30.0)):
    """Three areas whose exposures are written in different ways."""
    release = ppd.Release(xr.DataArray([3, 5, 9], coords={"area": list("ABC")}), ppd.GeneralizedLaplace(inv.total(), 1))
    known = np.array(exposures)
    with pm.Model(coords={**release.coords, "level": [0, 1, 2]}) as model:
        a, levels = pm.Normal("a", 0, 1), pm.Normal("levels", 0, 1, dims="level")
        z = pm.Data("z", [0.0, 1.0, 2.0], dims="area")
        ones = {"two-way design": np.ones((3, 2)) @ np.ones(2), "index": levels[np.array([0, 0, 1])]}
        mean = pm.math.exp(a + z) * {"constant": known, "of the dependent": 1.0, "not by label": 1.0}.get(written, 1.0)
        if written in ones:
            mean *= pm.math.exp(ones[written])
        if written == "not by label":
            mean *= pm.math.exp(pm.math.sum(levels * known))
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(mean), release)
        of_dependent = {"of the dependent": known / 40, "data": pm.Data("p", known / 40, dims="area")}
        pm.Binomial("v", n=x, p=of_dependent.get(written, 0.5), observed=pm.Data("visits", [1, 2, 3]), dims="area")
        pm.set_data({"z": [0.0, 1.0, 2.0], "p": [0.1, 0.1, 0.1]}, coords={"area": list("DEF")})
    return model


def draws_of_both():
    idata = posterior().isel(draw=slice(3))
    levels = (("chain", "draw", "level"), np.zeros((1, 3, 3)))
    idata["posterior"] = idata.posterior.to_dataset().assign(levels=levels).assign_coords(level=[0, 1, 2])
    return idata


@pytest.mark.parametrize("written", ["constant", "of the dependent", "index"])
def test_constants_of_the_old_labels_are_refused(written):
    """New labels of the same number: shapes agree, and the numbers of the old labels would be used."""
    with pytest.raises(ModelError, match=r"has a number for each old label of 'area': write pm.Data\(name, values"):
        predicted(exposed(written), draws_of_both())


@pytest.mark.parametrize("written", ["data", "not by label"])
def test_data_and_constants_of_other_dimensions_are_accepted(written):
    """A constant of three levels is not one of three areas; it is named only if it varies along the areas."""
    predicted(exposed(written), draws_of_both())
