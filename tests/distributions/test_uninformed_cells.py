"""Cells on which nothing published depends: their factor is 1, and they are drawn from their data model."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.diagnostics.problems import window_problems
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import ModelError

inv, nan = ppd.invariants, np.nan
NOISE = ppd.laws.DoubleGeometric(1)
PEOPLE = np.array([5, 10, 5, 8])
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1, "random_seed": 2}
OFTEN = stats.nbinom(0.5, 0.5 / (0.5 + 16))  # the distribution of the fourth cell where b = log 2


def seen(**more):
    return ppd.Measurements({"a": list("abcd")}, ppd.measured(inv.margin("a"), [37, 74, 41, nan], NOISE), **more)


def model_of(measurements, dist=None, marginalize="auto"):
    with pm.Model(coords=measurements.coords) as model:
        b = pm.Normal("b", 0, 1)
        mu = PEOPLE * pm.math.exp(b)
        dist = pm.NegativeBinomial.dist(mu=mu, alpha=0.5) if dist is None else dist(b)
        ppd.PartiallyPrivate("x", dist, release=measurements, marginalize=marginalize)
    return model


def draws_at(model, b, draws=4000):
    posterior = xr.Dataset({"b": (("chain", "draw"), np.full((1, draws), b))})
    idata = xr.DataTree.from_dict({"posterior": posterior})
    return ppd.sample_confidential(idata, model, random_seed=1).values.reshape(draws, -1)


def p_value(x, law):
    """Return the chi-square p-value over classes of about equal probability; the false-alarm rate is the threshold."""
    ends = np.unique(np.append(law.ppf(np.linspace(0.05, 0.95, 19)), law.ppf([0.99, 0.999])))
    expected = np.diff(np.concatenate([[0], law.cdf(ends), [1]])) * x.size
    observed = np.bincount(np.searchsorted(ends, x), minlength=ends.size + 1)
    kept = expected > 0
    return stats.chisquare(observed[kept], expected[kept]).pvalue


DISTS = {
    "natural": None,
    "by windows": lambda b: pm.NegativeBinomial.dist(mu=PEOPLE * pm.math.exp(b), alpha=pm.math.exp(b) / 4),
    "zero-inflated": lambda b: pm.ZeroInflatedPoisson.dist(0.6, PEOPLE * pm.math.exp(b)),
}


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.deep) if kind == "zero-inflated" else kind for kind in DISTS]
)
def test_the_density_is_that_of_the_other_cells(kind):
    """Also for parameters far outside of the prior draws, which are between -4 and 4."""
    model = model_of(seen(), DISTS[kind])
    some = ppd.Measurements({"a": list("abc")}, ppd.measured(inv.margin("a"), [37, 74, 41], NOISE))
    with pm.Model(coords=some.coords) as other:
        b = pm.Normal("b", 0, 1)
        mu, alpha = PEOPLE[:3] * pm.math.exp(b), 0.5 if kind == "natural" else pm.math.exp(b) / 4
        dist = pm.NegativeBinomial.dist(mu=mu, alpha=alpha)
        if kind == "zero-inflated":
            dist = pm.ZeroInflatedPoisson.dist(0.6, mu)
        ppd.PartiallyPrivate("x", dist, release=some)
    compiled = [(m.compile_logp(mode="FAST_COMPILE"), m.compile_dlogp(mode="FAST_COMPILE")) for m in (model, other)]
    # otherwise small counts have most of the zero-inflated weight, outside the windows of the measured cells
    for value in (1.8, 2.0) if kind == "zero-inflated" else (-1.0, 2.0, 7.0):
        (found, slope), (wanted, wanted_slope) = ([f({"b": np.array(value)}) for f in pair] for pair in compiled)
        assert float(found) == pytest.approx(float(wanted), abs=1e-8)
        assert slope == pytest.approx(wanted_slope, abs=1e-8)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("bounds", [None, inv.nonnegative()])
def test_draws_have_the_distribution_of_the_data_model(bounds):
    x = draws_at(model_of(seen(bounds=bounds)), np.log(2))
    assert p_value(x[:, 3], OFTEN) > 1e-6
    assert p_value(np.minimum(x[:, 3], 60), OFTEN) < 1e-9  # a window that ends there


@pytest.mark.quick_cases(0)
def test_parameters_outside_the_prior_draws():
    x = draws_at(model_of(seen()), 6.0)
    assert p_value(x[:, 3], stats.nbinom(0.5, 0.5 / (0.5 + 8 * np.exp(6)))) > 1e-6


def test_a_prior_without_draws():
    def dist(b):
        return pm.Poisson.dist(PEOPLE * pm.math.exp(pm.Flat("flat") + b))

    with pytest.raises(ModelError, match="flat"):
        draws_at(model_of(seen(), dist), 1.0)
    assert np.isfinite(model_of(seen(), dist).compile_logp(mode="FAST_COMPILE")({"b": 0.1, "flat": 1.5}))


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
def test_a_table_that_is_sampled():
    def dist(b):
        return pm.NegativeBinomial.dist(mu=PEOPLE * 2.0, alpha=0.5)

    model = model_of(seen(), dist, marginalize=False)
    with model:
        idata = pm.sample(3000, tune=0, chains=1, **QUIET)
    x = ppd.sample_confidential(idata, model).values.reshape(-1, 4)
    assert p_value(x[:, 3], OFTEN) > 1e-6
    assert window_problems(idata, model) == []


def test_a_bound_not_implied_by_the_data_model_is_information():
    model = model_of(seen(bounds=inv.between(0, 400)))
    assert not tables_of(model)[0].law.fiber.uninformed.any()


SUMS = {"total": (inv.total(), [170]), "groups": (inv.groups("a", dict(zip("abcd", "eegg", strict=True))), [111, 60])}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", SUMS)
def test_a_cell_of_a_noisy_sum_is_informed(name):
    parts = (ppd.measured(inv.margin("a"), [37, 74, 41, nan], NOISE), ppd.measured(SUMS[name][0], SUMS[name][1], NOISE))
    model = model_of(ppd.Measurements({"a": list("abcd")}, *parts))
    assert not tables_of(model)[0].law.fiber.uninformed.any()


def enumerated(seen_deaths, rate=2.0, p=0.3):
    """Return the log density of noisy counts and of deaths among the counts, by enumeration of each cell's counts."""
    x, found = np.arange(0, 6000), 0.0
    for cell, y in enumerate([37, 74, 41, None]):
        log = stats.nbinom.logpmf(x, 0.5, 0.5 / (0.5 + rate * PEOPLE[cell]))
        log = log + (0.0 if y is None else stats.dlaplace.logpmf(x - y, 1))
        if cell in seen_deaths:
            log = log + stats.binom.logpmf(seen_deaths[cell], x, p)
        found += logsumexp(log)
    return found


def with_deaths(deaths):
    model = model_of(seen())
    with model:
        cells = tables_of(model)[0].variable[np.array(list(deaths))]
        pm.Binomial("deaths", n=cells, p=0.3, observed=list(deaths.values()))
    return model


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("deaths", [{3: 20}, {0: 12, 3: 2}, {1: 20}, {3: 200}])
def test_dependents_keep_a_cell_informative(deaths):
    model = with_deaths(deaths)
    assert tables_of(model)[0].law.fiber.uninformed.any() == (3 not in deaths)
    logp = model.compile_logp(vars=[model["x_release"], model["deaths"]], mode="FAST_COMPILE")
    assert float(logp({"b": np.log(2.0)})) == pytest.approx(enumerated(deaths), abs=1e-6)


@pytest.mark.quick_cases(0)
def test_the_window_of_a_cell_follows_its_dependent():
    """The fourth count is 200 or more, because 200 died; otherwise it would be near 16."""
    x, counts = draws_at(with_deaths({3: 200}), np.log(2.0))[:, 3], np.arange(200, 2000)
    log = OFTEN.logpmf(counts) + stats.binom.logpmf(200, counts, 0.3)
    assert p_value(x, stats.rv_discrete(values=(counts, np.exp(log - logsumexp(log))))) > 1e-6
