"""From zCDP to (epsilon, delta) and back: against a grid of orders, the Gaussian itself, and a library."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ppdinf.errors import PrivacyError
from ppdinf.privacy import Guarantee, to_approximate, to_event, zcdp_delta, zcdp_epsilon, zcdp_rho
from ppdinf.privacy.zcdp import as_delta

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


@pytest.mark.parametrize(
    "delta", [0, 1, -1e-3, "x", None, True, math.nan, math.inf, "1/0", [0.1], "1e-400", "1e-99999999"]
)
def test_refuses_invalid_probabilities(delta):
    with pytest.raises(PrivacyError, match="delta"):
        as_delta(delta)


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
