"""Tables with measured sums: density and draws against enumeration of all tables."""

import numpy as np
import pymc as pm
import pytest
from chi_square import p_value_of_tables
from measured_tables import NESTED, SYSTEMS, Problem

import ppdinf as ppd
from ppdinf.errors import ModelError
from ppdinf.samplers.lattice_gibbs import LatticeGibbs

DRAWS, SWEEPS = 1500, 12  # sweeps per draw: draws are nearly independent
UNCOMPILED = {"mode": "FAST_COMPILE"}  # a graph is evaluated a few times, which takes less time than compilation
LOOKED_AT = 100  # tables whose density is evaluated: it is a sum of terms, and a wrong term affects most tables
RARE = 1e-6  # false alarms of a chi-square of nearly independent draws: 1 in 10,000 for all systems together


def model_of(problem):
    with pm.Model(coords=problem.seen.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(problem.rates), release=problem.seen, marginalize=False)
    return model


def walked(model, seed, mode):
    rng = np.random.default_rng(seed)
    step = LatticeGibbs([model["x"]], model=model, sweeps=SWEEPS, rng=rng, compile_kwargs=mode)
    step.setup_chain(np.random.default_rng(seed), 0, DRAWS)
    point, found = model.initial_point(), []
    for _ in range(DRAWS):
        point, _ = step.step(point)
        found.append(point["x"])
    return np.array(found)


def looked_at(expected, seed):
    """Return random possible and impossible tables, and the most probable table."""
    order = np.random.default_rng(seed).permutation(expected.size)
    possible = np.isfinite(expected[order])
    return np.concatenate([[expected.argmax()], order[possible][:LOOKED_AT], order[~possible][:LOOKED_AT]])


def check(seed, mode=UNCOMPILED):
    problem = Problem(seed)
    model, log_weights = model_of(problem), problem.log_weights()
    log_p = model.compile_logp(**mode)
    chosen = looked_at(log_weights, seed)
    found, expected = np.array([float(log_p({"x": x})) for x in problem.tables[chosen]]), log_weights[chosen]
    possible = np.isfinite(expected)
    assert (np.isneginf(found) == ~possible).all()
    apart = found[possible] - expected[possible]
    assert np.ptp(apart) < 1e-9
    weights = np.exp(log_weights - log_weights.max())
    assert p_value_of_tables(walked(model, seed, mode), problem.tables, weights / weights.sum()) > RARE


def check_nested(seed, mode=UNCOMPILED):
    """A rate shared by all cells: density against the sum over all tables, gradient against differences."""
    problem = Problem(seed, nested=True)
    for dist in (lambda r: pm.Poisson.dist(r), lambda r: pm.ZeroInflatedPoisson.dist(1.0, r)):  # by eta, by weights
        with pm.Model(coords=problem.seen.coords) as model:
            rate = pm.Gamma("rate", 3, 3, default_transform=None)
            ppd.PartiallyPrivate("x", dist(rate * problem.rates), release=problem.seen, marginalize=True)
        evaluate = model.compile_fn([model.logp(), model.logp([rate]), *model.dlogp()], inputs=model.value_vars, **mode)
        found, expected, h = [], [], 1e-5
        for value in (0.3, 1.0, 2.5):
            expected.append(np.logaddexp.reduce(problem.log_weights(value)) - value * problem.rates.sum())
            (here, prior, slope), ends = evaluate({"rate": np.array(value)}), []
            found.append(float(here - prior))
            for end in (value + h, value - h):
                ends.append(float(evaluate({"rate": np.array(end)})[0]))
            assert float(slope) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-5)
        assert np.ptp(np.array(found) - expected) < 1e-8


@pytest.mark.quick_cases(0)
def test_nested_sums_are_marginalized():
    check_nested(0)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2))
def test_nested_sums_as_compiled_by_default(seed):
    check_nested(seed, mode={})


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(1, NESTED, 2))
def test_further_nested_sums_are_marginalized(seed):
    check_nested(seed)


@pytest.mark.quick_cases(1)
@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(2))
def test_as_compiled_by_default(seed):
    check(seed, mode={})


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, SYSTEMS))
def test_further_systems_against_enumeration(seed):
    check(seed)


def test_a_release_is_observed_once_in_a_model():
    release = ppd.GeneralizedLaplace(ppd.invariants.total(), 1).release(np.array([3, 4, 5]))
    with pm.Model():
        ppd.PartiallyPrivate("a", pm.Poisson.dist(4.0), release=[release])
        with pytest.raises(ModelError, match="only once"):
            ppd.PartiallyPrivate("b", pm.Poisson.dist(4.0), release=release)
