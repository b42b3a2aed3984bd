"""l1 noise on two-way tables by scale mixtures: laws by enumeration, bounds by search, wrong variants."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import ctx, fmpq, fmpq_mat
from grids import box
from lattice_laws import enumerated, fit, margins_law, total_variation, two_way
from scipy import optimize, stats

from ppdinf.errors import PrivacyError
from ppdinf.noise.exact.scale_mixture import lattice_laplace, mixture, two_way_laplace
from ppdinf.noise.exact.scale_mixture.klein_given_scales import SLACK, RowCoordinates
from ppdinf.noise.exact.scale_mixture.mixture import (
    HOPELESS,
    _log_stays_narrow,
    _StaysNarrow,
    kept_for_spanning_tree,
    root_of,
)
from ppdinf.noise.exact.scale_mixture.scales import LOG_ERROR, SumScales, log_theta
from ppdinf.noise.exact.scale_mixture.two_way_laplace import (
    RowScales,
    TwoWayLaplace,
    TwoWayTable,
    draw_given_scales,
    spine_rows,
)
from ppdinf.noise.primitives.lazy_reals import LazyReals, betas, enclose_beta, enclose_gamma, gammas
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream

QUICK = [((3, 3), Fraction(1, 2), 14)]
SMALL = [
    ((2, 3), Fraction(1, 2), 40),
    ((2, 2), Fraction(1), 30),
    ((3, 3), Fraction(1), 10),
    ((2, 2), Fraction(3), 15),
    ((3, 2), Fraction(1), 25),
    ((2, 4), Fraction(1), 14),
    ((4, 2), Fraction(3, 2), 12),
    ((2, 3), Fraction(5, 2), 12),
]


def law_of(shape, epsilon, reach):
    if shape == (3, 3):
        return margins_law(float(epsilon), "l1", reach)
    return enumerated(two_way(*shape), "l1", epsilon, reach)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(
    ("shape", "epsilon", "reach"), QUICK + [pytest.param(*one, marks=pytest.mark.deep) for one in SMALL]
)
def test_small_tables(shape, epsilon, reach):
    z = TwoWayLaplace(shape, epsilon).draw(3_000, seeded_stream(reach))
    assert not (z @ two_way(*shape).T).any()
    truth = law_of(shape, epsilon, reach)
    assert fit(z, truth) > 1e-6
    distance, expected = total_variation(z, truth)
    assert distance < expected + 0.02


def p_value(law, size=4_000):
    """Return twice the smaller p-value of chi-square over tables and of the mean size."""
    z, truth = law.draw(size, seeded_stream(3)), margins_law(1.0, "l1", 10)
    sizes, p = np.abs(np.array(list(truth))).sum(axis=1), np.array(list(truth.values()))
    mean = p @ sizes
    score = (np.abs(z).sum(axis=1).mean() - mean) / np.sqrt(p @ (sizes - mean) ** 2 / size)
    return 2 * min(fit(z, truth), 2 * stats.norm.sf(abs(score)))


@pytest.mark.deep
class TestWrongVariantsAreRejected:
    """Variants on 3 x 3 margins at epsilon 1, where part of the cells is near zero."""

    def test_correct_variant(self):
        assert p_value(TwoWayLaplace((3, 3), Fraction(1))) > 1e-4

    @pytest.mark.deep
    def test_scale(self):
        assert p_value(TwoWayLaplace((3, 3), Fraction(21, 20)), 8_000) < 1e-4

    def test_ratio_capped_at_one(self, monkeypatch):
        """The ratio is compared with 1 instead of its bound."""
        monkeypatch.setattr(TwoWayLaplace, "log_keep", lambda self, drawn, t: min(0.0, drawn.log_ratio(t)))
        assert p_value(TwoWayLaplace((3, 3), Fraction(1))) < 1e-4

    def test_theta_omitted(self, monkeypatch):
        """The extra mass of cells near zero is ignored."""
        monkeypatch.setattr(SumScales, "_draw_near", lambda self, size, stream: np.zeros((size, 3), dtype=np.bool_))
        assert p_value(TwoWayLaplace((3, 3), Fraction(1))) < 1e-4

    @pytest.mark.deep
    def test_exponents_of_another_table(self, monkeypatch):
        before = RowScales.__init__

        def other(self, shape, *rest):
            before(self, shape, *rest)
            self.row = SumScales((Fraction(1, 20),) * 3, (1,) * 3, Fraction(9, 20), self.excess)  # of ten rows

        monkeypatch.setattr(RowScales, "__init__", other)
        assert p_value(TwoWayLaplace((3, 3), Fraction(1))) < 1e-4

    def test_spanning_tree_not_corrected_for(self, monkeypatch):
        monkeypatch.setattr(mixture, "kept_for_spanning_tree", lambda *_: True)
        assert p_value(TwoWayLaplace((3, 3), Fraction(1))) < 1e-4

    @pytest.mark.deep
    def test_determinant_omitted(self, monkeypatch):
        monkeypatch.setattr(two_way_laplace, "_log_keep", lambda values, of: np.zeros(len(values)))
        assert p_value(TwoWayLaplace((3, 3), Fraction(1))) < 1e-4


@pytest.mark.quick_cases(0)
def test_noise_of_larger_tables():
    """Tables with and without a spine preserve sums and have the size and correlation of independent cells."""
    for shape in ((7, 5), (5, 7), (12, 4)):
        z = TwoWayLaplace(shape, Fraction(1, 4)).draw(200, secure_stream())
        assert not (z @ two_way(*shape).T).any()
        r, c = shape
        # wide noise: E |z|_1 of the continuous law is (r - 1)(c - 1) / epsilon by homogeneity
        total = np.abs(z).sum(axis=1)
        assert abs(total.mean() * 0.25 - (r - 1) * (c - 1)) < 6 * np.sqrt((r - 1) * (c - 1) / 200) + 0.2


@pytest.mark.parametrize("shape", [(3, 3), (6, 4)])
def test_very_wide_noise(shape):
    """Squares of the noise exceed 64 bits."""
    z, (r, c) = TwoWayLaplace(shape, Fraction(1, 10**10)).draw(60, seeded_stream(2)), shape
    assert not (z @ two_way(*shape).T).any()
    assert abs(np.abs(z).sum(axis=1).mean() / 1e10 / ((r - 1) * (c - 1)) - 1) < 6 / math.sqrt((r - 1) * (c - 1) * 60)


def test_too_wide_noise_raises_before_it_starts():
    with pytest.raises(PrivacyError, match="larger epsilon"):
        TwoWayLaplace((10, 10), Fraction(1, 10**12))


# -- decisions ------------------------------------------------------------------------------------------------


def test_gamma_and_beta_variables():
    stream = seeded_stream(1)
    reals = LazyReals(stream)
    for shape in (Fraction(59, 60), Fraction(1, 2), Fraction(1, 4)):
        values, places = gammas(shape, 50_000, reals, stream)
        assert stats.kstest(values, stats.gamma(float(shape)).cdf).pvalue > 1e-5
        with ctx.workprec(192):
            exact = [float(enclose_gamma(shape, reals.enclose(int(place)))) for place in places[:200]]
        np.testing.assert_allclose(values[:200], exact, rtol=2.0**-35)
    for a, b in itertools.product((Fraction(1, 2), Fraction(57, 2)), (Fraction(29, 60), Fraction(1, 4))):
        values, places = betas(np.full(50_000, float(a)), [a] * 50_000, b, reals, stream)
        assert stats.kstest(np.exp(-values / float(a)), stats.beta(float(a), float(b)).cdf).pvalue > 1e-5
        with ctx.workprec(192):
            exact = [float(enclose_beta(b, reals.enclose(int(place)))) for place in places[:200]]
        np.testing.assert_allclose(values[:200], exact, rtol=2.0**-35)


def test_gamma_variables_near_the_ends():
    """First words of only zeros or ones: ball arithmetic requires more digits."""
    for extreme in (0, 2**64 - 1):
        given = [np.full(1, extreme, dtype=np.uint64)] * 5
        later = seeded_stream(2)

        def stream(n, given=given, later=later):
            return np.full(n, given.pop()[0]) if given else later(n)

        reals = LazyReals(stream)
        values, places = gammas(Fraction(1, 2), 1, reals, later)
        assert 0 < values[0] < np.inf
        with ctx.workprec(192):
            assert float(enclose_gamma(Fraction(1, 2), reals.enclose(int(places[0])))) == pytest.approx(values[0])


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("shape", "epsilon"), [((3, 3), Fraction(1)), ((4, 3), Fraction(1, 4)), ((9, 6), Fraction(1, 4))]
)
def test_balls_agree_with_floating_point(shape, epsilon):
    law, stream = TwoWayLaplace(shape, epsilon), seeded_stream(4)
    scales = law.scales.draw(20_000 // math.prod(shape), stream)
    logs = scales.log_keep()
    assert logs.max() <= 0
    checked = 0
    for i in np.argsort(-logs)[:40].tolist():
        t, wide = scales.values[i], scales.values[i] >= float(law.width)
        with ctx.workprec(192):
            exact = np.array([[float(x) for x in row] for row in scales.enclose(i)])
            np.testing.assert_allclose(t, exact, rtol=LOG_ERROR)
            assert abs(float(scales.enclose_keep(i).log()) - logs[i]) < 2.0**-30
        if (root := root_of(wide, law.path)) is None:
            continue
        drawn = draw_given_scales(t, wide, root, stream)
        with ctx.workprec(192):
            found = float(law.enclose_keep(drawn, scales, i).log())
        assert found <= 0
        assert abs(found - law.log_keep(drawn, t)) < 2.0**-26
        checked += 1
    assert checked > 10


# -- the bounds -----------------------------------------------------------------------------------------------


def test_the_determinant_is_above_its_bound():
    """A search over scales of a 3 x 4 table: the ratio is largest, 1, if all scales are equal."""

    def loss(logs):
        return -float(two_way_laplace._log_keep(np.exp(logs).reshape(1, 4, 3), 4)[0])

    found = [optimize.minimize(loss, np.random.default_rng(seed).normal(0, 2, 12)).fun for seed in range(8)]
    assert min(found) > -1e-12
    assert min(found) < 1e-6
    t = np.random.default_rng(1).gamma(1, size=(4, 3))
    A = two_way(4, 3)[:-1]
    log_det = np.linalg.slogdet((A * t.ravel()) @ A.T)[1]
    free = 2 * np.log(4) + 0.75 * np.log(t.sum(axis=1)).sum() + 0.25 * np.log(t).sum()
    assert float(two_way_laplace._log_keep(t[np.newaxis], 4)[0]) == pytest.approx((free - log_det) / 2, abs=1e-12)


def staged(shape, monkeypatch, size=40_000):
    """Return scores of four functions: scales accepted in at least four stages against weighted scales."""
    monkeypatch.setattr(two_way_laplace, "STAGE", 0.05)
    law = RowScales(shape, Fraction(1), Fraction(1), Fraction(3))
    assert len(law.stages) >= 4
    kept, scales = law.kept(size, seeded_stream(1)).values, law.draw(size, seeded_stream(2))
    weights = np.exp(scales.log_keep())
    share = len(kept) / size
    scores = [(share - weights.mean()) / np.sqrt((share * (1 - share) + weights.var()) / size)]
    for look in (lambda t: t.reshape(len(t), -1), lambda t: t.sum(axis=1), lambda t: t.sum(axis=2)):
        own, other = (np.log(look(t)).std(axis=1) for t in (kept, scales.values))
        off = weights * (other - own.mean()) / weights.mean()
        scores.append(off.mean() / np.sqrt(own.var() / len(own) + off.var() / size))
    return np.array(scores)


@pytest.mark.quick_cases(0)
def test_stages_have_the_law_of_a_single_stage(monkeypatch):
    """The false alarm rate is 3e-5: 4.5 standard errors of four normal scores."""
    assert np.abs(staged((9, 6), monkeypatch)).max() < 4.5


@pytest.mark.quick_cases(0)
def test_wrong_stages_are_rejected(monkeypatch):
    """If the first rows are compared with all rows, some probabilities to continue would exceed 1."""
    right = two_way_laplace._log_keep
    monkeypatch.setattr(two_way_laplace, "_log_keep", lambda values, of: right(values, values.shape[1]))
    assert np.abs(staged((9, 6), monkeypatch)).max() > 8


def test_acceptance_decreases_with_rows():
    """A search for rows whose scales would increase the acceptance probability of a table."""
    for rows, before in ((2, 1), (4, 2), (5, 3)):

        def gain(logs, rows=rows, before=before):
            t = np.exp(logs).reshape(1, rows, 3)
            return -float((two_way_laplace._log_keep(t, 6) - two_way_laplace._log_keep(t[:, :before], 6))[0])

        found = [optimize.minimize(gain, np.random.default_rng(n).normal(0, 2, 3 * rows)).fun for n in range(4)]
        assert min(found) > -1e-12


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("path", [2, 3, 5])
def test_the_ratio_is_below_its_bound(path):
    """A search for the largest product of theta3 over the variances, which bounds the ratio for all noise."""
    width, shape, m = 2.0, (4, 4), 9
    law = TwoWayTable(shape).scales(Fraction(1), Fraction(2), Fraction(path))

    def excess(logs):
        t = np.exp(logs).reshape(shape)
        wide = t >= width
        root = root_of(wide, path)
        if root is None:
            return 1.0
        drawn = draw_given_scales(t, wide, root, seeded_stream(0))
        assert drawn.squares.size == m
        found = log_theta(1 / (drawn.squares / (1 - SLACK))).sum()
        assert drawn.log_ratio(t) - 0.5 * m * math.log1p(-SLACK) <= found + m * SLACK
        return m * law.excess.log_flat + law.excess.log(t).sum() - found

    rng, worst = np.random.default_rng(path), math.inf
    for seed in range(6):
        wide = rng.random(shape) < 0.6
        wide[:2] |= path < 3  # two rows of wide cells, and not the last ones
        start = np.where(wide.ravel(), np.log(width) + 0.01 + rng.exponential(0.3, 16), rng.normal(-1, 1, 16))
        found = optimize.minimize(excess, start, method="Nelder-Mead", options={"maxiter": 150, "disp": False})
        worst = min(worst, found.fun)
        assert worst > 0, seed
    assert worst < 1.0  # the bound is sharp


def test_the_lattice_sum_is_below_its_bound():
    """Y(T) by enumeration, independent of the sampler."""
    rng, law = np.random.default_rng(0), RowScales((3, 2), Fraction(1), Fraction(1), Fraction(3))
    x = box(-25, 25, 2)
    z = np.stack([x[:, 0], x[:, 1], -x.sum(axis=1)], axis=1)
    z = np.stack([z, -z], axis=2).reshape(-1, 6)
    A = two_way(3, 2)[:-1]
    checked = 0
    for _ in range(300):
        t = np.exp(rng.normal(0, 1.5, (3, 2)))
        if root_of(t >= 1, 3) is None:
            continue
        flat = t.ravel()
        total = np.exp(-0.5 * (z**2 / flat).sum(axis=1)).sum()
        log_y = (
            np.log(total) - np.log(2 * np.pi) + 0.5 * np.linalg.slogdet((A * flat) @ A.T)[1] - 0.5 * np.log(flat).sum()
        )
        assert log_y <= 2 * law.excess.log_flat + law.excess.log(flat).sum() + 1e-9
        checked += 1
    assert checked > 50


def test_rounding_is_bounded():
    """The quadratic form of the proposal is below the true form for all scales: rational arithmetic, all minors.

    The proposal is recorded at its use: the centers for unit vectors of the integers drawn before.
    """
    rng, checked = np.random.default_rng(0), 0
    for _ in range(12):
        r, c = rng.integers(3, 5), 3
        t = np.exp(rng.normal(0.5, 2, (r, c)))
        if (root := root_of(t >= 1, 5)) is None:
            continue
        drawn, seen = recorded(t, t >= 1, root)
        matrix, squares, basis = seen
        m, slack = len(squares), 1 - Fraction(LOG_ERROR)
        np.testing.assert_array_equal(squares, drawn.squares)
        left = [[Fraction(0)] * m for _ in range(m)]
        for i, j in itertools.product(range(m), repeat=2):
            for e in range(t.size):
                left[i][j] += Fraction(int(basis[e, i] * basis[e, j])) / Fraction(t.ravel()[e]) * slack
            for k in range(m):
                left[i][j] -= matrix[k][i] * matrix[k][j] * Fraction(squares[k])
        for size in range(1, m + 1):
            minor = [[fmpq(x.numerator, x.denominator) for x in row[:size]] for row in left[:size]]
            assert fmpq_mat(minor).det() > 0
        without = sum(Fraction(squares[k]) * (matrix[k][0] ** 2) for k in range(m)) / (1 - Fraction(SLACK))
        assert left[0][0] < Fraction(SLACK) * without  # the bound would fail with twice the error
        checked += 1
    assert checked > 5


def recorded(t, wide, root):
    """Return coefficients of the centers, reciprocal variances, and the table of each unit vector of the integers."""
    seen, forms = {}, []
    before, block = RowCoordinates.draw, two_way_laplace.Block.draw

    def rows(self, pulls, ties, ground, lacking, stream):
        if self.squares.shape[1] == t.shape[1] and "own" not in seen:
            seen["own"] = self.squares.copy(), self.mu.copy(), pulls.copy(), ties.copy(), ground
        before(self, pulls, ties, ground, lacking, stream)

    def last(self, given, stream):
        forms.append((self._basis, self.lower))
        return block(self, given, stream)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowCoordinates, "draw", rows)
        patch.setattr(two_way_laplace.Block, "draw", last)
        drawn = draw_given_scales(t, wide, root, seeded_stream(1))
    return drawn, proposal(t.shape, wide, root, t, seen["own"], *forms[0])


def proposal(shape, wide, root, t, own, basis, lower):
    """Return centers as exact linear forms of all drawn integers, from the floating-point numbers."""
    r, c = shape
    squares, mu, pulls, ties, ground = own
    n, spine = len(ties), basis.shape[1] - (c - 1)
    m = n * (c - 1) + spine
    rows = [root, *spine_rows(t, wide, root)]
    others = [i for i in range(r) if i not in rows]
    others = [others[k] for k in np.argsort(wide[others].sum(axis=1), kind="stable")]
    matrix, table = [], np.zeros((r, c, m), dtype=np.int64)
    lacking = np.zeros((c, m), dtype=np.int64)
    for place in range(n):
        free = [j for j in range(c) if j != ties[place]]
        grounded = [j for j in range(c) if j != ground]
        start = np.append(0, np.cumsum(np.arange(c - 1, 0, -1)))
        for i in range(c - 1):
            form = [Fraction(0)] * m
            form[place * (c - 1) + i] += 1
            for step, k in enumerate(range(i + 1, c - 1)):
                form[place * (c - 1) + k] += Fraction(mu[place, start[i] + step])
            for j, column in enumerate(grounded):
                for k in range(m):
                    form[k] += Fraction(pulls[place, i, j]) * int(lacking[column, k])
            matrix.append(form)
        for i, j in enumerate(free):
            at = place * (c - 1) + i
            table[others[place], j, at] += 1
            table[others[place], ties[place], at] -= 1
            lacking[j, at] -= 1
            lacking[ties[place], at] += 1
    given = np.delete(lacking, ground, axis=0)
    for i in range(spine):
        form = [Fraction(0)] * m
        for j in range(i, spine):
            form[n * (c - 1) + j] += Fraction(lower[j, i] / lower[i, i])
        for j in range(c - 1):
            for k in range(m):
                form[k] += Fraction(lower[spine + j, i] / lower[i, i]) * int(given[j, k])
        matrix.append(form)
    coordinates = np.zeros((basis.shape[1], m), dtype=np.int64)
    coordinates[:spine, n * (c - 1) :] = np.eye(spine, dtype=np.int64)
    coordinates[spine:] = given
    table[rows] = (basis @ coordinates).reshape(len(rows), c, m)
    own_squares = np.concatenate([squares[:, :-1].ravel(), np.diag(lower)[:spine] ** 2 * (1 - SLACK)])
    return matrix, own_squares, table.reshape(r * c, m)


def test_rounding_beyond_bounds_stops_the_sampler():
    """Rows whose scales differ by more than the range of floating point."""
    t = np.ones((5, 3))
    t[2] = 1e14
    with pytest.raises(PrivacyError, match="rounding"):
        draw_given_scales(t, t >= 1, 0, seeded_stream(1))


# -- supported tables ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [2, 3, 5])
def test_further_wide_cells_preserve_support(path):
    patterns = np.array(list(itertools.product([False, True], repeat=9))).reshape(-1, 3, 3)
    supported = {p.tobytes(): root_of(p, path) is not None for p in patterns}
    for p in patterns:
        for cell in np.argwhere(~p):
            more = p.copy()
            more[tuple(cell)] = True
            assert supported[p.tobytes()] <= supported[more.tobytes()]


@pytest.mark.parametrize("path", [3, 5])
def test_paths_have_their_length(path):
    """Check all distances in the tree that noise is drawn on."""
    rng, checked = np.random.default_rng(path), 0
    for _ in range(200):
        wide = rng.random((5, 4)) < 0.6
        root = root_of(wide, path)
        if root is None:
            continue
        tree = tree_of(wide, root)
        distance = np.full((9, 9), np.inf)
        np.fill_diagonal(distance, 0)
        for i, j in tree:
            assert wide[i, j]
            distance[i, 5 + j] = distance[5 + j, i] = 1
        assert len(tree) == 8
        for k in range(9):
            distance = np.minimum(distance, distance[:, k : k + 1] + distance[k])
        assert distance[:5, 5:].max() <= path
        checked += 1
    assert checked > 20


def tree_of(wide, root):
    t = np.ones(wide.shape)
    spine = spine_rows(t, wide, root)
    cells = {(root, j) for j in np.flatnonzero(wide[root]).tolist()}
    for row, (tie, columns) in spine.items():
        cells |= {(row, tie), *((row, j) for j in columns)}
    for row in set(range(len(wide))) - {root, *spine}:
        cells.add((row, int(np.argmax(wide[root] & wide[row]))))
    return cells


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("path", [2, 3, 5])
def test_acceptance_for_spanning_trees(path):
    """c(0) / c(z) by enumeration of patterns, against the acceptance that computes neither."""
    epsilon, width = Fraction(1), Fraction(1, 2)
    z = np.array([[3, -3], [0, 0], [-3, 3]])
    patterns = np.array(list(itertools.product([False, True], repeat=6))).reshape(-1, 3, 2)
    supported = patterns[[root_of(p, path) is not None for p in patterns]]

    def narrow(size):
        t = np.linspace(0, 80, 4_000_001)[1:]
        density = t**-0.5 * np.exp(-(size**2) / (2 * t) - t / 2)
        return density[t < 0.5].sum() / density.sum()

    q = {0: math.erf(0.5), 3: narrow(3)}

    def odds(noise):
        p = np.vectorize(lambda size: q[abs(size)])(noise)
        return np.where(supported, 1 - p, p).prod(axis=(1, 2)).sum()

    expected = odds(np.zeros((3, 2), dtype=int)) / odds(z)

    def backed_by(wide):
        return root_of(wide, path) is not None

    stream = seeded_stream(path)
    kept = sum(kept_for_spanning_tree(z, epsilon, width, backed_by, stream) for _ in range(3000))
    assert expected < 0.9
    assert stats.binomtest(kept, 3000, expected).pvalue > 1e-6
    assert all(
        kept_for_spanning_tree(np.zeros((3, 2), dtype=int), epsilon, width, backed_by, stream) for _ in range(200)
    )


def test_probabilities_to_stay_narrow():
    for epsilon, width in (
        (Fraction(1), Fraction(1, 2)),
        (Fraction(1, 4), Fraction(8)),
        (Fraction(1, 100), Fraction(3000)),
    ):
        sizes = np.array([0, 1, 2, 5, 20, 100, 1000])
        logs, errors = _log_stays_narrow(sizes, epsilon, width)
        stays = _StaysNarrow(sizes, epsilon, width)
        with ctx.workprec(400):
            for i in range(sizes.size):
                p = float(stays(i))
                if errors[i] < 0.5:
                    assert abs(math.log(p) - logs[i]) < errors[i]
                assert p <= 1
        assert abs(logs[0]) < 1e-9
        assert (np.diff(logs) <= 1e-9).all()


# -- cost -------------------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("shape", "epsilon"), [((3, 3), Fraction(1)), ((6, 6), Fraction(1, 4)), ((10, 4), Fraction(1, 2))]
)
def test_acceptance_is_predicted_within_a_factor_of_two(shape, epsilon):
    law, stream, kept, tries = TwoWayLaplace(shape, epsilon), seeded_stream(5), 0, 0
    while kept < 100:
        kept += sum(1 for _ in law._attempts(400, stream))
        tries += 400
    assert 0.5 < law.acceptance / (kept / tries) < 2


def test_hopeless_acceptance_rates_need_no_pilot_run(monkeypatch):
    """The estimate before a pilot run is at most e times too small, and refuses only rates 500 times too small.

    The acceptance rate of large tables decreases by the factor exp(0.27) per column.
    """
    cases = [((10, 10), Fraction(1, 4)), ((5, 20), Fraction(1))]
    pilots = [TwoWayLaplace(*case).acceptance for case in cases]
    monkeypatch.setattr(TwoWayLaplace, "_predict", lambda self: pytest.fail("pilot run"))
    for n in (100, 130):
        hopeless = TwoWayLaplace((n, n), Fraction(1, 20))
        assert math.log(hopeless.acceptance) == pytest.approx(-0.27 * n, rel=0.05)
        assert two_way_laplace.PER_CELL * hopeless.scales.first / hopeless.acceptance > 1000 * two_way_laplace.LONGEST
    monkeypatch.setattr(mixture, "HOPELESS", 0.0)
    for case, pilot in zip(cases, pilots, strict=True):
        assert pilot < math.e * TwoWayLaplace(*case).acceptance
    assert two_way_laplace.PER_CELL * HOPELESS > 1000 * two_way_laplace.LONGEST
    assert lattice_laplace.PER_CELL * HOPELESS > 500 * lattice_laplace.LONGEST


def test_draws_are_a_function_of_the_stream():
    law = TwoWayLaplace((4, 3), Fraction(1, 4))
    assert np.array_equal(law.draw(5, seeded_stream(1)), law.draw(5, seeded_stream(1)))
    assert law.draw(0, seeded_stream(1)).shape == (0, 12)


def test_invalid_epsilon_raises():
    for epsilon in (0.25, 0, -1):
        with pytest.raises(PrivacyError, match="epsilon"):
            TwoWayLaplace((3, 3), epsilon)
