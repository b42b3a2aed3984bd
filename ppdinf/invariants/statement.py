"""The base class of public statements: rows by label, a sentence, data for the release file.

A statement does not depend on counts. For the labels of a table (:class:`ppdinf.tables.frame.Frame`) it returns its
rows of the integer system: ``A x``, which is published exactly, or ``B x >= b``, which is known to hold. The values of
``A x`` are added later, from the confidential table or from the publication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from types import NoneType
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._internal.frozen import NamedInFiles
from ppdinf._internal.types import Json
from ppdinf.errors import InvariantError, LabelError
from ppdinf.tables.frame import Frame
from ppdinf.tables.labels import LARGEST, native, refuse_unwritable

Rows = tuple[sp.csr_array, Sequence[str]]
Bounds = tuple[sp.csr_array, NDArray[np.int64], Sequence[str]]


class Statement(NamedInFiles, by="kind"):
    """One public statement. Subclasses are frozen dataclasses of plain, hashable values."""

    kind: ClassVar[str]
    """Name in release files."""
    known: ClassVar[bool] = False
    """Whether the statement holds for every possible table, rather than being published about one table."""

    def equalities(self, frame: Frame) -> Rows:
        """Return rows of ``A`` (one column per cell, in table order) and a name for each row."""
        return no_rows(frame), []

    def inequalities(self, frame: Frame) -> Bounds:
        """Return rows of ``B``, the limits ``b``, and a name for each row."""
        return no_rows(frame), np.zeros(0, dtype=np.int64), []

    def coordinates(self) -> frozenset[str]:
        """Return the names of the coordinates and dimensions that the statement makes public."""
        return frozenset()

    def is_local(self, by: str) -> bool:
        """Return whether each row has cells of one label of the coordinate `by` only, in every table."""
        return False

    def restricted(self, whole: Frame, part: Frame, cells: NDArray[np.int64]) -> tuple[Statement, ...]:
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


def rows_of(cells: NDArray[np.int64], frame: Frame, weight: int = 1) -> sp.csr_array:
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
