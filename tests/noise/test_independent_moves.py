"""K-norm noise from independent moves against the facets of the same body, and a wrong number of gaining points."""

import numpy as np
import pytest
from scipy import stats

from ppdinf.invariants import total
from ppdinf.mechanisms import KNorm
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.real.k_norm import independent_moves, polytope

RNG = np.random.default_rng(3)
POINTS = {
    "cube's corner": (np.eye(3), False),
    "oblique": (RNG.normal(size=(4, 4)), False),
    "repeated and none": (np.column_stack([np.eye(2), np.eye(2), np.zeros(2)]), False),
    "simplex": (np.column_stack([np.eye(3), -np.ones(3)]), True),
    "oblique simplex": (RNG.normal(size=(4, 5)), True),
    "segment": (np.array([[0.0, 2.0, 2.0]]), True),
}


def hull(columns, differences):
    if not differences:
        return polytope(columns)
    n = columns.shape[1]
    return polytope(np.array([columns[:, i] - columns[:, j] for i in range(n) for j in range(i)]).T)


@pytest.mark.parametrize(("columns", "differences"), POINTS.values(), ids=POINTS)
def test_norms_and_draws_agree_with_the_hull(columns, differences):
    body, faces = independent_moves(columns, differences=differences), hull(columns, differences)
    w = RNG.normal(size=(50, len(columns)))
    np.testing.assert_allclose(np.abs(w @ body.forms.T).sum(axis=1), faces.gauge(w))
    found, expected = body.noise(20_000, seeded_stream(1)), faces.noise(20_000, seeded_stream(2))
    for form in (*faces.forms[:4], *np.eye(len(columns))):
        assert stats.ks_2samp(found @ form, expected @ form).pvalue > 1e-6
    assert stats.kstest(faces.gauge(found), stats.gamma(len(columns)).cdf).pvalue > 1e-6
    assert stats.kstest(1.1 * faces.gauge(found), stats.gamma(len(columns)).cdf).pvalue < 1e-6


def test_a_uniform_number_of_gaining_points_is_rejected(monkeypatch):
    columns = np.column_stack([np.eye(5), np.zeros(5)])
    expected = hull(columns, True).noise(20_000, seeded_stream(2))
    body = independent_moves(columns, differences=True)
    assert stats.ks_2samp(body.noise(20_000, seeded_stream(1)).max(axis=1), expected.max(axis=1)).pvalue > 1e-6
    monkeypatch.setattr("ppdinf.noise.real.k_norm.gammaln", np.zeros_like)
    assert stats.ks_2samp(body.noise(20_000, seeded_stream(1)).max(axis=1), expected.max(axis=1)).pvalue < 1e-6


def test_dependent_points_return_none():
    assert independent_moves(RNG.normal(size=(2, 4)), differences=True) is None
    assert independent_moves(RNG.normal(size=(2, 3)), differences=False) is None


def test_many_cells_under_one_total_are_exact():
    table = np.arange(40)
    noise = KNorm(total(), "1/2").simulate(table, draws=4000, rng=1) - table
    assert np.abs(noise.sum("dim_0")).max() < 1e-9
    assert stats.kstest(np.abs(noise).sum("dim_0") / 2, stats.gamma(39, scale=2).cdf).pvalue > 1e-6
