"""Real-valued noise in multiples of a grid: the law of the published bits, their information, and the guarantees."""

import math
from fractions import Fraction

import numpy as np
import pytest
import xarray as xr
from chi_square import p_value, p_value_of_tables
from grids import box
from scipy import sparse, special

import ppdinf as ppd
from ppdinf.errors import InvariantError, LabelError, ModelError, PrivacyError
from ppdinf.invariants import Public, cells, covariates, groups, linear, margin, total
from ppdinf.lattice.null_space import null_space
from ppdinf.mechanisms.counting_queries import moved_structure
from ppdinf.mechanisms.real_noise import as_grid
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.noise.triangular_laplace import triangular_laplace

DRAWS = 60_000
MARGINS = margin("dim_0") & margin("dim_1")
STATES = xr.DataArray([4, 0, 3, 2], dims="c", coords={"c": list("wxyz"), "g": ("c", list("PPPQ"))})
CUMULATIVE = np.tril(np.ones((3, 3), dtype=int))
LAST = cells({"answer": 2})


def gaussian(public, epsilon="1/4", **kwargs):
    return ppd.SubspaceGaussian(public, epsilon, "0.1", **kwargs)


def correlated(public, epsilon="1/4", **kwargs):
    return ppd.CorrelatedGaussian(public, epsilon, "0.1", **kwargs)


def extended(public, epsilon=1, **kwargs):
    return ppd.SubspaceLaplace(public, epsilon, "extended", **kwargs)


THREE = np.array([5, 2, 1])
CASES = {
    "gaussian, total": (gaussian, total(), THREE, {"grid": "1/2"}),
    "gaussian, margins": (gaussian, MARGINS, np.arange(6).reshape(2, 3), {"grid": "1/4", "method": "extended"}),
    "gaussian, answers": (gaussian, LAST, THREE, {"grid": "1/2", "query": CUMULATIVE}),
    "correlated, answers": (correlated, LAST, THREE, {"grid": "1/2", "query": CUMULATIVE}),
    "correlated, records kept unsaid": (correlated, Public(), THREE, {"grid": "1/2"}),
    "extended, total": (extended, total(), THREE, {"grid": 1}),
    "extended, groups": (extended, groups("g"), STATES, {"grid": "1/2"}),
    "extended, margins": (extended, MARGINS, np.arange(6).reshape(2, 3), {"grid": 1}),
    "extended, crossing": (extended, cells({"c": "z"}) & total(), STATES, {"grid": "1/2"}),
    "k-norm, total": (ppd.KNorm, total(), THREE, {"epsilon": 1, "grid": 1}),
    "k-norm, records kept unsaid": (ppd.KNorm, Public(), THREE, {"epsilon": 1, "grid": 1}),
    "k-norm, answers": (ppd.KNorm, LAST, THREE, {"epsilon": 1, "grid": "1/2", "query": CUMULATIVE}),
    "laplace, nothing public": (ppd.SubspaceLaplace, Public(), THREE[:2], {"epsilon": 2, "grid": "1/2"}),
}


def bound(mechanism, table):
    answers = table if mechanism.query is None else np.array(mechanism.query) @ table
    return mechanism.public.on(xr.DataArray(answers, dims="answer") if mechanism.query is not None else table)


def lattice_points(mechanism, system, law, reach):
    """Multiples of the grid in the support, within a box of lattice coordinates."""
    space = null_space(system.structure)
    spanned = (
        space.structure if law.dimension == space.dimension else moved_structure(space, mechanism.query, "replaced")
    )
    return box(-reach, reach, law.dimension) @ spanned.lattice.basis.toarray().T * float(law.grid)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", CASES)
def test_draws_follow_the_stated_law_on_the_grid(name):
    """Chi-square over the multiples that are not rare; wrong law: epsilon 15 % off."""
    make, public, table, kwargs = CASES[name]
    mechanism = make(public, **kwargs)
    system = bound(mechanism, table)
    law = mechanism.law(system)
    assert law.exact
    assert law.grid == Fraction(kwargs["grid"])
    noise = law.added(np.zeros(system.frame.size, dtype=np.int64), DRAWS, seeded_stream(1))
    points = lattice_points(mechanism, system, law, 40)
    wrong = make(public, **kwargs | {"epsilon": mechanism.epsilon * Fraction(115, 100)})
    listed = {tuple(point) for point in points.tolist()}
    inside = np.array([z for z in noise.tolist() if tuple(z) in listed])
    assert len(inside) > 0.9 * DRAWS
    for stated, agrees in ((law, True), (wrong.law(system), False)):
        p = special.softmax([stated.log_density(z) for z in points])  # given that noise is in the box
        assert (p * len(inside) > 10).sum() > 10
        assert (p_value_of_tables(inside, points, p, 10) > 1e-6) == agrees


def p_value_of_points(drawn, points, p):
    """Return the p-value of draws, of which those elsewhere have the rest of the probability."""
    number = {tuple(point): k for k, point in enumerate(points.tolist())}
    return p_value([number.get(tuple(z), len(points)) for z in drawn.tolist()], np.append(p, 1 - p.sum()), 10)


def projected_law(rate, grid, reach):
    """Values and probabilities of projected noise of three cells; it depends only on differences to the last cell."""
    a, b = (ends.ravel() for ends in np.meshgrid(*[np.arange(-reach, reach + 1)] * 2))
    k = np.arange(-4 * reach, 4 * reach + 1)[:, np.newaxis]
    weights = np.exp(-rate * (np.abs(a + k) + np.abs(b + k) + np.abs(k))).sum(axis=0)
    p = weights * np.tanh(rate / 2) ** 3
    return np.column_stack([2 * a - b, 2 * b - a, -a - b]) * grid / 3, p


def test_projected_draws_are_projections_of_multiples_of_the_grid():
    """Under a total, chi-square against the sum over all noise with the same projection; wrong law: epsilon."""
    mechanism = ppd.SubspaceLaplace(total(), 1, grid="1/2")
    noise = mechanism.draw(total().on(THREE), 0, DRAWS, seeded_stream(2))
    sixths = (noise * 6).round().astype(int)
    for rate, agrees in ((0.25, True), (0.29, False)):
        keys, p = projected_law(rate, 0.5, 30)
        keys = (keys * 6).round().astype(int)
        assert (p_value_of_points(sixths, keys, p) > 1e-6) == agrees


@pytest.mark.parametrize(("epsilon", "grid"), [(1, 1), (4, 1), (2, "1/4"), (10, "1/2")])
def test_the_density_of_projected_noise_is_a_sum_over_the_grid(epsilon, grid):
    """Log ratios against the sum over all noise with the same projection."""
    law, step = ppd.SubspaceLaplace(total(), epsilon, grid=grid).law(total().on(THREE)), float(Fraction(grid))
    rate = step * epsilon / 2
    keys, p = projected_law(rate, step, round(12 / min(rate, 2)))
    near = np.abs(keys).max(axis=1) < 4 * step
    excess = np.log(p[near]) - [law.log_density(z) for z in keys[near]]
    assert np.ptp(excess) < 1e-9


def test_coarse_grids_are_refused_in_inference_from_projected_noise():
    release = ppd.SubspaceLaplace(total(), 4, grid=1).release(THREE)
    with pytest.raises(ModelError, match="a grid of 1 is too coarse for inference"):
        release.likelihood  # noqa: B018
    assert ppd.SubspaceLaplace(total(), 4).release(THREE).likelihood.auxiliary is not None


@pytest.mark.parametrize("neighbours", ["replaced", "added"])
@pytest.mark.parametrize("grid", [1, "1/2"])
@pytest.mark.parametrize("epsilon", [1, "1/2"])
def test_k_norm_noise_on_a_coarse_grid_has_its_stated_law(epsilon, grid, neighbours):
    """Noise (a, -a, b, -b), K is |a| + |b| <= 1/2 for added records, and twice as large for replaced records."""
    public, step, draws = linear([[1, 1, 0, 0], [0, 0, 1, 1]]), float(Fraction(grid)), 40_000
    mechanism = ppd.KNorm(public, epsilon, neighbours=neighbours, grid=grid)
    noise = mechanism.draw(public.on([5, 5, 5, 5]), 0, draws, seeded_stream(3))
    assert np.array_equal(noise[:, 0], -noise[:, 1])
    assert np.array_equal(noise[:, 2], -noise[:, 3])
    k = np.arange(-150, 151) * step
    a, b = np.meshgrid(k, k, indexing="ij")
    size = (2 if neighbours == "added" else 1) * (np.abs(a) + np.abs(b))
    p = np.exp(-float(Fraction(epsilon)) * size)
    p /= p.sum()
    place = np.rint(noise[:, [0, 2]] / step).astype(int) + 150
    assert p_value(np.ravel_multi_index(place.T, p.shape), p, 10) > 1e-6
    system = public.on([5, 5, 5, 5])
    log_ratio = mechanism.law(system).log_density(np.array([1.0, -1, 0, 0]) * step)
    assert log_ratio == pytest.approx(math.log(p[151, 150] / p[150, 150]))


PUBLISHED = [
    ppd.SubspaceLaplace(total(), "1/10"),
    ppd.SubspaceLaplace(total(), "1/10", "extended"),
    ppd.SubspaceGaussian(total(), "1/10", "1e-6"),
    ppd.CorrelatedGaussian(total(), "1/10", "1e-6"),
    ppd.KNorm(total(), "1/10"),
    ppd.KNorm(groups("g"), "1/10"),
]


def in_doubles(mechanism):
    data = {name: value for name, value in mechanism.to_dict().items() if name != "grid"}
    return type(mechanism).from_dict(data, mechanism.public)


def distinguished(mechanism, table, other, draws):
    """Share of releases of a table that another table, with the same public sums, cannot give."""
    system = mechanism.public.on(table)
    law = mechanism.law(system)
    noise = law.draw(draws, seeded_stream(1))
    noisy = table.values + noise
    elsewhere = noisy - other.values  # the noise that takes the other table there
    fits = (other.values + elsewhere == noisy).all(axis=1)
    if law.grid is not None:
        steps = elsewhere / float(law.grid)
        fits &= (steps == np.rint(steps)).all(axis=1)
        if law.removed is None:
            fits &= ~np.any(system.A @ steps.T, axis=0)
        else:
            fits &= (law.removed(noise) == law.removed(elsewhere)).all(axis=1)
    return 1 - fits.mean()


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("mechanism", PUBLISHED, ids=repr)
def test_digits_reveal_nothing_about_the_table(mechanism):
    """Every release is one of each neighbour with the same sums; some doubles are not a neighbour plus a double."""
    table = xr.DataArray([0, 40, 6], dims="c", coords={"g": ("c", list("PPP"))})
    other = table.copy(data=[1, 39, 6])
    assert distinguished(mechanism, table, other, 100_000) == 0
    assert distinguished(in_doubles(mechanism), table, other, 100_000) > 0.01


@pytest.mark.parametrize(("epsilon", "grid"), [("1/4", 1), ("1/4", 2**-4), (1, "1/4"), (1, 2**-6)])
def test_gaussian_guarantee_on_the_grid(grid, epsilon):
    """Delta between tables at distances 1, 2 and 3, summed over the multiples; wrong law: a width 20 % smaller."""
    delta, grid = 1e-3, float(Fraction(grid))
    sigma = ppd.SubspaceGaussian(total(), epsilon, "1e-3", grid=grid).sigma(total().on(THREE[:2]))
    k = np.arange(-round(12 * sigma / grid), round(12 * sigma / grid) + 1) * grid  # z = (k, -k)

    def spent(width, steps):
        p, q = (special.softmax(-(x**2) / width**2) for x in (k, k - steps))
        return np.maximum(p - np.exp(steps * float(Fraction(epsilon))) * q, 0).sum()

    for steps in (1, 2, 3):
        unit, there = float(Fraction(epsilon)), steps * float(Fraction(epsilon))
        assert spent(sigma, steps) <= delta * math.expm1(there) / math.expm1(unit)
    assert spent(0.8 * sigma, 1) > delta


def test_noise_of_rounded_bodies_keeps_the_sums_and_states_double_precision():
    """Both margins: changes by a record violate public sums, so the noise is not a vector of record counts."""
    table = np.arange(6).reshape(2, 3)
    release = ppd.KNorm(MARGINS, 1, neighbours="added").release(table)
    steps = (release.table.values - table) / float(release.mechanism.grid)
    assert np.array_equal(steps, np.rint(steps))
    assert not steps.sum(axis=0).any()
    assert not release.plan.exact
    assert release.plan.distance is None
    assert "the probability of each multiple was computed in double precision" in release.guarantee.describe()


def test_the_plan_states_that_no_grid_is_possible(monkeypatch, tmp_path):
    def refuse(*arguments):
        raise InvariantError("The basis is too ill-conditioned.")

    monkeypatch.setattr("ppdinf.mechanisms.subspace_noise.exact_noise", refuse)
    release = gaussian(total()).release(THREE)
    assert release.mechanism.grid is None
    assert not release.plan.exact
    assert "no grid, because the basis is too ill-conditioned" in release.plan.reason
    assert "the last digits of published numbers can reveal more" in release.guarantee.describe()
    release.save(tmp_path / "r.ppd")
    assert ppd.read_release(tmp_path / "r.ppd").guarantee == release.guarantee
    with pytest.raises(InvariantError, match="too ill-conditioned"):
        gaussian(total(), grid="1/8").release(THREE)


def test_files_without_a_grid_are_read_and_not_exact(tmp_path):
    """Such files contain no grid and a plan that calls doubles exact; written again, they have the same bytes."""
    for mechanism in PUBLISHED[:5]:
        noisy = in_doubles(mechanism).simulate(THREE, draws=1, rng=1)[0]
        ppd.Release(noisy, in_doubles(mechanism), plan=Plan("projection", True, "as it was")).save(tmp_path / "old.ppd")
        release = ppd.read_release(tmp_path / "old.ppd")
        assert release.mechanism.grid is None
        assert "projection sampler (in double precision)" in release.guarantee.describe()
        release.save(tmp_path / "again.ppd")
        assert (tmp_path / "again.ppd").read_bytes() == (tmp_path / "old.ppd").read_bytes()
        (tmp_path / "again.ppd").unlink()
        (tmp_path / "old.ppd").unlink()


def test_agents_publish_declared_coordinates_and_the_guarantee_names_the_key():
    whole = STATES.assign_coords(income=("c", [10, 20, 30, 40]))
    shared = {"key": bytes(range(32)), "occasion": "May"}
    mechanism = gaussian(groups("g"))
    with pytest.raises(LabelError, match="nothing declares the coordinates 'income'"):
        mechanism.distributed(whole[:2], 0 * STATES, **shared)
    declared = gaussian(groups("g") & covariates("income"))
    parts = [declared.distributed(part, 0 * whole, **shared) for part in (whole[:3], whole[3:])]
    together = xr.concat(parts, "c")
    assert np.array_equal(together.groupby("g").sum(), STATES.groupby("g").sum())  # to the last bit
    labels = 0 * STATES
    own = mechanism.distributed(labels, labels, **shared)  # every holder of the key can subtract it
    assert np.array_equal(together - own, STATES)
    plan = mechanism.sampler_plan(labels, shared=True)
    assert "to everyone who holds the key that agents share, the noise of every cell" in str(plan)
    release = ppd.Release(together.drop_vars("income"), mechanism, plan=plan)
    assert "to everyone who holds the key that agents share, the noise of every cell." in release.guarantee.describe()


@pytest.mark.parametrize(("value", "message"), [
    ("1/3", "power of two"), (0.1, "power of two"), (3, "power of two"), (2, "grid must be at most 1"),
    (0, "grid must be positive"), ("fine", "finite number"), (True, "number or text"), (math.nan, "finite number"),
])  # fmt: skip
def test_other_grids_are_refused(value, message):
    for make in (gaussian, correlated, extended, ppd.SubspaceLaplace, ppd.KNorm):
        with pytest.raises(PrivacyError, match=message):
            make(total(), epsilon=1, grid=value)


@pytest.mark.parametrize("mechanism", [ppd.SubspaceGaussian, ppd.CorrelatedGaussian])
def test_the_grid_that_an_error_recommends_is_accepted(mechanism):
    with pytest.raises(PrivacyError, match="choose a grid of at most 1/16"):
        mechanism(total(), epsilon=30, delta="1e-2", grid="1/8").release(THREE)
    mechanism(total(), epsilon=30, delta="1e-2", grid="1/16").release(THREE)


def test_constant_answers_get_no_noise_on_any_grid():
    for make in (gaussian, correlated, extended, ppd.SubspaceLaplace, ppd.KNorm):
        mechanism = make(Public(), epsilon=1, query=[[1, 1, 1], [2, 2, 2]])
        if make is gaussian:
            mechanism = make(Public(), epsilon=1, query=[[1, 1, 1], [2, 2, 2]], method="extended")
        release = mechanism.release(THREE)
        assert release.table.values.tolist() == [8, 16]
        assert release.plan.exact
        assert release.mechanism.grid == 1


@pytest.mark.parametrize(
    "A",
    [[[1, 1, 1, 0]], [[1] * 7], [[2, 3, 5]], [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 0, 1, 0, 0]], [[0, 0, 0]]],
    ids=str,
)
def test_bases_of_null_spaces(A):
    """A basis of all integer vectors whose orthogonal parts agree with the real basis; projections from sums."""
    from ppdinf.lattice import structure

    space = null_space(structure(A))
    triangle, whole = (space.basis.T @ space.lattice_basis).toarray(), space.structure.lattice.basis.toarray()
    assert np.allclose(np.tril(triangle, -1), 0)
    assert np.diag(triangle).min() > 0
    assert not np.any(np.array(A) @ space.lattice_basis.toarray())
    assert np.prod(np.diag(triangle)) ** 2 == pytest.approx(np.linalg.det((whole.T @ whole).astype(float)))
    z = np.random.default_rng(1).integers(-9, 9, len(A[0]))
    assert np.allclose(space.fixed.T @ z, space.weights @ (space.sums @ z))


@pytest.mark.quick_cases(0)
def test_triangular_noise_against_enumeration():
    """Full triangles, where every coordinate is off center; wrong law: accepted without use of the remainders."""
    R = np.array([[1.2, 0.6, -0.3], [0, 1.0, 0.5], [0, 0, 1.4]])
    law, widening = triangular_laplace(sparse.csr_array(R), 0.4, Fraction(1))
    assert widening < 1 + 1e-8
    x, proposed = law.draw(DRAWS, seeded_stream(1)), law._propose(DRAWS, seeded_stream(1))[0]
    points = box(-3, 3, 3)
    p = np.exp(-np.abs(box(-9, 9, 3) @ R.T).sum(axis=1) / 0.4)
    p = np.exp(-np.abs(points @ R.T).sum(axis=1) / 0.4) / p.sum()
    for drawn, agrees in ((x, True), (proposed, False)):
        assert (p_value_of_points(drawn, points, p) > 1e-6) == agrees


def test_grids_are_read_as_they_are_written():
    assert [as_grid(value) for value in ("1/8", 0.125, Fraction(1, 8), None, "auto")] == [
        *[Fraction(1, 8)] * 3, None, "auto"
    ]  # fmt: skip
