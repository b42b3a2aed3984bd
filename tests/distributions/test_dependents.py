"""User-written dependents of a confidential table enter its posterior, marginalized or sampled."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from known_parameters import known
from noise_totals import log_total
from pymc.model.fgraph import clone_model
from pymc.model.transform.optimization import freeze_dims_and_data
from scipy import stats

import ppdinf as ppd
from ppdinf.distributions.factors import cell_indices
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import InvariantError, ModelError

NOISY, TOTAL, EPSILON, RATE = np.array([3, -1, 4]), 6, 0.5, np.array([2.0, 1.0, 3.0])
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}


def release(table=NOISY):
    return ppd.Release(np.array(table), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))


def posed(tell, marginalize="auto"):
    """Return a model of three counts with the dependent `tell(x)`."""
    published = release()
    with pm.Model(coords=published.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release=published, marginalize=marginalize)
        tell(x)
    return model


def within(x):
    with pm.Model(name="inner"):
        pm.Potential("d", -0.7 * pt.abs(x - 1).sum())


TABLES = np.array([x for x in itertools.product(range(TOTAL + 1), repeat=3) if sum(x) == TOTAL])
WEIGHT = stats.poisson.pmf(TABLES, RATE).prod(axis=1) * np.exp(-EPSILON * abs(TABLES - NOISY).sum(axis=1))
WEIGHT /= np.exp(log_total(EPSILON, 3))


def law(factor):
    """Return the posterior of the listed tables, given a factor of each; and the log of the sum."""
    w = WEIGHT * np.array([factor(x) for x in TABLES])
    return w / w.sum(), np.log(w.sum())


DEATHS, READ = np.array([1, 0, 2]), np.array([2, 5, 0])
TOLD = {
    "deaths": (
        lambda x: pm.Binomial("d", n=x, p=0.4, observed=DEATHS),
        lambda x: stats.binom.pmf(DEATHS, x, 0.4).prod(),
    ),
    "exposure": (
        lambda x: pm.Poisson("d", mu=0.5 * (x + 1), observed=[[2, 1, 0], [3, 0, 4]]),
        lambda x: stats.poisson.pmf([[2, 1, 0], [3, 0, 4]], 0.5 * (x + 1)).prod(),
    ),
    "persons by cell": (
        lambda x: pm.Normal("d", mu=x[np.array([2, 0, 2, 1])], sigma=1, observed=[4.2, 2.0, 3.1, 0.4]),
        lambda x: stats.norm.pdf([4.2, 2.0, 3.1, 0.4], x[[2, 0, 2, 1]], 1).prod(),
    ),
    "mixture": (
        lambda x: pm.ZeroInflatedPoisson("d", psi=0.7, mu=2 * x + 0.5, observed=READ),
        lambda x: np.prod(0.3 * (READ == 0) + 0.7 * stats.poisson.pmf(READ, 2 * x + 0.5)),
    ),
    "total": (
        lambda x: pm.Normal("d", mu=x[:2].sum(), sigma=0.5, observed=3.2),
        lambda x: stats.norm.pdf(3.2, x[:2].sum(), 0.5),
    ),
    "neighbours": (
        lambda x: pm.Poisson("d", mu=1 + x[1:] * x[:-1], observed=[1, 5]),
        lambda x: stats.poisson.pmf([1, 5], 1 + x[1:] * x[:-1]).prod(),
    ),
    "potential": (
        lambda x: pm.Potential("d", -0.7 * pt.abs(x - 1).sum()),
        lambda x: np.exp(-0.7 * abs(x - 1).sum()),
    ),
    "persons and others": (
        lambda x: pm.Normal("d", mu=pt.concatenate([x, pt.constant([2.0])]), sigma=1, observed=[1.0, 2, 3, 4]),
        lambda x: stats.norm.pdf([1, 2, 3, 4], [*x, 2.0], 1).prod(),
    ),
    "the same seen twice": (
        lambda x: (pm.Poisson("d", x + 1, observed=READ), pm.Poisson("e", 1 + 0.1 * x, observed=READ)),
        lambda x: (stats.poisson.pmf(READ, x + 1) * stats.poisson.pmf(READ, 1 + 0.1 * x)).prod(),
    ),
    "potential of two cells": (
        lambda x: pm.Potential("d", 0.3 - 0.4 * x[0] ** 2 + x[2] / 5),
        lambda x: np.exp(0.3 - 0.4 * x[0] ** 2 + x[2] / 5),
    ),
    "weighted potential": (
        lambda x: pm.Potential("d", -pm.Data("w", [0.1, 0.9, 0.5]) * x, dims="dim_0"),
        lambda x: np.exp(-np.dot([0.1, 0.9, 0.5], x)),
    ),
    "potential in a row": (
        lambda x: pm.Potential("a pull", -0.2 * ((x[None] - np.arange(2)[:, None]) ** 2)),
        lambda x: np.exp(-0.2 * ((x - np.arange(2)[:, None]) ** 2).sum()),
    ),
    "two potentials": (
        lambda x: (pm.Potential("d", -0.7 * pt.abs(x - 1).sum()), pm.Potential("e", pt.log(x + 1.0))),
        lambda x: np.exp(-0.7 * abs(x - 1).sum()) * (x + 1.0).prod(),
    ),
    "potential with zeros": (
        lambda x: pm.Potential("d", pt.switch(x > 3, -np.inf, 0.0)),
        lambda x: float((x <= 3).all()),
    ),
    "potential of a mean": (
        lambda x: pm.Potential("d", -0.6 * pt.sqrt((x**2).sum())),
        lambda x: np.exp(-0.6 * np.sqrt((x**2).sum())),
    ),
    "potential within": (lambda x: within(x), lambda x: np.exp(-0.7 * abs(x - 1).sum())),
    "potential of all": (
        lambda x: pm.Potential("d", -0.3 * (x[0] - x[2]) ** 2),
        lambda x: np.exp(-0.3 * (x[0] - x[2]) ** 2),
    ),
    "through a name": (
        lambda x: pm.Normal("d", mu=pm.Deterministic("share", x / TOTAL), sigma=0.2, observed=[0.1, 0.4, 0.5]),
        lambda x: stats.norm.pdf([0.1, 0.4, 0.5], x / TOTAL, 0.2).prod(),
    ),
}
BY_CELL = [
    "deaths", "exposure", "persons by cell", "mixture", "persons and others", "the same seen twice", "potential",
    "potential of two cells", "weighted potential", "potential in a row", "two potentials", "potential with zeros",
]  # fmt: skip


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("told", BY_CELL)
def test_dependents_of_one_cell_are_marginalized_with_the_table(told):
    tell, factor = TOLD[told]
    model = posed(tell)
    assert not model.free_RVs
    assert [t.is_marginalized for t in tables_of(model)] == [True]
    log_l = float(sum(model.logp(sum=False)).eval())
    assert log_l == pytest.approx(law(factor)[1], abs=1e-9)
    assert abs(log_l - law(lambda x: 1.0)[1]) > 0.1  # the value without the dependent


# all dependents of several cells, and one of one cell; the others are quickly marginalized above
WALKED = [told for told in TOLD if told not in BY_CELL] + ["deaths"]
MARKS = dict.fromkeys((told for told in TOLD if told not in WALKED), pytest.mark.deep)
MARKS |= dict.fromkeys(("total", "neighbours", "potential of a mean", "potential of all"), pytest.mark.compiled)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("told", [pytest.param(told, marks=MARKS.get(told, ())) for told in TOLD])
def test_a_sampled_table_depends_on_its_dependents(told):
    tell, factor = TOLD[told]
    model = posed(tell, marginalize=False if told in BY_CELL else "auto")
    assert [v.name for v in model.free_RVs] == ["x"]
    with model:
        idata = pm.sample(4000, tune=0, chains=1, random_seed=1, **QUIET)
    drawn = idata.posterior["x"].values.reshape(-1, 3)
    p = law(factor)[0]
    seen = np.array([(drawn == x).all(axis=1).mean() for x in TABLES])
    assert seen.sum() == pytest.approx(1)
    # independent draws give a total variation below 0.04 except once in 10^5; without the factor it is above 0.08
    assert 0.5 * abs(seen - p).sum() < 0.06
    assert 0.5 * abs(law(lambda x: 1.0)[0] - p).sum() > 0.08


@pytest.mark.quick_cases(0)
def test_draws_of_a_marginalized_table_depend_on_its_dependents():
    tell, factor = TOLD["deaths"]
    published = release()
    with pm.Model(coords=published.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release=published)
        tell(x)
    idata = known(4000)
    drawn = ppd.sample_confidential(idata, model, random_seed=3).values.reshape(-1, 3)
    assert (drawn >= DEATHS).all()
    seen = np.array([(drawn == x).all(axis=1).mean() for x in TABLES])
    assert 0.5 * abs(seen - law(factor)[0]).sum() < 0.06
    again = ppd.sample_confidential(idata, model, random_seed=4).values.reshape(-1, 3)
    assert (again != drawn).any()


def test_latent_dependents_are_marginalized_if_they_have_no_transform():
    model = posed(lambda x: pm.Normal("q", mu=x, sigma=1))
    assert [v.name for v in model.free_RVs] == ["q"]
    point = {"q": np.array([2.5, 0.5, 3.0])}
    expected = law(lambda x: stats.norm.pdf(point["q"], x, 1).prod())[1]
    assert float(model.compile_logp()(point)) == pytest.approx(expected, abs=1e-9)
    transformed = posed(lambda x: pm.Gamma("q", alpha=x + 1, beta=1))
    assert [v.name for v in transformed.free_RVs] == ["q", "x"]


@pytest.mark.quick_cases(0)
def test_the_table_becomes_a_variable_for_a_dependent_of_all_cells_or_is_refused():
    for tell, _ in (TOLD[told] for told in TOLD if told not in BY_CELL):
        assert "x" in [v.name for v in posed(tell).free_RVs]
        with pytest.raises(ModelError, match="marginalize=False"):
            posed(tell, marginalize=True)
    with pytest.raises(ModelError, match="'share' does not depend on the confidential table 'x'"):
        posed(lambda x: pm.Deterministic("share", x / x.sum()), marginalize=True)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "link",
    [
        lambda x, y: pm.Normal("d", mu=x - y, sigma=1, observed=[0.0, 0.0, 0.0]),
        lambda x, y: pm.Potential("d", -0.5 * pt.sqr(x - y).sum()),
    ],
    ids=["observed", "potential"],
)
def test_two_tables_in_one_term_become_variables(link):
    first, second = release(), release([2, 1, 3])
    with pm.Model(coords=first.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release=first)
        y = ppd.PartiallyPrivate("y", pm.Poisson.dist(RATE), release=second)
        assert not model.free_RVs
        link(x, y)
    assert {v.name for v in model.free_RVs} == {"x", "y"}

    def expected(x, y):
        own = sum(stats.poisson.logpmf(table, RATE).sum() for table in (x, y))
        return own - EPSILON * (abs(x - NOISY).sum() + abs(y - [2, 1, 3]).sum()) - 0.5 * ((x - y) ** 2).sum()

    tables = np.array([[[3, 0, 3], [0, 6, 0]], [[2, 2, 2], [2, 3, 1]], [[0, 5, 1], [3, 1, 2]]])
    log_density = model.compile_logp()
    found = [log_density({"x": x, "y": y}) for x, y in tables]
    wanted = [expected(x, y) for x, y in tables]
    np.testing.assert_allclose(np.diff(found), np.diff(wanted), atol=1e-9)


@pytest.mark.quick_cases(0)
@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_masked_dependents_with_a_potential_are_marginalized():
    def tell(x):
        pm.Binomial("d", n=x, p=0.4, observed=np.ma.array(DEATHS, mask=[False, True, False]))
        pm.Potential("e", -0.7 * pt.abs(x - 1).sum())

    model = posed(tell)
    assert [v.name for v in model.free_RVs] == ["d_unobserved"]
    log_density = model.compile_logp()
    for missing in (0, 2):
        seen = np.where([False, True, False], missing, DEATHS)
        expected = law(lambda x, seen=seen: stats.binom.pmf(seen, x, 0.4).prod() * np.exp(-0.7 * abs(x - 1).sum()))[1]
        found = log_density({"d_unobserved": np.array([missing])})
        assert float(found) == pytest.approx(expected, abs=1e-9)


@pytest.mark.quick_cases(0)
def test_chains_start_where_observed_dependents_are_possible():
    published = release([6, -3, 3])
    with pm.Model(coords=published.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release=published, marginalize=False)
        pm.Binomial("d", n=x, p=0.5, observed=[0, 2, 1])
    assert (model.initial_point()["x"] >= [0, 2, 1]).all()
    with pm.Model(coords=published.coords):
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release=published, marginalize=False)
        with pytest.raises(InvariantError):
            pm.Binomial("d", n=x, p=0.5, observed=[3, 4, 2])


@pytest.mark.quick_cases(0)
def test_forward_draws_share_the_table():
    model = posed(lambda x: pm.Binomial("d", n=x, p=1.0, observed=DEATHS))
    drawn = pm.sample_prior_predictive(2000, model, random_seed=1).prior_predictive
    noise = (
        drawn["x_release"].values - drawn["d"].values
    )  # deaths of all cases: the difference is noise, whose sum is 0
    assert (noise.sum(axis=-1) == 0).all()


def test_names_and_releases_are_used_once():
    published = release()
    with pm.Model(coords=published.coords):
        ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release=published)
        with pytest.raises(ModelError, match="name of the confidential table"):
            pm.Normal("x")
    with pm.Model(coords=published.coords):
        pm.Normal("x")
        with pytest.raises(ModelError, match="already"):
            ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release=published)
    with pm.Model(coords=published.coords):
        ppd.PartiallyPrivate("x", pm.Poisson.dist(RATE), release=published)
        pm.Data("covariate", [1.0, 2.0])
        with pytest.raises(ModelError, match="observe it only once"):
            ppd.PartiallyPrivate("y", pm.Poisson.dist(RATE), release=published)


def test_gaps_in_the_support_are_irrelevant_to_marginalized_tables():
    published = ppd.Release(np.array([3, 0, 5]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))
    even = pm.CustomDist.dist(
        logp=lambda value: pt.switch(pt.eq(value % 2, 0) & pt.ge(value, 0), -value * 0.5, -np.inf),
        shape=3, dtype="int64",
    )  # fmt: skip
    with pm.Model(coords=published.coords) as model:
        ppd.PartiallyPrivate("x", even, release=published)
    tables = np.array([x for x in itertools.product(range(0, 9, 2), repeat=3) if sum(x) == 8])
    expected = np.log(np.exp(-0.5 * 8 - EPSILON * abs(tables - [3, 0, 5]).sum(axis=1)).sum()) - log_total(EPSILON, 3)
    assert float(sum(model.logp(sum=False)).eval()) == pytest.approx(expected, abs=1e-9)


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


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("again", [pm.Model.copy, clone_model, freeze_dims_and_data])
def test_copies_of_a_model_marginalize_the_table_with_its_dependents(again):
    model = posed(TOLD["deaths"][0])
    assert [table.is_marginalized for table in tables_of(model)] == [True]
    assert again(model).compile_logp()({}) == pytest.approx(model.compile_logp()({}), abs=1e-12)


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
    weights = stats.poisson.pmf(counts, np.exp(0.01)) * stats.norm.pdf(3.2, np.where(counts > 1, 2.0, 0.5))
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
