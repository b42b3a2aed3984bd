"""Real-valued noise on null spaces: errors of Corollaries 3.5 to 3.9, Theorem 4.2, privacy by closed forms."""

import itertools
import math
import re

import numpy as np
import pytest
import xarray as xr
from scipy import integrate, stats

from ppdinf.errors import CountError, LabelError, PrivacyError, PrivacyWarning
from ppdinf.invariants import Public, cells, groups, linear, margin, total
from ppdinf.lattice.null_space import null_space
from ppdinf.mechanisms import Mechanism, SubspaceGaussian, SubspaceLaplace
from ppdinf.noise.primitives.stream import keyed_stream, laplaces, secure_stream, seeded_stream
from ppdinf.privacy import gaussian_delta

MARGINS = margin("dim_0") & margin("dim_1")
KEY = bytes(range(32))
BLOCKS = xr.DataArray([4, 0, 3, 2, 6, 1], dims="c", coords={"g": ("c", list("PPPQQR"))})
CASES = {
    "total": (total(), np.array([5, 2, 0, 7, 1])),
    "margins": (MARGINS, np.arange(12).reshape(3, 4)),
    "groups": (groups("g"), BLOCKS),
    "2 x 2": (MARGINS, np.array([[3, 1], [0, 4]])),
    "nothing": (Public(), np.array([1, 2, 3])),
    "weights": (linear([[2, 3, 5]]), np.array([1, 2, 3])),
}
QUERY = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0]])
EVERY = [
    SubspaceGaussian(total(), 1, "1e-6"),
    SubspaceGaussian(total(), "1/2", "1e-6", "extended", "printed", query=QUERY, neighbours="added"),
    SubspaceLaplace(total(), "0.192"),
    SubspaceLaplace(total(), 1, "extended", query=QUERY, neighbours="added"),
]


def replace_grid(mechanism, grid=None):
    """The same mechanism as in a file without a grid, or on another grid."""
    data = {name: value for name, value in mechanism.to_dict().items() if name != "grid"}
    return Mechanism.from_dict(data if grid is None else data | {"grid": grid}, mechanism.public)


def moved(public, table, neighbours="replaced"):
    """Changes of the cells by one person, projected onto the null space, by dense linear algebra."""
    A = public.on(table).A.toarray()
    d = np.size(table)
    projection = np.eye(d) - np.linalg.pinv(A) @ A
    if neighbours == "added":
        return projection.T
    return np.array([projection[:, i] - projection[:, j] for i, j in itertools.permutations(range(d), 2)])


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("public", "table"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("method", ["projected", "extended"])
def test_squared_errors_are_those_of_the_corollaries(public, table, method):
    """Corollaries 3.5, 3.6 (m sigma^2) and, for Laplace noise, 2 m scale^2: 40,000 draws, four standard errors."""
    system = public.on(table)
    m = np.size(table) - (np.linalg.matrix_rank(system.A.toarray()) if system.names else 0)
    gaussian = SubspaceGaussian(public, "1/2", "1e-3", method, "printed")
    c = (1 + math.sqrt(1 + math.log(1e3))) / 0.5
    longest = np.sqrt((moved(public, table) ** 2).sum(axis=1).max()) if method == "extended" else math.sqrt(2)
    laplace = SubspaceLaplace(public, "1/2", method)
    Q = null_space(system.structure).basis.toarray()
    steps = [Q[i] - Q[j] for i, j in itertools.combinations(range(len(Q)), 2)]
    widest = np.abs(steps).sum(axis=1).max() if method == "extended" else 2
    for mechanism, expected in ((gaussian, m * (c * longest) ** 2), (laplace, 2 * m * (widest / 0.5) ** 2)):
        noise = mechanism.simulate(table, draws=40_000, rng=3).values - np.asarray(table)
        squared = (noise.reshape(40_000, -1) ** 2).sum(axis=1)
        slack = 4 * squared.std() / 200
        assert squared.mean() == pytest.approx(expected, abs=slack)
        assert slack < 0.05 * expected


@pytest.mark.parametrize(("public", "table"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("neighbours", ["replaced", "added"])
@pytest.mark.parametrize("method", ["projected", "extended"])
def test_gaussian_guarantee_in_closed_form(public, table, neighbours, method):
    """In the null space, releases of two tables are two spherical Gaussians with a known delta."""
    mechanism = SubspaceGaussian(public, "3/4", "1e-5", method, neighbours=neighbours)
    sigma = mechanism.sigma(public.on(table))
    far = np.sqrt((moved(public, table, neighbours) ** 2).sum(axis=1).max())
    assert gaussian_delta("3/4", sigma, sensitivity=far) <= 1e-5 * (1 + 1e-9)
    if method == "extended":  # not a bit wider than needed
        assert gaussian_delta("3/4", 0.99 * sigma, sensitivity=far) > 1e-5
        assert sigma <= SubspaceGaussian(public, "3/4", "1e-5", neighbours=neighbours).sigma(public.on(table))


def test_the_sensitivity_within_the_null_space_matters():
    """2 x 2 margins leave one direction: a change has half its squared length there, and the error is halved."""
    projected, extended = (SubspaceGaussian(MARGINS, 1, "1e-6", method) for method in ("projected", "extended"))
    system = MARGINS.on(np.ones((2, 2), dtype=int))
    # up to the widening on the grid, below 1e-8
    assert extended.sigma(system) / projected.sigma(system) == pytest.approx(math.sqrt(1 / 2), rel=1e-9)
    in_doubles = [replace_grid(mechanism) for mechanism in (projected, extended)]
    assert in_doubles[1].sigma(system) / in_doubles[0].sigma(system) == pytest.approx(math.sqrt(1 / 2), rel=1e-12)
    assert 1 < projected.sigma(system) / in_doubles[0].sigma(system) < 1 + 1e-8
    wrong = SubspaceGaussian(MARGINS, 1, "1e-6", "extended", neighbours="added").sigma(system)
    assert gaussian_delta(1, wrong, sensitivity=1) > 1e-6  # the length of one column does not cover a difference


@pytest.mark.parametrize("method", ["projected", "extended"])
def test_noise_lies_in_the_null_space_and_unprojected_noise_does_not(method):
    for public, table in CASES.values():
        system = public.on(table)
        for mechanism in (SubspaceGaussian(public, 1, "1e-6", method), SubspaceLaplace(public, 1, method)):
            noise = mechanism.draw(system, 0, 50, secure_stream())
            assert noise.dtype == np.float64
            assert np.abs(system.A @ noise.T).max(initial=0) < 1e-10
            y = np.asarray(table).ravel() + noise[0]
            released = xr.DataArray(y.reshape(np.shape(table)), dims=system.frame.dims)
            if isinstance(mechanism, SubspaceGaussian) or method == "extended" or public in (total(), groups("g")):
                assert mechanism.logp(released, table) > -math.inf
            if system.A.shape[0]:
                spoiled = released + np.random.default_rng(1).normal(size=np.shape(table))
                assert mechanism.logp(spoiled, table) == -math.inf


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(("public", "table"), CASES.values(), ids=CASES)
def test_projected_gaussian_noise_is_conditioned_gaussian_noise(public, table):
    """Theorem 4.2. Conditioning iid noise on A e = 0 leaves covariance sigma^2 (I - A'(A A')^+ A)."""
    system = public.on(table)
    mechanism = SubspaceGaussian(public, 1, "1e-3")
    A, sigma = system.A.toarray().astype(float), mechanism.sigma(system)
    conditioned = sigma**2 * (np.eye(A.shape[1]) - A.T @ np.linalg.pinv(A @ A.T) @ A)
    draws = mechanism.draw(system, 0, 50_000, seeded_stream(4))
    factor = np.linalg.eigh(conditioned)
    m = np.linalg.matrix_rank(conditioned)
    axes = draws @ factor[1][:, -m:] / np.sqrt(factor[0][-m:])
    assert stats.kstest(axes.ravel(), "norm").pvalue > 1e-6
    assert np.abs(axes.T @ axes / len(axes) - np.eye(m)).max() < 6 / math.sqrt(len(axes)) * 2
    # the density agrees with that of the conditioned law, up to one constant
    cells_ = np.asarray(table).ravel()
    inverse = np.linalg.pinv(conditioned, rcond=1e-9)
    for z in draws[:5]:
        y = system.frame.table(cells_ + z)
        assert mechanism.logp(y, table) == pytest.approx(-z @ inverse @ z / 2, rel=1e-9)


def test_projected_laplace_noise_is_not_conditioned_laplace_noise():
    """Two cells under a total: projected noise is half a difference of Laplaces, conditioned noise is Laplace."""
    mechanism = SubspaceLaplace(total(), 1)
    z = mechanism.draw(total().on([3, 4]), 0, 50_000, seeded_stream(4))[:, 0]
    scale = mechanism.scale(total().on([3, 4])) / 2

    def cdf(x):  # of scale (e - e'), e and e' Laplace
        u = np.abs(x) / scale
        upper = (1 + u / 2) * np.exp(-u) / 2
        return np.where(x > 0, 1 - upper, upper)

    assert stats.kstest(z, cdf).pvalue > 1e-6
    assert stats.kstest(z, stats.laplace(scale=scale).cdf).pvalue < 1e-6


@pytest.mark.parametrize("cells_", [[1.5, -1.5], [0.3, 2.0, -2.3], [1.0, 1.0, -1.0, -1.0], [0, 0, 0]])
def test_density_of_projected_laplace_noise_by_integration(cells_):
    z = np.array(cells_)
    mechanism = SubspaceLaplace(total(), 2)
    table = np.full(z.size, 10)
    scale = mechanism.scale(total().on(table))

    def log_density(noise):
        shifts = integrate.quad(
            lambda t: np.exp(-np.abs(noise / scale + t).sum()), -60, 60, points=np.sort(-noise / scale), limit=200
        )
        return math.log(shifts[0])

    assert mechanism.logp(table + z, table) == pytest.approx(log_density(z), abs=1e-7)


@pytest.mark.quick_cases(0)
def test_the_densities_of_laplace_noise_satisfy_the_guarantee():
    """Log ratios over all neighbours, at random outcomes; the bound is attained, and half of it would be too small."""
    rng = np.random.default_rng(7)
    for public, table, method in (
        (groups("g"), BLOCKS, "projected"),
        (groups("g"), BLOCKS, "extended"),
        (MARGINS, np.ones((3, 3), dtype=int), "extended"),
        (total(), np.array([3, 1, 2]), "projected"),
    ):
        mechanism = SubspaceLaplace(public, "1/2", method)
        law = mechanism.law(public.on(table))
        space = null_space(public.on(table).structure)
        worst = 0.0
        for z in space.project(rng.laplace(size=(60, np.size(table))) * 20):
            for move in moved(public, table):
                worst = max(worst, abs(law.log_density(z + move) - law.log_density(z)))
        assert worst <= 0.5 + 1e-9
        assert worst > 0.25


def test_unprojected_noise_has_another_error():
    """Five cells under a total: 4 of 5 dimensions of noise remain, and the difference is detected."""
    stream = seeded_stream(6)
    z = SubspaceLaplace(total(), 1).draw(total().on(np.ones(5, dtype=int)), 0, 20_000, stream)
    unprojected = 2 * laplaces(stream, 20_000, 5)
    for noise, expected in ((z, 8 * 4), (unprojected, 8 * 5)):
        squared = (noise**2).sum(axis=1)
        assert squared.mean() == pytest.approx(expected, abs=5 * squared.std() / math.sqrt(20_000))
        assert 5 * squared.std() / math.sqrt(20_000) < 2


def test_the_answers_can_be_queries():
    """Invariants are then stated for the answers: the first is the total, and the next two add up to it."""
    public = cells({"answer": 0}) & linear([[1, -1, -1, 0]], ["both halves"])
    table = np.array([4, 0, 3, 2])
    for mechanism in (
        SubspaceGaussian(public, 1, "1e-6", "extended", query=QUERY),
        SubspaceLaplace(public, 1, query=QUERY),
        SubspaceLaplace(public, 1, "extended", query=QUERY),
    ):
        drawn = mechanism.simulate(table, draws=30, rng=2)
        assert drawn.dims == ("draw", "answer")
        assert np.allclose(drawn[:, 0], 9)
        assert np.allclose(drawn[:, 1] + drawn[:, 2], 9)
        assert np.ptp(drawn[:, 3].values) > 1
        if mechanism.to_dict().get("method") == "extended":
            assert mechanism.logp(drawn[0], table) > -math.inf
            assert mechanism.logp(drawn[0], np.array([4, 1, 3, 2])) == -math.inf
    # someone who moves from the first cell to the second changes the last answer alone
    extended = SubspaceGaussian(public, 1, "1e-6", "extended", query=QUERY)
    system = public.on(xr.DataArray(QUERY @ table, dims="answer"))
    moves = null_space(system.structure).project((QUERY[:, :, None] - QUERY[:, None, :]).reshape(4, -1).T.astype(float))
    far = np.sqrt((moves**2).sum(axis=1).max())
    assert gaussian_delta(1, extended.sigma(system), sensitivity=far) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.quick_cases(0)
def test_standard_deviation_of_the_wifi_geometry():
    """Each of 20 tables of 14 x 24 keeps both margins; noise of scale 1 (Gao et al., Section 5.2).

    The standard deviation of every cell is sqrt((13/14)(23/24)) = 0.943. The paper prints a median of 0.88 over 50
    repetitions, with 5 % and 95 % quantiles 0.86 and 0.91: these are values of the variance over the cells of one
    repetition, (13/14)(23/24) = 0.890 in the mean and 0.863 to 0.917 in 90 % of repetitions.
    """
    public = margin("dim_0", "dim_1") & margin("dim_0", "dim_2")
    system = public.on(np.zeros((20, 14, 24), dtype=int))
    space = null_space(system.structure)
    assert space.dimension == 6720 - 740
    kept = 1 - np.asarray((space.fixed**2).sum(axis=1))
    assert np.sqrt(kept) == pytest.approx(math.sqrt(13 / 14 * 23 / 24), rel=1e-12)
    assert round(math.sqrt(13 / 14 * 23 / 24), 3) == 0.943
    mechanism = SubspaceGaussian(public, 1, "1e-6")
    noise = mechanism.draw(system, 0, 400, seeded_stream(8)) / mechanism.sigma(system)
    assert np.median(noise.std(axis=0)) == pytest.approx(0.943, abs=0.003)
    repetitions = noise.var(axis=1)
    assert np.quantile(repetitions, [0.05, 0.5, 0.95]) == pytest.approx([0.863, 0.890, 0.917], abs=0.005)
    assert np.sqrt(repetitions).min() > 0.91


def test_the_noise_of_corollary_3_9_does_not_depend_on_the_answers():
    """It prints A(x) + Q w as the noise, which would add the answers twice; the noise is Q w."""
    mechanism = SubspaceLaplace(total(), 1, "extended")
    small, large = (mechanism.simulate(t, draws=500, rng=9).values - t for t in (np.arange(4), 1000 + np.arange(4)))
    assert np.allclose(small, large, atol=1e-9)
    assert abs(small.mean()) < 3


def test_the_parts_of_agents_are_one_release():
    whole = xr.DataArray(
        np.arange(12).reshape(3, 4), dims=("site", "hour"), coords={"site": list("abc"), "hour": range(4)}
    )
    public = margin("site") & margin("hour")
    for mechanism in (SubspaceGaussian(public, 1, "1e-6"), SubspaceLaplace(public, 1, "extended")):
        together = xr.full_like(whole, np.nan, dtype=float)
        for part in ({"site": ["c"]}, {"site": ["a", "b"], "hour": [3, 1]}, {"site": ["b", "a"], "hour": [0, 2]}):
            together.loc[part] = mechanism.distributed(whole.sel(part), 0 * whole, key=KEY, occasion="May")
        stream = keyed_stream(KEY, "May")
        central = whole + mechanism.draw(public.on(whole), 0, 1, stream)[0].reshape(3, 4)
        assert np.array_equal(together, central)  # the same draw, to the last bit
        assert np.allclose(together.sum("hour"), whole.sum("hour"), rtol=1e-12)
        assert np.allclose(together.sum("site"), whole.sum("site"), rtol=1e-12)
        assert np.abs(together - whole).min() > 0
        again = mechanism.distributed(whole, 0 * whole, key=KEY, occasion="June")
        assert not np.any(np.isclose(again, central))


@pytest.mark.parametrize(
    ("part", "error", "message"),
    [
        (xr.DataArray([[1]], dims=("site", "hour"), coords={"site": ["z"], "hour": [0]}), LabelError, "no label 'z'"),
        (xr.DataArray([1], dims=("site",), coords={"site": ["a"]}), LabelError, "has dimensions"),
        (xr.DataArray([[-1]], dims=("site", "hour"), coords={"site": ["a"], "hour": [0]}), CountError, "negative"),
        (xr.DataArray([[1]], dims=("site", "hour"), coords={"site": ["b"]}), LabelError, "no labels along 'hour'"),
    ],
)
def test_agents_with_other_labels_are_refused(part, error, message):
    whole = xr.DataArray(np.zeros((2, 2), int), dims=("site", "hour"), coords={"site": ["a", "b"], "hour": [0, 1]})
    with pytest.raises(error, match=message):
        SubspaceGaussian(total(), 1, "1e-6").distributed(part, whole, key=KEY, occasion="May")


def test_agents_do_not_answer_queries():
    with pytest.raises(PrivacyError, match="not to answers"):
        EVERY[1].distributed(np.ones(4, int), np.ones(4, int), key=KEY, occasion="May")


@pytest.mark.parametrize("mechanism", EVERY)
def test_guarantees_name_kept_sums_and_neighbours(mechanism):
    text = mechanism.guarantee.describe()
    assert "published exactly: the total" in text
    assert "one record" in text
    table = np.array([3, 1, 4, 1])
    system = total().on(QUERY @ table if mechanism.query else table)
    promise = mechanism.guarantee_on(system, mechanism.sampler_plan(table))
    nearest = 2 if mechanism.neighbours == "added" else 1  # one record removed, one added
    assert (promise.nearest, promise.fixed, promise.cells) == (nearest, 0, 4)
    assert re.match(r"in multiples of 1/\d+, \w+ sampler \(exact\): ", promise.sampler)
    in_doubles = replace_grid(mechanism)
    promise = in_doubles.guarantee_on(system, in_doubles.sampler_plan(table))
    assert "(in double precision)" in promise.sampler
    assert "the last digits of published numbers can reveal more" in promise.describe()


def test_cells_that_are_fixed_get_no_noise():
    table = np.array([3, 1])
    public = total() & cells({"dim_0": 0})
    for mechanism in (
        SubspaceGaussian(public, 1, "1e-6"),
        SubspaceGaussian(public, 1, "1e-6", "extended"),
        SubspaceLaplace(public, 1),
        SubspaceLaplace(public, 1, "extended"),
    ):
        assert np.array_equal(mechanism.simulate(table, draws=3, rng=1), np.tile(table, (3, 1)))
        assert mechanism.guarantee_on(public.on(table), None).nearest is None


def test_likelihoods_of_projected_and_extended_noise():
    system = MARGINS.on(np.ones((3, 3), dtype=int))
    projected, extended = (SubspaceLaplace(MARGINS, 1, how).likelihood(system) for how in ("projected", "extended"))
    assert projected.norm is None
    assert not projected.is_fixed_by_cell
    assert extended.norm is not None


@pytest.mark.parametrize(("public", "neighbours", "steps"), [
    (margin("dim_0") & margin("dim_1"), "replaced", 2),
    (margin("dim_0") & margin("dim_1"), "added", 4),
    (total(), "replaced", 1), (total(), "added", 2), (margin("dim_0"), "replaced", 1), (Public(), "added", 1),
])  # fmt: skip
def test_nearest_tables_are_counted_in_neighbours(public, neighbours, steps):
    """With both margins, no two tables differ in one record: the guarantee starts at a swap of two records."""
    release = SubspaceGaussian(public, 1, "1e-6", neighbours=neighbours).release(np.array([[3, 4, 5], [1, 2, 3]]))
    assert release.guarantee.nearest == steps
    assert ("Two such tables are at least" in release.guarantee.describe()) == (steps > 1)
    assert release.guarantee.loss_at_nearest == steps


def test_densities_without_noise():
    mechanism = SubspaceGaussian(margin("dim_0"), 1, "1e-6", "extended")
    with pytest.warns(PrivacyWarning, match="fix 2 of 2 cells"):
        release = mechanism.release(np.array([[3], [1]]))
    assert release.likelihood.form.log_weight(np.array([0.0, 1.0]), np.zeros(2)).tolist() == [0.0, -500_000.0]
    assert release.likelihood.support_radius == 1
