"""Integers with given sums and no noise: against enumeration, and Fisher's noncentral hypergeometric distribution."""

import itertools

import numpy as np
import pymc as pm
import pytest
from chi_square import p_value, p_value_of_tables
from gibbs_draws import gibbs_draws
from scipy import stats
from scipy.special import gammaln

import ppdinf as ppd
from ppdinf.errors import InvariantError, ModelError
from ppdinf.invariants import groups, margin, total
from ppdinf.lattice.fiber_tables import fiber_tables

RARE = 1e-5


def blank(shape, dims):
    return ppd.as_table(np.zeros(shape, dtype=int), dims=dims)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("odds", [1.0, 4.0])
def test_two_by_two_is_noncentral_hypergeometric(odds):
    public = (margin("a") & margin("b")).on(blank((2, 2), ("a", "b")), values=[7, 9, 6, 10])
    with pm.Model(coords={"a": [0, 1], "b": [0, 1]}) as model:
        ppd.models.ConstrainedCounts("x", pm.Poisson.dist(np.array([[odds, 1.0], [1.0, 1.0]])), public)
    corner = gibbs_draws(model, 3000)[:, 0]
    law = stats.nchypergeom_fisher.pmf(np.arange(17), 16, 7, 6, odds)
    assert p_value(corner, law) > RARE
    assert p_value(corner, stats.nchypergeom_fisher.pmf(np.arange(17), 16, 7, 6, odds * 1.5)) < RARE


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("shape", [(2, 2, 2), (3, 4)])
def test_fixed_margins_against_all_tables(shape):
    dims = ("a", "b", "c")[: len(shape)]
    rng = np.random.default_rng(1)
    truth = rng.integers(*((1, 5) if len(shape) == 3 else (0, 2)), shape)
    rates = rng.uniform(0.5, 2, shape)
    pairs = [margin(*pair) for pair in itertools.combinations(dims, len(dims) - 1)]
    margins = pairs[0]
    for further in pairs[1:]:
        margins = margins & further
    bound = margins.on(ppd.as_table(truth, dims=dims))
    with pm.Model(coords={dim: range(n) for dim, n in zip(dims, shape, strict=True)}) as model:
        ppd.models.ConstrainedCounts("x", pm.Poisson.dist(rates), bound)
    tables = fiber_tables(bound.A, bound.values, np.eye(truth.size, dtype=int), np.zeros(truth.size, int))
    log_weight = (tables * np.log(rates.ravel()) - gammaln(tables + 1)).sum(axis=1)
    law = np.exp(log_weight - log_weight.max())
    assert p_value_of_tables(gibbs_draws(model, 3000), tables, law / law.sum()) > RARE


def test_nested_sums_are_marginalized():
    table = ppd.as_table(np.array([3, 1, 2]), dims=["county"])
    states = {0: "X", 1: "X", 2: "Y"}
    public = (total() & groups("county", states)).on(table)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1, default_transform=None)
        ppd.models.ConstrainedCounts("x", pm.Poisson.dist(rate * np.ones(3)), public)
    assert [rv.name for rv in model.free_RVs] == ["rate"]
    log_p = model.compile_logp()
    found = [float(log_p({"rate": np.array(r)})) - float(pm.logp(pm.Gamma.dist(2, 1), r).eval()) for r in (0.5, 2.0)]
    expected = [stats.poisson.logpmf(4, 2 * r) + stats.poisson.logpmf(2, r) for r in (0.5, 2.0)]
    assert found == pytest.approx(expected, abs=1e-9)


def test_refused():
    with pm.Model():
        with pytest.raises(ModelError, match="bound"):
            ppd.models.ConstrainedCounts("x", pm.Poisson.dist(1.0), total())
        impossible = total().on(np.zeros(3, dtype=int), values=[-2])
        with pytest.raises((InvariantError, ModelError)):
            ppd.models.ConstrainedCounts("x", pm.Poisson.dist(np.ones(3)), impossible)


def test_reports_of_three_answers_have_the_multinomial_density():
    """Randomized response: the sums by report of persons by answer and report are Multinomial(n, shares @ design)."""
    design, reports = np.full((3, 3), 0.15) + 0.55 * np.eye(3), np.array([11, 7, 7])
    labels = ppd.as_table(np.zeros((3, 3), dtype=int), dims=("answer", "report"))
    with pm.Model() as model:
        shares = pm.Dirichlet("shares", np.ones(3), default_transform=None)
        persons = pm.Poisson.dist(25 * shares[:, None] * design)
        ppd.models.ConstrainedCounts("persons", persons, margin("report").on(labels, values=reports.tolist()))
    density = model.compile_logp()
    points = np.random.default_rng(1).dirichlet([1, 1, 1], 5)
    found = [density({"shares": p}).item() for p in points]
    for kept, same in [(design, True), (design.T[::-1], False)]:
        wanted = [stats.multinomial.logpmf(reports, 25, p @ kept) for p in points]
        assert np.allclose(np.diff(found), np.diff(wanted), atol=1e-9) == same
