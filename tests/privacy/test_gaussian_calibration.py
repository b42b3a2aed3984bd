"""Width of Gaussian noise, and zCDP to (epsilon, delta) and back, against ball arithmetic, integrals and a library."""

import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from scipy import integrate, stats

from ppdinf.errors import PrivacyError
from ppdinf.privacy import Guarantee, to_approximate, to_event, zcdp_delta, zcdp_epsilon, zcdp_rho
from ppdinf.privacy.gaussian_calibration import gaussian_delta, gaussian_sigma

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
def test_round_trip(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    assert zcdp_delta(rho, epsilon) == pytest.approx(delta, rel=1e-6)
    assert zcdp_rho(epsilon, delta) == pytest.approx(rho, rel=1e-6)


@pytest.mark.parametrize(("rho", "delta"), CASES)
def test_is_the_least_of_the_bounds_on_a_grid_of_orders(rho, delta):
    order = np.exp(np.linspace(-10, 20, 200_000))
    alpha, epsilon = 1 + order, zcdp_epsilon(rho, delta)
    bounds = order * (alpha * rho - epsilon) - np.log(order) + alpha * np.log1p(-1 / alpha)
    assert bounds.min() == pytest.approx(math.log(delta), abs=1e-4)


@pytest.mark.parametrize(("rho", "delta"), CASES)
def test_covers_the_gaussian_closely(rho, delta):
    """Gaussian noise is rho-zCDP exactly; its delta is smaller, but close."""
    epsilon, shift = zcdp_epsilon(rho, delta), math.sqrt(2 * rho)
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
    with pytest.raises(PrivacyError, match="between 1e-12 and 1e6"):
        zcdp_epsilon(10**8, 1e-6)


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
