"""Gaussian and l2 noise on lattices: masses, acceptance rates, nodes of the mixture, and tables in closed form."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpz_mat
from lattice_laws import MARGINS, columns_within_states, enumerated, fit, grouped_columns, margins_law, two_way
from scipy import sparse, stats

import ppdinf as ppd
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice import kernel, margin_matrix, structure
from ppdinf.lattice.shortest import nearest_steps
from ppdinf.laws import DiscreteGaussian
from ppdinf.noise.exact.klein import Klein, klein, squares_across
from ppdinf.noise.exact.l2_laplace_mixture import (
    PER_UNIT,
    RATIO_BOUND,
    L2Mixture,
    enclose_sum,
    log_sum,
    mixture_acceptance,
)
from ppdinf.noise.exact.lattice_gaussian import draw_gaussian, gaussian_acceptance
from ppdinf.noise.exact.theta import GaussianMasses, enclose_mass, log_gaussian_mass, log_ratio
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream
from ppdinf.noise.sampler_plan import exact_noise
from ppdinf.privacy.lattice_gaussian import exact_sigma, lattice_delta


@pytest.mark.parametrize(
    ("cells", "sigma", "acceptance"), [(4, "1/2", 0.861), (4, "1", 0.978), (4, "2", 1.0), (30, "1", 0.963)]
)
def test_acceptance_on_margins(cells, sigma, acceptance):
    proposals = klein(kernel(two_way(cells, cells))).propose(
        [Fraction(sigma) ** 2] * (20_000 if cells == 4 else 100), seeded_stream(1)
    )
    keep = np.exp(proposals.log_keep()[0])
    assert keep.max() <= 1 + 1e-12
    assert keep.mean() == pytest.approx(acceptance, abs=0.004)


def test_acceptance_of_a_total():
    assert gaussian_acceptance(klein(kernel(np.ones((1, 102), dtype=int))), Fraction(1)) > 0.9998


def test_an_unsaturated_basis_is_rejected():
    A = np.array([[2, 3, 5]])
    lattice = kernel(A)
    truth = enumerated(A, "gaussian", Fraction(3, 2))
    assert fit(draw_gaussian(klein(lattice), Fraction(9, 4), seeded_stream(1), size=20_000), truth) > 1e-6
    rational = lattice.class_basis @ np.array([[2, 1], [0, 1]])  # index 2
    wrong = klein(replace(lattice, class_basis=sparse.csc_array(rational)))
    assert fit(draw_gaussian(wrong, Fraction(9, 4), seeded_stream(1), size=20_000), truth) < 1e-6


def test_rounded_bases_reduce_acceptance_only():
    # orthogonal parts and centers with three digits: the proposals are inexact, the law is exact
    A = two_way(3, 3)
    exact = klein(kernel(A))
    rough = Klein(
        exact.basis, np.floor(exact.squares * 950) / 1000, exact.starts, exact.columns, np.round(exact.factors, 3), 0.05
    )
    z = draw_gaussian(rough, Fraction(1), seeded_stream(1), size=60_000)
    proposals = rough.propose([Fraction(1)] * 2000, seeded_stream(2))
    assert proposals.log_keep()[0].max() <= 0
    assert fit(z, margins_law(1)) > 1e-6


def test_error_bounds_of_log_acceptances_hold():
    for A, sigma in ((two_way(4, 4), "1/2"), (np.array([[2, 3, 5, 7]]), "1/3"), (np.ones((1, 40), int), "1/2")):
        proposals = klein(kernel(A)).propose([Fraction(sigma) ** 2] * 20, seeded_stream(1))
        logs, error = proposals.log_keep()
        with ctx.workprec(200):
            for i in range(20):
                assert abs(proposals.enclose_keep(i).log() - arb(logs[i])) < error[i] < 1e-11


def test_gaussian_masses():
    with ctx.workprec(200):
        for v in (*np.geomspace(1e-3, 3.99, 60).tolist(), 0.16, 0.1599999):
            at_zero = enclose_mass(arb(0), arb(v))
            assert abs(at_zero.log() - arb(float(log_gaussian_mass(np.array([v]))[0]))) < 1e-15
            for f in np.linspace(-0.5, 0.5, 11).tolist():
                exact = sum((-((arb(k) + f) ** 2) / (2 * v)).exp() for k in range(-60, 61))
                assert abs(enclose_mass(arb(f), arb(v)) / exact - 1) < 1e-50
                log = (exact / at_zero).log()
                assert abs(log - arb(log_ratio(f, v))) < 1e-15 * (1 + abs(float(log)))


def test_undecided_words_are_extended():
    # a first word of zeros leaves the block undecided; after 2^70 blocks only the word 0 accepts the proposal
    begin, rest = [0, 2**63, 0, 2**6], seeded_stream(1)

    def stream(n):
        taken = [begin.pop(0) if begin else int(rest(1)[0]) for _ in range(n)]
        return np.array(taken, dtype=np.uint64)

    assert draw_gaussian(klein(kernel([[1, 1]])), Fraction(1), stream).sum() == 0
    assert not begin


def test_many_cells_and_wide_noise():
    basis = klein(kernel(np.ones((1, 3143), dtype=int)))
    z = draw_gaussian(basis, Fraction(100), secure_stream(), size=3)
    assert not z.sum(1).any()
    assert z.std() == pytest.approx(10, rel=0.05)
    z = draw_gaussian(klein(kernel(two_way(3, 3))), Fraction(10**16), seeded_stream(1), size=3000)
    assert np.sqrt((z**2).mean()) == pytest.approx(10**8 * 2 / 3, rel=0.05)
    with pytest.raises(PrivacyError, match="wider"):
        draw_gaussian(klein(kernel(two_way(3, 3))), Fraction(10**40), seeded_stream(1))
    with pytest.raises(PrivacyError, match="sigma_squared"):
        draw_gaussian(basis, 0.5, seeded_stream(1))


def test_ill_conditioned_bases_raise():
    lattice = kernel([[1, 2, 4]])
    skewed = lattice.class_basis @ np.array([[1, 10**7], [0, 1]])
    with pytest.raises(InvariantError, match="ill-conditioned"):
        klein(replace(lattice, class_basis=sparse.csc_array(skewed)))


# -- l2 noise as a mixture --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "epsilon", "lower"),
    [(3, "1/4", 0.99), (4, "1/4", 0.99), (4, "3/2", 0.99), (30, "1/4", 0.9), (30, "3/2", 0.9)],
)
def test_acceptance_of_l2_noise_on_margins(cells, epsilon, lower):
    law = L2Mixture(klein(kernel(two_way(cells, cells))), Fraction(epsilon))
    assert mixture_acceptance(law) > lower
    assert law.log_keep(law.propose(50, seeded_stream(1)))[0].max() <= 0
    # without invariants |z| would be Gamma(m, 1/epsilon); wide noise on a lattice of rank m comes close
    if epsilon == "1/4":
        z = law.draw(2000 if cells < 30 else 100, secure_stream())
        m = (cells - 1) ** 2
        radius = np.linalg.norm(z, axis=1) / 4
        assert abs(radius.mean() - m) < 6 * np.sqrt(m / len(z)) + 0.05


def test_the_sum_exceeds_its_lower_bound():
    """R(x) >= RATIO_BOUND for all x up to 4, by ball arithmetic on intervals; nodes above 6 only increase R."""
    with ctx.workprec(64):
        nodes = [arb(2 * j + 1) / (2 * PER_UNIT) for j in range(6 * PER_UNIT)]
        factor, floor = (arb(2) / arb.pi()).sqrt() / PER_UNIT, arb(int(RATIO_BOUND * 1000)) / 1000

        def holds(low, high):
            # for v < sqrt(x) the term decreases in x, above it increases: each is bounded at its worse end
            total = arb(0)
            for v in nodes:
                worst = max(abs(low / float(v) - float(v)), abs(high / float(v) - float(v)))
                if worst < 12:
                    total += (-(max(abs(arb(low) / v - v), abs(arb(high) / v - v)) ** 2) / 2).exp()
            return bool(total * factor > floor)

        left = [(i / 64, (i + 1) / 64) for i in range(256)]
        checked = 0
        while left:
            low, high = left.pop()
            checked += 1
            assert checked < 20_000
            if not holds(low, high):
                middle = (low + high) / 2
                left += [(low, middle), (middle, high)]


def test_the_sum_is_nearly_one_for_large_x():
    x = np.concatenate([np.linspace(0.5, 30, 400), np.geomspace(30, 1e6, 60)])
    assert np.abs(log_sum(x, PER_UNIT)).max() < 1e-4
    with ctx.workprec(150):
        for value in (0.0, 0.0356, 0.3, 2.0, 57.3):
            assert (
                abs(enclose_sum(arb(value), PER_UNIT).log() - arb(float(log_sum(np.array([value]), PER_UNIT)[0])))
                < 1e-13
            )


def test_nodes_against_their_law():
    basis = klein(kernel([[1, 1, 2]]))
    law = L2Mixture(basis, Fraction(2))
    v = (law._counted[:-1] + 0.5) / PER_UNIT
    logs = np.array([log_gaussian_mass((x / 2) ** 2 / basis.squares).sum() for x in v]) - v**2 / 2
    weights = np.exp(logs) / np.exp(logs).sum()
    np.testing.assert_allclose(law._cumulative, np.cumsum(weights), atol=1e-13)
    nodes, bounds = law._enclosures(64)
    assert nodes.tolist() == law._counted[:-1].tolist()
    bounds = bounds[1:]
    for j in range(0, len(v), 37):
        assert bounds[j][0] / 2**64 <= law._cumulative[j] + 1e-13
        assert bounds[j][1] / 2**64 >= law._cumulative[j] - 1e-13


# -- tables with margins, orthogonalized in closed form --------------------------------------------------

SYSTEMS = [*(margin_matrix(*case).toarray() for case in MARGINS), grouped_columns(), columns_within_states()]

BOTH = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")


def closed_form(A):
    found = structure(A)
    return klein(found.lattice, found.tables)


@pytest.mark.parametrize("A", SYSTEMS)
def test_closed_form_against_qr(A):
    found, basis = structure(A), closed_form(A)
    assert found.tables
    assert not (A @ basis.basis).any()
    volumes = [fmpz_mat((b.T @ b).toarray().tolist()).det() for b in (basis.basis, found.lattice.basis)]
    assert volumes[0] == volumes[1]  # with A z = 0: the same lattice
    triangle = np.linalg.qr(basis.basis.toarray().astype(float), mode="r")
    lengths = np.diag(triangle)
    np.testing.assert_allclose(basis.squares, lengths**2, rtol=1e-9)
    assert (basis.squares < lengths**2).all()
    mu = sparse.csr_array((basis.factors, basis.columns, basis.starts), shape=triangle.shape).toarray()
    np.testing.assert_allclose(mu, np.triu(triangle / lengths[:, None], k=1), atol=1e-12)


def test_wrong_orthogonal_parts_are_rejected():
    """Parts that are too long give acceptance probabilities above 1; wrong centers give almost no acceptance."""
    basis, sigma = closed_form(two_way(8, 9)), [Fraction(4)] * 200
    right = basis.propose(sigma, seeded_stream(6)).log_keep()[0]
    assert -0.01 < right.min() <= right.max() <= 0
    longer = replace(basis, squares=basis.squares * 1.01)
    assert longer.propose(sigma, seeded_stream(6)).log_keep()[0].max() > 0.1
    mu = sparse.csr_array((basis.factors, basis.columns, basis.starts), shape=(56, 56)).tocoo()
    kept = mu.col - mu.row != 9  # without the diagonal neighbour
    mu = sparse.csr_array((mu.data[kept], (mu.row[kept], mu.col[kept])), shape=mu.shape)
    skewed = replace(basis, factors=mu.data, columns=mu.indices.astype(np.int64), starts=mu.indptr.astype(np.int64))
    assert skewed.propose(sigma, seeded_stream(6)).log_keep()[0].max() < -1


def moments(z, sigma, m, swaps):
    """Return p-values of |z|^2 and of projections <z, h> on swaps, discrete normal with variance 4 sigma^2."""
    energy = float((z.astype(float) ** 2).sum() / sigma**2)
    total = 2 * min(stats.chi2.cdf(energy, m * len(z)), stats.chi2.sf(energy, m * len(z)))
    t = np.concatenate([z[:, a] - z[:, b] - z[:, c] + z[:, d] for a, b, c, d in swaps])
    edges = np.ceil(stats.norm.ppf(np.linspace(0, 1, 21)[1:-1], scale=2 * sigma)) - 0.5
    ends = np.arange(-40 * sigma, 40 * sigma + 1)
    weights = np.exp(-(ends**2) / (8 * sigma**2))
    expected = np.bincount(np.searchsorted(edges, ends), weights=weights, minlength=20) / weights.sum() * t.size
    return total, stats.chisquare(np.bincount(np.searchsorted(edges, t), minlength=20), expected).pvalue


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("rows", "columns", "draws"), [(67, 24, 300), (200, 50, 60)])
def test_large_two_way_tables(rows, columns, draws):
    """Wide noise: |z|^2 / sigma^2 is chi-square, and a swap's projection is discrete normal, both within 1e-9."""
    noise = exact_noise(structure(two_way(rows, columns)), DiscreteGaussian(5))
    assert noise.parts[0].acceptance > 0.99
    z = noise.draw(draws, seeded_stream(7))
    assert not z.reshape(draws, rows, columns).sum(axis=1).any()
    assert not z.reshape(draws, rows, columns).sum(axis=2).any()
    cell = np.arange(rows * columns).reshape(rows, columns)
    swaps = [  # far enough apart to be independent to 1 / (rows * columns)
        (cell[i, j], cell[i + 1, j], cell[i, j + 1], cell[i + 1, j + 1])
        for i in range(0, rows - 1, 2)
        for j in range(0, columns - 1, 2)
    ]
    m = (rows - 1) * (columns - 1)
    for p in moments(z, 5, m, swaps):
        assert p > 1e-4
    energy, projection = moments(z, 5.1, m, swaps)  # noise that is 2 % too narrow
    assert energy < 1e-6
    assert projection < 1e-6


def test_l2_noise_on_a_large_table_has_its_radius():
    """epsilon |z| is Gamma(m, 1) for wide noise; the omitted nodes are negligible."""
    basis = closed_form(two_way(67, 24))
    law = L2Mixture(basis, Fraction(1, 2))
    assert law._counted[0] > 0
    radius = np.linalg.norm(law.draw(200, seeded_stream(8)).astype(float), axis=1) / 2
    assert stats.kstest(radius, stats.gamma(1518).cdf).pvalue > 1e-4
    assert stats.kstest(radius, stats.gamma(1518 * 1.01).cdf).pvalue < 1e-4


@pytest.mark.parametrize("v", [0.05, 0.4, 1.7, 3.0, 40.0])
def test_products_of_masses(v):
    squares = closed_form(two_way(20, 30)).squares
    masses = GaussianMasses(squares)
    direct = log_gaussian_mass(v / squares).sum()
    assert masses.log(v)[0] == pytest.approx(direct, rel=1e-12)
    [bound] = masses.bounds(np.array([v]))
    assert direct <= bound * (1 + 1e-12) < direct + 1.5
    with ctx.workprec(120):
        enclosed = masses.encloser()(Fraction(v))
        assert abs(enclosed - arb(direct)) < 1e-9
        assert enclosed.rad() < 1e-25


def test_ball_arithmetic_gives_the_same_nodes(monkeypatch):
    law = L2Mixture(klein(kernel(np.ones((1, 200), dtype=int))), Fraction(3))
    assert law._counted[0] > 0
    usual = law._draw_nodes(200, seeded_stream(9))
    monkeypatch.setattr(law, "_margin", 2.0)
    np.testing.assert_array_equal(law._draw_nodes(200, seeded_stream(9)), usual)


@pytest.mark.parametrize("A", [two_way(4, 6), two_way(3, 3), two_way(3, 2), margin_matrix((4, 5, 2), [(0,), (1,)])])
def test_sublattices_orthogonal_to_steps(A):
    for block, step in nearest_steps(structure(A)):
        squares = squares_across(block, step)
        rows = sparse.csc_array(block.class_system)[:, block.classes]
        across = kernel(sparse.vstack([rows, sparse.csr_array(step[np.newaxis])])).basis
        assert np.log(squares).sum() == pytest.approx(np.linalg.slogdet((across.T @ across).toarray())[1], abs=1e-8)


def test_calibration_does_not_depend_on_the_size_of_the_table():
    """For wide noise, the loss between nearest tables depends only on the step."""
    found = []
    for shape in [(3, 3), (60, 40)]:
        [(block, step)] = nearest_steps(structure(two_way(*shape)))
        found.append(exact_sigma(block, step, "1/4", 1e-6))
        assert lattice_delta(block, step, found[-1], 0.25) == pytest.approx(1e-6, rel=1e-6)
    assert found[0] == pytest.approx(found[1], rel=1e-8)


@pytest.mark.quick_cases(0)
def test_noise_too_narrow_for_many_cells_raises_with_a_remedy():
    table = np.full((60, 40), 9)
    with pytest.raises(InvariantError, match=r"from about sigma = 0\.\d+ can be drawn") as refused:
        ppd.GeneralizedGaussian(BOTH, sigma="3/8").sampler_plan(table)
    works = str(refused.value).split("sigma = ")[1].split()[0]
    assert ppd.GeneralizedGaussian(BOTH, sigma=works).sampler_plan(table).exact


@pytest.mark.parametrize("shape", [(67, 24), pytest.param((3143, 51), marks=pytest.mark.deep)])
def test_release_of_a_large_table(shape, tmp_path):
    table = np.random.default_rng(10).poisson(20, shape)
    for mechanism in [
        ppd.GeneralizedGaussian(BOTH, rho="1/8"),
        ppd.GeneralizedGaussian(BOTH, epsilon=1, delta="1e-6", calibration="exact"),
        ppd.GeneralizedLaplace(BOTH, 20, norm="l2"),
    ]:
        release = mechanism.release(table)
        assert release.plan.exact
        assert "margins" in str(release.plan)
        release.save(tmp_path / "release.ppd", overwrite=True)
        again = ppd.read_release(tmp_path / "release.ppd")
        assert again.guarantee.nearest == (2 if mechanism.guarantee.metric else 1)
        for axis in (0, 1):
            np.testing.assert_array_equal(again.table.values.sum(axis=axis), table.sum(axis=axis))
        assert (again.table.values != table).mean() > 0.5


def test_structural_zeros_in_a_large_table_raise_before_dense_algebra():
    table = np.ones((120, 60), dtype=int)
    table[0, 0] = 0
    holes = BOTH & ppd.invariants.zeros({"dim_0": 0, "dim_1": 0})
    with pytest.raises(InvariantError, match="sums of rank 7,020, too ill-conditioned"):
        ppd.GeneralizedGaussian(holes, sigma=4).sampler_plan(table)
