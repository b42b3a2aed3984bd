"""The year of releases in docs/sessions.md, starting in an empty folder: every command unchanged."""

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ppdinf as ppd
from ppdinf.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "sessions.md").read_text(encoding="utf-8")
RECORD = r"""ppdinf() { printf '%s\0' "$@" >> calls; printf '\n' >> calls; }"""


def commands(script, folder):
    """Arguments of each command in a shell script."""
    subprocess.run(["bash", "-euc", f"{RECORD}\n{script}"], cwd=folder, check=True)
    calls = (folder / "calls").read_text(encoding="utf-8").split("\n")
    (folder / "calls").unlink()
    return [call.rstrip("\0").split("\0") for call in calls if call]


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("bash") is None, reason="commands of a shell")
def test_a_year_from_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    year = PAGE.partition("in an empty folder")[2].partition("\n## ")[0]
    said = {}
    for kind, block in re.findall(r"^```(python|bash)\n(.*?)^```", year, flags=re.M | re.S):
        if kind == "python":
            exec(compile(block, "sessions.md", "exec"), {})
            continue
        for call in commands(block, tmp_path):
            if {"key", "sign", "--key"} & set(call) and not find_spec("cryptography"):
                continue
            found = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, call)
            assert found.exit_code in (0, 1 if call[0] == "denoise" else 0), found.output  # whose chains can disagree
            said[" ".join(call[:2])] = " ".join(found.output.split())
    assert "requires epsilon = 5/27." in said["plan cases-2024-01.csv"]
    shown = said["session show"]
    assert "65/27 (about 2.40741) spent, 0 remaining" in shown
    assert "One person can lose at most epsilon = 130/27 (about 4.81481)" in shown
    assert shown.count("drawn") == 13
    assert "0 is left in cases-2024.budget" in said["release cases-2024-10.csv"]
    session = ppd.Session.open("cases-2024.budget")
    with pytest.raises(ppd.errors.BudgetError, match="0 remaining"):
        session.release(ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon="1/1000"), [3, 1])
    assert len(list(tmp_path.glob("*.ppd"))) == 13
    assert (tmp_path / "cases-2024-01-denoised.csv").exists()
