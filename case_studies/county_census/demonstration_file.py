"""Demonstration files of census privacy: published and protected values of a count."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np
import xarray as xr

from ppdinf.datasets.csv_rows import parse_count, read_csv_rows, require_columns
from ppdinf.errors import LabelError

__all__ = ["read_demonstration"]


def read_demonstration(path: str | PathLike[str], count: str) -> xr.Dataset:
    r"""Read a county file of the privacy-protected 2010 census demonstration data of IPUMS NHGIS, in wide format.

    Parameters
    ----------
    path : str or path
        CSV (UTF-8) with the columns ``gisjoin``, ``state`` and ``county`` (in any case), and two columns for every
        count, with the suffixes ``_sf`` (Summary File) and ``_dp`` (protected).
    count : str
        Name of a count without its suffix, as in the codebook: ``"H7V001"`` for the total population in some
        vintages.

    Returns
    -------
    xarray.Dataset
        ``summary`` and ``protected``, int64, dimension ``county`` with the codes of the file as labels; coordinates
        ``name`` and ``state``.

    Raises
    ------
    LabelError
        Missing columns (the message lists the counts of the file); a county on two lines.
    CountError
        Counts that are not integers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "county.csv")
    ...     _ = file.write_text("gisjoin,state,county,H7V001_sf,H7V001_dp\nG0100010,Alabama,Autauga,54571,54566\n")
    ...     table = read_demonstration(file, "H7V001")
    >>> (table.protected - table.summary).item()
    -5
    """
    path = Path(path)
    header, rows = read_csv_rows(path)
    lower = [column.lower() for column in header]
    if len(set(lower)) < len(lower):
        raise LabelError(f"{path.name} has columns that differ only in capital letters")
    require_columns(path, lower, ["gisjoin", "state", "county"])
    endings = [f"{count}{ending}".lower() for ending in ("_sf", "_dp")]
    if not set(endings) <= set(lower):
        known = sorted({column[:-3] for column in header if column.lower().endswith(("_sf", "_dp"))})
        raise LabelError(
            f"{path.name} must have both {count}_sf and {count}_dp; its counts are {', '.join(known) or 'none'}"
        )
    column = dict(zip(lower, header, strict=True))
    counts: dict[str, tuple[int, ...]] = {}
    for line, row in rows:
        code = row[column["gisjoin"]]
        if code in counts:
            raise LabelError(f"{path.name} line {line}: county {code!r} is in the file already")
        counts[code] = tuple(
            parse_count(f"{path.name} line {line}, column {end!r}", row[column[end]]) for end in endings
        )
    cells = np.array(list(counts.values()), dtype=np.int64)
    return xr.Dataset(
        {"summary": ("county", cells[:, 0]), "protected": ("county", cells[:, 1])},
        coords={
            "county": list(counts),
            "name": ("county", [row[column["county"]] for _, row in rows]),
            "state": ("county", [row[column["state"]] for _, row in rows]),
        },
    )
