"""All functions that write files, on a full or read-only disk: one type of error, and no partial file."""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import ppdinf as ppd
from case_studies._shared.study import Study
from ppdinf.cli import app
from ppdinf.errors import LabelError, PrivacyError, ReleaseFileError, SessionError, SignatureError, WriteError
from ppdinf.releases.signatures import new_key, sign

TOTAL = ppd.invariants.total()
LAPLACE = ppd.GeneralizedLaplace(TOTAL, epsilon=1)
RELEASE = LAPLACE.release(ppd.as_table(np.array([30, 4, 12]), dims=("county",)))
SEEN = ppd.Measurements(
    {"county": ["A", "B"]}, ppd.measured(ppd.invariants.margin("county"), [5, 3], ppd.laws.DoubleGeometric(1))
)
SIGNING = pytest.mark.skipif(not find_spec("cryptography"), reason="an optional package")


@pytest.fixture(scope="module")
def posterior():
    return ppd.denoise(SEEN, draws=20, rng=1, progressbar=False)


def signed(path):
    RELEASE.save(path.with_name("released"))
    new_key(path.with_name("key"))
    return lambda: sign(path.with_name("released"), path.with_name("key"), title="Cases", period="2024")


def begun(path):
    session = ppd.Session.open(path, epsilon=2)
    return lambda: session.release(LAPLACE, [3, 1, 2])


def studied(path):
    study = Study("Coins", path.with_name("study"), about="", settings={})
    return lambda: study.write(progress=False)


WRITERS = {
    "release": lambda path, _: lambda: RELEASE.save(path),
    "release over another": lambda path, _: RELEASE.save(path) or (lambda: RELEASE.save(path, overwrite=True)),
    "measurements": lambda path, _: lambda: SEEN.save(path),
    "summary": lambda path, posterior: lambda: posterior.save(path.with_suffix(".csv")),
    "page": lambda path, posterior: lambda: posterior.report(path),
    "new session": lambda path, _: lambda: ppd.Session.open(path, epsilon=1),
    "session": lambda path, _: begun(path),
    "study": lambda path, _: studied(path),
    "key": lambda path, _: lambda: new_key(path),
    "signature": lambda path, _: signed(path),
}
EACH = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SIGNING if name in ("key", "signature") else ()) for name in WRITERS]
)


def contents(folder):
    """Names and bytes of all files; locks are empty and remain."""
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"}


FULL = OSError(28, "No space left on device")
READ_ONLY = OSError(30, "Read-only file system")


@EACH
@pytest.mark.parametrize("step", ["fsync", "replace", "open"])
def test_full_and_read_only_disks(name, step, tmp_path, monkeypatch, posterior):
    write = WRITERS[name](tmp_path / "result", posterior)
    before = contents(tmp_path)
    broken = fail(FULL if step == "fsync" else READ_ONLY)
    if step == "open":
        opened, os_opened = Path.open, os.open
        monkeypatch.setattr(Path, "open", lambda path, mode="r", *a, **k: (
            broken() if set(mode) & set("wxa+") else opened(path, mode, *a, **k)))  # fmt: skip
        monkeypatch.setattr(os, "open", lambda path, flags, *a, **k: (
            broken() if flags & (os.O_WRONLY | os.O_RDWR) else os_opened(path, flags, *a, **k)))  # fmt: skip
    else:
        monkeypatch.setattr(*((os, step) if step == "fsync" else (Path, step)), broken)
        if step == "replace":
            monkeypatch.setattr(os, "link", broken)
    if name == "session" and step == "replace":
        return  # a line is added in place
    with pytest.raises(WriteError, match="could not be written, and no part of it remains"):
        write()
    monkeypatch.undo()
    assert contents(tmp_path) == before


def fail(error):
    def failing(*_, **__):
        raise error

    return failing


@EACH
def test_no_folder(name, tmp_path, posterior):
    """Missing, or a file instead of a folder."""
    if name in ("release over another", "session", "signature"):
        return
    (tmp_path / "file").write_bytes(b"")
    for place in ("file/result", *([] if name == "study" else ["none/result"])):
        with pytest.raises(WriteError):
            WRITERS[name](tmp_path / place, posterior)()
    assert contents(tmp_path) == {"file": b""}
    assert not (tmp_path / "none").exists()


@SIGNING
def test_no_half_pair_of_keys_remains(tmp_path, monkeypatch):
    fsync, left = os.fsync, [2, 1]  # file and folder of the private key, then the public one

    def full(handle):
        if not left:
            raise FULL
        left.pop()
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError):
        new_key(tmp_path / "agency.key")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("command", ["release", "counts", "denoise", "infer", "plan", "session", "key", "reproduce"])
def test_commands_fail_in_one_line_before_privacy_is_spent(command, tmp_path):
    if command == "key" and not find_spec("cryptography"):
        pytest.skip("an optional package")
    table, release, budget = tmp_path / "t.csv", tmp_path / "r.ppd", tmp_path / "b.budget"
    table.write_text("county,n\nA,3\nB,1\nC,2\n")
    RELEASE.save(release)
    session = ppd.Session.open(budget, epsilon=4)
    (tmp_path / "file").write_bytes(b"")
    base = [table, "--count", "n", "--dims", "county", "--epsilon", "1", "--session", budget]
    for place in (
        tmp_path / "file" / "result.csv",
        *([] if command in ("infer", "reproduce") else [tmp_path / "none" / "r.csv"]),
    ):
        arguments = {
            "release": ["release", *base, "--output", place],
            "counts": ["counts", *base, "--most", "9", "--output", place],
            "denoise": ["denoise", release, "--draws", "10", "--output", place],
            "infer": ["infer", release, "--output", place],
            "plan": ["plan", "--shape", "county=3", "--epsilon", "1", "--figure", place.with_suffix(".png")],
            "session": ["session", "begin", place, "--epsilon", "1"],
            "key": ["key", "new", place],
            "reproduce": ["reproduce", "bias", "--output", place],
        }[command]  # fmt: skip
        before = contents(tmp_path)
        found = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"}).invoke(app, ["--debug", *map(str, arguments)])
        assert isinstance(found.exception, WriteError), (found.output, found.exception)
        assert contents(tmp_path) == before
    assert session.left == session.budget.total
    assert not (tmp_path / "none").exists()


NO_PATHS = ["a\0b", "\ud800", 3, None, b"a"]
WITH_PATHS = {
    "release": (WriteError, RELEASE.save),
    "measurements": (WriteError, SEEN.save),
    "read a release": (ReleaseFileError, ppd.read_release),
    "read measurements": (ReleaseFileError, ppd.read_measurements),
    "session": (SessionError, ppd.Session.open),
    "new session": (SessionError, lambda path: ppd.Session.open(path, epsilon=1)),
    "key": (SignatureError, new_key),
    "study": (WriteError, lambda path: Study("Coins", path, about="", settings={})),
}


@pytest.mark.parametrize("path", NO_PATHS, ids=ascii)
@pytest.mark.parametrize("what", WITH_PATHS)
def test_what_is_no_path_is_refused(what, path):
    error, use = WITH_PATHS[what]
    with pytest.raises(error, match="path"):
        use(path)


def test_summaries_have_paths(posterior):
    for path in NO_PATHS:
        with pytest.raises(WriteError, match="path"):
            posterior.save(path)


def test_draws_that_memory_cannot_hold_are_refused(monkeypatch):
    for draws in (10**12, 10**30):
        with pytest.raises(PrivacyError, match=r"at most 2,863,311,530 for 3 cells"):
            LAPLACE.simulate(np.array([30, 4, 12]), draws=draws)

    def full(*arguments):
        raise MemoryError

    monkeypatch.setattr(type(LAPLACE), "checked_draw", full)
    with pytest.raises(PrivacyError, match="memory cannot hold"):
        LAPLACE.simulate(np.array([30, 4, 12]), draws=10**9)


def test_labels_that_files_cannot_hold_are_refused_in_mappings():
    for key in ("\ud800", ("\ud800",), "a\0"):
        with pytest.raises(LabelError, match="no text file can hold"):
            ppd.Measurements(
                {"county": ["A", "B"]},
                ppd.measured(ppd.invariants.margin("county"), {key: 5, "B": 3}, ppd.laws.DoubleGeometric(1)),
            )
