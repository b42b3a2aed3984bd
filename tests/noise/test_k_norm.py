"""Real-valued draws and K-norm noise: norms, polytopes, independent moves, and chains along random lines."""

import math

import numpy as np
import pytest
from scipy import stats

from ppdinf.errors import PrivacyError
from ppdinf.invariants import total
from ppdinf.mechanisms import KNorm
from ppdinf.noise import random_lines as module
from ppdinf.noise.k_norm import K_NORMS, independent_moves, k_norm, polytope, uniforms
from ppdinf.noise.mcmc.tv_bound import tv_bound
from ppdinf.noise.primitives.stream import exponentials, laplaces, normals, seeded_stream
from ppdinf.noise.random_lines import hit_and_run, hit_and_run_meeting, hull_chord, slice_lines
from ppdinf.privacy.sensitivity import enclosing_ellipsoid, sensitivity_polytope

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


SPANNING = sensitivity_polytope(np.linalg.svd(np.ones((1, 5)))[2][1:]) * np.array([[1], [1], [1], [6]])

BODY = polytope(SPANNING)

ROOT = np.linalg.cholesky(enclosing_ellipsoid(SPANNING))

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
