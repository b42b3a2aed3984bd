"""The records of a session file that count as spent, with their guarantees."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import lru_cache

from ppdinf._internal.types import Json
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.sessions.journal import Journal
from ppdinf.sessions.plain_guarantees import guarantee_of

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
