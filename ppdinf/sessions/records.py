"""Records of a session file: guarantees as plain data, validation of lines, and the records that count as spent."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache

from ppdinf._internal.values import Json, is_visible
from ppdinf.errors import PpdinfError, PrivacyError, SessionError
from ppdinf.invariants import Public
from ppdinf.privacy.budget import Budget
from ppdinf.privacy.composition import compose
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.restatement import whole_delta
from ppdinf.privacy.unit_loss import tied_distance
from ppdinf.sessions.journal import Journal


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


VOID = "void"
"""Outcome of a release whose noise violated a public sum: nothing was published, and nothing is spent."""


def intents(journal: Journal) -> list[Json]:
    """Return the records that were written before a draw."""
    return [record for record in journal.records if "intent" in record]


def spent_intents(journal: Journal) -> list[Json]:
    """Return the records that are spent: all except those whose only outcome is a violated public sum."""
    states = defaultdict(set)
    for record in journal.records:
        if "outcome" in record:
            states[record["outcome"]].add(record["state"])
    return [intent for intent in intents(journal) if states[intent["intent"]] != {VOID}]


def spent_parts(journal: Journal) -> list[str | None]:
    """Return the part of the partition of every spent record; None for everybody."""
    return [intent.get("part") for intent in spent_intents(journal)]


def spent_guarantees(journal: Journal) -> list[Guarantee]:
    """Return the guarantee of every spent record."""
    return [_guarantee(json.dumps(intent["promise"])) for intent in spent_intents(journal)]


@lru_cache(maxsize=1024)
def _guarantee(text: str) -> Guarantee:
    """Return the guarantee of a record; most releases of a session have the same guarantee."""
    return guarantee_of(json.loads(text))


VERSION = 1
_FIELDS: dict[str, dict[str, type]] = {
    "intent": {
        "intent": int,
        "date": str,
        "name": str,
        "dims": dict,
        "mechanism": dict,
        "public": list,
        "promise": dict,
    },
    "outcome": {"outcome": int, "state": str},
    "torn": {"torn": int},
}
_HEAD: dict[str, type] = {"session": int, "budget": dict, "unit": str, "contributions": int}
_OPTIONAL: dict[str, dict[str, type]] = {"session": {"partition": dict}, "intent": {"part": str}}
_SENSELESS = (PpdinfError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def require_sound(name: str, journal: Journal) -> None:
    """Refuse lines that a session does not write; lines that the reader knew were checked before."""
    if journal.records[0].get("session") != VERSION:
        raise SessionError(f"{name} is not a session file that this version of ppdinf can read")
    earlier = journal.records[: journal.known]
    intents = sum("intent" in record for record in earlier)
    partition = partition_of(earlier[0].get("partition")) if earlier else ("", ())
    for number, record in enumerate(journal.records[journal.known :], start=journal.known + 1):
        try:
            kind = "session" if number == 1 else next((kind for kind in _FIELDS if kind in record), "")
            extra = {name: found for name, found in _OPTIONAL.get(kind, {}).items() if name in record}
            _require_fields(record, (_HEAD if number == 1 else _FIELDS[kind]) | extra)
            if number == 1:
                Budget(**record["budget"])
                partition = partition_of(record.get("partition"))
                Public.from_dict([{"kind": "unit", "unit": record["unit"], "contributions": record["contributions"]}])
            elif kind == "intent":
                intents += 1
                _require_intent(record, intents)
                if "part" in record and record["part"] not in partition[1]:
                    raise ValueError("unknown part of the partition")
        except _SENSELESS as error:
            raise SessionError(f"{name}, line {number} is complete but not valid: get a complete copy") from error


def partition_of(partition: Mapping[str, Sequence[str]] | None) -> tuple[str, tuple[str, ...]]:
    """Parse a partition of everybody such as ``{"region": ["north", "south"]}``: its name and its parts."""
    if partition is None:
        return "", ()
    if not isinstance(partition, Mapping) or len(partition) != 1:
        raise PrivacyError("a partition must have one name, such as partition={'region': ['north', 'south']}")
    ((by, parts),) = partition.items()
    if isinstance(parts, str) or not isinstance(parts, Sequence) or not isinstance(by, str) or not by:
        raise PrivacyError("a partition must list its parts, such as partition={'region': ['north', 'south']}")
    if len(parts) < 2 or len(set(parts)) < len(parts) or not all(isinstance(p, str) and p.strip() for p in parts):
        raise PrivacyError(f"a partition by {by!a} must have at least two distinct parts, each a non-empty text")
    if not all(map(is_visible, (by, *parts))):
        raise PrivacyError("names of a partition must be lines of text without control characters")
    return by, tuple(parts)


def _require_fields(record: Json, fields: dict[str, type]) -> None:
    if set(record) != set(fields) or any(type(record[field]) is not kind for field, kind in fields.items()):
        raise ValueError("missing or unknown fields, or fields of another type")


def _require_intent(record: Json, number: int) -> None:
    if record["intent"] != number or not isinstance(record["mechanism"]["kind"], str):
        raise ValueError("out of order, or without a mechanism")
    if not all(type(size) is int for size in record["dims"].values()):
        raise ValueError("lengths of dimensions must be integers")
    Public.from_dict(record["public"])
    _require_guarantee(json.dumps(record["promise"]))


@lru_cache(maxsize=1024)
def _require_guarantee(text: str) -> None:
    """Refuse guarantees that cannot be added or described; most releases of a session have the same guarantee."""
    guarantee = guarantee_of(json.loads(text))
    if json.dumps(to_plain(guarantee)) != text:
        raise ValueError("an invalid guarantee")
    compose(guarantee, independent=True).describe()
