"""The privacy loss of one protected unit, from the neighbour relation and its number of records, in words.

A record counted in another cell moves the table by 2 in l1 and by the square root of 2 in l2. A replaced record is one
step between neighbours, or two if neighbours differ in an added or removed record. The loss of the unit is the loss
at the distance of all its records: group privacy, and the squared distance for zCDP. All numbers are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from ppdinf.privacy.zcdp import zcdp_epsilon

if TYPE_CHECKING:
    from ppdinf.privacy.guarantee import Guarantee


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
    shortest = value if isinstance(value, Fraction) else Fraction(repr(float(value)))
    exact = up.divide(*map(Decimal, shortest.as_integer_ratio()))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() + 1 - digits), context=up)):.{digits}g}"


REPLACED = "one record replaced by another"
ADDED = "one record added or removed"
SWAPPED = "two records replaced such that every public sum is kept"
PRESENT = "one person, who is counted in one of them and not in the other"
VALUE = "which of two values one record has"
SMALLEST = "the smallest change that keeps every public sum"

_STEPS = {REPLACED: 1, SWAPPED: 1, ADDED: 2, PRESENT: 2, VALUE: 1}
_SWAP_SQUARED = {"l1": 4, "l2": 2}  # squared distance of two tables that count one record in different cells

DELTA = Fraction(1, 10**6)  # delta at which a zCDP loss is also stated as an epsilon
ABOVE = 1 + 1e-11  # exceeds the rounding errors of conversions


@dataclass(frozen=True)
class UnitLoss:
    """Privacy loss of one unit."""

    loss: Fraction | float
    delta: Fraction | float


UNLIMITED = UnitLoss(math.inf, Fraction(0))


def distance_of_unit(guarantee: Guarantee, tied: float | Fraction = 0) -> int | float | None:
    """Return the distance, or the number of steps between neighbours, by which one unit's records can move a table."""
    records = guarantee.contributions
    if tied == math.inf:
        return math.inf
    if guarantee.metric is not None:
        return _root(max(records**2 * _SWAP_SQUARED[guarantee.metric], round(float(tied) ** 2)))
    if guarantee.steps is not None:
        steps = guarantee.steps
    else:  # two steps suffice for all relations between tables that differ in one record
        steps = _STEPS.get(str(guarantee.neighbours), 0 if guarantee.variant == "pufferfish" else 2)
    return max(records * steps, math.ceil(tied)) if steps else None


def tied_distance(guarantee: Guarantee) -> float | Fraction:
    """Return the distance of the nearest table if one unit's records alone keep no public sum; otherwise 0."""
    alone, tied = distance_of_unit(guarantee), guarantee.distance_of_unit
    return tied if tied is not None and alone is not None and tied > alone else 0


def steps_at(guarantee: Guarantee, distance: float) -> int:
    """Return the number of changes at one distance that count one record elsewhere; 0 if they may not suffice."""
    if guarantee.metric is None:
        steps = distance_of_unit(replace(guarantee, contributions=1))
        return math.ceil(steps / distance) if steps and distance else 0
    if tied_distance(guarantee) > distance:
        return 0
    if distance**2 >= _SWAP_SQUARED[guarantee.metric]:
        return 1
    return 2 if distance >= 1 and not guarantee.unprotected else 0  # one record removed, and one added


def unit_loss(guarantee: Guarantee) -> UnitLoss:
    """Compute the loss of one unit's records, all counted elsewhere, replaced or absent."""
    distance = guarantee.distance_of_unit
    if distance == math.inf:
        return UNLIMITED
    if distance is None and guarantee.variant == "pufferfish":  # a pair of statements, without steps
        distance = 1
    if distance is None:
        return _from_zcdp(guarantee)
    if guarantee.rho is not None:
        return UnitLoss(guarantee.rho * round(distance**2), Fraction(0))
    loss = _loss(guarantee, distance)
    delta, chain = group_delta(guarantee, distance), float(getattr(guarantee, "sampler_distance", 0))
    if chain:
        delta = (float(delta) + (1 + math.exp(min(float(loss), 700.0))) * chain) * ABOVE
    return UnitLoss(loss, delta) if delta < 1 else _from_zcdp(guarantee)


def _from_zcdp(guarantee: Guarantee) -> UnitLoss:
    """Return the loss from the zCDP guarantee of the same noise, which holds at all distances; otherwise no limit."""
    zcdp = guarantee.concentrated
    if zcdp is None or not guarantee.delta or getattr(guarantee, "sampler_distance", False):
        return UNLIMITED
    if zcdp.metric is None and guarantee.distance_of_unit is None:
        return UNLIMITED
    tied = zcdp.tied if zcdp.metric else guarantee.distance_of_unit or 0
    rho = unit_loss(replace(zcdp, contributions=guarantee.contributions, tied=tied)).loss
    return UnitLoss(zcdp_epsilon(Fraction(rho), guarantee.delta) * ABOVE, guarantee.delta)


def _loss(guarantee: Guarantee, distance: float) -> Fraction | float:
    """Return epsilon at a distance; rounded up if it is not a fraction."""
    exact = (guarantee.epsilon or 0) * Fraction(distance)
    if guarantee.gamma is None and isinstance(distance, int):
        return exact
    exact *= 1 + Fraction(guarantee.gamma or 0)
    nearest = float(exact)
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def group_delta(guarantee: Guarantee, distance: float | Fraction) -> Fraction | float:
    """Return delta at a distance, ``(exp(epsilon k) - 1) / (exp(epsilon) - 1) delta``; rounded up, at most 1."""
    if guarantee.delta == 0 or distance == 1 or guarantee.epsilon is None:
        return guarantee.delta
    unit, there = float(_loss(guarantee, 1)), float(_loss(guarantee, float(distance)))
    if not unit or not there:
        return min(Fraction(1), guarantee.delta * Fraction(distance))
    log_ratio = there - unit + math.log(-math.expm1(-there)) - math.log(-math.expm1(-unit))
    return min(1.0, math.exp(min(0.0, log_ratio + math.log(guarantee.delta))) * ABOVE)


def _root(square: int) -> int | float:
    """Return the square root, rounded up if it is not an integer."""
    root = math.isqrt(square)
    if root**2 == square:
        return root
    nearest = math.sqrt(square)
    return nearest if Fraction(nearest) ** 2 >= square else math.nextafter(nearest, math.inf)


def describe_loss(guarantee: Guarantee) -> str:
    """Describe the loss of one unit: epsilon and delta, or rho and one epsilon and delta that it implies."""
    loss = guarantee.unit_loss
    if guarantee.rho is None:
        factor = f"a factor of {factor_of(loss.loss)} in the odds"
        return f"epsilon = {format_loss(loss.loss)} ({factor}), delta = {round_up(loss.delta)}"
    epsilon = zcdp_epsilon(Fraction(loss.loss), DELTA) * ABOVE if loss.loss else 0
    return f"rho = {format_loss(loss.loss)} in zCDP, which implies epsilon = {round_up(epsilon)} with delta = 1e-06"


def describe_unit(guarantee: Guarantee) -> str:
    """Describe in one sentence how much one unit can lose."""
    who = f"one {guarantee.unit}"
    if guarantee.contributions > 1:
        who += f" with up to {guarantee.contributions} records"
    if guarantee.tied == math.inf:
        return "No guarantee: the exactly published information fixes every cell of the table."
    if guarantee.unit_loss.loss == math.inf:
        return f"No guarantee: no limit on the loss of {who} follows."
    if guarantee.variant == "pufferfish":  # whatever the secret is about
        return f"Under the models stated below, a secret can lose at most {describe_loss(guarantee)}."
    return f"{who[0].upper()}{who[1:]} can lose at most {describe_loss(guarantee)}."


def describe_others(guarantee: Guarantee) -> str:
    """Describe the loss of changes that keep the public sums only together with changes of the records of others."""
    alone = guarantee.unit_loss
    if guarantee.variant == "pufferfish" or alone.loss == math.inf or not (alone.loss or alone.delta):
        return ""
    others = _others_at_nearest(guarantee)
    records = guarantee.contributions * (others + 2)
    steps = guarantee.steps
    if steps == 1 and str(guarantee.neighbours).startswith(SMALLEST):  # smallest changes move one record each
        steps = 0
    group = replace(guarantee, contributions=records, steps=steps)
    loss = "has no known limit" if group.unit_loss.loss == math.inf else f"is at most {describe_loss(group)}"
    with_others = f"with {'one other' if not others else f'{others + 1} others'} {loss}"
    if others:
        fewest = "one other" if others == 1 else f"{others} others"
        return (
            f"The public sums can be kept only by changing records of others too, of {fewest} at least. The loss "
            f"together {with_others}, and grows with each further {guarantee.unit}."
        )
    return (
        "If a change keeps the public sums only together with changes of the records of others, the loss is that of "
        f"all these changes: the loss together {with_others}, and grows with each further {guarantee.unit}."
    )


def _others_at_nearest(guarantee: Guarantee) -> int:
    """Return the number of other units whose records change between the two nearest tables."""
    if guarantee.distance_of_unit is None and guarantee.concentrated is not None:
        guarantee = replace(guarantee.concentrated, contributions=guarantee.contributions)
    tied = float(tied_distance(guarantee))
    if guarantee.metric is not None:
        records = math.ceil((tied**2 if guarantee.metric == "l2" else tied) / 2 - 1e-9)
    else:
        records = math.ceil(tied / (distance_of_unit(replace(guarantee, contributions=1)) or 1))
    return max(0, math.ceil(records / guarantee.contributions) - 1)
