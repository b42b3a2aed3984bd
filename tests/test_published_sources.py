"""Random tables in every form in which they are published: the statement that is read is the one that was written."""

import zipfile

import numpy as np
import pandas as pd
import pytest
from test_cli import run

import ppdinf as ppd
from ppdinf import read_published
from ppdinf.datasets import read_table
from ppdinf.errors import LabelError, PpdinfError

MONTHS = ["2021-01", "2021-02", "2021-03"]


def random_table(seed, least=0):
    """Counts by area and month, with names of places that have separators, quotes and umlauts."""
    rng = np.random.default_rng(seed)
    areas = rng.permutation(["Ash", "Birch, North", "Cedar; West", "Düne", 'Elm "old"', "007", "Fir|East"])[:4]
    counts = rng.negative_binomial(1, [[0.2], [0.02], [0.002], [0.0002]], (4, 3)) + least
    return pd.DataFrame(counts, pd.Index(areas, name="area"), pd.Index(MONTHS, name="month"))


def printed(table):
    """Texts of counts: S for 1 to 9."""
    return table.map(lambda n: "S" if 1 <= n <= 9 else str(n))


def states(seen, table):
    """Whether measurements state the counts of a table, and 1 to 9 for S, by label."""
    bounds = ppd.identified_bounds(seen)
    bounds.index = bounds.index.set_names(["area", "month"])
    expected = table.stack()
    low = expected.where(~expected.between(1, 9), 1)
    high = expected.where(~expected.between(1, 9), 9)
    found = bounds.loc[expected.index]
    return len(bounds) == len(expected) and bool(((found.lower == low) & (found.upper == high)).all())


class OtherFrame:
    """Columns by name, as frames of other packages have them."""

    def __init__(self, frame):
        self.columns = list(frame)
        self._frame = frame

    def __getitem__(self, name):
        return self._frame[name].to_numpy(object)


def long(table, rng):
    return printed(table).stack().rename("deaths").reset_index().sample(frac=1, random_state=rng)


def as_text(table, rng, folder):
    """A text file with a random delimiter, encoding, title, notes column, footer and separators of thousands."""
    delimiter, encoding = rng.choice([",", "\t", ";", "|"]), rng.choice(["utf-8", "utf-8-sig", "utf-16", "latin-1"])
    rows = long(table, rng)
    rows["deaths"] = [text if text == "S" else f"{int(text):,}" for text in rows["deaths"]]
    rows["Notes"] = ["", *["see below"] * 3, *[""] * (len(rows) - 4)]
    text = rows.to_csv(index=False, sep=delimiter)
    text = (
        rng.choice(["", "Deaths by area\n\n"])
        + text
        + rng.choice(["", "\nSource: an office\nCreated today\n", "---\nx\n"])
    )
    (folder / "t.csv").write_bytes(text.encode(encoding))
    return folder / "t.csv", {"value": "deaths"}


def as_wide_text(table, rng, folder):
    shown = printed(table)
    text = (
        shown.reset_index().to_csv(index=False)
        if rng.random() < 0.5
        else "Title\n" + shown.to_csv() + "\nNote: a note\n"
    )
    (folder / "t.csv").write_text(text, encoding="utf-8")
    return folder / "t.csv", {}


def grouped_rows(table):
    """A title, a header of years over months with merged cells, rows and a source."""
    shown = printed(table)
    header = [["Deaths", "", "", ""], ["", "2021", "", "2022"], ["Area", "January", "February", "January"]]
    rows = [[area, *(int(t) if t.isdigit() else t for t in texts)] for area, *texts in shown.itertuples()]
    return [*header, *rows, ["Source: an office", "", "", ""]]


def as_merged_header(table, rng, folder):
    pd.DataFrame(grouped_rows(table)).to_csv(folder / "t.csv", index=False, header=False)
    return folder / "t.csv", {"wide": "month"}


def as_spreadsheet(table, rng, folder):
    return spreadsheet(folder / "t.xlsx", grouped_rows(table)), {"wide": "month"}


def as_frame(table, rng, folder):
    frame = long(table, rng)
    frame["deaths"] = [text if text == "S" else rng.choice([int, float])(text) for text in frame["deaths"]]
    forms = [frame, frame.set_index(["area", "month"]), OtherFrame(frame.astype(object)), frame.astype("category")]
    return forms[rng.integers(4)], {}


def as_pivot(table, rng, folder):
    return printed(table), {}


def as_line_list(table, rng, folder):
    people = table.stack().reset_index(name="n")
    people = people.loc[people.index.repeat(people["n"]), ["area", "month"]].sample(frac=1, random_state=rng)
    people.insert(0, "person", np.arange(len(people)))
    people.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv", {"count_rows": True}


FORMS = [as_text, as_wide_text, as_merged_header, as_spreadsheet, as_frame, as_pivot, as_line_list]


@pytest.mark.parametrize("form", FORMS)
def test_random_tables_are_read_as_they_were_written(form, tmp_path):
    if form is as_spreadsheet:
        pytest.importorskip("python_calamine")
    for seed in range(6):
        is_list = form is as_line_list
        table = random_table(seed, least=10 * is_list).clip(upper=40 if is_list else None)
        source, options = form(table, np.random.default_rng(seed), tmp_path)
        understood = []
        seen = read_published(source, rule="suppressed(1, 9)", explain=understood.append, **options)
        if form in (as_merged_header, as_spreadsheet):
            months = pd.Index(["2021 January", "2021 February", "2022 January"], name="month")
            table = table.set_axis(months, axis=1)
        assert states(seen, table), (seed, str(understood[0]))
        table.iloc[0, 0] += 10  # the comparison finds a wrong count
        assert not states(seen, table)


def spreadsheet(path, rows, names=("Table 1",)):
    """Write a minimal spreadsheet: each sheet has the same rows of texts and numbers."""
    main, rels = "http://schemas.openxmlformats.org/", "http://schemas.openxmlformats.org/package/2006/relationships"
    kind = main + "officeDocument/2006/relationships"

    def cell(value):
        text = str(value).replace("&", "&amp;").replace("<", "&lt;")
        return f"<c><v>{text}</v></c>" if isinstance(value, int) else f'<c t="inlineStr"><is><t>{text}</t></is></c>'

    cells = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    listed = list(enumerate(names, start=1))
    sheets = "".join(f'<sheet name="{name}" sheetId="{k}" r:id="r{k}"/>' for k, name in listed)
    links = "".join(
        f'<Relationship Id="r{k}" Type="{kind}/worksheet" Target="worksheets/s{k}.xml"/>' for k, _ in listed
    )
    root = f'<Relationship Id="r1" Type="{kind}/officeDocument" Target="xl/workbook.xml"/>'
    spaces = f'xmlns="{main}spreadsheetml/2006/main" xmlns:r="{kind}"'
    sheet = f"<worksheet {spaces}><sheetData>{cells}</sheetData></worksheet>"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("[Content_Types].xml", f'<Types xmlns="{main}package/2006/content-types"/>')
        file.writestr("_rels/.rels", f'<Relationships xmlns="{rels}">{root}</Relationships>')
        file.writestr("xl/workbook.xml", f"<workbook {spaces}><sheets>{sheets}</sheets></workbook>")
        file.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{rels}">{links}</Relationships>')
        for k, _ in listed:
            file.writestr(f"xl/worksheets/s{k}.xml", sheet)
    return path


def test_sheets_are_named_and_confidential_spreadsheets_are_read(tmp_path):
    pytest.importorskip("python_calamine")
    rows = [["area", "deaths"], ["007", 12], ["Birch", 14]]
    file = spreadsheet(tmp_path / "t.xlsx", rows, ("2020", "2021"))
    with pytest.raises(LabelError, match="has the sheets 2020, 2021: state one by --sheet NAME"):
        read_published(file)
    assert read_published(file, sheet="2021").coords["area"].tolist() == ["007", "Birch"]
    one = spreadsheet(tmp_path / "one.xlsx", rows)
    one = one.rename(tmp_path / "one.csv")  # the content decides, not the suffix
    assert read_table(one, count="deaths", dims=["area"]).values.tolist() == [12, 14]


def test_the_statement_that_is_read_needs_no_options(tmp_path):
    table = random_table(3)
    file, _ = as_text(table, np.random.default_rng(1), tmp_path)
    out, counts = tmp_path / "t.ppd", tmp_path / "counts.csv"
    text = run("read", file, "--suppressed", "1-9", "--value", "deaths", "--output", out)
    assert "Wrote t.ppd. Wrote t.cells.csv" in " ".join(text.split())
    for statement in (out, tmp_path / "t.cells.csv"):
        run("denoise", statement, "--draws", 40, "--output", counts, code=None)
        assert len(pd.read_csv(counts)) == 12
    assert states(read_published(tmp_path / "t.cells.csv"), table)


REFUSED = {
    "an empty file": (b" \n", {}, "has no rows"),
    "only a header": (b"a,n\n", {}, "has no rows"),
    "a picture": (b"\x89PNG\0\0", {}, "is not a text file or spreadsheet"),
    "an archive": (b"PK\x03\x04", {}, "is not a readable spreadsheet|install ppdinf"),
    "a line list": (b"person,a,b\n1,x,u\n2,x,u\n3,y,v\n", {}, "Rows repeat their labels: if .*--count-rows"),
    "two columns of counts": (b"a,fed,clad\nx,3,4\ny,5,6\n", {}, "--wide month .*: fed, clad"),
    "mixed years": (b"year,n\n2018,3\n2019,4\n2015-2019,20\n", {}, "'2015-2019' of 'year' overlaps '2018'"),
    "a mark in a wide table": (b"a,2018,2019\nx,3,4\ny,?,6\n", {}, "line 3, column '2018': '\\?' is not an integer"),
    "overlapping years": (b"year,n\n2014-2018,3\n2015-2019,4\n", {}, "'2014-2018' of 'year' overlaps '2015-2019'"),
    "a document": (b"%PDF-1.4\n1,2\n", {}, "t.csv is a PDF document: save it as CSV"),
    "a page as a spreadsheet": (b"\xef\xbb\xbf <html><table>", {}, "is HTML or XML: save it as CSV"),
    "records": (b'[{"a": "x", "n": 3}]', {}, "is JSON: save it as CSV"),
    "a mark that a note explains": (
        b"a,n\nx,10\ny,*\n\nNote: * means zero\n", {"rule": "suppressed(1, 9)"},
        "'\\*' has two meanings, 1 to 9 by the rule, and 0 by a note: Line 5",
    ),
    "a mark beside a number": (
        b"a,flag,n\nx,S,120\ny,,3\n", {"rule": "suppressed(1, 9)"}, "line 2, column 'n': '120' is printed, but another",
    ),
    "a mark with two rules": (b"a,n\nx,*\n", {"rule": "suppressed(1, 9) then marked({'*': '0'})"}, "two meanings"),
    "a count that the rule hides": (b"a,n\nx,3\n", {"rule": "nhs-hes"}, "line 2, column 'n': '3' is impossible"),
    "a blank label": (b"a,b,n\nA,f,1\n,m,2\nB,f,3\nB,m,4\n", {}, "line 3, column 'a': the label is blank, and no"),
    "blank labels of repeated blocks": (b"a,b,n\nA,f,1\n,m,2\nA,f,3\n,m,4\n", {}, "line 3, column 'a': the label is b"),
    "the same column twice": (b"a,n,n\nx,3,4\ny,5,6\n", {}, "--value .*: n, n \\(2\\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_files_are_refused_with_the_way_out(case, tmp_path):
    text, options, message = REFUSED[case]
    (tmp_path / "t.csv").write_bytes(text)
    with pytest.raises(PpdinfError, match=message):
        read_published(tmp_path / "t.csv", **options)


@pytest.mark.parametrize("levels", [2, 3])
def test_merged_labels_are_filled_down_or_refused(levels, tmp_path):
    """Outer labels in the first row of each block only; in the reverse order they are not blocks."""
    names = ["state", "county", "sex"][-levels:]
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = [(f"s{i}", f"c{i}{j}", sex) for i in range(3) for j in range(rng.integers(1, 4)) for sex in "fm"]
        full = pd.DataFrame([row[-levels:] for row in rows], columns=names).assign(n=rng.integers(0, 99, len(rows)))
        merged = full.copy()
        for k, name in enumerate(names[:-1]):
            merged[name] = full[name].where(~full.duplicated(names[: k + 1]), "")
        understood = []
        seen = read_published(merged, value="n", explain=understood.append)
        assert seen.equals(read_published(full, value="n"))
        assert "Merged labels, filled down: " in str(understood[0])
        with pytest.raises(LabelError, match="the label is blank"):
            read_published(merged.iloc[::-1], value="n", dims=names)


def test_lost_zeros_and_other_periods_are_named(tmp_path):
    """Labels are joined as text: 1001 is not 01001. School years share one year and do not overlap."""
    understood, sums = [], tmp_path / "s.csv"
    table = pd.DataFrame(
        {"fips": ["1001", "1001", "42001", "42001"], "sex": [*"fmfm"], "n": [3, 4, 5, 6], "year": 2019}
    )
    read_published(table, value="n", explain=understood.append)
    assert "Codes of 'fips' such as '1001' seem to lack a leading zero" in str(understood[0])
    sums.write_text("fips,n\n01001,7\n42001,11\n")
    with pytest.raises(LabelError, match=r"no label '01001' of 'fips', but '1001': one file lost leading zeros\. Save"):
        read_published(table, value="n", public=[sums])
    sums.write_text("sex,year,n\nf,2020,8\nm,2020,10\n")
    with pytest.raises(
        LabelError, match=r"s\.csv: 'year' is '2020', but '2019' in the table: state sums of one period"
    ):
        read_published(table, value="n", public=[sums])
    for periods in (["2018-19", "2019-20", "2020-21"], ["2000-10", "2000-11", "2000-12"]):
        assert read_published(pd.DataFrame({"year": periods, "n": [3, 4, 9]}), value="n").shape == (3,)


def test_infer_names_the_command_for_tables_and_measurements(tmp_path):
    (tmp_path / "t.csv").write_text("a,n\nx,3\ny,12\n")
    run("read", tmp_path / "t.csv", "--output", tmp_path / "t.ppd")
    for arguments in (["t.csv"], ["t.csv", "--rule", "cdc-wonder"], ["t.ppd"]):
        text = run("infer", tmp_path / arguments[0], *arguments[1:], "--output", tmp_path / "out", code=1)
        assert f"infer reads releases. ppdinf denoise {arguments[0]} estimates the counts" in " ".join(text.split())
