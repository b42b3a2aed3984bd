import os
from pathlib import Path

import numpy as np
import pytest

from ppdinf.datasets import epidemic, read_epidemic
from ppdinf.errors import CountError, LabelError

HEADER = "county,fips,month,cases,deaths\n"
GOOD = HEADER + "B,01003,2021-06,731,2\nB,01003,2021-07,0,1\nA,01001,2021-06,12,0\nA,01001,2021-07,5,0\n"
PERSONS = "fips,county,pop_2010,pop_2021_estimate,pop_2020_base\n01001,A,1,40,3\n01003,B,4,50,6\n99999,C,0,0,0\n"


@pytest.fixture
def write(tmp_path):
    def _write(text, name="cases.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _write


def test_a_file_is_read_unchanged(write):
    table = read_epidemic(write(GOOD))
    assert table.county.values.tolist() == ["B", "A"]  # order of the file
    assert table.fips.values.tolist() == ["01003", "01001"]
    assert table.cases.values.tolist() == [[731, 0], [12, 5]]
    assert table.deaths.values.tolist() == [[2, 1], [0, 0]]  # a death in a month without a case
    assert table.cases.dtype == np.int64
    assert "population" not in table.coords


def test_columns_are_read_by_name_and_byte_order_marks_are_ignored(write):
    lines = [line.split(",") for line in GOOD.splitlines()]
    turned = "\r\n".join(",".join(line[::-1]) for line in lines)
    assert read_epidemic(write(b"\xef\xbb\xbf" + turned.encode())).equals(read_epidemic(write(GOOD)))


def test_the_latest_population_is_joined_by_fips_and_named(write):
    table = read_epidemic(write(GOOD), population=write(PERSONS, "persons.csv"))
    assert table.population.values.tolist() == [50, 40]
    assert table.population.attrs["column"] == "pop_2021_estimate"
    plain = PERSONS.replace("pop_2010", "population")
    assert read_epidemic(write(GOOD), population=write(plain, "p.csv")).population.values.tolist() == [4, 1]


def test_the_embedded_table_survives_the_trip_through_a_file(write):
    table = epidemic()
    rows = table[["cases", "deaths"]].to_dataframe().reset_index()
    again = read_epidemic(write(rows[["county", "fips", "month", "cases", "deaths"]].to_csv(index=False)))
    assert again.cases.equals(table.cases.drop_vars("population"))
    assert again.deaths.equals(table.deaths.drop_vars("population"))


BAD_FILES = {
    "empty": ("", LabelError, "no rows"),
    "header only": (HEADER, LabelError, "no rows"),
    "column missing": (GOOD.replace(",deaths", ",dead"), LabelError, "no column 'deaths'"),
    "column unknown": (HEADER.strip() + ",note\nA,01001,2021-06,1,0,x\n", LabelError, "column 'note'"),
    "column twice": (
        "county,fips,month,cases,cases\n" + "A,01001,2021-06,1,0\n",
        LabelError,
        "more than one column 'cases'",
    ),
    "short row": (GOOD + "A,01001,2021-08,731\n", LabelError, "line 6 has 4 fields"),
    "blank line": (GOOD + "\nA,01001,2021-08,731,0\n", LabelError, "line 6 has 0 fields"),
    "broken quotes": (GOOD + '"A"x,01001,2021-08,731,0\n', LabelError, "line 6 is not valid CSV"),
    "latin-1": (GOOD.replace("A,", "Ä,").encode("latin-1"), LabelError, "not UTF-8"),
    "blank county": (
        GOOD.replace("A,01001,2021-07", ",01001,2021-07"),
        LabelError,
        "line 5, column 'county'",
    ),
    "padded county": (
        GOOD.replace("A,01001,2021-07", "A ,01001,2021-07"),
        LabelError,
        "'A ' is blank, or begins or ends with a blank",
    ),
    "fips without zero": (
        GOOD.replace("01001", "1001"),
        LabelError,
        "line 4, column 'fips': '1001'.*leading zeros",
    ),
    "fips as a float": (GOOD.replace("01001", "1001.0"), LabelError, "column 'fips'"),
    "two fips": (
        GOOD.replace("A,01001,2021-07", "A,01005,2021-07"),
        LabelError,
        "line 5: county 'A' has fips 01005 here and 01001",
    ),
    "shared fips": (GOOD.replace("01001", "01003"), LabelError, "fips 01003 belongs to both 'B' and 'A'"),
    "month as a date": (GOOD.replace("2021-07", "2021-07-01"), LabelError, "line 3, column 'month'"),
    "month 13": (GOOD.replace("2021-07", "2021-13"), LabelError, "column 'month': '2021-13'"),
    "row twice": (
        GOOD + "A,01001,2021-07,731,0\n",
        LabelError,
        "line 6: county 'A', month 2021-07 is on line 5",
    ),
    "row missing": (
        GOOD.replace("B,01003,2021-07,0,1\n", ""),
        LabelError,
        "county 'B' has no row for month 2021-07",
    ),
    "blank count": (GOOD.replace(",731,", ",,"), CountError, r"line 2, column 'cases' \(fips 01003\).*blank"),
    "blanks": (GOOD.replace(",731,", ", ,"), CountError, "blank"),
    "padded count": (GOOD.replace(",731,", ", 731,"), CountError, "digits only"),
    "negative": (GOOD.replace(",731,", ",-731,"), CountError, "line 2, column 'cases'.*negative"),
    "fractional": (GOOD.replace(",731,", ",731.5,"), CountError, "decimal point"),
    "float": (GOOD.replace(",731,", ",731.0,"), CountError, "decimal point"),
    "thousands": (GOOD.replace(",731,", ',"1,731",'), CountError, "digits only"),
    "nan": (GOOD.replace(",731,", ",nan,"), CountError, "digits only"),
    "exponent": (GOOD.replace(",731,", ",731e1,"), CountError, "digits only"),
    "other digits": (GOOD.replace(",731,", ",\u0667\u0663\u0661,"), CountError, "digits only"),
    "huge": (GOOD.replace(",731,", ",73100000000000000,"), CountError, r"exceeds 2\*\*53"),
    "leading zero": (GOOD.replace(",731,", ",0731,"), CountError, "digits only"),
    "bad deaths": (GOOD.replace("731,2", "731,x"), CountError, "line 2, column 'deaths'"),
    "swapped": (GOOD.replace("cases,deaths", "deaths,cases"), CountError, "swapped"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused_by_line_and_column_without_counts(case, write):
    text, error, message = BAD_FILES[case]
    with pytest.raises(error, match=message) as caught:
        read_epidemic(write(text))
    assert "731" not in str(caught.value)


BAD_POPULATIONS = {
    "no fips": (PERSONS.replace("fips", "code"), LabelError, "no column 'fips'"),
    "no population": (PERSONS.replace("pop_", "people_"), LabelError, "no column 'population'"),
    "two latest": (
        PERSONS.replace("pop_2020_base", "pop_2021_census"),
        LabelError,
        "pop_2021_estimate and pop_2021_census are equally recent",
    ),
    "county missing": (
        PERSONS.replace("01003", "01007"),
        LabelError,
        r"no row with fips 01003 \(county 'B'\)",
    ),
    "county twice": (PERSONS + "01003,B,4,50,6\n", LabelError, "line 5: fips 01003"),
    "nobody": (
        PERSONS.replace(",40,", ",0,"),
        CountError,
        "line 2, column 'pop_2021_estimate': fips 01001 has the population 0",
    ),
    "fractional": (PERSONS.replace(",40,", ",40.5,"), CountError, "line 2, column 'pop_2021_estimate'"),
}


@pytest.mark.parametrize("case", BAD_POPULATIONS)
def test_bad_populations_are_refused(case, write):
    text, error, message = BAD_POPULATIONS[case]
    with pytest.raises(error, match=message):
        read_epidemic(write(GOOD), population=write(text, "persons.csv"))


@pytest.mark.skipif("PPDINF_DATA" not in os.environ, reason="PPDINF_DATA names no folder of public tables")
def test_pennsylvania():
    folder = Path(os.environ["PPDINF_DATA"])
    table = read_epidemic(folder / "covid_pa_monthly.csv", population=folder / "pa_population.csv")
    assert dict(table.sizes) == {"county": 67, "month": 24}
    assert (int(table.cases.sum()), int(table.deaths.sum())) == (2_757_427, 43_220)
    assert table.population.attrs["column"] == "pop_2021_estimate"
    national = read_epidemic(folder / "covid_pa_monthly.csv", population=folder / "county_population_2020.csv")
    assert abs(float(national.population.sum() / table.population.sum()) - 1) < 0.01
