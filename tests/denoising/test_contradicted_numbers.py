"""Published numbers that contradict the posterior are named, and others are named rarely."""

from dataclasses import replace

import numpy as np
import pytest
from published_laws import KINDS

import ppdinf as ppd
from ppdinf.denoising import contradictory_numbers
from ppdinf.denoising.contradictory_numbers import contradiction_problem
from ppdinf.laws.observation_model import as_observation_model

inv, laws = ppd.invariants, ppd.laws
CELLS, TOTAL = inv.margin("a"), inv.total()


def seen(*readings):
    return ppd.Measurements({"a": ["A", "B"]}, *(ppd.measured(statement, y, law) for statement, y, law in readings))


SHARP, GAUSS = laws.DoubleGeometric(1), laws.DiscreteGaussian(variance=4)
DISAGREE = {  # readings, and the names of those that the posterior contradicts
    "two of one cell": ([(CELLS, [10, 3], SHARP), (inv.cells({"a": "A"}), [400], SHARP)], ["a=A"]),
    "gaussian": ([(CELLS, [0, 3], GAUSS), (inv.cells({"a": "A"}), [300], GAUSS)], ["a=A"]),
    "a total and its parts": ([(CELLS, [100, 50], GAUSS), (TOTAL, 900, laws.DiscreteGaussian(variance=1))], ["a=A"]),
    "a negative total": ([(TOTAL, -60, SHARP)], ["total"]),
    "a clipped number": ([(CELLS, [0, 3], laws.Clipped(SHARP)), (TOTAL, 700, laws.Laplace(0.5))], ["total", "a=A"]),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", DISAGREE)
def test_numbers_that_disagree_by_many_standard_deviations_are_a_problem(case):
    readings, names = DISAGREE[case]
    found = ppd.denoise(seen(*readings), draws=200, prior="flat", rng=1, progressbar=False)
    (problem,) = [problem for problem in found.problems if "the draws contradict" in problem]
    assert all(name in problem for name in names)
    assert "correct a value or the scale of a law" in problem


def test_numbers_that_agree_are_no_problem():
    for readings in ([(CELLS, [10, 3], SHARP), (TOTAL, 16, SHARP)], [(CELLS, [0, 3], GAUSS), (TOTAL, 10, GAUSS)]):
        found = ppd.denoise(seen(*readings), draws=200, prior="flat", rng=1, progressbar=False)
        assert not any("the draws contradict" in problem for problem in found.problems)


L2_DRAWS = 100
MATRIX = np.random.default_rng(3).dirichlet(np.full(12, 0.1), size=12)
OTHERS = {
    "geometric": laws.DoubleGeometric("1/3"), "discrete gaussian": GAUSS, "l2": laws.L2Laplace("1/2"),
    "staircase": laws.Staircase("1/2", sensitivity=2, step=1), "matrix": laws.TransitionMatrix(MATRIX),
    "clipped matrix": laws.Clipped(laws.TransitionMatrix(MATRIX), 2), "response": laws.RandomizedResponse(11, 0.9, 0.2),
    "narrow": laws.Gaussian(0.2), "sampled": laws.Sampled(2.5),
    "thresholded": laws.Thresholded(laws.DoubleGeometric("1/2"), 4),
}  # fmt: skip


def excluded(law, tail_probability, rng, n=20_000):
    """Return the share of published numbers of each count whose bounds exclude the count."""
    x = np.repeat(np.arange(12)[:, None], n, axis=1)
    if law.is_independent:
        low, high = law.support_bounds(law.publish(x, rng).ravel(), tail_probability)
    else:
        low, high = np.array([
            law.support_bounds(own, tail_probability) for own in law.publish(np.zeros((L2_DRAWS, 3), int), rng)
        ]).transpose(1, 0, 2)  # fmt: skip
        x = np.zeros(low.shape)
        return np.mean((x < low) | (x > high), axis=0)
    return np.mean((x < np.reshape(low, x.shape)) | (x > np.reshape(high, x.shape)), axis=1)


@pytest.mark.parametrize("name", [*OTHERS, *(kind for kind in KINDS if kind != "interval")])
def test_bounds_of_numbers_exclude_their_count_as_rarely_as_stated(name):
    """Six standard errors: a false alarm once in 1e8 for each of 12 counts, 2 probabilities and 23 laws."""
    rng = np.random.default_rng(1)
    law = as_observation_model(OTHERS[name] if name in OTHERS else KINDS[name](rng).law)
    for tail_probability in (0.002, 0.02):
        limit = law.outside * tail_probability
        n = 20_000 if law.is_independent else L2_DRAWS
        assert (excluded(law, tail_probability, rng) <= limit + 6 * np.sqrt(limit / n)).all()


def test_a_factor_of_two_is_too_small_for_matrices():
    """Each of 60 numbers is improbable given the count 0, compared with the count that always has this number."""
    law = laws.TransitionMatrix(np.vstack([np.full(60, 1 / 60), np.eye(60)]))
    low, high = law.support_bounds(np.arange(60), 0.02)
    assert np.mean((low > 0) | (high < 0)) == 1 > 2 * 0.02
    assert law.outside * 0.02 > 1


def tables(rng, n, law, d):
    """Tables of a flat prior up to 30, their published numbers, and 64 posterior draws by enumeration."""
    x = np.arange(31)
    for _ in range(n):
        truth = rng.integers(0, 31, d)
        y = law.publish(truth[None], rng)[0]
        weight = np.exp(law.log_weight(y[:, None], x[None]))
        draws = np.array([rng.choice(31, size=64, p=w / w.sum()) for w in weight]).T
        yield y, draws[None]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("law", [SHARP, GAUSS, laws.Clipped(SHARP, 2), laws.Gaussian(4.0)], ids=str)
def test_false_alarms_of_exact_posteriors(law, monkeypatch):
    """At a rate of 0.2, at most 0.2 of 300 tables: more than 95 have a probability of 1e-6."""
    monkeypatch.setattr(contradictory_numbers, "RATE", 0.2)
    entries = seen((CELLS, [3, 4], law)).entries
    alarms = [
        bool(contradiction_problem(replace(entries, y=y), draws))
        for y, draws in tables(np.random.default_rng(2), 300, as_observation_model(law), 2)
    ]
    assert sum(alarms) <= 95
