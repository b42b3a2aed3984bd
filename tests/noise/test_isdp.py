"""The published chain against enumeration and its exact transition matrix, with wrong variants."""

import numba
import numpy as np
import pytest
from grids import box
from lattice_laws import SYSTEMS, enumerate_law, exact_draws, log_masses, p_value

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice import kernel, margin_matrix
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace
from ppdinf.noise.mcmc.isdp import isdp, jump, jumps, metropolis, move

LAWS = [DoubleGeometric("1"), L2Laplace("3/2"), DiscreteGaussian("10/11")]


@numba.njit
def advance(starts, system, n_steps, always, rng):
    """Move every start by `n_steps`; `always` omits the acceptance step."""
    out, e = starts.copy(), np.empty(system.starts.size - 1, np.int64)
    for row in range(len(out)):
        for _ in range(n_steps):
            jump(e, system.rate, rng)
            if always:
                move(out[row], e, 1, system)
            else:
                metropolis(out[row], e, system, rng.random())
    return out


@pytest.mark.quick_cases(9)
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_enumerated_law_is_invariant(system, law):
    A = SYSTEMS[system]
    points, p = enumerate_law(A, law)
    chain = jumps(kernel(A).basis, law, a=np.exp(-1.0))
    end = advance(exact_draws(points, p, 30_000, 1), chain, 10, False, np.random.default_rng(2))
    assert p_value(end, points, p) > 1e-6


@pytest.mark.quick_cases(0)
def test_wrong_variants_are_rejected():
    A, law = SYSTEMS["total"], LAWS[0]
    points, p = enumerate_law(A, law)
    basis, start = kernel(A).basis, exact_draws(points, p, 60_000, 3)

    def p_after(scale="1", always=False, basis=basis):
        system = jumps(basis, DoubleGeometric(scale), a=np.exp(-1.0))
        return p_value(advance(start, system, 60, always, np.random.default_rng(4)), points, p)

    assert p_after() > 1e-6
    assert p_after(scale="1.05") < 1e-6
    assert p_after(always=True) < 1e-6
    zero = np.zeros_like(start)  # a chain on an unsaturated basis stays on its sublattice
    sublattice = advance(zero, jumps(2 * basis, law, a=np.exp(-1.0)), 60, False, np.random.default_rng(4))
    assert p_value(sublattice, points, p) < 1e-6


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_one_step_has_the_transition_probabilities_of_algorithm_1(law):
    """Enumerate the rows of the transition matrix, and check detailed balance up to rounding."""
    A, a = SYSTEMS["total"], np.exp(-1.0)
    basis = kernel(A).basis.toarray()
    jumps_e = box(-30, 30, 2)
    g = ((1 - a) / (1 + a)) ** 2 * a ** np.abs(jumps_e).sum(axis=1)
    states = box(-2, 2, 2) @ basis.T
    q = np.array([np.exp(law.log_mass(z)) for z in states])

    def row(z):
        targets = z + jumps_e @ basis.T
        accept = np.minimum(1, np.exp(log_masses(law, targets) - law.log_mass(z)))
        p = g * accept
        p[np.flatnonzero((jumps_e == 0).all(axis=1))[0]] += 1 - p.sum()
        return targets, p

    start = states[7]
    targets, p = row(start)
    end = advance(np.tile(start, (60_000, 1)), jumps(basis, law, a), 1, False, np.random.default_rng(5))
    assert p_value(end, targets, p) > 1e-6
    chances = np.zeros((len(states), len(states)))
    for i, z in enumerate(states):
        targets, p = row(z)
        for j, t in enumerate(states):
            chances[i, j] = p[(targets == t).all(axis=1)].sum()
    flow = q[:, None] * chances
    assert np.allclose(flow, flow.T, rtol=1e-9, atol=0)


def test_recorded_draws_have_the_law_and_the_margins():
    law = DoubleGeometric(1)
    points, p = enumerate_law(SYSTEMS["2 x 3 margins"], law)
    system = jumps(kernel(SYSTEMS["2 x 3 margins"]).basis, law, a=np.exp(-1.0))
    noise, accepted = isdp(system, 10_000, thin=100, burn=1000, chains=2, rng=6)
    assert p_value(noise.reshape(-1, 6), points, p) > 1e-6
    assert (accepted > 0.2).all()
    assert (accepted < 0.8).all()


def test_draws_do_not_depend_on_the_number_of_threads():
    system = jumps(kernel(margin_matrix((4, 4), [(0,), (1,)])).basis, DoubleGeometric("1/4"), a=np.exp(-1.0))
    one, three = (isdp(system, 50, chains=4, rng=7, threads=threads)[0] for threads in (1, 3))
    assert (one == three).all()
    assert (one[0] != one[1]).any()


def test_invalid_input_raises():
    with pytest.raises(PrivacyError, match="0 < a < 1"):
        jumps(np.array([[1], [-1]]), DoubleGeometric(1), a=1.0)
    with pytest.raises(InvariantError, match="integer"):
        jumps(np.array([[0.5], [-0.5]]), DoubleGeometric(1), a=0.5)
