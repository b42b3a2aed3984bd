"""Demonstration files: a count before and after protection, or a refusal that states a remedy."""

import pytest

from case_studies.county_census.demonstration_file import read_demonstration
from ppdinf.errors import CountError, LabelError

HEADER = "GISJOIN,STATE,COUNTY,H7V001_sf,H7V001_dp,H72002_sf,H72002_dp"
ROWS = ["G01,Alabama,Autauga,54571,54566,1,2", "G02,Alabama,Baldwin,182265,182280,3,4"]


def read(tmp_path, *lines, count="H7V001"):
    path = tmp_path / "county.csv"
    path.write_text("\n".join(lines) + "\n")
    return read_demonstration(path, count)


def test_reads_both_counts(tmp_path):
    found = read(tmp_path, HEADER, *ROWS)
    assert found.summary.values.tolist() == [54571, 182265]
    assert found.protected.sel(county="G02").item() == 182280
    assert found.name.values.tolist() == ["Autauga", "Baldwin"]
    assert read(tmp_path, HEADER, *ROWS, count="H72002").protected.values.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        ((HEADER.replace("GISJOIN", "code"), *ROWS), LabelError, "no column 'gisjoin'"),
        ((HEADER.replace("H7V001_dp", "other"), *ROWS), LabelError, "must have both H7V001_sf and H7V001_dp"),
        ((HEADER, *ROWS, ROWS[0]), LabelError, "line 4: county 'G01' is in the file already"),
        ((HEADER, ROWS[0].replace("54566", "54566.0")), CountError, "line 2.*integers"),
        ((HEADER, ROWS[0], ROWS[1].replace("182265", '"182,265"')), CountError, "line 3, column 'h7v001_sf'.*digits"),
        ((HEADER, ROWS[0].replace("54566", "")), CountError, "line 2, column 'h7v001_dp'.*blank"),
        ((HEADER, ROWS[0].replace("54566", "-3")), CountError, "line 2, column 'h7v001_dp'.*negative"),
        ((HEADER, "GIS Join Match Code,State Name,County Name,Total,Total,a,b", *ROWS), CountError, "line 2, column"),
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
