"""l1 noise of two-way tables row by row: stages, spanning trees, rounding, and margins on tables of all shapes.

The sampler of two-way tables draws the longer side row by row, so that tall and wide tables take different paths.
Small tables are compared with an enumeration of the law. Larger tables are compared with the table whose axes are in
another order, in which every cell has the same law. There are fewer than 300 comparisons, each of which fails by
chance with probability at most 1e-6: the false alarm rate is at most 3e-4.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import ctx
from lattice_laws import fit, law_of, two_way
from scipy import optimize, stats
from test_scale_mixture import assert_form_is_below

import ppdinf as ppd
from ppdinf.lattice import margin_matrix, structure
from ppdinf.laws import DoubleGeometric
from ppdinf.noise import sampler_plan
from ppdinf.noise.exact.scale_mixture import two_way_laplace
from ppdinf.noise.exact.scale_mixture.klein_given_scales import SLACK, RowCoordinates
from ppdinf.noise.exact.scale_mixture.mixture import _log_stays_narrow, _stays_narrow, kept_for_spanning_tree, root_of
from ppdinf.noise.exact.scale_mixture.two_way_laplace import RowScales, draw_given_scales, spine_rows
from ppdinf.noise.primitives.lazy_reals import LazyReals, betas, enclose_gamma, gammas
from ppdinf.noise.primitives.stream import seeded_stream

# -- decisions ------------------------------------------------------------------------------------------------


def test_gamma_and_beta_variables():
    stream = seeded_stream(1)
    reals = LazyReals(stream)
    drawn = []
    for shape in (Fraction(59, 60), Fraction(1, 2), Fraction(1, 4)):
        drawn.append((shape, *gammas(shape, 50_000, reals, stream)))
        assert stats.kstest(drawn[-1][1], stats.gamma(float(shape)).cdf).pvalue > 1e-5
    for a, b in itertools.product((Fraction(1, 2), Fraction(57, 2)), (Fraction(29, 60), Fraction(1, 4))):
        drawn.append((b, *betas(np.full(50_000, float(a)), [a] * 50_000, b, reals, stream)))
        assert stats.kstest(np.exp(-drawn[-1][1] / float(a)), stats.beta(float(a), float(b)).cdf).pvalue > 1e-5
    for shape, values, places in drawn:
        with ctx.workprec(192):
            exact = [float(enclose_gamma(shape, reals.enclose(int(place)))) for place in places[:200]]
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


# -- the bounds -----------------------------------------------------------------------------------------------


def test_the_determinant_has_its_formula():
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


def test_rounding_is_bounded():
    """The proposal, recorded at its use, is below the true form for all scales: rational arithmetic, all minors."""
    rng, checked = np.random.default_rng(0), 0
    for _ in range(12):
        r, c = rng.integers(3, 5), 3
        t = np.exp(rng.normal(0.5, 2, (r, c)))
        if (root := root_of(t >= 1, 5)) is None:
            continue
        drawn, seen = recorded(t, t >= 1, root)
        matrix, squares, basis = seen
        np.testing.assert_array_equal(squares, drawn.squares)
        left = assert_form_is_below(basis, t.ravel(), matrix, squares)
        without = sum(Fraction(squares[k]) * (matrix[k][0] ** 2) for k in range(len(squares))) / (1 - Fraction(SLACK))
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
        with ctx.workprec(400):
            for i in range(sizes.size):
                p = float(_stays_narrow(sizes, epsilon, width, i))
                if errors[i] < 0.5:
                    assert abs(math.log(p) - logs[i]) < errors[i]
                assert p <= 1
        assert abs(logs[0]) < 1e-9
        assert (np.diff(logs) <= 1e-9).all()


RARE = 1e-6
LAW = DoubleGeometric("3/2")
EPSILON = "1/4"
LONG = [(30, 12), (67, 6), (67, 24), (100, 3)]
SMALL = [(2, 2), (2, 3), (3, 2), (2, 5), (5, 2), (3, 3), (2, 2, 2), (3, 2, 2), (2, 3, 2), (2, 2, 3)]
PUBLIC = {
    "all pairs": [(0, 1), (0, 2), (1, 2)],
    "a pair and the third": [(0, 1), (2,)],
    "two pairs": [(0, 1), (1, 2)],
    "three single margins": [(0,), (1,), (2,)],
}


def noise_of(shape, generators, draws, seed):
    """Return noise of shape (draws, *shape); its public sums are checked to be zero."""
    public = None
    for generator in generators:
        margin = ppd.invariants.margin(*(f"dim_{k}" for k in generator))
        public = margin if public is None else public & margin
    released = ppd.GeneralizedLaplace(public, EPSILON).simulate(np.full(shape, 100), draws=draws, rng=seed)
    z = released.values - 100
    for generator in generators:
        assert not z.sum(axis=tuple(k + 1 for k in range(len(shape)) if k not in generator)).any(), (shape, generators)
    return z


def single_sums(dimensions):
    """Return the sets of axes that remain after sums over single axes."""
    return [tuple(k for k in range(dimensions) if k != axis) for axis in range(dimensions)]


def law(shape):
    """Return the law of noise with zero sums over single axes."""
    free = math.prod(n - 1 for n in shape)
    return law_of(margin_matrix(shape, single_sums(len(shape))), LAW, {1: 60, 2: 24, 4: 9}[free])


def p_value(one, other):
    """Return the smallest p-value of the total size of the noise and of each cell's, corrected for multiple tests."""
    one, other = one.reshape(len(one), -1), other.reshape(len(other), -1)
    size = stats.ks_2samp(np.abs(one).sum(axis=1), np.abs(other).sum(axis=1)).pvalue
    cells = [stats.ks_2samp(a, b, method="asymp").pvalue for a, b in zip(one.T, other.T, strict=True)]
    return 2 * min(size, len(cells) * min(cells))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("shape", [(10, 6), (6, 10), (9, 5)])
def test_sums_are_preserved(shape):
    noise_of(shape, [(0,), (1,)], 5, 1)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "shape", [(3, 2), (2, 3), (3, 3), *(pytest.param(shape, marks=pytest.mark.deep) for shape in [(2, 5), (5, 2)])]
)
def test_the_mixture_over_scales_has_the_law(shape, monkeypatch):
    """Small tables are drawn by the sampler of large tables."""
    monkeypatch.setattr(sampler_plan, "OFFERS", (two_way_laplace.offer,))
    found = sampler_plan.exact_or_refusal.__wrapped__(structure(margin_matrix(shape, single_sums(2))), LAW)
    assert found.sampler == "scale mixture"
    assert fit(found.draw(1_000, seeded_stream(3)), law(shape)) > RARE


@pytest.mark.deep
@pytest.mark.parametrize("shape", SMALL)
def test_small_tables_have_the_law(shape):
    found = sampler_plan.exact_noise(structure(margin_matrix(shape, single_sums(len(shape)))), LAW)
    assert fit(found.draw(5_000, seeded_stream(3)), law(shape)) > RARE


@pytest.mark.deep
@pytest.mark.parametrize("rows", range(2, 13))
def test_two_way_tables(rows):
    for columns in range(rows, 13):
        wide = noise_of((rows, columns), [(0,), (1,)], 200, 1)
        tall = noise_of((columns, rows), [(0,), (1,)], 200, 2)
        assert p_value(wide, tall.transpose(0, 2, 1)) > RARE, columns


@pytest.mark.deep
@pytest.mark.parametrize("shape", LONG)
def test_long_tables(shape):
    draws = 100 if math.prod(shape) > 1_000 else 300
    tall, wide = noise_of(shape, [(0,), (1,)], draws, 1), noise_of(shape[::-1], [(0,), (1,)], draws, 2)
    assert p_value(tall, wide.transpose(0, 2, 1)) > RARE


@pytest.mark.deep
@pytest.mark.parametrize("kind", PUBLIC)
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 7), (5, 2, 4)])
def test_three_way_tables_in_all_orders_of_axes(shape, kind):
    first = noise_of(shape, PUBLIC[kind], 200, 0)
    for seed, order in enumerate(itertools.permutations(range(3)), start=1):
        generators = [tuple(sorted(order.index(k) for k in generator)) for generator in PUBLIC[kind]]
        other = noise_of(tuple(shape[k] for k in order), generators, 200, seed)
        assert p_value(first, np.moveaxis(other, [1, 2, 3], [k + 1 for k in order])) > RARE, order
