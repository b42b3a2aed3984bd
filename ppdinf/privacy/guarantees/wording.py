"""Numbers of a guarantee in words, rounded up so that statements remain true."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction


def format_loss(value: Fraction | float) -> str:
    """Format a loss: exact if it is short, otherwise rounded up."""
    short = round_up(value, 6)
    if not isinstance(value, Fraction) or Fraction(short) == value or value.denominator > 10**6:
        return short
    return f"{value} (about {float(value):.6g})"


def exp_of(loss: Fraction | float) -> str:
    """Format exp(loss) with its value."""
    return f"exp({format_loss(loss).partition(' ')[0]}) = {factor_of(loss)}"


def factor_of(loss: Fraction | float) -> str:
    """Format exp(loss), rounded up."""
    if not loss:
        return "1"
    if loss >= 50:
        return f"e^{round_up(loss)}"
    return round_up(math.exp(loss) * (1 + 1e-15))  # covers the rounding error of exp


def round_up(value: Fraction | float, digits: int = 3) -> str:
    """Format a bound with a number of digits, rounded up."""
    if not value:
        return "0"
    up = Context(rounding=ROUND_CEILING)
    exact = (
        up.divide(*map(Decimal, value.as_integer_ratio()))
        if isinstance(value, Fraction)
        else Decimal(repr(float(value)))
    )
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() + 1 - digits), context=up)):.{digits}g}"
