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

__all__ = ["frame_of_labels"]


def frame_of_labels(labels: object, coords: Mapping[str, object] | None = None) -> Frame:
    """Build the frame of a table from its labels and from coordinates of its cells.

    Parameters
    ----------
    labels : mapping of dimension to sequence of labels, or xarray.DataArray
        The dimensions are in the order of the mapping. The cells of a DataArray are ignored.
    coords : mapping of name to coordinate, optional
        A DataArray or Series, matched by label in any order; ``(dims, values)``, in the order of the labels; or a value
        that all cells have.

    Returns
    -------
    Frame

    Raises
    ------
    LabelError
        No labels; a coordinate that does not fit them.

    Examples
    --------
    >>> population = pd.Series({"B": 70, "A": 50}).rename_axis("county")
    >>> frame_of_labels({"county": ["A", "B"]}, {"persons": population}).coords["persons"]
    (('county',), array([50, 70]))
    """
    if isinstance(labels, xr.DataArray):
        table = labels
    elif isinstance(labels, Mapping) and labels:
        own: dict[Hashable, list[object]] = {dim: list(values) for dim, values in labels.items()}
        table = xr.DataArray(_blank(tuple(map(len, own.values()))), dims=list(own), coords=own)
    else:
        raise LabelError("give the labels of the confidential table: a mapping of dimensions to labels, or a table")
    frame = Frame.of(table)
    if not coords:
        return frame
    table = frame.table(_blank((frame.size,)))
    for name, given in coords.items():
        table = _with_coordinate(table, name, given)
    return Frame.of(table)


def _blank(shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.int64(0), shape)


def _with_coordinate(table: xr.DataArray, name: str, given: object) -> xr.DataArray:
    """Add a coordinate, matched by label where it has labels."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], pd.Series):
        dim, series = given
        if set(series.index.names) != {None}:
            given = series
        elif dim in table.indexes and _permuted(series.index, table.indexes[dim]):
            raise LabelError(
                f"the coordinate {name!r} has the labels of {dim!r} in another order, in an index without a name: name "
                f"the index {dim!r}, or give an array in the order of the labels"
            )
        else:
            given = (dim, series.to_numpy())
    if isinstance(given, pd.Series):
        given = from_series(given, None)
    if isinstance(given, xr.DataArray):
        given = _with_labels_of_dimensions(given, name, table)
    try:
        return table.assign_coords({name: given})
    except (ValueError, TypeError) as error:  # another number of values, or another form of coordinate
        raise LabelError(f"the coordinate {name!r} does not fit the table {dict(table.sizes)}: {error}") from None


def _with_labels_of_dimensions(given: xr.DataArray, name: str, table: xr.DataArray) -> xr.DataArray:
    """Check the dimensions and labels of a coordinate, and drop the coordinates of the coordinate itself."""
    for dim in given.dims:
        if dim not in table.dims:
            raise LabelError(f"the coordinate {name!r} has the dimension {dim!r}, the table has {table.dims}")
        if dim not in given.indexes:
            continue
        known, found = table.indexes[dim], given.indexes[dim]
        absent = known[~known.isin(found)].tolist()
        if absent or found.has_duplicates:
            fault = f"lacks the label {absent[0]!r}" if absent else "repeats a label"
            raise LabelError(f"the coordinate {name!r} {fault} of {dim!r}: give each label once")
    return given.drop_vars(given.coords).assign_coords(
        {dim: given.coords[dim] for dim in given.dims if dim in given.indexes}
    )


def _permuted(index: pd.Index, labels: pd.Index) -> bool:
    return not index.equals(labels) and len(index) == len(labels) and bool(labels.isin(index).all())
