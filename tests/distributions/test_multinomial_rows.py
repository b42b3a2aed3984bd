"""Multinomial and Dirichlet-multinomial rows against enumeration with PyMC's own densities."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from enumeration import total_variation
from noise_totals import log_total
from scipy import special

import ppdinf as ppd
from ppdinf.errors import ModelError
from ppdinf.invariants import margin, nonnegative, total
from ppdinf.lattice.points.fiber_tables import fiber_tables

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
Y = xr.DataArray([[2, 0, 1], [1, -1, 2]], dims=("sex", "age"))
N = np.array([3, 2])
ROWS = {
    "multinomial": lambda n, s: pm.Multinomial.dist(n=n, p=pm.math.softmax(s * np.array([0.0, 1.0, -1.0]))),
    "dirichlet-multinomial": lambda n, s: pm.DirichletMultinomial.dist(n=n, a=pm.math.exp(s * np.arange(3.0))),
}


def release_of(public, y=Y):
    return ppd.Release(y, ppd.GeneralizedLaplace(public, epsilon=1))


def enumerated(release, make, s):
    system = release.public
    tables = fiber_tables(system.A, system.values, system.B, system.limits)
    shaped = tables.reshape(-1, *release.shape)
    n = np.broadcast_to(N, shaped.shape[:2])
    log_data = pm.logp(make(n, np.float64(s)), shaped)
    log_noise = -np.abs(tables - release.table.values.ravel()).sum(axis=1)
    log_noise = log_noise - release.shape[0] * log_total(1, release.shape[1])
    return tables, log_data.eval(mode="FAST_COMPILE").sum(axis=1) + log_noise


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("family", ROWS)
@pytest.mark.parametrize("marginalize", [True, False])
def test_density_equals_enumeration(family, marginalize):
    release = release_of(margin("sex") & nonnegative())
    with pm.Model(coords=release.coords) as model:
        s = pm.Normal("s")
        ppd.PartiallyPrivate("x", ROWS[family](N, s), release=release, marginalize=marginalize)
    variables = [model["x_release"], *([] if marginalize else [model["x"]])]
    logp = model.compile_fn(
        model.logp(vars=variables, sum=True), inputs=model.value_vars, mode="FAST_COMPILE", on_unused_input="ignore"
    )
    for value in (-0.7, 0.4):
        tables, log_joint = enumerated(release, ROWS[family], value)
        if marginalize:
            found = float(logp({"s": np.array(value)}))
            expected = special.logsumexp(log_joint)
        else:
            k = 3
            found = float(logp({"s": np.array(value), "x": tables[k].reshape(release.shape)}))
            expected = log_joint[k]
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("family", ROWS)
def test_rows_under_crossing_sums_are_sampled(family):
    release = release_of(margin("sex") & margin("age") & nonnegative(), Y.copy(data=[[2, 0, 1], [1, 1, 0]]))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", ROWS[family](N, np.float64(0.5)), release=release)
        idata = pm.sample(2000, tune=200, chains=2, cores=1, random_seed=1, **QUIET)
    draws = ppd.sample_confidential(idata, model).values.reshape(4000, -1)
    tables, log_joint = enumerated(release, ROWS[family], 0.5)
    p = special.softmax(log_joint)
    assert total_variation(draws, tables, p) < 3 * 0.5 * np.sqrt(2 * p / np.pi / 4000).sum()


@pytest.mark.parametrize("family", ROWS)
def test_forward_draws_have_the_row_totals(family):
    release = release_of(margin("sex") & nonnegative())
    with pm.Model(coords=release.coords):
        s = pm.Normal("s")
        ppd.PartiallyPrivate("x", ROWS[family](N, s), release=release)
        prior = pm.sample_prior_predictive(20, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"})
    assert (prior.prior_predictive["x_release"].sum("age") == N).all()


@pytest.mark.parametrize(
    ("public", "n", "message"),
    [
        (total() & nonnegative(), N, "the row that begins at sex=0, age=0 is not public"),
        (margin("sex") & nonnegative(), np.array([3, 4]), "begins at sex=1, age=0 differs from the n"),
    ],
)
def test_rows_need_public_totals(public, n, message):
    release = release_of(public)
    with pm.Model(coords=release.coords), pytest.raises(ModelError, match=message):
        ppd.PartiallyPrivate("x", ROWS["multinomial"](n, np.float64(0.5)), release=release)


def test_the_number_of_persons_must_be_constant():
    release = release_of(margin("sex") & nonnegative())
    with pm.Model(coords=release.coords):
        n = pm.DiscreteUniform("n", 1, 5, shape=2)
        with pytest.raises(ModelError, match="must be a constant"):
            ppd.PartiallyPrivate("x", ROWS["multinomial"](n, np.float64(0.5)), release=release)
