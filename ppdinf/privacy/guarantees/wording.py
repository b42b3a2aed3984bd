"""Numbers of a guarantee in words: rounded up, so that what is said stays true."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

__all__ = ["factor_of", "round_up", "shown"]


def shown(value: Fraction | float) -> str:
    """Write a loss: as it is where that is short, rounded up elsewhere."""
    short = round_up(value, 6)
    if not isinstance(value, Fraction) or Fraction(short) == value or value.denominator > 10**6:
        return short
    return f"{value} (about {float(value):.6g})"


def factor_of(loss: Fraction | float) -> str:
    """Write exp(loss), rounded up."""
    if not loss:
        return "1"
    if loss >= 50:
        return f"e^{round_up(loss)}"
    return round_up(math.exp(loss) * (1 + 1e-15))  # whatever way exp was rounded


def round_up(value: Fraction | float, digits: int = 3) -> str:
    """Write a bound in so many digits, rounded up, so that it stays one."""
    if not value:
        return "0"
    up = Context(rounding=ROUND_CEILING)
    exact = (
        up.divide(*map(Decimal, value.as_integer_ratio()))
        if isinstance(value, Fraction)
        else Decimal(repr(float(value)))
    )
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() + 1 - digits), context=up)):.{digits}g}"
