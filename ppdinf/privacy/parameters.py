"""Privacy parameters as the exact rationals that were meant."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real

from ppdinf.errors import PrivacyError

__all__ = ["as_fraction"]


def as_fraction(value: int | float | str | Fraction, name: str) -> Fraction:
    """Read a privacy parameter exactly.

    Parameters
    ----------
    value : int, float, str or Fraction
        A float counts as its shortest decimal (``0.1`` is 1/10); text may be ``"1/4"`` or ``"0.192"``.
    name : str
        What messages call it.

    Returns
    -------
    Fraction
        Strictly positive.

    Raises
    ------
    PrivacyError
        Not a number, not finite, zero or negative.

    Examples
    --------
    >>> as_fraction(0.192, "epsilon")
    Fraction(24, 125)
    """
    if isinstance(value, bool) or not isinstance(value, str | Real | Decimal):
        raise PrivacyError(f"{name} must be a number or text such as '1/4', found {type(value).__name__}")
    try:
        if isinstance(value, str | Fraction | Integral | Decimal):
            exact = Fraction(value)
        else:
            exact = Fraction(repr(float(value)))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise PrivacyError(f"{name} must be a finite number such as 0.25 or '1/4', found {value!r}") from None
    if exact <= 0:
        raise PrivacyError(f"{name} must be positive, found {value!r}")
    return exact
