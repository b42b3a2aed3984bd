"""Real-valued draws and K-norm noise: one dimension, norms, polytopes and bodies of independent moves."""

import math

import numpy as np
import pytest
from scipy import stats

from ppdinf.invariants import total
from ppdinf.mechanisms import KNorm
from ppdinf.noise.k_norm import K_NORMS, independent_moves, k_norm, polytope, uniforms
from ppdinf.noise.primitives.stream import exponentials, laplaces, normals, seeded_stream
from ppdinf.noise.random_lines import hull_chord
from ppdinf.privacy.sensitivity import sensitivity_polytope

LAWS = [(normals, stats.norm), (laplaces, stats.laplace), (exponentials, stats.expon)]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("sampler", "law"), LAWS)
def test_draws_follow_their_law(sampler, law):
    draws = sampler(seeded_stream(5), 200_000)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-6
    assert stats.kstest(1.05 * draws, law.cdf).pvalue < 1e-6


def words(*values):
    return lambda n: np.array(values, dtype=np.uint64)[:n]


def test_extreme_words_reach_the_last_bit_of_the_tails():
    ends = words(0, 2**63 - 1, 2**63, 2**64 - 1)
    for sampler, law, tail in ((normals, stats.norm, 2.0**-65), (laplaces, stats.laplace, 2.0**-65)):
        low, middle, high, other = sampler(ends, 4)
        assert law.sf(abs(low)) == pytest.approx(tail, rel=1e-9)
        assert low == -high
        assert abs(middle) + abs(other) < 1e-15
    assert exponentials(ends, 4)[0] == pytest.approx(65 * np.log(2), rel=1e-12)


def test_every_draw_reads_one_word():
    stream = seeded_stream(1)
    whole = normals(seeded_stream(1), 6)
    assert np.array_equal(np.concatenate([normals(stream, 2), normals(stream, 4)]), whole)


# -- norms -----------------------------------------------------------------------------------------------


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


# -- polytopes -------------------------------------------------------------------------------------------


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


# -- independent moves -----------------------------------------------------------------------------------


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
    monkeypatch.setattr("ppdinf.noise.k_norm.gammaln", np.zeros_like)
    assert stats.ks_2samp(body.noise(20_000, seeded_stream(1)).max(axis=1), expected.max(axis=1)).pvalue < 1e-6


def test_dependent_points_return_none():
    assert independent_moves(RNG.normal(size=(2, 4)), differences=True) is None
    assert independent_moves(RNG.normal(size=(2, 3)), differences=False) is None


def test_many_cells_under_one_total_are_exact():
    table = np.arange(40)
    noise = KNorm(total(), "1/2").simulate(table, draws=4000, rng=1) - table
    assert np.abs(noise.sum("dim_0")).max() < 1e-9
    assert stats.kstest(np.abs(noise).sum("dim_0") / 2, stats.gamma(39, scale=2).cdf).pvalue > 1e-6
