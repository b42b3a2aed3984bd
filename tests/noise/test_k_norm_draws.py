"""K-norm draws: the norm is Gamma(d), and the direction is the direction of a uniform point of the unit ball."""

import numpy as np
import pytest
from scipy import stats

from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.real.k_norm import K_NORMS, k_norm, uniforms


def in_ball(dimension, norm, rng):
    """Return up to 100,000 uniform points of the unit ball, by rejection from the cube."""
    cube = rng.uniform(-1, 1, (400_000, dimension))
    return cube[np.linalg.norm(cube, K_NORMS[norm], axis=1) <= 1][:100_000]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("norm", K_NORMS)
@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_norms_and_directions(norm, dimension):
    """100,000 draws reject a wrong degree of the norm, a scale error of 5 % and directions of another norm."""
    rng = np.random.default_rng(100)
    z = k_norm(dimension, norm, 100_000, seeded_stream(dimension))
    size = np.linalg.norm(z, K_NORMS[norm], axis=1)
    assert stats.kstest(size, stats.gamma(dimension).cdf).pvalue > 1e-6
    for wrong in (stats.gamma(dimension + 1), stats.gamma(dimension, scale=1.05)):
        assert stats.kstest(size, wrong.cdf).pvalue < 1e-6
    point = z / size[:, None] * rng.uniform(size=(100_000, 1)) ** (1 / dimension)
    for other in K_NORMS:
        expected = in_ball(dimension, other, rng)
        first = stats.ks_2samp(point[:, 0], expected[:, 0]).pvalue
        largest = stats.ks_2samp(np.abs(point).max(axis=1), np.abs(expected).max(axis=1)).pvalue
        if other == norm or dimension == 1:
            assert min(first, largest) > 1e-6
        else:
            assert largest < 1e-6


def test_directions_are_independent_of_the_norm():
    z = k_norm(3, "l2", 100_000, seeded_stream(5))
    size = np.linalg.norm(z, axis=1)
    large = size > np.median(size)
    assert stats.ks_2samp(z[large, 0] / size[large], z[~large, 0] / size[~large]).pvalue > 1e-6


def test_uniforms_exclude_both_ends():
    assert uniforms(lambda n: np.zeros(n, dtype=np.uint64), 1)[0] > 0
    assert uniforms(lambda n: np.full(n, 2**64 - 1, dtype=np.uint64), 1)[0] < 1
