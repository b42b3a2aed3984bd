"""Conversion of Series and DataFrames of counts to labelled arrays, without changes.

This module does not cast, fill or reorder, and no message shows the value of a cell.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf._internal.types import Array
from ppdinf.errors import CountError, LabelError
from ppdinf.tables.labels import as_name, native

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


def _list_names(names: Sequence[object] | pd.Index, shown: int = 6) -> str:
    listed = ", ".join(repr(native(name)) for name in names[:shown])
    return listed if len(names) <= shown else f"{listed} and {len(names) - shown} more"


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
                raise LabelError(f"the index is named {old!r}, but dims says {new!r}: drop dims, or rename the index")
        levels = list(given)
    if len(set(levels)) < len(levels) or any(name is None for name in levels):
        raise LabelError(f"name the index levels (found {list(levels)}) or pass dims with {len(levels)} names")
    return [as_name(name, "index level") for name in levels]
