"""K-norm noise under public sums: its density, an audit over all neighbours, wrong radii and wrong bodies."""

import math

import numpy as np
import pytest
from dense_moves import bound, dense_moves
from scipy import stats

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import Public, cells, groups, linear, margin, total
from ppdinf.mechanisms import KNorm, Mechanism
from ppdinf.mechanisms.real import k_norm as module
from ppdinf.noise.primitives.stream import seeded_stream

QUERY = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 2, 0]])
CASES = {
    "total": (total(), np.array([5, 2, 0, 7, 1]), None),
    "margins": (margin("dim_0") & margin("dim_1"), np.arange(9).reshape(3, 3), None),
    "queries": (cells({"answer": 0}), np.array([3, 1, 4, 1]), QUERY),
    "nothing": (Public(), np.array([1, 2, 3]), None),
    "weights": (linear([[2, 3, 5]]), np.array([1, 2, 3]), None),
}


@pytest.mark.parametrize(("public", "table", "query"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("neighbours", ["replaced", "added"])
def test_the_density_satisfies_the_guarantee_between_all_neighbours(public, table, query, neighbours):
    mechanism = KNorm(public, "1/2", query=query, neighbours=neighbours)
    system = bound(public, table, query)
    law = mechanism.law(system)
    moves = dense_moves(system, query, neighbours).T
    worst = 0.0
    for z in law.draw(100, seeded_stream(2)):
        here = law.log_density(z)
        worst = max([worst, *(abs(law.log_density(z + move) - here) for move in moves if np.any(np.abs(move) > 1e-9))])
    assert worst <= 0.5 + 1e-9
    assert worst > 0.49  # K is not a bit larger than the moves


@pytest.mark.parametrize(("public", "table", "query"), CASES.values(), ids=CASES)
def test_draws_have_the_stated_density(public, table, query):
    """The norm of k-dimensional noise with density exp(-epsilon |z|_K) is Gamma(k, 1 / epsilon)."""
    mechanism = KNorm(public, 2, query=query)
    system = bound(public, table, query)
    law = mechanism.law(system)
    noise = mechanism.draw_noise(system, 5000, seeded_stream(3))
    k = np.linalg.matrix_rank(dense_moves(system, query, "replaced"), tol=1e-9)
    sizes = np.array([-law.log_density(z) for z in noise])
    assert stats.kstest(sizes, stats.gamma(k).cdf).pvalue > 1e-6
    assert stats.kstest(sizes, stats.gamma(k + 1).cdf).pvalue < 1e-6
    assert stats.kstest(1.1 * sizes, stats.gamma(k).cdf).pvalue < 1e-6
    assert np.abs(system.A @ noise.T).max(initial=0) < 1e-9
    assert np.abs(noise.mean(axis=0)).max() < 6 * noise.std() / math.sqrt(5000) + 1e-12


def test_cells_under_one_total_get_conditioned_laplace_noise():
    """|z|_K is half the l1 norm: the hull of all e_i - e_j is the l1 ball of radius 2 among z that sum to zero."""
    law = KNorm(total(), 1).law(total().on(np.zeros(6, dtype=int)))
    for z in np.random.default_rng(1).normal(size=(20, 6)):
        z -= z.mean()
        assert law.log_density(z) == pytest.approx(-np.abs(z).sum() / 2, rel=1e-9)


def test_the_body_of_columns_is_too_small_for_replaced_records():
    """One column of Q' is the change by an added record; the difference of two columns is up to twice as long."""
    table = np.zeros(4, dtype=int)
    wrong = KNorm(total(), 1, neighbours="added").law(total().on(table))
    move = np.array([1.0, -1, 0, 0])
    assert abs(wrong.log_density(move)) > 1 + 1e-6


@pytest.mark.deep
def test_a_chain_is_used_where_faces_are_too_many(monkeypatch):
    """With faces enumerated up to two dimensions only, the chain's law agrees with the exact law."""
    table = np.ones(5, dtype=int)
    exact = KNorm(total(), 1, neighbours="added").simulate(table, draws=4000, rng=1) - table
    monkeypatch.setattr(module, "EXACT", 2)
    monkeypatch.setattr(module, "PAIRS", 12)
    module._chain.cache_clear()
    mechanism = KNorm(total(), 1, neighbours="added")
    with pytest.raises(PrivacyError, match=r"needs a hit-and-run chain.*allow_mcmc=True"):
        mechanism.simulate(table, draws=1, rng=1)
    plan = mechanism.sampler_plan(table, allow_mcmc=True)
    assert not plan.exact
    assert 0 < plan.distance < 0.5
    promise = mechanism.guarantee_on(total().on(table), plan)
    assert promise.sampler_distance == plan.distance
    assert "Markov chain" in promise.describe()
    noise = mechanism.simulate(table, draws=60, rng=1, allow_mcmc=True) - table
    assert np.abs(noise.sum("dim_0")).max() < 1e-9
    assert stats.ks_2samp(noise.values.ravel(), exact.values.ravel()).pvalue > 1e-6
    away = float(np.abs(noise[0] - np.median(noise[0])).sum())
    assert mechanism.logp(table + noise[0].values, table) == pytest.approx(-away, rel=1e-6)
    assert mechanism.logp(table.astype(float), table) == 0
    monkeypatch.setattr(module, "LIMIT", 2)
    module._chain.cache_clear()
    with pytest.raises(PrivacyError, match="no chain converges fast enough for K-norm noise in 4 dimensions"):
        mechanism.sampler_plan(table, allow_mcmc=True)
    module._chain.cache_clear()


def test_constant_cells_get_no_noise():
    assert np.array_equal(KNorm(total(), 1).simulate([7], draws=2, rng=1), [[7], [7]])
    table = np.array([3, 1, 5, 4])
    public = total() & cells({"dim_0": 0})
    assert np.array_equal(KNorm(public, 1).simulate(table, draws=3, rng=1)[:, 0], [3, 3, 3])


def test_it_survives_its_description():
    mechanism = KNorm(groups("g"), "0.25", query=QUERY, neighbours="added")
    assert Mechanism.from_dict(mechanism.to_dict(), groups("g")) == mechanism
    assert mechanism.guarantee.delta == 0


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        (("total", 1), {}),
        ((total(), 0), {}),
        ((total(), math.inf), {}),
        ((total(), 1), {"neighbours": "both"}),
        ((total(), 1), {"query": [[-1]]}),
    ],
)
def test_refuses_malformed_parameters(arguments, keywords):
    with pytest.raises((InvariantError, PrivacyError)):
        KNorm(*arguments, **keywords)
