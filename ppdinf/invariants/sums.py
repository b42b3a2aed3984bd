"""Public sums: the total, margins, groups by a coordinate or a mapping, hierarchies, and selections of sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ppdinf._internal.values import Integers, Json, assign
from ppdinf.errors import InvariantError, LabelError
from ppdinf.invariants.public import Public
from ppdinf.invariants.statement import CellNames, Chosen, GroupNames, Joined, Rows, Statement, as_label, as_text, plain
from ppdinf.tables.frame import Frame, refuse_look_alikes


@dataclass(frozen=True)
class Sums(Statement):
    """Sums of the table for each combination of labels of `by`; without `by`, the total."""

    kind: ClassVar[str] = "sums"
    by: tuple[str, ...] = ()
    weights: str | None = None
    within: str | None = None

    def __post_init__(self) -> None:
        named = [*self.by, *(name for name in (self.weights, self.within) if name is not None)]
        for name in named:
            as_text(name, "the name of a dimension or coordinate")
        if len(set(self.by)) < len(self.by):
            raise InvariantError(f"the sums run over a dimension twice: {', '.join(self.by)}")

    def equalities(self, frame: Frame) -> Rows:
        """Return one row per combination of labels, in the order of `by`, the last fastest."""
        codes = np.zeros(frame.size, dtype=np.int64)
        n = 1
        for coordinate in self.by:
            inner, labels = frame.codes(coordinate)
            if n > 1:
                present, codes = np.unique(codes * labels.size + inner, return_inverse=True)
                n = present.size  # renumber the codes before the next factor can overflow
            else:
                codes, n = inner, labels.size
        first = np.zeros(n, dtype=np.int64)
        first[codes[::-1]] = np.arange(codes.size)[::-1]  # the last write remains: the first cell of each code
        if self.within is not None:
            self._check_nested(frame, self.within, codes, first)
        A = _indicator(codes, n)
        if self.weights is not None:
            weights = frame.broadcast(self.weights)
            if weights.dtype.kind != "i":
                raise LabelError(
                    f"the weights {self.weights!r} must be an integer coordinate, so that sums are integers"
                )
            A.data = weights[A.indices]
            A.eliminate_zeros()
        suffix = "" if self.weights is None else f" weighted by {self.weights}"
        return A, CellNames(frame, first, self.by, "" if self.by else "total", suffix)

    def _check_nested(self, frame: Frame, within: str, codes: Integers, first: Integers) -> None:
        outer, labels = frame.codes(within)
        elsewhere = np.flatnonzero(outer != outer[first][codes])
        if elsewhere.size:
            cell = int(elsewhere[0])
            name = ", ".join(f"{coordinate}={frame.label(coordinate, cell)}" for coordinate in self.by)
            outer_labels = sorted(str(labels[k]) for k in (outer[cell], outer[first[codes[cell]]]))
            raise InvariantError(
                f"{name} lies in {' and in '.join(f'{within}={parent}' for parent in outer_labels)}, so the levels do "
                f"not nest: give its parts distinct names, or use margin({within!r}, ...)"
            )

    def restricted(self, whole: Frame, part: Frame, cells: Integers) -> tuple[Statement, ...]:
        """Return the sums without coordinates that are constant in the part; none if the weights are."""
        if self.weights is not None and self.weights not in part.coords:
            return ()
        by = tuple(name for name in self.by if name in part.coords)
        return (Sums(by, self.weights, self.within if self.within in part.coords else None),)

    def coordinates(self) -> frozenset[str]:
        """Return the dimensions and coordinates of the sums."""
        return frozenset(self.by) | {name for name in (self.weights, self.within) if name is not None}

    def __str__(self) -> str:
        subject = "the sum" if self.by else "the total"
        weighted = "" if self.weights is None else f", weighted by {self.weights}"
        if not self.by:
            return f"{subject}{weighted}"
        return f"{subject}{weighted}{',' * bool(weighted)} for every {' and '.join(self.by)}"


@dataclass(frozen=True)
class Parents(Statement):
    """Sums over the labels of `dim` with the same parent, from pairs of a label and its parent."""

    kind: ClassVar[str] = "parents"
    dim: str
    parents: tuple[tuple[str | int, str | int], ...]

    def __post_init__(self) -> None:
        as_text(self.dim, "the name of a dimension or coordinate")
        if not self.parents:
            raise LabelError(f"the mapping of {self.dim!r} to parents is empty: give the parent of every label")
        for pair in self.parents:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise LabelError(f"the mapping of {self.dim!r} to parents must contain pairs of labels, found {pair!r}")
            as_label(pair[0], f"a label of {self.dim!r}")
            as_label(pair[1], f"the parent of {pair[0]!r}")
        if len({label for label, _ in self.parents}) < len(self.parents):
            raise LabelError(f"the mapping of {self.dim!r} to parents contains a label twice")
        parents = {parent for _, parent in self.parents}
        if len(set(map(str, parents))) < len(parents):
            raise LabelError(f"the mapping of {self.dim!r} contains a parent both as a string and as a number")
        refuse_look_alikes(list(map(str, parents)), f"the mapping of {self.dim!r} contains parent")

    def equalities(self, frame: Frame) -> Rows:
        """Return one row per parent, in order of appearance."""
        codes, labels = frame.codes(self.dim)
        parents = dict(self.parents)
        dim_labels = labels.tolist()
        missing = next((label for label in dim_labels if label not in parents), None)
        if missing is not None:
            example = next(iter(parents))
            raise LabelError(
                f"the mapping of {self.dim!r} to parents lacks the label {missing!r}; it has labels such as {example!r}"
            )
        groups, names = pd.factorize(np.array([parents[label] for label in dim_labels], dtype=object))
        return _indicator(groups[codes], len(names)), GroupNames(self.dim, names.tolist())

    def restricted(self, whole: Frame, part: Frame, cells: Integers) -> tuple[Statement, ...]:
        """Return the statement, or the total of the part if all of its cells have one parent."""
        return (self,) if self.dim in part.coords else (Sums(),)

    def __str__(self) -> str:
        return f"the sum for every group of {self.dim} ({len({parent for _, parent in self.parents})} groups)"


def total(*, weights: str | None = None) -> Public:
    """Make the grand total public.

    Parameters
    ----------
    weights : str, optional
        An integer coordinate that multiplies the counts (persons per household).

    See Also
    --------
    ppdinf.invariants.margin, ppdinf.invariants.groups

    Examples
    --------
    >>> from ppdinf.invariants import total
    >>> total().on([3, 1, 2]).values
    array([6])
    """
    return Public((Sums((), weights),))


def margin(*dims: str, weights: str | None = None) -> Public:
    """Make the margin over `dims` public: the sum for every combination of their labels.

    Parameters
    ----------
    *dims : str
        Names of dimensions or coordinates to keep; the table is summed over all others.
    weights : str, optional
        An integer coordinate that multiplies the counts.

    Raises
    ------
    InvariantError, LabelError
        No dimension is given, a dimension is given twice, or a name is not a string.

    See Also
    --------
    ppdinf.invariants.total, ppdinf.invariants.groups, ppdinf.invariants.linear

    Examples
    --------
    >>> from ppdinf.invariants import margin
    >>> import ppdinf as ppd
    >>> table = ppd.as_table([[3, 0], [1, 2]], dims=("county", "sex"))
    >>> margin("sex").on(table).values
    array([4, 2])
    """
    if not dims:
        raise InvariantError("margin() needs the name of at least one dimension; for the grand total use total()")
    return Public((Sums(dims, weights),))


def groups(coordinate: str, parents: Mapping[Any, Any] | pd.Series | None = None) -> Public:
    """Make the sum within each group of cells public.

    Parameters
    ----------
    coordinate : str
        A coordinate of the table that names the group of each cell (the state of a county); or,
        with `parents`, a dimension whose labels are mapped to groups.
    parents : mapping or pandas.Series, optional
        Group of every label of `coordinate`. It is published; labels that the table lacks are allowed.

    Raises
    ------
    LabelError
        `parents` is not a mapping or is empty; it has a label twice; or two of its groups look alike, or have one
        name as a string and as a number. Binding to a table raises LabelError if `parents` lacks a label of the table.

    See Also
    --------
    ppdinf.invariants.margin, ppdinf.invariants.cells

    Examples
    --------
    >>> from ppdinf.invariants import groups
    >>> import xarray as xr
    >>> table = xr.DataArray([3, 1, 2], dims="county", coords={"state": ("county", ["A", "A", "B"])})
    >>> groups("state").on(table).values
    array([4, 2])
    >>> groups("county", {0: "A", 1: "A", 2: "B"}).on(table).values
    array([4, 2])
    """
    return margin(coordinate) if parents is None else Public((Parents(coordinate, _pairs(parents)),))


def hierarchy(*levels: str, parents: Mapping[Any, Any] | pd.Series | None = None) -> Public:
    """Make the total and the sums at each level of a nested hierarchy public.

    Parameters
    ----------
    *levels : str
        Coordinates from coarse to fine (``"state", "county"``); or, with `parents`, the single dimension
        whose labels are the leaves of the mapping.
    parents : mapping or pandas.Series, optional
        Parent of every label and of every parent except the roots, level by level.

    Returns
    -------
    Public
        Binding to a table whose levels do not nest (a county in two states) raises InvariantError.

    Raises
    ------
    InvariantError
        No level is given; labels of one level have different depths in `parents`, or `parents` has a cycle.

    See Also
    --------
    ppdinf.invariants.groups, ppdinf.invariants.margin

    Examples
    --------
    >>> from ppdinf.invariants import hierarchy
    >>> print(hierarchy("state", "county"))
    Published exactly: the total; the sum for every state; the sum for every county.
    >>> tree = {"a1": "a", "a2": "a", "b1": "b", "a": "x", "b": "x"}
    >>> print(hierarchy("tract", parents=tree))
    Published exactly: the total; the sum for every group of tract (2 groups).
    """
    if not levels or len(set(levels)) < len(levels):
        raise InvariantError("hierarchy() needs the names of its levels from coarse to fine, each once")
    if parents is None:
        nested = [Sums((fine,), within=coarse) for coarse, fine in pairwise(levels)]
        return Public((Sums(), Sums(levels[:1]), *nested))
    if len(levels) != 1:
        raise InvariantError("with parents, name the single dimension whose labels are the leaves of the mapping")
    parent_of = dict(_pairs(parents))
    inner = set(parent_of.values())
    ancestor = {label: label for label in parent_of if label not in inner}
    statements: list[Statement] = [Sums()]
    for _ in range(len(parent_of)):
        rooted = [label for label, ancestor_label in ancestor.items() if ancestor_label not in parent_of]
        if rooted and len(rooted) < len(ancestor):
            raise InvariantError(f"{rooted[0]!r} has fewer ancestors in the mapping than other labels of its level")
        if rooted or not ancestor:
            break
        ancestor = {label: parent_of[ancestor_label] for label, ancestor_label in ancestor.items()}
        if len(set(ancestor.values())) > 1:
            statements.append(Parents(levels[0], tuple(ancestor.items())))
    if not ancestor or any(ancestor_label in parent_of for ancestor_label in ancestor.values()):
        raise InvariantError("the mapping of labels to parents has a cycle")
    return Public(tuple(statements))


def _pairs(parents: object) -> tuple[tuple[str | int, str | int], ...]:
    if not isinstance(parents, Mapping | pd.Series):
        raise LabelError(f"parents must map labels to groups, as a dict or a Series; found {type(parents).__name__}")
    return tuple((as_label(k, "a label"), as_label(v, f"the parent of {k!r}")) for k, v in parents.items())


def _indicator(codes: Integers, rows: int) -> sp.csr_array:
    """Return the matrix whose row r has a 1 in each column with code r."""
    ones, ends = np.ones(codes.size, dtype=np.int64), np.arange(codes.size + 1)
    return sp.csr_array(sp.csc_array((ones, codes, ends), shape=(rows, codes.size)))


@dataclass(frozen=True)
class SelectedSums(Statement):
    """Some of the sums of other statements, by their position."""

    kind: ClassVar[str] = "selected-sums"
    of: tuple[Statement, ...]
    rows: tuple[int, ...]

    def __post_init__(self) -> None:
        assign(self, of=tuple(Statement.from_dict(s) if isinstance(s, dict) else s for s in self.of))
        if not self.rows or any(isinstance(row, bool) or not isinstance(row, int) or row < 0 for row in self.rows):
            raise InvariantError("selected sums need at least one position, and positions must be integers >= 0")

    def to_dict(self) -> Json:
        """Return plain data for the release file."""
        return {"kind": self.kind, "of": [statement.to_dict() for statement in self.of], "rows": plain(self.rows)}

    def equalities(self, frame: Frame) -> Rows:
        """Return the selected rows."""
        parts = [statement.equalities(frame) for statement in self.of]
        matrix, names = sp.csr_array(sp.vstack([part for part, _ in parts])), Joined([part for _, part in parts])
        if max(self.rows) >= len(names):
            raise InvariantError(f"the position {max(self.rows)} exceeds the number of sums, {len(names)}, of {self}")
        rows = np.array(self.rows, dtype=np.int64)
        return sp.csr_array(matrix[rows]), Chosen(names, rows)

    def restricted(self, whole: Frame, part: Frame, cells: Integers) -> tuple[Statement, ...]:
        """Return the other statements: the caller keeps those of their sums that are public."""
        return tuple(found for statement in self.of for found in statement.restricted(whole, part, cells))

    def coordinates(self) -> frozenset[str]:
        """Return the coordinates of the other statements."""
        return frozenset().union(*(statement.coordinates() for statement in self.of))

    def __str__(self) -> str:
        return f"{'; '.join(map(str, self.of))} ({len(self.rows)} selected)"
