"""Labels of a table without counts, and numbers matched to its sums by label."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf._internal.values import Array
from ppdinf.errors import LabelError
from ppdinf.invariants.statement import CellNames, GroupNames, Names
from ppdinf.tables.frame import Frame, refuse_unwritable
from ppdinf.tables.table import from_series


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


def onto_rows(numbers: object, names: Sequence[str], frame: Frame, description: str, *, partial: bool = False) -> Array:
    """Reorder numbers to the rows of a statement."""
    labelled = _as_series(numbers, names, frame, description)
    if labelled is None:
        ordered = np.asarray(np.ma.filled(np.ma.asarray(numbers, dtype=object), np.nan), dtype=object)
        expected: list[tuple[int, ...]] = [(len(names),), *([()] if len(names) == 1 else [])]
        if isinstance(names, CellNames) and names.by:
            expected.append(tuple(frame.codes(by)[1].size for by in names.by))
        if ordered.shape not in expected or ordered.size != len(names):
            raise LabelError(
                f"{description} have the shape {ordered.shape}, but there are {len(names)} sums, such as {names[0]!r}"
            )
        return ordered.ravel()
    index, keys = _keys(labelled.index, names, frame, description)
    if index.has_duplicates:
        raise LabelError(f"{description} contain {_shown(index[index.duplicated()][0])} twice")
    unknown = np.flatnonzero(keys.get_indexer(index) < 0)
    if unknown.size:
        raise LabelError(
            f"{description} contain {_shown(index[unknown[0]])}, which names no sum; sums are such as {names[0]!r}"
        )
    place = index.get_indexer(keys)
    absent = np.flatnonzero(place < 0)
    if absent.size and not partial:
        raise LabelError(f"{description} lack {names[absent[0]]!r}: use nan for sums without a measured value")
    ordered = np.full(len(names), np.nan, dtype=object)
    ordered[place >= 0] = labelled.to_numpy(dtype=object)[place[place >= 0]]
    return ordered


def _as_series(numbers: object, names: Sequence[str], frame: Frame, description: str) -> pd.Series | None:
    """Return labelled numbers as a Series, or None if they have no labels."""
    if isinstance(numbers, Mapping):
        labels = (label for key in numbers for label in (key if isinstance(key, tuple) else (key,)))
        refuse_unwritable({label for label in labels if isinstance(label, str)}, f"{description} have the label")
        return pd.Series(numbers, dtype=object)
    if isinstance(numbers, pd.DataFrame):
        return numbers.stack(list(range(numbers.columns.nlevels)), future_stack=True)  # type: ignore[return-value]
    if isinstance(numbers, xr.DataArray) and numbers.ndim:
        # a dimension without labels has the labels of the table, in the order of the table
        by = names.by if isinstance(names, CellNames) else ()
        bare = [dim for dim in numbers.dims if dim not in numbers.indexes]
        if bare and not by and numbers.ndim == 1:
            if bare[0] in frame.coords and not (isinstance(names, GroupNames) and bare[0] == names.dim):
                raise LabelError(
                    f"{description} have the dimension {bare[0]!r}, which is not a dimension of the sums, such as "
                    f"{names[0]!r}"
                )
            return None
        if bare and set(numbers.dims) != set(by):
            raise LabelError(
                f"{description} have the dimensions {numbers.dims}, but the sums have {by}: use the same names"
            )
        coords: dict[Hashable, object] = {name: numbers.coords[name] for name in numbers.indexes}
        for dim in bare:
            known = frame.codes(str(dim))[1]
            if known.size != numbers.sizes[dim]:
                raise LabelError(
                    f"{description} have {numbers.sizes[dim]} entries along {dim!r}, which has {known.size} labels"
                )
            coords[dim] = known
        return numbers.drop_vars(numbers.coords).assign_coords(coords).to_series()
    return numbers if isinstance(numbers, pd.Series) else None


def _keys(index: pd.Index, names: Sequence[str], frame: Frame, description: str) -> tuple[pd.Index, pd.Index]:
    """Return comparable labels of the numbers and the rows: by coordinate if the rows have one, otherwise by name."""
    start = names.start if isinstance(names, Names) else ""  # composing all names takes time
    if index.nlevels == 1 and (not len(index) or str(index[0]).startswith(start)):
        known = pd.Index(list(names), dtype=object)
        if index.isin(known).all():
            return _plain(index), known
    if isinstance(names, CellNames) and names.by:
        columns = [frame.broadcast(by)[names.cells] for by in names.by]
        if isinstance(index, pd.MultiIndex) and set(index.names) == set(names.by):
            index = index.reorder_levels(list(names.by))
        elif set(index.names) - {None} and list(index.names) != list(names.by):
            raise LabelError(f"{description} are labelled by {list(index.names)}, but the sums by {list(names.by)}")
        if index.nlevels == len(names.by):
            keys = pd.Index(columns[0], dtype=object) if len(columns) == 1 else pd.MultiIndex.from_arrays(columns)
            return _plain(index), _plain(keys)
    if isinstance(names, GroupNames):
        return _plain(index), pd.Index(names.groups, dtype=object)
    return _plain(index), pd.Index(list(names), dtype=object)


def _plain(index: pd.Index) -> pd.Index:
    return pd.Index(index.to_flat_index(), dtype=object)


def _shown(label: object) -> str:
    return ", ".join(map(repr, label)) if isinstance(label, tuple) else repr(label)
