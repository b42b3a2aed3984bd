"""Draws from mechanisms: the stated law by chi-square and by enumeration, and undecided comparisons."""

import numpy as np
import pytest
from distributions import distribution
from flint import arb
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import CountError
from ppdinf.noise.primitives.enclosures import draw_rows
from ppdinf.noise.primitives.stream import secure_stream

MECHANISMS = {
    "heuristic": lambda: ppd.counts.heuristic(distribution("geometric", 12), 1),
    "optimal": lambda: ppd.counts.optimal(distribution("geometric", 12), 1),
    "gaussian": lambda: ppd.counts.discrete_gaussian(12, 1, "1/100"),
}


def p_value(mechanism, i, draws, law=None):
    expected = (mechanism.matrix if law is None else law)[i]
    found = np.bincount(draws, minlength=mechanism.n)
    kept = expected * found.sum() > 5
    observed, mean = np.append(found[kept], found[~kept].sum()), np.append(expected[kept], expected[~kept].sum())
    mean *= found.sum() / mean.sum()
    assert not found[expected == 0].any()
    return stats.chi2.sf(((observed - mean) ** 2 / np.maximum(mean, 1e-9)).sum(), kept.sum())


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", MECHANISMS)
def test_law_from_secure_words(name):
    """The false alarm rate is below 1e-4 over all rows; an error of 5 % in a band is rejected."""
    mechanism = MECHANISMS[name]()
    drawn = {i: mechanism.draw(np.full(100_000, i), secure_stream()) for i in range(mechanism.n)}
    assert min(p_value(mechanism, i, drawn[i]) for i in drawn) > 1e-4 / mechanism.n / len(MECHANISMS)
    wrong = mechanism.matrix * np.where(np.abs(np.subtract.outer(range(12), range(12))) == 0, 1.05, 1)
    wrong /= wrong.sum(axis=1, keepdims=True)
    assert min(p_value(mechanism, i, drawn[i], wrong) for i in drawn) < 1e-4


def test_undecided_words():
    """Words next to the boundary of two columns: ball arithmetic distinguishes them, doubles do not."""
    third = 2**64 // 3  # 64 bits do not decide it: the next word does
    for further, column in ((0, 0), (2**64 - 1, 1)):
        words = iter([third, further])
        stream = lambda n, words=words: np.array([next(words) for _ in range(n)], dtype=np.uint64)  # noqa: E731
        assert draw_rows(
            np.array([[1 / 3, 2 / 3]]), np.array([0]), lambda i: [arb(1) / 3, arb(2) / 3], stream
        ).tolist() == [column]
    for word, column in ((third - 1, 0), (third + 1, 1)):
        stream = lambda n, word=word: np.full(n, word, dtype=np.uint64)  # noqa: E731
        assert draw_rows(
            np.array([[1 / 3, 2 / 3]]), np.array([0]), lambda i: [arb(1) / 3, arb(2) / 3], stream
        ).tolist() == [column]


def test_shapes_and_refusals():
    mechanism = MECHANISMS["heuristic"]()
    assert mechanism.simulate(np.zeros((3, 4), dtype=int), rng=1).shape == (3, 4)
    assert (mechanism.simulate([3, 4], rng=1) == mechanism.simulate([3, 4], rng=1)).all()
    with pytest.raises(CountError, match="counts must be from 0 to"):
        mechanism.simulate([12])


def test_the_histogram_is_preserved():
    """For cells drawn from z the released histogram is z up to sampling, but not without a fixed point."""
    z = distribution("binomial", 21)
    counts = np.repeat(np.arange(21), (z * 10_000).round().astype(int))
    away = {}
    for name, mechanism in {
        "fixed": ppd.counts.heuristic(z, "0.3"), "unfixed": ppd.counts.unfixed(z, "0.3")
    }.items():  # fmt: skip
        released = ppd.counts.histogram(mechanism.simulate(counts, rng=2), 21)
        away[name] = ppd.counts.wasserstein(released / released.sum(), z)
    assert away["fixed"] < 0.1 < 10 * away["fixed"] < away["unfixed"]
