"""Dependents of cells by constant indices, and by random or changing indices, against enumeration of all tables."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from noise_totals import log_total
from pymc.model.fgraph import clone_model
from scipy import stats

import ppdinf as ppd

NOISY, TOTAL, EPSILON, RATE = np.array([5, -1, 2]), 6, 0.5, np.array([2.0, 1.0, 3.0])
PRIOR = np.array([0.2, 0.3, 0.5])
TABLES = np.array([x for x in itertools.product(range(TOTAL + 1), repeat=3) if sum(x) == TOTAL])
LOG_WEIGHT = stats.poisson.logpmf(TABLES, RATE).sum(axis=1) - EPSILON * abs(TABLES - NOISY).sum(axis=1)
LOG_WEIGHT -= log_total(EPSILON, 3)


def published(table=NOISY):
    return ppd.Release(np.array(table), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))


def log_l(factor):
    """Return the log total weight of the listed tables, given a factor of each."""
    return np.log(sum(np.exp(w) * factor(x) for w, x in zip(LOG_WEIGHT, TABLES, strict=True)))


def summed(model):
    """Return the log density of a model as a function of its other variables, summed over the table if sampled."""
    log_density, free = model.compile_logp(), [v.name for v in model.free_RVs]

    def at(**values):
        point = {name: np.array(value) for name, value in values.items()}
        if "x" not in free:
            return float(log_density(point))
        return np.log(sum(np.exp(log_density({**point, "x": x})) for x in TABLES))

    return at


DRAWN = {
    "one cell": (lambda x, z: x[z], lambda x, z: x[z]),
    "a sum of the first": (lambda x, z: x[: z + 1].sum(), lambda x, z: x[: z + 1].sum()),
    "one from the end": (lambda x, z: x[::-1][z], lambda x, z: x[::-1][z]),
    "two cells": (lambda x, z: pt.take(x, pt.stack([z, 0])), lambda x, z: x[[z, 0]]),
    "a choice": (lambda x, z: pt.switch(pt.eq(z, 1), x[0], x[2]), lambda x, z: x[0] if z == 1 else x[2]),
    "a choice of one": (lambda x, z: pt.switch(pt.eq(z, 1), x[0], 0.0), lambda x, z: x[0] if z == 1 else 0.0),
    "a cell of its row": (lambda x, z: x.reshape((3, 1))[z, 0], lambda x, z: x[z]),
    "cells by a mask": (lambda x, z: x[pt.eq(z, pt.arange(3))].sum(), lambda x, z: x[z]),
    "rolled": (lambda x, z: pt.roll(x, z)[0], lambda x, z: np.roll(x, z)[0]),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", ["auto", False])
@pytest.mark.parametrize("index", DRAWN)
def test_cells_by_a_random_index(index, way):
    """Wrong variant: the cell at the initial index."""
    of, expected = DRAWN[index]
    with pm.Model(coords=published().coords) as model:
        z = pm.Categorical("z", PRIOR)
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), published(), marginalize=way)
        pm.Normal("d", of(x, z), 1, observed=np.full(np.shape(expected(TABLES[0], 0)), 3.0))
    found = summed(clone_model(model) if index == "two cells" else model)
    for k in range(3):
        wanted = log_l(lambda x, k=k: stats.norm.pdf(3, expected(x, k), 1).prod()) + np.log(PRIOR[k])
        assert found(z=k) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("potential", [lambda x, z: -0.4 * x[z] ** 2, lambda x, z: -0.4 * x[1] ** 2 - x[: z + 1].sum()])
def test_potentials_by_a_random_index(potential):
    with pm.Model(coords=published().coords) as model:
        z = pm.Categorical("z", PRIOR)
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), published())
        pm.Potential("d", potential(x, z))
    found = summed(model)
    for k in range(3):
        wanted = log_l(lambda x, k=k: np.exp(potential(x, k))) + np.log(PRIOR[k])
        assert found(z=k) == pytest.approx(wanted, abs=1e-9)
    with pm.Model(coords=published().coords):
        z = pm.Categorical("z", PRIOR)
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), published(), marginalize=True)
        with pytest.raises(ppd.errors.ModelError, match="'d' does not depend on the confidential table 'x'"):
            pm.Potential("d", potential(x, z))


def table_of_margin(z):
    x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), published())
    pm.Normal("d", x[z], 1, observed=3)


def plain_table(z):
    x = pm.Multinomial("x", TOTAL, RATE / RATE.sum())
    pm.Normal("d", x[z], 1, observed=3)


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
@pytest.mark.parametrize("tell", [table_of_margin, plain_table])
def test_steps_use_the_present_index(tell):
    """Wrong variant: the prior of z, which steps at the first index leave unchanged."""
    with pm.Model(coords=published().coords):
        tell(pm.Categorical("z", PRIOR))
        idata = pm.sample(
            3000, tune=200, chains=1, random_seed=1, progressbar=False, quiet=True, compute_convergence_checks=False
        )
    noise = EPSILON * abs(TABLES - NOISY).sum(axis=1) if tell is plain_table else 0.0
    weight = np.exp(LOG_WEIGHT + noise)[:, None] * PRIOR * stats.norm.pdf(3, TABLES, 1)
    law = weight.sum(axis=0) / weight.sum()
    seen = np.bincount(idata.posterior["z"].values.ravel(), minlength=3) / 3000
    # about 500 effective draws of an indicator have a standard error below 0.023: 4.5 standard errors, once in 10^5
    assert abs(seen - law).max() < 0.1
    assert abs(PRIOR - law).max() > 0.15


CONSTANT = {
    "a list": (lambda x: x[[2, 0, 2]], [2, 0, 2]),
    "a slice": (lambda x: x[1:], [1, 2]),
    "backwards": (lambda x: x[::-1], [2, 1, 0]),
    "a mask": (lambda x: x[np.array([True, False, True])], [0, 2]),
    "taken": (lambda x: pt.take(x, np.array([1, 1, 0])), [1, 1, 0]),
    "by its shape": (lambda x: x[x.shape[0] - 2 :], [1, 2]),
    "one": (lambda x: x[1] * np.ones(3), [1, 1, 1]),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("index", CONSTANT)
def test_cells_by_a_constant_index_are_marginalized(index):
    of, cells = CONSTANT[index]
    with pm.Model(coords=published().coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), published(), marginalize=True)
        pm.Normal("d", of(x), 1, observed=np.arange(len(cells)))
    assert not model.free_RVs
    wanted = log_l(lambda x: stats.norm.pdf(np.arange(len(cells)), x[cells], 1).prod())
    assert summed(model)() == pytest.approx(wanted, abs=1e-9)


COLUMN = {
    "flat": (lambda x: x.ravel()[[0, 1, 1]], [0, 1, 1]),
    "transposed": (lambda x: x.T.flatten()[[2, 0]], [2, 0]),
    "repeated": (lambda x: pt.tile(x.reshape((-1,)), 2), [0, 1, 2, 0, 1, 2]),
    "joined": (lambda x: pt.concatenate([x.ravel(), x.ravel()[::-1]]), [0, 1, 2, 2, 1, 0]),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (1, 3, 1)])
@pytest.mark.parametrize("index", COLUMN)
def test_cells_of_tables_with_a_dimension_of_length_1(index, shape):
    of, cells = COLUMN[index]
    seen = np.arange(len(cells)) % 3
    with pm.Model(coords=published(NOISY.reshape(shape)).coords) as model:
        x = ppd.PartiallyPrivate(
            "x", pm.Poisson.dist(RATE.reshape(shape)), published(NOISY.reshape(shape)), marginalize=True
        )
        pm.Normal("d", of(x), 1, observed=seen)
    assert not model.free_RVs
    wanted = log_l(lambda x: stats.norm.pdf(seen, x[cells], 1).prod())
    assert summed(model)() == pytest.approx(wanted, abs=1e-9)


@pytest.mark.filterwarnings("ignore:'x' is sampled instead of marginalized:ppdinf.errors.DiagnosisWarning")
@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", ["auto", False])
def test_areas_of_persons_that_change(way):
    with pm.Model(coords=published().coords) as model:
        area, seen = pm.Data("area", [0, 2, 1, 1]), pm.Data("seen", [3, 1, 0, 2])
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), published(), marginalize=way)
        pm.Poisson("d", 0.1 + 0.7 * x[area], observed=seen)
    found = summed(model)
    for areas, counts in (([0, 2, 1, 1], [3, 1, 0, 2]), ([1, 0, 0, 2], [3, 1, 0, 2]), ([1], [4]), ([2] * 5, [1] * 5)):
        with model:
            pm.set_data({"area": areas, "seen": counts})
        wanted = log_l(lambda x, a=areas, c=counts: stats.poisson.pmf(c, 0.1 + 0.7 * x[a]).prod())
        assert found() == pytest.approx(wanted, abs=1e-9)
    assert summed(model.copy())() == pytest.approx(wanted, abs=1e-9)


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
    with pm.Model(coords=published().coords) as model:
        w, seen = pm.Data("w", drawn[0]), pm.Data("seen", results[0])
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), published(), marginalize=True)
        pm.Normal("d", of(x, w), 1, observed=seen)
        pm.Potential("e", -0.1 * of(x, w).sum())
    found = summed(model)
    for values, result in [*zip(drawn, results, strict=True), (1 - drawn[0], results[0])]:
        with model:
            pm.set_data({"w": values, "seen": result})

        def factor(x, values=values, result=result):
            return stats.norm.pdf(result, expected(x, values), 1).prod() * np.exp(-0.1 * expected(x, values).sum())

        assert found() == pytest.approx(log_l(factor), abs=1e-9)
    if covariate == "sums":
        assert summed(model.copy())() == pytest.approx(log_l(factor), abs=1e-9)


def test_sums_over_lengths_that_change():
    """The cells of an element depend on the length: the table is a variable."""
    with pm.Model(coords=published().coords) as model:
        w, seen = pm.Data("w", np.ones(1)), pm.Data("seen", np.ones(1))
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), published())
        pm.Normal("d", (x[:, None] * w).reshape((-1, 3)).sum(axis=1), 1, observed=seen)
    for length in (1, 2):
        w, result = np.arange(1.0, length + 1), np.arange(2.0, length + 2)
        with model:
            pm.set_data({"w": w, "seen": result})
        wanted = log_l(
            lambda x, w=w, r=result: stats.norm.pdf(r, (x[:, None] * w).reshape(-1, 3).sum(axis=1), 1).prod()
        )
        assert summed(model)() == pytest.approx(wanted, abs=1e-9)


@pytest.mark.quick_cases(0)
def test_interventions_and_observations():
    with pm.Model(coords=published().coords) as model:
        z = pm.Categorical("z", PRIOR)
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), published())
        pm.Normal("d", x[z], 1, observed=3)
        pm.Normal("q", x, 1)
    at = np.array([2.0, 0.5, 3.0])
    for k in (0, 2):
        wanted = log_l(lambda x, k=k: stats.norm.pdf(3, x[k], 1) * stats.norm.pdf(at, x, 1).prod())
        assert summed(pm.do(model, {"z": k}))(q=at) == pytest.approx(wanted, abs=1e-9)
        seen = pm.observe(model, {"z": k, "q": at})
        assert summed(seen.copy())() == pytest.approx(wanted + np.log(PRIOR[k]), abs=1e-9)
