"""Rank tests of rejection and importance sampling, the sharpest of them; `benchmarks/calibration.py` has all of them.

Faults are detected by the size of the noise or by the fit of the table, rarely by theta, which is calibrated on
average for every unused part of the data.
"""

import numpy as np
import pymc as pm
import pytest
from posterior_problems import Compiled, Problem, p_values, seen

import ppdinf as ppd


@pytest.fixture(scope="module")
def compiled():
    """Compile each sampler once, for tables with groups and for enumerated fibers."""
    held = {}

    def get(route, system):
        listed = system == "two-way"
        if (route, listed) not in held:
            held[route, listed] = Compiled(4 if listed else 6, listed)
            held[route, listed].compile(route)
        return held[route, listed]

    return get


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("system", ["total", "groups", "hierarchy"])
def test_likelihoods_are_those_of_partially_private(system):
    rng, model = np.random.default_rng(1), Compiled(6, False)
    problem = Problem("importance", system, "dense", model)
    density = model.model.compile_logp()
    public = ppd.invariants.linear(problem.A)
    for _ in range(2):
        _, y = problem.simulate(rng)
        problem.place(y)
        release = ppd.Release(y, ppd.GeneralizedLaplace(public, epsilon="1/4"))
        with pm.Model(coords=release.coords) as same:
            theta, level = pm.Normal("theta", 0, 0.25), pm.Normal("level", 0, 0.1)
            rate = pm.math.exp(problem.log_base + level + theta * problem.slope)
            ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
        right = same.compile_logp()
        for point in ({"theta": 0.3, "level": -0.1}, {"theta": -0.2, "level": 0.2}):
            assert density(point) == pytest.approx(right(point) + release.likelihood.constant(), abs=1e-8)


REPLICATES = 600


@pytest.mark.deep
@pytest.mark.parametrize(
    ("route", "system", "regime"), [("rejection", "groups", "dense"), ("importance", "total", "flat")]
)
def test_ranks_of_the_truth_are_uniform(route, system, regime, compiled):
    assert min(p_values(route, system, regime, compiled(route, system), replicates=REPLICATES).values()) > 1e-6


CASES = [  # fault, the quantity that detects it, and replicates for a p-value far below the threshold
    ("rejection", "groups", "epsilon off by 20 %", "noise", 800),
    ("rejection", "groups", "M too small", "fit", 1500),
    ("rejection", "groups", "P(Z | theta) dropped", "fit", 200),
    ("importance", "groups", "epsilon off by 20 %", "noise", REPLICATES),
    ("importance", "groups", "a public sum dropped", "noise", REPLICATES),
    ("importance", "groups", "proposal density left out", "theta", 500),
]


@pytest.mark.deep
@pytest.mark.parametrize(("route", "system", "fault", "seen_by", "replicates"), CASES)
def test_faults_are_detected(route, system, fault, seen_by, replicates, compiled):
    assert seen(seen_by, route, system, "dense", compiled(route, system), fault=fault, replicates=replicates)
