"""Conditioned noise and the Wasserstein exponential mechanism: laws, normalizers and losses against enumeration."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import xarray as xr
from chi_square import p_value_of_tables
from flint import arb
from scipy import special

import ppdinf as ppd
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import at_least, between, groups, inequality, margin, nonnegative, total
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.mechanisms import DirichletMultinomial, DiscreteGaussian, DoubleGeometric, Staircase
from ppdinf.mechanisms.table_sums import eliminated_releases
from ppdinf.privacy import conditioning_cost, erosion, posterior_distance, posterior_range

THREE = xr.DataArray([3, 0, 2], dims="county")
STATES = xr.DataArray([2, 1, 0, 2], dims="county", coords={"state": ("county", list("AABB"))})
SQUARE = xr.DataArray([[2, 0, 1], [0, 3, 1]], dims=("sex", "age"))
CASES = xr.DataArray(
    [[3, 1, 2], [1, 0, 1]], dims=("kind", "county"), coords={"kind": ["cases", "deaths"], "county": list("xyz")}
)


def conditioned(noise):
    return lambda public: ppd.Conditioned(public, noise=noise)


def wasserstein(epsilon, base=None, loss="l1", sensitivity=2):
    return lambda public: ppd.WassersteinExponential(public, epsilon, sensitivity, "x", base, loss)


SUM, STATE = total() & nonnegative(), groups("state") & nonnegative()
MARGINS = margin("sex") & margin("age") & nonnegative()
LINKED = margin("kind") & nonnegative() & at_least("cases", "deaths", dim="kind")
EMPTY_ROW = xr.DataArray([[0, 0], [2, 1], [3, 2]], dims=("sex", "age"))
MECHANISMS = {
    "geometric, total": (conditioned(DoubleGeometric("1/2")), SUM, THREE),
    "geometric, groups": (conditioned(DoubleGeometric(1)), STATE, STATES),
    "geometric, margins": (conditioned(DoubleGeometric("3/4")), MARGINS, SQUARE),
    "geometric, linked": (conditioned(DoubleGeometric("1/2")), LINKED, CASES),
    "staircase": (conditioned(Staircase(1, 3, 2)), total() & between(0, 4), THREE),
    "wasserstein": (wasserstein(2), SUM, THREE),
    "wasserstein, l2": (wasserstein(4, loss="l2"), SUM, THREE),
    "wasserstein, l2, a row fixed by its bounds": (wasserstein(4, None, "l2", 4), MARGINS, EMPTY_ROW),
    "dirichlet, l2": (wasserstein(4, DirichletMultinomial([1, 2, 0, 1, 3, 1]), "l2"), LINKED, CASES),
    "dirichlet": (wasserstein(2, DirichletMultinomial([4, 0, 1], "1/2")), SUM, THREE),
    "dirichlet, concentrated": (wasserstein(1, DirichletMultinomial([2, 1, 0, 3], 3)), STATE, STATES),
}


def enumerated(mechanism, system, x, has_base=True):
    """All releases of a table with their probabilities, from the formula; and the log of the total weight."""
    points = fiber_tables(system.A, system.values, system.B, system.limits)
    if mechanism.law.is_mixture:
        log_w = -float(mechanism.law.epsilon) * np.linalg.norm(points - x, axis=1)
    else:
        log_w = mechanism.law.log_weight(points - x).sum(axis=1)
    base = getattr(mechanism, "base_measure", None)
    if isinstance(base, DirichletMultinomial) and has_base:
        alpha = np.array([float(a) for a in base.alpha])
        log_nu = special.gammaln(points + alpha) - special.gammaln(alpha) - special.gammaln(points + 1)
        log_w = log_w + log_nu.sum(axis=1)
    log_c = special.logsumexp(log_w)
    return points, np.exp(log_w - log_c), log_c


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", MECHANISMS)
def test_draws_and_normalizers_follow_the_formula(name):
    """False alarms below 1e-6 for each case; noise 10 % narrower or a missing base measure is detected."""
    make, public, table = MECHANISMS[name]
    mechanism, system, x = make(public), public.on(table), table.values.ravel()
    points, p, log_c = enumerated(mechanism, system, x)
    normaliser = mechanism.likelihood(system).normaliser
    if mechanism.law.is_mixture:
        assert normaliser.log is None
    else:
        assert normaliser.log(x) == pytest.approx(log_c, abs=1e-10)
    drawn = mechanism.simulate(table, draws=20_000, rng=1).values.reshape(20_000, -1)
    assert p_value_of_tables(drawn, points, p) > 1e-6
    wrong = p**1.1 / (p**1.1).sum()
    assert p_value_of_tables(drawn, points, wrong) < 1e-6
    if name.startswith("dirichlet"):
        assert p_value_of_tables(drawn, points, enumerated(mechanism, system, x, has_base=False)[1]) < 1e-6


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("epsilon", ["1/100", "2", "200"])
@pytest.mark.parametrize("name", ["wasserstein, l2", "dirichlet, l2"])
def test_normalizers_of_l2_noise(name, epsilon):
    """For noise wider than all tables, and for noise so narrow that nothing moves."""
    make, public, table = MECHANISMS[name]
    mechanism, system = make(public), public.on(table)
    mechanism = ppd.WassersteinExponential(public, epsilon, 2, "x", mechanism.base_measure, "l2")
    points = fiber_tables(system.A, system.values, system.B, system.limits)
    for x in points[:: max(1, len(points) // 3)]:
        assert mechanism.log_normaliser(system, x) == pytest.approx(enumerated(mechanism, system, x)[2], abs=1e-10)


def test_erratum_2_the_printed_base_measure_is_another_law():
    """Gamma(y) for y! and Gamma(alpha + 1) for Gamma(alpha): the printed weights are not a law."""
    alpha, n = np.array([1.5, 0.5, 1.0]), 4
    points = fiber_tables([[1, 1, 1]], np.array([n]), np.eye(3, dtype=int), np.zeros(3, dtype=int))
    right = special.gammaln(points + alpha) - special.gammaln(alpha) - special.gammaln(points + 1)
    constant = special.gammaln(alpha.sum()) + special.gammaln(n + 1) - special.gammaln(n + alpha.sum())
    assert np.exp(right.sum(axis=1) + constant).sum() == pytest.approx(1)
    inside = points[(points > 0).all(axis=1)]  # the printed form is not even defined at 0
    printed = special.gammaln(inside + alpha) - special.gammaln(alpha + 1) - special.gammaln(inside)
    assert np.exp(printed.sum(axis=1) + constant).sum() != pytest.approx(1, abs=0.2)
    weight = [float(DirichletMultinomial([1, 0, 0], 1, "1/2").weight(0, k).mid()) for k in range(4)]
    assert weight == pytest.approx(np.exp(special.gammaln(np.arange(4) + 1.5) - special.gammaln(1.5)) / [1, 1, 2, 6])


@dataclass(frozen=True)
class Even:
    """Twice the weight for even counts: a user-defined base measure."""

    def weight(self, cell, count):
        return arb(1 + (count % 2 == 0))

    def largest(self, cell, low, high):
        return arb(2)


def test_a_user_defined_base_measure():
    public = total() & nonnegative()
    mechanism, system = ppd.WassersteinExponential(public, 2, 2, "x", base_measure=Even()), public.on(THREE)
    points = fiber_tables(system.A, system.values, system.B, system.limits)
    weights = np.exp(mechanism.law.log_weight(points - THREE.values).sum(axis=1)) * 2.0 ** (points % 2 == 0).sum(axis=1)
    drawn = mechanism.simulate(THREE, draws=10_000, rng=1).values
    assert p_value_of_tables(drawn, points, weights / weights.sum()) > 1e-6
    with pytest.raises(PrivacyError, match="Dirichlet-multinomial base measures only"):
        mechanism.to_dict()


def test_sums_alone_leave_the_lattice_law():
    """Conditioned double geometric noise is generalized Laplace noise; conditioning costs nothing."""
    mechanism, table = ppd.Conditioned(total(), noise=DoubleGeometric("1/4")), THREE
    laplace = ppd.GeneralizedLaplace(total(), epsilon="1/4")
    xr.testing.assert_equal(mechanism.simulate(table, draws=50, rng=1), laplace.simulate(table, draws=50, rng=1))
    assert mechanism.likelihood(total().on(table)).normaliser is None
    assert mechanism.guarantee.gamma == 0
    assert mechanism.release(table).guarantee.loss_at_nearest == laplace.release(table).guarantee.loss_at_nearest
    gaussian = ppd.Conditioned(total(), noise=DiscreteGaussian(3))
    assert gaussian.guarantee.rho == Fraction(1, 18)
    assert gaussian.release(table).plan.sampler == "Klein"


def test_bounds_of_any_kind_cost_the_same():
    """Counts >= 0, stated as rows of a matrix."""
    noise, rows = DoubleGeometric("1/4"), inequality(np.eye(3, dtype=int), [0, 0, 0])
    stated, usual = (ppd.Conditioned(total() & bounds, noise=noise) for bounds in (rows, nonnegative()))
    assert stated.guarantee.gamma == usual.guarantee.gamma == 1
    free = ppd.Conditioned(total(), noise=noise)
    widths = [mechanism.likelihood(mechanism.public.on(THREE)).support_radius for mechanism in (stated, usual, free)]
    assert widths[0] == widths[1] > widths[2]
    assert stated.release(THREE).guarantee.gamma == usual.release(THREE).guarantee.gamma > 0


@pytest.mark.parametrize("epsilon", ["1/4", "1", "3"])
def test_gamma_covers_every_pair_and_no_less_would(epsilon):
    """Enumerated audit: the loss over all pairs and releases is at most (1 + gamma) epsilon k, attained."""
    public = total() & nonnegative()
    mechanism, system = ppd.Conditioned(public, noise=DoubleGeometric(epsilon)), public.on(THREE)
    cost = conditioning_cost(mechanism, system)
    points = fiber_tables(system.A, system.values, system.B, system.limits)
    log_p = np.array([np.log(enumerated(mechanism, system, x)[1]) for x in points])
    k = np.abs(points[:, None] - points).sum(axis=2)
    loss = np.max(log_p[:, None] - log_p[None], axis=2)
    assert cost.exact
    assert np.all(loss <= (1 + cost.gamma) * float(mechanism.noise.epsilon) * k + 1e-9)
    apart = k > 0
    assert cost.effective == pytest.approx(np.max(loss[apart] / (float(mechanism.noise.epsilon) * k[apart])) - 1)
    assert not np.all(loss <= 0.5 * (1 + cost.effective) * float(mechanism.noise.epsilon) * k + 1e-9)
    assert 0 < cost.gamma < 1


def test_effective_loss_without_enumeration_is_gamma():
    """Enumerated, the two agree for double geometric noise: the release y = x has the largest loss."""
    public = total() & nonnegative()
    for epsilon in ("1/4", "3"):
        mechanism = ppd.Conditioned(public, noise=DoubleGeometric(epsilon))
        cost = conditioning_cost(mechanism, public.on(THREE))
        assert cost.effective == pytest.approx(cost.lower, abs=1e-9)
        many = conditioning_cost(mechanism, public.on(np.full(60, 400)))
        assert many.exact
        assert many.effective == many.lower > 0
    sums = ppd.Conditioned(total(), noise=DoubleGeometric(1))
    assert conditioning_cost(sums, total().on(THREE)).effective == 0
    wide = ppd.Conditioned(public, noise=ppd.mechanisms.Staircase(1, 3, 2))
    assert conditioning_cost(wide, public.on(np.full(60, 400))).effective is None


def test_conditioning_reduces_the_loss_of_two_bins():
    """CDP section 5.1: base noise of scale 2 / epsilon, loss epsilon at distance 2, gamma = -1/2 in their counting."""
    public = total()
    mechanism = ppd.Conditioned(public, noise=DoubleGeometric("1/2"))  # epsilon = 1, shared by two bins
    guarantee = mechanism.release(np.array([5, 3])).guarantee
    assert guarantee.loss_at_nearest == 1  # epsilon, where two steps of epsilon would be allowed


def test_gamma_is_bounded_by_a_search_for_many_tables():
    """If bounds concern several cells, no bound below 1 is known; a search gives a lower bound."""
    public = margin("kind") & nonnegative() & at_least("cases", "deaths", dim="kind")
    table = CASES.copy(data=[[9, 8, 7], [3, 2, 1]])
    mechanism = ppd.Conditioned(public, noise=DoubleGeometric("1/2"))
    cost = conditioning_cost(mechanism, public.on(table))
    assert not cost.exact
    assert cost.gamma == 1
    assert 0 < cost.lower < 1
    assert "gamma = 1" in mechanism.guarantee_on(public.on(table), None).describe()


def test_erosion_in_words():
    assert erosion(ppd.invariants.Public().on([1, 2])).nearest == 1
    assert "the guarantee covers neighbours" in str(erosion(ppd.invariants.Public().on([1, 2])))
    assert "the nearest are 2 apart" in str(erosion(total().on([1, 2])))
    assert "protects nothing" in str(erosion(margin("dim_0").on([1, 2])))


def test_prior_to_posterior():
    prior = np.array([0.01, 0.3, 0.9])
    least, most = posterior_range(prior, 0.7)
    assert np.allclose(most / (1 - most) / (prior / (1 - prior)), math.exp(0.7))
    assert np.allclose(least / (1 - least) / (prior / (1 - prior)), math.exp(-0.7))
    assert np.all(most <= np.exp(0.7) * prior)  # their Theorem 1.3
    certain = [0.0, 0.5, 1.0]
    least, most = posterior_range(certain, math.inf)
    assert (least.tolist(), most.tolist()) == ([0, 0, 1], [0, 1, 1])
    assert [bound.tolist() for bound in posterior_range([0.0, 1.0], 800)] == [[0, 1], [0, 1]]
    for arguments in [(1.1, 1), (-0.1, 1), (0.5, -1), (0.5, math.nan), ("x", 1), (0.5, "x"), (None, 1), (0.5, [1, 2])]:
        with pytest.raises(PrivacyError):
            posterior_range(*arguments)


def test_posterior_to_posterior():
    """All priors of two tables on a grid, and random ones of five: likelihoods of a table differ by exp(loss)."""
    loss, rng = 0.8, np.random.default_rng(1)
    priors = np.stack([np.linspace(0, 1, 2001)[1:-1], np.linspace(1, 0, 2001)[1:-1]], axis=1)
    ratios = np.exp([loss, -loss])
    largest = 0.0
    for prior, ratio in [(priors, ratios), (rng.dirichlet(np.ones(5), 2000), np.exp(rng.uniform(-loss, loss, 5)))]:
        other = prior * ratio / (prior @ ratio)[:, None]
        largest = max(largest, (abs(other - prior).sum(axis=1) / 2).max())
        for column in range(prior.shape[1]):
            least, most = posterior_range(prior[:, column], 2 * loss)
            assert (least - 1e-12 <= other[:, column]).all()
            assert (other[:, column] <= most + 1e-12).all()
    assert largest == pytest.approx(posterior_distance(loss), rel=1e-5)
    assert posterior_distance(loss) < np.exp(loss) - 1
    assert (posterior_distance(0), posterior_distance(math.inf)) == (0, 1)
    for wrong in (-1, "x", None, [1, 2]):
        with pytest.raises(PrivacyError, match="loss must"):
            posterior_distance(wrong)


def test_gamma_in_a_guarantee_is_a_bound_in_few_digits():
    """Its last digits, which differ between machines, would make a release file invalid."""
    mechanism = ppd.Conditioned(total() & nonnegative(), noise=DoubleGeometric("1/2"))
    release = mechanism.release(np.array([3, 0, 2]))
    exact = conditioning_cost(mechanism, release.public).gamma
    assert exact <= release.guarantee.gamma <= exact + 2e-6
    assert release.guarantee.gamma == round(release.guarantee.gamma, 6)


def test_narrow_bounds_make_wide_noise_fast():
    """Supports end at the public bounds, not where noise with a rate of 1e-6 per person ends."""
    mechanism = ppd.Conditioned(total() & nonnegative(), noise=DoubleGeometric("1e-6"))
    drawn = mechanism.simulate([5, 3], draws=2000, rng=1)
    assert p_value_of_tables(drawn.values, np.array([[k, 8 - k] for k in range(9)]), np.full(9, 1 / 9)) > 1e-6


@pytest.mark.parametrize("name", MECHANISMS)
def test_impossible_tables_have_no_density(name):
    make, public, table = MECHANISMS[name]
    step = np.zeros(table.shape, dtype=int)
    step[..., :2] = 9, -9
    if table.dims == ("sex", "age"):
        step[1] *= -1
        step[2:] = 0
    outside = table + step
    mechanism, system = make(public), public.on(table)
    assert not system.check(outside)["agrees"].all()
    assert system.check(outside)["agrees"][: len(system.names)].all()
    assert mechanism.logp(table, outside) == mechanism.logp(outside, table) == -np.inf
    assert np.isfinite(mechanism.logp(table, table))


def test_slacks_end_at_the_public_limits():
    """Noise with a rate of 1e-6 per person reaches millions of slack values; bounds and sums leave few."""
    public = margin("kind") & nonnegative() & at_least("cases", "deaths", dim="kind")
    system, x = public.on(CASES), CASES.values.ravel()
    wide = eliminated_releases(system, tuple(x.tolist()), DoubleGeometric("1e-6"))
    assert len(wide._potentials[-1](80)[1]) <= 7
    points = fiber_tables(system.A, system.values, system.B, system.limits)
    assert wide.log_normaliser == pytest.approx(math.log(len(points)), abs=1e-4)
    narrow = eliminated_releases(system, tuple(x.tolist()), DoubleGeometric("1/2"))
    _, _, log_c = enumerated(ppd.Conditioned(public, noise=DoubleGeometric("1/2")), system, x)
    assert narrow.log_normaliser == pytest.approx(log_c, abs=1e-10)


STRONG = {
    "total": (total() & nonnegative(), THREE.copy(data=[0, 0, 30]), [40, 10, 0]),
    "groups": (groups("state") & nonnegative(), STATES.copy(data=[0, 25, 3, 0]), [9, 0, 0, 7]),
    "margins": (margin("sex") & margin("age") & nonnegative(), SQUARE.copy(data=[[9, 0, 1], [0, 9, 5]]), [0, 9] * 3),
    "upper": (total() & between(0, 12), THREE.copy(data=[12, 0, 3]), [0, 40, 1]),
}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("where", STRONG)
def test_base_measures_that_outweigh_the_noise(where):
    """Weights of 1,000 earlier tables grow by powers that cancel if sums are public."""
    public, table, earlier = STRONG[where]
    base, system = DirichletMultinomial(earlier, 1000), public.on(table)
    mechanism = ppd.WassersteinExponential(public, 4, sensitivity=4, secrets="x", base_measure=base)
    points, p, _ = enumerated(mechanism, system, table.values.ravel())
    for x in points[:: max(1, len(points) // 20)]:  # a chain may propose any of them
        assert mechanism.log_normaliser(system, x) == pytest.approx(enumerated(mechanism, system, x)[2], abs=1e-8)
    drawn = mechanism.simulate(table, draws=5000, rng=1).values.reshape(5000, -1)
    assert p_value_of_tables(drawn, points, p) > 1e-6
    assert p_value_of_tables(drawn, points, p**1.5 / (p**1.5).sum()) < 1e-6


@pytest.mark.quick_cases(0)
def test_base_measures_that_remain_too_large_are_refused_by_name(monkeypatch):
    monkeypatch.delattr(DirichletMultinomial, "around")
    base = DirichletMultinomial([1000] * 3, 1000)
    mechanism = ppd.WassersteinExponential(total() & nonnegative(), 1, 2, "x", base_measure=base)
    with pytest.raises(InvariantError, match="lower its concentration"):
        mechanism.simulate([3000, 0, 0], draws=1, rng=1)


@pytest.mark.quick_cases(0)
def test_many_cells_in_disjoint_groups_do_not_cross():
    """8,188 cells in 4 groups: the work grows with the cells, not with cells times sums."""
    table = np.random.default_rng(1).poisson(20, (4, 2047))
    mechanism = ppd.Conditioned(margin("dim_0") & nonnegative(), noise=DoubleGeometric("1/4"))
    release = mechanism.release(table)
    np.testing.assert_array_equal(release.table.values.sum(axis=1), table.sum(axis=1))
    assert release.table.values.min() >= 0
    noise = np.abs(release.table.values - table)
    a = np.exp(-0.25)  # cells of 20 hardly feel the bound
    assert abs(noise.mean() - 2 * a / (1 - a**2)) < 6 * 4 / np.sqrt(table.size) + 0.05


@pytest.mark.parametrize("epsilon", ["1/4", "1/100", "1/500", "1/5000"])
def test_the_plan_does_not_depend_on_the_counts(epsilon):
    """Total and bounds are public: all tables with the same values are drawn, or all refused before any work."""
    mechanism, verdicts = ppd.Conditioned(total() & nonnegative(), noise=DoubleGeometric(epsilon)), set()
    for counts in ([60_000, 0, 0, 0], [15_000] * 4, [30_000, 30_000, 0, 0]):
        try:
            plan = mechanism.sampler_plan(np.array(counts))
        except InvariantError as error:
            verdicts.add(str(error))
            continue
        verdicts.add(str(plan))
        assert mechanism.release(np.array(counts)).table.sum() == 60_000
    assert len(verdicts) == 1


def test_l2_noise_of_many_cells_within_bounds():
    """Without tight bounds |z|_2 has nearly the Gamma law of rank 66 and rate 1/4; within 6 standard errors."""
    table = np.full(67, 500)
    mechanism = ppd.WassersteinExponential(total() & nonnegative(), 1, 2, "the cell of one person", loss="l2")
    drawn = mechanism.simulate(table, draws=100, rng=1).values
    assert (drawn >= 0).all()
    assert (drawn.sum(axis=1) == table.sum()).all()
    lengths = np.sqrt(((drawn - table) ** 2).sum(axis=1))
    assert abs(lengths.mean() - 66 * 4) < 6 * math.sqrt(66) * 4 / 10


def test_l2_noise_uses_both_kinds_of_proposals():
    """Chi-square of tables where few, some and most draws without bounds are within them, against enumeration."""
    for table in ([0, 0, 0, 1], [1, 1, 0, 2], [4, 4, 4, 4]):
        mechanism = ppd.WassersteinExponential(total() & nonnegative(), 4, 2, "the cell of one person", loss="l2")
        drawn = mechanism.simulate(table, draws=20_000, rng=2).values
        n = sum(table)
        tables = np.array([t for t in product(range(n + 1), repeat=4) if sum(t) == n])
        p = np.exp(-np.sqrt(((tables - table) ** 2).sum(axis=1)))
        assert p_value_of_tables(drawn, tables, p / p.sum()) > 1e-6
