"""The base class of public statements, and the names of their rows."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from types import NoneType
from typing import Any, ClassVar, overload

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.values import Integers, Json, NamedInFiles
from ppdinf.errors import InvariantError, LabelError
from ppdinf.tables.frame import LARGEST, Frame, native, refuse_unwritable


class Names(Sequence[str]):
    """A sequence of strings that equals a list of the same strings."""

    start = ""
    """Text at the start of every name."""

    @abstractmethod
    def name(self, row: int) -> str:
        """Return the name of row 0, 1, ..., ``len(self) - 1``."""

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        rows = range(len(self))[row]  # Python's rules for negative positions, missing positions and slices
        return [self.name(r) for r in rows] if isinstance(rows, range) else self.name(rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names | list | tuple) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        more = f", ... ({len(self)} names)" if len(self) > 6 else ""
        return f"[{', '.join(map(repr, self[:6]))}{more}]"


@dataclass(frozen=True, eq=False, repr=False)
class CellNames(Names):
    """Rows named after cells, by a subset of the cells' labels."""

    frame: Frame
    cells: Integers
    by: tuple[str, ...]
    before: str = ""
    after: str = ""

    @property
    def start(self) -> str:  # type: ignore[override]
        """Text at the start of every name."""
        return f"{self.before}{self.by[0]}=" if self.by else self.before

    def __len__(self) -> int:
        return int(self.cells.size)

    def name(self, row: int) -> str:
        """Compose one name."""
        cell = int(self.cells[row])
        labels = ", ".join(f"{coordinate}={self.frame.label(coordinate, cell)}" for coordinate in self.by)
        return f"{self.before}{labels}{self.after}"


@dataclass(frozen=True, eq=False, repr=False)
class GroupNames(Names):
    """Rows named after groups of labels."""

    dim: str
    groups: Sequence[str | int]

    @property
    def start(self) -> str:  # type: ignore[override]
        """Text at the start of every name."""
        return f"{self.dim} in "

    def __len__(self) -> int:
        return len(self.groups)

    def name(self, row: int) -> str:
        """Compose one name."""
        return f"{self.dim} in {self.groups[row]}"


class Joined(Names):
    """Concatenated sequences of names."""

    def __init__(self, parts: Sequence[Sequence[str]]) -> None:
        self._parts = [part for part in parts if len(part)]
        self._starts = [0, *accumulate(map(len, self._parts))]

    def __len__(self) -> int:
        return self._starts[-1]

    def name(self, row: int) -> str:
        """Return the name of one row."""
        k = bisect_right(self._starts, row) - 1
        return self._parts[k][row - self._starts[k]]


class Chosen(Names):
    """A subset of a sequence of names."""

    def __init__(self, names: Sequence[str], rows: Integers) -> None:
        self._names, self._rows = names, rows

    def __len__(self) -> int:
        return int(self._rows.size)

    def name(self, row: int) -> str:
        """Return the name of one row."""
        return self._names[int(self._rows[row])]


def cell_names(names: Sequence[str]) -> Iterator[tuple[CellNames, Integers]]:
    """Return the rows that are named after cells, and their places in `names`, part by part."""
    if isinstance(names, CellNames):
        yield names, np.arange(len(names))
    elif isinstance(names, Joined):
        for start, part in zip(names._starts, names._parts, strict=False):
            for cells, rows in cell_names(part):
                yield cells, rows + start
    elif isinstance(names, Chosen):
        place = np.full(len(names._names), -1)
        place[names._rows] = np.arange(len(names))
        for cells, rows in cell_names(names._names):
            chosen = place[rows] >= 0
            yield replace(cells, cells=cells.cells[chosen]), place[rows][chosen]


Rows = tuple[sp.csr_array, Sequence[str]]
Bounds = tuple[sp.csr_array, Integers, Sequence[str]]


class Statement(NamedInFiles, by="kind"):
    """One public statement. Subclasses are frozen dataclasses of plain, hashable values."""

    kind: ClassVar[str]
    """Name in release files."""
    known: ClassVar[bool] = False
    """Whether the statement holds for every possible table, rather than being published about one table."""
    is_local: ClassVar[bool] = False
    """Whether each row has cells of one label of every coordinate only, in every table."""

    def equalities(self, frame: Frame) -> Rows:
        """Return rows of ``A`` (one column per cell, in table order) and a name for each row."""
        return no_rows(frame), []

    def inequalities(self, frame: Frame) -> Bounds:
        """Return rows of ``B``, the limits ``b``, and a name for each row."""
        return no_rows(frame), np.zeros(0, dtype=np.int64), []

    def coordinates(self) -> frozenset[str]:
        """Return the names of coordinates that the statement makes public: by default its dimension, if it has one."""
        return frozenset([self.dim] if hasattr(self, "dim") else [])

    def restricted(self, whole: Frame, part: Frame, cells: Integers) -> tuple[Statement, ...]:
        """Return statements about a part of a table whose rows include all rows within the part."""
        return (self,)

    def to_dict(self) -> Json:
        """Return plain data for the release file; `from_dict` reads it."""
        return {"kind": self.kind} | {f.name: plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]

    @staticmethod
    def from_dict(data: Any) -> Statement:
        """Return a statement of any kind from the data of `to_dict`."""
        cls, kind = Statement._named_in(data), data.get("kind") if isinstance(data, dict) else None
        if cls is None:
            raise InvariantError(f"this version of ppdinf does not know public statements of kind {kind!r}")
        expected = {field.name: str(field.type) for field in fields(cls)}  # type: ignore[arg-type]
        if set(data) != {"kind", *expected}:
            raise InvariantError(f"a public statement of kind {kind!r} must have the fields {', '.join(expected)}")
        for name, annotation in expected.items():
            kinds = list | NoneType if "None" in annotation else list
            if annotation.startswith("tuple") and not isinstance(data[name], kinds):
                raise InvariantError(f"in a public statement of kind {kind!r}, {name!r} must be a list")
        return cls(**{name: _frozen(data[name]) for name in expected})


def no_rows(frame: Frame) -> sp.csr_array:
    """Return a matrix without rows over the cells of a table."""
    return sp.csr_array((0, frame.size), dtype=np.int64)


def rows_of(cells: Integers, frame: Frame, weight: int = 1) -> sp.csr_array:
    """Return one row per given cell, with `weight` in its column."""
    n = cells.size
    return sp.csr_array((np.full(n, weight, dtype=np.int64), cells, np.arange(n + 1)), shape=(n, frame.size))


def as_integer(value: object, what: str) -> int:
    """Require an integer that files and doubles represent exactly."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or abs(int(value)) > LARGEST:
        raise InvariantError(f"{what} must be an integer of at most 2**53, found {value!r}")
    return int(value)


def as_label(value: object, what: str) -> str | int:
    """Require a valid label."""
    label = native(value)
    if isinstance(label, str):
        return as_text(label, what)
    if isinstance(label, bool) or not isinstance(label, int) or abs(label) > LARGEST:
        raise LabelError(f"{what} must be a string or an integer of at most 2**53, found {value!r}")
    return label


def as_text(value: object, what: str) -> str:
    """Require a string, the name of a coordinate or a row."""
    if not isinstance(value, str):
        raise LabelError(f"{what} must be a string, found {value!r}")
    refuse_unwritable([value], f"{what} is")
    return str(value)


def plain(value: object) -> Any:
    """Convert nested tuples to lists, as JSON does."""
    return [plain(entry) for entry in value] if isinstance(value, tuple) else value


def _frozen(value: object) -> Any:
    return tuple(_frozen(entry) for entry in value) if isinstance(value, list) else value
