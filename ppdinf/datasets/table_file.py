"""Tables of counts from files with one row per cell, unchanged or refused, and where public files are."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import xarray as xr

from ppdinf._internal.values import Integers
from ppdinf.datasets.printed_file import PrintedFile, show_cell
from ppdinf.errors import CountError, LabelError
from ppdinf.tables.frame import LARGEST, Frame
from ppdinf.tables.table import along, as_table
from ppdinf.tables.totals import refuse_totals

VARIABLE = "PPDINF_DATA"
"""Name of the variable with the folder of public tables that are too large for the package."""

_WHOLE = re.compile(r"0|[1-9][0-9]*")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,15}")


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
    file = PrintedFile.read(path, strict=True)
    columns = [count, *dims, *coordinates]
    if len(set(columns)) < len(columns):
        raise LabelError(f"the column {max(columns, key=columns.count)!r} is named for more than one purpose")
    file.require(*columns)
    coords, order = grid(file, dims, not_totals)
    shape = list(map(len, coords.values()))
    table = xr.DataArray(counts_of(file, count)[order].reshape(shape), dims=tuple(dims), coords=coords, name=count)
    for name in coordinates:
        texts = file.table[name].to_numpy(object)[order].reshape(shape)
        table = table.assign_coords({name: _coordinate(texts, dims)})
    return as_table(table, labels=labels, not_totals=not_totals)


def grid(
    file: PrintedFile, dims: Sequence[str], not_totals: Sequence[str] = ()
) -> tuple[dict[str, list[str]], Integers]:
    """Return the labels of each dimension, and the row of each combination of labels, none of which is absent."""
    file.require(*dims)
    labels = file.labels(dims)
    place, shape = file.places(labels), tuple(map(len, labels.values()))
    frame = Frame(tuple(dims), shape, {d: ((d,), np.array(v, dtype=object)) for d, v in labels.items()})
    refuse_totals(frame, not_totals=not_totals)  # before absent rows, which rows of totals explain
    order = np.argsort(place)
    if place.size < np.prod(shape, dtype=float):
        absent = np.argmax(np.append(place[order], -1) != np.arange(place.size + 1))
        codes = np.unravel_index(absent, shape)
        cell = [known[code] for known, code in zip(labels.values(), codes, strict=True)]
        raise LabelError(f"{file.name} has no row for {show_cell(dims, cell)}: write all cells out, also zeros")
    return labels, order


def counts_of(file: PrintedFile, column: str) -> Integers:
    """Return the counts of a column, one for each row."""
    return file.parsed(column, parse_count)


def parse_count(text: str) -> int:
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
    raise CountError(f"the count {fault}")


def _coordinate(values: np.ndarray, dims: Sequence[str]) -> tuple[tuple[Hashable, ...], np.ndarray]:
    """Drop the dimensions along which values are constant, and convert integers."""
    kept, values = along(values, dims)
    if all(_INTEGER.fullmatch(text) for text in values.ravel()):
        values = values.astype(np.int64)
    return kept, values
