"""Tables of counts from CSV files: where public files are, rows as text, one row per cell."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from os import PathLike
from pathlib import Path

import numpy as np
import xarray as xr

from ppdinf.errors import CountError, LabelError
from ppdinf.tables.frame import LARGEST, Frame
from ppdinf.tables.table import along, as_table
from ppdinf.tables.totals import refuse_totals

VARIABLE = "PPDINF_DATA"


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


Row = tuple[int, dict[str, str]]
"""Line number in the file, and the fields by column."""

_WHOLE = re.compile(r"0|[1-9][0-9]*")


def read_csv_rows(path: Path) -> tuple[list[str], list[Row]]:
    """Read a CSV file as text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise LabelError(f"{path.name} is not UTF-8 text (byte {error.start}): save it as CSV UTF-8") from None
    first = text.partition("\n")[0]
    delimiter = "," if "," in first else next((character for character in "\t;|" if character in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    try:
        lines = [(reader.line_num, fields) for fields in reader]
    except csv.Error as error:
        raise LabelError(f"{path.name} line {reader.line_num} is not valid CSV: {error}") from None
    if len(lines) < 2:
        raise LabelError(f"{path.name} has no rows below its header")
    header = lines[0][1]
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise LabelError(f"{path.name} has more than one column {repeated[0]!r}")
    for line, fields in lines:
        if len(fields) != len(header):
            raise LabelError(f"{path.name} line {line} has {len(fields)} fields, but the header has {len(header)}")
    return header, [(line, dict(zip(header, fields, strict=True))) for line, fields in lines[1:]]


def require_labels(path: Path, rows: list[Row], names: Sequence[str]) -> None:
    """Refuse blank labels."""
    for line, row in rows:
        for name in names:
            if not row[name].strip():
                raise LabelError(f"{path.name} line {line}, column {name!r}: the label is blank")


def require_columns(path: Path, header: list[str], names: list[str] | tuple[str, ...]) -> None:
    """Require the columns `names` in a header."""
    for name in names:
        if name not in header:
            raise LabelError(f"{path.name} has no column {name!r}; it has {', '.join(header)}")


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


_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,15}")


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
        Columns of labels: one row for every combination, zeros included. Labels remain
        text, exactly as written.
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
    ppdinf.datasets.public_file, ppdinf.as_table, ppdinf.measurements.read_published_csv

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
    path = Path(path)
    header, rows = read_csv_rows(path)
    columns = [count, *dims, *coordinates]
    if len(set(columns)) < len(columns):
        raise LabelError(f"the column {max(columns, key=columns.count)!r} is named for more than one purpose")
    require_columns(path, header, columns)
    cells = _cells(path, rows, dims)
    coords = {dim: list(dict.fromkeys(row[dim] for _, row in rows)) for dim in dims}
    shape = [len(values) for values in coords.values()]
    frame = Frame(tuple(dims), tuple(shape), {d: ((d,), np.array(v, dtype=object)) for d, v in coords.items()})
    refuse_totals(frame, not_totals=not_totals)  # before absent rows, which rows of totals explain
    order = list(product(*coords.values()))
    for cell in order:
        if cell not in cells:
            raise LabelError(f"{path.name} has no row for {_show(dims, cell)}: write all cells out, also zeros")
    counts = [
        parse_count(f"{path.name} line {line}, column {count!r}", row[count])
        for line, row in (cells[cell] for cell in order)
    ]
    table = xr.DataArray(np.array(counts, dtype=np.int64).reshape(shape), dims=tuple(dims), coords=coords, name=count)
    described = {name: np.array([cells[cell][1][name] for cell in order], dtype=object) for name in coordinates}
    table = table.assign_coords({name: _coordinate(values.reshape(shape), dims) for name, values in described.items()})
    return as_table(table, labels=labels, not_totals=not_totals)


def _cells(path: Path, rows: list[Row], dims: Sequence[str]) -> dict[tuple[str, ...], Row]:
    require_labels(path, rows, dims)
    cells: dict[tuple[str, ...], Row] = {}
    for line, row in rows:
        cell = tuple(row[dim] for dim in dims)
        if cell in cells:
            raise LabelError(f"{path.name} line {line}: {_show(dims, cell)} is on line {cells[cell][0]} already")
        cells[cell] = (line, row)
    return cells


def _coordinate(values: np.ndarray, dims: Sequence[str]) -> tuple[tuple[Hashable, ...], np.ndarray]:
    """Drop the dimensions along which values are constant, and convert integers."""
    kept, values = along(values, dims)
    if all(_INTEGER.fullmatch(text) for text in values.ravel()):
        values = values.astype(np.int64)
    return kept, values


def _show(dims: Sequence[str], cell: tuple[str, ...]) -> str:
    return ", ".join(f"{dim}={label}" for dim, label in zip(dims, cell, strict=True))
