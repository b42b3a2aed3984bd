"""Uniform points, gauges and K-norm noise of polytopes against known bodies, rejection and linear programmes."""

import math

import numpy as np
import pytest
from scipy import stats

from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.real.k_norm import polytope
from ppdinf.noise.real.random_lines import hull_chord
from ppdinf.privacy.sensitivity import sensitivity_polytope

RNG = np.random.default_rng(2)
BODIES = {
    "segment": np.array([[2.0, -3.0]]),
    "cross": np.eye(4),
    "cube": np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).astype(float),
    "differences": sensitivity_polytope(np.linalg.svd(np.ones((1, 5)))[2][1:]),
    "needle": RNG.normal(size=(3, 7)) * np.array([[1e-6], [1], [1e6]]),
    "random": RNG.normal(size=(3, 9)) * np.array([[1], [5], [20]]),
}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("points", BODIES.values(), ids=BODIES)
def test_gauges_and_chords_against_linear_programmes(points):
    body, chord = polytope(points), hull_chord(points)
    m = len(points)
    assert np.allclose(np.max(body.gauge(points.T)), 1)
    wide = np.abs(points).max(axis=1)
    for w in wide * RNG.normal(size=(20, m)):
        assert 1 / chord(np.zeros(m), w)[1] == pytest.approx(body.gauge(w), rel=1e-9)
        start = 0.7 * RNG.random() * w / body.gauge(w)
        direction = wide * RNG.normal(size=m)
        assert body.chord(start, direction) == pytest.approx(chord(start, direction), rel=1e-8)


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("points", BODIES.values(), ids=BODIES)
def test_uniform_points_against_rejection_from_a_box(points):
    """Test each coordinate, and the gauge, whose m-th power is uniform; points scaled by 0.95 are rejected."""
    body, m = polytope(points), len(points)
    w = body.uniform(20_000, seeded_stream(3))
    assert body.gauge(w).max() <= 1 + 1e-9
    assert stats.kstest(body.gauge(w) ** m, "uniform").pvalue > 1e-6
    assert stats.kstest(body.gauge(0.95 * w) ** m, "uniform").pvalue < 1e-6
    box = RNG.uniform(-1, 1, size=(400_000, m)) * np.abs(points).max(axis=1)
    oracle = box[body.gauge(box) <= 1][:20_000]
    assert len(oracle) > 1500
    for direction in np.vstack([np.eye(m), RNG.normal(size=(4, m))]) / np.abs(points).max(axis=1):
        assert stats.ks_2samp(w @ direction, oracle @ direction).pvalue > 1e-6


def test_equal_probabilities_of_simplices_are_rejected():
    """Simplices with equal probabilities would favour the small ones."""
    body = polytope(BODIES["random"])
    even = type(body)(body.forms, body.corners, np.arange(1, len(body.corners) + 1) / len(body.corners))
    right, wrong = (b.uniform(20_000, seeded_stream(4)) for b in (body, even))
    assert min(stats.ks_2samp(right[:, i], wrong[:, i]).pvalue for i in range(3)) < 1e-6


def test_volumes_of_differences_are_known():
    """The differences of m + 1 unit vectors span binom(2m, m) unit simplices of volume sqrt(m + 1) / m! each."""
    for m in range(2, 8):
        points = sensitivity_polytope(np.linalg.svd(np.ones((1, m + 1)))[2][1:])
        body = polytope(points)
        assert len(body.corners) == math.comb(2 * m, m)
        volume = np.abs(np.linalg.det(body.corners)).sum() / math.factorial(m)
        assert volume == pytest.approx(math.comb(2 * m, m) * math.sqrt(m + 1) / math.factorial(m), rel=1e-9)


@pytest.mark.parametrize("points", BODIES.values(), ids=BODIES)
def test_the_norm_of_the_noise_is_gamma(points):
    """A uniform point times a Gamma(m + 1) variable has norm Gamma(m); the radius Gamma(m) would be wrong."""
    body, m = polytope(points), len(points)
    size = body.gauge(body.noise(20_000, seeded_stream(5)))
    assert stats.kstest(size, stats.gamma(m).cdf).pvalue > 1e-6
    wrong = body.gauge(body.uniform(20_000, seeded_stream(6))) * stats.gamma(m).rvs(20_000, random_state=1)
    assert stats.kstest(wrong, stats.gamma(m).cdf).pvalue < 1e-6


def test_noise_of_the_cross_polytope_is_laplace():
    noise = polytope(np.eye(3)).noise(20_000, seeded_stream(7))
    for i in range(3):
        assert stats.kstest(noise[:, i], "laplace").pvalue > 1e-6
