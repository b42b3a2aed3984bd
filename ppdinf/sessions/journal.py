"""The session file: one record a line, chained by digest, on the disk before anything follows from it.

Every line is a JSON object whose ``digest`` is that of the line before together with the rest of its own, so that no
line can be changed, removed, added or moved without all after it. What the chain cannot show is that lines are missing
at the end: keep the digest of the last one elsewhere, as `ppdinf session show` prints it.

A line counts once its last byte, the line feed, is in the file. Who writes one goes on only when it is on the disk. A
last line that is cut short was thus followed by nothing: no noise was drawn on it. It is cut off by the next that is
written, which says so. Only the line feed missing, the line counts as any other.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ppdinf._internal.atomic_files import require_place, unwritable, write_whole
from ppdinf._internal.types import Json
from ppdinf.errors import SessionError

__all__ = ["Journal", "append", "create", "locked", "read"]

PATIENCE = 60.0  # seconds; the lock is held while a line is written, not while noise is drawn


@dataclass(frozen=True)
class Journal:
    """What a session file holds.

    Attributes
    ----------
    records : list of dict
        Without digests.
    digests : list of str
    size : int
        Bytes of its whole lines.
    torn : bytes
        What follows them.
    """

    records: list[Json]
    digests: list[str]
    size: int
    torn: bytes = b""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a session file against all other processes and threads; the system lets go of it when a process dies."""
    require_place(path)  # else a folder would be made for the lock
    lock = FileLock(f"{os.path.realpath(path)}.lock", timeout=PATIENCE)
    try:
        with unwritable(f"{path.name}.lock"):
            lock.acquire()
    except Timeout:
        raise SessionError(f"{path.name} has been in use by another process for {PATIENCE:g} s: try again") from None
    try:
        yield
    finally:
        lock.release()


def create(path: Path, record: Json) -> None:
    """Write a new file with its first record; by who holds the lock."""
    write_whole(path, _line("", record))


def read(path: Path) -> Journal:
    """Read a session file and check every line of it.

    Raises
    ------
    SessionError
        It is no session file, or was changed since it was written.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SessionError(f"{path.name} cannot be read: {error.strerror}") from error
    *lines, torn = data.split(b"\n")
    if torn and (record := _record(torn)) and _line(_previous(lines), record) == torn + b"\n":
        lines, torn = [*lines, torn], b""
    journal = Journal([], [], min(len(data), sum(len(line) + 1 for line in lines)), torn)
    previous = ""
    for number, line in enumerate(lines, start=1):
        record = _record(line)
        if record is None or _line(previous, record) != line + b"\n":
            what = "it is no session file" if number == 1 else "it was changed, or lines before it are missing"
            raise SessionError(f"{path.name}, line {number}: {what}; nothing can be released on it, get a whole copy")
        previous = _digest(previous, record)
        journal.records.append(record)
        journal.digests.append(previous)
    if not lines:
        raise SessionError(f"{path.name} is no session file: it holds no line")
    return journal


def append(path: Path, journal: Journal, record: Json) -> None:
    """Add a record and see that it is on the disk; by who holds the lock and has just read the file.

    Raises
    ------
    WriteError
        It cannot be written. What was there before is left.
    """
    data, last = b"", journal.digests[-1]
    if journal.torn:
        cut = {"torn": len(journal.torn)}
        data, last = _line(last, cut), _digest(last, cut)
    data += _line(last, record)
    with unwritable(path.name):
        handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            os.lseek(handle, journal.size - 1, os.SEEK_SET)
            size = journal.size
            if os.read(handle, 1) != b"\n":
                data = b"\n" + data  # the last line lacks it
            os.ftruncate(handle, size)
            os.lseek(handle, size, os.SEEK_SET)
            try:
                while data:
                    data = data[os.write(handle, data) :]
                os.fsync(handle)
            except BaseException:
                with contextlib.suppress(OSError):  # else it is left as torn, or counts without having been drawn on
                    os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)


def _record(line: bytes) -> Json | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return {name: value for name, value in found.items() if name != "digest"}


def _previous(lines: list[bytes]) -> str:
    try:
        return str(json.loads(lines[-1])["digest"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def _line(previous: str, record: Json) -> bytes:
    return _canonical(record | {"digest": _digest(previous, record)}) + b"\n"


def _digest(previous: str, record: Json) -> str:
    return hashlib.sha256(previous.encode() + b"\n" + _canonical(record)).hexdigest()


def _canonical(record: Json) -> bytes:
    return json.dumps(record, ensure_ascii=True, separators=(", ", ": ")).encode("ascii")
