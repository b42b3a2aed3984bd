"""Files of the case studies as agencies publish them: read unchanged, or refused with a remedy."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

from case_studies.county_census import run
from case_studies.county_census.demonstration_file import read_demonstration
from case_studies.covid.health_files import read_county_series, read_health_department
from ppdinf.errors import CountError, LabelError

HEAD = "UID,FIPS,Admin2,Province_State,Combined_Key,2/29/20,3/30/20,3/31/20,4/30/20\n"
REST = (
    '84042001,42001.0,Adams,Pennsylvania,"Adams, Pennsylvania, US",{0},7,{1},{2}\n'
    '84042003,42003.0,Allegheny,Pennsylvania,"Allegheny, Pennsylvania, US",0,8,30,31\n'
    "84080042,80042.0,Out of PA,Pennsylvania,0.0,0,0,9,9\n"
    "84090042,90042.0,Unassigned,Pennsylvania,0.0,0,0,9,9\n"
    '84001001,1001.0,Autauga,Alabama,"Autauga, Alabama, US",0,0,5,6\n'
)
SERIES = HEAD + REST.format(2, 11, 15)
DEAD = HEAD + REST.format(0, 1, 1).replace(",0,8,30,31", ",0,0,0,2")
DEAD = DEAD.replace("Key,", "Key,Population,").replace('US",', 'US",12345,').replace("0.0,0", "0.0,12345,0")
UNTIL = {"last": "2020-04"}


@pytest.fixture
def write(tmp_path):
    def _write(text, name):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return _write


def series(write, cases=SERIES, deaths=DEAD, **options):
    return read_county_series(write(cases, "cases.csv"), write(deaths, "deaths.csv"), **(UNTIL | options))


def test_cumulative_series_become_months_of_the_requested_state(write):
    table = series(write)
    assert table.county.values.tolist() == ["Adams", "Allegheny"]
    assert table.fips.values.tolist() == ["42001", "42003"]
    assert table.month.values.tolist() == ["2020-03", "2020-04"]
    assert table.cases.values.tolist() == [[9, 4], [30, 1]]
    assert table.deaths.values.tolist() == [[1, 0], [0, 2]]
    assert table.attrs["left_out"] == ["Out of PA", "Unassigned"]
    alabama = series(write, state="Alabama")
    assert alabama.fips.values.tolist() == ["01001"]  # leading zero back
    assert "left_out" not in alabama.attrs


def test_a_count_revised_down_is_refused_or_named(write):
    fallen = HEAD + REST.format(2, 11, 10)
    with pytest.raises(CountError, match=r"cases.csv: the cumulative count of 'Adams' decreases in 2020-04"):
        series(write, cases=fallen)
    table = series(write, cases=fallen, revised="zero")
    assert table.cases.values.tolist() == [[9, 0], [30, 1]]
    assert table.attrs["set_to_zero"] == ["cases of Adams in 2020-04"]


BAD_SERIES = {
    "month without its end": ({"last": "2020-05"}, LabelError, "cases.csv has no column for 2020-05-31"),
    "months the wrong way round": ({"first": "2020-05"}, LabelError, "comes before the first"),
    "malformed month": ({"first": "March"}, LabelError, "must be written like 2020-03"),
    "state": ({"state": "Sylvania"}, LabelError, "no county with Province_State 'Sylvania'"),
    "column": ({"cases": SERIES.replace("FIPS", "fips")}, LabelError, "no column 'FIPS'"),
    "code": ({"cases": SERIES.replace("42001.0", "4200A")}, LabelError, "line 2, column 'FIPS': '4200A'"),
    "fraction": ({"cases": HEAD + REST.format(2, 11.5, 15)}, CountError, r"line 2, column '3/31/20' \(fips 42001\)"),
    "twice": ({"cases": SERIES.replace("42003.0", "42001.0")}, LabelError, "line 3: code 42001 is in the file already"),
    "one file only": ({"deaths": DEAD.replace("42003.0", "42005.0")}, LabelError, "deaths.csv has no county with code"),
    "blanks": ({"cases": SERIES.replace("Adams", " Adams")}, LabelError, "column 'Admin2': ' Adams'"),
    "same name": (
        {"cases": SERIES.replace("Allegheny", "Adams"), "deaths": DEAD.replace("Allegheny", "Adams")},
        LabelError,
        "two codes belong to a county 'Adams'",
    ),
    "blank": ({"deaths": HEAD + REST.format(0, "", 1)}, CountError, r"deaths.csv line 2, column '3/31/20'.*blank"),
    "days of a spreadsheet": ({"cases": SERIES.replace("/20", "/2020")}, LabelError, "no column for 2020-02-29"),
    "option": ({"revised": "clip"}, LabelError, "'refuse' or 'zero'"),
}


def test_a_part_of_the_state_without_a_code_is_named(write):
    prison = SERIES + "84070003,,Federal Prison,Pennsylvania,0.0,0,0,90,95\n"
    assert series(write, cases=prison).attrs["left_out"] == ["Federal Prison", "Out of PA", "Unassigned"]


def department(names, start=1):
    """February 2021 of two counties and the state, newest day first, because the portal's files are unordered."""
    rows = [f"{names[0]},{names[1]},{names[2]},{names[3]}      ,County FIPS Code,Longitude"]
    for day in reversed(range(start, 29)):
        rows.append(f"Adams,02/{day:02d}/2021,1,{day - start + 1},42001,-77")
        rows.append(f"York,02/{day:02d}/2021,{2 * (day == 28)},{2 * (day == 28)},42133,-76")
        rows.append(f"Pennsylvania,02/{day:02d}/2021,900,90000,42000,-77")
    return "\n".join(rows) + "\n"


CASES = department(["Jurisdiction", "Date", "New Cases", "Cumulative cases"])
DEATHS = department(["County Name", "Date of Death", "New Deaths", "Total Deaths"], start=20)


def daily(write, cases=CASES, deaths=DEATHS, **options):
    files = write(cases, "cases.csv"), write(deaths, "deaths.csv")
    return read_health_department(*files, **({"first": "2021-02", "last": "2021-02"} | options))


def test_daily_rows_become_months_without_the_state(write):
    table = daily(write)
    assert table.county.values.tolist() == ["Adams", "York"]
    assert table.cases.values.tolist() == [[28], [2]]
    assert table.deaths.values.tolist() == [[9], [2]]  # the file begins on the 20th: none before


BAD_DAYS = {
    "day": ({"cases": CASES.replace("Adams,02/09/2021,1,9,42001,-77\n", "")}, LabelError, "no row for 2021-02-09"),
    "does not add up": ({"cases": CASES.replace("02/09/2021,1,9", "02/09/2021,2,9")}, CountError, "do not add up"),
    "twice": ({"cases": CASES + "Adams,02/09/2021,1,9,42001,-77\n"}, LabelError, "has 2021-02-09 already"),
    "date": ({"cases": CASES.replace("02/09/2021,1,9", "2021-02-09,1,9")}, LabelError, "not a date like 09/24/2020"),
    "no such day": ({"cases": CASES.replace("02/09/2021,1,9", "02/30/2021,1,9")}, LabelError, "'02/30/2021'"),
    "negative by line": (
        {"deaths": DEATHS.replace("02/24/2021,1,5", "02/24/2021,-3,5")},
        CountError,
        r"deaths.csv line 14, column 'New Deaths': the count is negative",
    ),
    "first day": ({"cases": CASES.replace("Adams,02/01/2021,1,1,42001,-77\n", "")}, CountError, "do not add up"),
    "last day": ({"cases": CASES.replace("Adams,02/28/2021,1,28,42001,-77\n", "")}, LabelError, "for 2021-02-28"),
    "names": ({"cases": CASES.replace("York,02/09", "Yorke,02/09")}, LabelError, "'York' above"),
    "later month": ({"last": "2021-03"}, LabelError, "no row for 2021-03-01"),
    "other file": ({"cases": DEATHS}, LabelError, "no column 'Jurisdiction'"),
    "county of one file": ({"deaths": DEATHS.replace("42133", "42131")}, LabelError, "no county with code"),
}  # fmt: skip


@pytest.mark.parametrize(("read", "change", "error", "words"), [
    *(pytest.param(series, *case, id=f"series: {name}") for name, case in BAD_SERIES.items()),
    *(pytest.param(daily, *case, id=f"daily: {name}") for name, case in BAD_DAYS.items()),
])  # fmt: skip
def test_inconsistent_files_are_refused_by_line(write, read, change, error, words):
    with pytest.raises(error, match=words):
        read(write, **change)


HEADER = "GISJOIN,STATE,COUNTY,H7V001_sf,H7V001_dp,H72002_sf,H72002_dp"
ROWS = ["G0100010,Alabama,Autauga,54571,54566,1,2", "G0100030,Alabama,Baldwin,182265,182280,3,4"]


def read(tmp_path, *lines, count="H7V001"):
    path = tmp_path / "county.csv"
    path.write_text("\n".join(lines) + "\n")
    return read_demonstration(path, count)


def test_reads_both_counts(tmp_path):
    found = read(tmp_path, HEADER, *ROWS)
    assert found.summary.values.tolist() == [54571, 182265]
    assert found.protected.sel(county="01003").item() == 182280
    assert found.name.values.tolist() == ["Autauga", "Baldwin"]
    assert read(tmp_path, HEADER, *ROWS, count="H72002").protected.values.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        ((HEADER.replace("GISJOIN", "code"), *ROWS), LabelError, "no column 'gisjoin'"),
        ((HEADER.replace("H7V001_dp", "other"), *ROWS), LabelError, "must have both H7V001_sf and H7V001_dp"),
        ((HEADER, *ROWS, ROWS[0]), LabelError, "line 4: county 'G0100010' is in the file already"),
        ((HEADER, ROWS[0], ROWS[1].replace("182265", '"182,265"')), CountError, "line 3, column 'h7v001_sf'.*digits"),
        ((HEADER, ROWS[0].replace("54566", "")), CountError, "line 2, column 'h7v001_dp'.*blank"),
        ((HEADER, ROWS[0].replace("G0100010", "G01000100101")), LabelError, "line 2: 'G01000100101' is not the code"),
        ((HEADER + ",gisjoin", *(row + ",x" for row in ROWS)), LabelError, "capital letters"),
    ],
)
def test_refusals(tmp_path, lines, error, message):
    with pytest.raises(error, match=message):
        read(tmp_path, *lines)


def test_files_as_published_are_read_in_any_order(tmp_path):
    """Columns ``name`` and numeric states, a row of descriptions, and counties in reverse order."""
    header = "gisjoin,name,state,H7V001_dp,H7V001_sf"
    rows = ["G0600010,Alameda County,6,1510261,1510271", '"G0100030","Baldwin County",1,182280,182265']
    found = read(tmp_path, header, "GIS Join Match Code,Name,State,Total,Total", *rows)
    assert found.county.values.tolist() == ["01003", "06001"]
    assert (found.protected - found.summary).values.tolist() == [15, -10]
    assert found.name.values.tolist() == ["Baldwin County", "Alameda County"]


def populations(folder):
    """Three states of twelve counties, and a demonstration file whose errors decrease with size in the second."""
    codes = [f"{state:02d}{2 * k + 1:03d}" for state in (1, 6, 21) for k in range(12)]
    persons = np.random.default_rng(1).integers(1000, 10**6, 36)
    table = pd.DataFrame({"state": np.repeat(["AL", "CA", "KY"], 12), "county": codes, "fips": codes})
    table.assign(population=persons).to_csv(folder / "county_population_2010.csv", index=False)
    return pd.DataFrame(
        {
            "gisjoin": [f"G{code[:2]}0{code[2:]}0" for code in codes],
            "name": codes,
            "state": [code[:2] for code in codes],
            "H7V001_dp": persons - np.where(table.state == "CA", np.rint(20 * np.log10(persons)), 3).astype(int),
            "H7V001_sf": persons,
        }
    )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("part", [slice(12, 24), slice(None)], ids=["one state", "nation"])
def test_the_study_joins_demonstration_files_by_code(tmp_path, monkeypatch, part):
    """Wrong variant: errors in the order of the file are assigned to the counties in the order of the table."""
    data = tmp_path / "data"
    data.mkdir()
    file = populations(data).iloc[part].sample(frac=1, random_state=2)
    for k, rows in enumerate((file.iloc[:7], file.iloc[7:])):
        rows.to_csv(data / f"nhgis_ppdd_20200527_county_{k}.csv", index=False)
    monkeypatch.setenv("PPDINF_DATA", str(data))
    monkeypatch.setattr(run, "CATEGORIES", 5)
    run.main(tmp_path / "study", quick=True)
    ways = pd.read_csv(tmp_path / "study" / "ways.csv", index_col="way").loc["demonstration data"]
    states = 3 if part == slice(None) else 1
    assert ways[["states whose error changes with size", "of these falling", "of"]].tolist() == [1, 1, states]
    found = pd.read_csv(tmp_path / "study" / "demonstration.csv", index_col="state")
    assert found.loc["CA", "slope"] == pytest.approx(-20 / np.log(10), abs=0.1)  # 20 persons for a factor of ten
    assert found.loc["CA", "p"] < 1e-6
    assert len(found) == states
    assert (
        found["sum of errors"].tolist() == (file["H7V001_dp"] - file["H7V001_sf"]).groupby(file["state"]).sum().tolist()
    )
    file.iloc[:1].to_csv(data / "nhgis_county.csv", index=False)
    with pytest.raises(LabelError, match="1 counties are in more than one demonstration file"):
        run.main(tmp_path / "study", quick=True)
    file.iloc[:1].assign(gisjoin="G7200010").to_csv(data / "nhgis_county.csv", index=False)
    with pytest.raises(LabelError, match=r"not in county_population_2010.csv: 72001"):
        run.main(tmp_path / "study", quick=True)


@pytest.mark.parametrize("files", [[], [run.POPULATIONS]], ids=["no file", "populations"])
def test_missing_files_are_named(tmp_path, files):
    for name in files:
        (tmp_path / name).touch()
    missing = {run.POPULATIONS, run.FILES} - set(files)
    assert set(run.missing_files(tmp_path)) == missing
    assert set(run.missing_files(None)) == {run.POPULATIONS, run.FILES}
    assert run.demonstration(tmp_path, None) is None


def test_a_common_slope_has_an_intercept_for_each_state():
    """Against a dense regression; the wrong variant with one intercept confuses states with sizes."""
    rng, state = np.random.default_rng(2), np.repeat(["A", "B"], 30)
    persons = np.exp(rng.normal(10, 1, 60) + 3 * (state == "B")).astype(int)
    y = -2 * np.log(persons) + 40 * (state == "B") + rng.normal(size=60)
    coords = {"county": np.arange(60), "state": ("county", state)}
    table, errors = (xr.DataArray(values, dims="county", coords=coords) for values in (persons, y))
    slope, p = run.common_slope(errors, table)
    design = np.column_stack([np.log(persons), state == "A", state == "B"]).astype(float)
    solved, squares, *_ = np.linalg.lstsq(design, y)
    error = np.sqrt(squares[0] / 57 * np.linalg.inv(design.T @ design)[0, 0])
    assert slope == pytest.approx(solved[0])
    assert p == pytest.approx(2 * stats.t.sf(abs(solved[0] / error), 57))
    assert stats.linregress(np.log(persons), y).slope > 0
