import pytest

from case_studies.covid.health_files import read_county_series, read_health_department
from ppdinf.errors import CountError, LabelError

HEAD = "UID,FIPS,Admin2,Province_State,Lat,2/29/20,3/30/20,3/31/20,4/30/20\n"
REST = (
    "84042001,42001.0,Adams,Pennsylvania,39.9,{0},7,{1},{2}\n"
    "84042003,42003.0,Allegheny,Pennsylvania,40.5,0,8,30,31\n"
    "84080042,80042.0,Out of PA,Pennsylvania,0.0,0,0,9,9\n"
    "84090042,90042.0,Unassigned,Pennsylvania,0.0,0,0,9,9\n"
    "84001001,1001.0,Autauga,Alabama,32.5,0,0,5,6\n"
)
SERIES = HEAD + REST.format(2, 11, 15)
DEAD = HEAD + REST.format(0, 1, 1).replace(",0,8,30,31", ",0,0,0,2")
FIRST = {"last": "2020-04"}


@pytest.fixture
def write(tmp_path):
    def _write(text, name):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return _write


def series(write, cases=SERIES, deaths=DEAD, **options):
    return read_county_series(write(cases, "cases.csv"), write(deaths, "deaths.csv"), **(FIRST | options))


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
    "thousands": (
        {"cases": HEAD + REST.format(2, 11, '"1,500"')},
        CountError,
        r"line 2, column '4/30/20' \(fips 42001\): the count is not an integer",
    ),
    "negative": ({"cases": HEAD + REST.format(2, -11, 15)}, CountError, r"column '3/31/20' \(fips 42001\).*negative"),
    "blank": ({"deaths": HEAD + REST.format(0, "", 1)}, CountError, r"deaths.csv line 2, column '3/31/20'.*blank"),
    "days of a spreadsheet": ({"cases": SERIES.replace("/20", "/2020")}, LabelError, "no column for 2020-02-29"),
    "day twice": ({"cases": SERIES.replace("3/30/20", "3/31/20")}, LabelError, "more than one column '3/31/20'"),
    "short row": ({"cases": SERIES.replace(",5,6", ",5")}, LabelError, "line 6 has 8 fields, but the header has 9"),
    "option": ({"revised": "clip"}, LabelError, "'refuse' or 'zero'"),
}


@pytest.mark.parametrize(("change", "error", "words"), BAD_SERIES.values(), ids=BAD_SERIES)
def test_inconsistent_series_are_refused_by_line(write, change, error, words):
    with pytest.raises(error, match=words):
        series(write, **change)


def test_byte_order_marks_and_line_ends_of_series_are_ignored(write):
    turned = ("\ufeff" + SERIES).replace("\n", "\r\n")
    assert series(write, cases=turned).equals(series(write))


def test_a_part_of_the_state_without_a_code_is_named(write):
    prison = SERIES + "84070003,,Federal Prison,Pennsylvania,0.0,0,0,90,95\n"
    assert series(write, cases=prison).attrs["left_out"] == ["Federal Prison", "Out of PA", "Unassigned"]


def test_the_encoding_of_other_systems_is_refused_by_byte(write, tmp_path):
    cases, deaths = write(SERIES, "cases.csv"), write(DEAD, "deaths.csv")
    cases.write_bytes(SERIES.replace("Autauga", "Do\u00f1a Ana").encode("latin-1"))
    with pytest.raises(LabelError, match=r"cases.csv is not UTF-8 text \(byte "):
        read_county_series(cases, deaths, **FIRST)


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
    "negative": ({"cases": CASES.replace("02/09/2021,1,9", "02/09/2021,-1,9")}, CountError, "is negative"),
    "negative by line": (
        {"deaths": DEATHS.replace("02/24/2021,1,5", "02/24/2021,-3,5")},
        CountError,
        r"deaths.csv line 14, column 'New Deaths': the count is negative",
    ),
    "thousands": (
        {"cases": CASES.replace("02/09/2021,1,9", '02/09/2021,1,"1,009"')},
        CountError,
        r"cases.csv line \d+, column 'Cumulative cases': the count is not an integer",
    ),
    "blank": ({"cases": CASES.replace("02/09/2021,1,9", "02/09/2021,,9")}, CountError, "column 'New Cases'.*blank"),
    "average": ({"cases": CASES.replace("02/09/2021,1,9", "02/09/2021,1.4,9")}, CountError, "decimal point"),
    "first day": ({"cases": CASES.replace("Adams,02/01/2021,1,1,42001,-77\n", "")}, CountError, "do not add up"),
    "last day": ({"cases": CASES.replace("Adams,02/28/2021,1,28,42001,-77\n", "")}, LabelError, "for 2021-02-28"),
    "names": ({"cases": CASES.replace("York,02/09", "Yorke,02/09")}, LabelError, "'York' above"),
    "later month": ({"last": "2021-03"}, LabelError, "no row for 2021-03-01"),
    "other file": ({"cases": DEATHS}, LabelError, "no column 'Jurisdiction'"),
    "county of one file": ({"deaths": DEATHS.replace("42133", "42131")}, LabelError, "no county with code"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "error", "words"), BAD_DAYS.values(), ids=BAD_DAYS)
def test_inconsistent_daily_files_are_refused_by_line(write, change, error, words):
    with pytest.raises(error, match=words):
        daily(write, **change)
