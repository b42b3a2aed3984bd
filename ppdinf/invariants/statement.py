"""What every public statement shares: rows by label, a sentence, a form for the release file.

A statement knows nothing of any count. Given the labels of a table (:class:`ppdinf.tables.frame.Frame`)
it writes down its rows of the integer system: ``A x`` that is published exactly, or ``B x >= b`` that
is known to hold. The values of ``A x`` come later, from the confidential table or from what was published.
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

__all__ = ["Bounds", "Rows", "Statement", "as_label", "as_text", "as_whole", "no_rows", "plain", "rows_of"]

Rows = tuple[sp.csr_array, Sequence[str]]
Bounds = tuple[sp.csr_array, NDArray[np.int64], Sequence[str]]


class Statement(NamedInFiles, by="kind"):
    """One public statement. Subclasses are frozen dataclasses of plain, hashable values."""

    kind: ClassVar[str]
    """Name in release files."""
    known: ClassVar[bool] = False
    """Whether it holds for every possible table, rather than being published about this one."""

    def equalities(self, frame: Frame) -> Rows:
        """Rows of ``A`` (one column per cell, in table order) and a name for each."""
        return no_rows(frame), []

    def inequalities(self, frame: Frame) -> Bounds:
        """Rows of ``B``, the limits ``b``, and a name for each."""
        return no_rows(frame), np.zeros(0, dtype=np.int64), []

    def coordinates(self) -> frozenset[str]:
        """Names of the coordinates and dimensions that the statement speaks of, and so makes public."""
        return frozenset()

    def to_dict(self) -> Json:
        """Plain data for the release file; `from_dict` reads it back."""
        return {"kind": self.kind} | {f.name: plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]

    @staticmethod
    def from_dict(data: Any) -> Statement:
        """Rebuild a statement of any kind.

        Raises
        ------
        InvariantError, LabelError
            A kind that this version does not know, or other fields than it has.
        """
        found, kind = Statement._named_in(data), data.get("kind") if isinstance(data, dict) else None
        if found is None:
            raise InvariantError(f"this version of ppdinf does not know public statements of kind {kind!r}")
        expected = {field.name: str(field.type) for field in fields(found)}  # type: ignore[arg-type]
        if set(data) != {"kind", *expected}:
            raise InvariantError(f"a public statement of kind {kind!r} has the fields {', '.join(expected)}")
        for name, annotation in expected.items():
            kinds = list | NoneType if "None" in annotation else list
            if annotation.startswith("tuple") and not isinstance(data[name], kinds):
                raise InvariantError(f"in a public statement of kind {kind!r}, {name!r} is a list")
        return found(**{name: _frozen(data[name]) for name in expected})


def no_rows(frame: Frame) -> sp.csr_array:
    """Matrix of no rows over the cells of a table."""
    return sp.csr_array((0, frame.size), dtype=np.int64)


def rows_of(cells: NDArray[np.int64], frame: Frame, weight: int = 1) -> sp.csr_array:
    """One row per given cell, with `weight` in its column."""
    n = cells.size
    return sp.csr_array((np.full(n, weight, dtype=np.int64), cells, np.arange(n + 1)), shape=(n, frame.size))


def as_whole(value: object, what: str) -> int:
    """Check a whole number that files and floats keep.

    Raises
    ------
    InvariantError
        Naming `what`.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or abs(int(value)) > LARGEST:
        raise InvariantError(f"{what} must be a whole number of at most 2**53, found {value!r}")
    return int(value)


def as_label(value: object, what: str) -> str | int:
    """Check a label.

    Raises
    ------
    LabelError
        Naming `what`.
    """
    label = native(value)
    if isinstance(label, str):
        return as_text(label, what)
    if isinstance(label, bool) or not isinstance(label, int) or abs(label) > LARGEST:
        raise LabelError(f"{what} must be a string or a whole number of at most 2**53, found {value!r}")
    return label


def as_text(value: object, what: str) -> str:
    """Check the name of a coordinate or a row.

    Raises
    ------
    LabelError
        Naming `what`.
    """
    if not isinstance(value, str):
        raise LabelError(f"{what} must be a string, found {value!r}")
    refuse_unwritable([value], f"{what} is")
    return str(value)


def plain(value: object) -> Any:
    """Tuples as lists, however deep: what JSON gives back."""
    return [plain(entry) for entry in value] if isinstance(value, tuple) else value


def _frozen(value: object) -> Any:
    return tuple(_frozen(entry) for entry in value) if isinstance(value, list) else value
