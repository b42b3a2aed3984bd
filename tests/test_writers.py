"""Files are written completely or not at all: kills, races, full or read-only disks, for all functions."""

import ast
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import ppdinf as ppd
from case_studies._shared.study import Study
from ppdinf._internal.atomic_files import write_atomically
from ppdinf.cli import app
from ppdinf.errors import LabelError, PrivacyError, ReleaseFileError, SessionError, SignatureError, WriteError
from ppdinf.releases.signatures import new_key, sign

PACKAGE = Path(ppd.__file__).parent
SIZE = 400_000
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and permissions of POSIX")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_new_old_and_links(tmp_path):
    path, link = tmp_path / ("long name " * 30)[:255], tmp_path / "link"
    write_atomically(path, b"one", overwrite=False)
    with pytest.raises(FileExistsError):
        write_atomically(path, b"two", overwrite=False)
    assert path.read_bytes() == b"one"
    path.chmod(0o640)
    link.symlink_to(path)
    write_atomically(link, "zwölf\r\n")
    assert path.read_bytes() == "zwölf\r\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert link.is_symlink()
    with pytest.raises(FileExistsError):
        write_atomically(link, b"three", overwrite=False)
    write_atomically(tmp_path / "new", b"")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~umask()
    assert names(tmp_path) == sorted([path.name, "link", "new"])


def umask():
    found = os.umask(0)
    os.umask(found)
    return found


@POSIX
@pytest.mark.parametrize("overwrite", [True, False])
def test_failed_writes_raise_one_error_and_leave_no_file(tmp_path, overwrite):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = names(tmp_path)
    for wrong in ("none/a.csv", "file/a.csv", "x" * 256, *(["folder", "pipe"] if overwrite else [])):
        with pytest.raises(WriteError, match="could not be written, and no part of it remains"):
            write_atomically(tmp_path / wrong, b"new", overwrite=overwrite)
    with pytest.raises(WriteError):
        write_atomically("/dev/null" if overwrite else "/proc/new", b"new", overwrite=overwrite)
    assert Path("/dev/null").is_char_device()
    assert names(tmp_path) == before


@POSIX
@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_write_protected_folders_and_files(tmp_path):
    folder, file = tmp_path / "closed", tmp_path / "kept.csv"
    folder.mkdir()
    folder.chmod(0o555)
    file.write_bytes(b"old")
    file.chmod(0o444)
    for path in (folder / "a.csv", file):
        with pytest.raises(WriteError):
            write_atomically(path, b"new")
    assert (names(folder), file.read_bytes()) == ([], b"old")


@POSIX
def test_a_full_disk_leaves_the_old_file(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    code = """
import resource
from ppdinf._internal.atomic_files import write_atomically
from ppdinf.errors import WriteError
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000,) * 2)  # as on a disk that is full half-way
for name, overwrite in [("old", True), ("new", False)]:
    try:
        write_atomically(name, bytes(100_000), overwrite=overwrite)
    except WriteError as error:
        print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert [line.split(" could")[0] for line in said.splitlines()] == ["[Errno 27] old", "[Errno 27] new"]
    assert (tmp_path / "old").read_bytes() == b"old"
    assert names(tmp_path) == ["old"]


@pytest.mark.parametrize("failing", [["fsync"], ["link"], ["replace"], ["link", "replace"]], ids="-".join)
def test_failures_of_every_step_lose_and_leave_nothing(tmp_path, monkeypatch, failing):
    path = tmp_path / "a.csv"
    path.write_bytes(b"old")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    for step in failing:
        monkeypatch.setattr(Path if step == "replace" else os, step, full)
    for name, overwrite in [("a.csv", True), ("b.csv", False)]:
        try:
            write_atomically(tmp_path / name, b"new", overwrite=overwrite)
        except WriteError as error:
            assert error.errno == 28  # noqa: PT017
            assert not (tmp_path / "b.csv").exists()
            assert path.read_bytes() == b"old"
        else:
            assert failing == ["link"] or (failing == ["replace"] and not overwrite)  # there is another way
            assert (tmp_path / name).read_bytes() == b"new"
    assert set(names(tmp_path)) <= {"a.csv", "b.csv"}


def test_of_several_that_write_a_new_file_one_succeeds(tmp_path):
    def attempt(k):
        try:
            write_atomically(tmp_path / "one", bytes([k]) * 1000, overwrite=False)
        except FileExistsError:
            return None
        return k

    with ThreadPoolExecutor(8) as pool:
        (winner,) = [k for k in pool.map(attempt, range(40)) if k is not None]
    assert (tmp_path / "one").read_bytes() == bytes([winner]) * 1000
    assert names(tmp_path) == ["one"]


def killed_while_writing(folder, kills, write, seed):
    """Kill processes that write a file repeatedly; return the number of kills that left an incomplete file."""
    code = f"""
import os, random, signal, sys, time
from pathlib import Path
sys.path.insert(0, {str(PACKAGE.parent)!r})
from ppdinf._internal.atomic_files import write_atomically
def naive(path, data):
    Path(path).write_bytes(data)
random.seed({seed})
torn = 0
for _ in range({kills}):
    child, k = os.fork(), 0
    while not child:
        k = (k + 1) % 256
        {write}("file", bytes([k]) * {SIZE})
    time.sleep(random.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = Path("file").read_bytes()
    torn += len(found) != {SIZE} or len(set(found)) != 1
print(torn)
"""
    (folder / "file").write_bytes(bytes(SIZE))
    run = subprocess.run([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return int(run.stdout)


@POSIX
def test_a_kill_leaves_the_old_file_or_the_new(tmp_path):
    assert killed_while_writing(tmp_path, 15, "write_atomically", 1) == 0


@POSIX
@pytest.mark.deep
def test_two_hundred_kills_leave_the_old_file_or_the_new(tmp_path):
    """Kills during plain writing often leave incomplete files: zero of 200 by chance has negligible probability."""
    (tmp_path / "naive").mkdir()
    assert killed_while_writing(tmp_path, 200, "write_atomically", 2) == 0
    assert killed_while_writing(tmp_path / "naive", 200, "naive", 3) > 0


def test_nothing_else_in_the_package_writes_files():
    """Names of methods that write to a path; files in a temporary folder may use them."""
    tables_of = ("to_csv", "to_parquet", "savefig", "to_json", "to_html")
    writers = {"write_text", "write_bytes", "to_file", "savetxt", "tofile"}
    found = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not any(f"{name}(" in text for name in (*writers, *tables_of, "open")):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            modes = [
                str(a.value) for a in [*node.args, *(k.value for k in node.keywords)] if isinstance(a, ast.Constant)
            ]
            opens = name == "open" and any(set(mode) <= set("wxab+") and mode.strip("b+") for mode in modes)
            tables = name in tables_of and node.args
            tables = tables and not isinstance(node.args[0], ast.Name)  # a buffer
            if name in writers or opens or tables:
                found.append(path.relative_to(PACKAGE).as_posix())
    assert sorted(set(found)) == ["_internal/atomic_files.py", "lattice/moves.py"]


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
        with pytest.raises(LabelError, match="text files cannot contain"):
            ppd.Measurements(
                {"county": ["A", "B"]},
                ppd.measured(ppd.invariants.margin("county"), {key: 5, "B": 3}, ppd.laws.DoubleGeometric(1)),
            )
