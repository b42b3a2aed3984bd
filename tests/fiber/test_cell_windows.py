"""Exponentials of log weights in vectorised functions, and probabilities of rows."""

import mpmath
import numpy as np
import pytest
from scipy.special import gammaln

from ppdinf.fiber.sums_given_totals.cell_windows import (
    Weights,
    exp_of,
    moments,
    normalise,
    probabilities,
    row_of,
    upper_envelope,
    vectorised,
)


@vectorised
def raised(x, out):
    for i in range(x.size):
        out[i] = exp_of(x[i])


@vectorised
def raised_inaccurately(x, out):
    """Compute the same reduction in another order: ln 2 is no longer subtracted in two parts."""
    for i in range(x.size):
        n = np.floor(x[i] * 1.4426950408889634 + 0.5)
        r = (x[i] - n * 6.93147180369123816490e-1) - n * 1.90821492927058770002e-10
        out[i] = np.exp(r) * 2.0**n


def off(function):
    """Return the largest relative error, by numbers with forty digits."""
    rng = np.random.default_rng(1)
    x = np.concatenate([-700 * rng.random(2000), -40 * rng.random(2000), [0.0, -0.0, -5e-324, -np.log(2) / 2, -700.0]])
    out = np.empty_like(x)
    function(x, out)
    with mpmath.workdps(40):
        right = [mpmath.exp(mpmath.mpf(value)) for value in x]
        return max(float(abs(mpmath.mpf(found) / value - 1)) for found, value in zip(out, right, strict=True))


def test_exponentials_are_accurate_in_functions_that_reorder_sums():
    assert off(raised) < 2**-52
    assert off(raised_inaccurately) > 2**-48


def test_exponentials_far_below_the_maximum_are_zero():
    x, out = np.array([-700.1, -1e308, -np.inf]), np.ones(3)
    raised(x, out)
    assert (out == 0).all()


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 33, 150])
def test_probabilities_and_moments_of_rows_of_any_length(n):
    k = np.arange(n)
    logw = (-gammaln(k + 1.0) - 0.5 * np.abs(3 - k))[None]
    rows, log_z = probabilities(Weights(logw, upper_envelope(logw), np.array([0]), np.array([0.7])), np.array([0]), 0.2)
    weight = np.exp(logw[0] + 0.9 * k)
    p = weight / weight.sum()
    assert log_z == pytest.approx(np.log(weight.sum()), abs=1e-13)
    here = row_of(rows, 0)
    assert here == pytest.approx(p[rows.first[0] : rows.first[0] + here.size], rel=1e-13)
    mean, variance = moments(p)
    assert (mean, variance) == pytest.approx((k @ p, (k - k @ p) ** 2 @ p), abs=1e-12)


def test_weights_are_normalised_in_place():
    entry = np.log(np.array([1.0, 2.0, 5.0]))
    assert normalise(entry) == pytest.approx(np.log(8))
    assert entry == pytest.approx([0.125, 0.25, 0.625])
