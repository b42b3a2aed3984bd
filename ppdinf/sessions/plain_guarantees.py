"""Conversion of guarantees to plain data for the session file: all fields that composition needs."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

from ppdinf._internal.types import Json
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.privacy.guarantees.restatement import whole_delta
from ppdinf.privacy.guarantees.unit_loss import tied_distance


def to_plain(guarantee: Guarantee) -> Json:
    """Convert a guarantee for all distances, including a Markov chain's part of delta; fractions become text."""
    plain: Json = {}
    delta = whole_delta(guarantee)
    computed = {"delta": delta, "tied": tied_distance(guarantee)}
    for field in fields(Guarantee):
        value = computed.get(field.name, getattr(guarantee, field.name))
        if (
            field.name == "possible"
            or value == field.default
            or (field.name == "concentrated" and delta != guarantee.delta)
        ):
            continue
        plain[field.name] = _plain(value)
    return plain


def _plain(value: object) -> object:
    if isinstance(value, Guarantee):
        return to_plain(value)
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Fraction) else value


def guarantee_of(data: Json) -> Guarantee:
    """Return the guarantee from the data of `to_plain`."""
    fields_ = dict(data)
    for name, value in data.items():
        if name in ("epsilon", "delta", "rho"):
            fields_[name] = Fraction(value)
        elif isinstance(value, list):
            fields_[name] = tuple(value)
        elif name == "concentrated":
            fields_[name] = guarantee_of(value)
    return Guarantee(**fields_)
