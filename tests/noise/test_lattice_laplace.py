"""l1 noise on lattices by scale mixtures: random systems by enumeration, bounds by search, wrong variants."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import ctx, fmpq, fmpq_mat, fmpz_mat
from grids import box
from lattice_laws import enumerated, fit, total_variation, two_way
from scipy import optimize, stats

from ppdinf.errors import PrivacyError
from ppdinf.lattice import kernel, margin_matrix, structure
from ppdinf.laws import DoubleGeometric
from ppdinf.noise.exact.sampler_offer import Offer
from ppdinf.noise.exact.scale_mixture import klein_given_scales, mixture
from ppdinf.noise.exact.scale_mixture.klein_given_scales import SLACK
from ppdinf.noise.exact.scale_mixture.lattice_laplace import LatticeSystem, independent_modulo_2, lattice_basis, offer
from ppdinf.noise.exact.scale_mixture.lattice_scales import Leverages, LeverageScales
from ppdinf.noise.exact.scale_mixture.mixture import ScaleMixture
from ppdinf.noise.exact.scale_mixture.scales import LOG_ERROR, Excess, SumScales, log_theta
from ppdinf.noise.primitives.stream import seeded_stream

EVERY = 40  # random systems
QUICK = range(0, 72, 12)
EPSILONS = [Fraction(1, 2), Fraction(2, 3), Fraction(3, 4)]
FEWEST, MOST = 500, 750  # draws per system: the smallest number, used in the quick tier and for low acceptance rates
ATTEMPTS = 20_000  # at most one second
FAR = 5  # standard errors
RARE = 1e-4 / EVERY / 2  # false alarm rate of chi-square per system; below 1e-4 for all systems


def system_of(A):
    A = np.asarray(A)
    return LatticeSystem(A, kernel(A).basis.toarray())


def candidate(seed):
    """Return a system: margins, three-way tables, structural zeros, weighted cells or random integers."""
    rng, kind = np.random.default_rng(seed), seed % 5
    if kind == 0:
        return two_way(2, int(rng.integers(2, 5)))
    if kind == 1:
        if rng.random() < 0.2:
            return margin_matrix((2, 2, 3), [(0, 1), (1, 2), (0, 2)]).toarray()
        A = margin_matrix(
            (2, 2, int(rng.integers(2, 4))), [[(0,), (1,), (2,)], [(0, 1), (2,)]][rng.integers(2)]
        ).toarray()
        return A[:, np.sort(rng.permutation(A.shape[1])[: int(rng.integers(6, 11))])]
    if kind == 2:
        A = two_way(*rng.integers(3, 5, size=2))
        return A[:, np.sort(rng.permutation(A.shape[1])[: int(rng.integers(5, 9))])]
    if kind == 3:
        A = two_way(2, int(rng.integers(2, 4)))
        return A * rng.integers(1, 4, size=A.shape[1])
    return rng.integers(0, 6, size=(int(rng.integers(1, 4)), int(rng.integers(3, 7))))


def random_block(seed):
    """Return a system with one block, without fixed cells, of rank 1 to 3, that the sampler supports."""
    while True:
        A = candidate(seed)
        found = structure(A)
        if not found.fixed.any() and found.block_ranks.size == 1 and 1 <= found.lattice.rank <= 3:
            system = system_of(A)
            if max(system.leverages.exact) <= Fraction(9, 10):
                return A, system
        seed += 1_000


def score(seed, draws=None, drawn=1):
    """Compare draws of one system with its law; return the error of their mean size in standard errors."""
    A, system = random_block(seed)
    epsilon = EPSILONS[seed // 5 % 3]
    if seed % 8 < 3:
        system.sums = []  # leverages alone; nearly all other systems have sums to integrate out
    law = ScaleMixture(system, epsilon * drawn)
    draws = draws or int(np.clip(ATTEMPTS * law.acceptance, FEWEST, MOST))
    z = law.draw(draws, seeded_stream(seed))
    assert not (z @ A.T).any()
    truth = enumerated(A, "l1", epsilon, {1: 200, 2: 70, 3: 36}[system.m])
    if drawn == 1:
        assert fit(z, truth) > RARE, A
        distance, expected = total_variation(z, truth)
        # a draw changes the distance by at most 1 / draws: false alarm rate 1e-6 by McDiarmid
        assert distance < expected + math.sqrt(math.log(1e6) / (2 * draws)), A
    sizes, p = np.abs(np.array(list(truth))).sum(axis=1), np.array(list(truth.values()))
    mean = p @ sizes / p.sum()
    return (np.abs(z).sum(axis=1).mean() - mean) / np.sqrt(p @ (sizes - mean) ** 2 / draws)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("seed", QUICK)
def test_random_systems(seed):
    assert abs(score(seed, FEWEST)) < FAR


@pytest.mark.deep
@pytest.mark.parametrize("kind", range(5))
def test_systems_by_kind(kind):
    """About 15 systems one by one, and their mean sizes together."""
    scores = [score(seed) for seed in range(kind, EVERY, 5) if seed not in QUICK]
    assert abs(np.sum(scores)) < FAR * len(scores) ** 0.5


@pytest.mark.deep
def test_wrong_scale_is_rejected_by_all_systems_together():
    """An error of 5 % in epsilon gives 8 standard errors."""
    scores = [score(seed, MOST, Fraction(105, 100)) for seed in range(0, EVERY, 5) if seed not in QUICK]
    assert abs(np.sum(scores)) > FAR * len(scores) ** 0.5


# -- wrong variants -------------------------------------------------------------------------------------------

CROSSING = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 2]])


def p_value(A, epsilon, size=6_000, drawn=1):
    """Return the smallest p-value (Bonferroni) of chi-square over tables and of mean sizes of cells."""
    A = np.array(A)
    z = ScaleMixture(system_of(A), epsilon * drawn).draw(size, seeded_stream(3))
    truth = enumerated(A, "l1", epsilon, 60 if A.shape == (1, 3) else 36)

    def sizes(z):
        return np.column_stack([np.abs(z), np.abs(z).sum(axis=1)])

    listed, p = sizes(np.array(list(truth))), np.array(list(truth.values()))
    mean = p @ listed
    scores = (sizes(z).mean(axis=0) - mean) / np.sqrt(p @ (listed - mean) ** 2 / size)
    return (scores.size + 1) * min(fit(z, truth), 2 * stats.norm.sf(np.abs(scores).max()))


@pytest.mark.deep
class TestWrongVariantsAreRejected:
    def test_correct_variant(self):
        assert p_value(CROSSING, Fraction(3, 4)) > 1e-4
        assert p_value([[1, 1, 4]], Fraction(1)) > 1e-4
        assert p_value([[1, 2, 4]], Fraction(1, 2), 12_000) > 1e-4

    def test_scale(self):
        assert p_value(CROSSING, Fraction(3, 4), 12_000, Fraction(105, 100)) < 1e-4

    def test_ratio_capped_at_one(self, monkeypatch):
        """The ratio is compared with 1 instead of its bound."""
        monkeypatch.setattr(ScaleMixture, "log_keep", lambda self, drawn, t: min(0.0, drawn.log_ratio(t)))
        assert p_value([[1, 1, 4]], Fraction(1), 12_000) < 1e-4

    def test_theta_omitted(self, monkeypatch):
        """The extra mass of cells near zero is ignored."""
        monkeypatch.setattr(SumScales, "_draw_near", lambda self, size, _: np.zeros((size, len(self.gammas)), np.bool_))
        assert p_value(CROSSING, Fraction(3, 4)) < 1e-4

    def test_leverages_of_another_system(self, monkeypatch):
        before = Leverages.__init__

        def other(self, A):
            before(self, A)
            self.exact = self.exact[::-1]  # of weights 4, 2, 1

        monkeypatch.setattr(Leverages, "__init__", other)
        monkeypatch.setattr(Leverages, "integrated", lambda *_: None)
        assert p_value([[1, 2, 4]], Fraction(1, 2), 12_000) < 1e-4

    def test_power_of_another_sum(self, monkeypatch):
        before = SumScales.__init__
        monkeypatch.setattr(SumScales, "__init__", lambda self, g, s, beta, e: before(self, g, s, beta / 2, e))
        assert p_value([[1, 2, 4]], Fraction(1, 2), 12_000) < 1e-4

    def test_weights_of_a_sum_ignored(self, monkeypatch):
        before = SumScales.__init__
        monkeypatch.setattr(SumScales, "__init__", lambda self, g, s, *rest: before(self, g, (1,) * len(s), *rest))
        assert p_value([[1, 2, 4]], Fraction(1, 2), 12_000) < 1e-4

    def test_determinant_omitted(self, monkeypatch):
        monkeypatch.setattr(LeverageScales, "log_keep", lambda self, values: np.zeros(len(values)))
        assert p_value(CROSSING, Fraction(3, 4)) < 1e-4

    def test_support_not_corrected_for(self, monkeypatch):
        monkeypatch.setattr(mixture, "kept_for_spanning_tree", lambda *_: True)
        assert p_value(CROSSING, Fraction(3, 4)) < 1e-4


# -- decisions and bounds ---------------------------------------------------------------------------------------


def test_balls_agree_with_floating_point():
    law, stream = ScaleMixture(system_of(CROSSING), Fraction(1, 2)), seeded_stream(4)
    scales = law.scales.draw(2_000, stream)
    logs = scales.log_keep()
    assert logs.max() <= 0
    checked = 0
    for i in range(60):
        t, wide = scales.values[i], scales.values[i] >= float(law.width)
        with ctx.workprec(192):
            np.testing.assert_allclose(t[0], [float(x) for x in scales.enclose(i)[0]], rtol=LOG_ERROR)
            assert abs(float(scales.enclose_keep(i).log()) - logs[i]) < 2.0**-20
        if (path := law.system.support(wide, law.path)) is None:
            continue
        drawn = law.system.noise(t, wide, path, stream)
        with ctx.workprec(192):
            found = float(law.enclose_keep(drawn, scales, i).log())
        assert found <= 0
        assert abs(found - law.log_keep(drawn, t)) < 2.0**-24
        checked += 1
    assert checked > 20


def test_inaccurate_determinants_are_enclosed():
    """Scales of which most are near 0, and the same determinant by rational numbers."""
    law = LeverageScales(Leverages(CROSSING[:, [0, 2, 3, 4]]), [], Fraction(1), Fraction(1), Fraction(3))
    t = np.array([2.0**-60, 1.0, 2.0**-60, 2.0**-58])
    exact = [[Fraction(0)] * 2 for _ in range(2)]
    for i, j, e in itertools.product(range(2), range(2), range(4)):
        exact[i][j] += Fraction(t[e]) * int(law.leverages.A[i, e] * law.leverages.A[j, e])
    det = exact[0][0] * exact[1][1] - exact[0][1] ** 2
    shares = [float(p) for p in law.leverages.exact]
    expected = 0.5 * (math.log(law.leverages.determinant) + np.log(t) @ shares - math.log(det))
    assert law.log_keep(t[np.newaxis, np.newaxis])[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("A", [CROSSING, margin_matrix((2, 2, 2), [(0,), (1,), (2,)]).toarray(), [[2, 3, 5, 1]]])
def test_the_determinant_is_above_its_bound(A):
    """A search over scales: the ratio is largest, 1, if all scales are equal."""
    law = system_of(A).scales(Fraction(1), Fraction(1), Fraction(3))
    d = law.leverages.A.shape[1]

    def loss(logs):
        return -float(law.log_keep(np.exp(logs).reshape(1, 1, d))[0])

    found = [optimize.minimize(loss, np.random.default_rng(seed).normal(0, 2, d)).fun for seed in range(6)]
    assert min(found) > -1e-9
    assert min(found) < 1e-5


def test_rounding_is_bounded():
    """The quadratic form of the proposal is below the true form for all scales: rational arithmetic, all minors."""
    rng, basis = (
        np.random.default_rng(0),
        kernel(margin_matrix((2, 2, 2), [(0,), (1,), (2,)]).toarray()).basis.toarray(),
    )
    m = basis.shape[1]
    for _ in range(20):
        t = np.exp(rng.normal(0, 3, len(basis)))
        precision = (basis / t[:, np.newaxis]).T @ basis
        lower, rounding = klein_given_scales.triangle(precision, len(basis))
        assert rounding + LOG_ERROR < SLACK
        drawn = klein_given_scales.draw_on(basis, t, seeded_stream(1))
        np.testing.assert_array_equal(drawn.squares, np.diag(lower) ** 2 * (1 - SLACK))
        factor = lower / np.diag(lower)
        left = [[Fraction(0)] * m for _ in range(m)]
        for i, j in itertools.product(range(m), repeat=2):
            for e in range(len(basis)):
                left[i][j] += int(basis[e, i] * basis[e, j]) / Fraction(t[e]) * (1 - Fraction(LOG_ERROR))
            for k in range(m):
                left[i][j] -= Fraction(factor[i, k]) * Fraction(factor[j, k]) * Fraction(drawn.squares[k])
        for size in range(1, m + 1):
            minor = [[fmpq(x.numerator, x.denominator) for x in row[:size]] for row in left[:size]]
            assert fmpq_mat(minor).det() > 0


def test_rounding_beyond_bounds_stops_the_sampler():
    nearly = np.array([[1, 1], [1, 1], [-2, -2]]) * 10**6 + np.array([[1, 0], [0, 1], [-1, -1]])
    with pytest.raises(PrivacyError, match="rounding"):
        klein_given_scales.draw_on(nearly, np.ones(3), seeded_stream(1))


@pytest.mark.parametrize("A", [CROSSING, two_way(3, 3)[:, 1:], [[2, 3, 5]]])
def test_the_ratio_is_below_its_bound(A):
    """A search for the largest product of theta3 over the variances, which bounds the ratio for all noise."""
    width, system = 2.0, system_of(A)
    path, d = system.paths[0], system.shape[1]
    excess = Excess(Fraction(1), Fraction(2), path / 2, 0.2)

    def margin(logs):
        t = np.exp(logs).reshape(1, d)
        wide = t >= width
        if system.support(wide, path) is None:
            return 1.0
        drawn = system.noise(t, wide, path, seeded_stream(0))
        found = log_theta(1 / (drawn.squares / (1 - SLACK))).sum()
        assert drawn.log_ratio(t) - 0.5 * system.m * math.log1p(-SLACK) <= found + system.m * SLACK
        return system.m * excess.log_flat + excess.log(t).sum() - found

    rng, worst = np.random.default_rng(1), math.inf
    for _ in range(8):
        start = np.where(rng.random(d) < 0.7, np.log(width) + rng.exponential(0.2, d), rng.normal(-1, 1, d))
        worst = min(worst, optimize.minimize(margin, start, method="Nelder-Mead", options={"maxiter": 120}).fun)
    assert 0 <= worst < 1


@pytest.mark.parametrize(
    "A", [CROSSING, [[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 2, 1]]]
)
def test_the_lattice_sum_is_below_its_bound(A):
    """Y(T) by enumeration, independent of the sampler, and its largest value over scales by search."""
    system = system_of(A)
    basis, d = system.moves.basis, system.shape[1]
    x = box(-14, 14, system.m)
    z, path, width = x @ basis.T, system.paths[0], 1.0
    excess = Excess(Fraction(1), Fraction(1), Fraction(path), 0.2)

    def margin(logs):
        t = np.exp(np.minimum(logs, 2.0))
        if system.support(t[np.newaxis] >= width, path) is None:
            return 1.0
        gram = (basis / t[:, np.newaxis]).T @ basis
        log_y = np.log(np.exp(-0.5 * (z**2 / t).sum(axis=1)).sum()) - 0.5 * system.m * math.log(2 * math.pi)
        return system.m * excess.log_flat + excess.log(t).sum() - log_y - 0.5 * np.linalg.slogdet(gram)[1]

    rng, worst = np.random.default_rng(2), math.inf
    for _ in range(4):
        start = np.where(rng.random(d) < 0.7, rng.exponential(0.2, d), rng.normal(-1, 1, d))
        worst = min(worst, optimize.minimize(margin, start, method="Nelder-Mead", options={"maxiter": 80}).fun)
    assert 0 < worst < 1


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


def test_acceptance_is_predicted_within_a_factor_of_two():
    for A, epsilon in ((CROSSING, Fraction(3, 4)), (margin_matrix((3, 3, 2), [(0,), (1,), (2,)]).toarray(), "1/4")):
        law, stream, kept, tries = ScaleMixture(system_of(A), Fraction(epsilon)), seeded_stream(5), 0, 0
        while kept < 100:
            kept += sum(1 for _ in law._attempts(400, stream))
            tries += 400
        assert 0.5 < law.acceptance / (kept / tries) < 2


@pytest.mark.quick_cases(0)
def test_margins_of_three_dimensions_are_supported():
    A = margin_matrix((4, 4, 4), [(0,), (1,), (2,)]).toarray()
    found = offer(structure(A), DoubleGeometric("1/4"), np.arange(64))
    assert isinstance(found, Offer)
    z = found.build()(40, seeded_stream(1))
    assert not (z @ A.T).any()
    # wide noise: |z|_1 has the continuous law, Gamma with shape 54 and rate epsilon by homogeneity
    assert abs(np.abs(z).sum(axis=1).mean() / 216 - 1) < 6 / np.sqrt(54 * 40)


@pytest.mark.deep
def test_two_way_margins_of_three_dimensions_are_supported():
    """Sixteen of 37 sums are integrated out; otherwise the acceptance rate would be 2e-6."""
    A = margin_matrix((4, 4, 4), [(0, 1), (1, 2), (0, 2)]).toarray()
    found = offer(structure(A), DoubleGeometric("1/4"), np.arange(64))
    assert isinstance(found, Offer)
    assert found.acceptance > 1e-4
    z = found.build()(10, seeded_stream(1))
    assert not (z @ A.T).any()
    assert abs(np.abs(z).sum(axis=1).mean() / 108 - 1) < 6 / np.sqrt(27 * 10)  # Gamma with shape 27 and rate epsilon


def test_large_ranks_are_not_supported():
    A = two_way(40, 40)
    assert offer(structure(A), DoubleGeometric("1/4"), np.arange(1600)) is None
