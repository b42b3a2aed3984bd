"""A curator's session: releases of the same people, drawn within one budget that a file keeps."""

from __future__ import annotations

import datetime
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from ppdinf._internal.types import Json
from ppdinf.errors import InternalError, LabelError, PpdinfError, PrivacyError, PrivacyWarning, SessionError
from ppdinf.invariants import Public
from ppdinf.privacy.accounting.budget import Budget
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.releases.mechanism import Mechanism
from ppdinf.sessions.journal import Journal, append, create, locked, read
from ppdinf.sessions.promises import promise_of, to_plain
from ppdinf.sessions.records import VERSION, partition_of, require_sound
from ppdinf.tables.frame import Frame
from ppdinf.tables.table import TableLike

__all__ = ["Session"]

VOID = "void"
"""Outcome of a release whose noise broke a public sum: nothing was published, and nothing is spent."""


class Session:
    """Releases of tables that count the same people, drawn within one budget; made by `Session.open`.

    Attributes
    ----------
    path : Path
        Of the session file. Beside it lies an empty ``.lock``.
    budget : Budget
    unit : str
        Whom the budget protects.
    contributions : int
        Records of one unit at most, in each table.
    partition : tuple of str and tuple of str
        What divides everybody into parts that share nobody, and the parts; ``("", ())`` without.

    Notes
    -----
    Losses are counted as in `ppdinf.privacy.Ledger`: per unit of distance, where guarantees are stated so, and for
    several tables the distance is the largest of theirs; else between neighbours. What one unit loses in all is
    ``session.guarantee.loss_of_unit``. Every person is taken to be in every table: months of the same people add up.
    Of parts that share nobody the one that lost most counts (`ppdinf.privacy.compose_partition`): the curator states
    them when the session begins, and which part a release is about; a table that has the label itself must agree.

    Examples
    --------
    >>> import tempfile, ppdinf as ppd
    >>> monthly = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     session = Session.open(Path(folder, "cases.budget"), epsilon="1/2")
    ...     release = session.release(monthly, [3, 1, 2], name="2024-01")
    ...     session.left
    {'epsilon': Fraction(1, 4)}
    """

    def __init__(
        self, path: Path, budget: Budget, unit: str, contributions: int, partition: tuple[str, tuple[str, ...]]
    ) -> None:
        self.path, self.budget, self.unit, self.contributions = path, budget, unit, contributions
        self.partition = partition
        self._seen = ""

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        epsilon: int | float | str | Fraction | None = None,
        delta: int | float | str | Fraction | None = None,
        rho: int | float | str | Fraction | None = None,
        unit: str | None = None,
        contributions: int | None = None,
        partition: Mapping[str, Sequence[str]] | None = None,
    ) -> Session:
        """Open a session file, or begin one.

        Parameters
        ----------
        path : str or path
        epsilon, delta, rho : int, float, str or Fraction, optional
            The budget: epsilon, epsilon and delta, or rho. A file that is there has one: give none, or the same.
        unit : str, optional
            Whom the budget protects; a person, unless something else is said. Mechanisms say the same by
            `ppdinf.invariants.unit`.
        contributions : int, optional
            Records of one unit at most, in each table; 1 unless something else is said.
        partition : mapping, optional
            What divides everybody into parts that share nobody, and all parts: ``{"region": ["north", "south"]}``. It
            is said when the session begins; every record is of exactly one of them, in every table.

        Returns
        -------
        Session

        Raises
        ------
        PrivacyError
            There is no file yet, and no budget or a malformed one; or there is one with another budget, unit or
            partition.
        SessionError
            It is no session file, or was changed since it was written.
        WriteError
            It cannot be written.
        """
        path, given, divided = Path(path), (epsilon, delta, rho), partition_of(partition)
        wanted = None if given == (None, None, None) else Budget(*given)
        if wanted is None and not path.exists():
            raise PrivacyError(
                f"{path.name} does not exist: look for another spelling; or begin a session, and say what may be spent "
                "in all (ppdinf session begin FILE --epsilon 1, or Session.open(FILE, epsilon=1))"
            )
        with locked(path) if wanted is not None else nullcontext():
            if not path.exists():
                assert wanted is not None
                total = {name: str(value) for name, value in wanted.total.items()}
                who = {"unit": unit or "person", "contributions": 1 if contributions is None else contributions}
                Public.from_dict([{"kind": "unit"} | who])  # refuses what is malformed
                parts = {} if partition is None else {"partition": {by: list(own) for by, own in [divided]}}
                create(path, {"session": VERSION, "budget": total} | who | parts)
            journal = read(path)
        require_sound(path.name, journal)
        head = journal.records[0]
        own = partition_of(head.get("partition"))
        session = cls(path, Budget(**head["budget"]), head["unit"], head["contributions"], own)
        if partition is not None and (divided[0], set(divided[1])) != (own[0], set(own[1])):
            raise PrivacyError(f"{path.name} was begun with another partition, or none: it cannot be changed")
        if wanted not in (None, session.budget) or unit not in (None, session.unit):
            raise PrivacyError(f"{path.name} is of another budget or unit: {session!r}; a budget cannot be changed")
        if contributions not in (None, session.contributions):
            raise PrivacyError(f"{path.name} is for at most {session.contributions} records of one {session.unit}")
        session._seen = journal.digests[-1]
        return session

    def release(
        self,
        mechanism: Mechanism,
        table: TableLike,
        *,
        name: str = "",
        part: str | None = None,
        allow_mcmc: bool = False,
    ) -> Any:
        """Publish a table within the budget: write down what it costs, then draw.

        Parameters
        ----------
        mechanism : Mechanism
        table : what `mechanism.release` takes
            Confidential; all that the file is told of it are the lengths of its dimensions.
        name : str, optional
            What the release is, such as "2024-01" or "2024-01, revised"; written down as it is.
        part : str, optional
            Whom of the session's partition the table counts: nobody else. Everybody without it.
        allow_mcmc : bool
            As for `mechanism.release`.

        Returns
        -------
        Release, or what `mechanism.release` returns

        Raises
        ------
        BudgetError
            It would overspend; what is left is said. Nothing was drawn.
        PrivacyError
            Its loss does not add up with the others or with the budget, or protects another unit. Nothing was drawn.
        CountError, LabelError, InvariantError
            As `mechanism.release`; or the table has labels of another part. Nothing was drawn.
        SessionError, WriteError
            The session file was changed, or cannot be written. Nothing was drawn.
        InternalError
            The noise breaks a public sum: a fault of ppdinf. Nothing was published, and nothing is spent.

        Warns
        -----
        PrivacyWarning
            As `mechanism.release`; or the noise was drawn, and the outcome could not be written down.
        """
        if not isinstance(mechanism, Mechanism):
            raise PrivacyError(f"mechanism says how the noise is drawn, found {type(mechanism).__name__}")
        if not isinstance(name, str):
            raise PrivacyError(f"name is text such as '2024-01', found {type(name).__name__}")
        if part is not None and part not in self.partition[1]:
            known = f"its parts are {', '.join(self.partition[1])}" if self.partition[1] else "it was begun without any"
            raise PrivacyError(f"{self.path.name} knows no part {part!r}: {known}")
        draft = mechanism.draft(table, allow_mcmc=allow_mcmc)
        if part is not None:
            self._require_part(part, draft.public.frame)
        promise = to_plain(draft.guarantee)
        intent = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "name": name,
            "dims": dict(zip(draft.public.frame.dims, draft.public.frame.shape, strict=True)),
            "mechanism": draft.mechanism.to_dict(),
            "public": draft.public.public.to_dict(),
            "promise": promise,
        } | ({} if part is None else {"part": part})
        with locked(self.path):
            journal = self._read(alone=True)
            self._require(journal, promise_of(promise), part)
            number = len(_intents(journal)) + 1
            append(self.path, journal, {"intent": number} | intent)
        state = "failed"
        try:
            made = draft.draw()
            state = "drawn"
        except InternalError:  # the noise broke a public sum, whatever the counts are: nothing was published
            state = VOID
            raise
        finally:
            self._close(number, state)
        return made

    @property
    def spent(self) -> dict[str, Fraction]:
        """What was spent, by the name of each part of the budget; releases that were interrupted count."""
        journal = self._read()
        return self.budget.spent(_promises(journal), _parts(journal))

    @property
    def left(self) -> dict[str, Fraction]:
        """What is left, by the name of each part of the budget."""
        journal = self._read()
        return self.budget.left(_promises(journal), _parts(journal))

    @property
    def guarantee(self) -> Guarantee:
        """What all releases promise together.

        Raises
        ------
        PrivacyError
            There is none yet.
        """
        journal = self._read()
        together = self.budget.composed(_promises(journal), _parts(journal))
        if any(part is not None for part in _parts(journal)):
            by, parts = self.partition
            trust = f"that no record is of two parts by {by} ({', '.join(parts)})"
            together = replace(together, assumed=(*together.assumed, trust))
        names: dict[str, list[str]] = defaultdict(list)
        for intent in _counted(journal):
            for what in promise_of(intent["promise"]).unprotected:
                names[what] += [intent["name"]] if intent["name"] else []
        said = (f"{what} ({', '.join(names[what])})" if names[what] else what for what in together.unprotected)
        return replace(together, unprotected=tuple(said))

    @property
    def digest(self) -> str:
        """Digest of the last line of the file: kept elsewhere, it shows whether lines were taken from its end."""
        return self._read().digests[-1]

    def table(self) -> pd.DataFrame:
        """List the releases, in the order in which they were begun.

        Returns
        -------
        pandas.DataFrame
            ``name``, ``date`` (UTC), ``mechanism``, ``cells``, what is ``public``, what each costs by itself in parts
            of the budget, per unit of what (``per``), which ``part`` it is about where the session has any, and
            ``outcome``: "drawn", "failed", "open" where a process ended, or still draws, or "void" where the noise
            broke a public sum, which is a fault of ppdinf. All but "void" are spent.
        """
        journal = self._read()
        outcomes = {record["outcome"]: record["state"] for record in journal.records if "outcome" in record}
        rows = []
        for intent in _intents(journal):
            promise = promise_of(intent["promise"])
            counted = self.budget.composed([promise])
            cost = {part: float(value) for part, value in self.budget.spent([promise]).items()}
            rows.append(
                {"name": intent["name"], "date": intent["date"], "mechanism": intent["mechanism"]["kind"]}
                | {"cells": " x ".join(map(str, intent["dims"].values()))}
                | {"public": ", ".join(promise.unprotected)}
                | cost
                | {"per": counted.neighbours or f"{counted.metric} distance"}
                | ({"part": intent.get("part", "everybody")} if self.partition[1] else {})
                | {"outcome": outcomes.get(intent["intent"], "open")}
            )
        part = ["part"] if self.partition[1] else []
        columns = ["name", "date", "mechanism", "cells", "public", *self.budget.total, "per", *part, "outcome"]
        return pd.DataFrame(rows, columns=columns, index=pd.RangeIndex(1, len(rows) + 1, name="release"))

    def __repr__(self) -> str:
        total = ", ".join(f"{name} = {value}" for name, value in self.budget.total.items())
        who = f"one {self.unit} with up to {self.contributions} records"
        return f"<Session {self.path.name}: budget of {total} per unit of distance, for releases about {who}>"

    def _read(self, *, alone: bool = False) -> Journal:
        journal = read(self.path)
        if alone and self.path.stat().st_nlink > 1:
            raise SessionError(f"{self.path.name} has a second name (a hard link), under which more could be spent")
        if self._seen not in journal.digests:
            raise SessionError(f"{self.path.name} was put back to an earlier state, or is of another session")
        require_sound(self.path.name, journal)
        self._seen = journal.digests[-1]
        return journal

    def _require_part(self, part: str, frame: Frame) -> None:
        """Refuse a table with labels of another part, where it has what the partition goes by."""
        by = self.partition[0]
        others = sorted({str(label) for label in frame.broadcast(by).tolist()} - {part}) if by in frame.coords else []
        if others:
            raise LabelError(f"the table is said to count {by} = {part} alone and has cells of {', '.join(others[:5])}")

    def _require(self, journal: Journal, promise: Guarantee, part: str | None) -> None:
        """Refuse what the budget does not count, or has no room for."""
        earlier = _promises(journal)
        if (promise.unit, promise.contributions) != (self.unit, self.contributions):
            raise PrivacyError(
                f"the session protects one {self.unit} with up to {self.contributions} records, the mechanism one "
                f"{promise.unit} with up to {promise.contributions}: add ppdinf.invariants.unit({self.unit!r}, "
                f"contributions={self.contributions}) to its public information if that is what the table holds"
            )
        if earlier and "pufferfish" in {found.variant for found in (*earlier, promise)}:
            raise PrivacyError(
                "losses under models of the data add up for releases of one table only, and a session is of several: "
                "enter such releases in ppdinf.privacy.Ledger"
            )
        self.budget.require(earlier, promise, _parts(journal), part)

    def _close(self, number: int, state: str) -> None:
        """Write down the outcome; without it the release counts as spent all the same."""
        try:
            with locked(self.path):
                append(self.path, self._read(), {"outcome": number, "state": state})
        except PpdinfError as error:
            warnings.warn(f"the noise was drawn, and the outcome not written down: {error}", PrivacyWarning, 3)


def _intents(journal: Journal) -> list[Json]:
    return [record for record in journal.records if "intent" in record]


def _counted(journal: Journal) -> list[Json]:
    """Intents that are spent: all but those whose only outcome says that the noise broke a public sum."""
    states = defaultdict(set)
    for record in journal.records:
        if "outcome" in record:
            states[record["outcome"]].add(record["state"])
    return [intent for intent in _intents(journal) if states[intent["intent"]] != {VOID}]


def _parts(journal: Journal) -> list[str | None]:
    return [intent.get("part") for intent in _counted(journal)]


def _promises(journal: Journal) -> list[Guarantee]:
    return [promise_of(intent["promise"]) for intent in _counted(journal)]
