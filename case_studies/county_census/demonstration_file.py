"""Demonstration files of census privacy: published and protected values of a count."""

from __future__ import annotations

import re
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
import xarray as xr

from ppdinf.datasets.printed_file import PrintedFile
from ppdinf.errors import LabelError

from .._shared.count_texts import count_at

GISJOIN = re.compile(r"G(\d\d)0(\d\d\d)0")  # state and county, each followed by a 0 for codes of later censuses
DESCRIPTION = "GIS Join Match Code"  # in the second header row, which NHGIS adds on request


def read_demonstration(path: str | PathLike[str], count: str) -> xr.Dataset:
    r"""Read a county file of the privacy-protected 2010 census demonstration data of IPUMS NHGIS, in wide format.

    Parameters
    ----------
    path : str or path
        CSV (UTF-8) with the columns ``gisjoin``, ``state``, and ``name`` or ``county`` (in any case and order), and two
        columns for every count, with the suffixes ``_sf`` (Summary File) and ``_dp`` (protected). Rows are in any
        order; a second header row with descriptions is skipped.
    count : str
        Name of a count without its suffix, as in the codebook: ``"H7V001"`` for the total population in some
        vintages.

    Returns
    -------
    xarray.Dataset
        ``summary`` and ``protected``, int64, dimension ``county`` with FIPS codes of five digits as labels, sorted;
        coordinates ``name`` and ``state``, as in the file.

    Raises
    ------
    LabelError
        Missing columns (the message lists the counts of the file); a code that is not that of a county; a county on two
        lines.
    CountError
        Counts that are not integers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "county.csv")
    ...     _ = file.write_text("gisjoin,name,state,H7V001_dp,H7V001_sf\nG0100010,Autauga County,1,54566,54571\n")
    ...     table = read_demonstration(file, "H7V001")
    >>> (table.protected - table.summary).sel(county="01001").item()
    -5
    """
    path = Path(path)
    file = PrintedFile.read(path, strict=True)
    lower = [column.lower() for column in file.header]
    if len(set(lower)) < len(lower):
        raise LabelError(f"{path.name} has columns that differ only in capital letters")
    names = "county" if "county" in lower else "name"
    replace(file, table=file.table.rename(columns=str.lower)).require("gisjoin", "state", names)
    endings = [f"{count}{ending}".lower() for ending in ("_sf", "_dp")]
    if not set(endings) <= set(lower):
        known = sorted({column[:-3] for column in file.header if column.lower().endswith(("_sf", "_dp"))})
        raise LabelError(
            f"{path.name} must have both {count}_sf and {count}_dp; its counts are {', '.join(known) or 'none'}"
        )
    column = dict(zip(lower, file.header, strict=True))
    counties: dict[str, tuple[int | str, ...]] = {}
    rows = file.rows
    for line, row in rows[rows[0][1][column["gisjoin"]] == DESCRIPTION :]:
        code = row[column["gisjoin"]]
        if not (found := GISJOIN.fullmatch(code)):
            raise LabelError(
                f"{path.name} line {line}: {code!r} is not the code of a county, such as G0100010: use the county file"
            )
        fips = "".join(found.groups())
        if fips in counties:
            raise LabelError(f"{path.name} line {line}: county {code!r} is in the file already")
        counts = [count_at(f"{path.name} line {line}, column {end!r}", row[column[end]]) for end in endings]
        counties[fips] = *counts, row[column[names]], row[column["state"]]
    summary, protected, name, state = zip(*counties.values(), strict=True)
    return xr.Dataset(
        {"summary": ("county", np.array(summary)), "protected": ("county", np.array(protected))},
        coords={"county": list(counties), "name": ("county", list(name)), "state": ("county", list(state))},
    ).sortby("county")
