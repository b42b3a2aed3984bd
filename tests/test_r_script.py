"""The R script of the docs runs, or, where R is not installed, its commands and the columns that it reads exist."""

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
