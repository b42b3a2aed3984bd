"""Demonstration files: a count before and after protection, or a refusal that states a remedy."""

import numpy as np
import pandas as pd
import pytest

from case_studies.county_census import run
from case_studies.county_census.demonstration_file import read_demonstration
from ppdinf.errors import CountError, LabelError

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
        ((HEADER, ROWS[0].replace("54566", "54566.0")), CountError, "line 2.*integers"),
        ((HEADER, ROWS[0], ROWS[1].replace("182265", '"182,265"')), CountError, "line 3, column 'h7v001_sf'.*digits"),
        ((HEADER, ROWS[0].replace("54566", "")), CountError, "line 2, column 'h7v001_dp'.*blank"),
        ((HEADER, ROWS[0].replace("54566", "-3")), CountError, "line 2, column 'h7v001_dp'.*negative"),
        ((HEADER, ROWS[0].replace("G0100010", "G01000100101")), LabelError, "line 2: 'G01000100101' is not the code"),
        ((HEADER, ROWS[0] + ",7"), LabelError, "line 2 has 8 fields, but the header has 7"),
        ((HEADER + ",gisjoin", *(row + ",x" for row in ROWS)), LabelError, "capital letters"),
    ],
)
def test_refusals(tmp_path, lines, error, message):
    with pytest.raises(error, match=message):
        read(tmp_path, *lines)


def test_byte_order_marks_and_line_ends_are_ignored(tmp_path):
    plain = read(tmp_path, HEADER, *ROWS)
    (tmp_path / "county.csv").write_bytes("\r\n".join(["\ufeff" + HEADER, *ROWS, ""]).encode())
    assert read_demonstration(tmp_path / "county.csv", "H7V001").equals(plain)
    (tmp_path / "county.csv").write_bytes(
        "\n".join([HEADER, ROWS[0].replace("Autauga", "Do\u00f1a Ana")]).encode("latin-1")
    )
    with pytest.raises(LabelError, match=r"county.csv is not UTF-8 text \(byte "):
        read_demonstration(tmp_path / "county.csv", "H7V001")


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


@pytest.mark.parametrize("part", [slice(None), slice(12, 24)], ids=["nation", "one state"])
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
    file.iloc[:1].to_csv(data / "nhgis_county.csv", index=False)
    with pytest.raises(LabelError, match="1 counties are in more than one demonstration file"):
        run.main(tmp_path / "study", quick=True)
    file.iloc[:1].assign(gisjoin="G7200010").to_csv(data / "nhgis_county.csv", index=False)
    with pytest.raises(LabelError, match=r"not in county_population_2010.csv: 72001"):
        run.main(tmp_path / "study", quick=True)
