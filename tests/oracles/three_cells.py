"""Three Poisson cells with a public total and Laplace noise: every table, its weight, and sums over all tables."""

import itertools

import numpy as np
import pymc as pm
from lattice_laws import log_total
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd

NOISY, TOTAL, EPSILON, RATE = np.array([5, -1, 2]), 6, 0.5, np.array([2.0, 1.0, 3.0])
TABLES = np.array([x for x in itertools.product(range(TOTAL + 1), repeat=3) if sum(x) == TOTAL])
LOG_NOISE = -EPSILON * abs(TABLES - NOISY).sum(axis=1) - log_total(EPSILON, 3)
LOG_WEIGHT = stats.poisson.logpmf(TABLES, RATE).sum(axis=1) + LOG_NOISE


def released(table=NOISY):
    return ppd.Release(np.array(table), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))


def posed(*add, marginalize="auto", rate=RATE):
    """Return a model of the table x, and of what the functions add to it."""
    release = released()
    with pm.Model(coords=release.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release, marginalize=marginalize)
        for one in add:
            one(x)
    return model


def log_sum(factor=lambda x: 1.0):
    """Return the log weight of all tables, given a factor of each."""
    with np.errstate(divide="ignore"):
        return logsumexp(LOG_WEIGHT + np.log([factor(x) for x in TABLES]))


def posterior(factor=lambda x: 1.0):
    """Return the probabilities of all tables, given a factor of each."""
    with np.errstate(divide="ignore"):
        return np.exp(LOG_WEIGHT + np.log([factor(x) for x in TABLES]) - log_sum(factor))


def summed(model):
    """Return the log density of a model as a function of its other variables, summed over the table if sampled."""
    log_density, names = model.compile_logp(), [value.name for value in model.value_vars]
    tables = [{"x": x} for x in TABLES] if "x" in names else [{}]

    def at(**values):
        point = {name: np.array(value) for name, value in values.items() if name in names}
        return float(logsumexp([log_density({**point, **table}) for table in tables]))

    return at


def frequencies(draws):
    """Return the share of draws, shape (n, 3), at each table."""
    return np.array([(draws == x).all(axis=1).mean() for x in TABLES])
