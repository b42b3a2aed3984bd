"""``ppdinf counts``."""

import numpy as np
import pytest
from typer.testing import CliRunner

import ppdinf as ppd
from ppdinf.cli import app


@pytest.fixture
def table(tmp_path):
    counts = np.random.default_rng(1).poisson(2, 40)
    rows = "\n".join(f"s{k:02d},{count}" for k, count in enumerate(counts))
    path = tmp_path / "schools.csv"
    path.write_text(f"school,teachers\n{rows}\n")
    return path


def run(table, *more, output="out.ppd"):
    given = ["counts", str(table), "--count", "teachers", "--dims", "school", "--output", str(table.parent / output)]
    return CliRunner().invoke(app, [*given, *more])


def test_a_release(table):
    result = run(table, "--epsilon", "1", "--most", "9")
    assert result.exit_code == 0, result.output
    assert "counted in one of them and not in the other" in " ".join(result.output.split())
    release = ppd.read_release(table.parent / "out.ppd")
    assert release.table.max() <= 9
    assert release.guarantee.epsilon == 1


def test_refusals(table):
    assert run(table, "--epsilon", "1", "--most", "1").exit_code == 1
    assert not (table.parent / "out.ppd").exists()
    assert run(table, "--epsilon", "1", "--most", "1", "--top-code").exit_code == 0
    assert run(table, "--epsilon", "1", "--most", "1", "--top-code").exit_code == 1  # the file exists
    assert run(table, "--epsilon", "1", "--most", "0", output="other.ppd").exit_code == 1
    assert run(table, "--epsilon", "much", "--most", "9", output="other.ppd").exit_code == 1
    assert run(table, "--epsilon", "1", "--most", "9", "--constructor", "x", output="other.ppd").exit_code == 1


def test_within_a_session(table):
    """The second release would exceed the budget: nothing is drawn and nothing is written."""
    session = ppd.Session.open(table.parent / "schools.budget", epsilon="3/2")
    given = ["--epsilon", "1", "--most", "9", "--session", str(session.path)]
    result = run(table, *given)
    assert result.exit_code == 0, result.output
    assert "epsilon = 0.5 is left in schools.budget" in " ".join(result.output.split())
    refused = run(table, *given, output="again.ppd")
    assert refused.exit_code == 1
    assert "0.5 remaining" in refused.output
    assert not (table.parent / "again.ppd").exists()
    assert session.table()["mechanism"].tolist() == [ppd.counts.TwoStage.kind]
