"""Privacy parameters as exact rationals, and their enclosures."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real

from flint import arb, fmpq

from ppdinf.errors import PrivacyError

type Parameter = int | float | str | Fraction | Decimal
"""A privacy parameter; text may be ``"1/4"``."""

NUMBER = re.compile(
    r"[-+]?([0-9]{1,30}/0*[1-9][0-9]{0,30}|([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][-+]?[0-9]{1,3})?)"
)
_RANGE = (Fraction(1, 10**12), Fraction(10**6))


def as_fraction(value: Parameter, name: str, *, power: int = 1) -> Fraction:
    """Convert a privacy parameter to an exact fraction.

    Parameters
    ----------
    value : int, float, str, Fraction or Decimal
        A float is read as its shortest decimal (``0.1`` is 1/10); text may be ``"1/4"`` or ``"0.192"``.
    name : str
        Name in messages.
    power : int
        2 for squares of parameters, such as variances.

    Returns
    -------
    Fraction
        Between 1e-12 and 1e6: smaller rates of noise are useless for tables of counts, larger rates give no privacy.
        Squares are between 1e-24 and 1e12.

    Raises
    ------
    PrivacyError
        The value is not a finite positive number, or is out of range.

    See Also
    --------
    ppdinf.privacy.Guarantee

    Examples
    --------
    >>> from ppdinf.privacy import as_fraction
    >>> as_fraction(0.192, "epsilon")
    Fraction(24, 125)
    """
    if isinstance(value, bool) or not isinstance(value, str | Real | Decimal):
        raise PrivacyError(f"{name} must be a number or text such as '1/4', found {type(value).__name__}")
    if isinstance(value, Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
    else:
        text = str(value).strip()  # the shortest decimal of a float
        if not NUMBER.fullmatch(text):
            raise PrivacyError(f"{name} must be a finite number such as 0.25 or '1/4', found {value!r:.60}")
        exact = Fraction(text)
    if exact <= 0:
        raise PrivacyError(f"{name} must be positive, found {value!r:.60}")
    if not _RANGE[0] ** power <= exact <= _RANGE[1] ** power:
        raise PrivacyError(f"{name} must be between 1e-{12 * power} and 1e{6 * power}, found {value!r:.60}")
    return exact


def ball(x: Fraction) -> arb:
    """Enclose a rational at Arb's working precision."""
    return arb(fmpq(x.numerator, x.denominator))
