"""Slice sampling along lines preserves its target and converges to it."""

import numpy as np
import pytest
from scipy import stats

from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.real.k_norm import K_NORMS, k_norm
from ppdinf.noise.real.random_lines import slice_lines


def laplace(norm, rate=1.0):
    return lambda b: -rate * np.linalg.norm(b, K_NORMS[norm], axis=1)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("norm", K_NORMS)
@pytest.mark.parametrize("m", [1, 3])
def test_steps_leave_the_target_invariant(norm, m):
    """Exact draws have the target law after three steps; a rate error of 5 % is rejected."""
    start = k_norm(m, norm, 60_000, seeded_stream(1))
    scale = np.array([[2.0, 0.0, 0.3], [0.5, 1.0, 0.0], [0.0, 0.0, 0.2]])[:m, :m]
    for rate, good in ((1.0, True), (1.1, False)):
        ends = slice_lines(laplace(norm, rate), start, scale, steps=3, stream=seeded_stream(2))
        p = stats.kstest(np.linalg.norm(ends, K_NORMS[norm], axis=1), stats.gamma(m).cdf).pvalue
        assert (p > 1e-6) if good else (p < 1e-6)
        moved = (ends != start).all(axis=1)
        assert moved.all()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("m", [2, 8])
def test_chains_started_at_the_mode_reach_the_target(m):
    """Fifty lines per dimension are sufficient; two per dimension are not."""
    for steps, good in ((50 * (m + 1), True), (m, False)):
        ends = slice_lines(laplace("l2"), np.zeros((4000, m)), np.eye(m), steps=steps, stream=seeded_stream(3))
        p = stats.kstest(np.linalg.norm(ends, axis=1), stats.gamma(m).cdf).pvalue
        assert (p > 1e-3) if good else (p < 1e-6)


def test_on_a_ball():
    """A constant density is uniform on the ball; a density with its mode outside concentrates at the boundary."""
    start = np.tile([0.9, 0.0, 0.0], (20_000, 1))
    flat = slice_lines(lambda b: np.zeros(len(b)), start, np.eye(3), steps=60, stream=seeded_stream(4), radius=1.0)
    size = np.linalg.norm(flat, axis=1)
    assert size.max() <= 1 + 1e-12
    assert stats.kstest(size**3, "uniform").pvalue > 1e-6
    assert stats.kstest((flat[:, 2] + 1) / 2, stats.beta(2, 2).cdf).pvalue > 1e-6
    up = slice_lines(
        lambda b: 3 * b[:, 0], np.zeros((20_000, 1)), np.eye(1), steps=40, stream=seeded_stream(5), radius=2.0
    )
    law = stats.truncexpon(b=12, loc=-2, scale=1 / 3)
    assert stats.kstest(-up[:, 0], law.cdf).pvalue > 1e-6


def test_two_modes_within_a_bracket():
    """Stepping out and shrinkage are valid for any density, not only for log-concave ones."""

    def density(b):
        return np.logaddexp(-0.5 * (b[:, 0] - 3) ** 2, np.log(2) - 0.5 * (b[:, 0] + 3) ** 2)

    start = np.random.default_rng(6).normal(np.random.default_rng(7).choice([3.0, -3.0, -3.0], 60_000))[:, None]
    ends = slice_lines(density, start, np.eye(1) * 2, steps=2, stream=seeded_stream(8))[:, 0]
    cdf = lambda t: stats.norm.cdf(t - 3) / 3 + 2 * stats.norm.cdf(t + 3) / 3  # noqa: E731
    assert stats.kstest(ends, cdf).pvalue > 1e-6
    assert ((ends > 0) != (start[:, 0] > 0)).mean() > 0.05
