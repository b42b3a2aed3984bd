"""Statements that make something about a table public, in the words of its labels.

A statement knows nothing of any count. Given the labels of a table (:class:`ppdinf.tables.Frame`)
it writes down its rows of the integer system ``A x``; the values ``a`` come later, from the
confidential table or from what was published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ppdinf.errors import InvariantError, LabelError
from ppdinf.tables import Frame

__all__ = ["Covariates", "Public", "Statement", "Sums", "covariates", "groups", "margin", "total"]


class Statement:
    """One public statement: rows of ``A`` by label, a sentence, and a form for the release file."""

    kind: ClassVar[str]

    def rows(self, frame: Frame) -> tuple[sp.csr_array, list[str]]:
        """Rows of ``A`` (one column per cell, in table order) and a name for each."""
        raise InvariantError(f"{type(self).__name__} states no rows")  # pragma: no cover - every kind overrides

    def coordinates(self) -> frozenset[str]:
        """Names of the coordinates this statement makes public."""
        return frozenset()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the release file."""
        return {"kind": self.kind} | {key: _plain(value) for key, value in vars(self).items()}


@dataclass(frozen=True)
class Sums(Statement):
    """Sums of the table within each combination of labels of `by`; with no `by`, the total."""

    kind: ClassVar[str] = "sums"
    by: tuple[str, ...] = ()

    def rows(self, frame: Frame) -> tuple[sp.csr_array, list[str]]:
        """One row of ones per combination of labels, in order of first appearance."""
        code = np.zeros(frame.size, dtype=np.int64)
        names = ["total"] if not self.by else [""]
        for coordinate in self.by:
            labels = frame.broadcast(coordinate)
            unique, inverse = _unique_in_order(labels)
            code = code * len(unique) + inverse
            names = [f"{head}{', ' if head else ''}{coordinate}={label}" for head in names for label in unique]
        present, inverse = np.unique(code, return_inverse=True)
        A = sp.csr_array(
            (np.ones(frame.size, dtype=np.int64), (inverse, np.arange(frame.size))),
            shape=(present.size, frame.size),
        )
        return A, [names[k] for k in present]

    def coordinates(self) -> frozenset[str]:
        """Sums by a coordinate reveal which cells they run over."""
        return frozenset(self.by)

    def __str__(self) -> str:
        if not self.by:
            return "the total"
        return "the sum for every " + " and ".join(self.by)


@dataclass(frozen=True)
class Covariates(Statement):
    """Coordinates of the table that are public and travel with the release."""

    kind: ClassVar[str] = "covariates"
    names: tuple[str, ...] = ()

    def rows(self, frame: Frame) -> tuple[sp.csr_array, list[str]]:
        """No constraint on the counts; the coordinates must exist."""
        for name in self.names:
            frame.broadcast(name)
        return sp.csr_array((0, frame.size), dtype=np.int64), []

    def coordinates(self) -> frozenset[str]:
        """All of them."""
        return frozenset(self.names)

    def __str__(self) -> str:
        return "the coordinates " + ", ".join(self.names) if len(self.names) > 1 else f"the coordinate {self.names[0]}"


@dataclass(frozen=True)
class Public:
    """Everything that is public about a table: statements joined by ``&``.

    Examples
    --------
    >>> print(total() & groups("state"))
    Public and exact: the total; the sum for every state.
    """

    statements: tuple[Statement, ...] = ()

    def __and__(self, other: Public) -> Public:
        if not isinstance(other, Public):
            return NotImplemented
        return Public(self.statements + tuple(s for s in other.statements if s not in self.statements))

    def __iter__(self) -> Iterator[Statement]:
        return iter(self.statements)

    def __str__(self) -> str:
        return "Public and exact: " + ("; ".join(map(str, self.statements)) or "nothing") + "."

    def coordinates(self) -> frozenset[str]:
        """Names of all coordinates that are public, beside the labels of the dimensions."""
        return frozenset().union(*(statement.coordinates() for statement in self.statements))

    def on(self, table: Any) -> Any:
        """Bind the statements to a table: see :class:`ppdinf.invariants.System`."""
        from ppdinf.invariants.system import bind

        return bind(self, table)

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain data for the release file; `from_dict` reads it back."""
        return [statement.to_dict() for statement in self.statements]

    @classmethod
    def from_dict(cls, data: list[dict[str, Any]]) -> Public:
        """Rebuild from `to_dict`.

        Raises
        ------
        InvariantError
            A kind of statement that this version does not know.
        """
        return cls(tuple(_from_dict(entry) for entry in data))


def total() -> Public:
    """Make the grand total public.

    Returns
    -------
    Public

    Examples
    --------
    >>> import numpy as np
    >>> total().on(np.array([3, 1, 2])).values
    array([6])
    """
    return Public((Sums(()),))


def margin(*dims: str) -> Public:
    """Make the margin over `dims` public: the sum for every combination of their labels.

    Parameters
    ----------
    *dims : str
        Names of dimensions or coordinates to keep; all others are summed out.

    Returns
    -------
    Public

    Examples
    --------
    >>> from ppdinf.tables import as_table
    >>> table = as_table(np.array([[3, 0], [1, 2]]), dims=("county", "sex"))
    >>> margin("sex").on(table).values
    array([4, 2])
    """
    if not dims:
        raise InvariantError("margin() needs the name of at least one dimension; for the grand total use total()")
    return Public((Sums(dims),))


def groups(coordinate: str) -> Public:
    """Make the sum within each group of cells public.

    Parameters
    ----------
    coordinate : str
        A coordinate of the table that names the group of each cell (the state of a county).

    Returns
    -------
    Public

    Examples
    --------
    >>> import xarray as xr
    >>> table = xr.DataArray([3, 1, 2], dims="county", coords={"state": ("county", ["A", "A", "B"])})
    >>> groups("state").on(table).values
    array([4, 2])
    """
    return margin(coordinate)


def covariates(*names: str) -> Public:
    """Declare coordinates of the table (population, last month's counts) to be public.

    They are published with the release, unprotected. A coordinate that nothing declares is
    never published: :meth:`release` refuses a table that still carries one.

    Parameters
    ----------
    *names : str
        Coordinates of the table.

    Returns
    -------
    Public

    Examples
    --------
    >>> print(total() & covariates("population"))
    Public and exact: the total; the coordinate population.
    """
    if not names:
        raise LabelError("covariates() needs the name of at least one coordinate")
    return Public((Covariates(names),))


def _unique_in_order(labels: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Distinct labels in order of first appearance, and the code of each element."""
    import pandas as pd

    codes, unique = pd.factorize(labels)
    return list(unique), codes


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _from_dict(entry: dict[str, Any]) -> Statement:
    kinds = {cls.kind: cls for cls in Statement.__subclasses__()}
    fields = dict(entry)
    kind = fields.pop("kind", None)
    if kind not in kinds:
        raise InvariantError(f"this version of ppdinf does not know public statements of kind {kind!r}")
    return kinds[kind](**{key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()})
