"""Windows of counts contain the posterior, whether the noise or the data model determines its position."""

from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf.distributions import renewed_windows, windows
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import ModelError
from ppdinf.invariants import Public, total

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1, "random_seed": 2}
NOTHING = Public(())
WALKED = pytest.param(False, marks=pytest.mark.compiled)


def fiber_of(release, dist, marginalize="auto"):
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", dist(), release=release, marginalize=marginalize)
    return tables_of(model)[0].law.fiber


def gamma_poisson(shape, rate):
    log_p = stats.nbinom(shape, rate / (1 + rate)).logpmf
    return lambda: pm.Poisson.dist(pm.Gamma("rate", shape, rate)), log_p


def covariate():
    """Return a model whose rates depend on a measured covariate with a distribution, which is never drawn again."""
    return pm.Poisson.dist(pm.math.exp(pm.Normal("measured", 0, 5, observed=[8.0]) - 1))


def truncated_covariate():
    """Return a model whose rates depend on a measurement above a limit."""
    measured = pm.Truncated("measured", pm.Poisson.dist(2.0), lower=0.5, observed=[8])
    return pm.Poisson.dist(pm.math.exp(measured - 1))


def laplace(epsilon):
    return ppd.GeneralizedLaplace(NOTHING, epsilon=epsilon), lambda z: -float(Fraction(epsilon)) * abs(z)


def gaussian(sigma):
    return ppd.GeneralizedGaussian(NOTHING, sigma=sigma), lambda z: -(z**2) / (2 * sigma**2)


FAMILIES = {  # released count, the mechanism and its log density, the data model, and its density under the prior
    "far above": (100, laplace(1), *gamma_poisson(2, 2)),
    "farther above": (3000, laplace(1), *gamma_poisson(2, 2)),
    "far below 0": (-80, laplace(1), *gamma_poisson(2, 2)),
    "far below": (3, laplace(1), *gamma_poisson(400, 0.2)),
    "both": (1000, laplace(2), *gamma_poisson(0.5, 0.001)),
    "a support that ends": (
        200, laplace(1), lambda: pm.Binomial.dist(50, pm.Beta("p", 2, 2)), lambda x: stats.betabinom.logpmf(x, 50, 2, 2)
    ),
    "a measured covariate": (2, laplace(1), covariate, lambda x: stats.poisson.logpmf(x, np.exp(7.0))),
    "a measurement above a limit": (2, laplace(1), truncated_covariate, lambda x: stats.poisson.logpmf(x, np.exp(7.0))),
    "no noise to speak of": (5, laplace("1/1000000"), *gamma_poisson(50, 0.02)),
    "narrow Gaussian noise": (3, gaussian(1), *gamma_poisson(400, 0.2)),
    "wide Gaussian noise": (3, gaussian(20), *gamma_poisson(400, 0.2)),
}  # fmt: skip


def posterior(y, log_noise, log_prior):
    x = np.arange(-1000, 40_000)
    log = log_prior(x) + log_noise(y - x)
    return x, np.exp(log - logsumexp(log))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("marginalize", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_windows_contain_the_posterior(family, marginalize):
    y, (mechanism, log_noise), dist, log_prior = FAMILIES[family]
    fiber = fiber_of(ppd.Release(np.array([y]), mechanism), dist, marginalize)
    x, law = posterior(y, log_noise, log_prior)
    outside = (x <= fiber.lower[0]) | (x >= fiber.lower[0] + fiber.width - 1)
    assert law[outside].sum() < 1e-9
    assert fiber.width < 4000 or family == "no noise to speak of"


def test_windows_of_noise_alone_do_not_contain_it():
    lost = []
    for name, (y, (mechanism, log_noise), _, log_prior) in FAMILIES.items():
        x, law = posterior(y, log_noise, log_prior)
        reach = mechanism.law.support_radius(1, 1e-12)
        lost += [name] if law[abs(x - y) >= reach].sum() > 1e-3 else []
    assert len(lost) >= 6


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("rate", [0.3, 7.0, 20.0])
def test_the_marginal_density_where_model_and_release_differ_most(rate):
    release = ppd.Release(np.array([100]), ppd.GeneralizedLaplace(NOTHING, epsilon=1))
    with pm.Model(coords=release.coords) as model:
        pm.Gamma("rate", 2, 2, default_transform=None)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(model["rate"]), release=release)
    logp = model.compile_fn(model.logp(vars=[model["x_release"]]), inputs=model.value_vars, mode="FAST_COMPILE")
    x = np.arange(400)
    exact = logsumexp(x * np.log(rate) - rate - gammaln(x + 1) + stats.dlaplace.logpmf(100 - x, 1))
    assert float(logp({"rate": np.array(rate)})) == pytest.approx(exact, abs=1e-9)


PEOPLE = np.array([[20, 30, 400], [50, 60, 70]])
TABLES = {  # of few rates, and whether subsets of its cells can be evaluated
    "poisson": (True, lambda rate: pm.Poisson.dist(PEOPLE * rate / 40)),
    "binomial, one probability": (True, lambda rate: pm.Binomial.dist(PEOPLE, pm.math.invlogit(rate - 4))),
    "negative binomial": (True, lambda rate: pm.NegativeBinomial.dist(mu=PEOPLE * rate / 40, alpha=3 + rate)),
    "zero-inflated": (False, lambda rate: pm.ZeroInflatedPoisson.dist(0.7, PEOPLE * rate / 40)),
    "a density that knows the table": (
        False,
        lambda rate: pm.CustomDist.dist(
            rate,
            logp=lambda x, rate: pm.logp(pm.Poisson.dist(PEOPLE * rate / 40), x),
            random=lambda rate, rng, size: rng.poisson(PEOPLE * rate / 40),
            dtype="int64",
            shape=(2, 3),
        ),
    ),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("family", TABLES)
def test_windows_of_doubtful_cells_are_those_computed_for_all(family, monkeypatch):
    monkeypatch.setattr(windows, "DRAWS", 16)  # the same for all windows that are compared
    alone, dist = TABLES[family]
    release = ppd.Release(np.array([[3, 4, 500], [90, 8, 2]]), ppd.GeneralizedLaplace(total(), epsilon=1))
    parts, of_some = [], windows.subset_distribution

    def watched(*arguments):
        parts.append(of_some(*arguments))
        assert 0 < arguments[-1].size < 6
        return parts[-1]

    monkeypatch.setattr(windows, "subset_distribution", watched)
    fiber = fiber_of(release, lambda: dist(pm.Gamma("rate", 20, 10)))
    assert [x is not None for x in parts] == [alone]
    if not alone:
        return
    monkeypatch.setattr(windows, "subset_distribution", lambda *arguments: None)
    whole = fiber_of(release, lambda: dist(pm.Gamma("rate", 20, 10)))
    assert (fiber.lower.tolist(), fiber.width) == (whole.lower.tolist(), whole.width)
    monkeypatch.setattr(windows, "subset_distribution", lambda dist, shape, some: of_some(dist, shape, (some + 1) % 6))
    wrong = fiber_of(release, lambda: dist(pm.Gamma("rate", 20, 10)))
    assert (fiber.lower.tolist(), fiber.width) != (wrong.lower.tolist(), wrong.width)


def test_wide_priors_leave_windows_to_the_noise():
    y = np.array([3, 20, 100, 0, 7])
    release = ppd.Release(y, ppd.GeneralizedLaplace(NOTHING, epsilon="1/4"))
    fiber = fiber_of(release, lambda: pm.Poisson.dist(pm.math.exp(pm.Normal("log_rate", 0, 10, shape=5))))
    assert fiber.width <= 2 * release.likelihood.support_radius + 3


@pytest.mark.parametrize("public", [total(), NOTHING], ids=["total", "nothing"])
def test_a_tiny_epsilon_needs_little_memory(public):
    release = ppd.Release(np.array([10**5, -(10**6), 4, 900_012]), ppd.GeneralizedLaplace(public, epsilon="1/1000000"))
    fiber = fiber_of(release, lambda: pm.Poisson.dist(pm.Gamma("rate", 2, 0.01)))
    assert fiber.width < 20_000
    assert public is NOTHING or fiber.width <= 16 + 3  # the public total


def test_windows_above_the_memory_are_refused_by_cell(monkeypatch):
    release = ppd.Release(np.array([10**5, -(10**6), 4, 900_012]), ppd.GeneralizedLaplace(NOTHING, epsilon="1/1000000"))
    with pytest.raises(ModelError, match=r"counts to dim_0=\d, above the limit of 8,388,608 for 4 cells: use a prior"):
        fiber_of(release, lambda: pm.Poisson.dist(pm.Flat("rate")))
    refine, refined = windows._refined, []
    monkeypatch.setattr(windows, "_refined", lambda *of: refined.append(of[1].size) or refine(*of))
    monkeypatch.setattr(windows, "LISTED", 40)
    monkeypatch.setattr(windows, "FIRST", 1)
    with pytest.raises(ModelError, match="above the limit of 20 for 2 cells"):
        fiber_of(ppd.Release(np.array([3, 4]), laplace("1/4")[0]), lambda: pm.Poisson.dist(pm.Uniform("rate", 0, 100)))
    assert refined == [1]  # the first cell is sufficient


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("marginalize", [True, WALKED])
@pytest.mark.filterwarnings("ignore::ppdinf.errors.DiagnosisWarning")
def test_a_posterior_outside_its_windows_is_reported(marginalize, monkeypatch):
    """Nine cells determine a common rate incompatible with the tenth, which no draw of the wide prior showed."""
    monkeypatch.setattr(renewed_windows, "plausible_windows", lambda model: {})
    table = np.array([1, 0, 2, 1, 3, 0, 1, 2, 1, 150])
    release = ppd.Release(ppd.as_table(table, dims=["county"]), ppd.GeneralizedLaplace(NOTHING, epsilon=1))
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 40, 0.4) * pm.Gamma("scale", 0.05, 0.05)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=marginalize)
        idata = pm.sample(100, tune=100, chains=2, **QUIET)
    first = ppd.diagnose(idata, model).problems[0]
    assert "exceeds the truncation windows" in first
    assert "county=9: the prior, the release" in first


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("marginalize", [True, WALKED])
@pytest.mark.filterwarnings("ignore::ppdinf.errors.DiagnosisWarning")
def test_a_posterior_within_its_windows_is_not_reported(marginalize):
    release = ppd.Release(np.array([100, -20, 3]), ppd.GeneralizedLaplace(NOTHING, epsilon=1))
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2, 2, shape=3)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=marginalize)
        idata = pm.sample(100, tune=100, chains=2, **QUIET)
    assert "exceeds" not in " ".join(ppd.diagnose(idata, model).problems)


BOUNDS = {  # of a Poisson count with mean 1, and the possible counts
    "improbable counts": (8, 12, np.arange(8, 13)),
    "bounds between integers": (7.5, 12.2, np.arange(8, 13)),
    "no upper bound": (9, None, np.arange(9, 100)),
    "no lower bound": (None, 0, np.arange(1)),
}


@pytest.mark.parametrize(("lower", "upper", "counts"), BOUNDS.values(), ids=BOUNDS)
def test_prior_draws_are_within_improbable_bounds(lower, upper, counts):
    """PyMC draws 100,000 counts for one above 7; the density is compared with a sum over counts."""
    release = ppd.Release(np.array([11]), ppd.GeneralizedLaplace(NOTHING, epsilon=1))
    with pm.Model(coords=release.coords) as model:
        rate = pm.LogNormal("rate", 0, 0.1)
        dist = pm.Truncated.dist(pm.Poisson.dist(rate), lower=lower, upper=upper)
        ppd.PartiallyPrivate("x", dist, release=release)
    table = tables_of(model)[0].variable
    base, _ = table.owner.op.base(table.owner.inputs)
    cells = windows.PublishedCells(table.owner.op.observed, np.array([True]))
    drawn = windows.PriorDraws(windows.DataModel(model, base, (1,)), cells).tables
    assert drawn.shape == (windows.DRAWS, 1)
    assert set(drawn.ravel()) <= set(counts)
    log_p = stats.poisson.logpmf(counts, 1.0)
    found = model.compile_logp(vars=[model["x_release"]], mode="FAST_COMPILE")({"rate_log__": 0.0})
    wanted = logsumexp(log_p + stats.dlaplace.logpmf(counts - 11, 1)) - logsumexp(log_p)
    assert float(found) == pytest.approx(float(wanted), abs=1e-8)


def test_bounds_between_integers_that_change_and_those_of_other_variables():
    """Bounds are data; the mean depends on a latent count with a truncated component, which keeps its own bounds."""
    release = ppd.Release(np.array([3]), ppd.GeneralizedLaplace(NOTHING, epsilon=1))
    with pm.Model(coords=release.coords) as model:
        parts = [pm.Truncated.dist(pm.Poisson.dist(1.0), lower=0.5), pm.Poisson.dist(2.0)]
        latent = pm.Mixture("latent", [0.5, 0.5], parts)
        lower = pm.Data("lower", 0.5)
        dist = pm.Truncated.dist(pm.Poisson.dist(latent + 1.0), lower=lower)
        ppd.PartiallyPrivate("x", dist, release=release)
    assert model["latent"] in model.free_RVs
    for bound, first in ((0.5, 1), (1.5, 2)):
        pm.set_data({"lower": bound}, model=model)
        x = np.arange(first, 80)
        for count in (0, 4):
            log_p = stats.poisson.logpmf(x, count + 1.0)
            found = model.compile_logp(vars=[model["x_release"]], mode="FAST_COMPILE")({"latent": np.array(count)})
            wanted = logsumexp(log_p + stats.dlaplace.logpmf(x - 3, 1)) - logsumexp(log_p)
            assert float(found) == pytest.approx(float(wanted), abs=1e-8)
