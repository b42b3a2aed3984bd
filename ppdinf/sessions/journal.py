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
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from filelock import FileLock, Timeout

from ppdinf._internal.atomic_files import require_place, unwritable, write_atomically
from ppdinf._internal.values import Json, is_visible
from ppdinf.errors import PpdinfError, PrivacyError, SessionError
from ppdinf.invariants import Public
from ppdinf.privacy.budget import Budget
from ppdinf.privacy.composition import compose
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.restatement import whole_delta
from ppdinf.privacy.unit_loss import tied_distance

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


def to_plain(guarantee: Guarantee) -> Json:
    """Convert a guarantee for all distances, including a Markov chain's part of delta; fractions become text."""
    plain: Json = {}
    delta = whole_delta(guarantee)
    computed = {"delta": delta, "tied": tied_distance(guarantee)}
    for field in fields(Guarantee):
        value = computed.get(field.name, getattr(guarantee, field.name))
        if (
            field.name == "possible"
            or value == field.default
            or (field.name == "concentrated" and delta != guarantee.delta)
        ):
            continue
        plain[field.name] = _plain(value)
    return plain


def _plain(value: object) -> object:
    if isinstance(value, Guarantee):
        return to_plain(value)
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Fraction) else value


def guarantee_of(data: Json) -> Guarantee:
    """Return the guarantee from the data of `to_plain`."""
    fields_ = dict(data)
    for name, value in data.items():
        if name in ("epsilon", "delta", "rho"):
            fields_[name] = Fraction(value)
        elif isinstance(value, list):
            fields_[name] = tuple(value)
        elif name == "concentrated":
            fields_[name] = guarantee_of(value)
    return Guarantee(**fields_)


VOID = "void"
"""Outcome of a release whose noise violated a public sum: nothing was published, and nothing is spent."""


def intents(journal: Journal) -> list[Json]:
    """Return the records that were written before a draw."""
    return [record for record in journal.records if "intent" in record]


def spent_intents(journal: Journal) -> list[Json]:
    """Return the records that are spent: all except those whose only outcome is a violated public sum."""
    states = defaultdict(set)
    for record in journal.records:
        if "outcome" in record:
            states[record["outcome"]].add(record["state"])
    return [intent for intent in intents(journal) if states[intent["intent"]] != {VOID}]


def spent_parts(journal: Journal) -> list[str | None]:
    """Return the part of the partition of every spent record; None for everybody."""
    return [intent.get("part") for intent in spent_intents(journal)]


def spent_guarantees(journal: Journal) -> list[Guarantee]:
    """Return the guarantee of every spent record."""
    return [_guarantee(json.dumps(intent["promise"])) for intent in spent_intents(journal)]


@lru_cache(maxsize=1024)
def _guarantee(text: str) -> Guarantee:
    """Return the guarantee of a record; most releases of a session have the same guarantee."""
    return guarantee_of(json.loads(text))


VERSION = 1
_FIELDS: dict[str, dict[str, type]] = {
    "intent": {
        "intent": int,
        "date": str,
        "name": str,
        "dims": dict,
        "mechanism": dict,
        "public": list,
        "promise": dict,
    },
    "outcome": {"outcome": int, "state": str},
    "torn": {"torn": int},
}
_HEAD: dict[str, type] = {"session": int, "budget": dict, "unit": str, "contributions": int}
_OPTIONAL: dict[str, dict[str, type]] = {"session": {"partition": dict}, "intent": {"part": str}}
_SENSELESS = (PpdinfError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def require_sound(name: str, journal: Journal) -> None:
    """Refuse lines that a session does not write; lines that the reader knew were checked before."""
    if journal.records[0].get("session") != VERSION:
        raise SessionError(f"{name} is not a session file that this version of ppdinf can read")
    earlier = journal.records[: journal.known]
    intents = sum("intent" in record for record in earlier)
    partition = partition_of(earlier[0].get("partition")) if earlier else ("", ())
    for number, record in enumerate(journal.records[journal.known :], start=journal.known + 1):
        try:
            kind = "session" if number == 1 else next((kind for kind in _FIELDS if kind in record), "")
            extra = {name: found for name, found in _OPTIONAL.get(kind, {}).items() if name in record}
            fields = (_HEAD if number == 1 else _FIELDS[kind]) | extra
            if set(record) != set(fields) or any(type(record[field]) is not of for field, of in fields.items()):
                raise ValueError("missing or unknown fields, or fields of another type")
            if number == 1:
                Budget(**record["budget"])
                partition = partition_of(record.get("partition"))
                Public.from_dict([{"kind": "unit", "unit": record["unit"], "contributions": record["contributions"]}])
            elif kind == "intent":
                intents += 1
                _require_intent(record, intents)
                if "part" in record and record["part"] not in partition[1]:
                    raise ValueError("unknown part of the partition")
        except _SENSELESS as error:
            raise SessionError(f"{name}, line {number} is complete but not valid: get a complete copy") from error


def partition_of(partition: Mapping[str, Sequence[str]] | None) -> tuple[str, tuple[str, ...]]:
    """Parse a partition of everybody such as ``{"region": ["north", "south"]}``: its name and its parts."""
    if partition is None:
        return "", ()
    if not isinstance(partition, Mapping) or len(partition) != 1:
        raise PrivacyError("a partition must have one name, such as partition={'region': ['north', 'south']}")
    ((by, parts),) = partition.items()
    if isinstance(parts, str) or not isinstance(parts, Sequence) or not isinstance(by, str) or not by:
        raise PrivacyError("a partition must list its parts, such as partition={'region': ['north', 'south']}")
    if len(parts) < 2 or len(set(parts)) < len(parts) or not all(isinstance(p, str) and p.strip() for p in parts):
        raise PrivacyError(f"a partition by {by!a} must have at least two distinct parts, each a non-empty text")
    if not all(map(is_visible, (by, *parts))):
        raise PrivacyError("names of a partition must be lines of text without control characters")
    return by, tuple(parts)


def _require_intent(record: Json, number: int) -> None:
    if record["intent"] != number or not isinstance(record["mechanism"]["kind"], str):
        raise ValueError("out of order, or without a mechanism")
    if not all(type(size) is int for size in record["dims"].values()):
        raise ValueError("lengths of dimensions must be integers")
    Public.from_dict(record["public"])
    _require_guarantee(json.dumps(record["promise"]))


@lru_cache(maxsize=1024)
def _require_guarantee(text: str) -> None:
    """Refuse guarantees that cannot be added or described; most releases of a session have the same guarantee."""
    guarantee = guarantee_of(json.loads(text))
    if json.dumps(to_plain(guarantee)) != text:
        raise ValueError("an invalid guarantee")
    compose(guarantee, independent=True).describe()
