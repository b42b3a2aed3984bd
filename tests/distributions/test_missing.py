"""Missing values and new labels of variables that depend on a table."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pymc.initial_point import make_initial_point_fn
from scipy import stats
from three_cells import LOG_NOISE, LOG_WEIGHT, RATE, TABLES, posed, released, summed

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning, ModelError

IMPUTED = pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning", "ignore:invalid value:RuntimeWarning")

VISITS = np.array([[1, np.nan], [np.nan, 0], [2, 1]])
SHARE = 0.4

WEIGHT = np.exp(LOG_WEIGHT)


def visited(way="auto", share=SHARE):
    return posed(lambda x: pm.Binomial("v", n=x[:, None], p=share, observed=VISITS), marginalize=way)


@pytest.mark.quick_cases(1)
@IMPUTED
@pytest.mark.parametrize("way", ["auto", False])
def test_density(way):
    model = visited(way)
    found = summed(model)
    assert ("x" in model) == (way is False)
    for missing in ([0, 0], [2, 1], [1, 2]):
        visits = VISITS.copy()
        visits[np.isnan(visits)] = missing
        wanted = np.log((WEIGHT * stats.binom.pmf(visits, TABLES[:, :, None], SHARE).prod(axis=(1, 2))).sum())
        assert found(v_unobserved=missing) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.quick_cases(0)
@IMPUTED
@pytest.mark.compiled
def test_missing_value_of_a_reversed_table():
    """A mixture, whose table has a known length. Wrong variant: the missing value depends on the first cell."""
    release, p = released(), np.array([0.3, 0.7])
    with pm.Model(coords=release.coords) as model:
        mixture = pm.Mixture.dist(p, [pm.Poisson.dist(1.0), pm.Poisson.dist(4.0)])
        x = ppd.PartiallyPrivate("x", mixture, release, marginalize=False)
        pm.Binomial("v", n=x[::-1], p=SHARE, observed=[np.nan, 1, 0])
    prior = (p * stats.poisson.pmf(TABLES[:, :, None], [1.0, 4.0])).sum(axis=2).prod(axis=1)
    visits = stats.binom.pmf([5, 1, 0], TABLES[:, ::-1], SHARE).prod(axis=1)
    wanted = np.log((prior * np.exp(LOG_NOISE) * visits).sum())
    assert summed(model)(v_unobserved=[5]) == pytest.approx(wanted, abs=1e-9)
    wrong = stats.binom.pmf([5, 1, 0], TABLES[:, [0, 1, 0]], SHARE).prod(axis=1)
    assert abs(np.log((prior * np.exp(LOG_NOISE) * wrong).sum()) - wanted) > 0.1


def law(counted):
    """Return the law of all tables by the counted visits; others are zeros, which is wrong if they are missing."""
    density = np.where(counted, stats.binom.pmf(np.nan_to_num(VISITS), TABLES[:, :, None], SHARE), 1.0)
    return WEIGHT * density.prod(axis=(1, 2))


@pytest.mark.quick_cases(1)
@IMPUTED
@pytest.mark.parametrize("way", ["auto", False])
def test_missing_values_are_marginalized_in_a_copy(way):
    """Wrong variant: missing values are counted as zeros."""
    model = visited(way)
    copy = ppd.models.marginalize_missing(model)
    assert [rv.name for rv in copy.free_RVs] == ([] if way == "auto" else ["x"])
    assert "v_unobserved" in model
    assert not {"v", "v_unobserved"} & set(copy.named_vars)
    found = summed(copy)()
    assert found == pytest.approx(np.log(law(~np.isnan(VISITS)).sum()), abs=1e-9)
    assert abs(np.log(law(True).sum()) - found) > 0.1


def several(other=None):
    """A model with missing values of two variables, one of them latent reals, and perhaps with `other`."""
    release = released()
    with pm.Model(coords=release.coords) as model:
        covariate = pm.Data("covariate", np.array([0.1, 0.5, -0.2]))
        slope = pm.Normal("slope", 0, 1)
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(slope * covariate)), release)
        v = pm.Binomial("v", n=x[:, None], p=SHARE, observed=VISITS)
        w = pm.Normal("w", x + slope, 1, observed=[np.nan, 0.5, 2.5])
        if other == "cost":
            pm.Potential("cost", -v.sum())
        elif other == "later":
            pm.Poisson("later", 1 + w**2, observed=[1, 2, 3])
        elif other == "double":
            pm.Deterministic("double", 2 * v)
    return model


@IMPUTED
@pytest.mark.quick_cases(0)
def test_all_variables_with_missing_values_are_marginalized():
    copy = ppd.models.marginalize_missing(several())
    assert {rv.name for rv in copy.basic_RVs} == {"slope", "v_observed", "w_observed", "x_release"}
    for slope in (-0.5, 0.7):
        rate = np.exp(slope * np.array([0.1, 0.5, -0.2]))
        weight = stats.poisson.pmf(TABLES, rate).prod(axis=1) * np.exp(LOG_NOISE)
        weight *= law(~np.isnan(VISITS)) / WEIGHT
        weight *= stats.norm.pdf([0.5, 2.5], TABLES[:, 1:] + slope).prod(axis=1)
        expected = np.log(weight.sum()) + stats.norm.logpdf(slope)
        assert copy.compile_logp()({"slope": slope}) == pytest.approx(expected, abs=1e-9)


@pytest.mark.quick_cases(1)
@IMPUTED
@pytest.mark.parametrize("other", ["cost", "later", "double"])
def test_missing_values_on_which_others_depend_are_refused(other):
    with pytest.raises(ModelError, match=f"cannot be marginalized, because '{other}' depends on them"):
        ppd.models.marginalize_missing(several(other))


def starts_are_possible(model, number):
    log_density, start = model.compile_logp(), make_initial_point_fn(model=model)
    return all(np.isfinite(log_density(start(seed))) for seed in range(number))


@IMPUTED
def test_models_without_missing_values_are_refused():
    with pm.Model() as model:
        unobserved = pm.Normal("v_unobserved")
        pm.Deterministic("v", unobserved)
    with pytest.raises(ModelError, match="no missing values"):
        ppd.models.marginalize_missing(model)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", ["auto", False])
@IMPUTED
@pytest.mark.parametrize("share", [0.1, 0.95])
def test_chains_start_where_missing_values_are_possible(way, share):
    """Wrong variant: missing values drawn for a prior table, some of which are impossible."""
    model = visited(way, share)
    assert starts_are_possible(model, 25)


@IMPUTED
def test_later_observations_also_move_the_start():
    release = released([6, -3, 3])
    with pm.Model(coords=release.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release)
        pm.Binomial("q", n=x, p=0.9)
        pm.Binomial("d", n=x, p=0.5, observed=[0, 4, 1])
    assert starts_are_possible(model, 10)


@pytest.mark.quick_cases(1)
@IMPUTED
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
    assert starts_are_possible(model, 5)


CENSORED = np.ma.masked_array([1, 0, 2], [False, True, False])


def censored_model():
    """A dependent whose observed and missing values PyMC does not separate."""
    return posed(lambda x: pm.Censored("v", pm.Poisson.dist(x + 1.0), lower=None, upper=2, observed=CENSORED))


@IMPUTED
@pytest.mark.quick_cases(0)
def test_a_censored_dependent_with_missing_values_makes_the_table_a_variable():
    model = censored_model()
    assert "x" in model
    log_density = model.compile_logp()
    x = TABLES[:, [0, 2]] + 1.0
    seen = stats.poisson.pmf(1, x[:, 0]) * stats.poisson.sf(1, x[:, 1])
    for missing in (0, 2):
        middle = stats.poisson.pmf(0, TABLES[:, 1] + 1.0) if missing == 0 else stats.poisson.sf(1, TABLES[:, 1] + 1.0)
        found = [float(log_density({"x": table, "v_unobserved": np.array([missing])})) for table in TABLES]
        np.testing.assert_allclose(found, np.log(WEIGHT * seen * middle), atol=1e-9)


@IMPUTED
def test_the_factors_of_a_masked_censored_dependent():
    """The table's conditional density has the observed and the missing part, each once."""
    from ppdinf.distributions.tables import dependent_factors

    model = censored_model()
    table = model["x"]
    by_cell, of_all = dependent_factors(table, model)
    assert len(by_cell) + len(of_all) == 2


@IMPUTED
def test_values_that_pymc_does_not_separate_are_refused_by_name():
    with pytest.raises(ModelError, match="missing values of 'v' cannot be marginalized, because PyMC has one density"):
        ppd.models.marginalize_missing(censored_model())
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1)
        pm.MvNormal("u", pm.math.stack([b, 2 * b]), [[1.0, 0.8], [0.8, 2.0]], observed=np.array([0.3, np.nan]))
    with pytest.raises(ModelError, match="'u'"):
        ppd.models.marginalize_missing(model)


inv = ppd.invariants

DRAWS, COVARIATES = 1000, np.array([0.0, 0.5, 1.0, 1.5])
MEANS = np.exp(1.0 + 0.8 * COVARIATES)
OLD = (("chain", "draw", "area"), np.full((1, DRAWS, 3), [3, 5, 9]))  # draws of the table of the old labels


def with_new_labels(way, public=None):
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
    model, idata = with_new_labels(way), posterior(x=OLD)
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
    model = with_new_labels("auto")
    with model:
        pm.set_data({"z": np.arange(3.0), "visits": np.zeros(3, dtype=int)}, coords={"area": list("CAB")})
    with pytest.warns(DiagnosisWarning, match="'C' is a label of 'area' in the release of 'x'"):
        predicted(model, posterior().isel(draw=slice(3)))


def test_a_marginalized_table_can_be_requested_by_name():
    """For unchanged labels given draws of the table are used; without such draws it is drawn from its posterior.

    The posterior mean is enumerated. Wrong variant: draws of the data model, with means up to 13. Five standard errors.
    """
    model = with_new_labels("auto")
    idata = posterior(x=OLD)
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
    model = with_new_labels("auto")
    rename(model)
    drawn = predicted(model, posterior().isel(draw=slice(20)), var_names=["x", "x_release"])
    assert (drawn.x.sum("area") == drawn.x_release.sum("area")).all()
    assert (drawn.x != drawn.x_release).any()
    model = with_new_labels("auto", inv.groups("state"))
    rename(model)
    with pytest.raises(ModelError, match=r"coordinate .state.*Request the table instead, var_names=\[.x.\]"):
        predicted(model, posterior(), var_names=["x_release"])


def test_the_old_release_has_no_density_for_new_labels():
    model = with_new_labels("auto")
    rename(model)
    for use in (model.compile_logp, lambda: ppd.sample_release(posterior(), model)):
        with pytest.raises(ModelError, match="labels of 'area' differ from those of the release of 'x'"):
            use()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", ["auto", False])
def test_labels_of_releases_drawn_again(way):
    idata = posterior(x=OLD).isel(draw=slice(3))
    again = ppd.sample_release(idata, with_new_labels(way), random_seed=1)
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
