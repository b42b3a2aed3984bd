"""Width, delta and tails of Gaussian noise, real-valued and on lattices, against integrals and enumeration."""

import math
from fractions import Fraction
from functools import partial

import flint
import numpy as np
import pytest
import xarray as xr
from grids import box
from scipy import integrate, stats

import ppdinf as ppd
from ppdinf.errors import PrivacyError
from ppdinf.invariants import groups, margin, total
from ppdinf.lattice import structure
from ppdinf.laws import DiscreteGaussian, L2Laplace
from ppdinf.privacy import Guarantee, compose, to_approximate, to_event, zcdp_delta, zcdp_epsilon, zcdp_rho
from ppdinf.privacy.gaussian_calibration import gaussian_delta, gaussian_sigma
from ppdinf.privacy.lattice_gaussian import (
    exact_sigma,
    lattice_delta,
    log_constant,
    tail_bound,
    theorem14_sigma,
    zcdp_sigma,
)

EPSILONS = [1e-12, 1e-6, 0.01, 0.192, 1, 4, 30, 500]
DELTAS = [1e-300, 1e-100, 1e-30, 1e-12, 1e-6, 0.01, 0.5, 0.999999]


def exact_delta(epsilon, sigma, sensitivity=1.0):
    """The formula in balls of 2,000 bits."""
    before, flint.ctx.prec = flint.ctx.prec, 2000
    try:
        a, e = flint.arb(sensitivity) / flint.arb(sigma), flint.arb(epsilon)

        def phi(x):
            return (-x / flint.arb(2).sqrt()).erfc() / 2

        return float(phi(a / 2 - e / a) - e.exp() * phi(-a / 2 - e / a))
    finally:
        flint.ctx.prec = before


def integrated_delta(epsilon, sigma, sensitivity=1.0):
    """Mass by which one density exceeds exp(epsilon) times the other, by quadrature."""
    start = sensitivity / 2 + epsilon * sigma**2 / sensitivity
    p, q = stats.norm(sensitivity, sigma), stats.norm(0, sigma)
    return integrate.quad(lambda y: p.pdf(y) - math.exp(epsilon) * q.pdf(y), start, start + 40 * sigma, epsabs=0)[0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_analytic_width_attains_the_required_delta(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_delta(epsilon, sigma) == pytest.approx(delta, rel=1e-10)
    assert exact_delta(epsilon, sigma) == pytest.approx(delta, rel=1e-10)
    assert exact_delta(epsilon, 0.999 * sigma) > delta * (1 + 1e-5 * (1 - delta))


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.1, 3), (0.1, 30), (1, 0.4), (1, 4), (3, 1), (5, 1.3)])
def test_delta_by_integration(epsilon, sigma):
    assert gaussian_delta(epsilon, sigma) == pytest.approx(integrated_delta(epsilon, sigma), rel=1e-7)
    assert gaussian_delta(epsilon, 7 * sigma, sensitivity=7) == pytest.approx(gaussian_delta(epsilon, sigma), rel=1e-12)


def test_the_printed_width_is_wider_if_it_is_valid():
    for epsilon in (0.05, 0.192, 0.9):
        for delta in (1e-9, 1e-6, 0.1):
            printed = gaussian_sigma(epsilon, delta, calibration="printed")
            assert printed == pytest.approx((1 + math.sqrt(1 + math.log(1 / delta))) / epsilon, rel=1e-14)
            assert exact_delta(epsilon, printed) < delta
            assert gaussian_sigma(epsilon, delta) < printed


@pytest.mark.parametrize(("epsilon", "delta"), [(0.192, 1e-13), (0.9, 1e-11), (5, 1e-6), (50, 0.1)])
def test_the_printed_width_is_refused_if_it_is_not_valid(epsilon, delta):
    """Lemma 3.4 of Gao et al. is stated for every epsilon and delta."""
    printed = (1 + math.sqrt(1 + math.log(1 / delta))) / epsilon
    assert exact_delta(epsilon, printed) > 1.05 * delta
    with pytest.raises(PrivacyError, match="use calibration='analytic'"):
        gaussian_sigma(epsilon, delta, calibration="printed")
    with_a_two = (1 + math.sqrt(2 * math.log(1 / delta))) / epsilon  # as in Nikolov, Talwar and Zhang (2013)
    assert exact_delta(epsilon, with_a_two) < delta or epsilon > 10


def test_widths_scale_with_sensitivity_and_fall_with_both_parameters():
    assert gaussian_sigma(1, 1e-6, sensitivity=3) == pytest.approx(3 * gaussian_sigma(1, 1e-6), rel=1e-14)
    assert gaussian_sigma("1/4", "0.01") == gaussian_sigma(0.25, 0.01)
    widths = [[gaussian_sigma(e, d) for e in EPSILONS] for d in DELTAS]
    assert np.all(np.diff(widths, axis=0) < 0)
    assert np.all(np.diff(widths, axis=1) < 0)


CASES = [(2.55623, 1e-10), (0.5, 1e-5), (5e-4, 1e-6), (0.02, 0.01), (100.0, 1e-3)]


@pytest.mark.parametrize(("rho", "delta"), CASES)
def test_conversion_of_zcdp(rho, delta):
    """The least of the bounds on a grid of orders; Gaussian noise is rho-zCDP, and its delta is smaller, but close."""
    epsilon, shift = zcdp_epsilon(rho, delta), math.sqrt(2 * rho)
    assert zcdp_delta(rho, epsilon) == pytest.approx(delta, rel=1e-6)
    assert zcdp_rho(epsilon, delta) == pytest.approx(rho, rel=1e-6)
    order = np.exp(np.linspace(-10, 20, 200_000))
    alpha = 1 + order
    bounds = order * (alpha * rho - epsilon) - np.log(order) + alpha * np.log1p(-1 / alpha)
    assert bounds.min() == pytest.approx(math.log(delta), abs=1e-4)
    near, far = stats.norm.cdf([shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift])
    exact = near - math.exp(epsilon) * far
    assert 0.02 * delta < exact < delta


def test_the_census_figures():
    """2020 redistricting data, persons: rho = 2.55623 is published as epsilon = 17.14 at delta = 1e-10."""
    assert round(zcdp_epsilon(2.55623, 1e-10), 2) == 17.14
    simpler = 2.55623 + 2 * math.sqrt(2.55623 * math.log(1e10))
    assert zcdp_epsilon(2.55623, 1e-10) < simpler == pytest.approx(17.90, abs=0.01)


@pytest.mark.parametrize(("rho", "delta"), CASES)
def test_agrees_with_dp_accounting(rho, delta):
    """dp-accounting minimizes over a list of orders, so its result is slightly larger."""
    accounting = pytest.importorskip("dp_accounting")
    accountant = accounting.rdp.RdpAccountant()
    accountant.compose(accounting.ZCDpEvent(rho))
    theirs = accountant.get_epsilon(delta)
    assert zcdp_epsilon(rho, delta) <= theirs * (1 + 1e-9)
    assert theirs <= 1.02 * zcdp_epsilon(rho, delta)


def test_losses_at_a_distance_can_exceed_the_range_of_parameters():
    assert zcdp_epsilon(Fraction(1, 10**15), "1e-6") == 0  # two laws so near differ by less than delta
    assert zcdp_epsilon(Fraction(10**8), 1e-6) == pytest.approx(10**8 + 2 * math.sqrt(10**8 * math.log(1e6)), rel=1e-4)


def test_a_restatement_names_its_tables():
    record = Guarantee("zcdp", rho=Fraction(1, 50), neighbours="one person's record")
    cells = Guarantee("zcdp", rho=Fraction(1, 50), metric="l2")
    assert to_approximate(record, "1e-6").neighbours == "one person's record"
    assert to_approximate(record, "1e-6", distance=2).neighbours == "2 times one person's record"
    assert to_approximate(cells, "1e-6").neighbours == "an l2 distance of 1"
    assert to_approximate(cells, "1e-6", distance=2).neighbours == "an l2 distance of 2"


def test_an_event_is_that_of_the_nearest_tables_unless_others_are_named():
    pytest.importorskip("dp_accounting")
    assert to_event(Guarantee("zcdp", rho=Fraction(1, 2), metric="l2")).rho == 0.5


def test_the_delta_of_a_guarantee_is_that_of_neighbours():
    guarantee = Guarantee("approximate", Fraction(1), Fraction(1, 10), neighbours="one record")
    assert guarantee.delta_at() == guarantee.delta_at(1) == 0.1 < guarantee.delta_at(2)


SYSTEMS = {
    "total": ([[1, 1, 1]], [1, -1, 0]),
    "two sums": ([[1, 1, 0, 1], [0, 1, 1, 1]], [1, -1, 1, 0]),
    "weights": ([[2, 3, 5]], [1, 1, -1]),
    "skew": ([[1, 2, 4]], [2, -1, 0]),
}


def margins(rows, columns):
    return np.vstack([np.kron(np.eye(rows, dtype=int), [[1] * columns]), np.tile(np.eye(columns, dtype=int), rows)])


def points(A, reach):
    grid = box(-reach, reach, np.shape(A)[1])
    return grid[np.all(grid @ np.transpose(A) == 0, axis=1)]


def enumerated_delta(z, h, sigma, epsilon):
    mass = np.exp(-0.5 * (z**2).sum(axis=1) / sigma**2)
    shifted = np.exp(-0.5 * ((z - h) ** 2).sum(axis=1) / sigma**2)
    return np.maximum(mass - math.exp(epsilon) * shifted, 0).sum() / mass.sum()


@pytest.mark.parametrize("name", SYSTEMS)
def test_delta_equals_enumeration_for_wide_noise_and_bounds_it_for_narrow(name):
    A, h = SYSTEMS[name]
    z = points(A, 24)
    for sigma, epsilon in [(2.5, 0.25), (3.0, 1.0), (0.6, 0.5), (1.0, 0.1)]:
        found = lattice_delta(structure(A), np.array(h), sigma, epsilon)
        expected = enumerated_delta(z, h, sigma, epsilon)
        assert found >= expected - 1e-12
        if sigma > 2 and name != "weights" and name != "skew":
            assert found == pytest.approx(expected, rel=2e-3)


@pytest.mark.deep
def test_exact_sigma_is_smallest():
    found, h = structure([[1, 1, 1]]), np.array([1, -1, 0])
    sigma = exact_sigma(found, h, "1/4", 1e-6)
    z = points([[1, 1, 1]], 110)
    assert enumerated_delta(z, h, 1.0001 * sigma, 0.25) < 1e-6 < enumerated_delta(z, h, 0.9999 * sigma, 0.25)


def test_zcdp_is_nearly_tight_and_theorem_14_is_not():
    """The table for (epsilon, delta) = (1/4, 1e-6); exact between nearest tables, the others at distance 1."""
    small, large = structure(margins(4, 4)), structure(margins(30, 30))
    swap = np.zeros((4, 4), dtype=int)
    swap[:2, :2] = [[1, -1], [-1, 1]]
    assert zcdp_sigma("1/4", 1e-6) == pytest.approx(16.66, abs=0.01)
    assert exact_sigma(small, swap.ravel(), "1/4", 1e-6) == pytest.approx(30.82, abs=0.01)
    assert 2 * zcdp_sigma("1/4", 1e-6) == pytest.approx(33.32, abs=0.01)  # the same guarantee through zCDP
    assert theorem14_sigma(small, "1/4", 1e-6) == pytest.approx(212.2, abs=0.1)
    assert theorem14_sigma(large, "1/4", 1e-6) == pytest.approx(2624, abs=3)


@pytest.mark.deep
def test_renyi_divergence_of_lattice_gaussians_is_that_of_the_line():
    """D_alpha = alpha |h|^2 / (2 sigma^2) at most, with equality for orders that keep (1 - alpha) h on the lattice."""
    for A, h in SYSTEMS.values():
        z = points(A, 24)
        for sigma, alpha in [(1.5, 2), (2.0, 3), (1.0, 1.5)]:
            log_q = -0.5 * (z**2).sum(axis=1) / sigma**2
            log_p = -0.5 * ((z - h) ** 2).sum(axis=1) / sigma**2
            moment = np.exp(alpha * log_p + (1 - alpha) * log_q).sum() / np.exp(log_q).sum()
            found = math.log(moment) / (alpha - 1)
            bound = alpha * np.dot(h, h) / (2 * sigma**2)
            assert found <= bound + 1e-9
            if alpha != 1.5 and bound < 8:  # within the enumerated range
                assert found == pytest.approx(bound, rel=1e-6)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("law", [L2Laplace("4/5"), DiscreteGaussian(3)], ids=str)
@pytest.mark.parametrize("A", [[[1, 1]], [[1, 2]], [[1, 1, 1]], [[1, 1, 1, 0], [0, 0, 1, 1]]], ids=str)
def test_the_tail_bound_holds_at_every_distance(A, law):
    """Theorem 12 and Proposition 18; the printed bound without the distance from which it holds is too small near 0."""
    z = points(A, 60 if np.shape(A)[1] < 4 else 30)
    norms, log_mass = np.sqrt((z**2).sum(axis=1)), np.array([law.log_mass(x) for x in z])
    mass, found, informative = np.exp(log_mass) / np.exp(log_mass).sum(), structure(A), 0
    for t in np.arange(0.05, 24, 0.35):
        bound, exact = tail_bound(A, law, float(t)), mass[norms >= t].sum()
        assert exact <= bound + 1e-12
        informative += bound < 1
    assert informative > 3
    assert mass[norms > 0].sum() > math.exp(log_constant(found)) * 0.01**found.lattice.rank


def test_tail_constant_of_one_free_dimension_and_tail_bound_of_none():
    """For (k, -k), V_1 = 2 and det = 2: K = 4 * 2 * 2 / sqrt(2)."""
    assert math.exp(log_constant(structure([[1, 1]]))) == pytest.approx(16 / math.sqrt(2))
    assert tail_bound(np.eye(2, dtype=int), L2Laplace(1), 1) == 0


def test_wrong_variant_without_the_factor_two_is_too_small():
    """sigma = 1 / sqrt(rho), without the 2 of rho = 1 / (2 sigma^2), would be below the exact sigma."""
    sigma = zcdp_sigma("1/4", 1e-6) * math.sqrt(2)  # required for |h|^2 = 2
    z, h = points([[1, 1]], 200), np.array([1, -1])
    assert enumerated_delta(z, h, sigma, 0.25) < 1e-6
    assert enumerated_delta(z, h, sigma / math.sqrt(2), 0.25) > 1e-6


def test_exact_calibration_covers_every_nearest_table():
    """Steps of one length can differ in delta: counts of two cells move by steps of two."""
    public, small = groups("block"), xr.DataArray([3, 4, 5, 6, 7], dims="cell", coords={"block": ("cell", [*"aabbb"])})
    for epsilon, delta in ((2, "0.01"), (3, "0.001"), (1, "0.05")):
        mechanism = ppd.GeneralizedGaussian(public, epsilon, delta, calibration="exact").on(public.on(small))
        reach = np.arange(-60, 61)
        p = np.exp(-(reach**2) / float(mechanism.sigma) ** 2)  # of (k, -k), the block of two cells
        p /= p.sum()
        excess = np.maximum(p[1:] - math.exp(epsilon) * p[:-1], 0).sum()
        assert excess <= float(Fraction(delta))
    found = public.on(small).structure
    one = exact_sigma(found, np.array([0, 0, 1, -1, 0]), 3, "0.001")
    assert lattice_delta(found, np.array([1, -1, 0, 0, 0]), one, 3.0) > 0.001  # required for the longer block alone


@pytest.mark.parametrize("calibration", ["exact", "theorem14"])
def test_calibrations_refuse_a_sigma_that_is_too_small(calibration):
    public, table = total(), np.array([3, 4, 5])
    make = partial(ppd.GeneralizedGaussian, public, "1/4", "1e-6", calibration=calibration)
    sigma = make().on(public.on(table)).sigma
    assert make(sigma=sigma).on(public.on(table)).sigma == sigma
    assert make(sigma=2 * sigma).on(public.on(table)).sigma == 2 * sigma
    for wrong in (sigma / 2, sigma * Fraction(999, 1000)):
        with pytest.raises(PrivacyError, match="sigma is too small"):
            make(sigma=wrong).release(table)


def test_other_smallest_changes_do_not_compose():
    """Each of two margins leaves pairs of cells open, both together only swaps."""
    table = np.array([[3, 4], [5, 6]])
    by = [ppd.GeneralizedGaussian(margin(d), "1/2", "0.01", calibration="exact") for d in ("dim_0", "dim_1")]
    both = ppd.GeneralizedGaussian(margin("dim_0") & margin("dim_1"), "1/2", "0.01", calibration="exact")
    first, second, third = (m.release(table).guarantee for m in (*by, both))
    assert "an l2 distance of 1.414" in compose(first, second).describe()
    with pytest.raises(PrivacyError, match="different kinds"):
        compose(first, third)


def test_a_width_is_computed_if_the_bound_exceeds_the_conversion_from_zcdp():
    found, step = structure(np.kron(np.eye(2, dtype=int), [[1, 1, 1]])), np.array([1, -1, 0, 0, 0, 0])
    sigma = exact_sigma(found, step, 5, "1/4")
    assert 0.6 < sigma < 1
    assert lattice_delta(found, step, sigma, 5.0) <= 0.25 * (1 + 1e-6)
