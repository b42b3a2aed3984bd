"""The R script of the docs runs, or, where R is not installed, its commands and the columns that it reads exist."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.main import get_command
from typer.testing import CliRunner

import ppdinf as ppd
from ppdinf.cli import app

SCRIPT = Path(__file__).parents[1] / "docs" / "r" / "denoise.R"
PAGE = SCRIPT.parents[1] / "r.md"
DRAWS = "20"


def commands():
    """Return the arguments of every call of `ppdinf` in the script: pairs of a text and the name of an R variable."""
    calls = re.findall(r"\bppdinf\((\".*)\)$", SCRIPT.read_text(encoding="utf-8"), flags=re.M)
    arguments = re.compile(r'"([^"]+)"|(\w+)(?=[,)]|$)')
    return [arguments.findall(call.partition(", creates")[0]) for call in calls]


@pytest.fixture
def release(tmp_path):
    persons = np.array([9000, 1500, 4000, 800])
    coords = {"county": list("ABCD"), "population": ("county", persons)}
    table = xr.DataArray([30, 4, 12, 0], coords=coords, dims="county")
    public = ppd.invariants.total() & ppd.invariants.covariates("population")
    path = tmp_path / "cases.ppd"
    ppd.GeneralizedLaplace(public, epsilon="1/2").release(table).save(path)
    return path


def test_the_options_of_its_commands_exist():
    assert [words[0][0] for words in commands()] == ["check", "denoise", "infer"]
    for words in commands():
        known = {option for parameter in get_command(app).commands[words[0][0]].params for option in parameter.opts}
        assert {text for text, _ in words if text.startswith("--")} <= known


@pytest.mark.deep
@pytest.mark.interpreted
def test_the_script_runs(release, tmp_path):
    results = tmp_path / "results"
    if shutil.which("Rscript") and shutil.which("ppdinf"):
        run = subprocess.run(["Rscript", SCRIPT, release, results, DRAWS], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert "estimate" in run.stdout
        assert (results / "counts.png").stat().st_size > 1000
    else:
        results.mkdir()
        value = {
            "release": release,
            "counts_file": results / "counts.csv",
            "draws": DRAWS,
            "report": results / "report",
        }
        for words in commands():
            done = CliRunner().invoke(app, [text or str(value[name]) for text, name in words])
            assert done.exit_code in (0, 1), done.output
            assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    counts = pd.read_csv(results / "counts.csv")
    assert {"county", "estimate", "lower", "upper"} <= set(counts.columns)
    assert (counts["lower"] <= counts["upper"]).all()
    assert len(pd.read_csv(results / "report" / "posterior.csv")) == 4


LABELS = ["01", "1", "NA", "1e3", "1000"]
COUNTS = pd.DataFrame({"age group": LABELS, "released": list("12345"), "estimate": ["1.5", "2.5", "3.5", "4.5", "5.5"]})
COPY = """#!/bin/sh
case $1 in
denoise) cp estimates "$4" ;;
infer) mkdir -p "$6" && cp rates "$6/posterior.csv" ;;
esac
"""


def code(source):
    """Return R code that reads and joins the tables: the script, or the first blocks of the page."""
    if source == "script":
        return SCRIPT.read_text(encoding="utf-8")
    return "".join(re.findall(r"^```r\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)[:2])


def joined(text, folder):
    """Run R code that names its join `counts`, with a command that only copies its results; return rows and output."""
    public = ppd.invariants.total() & ppd.invariants.covariates("population")
    coords = {"age group": LABELS, "population": ("age group", np.arange(5) + 100)}
    table = xr.DataArray([1, 2, 3, 4, 5], coords=coords, dims="age group")
    ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=1)).save(folder / "cases.ppd")
    results = COUNTS[["age group", "estimate"]].assign(sd=1, lower=1, upper=9, margin_of_error=4)
    results.to_csv(folder / "estimates", index=False)
    pd.DataFrame({"age group": LABELS, "posterior_rate": [6.5, 7.5, 8.5, 9.5, np.nan]}).to_csv(
        folder / "rates", index=False
    )
    (folder / "ppdinf").write_text(COPY)
    (folder / "ppdinf").chmod(0o755)
    (folder / "run.R").write_text(f'{text}\nwrite.csv(counts, "joined.csv", row.names = FALSE)\n', encoding="utf-8")
    run = subprocess.run(
        ["Rscript", "run.R", "cases.ppd", "results"], cwd=folder, capture_output=True, text=True, check=True,
        env=os.environ | {"PATH": os.pathsep.join([str(folder), os.environ["PATH"]])},
    )  # fmt: skip
    rows = pd.read_csv(folder / "joined.csv", dtype=str, keep_default_na=False)
    rows.columns = rows.columns.str.replace(".", " ")
    return rows.filter(COUNTS.columns).sort_values("released", ignore_index=True), run.stdout


@pytest.mark.skipif(not shutil.which("Rscript"), reason="R is not installed")
@pytest.mark.parametrize("source", ["script", "page"])
def test_rows_are_joined_by_labels_as_they_are_written(source, tmp_path):
    rows, output = joined(code(source), tmp_path)
    pd.testing.assert_frame_equal(rows, COUNTS)
    assert source == "page" or re.search(r"^1 +01 +6\.5$", output, flags=re.M), output


@pytest.mark.skipif(not shutil.which("Rscript"), reason="R is not installed")
def test_a_join_by_numbers_is_wrong(tmp_path):
    """As numbers, "01" and "1" are one label, and 1e3 and 1000 are another."""
    right = code("page")
    wrong = right.replace('colClasses = "character", na.strings = character(), ', "")
    assert wrong != right
    assert len(joined(wrong, tmp_path)[0]) == 9  # two pairs are joined in four ways each
