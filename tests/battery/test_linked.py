"""Models in which a confidential table depends on or informs other variables, against the enumerated posterior.

Observed inputs of the table (covariates, populations) keep their observed values. Dependents of the table
(deaths among cases, outcomes, potentials, a second table) enter its posterior, marginalized or sampled.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import enumerator as own
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from chi_square import p_value_of_tables
from posed import summed_out, walked, with_gradient
from published import PUBLISHED
from scipy import stats
from scipy.special import expit
from test_draws import ALARM

import ppdinf as ppd

pytestmark = pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
QUICK = {"mode": "FAST_COMPILE"}
FEW = PUBLISHED["total"]  # noisy (4, -1, 5) with public total 8
COVARIATE, MISSING = np.array([3.0, -3.0, 0.0]), np.array([False, False, True])
POPULATION = np.array([9.0, 2.0, 4.0])
DEATHS, OUTCOME, READING = np.array([2, 0, 1]), np.array([5, 0, 3]), np.array([4.2, 0.9, 2.5])
OTHER = (1, 2, -1)  # a second release, without public statements


@dataclass(frozen=True)
class Linked:
    """`write(table, theta)` builds the model, `table(dist)` is the confidential table; `log_joint(point, x)`."""

    write: Callable
    log_joint: Callable
    wrong: Callable  # log_joint with a named fault
    points: list = field(default_factory=lambda: [{"theta": np.array([0.8, -0.3])}, {"theta": np.array([1.4, 0.5])}])
    routes: tuple = (True, False)

    def model(self, *, marginalize):
        release = FEW.release()
        with pm.Model(coords=release.coords) as model:
            theta = pm.Flat("theta", shape=2)
            self.write(lambda dist: ppd.PartiallyPrivate("x", dist, release=release, marginalize=marginalize), theta)
        return model


def with_values(**values):
    return [
        {"theta": np.array([0.8, -0.3])} | {name: np.array(value) for name, value in values.items()},
        {"theta": np.array([1.4, 0.5])} | {name: np.array(value) for name, value in values.items()},
    ]


def table_of(theta, x, covariate):
    return own.poisson(x, np.exp(theta[0] + theta[1] * covariate)).sum(axis=1)


def plain(point, x):
    """Return the model of a table whose cells have rates exp(theta[0])."""
    return own.poisson(x, np.exp(point["theta"][0])).sum(axis=1)


def plain_table(table, theta):
    return table(pm.Poisson.dist(pm.math.exp(theta[0]), shape=3))


def covariate_observed(table, theta):
    covariate = pm.Normal("covariate", 0.0, 5.0, observed=COVARIATE)
    table(pm.Poisson.dist(pm.math.exp(theta[0] + theta[1] * covariate)))


def covariate_masked(table, theta):
    covariate = pm.Normal("covariate", 0.0, 5.0, observed=np.ma.masked_array(COVARIATE, MISSING))
    table(pm.Poisson.dist(pm.math.exp(theta[0] + theta[1] * covariate)))


def population_observed(table, theta):
    population = pm.Poisson("population", pm.math.exp(theta[0] + 1), shape=3, observed=POPULATION.astype(int))
    table(pm.Poisson.dist(population * pm.math.exp(theta[1])))


def population_data(table, theta):
    table(pm.Poisson.dist(pm.Data("population", POPULATION) * pm.math.exp(theta[1])))


def people_at_risk(table, theta):
    people = pm.Poisson("people", 9.0, shape=3, observed=np.array([9, 4, 6]))
    table(pm.Binomial.dist(people, pm.math.sigmoid(theta)[0]))


def shared_latent(table, theta):
    level = pm.Normal("level", theta[0], 1)
    pm.Normal("seen", level, 0.5, observed=0.7)
    table(pm.Poisson.dist(pm.math.exp(level + theta[1] * COVARIATE / 3)))


def deaths_observed(table, theta):
    x = plain_table(table, theta)
    pm.Binomial("deaths", n=x, p=pm.math.sigmoid(theta[1]), observed=DEATHS)


def deaths_unknown(table, theta):
    x = plain_table(table, theta)
    deaths = pm.Binomial("deaths", n=x, p=pm.math.sigmoid(theta[1]))
    pm.Poisson("seen", 1 + deaths, observed=np.array([3, 1, 1]))


def outcome_observed(table, theta):
    x = plain_table(table, theta)
    pm.Poisson("outcome", mu=0.1 + x * pm.math.exp(theta[1]), observed=OUTCOME)


def reading_observed(table, theta):
    x = plain_table(table, theta)
    pm.Normal("reading", mu=x, sigma=pm.math.exp(theta[1]), observed=READING)


def reading_masked(table, theta):
    x = plain_table(table, theta)
    pm.Normal("reading", mu=x, sigma=pm.math.exp(theta[1]), observed=np.ma.masked_array(READING, MISSING))


def one_cell_read(table, theta):
    x = plain_table(table, theta)
    pm.Normal("first", mu=x[0], sigma=pm.math.exp(theta[1]), observed=2.1)


def potential(table, theta):
    x = plain_table(table, theta)
    pm.Potential("pull", -0.3 * (x - pm.math.exp(theta[1])) ** 2)


def potentials(table, theta):
    """Sums over cells with unknown weights or data weights, and a part that depends on no cell."""
    x = plain_table(table, theta)
    pm.Potential("pull", theta[0] ** 2 - pm.math.exp(theta[1]) * pt.abs(x - pm.Data("to", [2.0, 1.0, 5.0])).sum())
    pm.Potential("tilt", theta[1] * x[1] - 0.1 * x[0] ** 2)


def of_potentials(point, x, times=1):
    (a, b), pull = point["theta"], np.abs(x - [2, 1, 5]).sum(axis=1)
    return plain(point, x) + times * (a**2 - np.exp(b) * pull + b * x[:, 1] - 0.1 * x[:, 0] ** 2)


def two_cells_read(table, theta):
    x = plain_table(table, theta)
    pm.Normal("both", mu=x[0] + 2 * x[1], sigma=pm.math.exp(theta[1]), observed=3.0)


def share(table, theta):
    x = plain_table(table, theta)
    share = pm.Deterministic("share", x / x.sum())
    pm.Normal("read", mu=share[0] - share[2], sigma=0.2 * pm.math.exp(theta[1]), observed=-0.3)


def second_table(table, theta):
    x = plain_table(table, theta)
    deaths = ppd.Release(np.array(OTHER), ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=2))
    ppd.PartiallyPrivate("deaths", pm.Binomial.dist(x, pm.math.sigmoid(theta[1])), release=deaths)


def log_binomial(n, p, seen):
    return np.where(n >= seen, stats.binom.logpmf(seen, np.maximum(n, 0), p), -np.inf).sum(axis=1)


def normal(value, mu, sigma):
    return stats.norm.logpdf(value, mu, sigma)


def log_masked(point, x):
    covariate = np.where(MISSING, np.sum(point["covariate_unobserved"]), COVARIATE)
    return table_of(point["theta"], x, covariate) + normal(covariate, 0, 5).sum()


def of_latent(point, x):
    level, theta = point["level"], point["theta"]
    above = normal(level, theta[0], 1) + normal(0.7, level, 0.5)
    return own.poisson(x, np.exp(level + theta[1] * COVARIATE / 3)).sum(axis=1) + above


def of_second(point, x, epsilon=2.0):
    """The second table is enumerated as well, cell by cell."""
    deaths = np.arange(13)
    p = expit(point["theta"][1])
    log_deaths = own.binomial(deaths, x[..., None], np.log(p / (1 - p)))
    return plain(point, x) + own.logsumexp(
        log_deaths + stats.dlaplace.logpmf(np.array(OTHER)[:, None] - deaths, epsilon), axis=-1
    ).sum(axis=1)


def scale(point):
    return np.exp(point["theta"][1])


LINKED = {
    "covariate observed": Linked(
        covariate_observed,
        lambda point, x: table_of(point["theta"], x, COVARIATE) + normal(COVARIATE, 0, 5).sum(),
        lambda point, x: table_of(point["theta"], x, -COVARIATE),
    ),
    "covariate partly missing": Linked(
        covariate_masked,
        log_masked,
        lambda point, x: table_of(point["theta"], x, np.where(MISSING, 4.0, COVARIATE)),
        with_values(covariate_unobserved=[-1.5]),
    ),
    "population observed": Linked(
        population_observed,
        lambda point, x: (
            own.poisson(x, POPULATION * scale(point)).sum(axis=1)
            + own.poisson(POPULATION, np.exp(point["theta"][0] + 1)).sum()
        ),
        lambda point, x: own.poisson(x, 5 * scale(point)).sum(axis=1),
    ),
    "population as data": Linked(
        population_data,
        lambda point, x: own.poisson(x, POPULATION * scale(point)).sum(axis=1),
        lambda point, x: own.poisson(x, 5 * scale(point)).sum(axis=1),
    ),
    "people at risk observed": Linked(
        people_at_risk,
        lambda point, x: (
            own.binomial(x, np.array([9, 4, 6]), point["theta"][0]).sum(axis=1)
            + own.poisson(np.array([9, 4, 6]), 9.0).sum()
        ),
        lambda point, x: own.binomial(x, 9, point["theta"][0]).sum(axis=1),
    ),
    "latent shared with other data": Linked(
        shared_latent,
        of_latent,
        lambda point, x: of_latent(point | {"theta": point["theta"] * [1, -1]}, x),
        with_values(level=0.9),
    ),
    "deaths among cases, observed": Linked(
        deaths_observed,
        lambda point, x: plain(point, x) + log_binomial(x, expit(point["theta"][1]), DEATHS),
        plain,
    ),
    "deaths among cases, unknown": Linked(
        deaths_unknown,
        lambda point, x: (
            plain(point, x)
            + log_binomial(x, expit(point["theta"][1]), point["deaths"])
            + own.poisson(np.array([3, 1, 1]), 1 + point["deaths"]).sum()
        ),
        plain,
        with_values(deaths=[2, 0, 1]),
    ),
    "outcome with counts as rates": Linked(
        outcome_observed,
        lambda point, x: plain(point, x) + own.poisson(OUTCOME, 0.1 + x * scale(point)).sum(axis=1),
        plain,
    ),
    "readings of the cells": Linked(
        reading_observed, lambda point, x: plain(point, x) + normal(READING, x, scale(point)).sum(axis=1), plain
    ),
    "readings, one missing": Linked(
        reading_masked,
        lambda point, x: (
            plain(point, x)
            + normal(np.where(MISSING, np.sum(point["reading_unobserved"]), READING), x, scale(point)).sum(axis=1)
        ),
        plain,
        with_values(reading_unobserved=[1.4]),
    ),
    "reading of one cell": Linked(
        one_cell_read, lambda point, x: plain(point, x) + normal(2.1, x[:, 0], scale(point)), plain
    ),
    "potential": Linked(
        potential,
        lambda point, x: plain(point, x) - 0.3 * ((x - scale(point)) ** 2).sum(axis=1),
        plain,
    ),
    "potentials": Linked(potentials, of_potentials, lambda point, x: of_potentials(point, x, times=2)),
    "reading of two cells": Linked(
        two_cells_read,
        lambda point, x: plain(point, x) + normal(3.0, x[:, 0] + 2 * x[:, 1], scale(point)),
        plain,
        routes=(False,),
    ),
    "reading of shares": Linked(
        share,
        lambda point, x: plain(point, x) + normal(-0.3, (x[:, 0] - x[:, 2]) / 8, 0.2 * scale(point)),
        plain,
        routes=(False,),
    ),
    "second table": Linked(second_table, of_second, plain, routes=()),
}
LIGHT = ["covariate observed", "deaths among cases, observed", "potentials"]
BOTH = [
    pytest.param(name, route, marks=() if name in LIGHT else [pytest.mark.deep] + [pytest.mark.interpreted] * route)
    for name, linked in LINKED.items()
    for route in linked.routes
]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", [name for name, linked in LINKED.items() if True in linked.routes])
def test_density_of_marginalized_tables(name):
    linked = LINKED[name]
    model, listed = linked.model(marginalize=True), FEW.listed()
    both = with_gradient(model, **QUICK)
    order = [v.name for v in model.continuous_value_vars]
    for point in linked.points:
        sizes = [np.size(point[v]) for v in order]

        def expected(flat, point=point, sizes=sizes):
            parts = np.split(flat, np.cumsum(sizes)[:-1])
            moved = {v: part.reshape(np.shape(point[v])) for v, part in zip(order, parts, strict=True)}
            return listed.log_marginal(linked.log_joint(point | moved, listed.tables))

        flat = np.concatenate([np.ravel(point[v]) for v in order])
        found, slopes = both(point)
        assert found == pytest.approx(expected(flat), abs=1e-5)  # observed inputs have PyMC's own density
        np.testing.assert_allclose(slopes, own.slope(expected, flat), rtol=1e-6, atol=1e-7)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", [name for name, linked in LINKED.items() if False in linked.routes])
def test_density_of_sampled_tables(name):
    linked = LINKED[name]
    value, listed = linked.model(marginalize=False).compile_logp(**QUICK), FEW.listed()
    for point in linked.points:
        expected = linked.log_joint(point, listed.tables) + listed.log_noise
        found = np.array([value(point | {"x": x}) for x in listed.tables], dtype=float)
        assert own.alike(found, expected), (found, expected)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("name", "route"), BOTH)
def test_draws(name, route):
    linked, listed = LINKED[name], FEW.listed()
    draw = summed_out if route else walked
    found = draw(linked.model(marginalize=route), linked.points[0], 4000, 1)
    right = listed.probabilities(linked.log_joint(linked.points[0], listed.tables))
    wrong = listed.probabilities(linked.wrong(linked.points[0], listed.tables))
    assert p_value_of_tables(found, listed.tables, right) > ALARM
    assert p_value_of_tables(found, listed.tables, wrong) < ALARM


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", [name for name, linked in LINKED.items() if linked.routes == (False,)])
def test_a_table_with_a_dependent_of_several_cells_is_not_marginalized(name):
    with pytest.raises(ppd.errors.ModelError, match=r"."):
        LINKED[name].model(marginalize=True)
    model = LINKED[name].model(marginalize="auto")
    assert "x" in [variable.name for variable in model.free_RVs]


@pytest.mark.deep
def test_second_table_given_the_first():
    """Both tables are sampled, each given the other."""
    linked, listed = LINKED["second table"], FEW.listed()
    model, point = linked.model(marginalize="auto"), linked.points[0]
    fixed = pm.do(model, {"theta": point["theta"]})
    with fixed:
        idata = pm.sample(4000, tune=200, chains=1, random_seed=1, progressbar=False, quiet=True,
                          compute_convergence_checks=False)  # fmt: skip
    found = idata.posterior["x"].values[0, ::4]
    assert p_value_of_tables(found, listed.tables, listed.probabilities(linked.log_joint(point, listed.tables))) > ALARM
    assert p_value_of_tables(found, listed.tables, listed.probabilities(plain(point, listed.tables))) < ALARM


def test_tables_that_share_a_parameter():
    """Two releases in one model: their likelihoods multiply, each table is drawn by its name."""
    releases = {"x": PUBLISHED["total"], "y": PUBLISHED["gaussian"]}
    with pm.Model() as model:
        theta = pm.Flat("theta", shape=2)
        for name, published in releases.items():
            rate = pm.math.exp(theta)[:1] + pt.zeros(3)
            ppd.PartiallyPrivate(name, pm.Poisson.dist(rate), release=published.release())
    value, point = model.compile_logp(**QUICK), LINKED["potential"].points[0]
    listed = {name: published.listed() for name, published in releases.items()}
    expected = sum(one.log_marginal(plain(point, one.tables)) for one in listed.values())
    assert value(point) == pytest.approx(expected, abs=1e-8)
    import xarray as xr

    theta = np.broadcast_to(point["theta"], (1, 4000, 2))
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset({"theta": (("chain", "draw", "k"), theta)})})
    for name, one in listed.items():
        found = ppd.sample_confidential(idata, model, name=name, random_seed=1).values[0]
        assert p_value_of_tables(found, one.tables, one.probabilities(plain(point, one.tables))) > ALARM
        for other in listed.values():
            if other is not one:
                assert p_value_of_tables(found, other.tables, other.probabilities(plain(point, other.tables))) < ALARM
