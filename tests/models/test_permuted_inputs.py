"""Order of dimensions, labels and statements: posteriors do not depend on it, and labels are never ignored."""

from itertools import permutations, product

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf.errors import LabelError
from ppdinf.mechanisms.base_measure import DirichletMultinomial

inv = ppd.invariants
LABELS = {"a": ["x", "y"], "b": [7, 3]}
TABLE = xr.DataArray([[1, 2], [0, 3]], dims=("a", "b"), coords=LABELS)
RELEASED = xr.DataArray([[2, 2], [-1, 3]], dims=("a", "b"), coords=LABELS)
RATE = xr.DataArray([[1.0, 0.5], [2.0, 1.5]], dims=("a", "b"), coords=LABELS)
ORDERS = [
    {dim: list(labels[dim]) for dim in dims}
    for dims in permutations(LABELS)
    for labels in ({"a": a, "b": b} for a, b in product(permutations(LABELS["a"]), permutations(LABELS["b"])))
]


def arranged(table, labels):
    return table.transpose(*labels).sel(labels)


def log_likelihood(model, theta):
    """Return the log density without the prior of theta, which is flat from 0 to 2."""
    return float(
        model.compile_logp(vars=model.observed_RVs, jacobian=False)({"theta_interval__": np.log(theta / (2 - theta))})
    )


def model_of(published, labels):
    with pm.Model(coords=published.coords) as model:
        theta = pm.Uniform("theta", 0, 2)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(theta * arranged(RATE, labels).values), release=published)
    return model


TABLES = np.array(list(product(range(13), repeat=4)))  # cells in the order of LABELS


def enumerated(theta, log_noise):
    rate = theta * RATE.values.ravel()
    return logsumexp((TABLES * np.log(rate) - gammaln(TABLES + 1)).sum(axis=1) - rate.sum() + log_noise)


@pytest.mark.quick_cases(0)
def test_measurements_in_every_order():
    """Rows with geometric noise and cells with Gaussian noise, stated in both orders."""
    noise = ppd.laws.DoubleGeometric("1/2"), ppd.laws.DiscreteGaussian(variance=2)
    rows = xr.DataArray([4, 2], dims="a", coords={"a": LABELS["a"]})
    weight = np.abs(TABLES[:, :2].sum(axis=1) - 4) + np.abs(TABLES[:, 2:].sum(axis=1) - 2)
    right = {
        theta: enumerated(theta, -weight / 2 - ((TABLES - RELEASED.values.ravel()) ** 2).sum(axis=1) / 4)
        for theta in (0.5, 1.5)
    }
    found = []
    for k, labels in enumerate(ORDERS):
        cells = arranged(RELEASED, ORDERS[-1 - k])
        parts = [
            ppd.measured(inv.margin("a"), rows[:: 1 if k % 3 else -1], noise[0]),
            ppd.measured(inv.margin("b", "a") if k % 2 else inv.margin("a", "b"), cells, noise[1]),
        ]
        model = model_of(ppd.Measurements(labels, *(parts if k % 2 else parts[::-1])), labels)
        found.append(log_likelihood(model, 1.5) - log_likelihood(model, 0.5))
    np.testing.assert_allclose(found, right[1.5] - right[0.5], rtol=1e-6)


FRAME = RELEASED.to_pandas()
PERMUTED = {
    "transposed": RELEASED.T,
    "transposed, one dimension without labels": RELEASED.T.drop_vars("b"),
    "rows reversed": RELEASED[::-1],
    "columns reversed": RELEASED[:, ::-1],
    "frame transposed": FRAME.T,
    "frame reversed": FRAME[::-1],
    "frame transposed, without names": FRAME.T.rename_axis(index=None, columns=None),
    "series reversed": RELEASED.to_series()[::-1],
    "series of other levels": RELEASED.to_series().swaplevel(),
}
ALIKE = {"array": RELEASED, "frame": FRAME, "series": RELEASED.to_series(), "values": RELEASED.values}


def observe(given):
    with pm.Model(coords=LABELS) as model:
        x = pm.Poisson("x", 2.0, dims=("a", "b"))
        ppd.models.Released("r", ppd.GeneralizedLaplace(inv.total(), epsilon=1), x, given)
    return model.rvs_to_values[model["r"]].eval().tolist()


@pytest.mark.parametrize("take", [observe, lambda given: ppd.SubspaceLaplace(inv.total(), 1).logp(given, TABLE)])
def test_released_tables_with_labels_in_another_order_are_refused(take):
    first = take(RELEASED)
    for name, given in ALIKE.items():
        assert take(given) == first, name
    for name, given in PERMUTED.items():
        with pytest.raises(LabelError):
            pytest.fail(f"{name}: {take(given)}")


def test_labels_of_a_release_are_in_the_order_of_its_table():
    mechanism = ppd.GeneralizedLaplace(inv.margin("a"), epsilon=1)
    with pm.Model(coords=LABELS):
        x = pm.Poisson("x", 2.0, dims=("a", "b"))
        for labels in (LABELS, TABLE):
            assert mechanism.dist(x, labels).owner.op.law.frame.dims == ("a", "b")
        for labels in (
            *(other for other in ORDERS if list(other.items()) != list(LABELS.items())),
            TABLE.T,
            TABLE[::-1],
        ):
            with pytest.raises(LabelError, match="another order"):
                mechanism.dist(x, labels)


def test_public_values_and_earlier_counts_do_not_ignore_labels():
    by_row = pd.Series({"a=y": 3, "a=x": 2})
    assert inv.margin("a").on(TABLE, values=by_row).values.tolist() == [2, 3]
    for values in (xr.DataArray([3, 2], dims="a", coords={"a": ["y", "x"]}), pd.DataFrame([[3], [2]])):
        with pytest.raises(LabelError, match="labels would be ignored"):
            inv.margin("a").on(TABLE, values=values)
    assert DirichletMultinomial(TABLE.values).previous == (1, 2, 0, 3)
    for previous in (TABLE, TABLE.to_series(), TABLE.to_pandas()):
        with pytest.raises(LabelError, match="must not have labels"):
            DirichletMultinomial(previous)
