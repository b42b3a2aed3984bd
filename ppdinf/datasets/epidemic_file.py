"""Monthly cases and deaths by county from CSV files, unchanged or refused.

The reader does not strip, cast, fill, clip or sort. A file that requires this is refused with line, column and a
remedy. Messages show labels, never a count.
"""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path

import numpy as np
import xarray as xr

from ppdinf.datasets.csv_rows import parse_count, read_csv_rows, require_columns
from ppdinf.errors import CountError, LabelError

COLUMNS = ("county", "fips", "month", "cases", "deaths")
_FIPS = re.compile(r"[0-9]{5}")
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
_DATED = re.compile(r"pop(?:ulation)?_([0-9]{4})(?:_.*)?")


def read_epidemic(path: str | PathLike[str], *, population: str | PathLike[str] | None = None) -> xr.Dataset:
    r"""Read monthly cases and deaths by county, and optionally the counties' populations.

    Parameters
    ----------
    path : str or path
        CSV (UTF-8) with exactly the columns county, fips, month, cases, deaths, in any order, and one
        row for every county in every month. fips is five digits with its leading zero, month is
        ``2021-07``. Deaths are those reported in the month: they can exceed its cases.
    population : str or path, optional
        CSV with a column fips and either a column ``population`` or dated columns such as
        ``pop_2020_base``; the latest column is used. It may hold further columns and counties (a
        national file); every county of `path` must be in it, matched by fips alone.

    Returns
    -------
    xarray.Dataset
        ``cases`` and ``deaths``, int64 (county, month), both in order of first appearance; coordinate
        ``fips`` and, if given, ``population``, whose attribute ``column`` names the column that was read.

    Raises
    ------
    LabelError
        Columns missing, repeated or unknown; a county, fips or month that is malformed, repeated,
        absent or inconsistent with another row.
    CountError
        A count that is blank, negative, fractional, above 2**53 or not a number; a population of 0;
        more deaths than cases in the complete file.

    See Also
    --------
    ppdinf.datasets.epidemic, ppdinf.datasets.read_table

    Examples
    --------
    >>> from ppdinf.datasets import read_epidemic
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "cases.csv")
    ...     _ = file.write_text("county,fips,month,cases,deaths\nKestrel,99071,2021-07,12,0\n")
    ...     read_epidemic(file).cases.item()
    12
    """
    path = Path(path)
    header, rows = read_csv_rows(path)
    _check_header(path, header)
    fips: dict[str, str] = {}  # county -> fips, in order of first appearance
    months: dict[str, int] = {}
    counts: dict[tuple[str, str], tuple[int, int, int]] = {}  # -> line, cases, deaths
    for line, row in rows:
        where = f"{path.name} line {line}"
        county, month = row["county"], row["month"]
        _check_labels(where, row)
        if fips.setdefault(county, row["fips"]) != row["fips"]:
            raise LabelError(
                f"{where}: county {county!r} has fips {row['fips']} here and {fips[county]} above; "
                "add the state to the names of counties with the same name"
            )
        months.setdefault(month, line)
        if (county, month) in counts:
            raise LabelError(f"{where}: county {county!r}, month {month} is on line {counts[county, month][0]} already")
        counts[county, month] = (line, _count(where, row, "cases"), _count(where, row, "deaths"))
    _check_one_to_one(path, fips)
    for county in fips:
        for month in months:
            if (county, month) not in counts:
                raise LabelError(f"{path.name}: county {county!r} has no row for month {month}; add rows with zeros")
    cells = np.array([[counts[county, month][1:] for month in months] for county in fips], dtype=np.int64)
    if cells[..., 1].sum() > cells[..., 0].sum():
        raise CountError(f"{path.name} holds more deaths than cases: are the two columns swapped?")
    dataset = xr.Dataset(
        {"cases": (("county", "month"), cells[..., 0]), "deaths": (("county", "month"), cells[..., 1])},
        coords={"county": list(fips), "month": list(months), "fips": ("county", list(fips.values()))},
    )
    return dataset if population is None else _with_population(dataset, Path(population))


def _with_population(dataset: xr.Dataset, path: Path) -> xr.Dataset:
    header, rows = read_csv_rows(path)
    require_columns(path, header, ["fips"])
    column = _population_column(path, header)
    persons: dict[str, int] = {}
    wanted = set(dataset.fips.values.tolist())
    for line, row in rows:
        where = f"{path.name} line {line}"
        _check_fips(where, row["fips"])
        if row["fips"] in persons:
            raise LabelError(f"{where}: fips {row['fips']} is in the file already")
        if row["fips"] in wanted:
            persons[row["fips"]] = _count(where, row, column)
            if persons[row["fips"]] == 0:
                raise CountError(f"{where}, column {column!r}: fips {row['fips']} has the population 0")
    for county, code in zip(dataset.county.values.tolist(), dataset.fips.values.tolist(), strict=True):
        if code not in persons:
            raise LabelError(f"{path.name} has no row with fips {code} (county {county!r})")
    values = np.array([persons[code] for code in dataset.fips.values.tolist()], dtype=np.int64)
    return dataset.assign_coords(population=("county", values, {"column": column}))


def _population_column(path: Path, header: list[str]) -> str:
    if "population" in header:
        return "population"
    dated = [(match[1], name) for name in header if (match := _DATED.fullmatch(name))]
    latest = [name for year, name in dated if year == max(dated)[0]]
    if not latest:
        raise LabelError(f"{path.name} has no column 'population' or 'pop_2020'; it has {', '.join(header)}")
    if len(latest) > 1:
        raise LabelError(f"{path.name}: {' and '.join(latest)} are equally recent; rename one column to 'population'")
    return latest[0]


def _check_header(path: Path, header: list[str]) -> None:
    require_columns(path, header, COLUMNS)
    for name in header:
        if name not in COLUMNS:
            raise LabelError(f"{path.name} has an unknown column {name!r}: drop it from the file")


def _check_labels(where: str, row: dict[str, str]) -> None:
    county = row["county"]
    if county != county.strip() or not county:
        raise LabelError(f"{where}, column 'county': {county!r} is blank, or begins or ends with a blank")
    _check_fips(where, row["fips"])
    if not _MONTH.fullmatch(row["month"]):
        raise LabelError(f"{where}, column 'month': {row['month']!r} must be written like 2021-07")


def _check_fips(where: str, code: str) -> None:
    if not _FIPS.fullmatch(code):
        raise LabelError(
            f"{where}, column 'fips': {code!r} must have five digits; spreadsheets drop leading zeros, "
            "so format the column as text"
        )


def _check_one_to_one(path: Path, fips: dict[str, str]) -> None:
    county_of: dict[str, str] = {}
    for county, code in fips.items():
        if code in county_of:
            raise LabelError(f"{path.name}: fips {code} belongs to both {county_of[code]!r} and {county!r}")
        county_of[code] = county


def _count(where: str, row: dict[str, str], column: str) -> int:
    return parse_count(f"{where}, column {column!r} (fips {row['fips']})", row[column])
