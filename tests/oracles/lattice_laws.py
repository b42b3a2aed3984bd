"""Noise laws on small lattices by enumeration, their total weights, and the test that compares draws with them."""

from fractions import Fraction
from functools import cache, reduce

import numpy as np
from chi_square import p_value_of_tables
from grids import box

from ppdinf.lattice import kernel
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace, Staircase

FAR = np.arange(-400, 401)


def log_total(log_weight, cells, kept=True):
    """Log of the total weight of the noise of several cells, with the sum 0 if `kept`; for weights or a rate."""
    weights = np.exp(log_weight(FAR) if callable(log_weight) else -log_weight * abs(FAR))
    if not kept:
        return cells * np.log(weights.sum())
    sums = reduce(np.convolve, [weights] * cells)
    return np.log(sums[sums.size // 2])


KINDS = {"l1": DoubleGeometric, "l2": L2Laplace, "gaussian": DiscreteGaussian}

SYSTEMS = {
    "total": [[1, 1, 1]],
    "weights": [[2, 3, 5]],
    "two rows": [[1, 1, 1, 0], [0, 1, 2, 1]],
    "ties": [[1, -1, 0, 2], [0, 0, 1, 1]],
    "2 x 3 margins": [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0]],
    "free cell": [[1, 1, 0]],
}


def two_way(rows, columns):
    eye_r, eye_c = np.eye(rows, dtype=int), np.eye(columns, dtype=int)
    return np.vstack([np.kron(eye_r, np.ones(columns, int)), np.kron(np.ones(rows, int), eye_c)])


MARGINS = [
    ((3, 4), [(0,), (1,)]), ((2, 2), [(0,), (1,)]), ((4, 4), [(0,), (1,), ()]), ((3, 3, 3), [(0, 1), (0, 2), (1, 2)]),
    ((2, 3, 4), [(0,), (1,), (2,)]), ((3, 4, 5), [(0, 1), (2,)]), ((3, 4, 2), [(0,), (1,)]),
    ((3, 4, 5, 2), [(0, 1), (1, 2), (2, 3)]),
    ((2, 4, 3, 2), [(0, 1), (1, 2), (2, 3), (3, 0)]),
]  # fmt: skip


def grouped_columns():
    """Return four rows of seven cells: row sums, and sums of columns in groups of 2, 3 and 2."""
    groups = np.zeros((3, 7), dtype=int)
    groups[0, :2] = groups[1, 2:5] = groups[2, 5:] = 1
    return np.vstack([np.kron(np.eye(4, dtype=int), np.ones((1, 7), int)), np.kron(np.ones((1, 4), int), groups)])


def columns_within_states():
    """Return sums of five counties in two states and three ages: counties, ages by state, and the nation."""
    states = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]])
    counties = np.kron(np.eye(5, dtype=int), np.ones((1, 3), int))
    return np.vstack([counties, np.kron(states, np.eye(3, dtype=int)), np.ones((1, 15), int)])


def random_system(rng, largest_rank=3):
    """Small weights or 0/1 sums, equal columns now and then, and a lattice of rank 1 to `largest_rank`."""
    while True:
        k, d = int(rng.integers(1, 4)), int(rng.integers(2, 7))
        A = rng.integers(0, 2, size=(k, d)) if rng.random() < 0.5 else rng.integers(-2, 4, size=(k, d))
        if rng.random() < 0.4:
            A[:, rng.integers(d)] = A[:, rng.integers(d)]
        if 1 <= kernel(A).rank <= largest_rank:
            return A


def enumerate_law(A, law, *, reach=14, lower=None):
    """Points of {A z = 0} with coordinates up to `reach` in a reduced basis, and their probabilities."""
    basis = kernel(A).basis.toarray()
    points = box(-reach, reach, basis.shape[1]) @ basis.T
    if lower is not None:
        points = points[(points >= lower).all(axis=1)]
    p = np.exp(log_masses(law, points))
    return points, p / p.sum()


def log_masses(law, points):
    absolute, squares = np.abs(points).sum(axis=1), (points**2).sum(axis=1)
    if isinstance(law, Staircase):
        return law.log_weight(points).sum(axis=1)
    if isinstance(law, DiscreteGaussian):
        return -squares / (2 * float(law.sigma) ** 2)
    return -float(law.epsilon) * {DoubleGeometric: absolute, L2Laplace: np.sqrt(squares)}[type(law)]


def scaled(law, factor):
    """The same law of a scale that many times as large."""
    return type(law)(getattr(law, "sigma" if isinstance(law, DiscreteGaussian) else "epsilon") * Fraction(factor))


def exact_draws(points, p, size, seed):
    return points[np.random.default_rng(seed).choice(len(points), size=size, p=p)]


def listed(z, weights):
    """Probabilities by vector, of those that 10^10 draws could show."""
    p = weights / weights.sum()
    return dict(zip(map(tuple, z[p > 1e-10].tolist()), p[p > 1e-10].tolist(), strict=True))


def law_of(A, law, reach=None):
    """Law of z on {A z = 0} as a dictionary; the omitted points have a mass below 1e-6."""
    basis = kernel(A).basis.toarray()
    reach = reach or {0: 0, 1: 400, 2: 60, 3: 20, 4: 8}[basis.shape[1]]
    x = box(-reach, reach, basis.shape[1])
    z = x @ basis.T
    weights = np.exp(log_masses(law, z))
    assert reach == 0 or weights[(np.abs(x) == reach).any(1)].sum() < 1e-6 * weights.sum()
    return listed(z, weights)


def enumerated(A, kind, scale, reach=None):
    """Law of z on {A z = 0} as a dictionary; the scale is epsilon or sigma."""
    return law_of(A, KINDS[kind](scale), reach)


@cache
def margins_law(scale, kind="gaussian", reach=6):
    """Law on the margins of a 3 x 3 table, from its four free cells."""
    w = box(-reach, reach, 4).reshape(-1, 2, 2)
    z = np.zeros((len(w), 3, 3), dtype=int)
    z[:, :2, :2] = w
    z[:, :2, 2] = -w.sum(2)
    z[:, 2] = -z[:, :2].sum(1)
    z = z.reshape(-1, 9)
    return listed(z, np.exp(log_masses(KINDS[kind](scale), z)))


def p_value(draws, points, p):
    """p-value of draws of a law that is enumerated on a part of the lattice; rare points and others are pooled."""
    return p_value_of_tables(draws, points, p, least=20, complete=False)


def fit(draws, truth):
    """p-value of draws (rows) of a law by vector."""
    return p_value(draws, list(truth), list(truth.values()))


def total_variation(draws, truth):
    """Distance of draws from a law, and what sampling alone would give on average (bounded above)."""
    counts = {}
    for z in map(tuple, draws.tolist()):
        counts[z] = counts.get(z, 0) + 1
    keys = set(counts) | set(truth)
    distance = sum(abs(counts.get(z, 0) / len(draws) - truth.get(z, 0.0)) for z in keys) / 2
    return distance, sum((p / len(draws)) ** 0.5 for p in truth.values()) / 2
