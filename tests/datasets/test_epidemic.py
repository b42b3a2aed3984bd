"""The simulated epidemic, and files of monthly cases and deaths: read unchanged, or refused by line and column."""

import os
from pathlib import Path

import numpy as np
import pytest

from ppdinf.datasets import epidemic, read_epidemic, simulate_epidemic
from ppdinf.errors import CountError, LabelError
from ppdinf.tables.table import as_table


def test_the_embedded_table_has_the_documented_shape_and_types():
    table = epidemic()
    assert dict(table.sizes) == {"county": 67, "month": 24}
    assert table.month.values.tolist()[:2] == ["2020-03", "2020-04"]
    assert table.month.values[-1] == "2022-02"
    assert table.cases.dtype == table.deaths.dtype == table.population.dtype == np.int64
    assert len(set(table.county.values)) == len(set(table.fips.values)) == 67
    assert all(len(code) == 5 and code.isdigit() for code in table.fips.values)
    as_table(table.cases)


def test_sizes_are_those_of_a_state():
    table = epidemic()
    assert 4_000 < table.population.min() < 6_000
    assert 1.3e6 < table.population.max() < 1.7e6
    quiet, peak = table.cases.sel(month="2021-07"), table.cases.sel(month="2022-01")
    assert 2_000 < quiet.sum() < 30_000
    assert peak.sum() > 10 * quiet.sum()
    assert (quiet < 30).sum() >= 10  # the small counts that noise hurts
    assert 0.002 < table.deaths.sum() / table.cases.sum() < 0.05


def test_cumulative_deaths_do_not_exceed_cases():
    table = simulate_epidemic(rng=3)
    assert (table.deaths.cumsum("month") <= table.cases.cumsum("month")).all()


def test_one_seed_gives_one_table_and_callers_cannot_spoil_the_next():
    first = epidemic()
    first["cases"][:] = 0
    assert epidemic().equals(simulate_epidemic(rng=2020))
    assert not simulate_epidemic(rng=1).equals(simulate_epidemic(rng=2))


@pytest.mark.parametrize("month", ["2020-04", "2020-11", "2021-08"])
def test_counts_are_overdispersed_and_autocorrelated(month):
    table = epidemic()
    rate = table.cases / table.population
    cases = table.cases.sel(month=month)
    expected = rate.sel(month=month).median() * table.population
    assert ((cases - expected) ** 2 / expected).mean() > 5
    before = rate.sel(month=table.month.values[table.month.values.tolist().index(month) - 1])
    assert np.corrcoef(np.log(rate.sel(month=month) + 1e-5), np.log(before + 1e-5))[0, 1] > 0.3


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
    "column missing": (GOOD.replace(",deaths", ",dead"), LabelError, "no column 'deaths'"),
    "column unknown": (HEADER.strip() + ",note\nA,01001,2021-06,1,0,x\n", LabelError, "column 'note'"),
    "blank county": (GOOD.replace("A,01001,2021-07", ",01001,2021-07"), LabelError, "line 5, column 'county'"),
    "padded county": (GOOD.replace("A,01001,2021-07", "A ,01001,2021-07"), LabelError, "'A ' is blank, or begins or"),
    "fips without zero": (GOOD.replace("01001", "1001"), LabelError, "line 4, column 'fips': '1001'.*leading zeros"),
    "fips as a float": (GOOD.replace("01001", "1001.0"), LabelError, "column 'fips'"),
    "two fips": (
        GOOD.replace("A,01001,2021-07", "A,01005,2021-07"),
        LabelError,
        "line 5: county 'A' has fips 01005 here and 01001",
    ),
    "shared fips": (GOOD.replace("01001", "01003"), LabelError, "fips 01003 belongs to both 'B' and 'A'"),
    "month as a date": (GOOD.replace("2021-07", "2021-07-01"), LabelError, "line 3, column 'month'"),
    "month 13": (GOOD.replace("2021-07", "2021-13"), LabelError, "column 'month': '2021-13'"),
    "row twice": (GOOD + "A,01001,2021-07,731,0\n", LabelError, "line 6: county=A, month=2021-07 is on line 5"),
    "row missing": (GOOD.replace("B,01003,2021-07,0,1\n", ""), LabelError, "no row for county=B, month=2021-07"),
    "bad cases": (
        GOOD.replace(",731,", ",731.0,"),
        CountError,
        "line 2, column 'cases': the count has a decimal",
    ),
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
    "county twice": (PERSONS + "01003,B,4,50,6\n", LabelError, "line 5: fips=01003 is on line 3"),
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
