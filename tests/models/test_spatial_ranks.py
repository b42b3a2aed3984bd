"""Ranks of true parameters among draws of the posterior of a spatial-temporal model are uniform.

References
----------
A. Gandy, J. Scott, "Unit testing for MCMC and other Monte Carlo methods" (2020), arXiv:2001.06465, section 3.2: a
reversible chain through the true parameters at a random position is stationary, so ranks are uniform at any length.
"""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.stats import chisquare

import ppdinf as ppd
from ppdinf.models.label_effects import log_rates

AREAS, MONTHS, EPSILON, HIGHEST = 9, 4, 0.5, 4.5  # a grid of 3 x 3 areas; log rates are below HIGHEST
NEAR = {a: [b for b in range(9) if abs(a // 3 - b // 3) + abs(a % 3 - b % 3) == 1] for a in range(9)}
WINDOW = np.arange(160)
LENGTH, LEAPS, STEP = 19, 6, 0.3
QUANTITIES = ["area_spread", "area_mixing", "month_spread", "month_mixing", "intercept", "corner", "first month"]


def spatial_model():
    """Return the model of rates, with the coordinates of some release, its quantities and the log rates."""
    table = ppd.as_table(np.random.default_rng(1).poisson(8, (AREAS, MONTHS)), dims=["area", "month"])
    about = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON))
    with pm.Model() as model:
        eta = log_rates(about, ["area", "month"], spatial={"area": NEAR}, temporal="month").ravel()
    told = [*(model[name] for name in QUANTITIES[:5]), model["area_effect"][0], model["month_effect"][0]]
    return model, pt.stack(told), eta


def compiled(model, told, eta):
    """Return the log density and its gradient at unconstrained values and noisy counts, and the quantities there.

    The noise is two-sided geometric; counts are summed over a window.
    """
    told, eta = model.replace_rvs_by_values([told, eta])
    noisy = pt.dvector()
    terms = WINDOW * eta[:, None] - pt.gammaln(WINDOW + 1.0) - EPSILON * pt.abs(noisy[:, None] - WINDOW)
    density = model.logp() + (pt.logsumexp(terms, axis=1) - pt.exp(eta)).sum()
    density = pt.switch(eta.max() < HIGHEST, density, -np.inf)
    gradient = pt.concatenate([pt.atleast_1d(g) for g in pt.grad(density, model.value_vars)])
    return pytensor.function([*model.value_vars, noisy], [density, gradient, told])


def hamiltonian_step(density, at, rng):
    """Return the next state of a reversible chain: position, log density, gradient, quantities."""
    momentum = rng.normal(size=at[0].size)
    position, new, p = at[0], at, momentum + STEP / 2 * at[2]
    for leap in range(LEAPS):
        position = position + STEP * p
        new = (position, *density(position))
        if not np.isfinite(new[1]):
            return at
        p = p + STEP / (2 if leap == LEAPS - 1 else 1) * new[2]
    log_ratio = new[1] - at[1] - (p @ p - momentum @ momentum) / 2
    return new if np.log(rng.random()) < log_ratio else at


def ranks(function, model, told, eta, data_sets, seed):
    """Return ranks of the quantities in chains through the true parameters, (data sets, quantities)."""
    values = [model.rvs_to_transforms[rv].forward(rv, *rv.owner.inputs) for rv in model.free_RVs]
    flat = pt.concatenate([pt.atleast_1d(value) for value in values])
    sizes = np.cumsum([value.size for value in model.initial_point().values()])[:-1]
    truths, rates = pm.draw([flat, eta], 2 * data_sets + 100, random_seed=seed)
    kept = np.flatnonzero(rates.max(axis=1) < HIGHEST)[:data_sets]
    assert kept.size == data_sets
    rng, found = np.random.default_rng(seed), []
    shapes = [value.shape for value in model.initial_point().values()]
    for truth, eta_true in zip(truths[kept], rates[kept], strict=True):
        noise = rng.geometric(1 - np.exp(-EPSILON), (2, eta_true.size))
        noisy = (rng.poisson(np.exp(eta_true)) + noise[0] - noise[1]).astype(float)

        def density(x, noisy=noisy):
            parts = [part.reshape(shape) for part, shape in zip(np.split(x, sizes), shapes, strict=True)]
            return function(*parts, noisy)

        start, position = (truth, *density(truth)), int(rng.integers(LENGTH + 1))
        others = []
        for steps in (position, LENGTH - position):
            at = start
            for _ in range(steps):
                at = hamiltonian_step(density, at, rng)
                others.append(at[3])
        ties = rng.random((LENGTH, start[3].size)) < 0.5  # after rejections
        found.append(((others < start[3]) | ((others == start[3]) & ties)).sum(axis=0))
    return np.array(found)


def p_values(found):
    """Return p values of uniform ranks in groups of two."""
    return np.array([chisquare(np.bincount(column // 2, minlength=(LENGTH + 1) // 2)).pvalue for column in found.T])


@pytest.mark.deep
def test_ranks_are_uniform():
    model, told, eta = spatial_model()
    found = p_values(ranks(compiled(model, told, eta), model, told, eta, 200, 3))
    print(dict(zip(QUANTITIES, found.round(4), strict=True)))
    assert found.min() > 0.001
