"""Width of Gaussian noise: against ball arithmetic, against integration, and refused parameters."""

import math

import flint
import numpy as np
import pytest
from scipy import integrate, stats

from ppdinf.errors import PrivacyError
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": None}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta must be between 0 and 1"),
        ({"delta": "often"}, "delta"),
        ({"sensitivity": 0.0}, "sensitivity"),
        ({"sensitivity": math.inf}, "sensitivity"),
        ({"calibration": "best"}, "calibration must be"),
    ],
)
def test_refuses_malformed_parameters(arguments, message):
    with pytest.raises(PrivacyError, match=message):
        gaussian_sigma(**{"epsilon": 1, "delta": 1e-6} | arguments)


def test_refuses_noise_without_width():
    with pytest.raises(PrivacyError, match="sigma"):
        gaussian_delta(1, 0)
