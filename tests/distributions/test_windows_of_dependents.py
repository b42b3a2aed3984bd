"""Windows of counts under the data of variables that depend on a table: enumeration of a much wider range."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf.distributions import build_fiber, renewed_windows
from ppdinf.distributions.tables import tables_of
from ppdinf.distributions.windows import PriorDraws
from ppdinf.errors import ModelError

NOISY = np.array([3, 5])
RELEASE = ppd.Release(NOISY, ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1))
MANY = np.arange(1000)


def deaths(table, data):
    pm.Binomial("deaths", n=table, p=0.5, observed=data)


def log_deaths(x, y):
    return stats.binom.logpmf(y, x, 0.5)


def weight(table, data):
    pm.Potential("weight", pm.logp(pm.NegativeBinomial.dist(mu=table + 0.5, alpha=np.float64(20)), data))


DEPENDENTS = {  # variable, its log density at counts x, data that agree with the release, and data far from it
    "binomial": (deaths, log_deaths, [2, 3], [20, 2]),
    "impossible near the release": (deaths, log_deaths, [2, 3], [2, 60]),
    "impossible under all draws of the prior": (deaths, log_deaths, [2, 3], [300, 60]),
    "Poisson": (lambda x, data: pm.Poisson("visits", mu=2.0 * x + 0.1, observed=data),
                lambda x, y: stats.poisson.logpmf(y, 2.0 * x + 0.1), [5, 12], [200, 12]),
    "normal": (lambda x, data: pm.Normal("reading", mu=x, sigma=2.0, observed=data),
               lambda x, y: stats.norm.logpdf(y, x, 2.0), [1.5, 7.0], [60.5, 7.0]),
    "potential": (weight, lambda x, y: stats.nbinom.logpmf(y, 20, 20 / (20.5 + x)), [2, 6], [2, 250]),
}  # fmt: skip


def posed(add, data, marginalize="auto", published=RELEASE):
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 0.1)
        add(ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), published, marginalize=marginalize), np.array(data))
    return model


def density(model, rate, **point):
    return float(model.compile_logp(vars=model.observed_RVs)({"rate_log__": np.log(rate), **point}))


def enumerated(rate, log_f, data, counts=MANY):
    """Log density of everything observed given the rate."""
    log_p = counts * np.log(rate) - rate - gammaln(counts + 1) + stats.dlaplace.logpmf(NOISY[:, None] - counts, 1)
    return logsumexp(log_p + log_f(counts, np.array(data)[:, None]), axis=1).sum()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("case", DEPENDENTS)
def test_the_density_is_that_of_all_counts(case):
    add, log_f, agreeing, far = DEPENDENTS[case]
    for data in (agreeing, far):
        model = posed(add, data)
        for rate in (25.0, 40.0):
            assert density(model, rate) == pytest.approx(enumerated(rate, log_f, data), abs=1e-6)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", DEPENDENTS)
def test_windows_without_the_data_lose_mass(case, monkeypatch):
    monkeypatch.setattr(PriorDraws, "moved_by_data", lambda self, lower, *_: np.zeros(lower.size, dtype=bool))
    monkeypatch.setattr(renewed_windows, "plausible_windows", lambda model: {})
    add, log_f, _, far = DEPENDENTS[case]
    assert density(posed(add, far), 25.0) < enumerated(25.0, log_f, far) - 1e-5


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("case", DEPENDENTS)
def test_sampled_tables_have_the_same_windows(case):
    add, _, _, far = DEPENDENTS[case]
    fibers = [tables_of(posed(add, far, way))[0].law.fiber for way in (True, False)]
    assert fibers[0].lower.tolist() == fibers[1].lower.tolist()
    assert fibers[0].width == fibers[1].width


def test_agreeing_data_leave_the_windows(monkeypatch):
    monkeypatch.setattr(build_fiber, "set_windows", lambda *_, **__: pytest.fail("the windows were computed again"))
    for add, _, agreeing, _ in DEPENDENTS.values():
        posed(add, agreeing)


def test_parameters_of_dependents_and_several_dependents():
    with posed(deaths, [2, 3]) as model:
        pm.Binomial("severe", n=tables_of(model)[0].variable, p=pm.Beta("fatality", 20, 20), observed=[35, 3])
    for p in (0.4, 0.6):

        def log_f(x, severe, p=p):
            both = np.array([2, 3])[:, None]
            return stats.binom.logpmf(both, x, 0.5) + stats.binom.logpmf(severe, x, p)

        log_p = density(model, 20.0, fatality_logodds__=np.log(p / (1 - p)))
        assert log_p == pytest.approx(enumerated(20.0, log_f, [35, 3]), abs=1e-6)


@pytest.mark.parametrize("family", ["Poisson", "normal"])
def test_vague_parameters_that_can_explain_the_data_leave_the_windows(family):
    """No draw of the prior fits counts of a million to 0.1 %, but parameters between the draws do."""
    counts = np.array([1_000_000, 1_300_000, 900_000, 1_100_000])
    release = ppd.Release(counts, ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon="1/50"))
    windows = []
    for has_data in (False, True):
        with pm.Model():
            table = ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 2e-6, shape=4)), release)
            if has_data and family == "Poisson":
                pm.Poisson("visits", pm.math.exp(pm.Normal("level", 0, 2)) * table, observed=counts)
            if has_data and family == "normal":
                mean = pm.Normal("shift", 0, 1e6) + pm.Normal("slope", 0, 10) * table
                pm.Normal("reading", mean, 1.0, observed=[5e6, 6.5e6, 4.5e6, 5.5e6])
        law = table.owner.op
        windows.append((law.fiber.lower.tolist(), law.fiber.width))
    assert windows[0] == windows[1]


def test_data_that_change():
    _, log_f, agreeing, far = DEPENDENTS["binomial"]
    model = posed(lambda table, data: deaths(table, pm.Data("data", data)), agreeing)
    for data in (agreeing, far, agreeing):
        pm.set_data({"data": data}, model=model)
        assert density(model, 25.0) == pytest.approx(enumerated(25.0, log_f, data), abs=1e-6)


def test_data_that_nothing_explains_are_refused_by_cell():
    with pytest.raises(ModelError, match="contradict the prior and everything published at dim_0=1"):
        posed(deaths, [2, 10**9])


def test_a_public_bound_ends_the_window():
    bounded = ppd.Measurements(
        {"a": ["A", "B"]},
        ppd.measured(ppd.invariants.margin("a"), NOISY, ppd.laws.DoubleGeometric(1)),
        public=ppd.invariants.between(0, 40),
    )
    model = posed(deaths, [30, 2], published=bounded)
    right = enumerated(25.0, DEPENDENTS["binomial"][1], [30, 2], MANY[:41])
    assert density(model, 25.0) == pytest.approx(right, abs=1e-6)
