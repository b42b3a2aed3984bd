"""Windows at plausible parameters: enumeration of counts and quadrature over the parameters, without the package."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.distributions import marginal_rewrite, renewed_windows
from ppdinf.distributions.tables import tables_of
from ppdinf.models.log_likelihood import leave_one_out

NOTHING = ppd.invariants.Public(())
COUNTS = np.arange(4000)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1, "random_seed": 2}


def release(y, epsilon, public=NOTHING):
    return ppd.Release(np.array(y), ppd.GeneralizedLaplace(public, epsilon=epsilon))


def noise(y, epsilon):
    return -epsilon * abs(np.array(y)[:, None] - COUNTS)


def poisson(rate):
    return stats.poisson.logpmf(COUNTS, rate)[None]


GRID = np.linspace(-1.5, 1.5, 301)  # of b; the posterior has its mass in a small part


def pooled(y=(500, 980, 1010), sd=0.3, marginalize="auto", flat=False, dist=pm.Poisson.dist, law=poisson):
    """One rate, 1000 exp(b), with b ~ N(0, sd)."""
    with pm.Model() as model:
        b = pm.Flat("b") if flat else pm.Normal("b", 0, sd)
        ppd.PartiallyPrivate("x", dist(1000 * pm.math.exp(b)), release(y, "1/10"), marginalize=marginalize)
    prior = 0 * GRID if flat else stats.norm.logpdf(GRID, 0, sd)
    return model, [law(1000 * np.exp(b)) + noise(y, 0.1) for b in GRID], prior


def overdispersed():
    return pooled(
        (100, 980, 1010, 1005, 990),
        dist=lambda mu: pm.NegativeBinomial.dist(mu=mu, alpha=200),
        law=lambda mu: stats.nbinom.logpmf(COUNTS, 200, 200 / (200 + mu))[None],
    )


def hierarchical():
    y = (900, 480, 520, 505, 490, 515)
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 0.1)
        log_rate = pm.Normal("mean", 6, 1) + spread * pm.Normal("z", 0, 1, shape=6)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(log_rate)), release(y, "1/5"))
    cells, prior = [], []
    for mean in np.linspace(5.9, 6.6, 15):
        for log_spread in np.linspace(-5, -1, 12):
            rates = np.exp(mean + np.exp(log_spread) * NODES)
            law = logsumexp(stats.poisson.logpmf(COUNTS, rates[:, None]) + np.log(WEIGHTS)[:, None], axis=0)
            cells.append(law[None] + noise(y, 0.2))
            prior.append(stats.norm.logpdf(mean, 6, 1) + stats.halfnorm.logpdf(np.exp(log_spread), 0, 0.1) + log_spread)
    return model, cells, np.array(prior)


def further_data():
    """A variable that does not depend on the table determines the rate of a single cell."""
    model, cells, prior = pooled([500], sd=1)
    with model:
        pm.Normal("survey", model["b"], 0.01, observed=0.1)
    return model, cells, prior + stats.norm.logpdf(0.1, GRID, 0.01)


def latent_between():
    """Readings of a latent level between the table and the data."""
    y, readings = (30, 40), np.array([33.0, 180.0])
    with pm.Model() as model:
        table = ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 0.02, shape=2)), release(y, "1"))
        level = pm.Normal("level", table, 3.0)
        pm.Normal("reading", level, 4.0, observed=readings)
    law = stats.nbinom.logpmf(COUNTS, 2, 0.02 / 1.02)[None]
    return model, [law + noise(y, 1.0) + stats.norm.logpdf(readings[:, None], COUNTS, 5.0)], np.zeros(1)


def public_total():
    y = (500, 1480, 1510)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 0.3)
        dist = pm.Poisson.dist(1000 * pm.math.exp(b) * np.array([1.0, 1.0, 1.0]))
        ppd.PartiallyPrivate("x", dist, release(y, "1/10", ppd.invariants.total()))
    cells, prior, total = [], [], sum(y)
    for b in np.linspace(0.0, 0.3, 31):  # counts elsewhere are below the smallest float
        alone = poisson(1000 * np.exp(b)) + noise(y, 0.1)
        largest = alone.max(axis=1, keepdims=True)
        weights = np.exp(alone - largest)
        parts = []
        for k in range(3):
            others = np.convolve(weights[(k + 1) % 3], weights[(k + 2) % 3])
            left = total - COUNTS
            with np.errstate(divide="ignore"):
                parts.append(np.log(np.where(left >= 0, others[left], 0)) + alone[k] - largest[k])
        cells.append(np.array(parts))
        prior.append(stats.norm.logpdf(b, 0, 0.3) + largest.sum() - 2 * logsumexp(parts[0]))
    return model, cells, np.array(prior)


CASES = {
    "one cell far from the others": lambda: pooled(),
    "sampled": lambda: pooled(marginalize=False), "a vague prior": lambda: pooled(sd=10),
    "a flat prior": lambda: pooled(flat=True),
    "far above": lambda: pooled((2500, 980, 1010, 1000, 1030)),
    "below 0": lambda: pooled((-300, 980, 1010, 1000, 1030)),
    "negative binomial": overdispersed, "hierarchical": hierarchical, "further data": further_data,
    "a latent variable between": latent_between, "a public total": public_total,
}  # fmt: skip
SUFFICIENT = {"a flat prior", "hierarchical", "a public total"}  # wide enough without the fit


def outside(model, cells, prior):
    """Posterior probability of the counts of each cell outside its window."""
    model.logp()  # windows are final when a density is built
    fiber, cells = tables_of(model)[0].law.fiber, np.array(cells)
    log_z = logsumexp(cells, axis=2)
    weight = prior + log_z.sum(axis=1)
    weight = np.exp(weight - logsumexp(weight))
    beyond = (fiber.lower[:, None] > COUNTS) | (fiber.lower[:, None] + fiber.width - 1 < COUNTS)
    share = (np.exp(cells - log_z[..., None]) * beyond).sum(axis=2)
    return weight @ share, fiber.width


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("case", CASES)
def test_windows_contain_the_posterior(case):
    share, width = outside(*CASES[case]())
    assert share.max() < 1e-9
    assert width < 2500


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("case", sorted(CASES.keys() - SUFFICIENT))
def test_windows_of_the_noise_and_the_prior_do_not(case, monkeypatch):
    monkeypatch.setattr(renewed_windows, "plausible_windows", lambda model: {})
    assert outside(*CASES[case]())[0].max() > 1e-6


def test_the_posterior_of_a_rate_with_one_cell_far_away():
    model, cells, prior = pooled()
    log_p = model.compile_logp(mode="FAST_COMPILE")
    assert tables_of(model)[0].law.fiber.likely[0] == pytest.approx(895, abs=40)  # mean; 500 has the largest weight
    density = np.array([log_p({"b": np.array(b)}) for b in GRID[130:161]])
    right = (logsumexp(np.array(cells), axis=2).sum(axis=1) + prior)[130:161]
    assert density - density.max() == pytest.approx(right - right.max(), abs=1e-6)


def test_a_prior_draw_near_all_counts_needs_no_fit(monkeypatch):
    monkeypatch.setattr("ppdinf.distributions.renewed_windows.ApproximatePosterior", lambda *_: pytest.fail("fitted"))
    pooled((950, 980, 1010))[0].logp()


def test_the_search_for_significant_counts_ends_on_coarse_grids(monkeypatch):
    """With 16 counts of each cell, ranges of some cells would alternate between two lengths."""
    monkeypatch.setattr(renewed_windows, "EVALUATIONS", 1)
    y, rounds, of_grid = np.arange(1, 60), [], renewed_windows.range_of_weight
    monkeypatch.setattr(renewed_windows, "range_of_weight", lambda *args: rounds.append(1) or of_grid(*args))
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(y * pm.math.exp(b)), release(y, 1), marginalize=True)
    (table,) = tables_of(model)
    posterior = renewed_windows.ApproximatePosterior(model, [renewed_windows.CellWeights(table)])
    for point in (-0.5, -0.1, 0.5):
        ((first, last),) = posterior._significant(np.array([point]))
        weights = poisson(y[:, None] * np.exp(point))[0] + noise(y, 1)
        weights -= logsumexp(weights, axis=1, keepdims=True)
        outside = (first[:, None] > COUNTS) | (last[:, None] < COUNTS)
        assert np.where(outside, np.exp(weights), 0).sum(axis=1).max() < 1e-7
    assert len(rounds) <= 3 * 3


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::ppdinf.errors.DiagnosisWarning")
def test_leave_one_out_of_a_count_far_from_the_others():
    """The density of each released count given the others, by quadrature."""
    model, cells, prior = pooled()
    log_z = logsumexp(np.array(cells), axis=2)
    constant = np.log(np.tanh(0.05))  # of the double geometric noise
    table = leave_one_out(model, draws=1000, tune=500, chains=2, **QUIET)
    for k in range(3):
        rest = prior + log_z.sum(axis=1) - log_z[:, k]
        right = logsumexp(rest + log_z[:, k]) - logsumexp(rest) + constant
        row = table.iloc[k]
        assert row["elpd"] == pytest.approx(right, abs=6 * row["monte_carlo_error"] + 0.02)


def test_the_density_of_the_table_is_built_once(monkeypatch):
    """Its constants can take seconds: the fit of windows does without them."""
    built, density = [], marginal_rewrite.marginal_log_density
    monkeypatch.setattr(marginal_rewrite, "marginal_log_density", lambda *given: built.append(1) or density(*given))
    pooled()[0].compile_logp()
    assert built == [1]
