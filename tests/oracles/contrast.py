"""Three Poisson cells with a known total and one parameter: the posterior by enumeration and quadrature.

The rates are BASE * exp(theta * SLOPE), so that the total, its evidence P(Z | theta) and the noisy cells all bear on
theta.
"""

import itertools
from typing import NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from scipy import stats

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
