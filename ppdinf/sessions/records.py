"""What the lines of a session file may say: a chain of digests shows that nothing changed, not that it makes sense."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ppdinf._internal.types import Json
from ppdinf.errors import PpdinfError, PrivacyError, SessionError
from ppdinf.invariants import Public
from ppdinf.privacy.accounting.budget import Budget
from ppdinf.privacy.accounting.composition import compose
from ppdinf.sessions.journal import Journal
from ppdinf.sessions.promises import promise_of, to_plain

__all__ = ["VERSION", "partition_of", "require_sound"]

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
    """Refuse lines that no session writes.

    Raises
    ------
    SessionError
        Naming the line.
    """
    if journal.records[0].get("session") != VERSION:
        raise SessionError(f"{name} is no session file that this version of ppdinf reads")
    intents = 0
    for number, record in enumerate(journal.records, start=1):
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
                    raise ValueError("a part that the session does not know")
        except _SENSELESS as error:
            raise SessionError(f"{name}, line {number} is whole, but no session writes it: get a whole copy") from error


def partition_of(given: Mapping[str, Sequence[str]] | None) -> tuple[str, tuple[str, ...]]:
    """Read a partition of everybody such as ``{"region": ["north", "south"]}``: what it goes by, and its parts.

    Raises
    ------
    PrivacyError
        It is something else.
    """
    if given is None:
        return "", ()
    if not isinstance(given, Mapping) or len(given) != 1:
        raise PrivacyError("a partition goes by one thing, such as partition={'region': ['north', 'south']}")
    ((by, parts),) = given.items()
    if isinstance(parts, str) or not isinstance(parts, Sequence) or not isinstance(by, str) or not by:
        raise PrivacyError("a partition lists its parts, such as partition={'region': ['north', 'south']}")
    if len(parts) < 2 or len(set(parts)) < len(parts) or not all(isinstance(p, str) and p.strip() for p in parts):
        raise PrivacyError(f"a partition by {by} has two parts or more, each a text of its own")
    return by, tuple(parts)


def _require_fields(record: Json, fields: dict[str, type]) -> None:
    if set(record) != set(fields) or any(type(record[field]) is not kind for field, kind in fields.items()):
        raise ValueError("fields too many, too few, or of another kind")


def _require_intent(record: Json, number: int) -> None:
    if record["intent"] != number or not isinstance(record["mechanism"]["kind"], str):
        raise ValueError("out of order, or by no mechanism")
    if not all(type(size) is int for size in record["dims"].values()):
        raise ValueError("lengths of dimensions are whole numbers")
    Public.from_dict(record["public"])
    _require_promise(json.dumps(record["promise"]))


@lru_cache(maxsize=1024)
def _require_promise(text: str) -> None:
    """Refuse what cannot be added up or put into words; most releases of a session promise the same."""
    promise = promise_of(json.loads(text))
    if json.dumps(to_plain(promise)) != text:
        raise ValueError("a promise that nothing states so")
    compose(promise, independent=True).describe()
