"""Polytopes of mechanisms and of their representations: vertices by brute force, dimensions, extreme points."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from distributions import distribution

import ppdinf as ppd
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.scales import patterns
from ppdinf.counts.theory import representation
from ppdinf.errors import PrivacyError

LOG2 = math.log(2)


def vertices(M, r):
    """Return the vertices of {b >= 0 : M b = r} by enumeration of all bases."""
    rank = np.linalg.matrix_rank(M)
    found = {}
    for basis in combinations(range(M.shape[1]), rank):
        own = M[:, basis]
        if np.linalg.matrix_rank(own) < rank:
            continue
        b = np.linalg.lstsq(own, r, rcond=None)[0]
        if (b > -1e-9).all() and np.abs(own @ b - r).max() < 1e-9:
            full = np.zeros(M.shape[1])
            full[list(basis)] = b
            found.setdefault(tuple(full.round(7) + 0.0), full)
    return list(found.values())


def extreme_matrices(z=None):
    """Return extreme mechanisms for 3 counts: images of extreme representations that are not mixtures of others."""
    from scipy.optimize import linprog

    M, r = representation(3, LOG2, z)
    every = ppd.counts.scales(3, LOG2)
    images = [(every @ np.reshape(b, (4, 3))).ravel() for b in vertices(M, r)]
    points = np.array(list({tuple(image.round(7) + 0.0): image for image in images}.values()))
    extreme = 0
    for k in range(len(points)):
        others = np.delete(points, k, axis=0)
        mix = linprog(
            np.zeros(len(others)), A_eq=np.vstack([others.T, np.ones(len(others))]), b_eq=np.append(points[k], 1)
        )
        extreme += not mix.success
    return extreme


def test_example_1_with_a_fixed_point():
    third = np.full(3, 1 / 3)
    assert len(vertices(*representation(3, LOG2, third))) == 78
    assert extreme_matrices(third) == 36


def test_example_2_without_a_fixed_point():
    assert len(vertices(*representation(3, LOG2))) == 36
    assert extreme_matrices() == 27


@pytest.mark.parametrize("n", [2, 3, 4])
def test_dimensions(n):
    for z in (None, np.full(n, 1 / n), np.eye(n)[0] * 0.5 + np.eye(n)[-1] * 0.5):
        M, _ = representation(n, 0.7, z)
        used = np.ones(M.shape[1], dtype=bool) if z is None else np.tile(z > 0, M.shape[1] // n)
        fixed = None if z is None else int((z > 0).sum())
        M = M[:, used]
        assert ppd.counts.dimensions(n, fixed) == M.shape[1] - np.linalg.matrix_rank(M)


def of_representation(b, z):
    """Return the mechanism of a vertex from its weights of the four scales of 3 counts in each column."""
    weight = np.reshape(b, (4, 3))
    every = ppd.counts.scales(3, LOG2)
    scale, column = np.nonzero(weight)
    peak = weight[scale, column] * every[:, scale].max(axis=0)
    return CountMechanism.of_scales(
        column, peak, patterns(3)[scale], ppd.counts.heuristic([0.5, 0.5], 1).epsilon, name="", z=z
    )


def test_simplified_is_extreme():
    """Every vertex is simplified, and no mixture of two vertices is (Theorems 4 and 11)."""
    third = np.full(3, 1 / 3)
    for z, simplified in ((third, ppd.counts.affinely_simplified), (None, ppd.counts.linearly_simplified)):
        corners = vertices(*representation(3, LOG2, z))
        for b in corners:
            assert simplified(of_representation(b, z))
        for one, other in pairwise(corners):
            assert not simplified(of_representation(np.add(one, other) / 2, z))


@pytest.mark.parametrize("name", ["binomial", "geometric", "homicides"])
@pytest.mark.parametrize("selector", ["max", "min", "sandwich"])
def test_the_heuristic_is_extreme(name, selector):
    """Theorem 6, proved for each matrix by a rank over a prime field."""
    mechanism = ppd.counts.heuristic(distribution(name, 60), "1/2", selector)
    assert ppd.counts.affinely_simplified(mechanism)
    assert mechanism.audit().scales <= mechanism.audit().most_scales


def test_scales_and_patterns():
    assert ppd.counts.single_peaked(2, 4).tolist() == [True, True, False]
    every = ppd.counts.scales(5, 1)
    assert every.shape == (5, 16)
    assert np.allclose(np.abs(np.diff(np.log(every), axis=0)), 1)
    assert np.allclose(every.sum(axis=0), 1)
    for says, call in (
        ("peak", lambda: ppd.counts.single_peaked(4, 4)),
        ("2\\^\\(n - 1\\)", lambda: ppd.counts.scales(21, 1)),
        ("pattern", lambda: ppd.counts.scale([2, 3], 1)),
        ("must be stored as scales", lambda: ppd.counts.affinely_simplified(ppd.counts.staircase(4, 1))),
        ("must have a fixed point", lambda: ppd.counts.affinely_simplified(ppd.counts.truncated_geometric(4, 1))),
    ):
        with pytest.raises(PrivacyError, match=says):
            call()
