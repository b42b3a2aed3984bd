"""Variables added to a copy of a model enter its density, or are refused: against enumeration of all tables."""

import itertools

import numpy as np
import pymc as pm
import pytest
from noise_totals import log_total
from scipy import stats

import ppdinf as ppd
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import ModelError

NOISY, TOTAL, EPSILON, RATE = np.array([5, -1, 2]), 6, 0.5, np.array([2.0, 1.0, 3.0])
TABLES = np.array([x for x in itertools.product(range(TOTAL + 1), repeat=3) if sum(x) == TOTAL])
LOG_WEIGHT = stats.poisson.logpmf(TABLES, RATE).sum(axis=1) - EPSILON * abs(TABLES - NOISY).sum(axis=1)
LOG_WEIGHT -= log_total(EPSILON, 3)


def posed(way="auto"):
    release = ppd.Release(NOISY, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release, marginalize=way)
    return model


def of_two(x):
    return -0.3 * (x[0] - x[2]) ** 2


def by_cell(x):
    return -0.3 * (x**2).sum()


COPIES = {
    "copied": pm.Model.copy,
    "copied twice": lambda model: model.copy().copy(),
    "observed": lambda model: pm.observe(with_latent(model), {"q": 1.5}),
    "intervened on": lambda model: pm.do(with_latent(model), {"q": 1.5}),
}


def with_latent(model):
    with model:
        pm.Normal("q", 0, 1)
    return model


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("again", COPIES)
@pytest.mark.parametrize("potential", [of_two, by_cell])
def test_potentials_on_the_table_of_a_copy(potential, again):
    """Wrong variant: another table is drawn at every call."""
    copy = COPIES[again](posed())
    x = tables_of(copy)[0].variable
    with copy:
        pm.Potential("p", potential(x))
    log_density = copy.compile_logp()
    points = [{"x": table} for table in TABLES] if "x" in copy else [{}]
    found = np.logaddexp.reduce([log_density(point) for point in points])
    wanted = np.log(sum(np.exp(w + potential(x)) for w, x in zip(LOG_WEIGHT, TABLES, strict=True)))
    if again == "observed":
        wanted += stats.norm.logpdf(1.5)
    assert found == pytest.approx(wanted, abs=1e-9)
    assert ("x" in copy) == (potential is of_two)


@pytest.mark.parametrize("potential", [of_two, by_cell])
def test_the_table_of_the_copied_model_is_refused(potential):
    model = posed()
    x, copy = tables_of(model)[0].variable, model.copy()
    before = copy.compile_logp()({})
    with copy, pytest.raises(ModelError, match="'p' depends on the confidential table 'x' of another model"):
        pm.Potential("p", potential(x))
    with copy, pytest.raises(ModelError, match="of another model"):
        pm.Deterministic("share", x / x.sum())
    assert not copy.potentials
    assert copy.compile_logp()({}) == pytest.approx(before, abs=1e-12)


def test_a_table_that_must_be_marginalized_must_be_in_copies_as_well():
    copy = posed(True).copy()
    with copy, pytest.raises(ModelError, match="marginalize=False"):
        pm.Potential("p", of_two(tables_of(copy)[0].variable))
    assert not copy.potentials


def test_copies_contain_the_names_of_tables():
    copy = posed().copy()
    with copy, pytest.raises(ModelError, match="name of the confidential table"):
        pm.Normal("x")
    x = tables_of(copy)[0].variable
    with copy, pytest.raises(ModelError, match="1 \\* table"):
        pm.Potential("p", x)
    assert x.name == "x"


def test_a_table_that_is_observed_or_set_is_not_marginalized():
    model, at = posed(False), TABLES[7]
    seen = pm.observe(model, {"x": at})
    assert [table.is_marginalized for table in tables_of(seen)] == [False]
    assert seen.compile_logp()({}) == pytest.approx(LOG_WEIGHT[7], abs=1e-9)
    given = pm.do(model, {"x": at})
    noise = -EPSILON * abs(at - NOISY).sum() - log_total(EPSILON, 3)
    assert given.compile_logp()({}) == pytest.approx(noise, abs=1e-9)
    assert not tables_of(given)
    with given:
        pm.Potential("p", of_two(given["x"]))
    assert given.compile_logp()({}) == pytest.approx(noise + of_two(at), abs=1e-9)
