"""Annealed independence against enumeration; wrong variants omit or reduce the weights."""

import numba
import numpy as np
import pytest
from lattice_laws import SYSTEMS, enumerate_law, p_value

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice import margin_matrix
from ppdinf.laws import DoubleGeometric, L2Laplace
from ppdinf.noise.mcmc.annealed import anneal, annealed, annealing, own_rates
from ppdinf.noise.mcmc.coupled_noise import annealed_meeting
from ppdinf.noise.mcmc.lattice_gibbs_noise import move_space
from ppdinf.noise.mcmc.tv_bound import tv_bound

LAW = DoubleGeometric(1)


@numba.njit
def with_weights(system, draws, thin, power, rng):
    """Run the chain with its weights raised to a power; 0 ignores them."""
    room, d = move_space(system.moves), system.moves.d
    out, z, candidate = np.empty((draws, d), np.int64), np.zeros(d, np.int64), np.zeros(d, np.int64)
    log_weight = anneal(z, system, room, rng)
    for iteration in range(draws * thin):
        offered = anneal(candidate, system, room, rng)
        if np.log(rng.random()) <= power * (offered - log_weight):
            z[:] = candidate
            log_weight = offered
        if iteration % thin == thin - 1:
            out[iteration // thin] = z
    return out


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(
    "system",
    [
        pytest.param(name, marks=pytest.mark.deep) if name in ("total", "two rows") else name
        for name in SYSTEMS
        if name != "weights"
    ],
)
def test_draws_have_the_enumerated_law(system):
    points, p = enumerate_law(SYSTEMS[system], LAW)
    noise, accepted = annealed(annealing(SYSTEMS[system], LAW, levels=2), 100_000, burn=100, chains=2, rng=1)
    assert p_value(noise[:, ::10].reshape(-1, points.shape[1]), points, p) > 1e-6
    assert (accepted > 0.2).all()


@pytest.mark.deep
def test_chains_without_weights_are_rejected():
    points, p = enumerate_law(SYSTEMS["2 x 3 margins"], LAW)
    system = own_rates(annealing(SYSTEMS["2 x 3 margins"], LAW, levels=2))
    assert p_value(with_weights(system, 20_000, 10, 1.0, np.random.default_rng(2)), points, p) > 1e-6
    assert p_value(with_weights(system, 20_000, 10, 0.0, np.random.default_rng(2)), points, p) < 1e-6


@pytest.mark.quick_cases(0)
def test_ten_by_ten_agrees_with_lattice_gibbs():
    system = annealing(margin_matrix((10, 10), [(0,), (1,)]), DoubleGeometric("1/4"), levels=100)
    noise, _ = annealed(system, 150, burn=10, chains=2, rng=3)
    assert abs(np.abs(noise).sum(axis=2).mean() - 319.3) < 12  # sd of |z| is 36; about 100 effective draws


@pytest.mark.quick_cases(0)
def test_meeting_times_do_not_depend_on_threads():
    system = annealing(margin_matrix((4, 4), [(0,), (1,)]), DoubleGeometric("1/4"))
    one, three = (tv_bound(annealed_meeting(system), pairs=100, limit=1000, rng=4, threads=n) for n in (1, 3))
    assert (one.meetings == three.meetings).all()
    assert one.unmet == 0
    first, second = (annealed(system, 20, chains=3, rng=5, threads=n)[0] for n in (1, 3))
    assert (first == second).all()


def test_invalid_input_raises():
    with pytest.raises(PrivacyError, match="requires an l1 law"):
        annealing([[1, 1]], L2Laplace(1))
    with pytest.raises(PrivacyError, match="levels must be"):
        annealing([[1, 1]], LAW, levels=0)
    with pytest.raises(InvariantError, match="multiples of 1/2"):
        annealing(SYSTEMS["weights"], LAW)
