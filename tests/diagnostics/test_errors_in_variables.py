"""Events among persons whose numbers are released with noise: the posterior is calibrated, the naive one is not."""

import numpy as np
import pytest
from noisy_denominators import CONTRAST, LEVEL, PRIOR, model, simulate, study, summed_out, taken_as_true

from ppdinf.diagnostics.calibration import uniformity

ALARM = 1e-4  # for each of two parameters: a correct posterior fails once in 5,000 runs


@pytest.mark.deep
def test_posterior_is_calibrated_where_the_persons_are_noisy():
    found = study("1/10", {"right": summed_out, "naive": taken_as_true}, 500)
    p = {name: [uniformity(of["position"]) for of in found[name].values()] for name in found}
    assert min(p["right"]) > ALARM
    assert p["naive"][1] < ALARM  # contrast: rural areas are small, and the noise is not


def test_model_has_the_posterior_that_was_calibrated():
    """Marginalized by PyMC's model, at points of the grid, against the posterior on the grid."""
    _, release, events = simulate("1/10", np.random.default_rng(3))
    value = model(release, events).compile_logp(mode="FAST_COMPILE")
    chosen = [(3, 4), (10, 10), (12, 5), (17, 16)]
    expected = np.log([summed_out(release, events)[at] / PRIOR[at] for at in chosen])
    found = np.array([value({"level": LEVEL[i], "contrast": CONTRAST[j]}) for i, j in chosen], dtype=float)
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-9, atol=1e-8)
