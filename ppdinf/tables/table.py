"""Labelled integer tables: conversion from xarray, pandas and NumPy with all checks."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from ppdinf._internal.values import Array, Integers, Reals, some_of, unmasked
from ppdinf.errors import CountError, LabelError
from ppdinf.tables.frame import LARGEST, Frame, as_name, native
from ppdinf.tables.totals import exempt_labels, refuse_totals, require_known

_LONG = (
    "with one row per cell, name the columns by as_table(data, count=..., dims=[...]); with one row per person, count "
    "them first, pd.crosstab(data[a], data[b])"
)


def from_series(data: pd.Series, dims: Sequence[str] | None) -> xr.DataArray:
    """Make one dimension of every level of the index; every combination of labels must occur exactly once."""
    index = data.index
    names = dimension_names(list(index.names), dims)
    if not isinstance(index, pd.MultiIndex):  # the frame reports repeated labels
        return xr.DataArray(data.to_numpy(), dims=names, coords={names[0]: _labels(index)})
    if index.has_duplicates:
        twice = tuple(map(native, index[index.duplicated()][0]))
        raise LabelError(f"the index contains {twice} more than once: add the counts, or make the rows distinct")
    codes, levels = zip(*(pd.factorize(index.get_level_values(k)) for k in range(len(names))), strict=True)
    for name, code in zip(names, codes, strict=True):
        if np.any(code < 0):
            raise LabelError(f"level {name!r} of the index has a missing label in row {int(np.argmin(code))}")
    shape = [len(level) for level in levels]
    flat = np.zeros(len(index), dtype=np.int64)
    for code, size in zip(codes, shape, strict=True):
        flat = flat * size + code  # overflow is detected below, as more combinations than rows
    combinations = math.prod(shape)
    if combinations > len(index):
        filled = np.zeros(len(index) + 1, dtype=bool)
        filled[flat[(flat >= 0) & (flat <= len(index))]] = True
        k, absent = int(np.argmin(filled)), list[object]()
        for level, size in zip(reversed(levels), reversed(shape), strict=True):
            k, position = divmod(k, size)
            absent.insert(0, native(level[position]))
        raise LabelError(
            f"{combinations - len(index)} combinations of {', '.join(names)} are absent, such as {tuple(absent)}: "
            "add them with the count 0, or use one dimension with coordinates"
        )
    cells = np.empty_like(data.to_numpy())
    cells[flat] = data.to_numpy()
    return xr.DataArray(cells.reshape(shape), dims=names, coords=dict(zip(names, map(_labels, levels), strict=True)))


def from_long(data: Any, dims: Sequence[str] | None, count: str, covariates: Sequence[str]) -> xr.DataArray:
    """Convert one row per cell: counts, and covariates along the dimensions on which they depend."""
    if not isinstance(data, pd.DataFrame) or dims is None:
        raise LabelError("count must be a column of a DataFrame with one row per cell, and dims its columns of labels")
    named = [count, *dims, *covariates]
    absent = [name for name in named if name not in data.columns]
    if absent:
        raise LabelError(f"the DataFrame has no column {absent[0]!r}; it has {_list_names(data.columns)}")
    if len(set(named)) < len(named):
        raise LabelError(f"the column {max(named, key=named.count)!r} is named for more than one purpose")
    indexed = data.set_index(list(dims))
    table = from_series(indexed[count], None)
    coords = {name: along(from_series(indexed[name], None).values, table.dims) for name in covariates}
    return table.assign_coords(coords)


def along(values: Array, dims: Sequence[Hashable]) -> tuple[tuple[Hashable, ...], Array]:
    """Drop the dimensions along which values are constant, but keep at least one dimension."""
    kept = list(dims)
    for axis in reversed(range(len(kept))):
        first = values[(slice(None),) * axis + (slice(1),)]  # empty if there are no labels
        if len(kept) > 1 and first.size and np.array_equal(values, np.broadcast_to(first, values.shape)):
            values = first.squeeze(axis)
            del kept[axis]
    return tuple(kept), values


def _list_names(names: Sequence[object] | pd.Index) -> str:
    return some_of((repr(native(name)) for name in names), 6)


def from_frame(data: pd.DataFrame, dims: Sequence[str] | None) -> xr.DataArray:
    """Make two dimensions of rows and columns."""
    if isinstance(data.index, pd.MultiIndex) or isinstance(data.columns, pd.MultiIndex):
        raise LabelError("rows or columns have several levels: convert the DataFrame with table.stack(...)")
    kinds = sorted({str(kind) for kind in data.dtypes})
    if len(kinds) > 1:
        raise CountError(
            f"the columns have different types ({', '.join(kinds)}): a two-way table contains integers only; {_LONG}"
        )
    if data.index.name is None and data.columns.name is None and dims is None:
        raise LabelError(
            f"the rows and columns ({_list_names(data.columns)}) of the DataFrame have no names: for a two-way table "
            f"give dims=(rows, columns); {_LONG}"
        )
    rows, columns = dimension_names([data.index.name, data.columns.name], dims)
    # convert each column separately: pandas integers of a complete frame would become objects
    parts = [data.iloc[:, j].to_numpy() for j in range(data.shape[1])]
    values = np.stack(parts, axis=1) if parts else np.empty(data.shape)
    return xr.DataArray(
        values, dims=(rows, columns), coords={rows: _labels(data.index), columns: _labels(data.columns)}
    )


def _labels(index: pd.Index) -> Array:
    """Return the labels of a pandas index as NumPy integers, or as objects."""
    return index.to_numpy() if index.dtype.kind in "iu" else np.array(index, dtype=object)


def dimension_names(levels: Sequence[Hashable], given: Sequence[str] | None) -> list[str]:
    """Return the names of an index, or the given names for an unnamed index."""
    if given is not None and len(given) == len(levels):
        for old, new in zip(levels, given, strict=True):
            if old is not None and old != new:
                raise LabelError(f"the index is named {old!r}, but dims states {new!r}: drop dims, or rename the index")
        levels = list(given)
    if len(set(levels)) < len(levels) or any(name is None for name in levels):
        raise LabelError(f"name the index levels (found {list(levels)}) or pass dims with {len(levels)} names")
    return [as_name(name, "index level") for name in levels]


type TableLike = xr.DataArray | pd.Series | pd.DataFrame | ArrayLike
"""Types that are accepted as a table: labelled or unlabelled cells."""


def as_table(
    data: Any,
    *,
    dims: Sequence[str] | None = None,
    count: str | None = None,
    covariates: Sequence[str] = (),
    labels: Mapping[str, Sequence[object]] | None = None,
    not_totals: Sequence[str | int] = (),
    nonnegative: bool = True,
) -> xr.DataArray:
    """Convert counts to the labelled integer table that ppdinf uses, or refuse them.

    Parameters
    ----------
    data : xarray.DataArray, pandas.Series, pandas.DataFrame or numpy.ndarray of integers
        A Series with a MultiIndex becomes one dimension per level, with labels in order of first appearance, and must
        hold every combination exactly once. A DataFrame is a two-way table (rows by columns) or, with `count`, has one
        row per cell; frames of polars are converted. Dimensions without labels are numbered from 0.
    dims : sequence of str, optional
        Names of the dimensions if `data` has no names (NumPy arrays, unnamed pandas indexes); with `count`, the
        columns of labels.
    count : str, optional
        Column of counts of a DataFrame with one row per cell.
    covariates : sequence of str
        Columns of such a DataFrame that describe cells, such as populations: coordinates along the dimensions
        on which they depend.
    labels : mapping of dimension to sequence of labels, optional
        All labels of a dimension, in the required order; labels that `data` lacks have the count 0. State the same in
        ``ppdinf.invariants.labels``, so that every release has them, independently of the counts.
    not_totals : sequence of str or int
        Labels that are not totals, although their names or counts look like totals of other labels. The attribute
        ``not_totals`` of the result contains them, so that mechanisms accept the table. Releases do not contain them.
    nonnegative : bool, default True
        Refuse negative cells. Released tables may hold them, confidential tables may not.

    Returns
    -------
    xarray.DataArray
        A copy, ``int64``, with the same order of dimensions and, unless `labels` states another, of labels. Other
        attributes and scalar coordinates are dropped.

    Raises
    ------
    CountError
        Cells that are not integers, are negative or exceed 2**53; masked arrays; no cells.
    LabelError
        Unnamed dimensions; labels that repeat, are missing, are neither strings nor integers,
        look alike, or are totals of others by name, count or code; absent combinations; undeclared labels.

    See Also
    --------
    ppdinf.Measurements, ppdinf.datasets.read_table

    Examples
    --------
    >>> import numpy as np, pandas as pd, ppdinf as ppd
    >>> ppd.as_table(np.array([[3, 0], [1, 2]]), dims=("county", "sex")).dims
    ('county', 'sex')

    A DataFrame with one row per cell, with the population by county:

    >>> rows = {"county": ["A", "A", "B", "B"], "sex": ["f", "m"] * 2, "n": [3, 1, 0, 2], "persons": [50, 50, 70, 70]}
    >>> table = ppd.as_table(pd.DataFrame(rows), count="n", dims=["county", "sex"], covariates=["persons"])
    >>> table.shape, table.persons.dims
    ((2, 2), ('county',))
    """
    data = as_pandas(data)
    exempt = exempt_labels(data, not_totals)
    if count is not None:
        data, dims = from_long(data, dims, count, covariates), None
    elif covariates:
        raise LabelError("covariates are columns of a DataFrame with one row per cell: name the counts with count=...")
    given, dims = (data, dims) if labels is None else (_with_labels(data, dims, labels), None)
    given = _as_dataarray(given, dims).assign_attrs(not_totals=exempt)
    if not_totals:
        require_known(Frame.of(given), not_totals)
    frame, cells = labelled_cells(given, nonnegative=nonnegative)
    table = frame.table(cells).assign_attrs({"not_totals": exempt} if exempt else {})
    return table.rename(data.name) if isinstance(data, xr.DataArray | pd.Series) else table


def labelled_cells(
    data: object, *, dims: Sequence[str] | None = None, nonnegative: bool = True
) -> tuple[Frame, Integers]:
    """Return labels and cells of a table, with the checks of `as_table`."""
    table = _as_dataarray(data, dims)
    if not table.size or table.ndim == 0:
        raise CountError(f"the table has shape {table.shape}: it needs at least one cell in each dimension")
    frame = Frame.of(table)
    cells = _as_counts(table.values.ravel(), frame, nonnegative)
    if nonnegative:  # a confidential table; released tables are not checked for totals
        counts = cells.reshape(frame.shape)
        refuse_totals(frame, [(frame.dims, counts, counts)], exempt_labels(data))
    return frame, cells


def labelled_reals(data: object) -> tuple[Frame, Reals]:
    """Return labels and cells of a published table of real numbers."""
    table = _as_dataarray(data, None)
    if not table.size or table.ndim == 0:
        raise CountError(f"the table has shape {table.shape}: it needs at least one cell in each dimension")
    frame = Frame.of(table)
    if table.dtype.kind not in "iuf":
        raise CountError(f"a table of noisy answers must contain numbers, found {table.dtype}")
    cells = table.values.ravel().astype(np.float64)
    if not np.isfinite(cells).all():
        raise CountError(
            f"the cell at {frame.cell(int(np.argmin(np.isfinite(cells))))} is not a finite number: if an answer was "
            "not released, leave out its label"
        )
    return frame, cells


def reals_of(data: TableLike, frame: Frame, what: str) -> Reals:
    """Return the cells of a table of numbers with a known frame, after a comparison of its labels."""
    given = data if isinstance(data, xr.DataArray) else _as_dataarray(data, frame.dims)
    table_frame, cells = labelled_reals(given)
    if isinstance(data, xr.DataArray | pd.Series | pd.DataFrame):
        frame.check_same(table_frame, what)
    elif table_frame.shape != frame.shape:
        raise LabelError(f"{what} has shape {table_frame.shape}, but the table has shape {frame.shape}")
    return cells.reshape(frame.shape)


def _as_counts(cells: Array, frame: Frame, nonnegative: bool) -> Integers:
    if cells.dtype.kind not in "iu":
        missing = pd.isna(cells)
        if missing.any():
            raise CountError(
                f"{missing.sum()} cells are missing, the first at {frame.cell(int(np.argmax(missing)))}: write 0 for "
                "cells without records; for unknown or unreleased counts, leave out their labels, or use a known "
                "margin"
            )
        invalid = ~np.isfinite(cells) | (cells != np.floor(cells)) if cells.dtype.kind == "f" else missing
        hint = "convert it with .astype('int64') once you know why it is not an integer type"
        if invalid.any():
            hint = (
                f"{invalid.sum()} cells are fractional or infinite, the first at {frame.cell(int(np.argmax(invalid)))}"
            )
        raise CountError(f"counts must have an integer type, found {cells.dtype}: {hint}")
    outside = (cells > LARGEST) | (cells < -LARGEST)
    if outside.any():
        raise CountError(f"the cell at {frame.cell(int(np.argmax(outside)))} exceeds 2**53: check its unit")
    negative = cells < 0
    if nonnegative and negative.any():
        raise CountError(
            f"{negative.sum()} cells are negative, the first at {frame.cell(int(np.argmax(negative)))}: "
            "a confidential table must contain non-negative counts"
        )
    return np.array(cells, dtype=np.int64)


def ranked(frame: Frame, cells: Integers) -> list[str]:
    """Return the dimensions whose labels are in the order of their counts, as in tables made by counting."""
    dims = []
    for axis, (dim, size) in enumerate(zip(frame.dims, frame.shape, strict=True)):
        labels = frame.coords[dim][1].tolist()
        if size < 3 or labels == sorted(labels):
            continue
        others = tuple(k for k in range(len(frame.shape)) if k != axis)
        table = cells.reshape(frame.shape).astype(float)
        for summary in (table.sum(axis=others), table.max(axis=others), table.min(axis=others)):
            steps = np.diff(summary)
            if steps.any() and (np.all(steps <= 0) or np.all(steps >= 0)):
                dims.append(dim)
                break
    return dims


def _with_labels(data: object, dims: Sequence[str] | None, labels: object) -> xr.DataArray:
    """Reindex a table to the given labels of some dimensions; absent labels get the count 0."""
    if not isinstance(labels, Mapping) or any(isinstance(entries, str) for entries in labels.values()):
        raise LabelError("labels must be given by dimension, in their order, such as labels={'sex': ['f', 'm']}")
    if isinstance(data, pd.Series) and isinstance(data.index, pd.MultiIndex):
        names = dimension_names(list(data.index.names), dims)
        if data.index.has_duplicates:
            return from_series(data, dims)  # raises an error that names the duplicates
        levels = [labels.get(name, data.index.unique(level)) for level, name in enumerate(names)]
        for level, (name, entries) in enumerate(zip(names, levels, strict=True)):
            _require_among(name, data.index.unique(level), entries)
        all_labels = pd.MultiIndex.from_product([list(entries) for entries in levels], names=names)
        return from_series(data.reindex(all_labels, fill_value=0), names)
    table = _as_dataarray(data, dims)
    frame = Frame.of(table)
    for dim, entries in labels.items():
        if dim not in frame.dims:
            raise LabelError(f"labels are given for {dim!r}, but the table has dimensions {frame.dims}")
        _require_among(dim, frame.coords[dim][1].tolist(), entries)
        incomplete = [name for name, (along, _) in frame.coords.items() if dim in along and name != dim]
        if incomplete and len(entries) > frame.shape[frame.dims.index(dim)]:
            raise LabelError(
                f"{dim!r} lacks labels for which the coordinate {incomplete[0]!r} has no value: add their rows"
            )
        table = table.assign_coords({dim: frame.coords[dim][1]}).reindex({dim: list(entries)}, fill_value=0)
    return table


def _require_among(dim: str, labels: Iterable[object], declared: Sequence[object]) -> None:
    known = set(declared)
    if len(known) < len(declared):
        raise LabelError(f"the labels given for {dim!r} contain a duplicate")
    foreign = [label for label in labels if native(label) not in known]
    if foreign:
        raise LabelError(f"{dim!r} has the label {native(foreign[0])!r}, which is not among the labels given for it")


def as_pandas(data: Any) -> Any:
    """Convert data frames of other libraries, such as polars, whose labels would become counts."""
    return data.to_pandas() if hasattr(data, "to_pandas") and not isinstance(data, xr.DataArray | xr.Dataset) else data


def _as_dataarray(data: object, dims: Sequence[str] | None) -> xr.DataArray:
    if isinstance(data, xr.DataArray):
        if dims is not None and tuple(dims) != data.dims:
            raise LabelError(f"the table has dimensions {data.dims}, not {tuple(dims)}: rename or transpose it")
        return data
    data = as_pandas(data)
    if isinstance(data, xr.Dataset):
        raise CountError(f"a Dataset contains several tables: choose one of {', '.join(map(repr, data))}")
    if isinstance(data, pd.Series):
        return from_series(data, dims)
    if isinstance(data, pd.DataFrame):
        return from_frame(data, dims)
    values = unmasked(data, "the table", CountError)
    if values.ndim == 0:
        raise CountError(f"a table must be an xarray, pandas or NumPy array, found {type(data).__name__}")
    dims = (dims,) if isinstance(dims, str) else dims
    given = tuple(dims) if dims is not None else tuple(f"dim_{k}" for k in range(values.ndim))
    if len(given) != values.ndim:
        raise LabelError(f"{len(given)} dimension names for an array with {values.ndim} dimensions")
    return xr.DataArray(values, dims=given)
