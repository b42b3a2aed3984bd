"""Integer combinations of cells: published exactly, or with known lower limits, such as those of percentages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ppdinf._internal.values import Integers, Json
from ppdinf.errors import InvariantError, LabelError
from ppdinf.invariants.public import Public
from ppdinf.invariants.statement import Bounds, Rows, Statement, as_integer, as_label, as_text
from ppdinf.lattice.systems import MatrixLike, integer_matrix, integer_vector
from ppdinf.tables.count_ranges import missing_values
from ppdinf.tables.frame import LARGEST, Frame
from ppdinf.tables.percentages import Share


@dataclass(frozen=True)
class Matrix(Statement):
    """A sparse integer matrix with named rows, as entries ``weight[e]`` in ``row[e], column[e]``."""

    names: tuple[str, ...]
    row: tuple[int, ...]
    column: tuple[int, ...]
    weight: tuple[int, ...]
    width: int
    cells: tuple[object, ...] | None

    def __post_init__(self) -> None:
        if not self.names:
            raise InvariantError("a matrix of public sums needs at least one row")
        for name in self.names:
            as_text(name, "the name of a row")
        if len(set(self.names)) < len(self.names):
            raise LabelError(
                f"the names of the rows of a matrix must be unique, found {', '.join(self.names[:4])}, ..."
            )
        entries = [np.array(part, dtype=object) for part in (self.row, self.column, self.weight, (self.width,))]
        ends = (len(self.names) - 1, as_integer(self.width, "the width of a matrix") - 1, LARGEST)
        if len({part.size for part in entries[:3]}) > 1 or any(set(map(type, part)) - {int} for part in entries):
            raise InvariantError("the entries of a matrix must be integers, each with a row and a column")
        for part, low, high in zip(entries[:3], (0, 0, -LARGEST), ends, strict=True):
            if part.size and not low <= part.min() <= part.max() <= high:
                raise InvariantError(f"an entry of the matrix with row {self.names[0]!r} is not in {low} to {high}")
        if self.cells is not None:
            if len(self.cells) != self.width:
                raise InvariantError(f"a matrix of {self.width} columns has labels of {len(self.cells)}")
            for cell in self.cells:
                for part in cell if isinstance(cell, tuple) else (cell,):
                    as_label(part, "a column of a matrix")

    def matrix(self, frame: Frame) -> sp.csr_array:
        """Bind to the cells of a table."""
        where = f"the matrix with row {self.names[0]!r}"
        if self.width != frame.size:
            raise InvariantError(f"{where} has {self.width} columns, the table has {frame.size} cells")
        if self.cells is not None:
            labels = [frame.coords[dim][1].tolist() for dim in frame.dims]
            expected = [entry[0] if len(frame.dims) == 1 else entry for entry in product(*labels)]
            for k, (label, cell) in enumerate(zip(self.cells, expected, strict=True)):
                if label != cell:
                    raise LabelError(f"{where} has {label!r} in column {k}, where the cells of the table have {cell!r}")
        entries = (np.array(part, dtype=np.int64) for part in (self.weight, self.row, self.column))
        weight, row, column = entries
        return sp.csr_array((weight, (row, column)), shape=(len(self.names), self.width))

    def restricted(self, whole: Frame, part: Frame, cells: Integers) -> tuple[Statement, ...]:
        """Return the rows that have entries in the cells of the part only, without labels of columns."""
        place = np.full(whole.size, -1)
        place[cells] = np.arange(cells.size)
        row, column = np.array(self.row, dtype=np.int64), place[np.array(self.column, dtype=np.int64)]
        kept = np.setdiff1d(row, row[column < 0])
        within = np.isin(row, kept)
        return self._with_rows(
            kept,
            names=tuple(self.names[r] for r in kept),
            row=tuple(np.searchsorted(kept, row[within]).tolist()),
            column=tuple(column[within].tolist()),
            weight=tuple(weight for weight, entry in zip(self.weight, within, strict=True) if entry),
            width=cells.size,
            cells=None,
        )

    def _with_rows(self, kept: Integers, **entries: Any) -> tuple[Statement, ...]:
        return (replace(self, **entries),) if kept.size else ()


@dataclass(frozen=True)
class Linear(Matrix):
    """Integer combinations of cells that are published exactly."""

    kind: ClassVar[str] = "linear"

    def equalities(self, frame: Frame) -> Rows:
        """Return the stated rows."""
        return self.matrix(frame), self.names

    def __str__(self) -> str:
        shown = ", ".join(self.names[:4]) + (", ..." if len(self.names) > 4 else "")
        return f"{len(self.names)} weighted sum{'s' * (len(self.names) != 1)} ({shown})"


@dataclass(frozen=True)
class LinearBound(Matrix):
    """Integer combinations of cells, each with a lower limit."""

    kind: ClassVar[str] = "linear-bound"
    known: ClassVar[bool] = True
    limits: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.limits) != len(self.names):
            raise InvariantError(f"{len(self.names)} rows have {len(self.limits)} limits: give one for each")
        for name, limit in zip(self.names, self.limits, strict=True):
            as_integer(limit, f"the limit of {name!r}")

    def inequalities(self, frame: Frame) -> Bounds:
        """Return the stated rows and limits."""
        return self.matrix(frame), np.array(self.limits, dtype=np.int64), self.names

    def _with_rows(self, kept: Integers, **entries: Any) -> tuple[Statement, ...]:
        return super()._with_rows(kept, limits=tuple(self.limits[row] for row in kept), **entries)

    def __str__(self) -> str:
        shown = ", ".join(f"{n} >= {limit}" for n, limit in zip(self.names[:4], self.limits[:4], strict=True))
        return shown + (", ..." if len(self.names) > 4 else "")


def linear(A: MatrixLike | pd.DataFrame, labels: Sequence[str] | None = None) -> Public:
    """Publish integer combinations of cells exactly.

    Parameters
    ----------
    A : array_like, scipy sparse or pandas.DataFrame of integers, shape (k, d)
        One column per cell, in table order (last dimension fastest). The index of a DataFrame names the
        rows, and its columns must be the labels of the cells in this order: for several dimensions a MultiIndex
        with one level per dimension.
    labels : sequence of str, optional
        Names of the rows.

    Raises
    ------
    InvariantError
        Entries that are not integers of at most 2**53.
    LabelError
        Names of rows are not unique; columns of a DataFrame are not labels.

    See Also
    --------
    ppdinf.invariants.inequality, ppdinf.invariants.margin

    Examples
    --------
    >>> from ppdinf.invariants import linear
    >>> linear([[1, 0, 2]], ["first and twice the third"]).on([3, 1, 2]).values
    array([7])
    """
    return Public((Linear(**_entries(A, labels, "A")),))


def inequality(B: MatrixLike | pd.DataFrame, limits: Sequence[int], labels: Sequence[str] | None = None) -> Public:
    """State that integer combinations of cells have lower limits: ``B x >= limits``.

    Parameters
    ----------
    B : array_like, scipy sparse or pandas.DataFrame of integers, shape (l, d)
        As for `linear`.
    limits : sequence of int, length l
    labels : sequence of str, optional
        Names of the rows.

    Raises
    ------
    InvariantError, LabelError
        As for `linear`; limits that are not integers, or not one limit for each row.

    See Also
    --------
    ppdinf.invariants.linear, ppdinf.invariants.at_least

    Examples
    --------
    >>> from ppdinf.invariants import inequality
    >>> print(inequality([[1, 1, 0]], [2], ["first two"]))
    Published exactly: nothing. Known: first two >= 2.
    """
    entries = _entries(B, labels, "B")
    checked = integer_vector(limits, len(entries["names"]), entries["names"], name="limits")
    return Public((LinearBound(**entries, limits=tuple(checked.tolist())),))


def shares(values: pd.Series[Any], within: str | Sequence[str] = (), *, per: int = 100) -> Public:
    """State printed percentages of cells in sums that are not published.

    A percentage r of d decimals states that ``(r - h) n <= 100 x <= (r + h) n`` with ``h = 10**-d / 2``, for the count
    x of the cell and the sum n, and that n is at least 1. Any rule of ties is allowed.

    Parameters
    ----------
    values : pandas.Series
        Texts as for `ppdinf.percentages`, with all labels of all dimensions in the order of the table. Missing values
        state nothing.
    within : str or sequence of str
        Dimensions whose labels distinguish the denominators: percentages of the pupils of each school are within
        ``"school"``. By default, the denominator is the total.
    per : int, default 100

    Raises
    ------
    CountError
        A value is not a percentage.
    LabelError
        `within` is not a level of the index of `values`.

    See Also
    --------
    ppdinf.percentages : Percentages of known numbers of persons, which are ranges of counts.
    ppdinf.invariants.inequality

    Examples
    --------
    >>> import pandas as pd, ppdinf as ppd
    >>> printed = pd.Series(["25.0", "75.0"], index=pd.Index(["yes", "no"], name="answer"))
    >>> seen = ppd.Measurements({"answer": ["yes", "no"]}, bounds=ppd.invariants.shares(printed))
    >>> ppd.identified_bounds(seen).lower.tolist()
    [1.0, 3.0]
    """
    dims = [within] if isinstance(within, str) else list(within)
    for name in dims:
        if name not in values.index.names:
            raise LabelError(f"percentages within {name!r} need a level {name!r} of the index of values")
    group = values.groupby(dims, sort=False).ngroup().to_numpy() if dims else np.zeros(values.size, np.int64)
    printed = ~missing_values(values.to_numpy(object))
    rows: list[tuple[str, dict[int, int], int]] = []  # name, weights of cells, limit
    for number in dict.fromkeys(group[printed].tolist()):
        members = np.flatnonzero(group == number).tolist()
        rows.append((f"persons of the percentage at {values.index[members[0]]}", dict.fromkeys(members, 1), 1))
        for k in np.flatnonzero(printed & (group == number)).tolist():
            share = Share.of(str(values.iloc[k]))
            for limit, sign, words in ((share.low, 1, "at least"), (share.high, -1, "at most")):
                if limit is not None:  # sign * (per * x - limit * n) >= 0, with integer weights
                    weights = dict.fromkeys(members, -sign * limit.numerator)
                    weights[k] += sign * per * limit.denominator
                    name = f"share at {values.index[k]} {words} {float(limit):g}"
                    rows.append((name, weights, int(share.is_strict)))
    B = sp.lil_array((len(rows), values.size), dtype=np.int64)
    for place, (_, weights, _) in enumerate(rows):
        B[place, list(weights)] = list(weights.values())
    entries = B.tocoo()
    row, column, weight = (tuple(part.tolist()) for part in (entries.row, entries.col, entries.data))
    cells = tuple(values.index.get_level_values(0) if values.index.nlevels == 1 else values.index)
    names, limits = tuple(name for name, *_ in rows), tuple(limit for *_, limit in rows)
    return Public((LinearBound(names, row, column, weight, values.size, cells, limits),))


def _entries(matrix: MatrixLike | pd.DataFrame, labels: Sequence[str] | None, name: str) -> Json:
    cells = None
    if isinstance(matrix, pd.DataFrame):
        labels = [str(label) for label in matrix.index] if labels is None else labels
        cells = tuple(
            tuple(as_label(part, f"a column of {name}") for part in label)
            if isinstance(label, tuple)
            else as_label(label, f"a column of {name}")
            for label in matrix.columns
        )
        matrix = matrix.to_numpy()
    if labels is not None:
        labels = tuple(as_text(label, f"the name of a row of {name}") for label in labels)
    coo = integer_matrix(matrix, labels, name=name).tocsr().tocoo()
    return {
        "names": labels or tuple(f"row {r}" for r in range(coo.shape[0])),
        "row": tuple(coo.row.tolist()),
        "column": tuple(coo.col.tolist()),
        "weight": tuple(coo.data.tolist()),
        "width": coo.shape[1],
        "cells": cells,
    }
