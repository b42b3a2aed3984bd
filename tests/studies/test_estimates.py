"""Claims that replicates decide: three results, whose errors are rare also with few replicates."""

import numpy as np
import pytest

from case_studies._shared.estimates import Estimate, every, opposite


def test_a_limit_within_three_standard_errors_is_undecided():
    for value, above in ((1.31, True), (1.29, None), (0.71, None), (0.69, False)):
        assert Estimate(value, 0.1).above(1) is above
        assert Estimate(value, 0.1).below(1) is opposite(above)
    assert Estimate(1.0).above(1) is False  # exact numbers are always decided
    assert Estimate(1.0).below(1.1) is True
    assert Estimate(np.nan).above(0) is None
    assert Estimate(0.5, 0.64).within(0.85, 0.95) is None  # a wide error does not confirm


def test_decisions_are_combined():
    assert every(True, True) is True
    assert every(True, None) is None
    assert every(None, False, True) is False


def test_one_replicate_decides_nothing_and_equal_replicates_do_not_confirm():
    assert Estimate.of(np.mean, [3.0]).above(0) is None
    assert (Estimate.of(np.mean, np.ones(8)) - Estimate.of(np.mean, np.ones(8))).above(0) is None
    assert Estimate.share(np.ones((8, 3), dtype=bool)).below(0.98) is None  # 24 of 24 are not a share above 0.98
    assert Estimate.share(np.ones((800, 3), dtype=bool)).below(0.98) is False
    assert Estimate.share([]).above(0) is None


def test_errors_are_standard_errors_of_groups_and_pairs():
    x = np.random.default_rng(1).normal(size=4000)
    found = Estimate.of(np.mean, x)
    assert found.error == pytest.approx(1 / np.sqrt(4000), rel=0.5)  # 20 groups: a standard deviation of 16 %
    pairs = Estimate.of(np.mean, x + 1) - found
    assert pairs.value == pytest.approx(1)
    assert pairs.error < 1e-12
    apart = Estimate(2.0, 0.3) - Estimate(1.0, 0.4)
    assert apart.error == pytest.approx(0.5)
    ratio = Estimate(6.0, 0.6) / Estimate(2.0, 0.1)
    assert (ratio.value, ratio.error) == pytest.approx((3, 3 * np.hypot(0.1, 0.05)))


@pytest.mark.parametrize("number", [2, 3, 8, 40])
def test_wrong_results_are_rare(number):
    """A mean at the limit is decided in 0.27 % of runs: 16 or more of 2,000 have a probability of 1e-4."""
    rng = np.random.default_rng(number)
    results = [Estimate.of(np.mean, rng.normal(size=number)).above(0) for _ in range(2000)]
    assert 2000 - results.count(None) < 16
    shares = [Estimate.share(rng.random((number, 5)) < 0.95).within(0.92, 0.98) for _ in range(500)]
    assert False not in shares
