"""Events among persons whose numbers are released with noise: the posterior is calibrated, the usual one is not."""

import pytest
from noisy_denominators import study, summed_out, taken_as_true

from ppdinf.diagnostics.calibration import uniformity

ALARM = 1e-4  # of each of two parameters: a right posterior fails once in 5,000 runs


@pytest.mark.parametrize("data_sets", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_posterior_is_calibrated_where_the_persons_are_noisy(data_sets):
    found = study("1/10", {"right": summed_out, "naive": taken_as_true}, data_sets)
    p = {name: [uniformity(of["position"]) for of in found[name].values()] for name in found}
    assert min(p["right"]) > ALARM
    assert p["naive"][1] < ALARM  # the contrast: rural areas are small, and the noise is not
