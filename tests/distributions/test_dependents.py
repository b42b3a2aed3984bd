"""User-written dependents of a confidential table enter its posterior, marginalized or sampled: enumeration."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import three_cells
from known_parameters import QUIET
from scipy import stats
from three_cells import NOISY, RATE, frequencies, log_sum, posed, posterior, released, summed

import ppdinf as ppd
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import ModelError

DEATHS, READ = np.array([1, 0, 2]), np.array([2, 5, 0])
normal = stats.norm.pdf


def within(x):
    with pm.Model(name="inner"):
        pm.Potential("d", -0.7 * pt.abs(x - 1).sum())


TOLD = {  # dependents by cell, then dependents of several cells; forms without peculiarities are in tests/combinations
    "deaths": (lambda x: pm.Binomial("d", n=x, p=0.4, observed=DEATHS),
               lambda x: stats.binom.pmf(DEATHS, x, 0.4).prod()),
    "mixture": (lambda x: pm.ZeroInflatedPoisson("d", psi=0.7, mu=2 * x + 0.5, observed=READ),
                lambda x: np.prod(0.3 * (READ == 0) + 0.7 * stats.poisson.pmf(READ, 2 * x + 0.5))),
    "persons and others": (lambda x: pm.Normal("d", mu=pt.concatenate([x, pt.constant([2.0])]), sigma=1,
                                               observed=[1.0, 2, 3, 4]),
                           lambda x: normal([1, 2, 3, 4], [*x, 2.0], 1).prod()),
    "potential in a row": (lambda x: pm.Potential("a pull", 0.3 - 0.2 * ((x[None] - np.arange(2)[:, None]) ** 2)),
                           lambda x: np.exp(1.8 - 0.2 * ((x - np.arange(2)[:, None]) ** 2).sum())),
    "potential with zeros": (lambda x: pm.Potential("d", pt.switch(x > 3, -np.inf, 0.0)),
                             lambda x: float((x <= 3).all())),
    "neighbours": (lambda x: pm.Poisson("d", mu=1 + x[1:] * x[:-1], observed=[1, 5]),
                   lambda x: stats.poisson.pmf([1, 5], 1 + x[1:] * x[:-1]).prod()),
    "potential of a mean": (lambda x: pm.Potential("d", -0.6 * pt.sqrt((x**2).sum())),
                            lambda x: np.exp(-0.6 * np.sqrt((x**2).sum()))),
    "potential within": (lambda x: within(x), lambda x: np.exp(-0.7 * abs(x - 1).sum())),
}  # fmt: skip
BY_CELL = list(TOLD)[:5]
SEVERAL = list(TOLD)[5:]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("told", BY_CELL)
def test_dependents_of_one_cell_are_marginalized_with_the_table(told):
    tell, factor = TOLD[told]
    model = posed(tell)
    assert not model.free_RVs
    assert [t.is_marginalized for t in tables_of(model)] == [True]
    log_l = float(sum(model.logp(sum=False)).eval())
    assert log_l == pytest.approx(log_sum(factor), abs=1e-9)
    assert abs(log_l - log_sum()) > 0.1  # the value without the dependent


# all dependents of several cells, and one of one cell; the others are quickly marginalized above
MARKS = dict.fromkeys(BY_CELL[1:], pytest.mark.deep)
MARKS |= dict.fromkeys(("neighbours", "potential of a mean"), pytest.mark.compiled)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("told", [pytest.param(told, marks=MARKS.get(told, ())) for told in TOLD])
def test_a_sampled_table_depends_on_its_dependents(told):
    tell, factor = TOLD[told]
    model = posed(tell, marginalize=False if told in BY_CELL else "auto")
    assert [v.name for v in model.free_RVs] == ["x"]
    with model:
        idata = pm.sample(4000, tune=0, chains=1, random_seed=1, **QUIET)
    seen = frequencies(idata.posterior["x"].values.reshape(-1, 3))
    assert seen.sum() == pytest.approx(1)
    # independent draws give a total variation below 0.04 except once in 10^5; without the factor it is above 0.08
    assert 0.5 * abs(seen - posterior(factor)).sum() < 0.06
    assert 0.5 * abs(posterior() - posterior(factor)).sum() > 0.08


def test_latent_dependents_are_marginalized_if_they_have_no_transform():
    model = posed(lambda x: pm.Normal("q", mu=x, sigma=1))
    assert [v.name for v in model.free_RVs] == ["q"]
    q = np.array([2.5, 0.5, 3.0])
    assert summed(model)(q=q) == pytest.approx(log_sum(lambda x: normal(q, x, 1).prod()), abs=1e-9)
    transformed = posed(lambda x: pm.Gamma("q", alpha=x + 1, beta=1))
    assert [v.name for v in transformed.free_RVs] == ["q", "x"]


@pytest.mark.quick_cases(0)
def test_the_table_becomes_a_variable_for_a_dependent_of_all_cells_or_is_refused():
    for tell, _ in (TOLD[told] for told in SEVERAL):
        assert "x" in [v.name for v in posed(tell).free_RVs]
        with pytest.raises(ModelError, match="marginalize=False"):
            posed(tell, marginalize=True)
    with pytest.raises(ModelError, match="'share' does not depend on the confidential table 'x'"):
        posed(lambda x: pm.Deterministic("share", x / x.sum()), marginalize=True)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("link", [
    lambda x, y: pm.Normal("d", mu=x - y, sigma=1, observed=[0.0, 0.0, 0.0]),
    lambda x, y: pm.Potential("d", -0.5 * pt.sqr(x - y).sum()),
], ids=["observed", "potential"])  # fmt: skip
def test_two_tables_in_one_term_become_variables(link):
    second = released([2, 1, 3])
    model = posed()
    with model:
        y = ppd.PartiallyPrivate("y", pm.Poisson.dist(RATE), release=second)
        assert not model.free_RVs
        link(tables_of(model)[0].variable, y)
    assert {v.name for v in model.free_RVs} == {"x", "y"}

    def expected(x, y):
        own = sum(stats.poisson.logpmf(table, RATE).sum() for table in (x, y))
        far = abs(x - NOISY).sum() + abs(y - [2, 1, 3]).sum()
        return own - three_cells.EPSILON * far - 0.5 * ((x - y) ** 2).sum()

    tables = np.array([[[3, 0, 3], [0, 6, 0]], [[2, 2, 2], [2, 3, 1]], [[0, 5, 1], [3, 1, 2]]])
    log_density = model.compile_logp()
    found = [log_density({"x": x, "y": y}) for x, y in tables]
    np.testing.assert_allclose(np.diff(found), np.diff([expected(x, y) for x, y in tables]), atol=1e-9)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("law", "is_exact"), [(None, True), (ppd.laws.DoubleGeometric("9"), False)])
def test_a_sampled_table_starts_where_the_table_below_it_is_possible(law, is_exact):
    cells, model = ppd.invariants.margin("dim_0"), posed()
    below = {cells: [5, 0, 0]} if is_exact else {ppd.invariants.total(): 5}
    with model:
        x = tables_of(model)[0]
        assert x.law.start[0] < 5
        noisy = [] if is_exact else [ppd.measured(cells, [5, 0, 0], law)]
        y = ppd.Measurements({"dim_0": range(3)}, *noisy, public=below)
        ppd.PartiallyPrivate("y", pm.Binomial.dist(n=x.variable, p=0.4), y)
    assert np.isfinite(model.compile_logp()(model.initial_point()))


@pytest.mark.quick_cases(0)
def test_forward_draws_share_the_table():
    model = posed(lambda x: pm.Binomial("d", n=x, p=1.0, observed=DEATHS))
    drawn = pm.sample_prior_predictive(2000, model, random_seed=1).prior_predictive
    noise = drawn["x_release"].values - drawn["d"].values  # deaths of all cases: the difference is noise with the sum 0
    assert (noise.sum(axis=-1) == 0).all()


def test_names_and_releases_are_used_once():
    published = released()
    with pm.Model(coords=published.coords):
        pm.Normal("x")
        with pytest.raises(ModelError, match="already"):
            ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release=published)
    with pm.Model(coords=published.coords):
        ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release=published)
        with pytest.raises(ModelError, match="name of the confidential table"):
            pm.Normal("x")
        pm.Data("covariate", [1.0, 2.0])
        with pytest.raises(ModelError, match="observe it only once"):
            ppd.PartiallyPrivate("y", pm.Poisson.dist(RATE), release=published)


def test_gaps_in_the_support_are_irrelevant_to_marginalized_tables():
    published = released([3, 0, 5])
    even = pm.CustomDist.dist(
        logp=lambda value: pt.switch(pt.eq(value % 2, 0) & pt.ge(value, 0), -value * 0.5, -np.inf),
        shape=3, dtype="int64",
    )  # fmt: skip
    with pm.Model(coords=published.coords) as model:
        ppd.PartiallyPrivate("x", even, release=published)
    tables = np.array([(i, j, 8 - i - j) for i in range(0, 9, 2) for j in range(0, 9 - i, 2)])
    weights = np.exp(-0.5 * 8 - three_cells.EPSILON * abs(tables - [3, 0, 5]).sum(axis=1))
    expected = np.log(weights.sum()) - three_cells.log_total(three_cells.EPSILON, 3)
    assert float(sum(model.logp(sum=False)).eval()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.quick_cases(1)
@pytest.mark.compiled
@pytest.mark.parametrize("shape", [(1, 1), (1, 2)])
def test_data_along_an_axis_of_one_label(shape):
    """Wrong variant: an error on evaluation, because the static length of the data is unknown to PyTensor."""
    noisy, covariate = np.arange(3, 3 + np.prod(shape)).reshape(shape), np.full(shape, 0.01)
    release = ppd.Release(noisy, ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1))
    with pm.Model() as model:
        level = pm.Normal("level", 0, 1)
        rate = pm.math.exp(level + pm.Data("covariate", covariate))
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release)
        pm.Normal("d", pm.math.switch(x > 1, 2.0, 0.5), 1, observed=np.full(shape, 3.2))
    counts = np.arange(200)
    weights = stats.poisson.pmf(counts, np.exp(0.01)) * normal(3.2, np.where(counts > 1, 2.0, 0.5))
    wanted = sum(np.log(weights @ stats.dlaplace.pmf(y - counts, 1)) for y in noisy.ravel()) + stats.norm.logpdf(0)
    assert float(model.compile_logp()({"level": np.array(0.0)})) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("number", [1, 2])
def test_data_of_a_categorical_distribution_have_an_axis_of_counts(number):
    """Wrong variant: the axis of counts is taken for one of the table, and the model is not built."""
    noisy, p = np.arange(number), np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])[:number]
    release = ppd.Release(noisy, ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1))
    with pm.Model() as model:
        ppd.PartiallyPrivate("x", pm.Categorical.dist(pm.Data("p", p)), release)
    weights = stats.dlaplace.pmf(noisy[:, None] - np.arange(3), 1)
    assert float(model.compile_logp()({})) == pytest.approx(np.log((p * weights).sum(axis=1)).sum(), abs=1e-9)


# -- variables that depend on a table and on each other --------------------------------------------------

FIRST, SECOND, THIRD = np.array([3.0, 1.0, 2.0]), np.array([4.0, 1.0, 1.0]), np.array([9.0, 3.0, 6.0])


def third(mu):
    return pm.Normal("d3", mu, 1, observed=THIRD)


# dependents of a table x, with d1 observed to be FIRST or drawn; and the density
CHAINS = {
    "backwards": (lambda x, d1: pm.Normal("d2", d1[::-1] + x / 2, 1, observed=SECOND),
                  lambda x, d1: normal(SECOND, d1[::-1] + x / 2, 1).prod()),
    "the mean of the first": (lambda x, d1: pm.Normal("d2", d1.mean() + x, 1, observed=SECOND),
                              lambda x, d1: normal(SECOND, d1.mean() + x, 1).prod()),
    "three": (lambda x, d1: third(d1**2 + x * pm.Normal("d2", x + d1[[1, 2, 0]], 1, observed=SECOND)),
              lambda x, d1: (normal(SECOND, x + d1[[1, 2, 0]], 1) * normal(THIRD, d1**2 + x * SECOND, 1)).prod()),
    "one beside the table": (
        lambda x, d1: third(x + pm.Normal("d2", pt.exp(-d1), 1, observed=SECOND).sum()),
        lambda x, d1: (normal(SECOND, np.exp(-d1), 1) * normal(THIRD, x + SECOND.sum(), 1)).prod(),
    ),
    "a latent one between": (lambda x, d1: third(x + pm.Normal("q", d1[0], 1)),
                             lambda x, d1: normal(0.7, d1[0], 1) * normal(THIRD, x + 0.7, 1).prod()),
    "a positive one between": (
        lambda x, d1: third(x + pm.Exponential("q", pt.exp(d1[0]))),
        lambda x, d1: 0.7 * stats.expon.pdf(0.7, scale=np.exp(-d1[0])) * normal(THIRD, x + 0.7, 1).prod(),
    ),
    "a potential": (lambda x, d1: pm.Potential("p", -0.1 * (d1[::-1] * x).sum()),
                    lambda x, d1: np.exp(-0.1 * (d1[::-1] * x).sum())),
}  # fmt: skip


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("how", ["constant", "data", "latent"])
@pytest.mark.parametrize("chain", CHAINS)
def test_dependents_of_dependents(chain, how):
    tell, factor = CHAINS[chain]
    release = released()
    with pm.Model(coords=release.coords) as model:
        seen = {"constant": FIRST, "data": pm.Data("first", FIRST), "latent": None}[how]
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release)
        tell(x, pm.Normal("d1", x, 1, observed=seen))
    names = [value.name for value in model.value_vars]
    assert ("x" in names) == (chain == "a positive one between")
    found = summed(model)(d1=FIRST, q=0.7, q_log__=np.log(0.7))
    wanted = log_sum(lambda x: normal(FIRST, x, 1).prod() * factor(x, FIRST))
    assert found == pytest.approx(wanted, abs=1e-9)
