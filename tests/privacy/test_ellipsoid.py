"""Smallest ellipsoids: known shapes, certificates, invariance."""

import numpy as np
import pytest

from ppdinf.errors import PrivacyError
from ppdinf.privacy.sensitivity import enclosing_ellipsoid


def reach(shape, points):
    return np.einsum("ij,ij->j", points, np.linalg.solve(shape, points))


def test_ellipsoids_of_known_shapes():
    cube = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).astype(float)
    assert np.allclose(enclosing_ellipsoid(cube), 3 * np.eye(3))
    assert np.allclose(enclosing_ellipsoid(np.diag([5.0, 2, 1, 3])), np.diag([25, 4, 1, 9]), rtol=3e-3)
    assert enclosing_ellipsoid(np.array([[1.0, -7, 3]])) == [[49]]


@pytest.mark.parametrize(("m", "n"), [(2, 2), (2, 30), (5, 12), (9, 60)])
def test_points_are_inside_and_the_volume_is_certified(m, n):
    """John: weights on touching points with this moment matrix prove that no smaller ellipsoid exists."""
    rng = np.random.default_rng(m + n)
    points = rng.normal(size=(m, n)) * np.logspace(0, 2, m)[:, None]
    for tolerance in (1e-2, 1e-6):
        shape = enclosing_ellipsoid(points, tolerance=tolerance)
        assert reach(shape, points).max() <= 1 + 1e-9
        # any ellipsoid around the points has det at least m^m det(moment), for any weights: here, random ones
        for weights in rng.dirichlet(np.ones(n), size=20):
            moment = (points * weights) @ points.T
            assert np.linalg.slogdet(shape)[1] >= np.linalg.slogdet(m * moment)[1] - 1e-9
    loose = np.linalg.slogdet(enclosing_ellipsoid(points, tolerance=1e-2))[1]
    tight = np.linalg.slogdet(enclosing_ellipsoid(points, tolerance=1e-6))[1]
    assert loose - tight + m * 1e-5 >= -1e-9
    assert loose - tight <= 2 * m * np.log1p(2e-2)


def test_a_linear_map_takes_the_ellipsoid_along():
    rng = np.random.default_rng(3)
    points, move = rng.normal(size=(4, 15)), rng.normal(size=(4, 4))
    shape = enclosing_ellipsoid(points, tolerance=1e-7)
    assert np.allclose(enclosing_ellipsoid(move @ points, tolerance=1e-7), move @ shape @ move.T, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("points", [np.zeros((2, 3)), np.ones((3, 2)), np.outer([1.0, 2.0], [1.0, 3.0, 2.0])])
def test_points_in_fewer_dimensions_are_refused(points):
    with pytest.raises(PrivacyError, match="fewer dimensions"):
        enclosing_ellipsoid(points)
