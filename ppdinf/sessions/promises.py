"""A guarantee as plain data, for the session file: all that composition asks of it."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

from ppdinf._internal.types import Json
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.privacy.guarantees.restatement import whole_delta
from ppdinf.privacy.guarantees.unit_loss import tied_distance

__all__ = ["promise_of", "to_plain"]


def to_plain(promise: Guarantee) -> Json:
    """Write down a promise for all distances, with what a Markov chain adds to its delta; fractions as text.

    Examples
    --------
    >>> to_plain(Guarantee("pure", Fraction(1, 3), neighbours="one record"))
    {'variant': 'pure', 'epsilon': '1/3', 'neighbours': 'one record'}
    """
    found: Json = {}
    delta = whole_delta(promise)
    worked_out = {"delta": delta, "tied": tied_distance(promise)}
    for field in fields(Guarantee):
        value = worked_out.get(field.name, getattr(promise, field.name))
        if value == field.default or (field.name == "concentrated" and delta != promise.delta):
            continue
        found[field.name] = _plain(value)
    return found


def _plain(value: object) -> object:
    if isinstance(value, Guarantee):
        return to_plain(value)
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Fraction) else value


def promise_of(data: Json) -> Guarantee:
    """Read `to_plain`."""
    found = dict(data)
    for name, value in data.items():
        if name in ("epsilon", "delta", "rho"):
            found[name] = Fraction(value)
        elif isinstance(value, list):
            found[name] = tuple(value)
        elif name == "concentrated":
            found[name] = promise_of(value)
    return Guarantee(**found)
