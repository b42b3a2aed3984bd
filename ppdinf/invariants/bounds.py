"""Statements that hold for every possible table: limits of counts, and counts that exceed others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.errors import InvariantError, LabelError
from ppdinf.invariants.names import CellNames, Joined
from ppdinf.invariants.public import Public
from ppdinf.invariants.statement import Bounds, Statement, as_integer, as_label, as_text, rows_of
from ppdinf.tables.frame import Frame


@dataclass(frozen=True)
class Between(Statement):
    """Every count is between two limits."""

    kind: ClassVar[str] = "between"
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

    def is_local(self, by: str) -> bool:
        """Return True: each row has one cell."""
        return True

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

    def restricted(self, whole: Frame, part: Frame, cells: NDArray[np.int64]) -> tuple[Statement, ...]:
        """Return the statement if the part has both labels."""
        has_both = self.dim in part.dims and {self.larger, self.smaller} <= set(part.coords[self.dim][1].tolist())
        return (self,) if has_both else ()

    def coordinates(self) -> frozenset[str]:
        """Return the dimension."""
        return frozenset({self.dim})

    def __str__(self) -> str:
        return f"{self.larger} >= {self.smaller}"


def nonnegative() -> Public:
    """State that every count is at least 0.

    Returns
    -------
    Public

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

    Returns
    -------
    Public

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

    Returns
    -------
    Public

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
