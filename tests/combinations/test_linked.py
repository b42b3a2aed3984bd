"""Models in which a confidential table depends on or informs other variables, against the enumerated posterior.

Observed inputs of the table (covariates, populations) keep their observed values. Dependents of the table
(deaths among cases, outcomes, potentials, a second table) enter its posterior, marginalized or sampled.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from chi_square import p_value
from known_parameters import QUIET
from scipy import stats
from scipy.special import expit

import ppdinf as ppd
from combinations import formulas as own
from combinations.check_posterior import repeated
from combinations.formulas import normal
from combinations.named import PUBLISHED, NamedPosed, chain, drawn_given, with_gradient
from combinations.test_named_models import ALARM, QUICK

pytestmark = pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
FEW = PUBLISHED["total"]  # noisy (4, -1, 5) with public total 8
COVARIATE, MISSING = np.array([3.0, -3.0, 0.0]), np.array([False, False, True])
POPULATION = np.array([9.0, 2.0, 4.0])
DEATHS, OUTCOME, READING = np.array([2, 0, 1]), np.array([5, 0, 3]), np.array([4.2, 0.9, 2.5])
OTHER = (1, 2, -1)  # a second release, without public statements
NONE, TOTAL = ppd.invariants.Public(), ppd.invariants.total()
EXPOSURE = np.array([1.0, 2.0, 0.5])
TABLE = "x = table(pm.Poisson.dist(pm.math.exp(a), shape=3))\n"


def plain(p, x):
    """Return the log density of a table whose cells have rates exp(a)."""
    return own.poisson(x, np.exp(p.a)).sum(axis=1)


@dataclass(frozen=True)
class Linked:
    """Lines of a model, where ``table(dist)`` is the confidential table and a, b are unknowns.

    `log_joint` takes values of everything else and tables in rows; `wrong` has a named fault.
    """

    code: str
    log_joint: Callable
    wrong: Callable = plain
    values: dict = field(default_factory=dict)  # of further unknowns
    routes: tuple = (True, False)

    def model(self, *, marginalize):
        release = FEW.release()
        with pm.Model(coords=release.coords) as model:
            a, b = pm.Flat("theta", shape=2)

            def table(dist):
                return ppd.PartiallyPrivate("x", dist, release=release, marginalize=marginalize)

            exec(self.code, {**globals(), "a": a, "b": b, "table": table})
        return model

    @property
    def points(self):
        values = {name: np.array(value) for name, value in self.values.items()}
        return [{"theta": np.array(theta)} | values for theta in ((0.8, -0.3), (1.4, 0.5))]

    def posed(self, *, wrong=False):
        return posed(self.wrong if wrong else self.log_joint)


def posed(log_joint, release=FEW):
    def of_point(point, x):
        a, b = point["theta"]
        return log_joint(SimpleNamespace(a=a, b=b, scale=np.exp(b), **point), x)

    return NamedPosed.of(release, of_point)


def after(code, log_p, **options):
    """A table with dependents; the fault is that they do not inform the table."""
    return Linked(TABLE + code, lambda p, x: plain(p, x) + log_p(p, x), **options)


def rates(p, x, covariate):
    return own.poisson(x, np.exp(p.a + p.b * covariate)).sum(axis=1)


def log_masked(p, x):
    covariate = np.where(MISSING, np.sum(p.covariate_unobserved), COVARIATE)
    return rates(p, x, covariate) + normal(covariate, 0, 5).sum()


def of_latent(p, x, sign=1):
    above = normal(p.level, p.a, 1) + normal(0.7, p.level, 0.5)
    return own.poisson(x, np.exp(p.level + sign * p.b * COVARIATE / 3)).sum(axis=1) + above


def of_deaths(p, x, deaths):
    return np.where(x >= deaths, stats.binom.logpmf(deaths, np.maximum(x, 0), expit(p.b)), -np.inf).sum(axis=1)


def of_potentials(p, x):
    pull = np.abs(x - [2, 1, 5]).sum(axis=1)
    return p.a**2 - p.scale * pull + p.b * x[:, 1] - 0.1 * x[:, 0] ** 2


def of_second(p, x, epsilon=2.0):
    """The second table is enumerated as well, cell by cell."""
    deaths = np.arange(13)
    log_noise = stats.dlaplace.logpmf(np.array(OTHER)[:, None] - deaths, epsilon)
    return own.logsumexp(own.binomial(deaths, x[..., None], p.b) + log_noise, axis=-1).sum(axis=1)


def of_events(p, x, epsilon=2.0):
    events = np.arange(60)
    log_noise = stats.dlaplace.logpmf(np.array(OTHER)[:, None] - events, epsilon)
    log_f = stats.poisson.logpmf(events, (x * EXPOSURE)[..., None] * np.exp(p.b))
    return own.logsumexp(log_f + log_noise, axis=-1).sum(axis=1)


def alone(noisy, loss=2, public=NONE):
    return ppd.Release(np.array(noisy), ppd.GeneralizedLaplace(public, epsilon=loss))


def of_chain(p, x):
    """Binomial deaths of the table, Poisson numbers of the third table given the deaths, and the noise of both."""
    noise = stats.dlaplace.logpmf(OTHER - p.deaths, 1) + stats.dlaplace.logpmf(OTHER - p.third, 2)
    return of_deaths(p, x, p.deaths) + (stats.poisson.logpmf(p.third, 0.7 * p.deaths) + noise).sum()


def with_total(z):
    """Log probability of noise of three cells without their total, among all that add up to 0."""
    steps = np.arange(-40, 41)
    return -2 * abs(z).sum() - own.logsumexp(
        -2 * (abs(steps) + abs(steps[:, None]) + abs(steps + steps[:, None])).ravel(), axis=0
    )


LINKED = {
    "covariate observed": Linked(
        'covariate = pm.Normal("covariate", 0.0, 5.0, observed=COVARIATE)\n'
        "table(pm.Poisson.dist(pm.math.exp(a + b * covariate)))",
        lambda p, x: rates(p, x, COVARIATE) + normal(COVARIATE, 0, 5).sum(),
        lambda p, x: rates(p, x, -COVARIATE),
    ),
    "covariate partly missing": Linked(
        'covariate = pm.Normal("covariate", 0.0, 5.0, observed=np.ma.masked_array(COVARIATE, MISSING))\n'
        "table(pm.Poisson.dist(pm.math.exp(a + b * covariate)))",
        log_masked,
        lambda p, x: rates(p, x, np.where(MISSING, 4.0, COVARIATE)),
        {"covariate_unobserved": [-1.5]},
    ),
    "population observed": Linked(
        'population = pm.Poisson("population", pm.math.exp(a + 1), shape=3, observed=POPULATION.astype(int))\n'
        "table(pm.Poisson.dist(population * pm.math.exp(b)))",
        lambda p, x: (own.poisson(x, POPULATION * p.scale) + own.poisson(POPULATION, np.exp(p.a + 1))).sum(axis=1),
        lambda p, x: own.poisson(x, 5 * p.scale).sum(axis=1),
    ),
    "population as data": Linked('table(pm.Poisson.dist(pm.Data("population", POPULATION) * pm.math.exp(b)))',
                                 lambda p, x: own.poisson(x, POPULATION * p.scale).sum(axis=1),
                                 lambda p, x: own.poisson(x, 5 * p.scale).sum(axis=1)),
    "people at risk observed": Linked(
        'people = pm.Poisson("people", 9.0, shape=3, observed=np.array([9, 4, 6]))\n'
        "table(pm.Binomial.dist(people, pm.math.sigmoid(a)))",
        lambda p, x: (own.binomial(x, np.array([9, 4, 6]), p.a) + own.poisson(np.array([9, 4, 6]), 9.0)).sum(axis=1),
        lambda p, x: own.binomial(x, 9, p.a).sum(axis=1),
    ),
    "latent shared with other data": Linked(
        'level = pm.Normal("level", a, 1)\n'
        'pm.Normal("seen", level, 0.5, observed=0.7)\n'
        "table(pm.Poisson.dist(pm.math.exp(level + b * COVARIATE / 3)))",
        of_latent,
        lambda p, x: of_latent(p, x, sign=-1),
        {"level": 0.9},
    ),
    "deaths among cases, observed": after('pm.Binomial("deaths", n=x, p=pm.math.sigmoid(b), observed=DEATHS)',
                                          lambda p, x: of_deaths(p, x, DEATHS)),
    "deaths among cases, unknown": after(
        'deaths = pm.Binomial("deaths", n=x, p=pm.math.sigmoid(b))\n'
        'pm.Poisson("seen", 1 + deaths, observed=np.array([3, 1, 1]))',
        lambda p, x: of_deaths(p, x, p.deaths) + own.poisson(np.array([3, 1, 1]), 1 + p.deaths).sum(),
        values={"deaths": [2, 0, 1]},
    ),
    "outcome with counts as rates": after('pm.Poisson("outcome", mu=0.1 + x * pm.math.exp(b), observed=OUTCOME)',
                                          lambda p, x: own.poisson(OUTCOME, 0.1 + x * p.scale).sum(axis=1)),
    "readings of the cells": after('pm.Normal("reading", mu=x, sigma=pm.math.exp(b), observed=READING)',
                                   lambda p, x: normal(READING, x, p.scale).sum(axis=1)),
    "readings, one missing": after(
        'pm.Normal("reading", mu=x, sigma=pm.math.exp(b), observed=np.ma.masked_array(READING, MISSING))',
        lambda p, x: normal(np.where(MISSING, np.sum(p.reading_unobserved), READING), x, p.scale).sum(axis=1),
        values={"reading_unobserved": [1.4]},
    ),
    "reading of one cell": after('pm.Normal("first", mu=x[0], sigma=pm.math.exp(b), observed=2.1)',
                                 lambda p, x: normal(2.1, x[:, 0], p.scale)),
    "potential": after('pm.Potential("pull", -0.3 * (x - pm.math.exp(b)) ** 2)',
                       lambda p, x: -0.3 * ((x - p.scale) ** 2).sum(axis=1)),
    # sums over cells with unknown weights or data weights, and a part that depends on no cell
    "potentials": Linked(
        TABLE + 'pm.Potential("pull", a**2 - pm.math.exp(b) * pt.abs(x - pm.Data("to", [2.0, 1.0, 5.0])).sum())\n'
        'pm.Potential("tilt", b * x[1] - 0.1 * x[0] ** 2)',
        lambda p, x: plain(p, x) + of_potentials(p, x),
        lambda p, x: plain(p, x) + 2 * of_potentials(p, x),
    ),
    "reading of two cells": after('pm.Normal("both", mu=x[0] + 2 * x[1], sigma=pm.math.exp(b), observed=3.0)',
                                  lambda p, x: normal(3.0, x[:, 0] + 2 * x[:, 1], p.scale), routes=(False,)),
    "reading of shares": after(
        'share = pm.Deterministic("share", x / x.sum())\n'
        'pm.Normal("read", mu=share[0] - share[2], sigma=0.2 * pm.math.exp(b), observed=-0.3)',
        lambda p, x: normal(-0.3, (x[:, 0] - x[:, 2]) / 8, 0.2 * p.scale),
        routes=(False,),
    ),
    "second table": after('ppd.PartiallyPrivate("deaths", pm.Binomial.dist(x, pm.math.sigmoid(b)), alone(OTHER))',
                          of_second, routes=(True,)),
    "second table, events": after(
        'ppd.PartiallyPrivate("events", pm.Poisson.dist(pm.math.exp(b) * x * EXPOSURE), alone(OTHER))',
        of_events,
        routes=(True,),
    ),
    "second table with a total": after(
        'ppd.PartiallyPrivate("deaths", pm.Binomial.dist(x, pm.math.sigmoid(b)), alone(OTHER, 2, TOTAL))',
        lambda p, x: of_deaths(p, x, p.deaths) + with_total(OTHER - p.deaths),
        values={"deaths": [1, 1, 0]},
        routes=(False,),
    ),
    "chain of tables": after(
        'deaths = ppd.PartiallyPrivate("deaths", pm.Binomial.dist(x, pm.math.sigmoid(b)), alone(OTHER, 1))\n'
        'ppd.PartiallyPrivate("third", pm.Poisson.dist(0.7 * deaths), alone(OTHER))',
        of_chain,
        values={"deaths": [2, 0, 1], "third": [1, 0, 1]},
        routes=(False,),
    ),
}  # fmt: skip
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
    model, right = linked.model(marginalize=True), linked.posed()
    value_and_gradient = with_gradient(model, **QUICK)
    order = [v.name for v in model.continuous_value_vars]
    for point in linked.points:
        sizes = [np.size(point[v]) for v in order]

        def expected(flat, point=point, sizes=sizes):
            parts = np.split(flat, np.cumsum(sizes)[:-1])
            moved = {v: part.reshape(np.shape(point[v])) for v, part in zip(order, parts, strict=True)}
            return right.log_density(point | moved)

        flat = np.concatenate([np.ravel(point[v]) for v in order])
        found, slopes = value_and_gradient(point)
        assert found == pytest.approx(expected(flat), abs=1e-5)  # observed inputs have PyMC's own density
        np.testing.assert_allclose(slopes, own.slope(expected, flat), rtol=1e-6, atol=1e-7)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", [name for name, linked in LINKED.items() if False in linked.routes])
def test_density_of_sampled_tables(name):
    linked = LINKED[name]
    value, right = linked.model(marginalize=False).compile_logp(**QUICK), linked.posed()
    for point in linked.points:
        ((_, tables, expected),) = right.listed(point)[0].groups
        found = [value(point | {"x": x}) for x in tables]
        assert own.alike(found, expected), (found, expected)


def assert_only_right(linked, draws):
    point = linked.points[0]
    assert linked.posed().listed(point)[0].p_value(draws) > ALARM
    assert linked.posed(wrong=True).listed(point)[0].p_value(draws) < ALARM


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("name", "route"), BOTH)
def test_draws(name, route):
    linked, draw = LINKED[name], drawn_given if route else chain
    assert_only_right(linked, draw(linked.model(marginalize=route), linked.points[0], 4000, 1))


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
    linked = LINKED["second table"]
    with pm.do(linked.model(marginalize=False), {"theta": linked.points[0]["theta"]}):
        idata = pm.sample(4000, tune=200, chains=1, random_seed=1, **QUIET)
    assert_only_right(linked, idata.posterior["x"].values[0, ::4])


@pytest.mark.quick_cases(0)
@pytest.mark.interpreted
@pytest.mark.parametrize("family", ["binomial", "Poisson"])
def test_both_tables_are_drawn_jointly(family):
    with pm.Model() as model:
        b = pm.Flat("b")
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(4, shape=1), alone([6], 1))
        dist = {"binomial": pm.Binomial.dist(x, pm.math.sigmoid(b)), "Poisson": pm.Poisson.dist(x * pm.math.exp(b))}
        ppd.PartiallyPrivate("y", dist[family], alone([4], 1))
    idata = repeated({"b": np.array(-0.5)}, 4000)
    y = ppd.sample_confidential(idata, model, name="y", random_seed=1, progressbar=False).values.ravel()
    found = idata.posterior["x"].values.ravel() * 100 + y
    n, m = np.divmod(np.arange(6000), 100)
    log_f = {"binomial": stats.binom.logpmf(m, n, expit(-0.5)), "Poisson": stats.poisson.logpmf(m, n * np.exp(-0.5))}
    law = np.exp(stats.poisson.logpmf(n, 4) - abs(n - 6) + log_f[family] - abs(m - 4))
    law = law.reshape(60, 100) / law.sum()
    assert p_value(found, law) > ALARM
    assert p_value(found, np.outer(law.sum(axis=1), law.sum(axis=0))) < ALARM


@pytest.mark.quick_cases(0)
def test_linked_tables_become_variables_with_possible_starts():
    with pm.Model() as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(5, shape=2), alone([1, 8], "1/2"))
        y = ppd.PartiallyPrivate("y", pm.Binomial.dist(x, 0.5), alone([6, -2], "1/2"))
        assert [v.name for v in model.free_RVs] == []
        pm.Deterministic("share", y / (x + 1))
    assert [v.name for v in model.free_RVs] == ["x", "y"]
    assert np.isfinite(list(model.point_logps().values())).all()


UNLINKED = {
    "more than log-concave noise": lambda x, y: (pm.Binomial.dist(x, 0.5), FEW.release()),
    "but not by pm.Binomial": lambda x, y: (pm.Poisson.dist(x + 0.1), alone(OTHER)),
    "and on other tables": lambda x, y: (pm.Poisson.dist(y), alone(OTHER)),
}


@pytest.mark.parametrize("reason", UNLINKED)
def test_why_a_further_table_is_not_marginalized(reason):
    """A refused table leaves the others as they were."""
    with pm.Model() as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(3, shape=3), alone((4, -1, 5)))
        y = ppd.PartiallyPrivate("y", pm.Binomial.dist(x, 0.5), alone((1, 2, 0)))
        with pytest.raises(ppd.errors.ModelError, match=f"depends on the table 'x', .*{reason}"):
            ppd.PartiallyPrivate("z", *UNLINKED[reason](x, y), marginalize=True)
    assert model.free_RVs == []


def test_tables_that_share_a_parameter():
    """Two releases in one model: their likelihoods multiply, each table is drawn by its name."""
    releases = {"x": PUBLISHED["total"], "y": PUBLISHED["gaussian"]}
    with pm.Model() as model:
        theta = pm.Flat("theta", shape=2)
        for name, published in releases.items():
            rate = pm.math.exp(theta)[:1] + pt.zeros(3)
            ppd.PartiallyPrivate(name, pm.Poisson.dist(rate), release=published.release())
    point = LINKED["potential"].points[0]
    listed = {name: posed(plain, published).listed(point) for name, published in releases.items()}
    expected = sum(one.log_total + constant for one, constant in listed.values())
    assert model.compile_logp(**QUICK)(point) == pytest.approx(expected, abs=1e-8)
    for name in releases:
        found = ppd.sample_confidential(repeated(point, 4000), model, name=name, random_seed=1).values[0]
        for other, (one, _) in listed.items():
            assert (one.p_value(found) > ALARM) == (other == name)
