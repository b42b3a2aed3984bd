"""Variables that depend on a table and on each other, against enumeration of all tables."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from noise_totals import log_total
from scipy import stats

import ppdinf as ppd

NOISY, TOTAL, EPSILON, RATE = np.array([5, -1, 2]), 6, 0.5, np.array([2.0, 1.0, 3.0])
TABLES = np.array([x for x in itertools.product(range(TOTAL + 1), repeat=3) if sum(x) == TOTAL])
WEIGHT = stats.poisson.pmf(TABLES, RATE).prod(axis=1) * np.exp(-EPSILON * abs(TABLES - NOISY).sum(axis=1))
WEIGHT /= np.exp(log_total(EPSILON, 3))
FIRST, SECOND, THIRD = np.array([3.0, 1.0, 2.0]), np.array([4.0, 1.0, 1.0]), np.array([9.0, 3.0, 6.0])
normal = stats.norm.pdf


def third(mu):
    return pm.Normal("d3", mu, 1, observed=THIRD)


# dependents of a table x, with d1 observed to be FIRST or drawn; and the density, with a row for each table
CHAINS = {
    "two": (
        lambda x, d1: pm.Normal("d2", d1 + x / 2, 1, observed=SECOND),
        lambda x, d1: normal(SECOND, d1 + x / 2, 1).prod(axis=1),
    ),
    "backwards": (
        lambda x, d1: pm.Normal("d2", d1[::-1] + x / 2, 1, observed=SECOND),
        lambda x, d1: normal(SECOND, d1[::-1] + x / 2, 1).prod(axis=1),
    ),
    "the mean of the first": (
        lambda x, d1: pm.Normal("d2", d1.mean() + x, 1, observed=SECOND),
        lambda x, d1: normal(SECOND, d1.mean() + x, 1).prod(axis=1),
    ),
    "three": (
        lambda x, d1: third(d1**2 + x * pm.Normal("d2", x + d1[[1, 2, 0]], 1, observed=SECOND)),
        lambda x, d1: (normal(SECOND, x + d1[[1, 2, 0]], 1) * normal(THIRD, d1**2 + x * SECOND, 1)).prod(axis=1),
    ),
    "one beside the table": (
        lambda x, d1: third(x + pm.Normal("d2", pt.exp(-d1), 1, observed=SECOND).sum()),
        lambda x, d1: (normal(SECOND, np.exp(-d1), 1) * normal(THIRD, x + SECOND.sum(), 1)).prod(axis=1),
    ),
    "a latent one between": (
        lambda x, d1: third(x + pm.Normal("q", d1[0], 1)),
        lambda x, d1: normal(0.7, d1[0], 1) * normal(THIRD, x + 0.7, 1).prod(axis=1),
    ),
    "a positive one between": (
        lambda x, d1: third(x + pm.Exponential("q", pt.exp(d1[0]))),
        lambda x, d1: 0.7 * stats.expon.pdf(0.7, scale=np.exp(-d1[0])) * normal(THIRD, x + 0.7, 1).prod(axis=1),
    ),
    "a potential": (
        lambda x, d1: pm.Potential("p", -0.1 * (d1[::-1] * x).sum()),
        lambda x, d1: np.exp(-0.1 * (d1[::-1] * x).sum(axis=1)),
    ),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("how", ["constant", "data", "latent"])
@pytest.mark.parametrize("chain", CHAINS)
def test_dependents_of_dependents(chain, how):
    tell, factor = CHAINS[chain]
    release = ppd.Release(NOISY, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))
    with pm.Model(coords=release.coords) as model:
        seen = {"constant": FIRST, "data": pm.Data("first", FIRST), "latent": None}[how]
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release)
        tell(x, pm.Normal("d1", x, 1, observed=seen))
    given = {"d1": FIRST, "q": np.array(0.7), "q_log__": np.log(0.7)}
    names = [value.name for value in model.value_vars]
    assert ("x" in names) == (chain == "a positive one between")
    log_density = model.compile_logp()
    points = [{"x": table} for table in TABLES] if "x" in names else [{}]
    at = {name: given[name] for name in names if name != "x"}
    found = np.logaddexp.reduce([log_density({**point, **at}) for point in points])
    wanted = np.log((WEIGHT * normal(FIRST, TABLES, 1).prod(axis=1) * factor(TABLES, FIRST)).sum())
    assert found == pytest.approx(wanted, abs=1e-9)
