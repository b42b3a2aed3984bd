"""Monthly cases and deaths of a state's counties from downloaded public files.

Two formats are known. Cumulative time series of all counties have one column per day (the repository
CSSEGISandData/COVID-19, ``time_series_covid19_confirmed_US.csv`` and ``..._deaths_US.csv``). Daily rows of one state
come from the open data portal of the Pennsylvania Department of Health (aggregate cases and aggregate deaths). Both are
read unchanged for the chosen months. Nothing is imputed; inconsistent files are refused with line and label. Messages
do not show counts.
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ppdinf.datasets.printed_file import PrintedFile
from ppdinf.errors import CountError, LabelError

from .._shared.count_texts import count_at

_SERIES_DAY = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{2})")
_DAY = re.compile(r"([0-9]{2})/([0-9]{2})/([0-9]{4})")
_CODE = re.compile(r"([0-9]{4,5})(\.0)?")
type Counties = Mapping[str, tuple[str, Sequence[int] | NDArray[np.int64]]]  # names and counts, by code

CASES = {"county": "Jurisdiction", "day": "Date", "new": "New Cases", "so far": "Cumulative cases"}
DEATHS = {"county": "County Name", "day": "Date of Death", "new": "New Deaths", "so far": "Total Deaths"}


def read_county_series(
    confirmed: str | PathLike[str],
    deaths: str | PathLike[str],
    *,
    state: str = "Pennsylvania",
    first: str = "2020-03",
    last: str = "2022-02",
    revised: str = "refuse",
) -> xr.Dataset:
    r"""Read cumulative county series, one column per day, as monthly counts.

    Parameters
    ----------
    confirmed, deaths : str or path
        CSV with the columns FIPS, Admin2 (the county), Province_State and days such as ``3/31/20``. Rows of other
        states are left out. Rows of the state without a county (``Unassigned``, ``Out of ...``, a prison or a
        health district without a code) are left out and listed in ``attrs["left_out"]``.
    state : str
        Name in Province_State.
    first, last : str
        Months, such as ``2020-03``. The last day of the month before `first` is also needed.
    revised : {"refuse", "zero"}
        How to treat a month whose cumulative count was revised below the previous month: "refuse" it, or
        count 0 and list the cell in ``attrs["set_to_zero"]``.

    Returns
    -------
    xarray.Dataset
        As for `read_epidemic`: ``cases`` and ``deaths``, int64 (county, month), coordinate ``fips``.

    Raises
    ------
    LabelError
        Columns, days or counties missing, malformed or repeated; counties in only one of the files.
    CountError
        A cumulative count that is not an integer, or decreases.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> text = "FIPS,Admin2,Province_State,2/29/20,3/31/20\n42001.0,Adams,Pennsylvania,{},{}\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cases, deaths = pathlib.Path(folder, "cases.csv"), pathlib.Path(folder, "deaths.csv")
    ...     _ = cases.write_text(text.format(2, 11)), deaths.write_text(text.format(0, 1))
    ...     table = read_county_series(cases, deaths, last="2020-03")
    >>> table.cases.item(), table.deaths.item(), table.fips.item()
    (9, 1, '42001')
    """
    if revised not in ("refuse", "zero"):
        raise LabelError(f"revised must be 'refuse' or 'zero', found {revised!r}")
    months = _months(first, last)
    ends = [_last_day(month) for month in [_before(months[0]), *months]]
    read = {name: _series(Path(path), state, ends) for name, path in (("cases", confirmed), ("deaths", deaths))}
    parts = {name: counties for name, (counties, _) in read.items()}
    _same_counties(Path(confirmed), Path(deaths), parts["cases"], parts["deaths"])
    zeroed: list[str] = []
    cells = {}
    for name, (path, part) in zip(
        parts, zip((Path(confirmed), Path(deaths)), parts.values(), strict=True), strict=True
    ):
        monthly = np.diff(np.array([part[code][1] for code in parts["cases"]], dtype=np.int64), axis=1)
        for i, m in np.argwhere(monthly < 0):
            county = parts["cases"][list(parts["cases"])[i]][0]
            if revised == "refuse":
                raise CountError(
                    f"{path.name}: the cumulative count of {county!r} decreases in {months[m]}, a later revision: "
                    "correct the file, or set revised='zero'"
                )
            zeroed.append(f"{name} of {county} in {months[m]}")
        cells[name] = np.maximum(monthly, 0)
    table = _table(cells, {code: county for code, (county, _) in parts["cases"].items()}, months)
    if without := sorted({name for _, names in read.values() for name in names}):
        table.attrs["left_out"] = without
    return table.assign_attrs(set_to_zero=zeroed) if zeroed else table


def read_health_department(
    cases: str | PathLike[str], deaths: str | PathLike[str], *, first: str = "2020-03", last: str = "2021-05"
) -> xr.Dataset:
    r"""Read a health department's daily county files as monthly counts.

    Parameters
    ----------
    cases : str or path
        CSV with the columns Jurisdiction, Date (``09/24/2020``), New Cases, Cumulative cases and County FIPS Code, in
        any order; further columns are not read. Rows of the state (a code that ends in 000) are left out. Blanks
        around names of columns, which the portal writes, are ignored.
    deaths : str or path
        The same format with County Name, Date of Death, New Deaths and Total Deaths.
    first, last : str
        Months. Every county must have a row for every day after its first row.

    Returns
    -------
    xarray.Dataset
        As for `read_county_series`. Deaths are by day of death.

    Raises
    ------
    LabelError
        Columns, days or counties missing, malformed or repeated; counties in only one of the files.
    CountError
        A count that is not an integer, or new counts whose sum differs from the cumulative count.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> head = "{},{},{},{},County FIPS Code\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [pathlib.Path(folder, name) for name in ("cases.csv", "deaths.csv")]
    ...     for file, names in zip(files, (CASES, DEATHS)):
    ...         days = [f"Adams,02/{day:02d}/2021,1,{day},42001\n" for day in range(1, 29)]
    ...         _ = file.write_text(head.format(*names.values()) + "".join(days))
    ...     table = read_health_department(*files, first="2021-02", last="2021-02")
    >>> table.cases.item(), table.deaths.item()
    (28, 28)
    """
    months = _months(first, last)
    parts = [_daily(Path(path), names, months) for path, names in ((cases, CASES), (deaths, DEATHS))]
    _same_counties(Path(cases), Path(deaths), *parts)
    codes = list(parts[0])
    cells = {
        name: np.array([part[code][1] for code in codes], dtype=np.int64)
        for name, part in zip(("cases", "deaths"), parts, strict=True)
    }
    return _table(cells, {code: parts[0][code][0] for code in codes}, months)


def _series(path: Path, state: str, ends: list[dt.date]) -> tuple[dict[str, tuple[str, list[int]]], list[str]]:
    """Return counties and cumulative counts at given days, by code; and names of the state's rows without a county."""
    file = PrintedFile.read(path, strict=True)
    file.require("FIPS", "Admin2", "Province_State")
    days = {
        dt.date(2000 + int(d[3]), int(d[1]), int(d[2])): name
        for name in file.header
        if (d := _SERIES_DAY.fullmatch(name))
    }
    for end in ends:
        if end not in days:
            raise LabelError(f"{path.name} has no column for {end:%Y-%m-%d}, the end of a month: choose other months")
    counties: dict[str, tuple[str, list[int]]] = {}
    left_out = []
    for line, row in file.rows:
        if row["Province_State"] != state:
            continue
        if not row["FIPS"] or row["Admin2"].startswith(("Out of", "Unassigned")):
            left_out.append(row["Admin2"])
            continue
        where = f"{path.name} line {line}"
        code = _code(where, row["FIPS"], "FIPS")
        if code in counties:
            raise LabelError(f"{where}: code {code} is in the file already")
        counts = [count_at(f"{where}, column {days[end]!r} (fips {code})", row[days[end]]) for end in ends]
        counties[code] = (_county(where, row["Admin2"], "Admin2"), counts)
    if not counties:
        raise LabelError(f"{path.name} has no county with Province_State {state!r}")
    return counties, left_out


def _daily(path: Path, names: dict[str, str], months: list[str]) -> dict[str, tuple[str, NDArray[np.int64]]]:
    """Return counties and monthly sums, by code in order; new counts must add up to cumulative counts."""
    raw = PrintedFile.read(path, strict=True)
    file = replace(raw, table=raw.table.rename(columns=str.strip))
    file.require(*names.values(), "County FIPS Code")
    counties: dict[str, str] = {}
    days: dict[str, dict[dt.date, tuple[int, int, str]]] = {}
    for line, row in file.rows:
        where = f"{path.name} line {line}"
        code = _code(where, row["County FIPS Code"], "County FIPS Code")
        if code.endswith("000"):
            continue
        county, day = (
            _county(where, row[names["county"]], names["county"]),
            _date(where, row[names["day"]], names["day"]),
        )
        if counties.setdefault(code, county) != county:
            raise LabelError(f"{where}: code {code} is {county!r} here and {counties[code]!r} above")
        by_day = days.setdefault(code, {})
        if day in by_day:
            raise LabelError(f"{where}: county {county!r} has {day:%Y-%m-%d} already, {by_day[day][2]}")
        new, so_far = (count_at(f"{where}, column {names[k]!r}", row[names[k]]) for k in ("new", "so far"))
        by_day[day] = (new, so_far, f"on line {line}")
    if not counties:
        raise LabelError(f"{path.name} has no county")
    return {code: (counties[code], _monthly_sums(path, counties[code], days[code], months)) for code in sorted(days)}


def _monthly_sums(
    path: Path, county: str, by_day: dict[dt.date, tuple[int, int, str]], months: list[str]
) -> NDArray[np.int64]:
    """Sum days to months; no day may be missing, and new counts must add up to the cumulative count."""
    day, end, total = min(by_day), _last_day(months[-1]), 0
    sums = np.zeros(len(months), dtype=np.int64)
    while day <= end:
        if day not in by_day:
            raise LabelError(f"{path.name}: county {county!r} has no row for {day:%Y-%m-%d}")
        new, so_far, where = by_day[day]
        total += new
        if total != so_far:
            raise CountError(f"{path.name}, {where}: new counts of {county!r} do not add up to the cumulative count")
        if (month := f"{day:%Y-%m}") in months:
            sums[months.index(month)] += new
        day += dt.timedelta(days=1)
    return sums


def _table(cells: dict[str, NDArray[np.int64]], counties: dict[str, str], months: list[str]) -> xr.Dataset:
    names = list(counties.values())
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise LabelError(f"two codes belong to a county {repeated[0]!r}")
    return xr.Dataset(
        {name: (("county", "month"), values) for name, values in cells.items()},
        coords={"county": names, "month": months, "fips": ("county", list(counties))},
    )


def _same_counties(first: Path, second: Path, first_counties: Counties, second_counties: Counties) -> None:
    for here, there, path in ((first_counties, second_counties, second), (second_counties, first_counties, first)):
        for code, (county, _) in here.items():
            if code not in there:
                raise LabelError(f"{path.name} has no county with code {code} ({county!r})")


def _months(first: str, last: str) -> list[str]:
    for month in (first, last):
        if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", month):
            raise LabelError(f"the month {month!r} must be written like 2020-03")
    if last < first:
        raise LabelError(f"the last month {last} comes before the first, {first}")
    months = [first]
    while months[-1] < last:
        year, number = map(int, months[-1].split("-"))
        months.append(f"{year + number // 12}-{number % 12 + 1:02d}")
    return months


def _before(month: str) -> str:
    year, number = map(int, month.split("-"))
    return f"{year - (number == 1)}-{(number - 2) % 12 + 1:02d}"


def _last_day(month: str) -> dt.date:
    year, number = map(int, month.split("-"))
    return dt.date(year, number, monthrange(year, number)[1])


def _code(where: str, text: str, column: str) -> str:
    """Return five digits; spreadsheets and data frames write 42001.0, and drop a leading zero."""
    if not (match := _CODE.fullmatch(text)):
        raise LabelError(f"{where}, column {column!r}: {text!r} is not the code of a county")
    return match[1].zfill(5)


def _county(where: str, name: str, column: str) -> str:
    if not name or name != name.strip():
        raise LabelError(f"{where}, column {column!r}: {name!r} is blank, or begins or ends with a blank")
    return name


def _date(where: str, text: str, column: str) -> dt.date:
    try:
        match = _DAY.fullmatch(text)
        assert match
        return dt.date(int(match[3]), int(match[1]), int(match[2]))
    except (AssertionError, ValueError):
        raise LabelError(f"{where}, column {column!r}: {text!r} is not a date like 09/24/2020") from None
