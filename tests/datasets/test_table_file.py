"""Files of tables and of monthly cases and deaths: read unchanged, or refused by line and column."""

import os
from pathlib import Path

import numpy as np
import pytest

from ppdinf.datasets import epidemic, read_epidemic, read_table, simulate_epidemic
from ppdinf.errors import CountError, LabelError
from ppdinf.tables.table import as_table

GOOD = "county,sex,n,persons,state,share\nB,f,731,50,x,0.5\nB,m,0,60,x,0.5\nA,f,2,70,y,1\nA,m,5,80,y,1\n"


@pytest.fixture
def read(tmp_path):
    def _read(text=GOOD, count="n", dims=("county", "sex"), coordinates=(), labels=None):
        path = tmp_path / "table.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_table(path, count=count, dims=dims, coordinates=coordinates, labels=labels)

    return _read


def test_rows_become_cells_in_order_of_appearance(read):
    table = read()
    assert table.dims == ("county", "sex")
    assert table.county.values.tolist() == ["B", "A"]
    assert table.values.tolist() == [[731, 0], [2, 5]]
    assert table.dtype == np.int64


def test_order_of_rows_byte_order_marks_and_line_ends_are_ignored(read):
    lines = GOOD.splitlines()
    assert read("\n".join([lines[0], *lines[:0:-1]])).sel(county="B", sex="f") == 731
    assert read(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()).equals(read())


def test_coordinates_keep_the_dimensions_they_need(read):
    table = read(coordinates=["persons", "state", "share"])
    assert table.persons.dims == ("county", "sex")
    assert table.persons.dtype == np.int64
    assert table.state.dims == table.share.dims == ("county",)
    assert table.share.values.tolist() == ["0.5", "1"]  # not integers: unchanged text
    constant = read(GOOD.replace(",x,", ",y,"), coordinates=["state"])
    assert constant.state.dims == ("county",)  # the first dimension


def test_codes_with_leading_zeros_remain_text(read):
    table = read("fips,n,zip\n01001,1,02134\n01003,2,02135\n", dims=["fips"], coordinates=["zip"])
    assert table.fips.values.tolist() == ["01001", "01003"]
    assert table.zip.values.tolist() == ["02134", "02135"]


BAD = {
    "count column": ({"count": "cases"}, LabelError, "no column 'cases'; it has county, sex"),
    "dim column": ({"dims": ["county", "age"]}, LabelError, "no column 'age'"),
    "coordinate column": ({"coordinates": ["people"]}, LabelError, "no column 'people'"),
    "two roles": ({"coordinates": ["n"]}, LabelError, "'n' is named for more than one purpose"),
    "cell twice": ({"dims": ["county"]}, LabelError, "line 3: county=B is on line 2 already"),
    "cell absent": ({"text": GOOD.replace("A,m,5,80,y,1\n", "")}, LabelError, "no row for county=A, sex=m"),
    "blank label": ({"text": GOOD.replace("A,m", "A, ")}, LabelError, "line 5, column 'sex': the label is blank"),
    "empty": ({"text": ""}, LabelError, "no rows"),
    "header only": ({"text": GOOD.split("\n")[0] + "\n"}, LabelError, "no rows"),
    "column twice": ({"text": GOOD.replace("share", "state")}, LabelError, "more than one column 'state'"),
    "short row": ({"text": GOOD + "C,f,731,50,x\n"}, LabelError, "line 6 has 5 fields, but the header has 6"),
    "blank line": ({"text": GOOD + "\nC,f,731,50,x,1\n"}, LabelError, "line 6 has 0 fields"),
    "broken quotes": ({"text": GOOD + '"C"x,f,731,50,x,1\n'}, LabelError, "line 6 is not valid CSV"),
    "rows of totals": (
        {"text": GOOD + "Total,f,733,120,x,1\nTotal,m,5,140,x,1\n"},
        LabelError, "'county' has the label 'Total' among others",
    ),
    "latin-1": ({"text": GOOD.replace("A,", "Ä,").encode("latin-1")}, LabelError, r"not UTF-8 text \(byte "),
} | {
    f"count {text!r}": ({"text": GOOD.replace(",731,", f",{text},")}, CountError, f"line 2, column 'n': .*{fault}")
    for text, fault in (
        ("", "blank"), (" ", "blank"), (" 731", "digits only"), ("-731", "negative"), ("731.5", "decimal point"),
        ("731.0", "decimal point"), ('"7,310"', "digits only"), ("nan", "digits only"), ("731e1", "digits only"),
        ("\u0667\u0663\u0661", "digits only"), ("73100000000000000", r"exceeds 2\*\*53"), ("0731", "digits only"),
    )
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_without_showing_a_count(case, read):
    arguments, error, message = BAD[case]
    with pytest.raises(error, match=message) as caught:
        read(**arguments)
    assert "731" not in str(caught.value)


def test_declared_labels_give_the_order_and_zeros(read):
    table = read(labels={"county": ["A", "B", "C"]})
    assert table.county.values.tolist() == ["A", "B", "C"]
    assert table.values.tolist() == [[2, 5], [731, 0], [0, 0]]
    with pytest.raises(LabelError, match="'county' has the label 'B', which is not among"):
        read(labels={"county": ["A", "C"]})


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
MONTHS = HEADER + "B,01003,2021-06,731,2\nB,01003,2021-07,0,1\nA,01001,2021-06,12,0\nA,01001,2021-07,5,0\n"
PERSONS = "fips,county,pop_2010,pop_2021_estimate,pop_2020_base\n01001,A,1,40,3\n01003,B,4,50,6\n99999,C,0,0,0\n"


@pytest.fixture
def write(tmp_path):
    def _write(text, name="cases.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _write


def test_a_file_is_read_unchanged(write):
    table = read_epidemic(write(MONTHS))
    assert table.county.values.tolist() == ["B", "A"]  # order of the file
    assert table.fips.values.tolist() == ["01003", "01001"]
    assert table.cases.values.tolist() == [[731, 0], [12, 5]]
    assert table.deaths.values.tolist() == [[2, 1], [0, 0]]  # a death in a month without a case
    assert table.cases.dtype == np.int64
    assert "population" not in table.coords


def test_columns_are_read_by_name_and_byte_order_marks_are_ignored(write):
    lines = [line.split(",") for line in MONTHS.splitlines()]
    turned = "\r\n".join(",".join(line[::-1]) for line in lines)
    assert read_epidemic(write(b"\xef\xbb\xbf" + turned.encode())).equals(read_epidemic(write(MONTHS)))


def test_the_latest_population_is_joined_by_fips_and_named(write):
    table = read_epidemic(write(MONTHS), population=write(PERSONS, "persons.csv"))
    assert table.population.values.tolist() == [50, 40]
    assert table.population.attrs["column"] == "pop_2021_estimate"
    plain = PERSONS.replace("pop_2010", "population")
    assert read_epidemic(write(MONTHS), population=write(plain, "p.csv")).population.values.tolist() == [4, 1]


def test_the_embedded_table_survives_the_trip_through_a_file(write):
    table = epidemic()
    rows = table[["cases", "deaths"]].to_dataframe().reset_index()
    again = read_epidemic(write(rows[["county", "fips", "month", "cases", "deaths"]].to_csv(index=False)))
    assert again.cases.equals(table.cases.drop_vars("population"))
    assert again.deaths.equals(table.deaths.drop_vars("population"))


BAD_FILES = {
    "column missing": (MONTHS.replace(",deaths", ",dead"), LabelError, "no column 'deaths'"),
    "column unknown": (HEADER.strip() + ",note\nA,01001,2021-06,1,0,x\n", LabelError, "column 'note'"),
    "blank county": (MONTHS.replace("A,01001,2021-07", ",01001,2021-07"), LabelError, "line 5, column 'county'"),
    "padded county": (MONTHS.replace("A,01001,2021-07", "A ,01001,2021-07"), LabelError, "'A ' is blank, or begins or"),
    "fips without zero": (MONTHS.replace("01001", "1001"), LabelError, "line 4, column 'fips': '1001'.*leading zeros"),
    "fips as a float": (MONTHS.replace("01001", "1001.0"), LabelError, "column 'fips'"),
    "two fips": (
        MONTHS.replace("A,01001,2021-07", "A,01005,2021-07"),
        LabelError,
        "line 5: county 'A' has fips 01005 here and 01001",
    ),
    "shared fips": (MONTHS.replace("01001", "01003"), LabelError, "fips 01003 belongs to both 'B' and 'A'"),
    "month as a date": (MONTHS.replace("2021-07", "2021-07-01"), LabelError, "line 3, column 'month'"),
    "month 13": (MONTHS.replace("2021-07", "2021-13"), LabelError, "column 'month': '2021-13'"),
    "row twice": (MONTHS + "A,01001,2021-07,731,0\n", LabelError, "line 6: county=A, month=2021-07 is on line 5"),
    "row missing": (MONTHS.replace("B,01003,2021-07,0,1\n", ""), LabelError, "no row for county=B, month=2021-07"),
    "bad cases": (MONTHS.replace(",731,", ",731.0,"), CountError, "line 2, column 'cases': the count has a decimal"),
    "bad deaths": (MONTHS.replace("731,2", "731,x"), CountError, "line 2, column 'deaths'"),
    "swapped": (MONTHS.replace("cases,deaths", "deaths,cases"), CountError, "swapped"),
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
    "two latest": (PERSONS.replace("pop_2020_base", "pop_2021_census"), LabelError,
                   "pop_2021_estimate and pop_2021_census are equally recent"),
    "county missing": (PERSONS.replace("01003", "01007"), LabelError, r"no row with fips 01003 \(county 'B'\)"),
    "county twice": (PERSONS + "01003,B,4,50,6\n", LabelError, "line 5: fips=01003 is on line 3"),
    "nobody": (PERSONS.replace(",40,", ",0,"), CountError,
               "line 2, column 'pop_2021_estimate': fips 01001 has the population 0"),
    "fractional": (PERSONS.replace(",40,", ",40.5,"), CountError, "line 2, column 'pop_2021_estimate'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_POPULATIONS)
def test_bad_populations_are_refused(case, write):
    text, error, message = BAD_POPULATIONS[case]
    with pytest.raises(error, match=message):
        read_epidemic(write(MONTHS), population=write(text, "persons.csv"))


@pytest.mark.skipif("PPDINF_DATA" not in os.environ, reason="PPDINF_DATA names no folder of public tables")
def test_pennsylvania():
    folder = Path(os.environ["PPDINF_DATA"])
    table = read_epidemic(folder / "covid_pa_monthly.csv", population=folder / "pa_population.csv")
    assert dict(table.sizes) == {"county": 67, "month": 24}
    assert (int(table.cases.sum()), int(table.deaths.sum())) == (2_757_427, 43_220)
    assert table.population.attrs["column"] == "pop_2021_estimate"
    national = read_epidemic(folder / "covid_pa_monthly.csv", population=folder / "county_population_2020.csv")
    assert abs(float(national.population.sum() / table.population.sum()) - 1) < 0.01
