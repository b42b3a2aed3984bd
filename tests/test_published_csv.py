"""Published tables in CSV files: readers, `ppdinf denoise` and `ppdinf audit`."""

import numpy as np
import pandas as pd
import pytest
from test_cli import run

import ppdinf as ppd
from ppdinf import read_published
from ppdinf.errors import CountError, InvariantError, LabelError, PpdinfError

COUNTIES, MONTHS = ["Ash", "Birch", "Cedar"], ["May", "June"]
TRUE = np.array([[4, 12], [31, 0], [7, 3]])
REGION = {"Ash": "north", "Birch": "north", "Cedar": "south"}
TABLE = ["--value", "n", "--dims", "county,month"]


@pytest.fixture
def write(tmp_path):
    """A function that writes a file with labels and values."""

    def _write(name, values, columns=("county", "month"), extra=None):
        levels = {"county": COUNTIES, "month": MONTHS, "region": ["north", "south"]}
        index = pd.MultiIndex.from_product([levels[c] for c in columns], names=columns) if columns else None
        frame = pd.DataFrame({"n": np.ravel(values)}, index).reset_index(drop=not columns)
        if extra:
            frame["region"] = frame.county.map(REGION)
        frame.to_csv(tmp_path / name, index=False)
        return tmp_path / name

    return _write


def suppressed(x):
    return np.where((x > 0) & (x < 10), "1-9", x.astype(str))


def test_ranges_with_margins_are_denoised_and_audited(write, tmp_path):
    by_county, by_month = write("counties.csv", TRUE.sum(1), ["county"]), write("months.csv", TRUE.sum(0), ["month"])
    file, out = write("deaths.csv", suppressed(TRUE)), tmp_path / "out.csv"
    public = ["--public", by_county, "--public", by_month]
    text = run("denoise", file, *TABLE, *public, "--draws", 200, "--output", out)
    assert "Wrote out.csv: 6 rows" in text
    found = pd.read_csv(out).set_index(["county", "month"])
    np.testing.assert_array_equal(found.estimate, TRUE.ravel())
    text = run("audit", file, *TABLE, *public, "--output", out, code=1)
    assert "3 cells are not published, but determined" in text
    found = pd.read_csv(out).set_index(["county", "month"])
    assert found.index[found.disclosed].tolist() == [("Ash", "May"), ("Cedar", "May"), ("Cedar", "June")]
    np.testing.assert_array_equal(found.lower, TRUE.ravel())
    assert "No cell that is not published is determined" in run("audit", file, *TABLE)


def test_a_folder_as_output_is_refused_before_the_audit(tmp_path, monkeypatch):
    file = tmp_path / "cells.csv"
    file.write_text("a,n\nx,1\ny,2\n")
    monkeypatch.setattr(ppd, "identified_bounds", lambda *_, **__: pytest.fail("the audit has begun"))
    assert "folder" in run("audit", file, "--value", "n", "--output", tmp_path, code=1)


def test_marks_and_rounding_and_regions(write, tmp_path):
    """Nearest 5 with separately rounded regions, marks for counts below 6."""
    shown = np.where(TRUE < 6, "S", (5 * ((TRUE + 2) // 5)).astype(str))
    file = write("rounded.csv", shown, extra=True)
    regions = write("regions.csv", [45, 10], ["region"])
    options = ["--coords", "region", "--rounded", 5, "--suppressed", "<6", "--sums", regions]
    out = tmp_path / "bounds.csv"
    assert "have more than one possible count" in run("audit", file, *TABLE, *options, "--output", out)
    found = pd.read_csv(out)
    assert (found.lower <= TRUE.ravel()).all()
    assert (found.upper >= TRUE.ravel()).all()
    assert found.upper.tolist() == [5, 12, 32, 5, 7, 5]
    rule = ppd.rules.rounded(5).then(ppd.rules.suppressed(0, 5))
    seen = read_published(file, value="n", dims=["county", "month"], coords=["region"], rule=rule, sums=[regions])
    np.testing.assert_array_equal(ppd.identified_bounds(seen).upper, found.upper)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("options", "law"),
    [
        (["--noise", "geometric:1/4"], ppd.laws.DoubleGeometric("1/4")),
        (["--noise", "geometric:1/4", "--clipped", 0], ppd.laws.Clipped(ppd.laws.DoubleGeometric("1/4"), at=0)),
        (["--noise", "laplace:2.5"], ppd.laws.Laplace(2.5)),
        (["--noise", "gaussian:2.5"], ppd.laws.Gaussian(2.5)),
        (["--noise", "discrete-gaussian:2"], ppd.laws.DiscreteGaussian(2.0)),
        (["--rounded", "random:3"], ppd.laws.RandomRounding(3)),
        (["--rounded", "3"], ppd.laws.Rounded(3)),
        (["--rounded", "down:3"], ppd.laws.Rounded(3, "down")),
    ],
)
def test_options_name_laws(options, law, write, tmp_path):
    values = np.array([[3.0, 12], [30, 0], [9, 3]])
    if "laplace" in str(options) or "--noise gaussian" in " ".join(map(str, options)):
        values = values + 0.37
    file, public = write("n.csv", values if values[0, 0] != 3 else values.astype(int)), write("total.csv", [57], ())
    out, again = tmp_path / "out.csv", tmp_path / "again.csv"
    seen = read_published(file, value="n", dims=["county", "month"], rule=law, public=[public])
    denoised = ppd.denoise(seen, 20, rng=1, progressbar=False)
    denoised.save(again)
    code = 1 if denoised.problems else 0  # 20 draws are too few, unless every count is determined
    run("denoise", file, *TABLE, *options, "--public", public, "--draws", 20, "--output", out, code=code)
    assert out.read_text() == again.read_text()


@pytest.mark.parametrize(("text", "error", "message"), [
    ("county,month,n\nA,x,3\nA,y,4\nB,x,5\n", LabelError, "no row for county=B, month=y"),
    ("county,month,n\nA,x,3\nA,x,4\n", LabelError, "line 3: county=A, month=x is on line 2 already$"),
    ("county,month,n\nA,x,1\n ,y,2\n", LabelError, "t.csv line 3, column 'county': the label is blank"),
    ("county,month,n\nA,x,3\nA,y,1-\n", CountError, "line 3, column 'n'"),
    ("county,month,n\nA,x,3\nA,y,S\n", CountError, "line 3, column 'n': .*--suppressed 1-4"),
    ("county,month,k\nA,x,3\n", LabelError, "no column 'n'; it has county, month, k$"),
    ("county;month;n\nA;x;3,5\n", CountError,
     "line 2, column 'n': '3,5' is not an integer.* decimals .* are not counts$"),
    ("county\tmonth\tn\nA\tx\t3\nA\t2\n", LabelError, "line 3 has 2 fields, but the header has 3$"),
    ("county,month,n\nA,x,GE95\n", CountError, "line 2, column 'n': 'GE95' is a percentage"),
])  # fmt: skip
def test_errors_name_the_line(text, error, message, tmp_path):
    file = tmp_path / "t.csv"
    file.write_text(text)
    with pytest.raises(error, match=message):
        read_published(file, value="n", dims=["county", "month"])


def test_messages_of_commands_name_options_and_rows(tmp_path):
    file, out = tmp_path / "n.csv", tmp_path / "out.csv"
    options = ["--value", "n", "--dims", "county"]
    file.write_text("county,n\nA,5\nB,-2\nC,4\n")
    for command in (["audit", file], ["denoise", file, "--output", out]):
        assert "line 3, column 'n': '-2' is impossible for every count" in run(*command, *options, code=1)
    file.write_text("county,n\nA,50\nB,30\n")
    few = ["denoise", file, *options, "--noise", "geometric:1/4", "--draws", 10, "--output", out]
    assert "draw more by --draws 40 (draws=40)" in run(*few, code=1)
    file.write_text("county,n\nA,<5\nB,30\n")
    (tmp_path / "total.csv").write_text("n\n33\n")
    text = run("audit", file, *options, "--public", tmp_path / "total.csv", code=1)
    assert "2 cells; 0 have more than one possible count." in text
    assert "1 cell is not published, but determined" in text
    assert "2 cells; 1 has more than one possible count." in run("audit", file, *options)


def test_sums_of_other_labels_and_contradictions_are_refused(write, tmp_path):
    file, other = write("n.csv", TRUE), tmp_path / "other.csv"
    other.write_text("county,n\nDale,3\n")
    with pytest.raises(LabelError, match="line 2: the table has no label 'Dale' of 'county'"):
        read_published(file, value="n", dims=["county", "month"], public=[other])
    other.write_text("county,n\nAsh,3\nBirch,4\nCedar,5\n")
    with pytest.raises(InvariantError):
        read_published(file, value="n", dims=["county", "month"], public=[other])


def test_columns_that_are_not_declared_as_coordinates_are_named(tmp_path):
    """Totals of states in a table of counties: without --coords, with --dims state, and correctly."""
    cells, states = tmp_path / "counties.csv", tmp_path / "states.csv"
    cells.write_text("state,county,n\nX,A,1-9\nX,B,4\nY,C,1-9\n")
    states.write_text("state,n\nX,9\nY,7\n")
    options = ["audit", cells, "--value", "n", "--public", states]
    text = run(*options, "--dims", "county", code=1)
    assert (
        "states.csv line 3: the total is on line 2 already. Not declared as a dimension or coordinate: 'state'" in text
    )
    assert "--coords" in text
    text = run(*options, "--dims", "state,county", code=1)
    assert "counties.csv has no row for state=X, county=C: " in text
    assert "If 'state' depends on 'county', it is not a dimension: declare it by --coords state" in text
    assert "determined county A 5" in run(*options, "--dims", "county", "--coords", "state", code=1)


def test_options_that_do_not_fit_are_refused(write):
    file = write("n.csv", TRUE)
    for options, words in (
        (["--value", "m"], "has no column 'm'"),
        ([*TABLE, "--clipped", 0], "--clipped needs --noise"),
        ([*TABLE, "--noise", "normal:3"], "must be geometric:EPSILON"),
        ([*TABLE, "--rounded", "2.5"], "needs a positive integer"),
        ([*TABLE, "--rounded", "2"], "ties of the even base 2 need a rule"),
        ([*TABLE, "--rounded", "off:2"], "the rule must be ties-up"),
        ([*TABLE, "--rounded", "5", "--noise", "laplace:1"], "exclude each other"),
    ):
        assert words in run("audit", file, *options, code=1)
    assert issubclass(LabelError, PpdinfError)


@pytest.mark.quick_cases(0)
def test_files_by_the_package_are_denoised(tmp_path):
    """Releases of fixed seed, because the exit code depends on the checks of the chains; and measurements."""
    inv, out, page, stated = ppd.invariants, tmp_path / "out.csv", tmp_path / "page.html", tmp_path / "seen.ppd"
    table = ppd.as_table(np.array([[12, 0], [31, 4]]), dims=("county", "sex"))
    mechanism, files = ppd.GeneralizedLaplace(inv.total(), epsilon=1), [tmp_path / "0.ppd", tmp_path / "1.ppd"]
    for file, noisy in zip(files, mechanism.simulate(table, draws=2, rng=1), strict=True):
        ppd.Release(noisy, mechanism).save(file)
    run("denoise", *files, "--output", out, "--by", "county", "--draws", "400")
    assert pd.read_csv(out).estimate.sum() == pytest.approx(47)
    seen = ppd.Measurements(
        {"a": ["A", "B"], "b": ["f", "m"]},
        ppd.measured(inv.margin("a", "b"), [[4, 1], [1, 2]], ppd.laws.DiscreteGaussian(2)),
        public={inv.total(): 7},
    )
    seen.save(stated)
    run("denoise", stated, "--output", out, "--draws", "1600", "--report", page)
    expected = ppd.denoise(seen, draws=1600, rng=1, progressbar=False).summary()
    assert np.allclose(pd.read_csv(out)["estimate"], expected["estimate"])
    text = page.read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 1
    assert "7 (total)" in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "noisy sums" in run("check", stated)
    assert "ppd.read_measurements" in run("denoise", stated, files[0], "--output", out, code=1)


def test_a_rule_is_a_text_and_impossible_texts_name_the_line(tmp_path):
    (tmp_path / "t.csv").write_text("a,of,n\nx,8,10\ny,9,*\n")
    options = {"value": "n", "dims": ["a"]}
    seen = read_published(tmp_path / "t.csv", rule="rounded(5) then suppressed(1, 7)", **options)
    assert ppd.identified_bounds(seen).upper.tolist() == [12, 7]
    for text, rule, of, message in (
        ("33%", None, "of", "line 2, column 'n': no count of 8"),
        ("33.4", None, None, "line 2, column 'n'"),
        ("3", "nhs-hes", None, "line 2, column 'n': '3' is impossible"),
    ):
        (tmp_path / "t.csv").write_text(f"a,of,n\nx,8,{text}\ny,9,0\n")
        with pytest.raises(CountError, match=message):
            read_published(tmp_path / "t.csv", rule=rule, of=of, **options)


WONDER = """"Notes"\t"County"\t"County Code"\t"Year"\tDeaths\tCrude Rate
\t"Ash County, ZZ"\t"99001"\t"2019"\tSuppressed\tSuppressed
\t"Ash County, ZZ"\t"99001"\t"2020"\t14\tUnreliable
"Total"\t"Ash County, ZZ"\t"99001"\t\t18\tUnreliable
\t"Birch County, ZZ"\t"99003"\t"2019"\t31\t60.8
\t"Birch County, ZZ"\t"99003"\t"2020"\tSuppressed\tSuppressed
"Total"\t"Birch County, ZZ"\t"99003"\t\t38\t37.2
"Total"\t\t\t\t56\t45.6
"---"
"Dataset: Underlying Cause of Death"
"---"
"Caveats: see the help page."
"""
PRINTED = {
    "flags": ("area_fips,disclosure_code,emp\n01001,,120\n01003,N,0\n",
              {"value": "emp", "dims": ["area_fips"], "rule": "qcew"}, [120, 0], [120, np.inf]),
    "absent rows that are zero": ("Provider,Diagnosis,FAE\nRAA,A00,1245\nRAA,B01,*\nRBB,A00,15\n",
                                  {"value": "FAE", "dims": ["Provider", "Diagnosis"], "rule": "nhs-hes"},
                                  [1243, 1, 13, 0], [1247, 7, 17, 0]),
    "percentages": ("LEAID,VALID,PCT\n01,41,GE95\n02,8,LT50\n03,60,60-64\n04,3,PS\n",
                    {"value": "PCT", "dims": ["LEAID"], "rule": "edfacts", "of": "VALID"}, [39, 0, 36, 0],
                    [41, 3, 38, 3]),
    "ranges of employment and noise flags": ("naics,empflag,emp_nf,emp\n11,,G,120\n21,B,D,0\n31,,H,310\n",
                                             {"value": "emp", "dims": ["naics"], "rule": "cbp"}, [118, 20, 296],
                                             [122, 99, 326]),
    "labels in the header": (
        '"An office"\n\n,"Male","Female","Total"\n"Area 1",12,S,16\n"Area 2",S,38,41\n"Total",15,42,57\n\n"Notes"\n',
        {"wide": "sex", "rule": "suppressed(1, 9)"}, [12, 4, 3, 38], [12, 4, 3, 38],
    ),
    "negative marks": ("pk,week,sum\n1,a,140\n1,b,-999999\n",
                       {"value": "sum", "dims": ["pk", "week"], "rule": "hhs-facilities"}, [140, 1], [140, 3]),
    "titles and notes": (
        'Counts by county\n"All sites, 2016-2020"\n\nCounty,FIPS,Count\n"Ash, ZZ",99001,112\nBirch,99003,3 or fewer\n\n'
        'Notes:\n"Created by a site."\n',
        {"value": "Count", "dims": ["County"], "rule": "state-cancer-profiles"}, [558, 0], [562, 15],
    ),
    "two header rows": (
        "GEO_ID,NAME,B01E,B01M\nGeography,Area Name,Estimate!!Total,Margin of Error\nUS01,A,26,29\nUS02,B,0,12\n",
        {"value": "B01E", "dims": ["GEO_ID"], "rule": ppd.rules.noisy(ppd.laws.Sampled(13))}, [2, 0], [np.inf, np.inf],
    ),
    "Latin-1": ("Kreis;Geschlecht;Anzahl\nL\u00f6rrach;m;1 234\nL\u00f6rrach;w;x\n",
                {"value": "Anzahl", "dims": ["Kreis", "Geschlecht"], "rule": "unknown('x')"}, [1234, 0],
                [1234, np.inf]),
    "totals of two dimensions": (
        "age,sex,n\n0,f,12\n0,m,S\n0,Total,16\n1,f,S\n1,m,10\n1,Total,13\nTotal,f,15\nTotal,m,14\nTotal,Total,29\n",
        {"value": "n", "dims": ["age", "sex"], "rule": "suppressed(1, 9)"}, [12, 4, 3, 10], [12, 4, 3, 10],
    ),
    "totals by their numbers and codes": (
        "fips,n\n01000,310\n01001,120\n01003,147\n01005,43\n02000,92\n02013,17\n02016,33\n02020,42\n",
        {"value": "n", "dims": ["fips"]}, [120, 147, 43, 17, 33, 42], [120, 147, 43, 17, 33, 42],
    ),
    "randomly rounded totals": ("Area,Group,n\nA1,X,3\nA1,Y,S\nA2,X,12\nA2,Y,9\nTotal,X,15\nTotal,Y,12\n",
                                {"value": "n", "dims": ["Area", "Group"], "rule": "stats-nz", "totals": "published"},
                                [1, 0, 10, 7], [5, 5, 14, 11]),
    "sums of printed numbers": ("Area,n\nA,5\nB,10\nTotal,15\n",
                                {"value": "n", "dims": ["Area"], "rule": "rounded(5)", "totals": "drop"}, [3, 8],
                                [7, 12]),
}  # fmt: skip


@pytest.mark.parametrize("name", PRINTED)
def test_files_are_read_as_they_are(name, tmp_path):
    """No cell is edited; the bounds follow from the rule by hand."""
    text, options, lower, upper = PRINTED[name]
    (tmp_path / "t.csv").write_bytes(text.encode("latin-1"))
    bounds = ppd.identified_bounds(read_published(tmp_path / "t.csv", **options))
    if name not in ("percentages", "absent rows that are zero"):
        plain = {key: given for key, given in options.items() if key not in ("value", "dims")}
        assert ppd.identified_bounds(read_published(tmp_path / "t.csv", **plain)).upper.tolist() == upper
    assert bounds.lower.tolist() == lower
    assert bounds.upper.tolist() == upper


def test_reading_is_explained(tmp_path):
    file, out = tmp_path / "deaths.txt", tmp_path / "deaths.ppd"
    file.write_text(WONDER)
    text = " ".join(run("read", file, "--rule", "cdc-wonder", "--output", out).split())
    for words in (
        "4 cells by County (2), Year (2); published values: 'Deaths'. Zeros: 0. Marks and ranges: 2.",
        "'Suppressed' (2): 1-9. Total: 'Total' of 2 labels of 'County'.", "Line 9 is not a row of the table: '---'.",
        "Counts from 1 to 9 are suppressed.", "Wrote deaths.ppd. Wrote deaths.cells.csv",
    ):  # fmt: skip
        assert words in text
    file.write_text("a,of,p\nx,8,87.5%\ny,41,>95%\n")
    assert "2 cells; 1 has more" in run("audit", file, "--value", "p", "--percent-of", "of")
    text = run("audit", out, code=1)
    assert "2 cells are not published, but determined" in text
    bounds = ppd.identified_bounds(ppd.read_measurements(out))
    assert bounds.lower.tolist() == bounds.upper.tolist() == [4, 14, 31, 7]


@pytest.mark.parametrize(("rule", "totals", "number", "error", "message"), [
    ("rounded(5)", None, 35, LabelError, "'Total' of 'a' is a total of inexact numbers: state by --totals"),
    ("rounded(5)", "published", 45, InvariantError, "line 4: the total '45' contradicts its cells, whose sum is 26-34"),
    (None, None, 31, InvariantError, "line 4: the total '31' contradicts its cells, whose sum is 30"),
    ("rounded(5)", "exact", 33, None, None),
])  # fmt: skip
def test_totals_and_their_law(rule, totals, number, error, message, tmp_path):
    (tmp_path / "t.csv").write_text(f"a,n\nx,10\ny,20\nTotal,{number}\n")
    options = {"value": "n", "dims": ["a"], "rule": rule, "totals": totals}
    if error is None:
        bounds = ppd.identified_bounds(read_published(tmp_path / "t.csv", **options))
        assert bounds.lower.tolist() == [11, 21]
    else:
        with pytest.raises(error, match=message):
            read_published(tmp_path / "t.csv", **options)
