"""Shifted and clipped data models, multinomial rows with Poisson n, pymc.dims, censored dependents: enumeration."""

import numpy as np
import pymc as pm
import pymc.dims as pmd
import pytest
import xarray as xr
from lattice_laws import log_total
from scipy import stats
from scipy.special import expit

import ppdinf as ppd
from ppdinf.errors import ModelError

inv = ppd.invariants

NOISY, EPSILON, TOTAL = np.array([3, 5]), 1.0, 8
COUNTS = np.arange(-60, 80)
TABLES = np.array([[k, TOTAL - k] for k in COUNTS])
SCALE = np.array([2.0, 3.0])


def poisson(theta):
    return pm.Poisson.dist(SCALE * pm.math.exp(theta))


def pmf(x, theta):
    return stats.poisson.pmf(x, SCALE * np.exp(theta))


def clipped_pmf(x, theta):
    above = stats.poisson.sf(3, SCALE * np.exp(theta))
    return np.where(x < 4, pmf(x, theta), np.where(x == 4, above, 0.0))


def bounded_pmf(x, theta):
    most = np.array([3, 6])  # for each cell
    above = stats.poisson.sf(most - 1, SCALE * np.exp(theta))
    return np.where(x < most, pmf(x, theta), np.where(x == most, above, 0.0))


def multinomial_pmf(x, mean):
    """Probabilities of tables by the law of the total and the multinomial distribution given the total."""
    rows = [stats.multinomial.pmf(row, row.sum(), SCALE / 5) if (row >= 0).all() else 0 for row in x]
    return stats.poisson.pmf(x.sum(axis=1), mean) * np.array(rows)


MODELS = {  # distribution, its probabilities of tables of shape (n, 2)
    "shifted": (lambda t: poisson(t) + np.array([1, 2]), lambda x, t: pmf(x - np.array([1, 2]), t)),
    "reflected": (lambda t: 9 - poisson(t), lambda x, t: pmf(9 - x, t)),
    "clipped": (lambda t: pm.math.clip(poisson(t), 0, 4), clipped_pmf),
    "a bound for each cell": (lambda t: pm.math.clip(poisson(t), 0, np.array([3, 6])), bounded_pmf),
    "clipped and shifted": (lambda t: pm.math.clip(poisson(t), 0, 4) + 1, lambda x, t: clipped_pmf(x - 1, t)),
    "multinomial with Poisson n": (
        lambda t: pm.Multinomial.dist(pm.Poisson.dist(5 * pm.math.exp(t)), SCALE / 5),
        lambda x, t: multinomial_pmf(x, 5 * np.exp(t))[:, None],
    ),
}  # fmt: skip


def release(public):
    return ppd.Release(
        xr.DataArray(NOISY, coords={"area": ["a", "b"]}), ppd.GeneralizedLaplace(public, epsilon=EPSILON)
    )


def posed(dist, way="auto", public=None):
    given = release(inv.total() if public is None else public)
    with pm.Model(coords=given.coords) as model:
        theta = pm.Normal("theta", 0, 1)
        ppd.PartiallyPrivate("x", dist(theta), given, marginalize=way)
    return model


def log_density(model):
    """Return the log density without the prior, as a function of theta and, if it is sampled, the table."""
    compiled = model.compile_logp()

    def of(theta, table=None):
        point = {"theta": np.array(float(theta)), **({} if table is None else {"x": np.array(table)})}
        return float(compiled(point)) - stats.norm.logpdf(theta)

    return of


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", MODELS)
def test_density_given_a_total(case):
    """Wrong variant: the distribution without the transformation."""
    dist, probability = MODELS[case]
    weight = np.exp(-EPSILON * abs(TABLES - NOISY).sum(axis=1) - log_total(EPSILON, 2))
    model, compared = posed(dist), {}
    density = log_density(model)
    for theta in (-0.4, 0.3):
        compared[theta] = density(theta), np.log((weight * probability(TABLES, theta).prod(axis=1)).sum())
    assert model.named_vars.keys() >= {"theta", "x_release"}
    assert "x" not in model.named_vars
    for found, wanted in compared.values():
        assert found == pytest.approx(wanted, abs=1e-6)
    plain = np.log((weight * pmf(TABLES, 0.3).prod(axis=1)).sum())
    if case != "multinomial with Poisson n":
        assert abs(plain - compared[0.3][1]) > 0.1


@pytest.mark.parametrize("case", ["shifted", "clipped"])
def test_density_of_a_sampled_table(case):
    dist, probability = MODELS[case]
    density = log_density(posed(dist, False))
    tables = [[4, 4], [3, 5]] if case == "shifted" else [[4, 4]]
    found = [density(0.3, x) for x in tables]
    wanted = [np.log(probability(np.array([x]), 0.3).prod()) - EPSILON * abs(np.array(x) - NOISY).sum() for x in tables]
    wanted = np.array(wanted) - log_total(EPSILON, 2)
    assert found == pytest.approx(wanted, abs=1e-6)
    assert np.isneginf(density(0.3, [0, 8]))


def test_multinomial_rows_without_public_totals():
    """Without a public total n is unknown, and its distribution is that of independent cells."""
    found = log_density(posed(MODELS["multinomial with Poisson n"][0], public=inv.Public()))(0.3)
    weights = pmf(COUNTS[:, None], 0.3) * stats.dlaplace.pmf(COUNTS[:, None] - NOISY, EPSILON)
    assert found == pytest.approx(np.log(weights.sum(axis=0)).sum(), abs=1e-6)


def test_distributions_of_pymc_dims():
    """Dimensions are matched by name: the parameters have them in another order than the table."""
    labels = {"area": ["a", "b"], "sex": ["f", "m", "d"]}
    noisy = np.array([[3, 5, 1], [2, 0, 4]])
    given = ppd.Release(xr.DataArray(noisy, coords=labels), ppd.GeneralizedLaplace(inv.Public(), epsilon=EPSILON))
    rates = np.array([[1.0, 2, 3], [4, 5, 6]])
    with pm.Model(coords=given.coords) as model:
        rate = pmd.Gamma("rate", 2, 1, dims=("sex", "area"))
        factor = pmd.as_xtensor(np.array([1.0, 2.0]), dims=("area",))
        ppd.PartiallyPrivate("x", pmd.Poisson.dist(rate * factor), given)
        found = model.compile_logp(vars=[model["x_release"]])({"rate_log__": np.log(rates).T})
    x = COUNTS[:, None, None]
    weights = stats.poisson.pmf(x, rates * np.array([[1.0], [2.0]])) * stats.dlaplace.pmf(x - noisy, EPSILON)
    assert found == pytest.approx(np.log(weights.sum(axis=0)).sum(), abs=1e-6)


CENSORED = {
    "binomial": (lambda x, t: pm.Binomial.dist(x, pm.math.invlogit(t)), lambda x, t: stats.binom(x, expit(t))),
    "poisson": (lambda x, t: pm.Poisson.dist((x + 1) * pm.math.exp(t)),
                lambda n, t: stats.poisson(np.exp(t) * (n + 1))),
}  # fmt: skip


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", CENSORED)
def test_censored_dependents_are_marginalized(case):
    """Counts above 2 are seen as 2. Wrong variant: the density at 2 without the tail. The gradient is finite."""
    dist, law = CENSORED[case]
    seen = np.array([1, 2])
    given = release(inv.total())
    with pm.Model(coords=given.coords) as model:
        theta = pm.Normal("theta", 0, 1)
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(SCALE), given)
        pm.Censored("v", dist(x, theta), lower=None, upper=2, observed=seen)
    assert "x" not in model.named_vars
    tables = TABLES[(TABLES >= 0).all(axis=1)]
    weight = np.exp(-EPSILON * abs(tables - NOISY).sum(axis=1) - log_total(EPSILON, 2)) * pmf(tables, 0).prod(axis=1)

    def wanted(theta, tail=1.0):
        v = law(tables, theta)
        return np.log((weight * (v.pmf(seen) + tail * v.sf(seen) * (seen == 2)).prod(axis=1)).sum())

    assert log_density(model)(0.4) == pytest.approx(wanted(0.4), abs=1e-6)
    assert abs(wanted(0.4, tail=0.0) - wanted(0.4)) > 0.1
    slope = (wanted(0.4 + 1e-5) - wanted(0.4 - 1e-5)) / 2e-5 - 0.4
    assert model.compile_dlogp()({"theta": np.array(0.4)})[0] == pytest.approx(slope, abs=1e-5)


REFUSED = {
    "twice": (lambda t: 2 * poisson(t), "PyMC has no density of this function"),
    "a sum": (lambda t: poisson(t) + poisson(t), "a function of several distributions"),
    "parameter": (lambda t: poisson(t) + t.astype("int64"), "depend on variables or data of the model"),
    "data": (lambda t: poisson(t) + pm.Data("shift", np.array(1)), "depend on variables or data of the model"),
    "shared draw": (lambda t: pm.Poisson.dist(2.0) + np.array([1, 2]), "whose draw the cells would share"),
    "squared n": (lambda t: pm.Multinomial.dist(pm.math.sqr(pm.Poisson.dist(5)), SCALE / 5), "must be a constant"),
    "reflected n": (lambda t: pm.Multinomial.dist(-pm.Poisson.dist(5), SCALE / 5), "must be a constant"),
    "multinomial": (lambda t: pm.Multinomial.dist(pm.NegativeBinomial.dist(mu=5, alpha=2), SCALE / 5),
                    "the n of the multinomial rows is negative_binomial_rv"),
    "named n": (lambda t: pm.Multinomial.dist(pm.Poisson("n", 5), SCALE / 5), "the n of the multinomial rows is n"),
    "other dims": (lambda t: pmd.Poisson.dist(pmd.as_xtensor(SCALE, dims=("sex",))),
                   "the distribution has the dimension 'sex'"),
    "not elementwise": (lambda t: pmd.Poisson.dist(pmd.as_xtensor(SCALE, dims=("area",))) + 1, "an elementwise dist"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    dist, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        posed(dist)


def test_probabilities_that_do_not_sum_to_one():
    model = posed(lambda t: pm.Multinomial.dist(pm.Poisson.dist(5.0), pm.math.stack([0.5, 0.5 + t])))
    density = log_density(model)
    density(0.0)
    with pytest.raises(ModelError, match="must sum to 1"):
        density(0.5)


def test_exact_sums_of_tables_are_refused():
    given, other = release(inv.Public()), release(inv.total())
    with pm.Model(coords=given.coords):
        a = ppd.PartiallyPrivate("a", pm.Poisson.dist(SCALE), given)
        b = ppd.PartiallyPrivate("b", pm.Poisson.dist(SCALE), other, marginalize=False)
        with pytest.raises(ModelError, match="'t' is an exact sum of cells of 'a' and 'b'"):
            pm.DiracDelta("t", a.sum() + b.sum(), observed=16)
        with pytest.raises(ModelError, match=r"'u' is an exact sum of cells of 'a'.*state the sum in public"):
            pm.DiracDelta("u", a.sum(), observed=8)


# -- rows of counts; their densities, gradients and draws are in tests/combinations ----------------------

Y = xr.DataArray([[2, 0, 1], [1, -1, 2]], dims=("sex", "age"))
N = np.array([3, 2])
ROWS = {
    "multinomial": lambda n, s: pm.Multinomial.dist(n=n, p=pm.math.softmax(s * np.array([0.0, 1.0, -1.0]))),
    "dirichlet-multinomial": lambda n, s: pm.DirichletMultinomial.dist(n=n, a=pm.math.exp(s * np.arange(3.0))),
}


def rows_of(public):
    return ppd.Release(Y, ppd.GeneralizedLaplace(public, epsilon=1))


@pytest.mark.parametrize("family", ROWS)
def test_forward_draws_have_the_row_totals(family):
    release = rows_of(inv.margin("sex") & inv.nonnegative())
    with pm.Model(coords=release.coords):
        s = pm.Normal("s")
        ppd.PartiallyPrivate("x", ROWS[family](N, s), release=release)
        prior = pm.sample_prior_predictive(20, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"})
    assert (prior.prior_predictive["x_release"].sum("age") == N).all()


@pytest.mark.parametrize(
    ("public", "n", "message"),
    [
        (inv.total(), lambda: N, "the row that begins at sex=0, age=0 is not public"),
        (inv.margin("sex"), lambda: np.array([3, 4]), "begins at sex=1, age=0 differs from the n"),
        (inv.margin("sex"), lambda: pm.DiscreteUniform("n", 1, 5, shape=2), "must be a constant"),
    ],
)
def test_rows_need_constant_public_totals(public, n, message):
    release = rows_of(public & inv.nonnegative())
    with pm.Model(coords=release.coords), pytest.raises(ModelError, match=message):
        ppd.PartiallyPrivate("x", ROWS["multinomial"](n(), np.float64(0.5)), release=release)
