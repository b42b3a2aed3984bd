"""Dependents of cells by constant indices, and by random or changing indices, against enumeration of all tables."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from known_parameters import QUIET
from pymc.model.fgraph import clone_model
from scipy import stats
from three_cells import EPSILON, LOG_WEIGHT, NOISY, RATE, TABLES, TOTAL, log_sum, posed, released, summed

import ppdinf as ppd
from ppdinf.distributions.factors import cell_indices

PRIOR = np.array([0.2, 0.3, 0.5])


def unknown():
    return pm.Categorical("z", PRIOR)


DRAWN = {
    "one cell": (lambda x, z: x[z], lambda x, z: x[z]),
    "a sum of the first": (lambda x, z: x[: z + 1].sum(), lambda x, z: x[: z + 1].sum()),
    "one from the end": (lambda x, z: x[::-1][z], lambda x, z: x[::-1][z]),
    "two cells": (lambda x, z: pt.take(x, pt.stack([z, 0])), lambda x, z: x[[z, 0]]),
    "a choice": (lambda x, z: pt.switch(pt.eq(z, 1), x[0], x[2]), lambda x, z: x[0] if z == 1 else x[2]),
    "a choice of one": (lambda x, z: pt.switch(pt.eq(z, 1), x[0], 0.0), lambda x, z: x[0] if z == 1 else 0.0),
    "a cell of its row": (lambda x, z: x.reshape((3, 1))[z, 0], lambda x, z: x[z]),
    "cells by a mask": (lambda x, z: x[pt.eq(z, pt.arange(3))].sum(), lambda x, z: x[z]),
    "all cells": (lambda x, z: x.reshape((1, 3))[: z + 1].sum(), lambda x, z: x.sum()),
    "rolled": (lambda x, z: pt.roll(x, z)[0], lambda x, z: np.roll(x, z)[0]),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", ["auto", False])
@pytest.mark.parametrize("index", DRAWN)
def test_cells_by_a_random_index(index, way):
    """Wrong variant: the cell at the initial index."""
    of, expected = DRAWN[index]
    seen = np.full(np.shape(expected(TABLES[0], 0)), 3.0)
    model = posed(lambda x: pm.Normal("d", of(x, unknown()), 1, observed=seen), marginalize=way)
    found = summed(clone_model(model) if index == "two cells" else model)
    for k in range(3):
        wanted = log_sum(lambda x, k=k: stats.norm.pdf(3, expected(x, k), 1).prod()) + np.log(PRIOR[k])
        assert found(z=k) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("potential", [lambda x, z: -0.4 * x[z] ** 2, lambda x, z: -0.4 * x[1] ** 2 - x[: z + 1].sum()])
def test_potentials_by_a_random_index(potential):
    def add(x):
        pm.Potential("d", potential(x, unknown()))

    found = summed(posed(add))
    for k in range(3):
        wanted = log_sum(lambda x, k=k: np.exp(potential(x, k))) + np.log(PRIOR[k])
        assert found(z=k) == pytest.approx(wanted, abs=1e-9)
    with pytest.raises(ppd.errors.ModelError, match="'d' does not depend on the confidential table 'x'"):
        posed(add, marginalize=True)


def table_of_margin(z):
    x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), released())
    pm.Normal("d", x[z], 1, observed=3)


def plain_table(z):
    x = pm.Multinomial("x", TOTAL, RATE / RATE.sum())
    pm.Normal("d", x[z], 1, observed=3)


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
@pytest.mark.parametrize("tell", [table_of_margin, plain_table])
def test_steps_use_the_present_index(tell):
    """Wrong variant: the prior of z, which steps at the first index leave unchanged."""
    with pm.Model(coords=released().coords):
        tell(pm.Categorical("z", PRIOR))
        idata = pm.sample(3000, tune=200, chains=1, random_seed=1, **QUIET)
    noise = EPSILON * abs(TABLES - NOISY).sum(axis=1) if tell is plain_table else 0.0
    weight = np.exp(LOG_WEIGHT + noise)[:, None] * PRIOR * stats.norm.pdf(3, TABLES, 1)
    law = weight.sum(axis=0) / weight.sum()
    seen = np.bincount(idata.posterior["z"].values.ravel(), minlength=3) / 3000
    # about 500 effective draws of an indicator have a standard error below 0.023: 4.5 standard errors, once in 10^5
    assert abs(seen - law).max() < 0.1
    assert abs(PRIOR - law).max() > 0.15


DATA = {
    "areas": (lambda x, i: x[i], [[0, 2, 1, 1], [1, 0, 0, 2], [1], [2, 2, 2, 2, 1]]),
    "a mask": (lambda x, i: x[i], [[True, False, True], [False, True, True]]),
    "from an area": (lambda x, i: x[i[0] :][:1], [[1], [0, 2]]),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("way", ["auto", False])
@pytest.mark.parametrize("index", DATA)
def test_cells_by_an_index_in_data(index, way):
    """Wrong variants: cells at the initial index; a compiled function that ignores another index."""
    of, present = DATA[index]

    def add(x):
        area, seen = pm.Data("area", present[0]), pm.Data("seen", np.arange(of(TABLES[0], present[0]).size))
        pm.Poisson("d", 0.1 + 0.7 * of(x, area), observed=seen)

    model, values = posed(add, marginalize=way), []
    assert [x.name for x in model.free_RVs] == ([] if way else ["x"])
    for areas in present:
        counts = np.arange(of(TABLES[0], areas).size)
        with model:
            pm.set_data({"area": areas, "seen": counts})
        values.append(log_sum(lambda x, a=areas, c=counts: stats.poisson.pmf(c, 0.1 + 0.7 * of(x, a)).prod()))
        found = summed(model)
        assert found() == pytest.approx(values[-1], abs=1e-9)
    assert summed(model.copy())() == pytest.approx(values[-1], abs=1e-9)
    if way:
        with model:
            pm.set_data({"area": present[-1][::-1]})
        with pytest.raises(ppd.errors.ModelError, match="an index of the confidential table have changed"):
            found()


def test_an_index_in_data_that_mixes_cells_is_refused():
    def add(x):
        pm.Normal("d", x[pm.Data("first", [0, 1])] + x[pm.Data("second", [0, 1])], 1, observed=[3, 1])

    model = posed(add)
    wanted = log_sum(lambda x: stats.norm.pdf([3, 1], 2 * x[:2], 1).prod())
    assert summed(model)() == pytest.approx(wanted, abs=1e-9)
    with model:
        pm.set_data({"second": [1, 0]})
    with pytest.raises(ppd.errors.ModelError, match="'d' does not depend on the confidential table 'x'"):
        model.compile_logp()


EXACT = {
    "shares": (lambda x: x / x.sum(), lambda x: x / TOTAL, True),
    "centred": (lambda x: (x - x.mean()) / 2, lambda x: (x - TOTAL / 3) / 2, True),
    "reversed": (lambda x: x + pt.sum(x[::-1]), lambda x: x + TOTAL, True),
    "a part": (lambda x: x / (1 + x[:2].sum()), lambda x: x / (1 + x[:2].sum()), False),
}


@pytest.mark.quick_cases(3)
@pytest.mark.filterwarnings("ignore:'x' is sampled instead of marginalized:ppdinf.errors.DiagnosisWarning")
@pytest.mark.parametrize("name", EXACT)
def test_exact_sums_are_numbers(name):
    """Wrong variant: the sum of the counts at which the densities of all cells are evaluated."""
    of, expected, is_exact = EXACT[name]
    seen = np.array([0.3, 0.1, 0.4])
    model = posed(lambda x: pm.Normal("d", pm.Normal("b") * of(x), 1, observed=seen))
    assert [x.name for x in model.free_RVs] == (["b"] if is_exact else ["b", "x"])
    wanted = log_sum(lambda x: stats.norm.pdf(seen, 0.7 * expected(x), 1).prod()) + stats.norm.logpdf(0.7)
    assert summed(model)(b=0.7) == pytest.approx(wanted, abs=1e-9)


COVARIATES = {
    "by cell": (lambda x, w: x * w, lambda x, w: x * w, [(3,)]),
    "repeated": (lambda x, w: x * w, lambda x, w: x * w, [(2, 3), (5, 3), (1, 3)]),
    "columns": (lambda x, w: x[:, None] * w, lambda x, w: x[:, None] * w, [(3, 2), (3, 4)]),
    "in order": (lambda x, w: (w[:, None] * x[[2, 0, 1]]).T, lambda x, w: (w[:, None] * x[[2, 0, 1]]).T, [(2,), (4,)]),
    "and others": (lambda x, w: w + x[1], lambda x, w: w + x[1], [(4,), (1,), (2,)]),
    "sums": (lambda x, w: (x * w).sum(axis=0), lambda x, w: (x * w).sum(axis=0), [(2, 3), (4, 3)]),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("covariate", COVARIATES)
def test_changing_covariates_are_marginalized_with_the_table(covariate):
    of, expected, shapes = COVARIATES[covariate]
    rng = np.random.default_rng(1)
    drawn = [rng.uniform(0.2, 1, shape) for shape in shapes]
    results = [rng.normal(2, 1, expected(TABLES[0], w).shape) for w in drawn]

    def add(x):
        w, seen = pm.Data("w", drawn[0]), pm.Data("seen", results[0])
        pm.Normal("d", of(x, w), 1, observed=seen)
        pm.Potential("e", -0.1 * of(x, w).sum())

    model = posed(add, marginalize=True)
    found = summed(model)
    for values, result in [*zip(drawn, results, strict=True), (1 - drawn[0], results[0])]:
        with model:
            pm.set_data({"w": values, "seen": result})

        def factor(x, values=values, result=result):
            return stats.norm.pdf(result, expected(x, values), 1).prod() * np.exp(-0.1 * expected(x, values).sum())

        assert found() == pytest.approx(log_sum(factor), abs=1e-9)
    if covariate == "sums":
        assert summed(model.copy())() == pytest.approx(log_sum(factor), abs=1e-9)


def test_sums_over_lengths_that_change():
    """The cells of an element depend on the length: the table is a variable."""

    def add(x):
        w, seen = pm.Data("w", np.ones(1)), pm.Data("seen", np.ones(1))
        pm.Normal("d", (x[:, None] * w).reshape((-1, 3)).sum(axis=1), 1, observed=seen)

    model = posed(add)
    for length in (1, 2):
        w, result = np.arange(1.0, length + 1), np.arange(2.0, length + 2)
        with model:
            pm.set_data({"w": w, "seen": result})
        wanted = log_sum(
            lambda x, w=w, r=result: stats.norm.pdf(r, (x[:, None] * w).reshape(-1, 3).sum(axis=1), 1).prod()
        )
        assert summed(model)() == pytest.approx(wanted, abs=1e-9)


@pytest.mark.quick_cases(0)
def test_interventions_and_observations():
    model = posed(lambda x: pm.Normal("d", x[unknown()], 1, observed=3), lambda x: pm.Normal("q", x, 1))
    at = np.array([2.0, 0.5, 3.0])
    for k in (0, 2):
        wanted = log_sum(lambda x, k=k: stats.norm.pdf(3, x[k], 1) * stats.norm.pdf(at, x, 1).prod())
        assert summed(pm.do(model, {"z": k}))(q=at) == pytest.approx(wanted, abs=1e-9)
        seen = pm.observe(model, {"z": k, "q": at})
        assert summed(seen.copy())() == pytest.approx(wanted + np.log(PRIOR[k]), abs=1e-9)


def test_cells_of_operations():
    x, z, k = pt.lmatrix("x"), pt.dvector("z"), pt.lvector("k")
    numbers = np.arange(6).reshape(2, 3)

    def of(graph):
        return cell_indices(graph, x, (2, 3))

    np.testing.assert_array_equal(of(x * z + 1), numbers)
    np.testing.assert_array_equal(of(x.T[[2, 0], 1]), [5, 3])
    np.testing.assert_array_equal(of(pt.stack([x, x + 1]).max(axis=0)), numbers)
    np.testing.assert_array_equal(of(pt.concatenate([x[0], pt.constant([0.5, 1.5])])), [0, 1, 2, -1, -1])
    np.testing.assert_array_equal(of(pt.concatenate([x, x * 2], axis=0)), np.vstack([numbers, numbers]))
    np.testing.assert_array_equal(of(pt.stack([x[0, 1], z[0], x[1, 2]])), [1, -1, 5])
    np.testing.assert_array_equal(of(z[:, None, None] * x), numbers[None])
    np.testing.assert_array_equal(of((z[:, None] * x[1])[k, 2]), [5])
    np.testing.assert_array_equal(of(x[np.eye(2, 3, dtype=bool)]), [0, 4])
    np.testing.assert_array_equal(of((z * x[0, 2]).reshape((-1, 2))), [[2]])
    np.testing.assert_array_equal(of(pt.logsumexp(pt.stack([x, x + 1]), axis=0)), numbers)
    np.testing.assert_array_equal(of(x.reshape((3, 2))), numbers.reshape(3, 2))
    for mixing in (x.sum(axis=0), x + x[::-1], x @ z, x.cumsum(), x[:, 0] + x[:, 1], pt.sort(x)):
        assert of(mixing) is None
    for open_ in (x[k], x[:, k[0]], x[: k[0]], x[pt.gt(k, 0)], pt.concatenate([x[0], z]), x[z.shape[0] :], z[x]):
        assert of(open_) is None
    np.testing.assert_array_equal(of(x.shape[0] * z), [-1])  # depends on no count
