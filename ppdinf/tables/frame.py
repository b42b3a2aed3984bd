"""Labels of a table without its counts, the only input of public statements."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.types import Array
from ppdinf.errors import LabelError
from ppdinf.tables.labels import as_labels, as_name, native, refuse_look_alikes

Coordinate = tuple[tuple[str, ...], Array]


@dataclass(frozen=True, eq=False)
class Frame:
    """Dimensions, labels and coordinates of a table."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coords: dict[str, Coordinate]

    @classmethod
    def of(cls, table: xr.DataArray) -> Frame:
        """Return the frame of a DataArray, after checks of all names and labels."""
        dims = tuple(as_name(dim, "dimension") for dim in table.dims)
        if len(set(dims)) < len(dims):
            raise LabelError(f"the table has dimensions {dims}: every dimension needs a unique name")
        coords: dict[str, Coordinate] = {}
        for dim, size in zip(dims, table.shape, strict=True):
            if isinstance(table.indexes.get(dim), pd.MultiIndex):
                raise LabelError(f"dimension {dim!r} has several levels: unstack it or reset_index({dim!r})")
            values = table.coords[dim].values if dim in table.coords else np.arange(size)
            coords[dim] = ((dim,), as_labels(values, dim, "dimension"))
        for name, coordinate in table.coords.items():
            if name not in coords and coordinate.ndim:
                kept = tuple(dim for dim in dims if dim in coordinate.dims)
                values = coordinate.transpose(*kept).values
                coords[as_name(name, "coordinate")] = (kept, as_labels(values, str(name), "coordinate"))
        refuse_look_alikes(list(coords), "the names of dimensions and coordinates contain")
        return cls(dims, tuple(table.shape), coords)

    @property
    def digest(self) -> str:
        """SHA-256 of all names, labels and coordinates, and of their order; 1 and "1" differ."""
        found = hashlib.sha256()
        for name, (dims, values) in self.coords.items():
            found.update(repr((name, dims, values.ravel().tolist())).encode())
        return found.hexdigest()

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def coordinate(self, name: str) -> Coordinate:
        """Return the dimensions and values of a coordinate, or of the labels of a dimension."""
        if name not in self.coords:
            known = ", ".join(repr(key) for key in self.coords)
            raise LabelError(f"the table has no dimension or coordinate {name!r}; it has {known}")
        return self.coords[name]

    def broadcast(self, name: str) -> Array:
        """Return coordinate `name` repeated for every cell, shape (d,), in the order of the table."""
        dims, values = self.coordinate(name)
        return self._spread(dims, values)

    def codes(self, name: str) -> tuple[NDArray[np.int64], Array]:
        """Return the number of each cell's label in a coordinate, in order of appearance."""
        dims, values = self.coordinate(name)
        if values.dtype.kind == "f":
            raise LabelError(f"the coordinate {name!r} contains decimals: groups of cells need strings or integers")
        if name in self.dims:  # labels of a dimension are distinct
            return self._spread(dims, np.arange(values.size)), values
        codes, labels = pd.factorize(values.ravel())
        return self._spread(dims, codes.reshape(values.shape).astype(np.int64)), labels

    def select(self, name: str, labels: Iterable[str | int]) -> NDArray[np.bool_]:
        """Return a mask of the cells whose label in coordinate `name` is in `labels`, shape (d,)."""
        codes, known = self.codes(name)
        wanted = list(labels)
        positions = pd.Index(known, dtype=object).get_indexer(pd.Index(wanted, dtype=object))
        if np.any(positions < 0):
            absent = wanted[int(np.argmin(positions))]
            example = known[:1].tolist()[0]
            kind = "strings" if isinstance(example, str) else "integers"
            raise LabelError(f"{name!r} has no label {absent!r}; its labels are {kind} such as {example!r}")
        chosen = np.zeros(known.size, dtype=bool)
        chosen[positions] = True
        return chosen[codes]

    def label(self, name: str, cell: int) -> str | int:
        """Return the label of one cell in coordinate `name`."""
        dims, values = self.coordinate(name)
        where = dict(zip(self.dims, np.unravel_index(cell, self.shape), strict=True))
        label: str | int = native(values[tuple(where[dim] for dim in dims)])
        return label

    def cell(self, index: int) -> str:
        """Return the name of the cell at flat `index` for error messages."""
        return ", ".join(f"{dim}={self.label(dim, index)}" for dim in self.dims)

    def check_dims(self, other: Frame, what: str) -> None:
        """Refuse `other` unless its dimensions are the same, in the same order."""
        if other.dims == self.dims:
            return
        absent, further = (
            " and ".join(repr(dim) for dim in one.dims if dim not in two.dims)
            for one, two in ((self, other), (other, self))
        )
        differences = [f"it lacks {absent}"] if absent else []
        differences += [f"{further} is not expected"] if further else []
        advice = "; ".join(differences) or "transpose it first"
        raise LabelError(f"{what} has dimensions {other.dims}, expected {self.dims}: {advice}")

    def check_same(self, other: Frame, what: str) -> None:
        """Refuse `other` unless its dimensions and labels are the same, in the same order."""
        self.check_dims(other, what)
        if other.shape != self.shape:
            raise LabelError(f"{what} has {other.shape} labels along {self.dims}, expected {self.shape}")
        for name in (name for name in self.coords if name in other.coords):
            (dims, mine), (theirs_dims, theirs) = self.coords[name], other.coords[name]
            if dims != theirs_dims:
                raise LabelError(f"{what} has {name!r} along {theirs_dims}, expected along {dims}")
            differ = np.argwhere(mine != theirs)
            if differ.size:
                position = tuple(differ[0].tolist())
                raise LabelError(
                    f"{what} has {native(theirs[position])!r} at position {', '.join(map(str, position))} of {name!r} "
                    f"where {native(mine[position])!r} is expected; reindex it to the same order"
                )

    def table(self, values: Array, name: str | None = None) -> xr.DataArray:
        """Return cells of shape (d,), or draws of shape (draws, d), as a table with these labels."""
        lead = ("draw",) * (values.ndim - 1)
        cells = values.reshape(*values.shape[:-1], *self.shape)
        labels = {dim: self.coords[dim] for dim in self.dims}
        table = xr.DataArray(cells, dims=lead + self.dims, coords=labels, name=name)
        # xarray would copy each text of the other coordinates, which takes seconds for a million cells
        others = {key: (dims, values.copy()) for key, (dims, values) in self.coords.items() if key not in labels}
        return table.assign_coords(others) if others else table

    def _spread(self, dims: tuple[str, ...], values: Array) -> Array:
        inner = values.reshape([n if dim in dims else 1 for dim, n in zip(self.dims, self.shape, strict=True)])
        return np.broadcast_to(inner, self.shape).ravel()
