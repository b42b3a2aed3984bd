"""Chains along random lines: uniform points by hit-and-run with couplings, and slice sampling."""

import numpy as np
import pytest
from scipy import stats

from ppdinf.errors import PrivacyError
from ppdinf.noise import random_lines as module
from ppdinf.noise.k_norm import K_NORMS, k_norm, polytope
from ppdinf.noise.mcmc.tv_bound import tv_bound
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.random_lines import hit_and_run, hit_and_run_meeting, hull_chord, slice_lines
from ppdinf.privacy.sensitivity import enclosing_ellipsoid, sensitivity_polytope

POINTS = sensitivity_polytope(np.linalg.svd(np.ones((1, 5)))[2][1:]) * np.array([[1], [1], [1], [6]])

BODY = polytope(POINTS)

ROOT = np.linalg.cholesky(enclosing_ellipsoid(POINTS))

NEAR_POINTS = np.zeros(4), np.array([0.05, 0.1, -0.1, 0.3])


@pytest.mark.quick_cases(0)
def test_chains_of_certified_length_are_uniform():
    bound = tv_bound(hit_and_run_meeting(BODY.chord, ROOT), pairs=200, limit=2000, rng=1)
    steps = int(bound.meetings.max()) - bound.lag
    assert bound.unmet == 0
    assert bound.upper(steps) < 0.05
    assert steps < 200
    w = hit_and_run(BODY.chord, ROOT, steps, 2500, seeded_stream(2))
    assert stats.kstest(BODY.gauge(w) ** 4, "uniform").pvalue > 1e-6
    exact = BODY.uniform(20_000, seeded_stream(3))
    assert all(stats.ks_2samp(w[:, i], exact[:, i]).pvalue > 1e-6 for i in range(4))
    short = hit_and_run(BODY.chord, ROOT, 1, 2500, seeded_stream(2))
    assert stats.kstest(BODY.gauge(short) ** 4, "uniform").pvalue < 1e-6


@pytest.fixture(scope="module")
def single_steps():
    """4,000 single steps from each of the two points."""
    stream = seeded_stream(5)
    return [
        np.array([module._step(BODY.chord, ROOT, start, *module._words(ROOT, stream)) for _ in range(4000)])
        for start in NEAR_POINTS
    ]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("near", [0, 16, 1000])
def test_each_coupled_chain_follows_the_kernel(monkeypatch, near, single_steps):
    """From two near points, both new points have the law of a single step under either coupling."""
    monkeypatch.setattr(module, "NEAR", near)
    stream = seeded_stream(4)
    pairs = [module._coupled(BODY.chord, ROOT, *NEAR_POINTS, stream) for _ in range(4000)]
    for which, alone in enumerate(single_steps):
        coupled = np.array([pair[which] for pair in pairs])
        for direction in np.vstack([np.eye(4), np.ones(4)]):
            assert stats.ks_2samp(alone @ direction, coupled @ direction).pvalue > 1e-6
    met = np.mean([pair[2] for pair in pairs])
    assert met == 0 if near == 0 else met > 0.3
    assert all(np.array_equal(pair[0], pair[1]) for pair in pairs if pair[2])


@pytest.mark.quick_cases(0)
def test_the_density_of_a_step_integrates_to_one():
    """The density integrates to 1 over a grid of the plane, with the factor 1 / pi for two directions of each line."""
    square = polytope(np.array([[1.0, 1.0], [1.0, -1.0]]))
    start, h = np.array([0.3, -0.2]), 0.01
    grid = np.arange(-1 + h / 2, 1, h)
    density = [
        np.exp(module._log_density(square.chord, np.eye(2), start, np.array([x, y]))) for x in grid for y in grid
    ]
    assert sum(density) * h**2 / np.pi == pytest.approx(1, abs=0.02)


def test_a_release_is_a_function_of_its_stream():
    first, again = (hit_and_run(hull_chord(np.eye(2)), np.eye(2), 5, 2, seeded_stream(6)) for _ in range(2))
    assert np.array_equal(first, again)
    assert hit_and_run_meeting(BODY.chord, ROOT)(1, 1, np.random.default_rng(1)) == -1


def test_a_point_outside_the_hull_has_no_chord():
    with pytest.raises(PrivacyError, match="linear programme"):
        hull_chord(np.eye(2))(np.array([5.0, 5.0]), np.array([1.0, 0.0]))


# -- slice sampling --------------------------------------------------------------------------------------


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
