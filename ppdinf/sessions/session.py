"""Sessions: releases about the same persons, drawn within one budget that a file records."""

from __future__ import annotations

import datetime
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from ppdinf._internal.atomic_files import as_path
from ppdinf._internal.rationals import Parameter
from ppdinf._internal.values import is_visible, visible
from ppdinf._internal.workers import Workers
from ppdinf.errors import InternalError, LabelError, PpdinfError, PrivacyError, PrivacyWarning, SessionError
from ppdinf.invariants import Public
from ppdinf.mechanism import Mechanism, PreparedRelease
from ppdinf.privacy.budget import Budget
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.releases import ReleaseParts
from ppdinf.releases.part_index import guarantee_of_parts
from ppdinf.releases.part_writer import PreparedParts, prepare_parts
from ppdinf.sessions.journal import (
    VERSION,
    VOID,
    Journal,
    append,
    create,
    guarantee_of,
    intents,
    locked,
    partition_of,
    read,
    require_sound,
    spent_guarantees,
    spent_intents,
    spent_parts,
    to_plain,
)
from ppdinf.tables.table import TableLike


class Session:
    """Releases of tables that count the same persons, drawn within one budget; made by `Session.open`.

    Attributes
    ----------
    path : Path
        Path of the session file. An empty ``.lock`` file is next to it.
    budget : Budget
    unit : str
        The protected unit.
    contributions : int
        Largest number of records of one unit in each table.
    partition : tuple of str and tuple of str
        Name of a partition of everybody into disjoint parts, and the parts; ``("", ())`` without a partition.

    See Also
    --------
    ppdinf.plan, ppdinf.privacy.compose, ppdinf.Release

    Notes
    -----
    Losses are counted as in `ppdinf.privacy.Ledger`: per unit of distance if guarantees state a distance, where the
    distance of several tables is the largest of their distances; otherwise between neighbours. The total loss of one
    unit is ``session.guarantee.loss_of_unit``. Every person is assumed to be in every table: months of the same persons
    add up. Of disjoint parts, only the largest loss counts (`ppdinf.privacy.compose_partition`): the curator states
    them when the session begins, and the part of each release; a table with the label of the part must agree.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tempfile, ppdinf as ppd
    >>> monthly = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     session = ppd.Session.open(Path(folder, "cases.budget"), epsilon="1/2")
    ...     release = session.release(monthly, [3, 1, 2], name="2024-01")
    ...     session.left
    {'epsilon': Fraction(1, 4)}
    """

    def __init__(self, path: Path, journal: Journal) -> None:
        head = journal.records[0]
        self._path, self._budget = path, Budget(**head["budget"])
        self._unit: str = head["unit"]
        self._contributions: int = head["contributions"]
        self._partition = partition_of(head.get("partition"))
        self._journal = journal  # the last reading; its lines are not verified again while they are unchanged

    @property
    def path(self) -> Path:
        """Path of the session file."""
        return self._path

    @property
    def budget(self) -> Budget:
        """Budget of all releases together."""
        return self._budget

    @property
    def unit(self) -> str:
        """The protected unit."""
        return self._unit

    @property
    def contributions(self) -> int:
        """Largest number of records of one unit in each table."""
        return self._contributions

    @property
    def partition(self) -> tuple[str, tuple[str, ...]]:
        """Name and parts of the partition of everybody, ``("", ())`` without a partition."""
        return self._partition

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        epsilon: Parameter | None = None,
        delta: Parameter | None = None,
        rho: Parameter | None = None,
        unit: str | None = None,
        contributions: int | None = None,
        partition: Mapping[str, Sequence[str]] | None = None,
    ) -> Session:
        """Open a session file, or create one.

        Parameters
        ----------
        path : str or path
        epsilon, delta, rho : int, float, str or Fraction, optional
            The budget: epsilon, epsilon and delta, or rho. For an existing file, omit it or give the same budget.
        unit : str, optional
            The protected unit, by default a person. Mechanisms state the unit with `ppdinf.invariants.unit`.
        contributions : int, optional
            Largest number of records of one unit in each table, by default 1.
        partition : mapping, optional
            Name and parts of a partition of everybody: ``{"region": ["north", "south"]}``. It must be
            stated when the session begins; every record is in exactly one part, in every table.

        Raises
        ------
        PrivacyError
            The file does not exist and the budget is missing or invalid; or the file has another budget, unit or
            partition.
        SessionError
            The file is not a session file, or was changed since it was written.
        WriteError
            The file cannot be written.
        """
        path, amounts, divided = as_path(path, SessionError), (epsilon, delta, rho), partition_of(partition)
        wanted = None if amounts == (None, None, None) else Budget(*amounts)
        if wanted is None and not path.exists():
            raise PrivacyError(
                f"{path.name} does not exist: correct its name, or begin a session with a budget "
                "(ppdinf session begin FILE --epsilon 1, or Session.open(FILE, epsilon=1))"
            )
        with locked(path) if wanted is not None else nullcontext():
            if not path.exists():
                assert wanted is not None
                total = {name: str(value) for name, value in wanted.total.items()}
                known = {"unit": unit or "person", "contributions": 1 if contributions is None else contributions}
                who = Public.from_dict([{"kind": "unit"} | known]).open  # raises for an invalid unit
                who = {name: who[name] for name in known}
                parts = {} if partition is None else {"partition": {by: list(parts_of) for by, parts_of in [divided]}}
                with suppress(FileExistsError):  # begun by another process since
                    create(path, {"session": VERSION, "budget": total} | who | parts)
            journal = read(path)
        require_sound(path.name, journal)
        session = cls(path, journal)
        recorded = session.partition
        if partition is not None and (divided[0], set(divided[1])) != (recorded[0], set(recorded[1])):
            raise PrivacyError(f"{path.name} was begun with another partition, or none: a partition cannot be changed")
        if wanted not in (None, session.budget) or unit not in (None, session.unit):
            raise PrivacyError(f"{path.name} has another budget or unit: {session!r}; a budget cannot be changed")
        if contributions not in (None, session.contributions):
            raise PrivacyError(f"{path.name} allows at most {session.contributions} records of one {session.unit}")
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
        """Publish a table within the budget: record its cost, then draw.

        Parameters
        ----------
        mechanism : Mechanism
        table : as for `mechanism.release`
            Confidential; the file records only the lengths of its dimensions.
        name : str, optional
            Description of the release, such as "2024-01" or "2024-01, revised"; recorded unchanged.
        part : str, optional
            The part of the session's partition that the table counts. Everybody by default.
        allow_mcmc : bool
            As for `mechanism.release`.

        Returns
        -------
        Release, or the return value of `mechanism.release`

        Raises
        ------
        BudgetError
            The release would exceed the budget; the message states the remaining budget. Nothing was drawn.
        PrivacyError
            Its loss does not add up with other losses or the budget, or protects another unit. Nothing was drawn.
        CountError, LabelError, InvariantError
            As for `mechanism.release`; or the table has labels of another part. Nothing was drawn.
        SessionError, WriteError
            The session file was changed, or cannot be written. Nothing was drawn.
        InternalError
            The noise violates a public sum: a bug in ppdinf. Nothing was published, and nothing is spent.

        Warns
        -----
        PrivacyWarning
            As for `mechanism.release`; or the noise was drawn, but its outcome could not be recorded.
        """
        if not isinstance(mechanism, Mechanism):
            raise PrivacyError(f"mechanism must be a ppdinf mechanism, found {type(mechanism).__name__}")
        _require_name(name)
        if part is not None and part not in self.partition[1]:
            known = f"its parts are {', '.join(self.partition[1])}" if self.partition[1] else "it has no partition"
            raise PrivacyError(f"{self.path.name} has no part {part!r}: {known}")
        draft = mechanism.draft(table, allow_mcmc=allow_mcmc)
        frame, by = draft.public.frame, self.partition[0]
        labels = frame.broadcast(by).tolist() if part is not None and by in frame.coords else []
        others = sorted(set(map(str, labels)) - {part})
        if others:
            raise LabelError(f"the table must count {by} = {part} only, but has cells of {', '.join(others[:5])}")
        sizes = dict(zip(frame.dims, frame.shape, strict=True))
        return self._drawn(draft, draft.public.public, sizes, name, part)

    def release_parts(
        self,
        mechanism: Mechanism,
        read: Callable[[str | int], TableLike],
        labels: Sequence[str | int],
        *,
        by: str,
        folder: str | PathLike[str],
        name: str = "",
        workers: Workers = None,
        progressbar: bool = True,
    ) -> ReleaseParts:
        """Release a table part by part within the budget: one record and one cost for all parts, then all draws.

        Parameters
        ----------
        mechanism, read, labels, by, folder, workers, progressbar
            As for `ppdinf.releases.release_parts`.
        name : str, optional
            As for `release`.

        Raises
        ------
        BudgetError, PrivacyError, SessionError, WriteError, InternalError
            As for `release`.
        CountError, LabelError, InvariantError, ModelError, ReleaseFileError
            As for `ppdinf.releases.release_parts`. Nothing was drawn.
        """
        _require_name(name)
        if isinstance(mechanism, Mechanism):  # before the parts are read, which can take long
            self._require(self._read(), guarantee_of_parts(mechanism, by, nearest=None, fixed=0, cells=0), None)
        draft = prepare_parts(mechanism, read, labels, by=by, folder=folder, workers=workers, progressbar=progressbar)
        return self._drawn(draft, mechanism.public, draft.sizes, name, None)

    def _drawn(
        self, draft: PreparedRelease | PreparedParts, public: Public, sizes: dict[str, int], name: str, part: str | None
    ) -> Any:
        """Record the cost of a prepared release, then draw it and record the outcome."""
        guarantee = to_plain(draft.guarantee)
        intent = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "name": name,
            "dims": sizes,
            "mechanism": draft.mechanism.to_dict(),
            "public": public.to_dict(),
            "promise": guarantee,
        } | ({} if part is None else {"part": part})
        with locked(self.path):
            journal = self._read(alone=True)
            self._require(journal, guarantee_of(guarantee), part)
            number = len(intents(journal)) + 1
            append(self.path, journal, {"intent": number} | intent)
            self._read()  # a file without this record is refused from now on
        state = "failed"
        try:
            made = draft.draw()
            state = "drawn"
        except InternalError:  # the noise violated a public sum, independently of the counts: nothing was published
            state = VOID
            raise
        finally:
            self._close(number, state)
        return made

    @property
    def spent(self) -> dict[str, Fraction]:
        """Spent amount of each part of the budget, by name; interrupted releases count."""
        journal = self._read()
        return self.budget.spent(spent_guarantees(journal), spent_parts(journal))

    @property
    def left(self) -> dict[str, Fraction]:
        """Remaining amount of each part of the budget, by name."""
        journal = self._read()
        return self.budget.left(spent_guarantees(journal), spent_parts(journal))

    @property
    def guarantee(self) -> Guarantee:
        """The joint guarantee of all releases.

        Raises
        ------
        PrivacyError
            The session has no release yet.
        """
        journal = self._read()
        together = self.budget.composed(spent_guarantees(journal), spent_parts(journal))
        if any(part is not None for part in spent_parts(journal)):
            by, parts = self.partition
            trust = f"that no record is of two parts by {by} ({', '.join(parts)})"
            together = replace(together, assumed=(*together.assumed, trust))
        names: dict[str, list[str]] = defaultdict(list)
        for intent in spent_intents(journal):
            for phrase in guarantee_of(intent["promise"]).unprotected:
                names[phrase] += [visible(intent["name"])] if intent["name"] else []
        unprotected = (
            f"{phrase} ({', '.join(names[phrase])})" if names[phrase] else phrase for phrase in together.unprotected
        )
        return replace(together, unprotected=tuple(unprotected))

    @property
    def digest(self) -> str:
        """Digest of the last line of the file; stored elsewhere, it shows whether lines were removed from the end."""
        return self._read().digests[-1]

    def table(self) -> pd.DataFrame:
        """List the releases, in the order of their records.

        Returns
        -------
        pandas.DataFrame
            ``name``, ``date`` (UTC), ``mechanism``, ``cells``, ``public`` statements, the cost of each release in parts
            of the budget, the unit of the cost (``per``), its ``part`` if the session has a partition, and ``outcome``:
            "drawn", "failed", "open" if a process ended or is still drawing, or "void" if the noise violated a public
            sum, which is a bug in ppdinf. All except "void" are spent.
        """
        journal = self._read()
        outcomes = {record["outcome"]: record["state"] for record in journal.records if "outcome" in record}
        rows = []
        for intent in intents(journal):
            guarantee = guarantee_of(intent["promise"])
            counted = self.budget.composed([guarantee])
            cost = {part: float(value) for part, value in self.budget.spent([guarantee]).items()}
            rows.append(
                {"name": visible(intent["name"]), "date": intent["date"], "mechanism": intent["mechanism"]["kind"]}
                | {"cells": " x ".join(map(str, intent["dims"].values()))}
                | {"public": ", ".join(guarantee.unprotected)}
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
        journal = read(self.path, self._journal)
        if alone and self.path.stat().st_nlink > 1:
            raise SessionError(f"{self.path.name} has a second name (a hard link), which could be spent separately")
        if not journal.known and self._journal.digests[-1] not in journal.digests:
            raise SessionError(f"{self.path.name} was replaced by an earlier version, or is of another session")
        require_sound(self.path.name, journal)
        self._journal = journal
        return journal

    def _require(self, journal: Journal, guarantee: Guarantee, part: str | None) -> None:
        """Refuse guarantees that do not fit the budget or exceed it."""
        earlier = spent_guarantees(journal)
        if (guarantee.unit, guarantee.contributions) != (self.unit, self.contributions):
            raise PrivacyError(
                f"the session protects one {self.unit} with up to {self.contributions} records, but the mechanism one "
                f"{guarantee.unit} with up to {guarantee.contributions}: add ppdinf.invariants.unit({self.unit!r}, "
                f"contributions={self.contributions}) to its public information if this is true for the table"
            )
        if earlier and "pufferfish" in {other.variant for other in (*earlier, guarantee)}:
            raise PrivacyError(
                "losses under models of the data add up for releases of one table only, but a session has several: "
                "enter such releases in ppdinf.privacy.Ledger"
            )
        self.budget.require(earlier, guarantee, spent_parts(journal), part)

    def _close(self, number: int, state: str) -> None:
        """Record the outcome; without it, the release counts as spent. A release without a record is withheld."""
        try:
            with locked(self.path):
                append(self.path, self._read(), {"outcome": number, "state": state})
        except PpdinfError as error:
            is_recorded = True
            with suppress(PpdinfError):
                is_recorded = self._journal.digests[-1] in read(self.path).digests
            if not is_recorded:
                raise SessionError(
                    f"{self.path.name} was replaced during the release, whose cost it does not record: the noise is "
                    "withheld"
                ) from error
            warnings.warn(f"the noise was drawn, but its outcome was not recorded: {error}", PrivacyWarning, 3)


def _require_name(name: object) -> None:
    """Refuse a name of a release that is not one line of text."""
    if not isinstance(name, str):
        raise PrivacyError(f"name must be text such as '2024-01', found {type(name).__name__}")
    if not is_visible(name):
        raise PrivacyError(f"name must be one line of text without control characters, found {name!a}")
