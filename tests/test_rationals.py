"""Privacy parameters are exact rationals, or refused."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdinf.errors import PrivacyError
from ppdinf.laws import DiscreteGaussian
from ppdinf.privacy import as_fraction


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (1, Fraction(1)),
        (np.int64(3), Fraction(3)),
        (0.1, Fraction(1, 10)),
        (0.192, Fraction(24, 125)),
        (1e-7, Fraction(1, 10**7)),
        (np.float64(0.192), Fraction(24, 125)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.float16(0.1), Fraction(1, 10)),
        (Decimal("0.1"), Fraction(1, 10)),
        (Fraction(2, 3), Fraction(2, 3)),
        ("1/4", Fraction(1, 4)),
        (" 0.192 ", Fraction(24, 125)),
        (".5", Fraction(1, 2)),
        ("2.5e-3", Fraction(1, 400)),
        ("003/012", Fraction(1, 4)),
    ],
)
def test_reads_exact_rationals(value, exact):
    found = as_fraction(value, "epsilon")
    assert found == exact
    assert type(found.numerator) is type(found.denominator) is int  # not NumPy's, which overflow


@given(st.floats(1e-12, 1e6))
def test_a_float_is_its_shortest_decimal(value):
    assert as_fraction(value, "epsilon") == Fraction(repr(value))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "epsilon must be positive, found 0"),
        (-1, "epsilon must be positive, found -1"),
        ("-1/2", "positive"),
        (-0.0, "positive"),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (-float("inf"), "finite"),
        (Decimal("NaN"), "finite"),
        (True, "found bool"),
        (np.True_, "found bool"),
        (None, "found NoneType"),
        (1j, "found complex"),
        ([1], "found list"),
        (np.array(0.5), "found ndarray"),
        ("", "finite number"),
        ("one", "finite number"),
        ("1/0", "finite number"),
        ("1/", "finite number"),
        ("1 / 4", "finite number"),
        ("1_000", "finite number"),
        ("١", "finite number"),  # digits of another script
        ("1" * 40, "between 1e-12 and 1e6"),
        ("1e9999999999", "finite number"),  # a billion digits, were it expanded
        (Decimal("1e999999"), "finite number"),
        ("1e400", "between 1e-12 and 1e6"),
        (10**400, "between 1e-12 and 1e6"),
        ("1e-400", "between 1e-12 and 1e6"),
        (1e300, "between 1e-12 and 1e6"),
        (5e-324, "between 1e-12 and 1e6"),
        (10**6 + 1, "between 1e-12 and 1e6"),  # the edges themselves are taken: see below
        (Fraction(1, 10**12 + 1), "between 1e-12 and 1e6"),
    ],
)
def test_refuses_invalid_privacy_parameters(value, message):
    with pytest.raises(PrivacyError, match=message) as caught:
        as_fraction(value, "epsilon")
    assert len(str(caught.value)) < 200
    assert [as_fraction(edge, "epsilon") for edge in (10**6, "1e-12")] == [10**6, Fraction(1, 10**12)]


def test_squares_have_the_square_of_the_range():
    """A variance is accepted if its root is accepted."""
    for sigma in (3000.0, "1e6", "1e-12", 7):
        assert DiscreteGaussian(sigma) == DiscreteGaussian(variance=DiscreteGaussian(sigma).variance)
    assert DiscreteGaussian(variance=9e6) == DiscreteGaussian(3000.0)
    for variance in ("1.1e12", "9e-25"):
        with pytest.raises(PrivacyError, match="variance must be between 1e-24 and 1e12"):
            DiscreteGaussian(variance=variance)
