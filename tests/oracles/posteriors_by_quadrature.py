"""Posteriors of one parameter, with a table or with several modes, and their probabilities by quadrature.

The rates are BASE * exp(theta * SLOPE), so that the total, its evidence P(Z | theta) and the noisy cells all bear on
theta.
"""

import itertools
from typing import NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from lattice_laws import log_total
from scipy import stats
from scipy.special import gammaln, logsumexp

import ppdinf as ppd

BASE, SLOPE, Y = np.array([1.0, 2.0, 1.5]), np.array([1.0, -0.6, 0.5]), np.array([7, -3, 1])
MEAN, SD, EPSILON = 0.3, 1.2, 1.0
GRID = np.linspace(MEAN - 5 * SD, MEAN + 5 * SD, 3001)


class Law(NamedTuple):
    """On GRID: prior, likelihood, posterior, and the same without P(Z | theta)."""

    prior: np.ndarray
    likelihood: np.ndarray
    posterior: np.ndarray
    without_sums: np.ndarray
    evidence: float


def contrast_model():
    table = xr.DataArray(Y, dims="county", coords={"county": ["a", "b", "c"]})
    release = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        theta = pm.Normal("theta", MEAN, SD)
        rate = pm.Deterministic("rate", BASE * pm.math.exp(theta * SLOPE), dims="county")
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    return model


def law_on_grid(epsilon=EPSILON, total_known=True):
    points = np.array(list(itertools.product(range(19), repeat=3)))
    if total_known:
        points = points[points.sum(axis=1) == Y.sum()]
    rates = BASE * np.exp(GRID[:, None] * SLOPE)
    every = np.array(list(itertools.product(range(-40, 41), repeat=2 if total_known else 3)))
    last = every.sum(axis=1) if total_known else 0
    total = np.exp(-epsilon * (np.abs(every).sum(axis=1) + np.abs(last))).sum()
    noise = np.exp(-epsilon * np.abs(points - Y).sum(axis=1)) / total
    cells = stats.poisson.pmf(np.arange(19)[:, None, None], rates)  # count, grid, cell
    mass = cells[points[:, 0], :, 0] * cells[points[:, 1], :, 1] * cells[points[:, 2], :, 2]
    prior, likelihood = stats.norm.pdf(GRID, MEAN, SD), noise @ mass
    joint = prior * likelihood
    evidence = np.trapezoid(joint, GRID)
    sums = np.maximum(mass.sum(axis=0), 1e-300)  # P(Z | theta)
    return Law(prior, likelihood, joint / evidence, joint / sums, evidence)


GRID_OF_MODES = np.linspace(-12, 12, 48_001)
NO_DATA = np.zeros(3)


def normal(mean, sd):
    return lambda: pm.Normal("r", mean, sd), lambda r: stats.norm.logpdf(r, mean, sd)


def mixture(weight, mean, sd):
    def log_density(r):
        return logsumexp(np.log(weight) + stats.norm.logpdf(r[:, None], mean, sd), axis=1)

    return lambda: pm.NormalMixture("r", weight, mean, sd), log_density


TWO = mixture([0.5, 0.5], [-2, 4], [0.3, 0.6])
THREE = mixture([0.2, 0.5, 0.3], [-6, 0, 6], [0.5] * 3)
RARE = mixture([0.99, 0.01], [-4, 4], [0.5, 0.3])
NARROW = mixture([0.1, 0.9], [3, -2], [0.01, 2])

# prior, rate of three cells as a function of r (and of a module with exp, sin, cos), release, thresholds of r
POSTERIORS = {
    "two modes of one height": (TWO, lambda r, m: m.exp((r - 1) ** 2 / 9 - 1), (3, -1, 4), (1,)),
    "a square": (normal(0, 3), lambda r, m: r**2 + 0.01, (20, 25, 30), (0,)),
    "a square and a prior that leans": (normal(1, 3), lambda r, m: r**2 + 0.01, (20, 25, 30), (0,)),
    "a mode that is rare in the prior": (RARE, lambda r, m: m.exp(r / 3), (3, 4, 4), (0,)),
    "a narrow mode within a wide one": (NARROW, lambda r, m: m.exp(0.1 * r), (1, 1, 2), (2.9,)),
    "three modes": (THREE, lambda r, m: m.exp(0.7 * m.cos(r / 2)), (3, -1, 4), (-3, 3)),
    "skewed": (normal(0, 3), lambda r, m: m.exp(r), (0, 1, 0), (-2, 0)),
    "skewed, and nobody counted": (normal(0, 3), lambda r, m: m.exp(r), (2, -1, -1), (-2, 0)),
    "one mode": (normal(0, 1), lambda r, m: m.exp(r), (3, -1, 4), (0.5,)),
    "one mode, larger counts": (normal(3, 1), lambda r, m: m.exp(r), (20, 25, 30), (3.2,)),
    "one mode, a precise prior": (normal(1, 0.1), lambda r, m: m.exp(r), (3, -1, 4), (0.9, 1)),
    "waves": (normal(0, 2), lambda r, m: 20 * m.exp(1.2 * m.sin(3 * r)), (30, 28, 33), (-1, 1)),
}


def model_of(name):
    (prior, _), rate, released, _ = POSTERIORS[name]
    release = ppd.Release(np.array(released), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate(prior(), pm.math) + NO_DATA), release=release)
    return model


def density(name):
    """Return the log density of r and the release on the grid."""
    (_, log_prior), rate, y, _ = POSTERIORS[name]
    total = sum(y)
    tables = np.array([(i, j, total - i - j) for i in range(total + 1) for j in range(total + 1 - i)])
    log_noise = -np.abs(np.array(y) - tables).sum(axis=1) - log_total(1, 3) - gammaln(tables + 1).sum(axis=1)
    mean = rate(GRID_OF_MODES, np)
    return log_prior(GRID_OF_MODES) + total * np.log(mean) - 3 * mean + logsumexp(log_noise)


def exact(name):
    """Return the log evidence, and probabilities that r exceeds the thresholds."""
    log_p = density(name)
    p = np.exp(log_p - log_p.max())
    log_evidence = np.log(p.sum() * (GRID_OF_MODES[1] - GRID_OF_MODES[0])) + log_p.max()
    return log_evidence, [p[limit < GRID_OF_MODES].sum() / p.sum() for limit in POSTERIORS[name][3]]


def draws_of(name, size, rng):
    """Return independent draws of r from the density on the grid."""
    log_p = density(name)
    p = np.exp(log_p - log_p.max())
    return np.random.default_rng(rng).choice(GRID_OF_MODES, size, p=p / p.sum())


def assert_probabilities(found, right, size, name):
    """Check within 5 standard errors, and 0.003 for modes of few draws: a false alarm in a million runs."""
    for got, p in zip(found, right, strict=True):
        assert abs(got - p) < 5 * np.sqrt(p * (1 - p) / size) + 0.003, (name, got, p)
