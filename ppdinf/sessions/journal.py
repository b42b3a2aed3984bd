"""The session file: used by one process at a time, one record per line, chained by digests.

A lock file works on every system, but it can be deleted while it is held, so that the session file is locked, too,
where the system has such locks. The ``digest`` of a line is computed from the previous digest and the rest of the line.
No line can be changed, removed, added or moved without all following lines. The chain does not show that lines are
missing at the end: store the digest of the last line elsewhere, as printed by `ppdinf session show`.

A line is valid if its line feed is in the file. A writer continues only after the line is on the disk, so no noise was
drawn for a truncated last line; the next writer removes it and records this.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ppdinf._internal.atomic_files import require_place, unwritable, write_atomically
from ppdinf._internal.values import Json
from ppdinf.errors import SessionError

try:
    import fcntl
except ImportError:  # no POSIX system
    fcntl = None  # type: ignore[assignment]

PATIENCE = 60.0  # seconds; the lock is held while a line is written, not while noise is drawn
PAUSE = 0.02  # seconds between attempts


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a session file against all other processes and threads; the system releases the lock if a process dies."""
    require_place(path)  # otherwise a folder would be made for the lock
    end = time.monotonic() + PATIENCE
    lock = FileLock(f"{os.path.realpath(path)}.lock", timeout=PATIENCE)
    try:
        with unwritable(f"{path.name}.lock"):
            lock.acquire()
    except Timeout:
        raise _in_use(path) from None
    try:
        handle = None if fcntl is None else _hold(path, end)
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)  # releases the lock
    finally:
        lock.release()


def _hold(path: Path, end: float) -> int | None:
    """Lock the file that has this name, if there is one; return its handle."""
    while True:
        with unwritable(path.name):
            handle = _opened(path)
        if handle is None:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except (BlockingIOError, FileNotFoundError):
            pass  # held by another process, or removed since it was opened
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        if time.monotonic() > end:
            raise _in_use(path)
        time.sleep(PAUSE)


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDWR)
    except PermissionError:
        return os.open(path, os.O_RDONLY)
    except (FileNotFoundError, IsADirectoryError):
        return None


def _in_use(path: Path) -> SessionError:
    return SessionError(f"{path.name} has been in use by another process for {PATIENCE:g} s: try again")


@dataclass(frozen=True)
class Journal:
    """Content of a session file."""

    records: list[Json]
    digests: list[str]
    size: int
    torn: bytes = b""
    state: tuple[int, int, int] = (0, 0, 0)
    verified: bytes = b""
    known: int = 0


def create(path: Path, record: Json) -> None:
    """Write a new file with its first record; the caller holds the lock."""
    write_atomically(os.path.realpath(path), journal_line("", record), overwrite=False)


def read(path: Path, earlier: Journal | None = None) -> Journal:
    """Read a session file and verify every line, except lines that are unchanged since an earlier reading."""
    try:
        with path.open("rb") as file:
            data, state = file.read(), _state(file.fileno())
    except OSError as error:
        raise SessionError(f"{path.name} cannot be read: {error.strerror}") from error
    if earlier is None or not data.startswith(earlier.verified) or not earlier.verified:
        earlier = Journal([], [], 0)
    *lines, torn = data[earlier.size :].split(b"\n")
    if torn and (record := _record(torn)) and journal_line(_previous(lines, earlier), record) == torn + b"\n":
        lines, torn = [*lines, torn], b""
    size = min(len(data), earlier.size + sum(len(line) + 1 for line in lines))
    verified, known = data[:size] if data[:size].endswith(b"\n") else b"", len(earlier.records)
    journal = Journal([*earlier.records], [*earlier.digests], size, torn, state, verified, known)
    previous = "".join(journal.digests[-1:])
    for number, line in enumerate(lines, start=known + 1):
        record = _record(line)
        if record is None or journal_line(previous, record) != line + b"\n":
            what = "it is not a session file" if number == 1 else "it was changed, or previous lines are missing"
            raise SessionError(f"{path.name}, line {number}: {what}; restore a complete copy of the file")
        previous = _digest(previous, record)
        journal.records.append(record)
        journal.digests.append(previous)
    if not journal.records:
        raise SessionError(f"{path.name} is not a session file: it holds no line")
    return journal


def append(path: Path, journal: Journal, record: Json) -> None:
    """Add a record and flush it to the disk; the caller holds the lock and has just read the file."""
    data, last = b"", journal.digests[-1]
    if journal.torn:
        cut = {"torn": len(journal.torn)}
        data, last = journal_line(last, cut), _digest(last, cut)
    data += journal_line(last, record)
    with unwritable(path.name):
        handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            if _state(handle) != journal.state:
                raise SessionError(f"{path.name} was replaced or changed by another program while it was in use")
            os.lseek(handle, journal.size - 1, os.SEEK_SET)
            size = journal.size
            if os.read(handle, 1) != b"\n":
                data = b"\n" + data  # the last line has no line feed
            os.ftruncate(handle, size)
            os.lseek(handle, size, os.SEEK_SET)
            try:
                while data:
                    data = data[os.write(handle, data) :]
                os.fsync(handle)
            except BaseException:
                with contextlib.suppress(OSError):  # otherwise it remains as a torn line, or counts as spent
                    os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)


def _state(handle: int) -> tuple[int, int, int]:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino, status.st_size


def _record(line: bytes) -> Json | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    return {name: value for name, value in record.items() if name != "digest"}


def _previous(lines: list[bytes], earlier: Journal) -> str:
    try:
        return str(json.loads(lines[-1])["digest"]) if lines else "".join(earlier.digests[-1:])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def journal_line(previous: str, record: Json) -> bytes:
    """Return a line of the journal: the record and a digest of the record and of the previous line's digest."""
    return _canonical(record | {"digest": _digest(previous, record)}) + b"\n"


def _digest(previous: str, record: Json) -> str:
    return hashlib.sha256(previous.encode() + b"\n" + _canonical(record)).hexdigest()


def _canonical(record: Json) -> bytes:
    return json.dumps(record, ensure_ascii=True, separators=(", ", ": ")).encode("ascii")
