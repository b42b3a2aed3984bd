"""Lemma 8 audited by enumeration: conditioning at most doubles the loss, and can nearly double it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ppdinf.errors import PrivacyError
from ppdinf.privacy import Guarantee, condition_output

PURE = Guarantee("pure", Fraction(2, 5), neighbours="one person more in the count")


def losses(epsilon, possible, counts=range(12)):
    """Largest log ratio between neighbouring counts of double geometric noise conditioned on a set of outputs."""
    law = np.array([np.exp(-epsilon * np.abs(np.array(possible) - x)) for x in counts])
    law = np.log(law / law.sum(axis=1, keepdims=True))
    return np.abs(np.diff(law, axis=0)).max()


@pytest.mark.parametrize("possible", [range(12), range(3, 9), [2, 3, 5, 7, 11], [0, 11]])
def test_the_loss_at_most_doubles(possible):
    epsilon, promise = float(PURE.epsilon), condition_output(PURE, "the count is possible")
    assert losses(epsilon, possible) <= float(promise.loss()) + 1e-12


def test_epsilon_alone_would_not_do():
    epsilon = float(PURE.epsilon)
    assert losses(epsilon, range(12)) > epsilon + 0.01
    assert losses(epsilon, [0, 11], range(12)) == pytest.approx(2 * epsilon, abs=0.02)
    assert losses(epsilon, range(-400, 400), range(3)) == pytest.approx(epsilon, abs=1e-9)  # nothing is cut off


def test_description():
    promise = condition_output(PURE, "the count is at least 5")
    assert promise.known == ("the count is at least 5",)
    assert "the count is at least 5" in promise.describe()
    assert f"{math.exp(0.8):.3g}" in promise.describe()


@pytest.mark.parametrize(
    ("guarantee", "known"),
    [
        (Guarantee("zcdp", rho=Fraction(1), neighbours="a person"), "x"),
        (Guarantee("approximate", Fraction(1), Fraction(1, 100), neighbours="a person"), "x"),
        (condition_output(PURE, "a"), "x"),
        (PURE, ""),
        (PURE, None),
    ],
)
def test_refusals(guarantee, known):
    with pytest.raises(PrivacyError):
        condition_output(guarantee, known)
