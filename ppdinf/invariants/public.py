"""How a curator or an analyst says what is public: builders by label, joined by ``&``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ppdinf.errors import InvariantError, LabelError
from ppdinf.invariants.statements import (
    AtLeast,
    Between,
    Cells,
    Covariates,
    Linear,
    LinearBound,
    Parents,
    Statement,
    Sums,
    Zeros,
    freeze_selector,
)

if TYPE_CHECKING:
    from ppdinf.invariants.system import System

__all__ = [
    "Public", "at_least", "between", "cells", "covariates", "groups", "hierarchy", "inequality", "linear",
    "margin", "nonnegative", "total", "zeros",
]  # fmt: skip


@dataclass(frozen=True)
class Public:
    """Everything that is public about a table: statements joined by ``&``.

    Examples
    --------
    >>> print(total() & groups("state") & nonnegative())
    Published exactly: the total; the sum for every state. Known: no count is negative.
    """

    statements: tuple[Statement, ...] = ()

    def __and__(self, other: Public) -> Public:
        if not isinstance(other, Public):
            return NotImplemented
        return Public(self.statements + tuple(s for s in other.statements if s not in self.statements))

    def __iter__(self) -> Iterator[Statement]:
        return iter(self.statements)

    def __str__(self) -> str:
        sentence = f"Published exactly: {'; '.join(self.exact) or 'nothing'}."
        return sentence + (f" Known: {'; '.join(self.known)}." if self.known else "")

    @property
    def exact(self) -> tuple[str, ...]:
        """What is published as it is, one phrase per statement."""
        return tuple(str(s) for s in self.statements if not isinstance(s, Between | AtLeast | LinearBound | Zeros))

    @property
    def known(self) -> tuple[str, ...]:
        """What holds for every possible table, one phrase per statement."""
        return tuple(str(s) for s in self.statements if isinstance(s, Between | AtLeast | LinearBound | Zeros))

    def coordinates(self) -> frozenset[str]:
        """Names of all coordinates that are public, beside the labels of the dimensions."""
        return frozenset().union(*(statement.coordinates() for statement in self.statements))

    def on(self, table: Any, *, values: Sequence[int] | None = None) -> System:
        """Bind the statements to the labels of a table.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of integers
            Its labels say what each sum runs over. Negative cells are allowed.
        values : sequence of int, optional
            Public values, one per row of ``A``, where they are known apart from `table`. Without
            them they are read off its cells.

        Returns
        -------
        System
            ``A``, ``values``, ``names``, ``lattice``, ``structure``, ``check(table)``.

        Raises
        ------
        InvariantError
            Malformed statements; `values` that contradict each other.
        LabelError
            A statement names a dimension, coordinate or label that the table does not have.

        Examples
        --------
        >>> total().on(np.array([3, 1, 2])).values
        array([6])
        """
        from ppdinf.invariants.system import bind

        return bind(self, table, values)

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
        return cls(tuple(Statement.from_dict(entry) for entry in data))


def total(*, weights: str | None = None) -> Public:
    """Make the grand total public.

    Parameters
    ----------
    weights : str, optional
        An integer coordinate to multiply the counts by (persons per household).

    Returns
    -------
    Public

    Examples
    --------
    >>> total().on(np.array([3, 1, 2])).values
    array([6])
    """
    return Public((Sums((), weights),))


def margin(*dims: str, weights: str | None = None) -> Public:
    """Make the margin over `dims` public: the sum for every combination of their labels.

    Parameters
    ----------
    *dims : str
        Names of dimensions or coordinates to keep; all others are summed out.
    weights : str, optional
        An integer coordinate to multiply the counts by.

    Returns
    -------
    Public

    Examples
    --------
    >>> import ppdinf as ppd
    >>> table = ppd.as_table(np.array([[3, 0], [1, 2]]), dims=("county", "sex"))
    >>> margin("sex").on(table).values
    array([4, 2])
    """
    if not dims:
        raise InvariantError("margin() needs the name of at least one dimension; for the grand total use total()")
    if len(set(dims)) < len(dims):
        raise InvariantError(f"margin() names a dimension twice: {dims}")
    return Public((Sums(dims, weights),))


def groups(coordinate: str, parents: Mapping[Any, Any] | None = None) -> Public:
    """Make the sum within each group of cells public.

    Parameters
    ----------
    coordinate : str
        A coordinate of the table that names the group of each cell (the state of a county); or,
        with `parents`, a dimension whose labels the mapping puts into groups.
    parents : mapping, optional
        Group of every label of `coordinate`.

    Returns
    -------
    Public

    Examples
    --------
    >>> import xarray as xr
    >>> table = xr.DataArray([3, 1, 2], dims="county", coords={"state": ("county", ["A", "A", "B"])})
    >>> groups("state").on(table).values
    array([4, 2])
    >>> groups("county", {0: "A", 1: "A", 2: "B"}).on(table).values
    array([4, 2])
    """
    return margin(coordinate) if parents is None else Public((Parents(coordinate, tuple(parents.items())),))


def hierarchy(*levels: str, parents: Mapping[Any, Any] | None = None) -> Public:
    """Make the total and the sums at each level of a nested hierarchy public.

    Parameters
    ----------
    *levels : str
        Coordinates from coarse to fine (``"state", "county"``); or, with `parents`, the one dimension
        that the mapping starts from.
    parents : mapping, optional
        Parent of every label, and of every parent but the roots, level by level.

    Returns
    -------
    Public

    Raises
    ------
    InvariantError
        Labels of one level sit at different depths of `parents`, or it runs in a circle.

    Examples
    --------
    >>> print(hierarchy("state", "county"))
    Published exactly: the total; the sum for every state; the sum for every county.
    >>> tree = {"a1": "a", "a2": "a", "b1": "b", "a": "x", "b": "x"}
    >>> print(hierarchy("tract", parents=tree))
    Published exactly: the total; the sum for every group of tract (2 groups).
    """
    if parents is None:
        return Public((Sums(()), *(Sums((level,)) for level in levels)))
    if len(levels) != 1:
        raise InvariantError("with parents, name the one dimension that the mapping starts from")
    level = {label: parent for label, parent in parents.items() if label not in set(parents.values())}
    statements: list[Statement] = [Sums(())]
    for _ in range(len(parents)):
        if len(set(level.values())) == 1:
            return Public(tuple(statements))
        statements.append(Parents(levels[0], tuple(level.items())))
        rootless = [parent for parent in level.values() if parent not in parents]
        if rootless:
            if len(rootless) < len(level):
                raise InvariantError(f"{rootless[0]!r} is a root, but other labels of its level have parents")
            return Public(tuple(statements))
        level = {label: parents[parent] for label, parent in level.items()}
    raise InvariantError("the mapping of labels to parents runs in a circle")


def cells(where: Mapping[str, Any]) -> Public:
    """Publish chosen cells exactly.

    Parameters
    ----------
    where : mapping of coordinate to label or labels
        Cells that match in every coordinate.

    Returns
    -------
    Public

    Examples
    --------
    >>> import ppdinf as ppd
    >>> table = ppd.as_table(np.array([[3, 0], [1, 2]]), dims=("county", "sex"))
    >>> cells({"county": 1}).on(table).values
    array([1, 2])
    """
    return Public((Cells(freeze_selector(where)),))


def zeros(where: Mapping[str, Any]) -> Public:
    """Declare structural zeros: cells that are empty by definition, whatever the table.

    Parameters
    ----------
    where : mapping of coordinate to label or labels

    Returns
    -------
    Public

    Examples
    --------
    >>> print(zeros({"age": "under 5", "status": "married"}))
    Published exactly: nothing. Known: no one can have age = under 5 and status = married.
    """
    return Public((Zeros(freeze_selector(where)),))


def linear(A: Any, labels: Sequence[str] | None = None) -> Public:
    """Publish any integer combinations of cells exactly.

    Parameters
    ----------
    A : array_like, scipy sparse or pandas.DataFrame of whole numbers, shape (k, d)
        One column per cell, in table order (last dimension fastest). The columns of a DataFrame are
        checked against the labels of a one-dimensional table, its index names the rows.
    labels : sequence of str, optional
        Names of the rows.

    Returns
    -------
    Public

    Raises
    ------
    InvariantError
        Entries that are not whole numbers, or beyond 2**53.

    Examples
    --------
    >>> linear([[1, 0, 2]], ["first and twice the third"]).on(np.array([3, 1, 2])).values
    array([7])
    """
    return Public((Linear(*_triplets(A, labels, "A")),))


def covariates(*names: str) -> Public:
    """Declare coordinates of the table (population, last month's counts) to be public.

    They are published with the release, unprotected. A coordinate that nothing declares is
    never published: `release` refuses a table that still carries one.

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
    Published exactly: the total; the coordinate population.
    """
    if not names:
        raise LabelError("covariates() needs the name of at least one coordinate")
    return Public((Covariates(names),))


def nonnegative() -> Public:
    """State that no count is negative.

    Returns
    -------
    Public

    Examples
    --------
    >>> print(nonnegative())
    Published exactly: nothing. Known: no count is negative.
    """
    return between(0, None)


def between(low: int | None, high: int | None) -> Public:
    """State that every count lies between two limits, both included.

    Parameters
    ----------
    low, high : int or None
        None for no limit on that side.

    Returns
    -------
    Public

    Examples
    --------
    >>> print(between(0, 100))
    Published exactly: nothing. Known: every count is from 0 to 100.
    """
    if low is None and high is None:
        raise InvariantError("between() needs at least one limit")
    for limit in (low, high):
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | np.integer)):
            raise InvariantError(f"limits of counts are whole numbers, found {limit!r}")
    if low is not None and high is not None and low > high:
        raise InvariantError(f"no count lies between {low} and {high}")
    return Public((Between(None if low is None else int(low), None if high is None else int(high)),))


def at_least(larger: str | int, smaller: str | int, *, dim: str) -> Public:
    """State that one label's counts are at least another's, cell by cell (cases >= deaths).

    Parameters
    ----------
    larger, smaller : str or int
        Labels of `dim`.
    dim : str

    Returns
    -------
    Public

    Examples
    --------
    >>> print(at_least("cases", "deaths", dim="measure"))
    Published exactly: nothing. Known: cases >= deaths.
    """
    if larger == smaller:
        raise InvariantError(f"at_least() needs two different labels, found {larger!r} twice")
    return Public((AtLeast(larger, smaller, dim),))


def inequality(B: Any, limits: Sequence[int], labels: Sequence[str] | None = None) -> Public:
    """State that integer combinations of cells have lower limits: ``B x >= limits``.

    Parameters
    ----------
    B : array_like, scipy sparse or pandas.DataFrame of whole numbers, shape (l, d)
        As in `linear`.
    limits : sequence of int, length l
    labels : sequence of str, optional
        Names of the rows.

    Returns
    -------
    Public

    Examples
    --------
    >>> print(inequality([[1, 1, 0]], [2], ["first two"]))
    Published exactly: nothing. Known: first two >= 2.
    """
    from ppdinf.lattice.systems import integer_vector

    names, triplets, width, columns = _triplets(B, labels, "B")
    checked = integer_vector(limits, len(names), names, name="limits")
    return Public((LinearBound(names, triplets, width, tuple(checked.tolist()), columns),))


def _triplets(
    matrix: Any, labels: Sequence[str] | None, name: str
) -> tuple[tuple[str, ...], tuple[tuple[int, int, int], ...], int, tuple[Any, ...] | None]:
    from ppdinf.lattice.systems import integer_matrix

    columns = None
    if isinstance(matrix, pd.DataFrame):
        labels = [str(label) for label in matrix.index] if labels is None else labels
        columns = tuple(matrix.columns.tolist())
        matrix = matrix.to_numpy()
    entries = integer_matrix(matrix, labels, name=name).tocoo()
    names = tuple(labels) if labels is not None else tuple(f"row {r}" for r in range(entries.shape[0]))
    if len(names) != entries.shape[0] or len(set(names)) < len(names):
        raise LabelError(f"{name} has {entries.shape[0]} rows: give each a name of its own, found {len(set(names))}")
    order = np.lexsort((entries.col, entries.row))
    triplets = zip(entries.row[order].tolist(), entries.col[order].tolist(), entries.data[order].tolist(), strict=True)
    return names, tuple(triplets), entries.shape[1], columns
