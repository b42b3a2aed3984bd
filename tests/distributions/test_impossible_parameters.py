"""Parameters of dependents that are impossible at some counts exclude these counts: enumeration of all counts.

The counts of cells are independent given the parameters, except for dependents of several cells.
"""

import itertools

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd

inv = ppd.invariants
NOISY, EPSILON, X = np.array([6, 9]), 0.5, np.arange(-20, 120)
READINGS = np.array([[1, 2], [0, 3], [2, 2]])
FIRST, SECOND, P = np.array([3, 4]), np.array([1, 2]), 0.4


def at(possible, log_p, x, otherwise=1):
    """Return log probabilities where a parameter is possible, and -inf elsewhere."""
    return np.where(possible, log_p(np.where(possible, x, otherwise)), -np.inf)


def removal(x, t):
    pm.Binomial("first", n=x, p=P, observed=FIRST)
    pm.Binomial("second", n=x - FIRST, p=P, observed=SECOND)


CASES = {  # dependents of the table given t, and their log density at counts of cell i
    "beyond a censoring bound": (
        lambda x, t: pm.Censored("d", pm.Poisson.dist((x - 5) * pm.math.exp(t)), lower=None, upper=3, observed=[1, 3]),
        lambda x, i, t: at(
            x >= 5,
            lambda x: [stats.poisson.logpmf(1, np.exp(t) * (x - 5)), stats.poisson.logsf(2, np.exp(t) * (x - 5))][i],
            x,
            9,
        ),
    ),
    "zero inflation": (
        lambda x, t: pm.ZeroInflatedPoisson("d", psi=x / 9, mu=pm.math.exp(t), observed=[0, 2]),
        lambda x, i, t: at(
            (x >= 0) & (x <= 9),
            lambda x: np.log((1 - x / 9) * (i == 0) + x / 9 * stats.poisson.pmf([0, 2][i], np.exp(t)) + 1e-300),
            x,
        ),
    ),
    "one component of a mixture": (
        lambda x, t: pm.Mixture(
            "d", w=[0.3, 0.7], comp_dists=[pm.Poisson.dist(x - 4), pm.Poisson.dist(pm.math.exp(t))], observed=[1, 9]
        ),
        lambda x, i, t: at(
            x >= 4,
            lambda x: np.log(
                0.3 * stats.poisson.pmf([1, 9][i], x - 4) + 0.7 * stats.poisson.pmf([1, 9][i], np.exp(t))
            ),
            x,
            9,
        ),
    ),
    "removal": (
        removal,
        lambda x, i, t: at(x >= 0, lambda x: stats.binom.logpmf(FIRST[i], x, P), x)
        + at(x >= FIRST[i], lambda x: stats.binom.logpmf(SECOND[i], x - FIRST[i], P), x, 9),
    ),
    "standard deviation": (
        lambda x, t: pm.Normal("d", t, sigma=x, observed=[1.0, 2.5]),
        lambda x, i, t: at(x > 0, lambda x: stats.norm.logpdf([1.0, 2.5][i], t, x), x),
    ),
    "shape": (
        lambda x, t: pm.Gamma("d", alpha=x, beta=pm.math.exp(t), observed=[1.0, 2.0]),
        lambda x, i, t: at(x > 0, lambda x: stats.gamma.logpdf([1.0, 2.0][i], x, scale=np.exp(-t)), x),
    ),
    "mean": (
        lambda x, t: pm.Poisson("d", pm.math.exp(t) * (x - 1), observed=[0, 2]),
        lambda x, i, t: at(x >= 1, lambda x: stats.poisson.logpmf([0, 2][i], np.exp(t) * (x - 1)), x),
    ),
    "several readings": (
        lambda x, t: pm.Poisson("d", (x - 2)[None] * pm.math.exp(t), observed=READINGS),
        lambda x, i, t: at(x >= 2, lambda x: stats.poisson.logpmf(READINGS[:, [i]], np.exp(t) * (x - 2)).sum(0), x, 9),
    ),
    "one cell": (
        lambda x, t: pm.Exponential("d", lam=x[0] - 4, observed=0.3),
        lambda x, i, t: at(x > 4, lambda x: stats.expon.logpdf(0.3, scale=1 / (x - 4)), x, 9) if i == 0 else 0.0 * x,
    ),
    "a probability": (
        lambda x, t: pm.Bernoulli("d", x / 10, observed=[1, 0]),
        lambda x, i, t: at((x >= 0) & (x <= 10), lambda x: stats.bernoulli.logpmf([1, 0][i], x / 10), x),
    ),
}  # fmt: skip
DATA = {  # data models given the mean
    "poisson": (lambda mu: pm.Poisson.dist(mu * np.ones(2)), lambda x, mu: stats.poisson.logpmf(x, mu)),
    "negative counts": (
        lambda mu: pm.Poisson.dist(mu * np.ones(2)) - 5, lambda x, mu: stats.poisson.logpmf(x + 5, mu)
    ),
}  # fmt: skip


def model_of(add, dist, public=None, marginalize="auto"):
    release = ppd.Release(NOISY, ppd.GeneralizedLaplace(inv.Public() if public is None else public, epsilon=EPSILON))
    with pm.Model() as model:
        t = pm.Normal("t", 0, 1)
        add(ppd.PartiallyPrivate("x", dist(7.0), release, marginalize=marginalize), t)
    return model


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("case", CASES)
def test_density_and_gradient(case, data):
    (add, log_f), (dist, log_p) = CASES[case], DATA[data]
    model = model_of(add, dist)
    assert "x" not in model.named_vars

    def expected(t):
        cells = [log_p(X, 7.0) + stats.dlaplace.logpmf(y - X, EPSILON) + log_f(X, i, t) for i, y in enumerate(NOISY)]
        return sum(logsumexp(cell) for cell in cells) + stats.norm.logpdf(t)

    density, gradient = model.compile_logp(), model.compile_dlogp()
    for t in (-0.4, 0.3):
        assert density({"t": np.array(t)}) == pytest.approx(expected(t), abs=1e-7)
        slope = (expected(t + 1e-5) - expected(t - 1e-5)) / 2e-5
        assert gradient({"t": np.array(t)})[0] == pytest.approx(slope, abs=1e-5)


SAMPLED = {
    "removal": CASES["removal"],
    "standard deviation": CASES["standard deviation"],
    "both cells": (
        lambda x, t: pm.Poisson("d", x[0] - x[1] + 4, observed=3),
        lambda x: at(x[0] - x[1] + 4 >= 0, lambda mu: stats.poisson.logpmf(3, mu), x[0] - x[1] + 4),
    ),
}


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("case", SAMPLED)
def test_draws_of_a_sampled_table(case):
    """Means are within six standard errors of 4,000 independent draws; all tables are drawn that are possible."""
    add, log_f = SAMPLED[case]
    model = model_of(lambda x, t: add(x, 0.0), DATA["poisson"][0], inv.total(), False)
    tables = np.array([x for x in itertools.product(range(16), repeat=2) if sum(x) == 15])
    log_p = stats.poisson.logpmf(tables, 7.0).sum(axis=1) - EPSILON * abs(tables - NOISY).sum(axis=1)
    if case == "both cells":
        log_p = log_p + np.array([log_f(x) for x in tables])
    else:
        log_p = log_p + sum(log_f(tables[:, i], i, 0.0) for i in range(2))
    p = np.exp(log_p - logsumexp(log_p))
    mean = p @ tables
    sd = np.sqrt(p @ (tables - mean) ** 2)
    with model:
        idata = pm.sample(4000, tune=100, chains=2, random_seed=1, progressbar=False, quiet=True,
                          compute_convergence_checks=False)  # fmt: skip
    drawn = idata.posterior["x"].values.reshape(-1, 2)
    assert (abs(drawn.mean(axis=0) - mean) < 6 * sd / np.sqrt(4000)).all()
    assert p[drawn[:, 0]].all()
