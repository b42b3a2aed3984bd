"""Validated labels of a table, and the labels of all dimensions without counts, the only input of public statements."""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf._internal.values import Array, Flags, Integers
from ppdinf.errors import LabelError

LARGEST = 2**53
"""Largest integer that every CSV, JSON and R reader keeps unchanged."""

RESERVED = {"draw", "chain", "released"}
"""Names reserved for dimensions of draws and for the column of counts in a release file."""


def as_name(name: Hashable, what: str) -> str:
    """Validate the name of a dimension or coordinate."""
    if not isinstance(name, str) or not name:
        raise LabelError(f"{what} names must be non-empty strings, found {name!r}")
    if name in RESERVED:
        raise LabelError(f"{what} {name!r} has a reserved name, which draws and releases use: rename it")
    refuse_unwritable([name], f"the {what} is called")
    return str(name)


def native(label: Any) -> Any:
    """Convert a NumPy scalar to a Python string or number."""
    return label.item() if isinstance(label, np.generic) else label


def as_labels(values: Array, name: str, what: str) -> Array:
    """Return labels as str, int64 or, for coordinates that are not dimensions, float64; refuse other types."""
    where = f"{what} {name!r} contains"
    values = values.astype(object) if values.dtype.kind in "UT" else values.copy()
    kinds = set(map(type, values.ravel())) if values.dtype == object else {values.dtype.type}
    if all(issubclass(kind, str) for kind in kinds):
        if kinds != {str}:
            values.flat = [str(label) for label in values.flat]  # NumPy strings
        texts: Collection[str] = values.ravel().tolist()
        distinct = len(set(texts))
        texts = texts if distinct == len(texts) else set(texts)
        refuse_unwritable(texts, where)
        refuse_look_alikes(texts, where)
    elif all(map(_is_whole, kinds)):
        if values.max() > LARGEST or values.min() < -LARGEST:
            raise LabelError(f"{where} a number above 2**53, which R and JSON round: write its labels as strings")
        values = values.astype(np.int64)
        distinct = pd.unique(values.ravel()).size
    elif values.dtype.kind == "f" and values.dtype.itemsize <= 8 and what != "dimension":
        not_finite = np.flatnonzero(~np.isfinite(values.ravel()))
        if not_finite.size:
            raise LabelError(
                f"{where} a missing or infinite number at position {not_finite[0]}: fill it or drop the row"
            )
        return values.astype(np.float64)
    else:
        raise LabelError(f"{where} {_foreign(values)}: {_ALLOWED[what]}")
    if what == "dimension" and distinct < values.size:
        twice = native(values[np.argmax(pd.Series(values).duplicated())])
        raise LabelError(f"{where} label {twice!r} twice: labels must be unique")
    return values


def _is_whole(kind: type) -> bool:
    return issubclass(kind, int | np.integer) and not issubclass(kind, bool | np.timedelta64)


_ALLOWED = {
    "dimension": "convert its labels to strings (dates: '2021-12'), or all of them to integers",
    "coordinate": "convert it to strings (dates: '2021-12'), integers or float64",
}


def _foreign(values: Array) -> str:
    """Name the values that are neither strings nor integers."""
    if values.dtype != object:
        return f"values of type {values.dtype}"
    known = [isinstance(label, str) or _is_whole(type(label)) for label in values.ravel()]
    if all(known):
        return "both strings and integers"
    k = known.index(False)
    return f"{type(values.ravel()[k]).__name__} at position {k}"


def refuse_unwritable(texts: Collection[str], where: str) -> None:
    """Refuse text that UTF-8 files cannot hold, and the null character, which ends text in R and C."""
    try:
        if b"\0" not in "".join(texts).encode():
            return
    except UnicodeEncodeError:
        pass
    bad = next(text for text in sorted(texts) if "\0" in text or any(0xD800 <= ord(c) < 0xE000 for c in text))
    raise LabelError(f"{where} {bad!a}, which text files cannot contain: remove the null or surrogate character")


def refuse_look_alikes(texts: Collection[str], where: str) -> None:
    """Refuse distinct strings that look the same."""
    joined = f"|{'|'.join(texts)}|"
    odd_blanks = any(pair in joined for pair in ("| ", "  ", " |"))
    if joined.isascii() and joined.isprintable() and not odd_blanks:
        return  # ASCII text with single blanks is unambiguous
    first_texts: dict[str, str] = {}
    for text in sorted(texts):
        # the visible form: compatible forms unified, no invisible characters, single blanks
        plain = unicodedata.normalize("NFKC", text)
        shown = (c for c in plain if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf"))
        twin = first_texts.setdefault(" ".join("".join(shown).split()), text)
        if twin is not text:
            raise LabelError(f"{where} both {text!a} and {twin!a}, which look alike: make them equal or distinct")


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

    def codes(self, name: str) -> tuple[Integers, Array]:
        """Return the number of each cell's label in a coordinate, in order of appearance."""
        dims, values = self.coordinate(name)
        if values.dtype.kind == "f":
            raise LabelError(f"the coordinate {name!r} contains decimals: groups of cells need strings or integers")
        if name in self.dims:  # labels of a dimension are distinct
            return self._spread(dims, np.arange(values.size)), values
        codes, labels = pd.factorize(values.ravel())
        return self._spread(dims, codes.reshape(values.shape).astype(np.int64)), labels

    def select(self, name: str, labels: Iterable[str | int]) -> Flags:
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
        return native(values[tuple(where[dim] for dim in dims)])

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


class Framed:
    """What has the labels of a table."""

    frame: Frame

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dimensions, for ``dims=`` in a PyMC model."""
        return self.frame.dims

    @property
    def coords(self) -> dict[str, Array]:
        """Labels of each dimension, for ``pm.Model(coords=...)``."""
        return {dim: self.frame.coords[dim][1] for dim in self.dims}

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of labels along each dimension."""
        return self.frame.shape
