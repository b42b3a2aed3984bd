"""Cells chosen by label: published exactly, or structural zeros."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import LabelError
from ppdinf.invariants.names import CellNames
from ppdinf.invariants.public import Public
from ppdinf.invariants.statement import Rows, Statement, as_label, as_text, rows_of
from ppdinf.tables.frame import Frame


@dataclass(frozen=True)
class Cells(Statement):
    """Cells that match every coordinate of `where`, published exactly."""

    kind: ClassVar[str] = "cells"
    where: tuple[tuple[str, tuple[str | int, ...]], ...]

    def __post_init__(self) -> None:
        if not self.where:
            raise LabelError("choose cells by coordinate and label, such as {'county': ['Adams']}")
        for entry in self.where:
            if not isinstance(entry, tuple) or len(entry) != 2 or not isinstance(entry[1], tuple) or not entry[1]:
                raise LabelError(f"{entry!r} does not choose cells: give a coordinate and at least one of its labels")
            as_text(entry[0], "the name of a coordinate")
            for label in entry[1]:
                as_label(label, f"a label of {entry[0]!r}")

    def equalities(self, frame: Frame) -> Rows:
        """Return one row per chosen cell."""
        chosen = np.flatnonzero(self._mask(frame))
        if not chosen.size:
            raise LabelError(f"no cell has {self.phrase}")
        suffix = " (structural zero)" if self.known else ""
        return rows_of(chosen, frame), CellNames(frame, chosen, frame.dims, after=suffix)

    def is_local(self, by: str) -> bool:
        """Return True: each row has one cell."""
        return True

    def restricted(self, whole: Frame, part: Frame, cells: NDArray[np.int64]) -> tuple[Statement, ...]:
        """Return the statement with the labels of the part; nothing if it has none of the cells."""
        if not self._mask(whole)[cells].any():
            return ()
        present = {name: set(part.codes(name)[1].tolist()) for name, _ in self.where if name in part.coords}
        where = tuple(
            (name, tuple(label for label in labels if label in present[name]))
            for name, labels in self.where
            if name in present
        )
        every = ((part.dims[0], tuple(part.coords[part.dims[0]][1].tolist())),)
        return (replace(self, where=where or every),)

    def _mask(self, frame: Frame) -> NDArray[np.bool_]:
        mask = np.ones(frame.size, dtype=bool)
        for coordinate, labels in self.where:
            mask &= frame.select(coordinate, labels)
        return mask

    def coordinates(self) -> frozenset[str]:
        """Return the coordinates that choose the cells."""
        return frozenset(name for name, _ in self.where)

    @property
    def phrase(self) -> str:
        """Description of the choice."""
        return " and ".join(f"{name} = {' or '.join(map(str, labels))}" for name, labels in self.where)

    def __str__(self) -> str:
        return f"every count with {self.phrase}"


@dataclass(frozen=True)
class Zeros(Cells):
    """Structural zeros: cells that are empty by definition in every table."""

    kind: ClassVar[str] = "zeros"
    known: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"no one can have {self.phrase}"


def cells(where: Mapping[str, object]) -> Public:
    """Publish chosen cells exactly.

    Parameters
    ----------
    where : mapping of coordinate to label or list of labels
        Cells that match every coordinate.

    Returns
    -------
    Public

    Raises
    ------
    LabelError
        No cell is chosen, or labels are neither strings nor integers.

    See Also
    --------
    ppdinf.invariants.groups, ppdinf.invariants.linear, ppdinf.invariants.zeros

    Examples
    --------
    >>> from ppdinf.invariants import cells
    >>> import ppdinf as ppd
    >>> table = ppd.as_table([[3, 0], [1, 2]], dims=("county", "sex"))
    >>> cells({"county": 1}).on(table).values
    array([1, 2])
    """
    return Public((Cells(_selector(where)),))


def zeros(where: Mapping[str, object]) -> Public:
    """Declare structural zeros: cells that are empty by definition in every table.

    Parameters
    ----------
    where : mapping of coordinate to label or list of labels
        As for `cells`.

    Returns
    -------
    Public

    See Also
    --------
    ppdinf.invariants.cells, ppdinf.invariants.between

    Examples
    --------
    >>> from ppdinf.invariants import zeros
    >>> print(zeros({"age": "under 5", "status": "married"}))
    Published exactly: nothing. Known: no one can have age = under 5 and status = married.
    """
    return Public((Zeros(_selector(where)),))


def _selector(where: object) -> tuple[tuple[str, tuple[str | int, ...]], ...]:
    """Return ``{"county": "Adams", "sex": ["F", "M"]}`` as hashable pairs."""
    if not isinstance(where, Mapping):
        raise LabelError("choose cells by a mapping of coordinate to labels, such as {'county': ['Adams']}")
    return tuple((name, _labels(labels, name)) for name, labels in where.items())


def _labels(labels: Any, name: object) -> tuple[str | int, ...]:
    several = isinstance(labels, Iterable) and not isinstance(labels, str | bytes | set | frozenset | Mapping)
    return tuple(as_label(label, f"a label of {name!r}") for label in (labels if several else [labels]))
