"""Scales of the cells of sums, short vectors and the sums of a lattice: densities by integration, bounds by search."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import ctx, fmpz_mat
from lattice_laws import two_way
from scipy import optimize, stats
from test_scale_mixture import CROSSING, random_block, system_of

from ppdinf.lattice import margin_matrix, structure
from ppdinf.laws import DoubleGeometric
from ppdinf.noise.exact.sampler_offer import Offer
from ppdinf.noise.exact.scale_mixture.lattice_laplace import independent_modulo_2, lattice_basis, offer
from ppdinf.noise.exact.scale_mixture.lattice_scales import DisjointSum, LeverageScales, disjoint
from ppdinf.noise.exact.scale_mixture.scales import LOG_ERROR, Excess, SumScales
from ppdinf.noise.exact.scale_mixture.two_way_laplace import TwoWayTable
from ppdinf.noise.primitives.lazy_reals import LazyReals
from ppdinf.noise.primitives.stream import seeded_stream

MIXED = (Fraction(1, 6), Fraction(1, 10), Fraction(1, 6))


def of(gammas, squares, beta, end=Fraction(1, 2)):
    return SumScales(gammas, squares, beta, Excess(Fraction(1), end, Fraction(4), float(gammas[0])))


def masses(law):
    """Return sets of cells near zero, and their weights by integration over the other cells."""
    rate, bound = law.excess.bounded
    found = {}
    for near in itertools.product([False, True], repeat=len(law.gammas)):
        far = [float(1 - g) for g, n in zip(law.gammas, near, strict=True) if not n]
        if not far:
            continue
        log = math.lgamma(sum(far) - law.beta) - math.lgamma(sum(far)) + sum(map(math.lgamma, far))
        log -= (sum(far) - float(law.beta)) * math.log(law.excess.rate)
        for g, n in zip(law.gammas, near, strict=True):
            if n:
                log += math.log(bound) + math.lgamma(0.5 - g) - (0.5 - float(g)) * math.log(rate)
        found[near] = math.exp(log)
    return found


@pytest.mark.parametrize("gammas", [MIXED, (Fraction(1, 10),) * 4])
def test_sets_of_cells_near_zero_have_their_law(gammas):
    law = of(gammas, (1,) * len(gammas), Fraction(2, 5))
    drawn = law._draw_near(40_000, seeded_stream(1))
    weights = masses(law)
    expected = np.array(list(weights.values())) / sum(weights.values()) * len(drawn)
    observed = [int((drawn == near).all(axis=1).sum()) for near in weights]
    assert sum(observed) == len(drawn)
    assert stats.chisquare(observed, expected).pvalue > 1e-5
    # power: the sets of independent cells, without the power of the sum
    alone = np.array([weights[near] / lowered(law, near) for near in weights])
    assert stats.chisquare(observed, alone / alone.sum() * len(drawn)).pvalue < 1e-5


def lowered(law, near):
    shape = sum(1 - g for g, n in zip(law.gammas, near, strict=True) if not n)
    return math.gamma(shape - law.beta) / math.gamma(shape)


@pytest.mark.parametrize("gammas", [MIXED, (Fraction(1, 60),) * 30, (Fraction(7, 16), Fraction(1, 8))])
def test_the_lift_bounds_every_set(gammas):
    law = of(gammas, (1,) * len(gammas), Fraction(2, 5))
    for n in range(1, len(gammas)):
        for near in itertools.islice(itertools.combinations(range(len(gammas)), n), 40):
            shape = law.shape - sum(1 - gammas[e] for e in near)
            assert law._log_falling(shape) - law._log_falling(law.shape) <= n * math.log(law.lift)


@pytest.mark.parametrize("squares", [(1, 1), (1, 4)])
def test_density_of_two_cells(squares):
    """Compare with the density by numerical integration; at most one cell is drawn from its excess."""
    gammas, beta = (Fraction(1, 6), Fraction(1, 10)), Fraction(1, 3)
    law, stream = of(gammas, squares, beta), seeded_stream(1)
    t = law.draw(20_000, LazyReals(stream), stream).values
    ends = np.array([0.0, 0.02, 0.06, 0.15, 0.5, 1.5, 4.0, 60.0])
    edges = [np.linspace(low**0.25, high**0.25, 60) ** 4 for low, high in itertools.pairwise(ends)]
    middles, widths = [(e[1:] + e[:-1]) / 2 for e in edges], [np.diff(e) for e in edges]

    def mass(power):
        found = np.zeros((7, 7))
        for i, j in itertools.product(range(7), repeat=2):
            x, y = middles[i][:, None], middles[j]
            one, two = np.expm1(law.excess.log(x)), np.expm1(law.excess.log(y))
            density = (squares[0] * x + squares[1] * y) ** -power * x ** -float(gammas[0]) * y ** -float(gammas[1])
            density = density * np.exp(-(x + y) / 2) * (1 + one + two)
            found[i, j] = (density * widths[i][:, None] * widths[j]).sum()
        return (found / found.sum()).ravel()

    def score(power):
        observed, expected = np.histogram2d(t[:, 0], t[:, 1], bins=ends)[0].ravel(), mass(power) * len(t)
        pooled = expected > 20
        return ((observed - expected)[pooled] ** 2 / expected[pooled]).sum() / stats.chi2.isf(1e-6, pooled.sum())

    assert score(float(beta)) < 1.1
    assert score(float(beta) - 0.1) > 1.5


def test_balls_agree_with_floating_point():
    law, stream = of(MIXED, (1, 4, 9), Fraction(1, 3)), seeded_stream(2)
    reals = LazyReals(stream)
    part = law.draw(300, reals, stream)
    assert part.near.any()
    with ctx.workprec(192):
        exact = [[float(x) for x in law.enclose(part, i, reals)] for i in range(300)]
    np.testing.assert_allclose(part.values, exact, rtol=LOG_ERROR)


def test_integrated_sums():
    three = margin_matrix((3, 3, 3), [(0, 1), (1, 2), (0, 2)]).toarray()
    assert [len(one.cells) for one in system_of(three).sums] == [3] * 9
    slices = margin_matrix((2, 3, 4), [(0,), (1,), (2,)]).toarray()
    assert [len(one.cells) for one in system_of(slices).sums] == [6] * 4
    rows = system_of(two_way(3, 5)).sums  # the five columns
    assert [one.power for one in rows] == [Fraction(4, 5)] * 5


def test_sums_are_disjoint():
    sums = [one for row in two_way(4, 4) if (one := system_of(two_way(4, 4)).leverages.integrated(row)) is not None]
    found = disjoint(sums, 16)
    assert len(found) == 4
    assert len(np.unique(np.concatenate([one.cells for one in found]))) == 16


@pytest.mark.parametrize(
    "system",
    [
        *map(system_of, (CROSSING, [[2, 3, 5, 1]], two_way(3, 3))),
        *(system_of(margin_matrix((2, 2, n), [(0,), (1,), (2,)]).toarray()) for n in (2, 3)),
        system_of(margin_matrix((2, 3, 2), [(0, 1), (1, 2), (0, 2)]).toarray()),
        system_of([[1, 1, 2, 0, 0, 0], [0, 0, 0, 1, 3, 1], [1, 2, 0, 0, 1, 1]]),
        TwoWayTable((4, 3)),
    ],
)
def test_the_determinant_is_above_its_bound(system):
    """A search over scales: the ratio is largest, 1, if all scales are equal."""
    assert -1e-9 < min(ratios(system.scales(Fraction(1), Fraction(1), Fraction(3)), *system.shape)) < 1e-5


def with_structural_zeros(shape, margins, holes, seed):
    cells = np.random.default_rng(seed).permutation(np.prod(shape))[holes:]
    return margin_matrix(shape, margins).toarray()[:, np.sort(cells)]


WITH_HOLES = {
    "3 x 4, two holes": two_way(3, 4)[:, [e for e in range(12) if e not in (0, 5)]],
    "4 x 5, four holes": with_structural_zeros((4, 5), [(0,), (1,)], 4, 2),
    "3 x 3 x 3, three holes": with_structural_zeros((3, 3, 3), [(0, 1), (1, 2), (0, 2)], 3, 3),
    "2 x 3 x 3 of one-way sums, four holes": with_structural_zeros((2, 3, 3), [(0,), (1,), (2,)], 4, 4),
    "weights": np.array(
        [[1, 1, 2, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 3, 1, 2], [1, 2, 0, 1, 1, 1, 3, 1], [0, 1, 1, 2, 2, 0, 1, 1]]
    ),
}


def ratios(law, *shape, starts=4):
    """Yield the smallest log ratio of the determinant to its bound, by searches over scales from several starts."""

    def loss(logs):
        return -float(law.log_keep(np.exp(logs).reshape(1, *shape))[0])

    d = math.prod(shape)
    assert loss(np.zeros(d)) == pytest.approx(0, abs=1e-9)
    for n in range(starts):
        yield optimize.minimize(loss, np.random.default_rng(n).normal(0, 2, d), bounds=[(-12, 12)] * d).fun


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("holes", WITH_HOLES)
def test_sums_with_structural_zeros_have_smaller_powers(holes):
    """With the power 1, which is valid for sums without shared cells, the bound does not hold."""
    A = WITH_HOLES[holes]
    assert np.linalg.matrix_rank(A) < A.shape[1]
    system = system_of(A)
    assert all(one.power >= Fraction(1, 4) for one in system.sums)  # if beta variables can be drawn
    assert any(one.power.denominator in {2**k for k in range(1, 11)} for one in system.sums)
    law = system.scales(Fraction(1), Fraction(1), Fraction(3))
    assert min(ratios(law, *system.shape)) > -1e-9
    whole = [DisjointSum(one.cells, one.entries, Fraction(1)) for one in system.sums]
    other = LeverageScales(system.leverages, whole, Fraction(1), Fraction(1), Fraction(3))
    assert any(ratio < -1e-3 for ratio in ratios(other, *system.shape))


@pytest.mark.parametrize("A", [CROSSING, margin_matrix((2, 2, 2), [(0,), (1,), (2,)]).toarray(), [[2, 3, 5, 1]]])
def test_further_wide_cells_preserve_support(A):
    moves = system_of(A).moves
    for path in (length - 1 for length in moves.lengths):
        patterns = np.array(list(itertools.product([False, True], repeat=moves.d)))
        supported = {p.tobytes(): moves.supports(p, path) for p in patterns}
        assert 0 < sum(supported.values()) < len(supported)
        for p in patterns:
            for cell in np.flatnonzero(~p):
                more = p.copy()
                more[cell] = True
                assert supported[p.tobytes()] <= supported[more.tobytes()]


@pytest.mark.parametrize("seed", range(8))
def test_bases_on_wide_cells(seed):
    """The bases span the lattice, and their parts satisfy the bound of the pattern."""
    rng = np.random.default_rng(seed)
    system = random_block(2 + 5 * seed)[1] if seed % 2 else system_of(two_way(4, 4)[:, rng.permutation(16)[:14]])
    moves, path = system.moves, system.paths[0]
    for _ in range(30):
        wide = rng.random(moves.d) < 0.7
        if not moves.supports(wide, path):
            continue
        t = np.where(wide, 1 + rng.exponential(3, moves.d), rng.exponential(0.3, moves.d))
        basis = moves.basis_on(t, wide, path)
        assert not (system.leverages.A @ basis).any()
        gram = fmpz_mat(basis.T.tolist()) * fmpz_mat(basis.tolist())
        own = fmpz_mat(moves.basis.T.tolist()) * fmpz_mat(moves.basis.tolist())
        assert gram.det() == own.det()
        lengths = np.diag(np.linalg.cholesky((basis / t[:, np.newaxis]).T @ basis)) ** 2
        narrow = np.flatnonzero(~wide)
        assert (lengths[: moves.m - narrow.size] <= path + 1 + 1e-9).all()
        of_cell = lengths[moves.m - narrow.size :]
        assert (of_cell <= 1 / t[narrow] + path + 1e-9).all()


def test_vectors_of_odd_index_are_completed_to_a_basis():
    basis = np.array([[1, 0], [0, 1], [-1, -1]])
    found = basis @ np.array([[1, 2], [-1, 1]])  # of index 3
    assert independent_modulo_2(np.packbits(found.T & 1, axis=1), np.arange(2), 2).size == 2
    mended = lattice_basis(basis, found)
    x = np.linalg.lstsq(basis.astype(float), mended.astype(float))[0]
    assert abs(np.linalg.det(x)) == pytest.approx(1)
    before, after = (np.diag(np.linalg.qr(b.astype(float))[1]) for b in (found, mended))
    assert (abs(after) <= abs(before) + 1e-9).all()


@pytest.mark.parametrize(
    ("margins", "draws", "free", "least"),
    [
        pytest.param([(0,), (1,), (2,)], 40, 54, 0, marks=pytest.mark.quick_cases(0)),
        pytest.param([(0, 1), (1, 2), (0, 2)], 10, 27, 1e-4, marks=pytest.mark.deep),
    ],
)
def test_margins_of_three_dimensions_are_supported(margins, draws, free, least):
    """Of two-way margins, 16 of 37 sums are integrated out; otherwise the acceptance rate would be 2e-6."""
    A = margin_matrix((4, 4, 4), margins).toarray()
    found = offer(structure(A), DoubleGeometric("1/4"), np.arange(64))
    assert isinstance(found, Offer)
    assert found.acceptance > least
    z = found.build()(draws, seeded_stream(1))
    assert not (z @ A.T).any()
    # wide noise: |z|_1 has the continuous law, Gamma with this shape and rate epsilon by homogeneity
    assert abs(np.abs(z).sum(axis=1).mean() / (4 * free) - 1) < 6 / np.sqrt(free * draws)


def test_large_ranks_are_not_supported():
    A = two_way(40, 40)
    assert offer(structure(A), DoubleGeometric("1/4"), np.arange(1600)) is None
