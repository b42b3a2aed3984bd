"""Noise laws by enumeration on small lattices, and the comparison of draws with them."""

from fractions import Fraction

import numpy as np
from grids import box
from scipy import stats

from ppdinf.lattice import kernel
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace

KINDS = {"l1": DoubleGeometric, "l2": L2Laplace, "gaussian": DiscreteGaussian}

SYSTEMS = {
    "total": [[1, 1, 1]],
    "weights": [[2, 3, 5]],
    "two rows": [[1, 1, 1, 0], [0, 1, 2, 1]],
    "ties": [[1, -1, 0, 2], [0, 0, 1, 1]],
    "2 x 3 margins": [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0]],
    "free cell": [[1, 1, 0]],
}


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
    if isinstance(law, DiscreteGaussian):
        return -squares / (2 * float(law.sigma) ** 2)
    return -float(law.epsilon) * {DoubleGeometric: absolute, L2Laplace: np.sqrt(squares)}[type(law)]


def scaled(law, factor):
    """The same law of a scale that many times as large."""
    return type(law)(getattr(law, "sigma" if isinstance(law, DiscreteGaussian) else "epsilon") * Fraction(factor))


def p_value(draws, points, p):
    """Chi-square p-value of independent draws; points expected fewer than 20 times, and others, are pooled."""
    place = {tuple(point): k for k, point in enumerate(points.tolist())}
    counts = np.zeros(len(points) + 1)
    for draw in map(tuple, draws.tolist()):
        counts[place.get(draw, -1)] += 1
    expected = np.append(p, 0.0) * len(draws)
    common = expected >= 20
    rest = max(expected[~common].sum(), 1e-9)
    statistic = ((counts - expected)[common] ** 2 / expected[common]).sum() + (counts[~common].sum() - rest) ** 2 / rest
    return stats.chi2.sf(statistic, common.sum())


def exact_draws(points, p, size, seed):
    return points[np.random.default_rng(seed).choice(len(points), size=size, p=p)]
