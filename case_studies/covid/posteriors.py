"""Posteriors of one month of the COVID study: a prior learned from public months, exact draws, three analyses.

Small counties change together, when a wave reaches or leaves the country, and vary more around their expectation
than large counties. The prior has both: an unknown tilt, common to the state, that changes counties by their log
population, and a negative binomial shape that increases with it. `run.py` in this folder calls this module.
"""

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import beta, betabinom, gamma, nbinom, t

from . import noisy_pairs
from .l2_release_totals import L2Totals
from .release_totals import REACH, ReleaseTotals

DELTA_Z = 2
RECENT = 6  # months from which analysts learn the changes of counties
SCENARIOS = 11  # number of tilts
FIRST_MONTHS, FIRST_TILT = 2, 0.2  # prior of tilts: equivalent number of months, and their tilt
TAIL = 0.025
ROUNDS, ENOUGH = 3, 0.3  # rounds of proposals, and effective share of draws at which they end
RARE = 1e-14  # prior probability of larger counts, which are omitted


def standardised(population):
    """Return log population, with mean 0 and standard deviation 1."""
    size = np.log(population)
    return (size - size.mean()) / size.std()


def tilted(share, tilt, size):
    """Return shares of counties in the state's cases, `share` changed by size and tilt: shape (tilts, counties)."""
    raised = share * np.exp(np.multiply.outer(tilt, size))
    return raised / raised.sum(axis=-1, keepdims=True)


def fatality(cases, deaths, month, level):
    """Predict the state's deaths per case of `month`, with `level` cases, from the previous months.

    Deaths are reported weeks after cases: as many as in the previous month per case of two months, with weight 1/2 for
    each of the two months.
    """
    state = cases.sum(axis=0)
    two = (state[month - 1] + state[max(0, month - 2)]) / 2
    per_case = (deaths[:, month - 1].sum() + 1) / (two + 50)
    return min(0.5, per_case * (level + state[month - 1]) / 2 / level)


def fitted(cases, deaths, population, month):
    """Fit the changes of counties between months to the last public months before `month`.

    Returns shares of counties in the state's cases of `month`, one row for each of several equally probable tilts (a
    share is a mean of that in the previous month and that in the population), and two parameters of
    `noisy_pairs.draw`: shape by county, and strength. Tilts have Student's t distribution, the
    predictive distribution of normal tilts with unknown variance.
    """
    share = lambda s, w: (1 - w) * cases[:, s] / max(1, cases[:, s].sum()) + w * population / population.sum()  # noqa: E731
    size, levels = standardised(population), (np.arange(SCENARIOS) + 0.5) / SCENARIOS
    if month < 2:
        first = {"shape": np.full(len(size), 2.0), "strength": 30.0}
        return tilted(share(0, 0.2), FIRST_TILT * t.ppf(levels, FIRST_MONTHS), size), first
    past = range(max(1, month - RECENT), month)
    c, d = cases[:, past].T, deaths[:, past].T

    def loss(theta, shares):
        shape = np.exp(theta[0] + theta[1] * size)
        expected = c.sum(axis=1, keepdims=True) * tilted(shares, theta[2:], size)
        return (theta[1:] ** 2).sum() / 2 - nbinom.logpmf(c, shape, shape / (shape + expected)).sum()

    start, bounds = np.append(1.0, np.zeros(1 + len(past))), [(-2, 8)] + [(-2, 2)] * (1 + len(past))
    found = []
    for w in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4):
        best = minimize(loss, start, np.stack([share(s - 1, w) for s in past]), method="L-BFGS-B", bounds=bounds)
        found.append((best.fun, w, best.x))
    _, w, theta = min(found, key=lambda each: each[0])
    months = FIRST_MONTHS + len(past)
    scale = np.sqrt((FIRST_MONTHS * FIRST_TILT**2 + (theta[2:] ** 2).sum()) / months)
    rate = np.array([[fatality(cases, deaths, s, cases[:, s].sum())] for s in past])
    strength = minimize_scalar(
        lambda log: -betabinom.logpmf(d, c, np.exp(log) * rate, np.exp(log) * (1 - rate)).sum(),
        bounds=(-2, 8),
        method="bounded",
    )
    shares = tilted(share(month - 1, w), scale * t.ppf(levels, months), size)
    return shares, {"shape": np.exp(theta[0] + theta[1] * size), "strength": float(np.exp(strength.x))}


def posterior(noisy, repaired, table, history, month, epsilon, draws, rng):
    """Return mean and interval of cases, deaths and fatality by analysis: float32 (replicates, counties, 3, 3)."""
    rate, total = epsilon / (2 * DELTA_Z), int(table[:, 0].sum())
    shares, prior = fitted(*history, month)
    noise_sd = np.sqrt(len(table) / 2) / np.sinh(rate / 2)  # of the sum of all noisy cases
    found = {"conditioning": [], "no total": [], "naive": []}
    for y, post in zip(noisy.astype(np.int64), repaired, strict=True):
        levels = {"conditioning": (total, total), "no total": (max(y[:, 0].sum(), noise_sd), None)}
        for name, (level, known) in levels.items():
            given = prior | {"mean": level * shares, "share": fatality(*history[:2], month, level)}
            found[name].append(summary(noisy_pairs.draw(*y.T, rate=rate, **given, total=known, draws=draws, rng=rng)))
        found["naive"].append(as_true(post))
    return {name: np.array(values, dtype=np.float32) for name, values in found.items()}


def given_releases(released, alpha, table, history, month, epsilon, draws, rng, norm="l1"):
    """Return the posterior given each congenial release, in the shape of `posterior`, and shares of effective draws.

    `released` has the shape (replicates, counties, 2). `alpha` are the parameters of the Dirichlet-multinomial base
    measure of each county, or 1 for the counting measure.
    """
    rate, total = epsilon / (2 * DELTA_Z), int(table[:, 0].sum())
    shares, prior = fitted(*history, month)
    prior |= {"mean": total * shares, "share": fatality(*history[:2], month, total), "total": total, "rate": rate}
    y = released.astype(np.int64)
    likely = nbinom.isf(RARE, prior["shape"], prior["shape"] / (prior["shape"] + prior["mean"])).max(axis=0)
    last = np.minimum(total, np.maximum(likely, y[..., 0].max(axis=0)) + REACH / rate)
    middle = prior["mean"][len(shares) // 2]
    spread = middle + middle**2 / prior["shape"]
    near = middle + (y[0, :, 0] - middle) * spread / (spread + 2 / rate**2)
    near, width = np.stack([near, prior["share"] * near], axis=1).astype(np.int64), np.sqrt(y[0].size)
    for _ in range(ROUNDS):
        if norm == "l1":
            totals = ReleaseTotals.of(alpha, rate, near, last)
            drawn = np.stack([noisy_pairs.draw(*own.T, **prior, releases=totals, draws=draws, rng=rng) for own in y])
            log_w = -totals.log_hit(drawn.reshape(-1, *table.shape)).reshape(drawn.shape[:2])
        else:
            totals = L2Totals.of(alpha, rate, near, int(last.max()))
            parts = [l2_draws(own, totals, near, prior, draws, rng, width) for own in y]
            drawn, log_w, away = (np.stack(each) for each in zip(*parts, strict=True))
        weights = np.exp(log_w - log_w.max(axis=1, keepdims=True))
        effective = weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1) / draws
        if effective.min() > ENOUGH:
            break
        worst = effective.argmin()  # the next tilt is that of its posterior mean
        near = np.average(drawn[worst], axis=0, weights=weights[worst]).astype(np.int64)
        width = np.sqrt(np.average(away[worst], weights=weights[worst])) if norm == "l2" else width
    found = [summary(*each) for each in zip(drawn, weights, strict=True)]
    return np.array(found, dtype=np.float32), effective.astype(np.float32)  # last bits differ between processes


def l2_draws(y, totals, near, prior, draws, rng, v):
    """Draw tables given a release, by Gaussian noise of width v: tables, log weights, and rate times distances."""
    of_pairs = totals.factors(near, v)
    noise = prior | {"rate": -((totals.rate / v) ** 2)}
    drawn = noisy_pairs.draw(*y.T, **noise, releases=of_pairs, draws=draws, rng=rng)
    away = totals.rate * np.sqrt(((drawn - y) ** 2.0).sum(axis=(1, 2)))
    log_w = away**2 / (2 * v**2) - away - totals.log_total(drawn)
    for j, (log_f, inverse) in enumerate(zip(of_pairs.reach, of_pairs.sums, strict=True)):
        log_w += log_f[drawn[:, j, 0]] - np.log(inverse[0, drawn[:, j, 1]])
    return drawn, log_w, away


def summary(drawn, weights=None):
    """Return mean and equal-tailed interval of cases, deaths and their ratio (0 without cases): (counties, 3, 3)."""
    values = np.concatenate([drawn, (drawn[..., 1] / np.maximum(drawn[..., 0], 1))[..., np.newaxis]], axis=2)
    low, high = np.quantile(values, [TAIL, 1 - TAIL], axis=0, method="inverted_cdf", weights=weights)
    return np.stack([np.average(values, axis=0, weights=weights), low, high], axis=2)


def as_true(table):
    """Return estimates with counts treated as true: Jeffreys intervals of rates, in the shape of `summary`."""
    c, d = table.T.astype(float)
    tails = [TAIL, 1 - TAIL]
    parts = [
        [c, *(gamma.ppf(p, c + 0.5) for p in tails)],
        [d, *(gamma.ppf(p, d + 0.5) for p in tails)],
        [d / np.maximum(c, 1), *(beta.ppf(p, d + 0.5, c - d + 0.5) for p in tails)],
    ]
    return np.moveaxis(np.array(parts), -1, 0)
