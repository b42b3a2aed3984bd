"""Exact l1 noise as a mixture over scales, on lattices and two-way tables: enumerations, bounds, wrong variants."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import ctx, fmpq, fmpq_mat
from grids import box
from lattice_laws import enumerated, fit, total_variation, two_way
from scipy import optimize, stats

from ppdinf.errors import PrivacyError
from ppdinf.lattice import kernel, margin_matrix, structure
from ppdinf.noise.exact.scale_mixture import klein_given_scales, lattice_laplace, mixture, two_way_laplace
from ppdinf.noise.exact.scale_mixture.klein_given_scales import SLACK
from ppdinf.noise.exact.scale_mixture.lattice_laplace import LatticeSystem
from ppdinf.noise.exact.scale_mixture.lattice_scales import Leverages, LeverageScales
from ppdinf.noise.exact.scale_mixture.mixture import HOPELESS, ScaleMixture
from ppdinf.noise.exact.scale_mixture.scales import LOG_ERROR, SumScales, log_theta
from ppdinf.noise.exact.scale_mixture.two_way_laplace import RowScales, TwoWayLaplace, TwoWayTable
from ppdinf.noise.primitives.stream import seeded_stream

CROSSING = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 2]])
CUBE = margin_matrix((2, 2, 2), [(0,), (1,), (2,)]).toarray()


def system_of(A):
    A = np.asarray(A)
    return LatticeSystem(A, kernel(A).basis.toarray())


# -- random lattices ------------------------------------------------------------------------------------------

EVERY = 40  # random systems
QUICK = range(0, 72, 12)
EPSILONS = [Fraction(1, 2), Fraction(2, 3), Fraction(3, 4)]
FEWEST, MOST = 500, 750  # draws per system: the smallest number, used in the quick tier and for low acceptance rates
ATTEMPTS = 20_000  # at most one second
FAR = 5  # standard errors
RARE = 1e-4 / EVERY / 2  # false alarm rate of chi-square per system; below 1e-4 for all systems


def candidate(seed):
    """Return a system: margins, three-way tables, structural zeros, weighted cells or random integers."""
    rng, kind = np.random.default_rng(seed), seed % 5
    if kind == 0:
        return two_way(2, int(rng.integers(2, 5)))
    if kind == 1:
        if rng.random() < 0.2:
            return margin_matrix((2, 2, 3), [(0, 1), (1, 2), (0, 2)]).toarray()
        generators = [[(0,), (1,), (2,)], [(0, 1), (2,)]]
        shape = (2, 2, int(rng.integers(2, 4)))
        A = margin_matrix(shape, generators[rng.integers(2)]).toarray()
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


def score_of_sizes(z, truth):
    """Return the error of the mean size of draws in standard errors."""
    sizes, p = np.abs(np.array(list(truth))).sum(axis=1), np.array(list(truth.values()))
    mean = p @ sizes / p.sum()
    return (np.abs(z).sum(axis=1).mean() - mean) / np.sqrt(p @ (sizes - mean) ** 2 / len(z))


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
    return score_of_sizes(z, truth)


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


# -- two-way tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 3), (6, 4)])
def test_very_wide_noise(shape):
    """Squares of the noise exceed 64 bits."""
    z, (r, c) = TwoWayLaplace(shape, Fraction(1, 10**10)).draw(60, seeded_stream(2)), shape
    assert not (z @ two_way(*shape).T).any()
    assert abs(np.abs(z).sum(axis=1).mean() / 1e10 / ((r - 1) * (c - 1)) - 1) < 6 / math.sqrt((r - 1) * (c - 1) * 60)


# -- wrong variants -------------------------------------------------------------------------------------------

THREE = two_way(3, 3)


def p_value(A, epsilon, size, drawn=1):
    """Return the smallest p-value (Bonferroni) of chi-square over tables and of mean sizes of cells."""
    A, table = np.array(A), A is THREE
    law = TwoWayLaplace((3, 3), epsilon * drawn) if table else ScaleMixture(system_of(A), epsilon * drawn)
    z = law.draw(size, seeded_stream(3))
    truth = enumerated(A, "l1", epsilon, 10 if table else 60 if A.shape == (1, 3) else 36)
    if table:
        return 2 * min(fit(z, truth), 2 * stats.norm.sf(abs(score_of_sizes(z, truth))))

    def sizes(z):
        return np.column_stack([np.abs(z), np.abs(z).sum(axis=1)])

    listed, p = sizes(np.array(list(truth))), np.array(list(truth.values()))
    mean = p @ listed
    scores = (sizes(z).mean(axis=0) - mean) / np.sqrt(p @ (listed - mean) ** 2 / size)
    return (scores.size + 1) * min(fit(z, truth), 2 * stats.norm.sf(np.abs(scores).max()))


def capped_at_one(self, drawn, t):
    """Compare the ratio with 1 instead of its bound."""
    return min(0.0, drawn.log_ratio(t))


def no_cell_near_zero(self, size, stream):
    return np.zeros((size, len(self.gammas)), np.bool_)


def after(function, change):
    """Return an initializer that changes an object when it is complete."""

    def initialize(self, *arguments):
        function(self, *arguments)
        change(self)

    return initialize


def leverages_of_another_system(self):
    self.exact = self.exact[::-1]  # of weights 4, 2, 1


def exponents_of_ten_rows(self):
    self.row = SumScales((Fraction(1, 20),) * 3, (1,) * 3, Fraction(9, 20), self.excess)


def with_arguments(function, change):
    return lambda self, *arguments: function(self, *change(*arguments))


OTHER_POWER = with_arguments(SumScales.__init__, lambda g, s, beta, e: (g, s, beta / 2, e))
OTHER_WEIGHTS = with_arguments(SumScales.__init__, lambda g, s, *rest: (g, (1,) * len(s), *rest))
WRONG = {
    "crossing": (CROSSING, "3/4", 6_000, {}),
    "a weighted sum": ([[1, 1, 4]], "1", 6_000, {}),
    "weights": ([[1, 2, 4]], "1/2", 12_000, {}),
    "table": (THREE, "1", 4_000, {}),
    "ratio, sum": ([[1, 1, 4]], "1", 12_000, {(ScaleMixture, "log_keep"): capped_at_one}),
    "ratio, table": (THREE, "1", 4_000, {(TwoWayLaplace, "log_keep"): capped_at_one}),
    "theta, crossing": (CROSSING, "3/4", 6_000, {(SumScales, "_draw_near"): no_cell_near_zero}),
    "theta, table": (THREE, "1", 4_000, {(SumScales, "_draw_near"): no_cell_near_zero}),
    "leverages of another system": (
        *([[1, 2, 4]], "1/2", 12_000),
        {
            (Leverages, "__init__"): after(Leverages.__init__, leverages_of_another_system),
            (Leverages, "integrated"): lambda *_: None,
        },
    ),
    "exponents of another table": (
        *(THREE, "1", 4_000),
        {(RowScales, "__init__"): after(RowScales.__init__, exponents_of_ten_rows)},
    ),
    "power of another sum": ([[1, 2, 4]], "1/2", 12_000, {(SumScales, "__init__"): OTHER_POWER}),
    "weights of a sum ignored": ([[1, 2, 4]], "1/2", 12_000, {(SumScales, "__init__"): OTHER_WEIGHTS}),
    "no determinant, crossing": (
        *(CROSSING, "3/4", 6_000),
        {(LeverageScales, "log_keep"): lambda self, values: np.zeros(len(values))},
    ),
    "no determinant, table": (
        *(THREE, "1", 4_000),
        {(two_way_laplace, "_log_keep"): lambda values, of: np.zeros(len(values))},
    ),
    "support, crossing": (CROSSING, "3/4", 6_000, {(mixture, "kept_for_spanning_tree"): lambda *_: True}),
    "support, table": (THREE, "1", 4_000, {(mixture, "kept_for_spanning_tree"): lambda *_: True}),
}


@pytest.mark.deep
@pytest.mark.parametrize("variant", WRONG)
def test_wrong_variants_are_rejected(monkeypatch, variant):
    A, epsilon, size, replaced = WRONG[variant]
    for (owner, name), value in replaced.items():
        monkeypatch.setattr(owner, name, value)
    assert (p_value(A, Fraction(epsilon), size) < 1e-4) == bool(replaced)


@pytest.mark.deep
@pytest.mark.parametrize(("A", "epsilon", "size"), [(CROSSING, "3/4", 12_000), (THREE, "1", 8_000)])
def test_a_scale_error_of_five_percent_is_rejected(A, epsilon, size):
    assert p_value(A, Fraction(epsilon), size, Fraction(21, 20)) < 1e-4


# -- decisions ------------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("system", "epsilon", "log_error", "fewest"), [
    (system_of(CROSSING), "1/2", 2.0**-20, 20), (TwoWayTable((3, 3)), "1", 2.0**-30, 10),
    (TwoWayTable((4, 3)), "1/4", 2.0**-30, 10), (TwoWayTable((9, 6)), "1/4", 2.0**-30, 10),
])  # fmt: skip
def test_balls_agree_with_floating_point(system, epsilon, log_error, fewest):
    law, stream = ScaleMixture(system, Fraction(epsilon)), seeded_stream(4)
    scales = law.scales.draw(20_000 // math.prod(system.shape), stream)
    logs = scales.log_keep()
    assert logs.max() <= 0
    checked = 0
    for i in np.argsort(-logs)[:60].tolist():
        t, wide = scales.values[i], scales.values[i] >= float(law.width)
        with ctx.workprec(192):
            exact = np.array([[float(x) for x in row] for row in scales.enclose(i)])
            np.testing.assert_allclose(t, exact, rtol=LOG_ERROR)
            assert abs(float(scales.enclose_keep(i).log()) - logs[i]) < log_error
        if (support := system.support(wide, law.path)) is None:
            continue
        drawn = system.noise(t, wide, support, stream)
        with ctx.workprec(192):
            found = float(law.enclose_keep(drawn, scales, i).log())
        assert found <= 0
        assert abs(found - law.log_keep(drawn, t)) < 2.0**-24
        checked += 1
    assert checked > fewest


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


# -- bounds by search -----------------------------------------------------------------------------------------


def smallest_margin(margin, system, width, seed, starts, steps):
    """Return the smallest value of a function of the log scales, by searches from patterns of wide cells."""
    rng, worst, size = np.random.default_rng(seed), math.inf, math.prod(system.shape)
    for _ in range(starts):
        wide = rng.random(size) < 0.7
        start = np.where(wide, np.log(width) + rng.exponential(0.2, size), rng.normal(-1, 1, size))
        worst = min(worst, optimize.minimize(margin, start, method="Nelder-Mead", options={"maxiter": steps}).fun)
    return worst


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("system", "path"),
    [
        *((system_of(A), None) for A in (CROSSING, two_way(3, 3)[:, 1:], [[2, 3, 5]])),
        *((TwoWayTable((4, 4)), Fraction(path)) for path in (2, 3, 5)),
    ],
)
def test_the_ratio_is_below_its_bound(system, path):
    """A search for the largest product of theta3 over the variances, which bounds the ratio for all noise."""
    width, path = 2.0, path or system.paths[0]
    law = system.scales(Fraction(1), Fraction(2), path)

    def margin(logs):
        t = np.exp(logs).reshape(system.shape)
        support = system.support(t >= width, path)
        if support is None:
            return 1.0
        drawn = system.noise(t, t >= width, support, seeded_stream(0))
        assert drawn.squares.size == system.m
        found = log_theta(1 / (drawn.squares / (1 - SLACK))).sum()
        assert drawn.log_ratio(t) - 0.5 * system.m * math.log1p(-SLACK) <= found + system.m * SLACK
        return system.m * law.excess.log_flat + law.excess.log(t).sum() - found

    assert 0 < smallest_margin(margin, system, width, 1, 8, 150) < 1  # the bound is sharp


@pytest.mark.parametrize(
    ("A", "system", "path"),
    [
        (CROSSING, system_of(CROSSING), None),
        *(
            (A, system_of(A), None)
            for A in [np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 2, 1]])]
        ),
        (two_way(3, 2), TwoWayTable((3, 2)), Fraction(3)),
    ],
)
def test_the_lattice_sum_is_below_its_bound(A, system, path):
    """Y(T) by enumeration, independent of the sampler, and its largest value over scales by search."""
    basis, path, width = kernel(A).basis.toarray(), path or system.paths[0], 1.0
    z = box(-20, 20, system.m) @ basis.T if system.m < 3 else box(-14, 14, system.m) @ basis.T
    law = system.scales(Fraction(1), Fraction(1), path)

    def margin(logs):
        t = np.exp(np.minimum(logs, 2.0))
        if system.support(t.reshape(system.shape) >= width, path) is None:
            return 1.0
        gram = (basis / t[:, np.newaxis]).T @ basis
        log_y = np.log(np.exp(-0.5 * (z**2 / t).sum(axis=1)).sum()) - 0.5 * system.m * math.log(2 * math.pi)
        return system.m * law.excess.log_flat + law.excess.log(t).sum() - log_y - 0.5 * np.linalg.slogdet(gram)[1]

    assert 0 < smallest_margin(margin, system, width, 2, 4, 80) < 1


# -- rounding -------------------------------------------------------------------------------------------------


def assert_form_is_below(basis, t, forms, squares):
    """Assert that the quadratic form of a proposal is below the true form for all scales: all minors, exactly."""
    m = len(squares)
    left = [[Fraction(0)] * m for _ in range(m)]
    for i, j in itertools.product(range(m), repeat=2):
        for e in range(t.size):
            left[i][j] += Fraction(int(basis[e, i] * basis[e, j])) / Fraction(t[e]) * (1 - Fraction(LOG_ERROR))
        for k in range(m):
            left[i][j] -= forms[k][i] * forms[k][j] * Fraction(squares[k])
    for size in range(1, m + 1):
        minor = [[fmpq(x.numerator, x.denominator) for x in row[:size]] for row in left[:size]]
        assert fmpq_mat(minor).det() > 0
    return left


def test_rounding_is_bounded():
    rng, basis = np.random.default_rng(0), kernel(CUBE).basis.toarray()
    for _ in range(20):
        t = np.exp(rng.normal(0, 3, len(basis)))
        lower, rounding = klein_given_scales.triangle((basis / t[:, np.newaxis]).T @ basis, len(basis))
        assert rounding + LOG_ERROR < SLACK
        drawn = klein_given_scales.draw_on(basis, t, seeded_stream(1))
        np.testing.assert_array_equal(drawn.squares, np.diag(lower) ** 2 * (1 - SLACK))
        forms = [[Fraction(x) for x in row] for row in (lower / np.diag(lower)).T.tolist()]
        assert_form_is_below(basis, t, forms, drawn.squares)


def test_rounding_beyond_bounds_stops_the_sampler():
    nearly = np.array([[1, 1], [1, 1], [-2, -2]]) * 10**6 + np.array([[1, 0], [0, 1], [-1, -1]])
    with pytest.raises(PrivacyError, match="rounding"):
        klein_given_scales.draw_on(nearly, np.ones(3), seeded_stream(1))
    t = np.ones((5, 3))
    t[2] = 1e14  # rows whose scales differ by more than the range of floating point
    with pytest.raises(PrivacyError, match="rounding"):
        TwoWayTable((5, 3)).noise(t, t >= 1, 0, seeded_stream(1))


# -- cost and refusals ----------------------------------------------------------------------------------------


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("system", "epsilon"),
    [
        (system_of(CROSSING), "3/4"),
        (system_of(margin_matrix((3, 3, 2), [(0,), (1,), (2,)]).toarray()), "1/4"),
        *((TwoWayTable(shape), epsilon) for shape, epsilon in [((3, 3), "1"), ((6, 6), "1/4"), ((10, 4), "1/2")]),
    ],
)
def test_acceptance_is_predicted_within_a_factor_of_two(system, epsilon):
    law, stream, kept, tries = ScaleMixture(system, Fraction(epsilon)), seeded_stream(5), 0, 0
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


@pytest.mark.parametrize(
    ("shape", "epsilon", "message"),
    [*(((3, 3), epsilon, "epsilon") for epsilon in (0.25, 0, -1)), ((10, 10), Fraction(1, 10**12), "larger epsilon")],
)
def test_invalid_epsilon_raises(shape, epsilon, message):
    with pytest.raises(PrivacyError, match=message):
        TwoWayLaplace(shape, epsilon)
