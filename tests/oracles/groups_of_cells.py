"""Cells of natural families under noise, their weights by row, and sums of them by plain convolution."""

import numpy as np
from scipy.special import gammaln

from ppdinf.fiber.sums_given_totals import totals


def poisson(k):
    return -gammaln(np.maximum(k, 0) + 1.0) + np.where(k >= 0, 0, -np.inf)


def binomial(k, n=60):
    inside = (k >= 0) & (k <= n)
    k = np.clip(k, 0, n)
    return np.where(inside, gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0), -np.inf)


def negative_binomial(k, size=1.5):
    return np.where(k >= 0, gammaln(np.maximum(k, 0) + size) - gammaln(np.maximum(k, 0) + 1.0), -np.inf)


def l1(k, y, epsilon):
    return -epsilon * np.abs(y - k)


def gaussian(k, y, epsilon):
    return -0.5 * ((y - k) * epsilon) ** 2


def rows_of(family, noise, released, epsilon):
    """Windows of counts that noise reaches, and log weights."""
    reach = int((28 if noise is l1 else 8) / epsilon)
    lo = np.maximum(np.asarray(released) - reach, -1)
    counts = lo[:, None] + np.arange(2 * reach + 1)
    return lo, family(counts) + noise(counts, np.asarray(released)[:, None], epsilon)


def cut(logw, most=10**6):
    return totals.pieces_of(logw, np.ones(len(logw), bool), most)


def block(family, noise, epsilon, d, level, seed, off=0.0):
    """Cells around a level, their weights by row, and a total that lies `off` sd of a Poisson total away."""
    rng = np.random.default_rng(seed)
    eta = rng.normal(level, 0.7, d)
    rate = np.exp(eta) if family is not binomial else 60 / (1 + np.exp(-eta))
    counts = rng.poisson(rate)
    released = counts + np.rint(rng.laplace(0, 1 / epsilon, d) if noise is l1 else rng.normal(0, 1 / epsilon, d))
    lo, logw = rows_of(family, noise, released.astype(int), epsilon)
    total = counts.sum() + round(off * np.sqrt(counts.sum()))
    return logw, np.arange(d), eta + rng.normal(0, 0.1, d), lo, np.zeros(d, np.int64), np.array([total])


def evaluated(logw, row, eta, lo, blocks, total, pieces=totals.NO_PIECES, grids=totals.NO_GRIDS, nodes=totals.NO_NODES):
    value, means = np.zeros(total.size + 1), np.zeros((eta.size, 1))
    totals.evaluate(
        logw, eta, totals.upper_envelope(logw), row, lo, blocks, total, pieces, grids, nodes, True, value, means
    )
    return value, means[:, 0]


def convolved(laws):
    out = np.ones(1)
    for law in laws:
        out = np.convolve(out, law)
    return out
