"""Labels and coordinates of a table whose counts are not published."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf._internal.types import Array
from ppdinf.errors import LabelError
from ppdinf.tables.frame import Frame
from ppdinf.tables.pandas_tables import from_series


def frame_of_labels(labels: object, coords: Mapping[str, object] | None = None) -> Frame:
    """Build the frame of a table from its labels and from coordinates of its cells."""
    if isinstance(labels, xr.DataArray):
        table = labels
    elif isinstance(labels, Mapping) and labels:
        coordinates: dict[Hashable, list[object]] = {dim: list(values) for dim, values in labels.items()}
        table = xr.DataArray(_blank(tuple(map(len, coordinates.values()))), dims=list(coordinates), coords=coordinates)
    else:
        raise LabelError("labels of the confidential table are required: a mapping of dimensions to labels, or a table")
    frame = Frame.of(table)
    if not coords:
        return frame
    table = frame.table(_blank((frame.size,)))
    for name, value in coords.items():
        table = _with_coordinate(table, name, value)
    return Frame.of(table)


def _blank(shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.int64(0), shape)


def _with_coordinate(table: xr.DataArray, name: str, value: object) -> xr.DataArray:
    """Add a coordinate, matched by label if it has labels."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], pd.Series):
        dim, series = value
        if set(series.index.names) != {None}:
            value = series
        elif dim in table.indexes and _permuted(series.index, table.indexes[dim]):
            raise LabelError(
                f"the coordinate {name!r} has the labels of {dim!r} in another order, in an index without a name: name "
                f"the index {dim!r}, or pass an array in the order of the labels"
            )
        else:
            value = (dim, series.to_numpy())
    if isinstance(value, pd.Series):
        value = from_series(value, None)
    if isinstance(value, xr.DataArray):
        value = _with_labels_of_dimensions(value, name, table)
    try:
        return table.assign_coords({name: value})
    except (ValueError, TypeError) as error:  # wrong number of values, or unsupported type of coordinate
        raise LabelError(f"the coordinate {name!r} does not fit the table {dict(table.sizes)}: {error}") from None


def _with_labels_of_dimensions(value: xr.DataArray, name: str, table: xr.DataArray) -> xr.DataArray:
    """Check the dimensions and labels of a coordinate, and drop the coordinates of the coordinate."""
    for dim in value.dims:
        if dim not in table.dims:
            raise LabelError(f"the coordinate {name!r} has the dimension {dim!r}, but the table has {table.dims}")
        if dim not in value.indexes:
            continue
        known, labels = table.indexes[dim], value.indexes[dim]
        absent = known[~known.isin(labels)].tolist()
        if absent or labels.has_duplicates:
            fault = f"lacks the label {absent[0]!r}" if absent else "repeats a label"
            raise LabelError(f"the coordinate {name!r} {fault} of {dim!r}: every label must occur exactly once")
    return value.drop_vars(value.coords).assign_coords(
        {dim: value.coords[dim] for dim in value.dims if dim in value.indexes}
    )


def _permuted(index: pd.Index, labels: pd.Index) -> bool:
    return not index.equals(labels) and len(index) == len(labels) and bool(labels.isin(index).all())
