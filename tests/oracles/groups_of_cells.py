"""Cells of natural families under noise, their weights by row, and sums of them by plain convolution."""

import numpy as np
from scipy.special import gammaln, logsumexp

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


def by_convolution(problem, cells):
    """Exact log coefficient of one group's total, and exact means of some of its cells."""
    logw, _, eta, lo, _, total = problem
    k, at = np.arange(logw.shape[1]), total[0] - lo.sum()
    log_z = logsumexp(logw + eta[:, None] * k, axis=1)
    laws, means = np.exp(logw + eta[:, None] * k - log_z[:, None]), []
    for i in cells:
        others = np.pad(convolved(np.delete(laws, i, axis=0)), (0, k.size))
        weight = laws[i] * np.where(at >= k, others[np.maximum(at - k, 0)], 0)
        means.append(lo[i] + weight @ k / weight.sum())
    return log_z.sum() + np.log(convolved(laws)[at]) + eta @ lo, means


def of_several_groups(sizes):
    """Five groups of cells and a free cell; the total of the fourth group is extreme."""
    logw, row, eta, lo, _, _ = block(poisson, l1, 0.5, sum(sizes), 1.0, 9)
    blocks = np.repeat([0, 1, 2, 3, 4, -1], sizes)
    counts = np.rint(np.exp(eta)).astype(np.int64)
    total = np.bincount(blocks[blocks >= 0], weights=counts[blocks >= 0]).astype(np.int64)
    total[3] += 400
    return logw, row, eta, lo, blocks, total
