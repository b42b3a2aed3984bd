"""Fictitious files with the size and columns of real downloads: rows without a county are left out."""

import datetime as dt

import numpy as np
import pytest

from case_studies.county_census.demonstration_file import read_demonstration
from case_studies.covid.health_files import read_county_series, read_health_department
from ppdinf.errors import CountError

FIRST, LAST = dt.date(2020, 1, 22), dt.date(2022, 3, 9)
DAYS = [FIRST + dt.timedelta(days=k) for k in range((LAST - FIRST).days + 1)]
PLACE = '{uid},US,USA,840,{fips},{county},{state},US,40.1,-77.2,"{county}, {state}, US"'


def write_series(path, so_far, population):
    """Write all counties of the United States, 67 of them in Pennsylvania, and the rows without a county."""
    header = "UID,iso2,iso3,code3,FIPS,Admin2,Province_State,Country_Region,Lat,Long_,Combined_Key"
    lines = [header + (",Population" if population else "") + "," + ",".join(f"{d.month}/{d.day}/{d:%y}" for d in DAYS)]
    others = ",".join(["7"] * len(DAYS))
    persons = ",12345" if population else ""
    for state in range(1, 52):
        name = "Pennsylvania" if state == 42 else f"State {state}"
        for k in range(67 if state == 42 else 61):
            code = 1000 * state + 2 * k + 1
            place = PLACE.format(uid=84000000 + code, fips=f"{code}.0", county=f"County {k}", state=name)
            counts = ",".join(map(str, so_far[k])) if state == 42 else others
            lines.append(f"{place}{persons},{counts}")
        for number, county in ((80, f"Out of {name}"), (90, "Unassigned")):
            place = PLACE.format(
                uid=84000000 + 1000 * number + state, fips=f"{number}0{state:02d}.0", county=county, state=name
            )
            lines.append(f"{place}{persons},{others}")
    lines.append(PLACE.format(uid=16, fips="60.0", county="", state="American Samoa") + f"{persons},{others}")
    lines.append(PLACE.format(uid=84070003, fips="", county="A prison", state="Pennsylvania") + f"{persons},{others}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.deep
def test_county_series_of_all_states(tmp_path):
    rng = np.random.default_rng(1)
    daily = {"cases": rng.poisson(20, (67, len(DAYS))), "deaths": rng.poisson(0.3, (67, len(DAYS)))}
    files = []
    for name, counts in daily.items():
        files.append(tmp_path / f"{name}.csv")
        write_series(files[-1], counts.cumsum(axis=1), population=name == "deaths")
    table = read_county_series(*files)
    assert table.sizes == {"county": 67, "month": 24}
    months = np.array([f"{day:%Y-%m}" for day in DAYS])
    for name, counts in daily.items():
        sums = np.stack([counts[:, months == month].sum(axis=1) for month in table.month.values], axis=1)
        assert np.array_equal(table[name], sums)
    assert table.attrs["left_out"] == ["A prison", "Out of Pennsylvania", "Unassigned"]
    fallen = daily["cases"].cumsum(axis=1)
    fallen[5, DAYS.index(dt.date(2021, 8, 31))] = 0
    write_series(files[0], fallen, population=False)
    with pytest.raises(CountError, match="'County 5' decreases in 2021-08"):
        read_county_series(*files)
    assert read_county_series(*files, revised="zero").attrs["set_to_zero"] == ["cases of County 5 in 2021-08"]


def write_department(path, names, daily):
    """Write every county's and the state's row of every day, with the portal's columns and random order."""
    county, day, new, so_far = names
    lines = [
        f"{county},{new},7-day Average {new},{so_far},Population (2019),New Rate,7-Day Average Rate,Cumulative Rate,"
        f"County FIPS Code    ,Longitude,Latitude,Georeferenced Lat & Long,{day}"
    ]
    for k, counts in enumerate([*daily, daily.sum(axis=0)]):
        name, code = (f"County {k}", 42001 + 2 * k) if k < len(daily) else ("Pennsylvania", 42000)
        for date, count, total in zip(DAYS, counts, counts.cumsum(), strict=True):
            lines.append(
                f"{name},{count},{count / 7:.1f},{total},12345,1.2,1.3,9.9,{code},-77.2,39.8,"
                f'"POINT (-77.2 39.8)",{date:%m/%d/%Y}'
            )
    header, rows = lines[0], np.random.default_rng(2).permutation(lines[1:])
    path.write_text("\ufeff" + "\r\n".join([header, *rows, ""]), encoding="utf-8", newline="")


@pytest.mark.deep
def test_daily_files_of_a_health_department(tmp_path):
    rng = np.random.default_rng(3)
    daily = {"cases": rng.poisson(20, (67, len(DAYS))), "deaths": rng.poisson(0.3, (67, len(DAYS)))}
    columns = {
        "cases": ("Jurisdiction", "Date", "New Cases", "Cumulative cases"),
        "deaths": ("County Name", "Date of Death", "New Deaths", "Total Deaths"),
    }
    files = []
    for name, counts in daily.items():
        files.append(tmp_path / f"{name}.csv")
        write_department(files[-1], columns[name], counts)
    table = read_health_department(*files, last="2022-02")
    months = np.array([f"{day:%Y-%m}" for day in DAYS])
    for name, counts in daily.items():
        sums = np.stack([counts[:, months == month].sum(axis=1) for month in table.month.values], axis=1)
        assert np.array_equal(table[name], sums)


@pytest.mark.deep
def test_a_demonstration_file_of_all_counties(tmp_path):
    rng = np.random.default_rng(4)
    summary = rng.integers(0, 10**6, (3221, 300))
    protected = np.maximum(0, summary + rng.integers(-9, 10, summary.shape))
    names = [f"H7{k:04d}" for k in range(300)]
    header = ["gisjoin", "name", "state", "county", *(f"{name}{end}" for end in ("_dp", "_sf") for name in names)]
    rows = [
        f'G{k // 1000 + 1:02d}0{k % 1000:03d}0,"County {k}, State {k % 52}",State {k % 52},County {k},'
        + ",".join(map(str, [*protected[k], *summary[k]]))
        for k in range(3221)
    ]
    path = tmp_path / "nhgis_ppdd_county.csv"
    path.write_text("\n".join([",".join(header), *rows]) + "\n", encoding="utf-8-sig")
    found = read_demonstration(path, "H70123")
    assert np.array_equal(found.summary, summary[:, 123])
    assert np.array_equal(found.protected, protected[:, 123])
    rows[2000] = rows[2000].replace(f",{protected[2000, 123]},", ',"1,234",', 1)
    path.write_text("\n".join([",".join(header), *rows]) + "\n", encoding="utf-8")
    with pytest.raises(CountError, match=r"nhgis_ppdd_county\.csv line 2002, column 'h70123_dp'"):
        read_demonstration(path, "H70123")
