"""The published independence sampler against enumeration; the misprinted ratio must be rejected."""

import numba
import numpy as np
import pytest
from lattice_laws import SYSTEMS, enumerate_law, p_value

from ppdinf.errors import InvariantError
from ppdinf.laws import DiscreteGaussian, DoubleGeometric
from ppdinf.noise.mcmc.annealed import draw_candidate, independence, log_importance, proposal


@numba.njit
def with_ratio(prepared, draws, thin, rng, printed, scale):
    """Run the chain with the printed ratio (q of all cells of the current state) or with a wrong scale."""
    d = prepared.free.size + prepared.solved.size
    out, z, candidate = np.empty((draws, d), np.int64), np.zeros(d, np.int64), np.zeros(d, np.int64)
    for iteration in range(draws * thin):
        if draw_candidate(candidate, prepared, rng):
            ratio = scale * (log_importance(candidate, prepared) - log_importance(z, prepared))
            if printed:
                for i in prepared.solved:
                    ratio -= prepared.rate * abs(z[i])
            if np.log(rng.random()) <= ratio:
                z[:] = candidate
        if iteration % thin == thin - 1:
            out[iteration // thin] = z
    return out


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("law", [DoubleGeometric(1), DiscreteGaussian("10/11")], ids=str)
@pytest.mark.parametrize("draws", [2_500, pytest.param(10_000, marks=pytest.mark.deep)])
def test_draws_have_the_enumerated_law(system, law, draws):
    points, p = enumerate_law(SYSTEMS[system], law)
    noise, _ = independence(proposal(SYSTEMS[system], law, 0.9), draws, thin=150, chains=2, burn=500, rng=1)
    assert p_value(noise.reshape(-1, points.shape[1]), points, p) > 1e-6


def test_inequalities_truncate_the_law():
    A, law, table = [[1, 1, 1, 1], [0, 0, 1, 1]], DoubleGeometric("1/2"), np.array([2, 0, 1, 5])
    B = np.vstack([np.eye(4, dtype=int), [[1, 0, 1, 0]]])
    limits = np.append(-table, -2)
    points, p = enumerate_law(A, law, lower=-table)
    allowed = points[:, 0] + points[:, 2] >= -2
    points, p = points[allowed], p[allowed] / p[allowed].sum()
    noise, _ = independence(proposal(A, law, 0.5, B=B, limits=limits), 10_000, thin=100, chains=2, burn=500, rng=2)
    assert p_value(noise.reshape(-1, 4), points, p) > 1e-6


@pytest.mark.deep
def test_the_printed_ratio_and_a_wrong_scale_are_rejected():
    A, law = SYSTEMS["total"], DoubleGeometric(1)
    points, p = enumerate_law(A, law)
    prepared = proposal(A, law, 0.5)
    draw = lambda printed, scale: with_ratio(prepared, 40_000, 60, np.random.default_rng(3), printed, scale)  # noqa: E731
    assert p_value(draw(False, 1.0), points, p) > 1e-6
    assert p_value(draw(True, 1.0), points, p) < 1e-6
    assert p_value(draw(False, 1.05), points, p) < 1e-6


def test_index_set_and_exact_solutions():
    prepared = proposal([[2, 3, 5]], DoubleGeometric(1), 1, free=[0, 1])
    assert prepared.free.tolist() == [0, 1]
    assert prepared.solved.tolist() == [2]
    assert prepared.factors.tolist() == [[-2, -3]]
    assert prepared.divisor == 5


def test_acceptance_on_a_table_like_that_of_the_paper():
    """Table of 2 x 23 ages by sex with totals by sex and voting age, non-negative: the paper accepts 1.68 %."""
    A = np.zeros((3, 46), dtype=int)
    A[0], A[1, :23], A[2, 4:23], A[2, 27:] = 1, 1, 1, 1
    table = np.random.default_rng(4).poisson(5.5, 46)
    free = np.setdiff1d(np.arange(46), [0, 22, 45])
    prepared = proposal(A, DoubleGeometric("1/2"), "0.6", free=free, B=np.eye(46, dtype=int), limits=-table)
    noise, accepted = independence(prepared, 20_000, rng=5)
    assert 0.003 < accepted[0] < 0.06
    assert not (noise[0] @ A.T).any()
    assert (noise[0] + table >= 0).all()


def test_draws_do_not_depend_on_the_number_of_threads():
    prepared = proposal(SYSTEMS["total"], DoubleGeometric(1), 1)
    one, three = (independence(prepared, 50, chains=4, rng=6, threads=threads)[0] for threads in (1, 3))
    assert (one == three).all()
    assert (one[0] != one[1]).any()


def test_invalid_input_raises():
    law = DoubleGeometric(1)
    with pytest.raises(InvariantError, match="do not determine the other cells"):
        proposal([[1, 1, 1]], law, 1, free=[0])
    with pytest.raises(InvariantError, match="do not determine the other cells"):
        proposal([[1, 1, 0]], law, 1, free=[0, 1])
    with pytest.raises(InvariantError, match="found 7"):
        proposal([[1, 1, 1]], law, 1, free=[0, 7])
    with pytest.raises(InvariantError, match=r"limits\[0\] is positive"):
        proposal([[1, 1, 1]], law, 1, B=[[1, 0, 0]], limits=[1])
    with pytest.raises(InvariantError, match="2 limits"):
        proposal([[1, 1, 1]], law, 1, B=[[1, 0, 0]], limits=[0, 0])
