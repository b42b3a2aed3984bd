"""Statements about cells: published exactly, structural zeros, limits of counts, and counts that exceed others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.values import Flags, Integers
from ppdinf.errors import InvariantError, LabelError
from ppdinf.invariants.public import Public
from ppdinf.invariants.statement import (
    Bounds,
    CellNames,
    Joined,
    Rows,
    Statement,
    as_integer,
    as_label,
    as_text,
    rows_of,
)
from ppdinf.tables.frame import Frame


@dataclass(frozen=True)
class Cells(Statement):
    """Cells that match every coordinate of `where`, published exactly."""

    kind: ClassVar[str] = "cells"
    is_local: ClassVar[bool] = True
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

    def restricted(self, whole: Frame, part: Frame, cells: Integers) -> tuple[Statement, ...]:
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

    def _mask(self, frame: Frame) -> Flags:
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


@dataclass(frozen=True)
class Between(Statement):
    """Every count is between two limits."""

    kind: ClassVar[str] = "between"
    is_local: ClassVar[bool] = True
    known: ClassVar[bool] = True
    low: int | None = 0
    high: int | None = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise InvariantError("between() needs at least one limit")
        for limit in (self.low, self.high):
            if limit is not None:
                as_integer(limit, "a limit of counts")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InvariantError(f"between() needs low <= high: no count lies between {self.low} and {self.high}")

    def inequalities(self, frame: Frame) -> Bounds:
        """Return ``x >= low`` and ``-x >= -high`` for every cell."""
        cells = np.arange(frame.size)
        stated = [(1, self.low, "least"), (-1, self.high, "most")]
        parts = [
            (
                rows_of(cells, frame, sign),
                np.full(frame.size, sign * limit),
                CellNames(frame, cells, frame.dims, after=f" at {word} {limit}"),
            )
            for sign, limit, word in stated
            if limit is not None
        ]
        matrices, limits, names = zip(*parts, strict=True)
        return sp.csr_array(sp.vstack(matrices)), np.concatenate(limits), Joined(names)

    def __str__(self) -> str:
        if self.high is None:
            return "no count is negative" if self.low == 0 else f"every count is at least {self.low}"
        if self.low is None:
            return f"every count is at most {self.high}"
        return f"every count is from {self.low} to {self.high}"


@dataclass(frozen=True)
class AtLeast(Statement):
    """Along `dim`, the count under `larger` is at least the count under `smaller`."""

    kind: ClassVar[str] = "at-least"
    known: ClassVar[bool] = True
    larger: str | int
    smaller: str | int
    dim: str

    def __post_init__(self) -> None:
        as_text(self.dim, "the dimension of at_least()")
        for label in (self.larger, self.smaller):
            as_label(label, f"a label of {self.dim!r}")
        if self.larger == self.smaller:
            raise InvariantError(f"at_least() needs two different labels, found {self.larger!r} twice")

    def inequalities(self, frame: Frame) -> Bounds:
        """Return one row per combination of the other labels."""
        if frame.coordinate(self.dim) and self.dim not in frame.dims:
            raise LabelError(f"at_least() compares along a dimension, but {self.dim!r} is a coordinate")
        larger, smaller = (np.flatnonzero(frame.select(self.dim, [label])) for label in (self.larger, self.smaller))
        B = rows_of(larger, frame) - rows_of(smaller, frame)
        names = CellNames(frame, larger, frame.dims, before=f"{self} at ")
        return sp.csr_array(B), np.zeros(larger.size, dtype=np.int64), names

    def restricted(self, whole: Frame, part: Frame, cells: Integers) -> tuple[Statement, ...]:
        """Return the statement if the part has both labels."""
        has_both = self.dim in part.dims and {self.larger, self.smaller} <= set(part.coords[self.dim][1].tolist())
        return (self,) if has_both else ()

    def __str__(self) -> str:
        return f"{self.larger} >= {self.smaller}"


def nonnegative() -> Public:
    """State that every count is at least 0.

    See Also
    --------
    ppdinf.invariants.at_least, ppdinf.invariants.between

    Examples
    --------
    >>> from ppdinf.invariants import nonnegative
    >>> print(nonnegative())
    Published exactly: nothing. Known: no count is negative.
    """
    return between(0, None)


def between(low: int | None, high: int | None) -> Public:
    """State that every count is between two limits, both included.

    Parameters
    ----------
    low, high : int or None
        Limits; None for an unlimited side.

    Raises
    ------
    InvariantError
        No limit is given, the limits exclude each other, or they are not integers of at most 2**53.

    See Also
    --------
    ppdinf.invariants.at_least, ppdinf.invariants.inequality

    Examples
    --------
    >>> from ppdinf.invariants import between
    >>> print(between(0, 100))
    Published exactly: nothing. Known: every count is from 0 to 100.
    """
    low, high = (None if limit is None else as_integer(limit, "a limit of counts") for limit in (low, high))
    return Public((Between(low, high),))


def at_least(larger: str | int, smaller: str | int, *, dim: str) -> Public:
    """State that the counts under one label are at least the counts under another label (cases >= deaths).

    Parameters
    ----------
    larger, smaller : str or int
        Labels of `dim`.
    dim : str
        A dimension of the table.

    Raises
    ------
    InvariantError, LabelError
        The same label twice; labels that are neither strings nor integers.

    See Also
    --------
    ppdinf.invariants.between, ppdinf.invariants.nonnegative, ppdinf.invariants.inequality

    Examples
    --------
    >>> from ppdinf.invariants import at_least
    >>> print(at_least("cases", "deaths", dim="measure"))
    Published exactly: nothing. Known: cases >= deaths.
    """
    return Public((AtLeast(as_label(larger, "larger"), as_label(smaller, "smaller"), dim),))
