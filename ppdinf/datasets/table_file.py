"""Tables of counts from CSV files: where public files are, rows as text, one row per cell."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from os import PathLike
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ppdinf.datasets.printed_lines import delimiter_of, table_lines
from ppdinf.errors import CountError, LabelError
from ppdinf.tables.frame import LARGEST, Frame
from ppdinf.tables.table import along, as_table
from ppdinf.tables.totals import refuse_totals

VARIABLE = "PPDINF_DATA"
"""Name of the variable with the folder of public tables that are too large for the package."""

_WHOLE = re.compile(r"0|[1-9][0-9]*")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,15}")

type Row = tuple[int, dict[str, str]]
"""Line number in the file, and the fields by column."""

type Cells = dict[tuple[str, ...], Row]
"""The row of each cell, by its labels."""


@dataclass(frozen=True)
class TextFile:
    """Rows of a CSV file as text: all readers of tables start from it. Messages contain its `name`."""

    name: str
    header: list[str]
    rows: list[Row]

    @classmethod
    def read(cls, path: Path, notes: list[str] | None = None) -> TextFile:
        """Read a CSV file in UTF-8; with notes, a published file as it is, with the lines that are left out."""
        data = path.read_bytes()
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            if notes is None or b"\0" in data:
                raise LabelError(f"{path.name} is not UTF-8 text (byte {error.start}): save it as CSV UTF-8") from None
            text = data.decode("latin-1")
            notes.append("The file is not UTF-8 and was read as Latin-1 (Western European).")
        reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter_of(text))
        try:
            lines = [(reader.line_num, fields) for fields in reader]
        except csv.Error as error:
            raise LabelError(f"{path.name} line {reader.line_num} is not valid CSV: {error}") from None
        if notes is not None:
            lines = table_lines(lines, notes)
        if len(lines) < 2:
            raise LabelError(f"{path.name} has no rows below its header")
        header = lines[0][1] if notes is None else [name.strip() or "row" for name in lines[0][1]]
        repeated = sorted({name for name in header if header.count(name) > 1})
        if repeated:
            raise LabelError(f"{path.name} has more than one column {repeated[0]!r}")
        for line, fields in lines:
            if len(fields) != len(header):
                raise LabelError(f"{path.name} line {line} has {len(fields)} fields, but the header has {len(header)}")
        return cls(path.name, header, [(line, dict(zip(header, fields, strict=True))) for line, fields in lines[1:]])

    def require(self, *columns: str) -> None:
        """Refuse a file that lacks one of some columns."""
        for name in columns:
            if name not in self.header:
                raise LabelError(f"{self.name} has no column {name!r}; it has {', '.join(self.header)}")

    def cells(self, dims: Sequence[str], hint: str = "") -> Cells:
        """Return the row of each cell in the order of the file; blank and repeated labels are refused."""
        self.require(*dims)
        cells: Cells = {}
        for line, row in self.rows:
            cell = tuple(row[dim] for dim in dims)
            for dim, label in zip(dims, cell, strict=True):
                if not label.strip():
                    raise LabelError(f"{self.name} line {line}, column {dim!r}: the label is blank")
            if cell in cells:
                shown = f"{show_cell(dims, cell)} is on line {cells[cell][0]} already"
                raise LabelError(f"{self.name} line {line}: {shown}{hint}")
            cells[cell] = (line, row)
        return cells

    def labels(self, dims: Sequence[str]) -> dict[str, list[str]]:
        """Return the labels of each dimension in order of first appearance."""
        return {dim: list(dict.fromkeys(row[dim] for _, row in self.rows)) for dim in dims}

    def grid(self, dims: Sequence[str], not_totals: Sequence[str] = ()) -> tuple[dict[str, list[str]], list[Row]]:
        """Return the labels of each dimension, and the rows of all combinations of labels, none of which is absent."""
        cells, labels = self.cells(dims), self.labels(dims)
        shape = tuple(len(values) for values in labels.values())
        frame = Frame(tuple(dims), shape, {d: ((d,), np.array(v, dtype=object)) for d, v in labels.items()})
        refuse_totals(frame, not_totals=not_totals)  # before absent rows, which rows of totals explain
        order = list(product(*labels.values()))
        for cell in order:
            if cell not in cells:
                raise LabelError(f"{self.name} has no row for {show_cell(dims, cell)}: write all cells out, also zeros")
        return labels, [cells[cell] for cell in order]

    def counts(self, column: str, rows: list[Row]) -> NDArray[np.int64]:
        """Return the counts of a column in the order of some rows."""
        places = [f"{self.name} line {line}, column {column!r}" for line, _ in rows]
        counts = [parse_count(place, row[column]) for place, (_, row) in zip(places, rows, strict=True)]
        return np.array(counts, dtype=np.int64)

    def determined(self, name: str, dim: str) -> dict[str, str] | None:
        """Return the value of a column for each label of a dimension, or None if a label has several values."""
        values: dict[str, str] = {}
        single = all(values.setdefault(row[dim], row[name]) == row[name] for _, row in self.rows)
        return values if single else None


def parse_count(where: str, text: str) -> int:
    """Read a count; the error of an invalid count does not show it."""
    if _WHOLE.fullmatch(text):
        if len(text) <= 16 and int(text) <= LARGEST:
            return int(text)
        fault = "exceeds 2**53"
    elif not text.strip():
        fault = "is blank; write 0 for cells without records"
    elif re.fullmatch(r"-[0-9]+(\.[0-9]*)?", text):
        fault = "is negative; counts must be non-negative"
    elif re.fullmatch(r"[0-9]*\.[0-9]*", text):
        fault = "has a decimal point; counts must be integers"
    else:
        fault = "is not an integer written in digits only"
    raise CountError(f"{where}: the count {fault}")


def public_folder() -> Path | None:
    """Return the folder that PPDINF_DATA names, or None if it is unset or empty."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise FileNotFoundError(f"{VARIABLE} names {name!r}, not a folder: correct the path, or unset {VARIABLE}")
    return folder


def public_file(name: str) -> Path | None:
    """Return the path of a file in the folder that PPDINF_DATA names, or None if the variable is unset.

    Parameters
    ----------
    name : str

    Raises
    ------
    FileNotFoundError
        The folder, or the file in it, does not exist.

    See Also
    --------
    ppdinf.datasets.read_table

    Examples
    --------
    >>> from ppdinf.datasets import public_file
    >>> file = public_file("county_population_2010.csv")
    >>> file is None or file.exists()
    True
    """
    folder = public_folder()
    if folder is None:
        return None
    if not (folder / name).is_file():
        raise FileNotFoundError(f"the folder {VARIABLE}={folder} has no file {name!r}: add it, or unset {VARIABLE}")
    return folder / name


def read_table(
    path: str | PathLike[str],
    *,
    count: str,
    dims: Sequence[str],
    coordinates: Sequence[str] = (),
    labels: Mapping[str, Sequence[str]] | None = None,
    not_totals: Sequence[str] = (),
) -> xr.DataArray:
    r"""Read a table of counts from a CSV file with one row per cell.

    Parameters
    ----------
    path : str or path
        CSV (UTF-8). Columns that are not named here are not read.
    count : str
        Column of the counts.
    dims : sequence of str
        Columns of labels: one row for every combination, zeros included. Labels remain text, exactly as written.
    coordinates : sequence of str
        Columns that describe cells: populations, groups. Columns of integers become integers, all others
        remain text. A column that a single dimension determines becomes a coordinate of that dimension.
    labels : mapping of column to sequence of str, optional
        All labels of a dimension, in the required order; labels that the file lacks have the count 0. All
        combinations of labels in the file must have rows.
    not_totals : sequence of str
        Labels that are not totals, as for `ppdinf.as_table`.

    Returns
    -------
    xarray.DataArray of int64
        Labels in order of first appearance, or in the declared order.

    Raises
    ------
    LabelError
        Columns that are missing or named for two roles; repeated or absent cells; blank labels; rows of
        totals; undeclared labels.
    CountError
        Counts that are blank, negative, fractional or not numbers.

    See Also
    --------
    ppdinf.datasets.public_file, ppdinf.as_table, ppdinf.read_published

    Examples
    --------
    >>> from ppdinf.datasets import read_table
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "table.csv")
    ...     _ = file.write_text("county,sex,n,persons\nA,f,3,50\nA,m,1,50\nB,f,0,70\nB,m,2,70\n")
    ...     table = read_table(file, count="n", dims=["county", "sex"], coordinates=["persons"])
    >>> table.sum("sex").values, table.persons.dims
    (array([4, 2]), ('county',))
    """
    file = TextFile.read(Path(path))
    columns = [count, *dims, *coordinates]
    if len(set(columns)) < len(columns):
        raise LabelError(f"the column {max(columns, key=columns.count)!r} is named for more than one purpose")
    file.require(*columns)
    coords, rows = file.grid(dims, not_totals)
    shape = list(map(len, coords.values()))
    counts = file.counts(count, rows).reshape(shape)
    described = {name: np.array([row[name] for _, row in rows], dtype=object).reshape(shape) for name in coordinates}
    table = xr.DataArray(counts, dims=tuple(dims), coords=coords, name=count)
    table = table.assign_coords({name: _coordinate(values, dims) for name, values in described.items()})
    return as_table(table, labels=labels, not_totals=not_totals)


def _coordinate(values: np.ndarray, dims: Sequence[str]) -> tuple[tuple[Hashable, ...], np.ndarray]:
    """Drop the dimensions along which values are constant, and convert integers."""
    kept, values = along(values, dims)
    if all(_INTEGER.fullmatch(text) for text in values.ravel()):
        values = values.astype(np.int64)
    return kept, values


def show_cell(dims: Sequence[str], cell: tuple[str, ...]) -> str:
    """Name a cell by its labels."""
    return ", ".join(f"{dim}={label}" for dim, label in zip(dims, cell, strict=True)) or "the total"
