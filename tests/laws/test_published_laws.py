"""Laws of published values on random small systems, nested and crossing, against enumeration of all tables.

The comparison of weights has no random error: marginal likelihoods of nested sums, and the weight of every table of
crossing sums. Wrong variants differ: another boundary, tie rule or threshold, and clipped or absent values read as
missing.
"""

import numpy as np
import pytest
from chi_square import p_value_of_tables
from published_laws import KINDS, Problem, listed_log_weights, log_ratio

import ppdinf as ppd
from ppdinf.errors import PpdinfError

FEW, MANY = 4, 50
CROSSING = pytest.mark.parametrize("nested", [True, False], ids=["nested", "crossing"])


def agrees(problem, **changes):
    """Return whether the package and the enumeration have the same weights."""
    expected = problem.log_weights()
    try:
        seen = problem.measurements(**changes)
        if problem.nested:
            ratio = problem.with_prior(expected, 1) - problem.with_prior(expected, 0)
            return bool(abs(log_ratio(problem, seen) - ratio) < 1e-7)
        found = listed_log_weights(problem, seen)
    except PpdinfError:
        assert changes, "the true statements are contradictory"
        return False
    probable = expected > expected.max() - 25  # windows omit improbable tables
    if not np.isfinite(found[probable]).all() or np.isfinite(found[np.isneginf(expected)]).any():
        return False
    shift = found[probable] - expected[probable]
    return bool(np.ptp(shift) < 1e-7)


@pytest.mark.quick_cases(3)
@CROSSING
@pytest.mark.parametrize("kind", KINDS)
def test_weights_agree_with_enumeration(kind, nested):
    problems = [Problem(kind, seed, nested=nested) for seed in range(FEW)]
    assert [seed for seed, problem in enumerate(problems) if not agrees(problem)] == []
    assert not all(agrees(problem, wrong=True) for problem in problems)  # some systems cannot distinguish the laws


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith(("clipped", "suppressed"))])
def test_marks_are_not_missing_values(kind):
    problems = [Problem(kind, seed, nested=True) for seed in range(FEW)]
    assert not all(agrees(problem, marks_missing=True) for problem in problems)


@pytest.mark.deep
@CROSSING
@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_many_systems_agree_with_enumeration(kind, nested):
    assert [seed for seed in range(FEW, MANY) if not agrees(Problem(kind, seed, nested=nested))] == []


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_draws_of_crossing_sums_agree_with_enumeration(kind):
    """Chi-square tests of thinned chains; with 16 laws, a false alarm has probability 2e-5."""
    problem = Problem(kind, 100, nested=False)
    posterior = ppd.denoise(problem.measurements(), draws=400, tune=40, prior="flat", rng=1, progressbar=False)
    log_p = problem.log_weights()
    p = np.exp(log_p - np.logaddexp.reduce(log_p))
    drawn = posterior.draws.values[:, ::4].reshape(-1, problem.d)
    assert p_value_of_tables(drawn, problem.tables, p) > 1e-6
