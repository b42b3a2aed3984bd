import numpy as np
import pytest

from ppdinf.datasets import read_table
from ppdinf.errors import CountError, LabelError

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


def test_rows_can_have_any_order_if_all_exist(read):
    lines = GOOD.splitlines()
    assert read("\n".join([lines[0], *lines[:0:-1]])).sel(county="B", sex="f") == 731


def test_byte_order_marks_and_line_ends_are_ignored(read):
    assert read(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()).equals(read())


def test_coordinates_keep_the_dimensions_they_need(read):
    table = read(coordinates=["persons", "state", "share"])
    assert table.persons.dims == ("county", "sex")
    assert table.persons.dtype == np.int64
    assert table.state.dims == table.share.dims == ("county",)
    assert table.share.values.tolist() == ["0.5", "1"]  # not integers: unchanged text


def test_codes_with_leading_zeros_remain_text(read):
    table = read("fips,n,zip\n01001,1,02134\n01003,2,02135\n", dims=["fips"], coordinates=["zip"])
    assert table.fips.values.tolist() == ["01001", "01003"]
    assert table.zip.values.tolist() == ["02134", "02135"]


def test_a_constant_coordinate_is_on_the_first_dimension(read):
    table = read(GOOD.replace(",x,", ",y,"), coordinates=["state"])
    assert table.state.dims == ("county",)


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


def test_rows_of_totals_are_refused(read):
    with pytest.raises(LabelError, match="'county' has the label 'Total' among others"):
        read(GOOD + "Total,f,733,120,x,1\nTotal,m,5,140,x,1\n")


def test_declared_labels_give_the_order_and_zeros(read):
    table = read(labels={"county": ["A", "B", "C"]})
    assert table.county.values.tolist() == ["A", "B", "C"]
    assert table.values.tolist() == [[2, 5], [731, 0], [0, 0]]
    with pytest.raises(LabelError, match="'county' has the label 'B', which is not among"):
        read(labels={"county": ["A", "C"]})
