"""Canaries: confidential cells, seeds, host, user and paths are in none of the curator's files and messages."""

import getpass
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ppdinf as ppd

CELLS = [70_123_457, 80_234_567, 90_345_679, 60_456_787, 50_567_891, 40_678_913]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "very-private-folder" / "cases.csv"
    path.parent.mkdir()
    rows = [
        f"{county},{sex},{count}"
        for (county, sex), count in zip(["af", "am", "bf", "bm", "cf", "cm"], CELLS, strict=True)
    ]
    path.write_text("county,sex,n\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def ran(folder, *arguments, code=0):
    """Run a command in a new process; return its output."""
    command = [sys.executable, "-c", "from ppdinf.cli import app; app()", *map(str, arguments)]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=None)
    assert found.returncode == code, found.stdout + found.stderr
    return found.stdout + found.stderr


def contents(folder):
    """All bytes of all files, also of the parts of archives."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.name, path.read_bytes()
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    yield from ((f"{path.name}/{name}", archive.read(name)) for name in archive.namelist())


def escaped(named, secrets):
    return [(name, secret) for name, data in named for secret in secrets if secret.encode() in data]


def spellings(count):
    return [str(count), f"{count:,}", f"{count:x}", f"{float(count):g}", f"{count}.0"]


def secrets_of(folder):
    cells = [text for count in CELLS for text in spellings(count)]
    user = getpass.getuser()
    return [
        *cells,
        socket.gethostname(),
        str(folder),
        "very-private-folder",
        str(Path.home()),
        f"/{user}/",
        f'"{user}"',
    ]


BASE = ["--count", "n", "--dims", "county,sex", "--epsilon", "1/100000"]


def curator(table, out):
    """The workflow of a department: plan, session, releases, refusals, signature, check; returns all output."""
    printed = [ran(out, "plan", table, "--count", "n", "--dims", "county,sex", "--epsilon", "1/4")]
    printed += [ran(out, "session", "begin", "cases.budget", "--epsilon", "1/50000")]
    release = ["release", table, *BASE, "--session", "cases.budget", "--output"]
    printed += [ran(out, *release, name) for name in ("one.ppd", "two.ppd")]
    printed += [ran(out, "--debug", *release, "three.ppd", code=1)]  # no budget left: with its traceback
    printed += [
        ran(out, "--debug", *release[:2], *BASE[:2], "--dims", "county", *BASE[4:], "--output", "x.ppd", code=1)
    ]
    printed += [ran(out, *release[:2], *BASE, "--labels", "sex:f", "--output", "x.ppd", code=1)]
    printed += [ran(out, "counts", table, *BASE[:4], "--epsilon", "1", "--most", "10", "--output", "x.ppd", code=1)]
    printed += [ran(out, "key", "new", "agency.key")]
    printed += [ran(out, "sign", "one.ppd", "--key", "agency.key", "--title", "Cases", "--period", "2024")]
    printed += [ran(out, "check", "one.ppd", "--key", "agency.key.pub"), ran(out, "session", "show", "cases.budget")]
    return printed


@pytest.mark.deep
def test_nothing_confidential_leaves_except_through_a_mechanism(table, tmp_path):
    """Noise of 100,000 persons: the probability that a released cell equals the confidential cell is 1 in 200,000."""
    out = tmp_path / "published"
    out.mkdir()
    printed = curator(table, out)
    assert sorted(p.name for p in out.iterdir() if not p.name.endswith(".lock")) == [
        "agency.key", "agency.key.pub", "cases.budget", "one.ppd", "one.ppd.sig", "two.ppd",
    ]  # fmt: skip
    secrets = secrets_of(tmp_path)
    said = [(f"printed {k}", text.encode()) for k, text in enumerate(printed)]
    cells = [secret for secret in secrets if any(secret in spellings(count) for count in CELLS)]
    assert escaped([*contents(out)], [*secrets, "seed"]) == []
    assert escaped(said, cells) == []


@pytest.mark.deep
def test_outputs_of_analysts_contain_nothing_about_the_machine(tmp_path, monkeypatch):
    """Reports, tables, figures, printed lines, tracebacks: no host, user, path, environment."""
    out = tmp_path / "very-private-folder"
    out.mkdir()
    monkeypatch.setenv("PASSWORD_OF_THE_DATABASE", "open sesame")
    public = ppd.invariants.total() & ppd.invariants.nonnegative()
    table = ppd.as_table([30, 4, 12, 0, 7], dims="county")
    ppd.GeneralizedLaplace(public, epsilon=1).release(table).save(out / "cases.ppd")
    few = ["--draws", "40", "--seed", "7"]
    printed = [
        ran(out, "infer", "cases.ppd", "--output", "report", "--chains", "2", "--cores", "1", *few, code=1),
        ran(out, "denoise", "cases.ppd", "--output", "cells.csv", "--report", "cells.html", *few, code=1),
        ran(out, "check", "cases.ppd"),
    ]
    assert {"report.html", "posterior.csv", "posterior.png"} <= {path.name for path in (out / "report").iterdir()}
    said = [(f"printed {k}", text.encode()) for k, text in enumerate(printed)]
    user = getpass.getuser()
    machine = [str(tmp_path), "very-private-folder", str(Path.home()), f"/{user}/", "open sesame"]
    machine += [host for host in [socket.gethostname()] if len(host) > 6]  # shorter ones are in any picture by chance
    assert escaped([*contents(out), *said], machine) == []
    (out / "report" / "more.html").write_text(f"<p>{out}</p>")
    assert escaped(contents(out), machine)


def test_the_scan_detects_leaks(table, tmp_path):
    """The control: a table without noise, a log with its path, an archive with both."""
    secrets = secrets_of(tmp_path)
    out = tmp_path / "published"
    out.mkdir()
    (out / "log.txt").write_text(f"read {table}\n")
    with zipfile.ZipFile(out / "a.ppd", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(table, "table.csv")
    found = escaped([*contents(out)], secrets)
    assert {name for name, _ in found} == {"log.txt", "a.ppd/table.csv"}
    assert len({secret for _, secret in found}) > len(CELLS)
