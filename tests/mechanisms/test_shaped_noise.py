"""K-norm and correlated Gaussian noise: laws, guarantees over all neighbours, wrong radii and bodies, and swaps."""

import itertools
import math

import numpy as np
import pytest
import xarray as xr
from chi_square import p_value
from grids import box
from scipy import stats
from scipy.optimize import linprog

import ppdinf as ppd
from ppdinf.errors import PrivacyError, PrivacyWarning
from ppdinf.invariants import Public, cells, linear, margin, total
from ppdinf.lattice.null_space import null_space
from ppdinf.mechanisms import CorrelatedGaussian, KNorm, SubspaceGaussian
from ppdinf.mechanisms import shaped_noise as module
from ppdinf.mechanisms.counting_queries import sensitivity_directions
from ppdinf.mechanisms.shaped_noise import base_decomposition
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.privacy import gaussian_delta
from ppdinf.privacy.sensitivity import enclosing_ellipsoid


def bound(public, table, query):
    return public.on(xr.DataArray(query @ np.ravel(table), dims="answer") if query is not None else table)


def dense_moves(system, query, neighbours):
    """Moves of one person in the null space, by dense linear algebra."""
    A = system.A.toarray().astype(float)
    W = np.eye(A.shape[1]) if query is None else np.asarray(query, dtype=float)
    seen = W - np.linalg.pinv(A) @ (A @ W)
    if neighbours == "added":
        return seen
    return (seen[:, :, None] - seen[:, None, :]).reshape(len(W), -1)


QUERY = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 2, 0]])
OF_K_NORM = {
    "total": (total(), np.array([5, 2, 0, 7, 1]), None),
    "margins": (margin("dim_0") & margin("dim_1"), np.arange(9).reshape(3, 3), None),
    "queries": (cells({"answer": 0}), np.array([3, 1, 4, 1]), QUERY),
    "nothing": (Public(), np.array([1, 2, 3]), None),
    "weights": (linear([[2, 3, 5]]), np.array([1, 2, 3]), None),
}


@pytest.mark.parametrize(("public", "table", "query"), OF_K_NORM.values(), ids=OF_K_NORM)
@pytest.mark.parametrize("neighbours", ["replaced", "added"])
def test_the_density_satisfies_the_guarantee_between_all_neighbours(public, table, query, neighbours):
    mechanism = KNorm(public, "1/2", query=query, neighbours=neighbours)
    system = bound(public, table, query)
    law = mechanism.law(system)
    moves = dense_moves(system, query, neighbours).T
    worst = 0.0
    for z in law.draw(100, seeded_stream(2)):
        here = law.log_density(z)
        worst = max([worst, *(abs(law.log_density(z + move) - here) for move in moves if np.any(np.abs(move) > 1e-9))])
    assert worst <= 0.5 + 1e-9
    assert worst > 0.49  # K is not a bit larger than the moves


@pytest.mark.parametrize(("public", "table", "query"), OF_K_NORM.values(), ids=OF_K_NORM)
def test_draws_have_the_stated_density(public, table, query):
    """The norm of k-dimensional noise with density exp(-epsilon |z|_K) is Gamma(k, 1 / epsilon)."""
    mechanism = KNorm(public, 2, query=query)
    system = bound(public, table, query)
    law = mechanism.law(system)
    noise = mechanism.draw(system, 0, 5000, seeded_stream(3))
    k = np.linalg.matrix_rank(dense_moves(system, query, "replaced"), tol=1e-9)
    sizes = np.array([-law.log_density(z) for z in noise])
    assert stats.kstest(sizes, stats.gamma(k).cdf).pvalue > 1e-6
    assert stats.kstest(sizes, stats.gamma(k + 1).cdf).pvalue < 1e-6
    assert stats.kstest(1.1 * sizes, stats.gamma(k).cdf).pvalue < 1e-6
    assert np.abs(system.A @ noise.T).max(initial=0) < 1e-9
    assert np.abs(noise.mean(axis=0)).max() < 6 * noise.std() / math.sqrt(5000) + 1e-12


def test_cells_under_one_total_get_conditioned_laplace_noise():
    """|z|_K is half the l1 norm: the hull of all e_i - e_j is the l1 ball of radius 2 among z that sum to zero."""
    law = KNorm(total(), 1).law(total().on(np.zeros(6, dtype=int)))
    for z in np.random.default_rng(1).normal(size=(20, 6)):
        z -= z.mean()
        assert law.log_density(z) == pytest.approx(-np.abs(z).sum() / 2, rel=1e-9)


def test_the_body_of_columns_is_too_small_for_replaced_records():
    """One column of Q' is the change by an added record; the difference of two columns is up to twice as long."""
    table = np.zeros(4, dtype=int)
    wrong = KNorm(total(), 1, neighbours="added").law(total().on(table))
    move = np.array([1.0, -1, 0, 0])
    assert abs(wrong.log_density(move)) > 1 + 1e-6


@pytest.mark.deep
def test_a_chain_is_used_where_faces_are_too_many(monkeypatch):
    """With faces enumerated up to two dimensions only, the chain's law agrees with the exact law."""
    table = np.ones(5, dtype=int)
    exact = KNorm(total(), 1, neighbours="added").simulate(table, draws=4000, rng=1) - table
    monkeypatch.setattr(module, "EXACT", 2)
    monkeypatch.setattr(module, "PAIRS", 12)
    module._chain.cache_clear()
    mechanism = KNorm(total(), 1, neighbours="added")
    with pytest.raises(PrivacyError, match=r"needs a hit-and-run chain.*allow_mcmc=True"):
        mechanism.simulate(table, draws=1, rng=1)
    plan = mechanism.sampler_plan(table, allow_mcmc=True)
    assert not plan.exact
    assert 0 < plan.distance < 0.5
    promise = mechanism.guarantee_on(total().on(table), plan)
    assert promise.sampler_distance == plan.distance
    assert "Markov chain" in promise.describe()
    noise = mechanism.simulate(table, draws=60, rng=1, allow_mcmc=True) - table
    assert np.abs(noise.sum("dim_0")).max() < 1e-9
    assert stats.ks_2samp(noise.values.ravel(), exact.values.ravel()).pvalue > 1e-6
    away = float(np.abs(noise[0] - np.median(noise[0])).sum())
    assert mechanism.logp(table + noise[0].values, table) == pytest.approx(-away, rel=1e-6)
    assert mechanism.logp(table.astype(float), table) == 0
    monkeypatch.setattr(module, "LIMIT", 2)
    module._chain.cache_clear()
    with pytest.raises(PrivacyError, match="no chain converges fast enough for K-norm noise in 4 dimensions"):
        mechanism.sampler_plan(table, allow_mcmc=True)
    module._chain.cache_clear()


def test_constant_cells_get_no_noise():
    assert np.array_equal(KNorm(total(), 1).simulate([7], draws=2, rng=1), [[7], [7]])
    table = np.array([3, 1, 5, 4])
    public = total() & cells({"dim_0": 0})
    assert np.array_equal(KNorm(public, 1).simulate(table, draws=3, rng=1)[:, 0], [3, 3, 3])


CUMULATIVE = np.tril(np.ones((16, 16), dtype=int))
WHOLE = cells({"answer": 15})
OF_GAUSSIAN = {
    "cumulative": (WHOLE, np.arange(16), CUMULATIVE),
    "total": (total(), np.array([5, 2, 0, 7, 1]), None),
    "margins": (margin("dim_0") & margin("dim_1"), np.arange(12).reshape(3, 4), None),
    "nothing": (Public(), np.array([1, 2, 3]), None),
    "weights": (linear([[2, 3, 5]]), np.array([1, 2, 3]), None),
}


@pytest.mark.parametrize(("public", "table", "query"), OF_GAUSSIAN.values(), ids=OF_GAUSSIAN)
@pytest.mark.parametrize("neighbours", ["replaced", "added"])
def test_the_guarantee_holds_in_closed_form_and_is_tight(public, table, query, neighbours):
    mechanism = CorrelatedGaussian(public, "1/2", "1e-5", query=query, neighbours=neighbours)
    system = bound(public, table, query)
    F = mechanism.factor(system)
    moves = dense_moves(system, query, neighbours)
    white = np.linalg.pinv(F) @ moves
    assert np.allclose(F @ white, moves, atol=1e-9)  # no move leaves the noise
    far = np.linalg.norm(white, axis=0).max()
    assert gaussian_delta("1/2", 1.0, sensitivity=far) == pytest.approx(1e-5, rel=1e-6)
    assert gaussian_delta("1/2", 0.99, sensitivity=far) > 1e-5
    assert np.abs(system.A @ F).max(initial=0) < 1e-9


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("public", "table", "query"), OF_GAUSSIAN.values(), ids=OF_GAUSSIAN)
def test_draws_have_the_stated_covariance_and_density(public, table, query):
    mechanism = CorrelatedGaussian(public, 1, "1e-3", query=query)
    system = bound(public, table, query)
    F = mechanism.factor(system)
    draws = mechanism.draw(system, 0, 20_000, seeded_stream(1))
    white = draws @ np.linalg.pinv(F).T
    k = F.shape[1]
    assert stats.kstest(white.ravel(), "norm").pvalue > 1e-6
    assert np.abs(white.T @ white / 20_000 - np.eye(k)).max() < 0.06
    squared = (draws**2).sum(axis=1)
    assert squared.mean() == pytest.approx((F**2).sum(), abs=5 * squared.std() / math.sqrt(20_000))
    answers = np.ravel(table) if query is None else query @ table
    for row in range(3):
        y = system.frame.table(answers + draws[row])
        assert mechanism.logp(y, table) == pytest.approx(-0.5 * (white[row] ** 2).sum(), rel=1e-6)


@pytest.mark.quick_cases(0)
def test_overlapping_queries_gain():
    """The error of 128 cumulative counts is 1/15 of the error of spherical noise: one person moves every count."""
    query = np.tril(np.ones((128, 128), dtype=int))
    system = Public().on(xr.DataArray(np.zeros(128, dtype=int), dims="answer"))
    F = CorrelatedGaussian(Public(), 1, "1e-6", query=query, neighbours="added").factor(system)
    sigma = SubspaceGaussian(Public(), 1, "1e-6", query=query, neighbours="added").sigma(system)
    assert 128 * sigma**2 / (F**2).sum() > 14


def test_short_axes_come_first():
    """If the long axes come first, the error is larger, and larger than the error of spherical noise."""
    space = null_space(Public().on(np.zeros(32, dtype=int)).structure)
    directions, moves = sensitivity_directions(space, np.tril(np.ones((32, 32), dtype=int)), "added")

    def error(shape):
        return np.linalg.norm(np.linalg.solve(shape, moves), axis=0).max() ** 2 * (shape**2).sum()

    left, axes = np.eye(32), []
    while left.shape[1]:
        _, vectors = np.linalg.eigh(enclosing_ellipsoid(left.T @ moves))
        half = max(1, left.shape[1] // 2)
        part = left @ vectors[:, ::-1][:, :half]
        axes.append(part * np.linalg.norm(part.T @ moves, axis=0).max())
        left = left @ vectors[:, ::-1][:, half:]
    spherical = 32 * np.linalg.norm(moves, axis=0).max() ** 2
    assert error(base_decomposition(moves)) < spherical / 4
    assert error(np.hstack(axes)) > spherical
    assert directions.shape == (32, 32)


def test_joint_calibration_is_never_wider_than_separate_calibration():
    for seed in range(5):
        moves = np.random.default_rng(seed).normal(size=(10, 40)) * np.logspace(0, 1, 10)[:, None]
        shape = base_decomposition(moves)
        parts = np.unique(np.linalg.norm(shape, axis=0).round(9)).size
        longest = np.linalg.norm(np.linalg.solve(shape, moves), axis=0).max()
        assert 1 <= longest <= math.sqrt(parts) + 1e-9
        assert np.allclose(shape.T @ shape, np.diag(np.diag(shape.T @ shape)), atol=1e-8)


def test_small_moves_are_not_lost_to_rounding():
    """A record moves the second answer by 1 and the first by up to 1,000,000."""
    for weight in (2**18, 10**6):
        mechanism = CorrelatedGaussian(Public(), 1, "1e-6", query=[[weight, 0, 1], [1, 1, 0]])
        if weight == 2**18:
            assert np.ptp(mechanism.simulate([3, 4, 5], draws=4, rng=1)[:, 1].values) > 0.1
        else:
            with pytest.raises(PrivacyError, match="smaller weights"):
                mechanism.simulate([3, 4, 5], draws=4, rng=1)


def test_answers_that_records_do_not_change_get_no_noise():
    """The first answer is the number of records, which replacing a record does not change."""
    mechanism = CorrelatedGaussian(Public(), 1, "1e-6", query=[[1, 1, 1], [1, 0, 0], [0, 1, 0]])
    drawn = mechanism.simulate([3, 4, 5], draws=4, rng=1)
    assert np.allclose(drawn[:, 0], 12)
    assert np.ptp(drawn[:, 1].values) > 0.1
    assert mechanism.logp(drawn[0], [3, 4, 5]) > -math.inf
    assert mechanism.logp(drawn[0] + [1, 0, 0], [3, 4, 5]) == -math.inf
    nobody = CorrelatedGaussian(total(), 1, "1e-6")
    assert np.array_equal(nobody.simulate([7], draws=2, rng=1), [[7], [7]])


inv = ppd.invariants
TWO_MARGINS = inv.margin("a") & inv.margin("b")
CASES = {
    "2 x 3": ((2, 3), TWO_MARGINS),
    "3 x 3": ((3, 3), TWO_MARGINS),
    "2 x 2 x 2": ((2, 2, 2), inv.margin("a", "b") & inv.margin("b", "c")),
    "rows": ((2, 3), inv.margin("a")),
}


def labelled(shape, cells=1):
    return xr.DataArray(np.broadcast_to(cells, shape), dims=list("abc")[: len(shape)])


def swaps(A):
    """Changes by two records with the same sums, by enumeration of all pairs of pairs."""
    unit = np.eye(A.shape[1], dtype=int)
    pairs = [unit[i] + unit[j] for i, j in itertools.combinations_with_replacement(range(len(unit)), 2)]
    return np.array([p - q for p in pairs for q in pairs if (p != q).any() and (A @ p == A @ q).all()])


@pytest.mark.parametrize(("shape", "public"), CASES.values(), ids=CASES)
def test_the_norm_counts_swaps(shape, public):
    """The norm of two single changes is smaller for some noise, and at most equal: its mechanism needs more noise."""
    table, rng = labelled(shape), np.random.default_rng(1)
    A = public.on(table).A.toarray()
    moves = swaps(A)
    law = ppd.KNorm(public, 1, neighbours="swapped").law(public.on(table))
    single = ppd.KNorm(public, "1/2").law(public.on(table))
    smaller = 0
    for z in rng.integers(-3, 4, (12, len(moves))) @ moves:
        size = linprog(np.ones(len(moves)), A_eq=moves.T, b_eq=z).fun  # smallest sum of weights of moves to z
        assert -law.log_density(z.astype(float)) == pytest.approx(size)
        smaller += -single.log_density(z.astype(float)) < size - 1e-9
        assert -single.log_density(z.astype(float)) <= size + 1e-9
    assert smaller > 0 or shape == (2, 2, 2)


@pytest.mark.parametrize("epsilon", [1, "1/2"])
def test_noise_has_its_stated_law_on_a_coarse_grid(epsilon):
    """In two rows the norm is a quarter of the l1 norm; the law of two single changes is rejected."""
    table, step, draws = labelled((2, 3), 5), 0.5, 40_000
    k = np.arange(-80, 81) * step
    a, b = np.meshgrid(k, k, indexing="ij")
    size = (abs(a) + abs(b) + abs(a + b)) / 2
    p = np.exp(-float(ppd.KNorm(TWO_MARGINS, epsilon).epsilon) * size)
    p_values = []
    for loss, neighbours in ((epsilon, "swapped"), ("1/2" if epsilon == 1 else "1/4", "replaced")):
        mechanism = ppd.KNorm(TWO_MARGINS, loss, neighbours=neighbours, grid="1/2")
        noise = mechanism.draw(TWO_MARGINS.on(table), 0, draws, seeded_stream(3)).reshape(-1, 2, 3)
        assert (noise.sum(axis=1) == 0).all()
        assert (noise.sum(axis=2) == 0).all()
        place = np.rint(noise[:, 0, :2] / step).astype(int) + 80
        p_values.append(p_value(np.ravel_multi_index(place.T, p.shape), p / p.sum(), 10))
    assert p_values[0] > 1e-6 > p_values[1]


@pytest.mark.parametrize("case", ["2 x 3", "3 x 3", "rows"])
def test_losses_of_all_pairs_of_tables(case):
    """All tables with the margins of one with four records: exp(epsilon) within swaps, attained, and beyond it."""
    shape, public = CASES[case]
    table = np.zeros(shape, dtype=int)
    np.fill_diagonal(table, 1)
    table[0, 2] += 1
    table[1, 2] += 1
    system = public.on(labelled(shape, table))
    A, x = system.A.toarray(), table.ravel()
    tables = np.array([t for t in box(0, 3, x.size) if t.sum() == x.sum() and (A @ t == A @ x).all()])
    law = ppd.KNorm(public, "3/4", neighbours="swapped").law(system)
    released = tables[::3] + np.random.default_rng(2).integers(-4, 5, (len(tables[::3]), len(swaps(A)))) @ swaps(A)
    log_p = np.array([[law.log_density((y - t).astype(float)) for t in tables] for y in released])
    loss = abs(log_p[:, :, None] - log_p[:, None]).max(axis=0)
    records = abs(tables[:, None] - tables).sum(axis=-1) // 2
    assert loss[records <= 2].max() == pytest.approx(0.75)
    assert (loss <= 0.75 * np.maximum(records - 1, records > 0) + 1e-9).all() or case == "rows"
    assert records.max() > 2
    assert loss.max() > 0.75 + 1e-6


def test_guarantees_of_swaps():
    release = ppd.KNorm(TWO_MARGINS, "1/2", neighbours="swapped").release(labelled((2, 3), 5))
    assert (release.guarantee.nearest, float(release.guarantee.unit_loss.loss)) == (1, 0.5)
    assert "two records replaced such that every public sum is kept" in release.guarantee.describe()
    two = ppd.privacy.compose(release.guarantee, ppd.KNorm(TWO_MARGINS, "1/4", neighbours="swapped").guarantee)
    assert two.loss() == 0.75
    with pytest.warns(PrivacyWarning, match="fix 6 of 6 cells"):
        fixed = ppd.KNorm(inv.margin("a", "b"), 1, neighbours="swapped").release(labelled((2, 3), 5))
    assert fixed.guarantee.nearest is None


@pytest.mark.parametrize(
    ("public", "shape", "match"),
    [
        (inv.margin("a", "b") & inv.margin("b", "c") & inv.margin("a", "c"), (2, 2, 2), "do not connect all tables"),
        (inv.Public(), (2, 2), "state the total, disjoint sums or"),
        (inv.total(weights="size"), (3,), "do not connect all tables"),
    ],
)
def test_sums_that_swaps_do_not_connect_are_refused(public, shape, match):
    table = labelled(shape).assign_coords(size=("a", [1, 2, 4])) if len(shape) == 1 else labelled(shape)
    public = public & inv.covariates("size") if len(shape) == 1 else public
    with pytest.raises(PrivacyError, match=match):
        ppd.KNorm(public, 1, neighbours="swapped").release(table)
