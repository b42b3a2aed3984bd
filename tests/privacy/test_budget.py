"""Budgets: joint losses of guarantees; Gaussian noise counts with its rho, for every calibration."""

import math
from fractions import Fraction

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf.errors import BudgetError, PrivacyError
from ppdinf.invariants import margin, total
from ppdinf.privacy import Guarantee, Ledger, to_zcdp, zcdp_delta
from ppdinf.privacy.budget import Budget


def test_epsilon_and_delta_add_up():
    promise = Guarantee("approximate", Fraction(1, 2), Fraction(1, 10**6), neighbours="one record")
    budget = Budget(epsilon=2, delta="2e-6")
    assert budget.spent([]) == {"epsilon": 0, "delta": 0}
    budget.require([promise], promise)
    with pytest.raises(BudgetError, match=r"delta to 3e-06, above the budget of 2e-06 .0 remaining"):
        budget.require([promise] * 2, promise)
    with pytest.raises(BudgetError, match=r"epsilon to 2\.5, above the budget of 2 .0 remaining"):
        Budget(epsilon=2, delta="1e-3").require([promise] * 4, promise)
    with pytest.raises(PrivacyError, match="budget of rho"):
        Budget(epsilon=2).require([], promise)
    for wrong in ({}, {"epsilon": 1, "rho": 1}, {"delta": "1e-6"}, {"rho": 1, "delta": "1e-6"}, {"epsilon": -1}):
        with pytest.raises(PrivacyError):
            Budget(**wrong)


@pytest.mark.parametrize("calibration", ["exact", "theorem14"])
def test_lattice_gaussians_count_with_the_rho_of_their_sigma(calibration):
    table = np.array([[30, 4], [12, 7]])
    mechanism = ppd.GeneralizedGaussian(margin("dim_0"), "1/4", "1e-6", calibration=calibration)
    release = mechanism.release(table)
    rho = 1 / (2 * release.mechanism.sigma**2)
    found = to_zcdp(release.guarantee)
    assert (found.rho, found.metric, found.variant) == (rho, "l2", "zcdp")
    assert found.unprotected == release.guarantee.unprotected
    ledger = Ledger(rho=3 * rho)
    for _ in range(3):
        ledger.add(mechanism.release(table))
    assert ledger.remaining == 0
    with pytest.raises(BudgetError):
        ledger.add(release)


@pytest.mark.parametrize("kind", [ppd.SubspaceGaussian, ppd.CorrelatedGaussian])
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.1, 1e-9), (3, 1e-4)])
def test_real_gaussians_count_with_the_rho_of_their_width(kind, epsilon, delta):
    """By the width of the drawn noise; zCDP, a weaker guarantee, never gives a smaller delta."""
    found = to_zcdp(kind(total(), epsilon, delta).guarantee)
    assert found.neighbours == kind(total(), epsilon, delta).guarantee.neighbours
    assert zcdp_delta(found.rho, epsilon) >= delta
    if kind is ppd.SubspaceGaussian:
        sigma = kind(total(), epsilon, delta).sigma(total().on(np.arange(4)))
        assert math.isclose(found.rho, 2 / (2 * sigma**2), rel_tol=1e-3)  # a record replaced moves sqrt(2)
        assert found.rho >= Fraction(1) / Fraction(sigma) ** 2


def test_a_chain_or_a_delta_of_other_noise_has_no_rho():
    with pytest.raises(PrivacyError, match="no zCDP form"):
        to_zcdp(Guarantee("approximate", Fraction(1), Fraction(1, 10), neighbours="one record"))
