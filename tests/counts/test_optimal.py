"""The optimum against a general solver, and its ratios against their bounds."""

import math

import numpy as np
import pytest
from distributions import NAMES, distribution
from scipy import sparse
from scipy.optimize import linprog

import ppdinf as ppd
from ppdinf.counts.optimal import ColumnSystems, adjoint, slacks
from ppdinf.errors import PrivacyError


def smallest_error(z, epsilon, power=1, *, cost=None, fixed=True, method="highs"):
    """Return the smallest error by SciPy's linear programme over all entries."""
    n, up = z.size, math.exp(epsilon)
    steps = sparse.diags_array([np.full(n, -1.0), np.full(n - 1, up)], offsets=[0, 1], shape=(n - 1, n))
    back = sparse.diags_array([np.full(n, up), np.full(n - 1, -1.0)], offsets=[0, 1], shape=(n - 1, n))
    private = -sparse.kron(sparse.vstack([steps, back]), sparse.eye_array(n))
    rows = sparse.kron(sparse.eye_array(n), np.ones((1, n)))
    keeps = sparse.kron(z[np.newaxis], sparse.eye_array(n))
    equal, values = (sparse.vstack([rows, keeps]), np.append(np.ones(n), z)) if fixed else (rows, np.ones(n))
    if cost is None:
        cost = z[:, np.newaxis] * np.abs(np.arange(n)[:, np.newaxis] - np.arange(n)) ** power
    found = linprog(cost.ravel(), private, np.zeros(private.shape[0]), equal, values, method=method)
    assert found.success
    return found.fun


@pytest.mark.parametrize("name", NAMES[:4])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.5])
def test_smallest_error(name, epsilon):
    z = distribution(name, 21)
    best = ppd.counts.optimal(z, epsilon)
    assert best.count_error() == pytest.approx(smallest_error(z, epsilon), rel=2e-6)
    audit = best.audit()
    assert audit.row_error < 1e-11
    assert audit.fixed_point_error < 1e-12
    assert audit.epsilon <= epsilon * (1 + 1e-15)


def test_smallest_error_of_41_counts():
    z = distribution("binomial", 41)
    assert ppd.counts.optimal(z, 0.5).count_error() == pytest.approx(smallest_error(z, 0.5), rel=1e-6)


def test_other_weights():
    """Arbitrary weights are allowed. (A different price for too large counts has no effect: sums are fixed.)"""
    z = distribution("geometric", 12)
    cost = np.random.default_rng(1).random((12, 12))
    best = ppd.counts.optimal(z, 1, weights=cost)
    assert (best.matrix * cost).sum() == pytest.approx(smallest_error(z, 1, cost=cost), rel=2e-6)
    assert (best.matrix * cost).sum() < 0.999 * (ppd.counts.optimal(z, 1).matrix * cost).sum()  # the weights matter


@pytest.mark.parametrize("name", NAMES)
def test_no_worse_than_the_heuristic(name):
    z = distribution(name, 81)
    quick = ppd.counts.heuristic(z, 1, "best").count_error()
    assert ppd.counts.optimal(z, 1).count_error() <= quick * (1 + 1e-6) + 1e-9


def test_counts_of_probability_0_are_never_released():
    best = ppd.counts.optimal([0.5, 0, 0.5], 1)
    assert best.matrix[:, 1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("spread", [1, 1e4, 1e8])
def test_systems_against_dense_algebra(spread):
    """For multipliers of any spread: residuals of all three equations, and the dense solution in balls."""
    rng = np.random.default_rng(1)
    m, n, E = 5, 7, 2.0
    u, v = spread ** rng.uniform(-1, 1, (2, m, n - 1))
    z = rng.dirichlet(np.ones(n))
    rhs, rows, fixed = rng.normal(size=(m, n)), rng.normal(size=n), rng.normal(size=m)
    fixed += (z @ rows - fixed.sum()) / m  # otherwise the equations have no solution
    dt, dlam, dmu = ColumnSystems(u, v, z, E).solve(rhs, rows, fixed)
    assert np.abs(dt.sum(axis=0) - rows).max() < 1e-12 * np.abs(dt).max()
    assert np.abs(dt @ z - fixed).max() < 1e-12 * np.abs(dt).max()
    a, b = slacks(dt, E)
    left = adjoint(u * a, v * b, E) - dlam - np.outer(dmu, z) - rhs
    assert np.abs(left).max() < 1e-9 * np.abs(u * a).max()


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_probabilities_near_the_rounding_of_1(epsilon):
    """The optimum is found or a RoundingError is raised; linear algebra never fails."""
    for z in ([1 - 1.15e-12, 1.15e-12, 0, 0], [0, 1e-10, 0, 1 - 1e-10], [1e-13, 0.5, 0.5 - 1e-13]):
        try:
            found = ppd.counts.optimal(z, epsilon)
        except ArithmeticError as error:
            outcome = str(error)
        else:
            best = ppd.counts.heuristic(z, epsilon, "best").count_error()
            outcome = "above the optimum" if found.count_error() <= best + 1e-9 else "worse"
        assert "above the optimum" in outcome


def test_refusals():
    with pytest.raises(PrivacyError, match="a matrix of shape"):
        ppd.counts.optimal([0.5, 0.5], 1, weights=np.ones(3))


def test_unfixed_has_the_smallest_error_of_all():
    for name in NAMES[:4]:
        z = distribution(name, 15)
        for epsilon in (0.2, 1):
            found = ppd.counts.unfixed(z, epsilon)
            assert found.count_error(z) == pytest.approx(smallest_error(z, epsilon, fixed=False), rel=1e-9)
            assert found.audit().epsilon <= epsilon
            squares = ppd.counts.unfixed(z, epsilon, power=2)
            assert squares.count_error(z, power=2) == pytest.approx(
                smallest_error(z, epsilon, 2, fixed=False), rel=1e-9
            )


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_baselines_satisfy_their_guarantee(epsilon):
    for found in (ppd.counts.truncated_geometric(40, epsilon), ppd.counts.staircase(40, epsilon)):
        audit = found.audit()
        assert audit.row_error < 1e-12
        assert audit.epsilon <= epsilon * (1 + 1e-12)
    gaussian = ppd.counts.discrete_gaussian(40, epsilon, "1/3000").audit()
    assert gaussian.row_error < 1e-12
    assert gaussian.delta <= 1 / 3000
    assert gaussian.delta > 0.2 / 3000  # not much wider than necessary
