"""Labelled integer tables: one way in for xarray, pandas and NumPy, with every check in one place.

A table is an :class:`xarray.DataArray` of ``int64`` whose every dimension has labels. Tables come
in exactly as they are or not at all: nothing is cast, clipped, filled or reordered here, and no
message ever shows a cell's value, since the table may be confidential.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf.errors import CountError, LabelError

__all__ = ["Frame", "as_table"]

LARGEST = 2**53
"""Counts up to here survive every CSV, JSON and R reader unchanged."""


def as_table(data: Any, *, dims: Sequence[str] | None = None, nonnegative: bool = True) -> xr.DataArray:
    """Bring a table of counts into the form that ppdinf works on, or refuse it.

    Parameters
    ----------
    data : xarray.DataArray, pandas.Series, pandas.DataFrame or numpy.ndarray of integers
        A Series with a MultiIndex becomes one dimension per level and must hold every
        combination once. A DataFrame is a two-way table (rows by columns). Dimensions without
        labels are numbered from 0.
    dims : sequence of str, optional
        Names of the dimensions where `data` has none (NumPy arrays, unnamed pandas indexes).
    nonnegative : bool, default True
        Refuse negative cells. Released tables may hold them, confidential ones may not.

    Returns
    -------
    xarray.DataArray
        A copy, ``int64``, same order of dimensions and labels; attributes are not carried over.

    Raises
    ------
    CountError
        Cells that are not integers, are negative or exceed 2**53, or masked arrays.
    LabelError
        Unnamed dimensions; labels that repeat, are missing, or differ only in how Unicode
        spells them; combinations that are absent.

    Examples
    --------
    >>> import numpy as np
    >>> as_table(np.array([[3, 0], [1, 2]]), dims=("county", "sex")).dims
    ('county', 'sex')
    """
    table = _as_dataarray(data, dims)
    if table.ndim == 0 or 0 in table.shape:
        raise CountError(f"the table has shape {table.shape}: it needs at least one cell in each dimension")
    frame = Frame.of(table)
    _check_counts(table, frame, nonnegative)
    return xr.DataArray(np.array(table.values, dtype=np.int64), dims=frame.dims, coords=frame.coords, name=table.name)


@dataclass(frozen=True, eq=False)
class Frame:
    """Labels of a table without its counts: all that public statements are allowed to look at.

    Attributes
    ----------
    dims : tuple of str
        Names of the dimensions, in the order of the table.
    shape : tuple of int
        Number of labels along each.
    coords : dict
        ``name -> (dims, values)`` for the labels of each dimension and for further coordinates
        such as the state of a county.

    Examples
    --------
    >>> import numpy as np
    >>> frame = Frame.of(as_table(np.zeros((2, 2), dtype=int), dims=("county", "sex")))
    >>> frame.cell(3)
    'county=1, sex=1'
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coords: dict[str, tuple[tuple[str, ...], np.ndarray]]

    @classmethod
    def of(cls, table: xr.DataArray) -> Frame:
        """Read the frame off a DataArray, checking every label."""
        dims = tuple(_plain_name(dim, "dimension") for dim in table.dims)
        coords: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
        for dim, size in zip(dims, table.shape, strict=True):
            if dim not in table.coords:
                coords[dim] = ((dim,), np.arange(size))
                continue
            if isinstance(table.indexes[dim], pd.MultiIndex):
                raise LabelError(f"dimension {dim!r} has several levels: unstack it or reset_index({dim!r})")
            labels = _as_labels(table.coords[dim].values, dim)
            _check_distinct(labels, dim)
            coords[dim] = ((dim,), labels)
        for name, coordinate in table.coords.items():
            if name in dims or coordinate.ndim == 0:
                continue  # a scalar coordinate says where the table was cut from: not part of it
            label = _plain_name(name, "coordinate")
            coords[label] = (tuple(str(dim) for dim in coordinate.dims), _as_labels(coordinate.values, label))
        return cls(dims, tuple(table.shape), coords)

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(np.prod(self.shape))

    def broadcast(self, name: str) -> np.ndarray:
        """Coordinate `name` spread over every cell, flattened in the order of the table."""
        if name not in self.coords:
            known = ", ".join(repr(key) for key in self.coords)
            raise LabelError(f"the table has no dimension or coordinate {name!r}; it has {known}")
        dims, values = self.coords[name]
        order = [dim for dim in self.dims if dim in dims]
        values = values.transpose([dims.index(dim) for dim in order])
        spread = values.reshape([n if dim in dims else 1 for dim, n in zip(self.dims, self.shape, strict=True)])
        return np.broadcast_to(spread, self.shape).ravel()

    def cell(self, index: int) -> str:
        """Name of the cell at flat `index`, as error messages use it."""
        where = np.unravel_index(index, self.shape)
        return ", ".join(f"{dim}={self.coords[dim][1][i]}" for dim, i in zip(self.dims, where, strict=True))

    def check_same(self, other: Frame, what: str) -> None:
        """Refuse `other` unless its dimensions and labels are these, in this order.

        Raises
        ------
        LabelError
            Naming the first dimension or label that differs; xarray would align in silence.
        """
        if other.dims != self.dims:
            raise LabelError(f"{what} has dimensions {other.dims}, expected {self.dims}; transpose it first")
        for dim in self.dims:
            mine, theirs = self.coords[dim][1], other.coords[dim][1]
            if mine.shape != theirs.shape:
                raise LabelError(f"{what} has {theirs.size} labels along {dim!r}, expected {mine.size}")
            differ = np.flatnonzero(mine != theirs)
            if differ.size:
                i = differ[0]
                raise LabelError(
                    f"{what} has label {theirs[i]!r} at position {i} of {dim!r} where {mine[i]!r} is expected; "
                    f"reindex it to the same order"
                )

    def table(self, values: np.ndarray, name: str | None = None) -> xr.DataArray:
        """Dress an array of cells (any leading axis is called ``draw``) in these labels."""
        values = np.asarray(values)
        lead = () if values.size == self.size else ("draw",)
        shape = self.shape if not lead else (-1, *self.shape)
        return xr.DataArray(values.reshape(shape), dims=lead + self.dims, coords=self.coords, name=name)


def _as_dataarray(data: Any, dims: Sequence[str] | None) -> xr.DataArray:
    if isinstance(data, xr.DataArray):
        return data
    if isinstance(data, pd.Series):
        names = _dimension_names(list(data.index.names), dims)
        if data.index.has_duplicates:
            raise LabelError(f"the index holds {data.index[data.index.duplicated()][0]!r} more than once")
        array = data.rename_axis(names)
        if not isinstance(data.index, pd.MultiIndex):
            return array.to_xarray()
        # from_product over the levels as they first appear: to_xarray alone would sort them
        levels = [pd.unique(array.index.get_level_values(k)) for k in range(len(names))]
        full = pd.MultiIndex.from_product(levels, names=names)
        absent = [entry for entry in full if entry not in array.index]
        if len(absent):
            raise LabelError(
                f"{len(absent)} combinations of {', '.join(names)} are absent, the first is {absent[0]}: "
                "write their zeros out, or use one dimension with coordinates"
            )
        shape = [len(level) for level in levels]
        return xr.DataArray(
            array.reindex(full).to_numpy().reshape(shape),
            dims=names,
            coords=dict(zip(names, levels, strict=True)),
            name=data.name,
        )
    if isinstance(data, pd.DataFrame):
        kinds = {str(kind) for kind in data.dtypes}
        if len(kinds) > 1:
            raise CountError(f"the columns have different types ({', '.join(sorted(kinds))}): all must be integers")
        rows, columns = _dimension_names([data.index.name, data.columns.name], dims)
        return xr.DataArray(data.to_numpy(), dims=(rows, columns), coords={rows: data.index, columns: data.columns})
    if isinstance(data, np.ma.MaskedArray):
        raise CountError("the array is masked: fill or drop the masked cells first")
    values = np.asarray(data)
    given = dims if dims is not None else [f"dim_{k}" for k in range(values.ndim)]
    if len(given) != values.ndim:
        raise LabelError(f"{len(given)} dimension names for an array with {values.ndim} dimensions")
    return xr.DataArray(values, dims=tuple(given))


def _dimension_names(found: Sequence[Hashable], given: Sequence[str] | None) -> list[str]:
    names = list(given) if given is not None else list(found)
    if len(names) != len(found) or any(name is None for name in names):
        raise LabelError(f"name the index levels (found {list(found)}) or pass dims with {len(found)} names")
    return [str(name) for name in names]


def _plain_name(name: Hashable, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise LabelError(f"{what} names must be non-empty strings, found {name!r}")
    return name


def _as_labels(values: np.ndarray, name: str) -> np.ndarray:
    """Labels as an array of str or of int64: what every file format and R keep apart."""
    values = np.asarray(values)
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    labels = list(values.ravel())
    if all(isinstance(label, str) for label in labels):
        return np.array(labels, dtype=object).reshape(values.shape)
    bad = next(k for k, label in enumerate(labels) if not isinstance(label, str))
    raise LabelError(
        f"coordinate {name!r} must hold strings or integers; position {bad} holds {type(labels[bad]).__name__}: "
        "convert it (for dates: strings such as '2021-12')"
    )


def _check_distinct(labels: np.ndarray, dim: str) -> None:
    seen: dict[Any, Any] = {}
    for label in labels:
        key = " ".join(unicodedata.normalize("NFKC", label).split()) if isinstance(label, str) else label
        if key in seen:
            how = "twice" if seen[key] == label else f"beside its look-alike {seen[key]!a}"
            raise LabelError(f"dimension {dim!r} holds label {label!a} {how}: every label must be its own")
        seen[key] = label


def _check_counts(table: xr.DataArray, frame: Frame, nonnegative: bool) -> None:
    values = table.values
    if isinstance(table.data, np.ma.MaskedArray):
        raise CountError("the array is masked: fill or drop the masked cells first")
    if values.dtype.kind not in "iu":
        hint = "convert with .astype('int64') once you know why it is not an integer type"
        if values.dtype.kind == "f":
            broken = np.flatnonzero(~np.isfinite(values.ravel()) | (values.ravel() != np.floor(values.ravel())))
            if broken.size:
                hint = f"{broken.size} cells are missing or fractional, the first at {frame.cell(int(broken[0]))}"
        raise CountError(f"counts must have an integer type, found {values.dtype}: {hint}")
    flat = values.ravel()
    outside = np.flatnonzero((flat > LARGEST) | (flat < -LARGEST))
    if outside.size:
        raise CountError(f"the cell at {frame.cell(int(outside[0]))} exceeds 2**53")
    if nonnegative:
        negative = np.flatnonzero(flat < 0)
        if negative.size:
            raise CountError(
                f"{negative.size} cells are negative, the first at {frame.cell(int(negative[0]))}: "
                "a confidential table holds counts"
            )
