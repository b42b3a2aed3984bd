"""Decision diagrams against lists of all solutions, with weights of any size."""

import itertools

import numpy as np
import pytest
from chi_square import p_value_of_tables
from scipy import sparse

from ppdinf.lattice.decision_diagram import decision_diagram

RARE = 1e-6  # 60 tests: false alarm rate 1 in 17,000 runs


def problem(seed):
    """Return rows of small integers, supports with holes, and all solutions."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 4)), int(rng.integers(1, 7))
    M = rng.integers(-1, 3, (k, n)) * (rng.random((k, n)) < 0.7)
    supports = [np.sort(rng.choice(np.arange(-3, 6), int(rng.integers(1, 6)), replace=False)) for _ in range(n)]
    v = np.array([rng.choice(own) for own in supports])
    c = M @ v
    every = np.array(list(itertools.product(*supports)))
    return rng, M, c, supports, every[(every @ M.T == c).all(axis=1)]


def weights_of(solutions, supports, log_weights):
    begins = np.concatenate([[0], np.cumsum([own.size for own in supports])[:-1]])
    at = [begins[j] + np.searchsorted(supports[j], solutions[:, j]) for j in range(len(supports))]
    return np.array([log_weights[places] for places in at])


@pytest.mark.quick_cases(34)
@pytest.mark.parametrize("scale", [0.0, 1.0, 3.0, 300.0, 5000.0])
@pytest.mark.parametrize("seed", range(12))
def test_draws_have_the_law_of_the_weights(seed, scale):
    rng, M, c, supports, solutions = problem(seed)
    diagram = decision_diagram(sparse.csc_array(M), c, supports)
    log_weights = scale * rng.standard_normal(sum(own.size for own in supports))
    log_law = weights_of(solutions, supports, log_weights).sum(axis=0)
    law = np.exp(log_law - log_law.max())
    law /= law.sum()
    drawn = np.array([diagram.draw(log_weights, rng) for _ in range(1500)])
    assert p_value_of_tables(drawn, solutions, law) > RARE


@pytest.mark.parametrize("seed", range(30))
def test_values_that_occur_and_the_cheapest_solution(seed):
    rng, M, c, supports, solutions = problem(seed)
    diagram = decision_diagram(sparse.csc_array(M), c, supports)
    occur = [np.isin(own, solutions[:, j]) for j, own in enumerate(supports)]
    assert diagram.used.tolist() == np.concatenate(occur).tolist()
    cost = rng.random(diagram.values.size)
    best = diagram.nearest(cost)
    costs = weights_of(solutions, supports, cost).sum(axis=0)
    assert weights_of(best[None], supports, cost).sum() == pytest.approx(costs.min())


def test_problems_without_draws():
    die = np.array([1, 3, 5])
    odd = decision_diagram(sparse.csc_array(np.ones((1, 2), dtype=int)), np.array([5]), [die, die])
    rng = np.random.default_rng(1)
    assert odd.edges == 0
    assert odd.draw(np.zeros(6), rng) is None
    assert odd.nearest(np.zeros(6)) is None
    even = decision_diagram(sparse.csc_array(np.ones((1, 2), dtype=int)), np.array([4]), [die, die])
    assert even.draw(np.array([-np.inf, 0, 0, -np.inf, 0, 0]), rng) is None
    many = [np.arange(1000)] * 3
    assert decision_diagram(sparse.csc_array(np.ones((1, 3), dtype=int)), np.array([900]), many, largest=10_000) is None


def test_sums_of_thirty_rows_do_not_overflow():
    """Thirty open sums with 40 values each; few combinations occur."""
    M = np.vstack([np.eye(30, dtype=int), np.ones((1, 30), dtype=int)])
    M = np.hstack([M, np.vstack([np.eye(30, dtype=int), np.zeros((1, 30), dtype=int)])])
    supports = [np.array([0, 40])] * 30 + [np.arange(41)] * 30
    c = np.append(np.full(30, 40), 40)
    diagram = decision_diagram(sparse.csc_array(M), c, supports)
    x = diagram.draw(np.zeros(diagram.values.size), np.random.default_rng(1))
    assert (M @ x == c).all()


def test_variables_under_no_equation():
    none = sparse.csc_array((0, 2), dtype=np.int64)
    diagram = decision_diagram(none, np.zeros(0, dtype=np.int64), [np.array([0, 2]), np.array([1, 4])])
    found = {tuple(diagram.draw(np.zeros(4), np.random.default_rng(seed)).tolist()) for seed in range(60)}
    assert found == {(0, 1), (0, 4), (2, 1), (2, 4)}
