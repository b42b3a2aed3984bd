"""Noise laws on small random lattices by enumeration, and the test that compares draws with them."""

from functools import cache

import numpy as np
from grids import box
from scipy import stats

from ppdinf.lattice import kernel


def two_way(rows, columns):
    eye_r, eye_c = np.eye(rows, dtype=int), np.eye(columns, dtype=int)
    return np.vstack([np.kron(eye_r, np.ones(columns, int)), np.kron(np.ones(rows, int), eye_c)])


def random_system(rng, largest_rank=3):
    """Small weights or 0/1 sums, equal columns now and then, and a lattice of rank 1 to `largest_rank`."""
    while True:
        k, d = int(rng.integers(1, 4)), int(rng.integers(2, 7))
        A = rng.integers(0, 2, size=(k, d)) if rng.random() < 0.5 else rng.integers(-2, 4, size=(k, d))
        if rng.random() < 0.4:
            A[:, rng.integers(d)] = A[:, rng.integers(d)]
        if 1 <= kernel(A).rank <= largest_rank:
            return A


def norms(kind, z):
    return {"l1": np.abs(z).sum(1), "l2": np.sqrt((z * z).sum(1)), "gaussian": (z * z).sum(1) / 2}[kind]


def listed(z, weights):
    """Probabilities by vector, of those that 10^10 draws could show."""
    p = weights / weights.sum()
    return dict(zip(map(tuple, z[p > 1e-10].tolist()), p[p > 1e-10].tolist(), strict=True))


def enumerated(A, kind, scale, reach=None):
    """Law of z on {A z = 0} as a dictionary; the scale is epsilon or sigma."""
    basis = kernel(A).basis.toarray()
    m = basis.shape[1]
    reach = reach or {1: 400, 2: 60, 3: 20}[m]
    x = box(-reach, reach, m)
    z = x @ basis.T
    factor = 1 / float(scale) ** 2 if kind == "gaussian" else float(scale)
    weights = np.exp(-factor * norms(kind, z))
    edge = (np.abs(x) == reach).any(1)
    assert weights[edge].sum() < 1e-6 * weights.sum()
    return listed(z, weights)


@cache
def margins_law(scale, kind="gaussian", reach=6):
    """Law on the margins of a 3 x 3 table, from its four free cells."""
    w = box(-reach, reach, 4).reshape(-1, 2, 2)
    z = np.zeros((len(w), 3, 3), dtype=int)
    z[:, :2, :2] = w
    z[:, :2, 2] = -w.sum(2)
    z[:, 2] = -z[:, :2].sum(1)
    z = z.reshape(-1, 9)
    weights = np.exp(-norms(kind, z) * (1 / scale**2 if kind == "gaussian" else scale))
    return listed(z, weights)


def fit(draws, truth):
    """p-value of draws (rows) against a law on tuples, rare outcomes pooled."""
    counts = {}
    for z in map(tuple, draws.tolist()):
        counts[z] = counts.get(z, 0) + 1
    common = [z for z, p in truth.items() if p * len(draws) > 20]
    observed = [counts.get(z, 0) for z in common]
    expected = [truth[z] * len(draws) for z in common]
    if (rest := len(draws) - sum(expected)) > 1:
        observed.append(len(draws) - sum(observed))
        expected.append(rest)
    if len(expected) < 2:
        return stats.binomtest(observed[0], len(draws), min(1.0, expected[0] / len(draws))).pvalue
    return stats.chisquare(observed, np.array(expected) * (sum(observed) / sum(expected))).pvalue


def total_variation(draws, truth):
    """Distance of draws from a law, and what sampling alone would give on average (bounded above)."""
    counts = {}
    for z in map(tuple, draws.tolist()):
        counts[z] = counts.get(z, 0) + 1
    keys = set(counts) | set(truth)
    distance = sum(abs(counts.get(z, 0) / len(draws) - truth.get(z, 0.0)) for z in keys) / 2
    return distance, sum((p / len(draws)) ** 0.5 for p in truth.values()) / 2
