"""Files are written completely or not at all: kills, races, full disks, read-only folders."""

import ast
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ppdinf as ppd
from ppdinf._internal.atomic_files import write_atomically
from ppdinf.errors import ReleaseFileError, WriteError

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


def test_an_existing_release_is_refused_in_words(tmp_path):
    release = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).release([3, 1, 2])
    release.save(tmp_path / "a.ppd")
    with pytest.raises(ReleaseFileError, match="no release can be drawn again"):
        release.save(tmp_path / "a.ppd")


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
